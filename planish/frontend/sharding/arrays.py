"""Arrays whose parts several ranks have: each process holds those of its own ranks.

A process that runs as one rank of many holds one part. One that runs by itself holds all of them, as virtual ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from planish.dtypes import DType
from planish.errors import GraphError
from planish.frontend.session import current_scope
from planish.frontend.sharding.mesh import Mesh, P, fitting_axes, need_mesh, needed_mesh, spec_axes
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.transfer import asarray
from planish.ptir import ops
from planish.ptir.ops.collective import SpecAxes, group_size, place_of, transport
from planish.ptir.ops.literal import Array


def own_ranks(mesh: Mesh) -> list[int]:
    """The ranks of a mesh that this process runs: its own, or all as virtual ranks if it is by itself."""
    there = transport()
    if there is None or there.size == 1:
        return list(range(mesh.size))
    if there.size != mesh.size:
        raise GraphError.at_caller(
            f"{mesh!r} has {mesh.size} ranks, and {there.size} processes run",
            f"start {mesh.size} processes, or make a mesh of {there.size}",
        )
    return [there.rank]


class Sharded:
    """A tensor cut over a mesh. `pn.shard` and functions under `jit` with shardings make them."""

    __slots__ = ("dtype", "mesh", "parts", "shape", "spec")

    mesh: Final[Mesh]
    spec: Final[SpecAxes]
    shape: Final[tuple[int, ...]]
    dtype: Final[DType]
    parts: Final[dict[int, Tensor]]
    """What each rank of this process has."""

    def __init__(
        self, mesh: Mesh, spec: SpecAxes, shape: Sequence[int], dtype: DType, parts: dict[int, Tensor]
    ) -> None:
        self.mesh, self.spec, self.shape = mesh, spec, tuple(shape)
        self.dtype, self.parts = dtype, parts

    @property
    def part(self) -> Tensor:
        """What the first (as a rule, the only) rank of this process has."""
        return next(iter(self.parts.values()))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def whole(self) -> Tensor:
        """All of it, on every rank; ranks must call it together."""
        if len(self.parts) == self.mesh.size:
            arrays = {rank: part.numpy() for rank, part in self.parts.items()}
            return asarray(joined(arrays, self.mesh, self.spec))
        from planish.frontend.sharding.jitted import moved

        replicated = moved(self, P())
        return replicated.part if isinstance(replicated, Sharded) else replicated

    def numpy(self) -> Array:
        """All of it as an array of the host; ranks must call it together."""
        return self.whole().numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.numpy(), dtype)

    def __repr__(self) -> str:
        shown = P(*self.spec)
        return f"<sharded {self.dtype.name} {self.shape}: {shown!r} over {self.mesh!r}>"


def cut(array: Any, mesh: Mesh, spec: SpecAxes, rank: int) -> Any:
    """What a rank has of an array (or a tensor)."""
    if not any(spec):
        return array
    index: list[slice] = []
    for size, names in zip(array.shape, spec, strict=True):
        part = size // group_size(mesh.axes, names)
        start = part * place_of(mesh.axes, names, rank)
        index.append(slice(start, start + part))
    return array[tuple(index)]


def joined(parts: dict[int, Array], mesh: Mesh, spec: SpecAxes) -> Array:
    """The array whose parts all ranks have."""
    first = next(iter(parts.values()))
    counts = [group_size(mesh.axes, names) for names in spec]
    result = np.empty([n * k for n, k in zip(first.shape, counts, strict=True)], first.dtype)
    for rank, part in parts.items():
        where = [place_of(mesh.axes, names, rank) for names in spec]
        result[tuple([slice(p * n, (p + 1) * n) for p, n in zip(where, part.shape, strict=True)])] = part
    return result


def shard(x: Any, mesh: Mesh, spec: P) -> Any:
    """A tensor cut over a mesh: every rank calls it with the same array and keeps its part.

    Inside a function that is traced it says how a value is to be cut, like `with_sharding`.
    """
    need_mesh("shard", mesh)
    if current_scope() is not None:
        return with_sharding(x, spec, mesh=mesh)
    if isinstance(x, Sharded):
        from planish.frontend.sharding.jitted import moved

        return moved(x, spec, mesh)
    array = asarray(x)
    axes = spec_axes("shard", mesh, spec, array.shape)
    parts = {
        # asarray leaves a single number one, ascontiguousarray would not
        rank: asarray(np.asarray(cut(array.numpy(), mesh, axes, rank), order="C"))
        for rank in own_ranks(mesh)
    }
    return Sharded(mesh, axes, array.shape, array.dtype, parts)


def with_sharding(x: Any, spec: P, *, mesh: Mesh | None = None) -> Tensor:
    """The tensor itself, and how it is to be cut where the function is run on a mesh; an axis that does not divide stays whole.

    `mesh` is needed only outside functions whose arguments have shardings.
    """
    if isinstance(x, Sharded):
        raise GraphError.at_caller(
            f"with_sharding is about values inside a function, not {x!r}",
            "planish.shard(x, mesh, spec) cuts an array another way",
        )
    tensor = asarray(x)
    mesh = needed_mesh("with_sharding", mesh)
    axes = fitting_axes("with_sharding", mesh, spec, tensor._value.type.dims)
    return Tensor.apply(ops.sharding, tensor, attrs=ops.ShardingAttrs(mesh.axes, axes))

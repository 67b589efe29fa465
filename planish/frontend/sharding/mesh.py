"""Meshes of ranks, and specs that say how tensors are cut over them."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar, Token
from typing import Final, Self, cast

from planish.errors import Location, PlanishError, ShapeError
from planish.ptir.ops.collective import MeshAxes, SpecAxes, check_mesh, check_spec
from planish.ptir.sharding.specs import can_cut
from planish.ptir.types import DimLike

_CURRENT: Final[ContextVar[Mesh | None]] = ContextVar("mesh", default=None)


class Mesh:
    """Ranks in a grid whose axes have names: `Mesh((2, 4), ("data", "model"))`. Ranks count row by row.

    `with mesh:` makes it the one that specs without a mesh mean.
    """

    __slots__ = ("_tokens", "axes")

    axes: Final[MeshAxes]
    """The name and size of each axis."""

    def __init__(self, shape: int | Sequence[int], names: str | Sequence[str]) -> None:
        sizes = _sizes(shape)
        labels = (names,) if isinstance(names, str) else tuple(names)
        if not all(isinstance(label, str) for label in labels):
            raise PlanishError.at_caller(
                f"axes of a mesh are named by text, not {', '.join(map(repr, labels))}",
                'write Mesh((2, 4), ("data", "model"))',
            )
        if len(sizes) != len(labels):
            raise ShapeError.at_caller(
                f"a mesh of {len(sizes)} axes {sizes} and {len(labels)} names {', '.join(map(str, labels)) or 'none'}",
                'name every axis: Mesh((2, 4), ("data", "model"))',
            )
        self.axes = tuple(zip(labels, sizes, strict=True))
        self._tokens: list[Token[Mesh | None]] = []
        _located(lambda: check_mesh("Mesh", self.axes, labels))

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return tuple([size for _, size in self.axes])

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each axis."""
        return tuple([name for name, _ in self.axes])

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return math.prod(self.shape)

    def __enter__(self) -> Self:
        self._tokens.append(_CURRENT.set(self))
        return self

    def __exit__(self, *error: object) -> None:
        _CURRENT.reset(self._tokens.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and self.axes == other.axes

    def __hash__(self) -> int:
        return hash(self.axes)

    def __repr__(self) -> str:
        return f"Mesh({self.shape}, {self.names})"


def _sizes(shape: int | Sequence[int]) -> tuple[int, ...]:
    try:
        return (shape,) if isinstance(shape, int) else tuple(map(operator.index, shape))
    except TypeError as error:
        raise PlanishError.at_caller(
            f"a mesh has as many ranks along an axis as a whole number says, not {shape!r}",
            'write Mesh((2, 4), ("data", "model"))',
        ) from error


class P:
    """A spec: for each axis of a tensor, the axis of the mesh that it is cut along, several of them, or None.

    `P("data", None)` cuts the first axis along `data`; axes that are not mentioned stay whole, so `P()` cuts nothing.
    """

    __slots__ = ("entries",)

    entries: Final[tuple[tuple[str, ...], ...]]

    def __init__(self, *entries: str | Sequence[str] | None) -> None:
        self.entries = tuple([_names(entry) for entry in entries])

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self.entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, P) and self.entries == other.entries

    def __hash__(self) -> int:
        return hash(self.entries)

    def __repr__(self) -> str:
        shown = [
            repr(names[0]) if len(names) == 1 else repr(names) if names else "None" for names in self.entries
        ]
        return f"P({', '.join(shown)})"


def _names(entry: object) -> tuple[str, ...]:
    """The axes of the mesh that an entry of a spec names."""
    names: tuple[object, ...] = () if entry is None else (entry,)
    if isinstance(entry, Iterable) and not isinstance(entry, str):
        names = tuple(entry)
    for name in names:
        if not isinstance(name, str):
            raise PlanishError.at_caller(
                f"a spec names axes of a mesh, not {name!r}", 'write P("data", None, ("model", "pipe"))'
            )
    return cast("tuple[str, ...]", names)


class Sharding:
    """A spec over a mesh: `Sharding(mesh, P("data"))`."""

    __slots__ = ("mesh", "spec")

    mesh: Final[Mesh]
    spec: Final[P]

    def __init__(self, mesh: Mesh, spec: P) -> None:
        self.mesh, self.spec = need_mesh("Sharding", mesh), _need_spec("Sharding", spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sharding) and (self.mesh, self.spec) == (other.mesh, other.spec)

    def __hash__(self) -> int:
        return hash((self.mesh, self.spec))

    def __repr__(self) -> str:
        return f"Sharding({self.mesh!r}, {self.spec!r})"


def spec_axes(what: str, mesh: Mesh, spec: P, dims: Sequence[DimLike]) -> SpecAxes:
    """The spec of a tensor with these sizes, axis by axis; mistakes name the user's line."""
    axes = _each_axis(what, spec, dims)
    _located(lambda: check_spec(what, mesh.axes, axes, dims))
    return axes


def fitting_axes(what: str, mesh: Mesh, spec: P, dims: Sequence[DimLike]) -> SpecAxes:
    """As `spec_axes`, for a value that a program computes: an axis that does not divide is cut as far as it does."""
    axes = _each_axis(what, spec, dims)
    _located(lambda: check_mesh(what, mesh.axes, [name for names in axes for name in names]))
    return tuple([_dividing(mesh, dim, names) for dim, names in zip(dims, axes, strict=True)])


def _dividing(mesh: Mesh, size: DimLike, names: tuple[str, ...]) -> tuple[str, ...]:
    while not can_cut(mesh.axes, size, names):
        names = names[:-1]
    return names


def _each_axis(what: str, spec: P, dims: Sequence[DimLike]) -> SpecAxes:
    entries = _need_spec(what, spec).entries
    if len(entries) > len(dims):
        shape = f"({', '.join(map(str, dims))}{',' if len(dims) == 1 else ''})"
        raise ShapeError.at_caller(
            f"{what}: {spec!r} is about {len(entries)} axes, and the shape is {shape}",
            "give at most one entry per axis" if dims else "a single number is not cut: write P()",
        )
    return (*entries, *[()] * (len(dims) - len(entries)))


def _need_spec(what: str, spec: P) -> P:
    if not isinstance(spec, P):
        raise PlanishError.at_caller(f"{what}: {spec!r} is no spec", 'write planish.P("data", None)')
    return spec


def need_mesh(what: str, mesh: Mesh) -> Mesh:
    """A mesh, and nothing else."""
    if not isinstance(mesh, Mesh):
        raise PlanishError.at_caller(
            f"{what}: {mesh!r} is no mesh", 'make one: planish.Mesh((2, 4), ("data", "model"))'
        )
    return mesh


def _located(check: object) -> None:
    try:
        check()  # type: ignore[operator]
    except PlanishError as error:
        error.location = error.location or Location.caller()
        raise


def current_mesh() -> Mesh | None:
    """The mesh that specs without one mean."""
    return _CURRENT.get()


def needed_mesh(what: str, mesh: Mesh | None) -> Mesh:
    """A mesh, given or the current one."""
    mesh = current_mesh() if mesh is None else need_mesh(what, mesh)
    if mesh is None:
        raise PlanishError.at_caller(
            f"{what}: no mesh says what the axes of the spec are",
            "pass mesh=, or call it inside `with mesh:` or a function under jit with shardings",
        )
    return mesh

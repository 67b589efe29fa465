"""Ops between the ranks of a mesh: what each rank gives is combined or moved within groups of ranks.

A mesh is its axes, name and size each, in order; ranks count through it row by row. A collective goes `over` some of the axes:
its groups are the ranks that agree in all others, and a rank's place in its group counts through `over` in the order given.
Every rank runs the same program, so that all meet in the same collective. What a collective computes is one function of the
arrays of a whole group (`EXCHANGES`); `interpret_ranks` calls it, and what runs on one rank alone asks the transport.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

import numpy as np

from planish import dtypes
from planish.errors import GraphError, did_you_mean
from planish.ptir.ops import checking
from planish.ptir.ops import definition as d
from planish.ptir.ops.checking import shape_error
from planish.ptir.ops.literal import Array
from planish.ptir.ops.reduce import MONOIDS
from planish.ptir.types import DimLike, TensorType
from planish.records import dataclass

MeshAxes: TypeAlias = tuple[tuple[str, int], ...]
"""The name and size of each axis."""
SpecAxes: TypeAlias = tuple[tuple[str, ...], ...]
"""For each axis of a tensor, the axes of the mesh that it is cut along, the slowest first."""


@dataclass(frozen=True, slots=True)
class CollectiveAttrs(d.Attrs):
    """The mesh and the axes of it whose ranks take part."""

    mesh: MeshAxes
    over: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AllReduceAttrs(CollectiveAttrs):
    """How elements of the same place combine: a kind of reduction."""

    kind: str = "sum"


@dataclass(frozen=True, slots=True)
class AllGatherAttrs(CollectiveAttrs):
    """The axis along which parts follow each other."""

    axis: int


@dataclass(frozen=True, slots=True)
class ReduceScatterAttrs(CollectiveAttrs):
    """The axis of which every rank keeps a part, and how elements combine."""

    axis: int
    kind: str = "sum"


@dataclass(frozen=True, slots=True)
class AllToAllAttrs(CollectiveAttrs):
    """The axis that is cut and the one along which parts follow each other."""

    split: int
    concat: int


@dataclass(frozen=True, slots=True)
class PermuteAttrs(CollectiveAttrs):
    """From which place of the group to which."""

    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class BroadcastAttrs(CollectiveAttrs):
    """The place in the group whose value all get."""

    root: int


@dataclass(frozen=True, slots=True)
class ShardingAttrs(d.Attrs):
    """How a tensor is cut over a mesh."""

    mesh: MeshAxes
    spec: SpecAxes
    why: str = ""
    """What the pass that chose it went by; empty where the user says so."""


@dataclass(frozen=True, slots=True)
class ToDeviceAttrs(d.Attrs):
    """Where a tensor is to lie."""

    device: str = ""
    """The name of a device; empty where a second operand says it by where it lies."""


@dataclass(frozen=True, slots=True)
class MeshLayout:
    """How the parameters and results of a partitioned function, which it has as parts, are cut over its mesh."""

    mesh: MeshAxes
    params: tuple[SpecAxes, ...]
    results: tuple[SpecAxes, ...]


# --- meshes -----------------------------------------------------------------------------------------------


def group_size(mesh: MeshAxes, over: Sequence[str]) -> int:
    """How many ranks exchange with each other."""
    sizes = dict(mesh)
    return math.prod([sizes[name] for name in over])


def place_of(mesh: MeshAxes, over: Sequence[str], rank: int) -> int:
    """A rank's place in its group."""
    where: dict[str, int] = {}
    for name, size in reversed(mesh):
        rank, where[name] = divmod(rank, size)
    place, sizes = 0, dict(mesh)
    for name in over:
        place = place * sizes[name] + where[name]
    return place


def groups_of(mesh: MeshAxes, over: Sequence[str]) -> list[list[int]]:
    """The ranks of each group in the order of their places."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for rank, where in enumerate(itertools.product(*[range(size) for _, size in mesh])):
        rest = tuple([i for (name, _), i in zip(mesh, where, strict=True) if name not in over])
        groups.setdefault(rest, []).append(rank)
    return [sorted(ranks, key=lambda rank: place_of(mesh, over, rank)) for ranks in groups.values()]


def check_mesh(op: str, mesh: MeshAxes, over: Sequence[str]) -> int:
    """The size of a group; axes must be of the mesh, each once."""
    names = [name for name, _ in mesh]
    if len(set(names)) != len(names) or not all(names):
        raise GraphError(
            f"the axes of the mesh are {', '.join(map(repr, names))}", op=op, remedy="name each once"
        )
    for name, size in mesh:
        if size < 1:
            raise GraphError(f"axis {name!r} of the mesh has {size} ranks", op=op, remedy="at least one")
    for name in over:
        if name not in names:
            close = did_you_mean(name, names)
            hint = f"did you mean {close!r}? " if close else ""
            known = ", ".join(f"{n} ({size})" for n, size in mesh) or "none"
            raise GraphError(f"the mesh has no axis {name!r}", op=op, remedy=f"{hint}its axes: {known}")
    if len(set(over)) != len(over):
        raise GraphError(
            f"the axes {', '.join(over)} name one twice",
            op=op,
            remedy="an axis of the mesh cuts one axis of a tensor, once",
        )
    return group_size(mesh, over)


def check_spec(op: str, mesh: MeshAxes, spec: SpecAxes, dims: Sequence[DimLike]) -> None:
    """A spec for a tensor of these sizes: an entry per axis, every axis of the mesh at most once."""
    checking.need_length(op, "the spec", spec, len(dims))
    check_mesh(op, mesh, [name for names in spec for name in names])
    for axis, (names, size) in enumerate(zip(spec, dims, strict=True)):
        count = group_size(mesh, names)
        if names and not isinstance(size, int):
            shape_error(op, f"axis {axis} has the named size {size}", "only axes of a fixed size can be cut")
        elif isinstance(size, int) and size % count:
            shown = " and ".join(f"{name} ({dict(mesh)[name]})" for name in names)
            shape_error(
                op,
                f"axis {axis} of size {size} cannot be cut along {shown} into {count} equal parts",
                f"pad it to {-(-size // count) * count}, or cut another axis",
            )


def _part(op: str, operand: TensorType, axis: int, count: int) -> DimLike:
    """The size of one of `count` equal parts of an axis."""
    checking.need_axis(op, axis, operand.rank)
    size = operand.dims[axis]
    if count == 1:
        return size
    if not isinstance(size, int) or size % count:
        shape_error(
            op,
            f"axis {axis} of {operand} cannot be cut into {count} equal parts",
            "pad it to a multiple, or gather it",
        )
    return size // count


def _resized(op: str, operand: TensorType, sizes: dict[int, DimLike]) -> TensorType:
    dims = [sizes.get(axis, dim) for axis, dim in enumerate(operand.dims)]
    return checking.keep_quant(op, operand, dims, {axis: axis for axis in range(operand.rank)})


# --- what a group computes --------------------------------------------------------------------------------

Exchange: TypeAlias = Callable[[Sequence[Array], "CollectiveAttrs"], list[Array]]
"""The results of every member of a group from what each gave, in order of places."""


def combine(kind: str, arrays: Sequence[Array]) -> Array:
    """Elements of the same place combined, rounded once."""
    monoid = MONOIDS[kind]
    dtype = dtypes.from_numpy(arrays[0].dtype)
    with np.errstate(all="ignore"):
        total = monoid.ufunc.reduce(np.stack([monoid.encode(array) for array in arrays]), axis=0)
    return monoid.decode(np.asarray(total), dtype)


def _all_to_all(arrays: Sequence[Array], attrs: AllToAllAttrs) -> list[Array]:
    parts = [np.split(array, len(arrays), attrs.split) for array in arrays]
    return [np.concatenate([own[place] for own in parts], attrs.concat) for place in range(len(arrays))]


def _permute(arrays: Sequence[Array], attrs: PermuteAttrs) -> list[Array]:
    """What nobody sends is 0."""
    results = [np.zeros_like(array) for array in arrays]
    for source, target in attrs.pairs:
        results[target] = arrays[source]
    return results


EXCHANGES: Final[dict[str, Callable[..., list[Array]]]] = {
    "all_reduce": lambda arrays, attrs: [combine(attrs.kind, arrays)] * len(arrays),
    "all_gather": lambda arrays, attrs: [np.concatenate(arrays, attrs.axis)] * len(arrays),
    "reduce_scatter": lambda arrays, attrs: np.split(combine(attrs.kind, arrays), len(arrays), attrs.axis),
    "all_to_all": _all_to_all,
    "permute": _permute,
    "broadcast": lambda arrays, attrs: [arrays[attrs.root]] * len(arrays),
}
"""What each collective computes for a whole group."""


# --- one rank by itself -----------------------------------------------------------------------------------


class Transport(Protocol):
    """How a rank reaches the others."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def exchange(self, op: str, attrs: CollectiveAttrs, array: Array) -> Array:
        """What this rank gets of a collective that all ranks of its group call in the same order."""
        ...


_TRANSPORT: list[Transport] = []


def set_transport(transport: Transport | None) -> None:
    """How collectives of this process reach other ranks from now on; None: they do not."""
    _TRANSPORT[:] = [] if transport is None else [transport]


def transport() -> Transport | None:
    """How this process reaches other ranks, if it does."""
    return _TRANSPORT[0] if _TRANSPORT else None


def transport_for(op: str, mesh: MeshAxes) -> Transport:
    """The transport, which must have as many ranks as the mesh."""
    ranks = math.prod([size for _, size in mesh])
    if not _TRANSPORT or _TRANSPORT[0].size != ranks:
        there = _TRANSPORT[0].size if _TRANSPORT else 1
        raise GraphError(
            f"the mesh has {ranks} ranks and this process runs as one of {there}",
            op=op,
            remedy=f"start {ranks} processes and call planish.distributed.init(), or run virtual ranks with ptir.interpret_ranks",
        )
    return _TRANSPORT[0]


def _evaluate(name: str) -> d.EvaluateFn[CollectiveAttrs]:
    def evaluate(arrays: d.Arrays, attrs: CollectiveAttrs, types: d.Types) -> d.Results:
        if group_size(attrs.mesh, attrs.over) == 1:
            return (EXCHANGES[name](list(arrays), attrs)[0],)
        return (transport_for(name, attrs.mesh).exchange(name, attrs, arrays[0]),)

    return evaluate


def _evaluate_index(arrays: d.Arrays, attrs: CollectiveAttrs, types: d.Types) -> d.Results:
    if group_size(attrs.mesh, attrs.over) == 1:
        return (np.zeros((), np.int64),)
    rank = transport_for("mesh_index", attrs.mesh).rank
    return (np.array(place_of(attrs.mesh, attrs.over, rank), np.int64),)


def _collective(infer: d.InferFn[d.A]) -> d.OpDef:
    evaluate = _evaluate(infer.__name__)
    return d.op(d.OpKey.COLLECTIVE, evaluate=evaluate, foldable=False, way=d.Way.HOST)(infer)


def _need_kind(op: str, kind: str, operand: TensorType) -> None:
    if kind not in MONOIDS:
        shape_error(op, f"there is no reduction {kind!r}", f"kinds: {', '.join(MONOIDS)}")
    checking.need_dtype(op, operand, MONOIDS[kind].allowed)


@_collective
def all_reduce(types: d.Types, attrs: AllReduceAttrs, regions: d.Regions) -> d.ResultTypes:
    """The elements of all ranks of a group combined; each gets all."""
    check_mesh("all_reduce", attrs.mesh, attrs.over)
    _need_kind("all_reduce", attrs.kind, types[0])
    return (types[0],)


@_collective
def all_gather(types: d.Types, attrs: AllGatherAttrs, regions: d.Regions) -> d.ResultTypes:
    """The parts of all ranks of a group one after the other along an axis; each gets all."""
    count = check_mesh("all_gather", attrs.mesh, attrs.over)
    checking.need_axis("all_gather", attrs.axis, types[0].rank)
    return (_resized("all_gather", types[0], {attrs.axis: types[0].dims[attrs.axis] * count}),)


@_collective
def reduce_scatter(types: d.Types, attrs: ReduceScatterAttrs, regions: d.Regions) -> d.ResultTypes:
    """The elements of all ranks of a group combined; each gets its part of an axis."""
    count = check_mesh("reduce_scatter", attrs.mesh, attrs.over)
    _need_kind("reduce_scatter", attrs.kind, types[0])
    part = _part("reduce_scatter", types[0], attrs.axis, count)
    return (_resized("reduce_scatter", types[0], {attrs.axis: part}),)


@_collective
def all_to_all(types: d.Types, attrs: AllToAllAttrs, regions: d.Regions) -> d.ResultTypes:
    """Each rank cuts an axis and gives a part to every other; what it gets follows along another."""
    count = check_mesh("all_to_all", attrs.mesh, attrs.over)
    checking.need_axis("all_to_all", attrs.concat, types[0].rank)
    part = _part("all_to_all", types[0], attrs.split, count)
    if attrs.split == attrs.concat:
        return (types[0],)
    sizes = {attrs.split: part, attrs.concat: types[0].dims[attrs.concat] * count}
    return (_resized("all_to_all", types[0], sizes),)


@_collective
def permute(types: d.Types, attrs: PermuteAttrs, regions: d.Regions) -> d.ResultTypes:
    """What the rank at one place of a group gives goes to another; what nobody sends is 0."""
    count = check_mesh("permute", attrs.mesh, attrs.over)
    for what, places in zip(("sources", "targets"), zip(*attrs.pairs, strict=True), strict=False):
        if len(set(places)) != len(places) or not all(0 <= place < count for place in places):
            shape_error("permute", f"the {what} {places} are not different places of {count}")
    return (types[0],)


@_collective
def broadcast(types: d.Types, attrs: BroadcastAttrs, regions: d.Regions) -> d.ResultTypes:
    """Every rank of a group gets what the one at a place gives."""
    count = check_mesh("broadcast", attrs.mesh, attrs.over)
    if not 0 <= attrs.root < count:
        shape_error("broadcast", f"the root {attrs.root} is no place of {count}")
    return (types[0],)


@d.op(d.OpKey.COLLECTIVE, arity=0, evaluate=_evaluate_index, foldable=False, way=d.Way.HOST)
def mesh_index(types: d.Types, attrs: CollectiveAttrs, regions: d.Regions) -> d.ResultTypes:
    """This rank's place in its group."""
    check_mesh("mesh_index", attrs.mesh, attrs.over)
    return (TensorType(dtypes.int64),)


@d.op(
    d.OpKey.COLLECTIVE,
    evaluate=lambda arrays, attrs, types: (arrays[0],),
    foldable=False,
    way=d.Way.COMPOSITE,
)
def sharding(types: d.Types, attrs: ShardingAttrs, regions: d.Regions) -> d.ResultTypes:
    """The operand, and how it is to be cut over a mesh."""
    check_spec("sharding", attrs.mesh, attrs.spec, types[0].dims)
    return (types[0],)


@d.op(
    d.OpKey.COLLECTIVE,
    arity=(1, 2),
    evaluate=lambda arrays, attrs, types: (arrays[0],),
    foldable=False,
    way=d.Way.COMPOSITE,
)
def to_device(types: d.Types, attrs: ToDeviceAttrs, regions: d.Regions) -> d.ResultTypes:
    """The operand on another device: a named one, or that of a second operand."""
    if bool(attrs.device) == (len(types) > 1):
        raise GraphError(
            "to_device takes a device, or an operand that lies there",
            op="to_device",
            remedy="give one of the two",
        )
    return (types[0],)

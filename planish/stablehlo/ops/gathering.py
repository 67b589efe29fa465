"""Windows of a tensor at places that are data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from planish import dtypes
from planish.ptir.dims import DimLike
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import placed
from planish.stablehlo.registry import lowering
from planish.stablehlo.site import Site, cast

Ints = Sequence[int]
Numbers = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Starts:
    """Where windows of an operand begin: a batch of index vectors, by the axes that their components are for."""

    at: Site
    batch: tuple[DimLike, ...]
    parts: dict[int, V]
    batching: dict[int, int]
    """Axes of the operand that go along with axes of the batch."""

    def places(self, dims: Sequence[DimLike], indexed: Ints, partial: Ints) -> list[V]:
        """For each of some axes of the operand the places that elements of dims (batch, parts of windows) have along it."""
        indices: list[V] = []
        lead = range(len(self.batch))
        for axis in indexed:
            start = self.parts.get(axis)
            if axis in self.batching:
                start = self.at.graph.iota(self.batch, self.batching[axis], dtypes.int64)
            elif start is None:
                start = self.at.full(self.batch, 0, dtypes.int64)
            index = placed(start, lead, dims)
            if axis in partial:
                place = len(self.batch) + partial.index(axis)
                index = index.add(self.at.graph.iota(tuple(dims), place, dtypes.int64))
            indices.append(index)
        return indices


def starts_of(at: Site, indices: V, numbers: Numbers, operation: str) -> Starts:
    """What the dimension numbers of a gather or scatter say of its index vectors."""
    axes = numbers.get("start_index_map" if operation == "gather" else "scatter_dims_to_operand_dims", ())
    vector = int(numbers.get("index_vector_dim", 0))
    parts, batch = _components(at, indices, vector)
    theirs = numbers.get(
        "start_indices_batching_dims" if operation == "gather" else "scatter_indices_batching_dims", ()
    )
    ours = numbers.get("operand_batching_dims" if operation == "gather" else "input_batching_dims", ())
    batching = {axis: place - (place > vector) for axis, place in zip(ours, theirs, strict=True)}
    return Starts(at, batch, dict(zip(axes, parts, strict=True)), batching)


def _components(at: Site, indices: V, vector: int) -> tuple[list[V], tuple[DimLike, ...]]:
    """The components of index vectors, and the shape of the batch of them."""
    wide = (
        cast(indices, dtypes.int64)
        if indices.dtype is not dtypes.uint64
        else indices.min((1 << 63) - 1).cast(dtypes.int64)
    )
    if vector == wide.rank:
        return [wide], wide.dims
    batch = tuple(d for axis, d in enumerate(wide.dims) if axis != vector)
    parts = []
    for n in range(at.whole(wide)[vector]):
        starts, limits = [0] * wide.rank, list(wide.dims)
        starts[vector], limits[vector] = n, n + 1
        parts.append(wide.slice(starts, limits).reshape(batch))
    return parts, batch


@lowering("stablehlo.gather")
def gather(
    at: Site,
    x: V,
    indices: V,
    *,
    dimension_numbers: Numbers,
    slice_sizes: Ints,
    indices_are_sorted: bool = False,
) -> V:
    return _gathered(at, x, indices, dimension_numbers, slice_sizes)


@lowering("stablehlo.dynamic_gather")
def dynamic_gather(
    at: Site,
    x: V,
    indices: V,
    slice_sizes: V,
    *,
    dimension_numbers: Numbers,
    indices_are_sorted: bool = False,
) -> V:
    return _gathered(at, x, indices, dimension_numbers, at.sizes(2))


def _gathered(at: Site, x: V, indices: V, numbers: Numbers, sizes: Sequence[DimLike]) -> V:
    offset_dims = list(numbers.get("offset_dims", ()))
    collapsed = [*numbers.get("collapsed_slice_dims", ()), *numbers.get("operand_batching_dims", ())]
    starts = starts_of(at, indices, numbers, "gather")
    # axes that are taken whole need no index; a start for them is moved to 0
    whole = [a for a in range(x.rank) if a not in collapsed and sizes[a] == x.dims[a]]
    partial = [a for a in range(x.rank) if a not in collapsed and a not in whole]
    batch, dims = starts.batch, (*starts.batch, *(sizes[a] for a in partial))
    indexed = [a for a in range(x.rank) if a not in whole]
    if not indexed:
        taken = x.broadcast_to((*batch, *x.dims))
        return _arranged(taken, batch, whole, partial, offset_dims, x.rank, collapsed)
    inside = {a: _clamped(start, x.dims[a] - sizes[a]) for a, start in starts.parts.items() if a in indexed}
    places = replace(starts, parts=inside).places(dims, indexed, partial)
    if 0 in x.dims or 0 in dims:
        rest = tuple(x.dims[a] for a in whole)
        taken = at.full((*dims, *rest), 0, x.dtype)
    elif x.dtype.is_bool:
        taken = cast(x, dtypes.uint8).gather(places, indexed).ne(0)
    else:
        taken = x.gather(places, indexed)
    return _arranged(taken, batch, whole, partial, offset_dims, x.rank, collapsed)


def _clamped(start: V, room: DimLike) -> V:
    if isinstance(room, int):
        return start.max(0).min(max(room, 0))
    last = start.graph.iota((room + 1,), 0).dimension_size(0).sub(1)
    return start.max(0).min(last.broadcast_to(start.dims))


def _arranged(
    taken: V, batch: Sequence[DimLike], whole: Ints, partial: Ints, offsets: Ints, rank: int, collapsed: Ints
) -> V:
    """(batch, partial windows, whole axes) in the order of the result."""
    kept = [a for a in range(rank) if a not in collapsed]
    window = [*partial, *whole]
    order: list[int] = []
    lead = iter(range(len(batch)))
    within = iter(kept)
    for place in range(taken.rank):
        order.append(len(batch) + window.index(next(within)) if place in offsets else next(lead))
    return taken if order == sorted(order) else taken.transpose(order)


@lowering("stablehlo.torch_index_select")
def torch_index_select(at: Site, x: V, index: V, *, dim: int, batch_dims: int) -> V:
    wide = cast(index, dtypes.int64)
    lead = x.dims[:batch_dims]
    dims = (*lead, *x.dims[batch_dims:dim], *wide.dims[batch_dims:])
    places = [at.graph.iota(dims, a, dtypes.int64) for a in range(dim)]
    spots = [*range(batch_dims), *range(dim, len(dims))]
    places.append(placed(wide, spots, dims))
    return x.gather(places, list(range(dim + 1)))

"""Elements by their places: index, gather, scatter and their kin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from planish import dtypes
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import cast, move_axis, spread
from planish.ptir.library.common import gather as gather_at
from planish.ptir.library.shaping import broadcast_dims
from planish.torch.registry import lowering
from planish.torch.site import FxSite, Operand, axis_of
from planish.torch.site import sizes as sizes_of


def _from_front(index: V, size: Any) -> V:
    """Places counted from the end, counted from the front."""
    wide = cast(index, dtypes.int64)
    return wide.lt(0).select(wide.add(size), wide) if isinstance(size, int) else wide


def _placed(at: FxSite, x: V, indices: Sequence[V | None]) -> tuple[list[V], list[int]]:
    """The given index tensors in one shape, and the axes they are for."""
    axes: list[int] = []
    given: list[V] = []
    for axis, index in enumerate(indices):
        if index is None:
            continue
        if index.dtype.is_bool or index.dtype is dtypes.uint8:
            raise at.refuse("a mask: how many elements it has is known at run time only")
        given.append(_from_front(index, x.dims[axis]))
        axes.append(axis)
    dims = broadcast_dims(*(index.dims for index in given))
    return [spread(index, dims) for index in given], axes


def _front_place(axes: Sequence[int]) -> int:
    """Where the axes of the indices go: to the first of theirs if they are neighbours, else to the front."""
    return axes[0] if list(axes) == list(range(axes[0], axes[0] + len(axes))) else 0


@lowering("aten.index", "aten._unsafe_index")
def index(at: FxSite, x: V, indices: Sequence[V | None]) -> V:
    given, axes = _placed(at, x, indices)
    if not given:
        return x
    elements = gather_at(x, given, axes)
    count, place = given[0].rank, _front_place(axes)
    order = list(range(count, elements.rank))
    order[place:place] = range(count)
    return elements if order == sorted(order) else elements.transpose(order)


@lowering("aten._unsafe_masked_index")
def unsafe_masked_index(at: FxSite, x: V, mask: V, indices: Sequence[V | None], fill: Any) -> V:
    elements = index(at, x, [None if i is None else _clamped(i, x.dims[n]) for n, i in enumerate(indices)])
    return spread(mask, elements.dims).select(elements, at.full(elements.dims, fill, elements.dtype))


def _clamped(index: V, size: Any) -> V:
    wide = cast(index, dtypes.int64)
    return wide.max(0).min(size - 1)


@lowering("aten._unsafe_masked_index_put_accumulate")
def unsafe_masked_index_put(at: FxSite, x: V, mask: V, indices: Sequence[V | None], values: V) -> V:
    kept = spread(mask, values.dims).select(values, at.full(values.dims, 0, values.dtype))
    return index_put(
        at, x, [None if i is None else _clamped(i, x.dims[n]) for n, i in enumerate(indices)], kept, True
    )


@lowering("aten.index_put", "aten._unsafe_index_put")
def index_put(at: FxSite, x: V, indices: Sequence[V | None], values: V, accumulate: bool = False) -> V:
    kind = "add" if accumulate else "replace"
    given_masks = [i for i in indices if i is not None]
    if len(given_masks) == 1 and given_masks[0].dtype.is_bool and values.type.size == 1:
        # a mask and one value: where the mask holds
        lead = next(n for n, i in enumerate(indices) if i is not None)
        mask = given_masks[0]
        column = mask.reshape((*(1,) * lead, *mask.dims, *(1,) * (x.rank - lead - mask.rank)))
        value = spread(cast(values, x.dtype).reshape(()), x.dims)
        return spread(column, x.dims).select(x.add(value) if accumulate else value, x)
    given, axes = _placed(at, x, indices)
    if not given:
        return spread(cast(values, x.dtype), x.dims)
    count, place = given[0].rank, _front_place(axes)
    rest = [x.dims[axis] for axis in range(x.rank) if axis not in axes]
    dims = [*rest[:place], *given[0].dims, *rest[place:]]
    updates = spread(cast(values, x.dtype), dims)
    order = [*range(place, place + count), *(a for a in range(len(dims)) if not place <= a < place + count)]
    updates = updates if order == sorted(order) else updates.transpose(order)
    return _scattered(x, updates, given, axes, kind)


def _scattered(x: V, updates: V, indices: Sequence[V], axes: Sequence[int], kind: str) -> V:
    """scatter, of bools as bytes where they are combined."""
    if x.dtype.is_bool and kind != "replace":
        raw = x.cast(dtypes.uint8).scatter(updates.cast(dtypes.uint8), indices, list(axes), "max")
        return raw.ne(0)
    return x.scatter(updates, indices, list(axes), kind)


@lowering("aten.index_select")
def index_select(at: FxSite, x: V, dim: int, index: V) -> V:
    if not x.rank:
        return x
    line = cast(index, dtypes.int64).reshape((index.type.size,))
    return x.take(line, axis_of(dim, x.rank))


@lowering("aten.embedding")
def embedding(
    at: FxSite,
    weight: V,
    indices: V,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> V:
    return weight.gather([cast(indices, dtypes.int64)], [0])


@lowering("aten.embedding_dense_backward")
def embedding_dense_backward(
    at: FxSite, gradient: V, indices: V, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> V:
    if scale_grad_by_freq:
        raise at.refuse("scaled by frequency")
    depth = gradient.dims[-1]
    count = indices.type.size
    rows = gradient.reshape((count, depth))
    place = cast(indices, dtypes.int64).reshape((count,))
    if padding_idx >= 0:
        padded = spread(place.eq(padding_idx).expand_dims(1), rows.dims)
        rows = padded.select(at.full(rows.dims, 0), rows)
    wide = dtypes.float32 if rows.dtype.bits < 32 else rows.dtype
    table = at.full((num_weights, depth), 0, wide).scatter(cast(rows, wide), [place], [0], "add")
    return cast(table, rows.dtype)


def _rows(at: FxSite, x: V, dim: int, index: V) -> tuple[V, V, int]:
    axis = axis_of(dim, x.rank)
    return x, cast(index, dtypes.int64).reshape((index.type.size,)), axis


@lowering("aten.index_add")
def index_add(at: FxSite, x: V, dim: int, index: V, source: V, *, alpha: Any = 1) -> V:
    scaled = cast(source, x.dtype)
    scaled = scaled if alpha == 1 else scaled.mul(alpha)
    if not x.rank:
        return x.add(scaled.reshape(()))
    _, line, axis = _rows(at, x, dim, index)
    return _scattered(x, move_axis(scaled, axis, 0), [line], [axis], "add")


@lowering("aten.index_copy")
def index_copy(at: FxSite, x: V, dim: int, index: V, source: V) -> V:
    if not x.rank:
        return source.reshape(())
    _, line, axis = _rows(at, x, dim, index)
    return x.scatter(move_axis(cast(source, x.dtype), axis, 0), [line], [axis])


@lowering("aten.index_fill")
def index_fill(at: FxSite, x: V, dim: int, index: V, value: Operand) -> V:
    filled = at.of(value, x.dtype)
    if not x.rank:
        return filled
    _, line, axis = _rows(at, x, dim, index)
    rest = [size for place, size in enumerate(x.dims) if place != axis]
    line = _from_front(line, x.dims[axis])
    return x.scatter(spread(filled, [line.dims[0], *rest]), [line], [axis])


# --- along an axis ----------------------------------------------------------------------------------------


def _along(at: FxSite, index: V, axis: int) -> list[V]:
    wide = cast(index, dtypes.int64)
    return [
        wide if place == axis else at.graph.iota(index.dims, place, dtypes.int64)
        for place in range(index.rank)
    ]


@lowering("aten.gather")
def gather(at: FxSite, x: V, dim: int, index: V, *, sparse_grad: bool = False) -> V:
    if not x.rank or not index.rank:
        return (
            spread(x, index.dims)
            if not x.rank
            else x.reshape((x.type.size,)).take(cast(index, dtypes.int64), 0)
        )
    return gather_at(x, _along(at, index, axis_of(dim, x.rank)), range(x.rank))


def _window(updates: V, index: V) -> V:
    """As much of the source as there are indices."""
    return updates if updates.dims == index.dims else updates.slice([0] * index.rank, index.dims)


def scatter_along(at: FxSite, x: V, dim: int, index: V, source: Operand, kind: str) -> V:
    """Elements of a source to the places that an index names along an axis."""
    if not x.rank:
        flat = scatter_along(at, x.reshape((1,)), 0, index.reshape((index.type.size,)), _flat(source), kind)
        return flat.reshape(())
    if not index.rank:
        index = index.reshape((1,) * x.rank)
        source = source.reshape((1,) * x.rank) if isinstance(source, V) else source
    if isinstance(source, V):
        updates = _window(cast(source, x.dtype), index)
    else:
        updates = at.full(index.dims, source, x.dtype)
    if 0 in index.dims:
        return x
    return _scattered(x, updates, _along(at, index, axis_of(dim, x.rank)), list(range(x.rank)), kind)


def _flat(source: Operand) -> Operand:
    return source.reshape((source.type.size,)) if isinstance(source, V) else source


@lowering("aten.scatter")
def scatter(at: FxSite, x: V, dim: int, index: V, src: Operand, *, reduce: str | None = None) -> V:
    kind = {None: "replace", "add": "add", "multiply": "mul"}[reduce]
    return scatter_along(at, x, dim, index, src, kind)


@lowering("aten.scatter_add")
def scatter_add(at: FxSite, x: V, dim: int, index: V, src: V) -> V:
    return scatter_along(at, x, dim, index, src, "add")


_REDUCTIONS = {
    "sum": ("add", 0),
    "mean": ("add", 0),
    "prod": ("mul", 1),
    "amax": ("max", None),
    "amin": ("min", None),
}


@lowering("aten.scatter_reduce")
def scatter_reduce(
    at: FxSite, x: V, dim: int, index: V, src: V, reduce: str, *, include_self: bool = True
) -> V:
    kind, neutral = _REDUCTIONS[reduce]
    start = x
    ones = at.full(index.dims, 1, dtypes.int32)
    if not include_self:
        touched = scatter_along(at, at.full(x.dims, 0, dtypes.int32), dim, index, ones, "add").ne(0)
        if neutral is None:
            extreme = _lowest(x) if kind == "max" else _highest(x)
        else:
            extreme = neutral
        start = touched.select(at.full(x.dims, extreme, x.dtype), x)
    reduced = scatter_along(at, start, dim, index, src, kind)
    if reduce == "mean":
        base = at.full(x.dims, 1 if include_self else 0, dtypes.int32)
        count = cast(scatter_along(at, base, dim, index, ones, "add").max(1), x.dtype)
        reduced = reduced.div(count) if x.dtype.is_float else reduced.floor_div(count)
    return reduced


def _lowest(x: V) -> Any:
    return -math.inf if x.dtype.is_float else x.dtype.min


def _highest(x: V) -> Any:
    return math.inf if x.dtype.is_float else x.dtype.max


@lowering("aten.index_reduce")
def index_reduce(
    at: FxSite, x: V, dim: int, index: V, source: V, reduce: str, *, include_self: bool = True
) -> V:
    if not x.rank:
        line = (index.type.size,)
        flat = index_reduce(
            at,
            x.reshape((1,)),
            0,
            index.reshape(line),
            source.reshape(line),
            reduce,
            include_self=include_self,
        )
        return flat.reshape(())
    axis = axis_of(dim, x.rank)
    column = index.reshape([-1 if place == axis else 1 for place in range(x.rank)])
    return scatter_reduce(at, x, axis, spread(column, source.dims), source, reduce, include_self=include_self)


@lowering("aten.take")
def take(at: FxSite, x: V, index: V) -> V:
    flat = x.reshape((x.type.size,))
    return gather_at(flat, [_from_front(index, flat.dims[0])], [0])


@lowering("aten.put")
def put(at: FxSite, x: V, index: V, source: V, accumulate: bool = False) -> V:
    flat = x.reshape((x.type.size,))
    line = _from_front(index, flat.dims[0]).reshape((index.type.size,))
    updates = cast(source, x.dtype).reshape((index.type.size,))
    return _scattered(flat, updates, [line], [0], "add" if accumulate else "replace").reshape(x.dims)


@lowering("aten.masked_scatter")
def masked_scatter(at: FxSite, x: V, mask: V, source: V) -> V:
    """Where the mask holds, the elements of the source one after the other."""
    dims = broadcast_dims(x.dims, mask.dims)
    own, wanted = spread(x, dims), spread(mask, dims)
    flat = wanted.reshape((wanted.type.size,))
    place = flat.cast(dtypes.int64).cumsum(0).sub(1).max(0)
    taken = gather_at(cast(source, x.dtype).reshape((source.type.size,)), [place], [0])
    return wanted.select(taken.reshape(dims), own)


@lowering("aten.masked_scatter_backward")
def masked_scatter_backward(at: FxSite, gradient: V, mask: V, sizes: Sequence[int]) -> V:
    """The elements where the mask holds, one after the other, and zeros behind them."""
    wanted = spread(cast(mask, dtypes.bool_), gradient.dims).reshape((gradient.type.size,))
    count = math.prod(sizes)
    place = wanted.cast(dtypes.int64).cumsum(0).sub(1)
    place = wanted.select(place, at.full(place.dims, count, dtypes.int64)).min(count)
    room = at.full((count + 1,), 0, gradient.dtype)
    elements = room.scatter(gradient.reshape(wanted.dims), [place], [0])
    return elements.slice([0], [count]).reshape(tuple(sizes))


@lowering("aten.nonzero_static")
def nonzero_static(at: FxSite, x: V, *, size: int, fill_value: int = -1) -> V:
    flat = cast(x, dtypes.bool_)
    room = max(size, 1)
    places, count = flat.reshape((1,)).nonzero(room) if not x.rank else flat.nonzero(room)
    rows = cast(places.transpose([1, 0]), dtypes.int64)
    number = at.graph.iota(rows.dims, 0, dtypes.int64)
    filled = number.lt(spread(cast(count, dtypes.int64).reshape(()), rows.dims)).select(
        rows, at.full(rows.dims, fill_value, dtypes.int64)
    )
    return filled.slice([0, 0], [size, x.rank])


# --- bags of embeddings -----------------------------------------------------------------------------------


def _bags(at: FxSite, indices: V, offsets: V, include_last_offset: bool) -> tuple[V, int]:
    """Which bag each index belongs to, and how many bags there are."""
    starts = cast(offsets, dtypes.int64)
    bags = sizes_of(at, starts)[0] - (1 if include_last_offset else 0)
    starts = starts.slice([0], [bags])
    dims = (indices.type.size, bags)
    line = at.graph.iota(dims, 0, dtypes.int64)
    begun = line.ge(spread(starts.expand_dims(0), dims)).cast(dtypes.int64)
    return begun.reduce_sum([1]).sub(1), bags


@lowering("aten._embedding_bag", "aten._embedding_bag_forward_only")
def embedding_bag(
    at: FxSite,
    weight: V,
    indices: V,
    offsets: V,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: V | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[V, V, V, V]:
    """Sums (0) or means (1) of the rows of each bag; maxima are torch's."""
    if mode == 2:
        raise at.refuse("of maxima")
    line = cast(indices, dtypes.int64)
    bag, bags = _bags(at, line, offsets, include_last_offset)
    counted = line.ne(padding_idx) if padding_idx >= 0 else at.full(line.dims, True, dtypes.bool_)
    rows = weight.gather([line], [0])
    if per_sample_weights is not None:
        rows = rows.mul(spread(per_sample_weights.expand_dims(1), rows.dims))
    rows = spread(counted.expand_dims(1), rows.dims).select(rows, at.full(rows.dims, 0, rows.dtype))
    total = at.full((bags, weight.dims[1]), 0, weight.dtype).scatter(rows, [bag], [0], "add")
    size = at.full((bags,), 0, dtypes.int64).scatter(counted.cast(dtypes.int64), [bag], [0], "add")
    if mode == 1:
        total = total.div(spread(cast(size.max(1), weight.dtype).expand_dims(1), total.dims))
    told = at.fakes
    others = [at.full(tuple(fake.shape), 0, at.kind(fake.dtype)) for fake in told[1:]]
    if told[1].shape == (line.type.size,):
        others[0] = cast(bag, others[0].dtype)
    if told[2].shape == (bags,):
        others[1] = cast(size, others[1].dtype)
    return total, others[0], others[1], others[2]


@lowering("aten._embedding_bag_backward", "aten._embedding_bag_dense_backward")
def embedding_bag_backward(at: FxSite, gradient: V, indices: V, *given: Any, **named: Any) -> V:
    """Each row of the table gets the gradients of the bags that it is in."""
    names = ["offset2bag", "bag_size", "maximum_indices", "num_weights", "scale_grad_by_freq", "mode"]
    is_dense = "dense" in str(at.node.target)
    rest = ["per_sample_weights", "padding_idx"]
    names = [*names, *rest] if is_dense else ["offsets", *names, "sparse", *rest]
    known = {"padding_idx": -1, **dict(zip(names, given, strict=False)), **named}
    if known["mode"] == 2 or known["scale_grad_by_freq"] or known.get("sparse"):
        raise at.refuse("of maxima, scaled by frequency, or sparse")
    line = cast(indices, dtypes.int64)
    bag = cast(known["offset2bag"], dtypes.int64)
    if bag.dims != line.dims:
        bag, _ = _bags(at, line, known["offsets"], False)
    rows = gradient.gather([bag], [0])
    counted = line.ne(known["padding_idx"]) if known["padding_idx"] >= 0 else None
    if known["mode"] == 1:
        ones = at.full(line.dims, 1, dtypes.int64) if counted is None else counted.cast(dtypes.int64)
        size = at.full((gradient.dims[0],), 0, dtypes.int64).scatter(ones, [bag], [0], "add").max(1)
        share = cast(size, rows.dtype).gather([bag], [0])
        rows = rows.div(spread(share.expand_dims(1), rows.dims))
    weights = known.get("per_sample_weights")
    if weights is not None:
        rows = rows.mul(spread(weights.expand_dims(1), rows.dims))
    if counted is not None:
        rows = spread(counted.expand_dims(1), rows.dims).select(rows, at.full(rows.dims, 0, rows.dtype))
    table = at.full((known["num_weights"], gradient.dims[1]), 0, gradient.dtype)
    return table.scatter(rows, [line], [0], "add")

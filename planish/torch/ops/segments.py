"""Reductions by groups that the data define: segments of an axis, bins of a histogram, and bits of all elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from planish import dtypes
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import cast, spread
from planish.ptir.library.order import searchsorted
from planish.torch.registry import lowering
from planish.torch.site import FxSite, axes_of, axis_of, sizes

# --- segments ---------------------------------------------------------------------------------------------

_KINDS: Final = {
    "sum": ("add", 0.0), "mean": ("add", 0.0), "prod": ("mul", 1.0), "max": ("max", -math.inf), "min": ("min", math.inf),
}  # fmt: skip
"""How a segment's elements combine, and what an empty one gives."""


def _segments(at: FxSite, x: V, axis: int, lengths: V | None, offsets: V | None) -> tuple[list[V], V]:
    """Per element, the indices of the segment it is in (of the leading axes, then its number), and each segment's length."""
    if offsets is not None:
        marks = cast(offsets, dtypes.int64)
        count = sizes(at, marks)[-1] - 1
        ends, starts = marks[..., 1:], marks[..., :count]
        held = ends.sub(starts)
    elif lengths is not None:
        held = cast(lengths, dtypes.int64)
        ends = held.cumsum(held.rank - 1)
    else:
        raise at.refuse("neither lengths nor offsets")
    lead = x.dims[: axis + 1]
    square = (*lead, ends.dims[-1])
    place = at.graph.iota(square, axis, dtypes.int64)
    over = place.ge(spread(ends.expand_dims(axis), square))
    number = over.cast(dtypes.int64).reduce_sum([axis + 1])
    return [*(at.graph.iota(lead, a, dtypes.int64) for a in range(axis)), number], held


@lowering("aten.segment_reduce")
def segment_reduce(
    at: FxSite,
    data: V,
    reduce: str,
    *,
    lengths: V | None = None,
    indices: V | None = None,
    offsets: V | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> V:
    if indices is not None:
        raise at.refuse("with indices")
    axis = axis_of(axis, data.rank)
    kind, neutral = _KINDS[reduce]
    where, held = _segments(at, data, axis, lengths, offsets)
    dims = (*held.dims, *data.dims[axis + 1 :])
    begin = at.full(dims, neutral if initial is None else initial, data.dtype)
    reduced = begin.scatter(data, where, list(range(axis + 1)), kind)
    if reduce != "mean":
        return reduced
    count = spread(held.reshape((*held.dims, *[1] * (reduced.rank - held.rank))), dims)
    mean = reduced.div(cast(count.max(1), data.dtype))
    empty = math.nan if initial is None else initial
    return count.eq(0).select(at.full(dims, empty, data.dtype), mean)


@lowering("aten._segment_reduce_backward")
def segment_reduce_backward(
    at: FxSite,
    gradient: V,
    output: V,
    data: V,
    reduce: str,
    *,
    lengths: V | None = None,
    offsets: V | None = None,
    axis: int = 0,
    initial: Any = None,
) -> V:
    """What each element has in its segment's result; equal extremes share it."""
    if reduce == "prod":
        raise at.refuse("of products")
    axis = axis_of(axis, data.rank)
    where, held = _segments(at, data, axis, lengths, offsets)
    places = list(range(axis + 1))
    if reduce in ("max", "min"):
        mine = data.eq(output.gather(where, places))
        ones = cast(mine, data.dtype)
        ties = at.full(output.dims, 0, data.dtype).scatter(ones, where, places, "add")
        share = gradient.div(ties.max(1.0))
        return mine.select(share.gather(where, places), at.full(data.dims, 0, data.dtype))
    if reduce == "mean":
        count = held.reshape((*held.dims, *[1] * (gradient.rank - held.rank)))
        gradient = gradient.div(spread(cast(count.max(1), data.dtype), gradient.dims))
    return gradient.gather(where, places)


# --- histograms -------------------------------------------------------------------------------------------


def _ends(at: FxSite, line: V, given: Sequence[float] | None, room: float) -> tuple[V, V]:
    """Where the bins of some numbers begin and end: as given, or where the numbers do; with room on both sides if that is one place."""
    if given is not None:
        less = room if given[0] == given[1] else 0.0
        return at.full((), given[0] - less, line.dtype), at.full((), given[1] + less, line.dtype)
    low, high = line.reduce_min(), line.reduce_max()
    alike = low.eq(high)
    return alike.select(low.sub(room), low), alike.select(high.add(room), high)


def _edges(at: FxSite, x: V, bins: Sequence[int], given: Sequence[float] | None) -> list[V]:
    """The edges of the bins of each column: equally spaced over the range that is given or met."""
    flat = x.reshape((-1, x.dims[-1]))
    edges = []
    for column, count in enumerate(bins):
        own = None if given is None else given[2 * column : 2 * column + 2]
        dims = (count + 1,)
        low, high = (spread(end, dims) for end in _ends(at, flat[:, column], own, 0.5))
        step = cast(at.graph.iota(dims, 0, dtypes.int64), x.dtype)
        width = high.sub(low).div(float(count))
        # from the nearer end, as torch spaces its lines: both ends are exact
        near = step.lt((count + 1) // 2)
        edges.append(near.select(low.add(width.mul(step)), high.sub(width.mul(step.neg().add(float(count))))))
    return edges


@lowering("aten.histogram.bin_ct")
def histogram(
    at: FxSite,
    x: V,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,
    weight: V | None = None,
    density: bool = False,
) -> tuple[V, V]:
    """Counts, or weights, of equal bins and their edges."""
    column = x.reshape((x.type.size, 1))
    (edges,) = _edges(at, column, [bins], range)
    return _counted(at, column, [edges], weight, density), edges


@lowering("aten.histc")
def histc(at: FxSite, x: V, bins: int = 100, min: float = 0, max: float = 0) -> V:
    """Bins by a formula, whose rounding may put an element beside the one whose edges it lies between."""
    flat = x.reshape((x.type.size,))
    low, high = (spread(end, flat.dims) for end in _ends(at, flat, None if min == max else (min, max), 1.0))
    place = flat.sub(low).mul(float(bins)).div(high.sub(low)).floor()
    inside = flat.ge(low).and_(flat.le(high))
    row = cast(place, dtypes.int64).max(0).min(bins - 1)
    return at.full((bins,), 0).scatter(cast(inside, at.dtype), [row], [0], "add")


@lowering("aten._histogramdd_bin_edges")
def histogramdd_bin_edges(
    at: FxSite, x: V, bins: Sequence[int], *, range: Sequence[float] | None = None, **counted: Any
) -> list[V]:
    return _edges(at, x, bins, range)


@lowering("aten._histogramdd_from_bin_cts")
def histogramdd_from_bin_cts(
    at: FxSite,
    x: V,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: V | None = None,
    density: bool = False,
) -> V:
    """Counts, or sums of weights, per bin; the last bin of a column includes its right edge."""
    return _counted(at, x, _edges(at, x, bins, range), weight, density)


@lowering("aten._histogramdd_from_bin_tensors")
def histogramdd_from_bin_tensors(
    at: FxSite, x: V, bins: Sequence[V], *, weight: V | None = None, density: bool = False
) -> V:
    return _counted(at, x, bins, weight, density)


def _counted(at: FxSite, x: V, edges: Sequence[V], weight: V | None, density: bool) -> V:
    flat = x.reshape((-1, x.dims[-1]))
    rows = flat.dims[0]
    inside = at.full((rows,), True, dtypes.bool_)
    places = []
    for column, line in enumerate(edges):
        count = sizes(at, line)[0] - 1
        values = flat[:, column]
        place = searchsorted(line, values, right=True).sub(1)
        last = values.eq(spread(line[count : count + 1], values.dims))
        place = last.select(at.full(place.dims, count - 1, dtypes.int64), place)
        inside = inside.and_(place.ge(0)).and_(place.lt(count))
        places.append(place.max(0).min(count - 1))
    amount = at.full((rows,), 1, at.dtype) if weight is None else cast(weight.reshape((rows,)), at.dtype)
    amount = inside.select(amount, at.full((rows,), 0, at.dtype))
    dims = [sizes(at, line)[0] - 1 for line in edges]
    counts = at.full(dims, 0).scatter(amount, places, list(range(len(dims))), "add")
    if not density:
        return counts
    counts = counts.div(spread(counts.reduce_sum(), counts.dims))
    for column, line in enumerate(edges):
        width = line[1:].sub(line[:-1])
        counts = counts.div(
            spread(width.reshape([-1 if a == column else 1 for a in range(len(dims))]), counts.dims)
        )
    return counts


# --- bits -------------------------------------------------------------------------------------------------


@lowering("aten.hash_tensor")
def hash_tensor(at: FxSite, x: V, dim: Any = (), *, keepdim: bool = False, mode: int = 0) -> V:
    """The exclusive or of all elements' bits, each as 64 of them: halves of the axis are combined until one is left."""
    if mode or x.dtype.is_complex:
        raise at.refuse("of that mode or dtype")
    axes = axes_of(dim, x.rank)
    bits = x.cast(dtypes.float64).bitcast(dtypes.uint64) if x.dtype.is_float else cast(x, dtypes.uint64)
    kept = [axis for axis in range(x.rank) if axis not in axes]
    line = bits.transpose([*kept, *axes]).reshape((*(x.dims[axis] for axis in kept), -1))
    place, count = line.rank - 1, sizes(at, line)[-1]
    while count > 1:
        half = (count + 1) // 2
        right = line[..., half:].pad([0] * line.rank, [0] * place + [2 * half - count])
        line, count = line[..., :half].xor(right), half
    if not count:
        line = at.full((*line.dims[:-1], 1), 0)
    hashes = line.squeeze([place])
    return hashes.reshape([1 if a in axes else x.dims[a] for a in range(x.rank)]) if keepdim else hashes

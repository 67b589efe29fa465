"""Reductions over sliding windows, and the choice of an element of each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final

from planish import dtypes
from planish.ptir.dims import DimLike
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import spread
from planish.stablehlo.bodies import is_identity, kind_of
from planish.stablehlo.ops.scattering import combine_at
from planish.stablehlo.registry import lowering
from planish.stablehlo.site import Site, cast

Ints = Sequence[int]
_FAST: Final = ("sum", "prod", "max", "min")


@lowering("stablehlo.reduce_window")
def reduce_window(
    at: Site,
    *operands: V,
    window_dimensions: Ints,
    window_strides: Ints = (),
    base_dilations: Ints = (),
    window_dilations: Ints = (),
    padding: Sequence[tuple[int, int]] = (),
) -> tuple[V, ...]:
    count = len(operands) // 2
    inputs, starts = operands[:count], operands[count:]
    ones = [1] * inputs[0].rank
    strides, dilations = window_strides or ones, window_dilations or ones
    spacing, room = base_dilations or ones, padding or [(0, 0)] * inputs[0].rank
    block = at.regions[0]
    kind = kind_of(block) if count == 1 else None
    kind = {"or": "max", "and": "min"}.get(kind or "", kind) if inputs[0].dtype.is_bool else kind
    if kind in _FAST:
        x = cast(inputs[0], dtypes.uint8) if inputs[0].dtype.is_bool else inputs[0]
        fits = is_identity(kind, at.known(at.op.operands[1]), at, 1)
        if not fits:
            x = padded(x, cast(starts[0], x.dtype), room, spacing)
            room, spacing = [(0, 0)] * x.rank, ones
        whole = _cumulative(x, kind, window_dimensions, strides, room, spacing, dilations)
        if whole is None:
            _need_numbers(at, [window_dimensions, strides, *room])
            whole = x.reduce_window(kind, window_dimensions, strides, room, spacing, dilations)
        reduced = cast(whole, inputs[0].dtype)
        return (reduced,) if fits else at.each(block, [spread(starts[0], reduced.dims), reduced])
    _need_numbers(at, [window_dimensions, strides, *room])
    wide = [padded(x, s, room, spacing) for x, s in zip(inputs, starts, strict=True)]
    sizes = [
        _windows(n, w, s, d)
        for n, w, s, d in zip(at.whole(wide[0]), window_dimensions, strides, dilations, strict=True)
    ]
    total = [spread(s, sizes) for s in starts]
    for offset in itertools.product(*map(range, window_dimensions)):
        parts = [window_part(x, offset, sizes, strides, dilations) for x in wide]
        total = list(at.each(block, [*total, *parts]))
    return tuple(total)


def _need_numbers(at: Site, given: Sequence[Sequence[DimLike]]) -> None:
    if not all(isinstance(n, int) for part in given for n in part):
        at.refuse(
            "the sizes of a window must be numbers",
            "load it without bounds: each size is then compiled by itself",
        )


_RUNNING: Final = {"sum": V.cumsum, "prod": V.cumprod, "max": V.cummax, "min": V.cummin}


def _cumulative(
    x: V,
    kind: str,
    window: Ints,
    strides: Ints,
    room: Sequence[tuple[int, int]],
    spacing: Ints,
    dilations: Ints,
) -> V | None:
    """A window that ends (or begins) at each element and is as long as the axis: a running reduction."""
    long = [axis for axis, size in enumerate(window) if size != 1]
    if len(long) != 1 or set(strides) != {1} or set(spacing) != {1} or set(dilations) != {1}:
        return None
    (axis,) = long
    size = window[axis]
    if x.dims[axis] != size or any(pair != (0, 0) for n, pair in enumerate(room) if n != axis):
        return None
    if tuple(room[axis]) not in ((size - 1, 0), (0, size - 1)):
        return None
    return _RUNNING[kind](x, axis, reverse=tuple(room[axis]) == (0, size - 1))


def padded(x: V, value: V, room: Sequence[tuple[int, int]], spacing: Ints) -> V:
    """With a value around the elements, and between them."""
    low, high = [p[0] for p in room], [p[1] for p in room]
    if not any(low) and not any(high) and set(spacing) <= {1}:
        return x
    if x.dtype.is_bool:
        return padded(cast(x, dtypes.uint8), cast(value, dtypes.uint8), room, spacing).ne(0)
    return x.pad(low, high, [n - 1 for n in spacing], value)


def _windows(size: int, window: int, stride: int, dilation: int) -> int:
    """How many windows fit."""
    span = (window - 1) * dilation + 1 if window else 0
    return max((size - span) // stride + 1, 0) if size >= span else 0


def window_part(x: V, offset: Ints, sizes: Ints, strides: Ints, dilations: Ints) -> V:
    """The elements at one place of all windows."""
    starts = [o * d for o, d in zip(offset, dilations, strict=True)]
    limits = [
        start + (count - 1) * stride + 1 if count else start
        for start, count, stride in zip(starts, sizes, strides, strict=True)
    ]
    return x.slice(starts, limits, list(strides))


@lowering("stablehlo.select_and_scatter")
def select_and_scatter(
    at: Site,
    x: V,
    source: V,
    start: V,
    *,
    window_dimensions: Ints = (),
    window_strides: Ints = (),
    padding: Sequence[tuple[int, int]] = (),
) -> V:
    """Each element of the source goes to the place that its window of the operand selects."""
    choose, combine = at.regions
    ones = [1] * x.rank
    window, strides = window_dimensions or ones, window_strides or ones
    room = padding or [(0, 0)] * x.rank
    dims = at.whole(x)
    sizes = at.whole(source)
    wide = padded(x, start, room, ones)
    low = [p[0] for p in room]
    first, *others = itertools.product(*map(range, window))
    best = window_part(wide, first, sizes, strides, ones)
    place, any_inside = _positions(at, first, sizes, strides, low, dims)
    for offset in others:
        part = window_part(wide, offset, sizes, strides, ones)
        number, inside = _positions(at, offset, sizes, strides, low, dims)
        # what is outside of the operand is never selected
        keeps = at.each(choose, [best, part])[0].and_(any_inside).or_(inside.not_())
        best, place = keeps.select(best, part), keeps.select(place, number)
        any_inside = any_inside.or_(inside)
    base = spread(start, (math.prod(dims),))
    line = source.type.size
    merged = combine_at(at, combine, [base], [source.reshape((line,))], [place.reshape((line,))], [0])
    return merged[0].reshape(dims)


def _positions(at: Site, offset: Ints, sizes: Ints, strides: Ints, low: Ints, dims: Ints) -> tuple[V, V]:
    """The row-major number of the operand's element at one place of each window, and whether there is one."""
    number = at.full(sizes, 0, dtypes.int64)
    inside = at.full(sizes, True, dtypes.bool_)
    for axis, size in enumerate(dims):
        at_axis = at.graph.iota(sizes, axis, dtypes.int64).mul(strides[axis]).add(offset[axis] - low[axis])
        inside = inside.and_(at_axis.ge(0)).and_(at_axis.lt(size))
        number = number.mul(size).add(at_axis)
    return number, inside

"""Pooling of (N, C, …): windows that are combined by their maximum, mean or norm."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planish import dtypes
from planish.errors import ShapeError
from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.graph_value import GraphValue
from planish.ptir.handle import Number
from planish.ptir.library.common import move_axis, spread
from planish.ptir.library.normalize import converted, mean, widened

Padding = Sequence[tuple[int, int]]
_FEW: Final = 32
"""Windows up to so many elements are looked through one element after the other, in one kernel."""


def _ones(count: int, given: Sequence[int] | None) -> list[int]:
    return [1] * count if given is None else list(given)


def _room(
    x: GraphValue,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Padding,
    dilation: Sequence[int],
    ceil: bool,
) -> list[tuple[int, int]]:
    """The padding, with what rounding up adds after the end so that a last window fits that starts inside."""
    if not ceil:
        return list(padding)
    result: list[tuple[int, int]] = []
    for i, (low, high) in enumerate(padding):
        size = x.dims[2 + i]
        if not isinstance(size, int):
            raise ShapeError(f"axis {2 + i} of {x.type} has no known size to round up to", op="reduce_window")
        span = (window[i] - 1) * dilation[i] + 1
        over = -(size + low + high - span) % strides[i]
        last = size + low + high - span + over
        # A window that would start in the padding after the end is left out.
        result.append((low, high if last >= size + low else high + over))
    return result


def _windowed(
    x: GraphValue,
    kind: str,
    window: Sequence[int],
    strides: Sequence[int] | None,
    padding: Padding | None,
    dilation: Sequence[int] | None,
    ceil: bool,
) -> tuple[GraphValue, list[tuple[int, int]]]:
    """What becomes of each window, and the padding with what rounding up adds."""
    space = x.rank - 2
    steps, gaps = _ones(space, strides), _ones(space, dilation)
    ends = _room(x, window, steps, padding or [(0, 0)] * space, gaps, ceil)
    pooled = x.reduce_window(
        kind, [1, 1, *window], [1, 1, *steps], [(0, 0), (0, 0), *ends], None, [1, 1, *gaps]
    )
    return pooled, ends


def max_pool(
    x: GraphValue,
    window: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding | None = None,
    dilation: Sequence[int] | None = None,
    ceil: bool = False,
) -> GraphValue:
    """The largest of each window; padding never wins. `ceil` rounds sizes up instead of down."""
    return _windowed(x, "max", window, strides, padding, dilation, ceil)[0]


def lowest_of(x: GraphValue) -> Number:
    """What every element is at least."""
    return -math.inf if x.dtype.is_float else int(x.dtype.min or 0)


def max_pool_places(
    x: GraphValue,
    window: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding | None = None,
    dilation: Sequence[int] | None = None,
    ceil: bool = False,
    column_major: bool = False,
) -> GraphValue:
    """Where in its image the maximum of each window of `max_pool` stands; sizes must be known."""
    space = x.rank - 2
    steps, gaps = _ones(space, strides), _ones(space, dilation)
    ends = _room(x, window, steps, padding or [(0, 0)] * space, gaps, ceil)
    known, front = [_known(x, axis) for axis in range(2, x.rank)], [low for low, _ in ends]
    out = [
        max((size + low + high - (wide - 1) * gap - 1) // step + 1, 0)
        for size, (low, high), wide, gap, step in zip(known, ends, window, gaps, steps, strict=True)
    ]
    if 0 in out:
        return x.graph.full((*x.dims[:2], *out), 0, dtypes.int64)
    if math.prod(window) <= _FEW:
        return _max_places(x, out, window, steps, front, gaps, column_major)
    axes = zip(known, out, window, steps, front, gaps, strict=True)
    return _largest_of(x, [_elements(*each) for each in axes], column_major)[1]


def _elements(size: int, out: int, window: int, step: int, pad: int, gap: int) -> NDArray[np.int64]:
    """Per window of an axis the elements that it looks at; those outside are none (-1)."""
    elements = np.arange(out)[:, None] * step - pad + np.arange(window)[None, :] * gap
    elements[(elements < 0) | (elements >= size)] = -1
    return elements


def _largest_of(
    x: GraphValue, elements: Sequence[NDArray[np.int64]], column_major: bool = False
) -> tuple[GraphValue, GraphValue]:
    """The largest of each window and its place in the image: windows as a last axis, then argmax."""
    space, graph = len(elements), x.graph
    known = [_known(x, axis) for axis in range(2, x.rank)]
    counts, widths = [line.shape[0] for line in elements], [line.shape[1] for line in elements]
    inside, flat, told = (np.full(counts + widths, start) for start in (True, 0, 0))
    for axis, line in enumerate(elements):
        shape = [1] * (2 * space)
        shape[axis], shape[space + axis] = line.shape
        inside &= (line >= 0).reshape(shape)
        place = np.maximum(line, 0).reshape(shape)
        flat = flat + place * math.prod(known[axis + 1 :])
        told = told + place * math.prod(known[:axis] if column_major else known[axis + 1 :])
    area = math.prod(widths)
    lines = x.reshape((*x.dims[:2], math.prod(known)))
    windows = lines.take(graph.constant(flat.reshape(-1, area)), 2)  # (N, C, windows, area)
    if not inside.all():
        mask = spread(graph.constant(inside.reshape(-1, area)), windows.dims)
        windows = mask.select(windows, graph.full(windows.dims, lowest_of(x), x.dtype))
    dims = (*x.dims[:2], *counts)
    which = windows.argmax(3, False, dtypes.int64)
    number = graph.iota(which.dims, 2, dtypes.int64)
    where = graph.constant(told.reshape(-1, area)).gather([number, which], [0, 1])
    return windows.reduce_max([3]).reshape(dims), where.reshape(dims)


def _max_places(
    x: GraphValue,
    out: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    column_major: bool,
) -> GraphValue:
    """Where in its image the first maximum of each of `out` windows stands: one strided slice per element of the window.

    Padding is never the answer, not even where all else is as low. `padding` is that in front.
    """
    graph, dims = x.graph, (*x.dims[:2], *out)
    known = [_known(x, axis) for axis in range(2, x.rank)]
    axes = list(zip(known, out, window, strides, padding, dilation, strict=True))
    factors = [math.prod(known[:n] if column_major else known[n + 1 :]) for n in range(len(known))]
    after = [(o - 1) * step + (w - 1) * gap + 1 - size - pad for size, o, w, step, pad, gap in axes]
    lowest = graph.full((), lowest_of(x), x.dtype)
    room = x.pad([0, 0, *padding], [0, 0, *after], value=lowest)
    starts = [graph.iota(dims, 2 + n, dtypes.int64).mul(axes[n][3]).sub(axes[n][4]) for n in range(len(axes))]
    base = reduce(GraphValue.add, [start.mul(factor) for start, factor in zip(starts, factors, strict=True)])
    best, where = lowest.broadcast_to(dims), graph.full(dims, -1, dtypes.int64)
    for tap in itertools.product(*map(range, window)):
        moved = [offset * gap for offset, gap in zip(tap, dilation, strict=True)]
        limits = [begin + (o - 1) * step + 1 for begin, o, step in zip(moved, out, strides, strict=True)]
        seen = room.slice([0, 0, *moved], [*x.dims[:2], *limits], [1, 1, *strides])
        better = seen.gt(best)
        better = (better.or_(seen.is_nan()) if seen.dtype.is_float else better).or_(where.lt(0))
        for (size, o, _, step, pad, _), start, more in zip(axes, starts, moved, strict=True):
            if more < pad or (o - 1) * step + more - pad >= size:
                better = better.and_(start.ge(-more)).and_(start.lt(size - more))
        here = base.add(sum(more * factor for more, factor in zip(moved, factors, strict=True)))
        best, where = better.select(seen, best), better.select(here, where)
    return where


def _of_windows(
    x: GraphValue, sizes: Sequence[int], strides: Sequence[int], starts: Sequence[int]
) -> GraphValue:
    """For each element of an image what its window has, where a window begins every so many elements, from a place on."""
    apart, together, whole = list(x.dims[:2]), list(x.dims[:2]), list(x.dims[:2])
    for count, step in zip(x.dims[2:], strides, strict=True):
        apart += [count, 1]
        together += [count, step]
        whole.append(count * step)
    repeated = x.reshape(tuple(apart)).broadcast_to(tuple(together)).reshape(tuple(whole))
    ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    return repeated.slice([0, 0, *starts], [*x.dims[:2], *ends])


def max_pool_back(
    gradient: GraphValue,
    where: GraphValue,
    dims: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> GraphValue:
    """The derivative of a maximum pool by its input of those dims, from the places in the image where each window found its maximum.

    Every element asks the few windows that it may be in whether they chose it: nothing is written twice, and what is added up comes in the
    same order every time. Along an axis these are the windows that begin at or before it, less the first, the second and so on.
    """
    sizes, out = dims[2:], gradient.dims[2:]
    if not all(isinstance(count, int) for count in out):
        raise ShapeError(f"the sizes of {gradient.type} are not known", op="max_pool_back")
    before = [(wide - 1) * gap // step for wide, gap, step in zip(window, dilation, strides, strict=True)]
    low = [0, 0, *before]
    high = [
        max(0, -(-(size + pad) // step) - int(str(count)))
        for size, pad, step, count in zip(sizes, padding, strides, out, strict=True)
    ]
    places = converted(where, dtypes.int64).pad(low, [0, 0, *high], value=-1)
    given = gradient.pad(low, [0, 0, *high])
    own = gradient.graph.full(tuple(dims), 0, dtypes.int64)
    for axis, size in enumerate(sizes):
        own = own.mul(size).add(gradient.graph.iota(tuple(dims), 2 + axis, dtypes.int64))
    total: GraphValue | None = None
    for back in itertools.product(*(range(count + 1) for count in before)):
        starts = [
            pad + step * (count - less)
            for pad, step, count, less in zip(padding, strides, before, back, strict=True)
        ]
        chosen, share = (_of_windows(x, sizes, strides, starts) for x in (places, given))
        mine = chosen.eq(own).select(widened(share), 0.0)
        total = mine if total is None else total.add(mine)
    if total is None:
        raise ShapeError("a window has no elements", op="max_pool_back")
    return converted(total, gradient.dtype)


def average_pool(
    x: GraphValue,
    window: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding | None = None,
    dilation: Sequence[int] | None = None,
    ceil: bool = False,
    count_padding: bool = False,
    divisor: float | None = None,
) -> GraphValue:
    """The mean of each window, over the elements it really holds or, with `count_padding`, the padding too; its sum over a `divisor`, if there is one."""
    wide, given = widened(x), list(padding or [(0, 0)] * (x.rank - 2))
    total, ends = _windowed(wide, "sum", window, strides, given, dilation, ceil)
    if divisor is not None:
        return converted(total.div(divisor), x.dtype)
    if not any(low or high for low, high in ends) or (count_padding and ends == given):
        return converted(total.div(float(np.prod(window))), x.dtype)
    held = x.graph.full(x.dims[2:], 1.0, wide.dtype)
    extra = ends
    if count_padding:
        held = held.pad([low for low, _ in given], [high for _, high in given], value=1.0)
        extra = [(0, end[1] - old[1]) for end, old in zip(ends, given, strict=True)]
    count = held.reduce_window("sum", window, strides, extra, None, dilation)
    return converted(total.div(count.broadcast_to(total.dims)), x.dtype)


def lp_pool(
    x: GraphValue,
    window: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding | None = None,
    dilation: Sequence[int] | None = None,
    ceil: bool = False,
    p: float = 2.0,
) -> GraphValue:
    """(Σ |x|ᵖ) to the power 1/p, per window."""
    total, _ = _windowed(widened(x).abs().pow(p), "sum", window, strides, padding, dilation, ceil)
    return converted(total.pow(1 / p), x.dtype)


def global_average_pool(x: GraphValue) -> GraphValue:
    """The mean over all spatial axes, which stay with size 1."""
    return mean(x, range(2, x.rank), keepdims=True)


def global_max_pool(x: GraphValue) -> GraphValue:
    """The largest over all spatial axes, which stay with size 1."""
    return x.reduce_max(list(range(2, x.rank)), keepdims=True)


def shares(size: int, count: int) -> list[tuple[int, int]]:
    """The spans that share out an axis: number i of n is floor(i·s/n) to ceil((i+1)·s/n)."""
    return [(n * size // count, -(-(n + 1) * size // count)) for n in range(count)]


def adaptive_max_pool(x: GraphValue, sizes: Sequence[int]) -> tuple[GraphValue, GraphValue]:
    """The largest of windows that share out each axis, and where in its image it stands."""
    elements = []
    for i, count in enumerate(sizes):
        spans = shares(_known(x, 2 + i), count)
        table = np.full((count, max((end - start for start, end in spans), default=0)), -1)
        for row, (start, end) in zip(table, spans, strict=True):
            row[: end - start] = range(start, end)
        elements.append(table)
    return _largest_of(x, elements)


def adaptive_average_pool(x: GraphValue, sizes: Sequence[int]) -> GraphValue:
    """Means of windows that share out each axis."""
    result = widened(x)
    for i, count in enumerate(sizes):
        axis, size = 2 + i, _known(x, 2 + i)
        if size == count:
            continue
        if size % count == 0:
            dims: list[DimLike] = [*result.dims[:axis], count, size // count, *result.dims[axis + 1 :]]
            result = mean(result.reshape(dims), [axis + 1])
            continue
        matrix = np.zeros((size, count))
        for output, (start, limit) in enumerate(shares(size, count)):
            matrix[start:limit, output] = 1 / (limit - start)
        product = result.dot_general(x.graph.constant(matrix, result.dtype), ops.DotDims((), (axis,), (0,)))
        result = move_axis(product, x.rank - 1, axis)
    return converted(result, x.dtype)


def _known(x: GraphValue, axis: int) -> int:
    size = x.dims[axis]
    if not isinstance(size, int):
        raise ShapeError(f"axis {axis} of {x.type} has no known size to share out", op="reduce_window")
    return size

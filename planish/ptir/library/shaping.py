"""Movement that several front ends need: triangles, one-hot, diagonals, padding modes, tiling, rolling, space to depth.

Nothing here computes with elements beyond choosing them; every bit is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from planish import dtypes
from planish.dtypes import DType
from planish.errors import GraphError, ShapeError
from planish.ptir.dims import DimLike, bounds
from planish.ptir.graph_value import Dims, GraphValue, as_dims
from planish.ptir.handle import Number
from planish.ptir.library.common import index_dtype, normal_axis, size_of, spread


def _triangle(x: GraphValue, diagonal: int, lower: bool) -> GraphValue:
    kind = index_dtype(max(bounds(dim)[1] for dim in x.dims[-2:]))
    row, column = (x.graph.iota(x.dims, x.rank - 2 + i, kind) for i in range(2))
    row = row.add(diagonal) if diagonal else row
    return (column.le(row) if lower else column.ge(row)).select(x, 0)


def tril(x: GraphValue, diagonal: int = 0) -> GraphValue:
    """The lower triangle of the last two axes, up to a diagonal (0 the main one, positive above it); 0 elsewhere."""
    return _triangle(x, diagonal, True)


def triu(x: GraphValue, diagonal: int = 0) -> GraphValue:
    """The upper triangle of the last two axes, from a diagonal on; 0 elsewhere."""
    return _triangle(x, diagonal, False)


def eye(like: GraphValue, rows: DimLike, columns: DimLike, dtype: DType, diagonal: int = 0) -> GraphValue:
    """Ones on a diagonal; `like` lends its graph."""
    graph = like.graph
    row, column = (graph.iota((rows, columns), axis, dtypes.int64) for axis in range(2))
    return column.eq(row.add(diagonal)).cast(dtype)


def diagonal(x: GraphValue, offset: int = 0) -> GraphValue:
    """The diagonal of the last two axes as the last axis; sizes must be known."""
    rows, columns = x.dims[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise ShapeError(f"the diagonal of {x.type} has no known size", op="diagonal")
    down, right = max(-offset, 0), max(offset, 0)
    size = max(0, min(rows - down, columns - right))
    if size == 0:
        return x.graph.full((*x.dims[:-2], 0), 0, x.dtype)
    line = x.graph.iota((size,), 0, dtypes.int64)
    picked = x.gather([line.add(down), line.add(right)], [x.rank - 2, x.rank - 1])
    return picked.transpose([*range(1, picked.rank), 0])


def one_hot(
    index: GraphValue,
    depth: DimLike,
    on: Number = 1,
    off: Number = 0,
    dtype: DType = dtypes.float32,
    axis: int = -1,
) -> GraphValue:
    """`on` where a new axis of size `depth` counts the index, else `off`. An index outside is nowhere."""
    rank = index.rank + 1
    axis = axis % rank
    dims = (*index.dims[:axis], depth, *index.dims[axis:])
    graph = index.graph
    wide = index if index.dtype.bits == 64 else index.cast(dtypes.int64)
    hot = graph.iota(dims, axis, wide.dtype).eq(wide.expand_dims(axis).broadcast_to(dims))
    return hot.select(graph.full(dims, on, dtype), graph.full(dims, off, dtype))


# --- padding ----------------------------------------------------------------------------------------------

PAD_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def pad(
    x: GraphValue,
    low: Sequence[int],
    high: Sequence[int],
    mode: str = "constant",
    value: GraphValue | Number = 0,
) -> GraphValue:
    """Elements before and after each axis: a constant, the edge, a mirror image (with the edge in it: `symmetric`), or the other end.

    NumPy's modes; amounts may exceed the size, and negative ones crop.
    """
    if mode not in PAD_MODES:
        raise GraphError(
            f"there is no padding mode {mode!r}", op="pad", remedy=f"modes: {', '.join(PAD_MODES)}"
        )
    if mode == "constant":
        return x.pad(low, high, value=value)
    crop_low, crop_high = [min(n, 0) for n in low], [min(n, 0) for n in high]
    if any(crop_low) or any(crop_high):
        x = x.pad(crop_low, crop_high)
    for axis in range(x.rank):
        before, after = max(low[axis], 0), max(high[axis], 0)
        if before or after:
            if bounds(x.dims[axis])[0] == 0:
                raise ShapeError(
                    f"axis {axis} of {x.type} may be empty: there is nothing to repeat", op="pad"
                )
            x = _with_borders(x, axis, before, after, mode)
    return x


# How far the borders of a mode reach into an axis of n elements: no further than it has them.
_REACH: Final[dict[str, Callable[[int], float]]] = {
    "edge": lambda n: math.inf, "wrap": lambda n: n, "symmetric": lambda n: n, "reflect": lambda n: n - 1,
}  # fmt: skip


def _with_borders(x: GraphValue, axis: int, before: int, after: int, mode: str) -> GraphValue:
    """An axis with its borders: parts of it beside it, which are copies; by an index for each element where an axis is shorter than that."""
    size = x.dims[axis]
    if max(before, after) > _REACH[mode](bounds(size)[0]):
        return x.take(_source(x, axis, before, after, mode), axis)
    if mode == "edge":
        front = repeat(_part(x, axis, 0, 1), before, axis)
        back = repeat(_part(x, axis, size - 1, 1), after, axis)
    elif mode == "wrap":
        front, back = _part(x, axis, size - before, before), _part(x, axis, 0, after)
    else:
        left_out = 1 if mode == "reflect" else 0
        front = _part(x, axis, left_out, before).reverse([axis])
        back = _part(x, axis, size - left_out - after, after).reverse([axis])
    first, *others = [part for part, count in ((front, before), (x, 1), (back, after)) if count]
    return first.concat(others, axis)


def _part(x: GraphValue, axis: int, start: DimLike, count: DimLike) -> GraphValue:
    """So many elements of an axis, from one of them on."""
    starts: list[DimLike] = [0] * x.rank
    limits = list(x.dims)
    starts[axis], limits[axis] = start, start + count
    return x.slice(starts, limits)


def _source(x: GraphValue, axis: int, before: int, after: int, mode: str) -> GraphValue:
    """Where each element of the padded axis comes from."""
    size = x.dims[axis]
    count = size + before + after
    at = x.graph.iota((count,), 0, dtypes.int64).sub(before)
    n = size_of(x, axis).broadcast_to((count,))
    if mode == "edge":
        return at.max(0).min(n.sub(1))
    if mode == "wrap":
        return at.floor_mod(n)
    if mode == "symmetric":
        back = at.floor_mod(n.add(n))
        return back.min(n.add(n).sub(1).sub(back))
    # Of a single element the mirror image is that element.
    period = n.add(n).sub(2).max(1)
    back = at.floor_mod(period)
    return back.min(period.sub(back)).min(n.sub(1))


# --- repetition and order ---------------------------------------------------------------------------------


def stack(values: Sequence[GraphValue], axis: int = 0) -> GraphValue:
    """Values of one shape along a new axis."""
    axis = axis % (values[0].rank + 1)
    first, *others = (value.expand_dims(axis) for value in values)
    return first.concat(others, axis)


def split(x: GraphValue, sizes: Sequence[DimLike], axis: int = 0) -> list[GraphValue]:
    """Consecutive parts of an axis; the sizes add up to it."""
    axis = normal_axis(x, axis)
    parts: list[GraphValue] = []
    start: DimLike = 0
    for size in sizes:
        parts.append(_part(x, axis, start, size))
        start = start + size
    if start != x.dims[axis]:
        raise ShapeError(f"parts of {start} do not make up axis {axis} of {x.type}", op="split")
    return parts


def tile(x: GraphValue, repeats: Sequence[DimLike]) -> GraphValue:
    """The whole tensor repeated along each axis; leading axes are added for further entries."""
    while x.rank < len(repeats):
        x = x.expand_dims(0)
    counts: list[DimLike] = [*[1] * (x.rank - len(repeats)), *repeats]
    spread = [part for dim in x.dims for part in (1, dim)]
    wide = [part for count, dim in zip(counts, x.dims, strict=True) for part in (count, dim)]
    dims = [dim * count for count, dim in zip(counts, x.dims, strict=True)]
    return x.reshape(spread).broadcast_to(wide).reshape(dims)


def repeat(x: GraphValue, count: int, axis: int) -> GraphValue:
    """Every element `count` times in a row."""
    axis = normal_axis(x, axis)
    dims = (*x.dims[: axis + 1], count, *x.dims[axis + 1 :])
    flat = (*x.dims[:axis], x.dims[axis] * count, *x.dims[axis + 1 :])
    return x.expand_dims(axis + 1).broadcast_to(dims).reshape(flat)


def roll(x: GraphValue, shifts: Sequence[int], axes: Sequence[int]) -> GraphValue:
    """Each axis turned by some places; what leaves at one end enters at the other."""
    for turned, given in zip(shifts, axes, strict=True):
        axis = normal_axis(x, given)
        size = x.dims[axis]
        shift = turned % size if isinstance(size, int) and size else turned
        if shift == 0 or size == 0:
            continue
        if abs(shift) <= bounds(size)[0]:
            first = size - shift if shift > 0 else -shift
            back, front = split(x, [first, size - first], axis)
            x = front.concat([back], axis)
        else:
            count = size_of(x, axis).broadcast_to((size,))
            places = x.graph.iota((size,), 0, dtypes.int64).sub(shift).floor_mod(count)
            if not bounds(size)[0]:  # nothing is taken of an empty axis, and yet there has to be something
                x = x.pad([0] * len(x.dims), [int(a == axis) for a in range(len(x.dims))])
            x = x.take(places, axis)
    return x


_IN_DEPTH: Final = {"DCR": (0, 3, 5, 1, 2, 4), "CRD": (0, 1, 3, 5, 2, 4)}
"""Where the parts of (N, C, H, b, W, b) stand once blocks are channels: the places of a block before the channels or behind them."""


def _in_depth(op: str, mode: str) -> tuple[int, ...]:
    if mode not in _IN_DEPTH:
        raise GraphError(f"there is no mode {mode!r}", op=op, remedy=" or ".join(_IN_DEPTH))
    return _IN_DEPTH[mode]


def space_to_depth(x: GraphValue, block: int, mode: str = "DCR") -> GraphValue:
    """(N, C, H, W) to (N, C·b², H/b, W/b): the places of a block become channels, in front of the old ones or behind (`"CRD"`)."""
    batch, channels, height, width = x.dims
    parts = x.reshape((batch, channels, height // block, block, width // block, block))
    moved = parts.transpose(_in_depth("space_to_depth", mode))
    return moved.reshape((batch, channels * (block * block), height // block, width // block))


def depth_to_space(x: GraphValue, block: int, mode: str = "DCR") -> GraphValue:
    """The inverse of `space_to_depth` (`"DCR"`), or with the block behind the channels (`"CRD"`: pixel shuffle)."""
    batch, channels, height, width = x.dims
    depth = channels // (block * block)
    order = _in_depth("depth_to_space", mode)
    parts = (batch, depth, height, block, width, block)
    moved = x.reshape([parts[axis] for axis in order]).transpose([order.index(axis) for axis in range(6)])
    return moved.reshape((batch, depth, height * block, width * block))


def turned_kernel(weight: GraphValue, groups: int) -> GraphValue:
    """The kernel of the transposed convolution: backwards in space, inputs and outputs of each group exchanged."""
    inputs, outputs, *window = weight.dims
    back = weight.reverse(range(2, weight.rank)) if window else weight
    parts = back.reshape((groups, inputs // groups, outputs, *window))
    moved = parts.transpose((0, 2, 1, *range(3, parts.rank)))
    return moved.reshape((groups * outputs, inputs // groups, *window))


def broadcast_dims(*shapes: Dims) -> tuple[DimLike, ...]:
    """The common shape of several by NumPy's rule: aligned at the last axis, 1 goes with everything."""
    known = [as_dims(shape) for shape in shapes]
    rank = max((len(shape) for shape in known), default=0)
    result: list[DimLike] = []
    for axis in range(rank):
        sizes = {dim for shape in known if (at := axis - rank + len(shape)) >= 0 for dim in [shape[at]]}
        wide = sizes - {1}
        if len(wide) > 1:
            shown = ", ".join(str(shape) for shape in known)
            raise ShapeError(f"shapes {shown} do not broadcast", op="broadcast_to")
        result.append(next(iter(wide), 1))
    return tuple(result)


def broadcast_together(*values: GraphValue) -> list[GraphValue]:
    """All values in their common shape."""
    dims = broadcast_dims(*[value.dims for value in values])
    return [spread(value, dims) for value in values]

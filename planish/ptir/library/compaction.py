"""Results whose size is data: nonzero and unique as compositions.

A running count gives every element that is kept its place; a scatter writes it there and drops the rest
(semantics section 10). Linear work for `nonzero`; `unique` sorts.
"""

from __future__ import annotations

from collections.abc import Callable

from planish import dtypes
from planish.ptir.dims import DimLike, product
from planish.ptir.graph_value import GraphValue
from planish.ptir.library.common import along, gather, index_dtype, move_axis, order_key, size_of
from planish.ptir.library.order import Columns, argsort, sort_columns


def compact(mask: GraphValue, size: DimLike) -> tuple[GraphValue, GraphValue]:
    """Where a vector of bools is True, in order and followed by zeros, and (int64) how many there are of them."""
    graph = mask.graph
    kind = index_dtype(mask.dims[0])
    place = mask.cast(kind).cumsum(0).sub(1)
    # A place outside the buffer is dropped: -1 for what is not kept, and those that do not fit.
    target = mask.select(place, -1)
    positions = graph.full((size,), 0, kind).scatter(
        graph.iota(mask.dims, 0, kind), [target], 0, unique_indices=True
    )
    return positions, _count(mask, positions)


def _count(mask: GraphValue, buffer: GraphValue) -> GraphValue:
    return mask.cast(dtypes.int64).reduce_sum().min(size_of(buffer, 0))


def unravel(number: GraphValue, like: GraphValue) -> list[GraphValue]:
    """Row-major numbers of elements of `like` as one index per axis, int64."""
    rest = number.cast(dtypes.int64)
    indices: list[GraphValue] = []
    for axis in reversed(range(like.rank)):
        if axis == 0:
            indices.append(rest)
            break
        size = size_of(like, axis).broadcast_to(rest.dims)
        indices.append(rest.floor_mod(size))
        rest = rest.floor_div(size)
    return indices[::-1]


def is_nonzero(x: GraphValue) -> GraphValue:
    """Whether each element differs from 0; NaN does."""
    return x if x.dtype.is_bool else x.ne(0)


def nonzero(x: GraphValue, size: DimLike | None = None) -> tuple[GraphValue, GraphValue]:
    """The op `nonzero`: positions of the nonzero elements, one row per axis, and their count."""
    flat = is_nonzero(x).reshape((x.type.size,))
    positions, count = compact(flat, x.type.size if size is None else size)
    if x.rank == 0:
        return x.graph.full((0, *positions.dims), 0, dtypes.int64), count
    rows = [index.expand_dims(0) for index in unravel(positions, x)]
    return x.graph.concat(rows, 0), count


def unique(
    x: GraphValue,
    size: DimLike | None = None,
    axis: int | None = None,
    order_of: Callable[[Columns], GraphValue] = argsort,
) -> tuple[GraphValue, ...]:
    """The op `unique`: sorted distinct values, first occurrences, inverse, counts, and how many there are.

    `order_of` gives the positions that sort elements by their columns.
    """
    graph = x.graph
    if axis is None:
        lines = x.reshape((x.type.size,))
    else:
        axis = axis % x.rank
        lines = move_axis(x, axis, 0)
        lines = lines.reshape((lines.dims[0], product(lines.dims[1:])))
    total = lines.dims[0]
    room = total if size is None else size
    keys, has_nan = _keys(lines)
    order = order_of(keys) if lines.rank == 1 else _order_of_rows(keys)
    starts = _starts(keys, has_nan, order)
    group = starts.cast(order.dtype).cumsum(0).sub(1)
    inverse = graph.full((total,), 0, order.dtype).scatter(group, [order], 0, unique_indices=True)
    ones = graph.full((total,), 1, dtypes.int64)
    counts = graph.full((room,), 0, dtypes.int64).scatter(ones, [group], 0, kind="add")
    # The sort is stable: the first of each group is its first occurrence.
    target = starts.select(group, -1)
    first = graph.full((room,), 0, order.dtype).scatter(order, [target], 0, unique_indices=True)
    count = _count(starts, counts)
    filled = graph.iota((room,), 0, dtypes.int64).lt(count.broadcast_to((room,)))
    values = gather(x.reshape((x.type.size,)) if axis is None else x, [first], [axis or 0])
    values = along(filled, values.dims, 0).select(values, 0)
    if axis is not None:
        values = move_axis(values, 0, axis)
    shape = x.dims if axis is None else (total,)
    return values, first.cast(dtypes.int64), inverse.cast(dtypes.int64).reshape(shape), counts, count


def _keys(lines: GraphValue) -> tuple[Columns, GraphValue | None]:
    """Columns that compare as the lines do, and which lines hold a NaN and so equal nothing."""
    parts = [lines.real(), lines.imag()] if lines.dtype.is_complex else [lines]
    if lines.rank == 2 and len(parts) == 2:
        # Real and imaginary part of a number are compared one after the other.
        pairs = lines.graph.concat([part.expand_dims(2) for part in parts], 2)
        parts = [pairs.reshape((lines.dims[0], lines.dims[1] * 2))]
    has_nan: GraphValue | None = None
    if parts[0].dtype.is_float:
        for part in parts:
            nans = part.is_nan() if part.rank == 1 else part.is_nan().reduce_or([1])
            has_nan = nans if has_nan is None else has_nan.or_(nans)
    return [order_key(part) for part in parts], has_nan


def _order_of_rows(keys: Columns) -> GraphValue:
    """Positions of rows in the order of their first difference, then in their own."""
    (table,) = keys
    graph = table.graph
    kind = index_dtype(table.dims[1])

    def before(left: Columns, right: Columns) -> GraphValue:
        (a,), (b,) = left, right
        mine, other = gather(table, [a], [0]), gather(table, [b], [0])
        column = graph.iota(mine.dims, len(mine.dims) - 1, kind)
        last = [mine.rank - 1]
        decides = mine.ne(other).select(column, int(kind.max or 0)).reduce_min(last, keepdims=True)
        smaller = column.eq(decides.broadcast_to(mine.dims)).and_(mine.lt(other)).reduce_or(last)
        equal = mine.eq(other).reduce_and(last)
        return smaller.or_(equal.and_(a.lt(b)))

    position = graph.iota(table.dims[:1], 0, index_dtype(table.dims[0]))
    return sort_columns([position], before)[0]


def _starts(keys: Columns, has_nan: GraphValue | None, order: GraphValue) -> GraphValue:
    """Where, in sorted order, a line differs from the one before it."""
    graph = order.graph
    position = graph.iota(order.dims, 0, order.dtype)
    previous = gather(order, [position.sub(1)], [0])
    starts = position.eq(0)
    for key in keys:
        differs = gather(key, [order], [0]).ne(gather(key, [previous], [0]))
        starts = starts.or_(differs if differs.rank == 1 else differs.reduce_or([1]))
    return starts if has_nan is None else starts.or_(gather(has_nan, [order], [0]))

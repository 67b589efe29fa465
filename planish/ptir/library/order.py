"""Sorting without a sort instruction: sort, argsort, top_k and searchsorted as compositions.

What is sorted are *columns*: integers that compare as the keys do, and the position at the end, so that no two elements
are equal and any sorting network is stable. Keys and position that fit one integer together are one column.

- Up to `_COUNTED` elements each element counts how many come before it, and goes there: quadratic work, two kernels.
- Beyond, Batcher's bitonic network, one step per pass of a `scan`. The first step of a merge compares mirror images
  (`i` with `i xor 2k-1`), the others `i` with `i xor j`, and the smaller always goes to the lower place: elements that
  would pad the size to a power of two never move, so they need not exist. O(n log² n) work, a program of constant size.
- Of a named size the steps depend on the size at run time, and the loop is a `while`.
- `top_k` of few elements takes the next best k times: k passes over the data that write nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.dims import DimLike, bounds
from planish.ptir.graph_value import GraphValue
from planish.ptir.library.common import (
    along,
    gather,
    index_dtype,
    move_axis,
    normal_axis,
    order_key,
    size_of,
    take_along_axis,
)

# Below this, comparing everything with everything costs less than the passes of a network.
_COUNTED = 32
# So many passes over the data cost less than sorting all of it.
_FEW = 8

Columns = Sequence[GraphValue]
Before = Callable[[Columns, Columns], GraphValue]
"""Where the first columns come before the second, element by element."""


def sort(
    values: Sequence[GraphValue], axis: int = -1, descending: bool = False, num_keys: int = 1
) -> tuple[GraphValue, ...]:
    """The op `sort`: values sorted together, stably, by the first `num_keys` of them."""
    first = values[0]
    axis = normal_axis(first, axis)
    size = first.dims[axis]
    if bounds(size)[1] <= 1:
        return tuple(values)
    if len(values) == 1 and not first.dtype.is_float and not _is_counted(size):
        # Equal integers cannot be told apart: no position is needed to keep them in order.
        key = _directed(order_key(move_axis(first, axis, 0)), descending)
        (sorted_key,) = sort_columns([key], _lexicographic)
        return (move_axis(_directed(sorted_key, descending).cast(first.dtype), 0, axis),)
    order = argsort(values[:num_keys], axis, descending)
    return tuple(take_along_axis(value, order, axis) for value in values)


def argsort(
    keys: Sequence[GraphValue], axis: int = -1, descending: bool = False, dtype: DType | None = None
) -> GraphValue:
    """The positions, along an axis, that a stable sort by these keys would take elements from."""
    first = keys[0]
    axis = normal_axis(first, axis)
    encoded = [_directed(order_key(move_axis(key, axis, 0)), descending) for key in keys]
    order = move_axis(_order_of(encoded), 0, axis)
    return order if dtype is None or dtype is order.dtype else order.cast(dtype)


def top_k(
    x: GraphValue, k: DimLike, axis: int = -1, largest: bool = True, dtype: DType = dtypes.int64
) -> tuple[GraphValue, GraphValue]:
    """The op `top_k`: values and indices in the order of a stable sort."""
    axis = normal_axis(x, axis)
    size = x.dims[axis]
    if isinstance(k, int) and 0 < k <= _FEW and not _is_counted(size) and bounds(size)[1] > 2 * k:
        key = _directed(order_key(move_axis(x, axis, 0)), largest)
        best = move_axis(_select(key, k), 0, axis)
    else:
        order = argsort([x], axis, largest)
        limits = [*order.dims[:axis], k, *order.dims[axis + 1 :]]
        best = order.slice([0] * x.rank, limits)
    return take_along_axis(x, best, axis), best.cast(dtype)


def searchsorted(
    line: GraphValue, wanted: GraphValue, right: bool = False, dtype: DType = dtypes.int64
) -> GraphValue:
    """Where in an ascending vector each element of `wanted` belongs: before its equals, or after them.

    NaN counts as the largest number. A chain of halvings, each one look into the vector.
    """
    graph = wanted.graph
    size = line.dims[0]
    kind = index_dtype(size)
    keys, target = order_key(line), order_key(wanted)
    low = graph.full(wanted.dims, 0, kind)
    high = size_of(line, 0, kind).broadcast_like(wanted)
    for _ in range(bounds(size)[1].bit_length()):
        middle = low.add(high).shr_logical(1)
        seen = gather(keys, [middle], [0])
        beyond = seen.le(target) if right else seen.lt(target)
        # Once the interval is empty, nothing moves: the element at `middle` is then not inside.
        open_ = low.lt(high)
        low = open_.and_(beyond).select(middle.add(1), low)
        high = open_.and_(beyond.not_()).select(middle, high)
    return low.cast(dtype)


# --- columns ----------------------------------------------------------------------------------------------


def _is_counted(size: DimLike) -> bool:
    return bounds(size)[1] <= _COUNTED


def _directed(key: GraphValue, descending: bool) -> GraphValue:
    """Complementing an integer reverses its order and keeps equals equal."""
    return key.not_() if descending else key


def _order_of(keys: Columns) -> GraphValue:
    """Positions in sorted order, along axis 0."""
    first = keys[0]
    position = first.graph.iota(first.dims, 0, index_dtype(first.dims[0]))
    packed = _pack(keys, position)
    if packed is None:
        return sort_columns([*keys, position], _lexicographic)[-1]
    return _unpack(sort_columns([packed], _lexicographic)[0], position.dtype)


def _index_bits(size: DimLike) -> int:
    return max(1, (bounds(size)[1] - 1).bit_length())


def _pack(keys: Columns, position: GraphValue) -> GraphValue | None:
    """Keys and position in one signed integer that is never the lowest of its dtype; None if they do not fit."""
    shift = _index_bits(position.dims[0])
    width = sum(key.dtype.bits for key in keys) + shift
    if width >= 64:
        return None
    container = dtypes.int32 if width < 32 else dtypes.int64
    packed: GraphValue | None = None
    for key in keys:
        wide, half = key.cast(container), 1 << (key.dtype.bits - 1)
        if packed is None:
            packed = wide.sub(half) if key.dtype.is_unsigned else wide
        else:
            # Below the first key there is no sign: bits count from 0.
            packed = packed.shl(key.dtype.bits).or_(wide if key.dtype.is_unsigned else wide.add(half))
    return None if packed is None else packed.shl(shift).or_(position.cast(container))


def _unpack(packed: GraphValue, dtype: DType) -> GraphValue:
    """The position."""
    return packed.and_((1 << _index_bits(packed.dims[0])) - 1).cast(dtype)


def _lexicographic(left: Columns, right: Columns) -> GraphValue:
    """The first column that differs decides."""
    before = left[-1].lt(right[-1])
    for a, b in zip(reversed(left[:-1]), reversed(right[:-1]), strict=True):
        before = a.lt(b).or_(a.eq(b).and_(before))
    return before


# --- networks ---------------------------------------------------------------------------------------------


def sort_columns(columns: Columns, before: Before) -> tuple[GraphValue, ...]:
    """Columns sorted along axis 0. Elements that `before` cannot order must be the same in all columns."""
    size = columns[0].dims[0]
    if bounds(size)[1] <= 1:
        return tuple(columns)
    if _is_counted(size):
        return _sort_counted(columns, before)
    return _sort_static(columns, before, size) if isinstance(size, int) else _sort_dynamic(columns, before)


def _sort_counted(columns: Columns, before: Before) -> tuple[GraphValue, ...]:
    """Each element goes where the number of those before it says; equal ones need distinct columns."""
    graph = columns[0].graph
    square = [columns[0].dims[0], *columns[0].dims]
    left = [column.expand_dims(1).broadcast_to(square) for column in columns]
    right = [column.expand_dims(0).broadcast_to(square) for column in columns]
    place = before(left, right).cast(dtypes.int32).reduce_sum([0])
    # Axis 0 is now the place to fill, axis 1 the element that may fill it.
    fills = graph.iota(square, 0, dtypes.int32).eq(place.expand_dims(0).broadcast_to(square))
    return tuple(fills.select(column, 0).reduce_sum([1]) for column in right)


def _sort_static(columns: Columns, before: Before, size: int) -> tuple[GraphValue, ...]:
    graph = columns[0].graph
    kind = index_dtype(size)
    masks = np.array(network_masks(size), kind.numpy)

    def body(*values: GraphValue) -> tuple[GraphValue, ...]:
        *current, mask = values
        return _exchange(
            current, mask, before, None if size & (size - 1) == 0 else graph.full((), size, kind)
        )

    return graph.scan(body, columns, [graph.constant(masks)])


def network_masks(size: int) -> list[int]:
    """By which mask position and partner differ, step by step."""
    masks: list[int] = []
    run = 1
    while run < size:
        masks.append(2 * run - 1)
        half = run >> 1
        while half:
            masks.append(half)
            half >>= 1
        run *= 2
    return masks


def _sort_dynamic(columns: Columns, before: Before) -> tuple[GraphValue, ...]:
    graph = columns[0].graph
    kind = index_dtype(columns[0].dims[0])
    size = size_of(columns[0], 0, kind)
    one = graph.full((), 1, kind)

    def more(run: GraphValue, mask: GraphValue, *current: GraphValue) -> GraphValue:
        return run.lt(size)

    def body(run: GraphValue, mask: GraphValue, *current: GraphValue) -> tuple[GraphValue, ...]:
        moved = _exchange(current, mask, before, size)
        twice = run.add(run)
        half = mask.eq(twice.sub(1)).select(run, mask).shr_logical(1)
        merged = half.eq(0)
        return (merged.select(twice, run), merged.select(twice.add(twice).sub(1), half), *moved)

    return graph.while_loop(more, body, one, one, *columns)[2:]


def _exchange(
    columns: Columns, mask: GraphValue, before: Before, size: GraphValue | None
) -> tuple[GraphValue, ...]:
    """One step: the smaller of each pair to the lower place. `size` is given if some have no partner."""
    first = columns[0]
    count = first.dims[0]
    place = first.graph.iota((count,), 0, mask.dtype)
    partner = place.xor(mask.broadcast_to((count,)))
    others = [gather(column, [partner], [0]) for column in columns]
    lower = along(place.lt(partner), first.dims, 0)
    if len(columns) == 1 and before is _lexicographic:
        moved: tuple[GraphValue, ...] = (lower.select(first.min(others[0]), first.max(others[0])),)
    else:
        keeps = before(columns, others).eq(lower)
        moved = tuple(keeps.select(a, b) for a, b in zip(columns, others, strict=True))
    if size is None:
        return moved
    alone = along(partner.ge(size.broadcast_to((count,))), first.dims, 0)
    return tuple(alone.select(old, new) for old, new in zip(columns, moved, strict=True))


# --- the few best -----------------------------------------------------------------------------------------


def _select(key: GraphValue, k: int) -> GraphValue:
    """Positions of the k smallest along axis 0, in order: each the next after the one before."""
    graph = key.graph
    position = graph.iota(key.dims, 0, index_dtype(key.dims[0]))
    rest = key.dims[1:]
    packed = _pack([key], position)
    if packed is not None:
        low, high = int(packed.dtype.min or 0), int(packed.dtype.max or 0)

        def narrow(last: GraphValue) -> tuple[GraphValue, GraphValue]:
            following = packed.gt(last.broadcast_to(packed.dims)).select(packed, high).reduce_min([0])
            return following, following

        _, best = graph.scan(narrow, [graph.full(rest, low, packed.dtype)], length=k)
        return best.and_((1 << _index_bits(key.dims[0])) - 1).cast(position.dtype)
    lowest, highest = int(key.dtype.min or 0), int(key.dtype.max or 0)

    def wide(last: GraphValue, at: GraphValue) -> tuple[GraphValue, GraphValue, GraphValue]:
        past, there = last.broadcast_to(key.dims), at.broadcast_to(key.dims)
        after = key.gt(past).or_(key.eq(past).and_(position.gt(there)))
        smallest = after.select(key, highest).reduce_min([0])
        meant = after.and_(key.eq(smallest.broadcast_to(key.dims)))
        first = meant.select(position, int(position.dtype.max or 0)).reduce_min([0])
        return smallest, first, first

    start = [graph.full(rest, lowest, key.dtype), graph.full(rest, -1, position.dtype)]
    return graph.scan(wide, start, length=k)[2]

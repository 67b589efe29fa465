"""Operands of a tensor core, read from a tile in rows: `ldmatrix`.

A thread of a warp holds a word of four bytes here and there of the matrices that a core multiplies: of a row, four threads have
sixteen bytes that lie together. Instead of a load per word, each thread loads the whole of one row and the warp deals them
out (EXCHANGE): a quarter of the instructions, and rows whose neighbours lie across, as a core wants them, can be dealt out
transposed.

In the place of a read, the lanes of the thread's register number matrices, the upper bits of its number rows and the lower ones words.
For the row that a thread loads for others, they are numbered by the thread itself::

    straight     t[(w//4 + 8*r1)*P + w%4*2 + r0 + 8*r2]      row w%8 of matrix w//8 = r2*2 + r1, all of its columns
    transposed   t[(w%4*2 + r0 + 8*r1)*P + w//4]             the same, where neighbours are elements that other threads hold
"""

from __future__ import annotations

from math import prod
from typing import cast

from planish import dtypes
from planish.actions.shared_tiles import Digit, SharedTile
from planish.uop.node import UOp
from planish.uop.ops import Exchange, Ops, UnrolledLanes
from planish.uop.rewrite import substitute
from planish.uop.tensor_cores import ROW, WARP

_WORD = 4
_MATRICES = (1, 2, 4)


def _is(digit: Digit, axis: UOp, divisor: int, size: int, weight: int) -> bool:
    return (digit.axis, digit.divisor, digit.size, digit.weight) == (axis, divisor, size, weight)


def _is_transposed(tile: SharedTile, warp: UOp, word: UOp | None, elements: int) -> bool | None:
    """Whether neighbours are what one row of threads holds, or what different ones do; None if neither."""
    digits = tile.dims[-1].digits
    if _is(digits[0], warp, 4, 8, 1):
        return True if elements == 2 else None
    first = 0 if word is None else 1
    straight = len(digits) > first and _is(digits[first], warp, 1, 4, elements)
    return False if straight and (word is None or _is(digits[0], word, 1, elements, 1)) else None


def dealt(
    contract: UOp, tile: SharedTile, kept: UOp, warp: UOp, axes: tuple[UOp, ...], fresh: int
) -> UOp | None:
    """What a thread holds of an operand, from rows of a tile; None if they do not lie so.

    `axes` are its lanes, the fastest last; `fresh` names an axis that there is not yet.
    """
    itemsize, table = contract.dtype.itemsize, contract.table
    elements = _WORD // itemsize
    if itemsize > _WORD or tile.turned or tile.dims[-1].base != 1 or tile.layout.vector * itemsize < ROW:
        return None
    word = axes[-1] if elements > 1 else None
    others = axes[:-1] if elements > 1 else axes
    if warp.vmax + 1 != WARP or (word is not None and word.vmax + 1 != elements):
        return None
    matrices = prod(axis.vmax + 1 for axis in others)
    transposed = _is_transposed(tile, warp, word, elements)
    if transposed is None or matrices not in _MATRICES:
        return None
    mine: dict[UOp, UOp] = {warp: warp % 8 // 2 if transposed else warp % 8 * 4}
    if word is not None:
        mine[word] = warp % 2 if transposed else table.const(0)
    number = warp // 8
    for axis in reversed(others):
        mine[axis] = number % (axis.vmax + 1)
        number = number // (axis.vmax + 1)
    count = ROW // itemsize
    lanes = UnrolledLanes((((fresh,), count),))
    along = table.make(Ops.UNROLL, dtypes.index, (table.vconst(range(count)),), lanes)
    *slow, fast = (substitute(dim.coordinate(), mine) for dim in tile.dims)
    place = tile.place([*slow, fast + along])
    scalar = contract.dtype.scalar
    row = table.make(Ops.INDEX, scalar, (kept, place))
    rows = table.make(Ops.CONTRACT, scalar.vec(count), (row,), lanes)
    return table.make(Ops.EXCHANGE, contract.dtype, (rows,), Exchange(matrices, transposed))


def lane_axes(contract: UOp, inner: list[UOp]) -> tuple[UOp, ...] | None:
    """The lanes that a CONTRACT gathers, as they are in an index; None if some of them are not."""
    known = {cast("UnrolledLanes", axis.arg).axes[0]: axis for axis in inner if axis.op is Ops.UNROLL}
    wanted = cast("UnrolledLanes", contract.arg).axes
    return tuple(known[each] for each in wanted) if all(each in known for each in wanted) else None

"""Tensor cores in the devectorizer: sums that a core does itself, and tiles cut to what one core computes.

* `pm_wmma_accumulate`: a core adds to what it is given, so the accumulator is given to it. Only accumulators: adding
  something else first would round in another order than the program says.
* `pm_split_wmma`: between stages 9 and 14 a WMMA may stand for several tiles (an axis of tiles in registers). Of P tiles, lane
  l·P + p of its operands and of its result is lane l of tile p.
"""

from __future__ import annotations

from typing import Final, cast

from planish.dtypes import AddrSpace, PtrDType
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops, TensorCore
from planish.uop.pattern import anything, node
from planish.uop.tensor_cores import core_of


def _is_accumulator(x: UOp) -> bool:
    place = x.src[0] if x.op is Ops.LOAD else x
    if place.op is not Ops.INDEX:
        return False
    memory = place.src[0].dtype
    return isinstance(memory, PtrDType) and memory.space is AddrSpace.REG


def _starts_at_zero(tile: UOp) -> bool:
    start = tile.src[2]
    return start.op is Ops.CONST and start.arg == 0


def _give(x: UOp, tile: UOp) -> UOp | None:
    if not _is_accumulator(x) or not _starts_at_zero(tile):
        return None
    return tile.replace(src=(*tile.src[:2], x))


_TILE: Final = node(Ops.WMMA, name="tile")

pm_wmma_accumulate: Final = Matcher(
    "pm_wmma_accumulate",
    [
        rule(node(Ops.ADD, anything("x"), _TILE), _give, says="acc + WMMA(a, b, 0) -> WMMA(a, b, acc)"),
        rule(node(Ops.ADD, _TILE, anything("x")), _give, says="WMMA(a, b, 0) + acc -> WMMA(a, b, acc)"),
    ],
)


def _split(root: UOp) -> UOp | None:
    core = core_of(cast("TensorCore", root.arg))
    if core is None:
        return None
    count = root.dtype.lanes // core.lanes("c")
    if count == 1:
        return None
    tiles = []
    for position in range(count):
        src = []
        for source in root.src:
            lanes = source.dtype.lanes // count
            if source.op is Ops.CONST:
                src.append(source.replace(dtype=source.dtype.scalar.vec(lanes)))
            else:
                src.append(source.gep(*(lane * count + position for lane in range(lanes))))
        tiles.append(root.replace(dtype=root.dtype.scalar.vec(core.lanes("c")), src=tuple(src)))
    joined = root.table.make(Ops.CAT, root.dtype, tuple(tiles))
    lanes = core.lanes("c")
    return joined.gep(*(position * lanes + lane for lane in range(lanes) for position in range(count)))


pm_split_wmma: Final = Matcher(
    "pm_split_wmma", [rule(node(Ops.WMMA), _split, says="WMMA of several tiles -> one WMMA for each")]
)

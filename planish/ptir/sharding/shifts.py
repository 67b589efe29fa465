"""Shifts made whole: elements cropped at one end of an axis and padding put at the other are one `pad` again.

`canonicalize` writes a crop as a slice. For ranks that have an axis in parts both together are little: each takes an edge from its neighbour.
"""

from __future__ import annotations

from typing import cast

from planish.ptir import ops
from planish.ptir.function import Function, Inst
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.ptir.types import DimLike


def join_shifts(function: Function) -> int:
    """pad(slice(x)) -> pad(x) with negative amounts, where that keeps the sizes of x; gives how many."""
    rw = ProgramRewriter(function, pattern="shard")
    count = 0
    for inst in list(function.walk()):
        cropped = inst.operands[0].def_inst if inst.op is ops.pad else None
        if cropped is None or cropped.op is not ops.slice_:
            continue
        attrs = _joined(inst, cropped)
        if attrs is not None:
            rw.replace_with(inst, ops.pad, (cropped.operands[0], inst.operands[1]), attrs)
            count += 1
    return count


def _joined(pad: Inst, cropped: Inst) -> ops.PadAttrs | None:
    """What pads the source of the slice instead."""
    of, cut = cast("ops.PadAttrs", pad.attrs), cast("ops.SliceAttrs", cropped.attrs)
    source = cropped.operands[0].type.dims
    if pad.result.type.dims != source or any(of.interior) or any(step != 1 for step in cut.strides):
        return None
    low: list[DimLike] = []
    high: list[DimLike] = []
    for axis, size in enumerate(source):
        # either end is cropped or padded, not both
        before, after = cut.starts[axis], size - cut.limits[axis]
        if (before != 0 and of.low[axis] != 0) or (after != 0 and of.high[axis] != 0):
            return None
        low.append(of.low[axis] - before)
        high.append(of.high[axis] - after)
    return ops.PadAttrs(tuple(low), tuple(high), of.interior)

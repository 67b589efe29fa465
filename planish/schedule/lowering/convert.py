"""Constants, casts and bitcasts."""

from __future__ import annotations

from typing import Final, cast

import numpy as np

from planish.ptir.function import Inst
from planish.ptir.ops.convert import BitcastAttrs, CastAttrs
from planish.ptir.ops.definition import ConstantAttrs
from planish.schedule.lowering.elementwise import UNSIGNED
from planish.schedule.lowering.rules import Lowering, convert
from planish.schedule.tensors import SharedBuffer, Tensors, expand, full, reshape, shrink
from planish.uop.node import Number, UOp


def _constant(tensors: Tensors, inst: Inst) -> UOp:
    literal = cast("ConstantAttrs", inst.attrs).literal
    if literal.splat:
        return tensors.table.const(cast("Number", literal.item), literal.dtype)
    array = np.ascontiguousarray(literal.data).reshape(-1)
    return tensors.memory(SharedBuffer(literal.dtype, array.size, constant=array), literal.shape)


def _cast(tensors: Tensors, inst: Inst) -> UOp:
    return convert(tensors.values[inst.operands[0]], cast("CastAttrs", inst.attrs).dtype)


def _bitcast(tensors: Tensors, inst: Inst) -> UOp:
    """To a narrower type the bits are shifted down by the position on the new axis; to a wider one, joined."""
    target = cast("BitcastAttrs", inst.attrs).dtype
    x, dims = tensors.values[inst.operands[0]], tensors.dims_of(inst.operands[0])
    source = x.dtype
    if source.bits == target.bits:
        return x.bitcast(target)
    word, part = UNSIGNED[max(source.bits, target.bits)], UNSIGNED[min(source.bits, target.bits)]
    x = full(x, dims)
    if source.bits > target.bits:
        whole = (*dims, source.bits // target.bits)
        bits = expand(reshape(x.bitcast(word), (*dims, 1)), whole)
        amount = tensors.position(whole, len(dims)).cast(word) * target.bits
        return (bits >> amount).cast(part).bitcast(target)
    total: UOp | None = None
    for number in range(target.bits // source.bits):
        pairs = [*((0, dim) for dim in dims[:-1]), (number, number + 1)]
        piece = reshape(shrink(x, dims, pairs), dims[:-1]).bitcast(part).cast(word) << number * source.bits
        total = piece if total is None else total | piece
    return cast("UOp", total).bitcast(target)


CONVERT: Final[dict[str, Lowering]] = {"constant": _constant, "cast": _cast, "bitcast": _bitcast}

"""Sizes as data and data as sizes: dimension_size and bind_dim (docs/semantics.md 10)."""

from __future__ import annotations

from typing import Final, cast

from planish import dtypes
from planish.ptir.function import Inst
from planish.ptir.ops.sizes import BindDimAttrs, DimensionSizeAttrs
from planish.schedule.lowering.rules import Lowering
from planish.schedule.tensors import Tensors, full, shrink
from planish.uop.node import UOp


def _dimension_size(tensors: Tensors, inst: Inst) -> UOp:
    size = tensors.dims_of(inst.operands[0])[cast("DimensionSizeAttrs", inst.attrs).axis]
    return tensors.table.const(size, dtypes.int64) if isinstance(size, int) else size.cast(dtypes.int64)


def _bind_dim(tensors: Tensors, inst: Inst) -> UOp:
    """The first entries of an axis, as many as a variable says; its value is the count, within bounds."""
    attrs, dims = cast("BindDimAttrs", inst.attrs), tensors.dims_of(inst.operands[0])
    x, count = (tensors.values[operand] for operand in inst.operands)
    size = dims[attrs.axis]
    if not isinstance(size, int):
        count = count.min(size.cast(dtypes.int64))
    tensors.bound[attrs.name] = count.min(attrs.hi).max(attrs.lo)
    bound = tensors.dims_of(inst.results[0])[attrs.axis]
    pairs = [(0, bound if axis == attrs.axis else dim) for axis, dim in enumerate(dims)]
    return shrink(full(x, dims), dims, pairs)


SIZES: Final[dict[str, Lowering]] = {"dimension_size": _dimension_size, "bind_dim": _bind_dim}

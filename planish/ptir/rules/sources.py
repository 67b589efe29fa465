"""Where data begins: iota along one axis, empty results, and sizes asked of the nearest value that has them."""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.ops.definition import Attrs, OpKey
from planish.ptir.rewrite import views as v
from planish.ptir.rules import draft as d
from planish.ptir.rules.rule import Answer, family, rule


@rule(benefit=2)
def ReplaceUnitIota(op: v.IotaView) -> Answer:
    """iota over an axis of size 1 -> 0."""
    return d.number(0, op.type) if op.dims[op.attrs.axis] == 1 else "it counts beyond 0"


@rule()
def SplitIota(op: v.IotaView) -> Answer:
    """iota(s; a) -> broadcast_to(reshape(iota(s[a])), s): what is computed from it is computed once per number."""
    dims, axis = op.dims, op.attrs.axis
    if len(dims) == 1:
        return "it is a line already"
    line = d.draft(ops.iota, (), ops.IotaAttrs(op.dtype, (dims[axis],), 0))
    column = d.reshaped(line, (dims[axis], *[1] * (len(dims) - 1 - axis)))
    return d.broadcasted(column, dims)


class MovedView(
    v.SourceView[Attrs],
    roots=(
        OpKey.RESHAPE, OpKey.TRANSPOSE, OpKey.BROADCAST_TO, OpKey.SLICE, OpKey.REVERSE, OpKey.PAD,
        OpKey.CONCAT, OpKey.GATHER, OpKey.SCATTER, OpKey.DYNAMIC_SLICE, OpKey.DYNAMIC_UPDATE_SLICE,
        OpKey.IOTA,
    ),
):  # fmt: skip
    """Any op that moves data."""


@rule(benefit=4, when=lambda op: 0 in op.dims)
def ReplaceEmptyByConstant(op: MovedView) -> Answer:
    """move(x) -> constant where the result has no elements."""
    return d.empty(op.type)


class DimensionSizeView(v.SourceView[ops.DimensionSizeAttrs], roots=(OpKey.DIMENSION_SIZE,)):
    """`dimension_size(source; axis)`."""


@rule(radius=1)
def LiftDimensionSize(op: DimensionSizeView) -> Answer:
    """dimension_size(f(x)) -> dimension_size(x) where x has an axis of the same size: f need not run for it."""
    size = op.source.type.dims[op.attrs.axis]
    inner = op.source.def_inst
    for value in () if inner is None else inner.operands:
        if size in value.type.dims:
            axis = value.type.dims.index(size)
            return d.draft(ops.dimension_size, (value,), ops.DimensionSizeAttrs(axis))
    return "no operand has an axis of that size"


populate_canonicalization = family(__name__)

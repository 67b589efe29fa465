"""Where data begins: iota along one axis, empty results, and sizes asked of the nearest value that has them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from planish.ptir import ops
from planish.ptir.ops.definition import Attrs, OpKey
from planish.ptir.ops.literal import Literal
from planish.ptir.rewrite.pattern import Root
from planish.ptir.rewrite.prelude import (
    IotaView,
    OpRewritePattern,
    PatternSet,
    ProgramRewriter,
    SourceView,
)
from planish.ptir.rules import draft as d


class ReplaceUnitIota(OpRewritePattern[IotaView]):
    """iota over an axis of size 1 -> 0."""

    benefit = 2
    radius = 0

    def match_and_rewrite(self, op: IotaView, rw: ProgramRewriter) -> bool:
        if op.dims[op.attrs.axis] != 1:
            return rw.fail(op.inst, "it counts beyond 0")
        return d.replace(rw, op.inst, d.number(0, op.type))


class SplitIota(OpRewritePattern[IotaView]):
    """iota(s; a) -> broadcast_to(reshape(iota(s[a])), s): what is computed from it is computed once per number."""

    radius = 0

    def match_and_rewrite(self, op: IotaView, rw: ProgramRewriter) -> bool:
        dims, axis = op.dims, op.attrs.axis
        if len(dims) == 1:
            return rw.fail(op.inst, "it is a line already")
        line = d.draft(ops.iota, (), ops.IotaAttrs(op.dtype, (dims[axis],), 0))
        column = d.reshaped(line, (dims[axis], *[1] * (len(dims) - 1 - axis)))
        return d.replace(rw, op.inst, d.broadcasted(column, dims))


class MovedView(SourceView[Attrs]):
    """Any op that moves data."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (
        OpKey.RESHAPE,
        OpKey.TRANSPOSE,
        OpKey.BROADCAST_TO,
        OpKey.SLICE,
        OpKey.REVERSE,
        OpKey.PAD,
        OpKey.CONCAT,
        OpKey.GATHER,
        OpKey.SCATTER,
        OpKey.DYNAMIC_SLICE,
        OpKey.DYNAMIC_UPDATE_SLICE,
        OpKey.IOTA,
    )


class ReplaceEmptyByConstant(OpRewritePattern[MovedView]):
    """move(x) -> constant where the result has no elements."""

    benefit = 4
    radius = 0

    def may_match(self, op: MovedView, rw: ProgramRewriter) -> bool:
        return 0 in op.dims

    def match_and_rewrite(self, op: MovedView, rw: ProgramRewriter) -> bool:
        if not op.type.is_static:
            return rw.fail(op.inst, "a constant needs a static shape")
        empty = Literal(np.empty(op.type.shape, op.dtype.numpy), dtype=op.dtype)
        return d.replace(rw, op.inst, d.constant(empty, op.type.quant))


class DimensionSizeView(SourceView[ops.DimensionSizeAttrs]):
    """`dimension_size(source; axis)`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.DIMENSION_SIZE,)


class LiftDimensionSize(OpRewritePattern[DimensionSizeView]):
    """dimension_size(f(x)) -> dimension_size(x) where x has an axis of the same size: f need not run for it."""

    radius = 1

    def match_and_rewrite(self, op: DimensionSizeView, rw: ProgramRewriter) -> bool:
        size = op.source.type.dims[op.attrs.axis]
        inner = op.source.def_inst
        for value in () if inner is None else inner.operands:
            if size in value.type.dims:
                axis = value.type.dims.index(size)
                sized = d.draft(ops.dimension_size, (value,), ops.DimensionSizeAttrs(axis))
                return d.replace(rw, op.inst, sized)
        return rw.fail(op.inst, "no operand has an axis of that size")


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns of iota, of empty results and of sizes."""
    patterns.add(ReplaceUnitIota, SplitIota, ReplaceEmptyByConstant, LiftDimensionSize)

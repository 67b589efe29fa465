"""Casts and bitcasts: chains collapse only where no value can change.

Casting wraps between integers and saturates from floats to integers (semantics section 5), so whether an
intermediate dtype may be skipped depends on all three dtypes; `may_skip` is that table, and a test compares it
with the interpreter for every triple.
"""

from __future__ import annotations

from planish.dtypes import DType, float_format, value_preserving
from planish.ptir import ops
from planish.ptir.dims import bounds
from planish.ptir.rewrite.prelude import (
    BitcastView,
    CastView,
    IotaView,
    OpRewritePattern,
    PatternSet,
    ProgramRewriter,
)
from planish.ptir.rules import draft as d


def may_skip(first: DType, middle: DType, last: DType) -> bool:
    """Whether cast(cast(x: first, middle), last) is cast(x, last) for every x."""
    if first.is_complex and not (last.is_complex or last.is_bool):
        return False
    if first.is_int and middle.is_int and last.is_int:
        # Both casts keep the value modulo a power of two, and the second one's divides the first one's.
        return last.bits <= middle.bits or value_preserving(first, middle)
    if not value_preserving(first, middle):
        return False
    # The middle has the value exactly; what is left is whether `last` reads it alike from both. It does unless
    # an integer would wrap where the float between saturates.
    if first.is_int and last.is_int and not middle.is_int:
        return value_preserving(first, last)
    return True


class RemoveNoOpCast(OpRewritePattern[CastView]):
    """cast(x: T, T) -> x."""

    benefit = 3
    radius = 0

    def match_and_rewrite(self, op: CastView, rw: ProgramRewriter) -> bool:
        if op.source.type != op.type:
            return rw.fail(op.inst, "the dtype changes")
        rw.replace_op(op.inst, op.source)
        return True


class FoldCastOfCast(OpRewritePattern[CastView]):
    """cast(cast(x: A, B), C) -> cast(x, C) where going through B changes no value."""

    benefit = 2
    radius = 1
    operands = (ops.cast,)

    def match_and_rewrite(self, op: CastView, rw: ProgramRewriter) -> bool:
        inner = CastView.of(op.source)
        if inner is None:
            return False
        x = inner.source
        if not may_skip(x.type.dtype, inner.dtype, op.dtype):
            return rw.fail(
                op.inst,
                f"{x.type.dtype} to {inner.dtype} to {op.dtype} differs from {x.type.dtype} to {op.dtype}",
            )
        return d.replace(rw, op.inst, d.cast_to(x, op.type))


class FoldCastOfIota(OpRewritePattern[CastView]):
    """cast(iota: A, B) -> iota: B where A holds every number counted."""

    radius = 1
    operands = (ops.iota,)

    def match_and_rewrite(self, op: CastView, rw: ProgramRewriter) -> bool:
        counted = IotaView.of(op.source)
        if counted is None:
            return False
        attrs = counted.attrs
        last = bounds(attrs.dims[attrs.axis])[1] - 1
        if not counts_exactly(attrs.dtype, last):
            return rw.fail(op.inst, f"{attrs.dtype} does not hold every number up to {last}")
        return d.replace(rw, op.inst, d.draft(ops.iota, (), ops.IotaAttrs(op.dtype, attrs.dims, attrs.axis)))

    def may_match(self, op: CastView, rw: ProgramRewriter) -> bool:
        return not op.dtype.is_bool


def counts_exactly(dtype: DType, last: int) -> bool:
    """Whether a dtype holds 0, 1 … last, each exactly."""
    if dtype.is_int:
        return dtype.max is not None and last <= dtype.max
    if dtype.is_float:
        # All integers up to 2**precision are floats of that precision, if the exponent reaches that far.
        form = float_format(dtype)
        return last <= 2**form.precision and dtype.max is not None and last <= dtype.max
    return False


class RemoveNoOpBitcast(OpRewritePattern[BitcastView]):
    """bitcast(x: T, T) -> x."""

    benefit = 3
    radius = 0

    def match_and_rewrite(self, op: BitcastView, rw: ProgramRewriter) -> bool:
        if op.source.type != op.type:
            return rw.fail(op.inst, "the type changes")
        rw.replace_op(op.inst, op.source)
        return True


class FoldBitcastOfBitcast(OpRewritePattern[BitcastView]):
    """bitcast(bitcast(x, B), C) -> bitcast(x, C)."""

    benefit = 2
    radius = 1
    operands = (ops.bitcast,)

    def match_and_rewrite(self, op: BitcastView, rw: ProgramRewriter) -> bool:
        inner = BitcastView.of(op.source)
        if inner is None:
            return False
        x = inner.source
        # Where two of the widths agree, one step does what the two did; otherwise the shapes differ.
        return d.replace(rw, op.inst, d.draft(ops.bitcast, (x,), ops.BitcastAttrs(op.dtype)))


class ReplaceIntegerBitcastByCast(OpRewritePattern[BitcastView]):
    """bitcast(x: integer, integer of that width) -> cast(x): wrapping keeps the bits."""

    radius = 0

    def match_and_rewrite(self, op: BitcastView, rw: ProgramRewriter) -> bool:
        source = op.source.type
        if source.quant is not None or not (source.dtype.is_int and op.dtype.is_int):
            return rw.fail(op.inst, "not a plain integer read as another")
        if source.dtype.bits != op.dtype.bits or source.dtype is op.dtype:
            return rw.fail(op.inst, "the widths differ")
        return d.replace(rw, op.inst, d.cast_to(op.source, op.type))


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns of casts and bitcasts."""
    patterns.add(
        RemoveNoOpCast,
        FoldCastOfCast,
        FoldCastOfIota,
        RemoveNoOpBitcast,
        FoldBitcastOfBitcast,
        ReplaceIntegerBitcastByCast,
    )

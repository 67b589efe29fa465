"""Casts and bitcasts: chains collapse only where no value can change.

Casting wraps between integers and saturates from floats to integers (semantics section 5), so whether an
intermediate dtype may be skipped depends on all three dtypes; `may_skip` is that table, and a test compares it
with the interpreter for every triple.
"""

from __future__ import annotations

from planish.dtypes import DType, float_format, value_preserving
from planish.ptir import ops
from planish.ptir.dims import bounds
from planish.ptir.rewrite import views as v
from planish.ptir.rules import draft as d
from planish.ptir.rules.rule import Answer, family, rule


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


@rule(benefit=3)
def RemoveNoOpCast(op: v.CastView) -> Answer:
    """cast(x: T, T) -> x."""
    return op.source if op.source.type == op.type else "the dtype changes"


@rule(benefit=2)
def FoldCastOfCast(op: v.CastView, inner: v.CastView) -> Answer:
    """cast(cast(x: A, B), C) -> cast(x, C) where going through B changes no value."""
    x = inner.source
    if not may_skip(x.type.dtype, inner.dtype, op.dtype):
        return f"{x.type.dtype} to {inner.dtype} to {op.dtype} differs from {x.type.dtype} to {op.dtype}"
    return d.cast_to(x, op.type)


@rule(when=lambda op: not op.dtype.is_bool)
def FoldCastOfIota(op: v.CastView, counted: v.IotaView) -> Answer:
    """cast(iota: A, B) -> iota: B where A holds every number counted."""
    attrs = counted.attrs
    last = bounds(attrs.dims[attrs.axis])[1] - 1
    if not counts_exactly(attrs.dtype, last):
        return f"{attrs.dtype} does not hold every number up to {last}"
    return d.draft(ops.iota, (), ops.IotaAttrs(op.dtype, attrs.dims, attrs.axis))


def counts_exactly(dtype: DType, last: int) -> bool:
    """Whether a dtype holds 0, 1 … last, each exactly."""
    if dtype.is_int:
        return dtype.max is not None and last <= dtype.max
    if dtype.is_float:
        # All integers up to 2**precision are floats of that precision, if the exponent reaches that far.
        form = float_format(dtype)
        return last <= 2**form.precision and dtype.max is not None and last <= dtype.max
    return False


@rule(benefit=3)
def RemoveNoOpBitcast(op: v.BitcastView) -> Answer:
    """bitcast(x: T, T) -> x."""
    return op.source if op.source.type == op.type else "the type changes"


@rule(benefit=2)
def FoldBitcastOfBitcast(op: v.BitcastView, inner: v.BitcastView) -> Answer:
    """bitcast(bitcast(x, B), C) -> bitcast(x, C)."""
    x = inner.source
    # Where two of the widths agree, one step does what the two did; otherwise the shapes differ.
    return d.draft(ops.bitcast, (x,), ops.BitcastAttrs(op.dtype))


@rule()
def ReplaceIntegerBitcastByCast(op: v.BitcastView) -> Answer:
    """bitcast(x: integer, integer of that width) -> cast(x): wrapping keeps the bits."""
    source = op.source.type
    if source.quant is not None or not (source.dtype.is_int and op.dtype.is_int):
        return "not a plain integer read as another"
    if source.dtype.bits != op.dtype.bits or source.dtype is op.dtype:
        return "the widths differ"
    return d.cast_to(op.source, op.type)


populate_canonicalization = family(__name__)

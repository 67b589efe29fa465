"""Complex numbers: parts of what was joined, and joined parts."""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.function import Inst
from planish.ptir.ops.definition import OpDef
from planish.ptir.rewrite import views as v
from planish.ptir.rewrite.prelude import Attrs
from planish.ptir.rules import draft as d
from planish.ptir.rules.numbers import CONSTANT, filled, number_of, signed_zero
from planish.ptir.rules.rule import Answer, family, rule

PARTS: tuple[OpDef, ...] = (ops.real, ops.imag)


class PartView(v.SourceView[Attrs], roots=(ops.real, ops.imag)):
    """`real(source)` or `imag(source)`."""


class JoinView(v.OpView, roots=(ops.complex,)):
    """`complex(real, imaginary)`."""


@rule(benefit=4, operands=(ops.complex,))
def FoldPartOfComplex(op: PartView, inner: Inst) -> Answer:
    """real(complex(x, y)) -> x, imag(complex(x, y)) -> y."""
    return inner.operands[0 if op.op is ops.real else 1]


@rule(benefit=3, operands=(ops.cast,))
def FoldPartOfCast(op: PartView, inner: Inst) -> Answer:
    """real(cast(x: real)) -> cast(x) to the part's dtype, imag(cast(x: real)) -> 0."""
    if inner.operands[0].type.dtype.is_complex:
        return "it was complex before the cast"
    if op.op is ops.imag:
        return filled(op.type, 0)
    return d.cast_to(inner.operands[0], op.type)


@rule(benefit=3, operands=((ops.conj, ops.neg),))
def SinkSignBelowPart(op: PartView, inner: Inst) -> Answer:
    """real(conj(z)) -> real(z), imag(conj(z)) -> -imag(z), real(-z) -> -real(z), imag(-z) -> -imag(z)."""
    part = d.draft(op.op, (inner.operands[0],))
    if inner.op is ops.conj and op.op is ops.real:
        return part
    return d.draft(ops.neg, (part,))


@rule(benefit=2, operands=((ops.add, ops.sub),), watch_uses=True)
def SplitPartOfSum(op: PartView, inner: Inst) -> Answer:
    """real(z + w) -> real(z) + real(w), and of imag and -, if nothing else needs the complex sum."""
    if not op.source.has_one_use:
        return "the complex sum is needed elsewhere"
    parts = [d.draft(op.op, (value,)) for value in inner.operands]
    return d.draft(inner.op, parts)


@rule(benefit=4, radius=2, operands=(ops.real, ops.imag))
def FoldComplexOfParts(op: JoinView, left: Inst, right: Inst) -> Answer:
    """complex(real(z), imag(z)) -> z."""
    return left.operands[0] if left.operands[0] is right.operands[0] else "parts of different numbers"


@rule(benefit=2, radius=2, any_operand=CONSTANT)
def ReplaceComplexOfRealByCast(op: JoinView) -> Answer:
    """complex(x, 0) -> cast(x)."""
    number = number_of(op.operands[1])
    if number is None or not signed_zero(number, 1.0):
        return "the imaginary part is not +0"
    return d.cast_to(op.operands[0], op.type)


@rule(benefit=2, roots=(ops.conj,), operands=(ops.complex,))
def FoldConjOfComplex(op: v.UnaryView, inner: Inst) -> Answer:
    """conj(complex(x, y)) -> complex(x, -y)."""
    x, y = inner.operands
    return d.draft(ops.complex, (x, d.draft(ops.neg, (y,))))


populate_canonicalization = family(__name__)

"""Complex numbers: parts of what was joined, and joined parts."""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.function import Inst
from planish.ptir.rewrite import views as v
from planish.ptir.rewrite.prelude import Attrs, signed_zero
from planish.ptir.rules import draft as d
from planish.ptir.rules.lawful import by_laws
from planish.ptir.rules.numbers import CONSTANT, filled, number_of
from planish.ptir.rules.rule import Answer, family, rule


class PartView(v.SourceView[Attrs], roots=(ops.real, ops.imag)):
    """`real(source)` or `imag(source)`."""


class JoinView(v.OpView, roots=(ops.complex,)):
    """`complex(real, imaginary)`."""


by_laws(__name__, FoldPartOfComplex=4)


@rule(benefit=3, operands=(ops.cast,))
def FoldPartOfCast(op: PartView, inner: Inst) -> Answer:
    """real(cast(x: real)) -> cast(x) to the part's dtype, imag(cast(x: real)) -> 0."""
    if inner.operands[0].type.dtype.is_complex:
        return "it was complex before the cast"
    if op.op is ops.imag:
        return filled(op.type, 0)
    return d.cast_to(inner.operands[0], op.type)


by_laws(__name__, SinkSignBelowPart=3, SplitPartOfSum=2, FoldComplexOfParts=4)


@rule(benefit=2, radius=2, any_operand=CONSTANT)
def ReplaceComplexOfRealByCast(op: JoinView) -> Answer:
    """complex(x, 0) -> cast(x)."""
    number = number_of(op.operands[1])
    if number is None or not signed_zero(number, 1.0):
        return "the imaginary part is not +0"
    return d.cast_to(op.operands[0], op.type)


by_laws(__name__, FoldConjOfComplex=2)

populate_canonicalization = family(__name__)

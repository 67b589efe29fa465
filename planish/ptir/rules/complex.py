"""Complex numbers: parts of what was joined, and joined parts."""

from __future__ import annotations

from typing import ClassVar

from planish.ptir import ops
from planish.ptir.ops.definition import OpDef
from planish.ptir.rewrite.pattern import Root
from planish.ptir.rewrite.prelude import (
    Attrs,
    OpRewritePattern,
    OpView,
    PatternSet,
    ProgramRewriter,
    SourceView,
    UnaryView,
)
from planish.ptir.rules import draft as d
from planish.ptir.rules.numbers import CONSTANT, filled, number_of, signed_zero

PARTS: tuple[OpDef, ...] = (ops.real, ops.imag)


class PartView(SourceView[Attrs]):
    """`real(source)` or `imag(source)`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (ops.real, ops.imag)


class JoinView(OpView):
    """`complex(real, imaginary)`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (ops.complex,)


class FoldPartOfComplex(OpRewritePattern[PartView]):
    """real(complex(x, y)) -> x, imag(complex(x, y)) -> y."""

    benefit = 4
    radius = 1
    operands = (ops.complex,)

    def match_and_rewrite(self, op: PartView, rw: ProgramRewriter) -> bool:
        inner = op.source.def_inst
        if inner is None:
            return False
        return d.replace(rw, op.inst, inner.operands[0 if op.op is ops.real else 1])


class FoldPartOfCast(OpRewritePattern[PartView]):
    """real(cast(x: real)) -> cast(x) to the part's dtype, imag(cast(x: real)) -> 0."""

    benefit = 3
    radius = 1
    operands = (ops.cast,)

    def match_and_rewrite(self, op: PartView, rw: ProgramRewriter) -> bool:
        inner = op.source.def_inst
        if inner is None or inner.operands[0].type.dtype.is_complex:
            return rw.fail(op.inst, "it was complex before the cast")
        if op.op is ops.imag:
            return d.replace(rw, op.inst, filled(op.type, 0))
        return d.replace(rw, op.inst, d.cast_to(inner.operands[0], op.type))


class SinkSignBelowPart(OpRewritePattern[PartView]):
    """real(conj(z)) -> real(z), imag(conj(z)) -> -imag(z), real(-z) -> -real(z), imag(-z) -> -imag(z)."""

    benefit = 3
    radius = 1
    operands = ((ops.conj, ops.neg),)

    def match_and_rewrite(self, op: PartView, rw: ProgramRewriter) -> bool:
        inner = op.source.def_inst
        if inner is None:
            return False
        part = d.draft(op.op, (inner.operands[0],))
        if inner.op is ops.conj and op.op is ops.real:
            return d.replace(rw, op.inst, part)
        return d.replace(rw, op.inst, d.draft(ops.neg, (part,)))


class SplitPartOfSum(OpRewritePattern[PartView]):
    """real(z + w) -> real(z) + real(w), and of imag and -, if nothing else needs the complex sum."""

    benefit = 2
    radius = 1
    watch_uses = True
    operands = ((ops.add, ops.sub),)

    def match_and_rewrite(self, op: PartView, rw: ProgramRewriter) -> bool:
        inner = op.source.def_inst
        if inner is None or not op.source.has_one_use:
            return rw.fail(op.inst, "the complex sum is needed elsewhere")
        parts = [d.draft(op.op, (value,)) for value in inner.operands]
        return d.replace(rw, op.inst, d.draft(inner.op, parts))


class FoldComplexOfParts(OpRewritePattern[JoinView]):
    """complex(real(z), imag(z)) -> z."""

    benefit = 4
    radius = 2
    operands = (ops.real, ops.imag)

    def match_and_rewrite(self, op: JoinView, rw: ProgramRewriter) -> bool:
        left, right = op.operands[0].def_inst, op.operands[1].def_inst
        if left is None or right is None or left.operands[0] is not right.operands[0]:
            return rw.fail(op.inst, "parts of different numbers")
        return d.replace(rw, op.inst, left.operands[0])


class ReplaceComplexOfRealByCast(OpRewritePattern[JoinView]):
    """complex(x, 0) -> cast(x)."""

    benefit = 2
    radius = 2
    any_operand = CONSTANT

    def match_and_rewrite(self, op: JoinView, rw: ProgramRewriter) -> bool:
        number = number_of(op.operands[1])
        if number is None or not signed_zero(number, 1.0):
            return rw.fail(op.inst, "the imaginary part is not +0")
        return d.replace(rw, op.inst, d.cast_to(op.operands[0], op.type))


class FoldConjOfComplex(OpRewritePattern[UnaryView]):
    """conj(complex(x, y)) -> complex(x, -y)."""

    benefit = 2
    radius = 1
    roots = (ops.conj,)
    operands = (ops.complex,)

    def match_and_rewrite(self, op: UnaryView, rw: ProgramRewriter) -> bool:
        inner = op.source.def_inst
        if inner is None:
            return False
        x, y = inner.operands
        return d.replace(rw, op.inst, d.draft(ops.complex, (x, d.draft(ops.neg, (y,)))))


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns of complex numbers."""
    patterns.add(
        FoldPartOfComplex,
        FoldPartOfCast,
        SinkSignBelowPart,
        SplitPartOfSum,
        FoldComplexOfParts,
        ReplaceComplexOfRealByCast,
        FoldConjOfComplex,
    )

"""Which integers of a kernel are sure not to wrap: the least and the greatest value of counters and what is computed from them.

LLVM takes an address apart into a base, a stride and an offset only if the sums in its index do not wrap. That is so for
index arithmetic, whose bounds decided its width, but an instruction does not say where it comes from; so it is found out anew,
from the bounds of loops, of special indices and of variables. What is not known has no span.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from planish.dtypes import DType
from planish.llir.program import Compute, Convert, Immediate, Loop, Operand, Ops, Program, Register, Special

Span = tuple[int, int]


def _corners(op: Callable[[int, int], int]) -> Callable[[Span, Span], Span | None]:
    def apply(a: Span, b: Span) -> Span:
        corners = [op(x, y) for x in a for y in b]
        return min(corners), max(corners)

    return apply


def _shifted(a: Span, b: Span) -> Span | None:
    # index arithmetic has 32 bits at least; beyond the width a shift is not that of numbers
    return (
        (min(a[0] << b[0], a[0] << b[1]), max(a[1] << b[0], a[1] << b[1])) if 0 <= b[0] <= b[1] < 31 else None
    )


def _shifted_back(a: Span, b: Span) -> Span | None:
    return (a[0] >> b[1], a[1] >> b[0]) if 0 <= b[0] <= b[1] and a[0] >= 0 else None


_RULES: Final[dict[Ops, Callable[[Span, Span], Span | None]]] = {
    Ops.ADD: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    Ops.SUB: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    Ops.MUL: _corners(lambda x, y: x * y),
    Ops.MIN: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    Ops.MAX: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    Ops.SHL: _shifted,
    Ops.SHR: _shifted_back,
    Ops.TRUNCDIV: lambda a, b: (a[0] // b[1], a[1] // b[0]) if b[0] > 0 and a[0] >= 0 else None,
    Ops.TRUNCMOD: lambda a, b: (0, min(a[1], b[1] - 1)) if b[0] > 0 and a[0] >= 0 else None,
}


def spans_of(program: Program) -> dict[Register, Span]:
    """The span of every scalar of a signed dtype that has one: there the arithmetic of its op is that of whole numbers."""
    spans: dict[Register, Span] = {v.result: (v.low, v.high) for v in program.variables}
    for i in program.body:
        if isinstance(i, Compute):
            dtype = i.result.dtype
            if dtype.lanes > 1 or not dtype.is_signed:
                continue
            span = _computed(i, [span_of(x, spans) for x in i.inputs])
            if span is not None:
                spans[i.result] = span
        elif isinstance(i, Loop):
            last = span_of(i.bound, spans)
            if last is not None:
                spans[i.counter] = 0, max(last[1] - 1, 0)
        elif isinstance(i, Special):
            last = span_of(i.bound, spans)
            if last is not None:
                spans[i.result] = 0, max(last[1] - 1, 0)
        elif isinstance(i, Convert):
            whole = i.result.dtype.lanes == 1 and i.result.dtype.is_signed and i.operand.dtype.is_int
            span = _within(i.result.dtype, span_of(i.operand, spans)) if whole else None
            if span is not None:
                spans[i.result] = span
    return spans


def _computed(i: Compute, spans: list[Span | None]) -> Span | None:
    """The span of a result, if it is what arithmetic on whole numbers gives."""
    dtype = i.result.dtype
    if i.op is Ops.MULACC:
        a, b, c = spans
        product = _within(dtype, None if a is None or b is None else _RULES[Ops.MUL](a, b))
        return _within(dtype, None if product is None or c is None else _RULES[Ops.ADD](product, c))
    rule = _RULES.get(i.op)
    if rule is None or spans[0] is None or spans[1] is None:
        return None
    return _within(dtype, rule(spans[0], spans[1]))


def _within(dtype: DType, span: Span | None) -> Span | None:
    """The span, if a signed dtype holds all of it."""
    half = 1 << dtype.bits - 1
    return span if span is not None and -half <= span[0] and span[1] < half else None


def span_of(operand: Operand, known: dict[Register, Span]) -> Span | None:
    """The span of an operand."""
    if isinstance(operand, Immediate):
        value = operand.value
        return (value, value) if isinstance(value, int) and not isinstance(value, bool) else None
    return known.get(operand)

"""Exponentials, and what is made of them, of which nobody sees more than 16 bits: the machine's estimate of a power of two does.

A softmax in bf16 computes in float32 and rounds at its end. What an exponential is off by, a part of its value, passes through
products, quotients and sums of what has no sign, and is a part of their values again; rounding to 16 bits then loses a hundred times as
much. Differences may cancel: an exponential that comes to one stays as it is, and so does one that is stored, or compared, as it is.

    e**x = 2**(x log2 e), about      off by at most 2**-16 of the value; below the normal numbers 0
    1 + tanh x = 2 / (1 + e**(-2x))  which cancels nothing; e**(-2x) as above
    1 + erf x = erfc(-x)             e**(-x**2) P(1 / (1 + c |x|)), off by 2**-17 of the value; or two less that
    1 / x, y / x                     by the estimate of 1 / x, where x is a sum that a constant keeps away from 0

The last makes results of less than y * 2**-126 zero: no 16 bits that are not below the normal numbers as well, unless y is large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from planish import dtypes
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import substitute

_LOG2E: Final = math.log2(math.e)
_ERFC: Final = (0.24856096, 0.24257018, 0.26358365, 0.04073644, 0.35064752, -0.14610392)
"""e**(x**2) erfc x, 0 <= x: coefficients of t, t**2, … with t = 1 / (1 + c x); a minimax fit of the relative error up to 10.5."""
_ERFC_SCALE: Final = 0.44
_LEAST: Final = 2.0**-64
"""A constant that keeps a divisor away from numbers whose reciprocal is none."""
_NARROW: Final = 16
"""Bits of a float that hide what an estimate is off by."""
_KEEPS: Final = frozenset(
    {Ops.MUL, Ops.FDIV, Ops.RECIP, Ops.SQRT, Ops.RSQRT, Ops.NEG, Ops.ABS, Ops.MAX, Ops.MIN, Ops.WHERE}
    | {Ops.BUFFERIZE, Ops.INDEX}
)
"""Ops whose value is off by about as much as an operand is, each as a part of its value."""
_POWERS: Final = frozenset({Ops.EXP, Ops.EXP2, Ops.EXP2_ESTIMATE, Ops.SQRT, Ops.RSQRT, Ops.ABS})
_AS_OPERANDS: Final = frozenset(
    {Ops.MUL, Ops.FDIV, Ops.RECIP, Ops.ADD, Ops.MAX, Ops.MIN, Ops.REDUCE, Ops.CAST}
)
"""Ops that are not negative if no operand is."""


def _is_real(node: UOp) -> bool:
    """Whether it is a float, or memory of floats."""
    return node.dtype.is_pointer or node.dtype.is_float


def _without_sign(nodes: Iterable[UOp]) -> frozenset[UOp]:
    """Values that are never negative, of nodes in order."""
    unsigned: set[UOp] = set()
    for n in nodes:
        operands = [s for s in n.src if _is_real(s)]
        if (
            n.op in _POWERS
            or (n.op is Ops.CONST and isinstance(n.arg, int | float) and n.arg >= 0)
            or (n.op is Ops.MUL and n.src[0] is n.src[1])
            or (
                n.op in {Ops.BUFFERIZE, Ops.INDEX, Ops.WHERE} | _AS_OPERANDS and unsigned.issuperset(operands)
            )
        ) and (operands or n.op is Ops.CONST):
            unsigned.add(n)
    return frozenset(unsigned)


def near_enough(sink: UOp) -> UOp:
    """The kernel, with estimates for what is computed in float32 and rounded to 16 bits wherever it leads to."""
    return _exchanged(_exchanged(sink, _estimate), _quotient)


def _exchanged(sink: UOp, of: Callable[[UOp], UOp | None]) -> UOp:
    """The kernel with estimates in place of values that nobody sees all bits of."""
    nodes = list(sink.toposort())
    pairs = [(n, estimate) for n in nodes if n.dtype is dtypes.float32 and (estimate := of(n)) is not None]
    if not pairs:
        return sink
    loose = _loose(nodes)
    return substitute(sink, {n: estimate for n, estimate in pairs if n in loose})


def _estimate(node: UOp) -> UOp | None:
    """What a value is about."""
    if node.op is Ops.EXP:
        return (node.src[0] * _LOG2E).alu(Ops.EXP2_ESTIMATE)
    if node.op is Ops.ADD and node.src[1] is node.const_like(1.0):
        if node.src[0].op is Ops.TANH:
            power = (node.src[0].src[0] * (-2.0 * _LOG2E)).alu(Ops.EXP2_ESTIMATE)
            return (power + 1.0).alu(Ops.RECIP_ESTIMATE) * 2.0
        if node.src[0].op is Ops.ERF:
            return _one_plus_erf(node.src[0].src[0])
    return None


def _one_plus_erf(x: UOp) -> UOp:
    size = (x < 0.0).where(-x, x)
    t = size.alu(Ops.MULACC, x.const_like(_ERFC_SCALE), x.const_like(1.0)).alu(Ops.RECIP_ESTIMATE)
    polynomial = x.const_like(_ERFC[-1])
    for coefficient in _ERFC[-2::-1]:
        polynomial = polynomial.alu(Ops.MULACC, t, x.const_like(coefficient))
    tail = polynomial * t * (x * x * -_LOG2E).alu(Ops.EXP2_ESTIMATE)
    return (x < 0.0).where(tail, 2.0 - tail)


def _quotient(node: UOp) -> UOp | None:
    """A quotient whose divisor is a sum of what has no sign and a constant."""
    if node.op not in {Ops.RECIP, Ops.FDIV}:
        return None
    divisor = node.src[-1]
    least = divisor.src[-1] if divisor.op is Ops.ADD else divisor
    if least.op is not Ops.CONST or not isinstance(least.arg, float) or least.arg < _LEAST:
        return None
    if divisor not in _without_sign(divisor.toposort()):
        return None
    estimate = divisor.alu(Ops.RECIP_ESTIMATE)
    return estimate if node.op is Ops.RECIP else node.src[0] * estimate


def _loose(nodes: Sequence[UOp]) -> set[UOp]:
    """The values of which nobody sees more than 16 bits."""
    unsigned = _without_sign(nodes)
    users: dict[UOp, list[UOp]] = {n: [] for n in nodes}
    for n in nodes:
        for source in n.src:
            users[source].append(n)
    loose: set[UOp] = set()

    def allows(user: UOp) -> bool:
        if user.op is Ops.CAST:
            return user.dtype.is_float and (user.dtype.bits <= _NARROW or user in loose)
        if user.op is Ops.REDUCE:
            added = user.arg is Ops.ADD and user.src[0] in unsigned
            return (added or user.arg is Ops.MAX) and user in loose
        if user.op is Ops.ADD:
            return unsigned.issuperset(user.src) and user in loose
        return user.op in _KEEPS and user in loose

    for n in reversed(nodes):
        if _is_real(n) and users[n] and all(map(allows, users[n])):
            loose.add(n)
    return loose

"""Expressions as z3 terms: `index` as exact integers, wrapping integers as bit vectors, bools as bools.

z3's integer division is Euclidean (the remainder is never negative); ours is by floor or towards zero, and a zero
divisor gives 0. What has no faithful term (floats, bits of an index, symbolic shifts) raises `Untranslatable`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import z3

from planish.uop.node import UOp
from planish.uop.ops import Ops

Term = Any


class Untranslatable(Exception):
    """The expression has a node that z3 is not asked about."""


def translate(root: UOp, leaves: dict[UOp, Term]) -> Term:
    """The term of `root`; terms of free nodes are made as they turn up and left in `leaves`."""
    done: dict[UOp, Term] = leaves
    for node in root.toposort(lambda n: n not in done):
        if node not in done:
            done[node] = _term(node, [done[s] for s in node.src] if not _is_free(node) else [])
    return done[root]


def within_bounds(node: UOp, term: Term) -> Term:
    """That a free node has a value in its interval."""
    if node.dtype.is_bool:
        return z3.BoolVal(True)
    low, high = node._interval()
    if node.dtype.is_unsigned:
        return z3.And(z3.ULE(low, term), z3.ULE(term, high))
    return z3.And(low <= term, term <= high)


def _is_free(node: UOp) -> bool:
    return node.op in (Ops.DEFINE_VAR, Ops.RANGE, Ops.SPECIAL, Ops.INDEX, Ops.LOAD)


def _term(node: UOp, sources: list[Term]) -> Term:
    dtype = node.dtype
    if dtype.lanes > 1 or not (dtype.is_integral or dtype.is_bool):
        raise Untranslatable(f"{node.op.name} of {dtype}")
    if _is_free(node):
        name = f"{node.op.name.lower()}{node.serial}"
        if dtype.is_bool:
            return z3.Bool(name)
        return z3.Int(name) if dtype.is_index else z3.BitVec(name, dtype.bits)
    if node.op is Ops.CONST:
        if dtype.is_bool:
            return z3.BoolVal(bool(node.arg))
        return z3.IntVal(node.arg) if dtype.is_index else z3.BitVecVal(node.arg, dtype.bits)
    if node.op is Ops.WHERE:
        return z3.If(*sources)
    if node.op is Ops.CAST:
        return _cast(node, sources[0])
    if not node.src:
        raise Untranslatable(node.op.name)
    operands = node.src[0].dtype
    table = (
        _BOOL
        if operands.is_bool
        else _INDEX
        if operands.is_index
        else _UNSIGNED
        if operands.is_unsigned
        else _SIGNED
    )
    rule = table.get(node.op)
    if rule is None:
        raise Untranslatable(f"{node.op.name} of {operands}")
    return rule(*sources)


def _cast(node: UOp, x: Term) -> Term:
    source, target = node.src[0].dtype, node.dtype
    if not (source.is_integral or source.is_bool):
        raise Untranslatable(f"CAST from {source}")
    if source.is_bool:
        one, zero = (
            (1, 0) if target.is_index else (z3.BitVecVal(1, target.bits), z3.BitVecVal(0, target.bits))
        )
        return z3.If(x, one, zero)
    if target.is_bool:
        return x != 0
    if source.is_index and target.is_index:
        return x
    if source.is_index:
        return z3.Int2BV(x, target.bits)
    if target.is_index:
        return z3.BV2Int(x, is_signed=source.is_signed)
    if target.bits <= source.bits:
        return z3.Extract(target.bits - 1, 0, x)
    return (z3.SignExt if source.is_signed else z3.ZeroExt)(target.bits - source.bits, x)


def _literal(term: Term) -> int | None:
    return term.as_long() if z3.is_int_value(term) else None


def floordiv(x: Term, y: Term) -> Term:
    """Python's x // y, and 0 for y == 0."""
    divisor = _literal(y)
    if divisor is not None and divisor > 0:
        return x / y
    downward = z3.If(x % y == 0, x / y, x / y - 1)  # y < 0: the Euclidean quotient is rounded up
    if divisor is not None:
        return downward if divisor else z3.IntVal(0)
    return z3.If(y == 0, 0, z3.If(y > 0, x / y, downward))


def floormod(x: Term, y: Term) -> Term:
    """Python's x % y, and 0 for y == 0."""
    divisor = _literal(y)
    if divisor is not None and divisor > 0:
        return x % y
    negative = z3.If(x % y == 0, 0, x % y + y)
    if divisor is not None:
        return negative if divisor else z3.IntVal(0)
    return z3.If(y == 0, 0, z3.If(y > 0, x % y, negative))


def _magnitude(x: Term) -> Term:
    return z3.If(x < 0, -x, x)


def truncdiv(x: Term, y: Term) -> Term:
    """C's x / y, and 0 for y == 0."""
    quotient = _magnitude(x) / _magnitude(y)
    return z3.If(y == 0, 0, z3.If((x < 0) == (y < 0), quotient, -quotient))


def truncmod(x: Term, y: Term) -> Term:
    """C's x % y, and 0 for y == 0."""
    rest = _magnitude(x) % _magnitude(y)
    return z3.If(y == 0, 0, z3.If(x < 0, -rest, rest))


def _shift_left(x: Term, y: Term) -> Term:
    amount = _literal(y)
    if amount is None:
        raise Untranslatable("SHL of an index by a variable")
    return x * 2**amount if 0 <= amount < 64 else z3.IntVal(0)


def _shift_right(x: Term, y: Term) -> Term:
    amount = _literal(y)
    if amount is None:
        raise Untranslatable("SHR of an index by a variable")
    return x / 2**amount if 0 <= amount < 64 else z3.If(x < 0, -1, 0)


def _and(x: Term, y: Term) -> Term:
    mask = _literal(y)
    if mask is None or mask < 0 or mask & mask + 1:
        raise Untranslatable("AND of an index with anything but a mask of low bits")
    return x % (mask + 1)


def _mod_signed(x: Term, y: Term) -> Term:
    """The sign of y, from a remainder with the sign of x."""
    rest = z3.SRem(x, y)
    return z3.If(
        y == 0, z3.BitVecVal(0, x.size()), z3.If(z3.And(rest != 0, (rest < 0) != (y < 0)), rest + y, rest)
    )


def _div_signed(x: Term, y: Term) -> Term:
    rest = z3.SRem(x, y)
    down = z3.And(rest != 0, (rest < 0) != (y < 0))
    return z3.If(y == 0, z3.BitVecVal(0, x.size()), z3.If(down, x / y - 1, x / y))


def _or_zero(function: Callable[[Term, Term], Term]) -> Callable[[Term, Term], Term]:
    return lambda x, y: z3.If(y == 0, z3.BitVecVal(0, x.size()), function(x, y))


_COMMON: dict[Ops, Callable[..., Term]] = {
    Ops.NEG: lambda x: -x,
    Ops.ADD: lambda x, y: x + y,
    Ops.SUB: lambda x, y: x - y,
    Ops.MUL: lambda x, y: x * y,
    Ops.MULACC: lambda x, y, z: x * y + z,
    Ops.CMPEQ: lambda x, y: x == y,
    Ops.CMPNE: lambda x, y: x != y,
}
_ORDERED: dict[Ops, Callable[..., Term]] = {
    Ops.CMPLT: lambda x, y: x < y,
    Ops.CMPLE: lambda x, y: x <= y,
    Ops.MAX: lambda x, y: z3.If(x < y, y, x),
    Ops.MIN: lambda x, y: z3.If(x < y, x, y),
    Ops.ABS: _magnitude,
}
_INDEX: dict[Ops, Callable[..., Term]] = {
    **_COMMON,
    **_ORDERED,
    Ops.FLOORDIV: floordiv,
    Ops.FLOORMOD: floormod,
    Ops.TRUNCDIV: truncdiv,
    Ops.TRUNCMOD: truncmod,
    Ops.NOT: lambda x: -x - 1,
    Ops.SHL: _shift_left,
    Ops.SHR: _shift_right,
    Ops.AND: _and,
}
_BITS: dict[Ops, Callable[..., Term]] = {
    **_COMMON,
    Ops.NOT: lambda x: ~x,
    Ops.AND: lambda x, y: x & y,
    Ops.OR: lambda x, y: x | y,
    Ops.XOR: lambda x, y: x ^ y,
    Ops.SHL: lambda x, y: x << y,  # SMT-LIB: an amount beyond the width (a negative one is huge) gives 0
}
_SIGNED: dict[Ops, Callable[..., Term]] = {
    **_BITS,
    **_ORDERED,
    Ops.SHR: lambda x, y: x >> y,
    Ops.FLOORDIV: _div_signed,
    Ops.FLOORMOD: _mod_signed,
    Ops.TRUNCDIV: _or_zero(lambda x, y: x / y),
    Ops.TRUNCMOD: _or_zero(z3.SRem),
}
_UNSIGNED: dict[Ops, Callable[..., Term]] = {
    **_BITS,
    Ops.CMPLT: z3.ULT,
    Ops.CMPLE: z3.ULE,
    Ops.MAX: lambda x, y: z3.If(z3.ULT(x, y), y, x),
    Ops.MIN: lambda x, y: z3.If(z3.ULT(x, y), x, y),
    Ops.ABS: lambda x: x,
    Ops.SHR: z3.LShR,
    Ops.FLOORDIV: _or_zero(z3.UDiv),
    Ops.TRUNCDIV: _or_zero(z3.UDiv),
    Ops.FLOORMOD: _or_zero(z3.URem),
    Ops.TRUNCMOD: _or_zero(z3.URem),
}
_BOOL: dict[Ops, Callable[..., Term]] = {
    Ops.NOT: z3.Not,
    Ops.AND: z3.And,
    Ops.OR: z3.Or,
    Ops.XOR: z3.Xor,
    Ops.MUL: z3.And,
    Ops.ADD: z3.Or,
    Ops.MAX: z3.Or,
    Ops.MIN: z3.And,
    Ops.CMPEQ: lambda x, y: x == y,
    Ops.CMPNE: z3.Xor,
    Ops.CMPLT: lambda x, y: z3.And(z3.Not(x), y),
    Ops.CMPLE: lambda x, y: z3.Or(z3.Not(x), y),
}

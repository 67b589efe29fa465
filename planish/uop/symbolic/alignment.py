"""Divisibility: what an index is certainly a multiple of, proved from its structure, never assumed.

    const_factor((r*8 + 4) * n)   -> 4
    divides(r*8 + n*4, 4)         -> r*2 + n

Vector loads and tensor cores need it: an access of four elements is wide only if its index is a multiple of four.
"""

from __future__ import annotations

from math import gcd
from typing import Final, cast

from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.symbolic.affine import Affine, affine

_MAX_ALIGNMENT: Final = 1 << 62
"""What 0 counts as: a multiple of everything."""
_DEEP: Final = 8
"""Remainders that are looked through."""
_COMMON: Final = frozenset({Ops.ADD, Ops.SUB, Ops.MAX, Ops.MIN, Ops.WHERE})
_SAME: Final = frozenset({Ops.NEG, Ops.ABS})
_INSIDE: Final = (
    _COMMON
    | _SAME
    | {Ops.MUL, Ops.FLOORMOD, Ops.TRUNCMOD, Ops.FLOORDIV, Ops.TRUNCDIV, Ops.SHL, Ops.VECTORIZE}
)


def const_factor(node: UOp) -> int:
    """The greatest number that provably divides the node; at least 1. A zero is divisible by `2**62` and what divides it."""
    memo = cast("dict[UOp, int]", node.table.memos.setdefault(const_factor, {}))
    if node in memo:
        return memo[node]
    for each in node.toposort(lambda n: n not in memo and n.op in _INSIDE and _is_exact(n)):
        if each not in memo:
            memo[each] = _factor(each, memo)
    return memo[node]


def is_multiple(node: UOp, n: int) -> bool:
    """Whether n provably divides the node."""
    if n <= 0:
        return False
    factor = const_factor(node)
    return factor % n == 0 or factor == _MAX_ALIGNMENT


def power_of_two(node: UOp, most: int) -> int:
    """The greatest power of two up to `most` (one itself) that provably divides an index, seen through remainders.

    x % 8 is x, less a multiple of eight: row·9 - row % 8 is a multiple of eight.
    """
    known = gcd(const_factor(node), most)
    while 2 * known <= most and _is_congruent_to_nothing(node, 2 * known):
        known *= 2
    return known


def _is_congruent_to_nothing(node: UOp, n: int) -> bool:
    sum_ = affine(node)
    for _ in range(_DEEP):
        if sum_ is None or sum_.constant % n:
            return False
        left = {term: factor for term, factor in sum_.terms.items() if factor * const_factor(term) % n}
        if not left:
            return True
        opened = next((term for term in left if _is_remainder(term, n)), None)
        inside = None if opened is None else affine(opened.src[0])
        if opened is None or inside is None:
            return False
        factor = left.pop(opened)
        sum_ = Affine(left, sum_.constant).plus(inside, factor)
    return False


def _is_remainder(term: UOp, n: int) -> bool:
    """x % c for a multiple c of n, and an x that is as large as it looks."""
    if term.op is not Ops.FLOORMOD or not term.dtype.is_index:
        return False
    divisor = term.src[1]
    return divisor.op is Ops.CONST and type(divisor.arg) is int and divisor.arg > 0 and divisor.arg % n == 0


def _is_exact(node: UOp) -> bool:
    """Whether the value is the mathematical one: on a wrapping integer, if its bounds say so.

    (A wrapped product keeps its powers of two, but that is not worth a case of its own.)
    """
    if node.dtype.is_index:
        return True
    return node.op in {Ops.FLOORMOD, Ops.TRUNCMOD, Ops.MAX, Ops.MIN, Ops.WHERE, Ops.VECTORIZE}


def _factor(node: UOp, memo: dict[UOp, int]) -> int:
    op, src = node.op, node.src
    if op is Ops.CONST:
        return abs(node.arg) or _MAX_ALIGNMENT if type(node.arg) is int else 1
    if op is Ops.VCONST:
        values = cast("tuple[object, ...]", node.arg)
        if not all(type(v) is int for v in values):
            return 1
        return gcd(*cast("tuple[int, ...]", values)) or _MAX_ALIGNMENT
    if op not in _INSIDE or not _is_exact(node):
        return 1
    if op in _COMMON:
        operands = src[1:] if op is Ops.WHERE else src
        return _common(*(_MAX_ALIGNMENT if s.op is Ops.INVALID else memo[s] for s in operands))
    if op in _SAME:
        return memo[src[0]]
    if op is Ops.MUL:
        product = memo[src[0]] * memo[src[1]]
        return _MAX_ALIGNMENT if max(memo[src[0]], memo[src[1]]) == _MAX_ALIGNMENT else product
    if op is Ops.VECTORIZE:
        return _common(*(memo[s] for s in src))
    if op is Ops.SHL:
        shift = src[1]
        return memo[src[0]] << shift.arg if type(shift.arg) is int and 0 <= shift.arg < 62 else 1
    if op is Ops.FLOORMOD or op is Ops.TRUNCMOD:  # x % y is x less a multiple of y
        return _common(memo[src[0]], memo[src[1]])
    divisor = src[1]  # a quotient without remainder
    if (
        divisor.op is Ops.CONST
        and type(divisor.arg) is int
        and divisor.arg
        and memo[src[0]] % divisor.arg == 0
    ):
        return memo[src[0]] // abs(divisor.arg) if memo[src[0]] != _MAX_ALIGNMENT else _MAX_ALIGNMENT
    return 1


def _common(*factors: int) -> int:
    """The greatest common divisor, where zeros have any factor."""
    real = [f for f in factors if f != _MAX_ALIGNMENT]
    return gcd(*real) if real else _MAX_ALIGNMENT


def divides(node: UOp, n: int) -> UOp | None:
    """node / n as a node, if n provably divides it and the quotient can be written; else None.

    Only for `index`: dividing terms of a wrapping sum is not dividing the sum.
    """
    if n <= 0 or not node.dtype.is_index or not is_multiple(node, n):
        return None
    if n == 1:
        return node
    quotients: dict[tuple[UOp, int], UOp] = {}
    stack = [(node, n)]
    while stack:
        x, m = stack[-1]
        if (x, m) in quotients:
            stack.pop()
            continue
        needed = _needed(x, m)
        missing = [pair for pair in needed if pair not in quotients]
        if missing:
            stack += missing
            continue
        stack.pop()
        quotients[x, m] = _quotient(x, m, [quotients[pair] for pair in needed])
    return quotients[node, n]


def _needed(x: UOp, m: int) -> list[tuple[UOp, int]]:
    """The parts whose quotients make the quotient of the whole."""
    if m == 1 or x.op is Ops.CONST or x.op is Ops.VCONST or x.op is Ops.INVALID:
        return []
    if x.op in _COMMON:
        return [(s, m) for s in (x.src[1:] if x.op is Ops.WHERE else x.src)]
    if x.op is Ops.NEG or x.op is Ops.ABS:
        return [(x.src[0], m)]
    if x.op is Ops.MUL:
        left, right = x.src
        # From the constant as much as it has, the rest from the other factor.
        share = gcd(const_factor(right), m)
        return [(left, m // share), (right, share)] if is_multiple(left, m // share) else []
    if x.op is Ops.FLOORMOD:
        return [(s, m) for s in x.src]
    return []


def _quotient(x: UOp, m: int, parts: list[UOp]) -> UOp:
    if m == 1 or x.op is Ops.INVALID:
        return x
    if x.op is Ops.CONST:
        return x.const_like(cast("int", x.arg) // m)
    if x.op is Ops.VCONST:
        return x.replace(arg=tuple(v // m for v in cast("tuple[int, ...]", x.arg)))
    if not parts:
        return x // m
    if x.op is Ops.WHERE:
        return x.src[0].where(*parts)
    if x.op is Ops.MUL:
        left, right = parts
        if right.op is Ops.CONST and right.arg == 1:
            return left
        return left * right
    return x.replace(src=tuple(parts))

"""Sums and products in normal form.

On `index`, which is exact, a sum is a set: its terms are sorted, like ones collected, constants gathered at the end
(`affine.py` defines the form). A sum that has the form already is recognised by looking along its chain once.
User integers wrap, so the same laws hold modulo 2ⁿ, but only constants move: sorting operands would make lanes that
compute the same thing look different. Floats are not touched.
"""

from __future__ import annotations

from typing import Final, cast

from planish.algebra import scalar
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import INDEX, INTEGERS, node
from planish.uop.symbolic.affine import INDEX_LIMIT, TERMS_LIMIT, affine
from planish.uop.symbolic.lawful import rules
from planish.uop.symbolic.letters import c, x, y

# a member of an enum costs more to look up than a name
_ADD, _CONST, _MUL = Ops.ADD, Ops.CONST, Ops.MUL


def _factor(part: UOp) -> int:
    """The constant factor of a part of a sum."""
    if part.op is _MUL and part.src[1].op is _CONST:
        return cast("int", part.src[1].arg)
    return 1


def _is_normal_sum(root: UOp) -> bool:
    """Whether a sum of two normal parts is itself normal; may say no to one that is."""
    left, right = root.src
    if right.op is _CONST:
        if left.op is _ADD:
            return left.src[1].op is not _CONST
        return left.op is not _CONST
    if right.op is _ADD:
        return False
    last = left.src[1] if left.op is _ADD else left
    if last.op is _CONST or not last.order < right.order:
        return False
    # The order is right. What is left: no part may share its factor with the last, or be a product of a sum, whose
    # members might occur outside it.
    size = _factor(right)
    if size != 1 and right.src[0].op is _ADD:
        return False
    size = abs(size)
    for _ in range(TERMS_LIMIT):
        part = left.src[1] if left.op is _ADD else left
        factor = _factor(part)
        if factor not in {1, -1} and (factor in {size, -size} or part.src[0].op is _ADD):
            return False
        if left.op is not _ADD:
            return True
        left = left.src[0]
    return True


def _normal_sum(root: UOp) -> UOp | None:
    if _is_normal_sum(root):
        return None
    sum_ = affine(root)
    return sum_.build(root) if sum_ is not None and sum_.fits else None


def _is_normal_product_of_sum(total: UOp, factor: int) -> bool:
    """Whether a sum is one that keeps its factor outside: no constant, no factors but signs, the first positive."""
    if factor in {1, -1}:
        return False
    part = total
    while total.op is _ADD:
        part = total.src[1]
        if part.op is _CONST or _factor(part) not in {1, -1}:
            return False
        total = part = total.src[0]
    return _factor(part) == 1


def _distribute(root: UOp, x: UOp, c: UOp) -> UOp | None:
    """The product of a sum, over its terms; terms that then share a factor stay together, so no product is added."""
    if _is_normal_product_of_sum(x, cast("int", c.arg)):
        return None
    sum_ = affine(root)
    return sum_.build(root) if sum_ is not None and sum_.fits else None


def _factors(root: UOp) -> tuple[list[UOp], int] | None:
    """The factors of a product from left to right, and the constant one."""
    number = 1
    factors: list[UOp] = []
    stack = [root]
    while stack:
        part = stack.pop()
        if part.op is _MUL:
            stack += reversed(part.src)
            if len(stack) + len(factors) > TERMS_LIMIT:
                return None
        elif part.op is _CONST:
            number *= cast("int", part.arg)
        else:
            factors.append(part)
    return factors, number


def _normal_product(root: UOp, x: UOp, y: UOp) -> UOp | None:
    last = x.src[1] if x.op is _MUL else x
    if y.op is _CONST:
        if last.op is not _CONST:
            return None
    elif last.op is not _CONST and y.op is not _MUL and not y.order < last.order:
        return None  # of sums that differ in coefficients alone, none comes first: they stay as they are
    elif x is y:
        return None  # a square, which computes its root once
    taken = _factors(root)
    if taken is None:
        return None
    factors, number = taken
    if not -INDEX_LIMIT <= number < INDEX_LIMIT:
        return None
    factors.sort(key=lambda n: n.order)
    if not factors or number == 0:
        return root.const_like(number)
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result if number == 1 else result * number


def _is_constant_last(x: UOp, y: UOp) -> bool:
    return y.op is not _CONST and not (y.op is _ADD and y.src[1].op is _CONST)


terms: Final = Matcher(
    "terms",
    [
        # -- index: exact, so sums and products are sets ----------------------------------------------------------
        rule(x - y, x + y * -1, on=INDEX, says="index: x - y -> x + y*-1"),
        rule(-x, x * -1, on=INDEX, says="index: -x -> x*-1"),
        rule(
            node(Ops.ADD, x, y),
            _normal_sum,
            on=INDEX,
            says="x + y -> sorted terms, like ones collected, constant last",
        ),
        rule(node(Ops.ADD).named("x") * c, _distribute, on=INDEX, says="(x*a + b)*c -> x*(a*c) + b*c"),
        rule(node(Ops.MUL, x, y), _normal_product, on=INDEX, says="x * y -> sorted factors, constant last"),
        # -- user integers: modulo 2^n ----------------------------------------------------------------------------
        *rules(scalar.TERMS),
        rule(
            (x + c) + y,
            (x + y) + c,
            when=_is_constant_last,
            on=INTEGERS,
            says="int: (x + c) + y -> (x + y) + c",
        ),
        *rules(scalar.LIKE_TERMS),
    ],
)

"""REDUCE: what does not depend on the ranges leaves the loop.

A REDUCE runs its operand once per value of its ranges, so anything moved out is computed once instead. Integers (which
wrap, or are exact) obey the distributive laws; floats do so only with `fastmath`, but extrema and selects move
on every dtype, since nothing is rounded. All rules leave lane-wise (horizontal) reductions alone.
"""

from __future__ import annotations

from functools import reduce as fold_left
from typing import Final, cast

from planish.dtypes import DType
from planish.uop.matcher import Matcher, rule
from planish.uop.node import Number, UOp
from planish.uop.ops import Ops
from planish.uop.pattern import BITS, INDEX, INTEGRAL, NodePattern, node, where
from planish.uop.symbolic.letters import c, p, x

_FACTORS: Final = 24
"""Longer chains are left alone: work per node must stay bounded."""
_IDEMPOTENT: Final = frozenset({Ops.MAX, Ops.MIN, Ops.AND, Ops.OR})


def identity(op: Ops, like: UOp) -> Number | None:
    """The element that changes nothing when `op` combines it; None where the dtype has none."""
    return identity_of(op, like.dtype.scalar)


def identity_of(op: Ops, dtype: DType) -> Number | None:
    """The same for values of a dtype."""
    if op is Ops.ADD or op is Ops.OR or op is Ops.XOR:
        return dtype.const(0)
    if op is Ops.MUL:
        return dtype.const(1)
    if op is Ops.AND:
        return dtype.wrap(-1)
    bound = dtype.min if op is Ops.MAX else dtype.max
    return None if bound is None else dtype.const(bound)


def _ranges(root: UOp) -> tuple[UOp, ...] | None:
    """The ranges of a plain reduction, one value from many of the same dtype."""
    if root.dtype is not root.src[0].dtype:
        return None
    ranges = root.src[1:]
    return ranges if ranges and all(r.op is Ops.RANGE for r in ranges) else None


def _is_independent(x: UOp, ranges: tuple[UOp, ...]) -> bool:
    return x.ranges.isdisjoint(ranges)


def _never_empty(ranges: tuple[UOp, ...]) -> bool:
    return all(r.src[0].vmin >= 1 for r in ranges)


def _split(root: UOp, op: Ops) -> tuple[list[UOp], list[UOp]] | None:
    """The operands of the chain of `op` that is reduced: those that depend on the ranges, and those that do not."""
    ranges = _ranges(root)
    if ranges is None:
        return None
    inside: list[UOp] = []
    outside: list[UOp] = []
    stack = [root.src[0]]
    while stack:
        part = stack.pop()
        if part.op is op and not _is_independent(part, ranges):
            stack += reversed(part.src)
            if len(stack) + len(inside) + len(outside) > _FACTORS:
                return None
        else:
            (outside if _is_independent(part, ranges) else inside).append(part)
    return (inside, outside) if inside and outside else None


def _chain(op: Ops, parts: list[UOp]) -> UOp:
    return fold_left(lambda left, right: left.alu(op, right), parts)


def _reduced(root: UOp, parts: list[UOp], op: Ops) -> UOp:
    return root.replace(src=(_chain(op, parts), *root.src[1:]))


def hoist_factors(root: UOp) -> UOp | None:
    """Σ x·y = (Σ x)·y."""
    split = _split(root, Ops.MUL)
    if split is None:
        return None
    inside, outside = split
    return _reduced(root, inside, Ops.MUL) * _chain(Ops.MUL, outside)


def split_sum(root: UOp) -> UOp | None:
    """Σ (x + y) = Σ x + Σ y, where the second loop is none."""
    split = _split(root, Ops.ADD)
    if split is None:
        return None
    inside, outside = split
    return _reduced(root, inside, Ops.ADD) + _reduced(root, outside, Ops.ADD)


def _sort_ranges(root: UOp) -> tuple[list[UOp], list[UOp]] | None:
    """The ranges that the operand depends on, and those that only repeat it."""
    ranges = _ranges(root)
    if ranges is None:
        return None
    needed = set(root.src[0].ranges)
    for each in ranges:
        needed |= each.src[0].ranges  # a bound may be another range's business
    # Ordering (RANGE after effects) must not be lost with the range.
    unused = [r for r in ranges if r not in needed and len(r.src) == 1]
    return ([r for r in ranges if r not in unused], unused) if unused else None


def count_repeats(root: UOp) -> UOp | None:
    """A sum over a range that the summand does not know: a product with its size."""
    split = _sort_ranges(root)
    if split is None:
        return None
    kept, unused = split
    x = root.src[0]
    result = root.replace(src=(x, *kept))
    for each in unused:
        size = each.src[0]
        if size.op is Ops.CONST:
            result = result * result.const_like(cast("Number", size.arg))
        elif x.dtype.lanes == 1:
            result = result * size.cast(x.dtype)
        else:
            return None
    return result


def _drop_repeats(root: UOp) -> UOp | None:
    if root.arg not in _IDEMPOTENT:
        return None
    split = _sort_ranges(root)
    if split is None or not _never_empty(tuple(split[1])):
        return None
    kept, _ = split
    return root.replace(src=(root.src[0], *kept))


def _extremum_of_sum(root: UOp) -> UOp | None:
    """max (x + y) = max x + y: exact numbers keep their order when shifted."""
    split = _split(root, Ops.ADD) if root.arg in {Ops.MAX, Ops.MIN} else None
    if split is None or not _never_empty(root.src[1:]):
        return None
    inside, outside = split
    return _reduced(root, inside, Ops.ADD) + _chain(Ops.ADD, outside)


def _extremum_of_product(root: UOp) -> UOp | None:
    split = _split(root, Ops.MUL) if root.arg in {Ops.MAX, Ops.MIN} else None
    if split is None or not _never_empty(root.src[1:]):
        return None
    inside, outside = split
    factor = _chain(Ops.MUL, outside)
    return _reduced(root, inside, Ops.MUL) * factor if factor.vmin >= 0 else None


def _any_of_and(root: UOp) -> UOp | None:
    split = _split(root, Ops.AND)
    return None if split is None else _reduced(root, split[0], Ops.AND) & _chain(Ops.AND, split[1])


def _all_of_or(root: UOp) -> UOp | None:
    split = _split(root, Ops.OR)
    return None if split is None else _reduced(root, split[0], Ops.OR) | _chain(Ops.OR, split[1])


def _hoist_condition(root: UOp, p: UOp, x: UOp, c: UOp) -> UOp | None:
    """Where an outer condition chooses between x and nothing, it chooses after the loop as well."""
    ranges = _ranges(root)
    if ranges is None or not _is_independent(p, ranges):
        return None
    nothing = identity(cast("Ops", root.arg), root)
    if nothing is None or root.const_like(nothing) is not c:
        return None
    return p.where(root.replace(src=(x, *ranges)), c)


def _drop_constants(root: UOp) -> UOp | None:
    """A range of one value has become that value: there is nothing left to run or close."""
    kept = tuple(s for s in root.src[1:] if s.op is not Ops.CONST)
    return root.replace(src=(root.src[0], *kept)) if len(kept) + 1 < len(root.src) else None


def reduction(operand: NodePattern, op: Ops | None = None) -> NodePattern:
    """REDUCE of a shape by an op (by default any)."""
    return node(Ops.REDUCE, operand, arg=... if op is None else op, rest=True)


_product, _sum = node(Ops.MUL), node(Ops.ADD)

reductions: Final = Matcher(
    "reductions",
    [
        rule(reduction(x), _drop_constants, says="reduce(x, constant) -> reduce(x)"),
        rule(node(Ops.REDUCE, x), x, when=lambda root, x: x.dtype is root.dtype, says="reduce(x) -> x"),
        # -- ranges that only repeat ------------------------------------------------------------------------------
        rule(reduction(x, Ops.ADD), count_repeats, on=INTEGRAL, says="int: sum(x, r) -> x * size(r), x without r"),
        rule(reduction(x), _drop_repeats, says="max(x, r) -> x, x without r; min, and, or alike"),
        # -- parts that do not depend on the ranges ---------------------------------------------------------------
        rule(reduction(_product, Ops.ADD), hoist_factors, on=INTEGRAL, says="int: sum(x * y, r) -> sum(x, r) * y, y without r"),
        rule(reduction(_sum, Ops.ADD), split_sum, on=INTEGRAL, says="int: sum(x + y, r) -> sum(x, r) + sum(y, r), y without r"),
        rule(reduction(_sum), _extremum_of_sum, on=INDEX, says="max(x + y, r) -> max(x, r) + y, y without r; min alike"),
        rule(reduction(_product), _extremum_of_product, on=INDEX, says="max(x * y, r) -> max(x, r) * y, 0 <= y without r; min alike"),
        rule(reduction(node(Ops.AND), Ops.OR), _any_of_and, on=BITS, says="any(x & y, r) -> any(x, r) & y, y without r"),
        rule(reduction(node(Ops.OR), Ops.AND), _all_of_or, on=BITS, says="all(x | y, r) -> all(x, r) | y, y without r"),
        rule(reduction(where(p, x, c)), _hoist_condition, says="reduce(where(p, x, identity), r) -> where(p, reduce(x, r), identity), p without r"),
    ],
)  # fmt: skip

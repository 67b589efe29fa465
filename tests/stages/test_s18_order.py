"""Decompositions only go down: there is an order of what they rewrite in which every rule leads to lower things.

The order is found, not written down: each rule is applied to roots of every kind, and what of its result is to be decomposed in turn
lies below the root. That this relation has no circle is the argument that decompositions end; that the algebra beside them makes
nothing that is not at or below what it replaces is seen on random graphs, which are also decomposed on every target.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

import pytest

from planish import dtypes
from planish.dtypes import DType
from planish.errors import PlanishError
from planish.stages.linearizer.decompositions.support import Support
from planish.stages.linearizer.s18_decompositions import _decompositions, decompositions, steps
from planish.target import TARGETS
from planish.uop.matcher import Rule
from planish.uop.node import Table, UOp
from planish.uop.ops import ALU, UNARY, Ops
from planish.uop.rewrite import rewrite

DTYPES = tuple(d for d in dtypes.ALL if not d.is_complex and not d.is_index and d is not dtypes.void)
NARROW = tuple(d for d in DTYPES if d.is_float and d.bits < 32)
NUMBERS = (0, 1, 2, 3, 7, -1, -2, 0.5, -0.5, float("nan"), float("inf"), 1e-3)
OPS = sorted(ALU - {Ops.THREEFRY}, key=lambda op: op.name)
DIVISIONS = frozenset({Ops.FLOORDIV, Ops.FLOORMOD, Ops.TRUNCDIV, Ops.TRUNCMOD})

Kind = tuple[Ops, str, str]
"""What a rule looks at: the op, the kind of numbers, and for divisions what is known of the divisor."""


def kind(node: UOp) -> Kind:
    dtype = node.dtype
    sort = "float" if dtype.is_float else "int"
    sort = f"narrow {sort}" if dtype.bits < (32 if dtype.is_float else 8) else sort
    divisor = ""
    if node.op in DIVISIONS or (node.op is Ops.POW and dtype.is_int):
        by = node.src[1]
        divisor = "any" if by.op is not Ops.CONST else "negative" if by.vmin < 0 else "not negative"
    return node.op, sort, divisor


def roots_of(rules: list[Rule]) -> frozenset[Ops]:
    return frozenset(op for made in rules for v in made.variants for op in v.pattern.ops or ())


def constant(like: UOp, number: float) -> UOp | None:
    if like.dtype.is_float:
        return like.const_like(float(number))
    if number != number or number != int(min(max(number, -9), 9)) or not like.dtype.is_int:
        return None
    whole = int(number)
    return like.const_like(whole) if like.dtype.wrap(whole) == whole else None


def samples(table: Table, op: Ops) -> Iterator[UOp]:
    """Nodes of an op: all dtypes, operands of unknown sign, not negative, and constants."""
    for dtype in (dtypes.uint64,) if op is Ops.THREEFRY else DTYPES:
        x, y = (table.param(slot, dtype, 1).index(table.const(0)) for slot in range(2))
        half = x & dtype.wrap((1 << (dtype.bits - 1)) - 1) if dtype.is_int and dtype.bits > 1 else x
        others = [y, *(c for c in (constant(x, number) for number in NUMBERS) if c is not None)]
        for first in {x: None, half: None}:
            for second in others if op not in UNARY else (None,):
                try:
                    yield first.alu(op) if second is None else first.alu(op, second)
                except PlanishError:
                    continue  # it has no meaning on these


def lower(root: UOp, result: UOp, roots: frozenset[Ops]) -> set[Kind]:
    """What of a result was not there before and is to be decomposed."""
    there = set(root.toposort())
    return {kind(node) for node in result.toposort() if node not in there and node.op in roots}


def relation(target: str) -> dict[Kind, set[Kind]]:
    """For each kind of root, the kinds that its rules lead to."""
    rules = _decompositions(Support.of(TARGETS[target]))
    roots = roots_of(rules)
    matcher = steps(Support.of(TARGETS[target]))[1].matcher
    known = {made.name for made in rules}
    found: dict[Kind, set[Kind]] = {}
    with Table() as table:
        for op in sorted(roots, key=lambda op: op.name):
            for root in samples(table, op):
                first = matcher.first(root, None)
                if first is not None and first[0].name in known:
                    found.setdefault(kind(root), set()).update(lower(root, first[1], roots))
    return found


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_there_is_an_order_in_which_every_rule_goes_down(target: str) -> None:
    found = relation(target)
    assert found
    assert any(below for below in found.values())
    try:
        list(TopologicalSorter(found).static_order())
    except CycleError as error:
        pytest.fail(f"{target}: {error.args[1]}")


def other(x: UOp, alike: list[UOp], rng: random.Random) -> UOp:
    found = constant(x, rng.choice(NUMBERS)) if rng.random() < 0.5 else None
    return rng.choice(alike) if found is None else found


def graph(table: Table, rng: random.Random) -> UOp:
    """A random kernel over narrow floats and integers."""

    def some() -> DType:
        return rng.choice(NARROW if rng.random() < 0.6 else DTYPES)

    i = table.range(8, 0)
    values = [table.param(slot, some(), 8).index(i) for slot in range(2, 5)]
    for _ in range(rng.randint(1, 12)):
        x = rng.choice(values[-5:])
        alike = [value for value in values if value.dtype is x.dtype]
        conditions = [value for value in values if value.dtype.is_bool]
        try:
            match rng.randrange(10):
                case 0 | 1 | 2:
                    made = x.cast(some())
                case 3:
                    made = x.bitcast(some())
                case 4 if conditions:
                    made = rng.choice(conditions).where(x, rng.choice(alike))
                case _:
                    op = rng.choice(OPS)
                    if x.dtype.is_bool and op in {Ops.NEG, Ops.ABS, Ops.SUB, Ops.POW}:
                        continue
                    count = 0 if op in UNARY else 2 if op is Ops.MULACC else 1
                    operands = [other(x, alike, rng) for _ in range(count)]
                    made = x.alu(op, *operands)
        except PlanishError:
            continue  # it has no meaning on these
        values.append(made)
    stores = [
        table.param(slot, value.dtype, 8).index(i).store(value).end(i)
        for slot, value in enumerate((values[-1], rng.choice(values)))
    ]
    return table.sink(*stores)


def decompose(seed: int) -> None:
    """A random kernel is decomposed on every target, and once is enough."""
    with Table() as table:
        sink = graph(table, random.Random(seed))
        for name, target in TARGETS.items():
            made = decompositions(sink, target)
            assert decompositions(made, target) is made, f"seed {seed} on {name}: once more changes it"


@pytest.mark.parametrize("start", range(0, 80, 40))
def test_random_kernels_are_decomposed(start: int) -> None:
    for seed in range(start, start + 40):
        decompose(seed)


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(0, 10_000, 500))
def test_many_random_kernels_are_decomposed(start: int) -> None:
    for seed in range(start, start + 500):
        decompose(seed)


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v4", "dsp"])
def test_the_algebra_beside_them_leads_nowhere_higher(target: str) -> None:
    support = Support.of(TARGETS[target])
    rules = _decompositions(support)
    roots, known, below = roots_of(rules), {made.name for made in rules}, relation(target)
    order = {each: height for height, each in enumerate(TopologicalSorter(below).static_order())}
    fired = 0

    def watch(made: Rule, before: UOp, after: UOp) -> None:
        nonlocal fired
        if made.name in known:
            return
        fired += 1
        highest = max((order.get(kind(node), -1) for node in before.toposort()), default=-1)
        for each in lower(before, after, roots):
            assert order.get(each, -1) <= highest, f"{made.name} makes {each} of {before!r}"

    with Table() as table:
        for seed in range(60):
            sink = graph(table, random.Random(seed))
            rewrite(sink, steps(support)[1].matcher, listener=watch)
    assert fired > 50

"""Random expressions, simplified: proved equal, a fixpoint, and not costlier than before.

z3 gets at most 5 seconds; what it leaves open is proved exhaustively with at most 8 values for each variable.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from planish.uop.infix import infix
from planish.uop.matcher import Matcher
from planish.uop.node import UOp
from planish.uop.rewrite import rewrite
from planish.uop.symbolic import simplify, sym, symbolic
from planish.uop.symbolic.cost import cost, weight
from tests.uop.proof import expressions
from tests.uop.proof.equal import check
from tests.uop.proof.expressions import Plan

PLANS: dict[str, Callable[[random.Random, int], Plan]] = {
    "index": expressions.plan,
    "gated": partial(expressions.plan, gated=True),
    "large": partial(expressions.plan, large=True),
    "condition": expressions.truth,
    "wrapping": expressions.wrapping,
    "real": expressions.real,
}
DEPTH = 6
MOST_UNKNOWN = 0.05
MOST_UNSHARED = 0.005
POINTS = 1 << 16


def simplified(node: UOp, matcher: Matcher) -> UOp:
    """The simplest form; asserts that it is final."""
    found = rewrite(node, matcher)
    again = rewrite(found, matcher)
    assert again is found, f"not final: {infix(node)}\n  -> {infix(found)}\n  -> {infix(again)}"
    return found


def cost_per_use(root: UOp) -> int:
    """The weights of all nodes, each as often as it is used."""
    total: dict[UOp, int] = {}
    for node in root.toposort():
        total[node] = weight(node) + sum(total[source] for source in node.src)
    return total[root]


def loses_sharing(node: UOp, found: UOp) -> bool:
    """Whether it costs more because what was one node is now two.

    A rule sees one node, not who else uses its sources, so that much may happen; a rise in both counts may not.
    """
    if cost(found) <= cost(node):
        return False
    assert cost_per_use(found) <= cost_per_use(node), (
        f"costs {cost(found)}, before {cost(node)}: {infix(node)}\n  -> {infix(found)}"
    )
    return True


def prove(plan: Plan, matcher: Matcher, rng: random.Random, z3_seconds: float, counts: Counter[str]) -> str:
    """How it was proved; a difference fails."""
    node = plan.node()
    found = simplified(node, matcher)
    if found is node:
        return "unchanged"
    if loses_sharing(node, found):
        counts["sharing lost"] += 1
    taken = simplify(node, matcher)
    assert cost(taken) <= cost(node), f"{infix(node)}\n  -> {infix(taken)}"
    assert simplify(taken, matcher) is taken, f"not final: {infix(node)}\n  -> {infix(taken)}"
    verdict = check(node, found, rng, points=POINTS, z3_seconds=z3_seconds)
    assert verdict.wrong is None, f"{infix(node)}\n  -> {infix(found)}\n  {verdict.wrong}"
    if verdict.how != "unknown":
        return verdict.how
    node = plan.cut()
    found = simplified(node, matcher)
    verdict = check(node, found, rng, points=1 << 18, z3_seconds=z3_seconds)
    assert verdict.wrong is None, f"{infix(node)}\n  -> {infix(found)}\n  {verdict.wrong}"
    return "cut" if verdict.how == "exhaustive" else "unknown"


def run(kind: str, number: int, seed: int, z3_seconds: float = 5.0) -> Counter[str]:
    counts: Counter[str] = Counter()
    for k in range(number):
        # A seed of its own for each, so that one can be run again alone.
        rng = random.Random(f"{kind} {seed} {k}")
        plan = PLANS[kind](rng, DEPTH + rng.choice((0, 0, 1, 2)))
        matcher = symbolic if k % 2 else sym
        try:
            counts[prove(plan, matcher, rng, z3_seconds, counts)] += 1
        except Exception as error:
            error.add_note(f"{kind}, seed {seed}, number {k}, {matcher.name}")
            raise
    return counts


@pytest.mark.parametrize(
    ("kind", "number"),
    [("index", 800), ("gated", 300), ("large", 60), ("condition", 400), ("wrapping", 300), ("real", 300)],
)
def test_random_expressions(kind, number):
    counts = run(kind, number, seed=0, z3_seconds=0.3)
    assert counts["unknown"] <= MOST_UNKNOWN * number, counts
    assert counts["sharing lost"] <= MOST_UNSHARED * number, counts


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("part", range(4))
def test_many_random_expressions(kind, part):
    seed = int(os.environ.get("FUZZ_SEED", random.SystemRandom().randrange(1 << 30)))
    print(f"FUZZ_SEED={seed}")
    number = 150 if kind == "large" else 3000
    counts = run(kind, number, seed=seed + part)
    print(counts)
    assert counts["unknown"] <= MOST_UNKNOWN * number, counts
    assert counts["sharing lost"] <= MOST_UNSHARED * number, counts

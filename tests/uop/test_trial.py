"""Trials: the first so many rule applications, in the same order every time."""

from __future__ import annotations

import pytest

from planish import dtypes
from planish.uop.matcher import Matcher, rule
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.pattern import anything, node
from planish.uop.rewrite import line_rewrite, rewrite
from planish.uop.symbolic import simplify
from planish.uop.trial import active, trial

DOUBLE = Matcher(
    "double",
    [
        rule(
            node(Ops.ADD, anything("x"), anything("y")),
            lambda x, y: x * 2 if x is y else None,
            says="x + x -> x * 2",
        )
    ],
)


def tower(t: Table, height: int = 5) -> UOp:
    """n + n, and that plus itself, and so on."""
    x = t.variable("n", 0, 9)
    for _ in range(height):
        x = x + x
    return x


@pytest.mark.parametrize("limit", range(6))
def test_so_many_rules_are_applied_and_no_more(limit: int):
    with Table() as t:
        with trial(limit) as made:
            result = rewrite(tower(t), DOUBLE)
        assert made.count == limit
        assert sum(n.op is Ops.MUL for n in result.toposort()) == limit
        assert sum(n.op is Ops.ADD for n in result.toposort()) == 5 - limit


def test_without_a_limit_they_are_counted():
    with Table() as t:
        with trial() as made:
            rewrite(tower(t), DOUBLE)
        assert made.count == 5
        assert made.last is not None
        assert made.last.rule.name == "x + x -> x * 2"
        assert (made.last.before.op, made.last.after.op) == (Ops.ADD, Ops.MUL)


def test_a_trial_ends_with_its_block():
    assert active() is None
    with Table() as t:
        with trial(0) as outer:
            assert active() is outer
            with trial(2) as inner:
                rewrite(tower(t), DOUBLE)
            assert inner.count == 2
            assert active() is outer
        assert active() is None
        assert all(n.op is not Ops.ADD for n in rewrite(tower(t, 4), DOUBLE).toposort())


def test_equal_work_in_fresh_tables_goes_the_same_way():
    names = []
    for limit in range(12):
        with Table() as t:
            n = t.variable("n", 0, 9)
            with trial(limit) as made:
                simplify(((n * 4 + 8) // 4 + 0) % 3 + n * 0)
            names.append([] if made.last is None else [made.last.rule.name])
            assert made.count <= limit
    longest = max(position for position, name in enumerate(names) if name != names[position - 1])
    assert longest >= 3


def test_what_a_rule_rewrites_itself_counts_first():
    nested = Matcher(
        "nested",
        [
            rule(
                node(Ops.NEG, anything("x")),
                lambda x: rewrite(x, DOUBLE),
                says="-x -> x, doubled (which is wrong, and nobody minds)",
            )
        ],
    )
    for limit in (5, 6):
        with Table() as t:
            with trial(limit) as made:
                result = rewrite(-tower(t), nested)
            assert made.count == limit
            # five for what is inside, the sixth for the rule around it
            assert (result.op is Ops.NEG) == (limit == 5)


def test_lines_are_limited_too():
    with Table() as t:
        lines = tower(t, 3).toposort()
        with trial(1) as made:
            result = line_rewrite(lines, DOUBLE)
        assert made.count == 1
        assert [line.op for line in result].count(Ops.ADD) == 2
        assert result[0].dtype is dtypes.index

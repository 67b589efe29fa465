"""Matchers: precedence, composition, dispatch by form, statistics and the listener."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish import dtypes
from planish.uop import (
    Matcher,
    Ops,
    RewriteStats,
    Rule,
    Table,
    UOp,
    Watch,
    any_of,
    anything,
    constant,
    node,
    rewrite,
    rule,
)
from planish.uop import matcher as matchers
from planish.uop.node import form_of
from planish.uop.pattern import FLOAT, INDEX
from tests.uop.graphs import random_graph, specimens

x, y = anything("x"), anything("y")
c, c1, c2 = constant("c"), constant("c1"), constant("c2")

ZERO, ONE, TWICE = rule(x + 0, x), rule(x * 1, x), rule(node(Ops.NEG, -x), x)
GENERAL = rule(node(Ops.ADD, x, y), lambda x: x, says="x + y -> x")


def leaves() -> tuple[Table, UOp, UOp]:
    t = Table()
    return t, t.variable("a", -9, 9), t.variable("b", -9, 9)


# -- precedence and composition --------------------------------------------------------------------------------


def test_the_first_rule_that_matches_wins():
    _t, a, b = leaves()
    left = rule(node(Ops.ADD, x, y), lambda x: x, says="left")
    right = rule(node(Ops.ADD, x, y), lambda y: y, says="right")
    assert Matcher("m", [left, right])(a + b) is a
    assert Matcher("m", [right, left])(a + b) is b
    assert (Matcher("m", [left]) + Matcher("n", [right]))(a + b) is a
    assert (Matcher("n", [right]) + Matcher("m", [left]))(a + b) is b


def test_a_rule_that_declines_lets_the_next_one_try():
    _t, a, b = leaves()
    declines = rule(node(Ops.ADD, x, y), lambda: None, says="declines")
    itself = rule(node(Ops.ADD, x, y), lambda root: root, says="itself")
    assert Matcher("m", [declines, itself, GENERAL])(a + b) is a


def test_matchers_join_with_plus():
    _t, a, _b = leaves()
    first, second = Matcher("zero", [ZERO, TWICE]), Matcher("one", [ONE, TWICE])
    both = first + second
    assert both.name == "zero + one"
    assert both.rules == (ZERO, TWICE, ONE)  # a rule in both is kept once, at its first place
    assert list(both) == [ZERO, TWICE, ONE]
    assert len(both) == 3
    assert both(a + 0) is a
    assert both(a * 1) is a
    assert first(a * 1) is None
    assert first.rules == (ZERO, TWICE)
    assert ((first + second) + Matcher("g", [GENERAL])).rules == (
        first + (second + Matcher("g", [GENERAL]))
    ).rules


def test_a_matcher_less_some_rules():
    _t, a, _b = leaves()
    both = Matcher("m", [ZERO, ONE])
    assert both.without(ZERO)(a + 0) is None
    assert both.without(ZERO)(a * 1) is a
    assert both(a + 0) is a


def test_first_names_the_rule():
    _t, a, b = leaves()
    m = Matcher("m", [TWICE, ZERO, GENERAL])
    assert m.first(a + 0) == (ZERO, a)
    assert m.first(a + b) == (GENERAL, a)
    assert m.first(a * b) is None


def test_an_empty_matcher_matches_nothing():
    _t, a, b = leaves()
    assert Matcher("none", [])(a + b) is None
    assert repr(Matcher("none", [])) == "<matcher none: 0 rules>"
    assert repr(ZERO) == "<rule x + 0 -> x>"


# -- dispatch --------------------------------------------------------------------------------------------------

RULES = [
    ZERO, ONE, TWICE,
    rule(x + x, x * 2), rule((x + c1) + c2, x + (c1 + c2)), rule(x - x, 0, on=INDEX), rule(x * 0, 0, on=INDEX),
    rule(x + -0.0, x, on=FLOAT), rule((x + y) - y, x, on=INDEX), rule(any_of(x & x, x | x), x),
    rule(x.max(x), x), rule(x.min(y).max(y), y), rule(~(x < y), y <= x, on=INDEX),
    rule(node(Ops.WHERE, anything(), x, x), x), rule(anything("x").cast().cast(), lambda root: None, says="never"),
    rule(node([Ops.ADD, Ops.MUL], x, y), lambda root: None, says="never either"),
    rule(anything("x"), lambda x: None, says="never at all"),
]  # fmt: skip


@given(st.randoms(use_true_random=False), st.permutations(RULES))
def test_dispatch_finds_what_trying_all_rules_in_order_finds(rng, rules):
    t = Table()
    root = random_graph(t, rng, 40)
    m = Matcher("m", rules)
    for each in root.toposort():
        tried = m.first(each)
        assert m(each) is (None if tried is None else tried[1])


def test_a_form_is_decided_once_and_by_need():
    _t, a, b = leaves()
    m = Matcher("m", RULES)
    assert len(m.decisions) == 0
    m(a + b)
    m(b + a)  # another node of the same form
    assert len(m.decisions) == 1
    m(a + 1)
    assert len(m.decisions) == 2


def test_a_form_is_op_kind_and_the_ops_of_three_sources():
    t, a, b = leaves()
    i = t.variable("i", 0, 3, dtypes.int32)
    j = t.variable("j", 0, 3, dtypes.int64)
    assert (a + b).form == (b + a).form
    assert (a + b).form != (a + 1).form
    assert (a + b).form != (a * b).form
    assert (a + b).form != (i + i).form
    assert (i + i).form == (j + j).form  # widths share a form
    assert (a < b).form != (i < i).form  # a comparison is told apart by its operands
    assert (a + b).form == form_of(Ops.ADD, dtypes.index, (a, b))


def test_forms_tell_apart_what_the_rules_distinguish():
    t = Table()
    by_form: dict[int, tuple[object, ...]] = {}
    for each in specimens(t):
        deciding = (
            each.src[0].dtype if each.op in {Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE} else each.dtype
        )
        told = (each.op, deciding.kind, tuple(s.op for s in each.src[:3]))
        assert by_form.setdefault(each.form, told) == told


def test_a_node_no_rule_mentions_tries_none():
    _t, a, b = leaves()
    watch = Watch()
    m = Matcher("m", [ZERO, ONE])
    assert rewrite(-(a - b), m, stats=RewriteStats(watch=watch)) is -(a - b)
    assert watch.rules == {}


# -- watching --------------------------------------------------------------------------------------------------


def test_watching_counts_tries_and_hits_per_rule():
    _t, a, b = leaves()
    watch = Watch()
    stats = RewriteStats(watch=watch)
    m = Matcher("m", [ZERO, ONE])
    rewrite((a + 0) * 1 + (b + 5), m, stats=stats)
    assert watch.rules[ZERO].tries == 2  # a + 0 and b + 5 have its form
    assert watch.rules[ZERO].hits == 1
    assert (watch.rules[ONE].tries, watch.rules[ONE].hits) == (1, 1)
    assert stats.rewrites == 2
    assert watch.rules[ZERO].seconds >= 0
    report = watch.report().splitlines()
    assert report[0].split() == ["tries", "hits", "ms", "rule"]
    assert {line.split(maxsplit=3)[3] for line in report[1:]} == {"x + 0 -> x", "x * 1 -> x"}


def test_watching_does_not_change_the_result_or_the_matcher():
    _t, a, b = leaves()
    m = Matcher("m", RULES)
    root = ((a + 0) * 1 + b) - b
    plain = rewrite(root, m)
    before = dict(m.decisions)
    assert rewrite(root, m, stats=RewriteStats(watch=Watch())) is plain
    assert dict(m.decisions) == before


def test_the_listener_sees_every_match():
    _t, a, b = leaves()
    seen: list[tuple[Rule, UOp, UOp]] = []
    stats = RewriteStats()
    root = (-((a + 0) + (b * 1))).alu(Ops.NEG)
    done = rewrite(
        root, Matcher("m", [ZERO, ONE, TWICE]), stats=stats, listener=lambda *match: seen.append(match)
    )
    assert done is a + b
    assert [(one.name, before, after) for one, before, after in seen] == [
        ("x + 0 -> x", a + 0, a),
        ("x * 1 -> x", b * 1, b),
        ("NEG(NEG(x)) -> x", (-(a + b)).alu(Ops.NEG), a + b),
    ]
    assert stats.rewrites == len(seen)


@pytest.mark.parametrize("order", ["sources_first", "sink_first"])
@given(rng=st.randoms(use_true_random=False))
def test_the_listener_sees_as_many_matches_as_were_made(order, rng):
    t = Table()
    stats = RewriteStats()
    seen = []
    root = random_graph(t, rng, 60)
    rewrite(root, Matcher("m", RULES), order=order, stats=stats, listener=lambda *match: seen.append(match))
    assert len(seen) == stats.rewrites
    for one, before, after in seen:
        assert one.apply(before) is after


def test_two_listeners_both_listen():
    _t, a, _b = leaves()
    first, second = [], []
    watch = Watch(lambda *match: first.append(match))
    rewrite(
        a + 0,
        Matcher("m", [ZERO]),
        stats=RewriteStats(watch=watch),
        listener=lambda *match: second.append(match),
    )
    assert first == second == [(ZERO, a + 0, a)]
    assert watch.rules[ZERO].hits == 1


def test_ops_of_no_rule_are_not_held_to_any(monkeypatch):
    asked = []

    def watched(variants, form):
        asked.append(form)
        return []

    monkeypatch.setattr(matchers, "fitting", watched)
    m = Matcher("m", [ZERO])
    _t, a, b = leaves()
    assert m(a * b) is None
    assert m(-a) is None
    assert not asked
    assert m(a + b) is None
    assert asked == [(a + b).form]
    assert m.decisions == {each.form: () for each in (a * b, -a, a + b)}

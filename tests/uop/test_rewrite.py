"""The rewrite engine: fixpoints, the two orders, substitution, linear programs, cost, and rules that never end."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planish import dtypes
from planish.errors import RewriteError
from planish.uop import (
    Lines,
    Matcher,
    Ops,
    RewriteStats,
    Table,
    UOp,
    anything,
    constant,
    line_rewrite,
    node,
    parse,
    print_graph,
    rewrite,
    rule,
    substitute,
)
from planish.uop.pattern import INDEX
from tests.uop.graphs import chain, random_graph, specimens

ORDERS = ["sources_first", "sink_first"]
f32, void = dtypes.float32, dtypes.void
x, y, z = anything("x"), anything("y"), anything("z")
c, c1, c2 = constant("c"), constant("c1"), constant("c2")

IDENTITIES = [
    rule(x + 0, x), rule(x - 0, x), rule(x * 1, x), rule(x // 1, x, on=INDEX), rule(node(Ops.NEG, -x), x), rule(~(~x), x),
    rule(x & x, x), rule(x | x, x), rule(x.max(x), x), rule(x.min(x), x), rule(node(Ops.WHERE, anything(), x, x), x),
    rule(x & (x | y), x), rule(x | (x & y), x), rule(x.max(x.min(y)), x), rule(x.min(x.max(y)), x),
]  # fmt: skip
"""Rules that each give a part of what they match: in any order and number they must end."""

FOLDING = [
    rule((x + c1) + c2, x + (c1 + c2), on=INDEX), rule((x * c1) * c2, x * (c1 * c2), on=INDEX),
    rule(node(Ops.ADD, c, x), lambda c, x: None if x.op is Ops.CONST else x + c, says="c + x -> x + c"),
    rule(node(Ops.MUL, c, x), lambda c, x: None if x.op is Ops.CONST else x * c, says="c * x -> x * c"),
    rule(c1 + c2, c1 + c2, on=INDEX), rule(c1 * c2, c1 * c2, on=INDEX), rule(x - c, x + (-c), on=INDEX),
]  # fmt: skip


def leaves() -> tuple[Table, UOp, UOp]:
    t = Table()
    return t, t.variable("a", -9, 9), t.variable("b", -9, 9)


# -- fixpoints -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@given(rng=st.randoms(use_true_random=False), size=st.integers(0, 60))
def test_an_empty_matcher_changes_nothing(order, rng, size):
    t = Table()
    root = random_graph(t, rng, size)
    nodes = len(t)
    stats = RewriteStats()
    assert rewrite(root, Matcher("none", []), order=order, stats=stats) is root
    assert len(t) == nodes
    assert stats.rewrites == 0
    assert stats.visits == len(root.toposort())


@pytest.mark.parametrize("order", ORDERS)
@given(
    rng=st.randoms(use_true_random=False),
    rules=st.permutations(IDENTITIES),
    count=st.integers(0, len(IDENTITIES)),
)
def test_any_identities_in_any_order_end_in_a_fixpoint(order, rng, rules, count):
    t = Table()
    root = random_graph(t, rng, 80)
    m = Matcher("m", rules[:count])
    done = rewrite(root, m, order=order)
    assert all(m(each) is None for each in done.toposort())
    stats = RewriteStats()
    assert rewrite(done, m, order=order, stats=stats) is done
    assert stats.rewrites == 0
    assert len(done.toposort()) <= len(root.toposort())


@given(rng=st.randoms(use_true_random=False), rules=st.permutations(IDENTITIES + FOLDING))
def test_folding_rules_end_in_a_fixpoint(rng, rules):
    t = Table()
    m = Matcher("m", rules)
    done = rewrite(random_graph(t, rng, 80), m)
    stats = RewriteStats()
    assert rewrite(done, m, stats=stats) is done
    assert (stats.rewrites, stats.visits) == (0, len(done.toposort()))


@pytest.mark.parametrize("order", ORDERS)
def test_what_a_rule_builds_is_rewritten_too(order):
    _t, a, b = leaves()
    m = Matcher("m", [rule(-x, x * -1), rule(x * c, x << c, says="x * c -> x << c"), rule(x - y, x + -y)])
    assert rewrite(a - b, m, order=order) is a + (b << -1)


@pytest.mark.parametrize("order", ORDERS)
def test_shared_nodes_are_rewritten_once(order):
    _t, a, _b = leaves()
    seen = []
    shared = a + 0
    root = (shared * shared) - (shared // shared)
    done = rewrite(root, Matcher("m", IDENTITIES), order=order, listener=lambda *m: seen.append(m))
    assert done is (a * a) - (a // a)
    assert len(seen) == 1


@pytest.mark.parametrize("order", ORDERS)
def test_a_ladder_of_shared_nodes_is_walked_once(order):
    _t, a, _b = leaves()
    root = a + 0
    for _ in range(200):  # 2**200 paths
        root = root * root
    stats = RewriteStats()
    rewrite(root, Matcher("m", IDENTITIES), order=order, stats=stats)
    assert stats.rewrites == 1
    assert stats.visits <= 2 * 203


def test_the_context_reaches_functions_and_guards():
    t, a, b = leaves()
    known = {a: 5}
    value = rule(
        node(Ops.DEFINE_VAR, name="x"),
        lambda x, ctx: x.const_like(ctx[x]),
        when=lambda x, ctx: x in ctx,
        says="known",
    )
    assert rewrite(a + b, Matcher("m", [value]), known) is t.const(5) + b


def test_unknown_orders_are_refused():
    _t, a, _b = leaves()
    with pytest.raises(RewriteError, match="unknown order 'top_down'; one of sources_first, sink_first"):
        rewrite(a, Matcher("m", []), order="top_down")  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ORDERS)
def test_every_op_survives_a_rebuild(order):
    t = Table()
    n, other = t.variable("n", -4, 63), t.variable("other", -4, 63)
    m = Matcher(
        "m", [rule(node(Ops.DEFINE_VAR, name="x"), lambda x: other if x is n else None, says="rename")]
    )
    for each in specimens(t):
        done = rewrite(each, m, order=order)
        assert n not in done.toposort()
        assert (done is each) is (n not in each.toposort())
        assert (done.op, done.dtype, done.arg) == (each.op, each.dtype, each.arg) or each is n


def test_nodes_in_arguments_are_not_entered():
    t, a, b = leaves()
    shaped = t.make(Ops.RESHAPE, f32, (t.make(Ops.BUFFER, f32, (), 0),), (a + 0,))
    assert rewrite(shaped, Matcher("m", IDENTITIES)) is shaped
    assert substitute(shaped, {a: b}) is shaped


# -- the two orders --------------------------------------------------------------------------------------------


def test_sources_first_offers_a_node_when_its_sources_are_final():
    _t, a, b = leaves()
    order: list[UOp] = []
    see = rule(anything("x"), lambda x: order.append(x), says="see")
    root = (a + 0) * b
    rewrite(root, Matcher("m", [rule(x + 0, x), see]))
    assert a * b in order  # the rebuilt node, not the original one
    assert root not in order
    assert order.index(b) < order.index(a * b)


def test_sink_first_offers_a_node_before_its_sources():
    _t, a, b = leaves()
    order: list[UOp] = []
    see = rule(anything("x"), lambda x: order.append(x), says="see")
    root = (a + 0) * b
    rewrite(root, Matcher("m", [rule(x + 0, x), see]), order="sink_first")
    assert order[0] is root
    assert order.index(root) < order.index(b)


def test_the_order_decides_which_of_two_overlapping_rules_fires():
    _t, a, _b = leaves()
    inner = rule(node(Ops.NEG, node(Ops.DEFINE_VAR, name="x")), ~x, says="-variable -> ~variable")
    outer = rule(node(Ops.NEG, -x), x)
    m = Matcher("m", [inner, outer])
    assert rewrite((-a).alu(Ops.NEG), m) is -(
        ~a
    )  # the inner node comes first, and then the outer rule has lost its form
    assert rewrite((-a).alu(Ops.NEG), m, order="sink_first") is a


def test_rules_keyed_by_original_nodes_need_sink_first():
    t, a, b = leaves()
    root = (a + 1) * 2
    original = {a: b, a + 1: t.const(7)}
    swap = Matcher("m", [rule(anything("x"), lambda x, ctx: ctx.get(x), says="look up")])
    assert rewrite(root, swap, original, order="sink_first") is t.const(7) * 2
    assert rewrite(root, swap, original) is (b + 1) * 2  # a + 1 is no more by the time it is offered


def test_pushing_down_takes_one_step_per_level_sink_first():
    _t, a, b = leaves()
    down = Matcher("m", [rule(-(x + y), (-x) + (-y))])
    total = a
    for _ in range(20):
        total = total + b
    for order in ORDERS:
        stats = RewriteStats()
        done = rewrite(-total, down, order=order, stats=stats)  # type: ignore[arg-type]
        assert stats.rewrites == 20
        assert all(each.src[0].op is Ops.DEFINE_VAR for each in done.toposort() if each.op is Ops.NEG)


# -- cost ------------------------------------------------------------------------------------------------------


def in_a_fresh_table(root: UOp) -> UOp:
    """The same graph, alone in its table: what is not of the graph has then been built by rules."""
    return parse(print_graph(root), Table())


def most_users(root: UOp) -> int:
    """The greatest number of nodes that lie above one node."""
    above: dict[UOp, set[UOp]] = {each: set() for each in root.toposort()}
    for each in reversed(root.toposort()):
        for source in each.src:
            above[source] |= above[each] | {each}
    return max(map(len, above.values()))


BUILDS = 2
"""The most nodes that a right-hand side of IDENTITIES or FOLDING builds: an op and a constant."""


@pytest.mark.parametrize("order", ORDERS)
@given(rng=st.randoms(use_true_random=False), size=st.integers(0, 150))
def test_visits_are_bounded_by_nodes_and_rewrites(order, rng, size):
    root = in_a_fresh_table(random_graph(Table(), rng, size))
    nodes, stats = len(root.toposort()), RewriteStats()
    before = len(root.table)
    rewrite(root, Matcher("m", IDENTITIES + FOLDING), order=order, stats=stats)
    built = len(root.table) - before
    assert stats.visits <= nodes + built  # each node of the graph once, each new one once
    # k of "visits ≤ N + k · rewrites": what one rewrite builds, and the nodes above it, which change with it
    k = BUILDS + most_users(root)
    assert stats.visits <= nodes + k * stats.rewrites


def test_a_clean_graph_is_visited_once_per_node():
    t = Table()
    root = chain(t, 5_000)
    stats = RewriteStats()
    rewrite(root, Matcher("m", IDENTITIES), stats=stats)
    assert (stats.visits, stats.rewrites) == (len(root.toposort()), 0)


def test_many_rewrites_in_a_long_chain_cost_two_visits_each():
    t = Table()
    root = t.variable("a", 0, 3)
    for number in range(1, 3_000):
        root = root + 0 if number % 3 == 0 else root * (number + 1)
    nodes, stats = len(root.toposort()), RewriteStats()
    rewrite(root, Matcher("m", IDENTITIES), stats=stats)
    assert stats.rewrites == 999
    assert stats.visits <= 2 * nodes


# -- memo ------------------------------------------------------------------------------------------------------


def test_a_memo_spares_what_was_done_before():
    _t, a, b = leaves()
    m = Matcher("m", IDENTITIES)
    memo: dict[UOp, UOp] = {}
    first = (a + 0) * b
    assert rewrite(first, m, memo=memo) is a * b
    again = RewriteStats()
    assert rewrite(first, m, memo=memo, stats=again) is a * b
    assert again.visits == 0
    more = RewriteStats()
    assert rewrite(first - b, m, memo=memo, stats=more) is a * b - b
    assert more.visits <= 2  # the subtraction, and once more over its new source
    assert rewrite(a * b, m, memo=memo, stats=again) is a * b
    assert again.visits == 0  # what came out is known as final, too


@given(rng=st.randoms(use_true_random=False))
def test_a_memo_gives_the_same_results(rng):
    t = Table()
    m = Matcher("m", IDENTITIES + FOLDING)
    memo: dict[UOp, UOp] = {}
    roots = [random_graph(t, rng, 30) for _ in range(5)]
    assert [rewrite(root, m, memo=memo) for root in roots] == [rewrite(root, m) for root in roots]


def test_stats_add_up_over_calls():
    _t, a, _b = leaves()
    stats = RewriteStats()
    for _ in range(3):
        rewrite(a + 0, Matcher("m", IDENTITIES), stats=stats)
    assert (stats.rewrites, stats.visits) == (3, 9)


# -- rules that do not end -------------------------------------------------------------------------------------


def failure(root: UOp, m: Matcher, order: str, budget: int | None = None) -> tuple[str, str, str]:
    limit = sys.getrecursionlimit()
    with pytest.raises(RewriteError) as caught:
        rewrite(root, m, order=order, budget=budget)  # type: ignore[arg-type]
    assert sys.getrecursionlimit() == limit
    rules, steps = caught.value.__notes__
    return str(caught.value), rules, steps


@pytest.mark.parametrize("order", ORDERS)
def test_two_rules_that_undo_each_other_are_named(order):
    _t, a, b = leaves()
    there, back = rule(x * 2, x + x), rule(x + x, x * 2)
    other = rule(node(Ops.NEG, -x), x)
    message, rules, steps = failure((a * 2) - b, Matcher("ping pong", [other, there, back]), order)
    assert "rules of ping pong undo or contain each other" in message
    assert rules.startswith("rules: ")
    assert set(rules.removeprefix("rules: ").split("; ")) == {"x * 2 -> x + x", "x + x -> x * 2"}
    assert "MUL" in steps
    assert "ADD" in steps
    assert steps.count("->") == 4  # two steps: the arrow of the rule and that of the nodes


@pytest.mark.parametrize("order", ORDERS)
def test_a_longer_cycle_is_found(order):
    _t, a, _b = leaves()
    m = Matcher("ring", [rule(-x, ~x), rule(~x, node(Ops.ABS, x)), rule(node(Ops.ABS, x), -x)])
    _, rules, _ = failure(-a, m, order)
    assert set(rules.removeprefix("rules: ").split("; ")) == {one.name for one in m}


@pytest.mark.parametrize("order", ORDERS)
def test_general_commutativity_is_found_out(order):
    _t, a, b = leaves()
    m = Matcher("commute", [rule(node(Ops.ADD, x, y), node(Ops.ADD, y, x))])
    message, rules, _ = failure((a + b) * 3, m, order)
    assert "undo or contain" in message
    assert rules == "rules: x + y -> y + x"


def test_a_rule_whose_result_contains_its_match_is_found():
    _t, a, _b = leaves()
    wrap = rule(node(Ops.NEG, x, name="w"), lambda w: w + 1, says="-x -> -x + 1")
    message, rules, _ = failure(-a, Matcher("wrap", [wrap]), "sources_first")
    assert "undo or contain" in message
    assert rules == "rules: -x -> -x + 1"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("budget", [10, 500])
def test_rules_that_grow_a_graph_run_into_the_budget(order, budget):
    _t, a, _b = leaves()
    grow = Matcher("grow", [rule(x + 0, x), rule(-x, -(x + 1))])
    message, rules, steps = failure((-a) * 2, grow, order, budget)
    assert f"no fixpoint after {budget} rewrites with grow" in message
    assert rules == "rules: NEG(x) -> NEG((x + 1))"
    assert 10 <= steps.count("\n") <= 20


def test_without_a_budget_growth_ends_as_well():
    _t, a, _b = leaves()
    message, _, _ = failure(-a, Matcher("grow", [rule(-x, -(x + 1))]), "sources_first")
    assert "no fixpoint after" in message


@pytest.mark.parametrize("order", ORDERS)
def test_many_rewrites_in_a_large_graph_are_no_loop(order):
    t = Table()
    root = t.variable("a", 0, 3)
    for number in range(10_000):
        root = (root + 0) * (number + 2)
    stats = RewriteStats()
    done = rewrite(root, Matcher("m", IDENTITIES), order=order, stats=stats)
    assert all(each.op is not Ops.ADD for each in done.toposort())
    assert stats.rewrites == 10_000


# -- substitution ----------------------------------------------------------------------------------------------


def test_substitution_is_simultaneous():
    _t, a, b = leaves()
    assert substitute(a - b * 2, {a: b, b: a}) is b - a * 2
    assert substitute(a + b, {a: a + b}) is (a + b) + b
    assert substitute(a, {a: b, b: a}) is b


def test_substitution_takes_one_walk():
    t, a, b = leaves()
    assert (
        substitute((a + 1) * a, {a: b, b + 1: t.const(9)}) is (b + 1) * b
    )  # what it makes is not looked up again
    assert substitute((a + 1) * a, {a + 1: b, a: t.const(2)}) is b * 2
    grown = substitute(a + b, {a: (a + 1) * a})
    assert grown is ((a + 1) * a) + b


def test_substitution_of_nothing_is_the_node():
    t, a, b = leaves()
    root = a * b + 3
    nodes = len(t)
    assert substitute(root, {}) is root
    assert substitute(root, {t.variable("q", 0, 1): a}) is root
    assert len(t) == nodes + 1


def test_substitution_can_stay_outside():
    _t, a, b = leaves()
    inside = -a
    assert substitute(inside + a, {a: b}, enter=lambda each: each is not inside) is inside + b
    assert substitute(inside + a, {a: b, inside: a}, enter=lambda each: each is not inside) is a + b


@given(rng=st.randoms(use_true_random=False))
def test_a_swap_done_twice_is_the_graph(rng):
    t = Table()
    root = random_graph(t, rng, 60)
    a, r = t.variable("a", -3, 9), t.range(8, 0)
    swap = {a: r, r: a}
    assert substitute(substitute(root, swap), swap) is root


def test_a_long_chain_is_substituted():
    t = Table()
    root = chain(t, 20_000)
    done = substitute(root, {t.variable("a", 0, 3): t.variable("b", 0, 3)})
    assert len(done.toposort()) == len(root.toposort())
    assert done is not root


# -- linear programs -------------------------------------------------------------------------------------------


class Program:
    """A gated store in a loop, as lines."""

    def __init__(self) -> None:
        t = self.t = Table()
        i32 = dtypes.int32
        self.bound = t.const(8, i32)
        self.loop = t.range(self.bound, 0)
        self.buffer = t.param(0, f32, 8)
        self.place = t.make(Ops.INDEX, f32.ptr(8), (self.buffer, self.loop))
        self.value = t.const(1.0, f32)
        self.gate = self.loop < self.bound
        self.store = t.make(Ops.STORE, void, (self.place, self.value, self.gate))
        self.end = self.store.end(self.loop)
        self.lines = [
            self.bound,
            self.loop,
            self.buffer,
            self.place,
            self.value,
            self.gate,
            self.store,
            self.end,
        ]


def open_gate(root: UOp) -> Lines:
    """IF, STORE, ENDIF in place of a gated store."""
    t = root.table
    place, value, gate = root.src
    condition = t.make(Ops.IF, void, (gate,))
    store = place.store(value)
    return Lines(store, (condition, store, t.make(Ops.ENDIF, void, (condition,))))


def test_a_line_may_become_several():
    p = Program()
    gated = rule(node(Ops.STORE, x, y, z), open_gate, says="gated store -> if")  # type: ignore[arg-type]
    done = line_rewrite(p.lines, Matcher("m", [gated]))
    assert [line.op for line in done[-5:]] == [Ops.CMPLT, Ops.IF, Ops.STORE, Ops.ENDIF, Ops.END]
    assert done[-1].src[0] is done[-3]  # the END sees the new store
    assert done[:6] == p.lines[:6]


def test_later_lines_see_the_new_values_of_earlier_ones():
    p = Program()
    two = rule(constant("x"), lambda x: x.const_like(2), when=lambda x: x.dtype is f32, says="1.0 -> 2.0")
    done = line_rewrite(p.lines, Matcher("m", [two]))
    assert len(done) == len(p.lines)
    assert done[4].arg == 2.0
    assert done[6].src[1] is done[4]
    assert done[7].src[0] is done[6]


def test_a_line_is_offered_once_and_can_be_dropped():
    p = Program()
    seen = []
    grow = rule(
        constant("x"), lambda x: x.const_like(x.arg * 2), says="c -> 2c"
    )  # would never end in a graph
    nothing = p.t.make(Ops.NOOP, void)
    gone = rule(node(Ops.STORE), lambda: Lines(nothing, ()), says="store -> nothing")  # type: ignore[arg-type, return-value]
    done = line_rewrite(
        p.lines, Matcher("m", [grow, gone]), listener=lambda *match: seen.append(match[0].name)
    )
    assert done[0].arg == 16
    assert [line.op for line in done].count(Ops.STORE) == 0
    assert seen == ["c -> 2c", "c -> 2c", "store -> nothing"]


def test_lines_no_rule_mentions_stay():
    p = Program()
    assert line_rewrite(p.lines, Matcher("none", [])) == p.lines


def test_line_rewrite_passes_the_context():
    p = Program()
    note = rule(node(Ops.END), lambda root, ctx: ctx.append(root), says="note")
    ctx: list[UOp] = []
    line_rewrite(p.lines, Matcher("m", [note]), ctx)
    assert ctx == [p.end]


# -- depth -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
def test_a_rule_may_build_a_long_chain(order):
    _t, a, _b = leaves()

    def unrolled(x: UOp) -> UOp:
        total = x
        for _ in range(20_000):
            total = ~(total + 0)
        return total

    m = Matcher("m", [rule(node(Ops.NEG, x), unrolled, says="-x -> a long chain"), *IDENTITIES])
    assert rewrite(-a, m, order=order) is a


@pytest.mark.fuzz
@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_large_random_graphs_reach_a_fixpoint_in_both_orders(seed):
    t = Table()
    root = random_graph(t, random.Random(seed), 2_000)
    m = Matcher("m", IDENTITIES + FOLDING)
    for order in ORDERS:
        done = rewrite(root, m, order=order)  # type: ignore[arg-type]
        stats = RewriteStats()
        assert rewrite(done, m, order=order, stats=stats) is done  # type: ignore[arg-type]
        assert stats.rewrites == 0


# -- documentation ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["uop.md", "rewriting.md"])
def test_the_examples_of_the_documentation_run(page, capsys):
    text = (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in text.split("```python\n")[1:]]
    assert blocks
    exec("\n".join(blocks), {})
    assert capsys.readouterr().out

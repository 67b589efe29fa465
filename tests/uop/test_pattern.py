"""The pattern language: what matches, what does not, and what right-hand sides make."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest

from planish import dtypes
from planish.dtypes import DType
from planish.errors import RewriteError
from planish.uop import (
    Axis,
    AxisType,
    NodePattern,
    Ops,
    Rule,
    Table,
    UOp,
    any_of,
    anything,
    constant,
    literal,
    node,
    rule,
    where,
)
from planish.uop.ops import COMMUTATIVE
from planish.uop.pattern import BITS, BOOL, FLOAT, INDEX, INTEGERS, INTEGRAL, NUMBERS

f32, i32, index, bool_ = dtypes.float32, dtypes.int32, dtypes.index, dtypes.bool_
x, y, z = anything("x"), anything("y"), anything("z")
c, c1, c2 = constant("c"), constant("c1"), constant("c2")


class Names:
    """A table with a few leaves."""

    def __init__(self, dtype: DType = index) -> None:
        self.t = Table()
        if dtype.is_integral:
            self.a, self.b, self.d = (
                self.t.variable(name, 0 if dtype.is_unsigned else -9, 9, dtype) for name in "abd"
            )
        else:
            self.a, self.b, self.d = (
                self.t.param(slot, dtype, 8).index(self.t.const(slot)) for slot in range(3)
            )

    def const(self, value: bool | int | float | complex) -> UOp:
        return self.a.const_like(value)


def bound(pattern: NodePattern, root: UOp, *names: str) -> tuple[UOp, ...] | None:
    """What the names are bound to where the pattern matches."""
    found: list[tuple[UOp, ...]] = []
    reads: dict[int, Callable[..., None]] = {
        1: lambda x: found.append((x,)),
        2: lambda x, y: found.append((x, y)),
        3: lambda x, y, z: found.append((x, y, z)),
    }
    rule(pattern, reads[len(names)], says="read").apply(root)
    return found[0] if found else None


# -- operators -------------------------------------------------------------------------------------------------

BINARY = [
    (Ops.ADD, lambda p, q: p + q), (Ops.SUB, lambda p, q: p - q), (Ops.MUL, lambda p, q: p * q),
    (Ops.FLOORDIV, lambda p, q: p // q), (Ops.FLOORMOD, lambda p, q: p % q), (Ops.POW, lambda p, q: p**q),
    (Ops.AND, lambda p, q: p & q), (Ops.OR, lambda p, q: p | q), (Ops.XOR, lambda p, q: p ^ q),
    (Ops.SHL, lambda p, q: p << q), (Ops.SHR, lambda p, q: p >> q), (Ops.CMPLT, lambda p, q: p < q),
    (Ops.CMPLE, lambda p, q: p <= q), (Ops.CMPEQ, lambda p, q: p.eq(q)), (Ops.CMPNE, lambda p, q: p.ne(q)),
    (Ops.MAX, lambda p, q: p.max(q)), (Ops.MIN, lambda p, q: p.min(q)),
]  # fmt: skip


@pytest.mark.parametrize(("op", "write"), BINARY, ids=[op.name for op, _ in BINARY])
def test_an_operator_on_patterns_matches_the_operator_on_nodes(op, write):
    n = Names()
    made = write(n.a, n.b)
    assert made.op is op
    assert bound(write(x, y), made, "x", "y") == (n.a, n.b)
    other = Ops.SUB if op is not Ops.SUB else Ops.ADD
    assert bound(write(x, y), n.a.alu(other, n.b), "x", "y") is None


@pytest.mark.parametrize(("op", "write"), BINARY, ids=[op.name for op, _ in BINARY])
def test_only_commutative_operators_match_both_orders(op, write):
    n = Names()
    negated = write(-x, y)
    assert bound(negated, write(-n.a, n.b), "x", "y") == (n.a, n.b)
    swapped = bound(negated, write(n.b, -n.a), "x", "y")
    assert swapped == ((n.a, n.b) if op in COMMUTATIVE else None)


def test_division_of_floats_and_unary_operators():
    n, f = Names(), Names(f32)
    assert bound(x / y, f.a / f.b, "x", "y") == (f.a, f.b)
    assert bound(-x, -n.a, "x") == (n.a,)
    assert bound(~x, ~n.a, "x") == (n.a,)
    assert bound(x.cast(), n.a.cast(f32), "x") == (n.a,)
    assert bound(where(x, y, z), (n.a < n.b).where(n.a, n.d), "x", "y", "z") == (n.a < n.b, n.a, n.d)


def test_both_orders_at_every_level():
    n = Names()
    pattern = (x * y) + (-z)
    for product, total in itertools.product((False, True), repeat=2):
        times = n.b * n.a if product else n.a * n.b
        root = -n.d + times if total else times + -n.d
        assert bound(pattern, root, "x", "y", "z") is not None
    assert bound(pattern, n.a * n.b - -n.d, "x", "y", "z") is None


def test_node_matches_in_the_order_given():
    n = Names()
    pattern = node(Ops.ADD, -x, y)
    assert bound(pattern, -n.a + n.b, "x", "y") == (n.a, n.b)
    assert bound(pattern, n.b + -n.a, "x", "y") is None


def test_a_constant_is_looked_for_on_the_right_only():
    n = Names()
    assert bound(x + constant("y"), n.a + 3, "x", "y") == (n.a, n.t.const(3))
    assert bound(x + constant("y"), 3 + n.a, "x", "y") is None
    assert bound(x + constant("y"), n.a + n.b, "x", "y") is None
    with pytest.raises(RewriteError, match=r"c \+ x: a constant stands on the right; swap the operands"):
        c + x
    assert str(c - x) == "c - x"  # subtraction does not commute


# -- names -----------------------------------------------------------------------------------------------------


def test_a_name_used_twice_means_the_same_node():
    n = Names()
    assert bound(x - x, n.a - n.a, "x") == (n.a,)
    assert bound(x - x, n.a - n.b, "x") is None
    assert bound(x + x, n.a + n.a, "x") == (n.a,)


@pytest.mark.parametrize("flip", [False, True])
def test_a_name_used_twice_finds_either_operand(flip):
    n = Names()
    total = n.b + n.a if flip else n.a + n.b
    assert bound((x + y) - x, total - n.a, "x", "y") == (n.a, n.b)
    both = n.b & n.a if flip else n.a & n.b
    assert bound(x | (x & y), n.a | both, "x", "y") == (n.a, n.b)
    assert bound(x | (x & y), both | n.a, "x", "y") == (n.a, n.b)
    assert bound((x * y) + (x * z), n.a * n.b + n.d * n.a, "x", "y", "z") == (n.a, n.b, n.d)


def test_inner_nodes_can_be_named():
    n = Names()
    assert bound((x + 1).named("y") * 2, (n.a + 1) * 2, "x", "y") == (n.a, n.a + 1)
    assert bound(node(Ops.MUL, node(Ops.ADD, name="y"), x), (n.a + 1) * 2, "x", "y") == (
        n.t.const(2),
        n.a + 1,
    )


# -- alternatives, sets of ops, the rest of the sources ---------------------------------------------------------


def test_alternatives_match_in_their_order():
    n = Names()
    either = any_of(-x, ~x) + 1
    assert bound(either, -n.a + 1, "x") == (n.a,)
    assert bound(either, ~n.a + 1, "x") == (n.a,)
    assert bound(either, n.a + 1, "x") is None
    plain_or_cast = any_of(x.cast(), x) * 2
    assert bound(plain_or_cast, n.a.cast(i32) * 2, "x") == (n.a,)
    assert bound(plain_or_cast, n.a * 2, "x") == (n.a,)


def test_an_alternative_as_root_keeps_its_kinds():
    n, f = Names(), Names(f32)
    one = rule(any_of(x + 0, x * 1), x, on=INDEX)
    assert one.apply(n.a + 0) is n.a
    assert one.apply(n.a * 1) is n.a
    assert one.apply(f.a * 1.0) is None


def test_alternatives_with_a_name():
    n = Names()
    assert bound(any_of(node(Ops.NEG), node(Ops.NOT), name="x") + 1, ~n.a + 1, "x") == (~n.a,)
    with pytest.raises(RewriteError, match="alternatives cannot have names of their own"):
        any_of(-x, x, name="y")


def test_a_set_of_ops():
    n = Names()
    pattern = node([Ops.ADD, Ops.SUB], x, y)
    assert bound(pattern, n.a + n.b, "x", "y") == (n.a, n.b)
    assert bound(pattern, n.a - n.b, "x", "y") == (n.a, n.b)
    assert bound(pattern, n.a * n.b, "x", "y") is None
    assert bound(-node([Ops.ADD, Ops.SUB], x, y), -(n.a - n.b), "x", "y") == (n.a, n.b)


def test_a_node_without_sources_given_has_any():
    n = Names()
    assert bound(node([Ops.SINK, Ops.ADD], name="x"), n.a + n.b, "x") == (n.a + n.b,)
    assert bound(node(Ops.SINK, name="x"), n.t.sink(), "x") == (n.t.sink(),)


@pytest.mark.parametrize("count", range(6))
def test_the_number_of_sources_is_exact_without_rest(count):
    n = Names()
    noop = n.t.make(Ops.NOOP, dtypes.void)
    root = n.t.sink(*[noop] * count)
    nested = n.t.sink(root)
    for wanted in range(1, 6):
        exact = node(Ops.SINK, *[anything("x")] * wanted)
        open_ended = node(Ops.SINK, *[anything("x")] * wanted, rest=True)
        assert (bound(exact, root, "x") is not None) is (count == wanted)
        assert (bound(open_ended, root, "x") is not None) is (count >= wanted)
        assert (bound(node(Ops.SINK, exact), nested, "x") is not None) is (count == wanted)
        assert (bound(node(Ops.SINK, open_ended), nested, "x") is not None) is (count >= wanted)


def test_the_fourth_source_is_matched_too():
    n = Names()
    effects = [n.t.make(Ops.NOOP, dtypes.void, (leaf,)) for leaf in (n.a, n.b, n.d, -n.a)]
    pattern = node(Ops.SINK, anything(), anything(), anything(), node(Ops.NOOP, -x))
    assert bound(pattern, n.t.sink(*effects), "x") == (n.a,)
    assert bound(pattern, n.t.sink(*effects[::-1]), "x") is None


# -- arguments and literals ------------------------------------------------------------------------------------


def test_an_argument_is_compared():
    n = Names()
    r = n.t.range(4, 0)
    assert bound(node(Ops.REDUCE, x, rest=True, arg=Ops.ADD), r.reduce(Ops.ADD, r), "x") == (r,)
    assert bound(node(Ops.REDUCE, x, rest=True, arg=Ops.ADD), r.reduce(Ops.MAX, r), "x") is None
    assert bound(node(Ops.RANGE, x, arg=Axis((0,), AxisType.LOOP)), r, "x") == (n.t.const(4),)
    assert bound(node(Ops.RANGE, x, arg=Axis((1,), AxisType.LOOP)), r, "x") is None


def test_a_number_in_a_pattern_is_a_literal():
    n = Names()
    assert bound(x + 3, n.a + 3, "x") == (n.a,)
    assert bound(x + 3, n.a + 4, "x") is None
    assert bound(x + literal(3), n.a + 3, "x") == (n.a,)
    assert bound(x + 3, n.a + n.b, "x") is None


@pytest.mark.parametrize("dtype", [f32, dtypes.float64, dtypes.float16], ids=str)
def test_a_literal_float_zero_has_its_sign(dtype):
    n = Names(dtype)
    for wanted, given in itertools.product((0.0, -0.0), repeat=2):
        matched = bound(x + wanted, n.a + n.const(given), "x") is not None
        assert matched is (math.copysign(1, wanted) == math.copysign(1, given))


def test_literals_of_other_kinds():
    f, z_ = Names(f32), Names(dtypes.complex64)
    assert bound(node(Ops.ADD, x, literal(math.nan)), f.a + math.nan, "x") == (f.a,)
    assert bound(node(Ops.ADD, x, literal(math.nan)), f.a + 1.0, "x") is None
    assert bound(x + math.inf, f.a + math.inf, "x") == (f.a,)
    assert bound(x + math.inf, f.a + -math.inf, "x") is None
    assert bound(x * 1j, z_.a * 1j, "x") == (z_.a,)
    n = Names()
    assert bound(x & True, (n.a < n.b) & True, "x") == (n.a < n.b,)
    assert bound(x & True, (n.a < n.b) & False, "x") is None


# -- kinds -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "fitting"),
    [
        (INDEX, {index}), (INTEGERS, {i32, dtypes.uint8}), (INTEGRAL, {index, i32, dtypes.uint8}), (FLOAT, {f32}),
        (NUMBERS, {index, i32, dtypes.uint8, f32, dtypes.complex64}), (BITS, {index, i32, dtypes.uint8}), (BOOL, set()),
    ],
)  # fmt: skip
def test_kinds_restrict_the_dtype(kinds, fitting):
    for dtype in (index, i32, dtypes.uint8, f32, dtypes.complex64):
        n = Names(dtype)
        matches = dtype in fitting
        assert (rule(x + y, x, on=kinds).apply(n.a + n.b) is not None) is matches
        assert (rule(-(x + y).of(kinds), x).apply(-(n.a + n.b)) is not None) is matches
        assert (rule(-(anything("x", kinds)), x).apply(-n.a) is not None) is matches
        compared = rule(x.eq(y), literal(True), on=kinds).apply(n.a.eq(n.b))
        assert (compared is not None) is matches  # a comparison is bool, its kind is its operands'
        inner = rule(~(x.eq(y).of(kinds)), x.ne(y)).apply(~n.a.eq(n.b))
        assert (inner is not None) is matches


def test_kinds_of_bools():
    n = Names()
    flag = n.a < n.b
    assert rule(x & x, x, on=BOOL).apply(flag & flag) is flag
    assert rule(x & x, x, on=BOOL).apply(n.a & n.a) is None


# -- guards, functions, context --------------------------------------------------------------------------------


def test_a_guard_decides():
    n = Names()
    even = rule(x * c, x, when=lambda c: c.arg % 2 == 0, says="x * even -> x")
    assert even.apply(n.a * 4) is n.a
    assert even.apply(n.a * 3) is None


def test_a_guard_is_asked_for_every_way_to_match():
    n = Names()
    first = rule(x + y, x, when=lambda y: y.op is Ops.NEG, says="x + -y -> x")
    assert first.apply(n.a + -n.b) is n.a
    assert first.apply(-n.b + n.a) is n.a
    assert first.apply(n.a + n.b) is None


def test_functions_take_names_root_and_ctx():
    n = Names()
    seen = []

    def remember(root: UOp, ctx: object, y: UOp, x: UOp) -> None:
        seen.append((root, ctx, y, x))

    assert rule(x - y, remember, says="remember").apply(n.a - n.b, "context") is None
    assert seen == [(n.a - n.b, "context", n.b, n.a)]


def test_a_guard_may_ask_for_the_context():
    n = Names()
    known = rule(x + 0, x, when=lambda x, ctx: x in ctx, says="x + 0 -> x if x is known")
    assert known.apply(n.a + 0, {n.a}) is n.a
    assert known.apply(n.a + 0, set()) is None


def test_a_function_declines_with_none_or_the_root():
    n = Names()
    assert rule(x + y, lambda root: root, says="itself").apply(n.a + n.b) is None
    assert rule(x + y, lambda: None, says="nothing").apply(n.a + n.b) is None


def test_a_rule_that_asks_for_unbound_names_is_refused_when_it_is_made():
    with pytest.raises(RewriteError, match=r"rule wrong: asks for q, which x \+ y does not bind"):
        rule(x + y, lambda q: q, says="wrong")
    with pytest.raises(RewriteError, match="asks for w"):
        rule(x + y, x, when=lambda w: True, says="wrong guard")
    with pytest.raises(RewriteError, match="asks for y"):
        rule(any_of(x + y, -x), lambda x, y: x, says="y is not in every alternative")


def test_a_computed_rule_must_say_its_equation():
    with pytest.raises(RewriteError, match=r"x \+ y computes its result: say its equation"):
        rule(x + y, lambda x: x)
    with pytest.raises(RewriteError, match="say its equation"):
        rule(x + 0, x, when=lambda x: True)
    assert rule(x + 0, x).name == "x + 0 -> x"


# -- templates -------------------------------------------------------------------------------------------------


def made(one: Rule, root: UOp) -> UOp:
    result = one.apply(root)
    assert result is not None
    return result


def test_a_template_builds_nodes_of_the_dtypes_that_follow():
    n = Names()
    assert made(rule(x * y + x * z, x * (y + z)), n.a * n.b + n.a * n.d) is n.a * (n.b + n.d)
    assert made(rule(~(x < y), y <= x), ~(n.a < n.b)) is (n.b <= n.a)
    assert made(rule(where(x, y, z) + c, where(x, y + c, z + c)), (n.a < 1).where(n.a, n.b) + 5) is (
        n.a < 1
    ).where(n.a + 5, n.b + 5)
    assert made(rule(x * 2, x + x), n.a * 2) is n.a + n.a
    assert made(rule(x.max(y), where(x < y, y, x)), n.a.max(n.b)) is (n.a < n.b).where(n.b, n.a)


@pytest.mark.parametrize("dtype", [index, i32, f32, dtypes.complex64, f32.vec(4)], ids=str)
def test_a_number_on_the_right_takes_the_dtype_of_the_root(dtype):
    n = Table()
    a = n.const(3, dtype)
    assert made(rule(-x, x * 2), -a) is a * 2
    assert made(rule(x - x, 0), a - a) is n.const(0, dtype)
    assert made(rule(x.eq(x), True), a.eq(a)) is n.const(True, bool_.vec(dtype.lanes))
    assert made(rule(x.ne(y), ~(x.eq(y))), a.ne(a)) is ~a.eq(a)


def test_constants_fold_as_the_rule_fires():
    n = Names()
    assert made(rule((x + c1) + c2, x + (c1 + c2)), n.a + 3 + 4) is n.a + 7
    assert made(rule((x * c1) * c2, x * (c1 * c2)), n.a * 3 * -4) is n.a * -12
    assert made(rule((x + c1) < c2, x < (c2 - c1)), n.a + 3 < 10) is (n.a < 7)
    assert made(rule((x - c1) + c2, x + (c2 - c1)), n.a - 1 + 5) is n.a + 4
    assert made(rule(x - c, x + (-c)), n.a - 5) is n.a + -5
    assert made(rule(x.max(c1).max(c2), x.max(c1.max(c2))), n.a.max(3).max(5)) is n.a.max(5)
    assert made(rule((x ^ c1) ^ c2, x ^ (c1 ^ c2)), n.a ^ 5 ^ 3) is n.a ^ 6


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8], ids=str)
def test_folded_integers_wrap_to_their_dtype(dtype):
    t = Table()
    a = t.variable("a", 0, 9, dtype)
    folded = made(rule((x * c1) * c2, x * (c1 * c2)), a * 100 * 3)
    assert folded is a * dtype.wrap(300)
    assert made(rule((x + c1) + c2, x + (c1 + c2)), a + 100 + 100) is a + dtype.wrap(200)


def test_index_constants_do_not_wrap():
    n = Names()
    assert made(rule((x * c1) * c2, x * (c1 * c2)), n.a * 2**40 * 2**40).src[1].arg == 2**80


def test_floats_are_left_to_be_folded_step_by_step():
    n = Names(f32)
    folded = made(rule(x.max(c1).max(c2), x.max(c1.max(c2))), n.a.max(1.0).max(math.nan))
    assert folded.src[1] is n.const(1.0).max(n.const(math.nan))


def test_a_cast_on_the_right_goes_to_the_dtype_of_the_root():
    n = Names()
    assert made(rule(x.cast().cast(), x.cast()), n.a.cast(i32).cast(dtypes.int64)) is n.a.cast(dtypes.int64)


@pytest.mark.parametrize(
    ("right", "message"),
    [
        (lambda: y, "y on the right is not bound on the left"),
        (lambda: x + anything(), "on the right is not bound"),
        (lambda: node(Ops.GEP, x, arg=(0,)), "the dtype of GEP does not follow from its sources"),
        (lambda: -(x.cast()), "the dtype of CAST does not follow"),
        (lambda: any_of(x, -x), "not bound on the left"),
    ],
)
def test_a_template_that_cannot_be_built_is_refused(right, message):
    n = Names()
    with pytest.raises(RewriteError, match=message):
        rule(-x, right()).apply(-n.a)


def test_bound_names_of_inner_nodes_are_reused_on_the_right():
    n = Names()
    assert made(
        rule((x + y).named("s") * 2, node(Ops.ADD, anything("s"), anything("s"))), (n.a + n.b) * 2
    ) is (n.a + n.b) + (n.a + n.b)


# -- how patterns read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (x + y, "x + y"), ((x + y) * c, "(x + y) * c"), (x // c % 4, "(x // c) % 4"), (-x, "NEG(x)"),
        (x.max(0), "MAX(x, 0)"), (x < y, "x < y"), (x.eq(True), "x == True"), (anything(), "_"),
        (where(x, y, z), "WHERE(x, y, z)"), (any_of(-x, x), "{NEG(x), x}"), (x + -0.0, "x + -0.0"),
        (node(Ops.REDUCE, x, arg=Ops.ADD, rest=True), "REDUCE[ADD](x, …)"), (node([Ops.ADD, Ops.SUB]), "ADD|SUB(…)"),
        ((x + y).named("s"), "x + y"),
    ],
)  # fmt: skip
def test_patterns_print_as_algebra(pattern, text):
    assert str(pattern) == text
    assert repr(pattern) == f"<pattern {text}>"

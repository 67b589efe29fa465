from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish import dtypes
from planish.config import settings
from planish.errors import InternalError, RewriteError
from planish.ptir import ops
from planish.ptir.function import CLEAN, Function, Inst, Region
from planish.ptir.ops.definition import FoldResult, FoldWhen, NoAttrs, OpKey, define
from planish.ptir.ops.literal import Literal
from planish.ptir.rewrite import (
    Folder,
    FrozenPatternSet,
    GreedyConfig,
    OpRewritePattern,
    Pattern,
    PatternSet,
    apply_patterns_and_fold_greedily,
)
from planish.ptir.rewrite.prelude import BinaryView, UnaryView, is_constant
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.ptir.types import tensor
from tests.ptir.engine_helpers import (
    I64,
    Counter,
    DropAddZero,
    DropDoubleNeg,
    DropMulOne,
    arithmetic,
    assert_valid,
    build,
    const,
    names,
)
from tests.ptir.test_engine_function import with_region

CHECKED = GreedyConfig(expensive_checks=True)
# For what is counted: the check at the end offers patterns a copy of the result.
PLAIN = GreedyConfig(expensive_checks=False)
NOTHING = PatternSet().freeze()

# A change wakes the users of what changed and, for patterns of radius 2, theirs; the programs here have
# at most two users per value.
VISITS_PER_REWRITE = 4


@pytest.mark.parametrize("size", [12, 120, 1200])
@pytest.mark.parametrize("kind", ["mixed", "clean"])
def test_visits_grow_with_rewrites_and_not_otherwise(kind, size):
    function = build(kind, size)
    stats = apply_patterns_and_fold_greedily(function, arithmetic(), CHECKED)
    assert stats.converged
    assert stats.visits <= size + VISITS_PER_REWRITE * (stats.rewrites + stats.folds)
    if kind == "clean":
        assert stats.visits == size
        assert not stats.changed
    assert_valid(function)


def test_a_second_run_rewrites_nothing_and_visits_once():
    function = build("mixed", 1200)
    apply_patterns_and_fold_greedily(function, arithmetic(), PLAIN)
    left = sum(1 for inst in function if inst.op is not ops.constant)
    version = function.version
    again = apply_patterns_and_fold_greedily(function, arithmetic(), PLAIN)
    assert not again.changed
    assert again.visits == left
    assert again.iterations == 1
    assert function.version == version


def test_visits_per_op_do_not_grow_with_the_program():
    per_op = []
    for size in (600, 1200, 2400):
        stats = apply_patterns_and_fold_greedily(build("mixed", size), arithmetic(), PLAIN)
        tries = sum(p.tries for p in stats.patterns.values())
        per_op.append((round(stats.visits / size, 2), round(tries / size, 2)))
    assert per_op[0] == per_op[1] == per_op[2]
    assert per_op[0][0] <= 2


def test_every_instruction_is_left_clean():
    function = build("mixed", 120)
    apply_patterns_and_fold_greedily(function, arithmetic())
    assert {inst.dirty for inst in function} == {CLEAN}


@given(st.integers(1, 60), st.integers(0, 10**6))
def test_the_result_does_not_depend_on_checks_and_is_a_fixpoint(size, seed):
    plain, checked = build("mixed", size, seed), build("mixed", size, seed)
    one = apply_patterns_and_fold_greedily(plain, arithmetic(), PLAIN)
    two = apply_patterns_and_fold_greedily(checked, arithmetic(), CHECKED)
    assert [repr(i) for i in plain] == [repr(i) for i in checked]
    assert (one.rewrites, one.folds, one.erased, one.visits) == (
        two.rewrites,
        two.folds,
        two.erased,
        two.visits,
    )


class Record(Pattern[Inst]):
    """Never matches; remembers what it was offered."""

    roots = (ops.add, ops.mul, ops.neg, ops.lt, ops.while_, ops.constant)

    def __init__(self) -> None:
        self.seen: list[int] = []

    def match_and_rewrite(self, op: Inst, rw: ProgramRewriter) -> bool:
        self.seen.append(op.id)
        return False


def test_seeds_all_but_constants_last_first():
    function = build("clean", 30)
    record = Record()
    apply_patterns_and_fold_greedily(function, PatternSet([record]), PLAIN)
    assert record.seen == [inst.id for inst in reversed(function) if inst.op is not ops.constant]


def test_regions_are_entered():
    function = with_region()
    record = Record()
    apply_patterns_and_fold_greedily(function, PatternSet([record]), PLAIN)
    assert sorted(record.seen) == sorted(i.id for i in function.walk() if i.op is not ops.constant)


def test_rewrites_inside_regions_and_wakes_their_owner():
    function = with_region()
    plus = next(inst for inst in function.walk() if inst.op is ops.add)
    rw = ProgramRewriter(function)
    extra = rw.insert_before(plus, ops.add, (plus.operands[0], rw.splat(plus, I64, 0)))
    rw.set_operand(plus, 0, extra.result)

    class WatchLoop(Pattern[Inst]):
        """Counts the offers of a loop."""

        roots = (ops.while_,)

        def __init__(self) -> None:
            self.offers = 0

        def match_and_rewrite(self, op: Inst, rw: ProgramRewriter) -> bool:
            self.offers += 1
            return False

    watch = WatchLoop()
    stats = apply_patterns_and_fold_greedily(function, PatternSet([DropAddZero, watch]), CHECKED)
    assert stats.rewrites == 1
    assert watch.offers == 2
    assert_valid(function)


def test_folding_reaches_through_chains_of_constants():
    function = Function("f")
    value = const(function.body, 1)
    for _ in range(40):
        value = function.body.append(ops.add, (value, value)).result
    function.body.set_results([value])
    stats = apply_patterns_and_fold_greedily(function, NOTHING, CHECKED)
    assert stats.folds == 40
    literal = function.results[0].literal
    assert literal is not None
    assert literal.item == 2**40
    assert names(function) == ["constant"]


def test_integers_wrap_when_folded():
    function = Function("f")
    big = const(function.body, 2**63 - 1)
    function.body.set_results([function.body.append(ops.add, (big, big)).result])
    apply_patterns_and_fold_greedily(function, NOTHING)
    literal = function.results[0].literal
    assert literal is not None
    assert literal.item == -2


def test_folding_never_writes_out_more_than_allowed():
    type = tensor("i64", (1000,))
    function = Function("f")
    import numpy as np

    dense = function.body.append(
        ops.constant, (), ops.ConstantAttrs(Literal(np.arange(1000, dtype=np.int64)))
    ).result
    function.body.set_results([function.body.append(ops.add, (dense, dense)).result])
    small = GreedyConfig(max_folded_elements=999)
    assert not apply_patterns_and_fold_greedily(function, NOTHING, small).changed
    assert (
        apply_patterns_and_fold_greedily(function, NOTHING, GreedyConfig(max_folded_elements=1000)).folds == 1
    )
    splats = Function("g")
    two = const(splats.body, 2, type)
    splats.body.set_results([splats.body.append(ops.add, (two, two)).result])
    assert apply_patterns_and_fold_greedily(splats, NOTHING, GreedyConfig(max_folded_elements=1)).folds == 1
    literal = splats.results[0].literal
    assert literal is not None
    assert literal.nbytes == 8


def test_switches():
    def run(**options):
        function = build("mixed", 120)
        return apply_patterns_and_fold_greedily(function, arithmetic(), GreedyConfig(**options))

    full = run()
    assert full.folds
    assert full.erased
    assert full.rewrites
    assert run(enable_constant_fold=False).folds == 0
    assert run(enable_dce=False).erased == 0
    assert run(enable=("DropAddZero",)).patterns.keys() == {"DropAddZero"}
    assert "DropAddZero" not in run(disable=("DropAddZero",)).patterns
    assert run(enable=()).rewrites == 0
    with pytest.raises(RewriteError, match="did you mean DropAddZero"):
        run(disable=("DropAddZro",))
    limited = run(max_rewrites=3)
    assert limited.rewrites + limited.folds == 3
    assert not limited.converged
    one = run(max_iterations=1)
    assert one.iterations == 1
    assert not one.converged
    assert one.rewrites < full.rewrites + full.folds


def test_dead_code_goes_with_whatever_it_alone_uses():
    function = Function("f", [I64])
    value = function.params[0]
    for _ in range(50):
        value = function.body.append(ops.add, (value, const(function.body, 5))).result
    function.body.set_results(function.params)
    counter = Counter()
    stats = apply_patterns_and_fold_greedily(function, NOTHING, GreedyConfig(listener=counter))
    assert len(function) == 0
    assert stats.erased == 100
    assert counter.counts == {"erased": 100, "eliminated": 100}
    assert stats.visits == 1


def test_patterns_of_higher_benefit_come_first_and_a_cost_model_may_reorder():
    order: list[str] = []

    def make(label: str, worth: int) -> Pattern[Inst]:
        class Quiet(Pattern[Inst]):
            """Never matches."""

            name = label
            benefit = worth
            roots = (ops.add,)

            def match_and_rewrite(self, op: Inst, rw: ProgramRewriter) -> bool:
                order.append(self.label)
                return False

        return Quiet()

    patterns = PatternSet([make("Low", 1), make("High", 9), make("Middle", 5)]).freeze()
    function = Function("f", [I64])
    x = function.params[0]
    function.body.set_results([function.body.append(ops.add, (x, x)).result])
    apply_patterns_and_fold_greedily(function, patterns, PLAIN)
    assert order == ["High", "Middle", "Low"]
    assert [p.label for p in patterns.by_root[ops.add]] == order
    order.clear()
    costs = {"Low": 3, "Middle": 2, "High": 1}
    config = replace(PLAIN, cost_model=lambda inst, pattern, rw: costs[pattern.label])
    apply_patterns_and_fold_greedily(function, patterns, config)
    assert order == ["Low", "Middle", "High"]


def test_a_guard_is_asked_first():
    class Guarded(OpRewritePattern[BinaryView]):
        """Never matches."""

        def may_match(self, op: BinaryView, rw: ProgramRewriter) -> bool:
            return op.op is ops.mul

        def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
            assert op.op is ops.mul
            return False

    function = build("clean", 20)
    stats = apply_patterns_and_fold_greedily(function, PatternSet([Guarded]))
    assert stats.patterns["Guarded"].tries == 20


# What wakes what.


def chain_of_negs(depth: int) -> Function:
    function = Function("f", [I64])
    value = function.params[0]
    for _ in range(depth):
        value = function.body.append(ops.neg, (value,)).result
    function.body.set_results([value])
    return function


def test_pairs_cancel_all_along_a_chain():
    for depth in (1, 2, 7, 100):
        function = chain_of_negs(depth)
        stats = apply_patterns_and_fold_greedily(function, PatternSet([DropDoubleNeg]), CHECKED)
        assert names(function) == ["neg"] * (depth % 2)
        assert stats.rewrites == depth // 2


def deep_pattern(radius_: int) -> type[OpRewritePattern[UnaryView]]:
    class DropNegOfNegOfNegOfConstantSum(OpRewritePattern[UnaryView]):
        """neg(neg(neg(x + c))) -> neg(x + c): it looks three definitions deep."""

        roots = (ops.neg,)
        operands = (ops.neg,)
        radius = radius_

        def match_and_rewrite(self, op: UnaryView, rw: ProgramRewriter) -> bool:
            second = UnaryView.of(op.source)
            third = None if second is None else UnaryView.of(second.source)
            if third is None or third.op is not ops.neg:
                return False
            base = BinaryView.of(third.source)
            if base is None or not is_constant(base.rhs):
                return False
            rw.replace_op(op.inst, third.result)
            return True

    return DropNegOfNegOfNegOfConstantSum


def deep_program() -> Function:
    """The constant below three negations appears only once x + (1 + 1) is folded."""
    function = Function("f", [I64])
    one = const(function.body, 1)
    two = function.body.append(ops.add, (one, one)).result
    value = function.body.append(ops.add, (function.params[0], two)).result
    for _ in range(3):
        value = function.body.append(ops.neg, (value,)).result
    function.body.set_results([value])
    return function


def test_a_pattern_that_looks_deep_is_woken_by_a_change_there():
    function = deep_program()
    stats = apply_patterns_and_fold_greedily(function, PatternSet([deep_pattern(4)]), CHECKED)
    assert stats.rewrites == 1
    assert names(function).count("neg") == 1


def test_a_radius_too_small_misses_and_the_check_says_so():
    function = deep_program()
    patterns = PatternSet([deep_pattern(1)])
    assert (
        apply_patterns_and_fold_greedily(function, patterns, GreedyConfig(expensive_checks=False)).rewrites
        == 0
    )
    with pytest.raises(RewriteError, match="still applies after the worklist ran empty"):
        apply_patterns_and_fold_greedily(deep_program(), patterns, CHECKED)


def shared_program() -> Function:
    """neg(x) used twice, until the other use (in y * 1) is gone."""
    function = Function("f", [I64])
    x = function.params[0]
    inner = function.body.append(ops.neg, (x,)).result
    other = function.body.append(ops.mul, (inner, const(function.body, 0))).result
    plus = function.body.append(ops.add, (inner, x)).result
    function.body.set_results([plus, other])
    return function


class MulZero(OpRewritePattern[BinaryView]):
    """x * 0 -> 0 for integers; tried late, so that others meet the program before it."""

    roots = (ops.mul,)
    operands = (None, ops.constant)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        rw.replace_op(op.inst, op.rhs)
        return True


def one_use_pattern(watch: bool) -> type[OpRewritePattern[BinaryView]]:
    class SubtractOnlyNegation(OpRewritePattern[BinaryView]):
        """neg(x) + y -> y - x, if nothing else uses neg(x)."""

        roots = (ops.add,)
        operands = (ops.neg,)
        watch_uses = watch

        def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
            if not op.lhs.has_one_use:
                return rw.fail(op.inst, "neg(x) is used elsewhere")
            inner = UnaryView.of(op.lhs)
            if inner is None:
                return False
            rw.replace_with(op.inst, ops.sub, (op.rhs, inner.source))
            return True

    return SubtractOnlyNegation


def test_patterns_that_watch_uses_are_woken_when_one_is_left():
    function = shared_program()
    stats = apply_patterns_and_fold_greedily(function, PatternSet([MulZero, one_use_pattern(True)]), CHECKED)
    assert stats.rewrites == 2
    assert names(function) == ["constant", "sub"]


def test_not_watching_uses_misses_and_the_check_says_so():
    with pytest.raises(RewriteError, match="without watch_uses"):
        apply_patterns_and_fold_greedily(
            shared_program(), PatternSet([MulZero, one_use_pattern(False)]), CHECKED
        )


def test_an_unchanged_neighbourhood_is_not_tried_again():
    """A level-2 wake tries patterns of radius 2 alone."""
    tried: list[str] = []

    def make(label: str, far: int) -> Pattern[Inst]:
        class Quiet(Pattern[Inst]):
            """Never matches."""

            name = label
            roots = (ops.neg,)
            radius = far

            def match_and_rewrite(self, op: Inst, rw: ProgramRewriter) -> bool:
                tried.append(self.label)
                return False

        return Quiet()

    function = Function("f", [I64])
    zero = function.body.append(ops.add, (function.params[0], const(function.body, 0))).result
    inner = function.body.append(ops.mul, (zero, function.params[0])).result
    function.body.set_results([function.body.append(ops.neg, (inner,)).result])
    patterns = PatternSet([DropAddZero, make("Near", 1), make("Far", 2)])
    apply_patterns_and_fold_greedily(function, patterns, PLAIN)
    assert tried.count("Near") == 1
    assert tried.count("Far") == 2


# Not ending.


class Ping(OpRewritePattern[BinaryView]):
    """add(x, y) -> sub(x, y): nonsense."""

    roots = (ops.add,)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        rw.replace_with(op.inst, ops.sub, op.operands)
        return True


class Pong(OpRewritePattern[BinaryView]):
    """sub(x, y) -> add(x, y): nonsense."""

    roots = (ops.sub,)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        rw.replace_with(op.inst, ops.add, op.operands)
        return True


def test_patterns_that_undo_each_other_are_named():
    function = build("clean", 10)
    config = GreedyConfig(rewrite_budget=500)
    with pytest.raises(RewriteError, match="does not end: 500 rewrites") as caught:
        apply_patterns_and_fold_greedily(function, PatternSet([Ping, Pong, DropMulOne]), config)
    message = str(caught.value)
    assert "Ping (" in message
    assert "Pong (" in message
    assert "DropMulOne" not in message
    assert len([note for note in caught.value.__notes__ if note.startswith("  P")]) == 20
    assert {inst.dirty for inst in function} == {CLEAN}


def test_the_default_budget_ends_small_programs_soon():
    with pytest.raises(RewriteError, match="does not end"), settings(rewrite_budget=3000):
        apply_patterns_and_fold_greedily(build("clean", 10), PatternSet([Ping, Pong]))


# Expensive checks: a wrong pattern of every kind, each found and named.


def wrong(rewrite: Callable[[BinaryView, ProgramRewriter], bool]) -> PatternSet:
    class Wrong(OpRewritePattern[BinaryView]):
        """Breaks its word."""

        roots = (ops.add,)

        def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
            return rewrite(op, rw)

    return PatternSet([Wrong])


def says_true(op, rw):
    return True


def changes_and_says_false(op, rw):
    rw.set_operands(op.inst, (op.rhs, op.lhs))
    return False


def inserts_and_says_false(op, rw):
    rw.emit(ops.neg, op.lhs)
    return False


def goes_behind_the_back_and_says_false(op, rw):
    op.inst.op = ops.mul
    return False


def goes_behind_the_back_and_says_true(op, rw):
    op.inst.op = ops.mul
    return True


def replaces_by_its_equal(op, rw):
    rw.replace_with(op.inst, op.op, op.operands)
    return True


def breaks_dominance(op, rw):
    late = rw.insert_before(rw.function.body.end, ops.neg, (op.rhs,))
    rw.set_operand(op.inst, 1, late.result)
    return True


def breaks_types(op, rw):
    new = rw.insert_before(op.inst, ops.cast, (op.lhs,), ops.CastAttrs(dtypes.float32), types=(I64,))
    rw.replace_op(op.inst, new.result)
    return True


@pytest.mark.parametrize(
    ("rewrite", "message"),
    [
        (says_true, "returned True but changed nothing"),
        (changes_and_says_false, "returned False but changed"),
        (inserts_and_says_false, "returned False but changed"),
        (goes_behind_the_back_and_says_false, "returned False but changed"),
        (goes_behind_the_back_and_says_true, "without the rewriter"),
        (replaces_by_its_equal, "put an equal instruction in its place"),
        (breaks_dominance, "left the function invalid"),
        (breaks_types, "left the function invalid"),
    ],
)
def test_expensive_checks_catch(rewrite, message):
    with pytest.raises(RewriteError, match=f"pattern Wrong .*{message}"):
        apply_patterns_and_fold_greedily(build("clean", 20), wrong(rewrite), CHECKED)


def test_changes_far_away_without_the_rewriter_are_found_in_the_end():
    function = build("clean", 60)
    first = next(inst for inst in function if inst.op is ops.mul)

    def far(op, rw):
        first.op = ops.sub
        return False

    with pytest.raises(RewriteError, match="invalid after Wrong") as caught:
        apply_patterns_and_fold_greedily(function, wrong(far), CHECKED)
    assert any("unannounced" in note for note in caught.value.__notes__)


def test_the_setting_switches_checks_on():
    with settings(check="expensive"), pytest.raises(RewriteError, match="Wrong"):
        apply_patterns_and_fold_greedily(build("clean", 20), wrong(goes_behind_the_back_and_says_false))
    with settings(check="none"):
        apply_patterns_and_fold_greedily(build("clean", 20), wrong(goes_behind_the_back_and_says_false))


@pytest.mark.parametrize("rewrite", [says_true, changes_and_says_false, inserts_and_says_false])
def test_what_is_cheap_to_check_is_always_checked(rewrite):
    with pytest.raises(RewriteError, match="pattern Wrong returned"):
        apply_patterns_and_fold_greedily(
            build("clean", 20), wrong(rewrite), GreedyConfig(expensive_checks=False)
        )


def test_an_exception_in_a_pattern_keeps_its_type_and_names_the_pattern():
    def fails(op, rw):
        raise ZeroDivisionError("inside")

    function = build("clean", 20)
    with pytest.raises(ZeroDivisionError) as caught:
        apply_patterns_and_fold_greedily(function, wrong(fails))
    assert "while pattern Wrong was tried on" in caught.value.__notes__[0]
    assert {inst.dirty for inst in function} == {CLEAN}


# Folding.


def _infer_same(types, attrs, regions):
    return (types[0],)


def test_ops_may_fold_themselves():
    calls = []

    def fold(inst, constants):
        calls.append(constants)
        return FoldResult.replaced_by(inst.operands[0]) if constants[1] is not None else FoldResult.NOTHING

    op = define(
        "test_fold_any",
        OpKey.OTHER,
        NoAttrs,
        arity=2,
        infer=_infer_same,
        fold=fold,
        fold_when=FoldWhen.ANY_CONSTANT,
    )
    try:
        function = Function("f", [I64, I64])
        x, y = function.params
        kept = function.body.append(op, (x, y)).result
        gone = function.body.append(op, (x, const(function.body, 3))).result
        function.body.set_results([kept, gone])
        stats = apply_patterns_and_fold_greedily(function, NOTHING, CHECKED)
        assert stats.folds == 1
        assert len(calls) == 1
        assert function.results == (kept, x)
    finally:
        del ops.REGISTRY["test_fold_any"]


def test_a_fold_that_gives_the_wrong_thing_is_a_bug():
    answers = [
        FoldResult.materialize(Literal.full(dtypes.float32, (), 1)),
        FoldResult.materialize(*[Literal.full(dtypes.int64, (), 1)] * 2),
    ]

    def fold(inst, constants):
        return answers.pop()

    op = define(
        "test_fold_wrong",
        OpKey.OTHER,
        NoAttrs,
        arity=1,
        infer=_infer_same,
        fold=fold,
        fold_when=FoldWhen.ALWAYS,
    )
    try:
        function = Function("f", [I64])
        inst = function.body.append(op, function.params)
        function.body.set_results(inst.results)
        with pytest.raises(InternalError, match="2 results for 1"):
            Folder().try_fold(inst)
        with pytest.raises(InternalError, match="f32"):
            Folder().try_fold(inst)
    finally:
        del ops.REGISTRY["test_fold_wrong"]


def test_variadic_ops_fold_whatever_their_number_of_operands():
    def join(parts):
        function = Function("f", [tensor("i64", (2,))])
        values = [
            function.params[0] if part is None else const(function.body, part, tensor("i64", (2,)))
            for part in parts
        ]
        function.body.set_results([function.body.append(ops.concat, values, ops.ConcatAttrs(0)).result])
        return apply_patterns_and_fold_greedily(function, NOTHING, CHECKED).folds

    for parts in ([1, None], [1], [1, 2], [1, 2, 3], [1, 2, None], [None, 1], [1]):
        expected = 0 if None in parts else 1
        assert join(parts) == expected, parts


def test_frozen_sets_are_shared_and_cached():
    patterns = arithmetic()
    assert patterns.select(None, ()) is patterns
    assert patterns.select(None, ("DropAddZero",)) is patterns.select(None, ("DropAddZero",))
    assert isinstance(patterns.select(("DropAddZero",), ()), FrozenPatternSet)


def test_a_region_result_can_be_replaced():
    function = with_region()
    body: Region = next(inst for inst in function if inst.regions).regions[1]
    plus = body.first
    assert plus is not None
    rw = ProgramRewriter(function)
    extra = rw.insert_before(body.end, ops.mul, (plus.result, rw.splat(plus, I64, 1)))
    rw.set_region_results(body, [extra.result])
    stats = apply_patterns_and_fold_greedily(function, PatternSet([DropMulOne]), CHECKED)
    assert stats.rewrites == 1
    assert body.results == (plus.result,)

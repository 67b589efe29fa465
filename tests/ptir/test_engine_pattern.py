from __future__ import annotations

import pytest

from planish import dtypes, ptir
from planish.errors import GraphError, RewriteError
from planish.ptir import ops
from planish.ptir.function import Function, Inst
from planish.ptir.ops.definition import OpKey
from planish.ptir.rewrite import (
    GreedyConfig,
    OpRewritePattern,
    Pattern,
    PatternSet,
    apply_patterns_and_fold_greedily,
)
from planish.ptir.rewrite.pdl import DataPattern
from planish.ptir.rewrite.prelude import (
    BinaryView,
    BroadcastView,
    CastView,
    GatherView,
    ScatterView,
    TransposeView,
    UnaryView,
    compose_permutations,
    defined_by,
    inverse_permutation,
    is_identity_permutation,
    is_negative_zero,
    is_one,
    is_positive_zero,
    is_splat,
    is_zero,
    splat_of,
)
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.ptir.types import tensor
from tests.ptir.engine_helpers import F32, I64, DropAddZero, assert_valid, const, names

CHECKED = GreedyConfig(expensive_checks=True)


# Views.


def test_views_name_the_operands_of_gather_and_scatter():
    graph = ptir.Graph("f")
    x = graph.input("x", tensor("f32", (4, 8)))
    i, j = (graph.input(name, tensor("i64", (3,))) for name in "ij")
    picked = x.gather([i, j], [0, 1])
    put = x.scatter(picked, [i, j], [0, 1])
    function = graph.build(put)
    first, second, third = function.params
    scatter = ScatterView.of(function.results[0])
    assert scatter is not None
    assert (scatter.source, scatter.indices) == (first, (second, third))
    gather = GatherView.of(scatter.updates)
    assert gather is not None
    assert (gather.source, gather.indices) == (first, (second, third))


# The root from the signature.


def test_the_root_is_what_the_signature_says():
    class One(OpRewritePattern[CastView]):
        """Casts."""

        def match_and_rewrite(self, op: CastView, rw: ProgramRewriter) -> bool:
            return False

    class Two(OpRewritePattern[CastView | TransposeView]):
        """Casts and transposes."""

        def match_and_rewrite(self, op: CastView | TransposeView, rw: ProgramRewriter) -> bool:
            return False

    assert One().roots == (OpKey.CAST,)
    assert Two().roots == (OpKey.CAST, OpKey.TRANSPOSE)
    frozen = PatternSet([One, Two]).freeze()
    assert [p.label for p in frozen.by_root[ops.cast]] == ["One", "Two"]
    assert [p.label for p in frozen.by_root[ops.transpose]] == ["Two"]
    assert frozen.patterns[1].view_for(ops.transpose) is TransposeView
    assert ops.add not in frozen.by_root


def test_a_root_may_be_narrowed_within_its_view():
    assert DropAddZero().roots == (ops.add,)
    with pytest.raises(RewriteError, match="which its view excludes"):

        class Wrong(OpRewritePattern[BinaryView]):
            """Not binary."""

            roots = (ops.neg,)

            def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
                return False


def test_a_pattern_without_a_view_is_refused_where_it_is_defined():
    with pytest.raises(RewriteError, match="does not say its root"):

        class Unknown(OpRewritePattern[BinaryView]):
            """No annotation."""

            def match_and_rewrite(self, op, rw) -> bool:
                return False


def test_sets_refuse_what_they_cannot_use():
    class Rootless(Pattern[Inst]):
        """No root."""

    with pytest.raises(RewriteError, match="no root"):
        PatternSet([Rootless])
    with pytest.raises(RewriteError, match="two patterns are called DropAddZero"):
        PatternSet([DropAddZero, DropAddZero()])
    assert len(PatternSet([DropAddZero])) == 1


# Decisions.


class Quiet(Pattern[Inst]):
    """Never matches."""

    roots = (ops.add,)

    def match_and_rewrite(self, op: Inst, rw: ProgramRewriter) -> bool:
        return False


def decide(pattern: Pattern[Inst], inst: Inst) -> bool:
    """Whether the pattern is a candidate at the instruction."""
    return bool(PatternSet([pattern]).freeze().table(inst.op).decide(inst).candidates)


def test_filters_keep_patterns_away():
    function = Function("f", [I64, I64])
    x, y = function.params
    body = function.body
    c = const(body, 1)
    neg = body.append(ops.neg, (x,)).result
    plain = body.append(ops.add, (x, y))
    right = body.append(ops.add, (x, c))
    left = body.append(ops.add, (c, x))
    negated = body.append(ops.add, (x, neg))
    twice = body.append(ops.add, (x, x))

    def with_filter(**attributes):
        return type("Filtered", (Quiet,), attributes)()

    every = [plain, right, left, negated, twice]
    assert [decide(with_filter(), i) for i in every] == [True] * 5
    second = with_filter(operands=(None, ops.constant))
    assert [decide(second, i) for i in every] == [False, True, False, False, False]
    anywhere = with_filter(any_operand=ops.constant)
    assert [decide(anywhere, i) for i in every] == [False, True, True, False, False]
    family = with_filter(operands=(None, (OpKey.ELEMENTWISE_UNARY, ops.constant)))
    assert [decide(family, i) for i in every] == [False, True, False, True, False]
    same = with_filter(same_operands=True)
    assert [decide(same, i) for i in every] == [False, False, False, False, True]


def test_filters_do_not_judge_operands_they_do_not_see():
    function = Function("f", [tensor("bool"), I64])
    p, x = function.params
    c = const(function.body, 1)
    inst = function.body.append(ops.select, (p, x, c))

    class Third(Pattern[Inst]):
        """Wants its third operand constant."""

        roots = (ops.select,)
        operands = (None, None, ops.constant)

    class Any(Pattern[Inst]):
        """Wants any operand constant."""

        roots = (ops.select,)
        any_operand = ops.constant

    assert decide(Third(), inst)
    assert decide(Any(), inst)


# Guards.


def test_guards_about_numbers():
    function = Function("f", [F32])
    body = function.body
    values = {x: const(body, x, F32) for x in (1.0, 2.0)}
    plus, minus = const(body, 0.0, F32), const(body, -0.0, F32)
    assert is_one(values[1.0])
    assert is_splat(values[2.0], 2)
    assert not is_one(values[2.0])
    assert is_zero(plus)
    assert is_zero(minus)
    assert is_positive_zero(plus)
    assert not is_positive_zero(minus)
    assert is_negative_zero(minus)
    assert not is_negative_zero(plus)
    assert splat_of(function.params[0]) is None
    assert not is_zero(function.params[0])
    assert not is_splat(const(body, float("nan"), F32), float("nan"))
    assert is_positive_zero(const(body, 0))
    assert not is_negative_zero(const(body, 0))


def test_guards_about_structure():
    function = Function("f", [F32])
    cast = function.body.append(ops.cast, function.params, ops.CastAttrs(dtypes.float64))
    assert defined_by(cast.result, ops.cast) is cast
    assert defined_by(cast.result, OpKey.CAST) is cast
    assert defined_by(cast.result, ops.neg) is None
    assert defined_by(function.params[0], ops.cast) is None
    view = CastView.of(cast.result)
    assert view is not None
    assert view.source is function.params[0]
    assert view.attrs.dtype is dtypes.float64
    assert UnaryView.of(cast.result) is None
    assert BroadcastView.of(function.params[0]) is None


def test_permutations():
    p, q = (2, 0, 1), (1, 0, 2)
    assert compose_permutations(p, inverse_permutation(p)) == (0, 1, 2)
    assert is_identity_permutation(compose_permutations(p, inverse_permutation(p)))
    assert not is_identity_permutation(p)
    import numpy as np

    x = np.arange(24).reshape(2, 3, 4)
    assert (x.transpose(p).transpose(q) == x.transpose(compose_permutations(p, q))).all()


# Patterns from data.

DOUBLE_NEG = {
    "name": "FoldNegOfNeg",
    "match": {"op": "neg", "operands": [{"op": "neg", "operands": ["x"]}]},
    "rewrite": "x",
}


def test_data_patterns_match_and_rewrite():
    function = Function("f", [I64])
    value = function.params[0]
    for _ in range(5):
        value = function.body.append(ops.neg, (value,)).result
    function.body.set_results([value])
    pattern = DataPattern(DOUBLE_NEG)
    assert pattern.radius == 2
    assert pattern.operands == (ops.neg,)
    stats = apply_patterns_and_fold_greedily(function, PatternSet([pattern]), CHECKED)
    assert stats.patterns["FoldNegOfNeg"].hits == 2
    assert names(function) == ["neg"]


def test_data_patterns_bind_names_numbers_and_attributes():
    spec = {
        "name": "DistributeBack",
        "match": {
            "op": "add",
            "operands": [
                {"op": "mul", "operands": ["x", {"const": "c"}]},
                {"op": "mul", "operands": ["x", {"const": 2}]},
            ],
        },
        "rewrite": {"op": "mul", "operands": ["x", {"op": "add", "operands": ["c", {"const": 2}]}]},
        "when": ["int", "one-use:x"],
        "benefit": 3,
    }
    pattern = DataPattern({**spec, "when": ["int"]})
    assert pattern.benefit == 3
    function = Function("f", [I64, I64])
    x, y = function.params
    body = function.body
    two, five = const(body, 2), const(body, 5)

    def both(a, b, c):
        return body.append(
            ops.add, (body.append(ops.mul, (a, c)).result, body.append(ops.mul, (b, two)).result)
        )

    matching, different = both(x, x, five), both(x, y, five)
    body.set_results([matching.result, different.result])
    stats = apply_patterns_and_fold_greedily(function, PatternSet([pattern]), CHECKED)
    assert stats.rewrites == 1
    assert function.results[1] is different.result
    assert_valid(function)


def test_data_patterns_with_attributes_and_conditions():
    spec = {
        "name": "MergeCasts",
        "match": {
            "op": "cast",
            "attrs": {"dtype": "$to"},
            "operands": [{"op": "cast", "attrs": {"dtype": "f64"}, "operands": ["x"]}],
        },
        "rewrite": {"op": "cast", "attrs": {"dtype": "$to"}, "operands": ["x"]},
        "when": ["float"],
    }
    function = Function("f", [F32])
    wide = function.body.append(ops.cast, function.params, ops.CastAttrs(dtypes.float64)).result
    half = function.body.append(ops.cast, (wide,), ops.CastAttrs(dtypes.float16)).result
    whole = function.body.append(ops.cast, (wide,), ops.CastAttrs(dtypes.int32)).result
    function.body.set_results([half, whole])
    stats = apply_patterns_and_fold_greedily(function, PatternSet([DataPattern(spec)]), CHECKED)
    assert stats.rewrites == 1
    assert [v.type.dtype for v in function.results] == [dtypes.float16, dtypes.int32]
    assert names(function).count("cast") == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "needs a name"),
        ({"match": "x"}, "an op at its root"),
        ({"rewrite": "y"}, "does not match: y"),
        ({"extra": 1}, "unknown parts: extra"),
        ({"when": ["even"]}, "unknown condition"),
        ({"when": "int"}, "list of conditions"),
        ({"benefit": "much"}, "not an integer"),
        ({"match": {"op": "neg", "operands": [7]}}, "cannot be read"),
        ({"match": {"op": "cast", "attrs": {"kind": 1}, "operands": ["x"]}}, "no attribute kind"),
    ],
)
def test_bad_data_patterns_say_what_is_wrong(change, message):
    with pytest.raises(RewriteError, match=message):
        DataPattern({**DOUBLE_NEG, **change})


def test_data_patterns_know_ops_only():
    with pytest.raises(GraphError, match="no op 'nog'"):
        DataPattern({**DOUBLE_NEG, "match": {"op": "nog", "operands": ["x"]}})

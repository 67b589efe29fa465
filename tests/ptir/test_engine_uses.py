"""Patterns that watch uses hear of every use that goes, however it goes."""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.function import Function, Inst, Region
from planish.ptir.rewrite import GreedyConfig, Pattern, PatternSet, apply_patterns_and_fold_greedily
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.ptir.types import tensor
from tests.ptir.engine_helpers import assert_valid, names

ROW = tensor("i64", (4,))


class TurnAbsIntoNeg(Pattern[Inst]):
    """abs(x) -> neg(x): nonsense that puts the next pattern off by a generation."""

    roots = (ops.abs,)

    def match_and_rewrite(self, op: Inst, rw: ProgramRewriter) -> bool:
        rw.replace_with(op, ops.neg, op.operands)
        return True


class ForgetNeg(Pattern[Inst]):
    """neg(x) -> 0: nonsense that drops a use of x."""

    roots = (ops.neg,)

    def match_and_rewrite(self, op: Inst, rw: ProgramRewriter) -> bool:
        rw.replace_op(op, rw.splat(op, op.result.type, 0))
        return True


class DropUnusedPayload(Pattern[Inst]):
    """sort(k, p) -> sort(k) where p is not used."""

    roots = (ops.sort,)
    watch_uses = True

    def match_and_rewrite(self, op: Inst, rw: ProgramRewriter) -> bool:
        if len(op.results) < 2 or op.results[1].has_uses:
            return rw.fail(op, "there is no unused payload")
        new = rw.insert_before(op, ops.sort, op.operands[:1], op.attrs)
        rw.replace_all_uses(op.results[0], new.results[0])
        rw.erase_inst(op)
        return True


class MergeOnlyUse(Pattern[Inst]):
    """x - y -> x + y where nothing else uses x: nonsense that asks for the only use."""

    roots = (ops.sub,)
    watch_uses = True

    def match_and_rewrite(self, op: Inst, rw: ProgramRewriter) -> bool:
        if not op.operands[0].has_one_use:
            return rw.fail(op, "x is used elsewhere")
        rw.replace_with(op, ops.add, op.operands)
        return True


def test_a_result_that_falls_out_of_use_wakes_its_definition():
    for config in (GreedyConfig(), GreedyConfig(enable_dce=False)):
        function = Function("f", [ROW, ROW])
        body = function.body
        keys, payload = body.append(ops.sort, function.params, ops.SortAttrs(0)).results
        body.set_results([keys, body.append(ops.abs, (payload,)).result])
        patterns = PatternSet([TurnAbsIntoNeg, ForgetNeg, DropUnusedPayload])
        stats = apply_patterns_and_fold_greedily(function, patterns, config)
        assert stats.patterns["DropUnusedPayload"].hits == 1
        assert [len(inst.operands) for inst in function if inst.op is ops.sort] == [1]
        assert_valid(function)


def test_a_use_replaced_wakes_the_definition_of_what_was_used():
    class UseKeys(Pattern[Inst]):
        """neg(p) -> neg(k): nonsense that moves a use."""

        roots = (ops.neg,)

        def match_and_rewrite(self, op: Inst, rw: ProgramRewriter) -> bool:
            value = op.operands[0]
            if value.index == 0 or value.def_inst is None:
                return False
            rw.set_operands(op, value.def_inst.results[:1])
            return True

    function = Function("f", [ROW, ROW])
    body = function.body
    _, payload = body.append(ops.sort, function.params, ops.SortAttrs(0)).results
    body.set_results([body.append(ops.abs, (payload,)).result])
    apply_patterns_and_fold_greedily(function, PatternSet([TurnAbsIntoNeg, UseKeys, DropUnusedPayload]))
    assert names(function) == ["sort", "neg"]
    assert [len(inst.operands) for inst in function] == [1, 1]


def test_uses_inside_an_erased_region_count():
    function = Function("f", [tensor("bool"), ROW, ROW])
    flag, x, y = function.params
    body = function.body
    shared = body.append(ops.mul, (x, y)).result
    waiting = body.append(ops.sub, (shared, y)).result
    regions = []
    for _ in range(2):
        region = Region(function)
        region.set_results([region.append(ops.add, (shared, x)).result])
        regions.append(region)
    chosen = body.append(ops.cond, (flag,), regions=regions).result
    body.set_results([waiting, body.append(ops.abs, (chosen,)).result])
    patterns = PatternSet([TurnAbsIntoNeg, ForgetNeg, MergeOnlyUse])
    stats = apply_patterns_and_fold_greedily(function, patterns)
    assert stats.patterns["MergeOnlyUse"].hits == 1
    assert names(function) == ["constant", "mul", "add"]
    assert_valid(function)


def test_the_last_use_as_a_region_result_counts():
    class ReturnOther(Pattern[Inst]):
        """cond(p, {m}, …) -> cond(p, {x}, …): nonsense that drops a use by a region's result."""

        roots = (ops.cond,)

        def match_and_rewrite(self, op: Inst, rw: ProgramRewriter) -> bool:
            shared = rw.function.body.first
            region = op.regions[0]
            if shared is None or region.results != shared.results:
                return False
            rw.set_region_results(region, rw.function.params[1:2])
            return True

    function = Function("f", [tensor("bool"), ROW, ROW])
    flag, x, y = function.params
    body = function.body
    shared = body.append(ops.mul, (x, y)).result
    regions = [Region(function), Region(function)]
    regions[0].set_results([shared])
    regions[1].set_results([y])
    chosen = body.append(ops.cond, (flag,), regions=regions).result
    # Last, so that it is looked at before the region lets go.
    body.set_results([chosen, body.append(ops.sub, (shared, y)).result])
    apply_patterns_and_fold_greedily(function, PatternSet([ReturnOther, MergeOnlyUse]))
    assert names(function) == ["mul", "cond", "add"]

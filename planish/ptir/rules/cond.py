"""Conditionals: decided, alike on both sides, relieved of results, or plain selects."""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.rewrite.prelude import CondView, OpRewritePattern, PatternSet, ProgramRewriter
from planish.ptir.rules import draft as d
from planish.ptir.rules import regions as r
from planish.ptir.rules.numbers import number_of
from planish.ptir.rules.shapes import same_scalar


class FoldCondOfConstant(OpRewritePattern[CondView]):
    """cond(True, a, b) -> a, cond(False, a, b) -> b."""

    benefit = 5
    radius = 1
    operands = (ops.constant,)

    def match_and_rewrite(self, op: CondView, rw: ProgramRewriter) -> bool:
        truth = number_of(op.predicate)
        if truth is None:
            return rw.fail(op.inst, "the predicate is not constant")
        chosen = op.regions[0 if truth else 1]
        if r.binds_sizes(chosen):
            return rw.fail(op.inst, "the region binds a size")
        rw.replace_op(op.inst, *r.move_body(rw, chosen, op.inst, ()))
        return True


class FoldCondOfEqualRegions(OpRewritePattern[CondView]):
    """cond(p, a, a) -> a."""

    benefit = 4
    radius = 0

    def match_and_rewrite(self, op: CondView, rw: ProgramRewriter) -> bool:
        first, second = op.regions
        if not r.same_regions(first, second) or r.binds_sizes(first):
            return rw.fail(op.inst, "the regions differ, or bind a size")
        rw.replace_op(op.inst, *r.move_body(rw, first, op.inst, ()))
        return True


class InvertCond(OpRewritePattern[CondView]):
    """cond(not p, a, b) -> cond(p, b, a)."""

    benefit = 3
    radius = 1
    operands = (ops.not_,)

    def match_and_rewrite(self, op: CondView, rw: ProgramRewriter) -> bool:
        inner = op.predicate.def_inst
        if inner is None:
            return False
        first, second = rw.detach_regions(op.inst)
        new = rw.insert_before(op.inst, ops.cond, inner.operands, op.inst.attrs, (second, first))
        rw.replace_op(op.inst, *new.results)
        return True


class ForwardEqualCondResults(OpRewritePattern[CondView]):
    """A result of cond that is the same on both sides, and known outside, is that value."""

    benefit = 2
    radius = 0

    def match_and_rewrite(self, op: CondView, rw: ProgramRewriter) -> bool:
        first, second = (region.results for region in op.regions)
        found = False
        for result, a, b in zip(op.results, first, second, strict=True):
            if result.users and same_scalar(a, b) and rw.dominates(a, op.inst):
                rw.replace_all_uses(result, a)
                found = True
        return found or rw.fail(op.inst, "every result depends on the predicate")


class RemoveUnusedCondResults(OpRewritePattern[CondView]):
    """cond(p, a, b) without the results that nothing uses."""

    benefit = 3
    radius = 0
    watch_uses = True

    def match_and_rewrite(self, op: CondView, rw: ProgramRewriter) -> bool:
        kept = [number for number, value in enumerate(op.results) if value.users]
        if len(kept) == len(op.results) or not kept:
            return rw.fail(op.inst, "every result is used")
        for region in op.regions:
            rw.set_region_results(region, [region.results[number] for number in kept])
            r.erase_unused(rw, region)
        r.rebuild(rw, op.inst, op.operands, op.inst.attrs, kept)
        rw.erase_inst(op.inst)
        return True


class ReplaceCondBySelect(OpRewritePattern[CondView]):
    """cond(p, x, y) -> select(p, x, y) where both regions just give what is known outside."""

    benefit = 1
    radius = 0

    def match_and_rewrite(self, op: CondView, rw: ProgramRewriter) -> bool:
        if any(len(region) for region in op.regions):
            return rw.fail(op.inst, "a region computes something")
        chosen: list[d.Term | None] = []
        for a, b in zip(op.regions[0].results, op.regions[1].results, strict=True):
            spread = d.broadcasted(op.predicate, a.type.dims)
            chosen.append(a if a is b else d.draft(ops.select, (spread, a, b)))
        return d.replace(rw, op.inst, *chosen)


class HoistConstantsOutOfCond(OpRewritePattern[CondView]):
    """Constants in the regions of cond stand before it."""

    benefit = 4
    radius = 0

    def match_and_rewrite(self, op: CondView, rw: ProgramRewriter) -> bool:
        found = [inst for region in op.regions for inst in region if inst.op is ops.constant]
        for inst in found:
            rw.move_before(inst, op.inst)
        return bool(found) or rw.fail(op.inst, "no constants inside")


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns of conditionals."""
    patterns.add(
        FoldCondOfConstant,
        FoldCondOfEqualRegions,
        HoistConstantsOutOfCond,
        InvertCond,
        RemoveUnusedCondResults,
        ForwardEqualCondResults,
        ReplaceCondBySelect,
    )

"""Conditionals: decided, alike on both sides, relieved of results, or plain selects."""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.function import Inst
from planish.ptir.rewrite import views as v
from planish.ptir.rewrite.prelude import ProgramRewriter
from planish.ptir.rules import draft as d
from planish.ptir.rules import regions as r
from planish.ptir.rules.numbers import number_of
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.rules.shapes import same_scalar


@rule(benefit=5, operands=(ops.constant,))
def FoldCondOfConstant(op: v.CondView, rw: ProgramRewriter) -> Answer:
    """cond(True, a, b) -> a, cond(False, a, b) -> b."""
    truth = number_of(op.predicate)
    if truth is None:
        return "the predicate is not constant"
    chosen = op.regions[0 if truth else 1]
    if r.binds_sizes(chosen):
        return "the region binds a size"
    rw.replace_op(op.inst, *r.move_body(rw, chosen, op.inst, ()))
    return True


@rule(benefit=4)
def FoldCondOfEqualRegions(op: v.CondView, rw: ProgramRewriter) -> Answer:
    """cond(p, a, a) -> a."""
    first, second = op.regions
    if not r.same_regions(first, second) or r.binds_sizes(first):
        return "the regions differ, or bind a size"
    rw.replace_op(op.inst, *r.move_body(rw, first, op.inst, ()))
    return True


@rule(benefit=4)
def HoistConstantsOutOfCond(op: v.CondView, rw: ProgramRewriter) -> Answer:
    """Constants in the regions of cond stand before it."""
    constants = [inst for region in op.regions for inst in region if inst.op is ops.constant]
    for inst in constants:
        rw.move_before(inst, op.inst)
    return bool(constants) or "no constants inside"


@rule(benefit=3, operands=(ops.not_,))
def InvertCond(op: v.CondView, inner: Inst, rw: ProgramRewriter) -> Answer:
    """cond(not p, a, b) -> cond(p, b, a)."""
    first, second = rw.detach_regions(op.inst)
    new = rw.insert_before(op.inst, ops.cond, inner.operands, op.inst.attrs, (second, first))
    rw.replace_op(op.inst, *new.results)
    return True


@rule(benefit=3, watch_uses=True)
def RemoveUnusedCondResults(op: v.CondView, rw: ProgramRewriter) -> Answer:
    """cond(p, a, b) without the results that nothing uses."""
    kept = [number for number, value in enumerate(op.results) if value.users]
    if len(kept) == len(op.results) or not kept:
        return "every result is used"
    for region in op.regions:
        rw.set_region_results(region, [region.results[number] for number in kept])
        r.erase_unused(rw, region)
    r.rebuild(rw, op.inst, op.operands, op.inst.attrs, kept)
    rw.erase_inst(op.inst)
    return True


@rule(benefit=2)
def ForwardEqualCondResults(op: v.CondView, rw: ProgramRewriter) -> Answer:
    """A result of cond that is the same on both sides, and known outside, is that value."""
    first, second = (region.results for region in op.regions)
    changed = False
    for result, a, b in zip(op.results, first, second, strict=True):
        if result.users and same_scalar(a, b) and rw.dominates(a, op.inst):
            rw.replace_all_uses(result, a)
            changed = True
    return changed or "every result depends on the predicate"


@rule()
def ReplaceCondBySelect(op: v.CondView) -> Answer:
    """cond(p, x, y) -> select(p, x, y) where both regions just give what is known outside."""
    if any(len(region) for region in op.regions):
        return "a region computes something"
    chosen: list[d.Term | None] = []
    for a, b in zip(op.regions[0].results, op.regions[1].results, strict=True):
        spread = d.broadcasted(op.predicate, a.type.dims)
        chosen.append(a if a is b else d.draft(ops.select, (spread, a, b)))
    return tuple(chosen)


populate_canonicalization = family(__name__)

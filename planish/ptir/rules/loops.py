"""Loops: `while` and `scan` without what does not change, is not used, or does not loop.

A carried value is *dead* if no result that is used, and no condition, depends on it; *invariant* if every iteration hands
it on as it came. Whatever a region computes from values outside alone is computed before the loop: nothing traps, so
that is right even if the loop never runs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.function import Inst, Region, Value
from planish.ptir.rewrite import views as v
from planish.ptir.rewrite.prelude import ProgramRewriter
from planish.ptir.rules import draft as d
from planish.ptir.rules import regions as r
from planish.ptir.rules.numbers import is_false
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.rules.shapes import same_scalar, varies


def body_of(loop: Inst) -> Region:
    return loop.regions[-1]


def carries_of(loop: Inst) -> int:
    """How many operands are carried: they come first, among operands, parameters and results alike."""
    return loop.attrs.num_carries if isinstance(loop.attrs, ops.ScanAttrs) else len(loop.operands)


def drop_carries(rw: ProgramRewriter, loop: Inst, gone: Collection[int], *, erase: bool = False) -> None:
    """Take carried values off a loop; nothing may use them, or if `erase`, nothing that is needed."""
    kept = [number for number in range(len(loop.results)) if number not in gone]
    body = body_of(loop)
    rw.set_region_results(body, [body.results[number] for number in kept])
    for region in loop.regions:
        if erase:
            r.erase_unused(rw, region)
        for number in sorted(gone, reverse=True):
            rw.remove_region_arg(region, number)
    operands = [value for number, value in enumerate(loop.operands) if number not in gone]
    attrs = loop.attrs
    if isinstance(attrs, ops.ScanAttrs):
        attrs = replace(attrs, num_carries=attrs.num_carries - len(gone))
    r.rebuild(rw, loop, operands, attrs, kept)
    rw.erase_inst(loop)


def replace_uses(rw: ProgramRewriter, old: Value, new: Value) -> None:
    if old.users:
        rw.replace_all_uses(old, new)


@rule(benefit=5)
def HoistInvariantCode(op: v.WhileView | v.ScanView, rw: ProgramRewriter) -> Answer:
    """loop { y = f(x) … } -> y = f(x); loop { … } where x comes from outside."""
    changed = False
    for region in op.regions:
        # In order, so that what depends on something hoisted follows it.
        for inst in list(region):
            if r.is_invariant(inst, op.inst):
                rw.move_before(inst, op.inst)
                changed = True
    return changed or "everything inside depends on the iteration"


@rule(benefit=4, radius=1)
def HoistInvariantCarries(op: v.WhileView | v.ScanView, rw: ProgramRewriter) -> Answer:
    """A carried value that the body hands on unchanged is the value it starts with, inside and after."""
    loop = op.inst
    body, count = body_of(loop), carries_of(loop)
    same = [
        number
        for number in range(count)
        if body.results[number] is body.args[number]
        or same_scalar(body.results[number], loop.operands[number])
    ]
    if len(same) == len(loop.operands) and isinstance(op, v.WhileView):
        # A while keeps at least one carried value.
        same = same[1:]
    if not same:
        return "every carried value changes"
    for number in same:
        start = loop.operands[number]
        replace_uses(rw, loop.results[number], start)
        for region in loop.regions:
            replace_uses(rw, region.args[number], start)
    drop_carries(rw, loop, same)
    return True


@rule(benefit=3, radius=1)
def MergeEqualCarries(op: v.WhileView | v.ScanView, rw: ProgramRewriter) -> Answer:
    """Two carried values that start and go on as one are one."""
    loop = op.inst
    results, first = body_of(loop).results, dict[tuple[Value, Value], int]()
    gone: list[int] = []
    for number in range(carries_of(loop)):
        earlier = first.setdefault((loop.operands[number], results[number]), number)
        if earlier == number:
            continue
        replace_uses(rw, loop.results[number], loop.results[earlier])
        for region in loop.regions:
            replace_uses(rw, region.args[number], region.args[earlier])
        gone.append(number)
    if not gone:
        return "all carried values differ"
    drop_carries(rw, loop, gone)
    return True


@rule(benefit=3, watch_uses=True)
def RemoveUnusedCarries(op: v.WhileView | v.ScanView, rw: ProgramRewriter) -> Answer:
    """loop without the carried values that nothing depends on but themselves."""
    loop = op.inst
    body, count = body_of(loop), carries_of(loop)
    live = {number for number, value in enumerate(loop.results) if value.users or number >= count}
    if isinstance(op, v.WhileView):
        live |= r.live_arguments(op.condition, (0,))
    size = -1
    while len(live) != size:
        size = len(live)
        live |= {number for number in r.live_arguments(body, live) if number < count}
    gone = [number for number in range(count) if number not in live]
    if not gone or not live:
        return "every carried value is used"
    drop_carries(rw, loop, gone, erase=True)
    return True


@rule(benefit=6)
def FoldWhileOfFalse(op: v.WhileView, rw: ProgramRewriter) -> Answer:
    """while(False, …) -> the values it starts with."""
    if not is_false(op.condition.results[0]):
        return "the condition may be true"
    rw.replace_op(op.inst, *op.operands)
    return True


# --- scan --------------------------------------------------------------------------------------------------


@rule(benefit=6)
def FoldScanOfLengthZero(op: v.ScanView) -> Answer:
    """scan of length 0 -> the values it starts with, and empty outputs."""
    if op.attrs.length != 0:
        return "it may run"
    count = op.attrs.num_carries
    return (*op.operands[:count], *[d.empty(value.type) for value in op.results[count:]])


@rule(benefit=6)
def InlineScanOfLengthOne(op: v.ScanView, rw: ProgramRewriter) -> Answer:
    """scan of length 1 -> its body."""
    count, body = op.attrs.num_carries, op.body
    if op.attrs.length != 1 or r.binds_sizes(body):
        return "it may run more than once, or binds a size"
    slices = [d.reshaped(value, value.type.dims[1:]) for value in op.operands[count:]]
    stacked = [_stacked(value) for value in body.results[count:]]
    if None in slices or None in stacked:
        return "a quantised value cannot be reshaped"
    args = [*op.operands[:count], *[d.insert(rw, op.inst, term) for term in slices if term is not None]]
    results = r.move_body(rw, body, op.inst, args)
    return (*results[:count], *[_stacked(value) for value in results[count:]])


def _stacked(value: Value) -> d.Term | None:
    return d.reshaped(value, (1, *value.type.dims))


@rule(benefit=3, watch_uses=True)
def RemoveUnusedScanOutputs(op: v.ScanView, rw: ProgramRewriter) -> Answer:
    """scan without the stacked outputs that nothing uses."""
    count = op.attrs.num_carries
    kept = [n for n, value in enumerate(op.results) if n < count or value.users]
    if len(kept) == len(op.results) or not kept:
        return "every output is used"
    rw.set_region_results(op.body, [op.body.results[number] for number in kept])
    r.erase_unused(rw, op.body)
    r.rebuild(rw, op.inst, op.operands, op.attrs, kept)
    rw.erase_inst(op.inst)
    return True


@rule(benefit=3)
def RemoveUnusedSequences(op: v.ScanView, rw: ProgramRewriter) -> Answer:
    """scan without the sequences that its body does not look at."""
    count, body = op.attrs.num_carries, op.body
    gone = [n for n, value in enumerate(body.args) if n >= count and not value.users]
    if not gone:
        return "every sequence is used"
    for number in reversed(gone):
        rw.remove_region_arg(body, number)
    operands = [value for number, value in enumerate(op.operands) if number not in gone]
    r.rebuild(rw, op.inst, operands, op.attrs, range(len(op.results)))
    rw.erase_inst(op.inst)
    return True


@rule(benefit=2)
def ForwardScanOutputs(op: v.ScanView, rw: ProgramRewriter) -> Answer:
    """An output of scan that is a slice of a sequence as it came is that sequence; one from outside is repeated."""
    body, changed = op.body, False
    for number in range(op.attrs.num_carries, len(op.results)):
        result, value = op.results[number], body.results[number]
        if not result.users:
            continue
        if value.owner is body and value.index >= op.attrs.num_carries:
            rw.replace_all_uses(result, op.operands[value.index])
            changed = True
        elif rw.dominates(value, op.inst):
            repeated = d.broadcasted(value, result.type.dims)
            if repeated is not None and repeated.type == result.type:
                rw.replace_all_uses(result, d.insert(rw, op.inst, repeated))
                changed = True
    return changed or "every output depends on the iteration"


@rule(benefit=2, radius=2)
def CaptureRepeatedSequences(op: v.ScanView, rw: ProgramRewriter) -> Answer:
    """scan over broadcast_to(x) along the axis that repeats -> its body sees x."""
    changed = False
    for arg, value in zip(op.body.args, op.operands, strict=True):
        if arg.index < op.attrs.num_carries or not arg.users:
            continue
        repeated = _slice_of_repeated(value)
        if repeated is not None and repeated.type == arg.type:
            rw.replace_all_uses(arg, d.insert(rw, op.inst, repeated))
            changed = True
    return changed or "every sequence changes along its length"


def _slice_of_repeated(value: Value) -> d.Term | None:
    """What every slice of a value along axis 0 is, if they are all the same."""
    dims: tuple[DimLike, ...] = value.type.dims[1:]
    literal = value.literal
    if literal is not None:
        return d.splat(literal, dims, value.type.quant) if literal.splat else None
    spread = v.BroadcastView.of(value)
    if spread is None or varies(spread.inst, 0):
        return None
    source: d.Term | None = spread.source
    if spread.source.type.rank == value.type.rank:
        source = d.reshaped(source, spread.source.type.dims[1:])
    return d.broadcasted(source, dims)


@rule(benefit=2)
def NormalizeScanDirection(op: v.ScanView, rw: ProgramRewriter) -> Answer:
    """scan(reverse) -> scan where nothing is carried: each step is on its own."""
    if not op.attrs.reverse or op.attrs.num_carries:
        return "it runs forward, or carries a value"
    rw.set_attrs(op.inst, replace(op.attrs, reverse=False))
    return True


populate_canonicalization = family(__name__)

"""What rules about control flow share: regions compared, emptied, and relieved of parameters and results."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence

from planish.ptir import ops
from planish.ptir.dims import Dim
from planish.ptir.function import Inst, Region, Value
from planish.ptir.ops.definition import OpKey
from planish.ptir.rewrite.prelude import ProgramRewriter


def same_regions(left: Region, right: Region) -> bool:
    """Whether two regions compute the same, up to the names of what they define."""
    twins: dict[Value, Value] = {}
    pending = [(left, right)]
    while pending:
        first, second = pending.pop()
        if first.arg_types != second.arg_types or len(first) != len(second):
            return False
        twins.update(zip(first.args, second.args, strict=True))
        for a, b in zip([*first, first.end], [*second, second.end], strict=True):
            if a.op is not b.op or a.attrs != b.attrs or len(a.regions) != len(b.regions):
                return False
            if len(a.operands) != len(b.operands) or len(a.results) != len(b.results):
                return False
            if any(twins.get(x, x) is not y for x, y in zip(a.operands, b.operands, strict=True)):
                return False
            twins.update(zip(a.results, b.results, strict=True))
            # Nested regions are compared later: they see what is defined before them, which is known by then.
            pending += zip(a.regions, b.regions, strict=True)
    return True


def binds_sizes(region: Region) -> bool:
    """Whether a region gives a dynamic size its value: inlined twice, the name would have two."""
    return any(inst.op is ops.bind_dim for inst in region.walk())


def move_body(rw: ProgramRewriter, region: Region, at: Inst, args: Sequence[Value]) -> tuple[Value, ...]:
    """Move the instructions of a region before its owner `at`, with values for its parameters; gives its results."""
    for arg, value in zip(region.args, args, strict=True):
        rw.replace_all_uses(arg, value)
    for inst in list(region):
        rw.move_before(inst, at)
    results = region.results
    rw.set_region_results(region, ())
    return results


def erase_unused(rw: ProgramRewriter, region: Region) -> None:
    """Take out what nothing in a region uses any more."""
    for inst in reversed(region):
        if inst.op.pure and not any(value.users for value in inst.results):
            rw.erase_inst(inst)


def live_arguments(region: Region, results: Collection[int]) -> set[int]:
    """The positions of the parameters that some results depend on, nested regions seen through."""
    ends = region.end.operands
    pending = [ends[number] for number in results]
    seen: set[Value] = set()
    live: set[int] = set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if value.owner is region:
            live.add(value.index)
        inst = value.def_inst
        if inst is not None and inst.parent is not None and inst.parent.is_within(region):
            pending += inst.operands
            for inner in inst.regions:
                for nested in [*inner.walk(), inner.end]:
                    pending += nested.operands
                    pending += [v for r in nested.regions for v in r.end.operands]
    return live


def symbols_of(item: object) -> Iterator[str]:
    """The names of the dynamic sizes in attributes, however nested."""
    if isinstance(item, Dim):
        yield from (symbol.name for symbol in item.symbols())
    elif isinstance(item, tuple):
        for part in item:
            yield from symbols_of(part)
    elif dataclasses.is_dataclass(item) and not isinstance(item, type):
        for field in dataclasses.fields(item):
            yield from symbols_of(getattr(item, field.name))


def is_invariant(inst: Inst, loop: Inst) -> bool:
    """Whether an instruction in a region of `loop` may be computed before it, whatever the loop does.

    All its operands come from outside, it is cheap to decide (no regions, no calls: those may run for ever), and no size
    in it is one that the loop binds.
    """
    if inst.regions or not inst.op.pure or not inst.op.deterministic or inst.op is ops.bind_dim:
        return False
    if inst.op.key in (OpKey.CALL, OpKey.CUSTOM_CALL):
        return False
    for value in inst.operands:
        home = value.region
        if home is None or (home.owner is not None and _is_inside(home, loop)):
            return False
    needed = {*symbols_of(inst.attrs), *(s.name for v in inst.results for s in v.type.symbols())}
    if not needed:
        return True
    given = {s.name for v in inst.operands for s in v.type.symbols()}
    given.update(s.name for v in inst.function.params for s in v.type.symbols())
    return needed <= given


def _is_inside(region: Region, loop: Inst) -> bool:
    return any(region.is_within(own) for own in loop.regions)


def rebuild(
    rw: ProgramRewriter, inst: Inst, operands: Sequence[Value], attrs: ops.Attrs, kept: Sequence[int]
) -> Inst:
    """Put `inst` anew with its own regions and other operands; result `kept[i]` becomes result i."""
    regions = rw.detach_regions(inst)
    new = rw.insert_before(inst, inst.op, operands, attrs, regions)
    for position, number in enumerate(kept):
        old = inst.results[number]
        if old.users:
            rw.replace_all_uses(old, new.results[position])
        new.results[position].name = old.name
    return new

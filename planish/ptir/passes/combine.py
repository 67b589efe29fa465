"""`combine`: small all-reduces that do not wait for each other become one, of all their elements in a row.

A collective takes its time to start, however little it carries. All-reduces of one group, kind and dtype wait for each other, and what
needs their results is put off, until they are enough or nothing else is left to do; then one carries all. Elements are combined as before, each by itself.
Sums over ranks that a loop adds up step by step are taken once, behind it (`sharding.postponed`).
"""

from __future__ import annotations

import math
from typing import ClassVar

from planish.dtypes import DType
from planish.ptir.function import Function, Inst, Program, Region, Value
from planish.ptir.library.splice import Splice
from planish.ptir.ops.collective import AllReduceAttrs, all_reduce
from planish.ptir.passes.definition import DEFAULT_CONTEXT, PassContext, PassResult, over_functions, register
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.ptir.sharding.postponed import postpone_sums
from planish.records import dataclass

Key = tuple[AllReduceAttrs, DType]


@register
@dataclass(frozen=True, slots=True)
class CombinePass:
    """Make one all-reduce of several small ones."""

    name: ClassVar[str] = "combine"

    small: int = 65536
    """The largest that waits for others, in bytes."""
    enough: int = 1048576
    """The bytes that are sent without waiting for more."""

    def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
        return over_functions(
            program, lambda function: _Combiner(function, self, context).run(), "combined", settled=True
        )


class _Combiner:
    """One function: all-reduces that wait, by what they have in common."""

    def __init__(self, function: Function, options: CombinePass, context: PassContext) -> None:
        self.function = function
        self.options = options
        self.rewriter = ProgramRewriter(function, context.listener, pattern="combine")
        self.count = 0

    def run(self) -> int:
        self.count += postpone_sums(self.rewriter)
        self.region(self.function.body)
        return self.count

    def region(self, region: Region) -> None:
        """In rounds: what needs something that waits is put off, and what waits is sent at the end of each."""
        for inst in region:
            for inner in inst.regions:
                self.region(inner)
        left = list(region)
        if sum(map(self.waits, left)) < 2:
            return
        while left:
            waiting: dict[Key, list[Inst]] = {}
            missing: set[Value] = set()
            later: list[Inst] = []
            for inst in left:
                if missing and not missing.isdisjoint(inst.reads):
                    later.append(inst)
                    missing.update(inst.results)
                    continue
                self.rewriter.move_before(inst, region.end)
                if self.waits(inst):
                    attrs = inst.attrs
                    group = waiting.setdefault((attrs, inst.result.type.dtype), [])  # type: ignore[arg-type]
                    group.append(inst)
                    missing.add(inst.result)
                    if sum(_bytes(member) or 0 for member in group) >= self.options.enough:
                        missing.difference_update(member.result for member in group)
                        self.send(waiting.pop((attrs, inst.result.type.dtype)), region.end)  # type: ignore[arg-type]
            for group in waiting.values():
                self.send(group, region.end)
            left = later

    def waits(self, inst: Inst) -> bool:
        """Whether it is an all-reduce that may wait for others."""
        size = _bytes(inst) if inst.op is all_reduce else None
        return size is not None and size <= self.options.small

    def send(self, group: list[Inst], before: Inst) -> None:
        """One collective for a group, right before an instruction."""
        if len(group) < 2:
            return
        graph = Splice(self.rewriter, before)
        graph.place = group[0].loc
        sizes = [math.prod(member.result.type.shape) for member in group]
        rows = [graph.wrap(m.operands[0]).reshape((n,)) for m, n in zip(group, sizes, strict=True)]
        total = graph.emit(all_reduce, (graph.concat(rows),), group[0].attrs)
        start = 0
        for member, size in zip(group, sizes, strict=True):
            part = total.slice([start], [start + size]).reshape(member.result.type.dims)
            self.rewriter.replace_op(member, part.value)
            start += size
        self.count += len(group)


def _bytes(inst: Inst) -> int | None:
    """The size of a result that is known."""
    type = inst.results[0].type if len(inst.results) == 1 else None
    return None if type is None or not type.is_static else math.prod(type.shape) * type.dtype.itemsize

"""`dce`: remove what nothing uses.

One backward walk suffices: users come after what they use, so they are gone when it is looked at. What binds a named
size is looked at last, since types use it too (see `rewrite.bound_sizes`).
"""

from __future__ import annotations

from typing import ClassVar

from planish.ptir.function import Function, Inst, Program
from planish.ptir.passes.definition import DEFAULT_CONTEXT, PassContext, PassResult, over_functions, register
from planish.ptir.rewrite.bound_sizes import BINDERS, erase_unmentioned
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.records import dataclass


@register
@dataclass(frozen=True, slots=True)
class DCEPass:
    """Remove unused pure instructions."""

    name: ClassVar[str] = "dce"

    def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
        return over_functions(program, lambda each: remove_unused(each, context), "erased")


def remove_unused(function: Function, context: PassContext = DEFAULT_CONTEXT) -> int:
    """Remove what nothing uses from one function; gives how many instructions went."""
    rw = ProgramRewriter(function, context.listener, pattern="dce")
    erase = rw.erase_inst
    erased = 0
    aside: list[Inst] = []
    body = function.body
    # Where to go on in each region in progress, and the region's end, where its walk stops.
    stack: list[tuple[Inst, Inst]] = [(body.end.prev, body.end)]
    while stack:
        inst, end = stack.pop()
        while inst is not end:
            before = inst.prev
            for value in inst.results:
                if value.users:
                    break
            else:
                if inst.op in BINDERS:
                    aside.append(inst)
                elif inst.op.pure:
                    erase(inst)
                    erased += 1
                    inst = before
                    continue
            if inst.regions:
                # What a region uses must be known before its definitions are reached: regions come first.
                stack.append((before, end))
                stack += [(region.end.prev, region.end) for region in inst.regions]
                break
            inst = before
    rw._maybe_dead.clear()
    if aside:
        last: list[Inst] = []
        erase_unmentioned(rw, aside, last.append)
        erased += len(last)
    return erased

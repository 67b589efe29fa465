"""`symbol-dce`: remove functions that the entry cannot reach by calls."""

from __future__ import annotations

from typing import ClassVar

from planish.ptir.function import Program
from planish.ptir.passes.definition import DEFAULT_CONTEXT, PassContext, PassResult, register
from planish.ptir.passes.inline import calls_in
from planish.records import dataclass


@register
@dataclass(frozen=True, slots=True)
class SymbolDCEPass:
    """Remove unreachable functions."""

    name: ClassVar[str] = "symbol-dce"

    keep: tuple[str, ...] = ()
    """Functions to treat as entries besides the entry."""

    def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
        if program.entry_name is None:
            return PassResult()
        pending = [program.entry_name, *[name for name in self.keep if name in program.functions]]
        reached: set[str] = set()
        while pending:
            name = pending.pop()
            if name in reached or name not in program.functions:
                continue
            reached.add(name)
            pending += [callee for _, callee in calls_in(program.functions[name])]
        dropped = [name for name in program.functions if name not in reached]
        for name in dropped:
            del program.functions[name]
        return PassResult(bool(dropped), {"removed": len(dropped)})

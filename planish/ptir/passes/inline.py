"""`inline`: replace calls by the bodies of the functions they call.

Callees are inlined into first, so that each body is copied in its final form. A call that is part of a cycle of
calls stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from planish.ptir.function import Function, Inst, Program
from planish.ptir.ops.control import CallAttrs
from planish.ptir.passes.manager import DEFAULT_CONTEXT, PassContext, PassResult, register
from planish.ptir.rewrite.rewriter import ProgramRewriter


@register
@dataclass(frozen=True, slots=True)
class InlinePass:
    """Inline calls."""

    name: ClassVar[str] = "inline"

    max_size: int | None = None
    """Inline only functions of at most that many instructions, or called once; none: all."""

    def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
        order, cyclic = call_order(program)
        counts: dict[str, int] = {}
        for function in program:
            for _, callee in calls_in(function):
                counts[callee] = counts.get(callee, 0) + 1
        inlined = 0
        changed: list[str] = []
        for name in order:
            function = program.functions[name]
            rw = ProgramRewriter(function, context.listener, pattern="inline")
            here = 0
            for inst, callee in calls_in(function):
                target = program.functions.get(callee)
                if target is None or (name, callee) in cyclic:
                    continue
                size = sum(1 for _ in target.walk())
                if self.max_size is not None and size > self.max_size and counts[callee] > 1:
                    continue
                results = rw.inline_before(target.body, inst, inst.operands)
                rw.replace_op(inst, *results)
                here += 1
            if here:
                function.version += 1
                changed.append(name)
            inlined += here
        return PassResult(bool(inlined), {"inlined": inlined}, tuple(changed))


def calls_in(function: Function) -> list[tuple[Inst, str]]:
    """Every call of a function, nested regions included, with the name it calls."""
    return [(inst, inst.attrs.callee) for inst in function.walk() if isinstance(inst.attrs, CallAttrs)]


def call_order(program: Program) -> tuple[list[str], set[tuple[str, str]]]:
    """Functions with callees before callers, and the calls (caller, callee) that lie on a cycle."""
    edges = {f.name: [c for _, c in calls_in(f) if c in program.functions] for f in program}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    component: dict[str, int] = {}
    path: list[str] = []
    order: list[str] = []
    # Tarjan's strongly connected components, with the recursion written out.
    for start in edges:
        if start in index:
            continue
        work: list[tuple[str, int]] = [(start, 0)]
        while work:
            name, position = work.pop()
            if position == 0:
                index[name] = low[name] = len(index)
                path.append(name)
            callees = edges[name]
            while position < len(callees):
                callee = callees[position]
                position += 1
                if callee not in index:
                    work.append((name, position))
                    work.append((callee, 0))
                    break
                if callee not in component:
                    low[name] = min(low[name], low[callee])
            else:
                for callee in callees:
                    if callee not in component:
                        low[name] = min(low[name], low[callee])
                if low[name] == index[name]:
                    while True:
                        member = path.pop()
                        component[member] = index[name]
                        order.append(member)
                        if member == name:
                            break
    cyclic = {
        (caller, callee)
        for caller, callees in edges.items()
        for callee in callees
        if component[caller] == component[callee]
    }
    return order, cyclic

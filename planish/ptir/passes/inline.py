"""`inline`: replace calls by the bodies of the functions they call.

Callees are inlined into first, so that each body is copied in its final form. A call that is part of a cycle of
calls stays. Named sizes of the callee become what the call makes them; those it binds itself get the name the caller
has for them, or one that is free there. A call whose caller knows such a size under other terms stays.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import ClassVar

from planish.ptir import ops
from planish.ptir.dims import Dim, DimLike, bounds, substitute
from planish.ptir.function import Function, Inst, Program, Value
from planish.ptir.passes.definition import DEFAULT_CONTEXT, PassContext, PassResult, register
from planish.ptir.printer import symbols_in
from planish.ptir.rewrite.bound_sizes import SizeMentions
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.ptir.substitution import Substitution
from planish.records import dataclass


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
                sizes = sizes_at(inst, target)
                if sizes is None:
                    continue
                other = Substitution(sizes) if sizes else None
                rw.replace_op(inst, *rw.inline_before(target.body, inst, inst.operands, other))
                here += 1
            if here:
                function.version += 1
                changed.append(name)
            inlined += here
        return PassResult(bool(inlined), {"inlined": inlined}, tuple(changed))


def sizes_at(inst: Inst, callee: Function) -> dict[str, DimLike] | None:
    """What each named size of `callee` is in the terms of a call of it; None if the caller has no word for one."""
    sizes: dict[str, DimLike] = {}
    learn_sizes(callee.params, inst.operands, sizes)
    inside = SizeMentions(callee)
    if not inside.binds:
        return sizes
    # A result whose size the callee binds: the caller gave that size a name, which must be the call's to give.
    stated: dict[str, DimLike] = {}
    learn_sizes(callee.results, inst.results, stated)
    here = SizeMentions(inst.function).binds.get(inst, ())
    taken = names_in(inst.function)
    for binder, names in inside.binds.items():
        symbols = {symbol.name: symbol for value in binder.results for symbol in value.type.symbols()}
        for name in names:
            lowest, highest = symbols[name].lo, symbols[name].hi
            if isinstance(binder.attrs, ops.BindDimAttrs):
                # The axis may be shorter here than the callee had to expect.
                axis = substitute(binder.operands[0].type.dims[binder.attrs.axis], sizes)
                highest = min(highest, bounds(axis)[1])
            known = stated.get(name)
            if known is None:
                free = free_name(name, taken)
                taken.add(free)
                sizes[name] = Dim.named(free, lowest, highest)
            elif isinstance(known, Dim) and known.name in here and (known.lo, known.hi) == (lowest, highest):
                sizes[name] = known
            else:
                return None
    return sizes


def learn_sizes(formal: Sequence[Value], actual: Sequence[Value], sizes: dict[str, DimLike]) -> None:
    """Add what plain names among the sizes of `formal` are in `actual`."""
    for wanted, given in zip(formal, actual, strict=True):
        for dim, size in zip(wanted.type.dims, given.type.dims, strict=True):
            if isinstance(dim, Dim) and dim.name is not None:
                sizes.setdefault(dim.name, size)


def names_in(function: Function) -> set[str]:
    """Every named size of a function."""
    names = {symbol.name for value in function.values() for symbol in value.type.symbols()}
    return names | {symbol.name for inst in function.walk() for symbol in symbols_in(inst.attrs)}


def free_name(name: str, taken: Container[str]) -> str:
    """`name` itself, or with a number behind it."""
    number = 0
    free = name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def calls_in(function: Function) -> list[tuple[Inst, str]]:
    """Every call of a function, nested regions included, with the name it calls."""
    return [(inst, inst.attrs.callee) for inst in function.walk() if isinstance(inst.attrs, ops.CallAttrs)]


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

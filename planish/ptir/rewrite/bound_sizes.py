"""Instructions that give a name to a size are used as long as the name is, even if no one uses their results.

`bind_dim` (and a call whose results have sizes of their own) says what a named size is. Types and attributes of other
instructions mention the name without using the value, so use lists alone do not show that the instruction is needed.
Dead-code removal therefore puts such instructions aside and asks here once it is done with the rest: one walk counts
the mentions, after that each removal costs what it removes. A function without such instructions pays nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from planish.ptir.function import Function, Inst, Region
from planish.ptir.ops.control import call, custom_call
from planish.ptir.ops.definition import OpDef
from planish.ptir.ops.sizes import bind_dim
from planish.ptir.printer import symbols_in
from planish.ptir.rewrite.rewriter import ProgramRewriter

BINDERS: Final[frozenset[OpDef]] = frozenset({bind_dim, call, custom_call})
"""Ops whose results may have named sizes that nothing before them has."""


class SizeMentions:
    """How many instructions mention each named size, and which bind it."""

    __slots__ = ("binders", "binds", "counts")

    counts: Counter[str]
    binds: dict[Inst, tuple[str, ...]]
    """The names that an instruction is the first to mention where it stands."""
    binders: dict[str, dict[Inst, None]]
    """As `binds`, by name; regions that do not see each other may each bind a name of their own."""

    def __init__(self, function: Function) -> None:
        self.counts = Counter()
        self.binds = {}
        self.binders = {}
        known = {symbol.name for param in function.params for symbol in param.type.symbols()}
        # Names known in the regions being walked, with those that each of them added.
        pending: list[tuple[Region, frozenset[str]]] = [(function.body, frozenset(known))]
        while pending:
            region, outside = pending.pop()
            names = set(outside)
            for inst in region:
                mentioned = _mentions(inst)
                self.counts.update(list(mentioned))
                if inst.op in BINDERS:
                    fresh = tuple(name for name in mentioned if name not in names)
                    if fresh:
                        self.binds[inst] = fresh
                        names.update(fresh)
                        for name in fresh:
                            self.binders.setdefault(name, {})[inst] = None
                for inner in inst.regions:
                    args = {symbol.name for arg in inner.args for symbol in arg.type.symbols()}
                    pending.append((inner, frozenset(names | args)))

    def needs(self, inst: Inst) -> bool:
        """Whether a name that `inst` binds is mentioned by anything but what binds it."""
        return any(self.counts[name] > len(self.binders[name]) for name in self.binds.get(inst, ()))

    def drop(self, erased: Inst) -> list[Inst]:
        """Forget an erased instruction and its regions; gives those whose names nobody else mentions any more."""
        freed: list[Inst] = []
        for inst in (erased, *[inner for region in erased.regions for inner in region.walk()]):
            for name in self.binds.pop(inst, ()):
                del self.binders[name][inst]
            for name in _mentions(inst):
                self.counts[name] -= 1
                binders = self.binders.get(name)
                if binders and self.counts[name] <= len(binders):
                    freed += binders
        return freed


def _mentions(inst: Inst) -> dict[str, None]:
    """The named sizes in the attributes, result types and region parameters of an instruction."""
    names = {symbol.name: None for symbol in symbols_in(inst.attrs)}
    for value in (*inst.results, *[arg for region in inst.regions for arg in region.args]):
        for symbol in value.type.symbols():
            names[symbol.name] = None
    return names


def erase_unmentioned(
    rw: ProgramRewriter, candidates: Iterable[Inst], erased: Callable[[Inst], None]
) -> list[Inst]:
    """Erase unused instructions whose sizes nobody mentions, and what that leaves unused; gives those that stay.

    `erased` is told of each one that went.
    """
    mentions = SizeMentions(rw.function)
    pending = list(candidates)
    kept: dict[Inst, None] = {}
    while pending:
        inst = pending.pop()
        if inst.parent is None or not inst.is_dead:
            continue
        if inst.op in BINDERS and mentions.needs(inst):
            kept[inst] = None
            continue
        rw.erase_inst(inst)
        erased(inst)
        pending += mentions.drop(inst)
        pending += rw._maybe_dead
        rw._maybe_dead.clear()
    return [inst for inst in kept if inst.parent is not None]

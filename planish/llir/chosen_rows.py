"""Prefetches of the row that comes next, where data decides which one that is: an embedding, or any gather of rows.

Hardware sees a stream coming, but not where the next one starts. While one row is copied, the index of the next is known: it is loaded
one iteration early, and each vector of this row is read together with a prefetch of the same vector of the next.

Before → after::

    loop i < n                            loop i < n
      x = load indices[i]                   x = load indices[i]        y = load indices[i + 1 if that is below n else i]
      loop j < m                            loop j < m
        v = load table[x·m + j]               v = load table[x·m + j]    prefetch table[y·m + j]
"""

from __future__ import annotations

from typing import Final

from planish import dtypes
from planish.llir import program as ir
from planish.llir.nests import Nests

_MOST: Final = 64
"""Instructions that it may take to find a row."""
_COPIED: Final = (ir.Address, ir.Load, ir.Compute, ir.Convert)
"""What may be done once more."""


def ask_for_chosen_rows(nests: Nests) -> None:
    """Ask for rows of large parameters ahead where data chooses them."""
    if not any(isinstance(i, ir.Load) and i.result.dtype.is_int for i in nests.body):
        return
    work = _ChosenRows(nests)
    for position, i in enumerate(nests.body):
        if isinstance(i, ir.Load) and i.gate is None and nests.makers.buffer(i.address) in nests.large:
            work.ask(position, i)


class _ChosenRows:
    """One walk over a program."""

    def __init__(self, nests: Nests) -> None:
        self.nests = nests
        self.makers = nests.makers
        self.around = nests.around()
        self.written = {self.makers.buffer(i.address) for i in nests.body if isinstance(i, ir.Store)}
        self.copies: dict[tuple[int, ir.Register], ir.Register] = {}
        """By outer loop: a register, as it will be in the next iteration."""

    def ask(self, position: int, load: ir.Load) -> None:
        """Ask for what a load will read in the next iteration of the loop around its own."""
        home = self.around[position]
        if len(home) < 2 or load.result.dtype.lanes < 2 or load.address.dtype.lanes > 1:
            return
        outer, inner = (self.nests.body[p] for p in home[-2:])
        if not isinstance(outer, ir.Loop) or not isinstance(inner, ir.Loop):
            return
        needed = self.needed(load.address, home)
        if needed is None:
            return
        number = home[-2]
        if (number, outer.counter) not in self.copies:
            self.nests.add_before(home[-1], *self.next_counter(number, outer))
        for place in needed:
            maker = self.nests.body[place]
            if maker.target is None or (number, maker.target) in self.copies:
                continue
            if not any((number, register) in self.copies for register in maker.registers):
                continue  # the same in all iterations
            copy = self.copies[number, maker.target] = self.makers.fresh(maker.target.dtype)
            copied = maker.renamed(lambda r: self.copies.get((number, r), r), lambda r, copy=copy: copy)  # type: ignore[misc]
            if place < home[-1]:
                self.nests.add_before(home[-1], copied)
            else:
                self.nests.add_behind(position, copied)
        if (number, load.address) in self.copies:
            self.nests.add_behind(position, ir.Prefetch(self.copies[number, load.address]))

    def needed(self, address: ir.Register, home: tuple[int, ...]) -> list[int] | None:
        """The instructions inside the outer loop that an address follows from, in order; None unless data decides it."""
        needed: set[int] = set()
        stack = [address]
        while stack:
            place = self.makers.places.get(stack.pop())
            if place is None or place <= home[-2] or place in needed or place == home[-1]:
                continue  # from outside, or one of the counters
            maker = self.nests.body[place]
            if not isinstance(maker, _COPIED) or self.around[place] not in {home, home[:-1]}:
                return None
            if isinstance(maker, ir.Load) and (
                maker.gate is not None
                or self.around[place] == home
                or self.makers.buffer(maker.address) in self.written
            ):
                return None
            needed.add(place)
            stack += maker.registers
        chosen = [p for p in needed if isinstance(self.nests.body[p], ir.Load)]
        return sorted(needed) if chosen and len(needed) <= _MOST else None

    def next_counter(self, number: int, loop: ir.Loop) -> list[ir.Instruction]:
        """The counter of the next iteration; of this one if it is the last."""
        kind = loop.counter.dtype
        more, below = self.makers.fresh(kind), self.makers.fresh(dtypes.bool_)
        chosen = self.copies[number, loop.counter] = self.makers.fresh(kind)
        return [
            ir.Compute(more, ir.Ops.ADD, (loop.counter, ir.Immediate(1, kind))),
            ir.Compute(below, ir.Ops.CMPLT, (more, loop.bound)),
            ir.Compute(chosen, ir.Ops.WHERE, (below, more, loop.counter)),
        ]

"""The next row, asked for while this one is computed.

A row kernel reads a row in one short loop and works on it in others. The first waits for memory while the processor does nothing,
the others compute while memory does nothing. So what the first loop will read in the next iteration of the loop around both is
prefetched by the one of the others that computes most: line by line, as far as it walks over the row itself.

Before → after::

    loop %r                                 loop %r
      loop %i < n: load @x[%r*m + %i]         loop %i < n: load @x[%r*m + %i]
      loop %j < n: …                          loop %j < n: prefetch @x[(%r + 1)*m + %j]; …

Behind the last row there is nothing to be asked for; a prefetch of nothing does nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from planish.llir.makers import Makers
from planish.llir.program import (
    Address,
    Buffer,
    Compute,
    Convert,
    EndLoop,
    Immediate,
    Instruction,
    Load,
    Loop,
    Ops,
    Prefetch,
    Program,
    Register,
)
from planish.target import Target

_MOST: Final = 8
"""Lines that are asked for in one iteration: more would wait for each other."""
_NEAREST: Final = 3
_NEAR: Final = 2


@dataclass(slots=True)
class _Loop:
    """A loop: where it stands, what it is made of."""

    header: Loop
    start: int
    parent: _Loop | None
    end: int = 0
    children: list[_Loop] = field(default_factory=list)

    @property
    def length(self) -> int:
        """How often it runs, if that is a number; else 0."""
        bound = self.header.bound
        return bound.value if isinstance(bound, Immediate) and isinstance(bound.value, int) else 0


def with_next_row(program: Program, target: Target) -> Program:
    """The program with prefetches of next rows, on machines where memory is far."""
    if target.is_gpu or target.register_bytes == 1 or len(target.caches) < 2:
        return program
    large = {b for b in program.params if b.nbytes > target.caches[1]}
    return _Rows(program, target, large).run() if large else program


class _Rows:
    """The loops of one program."""

    def __init__(self, program: Program, target: Target, large: set[Buffer]) -> None:
        self.program = program
        self.target = target
        self.large = large
        self.makers = Makers(program)

    def run(self) -> Program:
        added: dict[int, list[Instruction]] = {}
        for around in self.loops():
            inner = [loop for loop in around.children if not loop.children and loop.length]
            for number, reader in enumerate(inner):
                loads = self.loads(reader, around)
                idle = [loop for loop in inner[number + 1 :] if self.is_idle(loop, reader)]
                if loads and idle:
                    busiest = max(idle, key=self.arithmetic)
                    added.setdefault(busiest.start, []).extend(self.asked(loads, around, reader, busiest))
        if not added:
            return self.program
        body = [each for p, i in enumerate(self.program.body) for each in (i, *added.get(p, ()))]
        return replace(self.program, body=tuple(body))

    def loops(self) -> list[_Loop]:
        found: list[_Loop] = []
        inside: _Loop | None = None
        for position, i in enumerate(self.program.body):
            if isinstance(i, Loop):
                inside = _Loop(i, position, inside)
                found.append(inside)
                if inside.parent is not None:
                    inside.parent.children.append(inside)
            elif isinstance(i, EndLoop) and inside is not None:
                inside.end = position
                inside = inside.parent
        return found

    def body(self, loop: _Loop) -> Sequence[Instruction]:
        return self.program.body[loop.start + 1 : loop.end]

    def loads(self, loop: _Loop, around: _Loop) -> list[Load]:
        """The vectors that a loop reads of large parameters, others in each iteration of the loop around."""
        found = []
        for i in self.body(loop):
            if (
                isinstance(i, Load)
                and i.result.dtype.lanes > 1
                and self.makers.buffer(i.address) in self.large
            ):
                below = self.below(i.address)
                if below is not None and {loop.header.counter, around.header.counter} <= below:
                    found.append(i)
        return found if len(found) <= _MOST else []

    def is_idle(self, loop: _Loop, reader: _Loop) -> bool:
        """Whether a loop walks over the row as the one does that reads it, and leaves large memory alone."""
        return loop.length == reader.length and not any(
            isinstance(i, Load) and self.makers.buffer(i.address) in self.large for i in self.body(loop)
        )

    def arithmetic(self, loop: _Loop) -> int:
        return sum(isinstance(i, Compute) and i.result.dtype.lanes > 1 for i in self.body(loop))

    # -- addresses ---------------------------------------------------------------------------------------------

    def below(self, register: Register) -> set[Register] | None:
        """All registers that an address is computed from; None if one of them comes out of memory."""
        found = {register}
        stack = [register]
        while stack:
            made = self.makers.maker(stack.pop())
            if isinstance(made, Load):
                return None
            if isinstance(made, Address | Compute | Convert):
                new = [r for r in made.registers if r not in found]
                found.update(new)
                stack += new
        return found

    def asked(self, loads: Sequence[Load], around: _Loop, reader: _Loop, busy: _Loop) -> list[Instruction]:
        """The addresses of the next row at the place at which another loop is, and what asks for them."""
        counter = around.header.counter
        following = self.makers.fresh(counter.dtype)
        found: list[Instruction] = [Compute(following, Ops.ADD, (counter, Immediate(1, counter.dtype)))]
        known = {counter: following, reader.header.counter: busy.header.counter}
        row = sum(load.result.dtype.lanes * load.result.dtype.itemsize for load in loads) * reader.length
        locality = _NEAREST if 3 * row <= self.target.caches[0] else _NEAR
        for load in loads:
            self.copy(load.address, reader, known, found)
            found.append(Prefetch(known[load.address], locality=locality))
        return found

    def copy(
        self, register: Register, reader: _Loop, known: dict[Register, Register], found: list[Instruction]
    ) -> None:
        """Compute a register anew for other counters; what does not depend on them stays, if it can be seen."""
        stack = [register]
        while stack:
            each = stack[-1]
            if each in known:
                stack.pop()
                continue
            made = self.makers.maker(each)
            if not isinstance(made, Address | Compute | Convert):
                known[each] = each  # a counter further out, a special index, a variable
                continue
            missing = [r for r in made.registers if r not in known]
            if missing:
                stack += missing
                continue
            if (
                all(known[r] is r for r in made.registers)
                and not reader.start < self.makers.places[each] < reader.end
            ):
                known[each] = each
                continue
            known[each] = self.makers.fresh(each.dtype)
            found.append(made.renamed(known.__getitem__, known.__getitem__))

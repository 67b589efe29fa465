"""Hints for memory that streams by: stores around the caches, and prefetches ahead of long loop bodies.

* **Non-temporal stores.** A result that is larger than the caches and that nobody reads soon is written around them: a plain store
  would first read the line that it overwrites, and push out what is still needed. Who calls says which buffers these are
  (`streamed`); here it is decided which stores: those of whole registers, once each, to memory that the kernel does not read.
* **Prefetches.** A long body fills the processor's window with arithmetic: few loads are in flight, and computing and waiting for
  memory take turns instead of overlapping. In an innermost loop with much arithmetic per vector stored, each input that streams by,
  one register after another, and that does not fit the second cache, is asked for some iterations ahead. Of rows the next one is
  asked for (`next_row.py`), also where data chooses them (`chosen_rows.py`).

Neither changes what is computed. That an address is not aligned, or beyond the end, is the back ends' and the hardware's business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from planish import dtypes
from planish.dtypes import AddrSpace
from planish.llir.chosen_rows import with_chosen_rows
from planish.llir.makers import Makers
from planish.llir.next_row import with_next_row
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
    Operand,
    Ops,
    Prefetch,
    Program,
    Register,
    Special,
    Store,
)
from planish.target import Target

LINE: Final = 64
"""The bytes of a cache line."""
_AHEAD: Final = 2048
"""How many bytes ahead of a stream is asked for: enough lines in flight to hide memory, few enough to stay in the first cache."""
_LONG: Final = 10
"""Arithmetic per vector of a stream beyond which memory has to be asked ahead."""
_STREAMS: Final = 8
"""Streams that are asked for in one loop: beyond, they would ask each other's lines away."""


@dataclass(slots=True)
class _Loop:
    """An open loop, while instructions are walked."""

    header: Loop
    start: int
    innermost: bool = True
    arithmetic: int = 0
    loads: list[int] = field(default_factory=list)
    stores: list[int] = field(default_factory=list)


def with_streaming(program: Program, target: Target, streamed: Collection[str] = ()) -> Program:
    """The program with hints; `streamed` names the parameters that are large, written here and not read soon."""
    if target.is_gpu or target.register_bytes == 1:
        return program
    work = _Streaming(program, target, streamed)
    return with_chosen_rows(with_next_row(work.run(), target), work.large)


class _Streaming:
    """One walk over a program."""

    def __init__(self, program: Program, target: Target, streamed: Collection[str]) -> None:
        self.program = program
        self.target = target
        self.makers = Makers(program)
        read = {self.makers.buffer(i.address) for i in program.body if isinstance(i, Load)}
        self.streamed = {b for b in program.params if b.name in streamed and b not in read}
        self.large = {b for b in program.params if len(target.caches) > 1 and b.nbytes > target.caches[1]}
        self.ahead: dict[int, list[Instruction]] = {}
        """What is put behind an instruction."""

    def run(self) -> Program:
        if not self.streamed and not self.large:
            return self.program
        body = list(self.program.body)
        stack: list[_Loop] = []
        for position, i in enumerate(body):
            if isinstance(i, Loop):
                if stack:
                    stack[-1].innermost = False
                stack.append(_Loop(i, position))
            elif isinstance(i, EndLoop):
                loop = stack.pop()
                if loop.innermost:
                    self.prefetch(body, loop)
            elif isinstance(i, Store):
                if self.is_streamed(i, stack):
                    body[position] = replace(i, nontemporal=True)
                if stack and self.is_global(i.address) and self.is_whole(i.value):
                    stack[-1].stores.append(position)
            elif isinstance(i, Load) and stack:
                stack[-1].loads.append(position)
            elif isinstance(i, Compute) and stack and self.is_whole(i.result):
                stack[-1].arithmetic += 1
        if self.ahead:
            body = [each for p, i in enumerate(body) for each in (i, *self.ahead.get(p, ()))]
        return replace(self.program, body=tuple(body))

    # -- stores ------------------------------------------------------------------------------------------------

    def is_streamed(self, i: Store, stack: Sequence[_Loop]) -> bool:
        """Whether a store writes whole lines, once, of memory that streams by."""
        if self.makers.buffer(i.address) not in self.streamed or not self.is_whole(i.value):
            return False
        size = i.value.dtype.lanes * i.value.dtype.itemsize
        if not stack:
            return size % LINE == 0
        step = self.step(i.address, stack[-1].header.counter)
        if size % LINE == 0:
            return step is None or step != 0
        return step == i.value.dtype.lanes  # the rest of the line follows at once

    def is_whole(self, value: Operand) -> bool:
        """Whether it fills a register of the machine, or several."""
        dtype = value.dtype
        return dtype.bits >= 8 and dtype.lanes * dtype.itemsize % self.target.register_bytes == 0

    # -- loads -------------------------------------------------------------------------------------------------

    def prefetch(self, body: Sequence[Instruction], loop: _Loop) -> None:
        vectors = Counter(
            self.makers.buffer(i.address) for i in map(body.__getitem__, loop.stores) if isinstance(i, Store)
        )
        if not vectors or loop.arithmetic <= _LONG * max(vectors.values()):
            return
        streams = [p for p in loop.loads if self.streams_by(body[p], loop)]
        if not 0 < len(streams) <= _STREAMS:
            return
        for position in streams:
            load = body[position]
            if isinstance(load, Load):
                ahead = self.makers.fresh(load.address.dtype)
                elements = _AHEAD // load.result.dtype.itemsize
                self.ahead[position] = [
                    Address(ahead, load.address, Immediate(elements, dtypes.int64)),
                    Prefetch(ahead),
                ]

    def streams_by(self, i: Instruction, loop: _Loop) -> bool:
        """Whether a load reads one register after another of a large parameter, iteration by iteration."""
        if (
            not isinstance(i, Load)
            or i.address.dtype.lanes > 1
            or self.makers.buffer(i.address) not in self.large
        ):
            return False
        step = self.step(i.address, loop.header.counter)
        return step is not None and i.result.dtype.lanes > 1 and step >= i.result.dtype.lanes

    # -- addresses ---------------------------------------------------------------------------------------------

    def is_global(self, address: Register) -> bool:
        found = self.makers.buffer(address)
        return found is not None and found.space is AddrSpace.GLOBAL

    def step(self, address: Register, counter: Register) -> int | None:
        """By how many elements an address moves when a counter grows by one; None if that is not one number."""
        made = self.makers.maker(address)
        if not isinstance(made, Address) or address.dtype.lanes > 1:
            return None
        own = self.slope(made.index, counter)
        if isinstance(made.base, Buffer) or own is None:
            return own
        below = self.step(made.base, counter)
        return None if below is None else own + below

    def slope(self, operand: Operand, counter: Register) -> int | None:
        """The same of an integer."""
        known: dict[Register, int | None] = {counter: 1}
        if isinstance(operand, Immediate):
            return 0
        stack = [operand]
        while stack:
            register = stack[-1]
            if register in known:
                stack.pop()
                continue
            made = self.makers.maker(register)
            inputs = made.registers if isinstance(made, Compute | Convert) else ()
            missing = [r for r in inputs if r not in known]
            if missing:
                stack += missing
                continue
            known[register] = _slope(made, known)
            stack.pop()
        return known[operand]


def _slope(made: Instruction | None, known: dict[Register, int | None]) -> int | None:
    """By how much a register grows, from how its operands do."""

    def of(operand: Operand) -> int | None:
        return 0 if isinstance(operand, Immediate) else known[operand]

    if isinstance(made, Convert):
        return of(made.operand)
    if not isinstance(made, Compute):
        # another counter, a special index or a variable (which nothing makes) stays; what comes out of memory may be anything
        return 0 if made is None or isinstance(made, Loop | Special) else None
    x = [of(operand) for operand in made.inputs]
    if all(step == 0 for step in x):
        return 0
    constants = [
        o.value if isinstance(o, Immediate) and isinstance(o.value, int) else None for o in made.inputs
    ]
    if made.op in {Ops.ADD, Ops.SUB} and x[0] is not None and x[1] is not None:
        return x[0] + x[1] if made.op is Ops.ADD else x[0] - x[1]
    if made.op is Ops.SHL and x[0] is not None and constants[1] is not None:
        return x[0] << constants[1]
    if made.op in {Ops.MUL, Ops.MULACC}:
        for one, other in ((0, 1), (1, 0)):
            factor, step = constants[other], x[one]
            if factor is not None and step is not None:
                rest = x[2] if made.op is Ops.MULACC else 0
                return None if rest is None else step * factor + rest
    return None

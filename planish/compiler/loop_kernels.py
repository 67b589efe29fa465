"""The kernel of a counted loop: its turns inside of the loops of a kernel, or around all kernels of a turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from planish import dtypes
from planish.llir import carried, inlining
from planish.llir.builder import Builder
from planish.llir.inlining import Memory
from planish.llir.program import Address, Buffer, Immediate, Operand, Ops, Program, Register, Store
from planish.ptir.dims import DimLike, Symbol, bounds
from planish.schedule.memory import elements
from planish.schedule.overwriting import element_by_element, in_place, written
from planish.schedule.plan import Branch, Copy, For, Launch, Step, Steps, Swap, View, renamed, walk

if TYPE_CHECKING:
    from planish.compiler.loops import Price, Rolling


class LoopKernel:
    """The kernel of one loop of a plan, in the making."""

    def __init__(self, rolling: Rolling, loop: For, price: Price) -> None:
        self.rolling, self.plan, self.loop, self.price = rolling, rolling.plan, loop, price
        self.launches = [step for step in walk(loop.body) if isinstance(step, Launch)]
        self.sliced = {step.buffer: step for step in loop.body if isinstance(step, View)}
        self.params: dict[int, Memory] = {}
        self.writes: set[int] = set()
        self.integers: dict[str, Operand] = {}
        self.bases: dict[int, int] = {}
        self.sizes: dict[int, Operand] = {}
        self.swapped: dict[int, int] = {}
        keys = [rolling.program(launch.kernel).name for launch in self.launches]
        digest = sha256(repr((keys, loop.count, loop.reverse, len(rolling.made))).encode()).hexdigest()[:6]
        self.into = Builder(f"loop_{loop.count if isinstance(loop.count, int) else 'n'}_{digest}")
        self.stride: int | None = None
        self.taken = ""
        if price.run is not None:
            self.stride = price.run
            self.taken = f"taken_{loop.counter}"

    # -- integers --------------------------------------------------------------------------------------------------

    def variable(self, name: str, low: int, high: int) -> Operand:
        found = self.integers.get(name)
        if found is None:
            found = self.integers[name] = self.into.variable(name, low, high, dtypes.int64)
        return found

    def size(self, dim: DimLike) -> Operand:
        """A size, as an i64."""
        if isinstance(dim, int):
            return Immediate(dim, dtypes.int64)
        total: Operand | None = None
        for monomial, coefficient in dim.terms:
            term: Operand = Immediate(coefficient, dtypes.int64)
            for atom in monomial:
                if isinstance(atom, Symbol):
                    factor = self.variable(atom.name, atom.lo, atom.hi)
                else:
                    factor = self.into.compute(
                        Ops.FLOORDIV, self.size(atom.numerator), self.size(atom.denominator)
                    )
                term = self.into.mul(term, factor)
            total = term if total is None else self.into.add(total, term)
        return Immediate(0, dtypes.int64) if total is None else total

    def turns(self) -> tuple[Operand, Operand, Operand | None]:
        """How many there are, how many this launch runs, and the first of these."""
        total = self.size(self.loop.count)
        if self.stride is None:
            return total, total, None
        most = max(1, bounds(self.loop.count)[1])
        first = self.into.variable(self.loop.counter, 0, most - 1, dtypes.int64)
        return total, self.variable(self.taken, 1, min(self.stride, most)), first

    def at(self, total: Operand, first: Operand | None, turn: Register) -> Operand:
        """Where the counter of the plan is."""
        here: Operand = turn if first is None else self.into.add(first, turn)
        if not self.loop.reverse:
            return here
        last = self.into.compute(Ops.SUB, total, Immediate(1, dtypes.int64))
        return self.into.compute(Ops.SUB, last, here)

    def given(self, program: Program) -> Mapping[str, Operand]:
        """The integers that a kernel of the turn is told, but for the counter."""
        return {
            v.name: self.variable(v.name, v.low, v.high)
            for v in program.variables
            if v.name != self.loop.counter
        }

    # -- memory ----------------------------------------------------------------------------------------------------

    def memory(self, buffer: int) -> Memory:
        """A buffer from outside."""
        found = self.params.get(buffer)
        if found is None:
            told = self.plan.buffers[buffer]
            name, size = f"arg{len(self.params)}", elements(told.size)
            found = self.params[buffer] = self.into.param(name, told.dtype, size)
        return found

    def slice(self, buffer: int, size: Operand, position: Operand) -> Memory:
        """Where the part of a sequence is that a turn works on."""
        base = self.memory(self.sliced[buffer].base)
        result = self.into.fresh(inlining.pointer_of(base))
        self.into.body.append(Address(result, base, self.into.mul(position, size)))
        return result

    def slots(self, launch: Launch) -> list[int]:
        """The buffers of a launch, as many as the kernel takes."""
        program = self.rolling.program(launch.kernel)
        return [launch.buffers[int(b.name.removeprefix("arg"))] for b in program.params]

    def stored(self, launch: Launch) -> set[int]:
        """The buffers that a launch writes."""
        known = self.plan.kernels
        if launch.kernel < len(known):
            return {launch.buffers[slot] for slot in written(known[launch.kernel].sink)}
        return set(self.rolling.made[launch.kernel - len(known)].kernel.written)

    # -- registers -------------------------------------------------------------------------------------------------

    def in_registers(self, chains: int) -> Program:
        """The loop inside of the loops of its one kernel."""
        (launch,) = self.launches
        if launch.kernel >= len(self.plan.kernels) or any(
            isinstance(step, Branch) for step in self.loop.body
        ):
            raise carried.Refused
        program, sink = self.rolling.program(launch.kernel), self.plan.kernels[launch.kernel].sink
        buffers, told = self.slots(launch), self.plan.buffers
        stored = self.stored(launch)
        stores = _stored(program)
        steps = [step for step in self.loop.body if isinstance(step, Copy | Swap)]
        swaps = {step.first: step.second for step in steps if isinstance(step, Swap)}
        copies = [step for step in steps if isinstance(step, Copy)]
        targets = {step.target for step in copies}
        # what one turn leaves for the next, or for whoever comes after: exchanged, or written where it is
        left = {*stored, *targets} - self.sliced.keys() - {*swaps, *swaps.values()}
        olds = [*swaps, *sorted(left)]
        moved = {*olds, *stored, *targets, *(step.source for step in copies)}
        slots = [slot for slot, buffer in enumerate(launch.buffers) if buffer in olds]
        if not element_by_element(sink, slots) or len({told[b].size for b in moved}) > 1:
            raise carried.Refused
        # where everything is after the launch, after the copies, and after the exchange
        at = {old: carried.Source(carried=number) for number, old in enumerate(olds)}
        written_by = {b: n for n, b in enumerate(buffers) if n in stores}
        at |= {b: carried.Source(stored=number) for b, number in written_by.items()}
        for step in copies:
            if step.source not in at:
                raise carried.Refused
            at[step.target] = at[step.source]
        if any(b not in at for b in (*swaps.values(), *targets)):
            raise carried.Refused
        slices = {b: self.sliced[b].base for b in (*buffers, *targets) if b in self.sliced}
        self.writes = {*olds, *(base for b, base in slices.items() if b in stored or b in targets)}
        given = self.given(program)
        total, count, first = self.turns()
        starts = {b: partial(self.slice, b, self.size(told[b].size)) for b in slices}
        # what a turn would write is never memory: the place of the last value stands for it
        of = {new: old for old, new in swaps.items()}
        memory = [self.memory(slices.get(b, of.get(b, b))) for b in buffers]
        turns = carried.Turns(
            count,
            partial(self.at, total, first),
            self.loop.counter,
            {number: starts[b] for number, b in enumerate(buffers) if b in slices},
            [
                carried.Carried(
                    self.memory(old),
                    told[old].dtype,
                    tuple(n for n, b in enumerate(buffers) if b == old and n != written_by.get(old)),
                    at[swaps.get(old, old)],
                )
                for old in olds
            ],
            [(at[b], starts[b]) for b in targets if b in slices],
        )
        carried.carry(self.into, program, memory, given, turns, chains)
        return self.into.program()

    # -- memory ----------------------------------------------------------------------------------------------------

    def in_memory(self) -> Program:
        """The loop around all kernels of a turn."""
        into = self.into
        over = self.overwritten()
        steps = tuple(
            step
            for step in renamed(self.loop.body, lambda buffer: over.get(buffer, buffer))
            if not isinstance(step, View)
        )
        self.swapped = {s.first: s.second for s in steps if isinstance(s, Swap) and s.first != s.second}
        touched = dict.fromkeys(buffer for step in walk(steps) for buffer in self.touched(step))
        self.bases = {b: self.sliced[b].base for b in touched if b in self.sliced}
        for buffer in touched:
            self.memory(self.bases.get(buffer, buffer))
        changed = {b for step in walk(steps) for b in self.changed(step)} | {
            *self.swapped,
            *self.swapped.values(),
        }
        self.writes = {self.bases.get(b, b) for b in changed}
        for launch in self.launches:
            self.given(self.rolling.program(launch.kernel))
        total, count, first = self.turns()
        self.sizes = {b: self.size(self.plan.buffers[b].size) for b in {**touched, **self.bases}}
        if self.is_long(self.swapped):
            self.in_pairs(steps, total, count, first)
            return into.program()
        with into.loop(count, unroll=1) as turn:
            self.turn(steps, self.at(total, first, turn))
            for old, new in self.swapped.items():
                self.copy(new, old, self.params)
        return into.program()

    def is_long(self, buffers: Iterable[int]) -> bool:
        """Whether copying them every turn would be felt."""
        cost = 0
        for buffer in buffers:
            told = self.plan.buffers[buffer]
            cost += elements(told.size) // self.rolling.target.lanes(told.dtype) + 1
        return cost > _COPIES + _FELT * self.price.turn

    def in_pairs(self, steps: Steps, total: Operand, count: Operand, first: Operand | None) -> None:
        """Two turns at a time: the second reads what the first has written and writes where that has read, so that nothing is copied."""
        into = self.into
        back = {**self.swapped, **{new: old for old, new in self.swapped.items()}}
        crossed = renamed(steps, lambda buffer: back.get(buffer, buffer))
        one = Immediate(1, dtypes.int64)
        known = count.value if isinstance(count, Immediate) and isinstance(count.value, int) else None
        pairs = (
            Immediate(known // 2, dtypes.int64) if known is not None else into.compute(Ops.SHR, count, one)
        )
        with into.loop(pairs, unroll=1) as pair:
            turn = into.compute(Ops.SHL, pair, one)
            self.turn(steps, self.at(total, first, turn))
            self.turn(crossed, self.at(total, first, into.add(turn, one)))
        if known is not None and known % 2 == 0:
            return
        # the odd one
        rest = one if known is not None else into.compute(Ops.AND, count, one)
        with into.loop(rest, unroll=1):
            self.turn(steps, self.at(total, first, into.compute(Ops.SUB, count, one)))
            for old, new in self.swapped.items():
                self.copy(new, old, self.params)

    def turn(self, steps: Steps, position: Operand) -> None:
        """All that a turn does, but for what is carried back."""
        places: dict[int, Memory] = {b: self.slice(b, self.sizes[b], position) for b in self.bases}
        self.run(steps, position, {**self.params, **places})

    def run(self, steps: Steps, position: Operand, places: Mapping[int, Memory]) -> None:
        """Steps one after another; a branch is an `if` each for its two sides."""
        into = self.into
        for step in steps:
            match step:
                case Launch():
                    program = self.rolling.program(step.kernel)
                    integers = {**self.given(program), self.loop.counter: position}
                    inlining.inline(into, program, [places[b] for b in self.slots(step)], integers)
                case Copy(source, target):
                    self.copy(source, target, places)
                case Branch(predicate, then, otherwise):
                    holds = into.load(into.address(places[predicate], 0))
                    for condition, side in ((holds, then), (into.compute(Ops.NOT, holds), otherwise)):
                        if side:
                            with into.when(condition):
                                self.run(side, position, places)
                case _:
                    pass  # a swap: what is carried is where the next turn looks for it, or is copied there

    def copy(self, source: int, target: int, places: Mapping[int, Memory]) -> None:
        if source != target:
            lanes = self.rolling.target.lanes(self.plan.buffers[target].dtype)
            inlining.copy(self.into, places[source], places[target], self.sizes[target], lanes)

    def touched(self, step: Step) -> list[int]:
        """The buffers that a step has to do with."""
        match step:
            case Launch():
                return self.slots(step)
            case Copy(source, target):
                return [source, target]
            case Swap(old, new):
                return [old, new] if old != new else []
            case Branch(predicate):
                return [predicate]
            case _:
                return []

    def changed(self, step: Step) -> set[int]:
        """The buffers that a step writes."""
        return (
            self.stored(step)
            if isinstance(step, Launch)
            else {step.target}
            if isinstance(step, Copy)
            else set()
        )

    def overwritten(self) -> dict[int, int]:
        """Next values of carries that may be written over the last ones: nobody reads those afterwards."""
        found: dict[int, int] = {}
        for swap in (step for step in self.loop.body if isinstance(step, Swap)):
            old, new = (self.plan.buffers[buffer] for buffer in (swap.first, swap.second))
            if (
                old.size == new.size
                and old.dtype is new.dtype
                and self._is_read_before(swap.first, swap.second)
            ):
                found[swap.second] = swap.first
        return found

    def _is_read_before(self, old: int, new: int) -> bool:
        """Whether all that read the last value of a carry do so before the next one is written, or element by element."""
        begun = False
        for step in self.loop.body:
            inside = [each for each in walk((step,)) if not isinstance(each, Swap | View)]
            reads = any(old in self.touched(each) for each in inside)
            writes = any(new in self.changed(each) for each in inside)
            if reads and (begun or (writes and not self._writes_over(step, old, new))):
                return False
            begun = begun or writes
        return begun

    def _writes_over(self, step: Step, old: int, new: int) -> bool:
        """Whether a kernel writes every element after it has read it for the last time."""
        if not isinstance(step, Launch) or step.kernel >= len(self.plan.kernels):
            return False
        slots = {b: [slot for slot, each in enumerate(step.buffers) if each == b] for b in (old, new)}
        pairs = in_place(self.plan.kernels[step.kernel].sink)
        return all(any((out, read) in pairs for out in slots[new]) for read in slots[old])


def _stored(program: Program) -> set[int]:
    """The parameters that a kernel writes, by their number."""
    places: dict[Register, Buffer] = {}
    for i in program.body:
        if isinstance(i, Address):
            places[i.result] = i.base if isinstance(i.base, Buffer) else places[i.base]
    found = {places[i.address] for i in program.body if isinstance(i, Store)}
    return {number for number, buffer in enumerate(program.params) if buffer in found}


_COPIES: Final = 4
_FELT: Final = 0.1
"""Vectors that are copied every turn without a thought, and as a part of what else a turn does."""

"""The kernel of a counted loop: its turns inside of the loops of a kernel, or around all kernels of a turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from planish import dtypes
from planish.dtypes import DType
from planish.llir import carried, inlining
from planish.llir.builder import Builder
from planish.llir.inlining import Memory
from planish.llir.program import Address, Buffer, Immediate, Load, Operand, Ops, Program, Register, Store
from planish.ptir.dims import DimLike, Symbol, bounds
from planish.schedule.memory import elements
from planish.schedule.overwriting import element_by_element, written
from planish.schedule.plan import Branch, Copy, For, Launch, Step, Steps, SwapPointers, View, renamed, walk

if TYPE_CHECKING:
    from planish.compiler.loops import Rolling, TurnPrice


class LoopKernel:
    """The kernel of one loop of a plan, in the making."""

    def __init__(self, rolling: Rolling, loop: For, price: TurnPrice) -> None:
        self.rolling, self.plan, self.loop, self.price = rolling, rolling.plan, loop, price
        self.launches = [step for step in walk(loop.body) if isinstance(step, Launch)]
        self.sliced = {step.buffer: step for step in loop.body if isinstance(step, View)}
        self.params: dict[tuple[int, DType], Memory] = {}
        """By buffer, and by what it is seen as."""
        self.writes: set[int] = set()
        self.integers: dict[str, Operand] = {}
        self.bases: dict[int, int] = {}
        self.sizes: dict[int, Operand] = {}
        self.swaps = [s for s in loop.body if isinstance(s, SwapPointers) and s.first != s.second]
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
        operand = self.integers.get(name)
        if operand is None:
            operand = self.integers[name] = self.into.variable(name, low, high, dtypes.int64)
        return operand

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

    def memory(self, buffer: int, dtype: DType | None = None) -> Memory:
        """A buffer from outside; what shares a block may see it as another dtype."""
        told = self.plan.buffers[buffer]
        kind = told.dtype if dtype is None else dtype
        param = self.params.get((buffer, kind))
        if param is None:
            param = self.into.parameter(len(self.params), kind, elements(told.size))
            self.params[buffer, kind] = param
        return param

    def place(self, buffer: int, dtype: DType, places: Mapping[int, Memory]) -> Memory:
        """A buffer in a turn: a part of a sequence is where this turn has it."""
        return places[buffer] if buffer in places else self.memory(buffer, dtype)

    def slice(self, buffer: int, size: Operand, position: Operand) -> Memory:
        """Where the part of a sequence is that a turn works on."""
        base = self.memory(self.sliced[buffer].base, self.plan.buffers[buffer].dtype)
        result = self.into.fresh(inlining.pointer_of(base))
        self.into.body.append(Address(result, base, self.into.mul(position, size)))
        return result

    def slots(self, launch: Launch) -> list[int]:
        """The buffers of a launch, as many as the kernel takes."""
        program = self.rolling.program(launch.kernel)
        return [launch.buffers[b.number] for b in program.params]

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
        stored, stores = self.stored(launch), used(program)[1]
        copies = [step for step in self.loop.body if isinstance(step, Copy)]
        targets = {step.target for step in copies}
        # what one turn leaves for the next, or for whoever comes after; what is exchanged for it is gone
        gone = {swap.second for swap in self.swaps if self.is_fresh(swap.second)}
        left = {*stored, *targets, *(b for swap in self.swaps for b in (swap.first, swap.second))}
        olds = sorted(left - self.sliced.keys() - gone)
        moved = {*left, *(step.source for step in copies)}
        slots = [slot for slot, buffer in enumerate(launch.buffers) if buffer in olds]
        if not element_by_element(sink, slots) or len({told[b].size for b in moved}) > 1:
            raise carried.Refused
        # where everything is after the launch, after the copies, and after the exchange
        at = {old: carried.TurnValue(carried=number) for number, old in enumerate(olds)}
        at |= {buffers[number]: carried.TurnValue(stored=number) for number in stores}
        for step in copies:
            at[step.target] = _known(at, step.source)
        moves = {b: at[b] for b in targets if b in self.sliced}
        for swap in self.swaps:
            second = at.get(swap.second)
            at[swap.second] = _known(at, swap.first)
            if second is None:
                raise carried.Refused
            at[swap.first] = second
        kinds = {b: program.params[number].dtype for number, b in enumerate(buffers)}
        if any(kinds[b] is not program.params[number].dtype for number, b in enumerate(buffers)):
            raise carried.Refused  # a block that is seen as two dtypes
        slices = {b: self.sliced[b].base for b in (*buffers, *targets) if b in self.sliced}
        self.writes = {*olds, *(base for b, base in slices.items() if b in stored or b in targets)}
        given = self.given(program)
        total, count, first = self.turns()
        starts = {b: partial(self.slice, b, self.size(told[b].size)) for b in slices}
        # what a turn would write is never memory: the place of a carried value stands for it
        memory = [
            self.memory(olds[0] if b in gone and olds else slices.get(b, b), program.params[number].dtype)
            for number, b in enumerate(buffers)
        ]
        reading = {
            old: tuple(n for n, b in enumerate(buffers) if b == old and n not in stores) for old in olds
        }
        carries = [
            carried.Carried(
                self.memory(old, kinds.get(old)),
                kinds.get(old, told[old].dtype),
                reading[old],
                _known(at, old),
            )
            for old in olds
        ]
        dtypes_of = [each.dtype for each in carries]

        def kind(source: carried.TurnValue) -> DType:
            return dtypes_of[source.carried] if source.stored is None else program.params[source.stored].dtype

        if any(kind(each.following) is not each.dtype for each in carries):
            raise carried.Refused
        if any(kind(source) is not told[b].dtype for b, source in moves.items()):
            raise carried.Refused
        turns = carried.TurnLoop(
            count,
            partial(self.at, total, first),
            self.loop.counter,
            {number: starts[b] for number, b in enumerate(buffers) if b in slices},
            carries,
            [(source, starts[b]) for b, source in moves.items()],
        )
        carried.carry(self.into, program, memory, given, turns, chains)
        return self.into.program()

    # -- memory ----------------------------------------------------------------------------------------------------

    def in_memory(self) -> Program:
        """The loop around all kernels of a turn."""
        into = self.into
        steps = tuple(step for step in self.loop.body if not isinstance(step, View))
        touched = dict.fromkeys(buffer for step in walk(steps) for buffer in self.touched(step))
        self.bases = {b: self.sliced[b].base for b in touched if b in self.sliced}
        exchanged = {b for swap in self.swaps for b in (swap.first, swap.second)}
        changed = {b for step in walk(steps) for b in self.changed(step)} | exchanged
        self.writes = {self.bases.get(b, b) for b in changed}
        for launch in self.launches:
            self.given(self.rolling.program(launch.kernel))
        total, count, first = self.turns()
        self.sizes = {b: self.size(self.plan.buffers[b].size) for b in touched}
        if self.is_long(exchanged) and len(exchanged) == 2 * len(self.swaps):
            self.in_pairs(steps, total, count, first)
            return into.program()
        with into.loop(count, unroll=1) as turn:
            self.turn(steps, self.at(total, first, turn))
            self.carry_back()
        return into.program()

    def carry_back(self) -> None:
        """What the plan exchanges by name: what is needed of it is copied."""
        for swap in self.swaps:
            if self.is_fresh(swap.second):
                self.copy(swap.second, swap.first, {})
                continue
            kind, size = self.plan.buffers[swap.first].dtype, self.sizes[swap.first]
            one, two = (self.memory(b, kind) for b in (swap.first, swap.second))
            with self.into.loop(size) as i:
                places = [self.into.address(each, i) for each in (one, two)]
                values = [self.into.load(place) for place in places]
                self.into.store(places[0], values[1])
                self.into.store(places[1], values[0])

    def is_fresh(self, buffer: int) -> bool:
        """Whether nobody reads what a turn has left in a buffer: the next one writes all of it first, and others have nothing to do with it."""
        if (
            self.rolling.is_outside(buffer, self.loop)
            or sum(buffer in (swap.first, swap.second) for swap in self.swaps) > 1
        ):
            return False
        for step in self.loop.body:
            if isinstance(step, View | SwapPointers):
                continue
            if isinstance(step, Launch):
                buffers = self.slots(step)
                loads, stores = used(self.rolling.program(step.kernel))
                if any(buffers[number] == buffer for number in loads):
                    return False
                if any(buffers[number] == buffer for number in stores):
                    return True
            elif isinstance(step, Copy):
                if buffer in (step.source, step.target):
                    return step.source != buffer
            elif any(buffer in self.touched(each) for each in walk((step,))):
                return False
        return True

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
        back = {swap.first: swap.second for swap in self.swaps}
        back |= {new: old for old, new in back.items()}
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
            self.carry_back()

    def turn(self, steps: Steps, position: Operand) -> None:
        """All that a turn does, but for what is carried back."""
        self.run(steps, position, {b: self.slice(b, self.sizes[b], position) for b in self.bases})

    def run(self, steps: Steps, position: Operand, places: Mapping[int, Memory]) -> None:
        """Steps one after another; a branch is an `if` each for its two sides."""
        into = self.into
        for step in steps:
            match step:
                case Launch():
                    program = self.rolling.program(step.kernel)
                    integers = {**self.given(program), self.loop.counter: position}
                    pairs = zip(self.slots(step), program.params, strict=True)
                    memory = [self.place(b, p.dtype, places) for b, p in pairs]
                    inlining.inline(into, program, memory, integers)
                case Copy(source, target):
                    self.copy(source, target, places)
                case Branch(predicate, then, otherwise):
                    holds = into.load(into.address(self.place(predicate, dtypes.bool_, places), 0))
                    for condition, side in ((holds, then), (into.compute(Ops.NOT, holds), otherwise)):
                        if side:
                            with into.when(condition):
                                self.run(side, position, places)
                case _:
                    pass  # a swap: what is carried is where the next turn looks for it, or is copied there

    def copy(self, source: int, target: int, places: Mapping[int, Memory]) -> None:
        kind = self.plan.buffers[target if target in places else source].dtype
        if source != target:
            lanes = self.rolling.target.lanes(kind)
            one, two = (self.place(b, kind, places) for b in (source, target))
            inlining.copy(self.into, one, two, self.sizes[target], lanes)

    def touched(self, step: Step) -> list[int]:
        """The buffers that a step has to do with."""
        match step:
            case Launch():
                return self.slots(step)
            case Copy(source, target):
                return [source, target]
            case SwapPointers(old, new):
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


def used(program: Program) -> tuple[set[int], set[int]]:
    """The parameters that a kernel reads and those that it writes, by their numbers."""
    places: dict[Register, Buffer] = {}
    loads: set[Buffer] = set()
    stores: set[Buffer] = set()
    for i in program.body:
        if isinstance(i, Address):
            places[i.result] = i.base if isinstance(i.base, Buffer) else places[i.base]
        elif isinstance(i, Load | Store):
            (loads if isinstance(i, Load) else stores).add(places[i.address])
    numbers = {buffer: number for number, buffer in enumerate(program.params)}
    return {numbers[b] for b in loads if b in numbers}, {numbers[b] for b in stores if b in numbers}


def _known(at: Mapping[int, carried.TurnValue], buffer: int) -> carried.TurnValue:
    """What is in a buffer; if nothing that a turn has made, the loop is none of this kind."""
    if buffer not in at:
        raise carried.Refused
    return at[buffer]


_COPIES: Final = 4
_FELT: Final = 0.1
"""Vectors that are copied every turn without a thought, and as a part of what else a turn does."""

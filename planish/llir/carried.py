"""A counted loop inside of the loops of a kernel, what goes around it in registers.

A kernel that reads what is carried only at the element that it writes may do all turns for one element (or vector) before it
begins with the next:

    for turn: for e: next[e] = f(last[e], x[turn, e]); swap      →      for e: c = last[e]; for turn: c = f(c, x[turn, e]); last[e] = c

Whether a kernel is of that kind is asked of its graph (`schedule.rolling`). Here its innermost loops are opened: what does not depend on the
turn is computed before the loop over turns, everything else inside of it, in the order in which it was. Short loops over elements are
written out, so that several chains of dependent arithmetic run side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Final

from planish import dtypes
from planish.dtypes import DType
from planish.llir import program as ir
from planish.llir.builder import Builder
from planish.llir.inlining import Inlining, Memory
from planish.llir.program import Buffer, Immediate, Instruction, Operand, Program, Register
from planish.records import dataclass

CHAINS: Final = (8, 4, 2, 1)
"""How many iterations over elements may go around side by side: more than that wait for nothing."""
_INSTRUCTIONS: Final = 400
"""What the body of a loop may become by that."""


class Refused(Exception):
    """The instructions are not of the kind that the graph promised; the loop stays around the kernel."""


@dataclass(frozen=True, slots=True)
class TurnValue:
    """A value of a turn: what a parameter is given, or what a carried value was before the turn."""

    stored: int | None = None
    carried: int = 0


@dataclass(frozen=True, slots=True)
class Carried:
    """What goes around: where it lies before and after, the parameters that read it, and what it is next."""

    memory: Memory
    dtype: DType
    read: tuple[int, ...]
    following: TurnValue


@dataclass(frozen=True, slots=True)
class TurnLoop:
    """The loop over turns."""

    count: Operand
    """How many turns, an i64."""
    position: Callable[[Register], Operand]
    """Writes what the counter of the plan is in a turn."""
    counter: str
    """Its name among the variables of the kernel."""
    slices: Mapping[int, Callable[[Operand], Memory]]
    """Parameters that are part of a sequence: writes where they are at a position."""
    carried: Sequence[Carried]
    moves: Sequence[tuple[TurnValue, Callable[[Operand], Memory]]] = ()
    """What else is stored at a position."""


@dataclass(slots=True)
class _LoopBody:
    """Instructions, and loops with what is in them."""

    header: ir.Loop | None
    items: list[Instruction | _LoopBody] = field(default_factory=list)

    @property
    def is_leaf(self) -> bool:
        return not any(isinstance(item, _LoopBody) for item in self.items)


@dataclass(frozen=True, slots=True)
class _StoredPlace:
    """Elements that are stored together: where in every buffer, which of them, and how many."""

    index: Operand
    gate: Operand | None
    lanes: int


def _nest(program: Program) -> _LoopBody:
    root = _LoopBody(None)
    stack = [root]
    for i in program.body:
        if isinstance(i, ir.Loop):
            stack.append(_LoopBody(i))
            stack[-2].items.append(stack[-1])
        elif isinstance(i, ir.EndLoop):
            stack.pop()
        else:
            stack[-1].items.append(i)
    return root


class _Carrying:
    """One kernel on its way."""

    def __init__(
        self, into: Builder, program: Program, memory: Sequence[Memory], turns: TurnLoop, chains: int
    ) -> None:
        self.into, self.turns, self.chains = into, turns, chains
        self.inlining = Inlining(into, program, memory)
        params = program.params
        self.old = {params[read]: n for n, each in enumerate(turns.carried) for read in each.read}
        """Parameters that read what is carried."""
        self.new = {
            params[source.stored]: source.stored for source in self._sources() if source.stored is not None
        }
        self.sliced = {params[number]: start for number, start in turns.slices.items()}
        self.kept = {b for b in self.new if b not in self.sliced}
        """Parameters that are written, but whose memory is that of the carried value."""
        self.position = next((v.result for v in program.variables if v.name == turns.counter), None)
        self.varies = self._varying(program)

    def _sources(self) -> list[TurnValue]:
        return [*(each.following for each in self.turns.carried), *(source for source, _ in self.turns.moves)]

    def _varying(self, program: Program) -> set[Register]:
        """Registers that depend on the turn."""
        varying: set[Register] = set() if self.position is None else {self.position}
        self.bases = bases = dict[Register, Buffer]()
        for i in program.body:
            if isinstance(i, ir.Address):
                bases[i.result] = base = i.base if isinstance(i.base, Buffer) else bases[i.base]
                if base in self.sliced:
                    varying.add(i.result)
            elif isinstance(i, ir.Load) and bases[i.address] in self.old:
                varying.add(i.result)
            if i.target is not None and any(register in varying for register in i.registers):
                varying.add(i.target)
        stored = {bases[i.address] for i in program.body if isinstance(i, ir.Store)}
        read = {bases[i.address] for i in program.body if isinstance(i, ir.Load)}
        moved = {*self.old, *self.kept}
        strange = stored & read or stored - {*self.sliced, *self.kept} or self.kept - stored
        if strange or any(r in varying and base in moved for r, base in bases.items()):
            raise Refused  # what is read is written elsewhere, or is at another place in every turn
        return varying

    # -- loops over elements ---------------------------------------------------------------------------------------

    def walk(self, nest: _LoopBody, waiting: list[Instruction]) -> None:
        """The loops as they are; what depends on the turn waits for the innermost ones."""
        if nest.is_leaf:
            self.leaf([*waiting, *(item for item in nest.items if not isinstance(item, _LoopBody))])
            return
        waiting = list(waiting)
        for item in nest.items:
            if isinstance(item, _LoopBody):
                self.loop(item, waiting)
            elif isinstance(item, ir.Special):
                self.inlining.write(item)
            elif isinstance(item, ir.Store | ir.If | ir.EndIf):
                raise Refused
            elif item.target is not None and item.target in self.varies:
                waiting.append(item)
            elif not isinstance(item, ir.Prefetch):
                self.inlining.write(item)

    def loop(self, nest: _LoopBody, waiting: list[Instruction]) -> None:
        """A loop; an innermost one with several iterations in each turn."""
        header = nest.header
        if header is None:
            raise Refused
        bound, known = self.inlining.operand(header.bound), header.bound
        count = known.value if isinstance(known, Immediate) and isinstance(known.value, int) else 0
        copies = self.copies(nest, count) if nest.is_leaf else 1
        counter = self.into.fresh(header.counter.dtype)
        if copies > 1:
            bound = Immediate(count // copies, bound.dtype)
        single = copies > 1 and count == copies
        if not single:
            self.into.body.append(ir.Loop(counter, bound, 1))
        if nest.is_leaf and copies > 1:
            self.side_by_side(nest, waiting, None if single else counter, copies)
        else:
            self.inlining.registers[header.counter] = counter
            self.walk(nest, waiting)
        if not single:
            self.into.body.append(ir.EndLoop(counter, bound))

    def copies(self, nest: _LoopBody, count: int) -> int:
        size = sum(not isinstance(item, ir.Address) for item in nest.items)
        return next(
            (n for n in range(self.chains, 1, -1) if count and count % n == 0 and n * size <= _INSTRUCTIONS),
            1,
        )

    def side_by_side(
        self, nest: _LoopBody, waiting: Sequence[Instruction], counter: Register | None, copies: int
    ) -> None:
        """Some iterations of an innermost loop, written out."""
        header = nest.header
        if header is None:
            raise Refused
        body: list[Instruction] = list(waiting)
        dtype = header.counter.dtype
        for copy in range(copies):
            names: dict[Register, Register] = {}
            own = self._named(names, copy, header.counter)
            if counter is None:
                self.inlining.registers[own] = Immediate(copy, dtype)
            else:
                first = self.into.mul(counter, copies)
                self.inlining.registers[own] = self.into.add(first, copy) if copy else first
            for item in nest.items:
                if isinstance(item, _LoopBody):
                    raise Refused
                body.append(item.renamed(partial(_renamed, names), partial(self._named, names, copy)))
        self.leaf(body)

    def _named(self, names: dict[Register, Register], copy: int, register: Register) -> Register:
        """The register of a copy; what is known of it is what is known of the first."""
        renamed = names[register] = Register(register.number + (copy + 1) * _APART, register.dtype)
        if register in self.varies:
            self.varies.add(renamed)
        if register in self.bases:
            self.bases[renamed] = self.bases[register]
        return renamed

    # -- the loop over turns ---------------------------------------------------------------------------------------

    def leaf(self, items: Sequence[Instruction]) -> None:
        """What is done for one element, or for a few: before, in, and after the loop over turns."""
        addresses: dict[Register, ir.Address] = {}
        inside: list[Instruction] = []
        depth = 0
        for i in items:
            depth += isinstance(i, ir.If)
            if isinstance(i, ir.Address):
                addresses[i.result] = i
                if i.base in self.old or i.base in self.kept:
                    continue  # it is named where it is read and written, once each
            if i.target is not None and i.target not in self.varies and not depth:
                self.inlining.write(i)
            elif not isinstance(i, ir.Prefetch):
                inside.append(i)
            depth -= isinstance(i, ir.EndIf)
        places = self.places(inside, addresses)
        registers = {
            (n, place): self.begin(each, place)
            for n, each in enumerate(self.turns.carried)
            for place in places
        }
        counter = self.into.fresh(dtypes.int64)
        self.into.body.append(ir.Loop(counter, self.turns.count))
        self.turn(self.turns.position(counter), inside, addresses, places, registers)
        self.into.body.append(ir.EndLoop(counter, self.turns.count))
        for (n, place), register in registers.items():
            self.put(self.turns.carried[n].memory, place, self.get(register))

    def places(
        self, items: Sequence[Instruction], addresses: Mapping[Register, ir.Address]
    ) -> dict[_StoredPlace, dict[Buffer, Operand]]:
        """Where elements are stored, and what each parameter is given there."""
        places: dict[_StoredPlace, dict[Buffer, Operand]] = {}
        depth = 0
        for i in items:
            depth += isinstance(i, ir.If) - isinstance(i, ir.EndIf)
            if not isinstance(i, ir.Store):
                continue
            address = addresses.get(i.address)
            if (
                address is None
                or depth
                or not isinstance(address.base, Buffer)
                or address.result.dtype.lanes > 1
            ):
                raise Refused
            given = places.setdefault(_StoredPlace(address.index, i.gate, i.value.dtype.lanes), {})
            varies = isinstance(i.gate, Register) and i.gate in self.varies
            if address.base in given or varies:
                raise Refused
            given[address.base] = i.value
        if len({place.index for place in places}) < len(places):
            raise Refused  # parameters are stored in pieces of different sizes
        return places

    def begin(self, each: Carried, place: _StoredPlace) -> Buffer:
        """A register for what is carried at a place, with what is there."""
        register = self.into.memory(f"carry{len(self.into.buffers)}", each.dtype.vec(place.lanes), 1)
        gate = None if place.gate is None else self.inlining.operand(place.gate)
        start = self.into.load(self.at(each.memory, place), register.dtype, gate=gate)
        self.into.store(self.into.address(register, 0), start)
        return register

    def at(self, memory: Memory, place: _StoredPlace) -> Register:
        return self.into.address(memory, self.inlining.operand(place.index))

    def get(self, register: Buffer) -> Register:
        return self.into.load(self.into.address(register, 0), register.dtype)

    def put(self, memory: Memory, place: _StoredPlace, value: Operand) -> None:
        gate = None if place.gate is None else self.inlining.operand(place.gate)
        self.into.store(self.at(memory, place), value, gate=gate)

    def turn(
        self,
        position: Operand,
        items: Sequence[Instruction],
        addresses: Mapping[Register, ir.Address],
        places: Mapping[_StoredPlace, Mapping[Buffer, Operand]],
        registers: Mapping[tuple[int, _StoredPlace], Buffer],
    ) -> None:
        known = self.inlining.registers
        if self.position is not None:
            dtype = self.position.dtype
            known[self.position] = position if position.dtype is dtype else self.into.cast(position, dtype)
        for buffer, start in self.sliced.items():
            self.inlining.places[buffer] = start(position)
        before = {key: self.get(register) for key, register in registers.items()}
        at = {place.index: place for place in places}
        for i in items:
            if isinstance(i, ir.Load) and self.bases[i.address] in self.old:
                address = addresses.get(i.address)
                place = None if address is None else at.get(address.index)
                if place is None or place.lanes != i.result.dtype.lanes or i.gate != place.gate:
                    raise Refused
                known[i.result] = before[self.old[self.bases[i.address]], place]
            elif not isinstance(i, ir.Store) or self.bases[i.address] not in self.kept:
                self.inlining.write(i)
        for place, given in places.items():

            def value(
                source: TurnValue, place: _StoredPlace = place, given: Mapping[Buffer, Operand] = given
            ) -> Operand:
                if source.stored is None:
                    return before[source.carried, place]
                given_value = given.get(self.inlining.program.params[source.stored])
                if given_value is None:
                    raise Refused
                return self.inlining.operand(given_value)

            for source, start in self.turns.moves:
                self.put(start(position), place, value(source))
            following = [(n, value(each.following)) for n, each in enumerate(self.turns.carried)]
            for n, operand in following:
                self.into.store(self.into.address(registers[n, place], 0), operand)


def _renamed(names: Mapping[Register, Register], register: Register) -> Register:
    return names.get(register, register)


_APART: Final = 1 << 40
"""Further than any number of a register: copies of a register are that far apart."""


def carry(
    into: Builder,
    program: Program,
    memory: Sequence[Memory],
    integers: Mapping[str, Operand],
    turns: TurnLoop,
    chains: int = CHAINS[0],
) -> None:
    """Write a kernel with the loop over turns inside of its own loops; Refused if its instructions do not allow it.

    At most so many `chains` go side by side: whoever asks knows how many registers there are.
    """
    carrying = _Carrying(into, program, memory, turns, chains)
    carrying.inlining.integers({name: each for name, each in integers.items() if name != turns.counter})
    carrying.walk(_nest(program), [])

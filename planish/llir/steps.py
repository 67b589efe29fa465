"""LLIR instructions, decoded into Python: one step each, on numbered registers and NumPy memory.

A step does its work on a thread and says where to go on. Who runs the steps, and in which order the threads take turns, is
`interpret`'s business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn, cast

import numpy as np

from planish.dtypes import DType
from planish.errors import VerifyError
from planish.llir import program as ir
from planish.llir.fetch_steps import FetchSteps
from planish.llir.instruction import handlers
from planish.llir.program import Buffer, Immediate, Instruction, Operand, Program, Register
from planish.llir.text import instruction_line
from planish.llir.thread_state import WAIT, Array, AsyncCopy, MemoryImage, Pointer, Step, ThreadState
from planish.uop import arithmetic


class Decoder(FetchSteps):
    """Turns instructions into steps on numbered registers; constants are registers that are never written."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.numbers: dict[object, int] = {}
        self.initial: list[Any] = []
        self.position = 0
        self.partner = _partners(program)
        self.steps: list[Step] = []
        for self.position, instruction in enumerate(program.body):
            self.steps.append(_DECODE.get(type(instruction), Decoder.value)(self, instruction))

    def slot(self, operand: Operand) -> int:
        key: object = operand if isinstance(operand, Immediate) else operand.name
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.initial)
            self.initial.append(_constant(operand) if isinstance(operand, Immediate) else None)
        return number

    def outside(self, thread: ThreadState, memory: MemoryImage, place: object) -> NoReturn:
        """An access that is not in its buffer."""
        name = instruction_line(self.program.body[thread.waiting])
        where = "".join(f", {key} = {value}" for key, value in thread.specials.items())
        raise VerifyError(
            f"{self.program.name}: {name}: {memory.buffer}[{place}] is outside its {memory.data.size} elements{where}",
            op=self.program.body[thread.waiting].mnemonic,
        )

    # -- memory ----------------------------------------------------------------------------------------------------

    def address(self, i: ir.Address) -> Step:
        out, index = self.slot(i.result), self.slot(i.index)
        wide = i.index.dtype.lanes > 1
        if isinstance(i.base, Buffer):
            buffer, step = i.base, i.base.dtype.lanes
            if i.peer:
                return self._peer_address(i, buffer)

            def from_buffer(t: ThreadState) -> None:
                pointers = t.registers[index]
                place = pointers.astype(np.int64) * step if wide else int(pointers) * step
                t.registers[out] = Pointer(t.memory[buffer], place)

            return from_buffer
        base = self.slot(i.base)

        def from_address(t: ThreadState) -> None:
            memory, place = t.registers[base]
            pointers = t.registers[index]
            distance = pointers.astype(np.int64) if wide else int(pointers)
            t.registers[out] = Pointer(memory, place + distance * memory.buffer.dtype.lanes)

        return from_address

    def _peer_address(self, i: ir.Address, buffer: Buffer) -> Step:
        """An address in the memory of a block of the cluster, as long as it is there."""
        out, index, position, step = (
            self.slot(i.result),
            self.slot(i.index),
            self.position,
            buffer.dtype.lanes,
        )

        def from_peer(t: ThreadState) -> None:
            t.waiting = position
            if i.peer > len(t.peers) or t.peers[i.peer - 1].is_over:
                name = instruction_line(self.program.body[position])
                raise VerifyError(
                    f"{self.program.name}: {name}: that block of the cluster is not there, or has ended",
                    op="address",
                    remedy="a barrier of the cluster behind the last access",
                )
            t.registers[out] = Pointer(t.peers[i.peer - 1].local[buffer], t.registers[index] * step)

        return from_peer

    def _places(self, dtype: DType, addresses: int) -> Callable[[Pointer], Any]:
        """Which scalars an access of this dtype touches: a number for one, an array for lanes."""
        if dtype.lanes == 1 or addresses > 1:
            return lambda pointer: pointer.place
        ahead = np.arange(dtype.lanes)
        return lambda pointer: pointer.place + ahead

    def _check_bounds(self, t: ThreadState, memory: MemoryImage, places: Any) -> None:
        if isinstance(places, int):
            if not 0 <= places < memory.data.size:
                self.outside(t, memory, places)
        elif places.size and (places.min() < 0 or places.max() >= memory.data.size):
            self.outside(t, memory, places.tolist())

    def load(self, i: ir.Load) -> Step:
        out, address, dtype, position = (
            self.slot(i.result),
            self.slot(i.address),
            i.result.dtype,
            self.position,
        )
        places_of, lanes = self._places(dtype, i.address.dtype.lanes), dtype.lanes
        gate = None if i.gate is None else self.slot(i.gate)
        otherwise = None if i.alternative is None else self.slot(i.alternative)

        def step(t: ThreadState) -> None:
            t.waiting = position
            pointer = t.registers[address]
            memory, places = pointer.memory, places_of(pointer)
            if gate is not None and otherwise is not None:
                holds = t.registers[gate]
                if not holds.all():
                    if not holds.any():
                        t.registers[out] = t.registers[otherwise]
                        return
                    inside = places[holds]
                    self._check_bounds(t, memory, inside)
                    self._landed(t, memory, inside)
                    memory.read += inside.size
                    memory.read_places[inside] = True
                    result = t.registers[otherwise].copy()
                    result[holds] = arithmetic.load(memory.data[inside], dtype)
                    t.registers[out] = result
                    return
            self._check_bounds(t, memory, places)
            if memory.in_flight is not None:
                self._landed(t, memory, places)
            memory.read += lanes
            memory.read_places[places] = True
            t.registers[out] = arithmetic.load(memory.data[places], dtype)

        return step

    def store(self, i: ir.Store) -> Step:
        address, value, dtype, position = (
            self.slot(i.address),
            self.slot(i.value),
            i.value.dtype,
            self.position,
        )
        places_of = self._places(dtype, i.address.dtype.lanes)
        gate = None if i.gate is None else self.slot(i.gate)

        def step(t: ThreadState) -> None:
            t.waiting = position
            pointer = t.registers[address]
            memory, places = pointer.memory, places_of(pointer)
            stored = arithmetic.store(t.registers[value], dtype)
            if gate is not None:
                holds = t.registers[gate]
                if not holds.any():
                    return
                if not holds.all():
                    places, stored = places[holds], stored[holds]
            self._check_bounds(t, memory, places)
            memory.written += 1 if isinstance(places, int) else places.size
            memory.written_places[places] = True
            memory.data[places] = stored

        return step

    def prefetch(self, i: ir.Prefetch) -> Step:
        return lambda t: None

    # -- asynchronous copies ---------------------------------------------------------------------------------------

    def copy_async(self, i: ir.CopyAsync) -> Step:
        address, source, position = self.slot(i.address), self.slot(i.source), self.position
        gate = None if i.gate is None else self.slot(i.gate)
        ahead, zeros = np.arange(i.count), np.zeros(i.count, i.element.numpy)

        def step(t: ThreadState) -> None:
            t.waiting = position
            memory, place = t.registers[address]
            self._check_bounds(t, memory, place + ahead)
            values = zeros
            if gate is None or t.registers[gate]:
                given, first = t.registers[source]
                self._check_bounds(t, given, first + ahead)
                given.read += i.count
                given.read_places[first + ahead] = True
                values = given.data[first + ahead]
            if memory.in_flight is None:
                memory.in_flight = np.zeros(memory.data.size, np.bool_)
            memory.in_flight[place + ahead] = True
            t.flights[-1].append(AsyncCopy(memory, place + ahead, values))

        return step

    def commit_copies(self, i: ir.CommitCopies) -> Step:
        return lambda t: t.flights.append([])

    def wait_copies(self, i: ir.WaitCopies) -> Step:
        under_way = i.groups + 1  # and what is in no group yet

        def step(t: ThreadState) -> None:
            while len(t.flights) > under_way:
                for memory, places, values in t.flights.pop(0):
                    memory.data[places] = values
                    memory.written += places.size
                    memory.written_places[places] = True
                    if memory.in_flight is not None:
                        memory.in_flight[places] = False

        return step

    def _landed(self, t: ThreadState, memory: MemoryImage, places: Any) -> None:
        """What is read must not be under way."""
        if memory.in_flight is not None and np.any(memory.in_flight[places]):
            raise VerifyError(
                f"{self.program.name}: {instruction_line(self.program.body[t.waiting])}: {memory.buffer}[{places}] is read while "
                f"its copy is under way, by thread {t.number}",
                remedy="wait_copies and a barrier belong between a copy and who reads it",
            )

    # -- values ----------------------------------------------------------------------------------------------------

    def value(self, i: Instruction) -> Step:
        """A result computed from operands alone."""
        inputs, compute, result = [self.slot(x) for x in i.operands], i.evaluate, i.target
        out = self.slot(cast("Register", result))
        if len(inputs) == 2:
            first, second = inputs

            def binary(t: ThreadState) -> None:
                registers = t.registers
                registers[out] = compute(registers[first], registers[second])

            return binary

        def step(t: ThreadState) -> None:
            registers = t.registers
            registers[out] = compute(*[registers[x] for x in inputs])

        return step

    def tile(self, i: ir.Tile) -> Step:
        position = self.position

        def step(t: ThreadState) -> int:
            t.waiting = position
            return WAIT

        for operand in (i.result, i.a, i.b, i.c):
            self.slot(operand)
        return step

    def finish(self, i: ir.Finish) -> Step:
        given, out = self.slot(i.operand), self.slot(i.result)

        def step(t: ThreadState) -> None:
            t.products = t.products[len(t.products) - i.pending :] if i.pending else []
            t.registers[out] = t.registers[given]

        return step

    def combine(self, i: ir.CombineThreads | ir.Deal) -> Step:
        position = self.position

        def step(t: ThreadState) -> int:
            t.waiting = position
            return WAIT

        self.slot(i.result), self.slot(i.operand)
        return step

    deal = combine

    # -- control ---------------------------------------------------------------------------------------------------

    def special(self, i: ir.Special) -> Step:
        out, index, dtype = self.slot(i.result), i.index, i.result.dtype
        self.slot(i.bound)

        def step(t: ThreadState) -> None:
            t.registers[out] = np.asarray(t.specials[index], dtype.numpy)

        return step

    def loop(self, i: ir.Loop) -> Step:
        out, bound, zero = self.slot(i.counter), self.slot(i.bound), np.asarray(0, i.counter.dtype.numpy)
        behind = self.partner[self.position] + 1

        def step(t: ThreadState) -> int | None:
            t.registers[out] = zero
            return None if int(t.registers[bound]) > 0 else behind

        return step

    def end(self, i: ir.EndLoop) -> Step:
        start = self.partner[self.position]
        header = self.program.body[start]
        counter, bound, kind = self.slot(i.counter), self.slot(i.bound), i.counter.dtype.numpy
        out = self.slot(header.counter) if isinstance(header, ir.Loop) else counter
        body = start + 1

        def step(t: ThreadState) -> int | None:
            following = int(t.registers[counter]) + 1
            if following >= int(t.registers[bound]):
                return None
            t.registers[out] = np.asarray(following, kind)
            return body

        return step

    def if_(self, i: ir.If) -> Step:
        condition, behind = self.slot(i.condition), self.partner[self.position] + 1
        return lambda t: None if t.registers[condition] else behind

    def endif(self, i: ir.EndIf) -> Step:
        return lambda t: None

    def barrier(self, i: ir.Barrier) -> Step:
        position = self.position

        def step(t: ThreadState) -> int:
            t.waiting = position
            return WAIT

        return step

    def spill(self, i: ir.Spill) -> Step:
        slot, value = i.slot, self.slot(i.value)

        def step(t: ThreadState) -> None:
            t.slots[slot] = t.registers[value]

        return step

    def reload(self, i: ir.Reload) -> Step:
        slot, out = i.slot, self.slot(i.result)

        def step(t: ThreadState) -> None:
            t.registers[out] = t.slots[slot]

        return step


_DECODE: Final = handlers(Decoder)
"""What touches memory or the order of lines; all others only compute."""


def _partners(program: Program) -> dict[int, int]:
    """The position of each end for its header, and back."""
    pairs: dict[int, int] = {}
    stack: list[int] = []
    for position, instruction in enumerate(program.body):
        if isinstance(instruction, ir.Loop | ir.If | ir.Fetcher):
            stack.append(position)
        elif isinstance(instruction, ir.EndLoop | ir.EndIf | ir.EndFetcher):
            start = stack.pop()
            pairs[start], pairs[position] = position, start
    return pairs


def _constant(operand: Immediate) -> Array:
    value = arithmetic.load(operand.value, operand.dtype)
    return np.broadcast_to(value, (operand.dtype.lanes,)) if operand.dtype.lanes > value.size else value

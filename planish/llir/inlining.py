"""A kernel written into another one: registers and memory get new names, and what a grid would supply is counted.

A parameter of the inlined kernel is memory of the other one, or an address in it: a part that starts there. An integer that a launch
would bring is an operand. Each hardware index becomes a loop around everything that follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from planish.dtypes import DType
from planish.llir import program as ir
from planish.llir.builder import Builder, immediate
from planish.records import dataclass
from planish.uop.hardware_index import HardwareIndex

Memory = ir.Buffer | ir.Register
"""A buffer, or an address in one."""


def is_simple(program: ir.Program) -> bool:
    """Whether one thread can run a kernel from its start to its end, whatever runs before and after it."""
    return not any(
        isinstance(i, ir.Barrier | ir.CombineThreads | ir.Deal | ir.Tile)
        or (isinstance(i, ir.Special) and i.is_thread)
        for i in program.body
    )


def pointer_of(memory: Memory) -> DType:
    """The dtype of an address in memory."""
    return memory.pointer if isinstance(memory, ir.Buffer) else memory.dtype.scalar


@dataclass(slots=True)
class Inlining:
    """One kernel on its way into another."""

    into: Builder
    program: ir.Program
    memory: Sequence[Memory]
    """By parameter."""
    registers: dict[ir.Register, ir.Operand] = field(default_factory=dict)
    places: dict[ir.Buffer, Memory] = field(init=False)

    def __post_init__(self) -> None:
        self.into.functions |= dict.fromkeys(self.program.functions)
        self.places = dict(zip(self.program.params, self.memory, strict=True))
        for buffer in self.program.locals:
            name = f"{buffer.name}_{len(self.into.buffers)}"
            self.places[buffer] = self.into.memory(
                name, buffer.dtype, buffer.size, buffer.space, buffer.offset, buffer.align
            )

    def integers(self, given: Mapping[str, ir.Operand]) -> None:
        """What a launch would bring, by name; converted once, here."""
        for variable in self.program.variables:
            operand = given.get(variable.name)
            if operand is None:
                continue
            if operand.dtype is not variable.result.dtype:
                operand = self.into.cast(operand, variable.result.dtype)
            self.registers[variable.result] = operand

    def operand(self, operand: ir.Operand) -> ir.Operand:
        """The operand under its new name."""
        return self.registers[operand] if isinstance(operand, ir.Register) else operand

    def write(self, instruction: ir.Instruction) -> None:
        """One instruction, at the end of what has been written."""
        if isinstance(instruction, ir.Address):
            self.address(instruction)
            return
        written = instruction
        changed: dict[str, object] = {}
        for name in instruction.reads:
            changed[name] = self._read(getattr(instruction, name))
        if instruction.writes is not None:
            target: ir.Register = getattr(instruction, instruction.writes)
            changed[instruction.writes] = self.registers[target] = self.into.fresh(target.dtype)
        if changed:
            written = replace(instruction, **changed)  # type: ignore[type-var]  # every form is a dataclass
        self.into.body.append(written)

    def _read(self, value: object) -> object:
        if isinstance(value, tuple):
            return tuple(map(self._read, value))
        return self.registers[value] if isinstance(value, ir.Register) else value

    def address(self, instruction: ir.Address) -> None:
        """An address: in the memory that stands for the kernel's, so its dtype may have another size."""
        base = instruction.base
        if isinstance(base, ir.Buffer):
            memory = self.places[base]
        else:
            memory = self.registers[base]  # type: ignore[assignment]  # an address is never a constant
        result = self.into.fresh(pointer_of(memory).vec(instruction.result.dtype.lanes))
        self.registers[instruction.result] = result
        self.into.body.append(ir.Address(result, memory, self.operand(instruction.index)))

    def whole(self) -> None:
        """All of it."""
        opened: list[tuple[ir.Register, ir.Operand]] = []
        counted: dict[HardwareIndex, ir.Register] = {}
        for i in self.program.body:
            if not isinstance(i, ir.Special):
                self.write(i)
            elif i.index in counted:
                self.registers[i.result] = counted[i.index]
            else:
                counter, bound = self.into.fresh(i.result.dtype), self.operand(i.bound)
                self.registers[i.result] = counted[i.index] = counter
                self.into.body.append(ir.Loop(counter, bound))
                opened.append((counter, bound))
        self.into.body.extend(ir.EndLoop(*each) for each in reversed(opened))


def inline(
    into: Builder, program: ir.Program, memory: Sequence[Memory], integers: Mapping[str, ir.Operand]
) -> None:
    """Write a kernel into another one."""
    inlining = Inlining(into, program, memory)
    inlining.integers(integers)
    inlining.whole()


def copy(into: Builder, source: Memory, target: Memory, size: ir.Operand, lanes: int) -> None:
    """So many elements from here to there: as vectors, of which the last may copy a few once more."""
    element = getattr(pointer_of(source), "base")  # noqa: B009 - a pointer knows what it points to
    wide = element.vec(lanes)
    count = size.value if not isinstance(size, ir.Register) else None
    if lanes > 1 and isinstance(count, int) and count >= lanes:
        with into.loop(count // lanes, dtype=size.dtype) as i:
            place = into.mul(i, lanes)
            into.store(into.address(target, place), into.load(into.address(source, place), wide))
        if count % lanes:
            last = immediate(count - lanes, size.dtype)
            into.store(into.address(target, last), into.load(into.address(source, last), wide))
        return
    with into.loop(size) as i:
        into.store(into.address(target, i), into.load(into.address(source, i)))

"""Linear-scan register allocation with spills, and the register pressure that the optimizer asks for.

Three banks of registers: scalar, vector, pointer. A value lives from its assignment to its last use, and through every loop
that it enters from outside. Values are visited in the order of their assignment; when a bank is full, one is
spilled: of those used in the outermost loops the one that is needed latest. It is stored once after its assignment, and
reloaded into a register of its own before each use. The spilled program is scanned again until all fits.
Every instruction needs at most three operands of a bank, so four registers always suffice; building and joining of more
lanes than that is first cut into pairs.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from planish.dtypes import AddrSpace, DType, PtrDType
from planish.errors import LoweringError
from planish.llir import program as ir
from planish.llir.makers import owners_of
from planish.records import dataclass

SCALAR: Final = "s"
VECTOR: Final = "v"
POINTER: Final = "p"
BANKS: Final = (SCALAR, VECTOR, POINTER)
MIN_REGISTERS: Final = 4
"""Three operands, and one register for what lives longer (a loop bound, say)."""
_DEEPER: Final = 10
"""How much more often a loop body is assumed to run than what surrounds it."""


def bank_of(dtype: DType) -> str:
    """The bank that values of a dtype live in."""
    if dtype.is_pointer:
        return POINTER
    return VECTOR if dtype.lanes > 1 else SCALAR


# -- lives -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Life:
    """From where to where a register holds its value. Reads of line i are at 2i, its assignment at 2i + 1."""

    register: ir.Register
    start: int
    end: int
    weight: float = 0.0
    fixed: bool = False
    """Made for one use of a spilled value: spilling it again would gain nothing."""


def _ends(body: Sequence[ir.Instruction]) -> dict[int, int]:
    """The end of each loop, by the position of its header."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for position, instruction in enumerate(body):
        if isinstance(instruction, ir.Loop):
            opened.append(position)
        elif isinstance(instruction, ir.EndLoop):
            ends[opened.pop()] = position
    return ends


def _lives(program: ir.Program, fixed: frozenset[ir.Register]) -> dict[ir.Register, _Life]:
    body = program.body
    ends = _ends(body)
    lives: dict[ir.Register, _Life] = {
        v.result: _Life(v.result, -1, -1, fixed=v.result in fixed) for v in program.variables
    }
    opened: list[int] = []
    for position, instruction in enumerate(body):
        for register in instruction.registers:
            life = lives[register]
            # read in a loop that it was assigned before: the next iteration reads it again
            outermost = next((start for start in opened if life.start < 2 * start + 1), None)
            end = 2 * position if outermost is None else 2 * ends[outermost]
            life.end = max(life.end, end)
            life.weight += _DEEPER ** min(len(opened), 6)
        if isinstance(instruction, ir.Loop):
            opened.append(position)
        elif isinstance(instruction, ir.EndLoop):
            opened.pop()
        target = instruction.target
        if target is not None:
            at, weight = 2 * position + 1, _DEEPER ** min(len(opened), 6)
            lives[target] = _Life(target, at, at, weight, target in fixed)
    return lives


# -- pressure --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pressure:
    """The most registers of each bank that are alive at once."""

    scalar: int
    vector: int
    pointer: int


def pressure(program: ir.Program, vector_bytes: int | None = None) -> Pressure:
    """How many registers the program needs to keep everything in them, REG buffers included.

    A vector wider than `vector_bytes` counts as several. A REG buffer counts as registers from its first to its last use:
    vectors if it is ever read or written as such, else scalars.
    """
    changes: dict[str, list[tuple[int, int]]] = {bank: [] for bank in BANKS}

    def add(bank: str, start: int, end: int, count: int) -> None:
        changes[bank] += [(start, count), (end + 1, -count)]

    for life in _lives(program, frozenset()).values():
        dtype = life.register.dtype
        add(bank_of(dtype), life.start, life.end, _units(dtype.itemsize * dtype.lanes, dtype, vector_bytes))
    for buffer, start, end, lanes in _register_memory(program):
        if lanes > 1:
            unit = lanes * buffer.dtype.itemsize
            count = -(-buffer.nbytes // unit) * _units(unit, buffer.dtype.scalar.vec(lanes), vector_bytes)
            add(VECTOR, start, end, count)
        else:
            add(SCALAR, start, end, buffer.elements)
    most = {}
    for bank, events in changes.items():
        alive = peak = 0
        for _, change in sorted(events):
            alive += change
            peak = max(peak, alive)
        most[bank] = peak
    return Pressure(most[SCALAR], most[VECTOR], most[POINTER])


def _units(nbytes: int, dtype: DType, vector_bytes: int | None) -> int:
    if dtype.is_pointer or dtype.lanes == 1 or vector_bytes is None:
        return 1
    return max(1, -(-nbytes // vector_bytes))


def _register_memory(program: ir.Program) -> Iterator[tuple[ir.Buffer, int, int, int]]:
    """Each REG buffer with its first and last use (through the loops around them) and its widest access."""
    ends = _ends(program.body)
    places: dict[ir.Buffer, list[int]] = {}
    bases = owners_of(program, AddrSpace.REG)
    opened: list[int] = []
    first_loops: dict[ir.Buffer, tuple[int, ...]] = {}
    for position, instruction in enumerate(program.body):
        if isinstance(instruction, ir.Loop):
            opened.append(position)
        elif isinstance(instruction, ir.EndLoop):
            opened.pop()
        elif isinstance(instruction, ir.Load | ir.Store) and instruction.address in bases:
            buffer = bases[instruction.address]
            dtype = instruction.result.dtype if isinstance(instruction, ir.Load) else instruction.value.dtype
            use = places.setdefault(buffer, [2 * position, 2 * position, 1])
            loops = first_loops.setdefault(buffer, tuple(opened))
            entered = next((start for start in opened if start not in loops), None)
            use[1] = max(use[1], 2 * position if entered is None else 2 * ends[entered])
            use[2] = max(use[2], dtype.lanes)
    for buffer, (start, end, lanes) in places.items():
        yield buffer, start, end, lanes


# -- allocation ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Allocation:
    """A program on physical registers, and what that took."""

    program: ir.Program
    registers: int
    """Registers of each bank."""
    slots: int
    """Places in memory for spilled values."""
    spill_bytes: int
    spills: int
    reloads: int
    """Instructions added."""
    pressure: Pressure
    """What it would have needed to spill nothing."""


def allocate(program: ir.Program, registers: int) -> Allocation:
    """The program on so many registers of each bank. It computes the same."""
    if registers < MIN_REGISTERS:
        raise LoweringError(
            f"{program.name}: {registers} registers of a bank are too few",
            remedy=f"give at least {MIN_REGISTERS}",
        )
    before = pressure(program)
    current = _cut_wide(program)
    fixed: frozenset[ir.Register] = frozenset()
    slots: dict[ir.Register, int] = {}
    while True:
        lives = _lives(current, fixed)
        chosen, spilled = _scan(lives, registers, program.name)
        if not spilled:
            break
        current, fixed = _spill(current, spilled, slots, fixed)
    placed = replace(
        current,
        body=tuple(i.renamed(chosen.__getitem__, chosen.__getitem__) for i in current.body),
        variables=tuple(replace(v, result=chosen[v.result]) for v in current.variables),
    )
    return Allocation(
        placed,
        registers,
        len(slots),
        sum(_bytes(r.dtype) for r in slots),
        sum(isinstance(i, ir.Spill) for i in placed.body),
        sum(isinstance(i, ir.Reload) for i in placed.body),
        before,
    )


def _bytes(dtype: DType) -> int:
    return dtype.itemsize * dtype.lanes if not isinstance(dtype, PtrDType) else 8 * dtype.lanes


def _scan(
    lives: dict[ir.Register, _Life], registers: int, name: str
) -> tuple[dict[ir.Register, ir.Register], list[ir.Register]]:
    """A physical register for each value, and the values that got none."""
    chosen: dict[ir.Register, ir.Register] = {}
    spilled: list[ir.Register] = []
    free = {bank: list(range(registers)) for bank in BANKS}
    active: dict[str, list[_Life]] = {bank: [] for bank in BANKS}
    for life in sorted(lives.values(), key=lambda life: (life.start, life.register.number)):
        bank = bank_of(life.register.dtype)
        for old in [other for other in active[bank] if other.end < life.start]:
            active[bank].remove(old)
            heapq.heappush(free[bank], chosen[old.register].number)
        if free[bank]:
            number = heapq.heappop(free[bank])
        else:
            # its own assignment needs a register even if it is spilled: it is the last choice
            candidates = [other for other in active[bank] if not other.fixed] or (
                [] if life.fixed else [life]
            )
            victim = min(candidates, key=_cost, default=None)
            if victim is None:
                raise LoweringError(f"{name}: an instruction needs more than {registers} registers of a bank")
            spilled.append(victim.register)
            if victim is life:
                continue
            active[bank].remove(victim)
            number = chosen.pop(victim.register).number
        chosen[life.register] = ir.Register(number, life.register.dtype, bank)
        active[bank].append(life)
    return chosen, spilled


def _cost(life: _Life) -> tuple[int, int, int]:
    """The least is spilled: what is used in the outermost loops, then what is needed latest. The order is total."""
    return int(math.log(life.weight + 1, _DEEPER)), -life.end, life.register.number


def _spill(
    program: ir.Program,
    spilled: Sequence[ir.Register],
    slots: dict[ir.Register, int],
    fixed: frozenset[ir.Register],
) -> tuple[ir.Program, frozenset[ir.Register]]:
    """The program with these values in memory: a store after each assignment, a load before each use."""
    victims = frozenset(spilled)
    for register in spilled:
        slots[register] = len(slots)
    body: list[ir.Instruction] = []
    short: set[ir.Register] = set(fixed)
    number = _next_number(program)
    for variable in program.variables:
        if variable.result in victims:
            body.append(ir.Spill(slots[variable.result], variable.result))
            short.add(variable.result)
    for instruction in program.body:
        here: dict[ir.Register, ir.Register] = {}
        for register in instruction.registers:
            if register in victims and register not in here:
                here[register] = ir.Register(number, register.dtype)
                short.add(here[register])
                body.append(ir.Reload(here[register], slots[register]))
                number += 1
        body.append(instruction.renamed(_renaming(here), _renaming({})))
        target = instruction.target
        if target is not None and target in victims:
            # a loop jumps back to just behind its header, so a counter is stored in every iteration
            body.append(ir.Spill(slots[target], target))
            short.add(target)
    return replace(program, body=tuple(body)), frozenset(short)


def _renaming(names: dict[ir.Register, ir.Register]) -> Callable[[ir.Register], ir.Register]:
    return lambda register: names.get(register, register)


def _next_number(program: ir.Program) -> int:
    """A register number that is not in use."""
    used = {r.number for i in program.body for r in (*i.registers, *_targets(i))}
    return 1 + max(used | {v.result.number for v in program.variables}, default=-1)


def _targets(instruction: ir.Instruction) -> tuple[ir.Register, ...]:
    return () if instruction.target is None else (instruction.target,)


def _cut_wide(program: ir.Program) -> ir.Program:
    """Building and joining of more than three registers, as a tree of pairs."""
    body: list[ir.Instruction] = []
    number = _next_number(program)
    for instruction in program.body:
        if (
            not isinstance(instruction, ir.Build | ir.Concat)
            or len(set(instruction.registers)) < MIN_REGISTERS
        ):
            body.append(instruction)
            continue
        scalar = instruction.result.dtype.scalar
        parts: list[ir.Operand] = list(instruction.inputs)
        while len(parts) > 1:
            joined: list[ir.Operand] = []
            for left, right in zip(parts[::2], parts[1::2], strict=False):
                lanes = left.dtype.lanes + right.dtype.lanes
                last = len(parts) == 2
                result = instruction.result if last else ir.Register(number, scalar.vec(lanes))
                number += not last
                body.append((ir.Build if lanes == 2 else ir.Concat)(result, (left, right)))
                joined.append(result)
            parts = joined + parts[len(joined) * 2 :]
    return replace(program, body=tuple(body))

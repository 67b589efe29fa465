"""What a well-formed LLIR program is. All violations are found, and shown under the lines they are in.

The invariants, by name:

* `name`      the kernel, its buffers, variables and special indices have identifiers, each its own among its kind
* `buffer`    sizes are not negative and below 2**63 bytes; alignments are powers of two that hold an element; offsets are
              aligned and not negative; parameters are GLOBAL, the kernel's own memory is LOCAL or REG
* `tile`      a tile operation's layouts number every element once; its operands have the lanes a thread holds
* `once`      a register is assigned once (not checked after allocation, where registers are physical)
* `order`     a register is assigned before it is read
* `scope`     what is assigned in a loop or under an if is not read behind its end
* `nesting`   loops, ifs and what the fetcher runs close innermost first, each by its own end, with the counter and bound of its header
* `types`     operands and results have the dtypes the instruction asks for; no dtype is index or void
* `address`   an address leads into a declared buffer, by an integer index of 32 or 64 bits
* `gate`      a gate is one bool or a bool per lane; a gated load has an alternative, an ungated one has none
* `immediate` a constant is a value of its dtype
* `lanes`     selected lanes exist; built and joined ones add up
* `hint`      unroll counts are not negative; alignments are powers of two; locality is 0 to 3
* `barrier`   a barrier is not under an if, where not all threads might come
* `bounds`    variables have bounds that are not empty and fit; loops and special indices count in machine integers
* `product`   what a product under way makes is not read before it is finished, but as what the next one is added to, and to be kept in registers
* `bank`      spills, reloads and physical registers occur after allocation only, and there alone; a reload has a spill above
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Final, NamedTuple

from planish.dtypes import AddrSpace, Kind, PtrDType
from planish.errors import DTypeError, VerifyError
from planish.llir import program as ir
from planish.llir.instruction import Complaint, is_integer, is_power_of_two
from planish.llir.text import program_lines
from planish.records import dataclass

INVARIANTS: Final = (
    "name", "buffer", "tile", "once", "order", "scope", "nesting", "types", "address", "gate", "immediate", "lanes", "hint",
    "barrier", "bounds", "product", "bank",
)  # fmt: skip

_ENDS: Final[dict[type[ir.Instruction], type[ir.Instruction]]] = {
    ir.Loop: ir.EndLoop,
    ir.If: ir.EndIf,
    ir.Fetcher: ir.EndFetcher,
}
_LARGEST: Final = 2**63 - 1
_AROUND: Final = 1
"""Lines shown before and after an offending one."""
_SHOWN: Final = 20
"""Problems printed in full; of more only the number is told."""


class Problem(NamedTuple):
    """A broken invariant, and the position of the instruction that breaks it (None: the header does)."""

    position: int | None
    invariant: str
    message: str


# -- the header ------------------------------------------------------------------------------------------------


def _header(program: ir.Program) -> Iterator[Complaint]:
    names = [program.name, *(b.name for b in program.buffers), *(v.name for v in program.variables)]
    names += sorted({special.name for special in program.specials})
    for name in names:
        if not name.isidentifier() or not name.isascii():
            yield "name", f"{name!r} is not an identifier"
    for declared in ([b.name for b in program.buffers], [v.name for v in program.variables]):
        for name in sorted({name for name in declared if declared.count(name) > 1}):
            yield "name", f"{name} is declared twice"
    for buffer in program.params:
        if buffer.space is not AddrSpace.GLOBAL:
            yield "buffer", f"{buffer} is a parameter in {buffer.space.value} memory; parameters are global"
    for buffer in program.locals:
        if buffer.space is AddrSpace.GLOBAL:
            yield "buffer", f"{buffer} is the kernel's own, but in global memory"
    for buffer in program.buffers:
        yield from (("buffer", f"{buffer}: {message}") for message in _buffer(buffer))
    for tile in program.tiles:
        yield from (("tile", f"tile {tile.name}: {message}") for message in tile.problems())
    for variable in program.variables:
        dtype = variable.result.dtype
        if not is_integer(dtype) or dtype.lanes != 1:
            yield "bounds", f"variable {variable.name} is an i32 or i64, not {dtype}"
        elif not variable.low <= variable.high:
            yield "bounds", f"variable {variable.name} has empty bounds {variable.low}..{variable.high}"
        elif dtype.wrap(variable.low) != variable.low or dtype.wrap(variable.high) != variable.high:
            yield "bounds", f"bounds {variable.low}..{variable.high} of {variable.name} do not fit {dtype}"


def _buffer(buffer: ir.Buffer) -> Iterator[str]:
    if buffer.dtype.is_pointer or buffer.dtype.kind in {Kind.VOID, Kind.INDEX}:
        yield f"memory cannot hold {buffer.dtype}"
        return
    if buffer.size < 0:
        yield f"its size {buffer.size} is negative"
    elif buffer.nbytes > _LARGEST:
        yield f"its {buffer.nbytes} bytes are beyond 64 bits"
    if not is_power_of_two(buffer.alignment) or buffer.alignment < buffer.dtype.itemsize:
        yield f"alignment {buffer.alignment} is not a power of two that holds an element of {buffer.dtype}"
    elif buffer.offset is not None and (buffer.offset < 0 or buffer.offset % buffer.alignment):
        yield f"offset {buffer.offset} is not a multiple of its alignment {buffer.alignment}"
    elif buffer.offset is not None and buffer.offset + buffer.nbytes > _LARGEST:
        yield f"it ends {buffer.offset + buffer.nbytes} bytes into the arena, beyond 64 bits"


def _immediate(operand: ir.Immediate) -> str | None:
    """Why a constant is not a value of its dtype."""
    dtype = operand.dtype
    if dtype.is_pointer or dtype.kind in {Kind.VOID, Kind.INDEX}:
        return f"a constant cannot be {dtype}"
    values = operand.value if isinstance(operand.value, tuple) else (operand.value,)
    if isinstance(operand.value, tuple) and len(values) != dtype.lanes:
        return f"{len(values)} constants do not fill {dtype}"
    try:
        exact = tuple(dtype.scalar.const(value) for value in values)
    except DTypeError as error:
        return error.message
    if ir.Immediate(exact, dtype) != ir.Immediate(tuple(values), dtype):
        return f"{operand.value!r} is not exactly a value of {dtype}"
    return None


# -- the list --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _BodyWalk:
    """One pass over the body: which registers are visible, what is open."""

    program: ir.Program
    allocated: bool
    visible: dict[str, ir.Register] = field(default_factory=dict)
    assigned: set[str] = field(default_factory=set)
    opened: list[tuple[ir.Instruction, list[str]]] = field(default_factory=list)
    """Open loops and ifs, with what was assigned inside."""
    slots: set[int] = field(default_factory=set)
    begun: list[ir.Register] = field(default_factory=list)
    """What products under way make, the first of them first."""
    parts: dict[ir.Register, ir.Register] = field(default_factory=dict)
    """Lanes of what they make."""

    def visit(self, i: ir.Instruction) -> Iterator[Complaint]:
        if isinstance(i, ir.EndLoop | ir.EndIf | ir.EndFetcher):
            yield from self._read(i)
            yield from self._close(i)
            return
        yield from self._read(i)
        yield from self._multiply(i)
        if isinstance(i, ir.Loop | ir.If | ir.Fetcher):
            self.opened.append((i, []))
        if i.target is not None:
            yield from self._assign(i.target)
        if isinstance(i, ir.Barrier) and any(
            isinstance(start, ir.If | ir.Fetcher) for start, _ in self.opened
        ):
            yield "barrier", "a barrier under an if, or of the fetcher"
        if isinstance(i, ir.Spill):
            self.slots.add(i.slot)
        elif isinstance(i, ir.Reload) and i.slot not in self.slots:
            yield "bank", f"slot {i.slot} is reloaded, but nothing was spilled there"
        if isinstance(i, ir.Spill | ir.Reload) and not self.allocated:
            yield "bank", f"{i.mnemonic} before register allocation"

    def _read(self, i: ir.Instruction) -> Iterator[Complaint]:
        for operand in i.operands:
            if isinstance(operand, ir.Immediate):
                reason = _immediate(operand)
                if reason is not None:
                    yield "immediate", reason
                continue
            known = self.visible.get(operand.name)
            if known is None:
                if operand.name in self.assigned:
                    yield "scope", f"{operand} is assigned in a loop or if that has ended"
                else:
                    yield "order", f"{operand} is read, but not assigned above"
            elif operand.dtype.is_pointer and i.on_numbers:
                yield "types", f"{operand} is an address, {i.mnemonic or 'arithmetic'} works on numbers"
            elif known.dtype is not operand.dtype:
                yield "types", f"{operand} holds {known.dtype}, it is read as {operand.dtype}"

    def _multiply(self, i: ir.Instruction) -> Iterator[Complaint]:
        """Products are begun, finished, and looked at."""
        if isinstance(i, ir.Finish):
            self.begun = self.begun[len(self.begun) - i.pending :] if i.pending else []
        if isinstance(i, ir.Tile):
            looked_at = [x for x in (i.a, i.b) if isinstance(x, ir.Register)]
            self.begun = [*self.begun, i.result][max(len(self.begun) + 1 - i.pending, 0) :]
        elif isinstance(i, ir.SelectLanes) and isinstance(i.operand, ir.Register) and i.operand in self.begun:
            self.parts[i.result] = i.operand  # to be kept
            looked_at = []
        else:
            looked_at = [] if is_kept(i) else list(i.registers)
        for register in looked_at if self.begun else ():
            if self.parts.get(register, register) in self.begun:
                yield "product", f"{register} is what a product under way makes: no finish stands between"

    def _assign(self, register: ir.Register) -> Iterator[Complaint]:
        name, dtype = register.name, register.dtype
        if (dtype.kind is Kind.VOID and not dtype.is_pointer) or dtype.is_index:
            yield "types", f"{register} cannot be {dtype}"
        if bool(register.bank) is not self.allocated:
            when = "after" if self.allocated else "before"
            yield "bank", f"{register} is not a register as they are {when} allocation"
        if name in self.assigned and not self.allocated:
            yield "once", f"{register} is assigned a second time"
        self.assigned.add(name)
        self.visible[name] = register
        if self.opened:
            self.opened[-1][1].append(name)

    def _close(self, i: ir.EndLoop | ir.EndIf | ir.EndFetcher) -> Iterator[Complaint]:
        if not self.opened:
            yield "nesting", f"{i.mnemonic} where nothing is open"
            return
        start, inside = self.opened.pop()
        if not isinstance(i, _ENDS[type(start)]):
            yield "nesting", f"{i.mnemonic} closes a {start.mnemonic}"
        elif (
            isinstance(start, ir.Loop)
            and isinstance(i, ir.EndLoop)
            and not self.allocated
            and (start.counter, start.bound) != (i.counter, i.bound)
        ):
            yield "nesting", f"the end of {i.counter} closes the loop of {start.counter}"
        if not self.allocated:  # a physical register is free for others once its value is dead
            for name in inside:
                self.visible.pop(name, None)

    def finish(self) -> Iterator[Complaint]:
        for start, _ in self.opened:
            yield "nesting", f"a {start.mnemonic} is not closed"


def is_kept(i: ir.Instruction) -> bool:
    """Whether an instruction keeps something in registers, which moves nothing."""
    kind = i.address.dtype if isinstance(i, ir.Store) else None
    return isinstance(kind, PtrDType) and kind.space is AddrSpace.REG


def problems(program: ir.Program, *, allocated: bool = False) -> list[Problem]:
    """Every broken invariant. `allocated`: of a program on physical registers."""
    broken = [Problem(None, *complaint) for complaint in _header(program)]
    walk = _BodyWalk(program, allocated)
    for variable in program.variables:
        broken += [
            Problem(None, *complaint) for complaint in walk._assign(variable.result) if complaint[0] != "bank"
        ]
    for position, instruction in enumerate(program.body):
        broken += [Problem(position, *complaint) for complaint in walk.visit(instruction)]
        broken += [Problem(position, *complaint) for complaint in instruction.problems(program)]
    broken += [Problem(len(program.body) - 1, *complaint) for complaint in walk.finish()]
    return broken


def verify(program: ir.Program, *, allocated: bool = False) -> None:
    """Raise `VerifyError`, showing every broken invariant under its line, unless the program is well-formed."""
    broken = problems(program, allocated=allocated)
    if not broken:
        return
    head, body = program_lines(program)
    shown = [_window(problem, head, body) for problem in broken[:_SHOWN]]
    if len(broken) > _SHOWN:
        shown.append(f"and {len(broken) - _SHOWN} more")
    times = "once" if len(broken) == 1 else f"{len(broken)} times"
    raise VerifyError(f"kernel {program.name} breaks the LLIR rules {times}", shown)


def _window(problem: Problem, head: list[str], body: list[str]) -> str:
    """The offending line with its neighbours, and under it the invariant that it breaks."""
    said = f"{problem.invariant}: {problem.message}"
    here = problem.position
    if here is None:
        return said
    lines = []
    for number in range(max(0, here - _AROUND), min(len(body), here + _AROUND + 1)):
        lines.append(f"{'> ' if number == here else '  '}{len(head) + number + 1:4} | {body[number]}")
        if number == here:
            indent = len(body[number]) - len(body[number].lstrip())
            lines.append(f"{' ' * 6} | {' ' * indent}{'^' * len(body[number].strip())} {said}")
    return "\n".join(lines) or said

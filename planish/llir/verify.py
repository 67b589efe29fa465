"""What a well-formed LLIR program is. All violations are found, and shown under the lines they are in.

The invariants, by name:

* `name`      the kernel, its buffers, variables and special indices have identifiers, each its own among its kind
* `buffer`    sizes are not negative and below 2**63 bytes; alignments are powers of two that hold an element; offsets are
              aligned and not negative; parameters are GLOBAL, the kernel's own memory is LOCAL or REG
* `tile`      a tile operation's layouts number every element once; its operands have the lanes a thread holds
* `once`      a register is assigned once (not checked after allocation, where registers are physical)
* `order`     a register is assigned before it is read
* `scope`     what is assigned in a loop or under an if is not read behind its end
* `nesting`   loops and ifs close innermost first, each by its own end, with the counter and bound of its header
* `types`     operands and results have the dtypes the instruction asks for; no dtype is index or void
* `address`   an address leads into a declared buffer, by an integer index of 32 or 64 bits
* `gate`      a gate is one bool or a bool per lane; a gated load has an alternative, an ungated one has none
* `immediate` a constant is a value of its dtype
* `lanes`     selected lanes exist; built and joined ones add up
* `hint`      unroll counts are not negative; alignments are powers of two; locality is 0 to 3
* `barrier`   a barrier is not under an if, where not all threads might come
* `bounds`    variables have bounds that are not empty and fit; loops and special indices count in machine integers
* `bank`      spills, reloads and physical registers occur after allocation only, and there alone; a reload has a spill above
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from planish import dtypes
from planish.dtypes import AddrSpace, DType, Kind, PtrDType
from planish.errors import DTypeError, VerifyError
from planish.llir.program import (
    COMPARISONS,
    Address,
    AnyLane,
    Barrier,
    Bitcast,
    Buffer,
    Build,
    Combine,
    Compute,
    Concat,
    Convert,
    EndIf,
    EndLoop,
    If,
    Immediate,
    Instruction,
    Lanes,
    Load,
    Lookup,
    Loop,
    Operand,
    Ops,
    Prefetch,
    Program,
    Register,
    Reload,
    Special,
    Spill,
    Store,
    Tile,
)
from planish.llir.text import program_lines
from planish.uop.ops import REDUCIBLE, Law

INVARIANTS: Final = (
    "name", "buffer", "tile", "once", "order", "scope", "nesting", "types", "address", "gate", "immediate", "lanes", "hint",
    "barrier", "bounds", "bank",
)  # fmt: skip

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


Complaint = tuple[str, str]
"""Invariant and message."""


def _is_integer(dtype: DType) -> bool:
    return dtype.is_int and dtype.bits in {32, 64} and not dtype.is_pointer


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


# -- the header ------------------------------------------------------------------------------------------------


def _header(program: Program) -> Iterator[Complaint]:
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
        if not _is_integer(dtype) or dtype.lanes != 1:
            yield "bounds", f"variable {variable.name} is an i32 or i64, not {dtype}"
        elif not variable.low <= variable.high:
            yield "bounds", f"variable {variable.name} has empty bounds {variable.low}..{variable.high}"
        elif dtype.wrap(variable.low) != variable.low or dtype.wrap(variable.high) != variable.high:
            yield "bounds", f"bounds {variable.low}..{variable.high} of {variable.name} do not fit {dtype}"


def _buffer(buffer: Buffer) -> Iterator[str]:
    if buffer.dtype.is_pointer or buffer.dtype.kind in {Kind.VOID, Kind.INDEX}:
        yield f"memory cannot hold {buffer.dtype}"
        return
    if buffer.size < 0:
        yield f"its size {buffer.size} is negative"
    elif buffer.nbytes > _LARGEST:
        yield f"its {buffer.nbytes} bytes are beyond 64 bits"
    if not _is_power_of_two(buffer.alignment) or buffer.alignment < buffer.dtype.itemsize:
        yield f"alignment {buffer.alignment} is not a power of two that holds an element of {buffer.dtype}"
    elif buffer.offset is not None and (buffer.offset < 0 or buffer.offset % buffer.alignment):
        yield f"offset {buffer.offset} is not a multiple of its alignment {buffer.alignment}"
    elif buffer.offset is not None and buffer.offset + buffer.nbytes > _LARGEST:
        yield f"it ends {buffer.offset + buffer.nbytes} bytes into the arena, beyond 64 bits"


# -- single instructions ---------------------------------------------------------------------------------------


def _address(i: Address, program: Program) -> Iterator[Complaint]:
    if isinstance(i.base, Buffer):
        if i.base not in program.buffers:
            yield "address", f"{i.base} is not a buffer of this kernel"
        base: DType = i.base.pointer
    else:
        base = i.base.dtype
        if not base.is_pointer:
            yield "address", f"the base {i.base} is {base}, not an address"
            return
    if not _is_integer(i.index.dtype):
        yield "address", f"the index is an i32 or i64, not {i.index.dtype}"
    lanes = {i.index.dtype.lanes, base.lanes} - {1}
    if len(lanes) > 1:
        yield "lanes", f"{i.index.dtype.lanes} indices do not go with {base.lanes} addresses"
    elif i.result.dtype is not base.scalar.vec(max(lanes, default=1)):
        yield "types", f"the result is {base.scalar.vec(max(lanes, default=1))}, not {i.result.dtype}"


def _element(address: Register) -> tuple[DType, int] | None:
    """The scalar dtype at an address, and how many addresses there are."""
    scalar = address.dtype.scalar
    if not isinstance(scalar, PtrDType):
        return None
    return scalar.base.scalar, address.dtype.lanes


def _access(
    address: Register, value: DType, gate: Operand | None, align: int, program: Program
) -> Iterator[Complaint]:
    element = _element(address)
    if element is None:
        yield "address", f"{address} is {address.dtype}, not an address"
    else:
        scalar, addresses = element
        if value.scalar is not scalar:
            yield "types", f"memory of {scalar} does not hold {value}"
        if addresses > 1 and value.lanes != addresses:
            yield "lanes", f"{addresses} addresses do not go with {value}"
        pointer = address.dtype.scalar
        if isinstance(pointer, PtrDType) and all(b.pointer is not pointer for b in program.buffers):
            yield "address", f"no buffer of this kernel is {pointer}"
    if gate is not None and gate.dtype not in {dtypes.bool_, dtypes.bool_.vec(value.lanes)}:
        yield "gate", f"the gate is bool or {dtypes.bool_.vec(value.lanes)}, not {gate.dtype}"
    if align < 0 or (align and not _is_power_of_two(align)):
        yield "hint", f"alignment {align} is not a power of two"


def _load(i: Load, program: Program) -> Iterator[Complaint]:
    yield from _access(i.address, i.result.dtype, i.gate, i.align, program)
    if (i.gate is None) is not (i.alternative is None):
        yield "gate", "a gate and an alternative go together"
    elif i.alternative is not None and i.alternative.dtype is not i.result.dtype:
        yield "gate", f"the alternative is {i.result.dtype}, not {i.alternative.dtype}"


def _store(i: Store, program: Program) -> Iterator[Complaint]:
    yield from _access(i.address, i.value.dtype, i.gate, i.align, program)


def _prefetch(i: Prefetch, program: Program) -> Iterator[Complaint]:
    if _element(i.address) is None or i.address.dtype.lanes != 1:
        yield "address", f"{i.address} is {i.address.dtype}, not one address"
    if not 0 <= i.locality <= 3:
        yield "hint", f"locality {i.locality} is not 0, 1, 2 or 3"


_ON_NUMBERS: Final = frozenset({Compute, Convert, Bitcast, Lookup, Tile})
_KINDS: Final[dict[Law, tuple[Callable[[DType], bool], str]]] = {
    Law.FLOAT: (lambda d: d.is_float or d.is_complex, "floats"),
    Law.INTEGRAL: (lambda d: d.is_int, "integers"),
    Law.BITS: (lambda d: d.is_int or d.is_bool, "integers and bools"),
}


def _compute(i: Compute, program: Program) -> Iterator[Complaint]:
    if not i.op.min_sources or len(i.inputs) != i.op.min_sources:
        yield "types", f"{i.op.name.lower()}({i.op.sources}) given {len(i.inputs)} operands"
        return
    dtype, found = i.result.dtype, [operand.dtype for operand in i.inputs]
    if i.op in COMPARISONS:
        expected = [found[0]] * 2
        if dtype is not dtypes.bool_.vec(found[0].lanes):
            yield "types", f"a comparison gives {dtypes.bool_.vec(found[0].lanes)}, not {dtype}"
    else:
        expected = [dtype] * len(found)
        if i.op is Ops.WHERE:
            expected[0] = dtypes.bool_.vec(dtype.lanes)
    if found != expected:
        yield (
            "types",
            f"operands {', '.join(map(str, found))} where {', '.join(map(str, expected))} are expected",
        )
    works, kinds = _KINDS.get(i.op.law, (None, ""))
    if works is not None and not works(dtype):
        yield "types", f"{i.op.name.lower()} works on {kinds}, not on {dtype}"


def _convert(i: Convert, program: Program) -> Iterator[Complaint]:
    if i.operand.dtype.lanes != i.result.dtype.lanes:
        yield "types", f"a cast keeps the number of lanes: {i.operand.dtype} to {i.result.dtype}"


def _bitcast(i: Bitcast, program: Program) -> Iterator[Complaint]:
    source, target = i.operand.dtype, i.result.dtype
    if source.bits * source.lanes != target.bits * target.lanes:
        yield "types", f"{source} and {target} differ in size"
    if source.is_bool or target.is_bool:
        yield "types", "a bool has no bits to reinterpret"


def _lanes(i: Lanes, program: Program) -> Iterator[Complaint]:
    source = i.operand.dtype
    outside = [lane for lane in i.lanes if not 0 <= lane < source.lanes]
    if outside or not i.lanes:
        yield "lanes", f"{source} has no lanes {', '.join(map(str, outside or i.lanes)) or '(none)'}"
    elif i.result.dtype is not source.scalar.vec(len(i.lanes)):
        yield "types", f"{len(i.lanes)} lanes of {source} do not make {i.result.dtype}"


def _join(i: Build | Concat, program: Program) -> Iterator[Complaint]:
    dtype = i.result.dtype
    if any(operand.dtype.scalar is not dtype.scalar for operand in i.inputs):
        yield "types", f"{', '.join(str(x.dtype) for x in i.inputs)} do not join to {dtype}"
    total = sum(operand.dtype.lanes for operand in i.inputs)
    if total != dtype.lanes:
        yield "lanes", f"{total} lanes do not make {dtype}"
    if isinstance(i, Build) and any(operand.dtype.lanes != 1 for operand in i.inputs):
        yield "lanes", "build takes scalars; concat joins vectors"


def _lookup(i: Lookup, program: Program) -> Iterator[Complaint]:
    if not _is_integer(i.index.dtype):
        yield "types", f"the index is an i32 or i64, not {i.index.dtype}"
    if not _is_power_of_two(i.table.dtype.lanes):
        yield "lanes", f"a table has a power of two of entries, not those of {i.table.dtype}"
    expected = i.table.dtype.scalar.vec(i.index.dtype.lanes)
    if i.result.dtype is not expected:
        yield "types", f"the result is {expected}, not {i.result.dtype}"


def _any(i: AnyLane, program: Program) -> Iterator[Complaint]:
    if not i.operand.dtype.is_bool or i.result.dtype is not dtypes.bool_:
        yield "types", f"any makes one bool of bools, not {i.result.dtype} of {i.operand.dtype}"


def _tile(i: Tile, program: Program) -> Iterator[Complaint]:
    if i.tile.problems():
        return  # told once, in the header
    for matrix, operand in zip("abc", (i.a, i.b, i.c), strict=True):
        if operand.dtype.lanes != i.tile.lanes(matrix):
            yield "tile", f"a thread holds {i.tile.lanes(matrix)} elements of {matrix}, not {operand.dtype}"
    if i.result.dtype is not i.c.dtype:
        yield "types", f"the result is {i.c.dtype}, not {i.result.dtype}"
    a, b = i.a.dtype.scalar, i.b.dtype.scalar
    if a is not b and not (a.is_int and b.is_int and a.bits == b.bits):
        yield "types", f"matrices of {i.a.dtype.scalar} and {i.b.dtype.scalar} are not multiplied"


def _combine(i: Combine, program: Program) -> Iterator[Complaint]:
    if i.op not in REDUCIBLE:
        yield "combine", f"{i.op.name.lower()} may not be done in any order"
    if i.width < 1 or i.width & i.width - 1:
        yield "combine", f"{i.width} threads are no power of two"
    if i.result.dtype is not i.operand.dtype:
        yield "types", f"the result is {i.operand.dtype}, not {i.result.dtype}"


def _counted(i: Special | Loop, program: Program) -> Iterator[Complaint]:
    register = i.result if isinstance(i, Special) else i.counter
    if not _is_integer(register.dtype) or register.dtype.lanes != 1:
        yield "bounds", f"{register} counts in i32 or i64, not in {register.dtype}"
    if i.bound.dtype is not register.dtype:
        yield "bounds", f"the bound is {register.dtype}, not {i.bound.dtype}"
    if isinstance(i, Loop) and i.unroll < 0:
        yield "hint", f"unroll count {i.unroll} is negative"


def _if(i: If, program: Program) -> Iterator[Complaint]:
    if i.condition.dtype is not dtypes.bool_:
        yield "gate", f"the condition is bool, not {i.condition.dtype}"


def _nothing(i: Instruction, program: Program) -> Iterator[Complaint]:
    return iter(())


_RULES: Final[dict[type[Instruction], Callable[[Any, Program], Iterator[Complaint]]]] = {
    Address: _address,
    Load: _load,
    Store: _store,
    Prefetch: _prefetch,
    Compute: _compute,
    Convert: _convert,
    Bitcast: _bitcast,
    Lanes: _lanes,
    Build: _join,
    Concat: _join,
    Lookup: _lookup,
    AnyLane: _any,
    Tile: _tile,
    Combine: _combine,
    Special: _counted,
    Loop: _counted,
    EndLoop: _nothing,
    If: _if,
    EndIf: _nothing,
    Barrier: _nothing,
    Spill: _nothing,
    Reload: _nothing,
}


def _immediate(operand: Immediate) -> str | None:
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
    if Immediate(exact, dtype) != Immediate(tuple(values), dtype):
        return f"{operand.value!r} is not exactly a value of {dtype}"
    return None


# -- the list --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Walk:
    """One pass over the body: which registers are visible, what is open."""

    program: Program
    allocated: bool
    visible: dict[str, Register] = field(default_factory=dict)
    assigned: set[str] = field(default_factory=set)
    opened: list[tuple[Instruction, list[str]]] = field(default_factory=list)
    """Open loops and ifs, with what was assigned inside."""
    slots: set[int] = field(default_factory=set)

    def visit(self, i: Instruction) -> Iterator[Complaint]:
        if isinstance(i, EndLoop | EndIf):
            yield from self._read(i)
            yield from self._close(i)
            return
        yield from self._read(i)
        if isinstance(i, Loop | If):
            self.opened.append((i, []))
        if i.target is not None:
            yield from self._assign(i.target)
        if isinstance(i, Barrier) and any(isinstance(start, If) for start, _ in self.opened):
            yield "barrier", "a barrier under an if"
        if isinstance(i, Spill):
            self.slots.add(i.slot)
        elif isinstance(i, Reload) and i.slot not in self.slots:
            yield "bank", f"slot {i.slot} is reloaded, but nothing was spilled there"
        if isinstance(i, Spill | Reload) and not self.allocated:
            yield "bank", f"{i.mnemonic} before register allocation"

    def _read(self, i: Instruction) -> Iterator[Complaint]:
        for operand in i.operands:
            if isinstance(operand, Immediate):
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
            elif operand.dtype.is_pointer and type(i) in _ON_NUMBERS:
                yield "types", f"{operand} is an address, {i.mnemonic or 'arithmetic'} works on numbers"
            elif known.dtype is not operand.dtype:
                yield "types", f"{operand} holds {known.dtype}, it is read as {operand.dtype}"

    def _assign(self, register: Register) -> Iterator[Complaint]:
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

    def _close(self, i: EndLoop | EndIf) -> Iterator[Complaint]:
        if not self.opened:
            yield "nesting", f"{i.mnemonic} where nothing is open"
            return
        start, inside = self.opened.pop()
        if isinstance(start, Loop) is not isinstance(i, EndLoop):
            yield "nesting", f"{i.mnemonic} closes a {start.mnemonic}"
        elif (
            isinstance(start, Loop)
            and isinstance(i, EndLoop)
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


def problems(program: Program, *, allocated: bool = False) -> list[Problem]:
    """Every broken invariant. `allocated`: of a program on physical registers."""
    found = [Problem(None, *complaint) for complaint in _header(program)]
    walk = _Walk(program, allocated)
    for variable in program.variables:
        found += [
            Problem(None, *complaint) for complaint in walk._assign(variable.result) if complaint[0] != "bank"
        ]
    for position, instruction in enumerate(program.body):
        found += [Problem(position, *complaint) for complaint in walk.visit(instruction)]
        found += [
            Problem(position, *complaint) for complaint in _RULES[type(instruction)](instruction, program)
        ]
    found += [Problem(len(program.body) - 1, *complaint) for complaint in walk.finish()]
    return found


def verify(program: Program, *, allocated: bool = False) -> None:
    """Raise `VerifyError`, showing every broken invariant under its line, unless the program is well-formed."""
    found = problems(program, allocated=allocated)
    if not found:
        return
    head, body = program_lines(program)
    shown = [_window(problem, head, body) for problem in found[:_SHOWN]]
    if len(found) > _SHOWN:
        shown.append(f"and {len(found) - _SHOWN} more")
    times = "once" if len(found) == 1 else f"{len(found)} times"
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

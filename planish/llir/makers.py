"""Who makes which register of a program, and what integers are made of: what passes that add instructions ask.

An index is read as a sum: a constant, and registers by factors. What is no sum (a quotient, something out of memory) is a register of
the sum by itself. So how far an address moves with a counter, and what another one has in common with it, can be seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final

from planish.dtypes import AddrSpace, DType
from planish.llir import program as ir
from planish.records import dataclass
from planish.uop.reached import reached

_ARITHMETIC: Final = (ir.Compute, ir.Convert)


@dataclass(frozen=True, slots=True)
class Sum:
    """constant + Σ factor · register; no factor is 0."""

    constant: int = 0
    terms: dict[ir.Register, int] = field(default_factory=dict)

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        """self + factor · other."""
        terms = dict(self.terms)
        for register, count in other.terms.items():
            terms[register] = terms.get(register, 0) + factor * count
        return Sum(self.constant + factor * other.constant, {r: n for r, n in terms.items() if n})

    @property
    def number(self) -> int | None:
        """Its value, if that is a constant."""
        return None if self.terms else self.constant


class Makers:
    """The registers of one program."""

    def __init__(self, program: ir.Program) -> None:
        self.body = program.body
        self.places = {i.target: place for place, i in enumerate(program.body) if i.target is not None}
        """Where each register is made. (Variables are made by nobody.)"""
        numbers = [r.number for r in self.places] + [v.result.number for v in program.variables]
        self._next = 1 + max(numbers, default=-1)
        self._sums: dict[ir.Register, Sum] = {}

    def maker(self, register: ir.Register) -> ir.Instruction | None:
        """The instruction that makes a register."""
        place = self.places.get(register)
        return None if place is None else self.body[place]

    def buffer(self, address: ir.Register) -> ir.Buffer | None:
        """The buffer that an address leads into."""
        maker = self.maker(address)
        while isinstance(maker, ir.Address) and isinstance(maker.base, ir.Register):
            maker = self.maker(maker.base)
        return maker.base if isinstance(maker, ir.Address) and isinstance(maker.base, ir.Buffer) else None

    def fresh(self, dtype: DType) -> ir.Register:
        """A register that the program does not have."""
        self._next += 1
        return ir.Register(self._next - 1, dtype)

    # -- sums --------------------------------------------------------------------------------------------------

    def sum(self, operand: ir.Operand) -> Sum:
        """An integer as a sum."""
        if isinstance(operand, ir.Immediate):
            return _constant(operand)
        stack = [operand]
        while stack:
            register = stack[-1]
            if register in self._sums:
                stack.pop()
                continue
            maker = self.maker(register)
            inputs = maker.registers if isinstance(maker, _ARITHMETIC) and _is_count(register.dtype) else ()
            missing = [r for r in inputs if r not in self._sums]
            if missing:
                stack += missing
                continue
            self._sums[register] = (self._sum_of(maker) if inputs else None) or Sum(0, {register: 1})
            stack.pop()
        return self._sums[operand]

    def _sum_of(self, maker: ir.Instruction | None) -> Sum | None:
        """What an instruction makes of sums; None if that is no sum."""
        if isinstance(maker, ir.Convert):
            return self._known(maker.operand) if _is_count(maker.operand.dtype) else None
        if not isinstance(maker, ir.Compute) or not all(_is_count(operand.dtype) for operand in maker.inputs):
            return None
        x = [self._known(operand) for operand in maker.inputs]
        if maker.op in {ir.Ops.ADD, ir.Ops.SUB}:
            return x[0].plus(x[1], 1 if maker.op is ir.Ops.ADD else -1)
        if maker.op is ir.Ops.SHL and x[1].number is not None and 0 <= x[1].number < 64:
            return Sum().plus(x[0], 1 << x[1].number)
        if maker.op in {ir.Ops.MUL, ir.Ops.MULACC}:
            rest = x[2] if maker.op is ir.Ops.MULACC else Sum()
            for one, other in ((0, 1), (1, 0)):
                factor = x[other].number
                if factor is not None:
                    return rest.plus(x[one], factor)
        return None

    def _known(self, operand: ir.Operand) -> Sum:
        return _constant(operand) if isinstance(operand, ir.Immediate) else self._sums[operand]

    def index(self, address: ir.Register) -> Sum | None:
        """Where in its buffer an address leads, counted in elements."""
        total, maker = Sum(), self.maker(address)
        while isinstance(maker, ir.Address) and maker.result.dtype.lanes == 1:
            total = total.plus(self.sum(maker.index))
            if isinstance(maker.base, ir.Buffer):
                return total
            maker = self.maker(maker.base)
        return None

    def step(self, address: ir.Register, counter: ir.Register, place: int) -> int | None:
        """By how many elements an address moves when the counter of the loop at a place grows by one; None if that is not one number."""
        index = self.index(address)
        if index is None or not self.are_fixed((r for r in index.terms if r != counter), place):
            return None
        return index.terms.get(counter, 0)

    def are_fixed(self, registers: Iterable[ir.Register], place: int) -> bool:
        """Whether registers are the same in all iterations of the loop at a place."""
        stack, seen = list(registers), set[ir.Register]()
        while stack:
            register = stack.pop()
            if register in seen or self.places.get(register, -1) < place:
                continue
            seen.add(register)
            maker = self.maker(register)
            if not isinstance(maker, _ARITHMETIC):
                return False  # its counter, that of a loop in it, or something out of memory
            stack += maker.registers
        return True


def _constant(operand: ir.Immediate) -> Sum:
    return Sum(operand.value) if isinstance(operand.value, int) else Sum()


def _is_count(dtype: DType) -> bool:
    return dtype.lanes == 1 and (dtype.is_int or dtype.is_index)


# -- without looking at what integers are made of ------------------------------------------------------------------


def makers_of(body: Sequence[ir.Instruction]) -> dict[ir.Register, ir.Instruction]:
    """The instruction that assigns each register."""
    return {i.target: i for i in body if i.target is not None}


def owners_of(program: ir.Program, space: AddrSpace | None = None) -> dict[ir.Register, ir.Buffer]:
    """The memory that each address lies in; of one kind of memory alone, if that is given."""
    owners: dict[ir.Register, ir.Buffer] = {}
    for i in program.body:
        if isinstance(i, ir.Address):
            owner = i.base if isinstance(i.base, ir.Buffer) else owners.get(i.base)
            if owner is not None and space in {None, owner.space}:
                owners[i.result] = owner
    return owners


def needed(
    registers: Iterable[ir.Register],
    makers: Mapping[ir.Register, ir.Instruction],
    known: Iterable[ir.Register] = (),
) -> set[ir.Instruction]:
    """The instructions that registers are computed by, as far as makers go; `known` ones need none."""
    kept = frozenset(known)

    def inputs(register: ir.Register) -> list[ir.Register]:
        return [each for each in makers[register].registers if each not in kept] if register in makers else []

    return {makers[register] for register in reached(registers, inputs) if register in makers}

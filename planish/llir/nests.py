"""The loops of a program, what each of them does, and what passes put beside its instructions.

A pass looks at loops and adds instructions by position, before or behind what is there; nothing moves meanwhile, so that several passes
work on the same positions, and `program` is the outcome of all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import field, replace
from typing import Final

from planish.dtypes import AddrSpace, PtrDType
from planish.llir import program as ir
from planish.llir.makers import Makers
from planish.records import dataclass
from planish.target import Target

LINE: Final = 64
"""The bytes of a cache line."""
_ARITHMETIC: Final = (ir.Compute, ir.Convert)
_PAST_CACHES: Final = 8
"""A store past the caches takes as long as so many other instructions: it holds the buffer that a line leaves through. (By timing a softmax;
anything from 4 to 16 is within a few percent.)"""


@dataclass(slots=True, eq=False)
class InstructionNest:
    """A loop: where it stands, and what it does in one iteration, inner loops left out."""

    header: ir.Loop
    start: int
    parent: InstructionNest | None
    end: int = 0
    children: list[InstructionNest] = field(default_factory=list)
    loads: list[int] = field(default_factory=list)
    stores: list[int] = field(default_factory=list)
    arithmetic: int = 0
    """Operations on whole vectors."""
    effort: int = 0
    """Those, and what is loaded and stored."""

    @property
    def is_innermost(self) -> bool:
        """Whether it has no loops."""
        return not self.children

    @property
    def length(self) -> int:
        """How often it runs, if that is a number; else 0."""
        bound = self.header.bound
        return bound.value if isinstance(bound, ir.Immediate) and isinstance(bound.value, int) else 0


class Nests:
    """The loops of one program."""

    def __init__(self, program: ir.Program, target: Target) -> None:
        self._program = program
        self.target = target
        self.body = program.body
        self.makers = Makers(program)
        self.large = {b for b in program.params if b.nbytes > target.caches[1]}
        """Parameters that do not fit the second cache."""
        self.loops: list[InstructionNest] = []
        """In order of their headers."""
        self.before: dict[int, list[ir.Instruction]] = {}
        self.behind: dict[int, list[ir.Instruction]] = {}
        self._walk()

    def _walk(self) -> None:
        inside: InstructionNest | None = None
        for position, i in enumerate(self.body):
            if isinstance(i, ir.Address):
                continue  # the most frequent ones
            if isinstance(i, ir.Loop):
                inside = InstructionNest(i, position, inside)
                self.loops.append(inside)
                if inside.parent is not None:
                    inside.parent.children.append(inside)
            elif inside is None:
                continue
            elif isinstance(i, _ARITHMETIC):
                if self.is_whole(i):
                    inside.arithmetic += isinstance(i, ir.Compute)
                    inside.effort += 1
            elif isinstance(i, ir.Load):
                inside.loads.append(position)
                inside.effort += not is_register(i.address)
            elif isinstance(i, ir.Store):
                inside.stores.append(position)
                inside.effort += not is_register(i.address)
            elif isinstance(i, ir.EndLoop):
                inside.end = position
                inside = inside.parent

    def around(self) -> list[tuple[int, ...]]:
        """Per instruction, the headers of the loops and ifs that it stands in."""
        outer: list[tuple[int, ...]] = []
        headers: tuple[int, ...] = ()
        for position, i in enumerate(self.body):
            if isinstance(i, ir.CLOSING):
                headers = headers[:-1]
            outer.append(headers)
            if isinstance(i, ir.OPENING):
                headers += (position,)
        return outer

    def store_past_caches(self, positions: Collection[int]) -> None:
        """Let stores go past the caches; that takes them longer."""
        body = list(self.body)
        for nest in self.loops:
            nest.effort += (_PAST_CACHES - 1) * sum(position in positions for position in nest.stores)
        for position in positions:
            i = body[position]
            if isinstance(i, ir.Store):
                body[position] = replace(i, nontemporal=True)
        self.body = tuple(body)
        self._program = replace(self._program, body=self.body)

    def is_whole(self, i: ir.Compute | ir.Convert | ir.Load | ir.Store) -> bool:
        """Whether an instruction is about a register of the machine, or several."""
        dtype = i.value.dtype if isinstance(i, ir.Store) else i.result.dtype
        return dtype.bits >= 8 and dtype.lanes * dtype.itemsize % self.target.register_bytes == 0

    def loads_of(self, nest: InstructionNest) -> Iterator[tuple[int, ir.Load]]:
        """The loads of a loop, and where they stand."""
        for position in nest.loads:
            i = self.body[position]
            if isinstance(i, ir.Load):
                yield position, i

    def stores_of(self, nest: InstructionNest) -> Iterator[tuple[int, ir.Store]]:
        """The stores of a loop, and where they stand."""
        for position in nest.stores:
            i = self.body[position]
            if isinstance(i, ir.Store):
                yield position, i

    def add_before(self, position: int, *instructions: ir.Instruction) -> None:
        """Put instructions before one, behind those that were put there."""
        self.before.setdefault(position, []).extend(instructions)

    def add_behind(self, position: int, *instructions: ir.Instruction) -> None:
        """Put instructions behind one, and behind those that were put there."""
        self.behind.setdefault(position, []).extend(instructions)

    @property
    def program(self) -> ir.Program:
        """The program with all that was added."""
        if not self.before and not self.behind:
            return self._program
        body = [
            each
            for position, i in enumerate(self.body)
            for each in (*self.before.get(position, ()), i, *self.behind.get(position, ()))
        ]
        return replace(self._program, body=tuple(body))


def is_register(address: ir.Register) -> bool:
    """Whether what is at an address is in registers all the time: accumulators."""
    return isinstance(address.dtype, PtrDType) and address.dtype.space is AddrSpace.REG

"""Intel AMX in generated code: which of the eight tile registers holds what, decided once for all back ends.

A `Tile` instruction of a core named here becomes one dot product on tile registers. `plan` says what a back end has to write at
which place of a program:

* An accumulator (REG memory of one tile that is set to 0, given to a `Tile` and assigned its result) lives in a tile register; its
  memory is written when something else reads it.
* An operand that one load brings whole is loaded into a tile register, where the load stands, and serves every `Tile` up to the next
  loop or branch.
* Everything else passes through a piece of memory, `BUFFER`, on its way from and to vector registers: right wherever a `Tile` may
  stand, and slow.

All tiles have 16 rows of 64 bytes, so one configuration serves a kernel from its start to its end. It is written out (palette 1),
because what CPUID says of tiles cannot be relied on in virtual machines. Whoever runs a kernel has asked for permission before
(`planish.runtime.features`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final, Literal, NamedTuple

from planish.dtypes import AddrSpace
from planish.llir import program as ir
from planish.llir.program import Buffer, Immediate, Instruction, Operand, Program, Register
from planish.records import dataclass

DOT: Final = {
    "amx_tdpbf16ps": "tdpbf16ps",
    "amx_tdpbssd": "tdpbssd",
    "amx_tdpbsud": "tdpbsud",
    "amx_tdpbusd": "tdpbusd",
    "amx_tdpbuud": "tdpbuud",
}
"""The instruction of a core, by its name."""
ROW: Final = 64
"""The bytes of a row, and from one row to the next."""
BYTES: Final = 16 * ROW
BUFFER: Final = "tile_buffer"
"""The memory through which values pass that are in no tile register."""
CONFIGURATION: Final = (1, 0, 0x0040004000400040, 0x0040004000400040, 0, 0, 0x1010101010101010, 0)
"""What `ldtilecfg` reads, as eight words of 64 bits: palette 1; eight tiles of 64 bytes a row; eight tiles of 16 rows."""
_COUNT: Final = 8
_PASSING: Final = 3
"""The tile registers that a `Tile` needs whose operands and result pass through memory."""


class TileStep(NamedTuple):
    """One thing to write.

    | verb | tile | what |
    |---|---|---|
    | zero | is set to 0 | |
    | load | is loaded from | an address, an accumulator's memory, or `BUFFER` |
    | store | is stored to | an accumulator's memory or `BUFFER` |
    | dot | is added to | the numbers of two others, and the instruction |
    | put | | the value is written to `BUFFER` |
    | get | | the register is read from `BUFFER` |
    """

    verb: Literal["zero", "load", "store", "dot", "put", "get"]
    tile: int = -1
    place: Register | Buffer | None = None
    value: Operand | None = None
    dot: tuple[int, int, str] | None = None


@dataclass(slots=True)
class TilePlan:
    """What to write for a program that has tiles."""

    before: dict[int, list[TileStep]] = field(default_factory=dict)
    """By the position of an instruction: what comes before it, or instead of it."""
    replaced: set[int] = field(default_factory=set)
    """The positions of instructions that are not written themselves."""


class _TileAccumulator:
    """What happens to a REG buffer of one tile, by position."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.zeros: set[int] = set()
        self.given: dict[int, int] = {}
        """The loads for a `Tile`, and where that is."""
        self.results: dict[int, int] = {}
        """The stores of the result of a `Tile`, and where that is."""
        self.reads: set[int] = set()
        self.fits = buffer.elements * buffer.dtype.itemsize == BYTES

    @property
    def is_consistent(self) -> bool:
        """Whether every `Tile` adds to what is in it and nothing else, with nothing in between."""
        tiles = dict(zip(self.results.values(), self.results, strict=True))
        if not self.fits or not tiles or sorted(tiles) != sorted(self.given.values()):
            return False
        touched = {*self.zeros, *self.given, *self.results, *self.reads}
        for load, tile in self.given.items():
            store = tiles[tile]
            if not load < tile < store or any(load < position < store for position in touched):
                return False
        return True


class _TileUses:
    """Who uses what, and which runs of instructions have no loop or branch inside."""

    def __init__(self, program: Program) -> None:
        self.body = program.body
        self.uses: dict[Register, list[int]] = {}
        self.makers: dict[Register, int] = {}
        self.run: list[int] = []
        self.tiles = [p for p, i in enumerate(program.body) if isinstance(i, ir.Tile) and i.tile.name in DOT]
        run = 0
        for position, i in enumerate(program.body):
            if isinstance(i, ir.Loop | ir.EndLoop | ir.If | ir.EndIf):
                run += 1
            self.run.append(run)
            for register in i.registers:
                self.uses.setdefault(register, []).append(position)
            if i.target is not None:
                self.makers[i.target] = position
        self.bases = {
            i.result: i for i in program.body if isinstance(i, ir.Address) and isinstance(i.base, Buffer)
        }

    def tile(self, position: int) -> ir.Tile | None:
        i = self.body[position]
        return i if isinstance(i, ir.Tile) and i.tile.name in DOT else None

    def operands(self) -> dict[Register, list[int]]:
        """Loads of whole operands, and the tiles that take them: nothing else does, and no loop or branch is in between."""
        operands: dict[Register, list[int]] = {}
        for register, position in self.makers.items():
            i, uses = self.body[position], self.uses.get(register, [])
            if not isinstance(i, ir.Load) or i.gate is not None or i.address.dtype.lanes > 1 or not uses:
                continue
            if register.dtype.lanes * register.dtype.itemsize != BYTES or register.dtype.bits < 8:
                continue
            users = [self.tile(p) for p in uses]
            if any(t is None or t.c == register for t in users):
                continue
            if all(self.run[p] == self.run[position] for p in uses):
                operands[register] = uses
        return operands

    def accumulators(self) -> list[_TileAccumulator]:
        """REG buffers that can be tile registers."""
        accumulators: dict[Buffer, _TileAccumulator] = {}
        for position, i in enumerate(self.body):
            if isinstance(i, ir.Address) and isinstance(i.base, Buffer) and i.base.space is AddrSpace.REG:
                own = accumulators.setdefault(i.base, _TileAccumulator(i.base))
                own.fits &= all(
                    isinstance(self.body[p], ir.Load | ir.Store) for p in self.uses.get(i.result, [])
                )
            elif isinstance(i, ir.Load | ir.Store) and i.address in self.bases:
                address = self.bases[i.address]
                buffer = address.base
                if isinstance(buffer, Buffer) and buffer.space is AddrSpace.REG:
                    self._access(accumulators[buffer], position, i, address)
        return [each for each in accumulators.values() if each.is_consistent]

    def _access(
        self, own: _TileAccumulator, position: int, i: ir.Load | ir.Store, address: ir.Address
    ) -> None:
        value = i.result if isinstance(i, ir.Load) else i.value
        at = address.index.value if isinstance(address.index, Immediate) else None
        whole = at == 0 and value.dtype.lanes == own.buffer.elements
        if isinstance(i, ir.Load):
            uses = self.uses.get(i.result, [])
            tile = self.tile(uses[0]) if whole and i.gate is None and len(uses) == 1 else None
            if tile is not None and tile.c == i.result and self.run[uses[0]] == self.run[position]:
                own.given[position] = uses[0]
            else:
                own.reads.add(position)
            return
        if not whole or i.gate is not None:
            own.fits = False
        elif isinstance(value, Immediate):
            zero = value.value == 0 and not isinstance(value.value, tuple | complex)
            own.fits &= zero and math.copysign(1, float(value.value)) > 0  # type: ignore[arg-type]
            own.zeros.add(position)
        else:
            maker = self.makers.get(value, -1)
            single = self.uses[value] == [position]
            if maker < 0 or self.tile(maker) is None or self.run[maker] != self.run[position] or not single:
                own.fits = False
            else:
                own.results[position] = maker


def _most_at_once(operands: Mapping[Register, list[int]], makers: Mapping[Register, int]) -> int:
    """How many operands are in tile registers at the same time."""
    events = sorted(
        [(makers[register], 1) for register in operands] + [(max(uses), -1) for uses in operands.values()]
    )
    most = now = 0
    for _, step in events:
        now += step
        most = max(most, now)
    return most


def _passing(facts: _TileUses, operands: Mapping[Register, list[int]], kept: list[_TileAccumulator]) -> bool:
    """Whether some `Tile` has something that is in no tile register."""
    held = {tile for own in kept for tile in own.results.values()}
    for position in facts.tiles:
        tile = facts.tile(position)
        if tile is not None and (position not in held or tile.a not in operands or tile.b not in operands):
            return True
    return False


def plan(program: Program) -> TilePlan | None:
    """What to write for the tiles of a program; None if it has none."""
    if not any(isinstance(i, ir.Tile) and i.tile.name in DOT for i in program.body):
        return None
    facts = _TileUses(program)
    operands, kept = facts.operands(), facts.accumulators()
    reserved = _PASSING if _passing(facts, operands, kept) else 0
    most = _most_at_once(operands, facts.makers)
    if most + len(kept) + reserved > _COUNT:
        reserved = _PASSING
        if most + reserved > _COUNT:
            operands, most = {}, 0
        kept = kept[: _COUNT - reserved - most]
    return _TilePlanner(facts, operands, kept).plan


class _TilePlanner:
    """Goes through a program once and gives out tile registers."""

    def __init__(
        self, facts: _TileUses, operands: Mapping[Register, list[int]], kept: list[_TileAccumulator]
    ) -> None:
        self.facts = facts
        self.operands = operands
        self.number = {own.buffer: number for number, own in enumerate(kept)}
        self.held: dict[int, _TileAccumulator] = {tile: own for own in kept for tile in own.results.values()}
        self.touching = {
            position: own for own in kept for position in (*own.zeros, *own.given, *own.results, *own.reads)
        }
        self.free = list(range(len(kept), _COUNT))
        self.tile_of: dict[Register, int] = {}
        self.stored: set[Buffer] = set()
        """The accumulators whose memory holds what their tile registers hold."""
        self.plan = TilePlan()
        for position, i in enumerate(facts.body):
            self.instruction(position, i)

    def instruction(self, position: int, i: Instruction) -> None:
        own = self.touching.get(position)
        if isinstance(i, ir.Loop | ir.EndLoop | ir.If | ir.EndIf):
            self.stored.clear()
        elif own is not None:
            steps = list(self.accumulator(position, own))
            self.plan.before[position] = steps
            if position not in own.reads:
                self.plan.replaced.add(position)
        elif isinstance(i, ir.Load) and i.result in self.operands:
            number = self.tile_of[i.result] = self.free.pop(0)
            self.plan.before[position] = [TileStep("load", number, i.address)]
            self.plan.replaced.add(position)
        elif (tile := self.facts.tile(position)) is not None:
            self.plan.before[position] = list(self.tile(position, tile))
            self.plan.replaced.add(position)

    def accumulator(self, position: int, own: _TileAccumulator) -> Iterator[TileStep]:
        number, buffer = self.number[own.buffer], own.buffer
        if position in own.zeros:
            self.stored.discard(buffer)
            yield TileStep("zero", number)
        elif position in own.results:
            self.stored.discard(buffer)
        elif position in own.reads and buffer not in self.stored:
            self.stored.add(buffer)
            yield TileStep("store", number, buffer)

    def tile(self, position: int, i: ir.Tile) -> Iterator[TileStep]:
        taken: list[int] = []
        sides: list[int] = []
        for operand in (i.a, i.b):
            if isinstance(operand, Register) and operand in self.operands:
                sides.append(self.tile_of[operand])
                continue
            taken.append(self.free.pop(0))
            sides.append(taken[-1])
            yield TileStep("put", value=operand)
            yield TileStep("load", taken[-1])
        own = self.held.get(position)
        if own is not None:
            total = self.number[own.buffer]
        else:
            total = self.free.pop(0)
            taken.append(total)
            if isinstance(i.c, Immediate) and i.c.value == 0:
                yield TileStep("zero", total)
            else:
                yield TileStep("put", value=i.c)
                yield TileStep("load", total)
        yield TileStep("dot", total, dot=(sides[0], sides[1], DOT[i.tile.name]))
        if own is None:
            yield TileStep("store", total)
            yield TileStep("get", value=i.result)
        ended = {
            x for x in (i.a, i.b) if isinstance(x, Register) and self.operands.get(x, [-1])[-1] == position
        }
        taken += [self.tile_of[operand] for operand in ended]
        self.free = sorted({*self.free, *taken})

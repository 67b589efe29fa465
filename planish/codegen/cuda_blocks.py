"""Blocks of a kernel: their threads, their shared memory, and how many of them a multiprocessor should run at once."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final, NamedTuple

from planish.codegen import cuda_fetch
from planish.codegen.cuda_fetch import fetches
from planish.dtypes import AddrSpace
from planish.errors import LoweringError
from planish.llir import program as ir
from planish.llir.layout import pack
from planish.llir.makers import owners_of
from planish.llir.program import Buffer, Immediate, Program
from planish.target.rounds import BESIDE, FETCHER, fetched_registers

STATIC_SHARED: Final = 48 << 10
"""More shared memory than this has to be asked for at the launch."""
DYNAMIC_ALIGNED: Final = 16
"""Where shared memory that is asked for at the launch starts."""
_SHARED: Final = 227 << 10
"""Bytes of shared memory that the blocks of a multiprocessor have together."""
_OTHERS: Final = 64
"""Registers of a thread for what is no sum: operands, addresses."""
_STRAIGHT: Final = 56
"""The same of a thread that reads operands straight from memory."""
_BLOCKS: Final = 8
"""Blocks that are asked for at most."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The shared memory of a block: its bytes, and how many of them are asked for at the launch."""

    nbytes: int
    alignment: int

    @property
    def dynamic(self) -> int:
        if self.nbytes <= STATIC_SHARED:
            return 0
        return self.nbytes + max(self.alignment - DYNAMIC_ALIGNED, 0)


def shared_memory(program: Program) -> Shared:
    """What the LOCAL buffers of a kernel take."""
    arena = pack([b for b in program.locals if b.space is AddrSpace.LOCAL])
    return Shared(arena.nbytes, arena.alignment)


def block_sizes(program: Program) -> dict[int, int]:
    """How many threads a block has along each axis."""
    sizes: dict[int, int] = {}
    for special in program.specials:
        if special.is_thread:
            if not isinstance(special.bound, Immediate) or not isinstance(special.bound.value, int):
                raise LoweringError(f"{program.name}: a block of varying size", op="SPECIAL")
            sizes[special.index.axis] = special.bound.value
    return sizes


def ranks_of(program: Program) -> int:
    """How many blocks a cluster has."""
    for special in program.specials:
        if special.is_rank and isinstance(special.bound, Immediate) and isinstance(special.bound.value, int):
            return special.bound.value
    return 1


def threads_of(program: Program) -> int:
    """How many threads a block has, without those that fetch."""
    return prod(block_sizes(program).values())


def launched_threads(program: Program) -> int:
    """How many threads a block is launched with."""
    threads = threads_of(program)
    return threads + residency(program, threads).fetching


def _branched(program: Program) -> frozenset[Buffer]:
    """Registers that a branch may change: they hold what was computed right before it, which is counted already."""
    held = owners_of(program, AddrSpace.REG)
    changed: set[Buffer] = set()
    depth = 0
    for i in program.body:
        depth += isinstance(i, ir.If) - isinstance(i, ir.EndIf)
        if depth and isinstance(i, ir.Store) and i.address in held:
            changed.add(held[i.address])
    return frozenset(changed)


class Residency(NamedTuple):
    """What a multiprocessor runs at once: so many blocks, each with threads that fetch beside its own."""

    blocks: int
    fetching: int = 0


def residency(program: Program, threads: int) -> Residency:
    """How many blocks a multiprocessor should run at once: of a pipeline, as many as there are registers for.

    While one waits for its tile, or writes its results, another computes. Asked for more, the compiler would spill. A warp is
    enough to fetch; it is a warpgroup where that can leave its registers to the others.
    """
    branched = _branched(program)
    sums = sum(b.nbytes for b in program.locals if b.space is AddrSpace.REG and b not in branched) // 4
    if not any(isinstance(i, ir.CopyAsync | ir.CopyBox) for i in program.body):
        # warps that share sums of a tensor core and read all else straight from memory: what is under way is what they have registers for
        held = bool(program.tiles) and not any(tile.in_memory("b") for tile in program.tiles)
        shares = held and any(b.space is AddrSpace.LOCAL for b in program.locals)
        return Residency(max(cuda_fetch.REGISTERS // ((sums + _STRAIGHT) * threads), 1) if shares else 1)
    chained = any(tile.in_memory("b") and not tile.in_memory("a") for tile in program.tiles)
    if chained:
        # their left operands are made of the sums of others, each begun from nothing, which no accumulator holds
        products = [i for i in program.body if isinstance(i, ir.Tile) and i.tile.in_memory("a")]
        results = {i.result for i in products}
        sums += sum(i.tile.lanes("c") for i in products if i.c not in results)
    needed = (sums + _OTHERS) * threads
    shared = shared_memory(program)
    fitting = min(max(_SHARED // (shared.nbytes + shared.alignment), 1), _BLOCKS)
    if not fetches(program):
        return Residency(min(max(cuda_fetch.REGISTERS // needed, 1), fitting))
    several = fitting
    while several > 1 and fetched_registers(cuda_fetch.REGISTERS, several, threads) < sums + BESIDE:
        several -= 1
    if several > 1 and not chained:
        return Residency(several, FETCHER)
    most = cuda_fetch.REGISTERS // (needed + cuda_fetch.FETCHER * ir.GROUP)
    return Residency(min(max(most, 1), fitting), ir.GROUP)

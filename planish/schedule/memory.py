"""The memory planner: where in one arena each buffer of a plan lies.

Which buffers are one block, and from when to when a block is in use, is decided before sizes are known (`sharing.py`). Two blocks
that are in use at the same time do not overlap.

Offsets are multiples of 64 bytes, of larger buffers of a page. The largest buffers are placed first, each in the lowest gap that fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from planish.errors import LoweringError
from planish.ptir.dims import DimLike, bounds, substitute
from planish.records import dataclass
from planish.schedule.plan import Plan, PlanBuffer, Role

ALIGNMENT: Final = 64
_PAGE: Final = 4096
_PAGED: Final = 16 << 10
"""Larger buffers start at a page: what is walked together from there on is never taken for each other by the processor, which
looks at the place within a page first. (Pages are the system's, and memory is laid out alike for every machine.)"""
_LARGEST: Final = 2**63 - 1
_NO_SIZES: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True)
class ArenaBlock:
    """Memory of one buffer, or of several of one size that take each other's place."""

    buffers: tuple[int, ...]
    begin: int
    end: int
    """The times between which it is in use, both included."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """What can be said before sizes are known: which buffers are one block, and for how long."""

    blocks: tuple[ArenaBlock, ...]
    """Those of the arena."""
    homes: Mapping[int, int]
    """Buffers that live in the array of a result or of a donated parameter instead."""
    aliased: tuple[frozenset[int], ...]
    """Per kernel, the slots whose memory may be that of another slot."""
    launches: tuple[tuple[int, int], ...]
    """When each kernel is launched."""
    needless: frozenset[int]
    """The steps without blocks, counted from 0, that copy a block over itself."""

    def __repr__(self) -> str:
        return f"<sharing: {len(self.blocks)} blocks, {len(self.homes)} buffers in others' arrays>"


@dataclass(frozen=True, slots=True)
class ArenaPlace:
    """Where a block lies in the arena, and when."""

    buffers: tuple[int, ...]
    offset: int
    nbytes: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one call, in bytes."""

    peak: int
    """The arena: everything between parameters and results, and the scratch of kernels."""
    unshared: int
    """What that would be if every buffer had a place of its own."""
    parameters: int
    constants: int
    results: int
    places: tuple[ArenaPlace, ...]
    """Blocks of the arena. A block of no buffers is the scratch of a kernel."""
    homes: Mapping[int, int]
    """Buffers that live in the array of a result or of a donated parameter instead."""

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {getattr(self, name)}" for name in ("parameters", "constants", "results"))
        return f"<memory: {self.peak} bytes of arena in {len(self.places)} places, {sizes}>"

    @property
    def offsets(self) -> dict[int, int]:
        """The offset of each buffer in the arena."""
        return {buffer: place.offset for place in self.places for buffer in place.buffers}

    @property
    def lower_bound(self) -> int:
        """No arena can be smaller: the most bytes that are in use at one time."""
        events = [(place.begin, place.nbytes) for place in self.places]
        events += [(place.end + 1, -place.nbytes) for place in self.places]
        most = now = 0
        for _, change in sorted(events):
            now += change
            most = max(most, now)
        return most

    def __str__(self) -> str:
        arena = f"arena {self.peak} bytes ({self.unshared} without sharing)"
        others = f"parameters {self.parameters}, constants {self.constants}, results {self.results}"
        lines = [f"{arena}, {others}"]
        if self.places:
            lines.append(f"{'offset':>10} {'bytes':>10} {'from':>6} {'to':>6}  buffers")
        for place in sorted(self.places, key=lambda place: (place.offset, place.begin)):
            names = " ".join(f"b{buffer}" for buffer in place.buffers) or "(kernel scratch)"
            lines.append(f"{place.offset:>10} {place.nbytes:>10} {place.begin:>6} {place.end:>6}  {names}")
        lines += [f"b{buffer} in b{home}" for buffer, home in self.homes.items() if buffer != home]
        return "\n".join(lines)


def elements(size: DimLike, sizes: Mapping[str, int] = _NO_SIZES) -> int:
    """How many elements there are room for: at the given sizes, at most where they are not given."""
    return bounds(substitute(size, sizes))[1]


def nbytes(buffer: PlanBuffer, sizes: Mapping[str, int] = _NO_SIZES) -> int:
    """The bytes of a buffer at given sizes; the most it can take where they are not given."""
    total = elements(buffer.size, sizes) * buffer.dtype.itemsize
    if total > _LARGEST:
        raise LoweringError(
            f"a buffer of {buffer.size} elements of {buffer.dtype} takes {total} bytes, beyond 64 bits",
            remedy="make its dims smaller, or bound them more tightly",
        )
    return total


def layout(
    plan: Plan,
    sharing: Sharing,
    sizes: Mapping[str, int] = _NO_SIZES,
    scratch: Sequence[int] = (),
) -> Memory:
    """Offsets for given sizes. `scratch` is what each kernel needs for itself while it runs."""
    blocks = list(sharing.blocks)
    needs = [max(nbytes(plan.buffers[buffer], sizes) for buffer in block.buffers) for block in blocks]
    for time, kernel in sharing.launches:
        if kernel < len(scratch) and scratch[kernel]:
            blocks.append(ArenaBlock((), time, time))
            needs.append(scratch[kernel])
    offsets = pack([(block.begin, block.end, need) for block, need in zip(blocks, needs, strict=True)])
    places = tuple(
        ArenaPlace(block.buffers, offset, need, block.begin, block.end)
        for block, offset, need in zip(blocks, offsets, needs, strict=True)
    )
    peak = max((place.offset + place.nbytes for place in places), default=0)
    if peak > _LARGEST:
        raise LoweringError(f"an arena of {peak} bytes is beyond 64 bits", remedy="make the tensors smaller")
    totals = dict.fromkeys(Role, 0)
    for buffer in plan.buffers:
        totals[buffer.role] += nbytes(buffer, sizes)
    unshared = sum(need * max(1, len(block.buffers)) for block, need in zip(blocks, needs, strict=True))
    return Memory(
        peak,
        unshared,
        totals[Role.PARAMETER],
        totals[Role.CONSTANT],
        totals[Role.RESULT],
        places,
        sharing.homes,
    )


def pack(blocks: Sequence[tuple[int, int, int]]) -> list[int]:
    """Offsets for blocks (begin, end, bytes), such that none overlap that are in use at the same time."""
    offsets = [0] * len(blocks)
    placed: list[int] = []
    for number in sorted(range(len(blocks)), key=lambda number: (-blocks[number][2], blocks[number][0])):
        begin, end, need = blocks[number]
        if not need:
            continue
        taken = sorted(
            (offsets[other], offsets[other] + blocks[other][2])
            for other in placed
            if blocks[other][0] <= end and begin <= blocks[other][1]
        )
        place, best, smallest = 0, None, None
        step = _PAGE if need > _PAGED else ALIGNMENT
        for low, high in taken:
            gap = low - place
            if gap >= need and (smallest is None or gap < smallest):
                best, smallest = place, gap
            place = max(place, -(-high // step) * step)
        offsets[number] = place if best is None else best
        placed.append(number)
    return offsets

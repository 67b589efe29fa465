"""The memory planner: where in one arena each buffer of a plan lies, from lifetimes over its structured steps.

A buffer lives from its first to its last use, in the order of the steps. A loop keeps what was made outside of it, and what
one iteration leaves for the next, for as long as it runs; what an iteration makes for itself may share its place with
others of the same iteration. Two buffers that live at the same time do not overlap. In one case they may be the same: a
kernel that reads element i of a dying buffer only to write element i of a new one (`in_place`) writes over it. A result
takes over a donated parameter in the same way, or once the parameter is no longer used; otherwise it is a new array.

Offsets are multiples of 64 bytes, of larger buffers of a page. The largest buffers are placed first, each in the lowest gap that fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from planish.errors import LoweringError
from planish.ptir.dims import DimLike, bounds, substitute
from planish.schedule.plan import (
    Bind,
    Branch,
    Buffer,
    Copy,
    For,
    Host,
    Launch,
    Plan,
    Role,
    Step,
    Swap,
    View,
    While,
    blocks,
)

if TYPE_CHECKING:
    from planish.schedule.overwriting import Pairs

Loops = tuple[tuple[int, int], ...]
"""Loops around a step, outermost first, as the times they begin and end."""
ALIGNMENT: Final = 64
_PAGE: Final = 4096
_PAGED: Final = 16 << 10
"""Larger buffers start at a page: what is walked together from there on is never taken for each other by the processor, which
looks at the place within a page first."""
_LARGEST: Final = 2**63 - 1
_NO_SIZES: Final[Mapping[str, int]] = {}


# -- lifetimes -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Access:
    """One use of a buffer."""

    time: int
    loops: Loops
    writes: bool


class _Timeline:
    """All uses of the buffers of a plan, in order. A use of a View is one of what it is part of."""

    def __init__(self, plan: Plan, writes: Sequence[frozenset[int]]) -> None:
        self.writes = writes
        self.accesses: dict[int, list[_Access]] = {}
        self.launches: list[tuple[int, Launch]] = []
        self.swaps: list[tuple[Swap, Loops]] = []
        self.bases: dict[int, int] = {}
        self.end = self._number(plan)

    def base(self, buffer: int) -> int:
        """What a buffer is, in the end, part of."""
        while buffer in self.bases:
            buffer = self.bases[buffer]
        return buffer

    def _number(self, plan: Plan) -> int:
        """Give every step a time; the last one. How far a loop extends is known only when it has ended."""
        time = 0
        extents: list[tuple[int, int]] = []
        uses: list[tuple[int, int, tuple[int, ...], bool]] = []
        swaps: list[tuple[Swap, tuple[int, ...]]] = []
        around: list[int] = []
        stack: list[tuple[Iterator[Step], bool]] = [(iter(plan.steps), False)]
        while stack:
            step = next(stack[-1][0], None)
            time += 1
            if step is None:
                if stack.pop()[1]:
                    extents[around[-1]] = (extents[around[-1]][0], time)
                    around.pop()
                continue
            uses += [(self.base(buffer), time, tuple(around), writes) for buffer, writes in self._uses(step)]
            if isinstance(step, Launch):
                self.launches.append((time, step))
            elif isinstance(step, View):
                self.bases[step.buffer] = step.base
            elif isinstance(step, Swap):
                swaps.append((step, tuple(around)))
            if isinstance(step, While | For):
                around.append(len(extents))
                extents.append((time, time))
                stack.append((_inside(step), True))
            else:
                stack += [(iter(block), False) for block in reversed(blocks(step))]
        for buffer, when, loops, writes in uses:
            access = _Access(when, tuple(extents[loop] for loop in loops), writes)
            self.accesses.setdefault(buffer, []).append(access)
        self.swaps = [(swap, tuple(extents[loop] for loop in loops)) for swap, loops in swaps]
        return time

    def _uses(self, step: Step) -> Iterator[tuple[int, bool]]:
        """The buffers that a step reads, then those it writes."""
        match step:
            case Launch(kernel, buffers):
                slots = self.writes[kernel]
                yield from ((buffer, False) for slot, buffer in enumerate(buffers) if slot not in slots)
                yield from ((buffer, True) for slot, buffer in enumerate(buffers) if slot in slots)
            case Copy(source, target):
                yield source, False
                yield target, True
            case Host():
                yield from ((buffer, False) for buffer in step.inputs)
                yield from ((buffer, True) for buffer in step.outputs)
            case Bind():
                yield step.buffer, False
            case Branch():
                yield step.predicate, False

    def lifetime(self, buffer: int) -> tuple[int, int]:
        """From when to when a buffer needs its memory, both included."""
        accesses = self.accesses[buffer]
        home = accesses[0].loops
        for access in accesses:
            same = 0
            while same < min(len(home), len(access.loops)) and home[same] == access.loops[same]:
                same += 1
            home = home[:same]
        begin, end = accesses[0].time, accesses[-1].time
        for access in accesses:
            if len(access.loops) > len(home):
                loop = access.loops[len(home)]
                begin, end = min(begin, loop[0]), max(end, loop[1])
        if home and not accesses[0].writes:  # an iteration reads what the one before has left
            begin, end = min(begin, home[-1][0]), max(end, home[-1][1])
        return begin, end


def _inside(step: While | For) -> Iterator[Step]:
    """The steps of one iteration; a loop asks its flag between them."""
    if isinstance(step, While):
        yield from step.condition
        yield Bind("", step.flag, 0, 1)
    yield from step.body


# -- sharing ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Block:
    """Memory of one buffer, or of several of one size that take each other's place."""

    buffers: tuple[int, ...]
    begin: int
    end: int
    """The times between which it is in use, both included."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """What can be said before sizes are known: which buffers are one block, and for how long."""

    blocks: tuple[Block, ...]
    """Those of the arena."""
    homes: Mapping[int, int]
    """Buffers that live in the array of a result or of a donated parameter instead."""
    aliased: tuple[frozenset[int], ...]
    """Per kernel, the slots whose memory may be that of another slot."""
    launches: tuple[tuple[int, int], ...]
    """When each kernel is launched."""
    needless: frozenset[int]
    """The launches, counted from 0, that copy a buffer over itself."""

    def __repr__(self) -> str:
        return f"<sharing: {len(self.blocks)} blocks, {len(self.homes)} buffers in others' arrays>"


class _Groups:
    """Buffers merged into blocks."""

    def __init__(self, plan: Plan, timeline: _Timeline) -> None:
        self.plan = plan
        self.timeline = timeline
        self.parent: dict[int, int] = {}
        self.life = {buffer: timeline.lifetime(buffer) for buffer in timeline.accesses}
        self.homes: dict[int, int] = {}
        """Groups with an array of their own: the result or the donated parameter."""
        self.swapped: set[int] = set()
        for buffer, told in enumerate(plan.buffers):
            if told.donated:
                self.life[buffer] = (0, self.life.get(buffer, (0, 0))[1])
            elif told.role is Role.RESULT:
                self.life[buffer] = (self.life.get(buffer, (timeline.end, 0))[0], timeline.end)
            else:
                continue
            self.homes[buffer] = buffer

    def find(self, buffer: int) -> int:
        while buffer in self.parent:
            buffer = self.parent[buffer]
        return buffer

    def merge(self, first: int, second: int) -> None:
        """Two groups become one; a donated parameter houses a result, either houses anything else."""
        first, second = self.find(first), self.find(second)
        (a, b), (c, d) = self.life[first], self.life[second]
        self.parent[second] = first
        self.life[first] = (min(a, c), max(b, d))
        home = self.homes.pop(second, None)
        if home is not None and (first not in self.homes or self.plan.buffers[home].donated):
            self.homes[first] = home

    def is_free(self, buffer: int) -> bool:
        """Whether a buffer may share: it is ours to write, and no loop exchanges it with another."""
        told = self.plan.buffers[buffer]
        return (told.role in (Role.ARENA, Role.RESULT) or told.donated) and buffer not in self.swapped

    def same_size(self, first: int, second: int) -> bool:
        one, two = self.plan.buffers[first], self.plan.buffers[second]
        return one.size == two.size and one.dtype.itemsize == two.dtype.itemsize

    def carry(self, swap: Swap, loops: Loops, pairs: Sequence[Pairs]) -> None:
        """Both buffers of a carry last as long as the loop and whoever sees its result."""
        old, new = swap.first, swap.second
        spans = [loops[-1], *(self.life[buffer] for buffer in (old, new) if buffer in self.life)]
        for buffer in (old, new):
            self.life[buffer] = (min(begin for begin, _ in spans), max(end for _, end in spans))
        if self.same_size(old, new) and self._overwrites(old, new, loops, pairs):
            self.merge(old, new)
        self.swapped |= {old, new}

    def _overwrites(self, old: int, new: int, loops: Loops, pairs: Sequence[Pairs]) -> bool:
        """Whether the next value of a carry can be written over the old one: nobody reads that afterwards."""
        inside = [a for a in self.timeline.accesses.get(new, ()) if a.loops[: len(loops)] == loops]
        if not inside or not inside[0].writes or inside[0].loops != loops:
            return False
        time = inside[0].time
        if any(a.time > time for a in self.timeline.accesses[old] if a.loops[: len(loops)] == loops):
            return False
        launch = next((launch for when, launch in self.timeline.launches if when == time), None)
        return launch is not None and any(
            (launch.buffers[out], launch.buffers[read]) == (new, old) for out, read in pairs[launch.kernel]
        )

    def overwrite(self, time: int, launch: Launch, pairs: Pairs) -> None:
        """Let a kernel write over buffers that die in it, each output over one."""
        for out, read in pairs:
            new, old = launch.buffers[out], launch.buffers[read]
            if self.is_free(new) and self.is_free(old) and self.same_size(new, old):
                dying, born = self.life[self.find(old)], self.life[self.find(new)]
                if dying[1] == time == born[0] and self.find(old) != self.find(new):
                    self.merge(old, new)  # neither dies or is born here any more

    def donate(self) -> None:
        """Results take over the memory of donated parameters that are no longer used when they are made."""
        given = [b for b in self.homes if self.plan.buffers[b].donated and self.is_free(b)]
        for result in self.plan.results:
            group = self.find(result)
            if self.plan.buffers[self.homes[group]].donated or result in self.swapped:
                continue
            for parameter in given:
                house = self.find(parameter)
                unused = self.homes[house] == parameter and self.life[house][1] < self.life[group][0]
                if unused and self.same_size(parameter, result):
                    self.merge(parameter, result)
                    break


def share(plan: Plan, *, reuse: bool = True) -> Sharing:
    """Decide which buffers of a plan are one block. Without `reuse` each is one of its own."""
    from planish.schedule.overwriting import in_place, is_copy, written

    writes = [written(kernel.sink) for kernel in plan.kernels]
    pairs = [in_place(kernel.sink) if reuse else () for kernel in plan.kernels]
    timeline = _Timeline(plan, writes)
    groups = _Groups(plan, timeline)
    for swap, loops in timeline.swaps:
        groups.carry(swap, loops, pairs)
    if reuse:
        for time, launch in timeline.launches:
            groups.overwrite(time, launch, pairs[launch.kernel])
        groups.donate()
    aliased: list[set[int]] = [set() for _ in plan.kernels]
    needless: set[int] = set()
    for number, (_, launch) in enumerate(timeline.launches):
        for slots in pairs[launch.kernel]:
            first, second = (groups.find(launch.buffers[slot]) for slot in slots)
            if first == second:
                aliased[launch.kernel].update(slots)
                if is_copy(plan.kernels[launch.kernel].sink, slots[1]):
                    needless.add(number)
    members: dict[int, list[int]] = {}
    homes: dict[int, int] = {}
    for buffer, told in enumerate(plan.buffers):
        group = groups.find(buffer)
        if group in groups.homes:
            homes[buffer] = groups.homes[group]
        elif told.role is Role.ARENA and buffer in groups.life:
            members.setdefault(group, []).append(buffer)
    found = tuple(Block(tuple(each), *groups.life[group]) for group, each in members.items())
    if not reuse:
        found = tuple(Block(block.buffers, 0, timeline.end) for block in found)
    launches = tuple((time, launch.kernel) for time, launch in timeline.launches)
    return Sharing(found, homes, tuple(map(frozenset, aliased)), launches, frozenset(needless))


# -- placing ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
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
    places: tuple[Place, ...]
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


def nbytes(buffer: Buffer, sizes: Mapping[str, int] = _NO_SIZES) -> int:
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
            blocks.append(Block((), time, time))
            needs.append(scratch[kernel])
    offsets = pack([(block.begin, block.end, need) for block, need in zip(blocks, needs, strict=True)])
    places = tuple(
        Place(block.buffers, offset, need, block.begin, block.end)
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

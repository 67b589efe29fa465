"""Which buffers of a plan are one block of memory.

Two buffers may be one block if their ranges (`liveness.py`) have no point in common: then whoever writes one finds the other dead.
Where one dies in the very step that makes the other, the step has to be one that works on a single memory: a copy, a swap, or a
kernel that reads element i of the one only to write element i of the other (`in_place`). Every reason to make two buffers one is
tried in turn, and the ranges decide:

1. the two buffers of a carry, so that a loop writes the next value over the last one;
2. both sides of a copy, which then need not run: a loop starts in the memory of its first value, a branch gives what it was given;
3. what a kernel writes and what it may write over;
4. a result and a donated parameter of its size.

Buffers that a loop does exchange are two blocks whose names change places: all buffers of such a block go by one name, and either
block is in use whenever one of the two is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from planish.schedule.liveness import Liveness, Range, Timeline, joined
from planish.schedule.memory import ArenaBlock, Sharing
from planish.schedule.overwriting import Pairs, in_place, is_copy, written
from planish.schedule.plan import Copy, Launch, Plan, Role, Step, SwapPointers, mapped, renamed, walk


class _Groups:
    """Buffers merged into blocks."""

    def __init__(self, timeline: Timeline, pairs: Sequence[Pairs]) -> None:
        self.plan = timeline.plan
        self.timeline = timeline
        self.pairs = pairs
        self.parent: dict[int, int] = {}
        self.ranges = dict(Liveness(timeline).ranges)
        self.homes: dict[int, int] = {}
        """Groups with an array of their own: the result or the donated parameter."""
        self.exchanged: set[int] = set()
        for buffer, told in enumerate(self.plan.buffers):
            if told.donated or told.role is Role.RESULT:
                self.ranges.setdefault(buffer, [])
                self.homes[buffer] = buffer

    def find(self, buffer: int) -> int:
        while buffer in self.parent:
            buffer = self.parent[buffer]
        return buffer

    def fits(self, first: int, second: int) -> bool:
        """Whether two buffers are ours to write, and of one size."""
        one, two = self.plan.buffers[first], self.plan.buffers[second]
        mine = all(told.donated or told.role in (Role.ARENA, Role.RESULT) for told in (one, two))
        return mine and one.size == two.size and one.dtype.itemsize == two.dtype.itemsize

    def housed(self, first: int, second: int) -> bool:
        """Whether two groups have room in one home: that of a donated parameter is one for a result, no other is for two."""
        homes = [self.homes[group] for group in (first, second) if group in self.homes]
        if len(homes) == 2 and len({self.plan.buffers[home].donated for home in homes}) == 1:
            return False
        is_result = any(self.plan.buffers[home].role is Role.RESULT for home in homes)
        return not (is_result and self.exchanged & {first, second})

    def merge(self, first: int, second: int) -> bool:
        """Make two buffers one block, if they fit and none is written while the other is needed."""
        if not self.fits(first, second):
            return False
        first, second = self.find(first), self.find(second)
        if first == second or not self.housed(first, second):
            return False
        for point in _meetings(self.ranges[first], self.ranges[second]):
            if point is None or not self.in_one_memory(point, first, second):
                return False
        self.parent[second] = first
        self.ranges[first] = joined((*self.ranges[first], *self.ranges.pop(second)))
        home = self.homes.pop(second, None)
        if home is not None and (first not in self.homes or self.plan.buffers[home].donated):
            self.homes[first] = home
        self.exchanged = {self.find(buffer) for buffer in self.exchanged}
        return True

    def in_one_memory(self, time: int, first: int, second: int) -> bool:
        """Whether a step in which one group dies and the other is born may work on one memory."""
        step = self.timeline.at[time].step
        groups = {first, second}
        match step:
            case Copy(source, target):
                return {self.find(source), self.find(target)} == groups
            case SwapPointers(old, new):
                return {self.find(old), self.find(new)} == groups
            case Launch(kernel, buffers):
                slots = [n for n, b in enumerate(buffers) if self.find(self.timeline.base(b)) in groups]
                outs = [slot for slot in slots if slot in self.timeline.written[kernel]]
                is_whole = all(buffers[slot] not in self.timeline.bases for slot in slots)
                return is_whole and all(
                    (out, read) in self.pairs[kernel] for out in outs for read in slots if read not in outs
                )
        return False

    def exchange(self, swaps: Sequence[SwapPointers]) -> None:
        """Blocks that loops exchange are in use whenever one of them is."""
        components: dict[int, set[int]] = {}
        for swap in swaps:
            first, second = self.find(swap.first), self.find(swap.second)
            if first != second:
                both = components.get(first, {first}) | components.get(second, {second})
                components.update(dict.fromkeys(both, both))
        for component in components.values():
            union = joined(piece for group in component for piece in self.ranges.get(group, ()))
            self.ranges.update((group, list(union)) for group in component)


def _meetings(one: Range, two: Range) -> Iterator[int | None]:
    """The times of the steps in which one range ends and the other begins; None where they overlap."""
    a = b = 0
    while a < len(one) and b < len(two):
        (begin, end), (start, stop) = one[a], two[b]
        if begin <= stop and start <= end:
            yield None
            return
        last, first = (end, start) if end < start else (stop, begin)
        if last + 1 == first and last % 2 == 0:
            yield last // 2
        if end < start:
            a += 1
        else:
            b += 1


def share(plan: Plan, *, reuse: bool = True) -> Sharing:
    """Decide which buffers of a plan are one block. Without `reuse` each is one of its own."""
    pairs = [in_place(kernel.sink) if reuse else () for kernel in plan.kernels]
    timeline = Timeline(plan, [written(kernel.sink) for kernel in plan.kernels])
    groups = _Groups(timeline, pairs)
    steps = [leaf.step for leaf in timeline.leaves]
    swaps = [step for step in steps if isinstance(step, SwapPointers)]
    if reuse:
        for swap in swaps:
            groups.merge(swap.first, swap.second)
        groups.exchanged = {
            group
            for swap in swaps
            for group in (groups.find(swap.first), groups.find(swap.second))
            if groups.find(swap.first) != groups.find(swap.second)
        }
        for step in steps:
            if isinstance(step, Copy):
                groups.merge(step.source, step.target)
        for _, launch in timeline.launches:
            for out, read in pairs[launch.kernel]:
                groups.merge(launch.buffers[read], launch.buffers[out])
        given = [buffer for buffer, told in enumerate(plan.buffers) if told.donated]
        for result in plan.results:
            any(groups.merge(parameter, result) for parameter in given)
    groups.exchange(swaps)
    return _told(groups, timeline, reuse=reuse)


def _told(groups: _Groups, timeline: Timeline, *, reuse: bool) -> Sharing:
    """What was decided, for whoever places the blocks and writes the code."""
    plan = timeline.plan
    aliased: list[set[int]] = [set() for _ in plan.kernels]
    needless = {
        number
        for number, leaf in enumerate(timeline.leaves)
        if isinstance(leaf.step, Copy) and groups.find(leaf.step.source) == groups.find(leaf.step.target)
    }
    for number, leaf in enumerate(timeline.leaves):
        if not isinstance(leaf.step, Launch):
            continue
        kernel, buffers = leaf.step.kernel, leaf.step.buffers
        for slots in groups.pairs[kernel]:
            if groups.find(buffers[slots[0]]) == groups.find(buffers[slots[1]]):
                aliased[kernel].update(slots)
                if is_copy(plan.kernels[kernel].sink, slots[1]):
                    needless.add(number)
    members: dict[int, list[int]] = {}
    homes: dict[int, int] = {}
    for buffer, told in enumerate(plan.buffers):
        group = groups.find(buffer)
        if group in groups.homes:
            homes[buffer] = groups.homes[group]
        elif told.role is Role.ARENA and group in groups.ranges:
            members.setdefault(group, []).append(buffer)
    arena = []
    for group, inside in members.items():
        hull = groups.ranges[group]
        times = (hull[0][0] // 2, hull[-1][1] // 2) if reuse else (0, timeline.end)
        arena.append(ArenaBlock(tuple(inside), *times))
    launches = tuple((time, launch.kernel) for time, launch in timeline.launches)
    return Sharing(tuple(arena), homes, tuple(map(frozenset, aliased)), launches, frozenset(needless))


def blocks_of(sharing: Sharing) -> dict[int, int]:
    """For each buffer that shares, the one that stands for its block."""
    inside = {buffer: block.buffers[0] for block in sharing.blocks for buffer in block.buffers}
    return inside | dict(sharing.homes)


def settled(plan: Plan, sharing: Sharing) -> Plan:
    """The plan without the steps that its memory makes needless; blocks that loops exchange go by one name."""
    block = blocks_of(sharing)
    swaps = [step for step in walk(plan.steps) if isinstance(step, SwapPointers)]
    exchanged = _exchanged(swaps, block)
    number = count()

    def of(step: Step) -> Step | None:
        is_needless = next(number) in sharing.needless
        if isinstance(step, SwapPointers):
            is_needless = block.get(step.first, step.first) == block.get(step.second, step.second)
        return None if is_needless else step

    def name(buffer: int) -> int:
        return block[buffer] if block.get(buffer, buffer) in exchanged else buffer

    return replace(plan, steps=renamed(mapped(plan.steps, of), name))


def _exchanged(swaps: Sequence[SwapPointers], block: Mapping[int, int]) -> set[int]:
    """The blocks that change places."""
    pairs = [(block.get(swap.first, swap.first), block.get(swap.second, swap.second)) for swap in swaps]
    return {each for first, second in pairs if first != second for each in (first, second)}

"""When each buffer of a plan holds a value that somebody still reads: liveness over structured steps.

Every step has a time; it reads at point 2·time and writes at 2·time + 1, so that what dies in a step and what is born in it do not
meet. A range is a list of closed intervals of points. Ranges are found backwards, the usual way: a read makes a buffer live before
it, the write that makes a value ends that.

* A View stands for what it is part of: whoever uses it uses that.
* The first write on a path makes the value; later ones change a part of it (a scatter stores into a copy). A Copy makes all of it.
* `SwapPointers old, new` moves the value of each buffer to the other.
* A branch is live with both blocks. A loop may run not at all, or again: what lives behind it or at the head of its next
  iteration lives at the end of each.
* A For that writes a slice of a buffer in every step makes the whole of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from planish.records import dataclass
from planish.schedule.plan import (
    Bind,
    Branch,
    Copy,
    For,
    Host,
    Launch,
    Plan,
    Role,
    Step,
    Steps,
    SwapPointers,
    View,
    Wait,
    While,
    blocks,
    walk,
)

Range = list[tuple[int, int]]
"""Closed intervals of points, in order, with room between them."""
Live = dict[int, int]
"""What is live at a point, and up to which point it was followed so far."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A step, when it runs, and the bases of the buffers that it reads, writes and makes."""

    step: Step
    time: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    makes: frozenset[int]
    blocks: tuple[tuple[Timed, ...], ...] = ()
    ends: tuple[int, ...] = ()
    """The last time of each block."""
    fills: frozenset[int] = frozenset()
    """What a For writes slice by slice."""


def bases(plan: Plan) -> dict[int, int]:
    """For each View, the buffer that it is, in the end, part of."""
    base_of: dict[int, int] = {}
    for step in walk(plan.steps):
        if isinstance(step, View):
            base_of[step.buffer] = base_of.get(step.base, step.base)
    return base_of


def uses(step: Step, written: Sequence[frozenset[int]]) -> Iterator[tuple[int, bool]]:
    """The buffers that a step itself reads, then those it writes (True)."""
    match step:
        case Launch(kernel, buffers):
            slots = written[kernel]
            yield from ((buffer, False) for slot, buffer in enumerate(buffers) if slot not in slots)
            yield from ((buffer, True) for slot, buffer in enumerate(buffers) if slot in slots)
        case Copy(source, target):
            yield source, False
            yield target, True
        case Host():
            yield from ((buffer, False) for buffer in (*step.inputs, *step.constants))
            yield from ((buffer, True) for buffer in (*step.outputs, *step.scratch))
        case Wait():
            yield from ((buffer, False) for buffer in step.buffers)
        case Bind():
            yield step.buffer, False
        case Branch():
            yield step.predicate, False


class Timeline:
    """The steps of a plan in the order of their times. `written` are the slots that each kernel writes."""

    def __init__(self, plan: Plan, written: Sequence[frozenset[int]]) -> None:
        self.plan = plan
        self.written = written
        self.bases = bases(plan)
        self.wholes = {
            step.buffer: step.base
            for step in walk(plan.steps)
            if isinstance(step, View) and step.counter is None
        }
        """Views of all of another buffer: who writes one writes that."""
        self.leaves: list[Timed] = []
        """Steps without blocks, in the order of `walk`."""
        self.at: dict[int, Timed] = {}
        self.first: dict[int, int] = {}
        """The point from which a buffer may hold something: its first write, or the outermost loop around that."""
        self._time = 0
        self._outermost: int | None = None
        self.steps = self._block(plan.steps, set())
        self.end = self._time + 1

    def base(self, buffer: int) -> int:
        """What a buffer is part of; itself unless it is a View."""
        return self.bases.get(buffer, buffer)

    @property
    def launches(self) -> tuple[tuple[int, Launch], ...]:
        return tuple((leaf.time, leaf.step) for leaf in self.leaves if isinstance(leaf.step, Launch))

    def _block(self, steps: Steps, defined: set[int]) -> tuple[Timed, ...]:
        """Time a block. `defined` are the buffers that were written on the way here, and grows."""
        return tuple(self._timed(step, defined) for step in steps)

    def _timed(self, step: Step, defined: set[int]) -> Timed:
        self._time += 1
        time = self._time
        accesses = [(self.base(buffer), writes) for buffer, writes in uses(step, self.written)]
        reads = tuple(buffer for buffer, writes in accesses if not writes)
        writes = tuple(buffer for buffer, writes in accesses if writes)
        stored = {buffer for buffer, writes in uses(step, self.written) if writes}
        whole = {self.wholes.get(buffer, buffer) for buffer in stored} - self.bases.keys()
        makes = frozenset(whole if isinstance(step, Copy) else whole - defined)
        defined.update(writes)
        for buffer in writes:
            self.first.setdefault(buffer, 2 * (self._outermost or time))
        inner, ends = [], []
        outermost = self._outermost
        if isinstance(step, While | For) and outermost is None:
            self._outermost = time
        before = set(defined)
        for block in blocks(step):
            on_the_way = set(before) if isinstance(step, Branch) else defined
            inner.append(self._block(block, on_the_way))
            defined |= on_the_way
            self._time += 1
            ends.append(self._time)
        self._outermost = outermost
        fills = self._fills(step) if isinstance(step, For) else frozenset()
        timed = Timed(step, time, reads, writes, makes, tuple(inner), tuple(ends), fills)
        self.at[time] = timed
        if not blocks(step):
            self.leaves.append(timed)
        return timed

    def _fills(self, loop: For) -> frozenset[int]:
        """What a loop writes a slice of in every step, and sees nothing else of."""
        views = {
            step.buffer: step.base
            for step in loop.body
            if isinstance(step, View) and step.counter == loop.counter
        }
        stored = {
            buffer for step in loop.body for buffer, writes in uses(step, self.written) if writes
        } & views.keys()
        others = {
            self.base(buffer)
            for step in walk(loop.body)
            for buffer, _ in (*uses(step, self.written), *_seen(step))
            if buffer not in stored
        }
        return frozenset(views[buffer] for buffer in stored) - others - self.bases.keys()


def _seen(step: Step) -> Iterator[tuple[int, bool]]:
    """Buffers that a step names without using them there."""
    if isinstance(step, SwapPointers):
        yield from ((step.first, True), (step.second, True))
    elif isinstance(step, While):
        yield step.flag, False


class Liveness:
    """The range of every buffer of a plan."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.pieces: dict[int, Range] = {}
        self.recording = True
        plan, last = timeline.plan, 2 * timeline.end
        live = self.block(timeline.steps, dict.fromkeys(plan.results, last))
        for buffer, end in live.items():
            self.add(buffer, 0, end)
        self.ranges = {buffer: self._clipped(buffer, pieces) for buffer, pieces in self.pieces.items()}

    def _clipped(self, buffer: int, pieces: Range) -> Range:
        """Without the points at which nothing was ever written to it."""
        brought = self.timeline.plan.buffers[buffer].role in (Role.PARAMETER, Role.CONSTANT)
        first = 0 if brought else self.timeline.first.get(buffer, 0)
        return joined([(max(begin, first), end) for begin, end in pieces if end >= first])

    def add(self, buffer: int, begin: int, end: int) -> None:
        if self.recording:
            self.pieces.setdefault(buffer, []).append((begin, end))

    def block(self, steps: Sequence[Timed], live: Live) -> Live:
        """What is live before some steps, from what is live behind them."""
        for timed in reversed(steps):
            match timed.step:
                case SwapPointers(first, second):
                    self.swap(timed.time, (first, second), live)
                case Branch():
                    live = self.branch(timed, live)
                case For():
                    live = self.for_(timed, live)
                case While(_, flag):
                    live = self.while_(timed, self.timeline.base(flag), live)
                case _:
                    self.plain(timed, live)
        return live

    def plain(self, timed: Timed, live: Live) -> None:
        point = 2 * timed.time + 1
        for buffer in timed.writes:
            end = live.setdefault(buffer, point)
            if buffer in timed.makes:
                del live[buffer]
                self.add(buffer, point, end)
        for buffer in timed.reads:
            live.setdefault(buffer, 2 * timed.time)

    def swap(self, time: int, pair: tuple[int, int], live: Live) -> None:
        behind = [live.pop(buffer, None) for buffer in pair]
        for buffer, other, end in zip(pair, reversed(pair), behind, strict=True):
            if end is not None:
                self.add(buffer, 2 * time + 1, end)
                live[other] = 2 * time

    def leave(self, live: Live, begin: int) -> None:
        """The parts of ranges from a time on, which ends a block or follows one."""
        for buffer, end in live.items():
            self.add(buffer, 2 * begin, end)

    def live_before(self, steps: Sequence[Timed], begin: int, last: int, live: Iterable[int]) -> set[int]:
        """A block from its first to its last time: what is live at its beginning, from what is at its end."""
        before = self.block(steps, dict.fromkeys(live, 2 * last + 1))
        self.leave(before, begin)
        return set(before)

    def branch(self, timed: Timed, live: Live) -> Live:
        self.leave(live, timed.ends[-1] + 1)
        begin, before = timed.time + 1, set(timed.reads)
        for steps, end in zip(timed.blocks, timed.ends, strict=True):
            before |= self.live_before(steps, begin, end, live)
            begin = end + 1
        return dict.fromkeys(before, 2 * timed.time + 1)

    def for_(self, timed: Timed, live: Live) -> Live:
        ((body,), (end,)) = timed.blocks, timed.ends
        self.leave(live, end + 1)
        head = self._fixpoint(lambda h: self.live_before(body, timed.time + 1, end, h), set(live))
        return dict.fromkeys(head - timed.fills, 2 * timed.time + 1)

    def while_(self, timed: Timed, flag: int, live: Live) -> Live:
        (condition, body), (asked, end) = timed.blocks, timed.ends
        self.leave(live, end + 1)

        def once(head: set[int]) -> set[int]:
            before = self.live_before(body, asked + 1, end, head)
            return self.live_before(condition, timed.time + 1, asked, before | live.keys() | {flag})

        return dict.fromkeys(self._fixpoint(once, set()), 2 * timed.time + 1)

    def _fixpoint(self, once: Callable[[set[int]], set[int]], head: set[int]) -> set[int]:
        """What is live at the head of a loop; ranges are noted once that is known."""
        recording, self.recording = self.recording, False
        while not (more := once(head)) <= head:
            head |= more
        self.recording = recording
        if recording:
            once(head)
        return head


def joined(pieces: Iterable[tuple[int, int]]) -> Range:
    """Intervals in order, those that overlap or follow each other made one."""
    intervals: Range = []
    for begin, end in sorted(pieces):
        if intervals and begin <= intervals[-1][1] + 1:
            intervals[-1] = intervals[-1][0], max(intervals[-1][1], end)
        else:
            intervals.append((begin, end))
    return intervals

"""What a stretch of flat code launches, known before it runs: counted loops run out, slices are offsets, exchanges are renamings.

The code is walked once with what its integers are now, on memory that is only named: a word of a launch is that of a buffer, moved by
an offset, or a number. So the launches of a function are a list, made once and used for whatever addresses a call brings. Where a
flag in memory decides, both ways become parts of the list (`Choice`, `LaunchLoop`) if the driver can decide it on the device; where the host
has to look at something, the stretch ends.

A loop whose turns exchange buffers has two kinds of turns, that undo each other's exchange. When it ends after the first kind, what
is carried is brought to where the second kind would have left it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from planish.runtime import plan

LONGEST: Final = 4096
"""Launches of one stretch."""
COPY: Final = -1
"""The kernel that copies bytes: its words are target, source and how many."""
COLLECTIVES: Final = ("collective", "collective.half", "collective.index", "collective.wait", plan.POLL)
"""The routines of collectives."""


class Word(NamedTuple):
    """A word of a launch: the address of a buffer, moved; or a number, where there is no buffer."""

    root: int
    offset: int


class KernelLaunch(NamedTuple):
    """A kernel, the variables that its grid follows from, and its words."""

    kernel: int
    variables: tuple[int, ...]
    words: tuple[Word, ...]
    site: int = -1
    """Which of all calls in the code it is."""


class Choice(NamedTuple):
    """One of two lists, by a flag."""

    flag: Word
    then: tuple[Item, ...]
    otherwise: tuple[Item, ...]


class LaunchLoop(NamedTuple):
    """Turns for as long as a flag is set: it is looked at before the first, and after each.

    Where there are two kinds, they take turns, and `back` follows the first kind if it was the last.
    """

    flag: Word
    turns: tuple[tuple[Item, ...], ...]
    flags: tuple[Word, ...]
    """Where the flag is after a turn of each kind."""
    back: tuple[Item, ...]


class Exchanged(NamedTuple):
    """A collective by its key: what is given, what is made, how many elements, and the ticket by which it is waited for, or 0."""

    key: int
    given: Word
    made: Word
    elements: int
    ticket: int


class Joined(NamedTuple):
    """What follows waits for the collective of a ticket."""

    ticket: int


Item: TypeAlias = KernelLaunch | Choice | LaunchLoop | Exchanged | Joined


class Stretch(NamedTuple):
    """What is launched from some position on, and what is the case afterwards."""

    items: tuple[Item, ...]
    end: int
    memory: tuple[Word, ...]
    """Where each buffer is then."""
    slots: tuple[int | None, ...]
    """None: nobody needs it before it is set."""

    @property
    def is_straight(self) -> bool:
        """Whether nothing in it depends on flags."""
        return all(isinstance(item, KernelLaunch) for item in self.items)


class _Opaque(Exception):
    """Only the host can go on here."""


def follow(
    code: plan.Code,
    begin: int,
    slots: Sequence[int | None],
    nbytes: Sequence[int],
    itemsizes: Sequence[int],
    *,
    decides: bool,
    longest: int = LONGEST,
    places: Mapping[int, int] | None = None,
) -> Stretch:
    """The stretch from a position on, of so many launches at most. `decides`: the device can look at flags itself.

    `places`: where collectives are carried by the device, by key where this rank's place is in memory, or 0.
    """
    walker = _Walker(code.instructions, slots, nbytes, itemsizes, decides=decides, longest=longest)
    walker.places = places or {}
    items: list[Item] = []
    end = walker.walk(begin, len(code.instructions), items, top=True)
    memory = tuple(
        Word(number, 0) if word is None else word for number, word in enumerate(walker.memory)
    )  # of a slice that is made again before it is used, anything
    return Stretch(tuple(items), end, memory, tuple(walker.slots))


class _Walker:
    def __init__(
        self,
        instructions: Sequence[plan.Instruction],
        slots: Sequence[int | None],
        nbytes: Sequence[int],
        itemsizes: Sequence[int],
        *,
        decides: bool,
        longest: int,
    ) -> None:
        self.longest = longest
        self.instructions, self.itemsizes, self.nbytes, self.decides = (
            instructions,
            itemsizes,
            nbytes,
            decides,
        )
        self.slots = list(slots)
        self.memory: list[Word | None] = [Word(number, 0) for number in range(len(itemsizes))]
        self.launches = 0
        self.places: Mapping[int, int] = {}

    def walk(self, begin: int, end: int, items: list[Item], *, top: bool = False) -> int:
        """Add what is launched between two positions; where that ends. Only at the top may that be before the end."""
        position = begin
        while position < end:
            i = self.instructions[position]
            if self.launches >= self.longest:
                if top:
                    return position
                raise _Opaque
            if isinstance(i, plan.Unless):
                before = list(self.memory), list(self.slots), self.launches
                try:
                    position = self.decided(i, position, items)
                except _Opaque:
                    if not top:
                        raise
                    self.memory, self.slots, self.launches = before
                    return position
                continue
            try:
                if isinstance(i, plan.CallHost) and i.native is not None and i.native.routine in COLLECTIVES:
                    self.collective(i.native, items, top)
                    position += 1
                    continue
                position = self.step(i, position, items)
            except _Opaque:
                if not top:
                    raise
                return position
        return position

    def step(self, i: plan.Instruction, position: int, items: list[Item]) -> int:
        match i:
            case plan.Call():
                variables = tuple(self.number(slot) for slot in i.variables)
                words = (*map(self.place, i.buffers), *(Word(-1, value) for value in variables))
                self.add(items, KernelLaunch(i.kernel, variables, words, i.site))
            case plan.CopyBuffer(source, target, size):
                self.copy(
                    items, self.place(source), self.place(target), self.number(size) * self.itemsizes[target]
                )
            case plan.SwapBuffers(first, second):
                self.memory[first], self.memory[second] = self.memory[second], self.memory[first]
            case plan.Slice(buffer, base, index, size):
                root, offset = self.place(base)
                moved = self.number(index) * self.number(size) * self.itemsizes[buffer]
                self.memory[buffer] = Word(root, offset + moved)
            case plan.Calculate(target, op, left, right):
                x, y = self.slots[left], self.slots[right]
                self.slots[target] = None if x is None or y is None else plan.OPERATIONS[op](x, y)
            case plan.Jump(to):
                return to
            case plan.Below(left, right, to):
                return position + 1 if self.number(left) < self.number(right) else to
            case plan.Unless() | plan.Read() | plan.CallHost():
                raise _Opaque
        return position + 1

    def collective(self, native: plan.Native, items: list[Item], top: bool) -> None:
        """Not among what a flag decides: whether ranks meet must not depend on one that the host has not seen."""
        if native.routine == plan.POLL:
            return
        first, *numbers = map(self.number, native.integers)
        if native.routine == "collective.wait":
            if self.places:
                items.append(Joined(first))
            return
        if first not in self.places or not top:
            raise _Opaque
        where = [self.place(buffer) for buffer in native.buffers[:2]]
        if native.routine == "collective.index":
            self.add(items, KernelLaunch(COPY, (8,), (where[0], Word(-1, self.places[first]), Word(-1, 8))))
            return
        self.launches += 1
        items.append(Exchanged(first, where[0], where[1], *numbers))

    def add(self, items: list[Item], launch: KernelLaunch) -> None:
        self.launches += 1
        items.append(launch)

    def copy(self, items: list[Item], source: Word, target: Word, nbytes: int) -> None:
        if nbytes and source != target:
            self.add(items, KernelLaunch(COPY, (nbytes,), (target, source, Word(-1, nbytes))))

    def place(self, buffer: int) -> Word:
        word = self.memory[buffer]
        if word is None:
            raise _Opaque
        return word

    def number(self, slot: int) -> int:
        value = self.slots[slot]
        if value is None:
            raise _Opaque
        return value

    # -- what a flag decides -------------------------------------------------------------------------------------------

    def decided(self, i: plan.Unless, position: int, items: list[Item]) -> int:
        if not self.decides:
            raise _Opaque
        last = self.instructions[i.to - 1]
        flag = self.place(i.flag)
        if isinstance(last, plan.Jump) and last.to <= position:
            items.append(self.loop(i, position, last.to, flag))
            return i.to
        if isinstance(last, plan.Jump) and last.to >= i.to:
            items.append(self.choice(flag, (position + 1, i.to - 1), (i.to, last.to)))
            return last.to
        items.append(self.choice(flag, (position + 1, i.to), (i.to, i.to)))
        return i.to

    def block(self, begin: int, end: int) -> tuple[Item, ...]:
        items: list[Item] = []
        self.walk(begin, end, items)
        return tuple(items)

    def choice(self, flag: Word, then: tuple[int, int], otherwise: tuple[int, int]) -> Choice:
        memory, slots = list(self.memory), list(self.slots)
        first = self.block(*then)
        after, numbers = self.memory, self.slots
        self.memory, self.slots = memory, slots
        second = self.block(*otherwise)
        slices = self._sliced(then[0], otherwise[1])
        for buffer, (x, y) in enumerate(zip(after, self.memory, strict=True)):
            if x != y:
                if buffer not in slices:
                    raise _Opaque
                self.memory[buffer] = None
        self.slots = [x if x == y else None for x, y in zip(numbers, self.slots, strict=True)]
        return Choice(flag, first, second)

    def loop(self, i: plan.Unless, position: int, start: int, flag: Word) -> LaunchLoop:
        """The condition before the first turn is there already; a turn is the body, and the condition again."""
        slices = self._sliced(start, i.to)
        for j in self.instructions[start : i.to]:
            if isinstance(j, plan.Calculate):
                self.slots[j.target] = None  # another in each turn
        for buffer in slices:
            self.memory[buffer] = None
        before = list(self.memory)

        def turn() -> tuple[tuple[Item, ...], Word]:
            items = (*self.block(position + 1, i.to - 1), *self.block(start, position))
            condition = self.place(i.flag)
            for buffer in slices:
                self.memory[buffer] = None
            return items, condition

        first, after = turn()
        if self.memory == before:
            return LaunchLoop(flag, (first,), (after,), ())
        exchanged = list(self.memory)
        second, last = turn()
        if self.memory != before or last != flag:
            raise _Opaque
        return LaunchLoop(
            flag, (first, second), (after, last), self.brought_back(start, i.to, exchanged, before)
        )

    def brought_back(
        self, start: int, end: int, now: Sequence[Word | None], wanted: Sequence[Word | None]
    ) -> tuple[Item, ...]:
        """What is carried, copied: of two buffers that are exchanged the first is, the second is what the next turn writes."""
        carried = dict.fromkeys(
            i.first for i in self.instructions[start:end] if isinstance(i, plan.SwapBuffers)
        )
        pairs = [(now[b], wanted[b], self.nbytes[b]) for b in carried if now[b] != wanted[b]]
        if {source for source, _, _ in pairs} & {target for _, target, _ in pairs}:
            raise _Opaque
        items: list[Item] = []
        for source, target, nbytes in pairs:
            if source is None or target is None:
                raise _Opaque
            self.copy(items, source, target, nbytes)
        return tuple(items)

    def _sliced(self, begin: int, end: int) -> set[int]:
        return {i.buffer for i in self.instructions[begin:end] if isinstance(i, plan.Slice)}

"""Sorting rows of few elements: a bitonic network whose lanes are neighbours in the row.

Numbers are sorted as signed keys of their width; those that are equal and not the same, zeros and NaNs, are put in their order afterwards. Positions
are sorted behind their keys, both one integer of twice a key's width, so that no two are equal; beside keys of 64 bits they have vectors of their own.

Each vector is sorted for itself; then runs of one, two, four … vectors are merged: each is exchanged with the mirrored one of the run behind it,
then with the one half a run away, and so on, down to the lanes. Places behind the last element hold what comes after everything; since the smaller of
two always goes to the front, vectors of nothing but those need not be there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

from planish.runtime.routines.keys import KEYS, SortKey
from planish.runtime.routines.sorting import address, rows_of, word
from planish.runtime.routines.writer import Emitter, RoutineModule, Term, lanes, vector

MOST: Final = 1024
"""Elements of a row; 256 where their positions stand behind keys of 8 bits."""
_BYTES: Final = 64
"""Of a vector."""
Words: TypeAlias = list[Term]
"""What is compared, the first first; or lanes of it."""


class _Network:
    """Words of a row on the stack, and their order."""

    def __init__(self, f: Emitter, key: SortKey, count: Term, *, descending: bool) -> None:
        self.f, self.key, self.count, self.descending = f, key, count, descending
        widths = self.widths()
        self.kind, self.lanes = f"i{widths[0]}", 8 * _BYTES // widths[0]
        self.greatest = (1 << (widths[0] - 1)) - 1
        self.parts = [f.stack(self.kind, MOST) for _ in widths]
        self.vectors = (count + (self.lanes - 1)) // self.lanes

    def widths(self) -> list[int]:
        """Bits of the words."""
        return [self.key.bits]

    def words(self, raw: Term, position: Term) -> Words:
        """Of the bits of elements, and where they are."""
        return [self.signed(raw)]

    def signed(self, raw: Term) -> Term:
        """The key, as a number with a sign."""
        return self.key.encode(self.f, raw, descending=self.descending) ^ -(1 << (self.key.bits - 1))

    @contextmanager
    def each_vector(self) -> Iterator[tuple[Term, Term]]:
        """A loop over the row in vectors, of which it has one at least: where one begins, and where so many elements begin, for the last earlier."""
        with self.f.range(0, self.count, self.lanes) as i:
            yield i, self.f.least(i, self.count - self.lanes)

    def fill(self, source: Term) -> None:
        """With the elements of a row, and what comes after everything."""
        f, wide = self.f, vector(self.kind, self.lanes)
        numbers = Term(f, wide, f"<{', '.join(f'{self.kind} {n}' for n in range(self.lanes))}>")
        with f.choice(self.count >= self.lanes) as long:
            with self.each_vector() as (i, begin):
                raw = f.load(vector(self.key.kind, self.lanes), source, begin)
                words = self.words(raw, numbers + f.splat(f.convert(begin, self.kind), self.lanes))
                known = numbers < f.splat(f.convert(i - begin, self.kind), self.lanes)
                self._store([f.select(known, f.value(self.greatest, wide), each) for each in words], i)
            long.otherwise()
            with f.range(0, self.lanes) as i:
                self._store([f.value(self.greatest, self.kind)] * len(self.parts), i)
            with f.range(0, self.count) as i:
                self._store(self.words(f.load(self.key.kind, source, i), f.convert(i, self.kind)), i)

    def order(self) -> None:
        """Put them in order."""
        f = self.f
        with f.range(0, self.vectors) as at:
            words, run = self._load(at), 1
            while run < self.lanes:
                words, run = self._merged(self._within(words, 2 * run - 1), run), 2 * run
            self._store(words, at * self.lanes)
        runs, half = f.variable("i64", 0), f.variable("i64", 0)
        with f.loop() as levels:
            levels.leave((f.value(1, "i64") << runs.now) >= self.vectors)
            self._exchange(runs.now, mirrored=True)
            half.set(runs.now)
            with f.loop() as halves:
                halves.leave(half.now.eq(0))
                half.add(-1)
                self._exchange(half.now, mirrored=False)
            with f.range(0, self.vectors) as at:
                self._store(self._merged(self._load(at), self.lanes), at * self.lanes)
            runs.add(1)

    def _exchange(self, power: Term, *, mirrored: bool) -> None:
        """Of every two runs of vectors, so many as this power of two, each with one of the other: outwards from their border, or one by one."""
        f, run = self.f, self.f.value(1, "i64") << power
        number, turned = f.variable("i64", 0), list(reversed(range(self.lanes)))
        with f.loop() as pairs:
            place, begin = number.now & (run - 1), (number.now >> power) << (power + 1)
            front, back = begin + (run - 1 - place if mirrored else place), begin + run + place
            pairs.leave(back >= self.vectors)
            a, b = self._load(front), self._load(back)
            low, high = self._ordered(a, self._shuffled(b, turned) if mirrored else b)
            self._store(low, front * self.lanes)
            self._store(self._shuffled(high, turned) if mirrored else high, back * self.lanes)
            number.add(1)

    def _within(self, words: Words, apart: int) -> Words:
        """Every lane is exchanged with the one whose number differs in these bits."""
        places = [n ^ apart for n in range(self.lanes)]
        low, high = self._ordered(words, self._shuffled(words, places))
        front = [n if n < other else n + self.lanes for n, other in enumerate(places)]
        return [self.f.shuffle(a, b, front) for a, b in zip(low, high, strict=True)]

    def _merged(self, words: Words, run: int) -> Words:
        """Runs of so many lanes, of which each half is in order and the second in falling order, or what an exchange makes of such."""
        while run > 1:
            run //= 2
            words = self._within(words, run)
        return words

    def _ordered(self, a: Words, b: Words) -> tuple[Words, Words]:
        """Lane by lane what comes first, and the other."""
        f = self.f
        first = a[0] < b[0]
        if len(a) > 1:
            first = first | (a[0].eq(b[0]) & (a[1] < b[1]))
        pairs = list(zip(a, b, strict=True))
        return [f.select(first, x, y) for x, y in pairs], [f.select(first, y, x) for x, y in pairs]

    def _shuffled(self, words: Words, places: Sequence[int]) -> Words:
        return [self.f.shuffle(each, each, places) for each in words]

    def _load(self, at: Term) -> Words:
        """A vector by its number."""
        return [self.f.load(vector(self.kind, self.lanes), part, at * self.lanes) for part in self.parts]

    def _store(self, words: Words, at: Term) -> None:
        for each, part in zip(words, self.parts, strict=True):
            self.f.store(each, part, at)


class _Numbers(_Network):
    """Numbers alone."""

    def give(self, source: Term, target: Term) -> None:
        """The elements in their order."""
        f, key = self.f, self.key
        with f.choice(self.count >= self.lanes) as long:
            with self.each_vector() as (_, begin):
                encoded = f.load(vector(key.kind, self.lanes), self.parts[0], begin)
                f.store(self._decoded(encoded), target, begin)
            long.otherwise()
            with f.range(0, self.count) as i:
                f.store(self._decoded(f.load(key.kind, self.parts[0], i)), target, i)
        if key.largest is not None:
            with f.if_(self._has_special(source)):
                self._restore(source, target)

    def _decoded(self, signed: Term) -> Term:
        return self.key.decode(self.f, signed ^ -(1 << (self.key.bits - 1)), descending=self.descending)

    def _special(self, raw: Term) -> tuple[Term, Term]:
        """Whether a float is zero, and whether it is none."""
        size = raw & ((1 << (self.key.bits - 1)) - 1)
        return size.eq(0), size > (self.key.largest or 0)

    def _has_special(self, source: Term) -> Term:
        f = self.f
        wide, narrow = f.variable(vector("i1", self.lanes), 0), f.variable("i1", 0)
        with f.choice(self.count >= self.lanes) as long:
            with self.each_vector() as (_, begin):
                zero, none = self._special(f.load(vector(self.key.kind, self.lanes), source, begin))
                wide.set(wide.now | zero | none)
            long.otherwise()
            with f.range(0, self.count) as i:
                zero, none = self._special(f.load(self.key.kind, source, i))
                narrow.set(narrow.now | zero | none)
        return f.bits(wide.now, f"i{self.lanes}").ne(0) | narrow.now

    def _restore(self, source: Term, target: Term) -> None:
        """The bits of zeros, and those of NaNs, in the order in which they came."""
        f, key = self.f, self.key
        words = [self.signed(f.value(bits, key.kind)) for bits in (0, (1 << (key.bits - 1)) - 1)]
        places = [f.variable("i64", 0) for _ in words]
        with f.range(0, self.count) as i:
            encoded = f.load(key.kind, self.parts[0], i)
            for each, place in zip(words, places, strict=True):
                place.add(f.convert(encoded < each, "i64", "zext"))
        with f.range(0, self.count) as i:
            raw = f.load(key.kind, source, i)
            for holds, place in zip(self._special(raw), places, strict=True):
                with f.if_(holds):
                    f.store(raw, target, place.now)
                    place.add(1)


class _Positions(_Network):
    """Positions behind, or beside, their keys."""

    def widths(self) -> list[int]:
        return [64, 64] if self.key.bits > 32 else [2 * self.key.bits]

    def words(self, raw: Term, position: Term) -> Words:
        key = self.signed(raw)
        if len(self.parts) > 1:
            return [key, position]
        return [(self.f.convert(key, vector(self.kind, lanes(raw.kind)), "zext") << self.key.bits) | position]

    def give(self, source: Term, target: Term) -> None:
        """Where the elements were that come in order."""
        f, mask = self.f, (1 << self.key.bits) - 1
        with f.range(0, self.count) as i:
            packed = f.load(self.kind, self.parts[-1], i)
            behind = packed if len(self.parts) > 1 else packed & mask
            f.store(f.convert(behind, "i64", "zext"), target, i)


@contextmanager
def _rows(module: RoutineModule, nbytes: int, result: int) -> Iterator[tuple[Emitter, Term, Term, Term]]:
    """The loop over the rows of a chunk: how long they are, where one is, and where its results go; bytes of an element and of a result."""
    f = module.function("routine", [("args", "ptr"), ("chunk", "i64")])
    x, out = (address(f, n) for n in range(2))
    rows, count, chunks = (word(f, n) for n in range(2, 5))
    begin, end = rows_of(f, rows, chunks)
    with f.range(begin, end) as row:
        yield f, count, f.at(x, row * (count * nbytes)), f.at(out, row * (count * result))


def sort_few(module: RoutineModule, dtype: str, direction: str) -> None:
    """Of (x, out; rows, count, chunks): each row in order."""
    key = KEYS[dtype]
    with _rows(module, key.nbytes, key.nbytes) as (f, count, source, target):
        numbers = _Numbers(f, key, count, descending=direction == "descending")
        numbers.fill(source)
        numbers.order()
        numbers.give(source, target)


def argsort_few(module: RoutineModule, dtype: str, direction: str) -> None:
    """Of (x, out; rows, count, chunks): the int64 positions."""
    key = KEYS[dtype]
    with _rows(module, key.nbytes, 8) as (f, count, source, target):
        positions = _Positions(f, key, count, descending=direction == "descending")
        positions.fill(source)
        positions.order()
        positions.give(source, target)

"""Sorting rows: a stable radix sort of 8 bits at a time, least significant first, of values or of positions.

All histograms are made in one pass over the row; a digit that is the same everywhere takes no pass. What moves are the values
themselves, so that zeros of either sign and every NaN keep their bits and their order; positions move with their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from planish.runtime.routines.keys import KEYS, SortKey
from planish.runtime.routines.writer import Emitter, RoutineModule, Term

_BINS: Final = 256
KeyAt: TypeAlias = Callable[[Term], Term]
"""The key of an element by its position."""


def rows_of(f: Emitter, rows: Term, chunks: Term) -> tuple[Term, Term]:
    """The rows that the chunk at hand takes care of: from one, up to another."""
    chunk = f.parameter(1)
    return (chunk * rows) // chunks, ((chunk + 1) * rows) // chunks


def word(f: Emitter, number: int) -> Term:
    """An integer among the arguments."""
    return f.load("i64", f.parameter(0), number)


def address(f: Emitter, number: int) -> Term:
    """A buffer among the arguments."""
    return f.load("ptr", f.at(f.parameter(0), number, "i64"))


class RadixPasses:
    """The digits of a row: histograms, then a pass for each digit that differs."""

    def __init__(self, f: Emitter, key: SortKey, count: Term, key_at: KeyAt) -> None:
        self.f, self.key, self.count = f, key, count
        self.bins = f.stack("i64", key.nbytes * _BINS)
        self.sample = key_at(f.value(0, "i64"))
        """The key of any of the elements."""
        self._count_digits(key_at)
        self.left = f.variable("i64", 0)
        """RadixPasses still to come."""
        with f.range(0, key.nbytes) as number:
            self.left.add(f.convert(self._differs(number), "i64", "zext"))
        self.is_first = f.variable("i64", 1)

    def _digit(self, key: Term, number: Term | int) -> Term:
        f = self.f
        wide = f.convert(key, "i64", "zext") if key.kind != "i64" else key
        return wide.lshr(number * 8) & (_BINS - 1)

    def _bin(self, key: Term, number: Term | int) -> Term:
        return self.f.at(self.bins, self._digit(key, number) + number * _BINS, "i64")

    def _count_digits(self, key_at: KeyAt) -> None:
        f = self.f
        f.clear(self.bins, 8 * _BINS * self.key.nbytes)
        with f.range(0, self.count) as i:
            key = key_at(i)
            for number in range(self.key.nbytes):
                place = self._bin(key, number)
                f.store(f.load("i64", place) + 1, place)

    def _differs(self, number: Term) -> Term:
        """Not all are in the bin of any of them."""
        return self.f.load("i64", self._bin(self.sample, number)).ne(self.count)

    @contextmanager
    def each(self) -> Iterator[Term]:
        """A pass for each digit that differs: counts have become places."""
        f = self.f
        with f.range(0, self.key.nbytes) as number, f.if_(self._differs(number)):
            place = f.variable("i64", 0)
            with f.range(0, _BINS) as bin_:
                at = f.at(self.bins, number * _BINS + bin_, "i64")
                count = f.load("i64", at)
                f.store(place.now, at)
                place.add(count)
            yield number
            self.is_first.set(0)
            self.left.add(-1)

    def move(self, number: Term, key_at: KeyAt, put: Callable[[Term, Term, Term], None]) -> None:
        """Everything to its place by a digit: `put(i, key, place)`."""
        f = self.f
        with f.range(0, self.count) as i:
            key = key_at(i)
            bin_ = self._bin(key, number)
            place = f.load("i64", bin_)
            f.store(place + 1, bin_)
            put(i, key, place)


def encoded(f: Emitter, key: SortKey, descending: bool, base: Term) -> KeyAt:
    """The keys of a row in memory."""
    return lambda i: key.encode(f, f.load(key.kind, base, i), descending=descending)


def sort(module: RoutineModule, dtype: str, direction: str) -> None:
    """Of (x, out, scratch; rows, count, chunks): each row in order; scratch has a row per chunk."""
    f = module.function("routine", [("args", "ptr"), ("chunk", "i64")])
    key, descending = KEYS[dtype], direction == "descending"
    x, out, scratch = (address(f, n) for n in range(3))
    rows, count, chunks = (word(f, n) for n in range(3, 6))
    begin, end = rows_of(f, rows, chunks)
    nbytes = count * key.nbytes
    own = f.at(scratch, f.parameter(1) * nbytes)
    with f.range(begin, end) as row, f.if_(count > 0):
        source, target = f.at(x, row * nbytes), f.at(out, row * nbytes)
        passes = RadixPasses(f, key, count, encoded(f, key, descending, source))
        current = f.variable("ptr", source)
        with passes.each() as number:
            # the last pass ends in the result
            here, there = current.now, f.select((passes.left.now & 1).eq(1), target, own)

            def put(i: Term, _: Term, place: Term) -> None:
                f.store(f.load(key.kind, here, i), there, place)

            passes.move(number, encoded(f, key, descending, here), put)
            current.set(there)
        with f.if_(passes.is_first.now.eq(1)):
            f.copy(target, source, nbytes)


def argsort(module: RoutineModule, dtype: str, direction: str) -> None:
    """Of (x, out, scratch; rows, count, chunks): the int64 positions; scratch has 24 bytes an element per chunk.

    Positions and keys of up to 32 bits are one integer of 64 bits; wider keys go beside their positions.
    """
    f = module.function("routine", [("args", "ptr"), ("chunk", "i64")])
    key, descending = KEYS[dtype], direction == "descending"
    x, out, scratch = (address(f, n) for n in range(3))
    rows, count, chunks = (word(f, n) for n in range(3, 6))
    begin, end = rows_of(f, rows, chunks)
    own = f.at(scratch, f.parameter(1) * count * 24)
    with f.range(begin, end) as row, f.if_(count > 0):
        source, target = f.at(x, row * (count * key.nbytes)), f.at(out, row * (count * 8))
        order_row(f, key, encoded(f, key, descending, source), target, own, count)


def order_row(f: Emitter, key: SortKey, key_at: KeyAt, target: Term, own: Term, count: Term) -> None:
    """The int64 positions of one row that has elements; `own` has 24 bytes an element."""
    passes = RadixPasses(f, key, count, key_at)
    (_packed if key.bits <= 32 else _beside)(f, key, passes, key_at, target, own)
    with f.if_(passes.is_first.now.eq(1)), f.range(0, count) as i:
        f.store(i, target, i)


def _packed(f: Emitter, key: SortKey, passes: RadixPasses, key_at: KeyAt, target: Term, own: Term) -> None:
    """Keys above, positions below, in one integer. The first pass makes it, the last keeps the position."""
    other = f.at(own, passes.count * 8)
    with passes.each() as number:
        odd = (passes.left.now & 1).eq(1)
        here, there = f.select(odd, own, other), f.select(odd, other, own)

        def kept(i: Term) -> Term:
            return f.load("i64", here, i).lshr(32)

        def make(i: Term, key_bits: Term, place: Term) -> None:
            f.store((f.convert(key_bits, "i64", "zext") << 32) | i, there, place)

        def pass_on(i: Term, _: Term, place: Term) -> None:
            f.store(f.load("i64", here, i), there, place)

        def end(i: Term, _: Term, place: Term) -> None:
            f.store(f.load("i64", here, i) & 0xFFFFFFFF, target, place)

        def only(i: Term, _: Term, place: Term) -> None:
            f.store(i, target, place)

        is_first, is_last = passes.is_first.now.eq(1), passes.left.now.eq(1)
        with f.choice(is_first) as first:
            with f.choice(is_last) as last:
                passes.move(number, key_at, only)
                last.otherwise()
                passes.move(number, key_at, make)
            first.otherwise()
            with f.choice(is_last) as last:
                passes.move(number, kept, end)
                last.otherwise()
                passes.move(number, kept, pass_on)


def _beside(f: Emitter, key: SortKey, passes: RadixPasses, key_at: KeyAt, target: Term, own: Term) -> None:
    """Keys of 64 bits and positions in arrays of their own."""
    keys, positions = (own, f.at(own, passes.count * 8)), f.at(own, passes.count * 16)
    with passes.each() as number:
        odd = (passes.left.now & 1).eq(1)
        key_here, key_there = f.select(odd, keys[0], keys[1]), f.select(odd, keys[1], keys[0])
        here, there = f.select(odd, positions, target), f.select(odd, target, positions)

        def kept(i: Term) -> Term:
            return f.load("i64", key_here, i)

        def make(i: Term, key_bits: Term, place: Term) -> None:
            f.store(key_bits, key_there, place)
            f.store(i, there, place)

        def pass_on(i: Term, key_bits: Term, place: Term) -> None:
            f.store(key_bits, key_there, place)
            f.store(f.load("i64", here, i), there, place)

        with f.choice(passes.is_first.now.eq(1)) as first:
            passes.move(number, key_at, make)
            first.otherwise()
            passes.move(number, kept, pass_on)

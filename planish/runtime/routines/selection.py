"""The k best of a row: one pass that keeps whatever beats the k-th best so far, which is compared in lanes and seldom found.

Few (`top_k_few`): the best are a sorted list into which a better one is shifted. If that happens often, as in a row whose best
come last, what is left of the row is looked through once: of 64 groups, the k-th of the best is a bound for all. Many (`top_k_many`): candidates are collected in
their order; when there is no room for more, the best k of them are put in order and the rest is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from planish.runtime.routines.keys import KEYS, SortKey
from planish.runtime.routines.sorting import KeyAt, address, encoded, order_row, rows_of, word
from planish.runtime.routines.writer import Emitter, RoutineModule, RoutineVariable, Term, vector

_LANES: Final = 16
_WIDE: Final = 8
"""Lanes of 64 bits."""
_WORDS: Final = vector("i64", _WIDE)
_GROUPS: Final = 64
"""Not fewer than `top_k_few` keeps."""


class _SelectedRow:
    """A row that is searched: its keys, and what the next one has to beat."""

    def __init__(self, f: Emitter, key: SortKey, source: Term, count: Term, *, descending: bool) -> None:
        self.f, self.key, self.source, self.count = f, key, source, count
        self.descending = descending
        self.key_at: KeyAt = encoded(f, key, descending, source)
        self.limit: RoutineVariable = f.variable(key.kind, -1)

    def wide(self, i: Term) -> Term:
        """A key as 64 bits."""
        keys = self.key_at(i)
        return self.f.convert(keys, "i64", "zext")

    def search(self, start: Term, visit: Callable[[Term], None], between: Callable[[], None]) -> None:
        """`visit(i)` for every element from `start` on that may beat the limit; `between()` after each few."""
        f, kind = self.f, vector(self.key.kind, _LANES)
        whole = start + (self.count - start) // _LANES * _LANES
        with f.range(start, whole, _LANES) as i:
            lanes = self.key.encode(f, f.load(kind, self.source, i), descending=self.descending)
            better = lanes.compare("<", f.splat(self.limit.now, _LANES), unsigned=True)
            rest = f.variable("i16", f.bits(better, "i16"))
            with f.if_(rest.now.ne(0)):
                with f.loop() as each:
                    no = Term(f, "i1", "false")
                    visit(i + f.convert(f.call("llvm.cttz.i16", "i16", rest.now, no), "i64", "zext"))
                    rest.set(rest.now & (rest.now - 1))
                    each.leave(rest.now.eq(0))
                between()
        with f.range(whole, self.count) as i:
            visit(i)
            between()

    def narrow(self, key: Term) -> Term:
        """A key of 64 bits in its own width."""
        return self.f.convert(key, self.key.kind)


@contextmanager
def _rows(
    module: RoutineModule, dtype: str, direction: str
) -> Iterator[tuple[_SelectedRow, Term, Term, list[Term], Term]]:
    """The loop over the rows of a chunk: a row, k, the room of a chunk, and where values and positions go."""
    f = module.function("routine", [("args", "ptr"), ("chunk", "i64")])
    key = KEYS[dtype]
    x, values, positions, scratch = (address(f, n) for n in range(4))
    rows, count, chunks, k, room = (word(f, n) for n in range(4, 9))
    own = f.at(scratch, f.parameter(1) * room)
    begin, end = rows_of(f, rows, chunks)
    with f.range(begin, end) as number:
        source = f.at(x, number * (count * key.nbytes))
        results = [f.at(values, number * (k * key.nbytes)), f.at(positions, number * (k * 8))]
        yield _SelectedRow(f, key, source, count, descending=direction == "descending"), k, own, results, room


def _give(row: _SelectedRow, positions: Term, k: Term, results: list[Term]) -> None:
    f = row.f
    with f.range(0, k) as n:
        at = f.load("i64", positions, n)
        f.store(at, results[1], n)
        f.store(f.load(row.key.kind, row.source, at), results[0], n)


def top_k_few(module: RoutineModule, dtype: str, direction: str) -> None:
    """Of (x, values, positions, scratch; rows, count, chunks, k, room): rows have at least k elements."""
    rank = ranking(module)
    bound = _bounding(module, KEYS[dtype], rank, descending=direction == "descending")
    with _rows(module, dtype, direction) as (row, k, own, results, room):
        f = row.f
        quarter = room // 4
        # The place before the first is below every key.
        keys, positions, first, numbers = (f.at(own, quarter * n + 8 * _WIDE) for n in range(4))
        f.store(f.value(0, "i64"), keys, -1)
        with f.range(0, k) as n:
            f.store(row.wide(n), first, n)
            f.store(n, numbers, n)
        f.call(rank, "void", first, numbers, keys, positions, k)
        row.limit.set(row.narrow(f.load("i64", keys, k - 1)))
        last = (k + (_WIDE - 1)) // _WIDE * _WIDE - _WIDE
        many = k * 4 + _GROUPS
        shifted, ceiling = f.variable("i64", 0), f.variable(row.key.kind, -1)

        def insert(i: Term) -> None:
            key = row.wide(i)
            with f.if_(row.narrow(key).compare("<", row.limit.now, unsigned=True)):
                mine = f.splat(key, _WIDE)
                with f.range(last, 0, -_WIDE) as n:
                    here, before = f.load(_WORDS, keys, n), f.load(_WORDS, keys, n - 1)
                    at, at_before = f.load(_WORDS, positions, n), f.load(_WORDS, positions, n - 1)
                    moved = mine.compare("<", before, unsigned=True)
                    comes = mine.compare("<", here, unsigned=True)
                    f.store(f.select(moved, before, f.select(comes, mine, here)), keys, n)
                    f.store(f.select(moved, at_before, f.select(comes, f.splat(i, _WIDE), at)), positions, n)
                shifted.add(1)
                with f.if_(shifted.now.eq(many)):
                    ceiling.set(f.call(bound, row.key.kind, row.source, i + 1, row.count, k))
                worst = row.narrow(f.load("i64", keys, k - 1))
                low = worst.compare("<", ceiling.now, unsigned=True)
                row.limit.set(f.select(low, worst, ceiling.now))

        row.search(k, insert, lambda: None)
        _give(row, positions, k, results)


def _bounding(module: RoutineModule, key: SortKey, rank: str, *, descending: bool) -> str:
    """Writes a function that gives what the k-th best of a row from a place on is certainly below: row, place, count, k."""
    given = [("row", "ptr"), ("begin", "i64"), ("count", "i64"), ("k", "i64")]
    f = module.function("bound", given, key.kind, internal=True)
    source, begin, count, k = (f.parameter(n) for n in range(4))
    kind = vector(key.kind, _LANES)
    best = [f.variable(kind, -1) for _ in range(_GROUPS // _LANES)]
    end = begin + (count - begin) // _GROUPS * _GROUPS
    with f.range(begin, end, _GROUPS) as i:
        for number, each in enumerate(best):
            keys = key.encode(f, f.load(kind, source, i + number * _LANES), descending=descending)
            each.set(f.select(keys.compare("<", each.now, unsigned=True), keys, each.now))
    bests, places, ranked, ranks = (f.stack("i64", _GROUPS + _WIDE) for _ in range(4))
    for number, each in enumerate(best):
        f.store(f.convert(each.now, vector("i64", _LANES), "zext"), bests, number * _LANES)
    f.call(rank, "void", bests, places, ranked, ranks, f.value(_GROUPS, "i64"))
    least = f.convert(f.load("i64", ranked, k - 1), key.kind)
    f.ret(f.select(least.eq(-1), least, least + 1))
    return "bound"


def ranking(module: RoutineModule) -> str:
    """Writes a function that sorts few keys: each counts who comes before it. Keys and positions from, and to; how many."""
    names = ("keys", "positions", "to", "places")
    f = module.function("rank", [*((name, "ptr") for name in names), ("count", "i64")], internal=True)
    keys, positions, to, places, count = (f.parameter(n) for n in range(5))
    # Beyond the last: nobody, and never before anybody.
    f.store(f.value(-1, _WORDS), keys, count)
    f.store(f.value(-1, _WORDS), to, count)
    numbers = Term(f, _WORDS, f"<{', '.join(f'i64 {n}' for n in range(_WIDE))}>")
    with f.range(0, count) as i:
        mine = f.load("i64", keys, i)
        lanes, before = f.splat(mine, _WIDE), f.variable(_WORDS, 0)
        with f.range(0, count, _WIDE) as j:
            theirs = f.load(_WORDS, keys, j)
            earlier = numbers < f.splat(i - j, _WIDE)
            precedes = theirs.compare("<", lanes, unsigned=True) | (theirs.eq(lanes) & earlier)
            before.add(f.convert(precedes, _WORDS, "zext"))
        place = f.call(f"llvm.vector.reduce.add.v{_WIDE}i64", "i64", before.now)
        f.store(mine, to, place)
        f.store(f.load("i64", positions, i), places, place)
    return "rank"


def top_k_many(module: RoutineModule, dtype: str, direction: str) -> None:
    """Of (x, values, positions, scratch; rows, count, chunks, k, room): rows have at least k elements."""
    shrink = _shrinking(module, KEYS[dtype])
    with _rows(module, dtype, direction) as (row, k, own, results, room):
        f = row.f
        places = room // (5 * 8 + 24)
        keys, positions, *rest = (f.at(own, places * (8 * n)) for n in range(6))
        number = f.variable("i64", k)
        with f.range(0, k) as n:
            f.store(row.wide(n), keys, n)
            f.store(n, positions, n)

        def shrunk() -> None:
            f.call(shrink, "void", keys, positions, *rest, number.now, k)
            number.set(k)
            row.limit.set(row.narrow(f.load("i64", keys, k - 1)))

        def append(i: Term) -> None:
            f.store(row.wide(i), keys, number.now)
            f.store(i, positions, number.now)
            number.add(1)

        def between() -> None:
            with f.if_(number.now > places - _LANES):
                shrunk()

        shrunk()
        row.search(k, append, between)
        shrunk()
        _give(row, positions, k, results)


def _shrinking(module: RoutineModule, key: SortKey) -> str:
    """Writes a function that puts the best candidates in front: keys, positions, room for both, an order, room; count, k."""
    names = ("keys", "positions", "other", "others", "order", "work")
    given = [*((name, "ptr") for name in names), ("count", "i64"), ("k", "i64")]
    f = module.function("shrink", given, internal=True)
    keys, positions, other, others, order, work, count, k = (f.parameter(n) for n in range(8))
    plain = SortKey(key.bits)
    order_row(f, plain, lambda i: f.convert(f.load("i64", keys, i), plain.kind), order, work, count)
    with f.range(0, k) as n:
        at = f.load("i64", order, n)
        f.store(f.load("i64", keys, at), other, n)
        f.store(f.load("i64", positions, at), others, n)
    f.copy(keys, other, k * 8)
    f.copy(positions, others, k * 8)
    return "shrink"

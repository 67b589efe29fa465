"""Non-maximum suppression: boxes by falling score, each compared in lanes with all that were taken before it.

Corners, areas and the share that two boxes have in common are computed in float64, in the order that the interpreter computes
them in (semantics 10.4). Boxes that have nothing in common, which is most pairs, are told apart before anything is divided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from planish.runtime.routines.keys import KEYS, SortKey
from planish.runtime.routines.selection import ranking
from planish.runtime.routines.sorting import address, order_row, word
from planish.runtime.routines.writer import Emitter, RoutineModule, RoutineVariable, Term, lanes, vector

_LANES: Final = 8
_WIDE: Final = vector("double", _LANES)
_KINDS: Final = {"float32": "float", "float64": "double"}
_CORNERS: Final = 4
_SEEN: Final = 16
"""Scores that are looked at together."""
_SAMPLES: Final = 64
_PARTS: Final = 5
"""What is kept of a box: two corners and its area."""


def suppress(module: RoutineModule, dtype: str, form: str) -> None:
    """Of (boxes, scores, limit, overlap, threshold, rows, found, scratch; batches, classes, count, most, all).

    Rows are (batch, class, box), zeros behind the last; `most` is how many a class may have in the result. With `all`,
    no score is too low. If few boxes are wanted of many, those of the best scores are visited first, and the rest only if they do not
    suffice.
    """
    rank = ranking(module)
    f = module.function("routine", [("args", "ptr"), ("chunk", "i64")])
    kind, key = _KINDS[dtype], KEYS[dtype]
    boxes, scores, limit_at, overlap_at, threshold_at, rows, selected, scratch = (
        address(f, n) for n in range(8)
    )
    batches, classes, count, most, everything = (word(f, n) for n in range(8, 13))
    asked = f.load("i64", limit_at)
    limit = f.least(f.select(asked < 0, f.value(0, "i64"), asked), most)
    overlap = f.convert(f.load(kind, overlap_at), "double")
    candidates, keys, order, work = (f.at(scratch, count * (8 * n)) for n in range(4))
    taken = [f.at(f.at(scratch, count * 48), (most + 2 * _LANES) * (8 * n)) for n in range(_PARTS)]
    total, number = f.variable("i64", 0), f.variable("i64", 0)
    with f.range(0, batches * classes) as line:
        scores_here = f.at(scores, line * count, kind)
        line_ = _Line(
            f,
            kind,
            form,
            f.at(boxes, line // classes * count * 4, kind),
            candidates,
            order,
            limit,
            overlap,
            taken,
        )
        line_.count.set(0)
        pivot = _pivot(f, key, rank, scores_here, count, limit)
        with f.range(0, 2) as part, f.if_((line_.count.now < limit) & (part.eq(0) | pivot.ne(-1))):
            number.set(0)

            def put(i: Term) -> None:
                f.store(i, candidates, number.now)
                bits = f.load(key.kind, scores_here, i)
                f.store(key.encode(f, bits, descending=True), keys, number.now)
                number.add(1)

            def chosen(raw: Term) -> Term:
                score = f.bits(raw, vector(kind, lanes(raw.kind)))
                near = key.encode(f, raw, descending=True).compare(
                    "<=", f.value(pivot, raw.kind), unsigned=True
                )
                high = score > f.value(f.load(kind, threshold_at), score.kind)
                return (high | f.value(everything.ne(0), high.kind)) & (near ^ f.value(part.ne(0), near.kind))

            _each(f, key, scores_here, count, chosen, put)
            with f.if_(number.now > 0):
                order_row(f, key, lambda i: f.load(key.kind, keys, i), order, work, number.now)
            line_.choose(number.now, rows, total, line, classes)
    f.clear(f.at(rows, total.now * 24), (batches * classes * most - total.now) * 24)
    f.store(total.now, selected)


def _each(
    f: Emitter, key: SortKey, row: Term, count: Term, chosen: Callable[[Term], Term], put: Callable[[Term], None]
) -> None:  # fmt: skip
    """`put(i)` for the elements whose bits are chosen, in order."""
    whole = count // _SEEN * _SEEN
    with f.range(0, whole, _SEEN) as i:
        rest = f.variable("i16", f.bits(chosen(f.load(vector(key.kind, _SEEN), row, i)), "i16"))
        with f.loop() as each:
            each.leave(rest.now.eq(0))
            no = Term(f, "i1", "false")
            put(i + f.convert(f.call("llvm.cttz.i16", "i16", rest.now, no), "i64", "zext"))
            rest.set(rest.now & (rest.now - 1))
    with f.range(whole, count) as i, f.if_(chosen(f.load(key.kind, row, i))):
        put(i)


def _pivot(f: Emitter, key: SortKey, rank: str, row: Term, count: Term, limit: Term) -> Term:
    """A key that some multiple of the wanted boxes are not behind, guessed from a few; the last key if all will be needed."""
    wanted = limit * 2 + 64
    pivot = f.variable(key.kind, -1)
    with f.if_(count > wanted * 2):
        samples, places, ranked, ranks = (f.stack("i64", _SAMPLES + 8) for _ in range(4))
        with f.range(0, _SAMPLES) as n:
            raw = f.load(key.kind, row, n * count // _SAMPLES)
            f.store(f.convert(key.encode(f, raw, descending=True), "i64", "zext"), samples, n)
        f.call(rank, "void", samples, places, ranked, ranks, f.value(_SAMPLES, "i64"))
        pivot.set(f.convert(f.load("i64", ranked, wanted * _SAMPLES // count + 2), key.kind))
    return pivot.now


@dataclass(slots=True)
class _Line:
    """The boxes of one class."""

    f: Emitter
    kind: str
    form: str
    boxes: Term
    candidates: Term
    order: Term
    limit: Term
    overlap: Term
    taken: list[Term]
    count: RoutineVariable = field(init=False)
    """How many are taken."""

    def __post_init__(self) -> None:
        self.count = self.f.variable("i64", 0)

    def choose(self, number: Term, rows: Term, total: RoutineVariable, line: Term, classes: Term) -> None:
        """Visit so many candidates, in order."""
        f, count, at = self.f, self.count, self.f.variable("i64", 0)
        may_differ = f.value(0.0, "double") <= self.overlap
        with f.loop() as visits:
            visits.leave((at.now >= number) | (count.now >= self.limit))
            box = f.load("i64", self.candidates, f.load("i64", self.order, at.now))
            at.add(1)
            mine = _corners(f, self.kind, self.form, f.at(self.boxes, box * 4, self.kind))
            wide = [f.splat(part, _LANES) for part in mine]
            # What shares nothing with any box overlaps it by 0, which a negative or unordered threshold does not allow.
            fits = f.variable("i1", may_differ | count.now.eq(0))
            place = f.variable("i64", 0)
            with f.loop() as blocks:
                blocks.leave((place.now >= count.now) | fits.now.eq(0))
                other = [f.load(_WIDE, part, place.now) for part in self.taken]
                height = _less(f, wide[2], other[2]) - _more(f, wide[0], other[0])
                width = _less(f, wide[3], other[3]) - _more(f, wide[1], other[1])
                height, width = (f.select(side > 0.0, side, f.value(0.0, _WIDE)) for side in (height, width))
                shared = height * width
                some = f.bits(shared > 0.0, f"i{_LANES}")
                with f.if_(some.ne(0)):
                    union = (wide[4] + other[4]) - shared
                    sound = union > 0.0
                    share = f.select(sound, shared / union, f.value(0.0, _WIDE))
                    kept = f.bits(share <= f.splat(self.overlap, _LANES), f"i{_LANES}")
                    fits.set(kept.eq(-1))
                place.add(_LANES)
            with f.if_(fits.now):
                here = count.now
                with f.if_((here & (_LANES - 1)).eq(0)):
                    # Boxes that are nowhere, until others take their places.
                    for part, nothing in zip(
                        self.taken, (float("inf"),) * 2 + (float("-inf"),) * 2 + (0.0,), strict=True
                    ):
                        f.store(f.value(nothing, _WIDE), part, here)
                for part, value in zip(self.taken, mine, strict=True):
                    f.store(value, part, here)
                row = f.at(rows, total.now * 24)
                for n, value in enumerate((line // classes, line % classes, box)):
                    f.store(value, row, n)
                total.add(1)
                count.set(here + 1)


def _corners(f: Emitter, kind: str, form: str, box: Term) -> list[Term]:
    """Low and high corner and the area."""
    a, b, c, d = (f.convert(f.load(kind, box, n), "double") for n in range(_CORNERS))
    if form == "center":
        low, high = (b - d / 2.0, a - c / 2.0), (b + d / 2.0, a + c / 2.0)
    else:
        low, high = (_less(f, a, c), _less(f, b, d)), (_more(f, a, c), _more(f, b, d))
    return [*low, *high, (high[0] - low[0]) * (high[1] - low[1])]


def _less(f: Emitter, a: Term, b: Term) -> Term:
    """The second only if it is smaller."""
    return f.select(b < a, b, a)


def _more(f: Emitter, a: Term, b: Term) -> Term:
    return f.select(b > a, b, a)

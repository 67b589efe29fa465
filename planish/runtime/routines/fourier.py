"""Fourier transforms of lines: many at once in lanes, or a long one as two sets of short ones.

fft(x, out, plan, roots, scratch; lines, chunks, in_stride, out_stride, room): strides count real numbers. The plan (`PLAN`, then
passes) and the roots of unity are tables that whoever plans the call has made (`planish.schedule.fourier`).

- In lanes: as many lines as a vector has lanes are transformed together, every operation on one number of all of them.
- Long: a line of n1 · n2 numbers is n2 columns of n1 and then n1 rows of n2, columns and rows in lanes, roots between them.
- By convolution (Bluestein): a length with a large prime factor, as a product of spectra of a length without; in lanes or long.

Real lines of even length are complex lines of half of it, with one more step after or before; odd ones get an imaginary part of 0.
A backward transform exchanges real and imaginary parts on the way in and out.
"""

from __future__ import annotations

from typing import Final

from planish.records import dataclass
from planish.runtime.routines.butterflies import Number, passes
from planish.runtime.routines.lines import line_functions
from planish.runtime.routines.sorting import address, word
from planish.runtime.routines.writer import Emitter, RoutineModule, Term, vector

KINDS: Final = {"float32": ("float", 16), "float64": ("double", 8)}
"""Parts of numbers, and how many lines are transformed together."""
PLAN: Final = (
    "mode", "flip", "way", "n", "n1", "n2", "padded", "first", "second", "longer", "middle", "edge",
    "spectrum", "chirp",
)  # fmt: skip
"""What a plan begins with: n is the complex length; `first` and `second` are where passes begin, `middle`, `edge`, `spectrum`
and `chirp` where roots do; `padded` is the length of rows between columns and rows, `longer` that of a convolution."""
COMPLEX, REAL_EVEN, REAL_ODD, SPECTRUM_EVEN, SPECTRUM_ODD = range(5)
LANES, CONVOLUTION, LONG = range(3)


@dataclass(slots=True)
class _Transform:
    """The routine in the making."""

    f: Emitter
    kind: str
    lanes: int
    head: dict[str, Term]
    plan: Term
    roots: Term
    a: Term
    b: Term

    @property
    def wide(self) -> str:
        return vector(self.kind, self.lanes)

    def number(self, base: Term, index: Term) -> Number:
        """A number of all lines."""
        at = self.f.at(base, index * (2 * self.lanes), self.kind)
        return self.f.load(self.wide, at), self.f.load(self.wide, at, self.lanes)

    def put(self, base: Term, index: Term, value: Number) -> None:
        at = self.f.at(base, index * (2 * self.lanes), self.kind)
        self.f.store(value[0], at)
        self.f.store(value[1], at, self.lanes)

    def root(self, table: str, index: Term) -> Number:
        """A root of unity, the same for all lines."""
        re, im = self.one_root(table, index)
        return self.f.splat(re, self.lanes), self.f.splat(im, self.lanes)

    def one_root(self, table: str, index: Term) -> Number:
        at = self.f.at(self.roots, self.head[table] + index * 2, self.kind)
        return self.f.load(self.kind, at), self.f.load(self.kind, at, 1)

    @property
    def scale(self) -> Term:
        return self.f.load(self.kind, self.roots)

    def passes(self, a: Term, b: Term, first: str) -> Term:
        return self.f.call(
            "transform", "ptr", a, b, self.f.at(self.plan, self.head[first], "i64"), self.roots
        )

    def convolved(self) -> Term:
        """The transform of what is in the first buffer, by a convolution with a chirp."""
        f, n, longer = self.f, self.head["n"], self.head["longer"]
        with f.range(0, n) as i:
            self.put(self.a, i, _times(self.number(self.a, i), self.root("chirp", i)))
        zero = f.value(0.0, self.wide)
        with f.range(n, longer) as i:
            self.put(self.a, i, (zero, zero))
        place = self.passes(self.a, self.b, "first")
        other = f.select(f.let("i1", f"icmp eq ptr {place.text}, {self.a.text}"), self.b, self.a)
        with f.range(0, longer) as i:
            re, im = _times(self.number(place, i), self.root("spectrum", i))
            self.put(place, i, (im, re))
        last = self.passes(place, other, "first")
        with f.range(0, n) as i:
            im, re = self.number(last, i)
            self.put(last, i, _times((re, im), self.root("chirp", i)))
        return last


def _times(a: Number, b: Number) -> Number:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def fft(module: RoutineModule, dtype: str) -> None:
    """See above."""
    kind, lanes = KINDS[dtype]
    passes(module, kind, lanes)
    line_functions(module, kind, lanes)
    sets = _two_sets(module, kind, lanes)
    f = module.function("routine", [("args", "ptr"), ("chunk", "i64")], contract=True)
    x, out, plan, roots, scratch = (address(f, n) for n in range(5))
    lines, chunks, stride, out_stride, room = (word(f, n) for n in range(5, 10))
    head = {name: f.load("i64", plan, n) for n, name in enumerate(PLAN)}
    own = f.at(scratch, f.parameter(1) * room)
    size = 4 if kind == "float" else 8
    longest = f.select(head["way"].eq(LONG), f.select(head["n1"] > head["n2"], head["n1"], head["n2"]),
                       f.select(head["way"].eq(CONVOLUTION), head["longer"], head["n"])) + 1  # fmt: skip
    buffer = longest * (2 * lanes * size)
    t = _Transform(f, kind, lanes, head, plan, roots, own, f.at(own, buffer))
    chunk = f.parameter(1)
    with f.choice(head["way"].eq(LONG)) as long:
        room_for_lines = f.at(own, buffer * 2)
        with f.range(chunk * lines // chunks, (chunk + 1) * lines // chunks) as line:
            _long(t, f.at(x, line * stride, kind), f.at(out, line * out_stride, kind), room_for_lines, sets)
        long.otherwise()
        groups = (lines + (lanes - 1)) // lanes
        with f.range(chunk * groups // chunks, (chunk + 1) * groups // chunks) as group:
            begin = group * lanes
            here = f.least(lines - begin, lanes)
            _in_lanes(
                t,
                f.at(x, begin * stride, kind),
                f.at(out, begin * out_stride, kind),
                stride,
                out_stride,
                here,
            )


def _in_lanes(t: _Transform, x: Term, out: Term, stride: Term, out_stride: Term, lines: Term) -> None:
    f, n, mode, flip = t.f, t.head["n"], t.head["mode"], t.head["flip"]
    zero, one, two = (f.value(number, "i64") for number in (0, 1, 2))
    half = n // 2 + 1
    wide_zero = f.value(0.0, t.wide)

    def load(into: Term, count: Term, step: Term, flip: Term) -> None:
        f.call("load_rows", "void", into, x, count, stride, lines, step, zero, flip)

    with f.if_(mode <= REAL_EVEN):
        load(t.a, n * 2, one, flip)
    with f.if_(mode.eq(REAL_ODD)):
        load(t.a, n, two, zero)
        with f.range(0, n) as i:
            t.put(t.a, i, (t.number(t.a, i)[0], wide_zero))
    with f.if_(mode.eq(SPECTRUM_EVEN)):
        load(t.b, (n + 1) * 2, one, zero)
        for end in (zero, n):
            t.put(t.b, end, (t.number(t.b, end)[0], wide_zero))
        with f.range(0, n) as k:
            re, im = _joined(t.number(t.b, k), t.number(t.b, n - k), t.root("edge", k))
            t.put(t.a, k, (im, re))
    with f.if_(mode.eq(SPECTRUM_ODD)):
        load(t.b, half * 2, one, zero)
        t.put(t.b, zero, (t.number(t.b, zero)[0], wide_zero))
        with f.range(0, half) as k:
            re, im = t.number(t.b, k)
            t.put(t.a, k, (im, re))
            with f.if_(k.ne(0)):
                t.put(t.a, n - k, (-im, re))
    place = f.variable("ptr", t.a)
    with f.choice(t.head["way"].eq(CONVOLUTION)) as convolution:
        place.set(t.convolved())
        convolution.otherwise()
        place.set(t.passes(t.a, t.b, "first"))
    result = place.now
    with f.if_(mode.eq(REAL_EVEN)):
        other = f.select(f.let("i1", f"icmp eq ptr {result.text}, {t.a.text}"), t.b, t.a)
        with f.range(0, n + 1) as k:
            last = k.eq(n)
            here, there = f.select(last, zero, k), f.select(k.eq(0), zero, n - k)
            t.put(other, k, _split(t.number(result, here), t.number(result, there), t.root("edge", k)))
        place.set(other)

    def store(count: Term, step: Term, flip: Term) -> None:
        f.call("store_rows", "void", out, place.now, count, out_stride, lines, step, zero, flip, t.scale)

    with f.if_(mode.eq(COMPLEX)):
        store(n * 2, one, flip)
    with f.if_(mode.eq(REAL_EVEN)):
        store((n + 1) * 2, one, zero)
    with f.if_(mode.eq(REAL_ODD)):
        store(half * 2, one, zero)
    with f.if_(mode.eq(SPECTRUM_EVEN)):
        store(n * 2, one, one)
    with f.if_(mode.eq(SPECTRUM_ODD)):
        store(n, two, one)


def _split(z: Number, c: Number, w: Number) -> Number:
    """A frequency of a real line, from those of its even and odd numbers that one complex line had."""
    even = (z[0] + c[0]) * 0.5, (z[1] - c[1]) * 0.5
    odd = (z[1] + c[1]) * 0.5, (c[0] - z[0]) * 0.5
    turned = _times(odd, w)
    return even[0] + turned[0], even[1] + turned[1]


def _joined(z: Number, c: Number, w: Number) -> Number:
    """The inverse, times two."""
    even = z[0] + c[0], z[1] - c[1]
    odd = _times((z[0] - c[0], z[1] + c[1]), (w[0], -w[1]))
    return even[0] - odd[1], even[1] + odd[0]


def _long(t: _Transform, x: Term, out: Term, room: Term, sets: str) -> None:
    """One line."""
    rest = (t.plan, t.roots, t.a, t.b)
    f, kind, n, mode = t.f, t.kind, t.head["n"], t.head["mode"]
    zero = f.value(0, "i64")
    nothing = f.value(0.0, kind)
    length = f.select(t.head["longer"].eq(0), n, t.head["longer"])
    before, after = room, f.at(room, length * 2 + 2, kind)
    planes = f.at(after, length * 2 + 2, kind)
    flip = t.head["flip"]

    def at(base: Term, index: Term) -> Number:
        return f.load(kind, base, index * 2), f.load(kind, base, index * 2 + 1)

    def put(base: Term, index: Term, value: Number) -> None:
        f.store(value[0], base, index * 2)
        f.store(value[1], base, index * 2 + 1)

    with f.if_(mode.eq(REAL_ODD)), f.range(0, n) as i:
        put(before, i, (f.load(kind, x, i), nothing))
    with f.if_(mode.eq(SPECTRUM_EVEN)), f.range(0, n) as k:
        inner = f.convert(k.ne(0), kind, "uitofp")
        z, c = at(x, k), at(x, n - k)
        put(before, k, _joined((z[0], z[1] * inner), (c[0], c[1] * inner), t.one_root("edge", k)))
    with f.if_(mode.eq(SPECTRUM_ODD)), f.range(0, n // 2 + 1) as k:
        re, im = at(x, k)
        with f.choice(k.eq(0)) as first:
            put(before, k, (re, nothing))
            first.otherwise()
            put(before, k, (re, im))
            put(before, n - k, (re, -im))
    straight = mode.eq(COMPLEX) | mode.eq(SPECTRUM_EVEN)
    source, target = f.select(mode <= REAL_EVEN, x, before), f.select(straight, out, after)
    with f.choice(length.eq(n)) as short:
        f.call(sets, "void", *rest, source, target, planes, flip, t.scale)
        short.otherwise()
        one, nothing_ = f.value(1.0, kind), f.value(0.0, kind)
        with f.range(0, n) as i:
            re, im = at(source, i)
            forward = flip.eq(0)
            given = f.select(forward, re, im), f.select(forward, im, re)
            put(before, i, _times(given, t.one_root("chirp", i)))
        with f.range(n, length) as i:
            put(before, i, (nothing_, nothing_))
        f.call(sets, "void", *rest, before, after, planes, zero, one)
        with f.range(0, length) as i:
            put(after, i, _times(at(after, i), t.one_root("spectrum", i)))
        # backward: real and imaginary parts exchanged on both ways
        f.call(sets, "void", *rest, after, before, planes, f.value(1, "i64"), one)
        with f.range(0, n) as i:
            re, im = _times(at(before, i), t.one_root("chirp", i))
            forward = flip.eq(0)
            put(target, i, (f.select(forward, re, im) * t.scale, f.select(forward, im, re) * t.scale))
    with f.if_(mode.eq(REAL_EVEN)), f.range(0, n + 1) as k:
        here, there = f.select(k.eq(n), zero, k), f.select(k.eq(0), zero, n - k)
        put(out, k, _split(at(after, here), at(after, there), t.one_root("edge", k)))
    with f.if_(mode.eq(REAL_ODD)), f.range(0, n // 2 + 1) as k:
        put(out, k, at(after, k))
    with f.if_(mode.eq(SPECTRUM_ODD)), f.range(0, n) as i:
        f.store(at(after, i)[0], out, i)


def _two_sets(module: RoutineModule, kind: str, lanes: int) -> str:
    """Writes `sets`: n2 columns of n1, roots of unity, n1 rows of n2.

    What is between lies in a plane of real and one of imaginary parts.
    """
    names = ("plan", "roots", "a", "b", "x", "out", "planes")
    given = [*((name, "ptr") for name in names), ("flip", "i64"), ("scale", kind)]
    f = module.function("sets", given, internal=True, contract=True)
    plan, roots, a, b, x, out, planes, flip, scale = (f.parameter(n) for n in range(9))
    t = _Transform(
        f, kind, lanes, {name: f.load("i64", plan, n) for n, name in enumerate(PLAN)}, plan, roots, a, b
    )
    n1, n2, padded = (t.head[name] for name in ("n1", "n2", "padded"))
    zero, two = f.value(0, "i64"), f.value(2, "i64")
    size = n1 * padded
    planes_ = [planes, f.at(planes, size, kind)]
    middle = f.at(t.roots, t.head["middle"], kind)
    starts = f.at(middle, n1 * (2 * lanes), kind)
    with f.range(0, n2, lanes) as column:
        lines = f.least(n2 - column, lanes)
        f.call("load_columns", "void", t.a, f.at(x, column * 2, kind), n1, n2 * 2, lines, flip, scale)
        place = t.passes(t.a, t.b, "first")
        with f.range(0, n1) as k:
            at = k * padded + column
            # the root of the first column of the lanes, times those of the others
            first = f.at(starts, ((column // lanes) * n1 + k) * 2, kind)
            start = tuple(f.splat(f.load(kind, first, part), lanes) for part in range(2))
            others = f.at(middle, k * (2 * lanes), kind)
            root = _times((f.load(t.wide, others), f.load(t.wide, others, lanes)), (start[0], start[1]))
            for plane, part in zip(planes_, _times(t.number(place, k), root), strict=True):
                f.store(part, plane, at)
    with f.range(0, n1, lanes) as row:
        lines = f.least(n1 - row, lanes)
        for number, plane in enumerate(planes_):
            offset = f.value(number, "i64")
            rows = f.at(plane, row * padded, kind)
            f.call("load_rows", "void", t.a, rows, n2, padded, lines, two, offset, zero)
        place = t.passes(t.a, t.b, "second")
        f.call("store_columns", "void", place, f.at(out, row * 2, kind), n2, n1 * 2, lines, flip, scale)
    return "sets"

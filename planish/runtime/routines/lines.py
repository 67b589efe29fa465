"""Lines of memory to lanes and back: a vector of each line's first number, of each line's second, and so on.

Lines are rows, which are transposed in blocks, or neighbouring columns of complex numbers, which only come apart into real and
imaginary parts. Where there are fewer lines than lanes, the other lanes hold anything.
"""

from __future__ import annotations

from planish.runtime.routines.transposition import exchanged
from planish.runtime.routines.writer import Emitter, RoutineModule, Term, vector


def line_functions(module: RoutineModule, kind: str, lanes: int) -> None:
    """Writes load_rows, store_rows, load_columns and store_columns."""
    _load_rows(module, kind, lanes)
    _store_rows(module, kind, lanes)
    _columns(module, kind, lanes, load=True)
    _columns(module, kind, lanes, load=False)


def _place(f: Emitter, lanes: int, number: Term, step: Term, offset: Term, flip: Term) -> Term:
    """Where the vector of a number is: real and imaginary parts may be exchanged."""
    return ((number * step + offset) ^ flip) * lanes


def _load_rows(module: RoutineModule, kind: str, lanes: int) -> None:
    """load_rows(a, x, count, stride, lines, step, offset, flip): so many numbers of each line, lines so many numbers apart.

    Number i of the lines becomes vector (i · step + offset) xor flip.
    """
    numbers = [(n, "i64") for n in ("count", "stride", "lines", "step", "offset", "flip")]
    f = module.function("load_rows", [("a", "ptr"), ("x", "ptr"), *numbers], internal=True)
    a, x, count, stride, lines, step, offset, flip = (f.parameter(n) for n in range(8))
    whole = f.select(lines.eq(lanes), count // lanes * lanes, f.value(0, "i64"))
    with f.range(0, whole, lanes) as i:
        rows = [f.load(vector(kind, lanes), x, stride * n + i) for n in range(lanes)]
        for n, column in enumerate(exchanged(f, rows)):
            f.store(column, a, _place(f, lanes, i + n, step, offset, flip))
    with f.range(0, lines) as line, f.range(whole, count) as i:
        at = _place(f, lanes, i, step, offset, flip) + line
        f.store(f.load(kind, x, stride * line + i), a, at)


def _store_rows(module: RoutineModule, kind: str, lanes: int) -> None:
    """store_rows(x, a, count, stride, lines, step, offset, flip, scale): the inverse, times a number."""
    numbers = [(n, "i64") for n in ("count", "stride", "lines", "step", "offset", "flip")]
    f = module.function("store_rows", [("x", "ptr"), ("a", "ptr"), *numbers, ("scale", kind)], internal=True)
    x, a, count, stride, lines, step, offset, flip, scale = (f.parameter(n) for n in range(9))
    whole = f.select(lines.eq(lanes), count // lanes * lanes, f.value(0, "i64"))
    wide = vector(kind, lanes)
    with f.range(0, whole, lanes) as i:
        rows = [
            f.load(wide, a, _place(f, lanes, i + n, step, offset, flip)) * f.splat(scale, lanes)
            for n in range(lanes)
        ]
        for n, column in enumerate(exchanged(f, rows)):
            f.store(column, x, stride * n + i)
    with f.range(0, lines) as line, f.range(whole, count) as i:
        at = _place(f, lanes, i, step, offset, flip) + line
        f.store(f.load(kind, a, at) * scale, x, stride * line + i)


def _columns(module: RoutineModule, kind: str, lanes: int, *, load: bool) -> None:
    """load_columns(a, x, count, stride, lines, flip, scale), store_columns: complex columns beside each other."""
    numbers = [(n, "i64") for n in ("count", "stride", "lines", "flip")]
    name = "load_columns" if load else "store_columns"
    f = module.function(name, [("a", "ptr"), ("x", "ptr"), *numbers, ("scale", kind)], internal=True)
    a, x, count, stride, lines, flip, scale = (f.parameter(n) for n in range(7))
    wide, pair = vector(kind, lanes), vector(kind, 2 * lanes)
    parts = [list(range(part, 2 * lanes, 2)) for part in range(2)]
    mixed = [n // 2 + (n % 2) * lanes for n in range(2 * lanes)]
    with f.range(0, count) as i:
        line = f.at(x, i * stride, kind)
        places = [f.at(a, ((i * 2 + part) ^ flip) * lanes, kind) for part in range(2)]
        with f.choice(lines.eq(lanes)) as full:
            if load:
                both = f.load(pair, line)
                for place, part in zip(places, parts, strict=True):
                    f.store(f.shuffle(both, both, part), place)
            else:
                re, im = (f.load(wide, place) * f.splat(scale, lanes) for place in places)
                f.store(f.shuffle(re, im, mixed), line)
            full.otherwise()
            with f.range(0, lines) as n:
                for number, place in enumerate(places):
                    if load:
                        f.store(f.load(kind, line, n * 2 + number), place, n)
                    else:
                        f.store(f.load(kind, place, n) * scale, line, n * 2 + number)

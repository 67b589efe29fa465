"""Passes of a Fourier transform over lines in lanes: every element is a vector of real and one of imaginary parts.

A pass of radix r takes n = l1 · r · ido elements, (l1, r, ido) in memory, to (r, l1, ido), which is r butterflies apart and times
its roots of unity: after all factors everything is in its natural order (Stockham's scheme). Forward only: a backward transform
is a forward one with real and imaginary parts exchanged.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

from planish.runtime.routines.writer import Emitter, RoutineModule, RoutineVariable, Term, vector

RADICES: Final = (8, 4, 2, 3, 5, 7, 11, 13)
"""Those that have a pass of their own."""
LARGEST: Final = 251
"""The largest prime that has the pass for all of them: beyond, a convolution is faster."""
_TOGETHER: Final = 4
"""Frequencies of a large prime that are summed at once."""
Number: TypeAlias = tuple[Term, Term]


def passes(module: RoutineModule, kind: str, lanes: int) -> None:
    """Writes `transform(a, b, plan, roots)`, which gives the one of the two buffers that holds the result.

    The plan is the number of passes, then per pass: radix, ido, l1, where its roots begin, and where its cosines and sines do if
    the radix has no pass of its own.
    """
    f = module.function("transform", [(n, "ptr") for n in ("a", "b", "plan", "roots")], "ptr", internal=True)
    a, b, plan, roots = (f.parameter(n) for n in range(4))
    here, there = f.variable("ptr", a), f.variable("ptr", b)
    names = {
        (radix, last): _pass(module, kind, lanes, radix, last=last)
        for radix in RADICES
        for last in (False, True)
    }
    prime = _prime_pass(module, kind, lanes)
    with f.range(0, f.load("i64", plan)) as number:
        radix, ido, l1, start, waves = (f.load("i64", plan, number * 5 + (n + 1)) for n in range(5))
        given = (here.now, there.now, f.at(roots, start, kind), ido, l1)
        for (wanted, last), name in names.items():
            with f.if_(radix.eq(wanted) & (ido.eq(1) if last else ido.ne(1))):
                f.call(name, "void", *given)
        with f.if_(radix > max(RADICES)):
            f.call(prime, "void", *given, radix, f.at(roots, waves, kind))
        _swap(here, there)
    f.ret(here.now)


def _swap(first: RoutineVariable, second: RoutineVariable) -> None:
    now = first.now
    first.set(second.now)
    second.set(now)


def _pass(module: RoutineModule, kind: str, lanes: int, radix: int, *, last: bool) -> str:
    name = f"{'last' if last else 'pass'}{radix}"
    given = [(n, "ptr") for n in ("cc", "ch", "roots")] + [("ido", "i64"), ("l1", "i64")]
    f = module.function(name, given, internal=True, contract=True)
    cc, ch, roots, ido, l1 = (f.parameter(n) for n in range(5))
    wide, step = vector(kind, lanes), 2 * lanes
    with f.range(0, l1) as k, f.range(0, 1 if last else ido) as i:

        def load(j: int) -> Number:
            at = f.at(cc, (i + ido * (k * radix + j)) * step, kind)
            return f.load(wide, at), f.load(wide, at, lanes)

        results = butterfly(f, [load(j) for j in range(radix)])
        for j, result in enumerate(results):
            re, im = result
            if j and not last:
                at = (i * (radix - 1) + (j - 1)) * 2
                c, s = (f.splat(f.load(kind, roots, at + part), lanes) for part in range(2))
                re, im = re * c - im * s, re * s + im * c
            to = f.at(ch, (i + ido * (k + l1 * j)) * step, kind)
            f.store(re, to)
            f.store(im, to, lanes)
    return name


def _prime_pass(module: RoutineModule, kind: str, lanes: int) -> str:
    """A pass of any odd radix, by sums and differences of opposite numbers; cosines and sines are a table.

    The table has, for every few frequencies, for every pair of numbers: the cosines of these frequencies, then the sines.
    """
    given = [(n, "ptr") for n in ("cc", "ch", "roots")] + [(n, "i64") for n in ("ido", "l1", "radix")]
    f = module.function("prime", [*given, ("waves", "ptr")], internal=True, contract=True)
    cc, ch, roots, ido, l1, radix, waves = (f.parameter(n) for n in range(7))
    wide, step = vector(kind, lanes), 2 * lanes
    half = (radix - 1) // 2
    pairs = f.stack(wide, 4 * (LARGEST // 2))
    with f.range(0, l1) as k, f.range(0, ido) as i:

        def load(j: Term) -> Number:
            at = f.at(cc, (i + ido * (k * radix + j)) * step, kind)
            return f.load(wide, at), f.load(wide, at, lanes)

        def store(j: Term, value: Number) -> None:
            to = f.at(ch, (i + ido * (k + l1 * j)) * step, kind)
            at = f.at(roots, (i * (radix - 1) + (j - 1)) * 2, kind)
            c, s = (f.splat(f.load(kind, at, part), lanes) for part in range(2))
            f.store(value[0] * c - value[1] * s, to)
            f.store(value[0] * s + value[1] * c, to, lanes)

        first = load(f.value(0, "i64"))
        total = [f.variable(wide, part) for part in first]
        with f.range(0, half) as j:
            a, b = load(j + 1), load(radix - 1 - j)
            sums, differences = _plus(a, b), _minus(a, b)
            for n, part in enumerate((*sums, *differences)):
                f.store(part, pairs, (j * 4 + n) * lanes)
            for each, part in zip(total, sums, strict=True):
                each.add(part)
        to = f.at(ch, (i + ido * k) * step, kind)
        f.store(total[0].now, to)
        f.store(total[1].now, to, lanes)
        with f.range(0, half, _TOGETHER) as m:
            running = [[f.variable(wide, start) for start in (*first, 0.0, 0.0)] for _ in range(_TOGETHER)]
            with f.range(0, half) as j:
                parts = [f.load(wide, pairs, (j * 4 + n) * lanes) for n in range(4)]
                table = f.at(waves, (m * half + j * _TOGETHER) * 2, kind)
                for number, sums_ in enumerate(running):
                    cosine, sine = (
                        f.splat(f.load(kind, table, number + n * _TOGETHER), lanes) for n in range(2)
                    )
                    for each, part, wave in zip(sums_, parts, (cosine, cosine, sine, sine), strict=True):
                        each.add(part * wave)
            for number, sums_ in enumerate(running):
                with f.if_((m + number) < half):
                    a_re, a_im, b_re, b_im = (each.now for each in sums_)
                    store(m + (number + 1), _plus_turned((a_re, a_im), (b_re, b_im)))
                    store(radix - 1 - m - number, _minus_turned((a_re, a_im), (b_re, b_im)))
    return "prime"


def butterfly(f: Emitter, x: list[Number]) -> list[Number]:
    """The transform of as many numbers as a radix."""
    if len(x) == 2:
        return [_plus(x[0], x[1]), _minus(x[0], x[1])]
    if len(x) == 4:
        t0, t1 = _plus(x[0], x[2]), _minus(x[0], x[2])
        t2, t3 = _plus(x[1], x[3]), _minus(x[1], x[3])
        return [_plus(t0, t2), _plus_turned(t1, t3), _minus(t0, t2), _minus_turned(t1, t3)]
    if len(x) == 8:
        even, odd = butterfly(f, x[0::2]), butterfly(f, x[1::2])
        half = math.sqrt(0.5)
        (r1, m1), (r2, m2), (r3, m3) = odd[1:]
        odd[1] = ((r1 + m1) * half, (m1 - r1) * half)
        odd[2] = (m2, -r2)
        odd[3] = ((m3 - r3) * half, (r3 + m3) * -half)
        pairs = list(zip(even, odd, strict=True))
        return [_plus(a, b) for a, b in pairs] + [_minus(a, b) for a, b in pairs]
    return _odd(x)


def _odd(x: list[Number]) -> list[Number]:
    """An odd radix, by the sums and differences of opposite numbers."""
    radix = len(x)
    half = (radix - 1) // 2
    sums = [_plus(x[j], x[radix - j]) for j in range(1, half + 1)]
    differences = [_minus(x[j], x[radix - j]) for j in range(1, half + 1)]
    total = x[0]
    for each in sums:
        total = _plus(total, each)
    outputs: list[Number] = [total] * radix
    for k in range(1, half + 1):
        waves = [2 * math.pi * (j * k % radix) / radix for j in range(1, half + 1)]
        (a_re, a_im), (b_re, b_im) = x[0], _scaled(differences[0], math.sin(waves[0]))
        for j, angle in enumerate(waves):
            re, im = _scaled(sums[j], math.cos(angle))
            a_re, a_im = a_re + re, a_im + im
            if j:
                re, im = _scaled(differences[j], math.sin(angle))
                b_re, b_im = b_re + re, b_im + im
        outputs[k] = _plus_turned((a_re, a_im), (b_re, b_im))
        outputs[radix - k] = _minus_turned((a_re, a_im), (b_re, b_im))
    return outputs


def _scaled(a: Number, by: float) -> Number:
    return a[0] * by, a[1] * by


def _plus(a: Number, b: Number) -> Number:
    return a[0] + b[0], a[1] + b[1]


def _minus(a: Number, b: Number) -> Number:
    return a[0] - b[0], a[1] - b[1]


def _plus_turned(a: Number, b: Number) -> Number:
    """a - i·b: b turned by a right angle, forward."""
    return a[0] + b[1], a[1] - b[0]


def _minus_turned(a: Number, b: Number) -> Number:
    """a + i·b."""
    return a[0] - b[1], a[1] + b[0]

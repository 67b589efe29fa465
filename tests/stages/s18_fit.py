"""Where the coefficients of stage 18 come from: Chebyshev interpolation in high precision, then one rounding.

Where errors count more in one place than in another a fit has a weight, and Remez's exchange makes the weighted error level.

Each row names a smooth function of one variable, the interval that argument reduction leaves, and how many coefficients
each format gets. `python -m tests.stages.s18_fit` prints the module that holds them, `--errors` how far each
polynomial is from its function; a test compares the module in the package with what is fitted here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import mpmath
import numpy as np
from mpmath import mp, mpf

PRECISION = 400
"""Bits to compute with: the functions below cancel at the origin."""


class Fit(NamedTuple):
    """A polynomial to be found."""

    meaning: str
    function: Callable[[mpf], mpf]
    low: Callable[[], mpf]
    high: Callable[[], mpf]
    single: int
    double: int
    weight: Callable[[mpf], mpf] | None = None


def _erfcx(x: mpf) -> mpf:
    """exp(x²)·erfc(x)·(1 + 2x)."""
    return mpmath.exp(x * x) * mpmath.erfc(x) * (1 + 2 * x)


def _atanh_ratio(z: mpf) -> mpf:
    """atanh(s)/s where z = s²."""
    s = mpmath.sqrt(z)
    return mpmath.atanh(s) / s


FITS: dict[str, Fit] = {
    "EXP": Fit(
        "(e**r - 1 - r) / r**2 on |r| <= 0.347",
        lambda r: (mpmath.exp(r) - 1 - r) / r**2,
        lambda: -mpf("0.347"), lambda: mpf("0.347"), 5, 10,
    ),
    "EXP_16": Fit(
        "(e**r - 1 - r) / r**2 on |r| <= ln2 / 32",
        lambda r: (mpmath.exp(r) - 1 - r) / r**2,
        lambda: -mpf("0.0217"), lambda: mpf("0.0217"), 2, 0,
    ),
    "EXP_8": Fit(
        "(e**r - 1 - r) / r**2 on |r| <= ln2 / 16",
        lambda r: (mpmath.exp(r) - 1 - r) / r**2,
        lambda: -mpf("0.0434"), lambda: mpf("0.0434"), 0, 7,
    ),
    "EXP2_16": Fit(
        "(2**f - 1) / f on |f| <= 1/32",
        lambda f: (mpmath.mpf(2) ** f - 1) / f,
        lambda: -mpf("0.0313"), lambda: mpf("0.0313"), 3, 0,
    ),
    "EXP2_8": Fit(
        "(2**f - 1) / f on |f| <= 1/16",
        lambda f: (mpmath.mpf(2) ** f - 1) / f,
        lambda: -mpf("0.0626"), lambda: mpf("0.0626"), 0, 8,
    ),
    "LOG": Fit(
        "(2 atanh(s)/s - 2) / z, z = s**2, on s <= 0.1716",
        lambda z: (2 * _atanh_ratio(z) - 2) / z,
        lambda: mpf(0), lambda: mpf("0.02945"), 3, 7,
    ),
    "LOG_TAIL": Fit(
        "(atanh(s)/s - 1 - z/3 - z**2/5) / z**3, z = s**2, on s <= 0.1716",
        lambda z: (_atanh_ratio(z) - 1 - z / 3 - z**2 / 5) / z**3,
        lambda: mpf(0), lambda: mpf("0.02945"), 3, 7,
    ),
    "SIN": Fit(
        "(sin(r)/r - 1) / z, z = r**2, on |r| <= pi/4",
        lambda z: (mpmath.sin(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1) / z,
        lambda: mpf(0), lambda: mpf("0.617"), 4, 7,
    ),
    "COS": Fit(
        "(cos(r) - 1 + z/2) / z**2, z = r**2, on |r| <= pi/4",
        lambda z: (mpmath.cos(mpmath.sqrt(z)) - 1 + z / 2) / z**2,
        lambda: mpf(0), lambda: mpf("0.617"), 3, 6,
    ),
    "TAN": Fit(
        "(tan(r)/r - 1) / z, z = r**2, on |r| <= pi/4",
        lambda z: (mpmath.tan(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1) / z,
        lambda: mpf(0), lambda: mpf("0.618"), 7, 14,
    ),
    "ATAN": Fit(
        "(atan(t)/t - 1) / z, z = t**2, on |t| <= tan(pi/8)",
        lambda z: (mpmath.atan(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1) / z,
        lambda: mpf(0), lambda: mpf("0.1716"), 5, 11,
    ),
    "ASIN": Fit(
        "(asin(t)/t - 1) / z, z = t**2, on |t| <= 1/2",
        lambda z: (mpmath.asin(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1) / z,
        lambda: mpf(0), lambda: mpf("0.25"), 6, 13,
    ),
    "SINH": Fit(
        "(sinh(x)/x - 1) / z, z = x**2, on |x| <= 1",
        lambda z: (mpmath.sinh(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1) / z,
        lambda: mpf(0), lambda: mpf(1), 4, 7,
    ),
    "TANH": Fit(
        "(tanh(x)/x - 1) / z, z = x**2, on |x| <= 0.55",
        lambda z: (mpmath.tanh(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1) / z,
        lambda: mpf(0), lambda: mpf("0.303"), 5, 11,
    ),
    "TANH_FARTHER": Fit(
        "(tanh(x)/x - 1) / z, z = x**2, on |x| <= 0.65",
        lambda z: (mpmath.tanh(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1) / z,
        lambda: mpf(0), lambda: mpf("0.4225"), 6, 0,
    ),
    "ERF": Fit(
        "erf(x)/x - 1, z = x**2, on |x| <= 1",
        lambda z: mpmath.erf(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1,
        lambda: mpf(0), lambda: mpf(1), 7, 13,
    ),
    "ERFCX": Fit(
        "exp(x**2) erfc(x) (1 + 2x) - 5/4, x = 3 (1 + t)/(1 - t), on 3/4 <= x <= 28",
        lambda t: _erfcx(3 * (1 + t) / (1 - t)) - mpf("1.25"),
        lambda: mpf(-3) / 5, lambda: mpf(25) / 31, 10, 22,
    ),
    "LOG_ERFC": Fit(
        "-log(erfc(x))/x - 1 on 0 <= x <= 3.95; weight: what erf(x) makes of an error",
        lambda x: -mpmath.log(mpmath.erfc(x)) / x - 1,
        lambda: mpf("1e-4"), lambda: mpf("3.95"), 9, 0,
        lambda x: x * mpmath.erfc(x) / mpmath.erf(x),
    ),
    "EXPM1": Fit(
        "(e**r - 1 - r) / r**2 on |r| <= 0.347; weight: what 1 - e**r (r < 0) and 1 - e**r / 2 (r > 0) make of an error",
        lambda r: (mpmath.exp(r) - 1 - r) / r**2,
        lambda: -mpf("0.347"), lambda: mpf("0.347"), 5, 0,
        lambda r: mpf("0.02") + (-r if r < 0 else r**2 / (2 - mpmath.exp(r))),
    ),
    "LOG1P": Fit(
        "(log(1 + f) - f) / f**2 on |f| <= 0.334; weight: |f|",
        lambda f: (mpmath.log(1 + f) - f) / f**2,
        lambda: -mpf("0.334"), lambda: mpf("0.334"), 9, 0,
        lambda f: mpf("0.02") + abs(f),
    ),
    "LOG_8": Fit(
        "(log(1 + r) - r) / r**2 on |r| <= 1/16; weight: |r|",
        lambda r: (mpmath.log(1 + r) - r) / r**2,
        lambda: -mpf("0.0625"), lambda: mpf("0.0625"), 0, 10,
        lambda r: mpf("0.005") + abs(r),
    ),
    "CBRT": Fit(
        "m ** (1/3) on 1 <= m <= 2",
        lambda m: mpmath.cbrt(m),
        lambda: mpf(1), lambda: mpf(2), 4, 4,
    ),
}  # fmt: skip


def _solve(row: Fit, count: int) -> list[mpf]:
    """The polynomial that a row asks for."""
    if row.weight is None or not count:
        return fit(row.function, row.low(), row.high(), count)
    return level(row.function, row.weight, row.low(), row.high(), count)


def level(
    function: Callable[[mpf], mpf], weight: Callable[[mpf], mpf], low: mpf, high: mpf, count: int
) -> list[mpf]:
    """The polynomial (lowest power first) whose weighted error is smallest: it is equally large, with both signs, in turn."""

    def points(number: int) -> list[mpf]:
        """Dense at the ends; the functions have a removable gap at 0."""
        found = [
            (low + high) / 2 - (high - low) / 2 * mpmath.cos(mpmath.pi * k / number)
            for k in range(number + 1)
        ]
        return [x if abs(x) > mpf(2) ** -60 else mpf(2) ** -60 for x in found]

    grid = points(300)
    wanted = [(x, function(x), weight(x)) for x in grid]
    chosen = points(count)
    powers: list[mpf] = []
    for _ in range(12):
        matrix = mpmath.matrix(count + 1, count + 1)
        values = mpmath.matrix(count + 1, 1)
        for i, x in enumerate(chosen):
            for j in range(count):
                matrix[i, j] = x**j
            matrix[i, count] = (-1) ** i / weight(x)
            values[i] = function(x)
        solution = mpmath.lu_solve(matrix, values)
        powers = [solution[j] for j in range(count)]
        errors = [w * (mpmath.polyval(powers[::-1], x) - y) for x, y, w in wanted]
        peaks = [0]
        for i in range(1, len(grid)):
            if (errors[i] > 0) != (errors[peaks[-1]] > 0):
                peaks.append(i)
            elif abs(errors[i]) > abs(errors[peaks[-1]]):
                peaks[-1] = i
        while len(peaks) > count + 1:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        if len(peaks) <= count or max(map(abs, errors)) < abs(solution[count]) * mpf("1.01"):
            break
        chosen = [grid[i] for i in peaks]
    return powers


def fit(function: Callable[[mpf], mpf], low: mpf, high: mpf, count: int) -> list[mpf]:
    """The polynomial (lowest power first) through the function at the Chebyshev nodes of the interval."""
    with mp.workprec(PRECISION):
        nodes = [
            (low + high) / 2 + (high - low) / 2 * mpmath.cos(mpmath.pi * (2 * k + 1) / (2 * count))
            for k in range(count)
        ]
        # The functions have a removable gap at 0, where a middle node would lie.
        nodes = [x if abs(x) > mpf(2) ** -60 else mpf(2) ** -60 for x in nodes]
        differences = [function(x) for x in nodes]
        for level in range(1, count):
            for k in range(count - 1, level - 1, -1):
                differences[k] = (differences[k] - differences[k - 1]) / (nodes[k] - nodes[k - level])
        # Newton's form, multiplied out.
        powers = [mpf(0)] * count
        for k in range(count - 1, -1, -1):
            powers = [
                (powers[i - 1] if i else mpf(0)) - nodes[k] * powers[i] + (differences[k] if i == 0 else 0)
                for i in range(count)
            ]
        return powers


def tables() -> dict[str, tuple[tuple[float, ...], tuple[float, ...]]]:
    """Name → the coefficients in single and in double precision, lowest power first."""
    found = {}
    with mp.workprec(PRECISION):
        for name, row in FITS.items():
            single, double = _solve(row, row.single), _solve(row, row.double)
            found[name] = (
                tuple(float(np.float32(float(c))) for c in single),
                tuple(float(c) for c in double),
            )
    return found


def _print_module() -> None:
    print('"""Coefficients of the polynomials, lowest power first; made by tests/stages/s18_fit.py."""\n')
    print("from __future__ import annotations\n\nfrom typing import Final, NamedTuple\n\n")
    print("class Coefficients(NamedTuple):")
    print('    """One polynomial in both formats; empty where one has no use for it."""\n')
    print("    single: tuple[float, ...]\n    double: tuple[float, ...]\n\n")
    print("# fmt: off")
    for name, (single, double) in tables().items():
        print(f"{name}: Final = Coefficients(\n    (")
        for row in (single, double):
            if row is double:
                print("    (")
            for start in range(0, len(row), 4):
                print("        " + " ".join(f"{c!r}," for c in row[start : start + 4]))
            print("    ),")
        print(f')\n"""{FITS[name].meaning}."""\n')
    print("# fmt: on")


def _print_errors() -> None:
    for name, row in FITS.items():
        with mp.workprec(PRECISION):
            low, high = row.low(), row.high()
            for count in filter(None, (row.single, row.double)):
                powers = _solve(row, count)
                grid = [low + (high - low) * (k + mpf("0.37")) / 200 for k in range(200)]
                weigh = row.weight or (lambda x: mpf(1))
                worst = max(weigh(x) * abs(mpmath.polyval(powers[::-1], x) - row.function(x)) for x in grid)
                size = max(abs(row.function(x)) for x in grid)
                print(f"{name:9} {count:3}  error 2**{float(mpmath.log(worst, 2)):6.1f} of {float(size):.3g}")


if __name__ == "__main__":
    _print_errors() if "--errors" in sys.argv else _print_module()

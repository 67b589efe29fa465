"""The data that candidates of a search run on, and what their results are held against, on whichever machine they run.

What the unoptimised kernel wrote is kept in files that all workers of a search share: another worker, or one that takes the place
of a dead one, compares with the same.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish.runtime.sandbox import SETS, WHOLE, Check, Setup, TrialBuffer

Array = NDArray[Any]
_PERIOD: Final = 65521
"""Made-up data repeats after so many elements, a prime: no two rows are equal."""
_CHUNK: Final = 1 << 15
"""Elements that are compared at once: in float64 they stay in the second cache."""


def dtype_of(name: str) -> np.dtype[Any]:
    """A NumPy dtype by name, the narrow floats included."""
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name, name))


def made_up(place: TrialBuffer, number: int, which: str) -> Array:
    """A period of data for a parameter: reals between -1 and 1, or whole numbers whose sums are exact."""
    rng = np.random.default_rng(number + 1000 * SETS.index(which))
    dtype = dtype_of(place.dtype)
    if dtype.kind == "b":
        return rng.random(_PERIOD) < 0.5
    if dtype.kind in "iu":
        return rng.integers(0, 64, _PERIOD).astype(dtype)
    if which == WHOLE:
        return rng.integers(-2, 3, _PERIOD).astype(dtype)
    return rng.uniform(-1, 1, _PERIOD).astype(dtype)


class TrialData(ABC):
    """The data of one kernel, and the candidate that runs on it."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.largest: dict[tuple[int, str], float] = {}
        """The largest number of what is remembered, where somebody asked."""
        self.periods = {
            (number, which): made_up(place, number, which)
            for number, place in enumerate(setup.places)
            for which in SETS
        }

    @abstractmethod
    def array(self, number: int, which: str) -> Array:
        """A parameter, as the host sees it."""

    @abstractmethod
    def once(self, which: str) -> None:
        """One run on fresh data."""

    @abstractmethod
    def some(self, which: str, points: Sequence[int]) -> None:
        """Some points of the grid, one after another."""

    def fill(self, number: int, which: str) -> None:
        array, period = self.array(number, which), self.periods[number, which]
        whole = array.size // _PERIOD * _PERIOD
        array[:whole].reshape(-1, _PERIOD)[:] = period
        array[whole:] = period[: array.size - whole]

    def refill(self, which: str, *, otherwise: bool = False) -> None:
        """What is written begins with made-up data; `otherwise`: with other data in every element."""
        for number, place in enumerate(self.setup.places):
            if place.written:
                self.fill(number, which)
                if otherwise:
                    raw = self.array(number, which).view(np.uint8)
                    np.bitwise_xor(raw, 1 if place.dtype == "bool" else 0xFF, out=raw)

    # -- what is asked -------------------------------------------------------------------------------------------

    def remember(self, points: Sequence[int] = ()) -> float:
        """Run what is loaded, and write what it computes to files: the others are held to it. Seconds of the last run.

        With `points`, only those of the grid are run: what they write is found by running them from two different starts.
        """
        seconds = 0.0
        self.largest.clear()
        written = [number for number, place in enumerate(self.setup.places) if place.written]
        for which in SETS:
            begin = time.perf_counter()
            before: dict[int, Array] = {}
            if points:
                self.refill(which, otherwise=True)
                self.some(which, points)
                before = {number: self.array(number, which).copy() for number in written}
                self.refill(which)
                self.some(which, points)
            else:
                self.once(which)
            seconds = time.perf_counter() - begin
            for number in written:
                data = self.array(number, which)
                data.view(np.uint8).tofile(reference(self.setup, number, which))
                if points:
                    (bits_of(data) == bits_of(before[number])).tofile(sampled(self.setup, number, which))
        return seconds

    def extend(self) -> None:
        """What is loaded is right as far as is known: what it computes stands in for what was not run."""
        self.remember()
        extended(self.setup).touch()
        for number, place in enumerate(self.setup.places):
            if place.written:
                for which in SETS:
                    sampled(self.setup, number, which).unlink(missing_ok=True)

    def verify(self) -> str | None:
        """Run what is loaded on all data; what is wrong with it, if something is."""
        twice = extended(self.setup).exists()
        for which in SETS:
            self.once(which)
            for number, place in enumerate(self.setup.places):
                if place.check is None:
                    continue
                check = replace(place.check, terms=2 * place.check.terms) if twice else place.check
                expected = np.memmap(
                    reference(self.setup, number, which), dtype_of(place.dtype), "r", shape=(place.count,)
                )
                some = sampled(self.setup, number, which)
                mask = np.fromfile(some, np.bool_) if some.exists() else None
                wrong = difference(
                    self.array(number, which), expected, check, which, mask,
                    partial(self._largest, number, which, expected),
                )  # fmt: skip
                if wrong is not None:
                    return f"{place.name}: {wrong}"
        return None

    def _largest(self, number: int, which: str, expected: Array) -> float:
        if (number, which) not in self.largest:
            self.largest[number, which] = largest_of(expected)
        return self.largest[number, which]


def reference(setup: Setup, number: int, which: str) -> Path:
    """Where what the unoptimised kernel wrote is kept."""
    return Path(setup.folder) / f"{number}-{which}"


def sampled(setup: Setup, number: int, which: str) -> Path:
    """Where it is kept which elements the unoptimised kernel wrote, if it did not write all."""
    return Path(setup.folder) / f"{number}-{which}-written"


def extended(setup: Setup) -> Path:
    """There if the reference is an optimised kernel: two orders of summation are then twice as far apart."""
    return Path(setup.folder) / "extended"


def difference(
    array: Array,
    expected: Array,
    check: Check,
    which: str,
    mask: Array | None = None,
    largest: Callable[[], float] | None = None,
) -> str | None:
    """How an array is not what it has to be (where the mask holds, if there is one); None if it is.

    `largest` tells the largest number that is expected, if somebody knows; it is asked for if it matters.
    """
    exact = check.terms == 0 or (which == WHOLE and check.whole)
    allowed = 0.0
    for start in range(0, array.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        same = bits_of(array[part]) == bits_of(expected[part])
        if same.all():
            continue
        a, b = _wide(array[part]), _wide(expected[part])
        same |= np.isnan(a) & np.isnan(b)
        if check.terms:
            same |= a == b
        if not exact:
            allowed = allowed or (largest() if largest is not None else largest_of(expected))
            with np.errstate(invalid="ignore", over="ignore"):
                same |= np.abs(a - b) <= check.terms * check.eps * (np.abs(b) + allowed)
        if mask is not None:
            same |= ~mask[part]
        if not same.all():
            at = int(np.argmin(same))
            return (
                f"element {start + at} is {a[at]!s}, not {b[at]!s} ({np.count_nonzero(~same)} differ there)"
            )
    return None


def largest_of(array: Array) -> float:
    """The largest finite number, without its sign."""
    most = 0.0
    for start in range(0, array.size, _CHUNK):
        part = np.abs(_wide(array[start : start + _CHUNK]))
        most = max(most, float(part[np.isfinite(part)].max(initial=0.0)))
    return most


def _wide(part: Array) -> Array:
    return part if part.dtype.kind in "biu" else part.astype(np.float64)


def bits_of(array: Array) -> Array:
    """The same as unsigned integers."""
    return array.view(f"u{array.dtype.itemsize}")

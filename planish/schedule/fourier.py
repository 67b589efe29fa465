"""The tables of a Fourier transform: how its length is factored, and the roots of unity that its passes need.

`runtime.routines.fourier` reads them; the two agree on `_PLAN`, on the radices and on how many lines are transformed together.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish.records import dataclass

Array = NDArray[Any]
_RADICES: Final = (8, 4, 2, 3, 5, 7, 11, 13)
_LARGEST: Final = 251
_TOGETHER: Final = 4
_LANES: Final = {"float32": 16, "float64": 8}
_HEAD: Final = 14
_LONGEST: Final = 12288
_LONGEST_EVEN: Final = 3072
"""Lines up to here are transformed in lanes where there are enough of them; complex ones whose lengths are multiples of 1024, which
lie so that few of them fit into a cache, up to the second. Timed with a second cache of 1 MiB."""
_MOST: Final = 1 << 24
"""Tables grow with the length."""
COMPLEX, REAL_EVEN, REAL_ODD, SPECTRUM_EVEN, SPECTRUM_ODD = range(5)
_IN_LANES, _CONVOLUTION, _LONG = range(3)


@dataclass(frozen=True, slots=True)
class Tables:
    """What a transform is called with."""

    plan: Array
    roots: Array
    room: int
    """Bytes of scratch memory per chunk."""
    groups: int
    """Lines that are transformed together."""


def factors_of(n: int) -> list[int] | None:
    """The radices of a length; None if there are none for it."""
    radices = []
    for radix in (*_RADICES, *range(17, _LARGEST + 1, 2)):
        while n % radix == 0:
            radices.append(radix)
            n //= radix
    return radices if n == 1 else None


@dataclass(slots=True)
class _Making:
    """Tables in the making."""

    dtype: str
    plan: list[int] = field(default_factory=lambda: [0] * _HEAD)
    roots: list[Array] = field(default_factory=list)
    count: int = 0

    def table(self, values: Array) -> int:
        """Numbers at the end of the roots; where they begin."""
        begin = self.count
        self.roots.append(values.astype(self.dtype).reshape(-1))
        self.count += values.size
        return begin

    def unity(self, turns: Array, of: int) -> Array:
        """exp(-2πi · turns / of), real and imaginary parts beside each other."""
        angles = (turns % of) * (2 * np.pi / of)
        return np.stack([np.cos(angles), -np.sin(angles)], -1)

    def passes(self, n: int) -> int:
        """The passes of a length; where they begin."""
        begin, l1 = len(self.plan), 1
        factors = factors_of(n) or []
        self.plan.append(len(factors))
        for radix in factors:
            ido = n // (l1 * radix)
            turns = np.outer(np.arange(ido), np.arange(1, radix)) * l1
            waves = 0 if radix in _RADICES else self.table(_waves(radix))
            self.plan += [radix, ido, l1, self.table(self.unity(turns, n)), waves]
            l1 *= radix
        return begin


def _waves(radix: int) -> Array:
    """Cosines and sines of a large prime, by frequencies, pairs, cosine or sine, and frequency among a few."""
    half = (radix - 1) // 2
    blocks = -(-half // _TOGETHER)
    turns = np.outer(np.arange(1, blocks * _TOGETHER + 1), np.arange(1, half + 1)) % radix
    angles = turns.reshape(blocks, _TOGETHER, half) * (2 * np.pi / radix)
    return np.stack([np.cos(angles), np.sin(angles)], 1).transpose(0, 3, 1, 2)


def tables(dtype: str, n: int, mode: int, backward: bool, lines: int | None) -> Tables | None:
    """For lines of n complex numbers; None where tables would be too large. `lines`: how many there are, if that is known."""
    if n > _MOST:
        return None
    lanes, item = _LANES[dtype], np.dtype(dtype).itemsize
    making = _Making(dtype)
    real = n * 2 if mode in (REAL_EVEN, SPECTRUM_EVEN) else n
    making.table(np.array([1.0 / real if backward else 1.0]))
    making.table(np.zeros(15))  # what follows begins at a cache line
    plan = making.plan
    plan[:2] = mode, int(backward)
    plan[3] = n
    few = lines is not None and 2 * lines < lanes
    longest = _LONGEST_EVEN if mode == COMPLEX and n % 1024 == 0 else _LONGEST
    length = n if factors_of(n) is not None else _convolution_length(n)
    if length != n:
        plan[9] = length
        chirp = making.unity(np.arange(n, dtype=np.int64) ** 2 % (2 * n), 2 * n)
        whole = np.zeros(length, np.complex128)
        whole[:n] = chirp[:, 0] - 1j * chirp[:, 1]
        whole[length - n + 1 :] = whole[1:n][::-1]
        spectrum = np.fft.fft(whole) / length
        plan[13] = making.table(chirp)
        plan[12] = making.table(np.stack([spectrum.real, spectrum.imag], -1))
    split = _split(length) if few or length > longest else None
    if split is not None:
        n1, n2 = split
        padded = -(-n2 // lanes) * lanes
        plan[2], plan[4:7] = _LONG, (n1, n2, padded)
        plan[7], plan[8] = making.passes(n1), making.passes(n2)
        # roots of the columns of a vector, then of its first column: their products are those of all columns
        within = making.unity(np.outer(np.arange(n1), np.arange(lanes)), length)
        starts = making.unity(np.outer(np.arange(0, padded, lanes), np.arange(n1)), length)
        plan[10] = making.table(np.moveaxis(within, -1, 1))
        making.table(starts)
        room = 2 * (max(n1, n2) + 1) * 2 * lanes + 2 * (2 * length + 2) + 2 * n1 * padded
    else:
        plan[2], plan[7] = _IN_LANES if length == n else _CONVOLUTION, making.passes(length)
        room = 2 * (length + 1) * 2 * lanes
    if mode in (REAL_EVEN, SPECTRUM_EVEN):
        plan[11] = making.table(making.unity(np.arange(n + 1), 2 * n))
    groups = 1 if plan[2] == _LONG else lanes
    return Tables(np.array(plan, np.int64), np.concatenate(making.roots), room * item, groups)


def _split(n: int) -> tuple[int, int] | None:
    """Two factors of about the same size, with radices; None if there are none worth it."""
    if factors_of(n) is None:
        return None
    for n1 in range(int(np.sqrt(n)), 7, -1):
        if n % n1 == 0:
            return n1, n // n1
    return None


def _convolution_length(n: int) -> int:
    """The least length above 2 n - 2 with small radices only."""
    length = 2 * n - 1
    while True:
        rest = length
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1 and length % 4 == 0:
            return length
        length += 1

"""Intervals through bits and remainders: the tight bounds of `&`, `^`, `%` and bit counts.

Every function takes closed intervals of exact (unbounded, two's complement) integers and returns the least and the
greatest result that independent operands inside them reach; `remainder` may give up tightness, never soundness, on
intervals of divisors that would take too many steps.
"""

from __future__ import annotations

from typing import Final

Interval = tuple[int, int]

_STEPS: Final = 64
"""Runs of divisors with a common quotient that `remainder` looks at before it settles for a sound bound."""


def _halves(x: Interval) -> list[Interval]:
    """The negative and the other part."""
    a, b = x
    return [x] if a >= 0 or b < 0 else [(a, -1), (0, b)]


def conjunction(x: Interval, y: Interval) -> Interval:
    """The interval of `x & y`."""
    (a, b), (c, d) = x, y
    if a == b and c == d:
        return a & c, a & c
    if c == d and c >= 0 and c & c + 1 == 0:  # a mask of low bits: the remainder by a power of two
        return (a & c, b & c) if a // (c + 1) == b // (c + 1) else (0, c)
    size = max(n.bit_length() for n in (a, b, c, d)) + 1
    bias = 1 << size
    lows, highs = [], []
    for p, q in _halves(x):
        for r, s in _halves(y):
            # As unsigned numbers of `size` bits, negatives with the top bit set; both negative keep it.
            ends = (p % bias, q % bias, r % bias, s % bias)
            back = bias if p < 0 and r < 0 else 0
            lows.append(_least_and(*ends, size) - back)
            highs.append(_greatest_and(*ends, size) - back)
    return min(lows), max(highs)


def difference(x: Interval, y: Interval) -> Interval:
    """The interval of `x ^ y`."""
    (a, b), (c, d) = x, y
    if a == b and c == d:
        return a ^ c, a ^ c
    size = max(n.bit_length() for n in (a, b, c, d))
    lows, highs = [], []
    for p, q in _halves(x):
        for r, s in _halves(y):
            # ~n ^ m is ~(n ^ m): work on non-negative numbers, and flip the result if one sign was turned.
            turned = (p < 0) != (r < 0)
            p1, q1 = (~q, ~p) if p < 0 else (p, q)
            r1, s1 = (~s, ~r) if r < 0 else (r, s)
            low, high = _least_xor(p1, q1, r1, s1, size), _greatest_xor(p1, q1, r1, s1, size)
            lows.append(~high if turned else low)
            highs.append(~low if turned else high)
    return min(lows), max(highs)


def _least_and(a: int, b: int, c: int, d: int, size: int) -> int:
    # The highest bit that neither has may be granted to one of them, if it can then drop all lower bits.
    for i in reversed(range(size)):
        bit = 1 << i
        if not (a | c) & bit:
            raised = (a | bit) & -bit
            if raised <= b:
                a = raised
                break
            raised = (c | bit) & -bit
            if raised <= d:
                c = raised
                break
    return a & c


def _greatest_and(a: int, b: int, c: int, d: int, size: int) -> int:
    # The highest bit that only one has is lost anyway: that one may give it up for all lower bits.
    for i in reversed(range(size)):
        bit = 1 << i
        if b & ~d & bit:
            lowered = (b & ~bit) | (bit - 1)
            if lowered >= a:
                b = lowered
                break
        elif d & ~b & bit:
            lowered = (d & ~bit) | (bit - 1)
            if lowered >= c:
                d = lowered
                break
    return b & d


def _least_xor(a: int, b: int, c: int, d: int, size: int) -> int:
    # A bit that only one has costs; the other may join in, if it stays within its interval.
    for i in reversed(range(size)):
        bit = 1 << i
        if ~a & c & bit:
            raised = (a | bit) & -bit
            if raised <= b:
                a = raised
        elif a & ~c & bit:
            raised = (c | bit) & -bit
            if raised <= d:
                c = raised
    return a ^ c


def _greatest_xor(a: int, b: int, c: int, d: int, size: int) -> int:
    # A bit that both have cancels; one may give it up for all lower bits, if it stays within its interval.
    for i in reversed(range(size)):
        bit = 1 << i
        if b & d & bit:
            lowered = (b - bit) | (bit - 1)
            if lowered >= a:
                b = lowered
            else:
                lowered = (d - bit) | (bit - 1)
                if lowered >= c:
                    d = lowered
    return b ^ d


def remainder(a: int, b: int, c: int, d: int) -> Interval:
    """The interval of `x % y` for a ≤ x ≤ b and 1 ≤ c ≤ y ≤ d."""
    quotient = b // d
    if a // d != quotient:
        return 0, d - 1
    if quotient == 0 and b < c:
        return a, b
    low, high = d, -1
    y = d
    for _ in range(_STEPS):
        quotient = b // y
        if a // y != quotient:  # both a multiple of y and the number before it are in reach
            low, high = 0, max(high, y - 1)
            first = y
        # All divisors from `first` to y give both ends this quotient: x % y = x - quotient * y.
        elif quotient >= 0:
            first = max(c, b // (quotient + 1) + 1)
            low, high = min(low, a - quotient * y), max(high, b - quotient * first)
        else:
            first = max(c, -(-a // quotient))
            low, high = min(low, a - quotient * first), max(high, b - quotient * y)
        y = first - 1
        if y < c or (low == 0 and high >= y - 1):
            return low, high
    return 0, max(high, min(y - 1, b) if a >= 0 else y - 1)


def ones(x: Interval, size: int) -> Interval:
    """The interval of the number of one bits, of numbers of `size` bits."""
    lows, highs = [], []
    for a, b in _halves(x):
        p, q = (~b, ~a) if a < 0 else (a, b)
        least, most = _least_ones(p, q), _most_ones(p, q)
        lows.append(size - most if a < 0 else least)
        highs.append(size - least if a < 0 else most)
    return min(lows), max(highs)


def _least_ones(a: int, b: int) -> int:
    """a itself, or a rounded up to the multiples of powers of two."""
    rounded = [((a >> i) + 1) << i for i in range(b.bit_length())]
    return min(n.bit_count() for n in (a, *rounded) if n <= b)


def _most_ones(a: int, b: int) -> int:
    """b itself, or b rounded down to a multiple of a power of two, less one."""
    rounded = [(b >> i << i) - 1 for i in range(b.bit_length())]
    return max(n.bit_count() for n in (b, *rounded) if n >= a)

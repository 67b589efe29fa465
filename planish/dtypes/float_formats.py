"""Binary float formats as data, and correct rounding to any of them.

A value is rounded once, by integer arithmetic, whatever it comes from: going through float32 on the way to
bfloat16 or float8, as converters often do, rounds twice and can end one unit off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary float format: `precision` counts the hidden bit, `least` is log2 of the smallest subnormal."""

    precision: int
    least: int
    largest: float
    has_infinity: bool = True

    @property
    def eps(self) -> float:
        """The gap between 1 and the next larger value."""
        return math.ldexp(1.0, 1 - self.precision)

    @property
    def smallest_normal(self) -> float:
        return math.ldexp(1.0, self.least + self.precision - 1)

    def contains(self, other: FloatFormat) -> bool:
        """Every value of `other` is a value of this format."""
        return (
            self.precision >= other.precision
            and self.least <= other.least
            and self.largest >= other.largest
            and self.has_infinity >= other.has_infinity
        )

    def round(self, value: int | float) -> float:
        """The nearest value, ties to even, in one rounding; overflow gives infinity, or NaN where there is none."""
        if isinstance(value, float) and (value == 0.0 or not math.isfinite(value)):
            if math.isnan(value):
                return math.nan  # one NaN: sign and payload are not part of a constant
            return value if self.has_infinity or value == 0.0 else math.nan
        exponent = math.frexp(value)[1] if isinstance(value, float) else value.bit_length()
        unit = max(exponent - self.precision, self.least)
        if isinstance(value, float):
            units = round(math.ldexp(value, -unit))  # the scaling is exact, round() is ties-to-even
        else:
            units = _shift_right_to_even(value, unit)
        try:
            rounded = math.ldexp(units, unit)
        except OverflowError:
            rounded = math.copysign(math.inf, value if isinstance(value, float) else (1 if value > 0 else -1))
        if abs(rounded) > self.largest:
            return math.copysign(math.inf, rounded) if self.has_infinity else math.nan
        # Underflow keeps the sign; the integer 0 has none.
        return math.copysign(rounded, value) if isinstance(value, float) else rounded


def _shift_right_to_even(value: int, shift: int) -> int:
    """Divide by 2**shift and round to an integer, ties to even; a negative shift multiplies."""
    if shift <= 0:
        return value << -shift
    quotient = value >> shift
    remainder = value - (quotient << shift)
    half = 1 << (shift - 1)
    return quotient + (remainder > half or (remainder == half and quotient & 1 == 1))


E4M3FN = FloatFormat(4, -9, 448.0, has_infinity=False)
E5M2 = FloatFormat(3, -16, 57344.0)
BINARY16 = FloatFormat(11, -24, 65504.0)
BFLOAT16 = FloatFormat(8, -133, float.fromhex("0x1.fep127"))
TENSOR32 = FloatFormat(11, -136, float.fromhex("0x1.ffcp127"))
BINARY32 = FloatFormat(24, -149, float.fromhex("0x1.fffffep127"))
BINARY64 = FloatFormat(53, -1074, float.fromhex("0x1.fffffffffffffp1023"))

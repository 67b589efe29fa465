"""Float arithmetic on nodes, as a small language: bits and exponents, polynomials, pairs of floats.

A function of a float is written once, in terms of `Reals`, and serves float32 and float64, scalars and vectors, targets with
and without a fused multiply-add. Where one float is too short a value is a `Pair`: the unevaluated sum of a float and a
much smaller one. Sums and products are split into pairs exactly (Knuth, Dekker), so strict float semantics is all that is
needed; nothing here survives reassociation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from planish import dtypes
from planish.dtypes import DType
from planish.records import dataclass
from planish.stages.linearizer.decompositions.coefficients import Coefficients
from planish.stages.linearizer.decompositions.support import Support
from planish.uop.node import UOp
from planish.uop.ops import Ops

LN2_HIGH: Final = {32: 0.693145751953125, 64: 0.6931471803691238}
"""ln 2 with enough zeros at the end that a product with any exponent is exact."""
LN2_LOW: Final = {32: 1.428606765330187e-06, 64: 1.9082149292705877e-10}


@dataclass(frozen=True, slots=True)
class Format:
    """An IEEE format: its integer types of the same width, and where its fields lie."""

    dtype: DType
    signed: DType
    word: DType
    mantissa: int
    bias: int

    @property
    def bits(self) -> int:
        return self.dtype.bits

    @property
    def precision(self) -> int:
        return self.mantissa + 1

    def pattern(self, value: float) -> int:
        """The bits of a constant, as a signed integer."""
        return int(
            struct.unpack(
                *(("<i", struct.pack("<f", value)) if self.bits == 32 else ("<q", struct.pack("<d", value)))
            )[0]
        )


SINGLE: Final = Format(dtypes.float32, dtypes.int32, dtypes.uint32, 23, 127)
DOUBLE: Final = Format(dtypes.float64, dtypes.int64, dtypes.uint64, 52, 1023)


class Pair(NamedTuple):
    """hi + lo, where |lo| is at most about half a unit in the last place of hi."""

    hi: UOp
    lo: UOp


class Reals:
    """Builds arithmetic in the format and lanes of a given node."""

    def __init__(self, like: UOp, support: Support) -> None:
        self.table = like.table
        self.lanes = like.dtype.lanes
        self.dtype = like.dtype
        self.format = SINGLE if like.dtype.bits == 32 else DOUBLE
        self.fused = support.fused
        self.tables = support.tables
        self.estimates = support.estimates and self.format is SINGLE
        self.entries = 512 // self.format.bits  # of a table in the widest register
        self.branches = support.branches
        self.signed = self.format.signed.vec(self.lanes)
        self.word = self.format.word.vec(self.lanes)

    # -- constants and bits -----------------------------------------------------------------------------------------

    def pick(self, single: float, double: float) -> float:
        """The number for this format."""
        return single if self.format is SINGLE else double

    def const(self, value: float) -> UOp:
        return self.table.const(float(value), self.dtype)

    def int(self, value: int) -> UOp:
        return self.table.const(value, self.signed)

    def bits(self, x: UOp) -> UOp:
        """The pattern of a float, as a signed integer."""
        return x.bitcast(self.signed)

    def from_bits(self, x: UOp) -> UOp:
        return x.bitcast(self.dtype)

    def magnitude(self, x: UOp) -> UOp:
        """|x|, by clearing the sign bit."""
        return self.from_bits(self.bits(x) & ((1 << (self.format.bits - 1)) - 1))

    def sign(self, x: UOp) -> UOp:
        """The sign bit alone, as a pattern."""
        return self.sign_bit(self.bits(x))

    def sign_bit(self, pattern: UOp) -> UOp:
        """The sign bit of a pattern alone."""
        return pattern & -(1 << (self.format.bits - 1))

    def with_sign(self, x: UOp, sign: UOp) -> UOp:
        """x with its sign flipped where the pattern `sign` has the sign bit."""
        return self.from_bits(self.bits(x) ^ sign)

    def power(self, n: UOp) -> UOp:
        """2**n, n an integer node within the normal exponents."""
        return self.from_bits((n + self.format.bias) << self.format.mantissa)

    def scale(self, x: UOp, n: UOp) -> UOp:
        """x * 2**n, rounded once: in two steps, so that n may go to about twice the range of exponents."""
        half = n >> 1
        return x * self.power(half) * self.power(n - half)

    def nearest(self, x: UOp) -> tuple[UOp, UOp]:
        """x rounded to an integer, as a float and as an integer node; |x| well below 2**(mantissa - 2)."""
        magic = 1.5 * 2.0**self.format.mantissa
        shifted = x + magic
        return shifted - magic, self.bits(shifted) - self.format.pattern(magic)

    def nearest_power(self, x: UOp, factor: float = 1.0) -> tuple[UOp, UOp]:
        """x * factor rounded to an integer n, as a float, and 2**n as an integer node that `times_power` takes."""
        # what is added to round leaves n in the last bits, already biased for two factors
        magic = 1.5 * 2.0**self.format.mantissa + 2 * self.format.bias
        shifted = x + magic if factor == 1.0 else self.fma(x, self.const(factor), self.const(magic))
        return shifted - magic, self.bits(shifted)

    def near_power(self, x: UOp, factor: float = 1.0) -> tuple[UOp, UOp]:
        """x * factor rounded to an integer n, as a float, and 2**n: n within the normal exponents."""
        magic = 1.5 * 2.0**self.format.mantissa + self.format.bias
        shifted = self.fma(x, self.const(factor), self.const(magic))
        return shifted - magic, self.from_bits(self.bits(shifted) << self.format.mantissa)

    def times_power(self, x: UOp, power: UOp) -> UOp:
        """x * 2**n, rounded once: in two steps, as `scale` does it; the bits above the exponent are shifted out."""
        half, mantissa = power >> 1, self.format.mantissa
        return x * self.from_bits(half << mantissa) * self.from_bits((power - half) << mantissa)

    def nearest_entry(self, x: UOp, factor: float = 1.0) -> tuple[UOp, UOp]:
        """x * factor rounded to a multiple of 1/entries, as a float, and its place in a table of what follows the point."""
        magic = 1.5 * 2.0**self.format.mantissa / self.entries
        shifted = x + magic if factor == 1.0 else self.fma(x, self.const(factor), self.const(magic))
        return shifted - magic, self.bits(shifted)

    def power_estimate(self, x: UOp) -> UOp:
        """2 ** x, from an estimate for what follows the point; of any x, results below the normal numbers too.

        The estimate is best from 0 to 1. Beyond the exponents it gets more than that, and is 0, or infinite, where the result is.
        """
        magic = 1.5 * 2.0**self.format.mantissa + self.format.bias
        least, most = magic - self.format.bias + 1, magic + self.format.bias
        shifted = (x - 0.5 + magic).alu(Ops.MAX, self.const(least)).alu(Ops.MIN, self.const(most))
        rest = x - (shifted - magic)
        return rest.alu(Ops.EXP2_ESTIMATE) * self.from_bits(self.bits(shifted) << self.format.mantissa)

    def lookup(self, values: Sequence[float], place: UOp) -> UOp:
        """The constant at a place, modulo their number."""
        table = self.table.vconst(tuple(map(float, values)), self.format.dtype)
        return self.table.make(Ops.LOOKUP, self.dtype, (table, place))

    def from_int(self, n: UOp) -> UOp:
        """A small integer node as a float: |n| < 2**(mantissa - 1)."""
        magic = 1.5 * 2.0**self.format.mantissa
        return self.from_bits(n + self.format.pattern(magic)) - magic

    def split(self, x: UOp, low: float) -> tuple[UOp, UOp]:
        """m and n with x = m * 2**n and low <= m < 2 * low; x positive, normal and finite."""
        pattern = self.bits(x)
        n = (pattern - self.format.pattern(low)) >> self.format.mantissa
        return self.from_bits(pattern - (n << self.format.mantissa)), n

    def lift_subnormal(self, x: UOp) -> tuple[UOp, UOp]:
        """x, or x * 2**k where x is below the normal numbers, and then -k (else 0) as an integer node."""
        k = self.format.mantissa + 2
        tiny = x < 2.0 ** (1 - self.format.bias)
        return tiny.where(x * 2.0**k, x), tiny.where(self.int(-k), 0)

    def is_normal(self, x: UOp) -> UOp:
        """Whether x is positive, finite and not below the normal numbers: one comparison of patterns."""
        least, end = self.format.pattern(2.0 ** (1 - self.format.bias)), self.format.pattern(float("inf"))
        return (x.bitcast(self.word) - least) < end - least

    # -- one float --------------------------------------------------------------------------------------------------

    def fma(self, x: UOp, y: UOp, z: UOp) -> UOp:
        """x * y + z, rounded once where that is fast, else twice."""
        return x.alu(Ops.MULACC, y, z) if self.fused else x * y + z

    def polynomial(self, x: UOp, coefficients: Coefficients) -> UOp:
        """Σ cᵢ xⁱ by Horner's rule."""
        *rest, value = map(self.const, coefficients.single if self.format is SINGLE else coefficients.double)
        for coefficient in reversed(rest):
            value = self.fma(value, x, coefficient)
        return value

    def clamp(self, x: UOp, low: float, high: float) -> UOp:
        """x within the ends; NaN stays NaN."""
        below = (x > high).where(self.const(high), x)
        return (below < low).where(self.const(low), below)

    def nan_where(self, condition: UOp, x: UOp) -> UOp:
        return condition.where(self.const(float("nan")), x)

    def rare(self, condition: UOp, costly: UOp, cheap: UOp) -> UOp:
        """The costly value where the condition holds, which it hardly ever does; else the cheap one."""
        if not self.branches:
            return condition.where(costly, cheap)
        return self.table.make(Ops.RARE, cheap.dtype, (condition, costly, cheap))

    # -- pairs ------------------------------------------------------------------------------------------------------

    def sum(self, x: UOp, y: UOp) -> Pair:
        """x + y exactly."""
        total = x + y
        second = total - x
        return Pair(total, (x - (total - second)) + (y - second))

    def ordered_sum(self, x: UOp, y: UOp) -> Pair:
        """x + y exactly, where |x| >= |y| or x is 0."""
        total = x + y
        return Pair(total, y - (total - x))

    def product(self, x: UOp, y: UOp) -> Pair:
        """x * y exactly (without a fused multiply-add: |x|, |y| below 2**(max exponent - precision/2))."""
        high = x * y
        if self.fused:
            return Pair(high, x.alu(Ops.MULACC, y, -high))
        (a, b), (c, d) = self._halves(x), self._halves(y)
        return Pair(high, ((a * c - high) + a * d + b * c) + b * d)

    def _halves(self, x: UOp) -> tuple[UOp, UOp]:
        """x as the sum of two floats of half the precision each."""
        shifted = x * (2.0 ** ((self.format.precision + 1) // 2) + 1)
        high = shifted - (shifted - x)
        return high, x - high

    def rest(self, x: UOp, y: UOp, z: UOp) -> UOp:
        """z - x * y, where that is (nearly) representable: the rest of a division or of a root."""
        if self.fused:
            return (-x).alu(Ops.MULACC, y, z)
        high, low = self.product(x, y)
        return (z - high) - low

    def constant_pair(self, high: float, low: float) -> Pair:
        return Pair(self.const(high), self.const(low))

    def add(self, x: Pair, y: Pair) -> Pair:
        high, low = self.sum(x.hi, y.hi)
        return self.ordered_sum(high, low + (x.lo + y.lo))

    def multiply(self, x: Pair, y: Pair) -> Pair:
        high, low = self.product(x.hi, y.hi)
        return self.ordered_sum(high, low + self.fma(x.hi, y.lo, x.lo * y.hi))

    def divide(self, x: Pair, y: Pair) -> Pair:
        """x / y to nearly twice the precision."""
        inverse = self.const(1.0) / y.hi if self.fused else None
        quotient = x.hi / y.hi if inverse is None else x.hi * inverse
        rest = self.rest(quotient, y.hi, x.hi) + (x.lo - quotient * y.lo)
        return self.ordered_sum(quotient, rest / y.hi if inverse is None else rest * inverse)

    def root(self, x: Pair) -> Pair:
        """sqrt(x), x > 0."""
        root = x.hi.alu(Ops.SQRT)
        return self.ordered_sum(root, (self.rest(root, root, x.hi) + x.lo) / (root + root))


Function = Callable[..., UOp]
"""Called with the `Reals` of the operands and the operands."""
FUNCTIONS: Final[dict[Ops, tuple[Function, str]]] = {}
"""What each op is in terms of simpler ones, and the equation."""
F = TypeVar("F", bound=Function)


def decomposes(op: Ops, says: str) -> Callable[[F], F]:
    """Make a function the decomposition of an op, for targets that lack it."""

    def register(function: F) -> F:
        FUNCTIONS[op] = (function, says)
        return function

    return register

"""The table of scalar laws, in the order in which kernels try them.

Integers wrap and `index` is exact, so their laws are those of a ring. Of floats only what holds bit for bit is here:
`x + -0.0`, `x * 1`, signs; what only real numbers obey is in `FAST`. Max and min give NaN if either operand is NaN, so
absorption is no law of floats. A constant stands on the right of a commutative op.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from planish.algebra.kinds import (
    ARITHMETIC,
    BITS,
    BOOL,
    FLOAT,
    INDEX,
    INEXACT,
    INTEGERS,
    INTEGRAL,
    NUMBERS,
    REAL,
    SIGNED,
    UNSIGNED,
)
from planish.algebra.law import Law, law
from planish.dtypes import DType
from planish.scalars import FUNCTIONS as SCALARS
from planish.scalars import Scalar

TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
EQUALITIES: Final = ("==", "!=")
SHIFTING: Final = ("shl", "shr_logical", "shr_arithmetic")


def _names(is_such: Callable[[Scalar], bool]) -> tuple[str, ...]:
    """The functions of one number that are such, as laws call them."""
    return tuple((f.kernel or f.name).lower() for f in SCALARS.values() if f.arity == 1 and is_such(f))


ROUNDING: Final = _names(lambda f: f.idempotent)
EVEN: Final = _names(lambda f: f.parity == "even")
"""f(-x) is f(x), f(|x|) is f(x); to the last bit. Of numbers with a sign `abs` is one too."""
ODD: Final = _names(lambda f: f.parity == "odd")
"""f(-x) is -f(x) for floats, zeros included; to the last bit."""
NOT_NEGATIVE: Final = ("abs", *_names(lambda f: f.positive), "popcount", "clz")
"""Never below zero, and never -0."""


def _is_unit(c: int) -> bool:
    return c in {-1, 0, 1}


def _product_fits(a: int, b: int, dtype: DType) -> bool:
    return a > 0 and b > 0 and dtype.wrap(a * b) == a * b


def _divides(a: int, b: int) -> bool:
    return a > 0 and b > 0 and a % b == 0


def _not_more(a: int, b: int) -> bool:
    return 0 < a <= b


def _within(c: int, dtype: DType) -> bool:
    return 0 < c < dtype.bits


def _beyond(c: int, dtype: DType) -> bool:
    return not 0 <= c < dtype.bits


def _sum_within(a: int, b: int, dtype: DType) -> bool:
    return _within(a, dtype) and _within(b, dtype) and a + b < dtype.bits


def _sum_beyond(a: int, b: int, dtype: DType) -> bool:
    return _within(a, dtype) and _within(b, dtype) and a + b >= dtype.bits


def _same_within(a: int, c: int, dtype: DType) -> bool:
    return a == c and _within(c, dtype)


def _has_next(c: int, dtype: DType) -> bool:
    return c != dtype.max


def _has_previous(c: int, dtype: DType) -> bool:
    return c != dtype.min


def _in_order(a: float, b: float) -> bool:
    """Whether a is not above b in the order of max and min, which has -0 below +0 and no place for NaN."""
    return a < b or (a == b and math.copysign(1.0, a) <= math.copysign(1.0, b))


def _in_reverse(a: float, b: float) -> bool:
    return _in_order(b, a)


# fmt: off
SUMS: Final[tuple[Law, ...]] = (
    law("x + 0 -> x", INTEGRAL, "FoldAddZero"),
    law("x + -0.0 -> x", INEXACT, "FoldAddZero", uop=FLOAT),
    law("x - x -> 0", INTEGERS, "FoldSubOfSame"),
    law("float: x - c -> x + -c", INEXACT, "ReplaceSubOfConstantByAdd", uop=FLOAT),
    law("0 - x -> -x", INTEGERS, "ReplaceSubFromZeroByNeg"),
    law("-0.0 - x -> -x", INEXACT, "ReplaceSubFromZeroByNeg", uop=FLOAT),
    law("x + -y -> x - y", NUMBERS, "ReplaceAddOfNegBySub", uop=ARITHMETIC),
    law("x - -y -> x + y", NUMBERS, "ReplaceSubOfNegByAdd", uop=ARITHMETIC),
    law("-(-x) -> x", NUMBERS, "RemoveInvolution", uop=ARITHMETIC),
    law("-(x - y) -> y - x", INTEGERS, "ReplaceNegOfSub"),
    law("(x + y) - x -> y", INTEGERS, "CancelSubOfAdd"),
    law("(x - y) + y -> x", INTEGERS, "CancelAddOfSub"),
    law("x - (x + y) -> -y", INTEGERS),
    law("x - (x - y) -> y", INTEGERS, "CancelSubOfSub"),
    law("(x - y) - x -> -y", INTEGERS, "CancelSubOfSub", uop=False),
    law("(a - x) + b -> (a + b) - x", INTEGERS, "CombineConstantsAroundSub", uop=False),
    law("a - (x + b) -> (a - b) - x", INTEGERS, "CombineConstantsAroundSub", uop=False),
    law("x + x -> x * 2", INTEGERS, "ReplaceAddOfSameByMul", uop=False),
    law("-(x + c) -> -c - x", INTEGERS, "FoldNegIntoConstant", uop=False, once=True),
)
TERMS: Final = (
    law("int: x - c -> x + -c", INTEGERS, "ReplaceSubOfConstantByAdd"),
    law("int: (x + a) + b -> x + (a + b)", INTEGERS, "ReassociateAdd"),
    law("int: (x * a) * b -> x * (a * b)", INTEGERS, "ReassociateMul"),
)
LIKE_TERMS: Final = (
    law("int: (x + a) + (y + b) -> (x + y) + (a + b)", INTEGERS),
    law("int: x*a + x*b -> x * (a + b)", INTEGERS),
    law("int: x*c + x -> x * (c + 1)", INTEGERS),
    law("x*a - x*b -> x * (a - b)", INTEGERS, "CollectLikeTermsOfSub", uop=False),
    law("x*c - x -> x * (c - 1)", INTEGERS, "CollectLikeTermsOfSub", uop=False),
    law("x - x*c -> x * (1 - c)", INTEGERS, "CollectLikeTermsOfSub", uop=False),
)
PRODUCTS: Final = (
    law("x * 1 -> x", REAL, "FoldMulByOne"),
    law("x * 0 -> 0", INTEGRAL, "FoldMulByOne"),
    law("x * -1 -> -x", REAL, "FoldMulByOne", uop=ARITHMETIC),
    law("-x * c -> x * -c", REAL, "CancelNegsInProduct", uop=ARITHMETIC),
    law("-x * -y -> x * y", REAL, "CancelNegsInProduct", uop=ARITHMETIC),
    law("-(x * c) -> x * -c", REAL, "FoldNegIntoConstant", uop=False, once=True),
)
QUOTIENTS: Final = (
    law("1.0 / x -> recip(x)", FLOAT, "ReplaceDivOfOneByReciprocal"),
    law("-x / -y -> x / y", FLOAT, "CancelNegsInProduct"),
    law("-x / c -> x / -c", FLOAT, "CancelNegsInProduct"),
    law("-(x / c) -> x / -c", FLOAT, "FoldNegIntoConstant", uop=False, once=True),
)
TRUNCATING: Final = (
    law("truncdiv(x, 1) -> x", INTEGRAL, "FoldDivisionByUnit"),
    law("truncdiv(x, -1) -> -x", INTEGRAL, "FoldDivisionByUnit"),
    law("truncdiv(x, 0) -> 0", INTEGERS, "FoldDivisionByUnit"),
    law("truncmod(x, c) -> 0, c in {-1, 0, 1}", INTEGERS, "FoldRemainderByUnit", when=_is_unit),
    law("truncmod(x, x) -> 0", INTEGERS),
    law("truncdiv(x, y) -> x // y", UNSIGNED, "NormalizeUnsignedDivision", uop=False),
    law("truncmod(x, y) -> x % y", UNSIGNED, "NormalizeUnsignedDivision", uop=False),
    law("truncdiv(truncdiv(x, a), b) -> truncdiv(x, a * b) when a, b > 0", INTEGERS, "FoldDivisionOfDivision", uop=False, when=_product_fits),
    law("truncmod(truncmod(x, a), b) -> truncmod(x, a) when a <= b", INTEGERS, "FoldRemainderOfRemainder", uop=False, when=_not_more),
    law("truncmod(truncmod(x, a), b) -> truncmod(x, b) when b divides a", INTEGERS, "FoldRemainderOfRemainder", uop=False, when=_divides),
    law("truncdiv(x % a, b) -> 0 when a <= b", INTEGERS, "FoldDivisionOfRemainder", uop=False, when=_not_more),
)
FLOORING: Final = (
    law("int: x // 1 -> x", INTEGERS, "FoldDivisionByUnit"),
    law("int: x // -1 -> -x", INTEGERS, "FoldDivisionByUnit"),
    law("int: x // 0 -> 0", INTEGERS, "FoldDivisionByUnit"),
)
FLOORING_TWICE: Final = (
    law("(x % a) // b -> 0 when a <= b", INTEGERS, "FoldDivisionOfRemainder", uop=False, when=_not_more),
    law("int: x % c -> 0, c in {-1, 0, 1}", INTEGERS, "FoldRemainderByUnit", when=_is_unit),
    law("x % x -> 0", INTEGRAL),
    law("int: (x // a) // b -> x // (a*b) when a, b > 0", INTEGERS, "FoldDivisionOfDivision", when=_product_fits),
    law("(x % a) % b -> x % a when a <= b", INTEGERS, "FoldRemainderOfRemainder", uop=False, when=_not_more),
    law("int: (x % a) % b -> x % b when b divides a", INTEGERS, "FoldRemainderOfRemainder", when=_divides),
)
FUNCTIONS: Final = (
    law("sign(sign(x)) -> sign(x)", REAL, "RemoveRepeatedSign", uop=False),
    law("abs(x) -> x", UNSIGNED, "RemoveAbsOfUnsigned", uop=False),
    law("abs(x * x) -> x * x", FLOAT, "RemoveAbsOfSquare", uop=False),
    law("abs(hypot(x, y)) -> hypot(x, y)", FLOAT, "RemoveAbsOfNotNegative", uop=False),
    law("abs(conj(x)) -> abs(x)", None, "RemoveSignBelowEven", uop=False),
    law("abs(-x) -> abs(x)", INEXACT | SIGNED, "RemoveSignBelowEven", uop=False),
    *[law(f"{f}({g}(x)) -> {g}(x)", FLOAT, "RemoveRepeatedRounding", uop=False) for f in ROUNDING for g in ROUNDING],
    *[law(f"abs({f}(x)) -> {f}(x)", REAL, "RemoveAbsOfNotNegative", uop=False) for f in NOT_NEGATIVE],
    *[law(f"{f}(-x) -> {f}(x)", FLOAT, "RemoveSignBelowEven", uop=False) for f in EVEN],
    *[law(f"{f}(abs(x)) -> {f}(x)", FLOAT, "RemoveSignBelowEven", uop=False) for f in EVEN],
    *[law(f"{f}(-x) -> -{f}(x)", FLOAT, "SinkNegBelowOdd", uop=False) for f in ODD],
)
PARTS: Final = (
    law("real(complex(x, y)) -> x", None, "FoldPartOfComplex", uop=False),
    law("imag(complex(x, y)) -> y", None, "FoldPartOfComplex", uop=False),
    law("real(conj(x)) -> real(x)", None, "SinkSignBelowPart", uop=False),
    law("imag(conj(x)) -> -imag(x)", None, "SinkSignBelowPart", uop=False),
    law("real(-x) -> -real(x)", None, "SinkSignBelowPart", uop=False),
    law("imag(-x) -> -imag(x)", None, "SinkSignBelowPart", uop=False),
    law("real(x + y) -> real(x) + real(y)", None, "SplitPartOfSum", uop=False, once=True),
    law("real(x - y) -> real(x) - real(y)", None, "SplitPartOfSum", uop=False, once=True),
    law("imag(x + y) -> imag(x) + imag(y)", None, "SplitPartOfSum", uop=False, once=True),
    law("imag(x - y) -> imag(x) - imag(y)", None, "SplitPartOfSum", uop=False, once=True),
    law("complex(real(x), imag(x)) -> x", None, "FoldComplexOfParts", uop=False),
    law("conj(complex(x, y)) -> complex(x, -y)", None, "FoldConjOfComplex", uop=False),
)
POWERS: Final = (
    law("x ** 0 -> 1", REAL, "ReplaceSmallPower"),
    law("x ** 1 -> x", REAL, "ReplaceSmallPower"),
    law("x ** 2 -> x * x", REAL, "ReplaceSmallPower"),
    law("x ** -1 -> recip(x)", FLOAT),
    law("1 ** x -> 1", REAL),
)
MULTIPLY_ADD: Final = (
    law("mulacc(x, 1, z) -> x + z", REAL),
    law("mulacc(x, 0, z) -> z", INTEGRAL),
    law("mulacc(x, y, 0) -> x * y", INTEGRAL),
    law("mulacc(x, y, -0.0) -> x * y", FLOAT),
)
BITWISE: Final = (
    # -- neutral, absorbing, idempotent ---------------------------------------------------------------------------
    law("x & 0 -> 0", BITS, "FoldBitZero"),
    law("x & ones -> x", BITS, "FoldBitUnit"),
    law("x | 0 -> x", BITS, "FoldBitUnit"),
    law("x | ones -> ones", BITS, "FoldBitZero"),
    law("x ^ 0 -> x", BITS, "FoldBitUnit"),
    law("x ^ ones -> ~x", BITS, "ReplaceXorOfOnesByNot"),
    law("x & x -> x", BITS, "FoldIdempotentOfSame"),
    law("x | x -> x", BITS, "FoldIdempotentOfSame"),
    law("x ^ x -> 0", BITS, "FoldXorOfSame"),
    # -- complement -----------------------------------------------------------------------------------------------
    law("~~x -> x", None, "RemoveInvolution"),
    law("conj(conj(x)) -> x", None, "RemoveInvolution", uop=False),
    law("x & ~x -> 0", BITS, "FoldComplement"),
    law("x | ~x -> ones", BITS, "FoldComplement"),
    law("x ^ ~x -> ones", BITS, "FoldComplement"),
    law("~x ^ ~y -> x ^ y", BITS, "CancelNotsOfXor"),
    law("~x ^ c -> x ^ ~c", BITS, "CancelNotsOfXor"),
    law("~(~x ^ y) -> x ^ y"),
    law("int: ~x & ~y -> ~(x | y)", BITS, "JoinNots", uop=INTEGERS, once=True),
    law("int: ~x | ~y -> ~(x & y)", BITS, "JoinNots", uop=INTEGERS, once=True),
    # -- absorption -----------------------------------------------------------------------------------------------
    law("x & (x | y) -> x", BITS, "FoldAbsorption"),
    law("x | x & y -> x", BITS, "FoldAbsorption"),
    law("x & (x & y) -> x & y", BITS, "FoldRepeatedOperand"),
    law("x | (x | y) -> x | y", BITS, "FoldRepeatedOperand"),
    law("x ^ (x ^ y) -> y", BITS, "CancelXorOfXor"),
    law("x & (~x | y) -> x & y", BITS),
    law("x | ~x & y -> x | y", BITS),
    law("x & y | x & ~y -> x", BITS),
    law("(x | y) & (x | ~y) -> x", BITS),
    # -- constants ------------------------------------------------------------------------------------------------
    law("(x & a) & b -> x & (a & b)", BITS, "ReassociateBits", uop=INTEGRAL),
    law("(x | a) | b -> x | (a | b)", BITS, "ReassociateBits", uop=INTEGRAL),
    law("(x ^ a) ^ b -> x ^ (a ^ b)", BITS, "ReassociateBits", uop=INTEGRAL),
)
SHIFTS: Final = (
    *[law(f"{f}(x, 0) -> x", INTEGERS, "FoldShiftByConstant", uop=False) for f in SHIFTING],
    *[law(f"{f}(x, c) -> 0 when c is beyond the width", INTEGERS, "FoldShiftByConstant", uop=False, when=_beyond) for f in SHIFTING[:2]],
    law("shr_arithmetic(x, c) -> shr_arithmetic(x, top) when c is beyond the width", INTEGERS, "FoldShiftByConstant", uop=False, when=_beyond),
    *[law(f"{f}({f}(x, a), b) -> {f}(x, a + b) when a + b < width", INTEGERS, "FoldShiftOfShift", uop=False, when=_sum_within) for f in SHIFTING],
    *[law(f"{f}({f}(x, a), b) -> 0 when a + b >= width", INTEGERS, "FoldShiftOfShift", uop=False, when=_sum_beyond) for f in SHIFTING[:2]],
    law("shr_arithmetic(shr_arithmetic(x, a), b) -> shr_arithmetic(x, top) when a + b >= width", INTEGERS, "FoldShiftOfShift", uop=False, when=_sum_beyond),
    law("shr_logical(x << a, c) -> x & shr_logical(ones, c) when a == c", INTEGERS, "ReplaceShiftBackByMask", uop=False, when=_same_within),
    *[law(f"{f}(x, a) << c -> x & (ones << c) when a == c", INTEGERS, "ReplaceShiftBackByMask", uop=False, when=_same_within) for f in SHIFTING[1:]],
)
OF_BOOLS: Final = (
    law("bool: p < q -> ~p & q", BOOL),
    law("bool: p <= q -> ~p | q", BOOL),
    law("bool: p != q -> p ^ q", BOOL),
    law("bool: p == q -> ~(p ^ q)", BOOL),
    law("bool: max(p, q) -> p | q", BOOL),
    law("bool: min(p, q) -> p & q", BOOL),
    law("p == True -> p", BOOL, "FoldComparisonOfBool", uop=False),
    law("p != False -> p", BOOL, "FoldComparisonOfBool", uop=False),
    law("p == False -> ~p", BOOL, "FoldComparisonOfBool", uop=False),
    law("p != True -> ~p", BOOL, "FoldComparisonOfBool", uop=False),
)
JOINED_COMPARISONS: Final = (
    law("x < a & x < b -> x < min(a, b)", INTEGRAL),
    law("x < a | x < b -> x < max(a, b)", INTEGRAL),
    law("a < x & b < x -> max(a, b) < x", INTEGRAL),
    law("a < x | b < x -> min(a, b) < x", INTEGRAL),
    law("x < a & b < x -> False, a <= b + 1", INTEGRAL, when=lambda a, b: a <= b + 1),
    law("x < a | b < x -> True, b < a", INTEGRAL, when=lambda a, b: b < a),
    law("x < y | y < x -> x != y", INTEGRAL),
    law("x <= y & y <= x -> x == y", INTEGRAL),
    # NOT turns a comparison into the opposite one, so contradictions look like this.
    law("x < y & y <= x -> False", INTEGRAL),
    law("x < y | y <= x -> True", INTEGRAL),
    law("x == y & x != y -> False"),
    law("x == y | x != y -> True"),
)
DECIDED_SELECTS: Final = (
    law("where(True, x, y) -> x", None, "FoldSelectOfConstant"),
    law("where(False, x, y) -> y", None, "FoldSelectOfConstant"),
    law("where(p, x, x) -> x", None, "FoldSelectOfSame"),
)
SELECTS: Final = (
    law("where(~p, x, y) -> where(p, y, x)", None, "InvertSelect"),
    law("where(p, where(p, x, y), z) -> where(p, x, z)", None, "FoldNestedSelect"),
    law("where(p, x, where(p, y, z)) -> where(p, x, z)", None, "FoldNestedSelect"),
    law("where(p, where(q, x, y), y) -> where(p & q, x, y)", None, "JoinSelects", once=True),
    law("where(p, x, where(q, x, y)) -> where(p | q, x, y)", None, "JoinSelects", once=True),
    # -- branches that are bools ----------------------------------------------------------------------------------
    law("where(p, True, False) -> p", BOOL, "ReplaceSelectOfBools", uop=False),
    law("where(p, False, True) -> ~p", BOOL, "ReplaceSelectOfBools", uop=False),
    law("bool: where(p, True, y) -> p | y", BOOL, "ReplaceSelectOfBools"),
    law("bool: where(p, False, y) -> ~p & y", BOOL, "ReplaceSelectOfBools"),
    law("bool: where(p, x, True) -> ~p | x", BOOL, "ReplaceSelectOfBools"),
    law("bool: where(p, x, False) -> p & x", BOOL, "ReplaceSelectOfBools"),
    law("bool: where(p, ~x, x) -> p ^ x", BOOL),
    law("where(p, p, y) -> p | y", BOOL, "FoldSelectOfItsPredicate", uop=False),
    law("where(p, x, p) -> p & x", BOOL, "FoldSelectOfItsPredicate", uop=False),
    # -- a comparison of the branches -----------------------------------------------------------------------------
    *[law(f"where(x {f} y, {chosen}) -> {extreme}(x, y)", BITS, "ReplaceSelectByMinMax", uop=INTEGRAL)
      for f in ("<", "<=") for chosen, extreme in (("x, y", "min"), ("y, x", "max"))],
    *[law(f"where(x {f} y, {chosen}) -> {extreme}(x, y)", BITS, "ReplaceSelectByMinMax", uop=False)
      for f in (">", ">=") for chosen, extreme in (("x, y", "max"), ("y, x", "min"))],
    law("where(x == y, x, y) -> y", BITS, "FoldSelectOfEquality", uop=INTEGRAL),
    law("where(x != y, x, y) -> x", BITS, "FoldSelectOfEquality", uop=INTEGRAL),
)
EXTREMA_OF_SAME: Final = (
    law("max(x, x) -> x", REAL | BOOL, "FoldIdempotentOfSame", uop=REAL),
    law("min(x, x) -> x", REAL | BOOL, "FoldIdempotentOfSame", uop=REAL),
)
EXTREMA: Final = (
    law("max(x, lowest) -> x", FLOAT | INTEGERS | BOOL, "FoldUselessBound", uop=False),
    law("min(x, highest) -> x", FLOAT | INTEGERS | BOOL, "FoldUselessBound", uop=False),
    law("max(x, highest) -> highest", INTEGERS | BOOL, "FoldExtremeBound", uop=False),
    law("min(x, lowest) -> lowest", INTEGERS | BOOL, "FoldExtremeBound", uop=False),
    law("max(x, -inf) -> x", FLOAT),
    law("min(x, inf) -> x", FLOAT),
    law("max(max(x, a), b) -> max(x, max(a, b))", REAL | BOOL, "ReassociateBits", uop=REAL),
    law("min(min(x, a), b) -> min(x, min(a, b))", REAL | BOOL, "ReassociateBits", uop=REAL),
    law("max(x, max(x, y)) -> max(x, y)", REAL | BOOL, "FoldRepeatedOperand", uop=REAL),
    law("min(x, min(x, y)) -> min(x, y)", REAL | BOOL, "FoldRepeatedOperand", uop=REAL),
    law("max(x, min(x, y)) -> x", BITS, "FoldAbsorption", uop=INTEGRAL),
    law("min(x, max(x, y)) -> x", BITS, "FoldAbsorption", uop=INTEGRAL),
    law("max(min(x, a), b) -> b when a <= b", BITS, "FoldEmptyClamp", uop=False, when=_in_order),
    law("min(max(x, a), b) -> b when b <= a", BITS, "FoldEmptyClamp", uop=False, when=_in_reverse),
    law("max(min(x, a), b) -> min(max(x, b), a) when b <= a", REAL | BOOL, "NormalizeClamp", uop=False, when=_in_reverse),
    law("max(-x, -y) -> -min(x, y)", FLOAT, "SinkNegBelowMinMax", uop=False, once=True),
    law("min(-x, -y) -> -max(x, y)", FLOAT, "SinkNegBelowMinMax", uop=False, once=True),
    law("max(x, -x) -> abs(x)", FLOAT | SIGNED, "ReplaceMaxOfOppositesByAbs", uop=False),
    # -- what moves out, on exact numbers -------------------------------------------------------------------------
    law("max(x + z, y + z) -> max(x, y) + z", INDEX),
    law("min(x + z, y + z) -> min(x, y) + z", INDEX),
    law("max(x + c, x) -> x + max(c, 0)", INDEX),
    law("min(x + c, x) -> x + min(c, 0)", INDEX),
)
COMPARED_WITH_ITSELF: Final = (
    law("x < x -> False", REAL | BOOL, "FoldComparisonOfSame", uop=REAL),
    law("x > x -> False", REAL | BOOL, "FoldComparisonOfSame", uop=False),
    law("x <= x -> True", BITS, "FoldComparisonOfSame", uop=INTEGRAL),
    law("x >= x -> True", BITS, "FoldComparisonOfSame", uop=False),
    law("x == x -> True", BITS, "FoldComparisonOfSame", uop=INTEGRAL),
    law("x != x -> False", BITS, "FoldComparisonOfSame", uop=INTEGRAL),
    law("x != x -> is_nan(x)", INEXACT, "FoldComparisonOfSame", uop=False),
)
TURNED_COMPARISONS: Final = (
    *[law(f"c {f} x -> x {g} c", None, "MoveConstantRightOfComparison", uop=False) for f, g in TURNED.items()],
    *[law(f"-x {f} -y -> x {g} y", FLOAT, "CompareWithoutNegs", uop=False) for f, g in TURNED.items()],
    *[law(f"-x {f} -y -> x {f} y", NUMBERS, "CompareWithoutNegs", uop=False) for f in EQUALITIES],
)
COMPARED_WITH_ENDS: Final = (
    law("x < lowest -> False", INTEGERS, "FoldComparisonWithExtreme", uop=False),
    law("x >= lowest -> True", INTEGERS, "FoldComparisonWithExtreme", uop=False),
    law("x > highest -> False", INTEGERS, "FoldComparisonWithExtreme", uop=False),
    law("x <= highest -> True", INTEGERS, "FoldComparisonWithExtreme", uop=False),
    law("x >= c -> x > c - 1 when c is not the lowest", INTEGERS, "NormalizeComparisonWithInteger", uop=False, when=_has_previous),
)
NEGATED_COMPARISONS: Final = (
    law("int: ~(x < y) -> y <= x", INTEGRAL),
    law("int: ~(x <= y) -> y < x", INTEGRAL),
    law("~(x == y) -> x != y", None, "InvertComparison"),
    law("~(x != y) -> x == y", None, "InvertComparison"),
    law("int: x <= c -> x < c + 1", INTEGRAL, "NormalizeComparisonWithInteger", when=_has_next),
    law("int: c <= x -> c - 1 < x", INTEGRAL, when=_has_previous),
    law("~(x < y) -> x >= y", BITS, "InvertComparison", uop=False),
    law("~(x <= y) -> x > y", BITS, "InvertComparison", uop=False),
    law("~(x > y) -> x <= y", BITS, "InvertComparison", uop=False),
    law("~(x >= y) -> x < y", BITS, "InvertComparison", uop=False),
)
SHIFTED_COMPARISONS: Final = (
    law("x + a < c -> x < c - a", INDEX),
    law("c < x + a -> c - a < x", INDEX),
    *[law(f"x + c {f} a -> x {f} a - c", INTEGERS, "MoveConstantAcrossEquality", uop=False) for f in EQUALITIES],
    *[law(f"c - x {f} a -> x {f} c - a", INTEGERS, "MoveConstantAcrossEquality", uop=False) for f in EQUALITIES],
    *[law(f"(x ^ c) {f} a -> x {f} c ^ a", INTEGERS, "MoveConstantAcrossEquality", uop=False) for f in EQUALITIES],
    *[law(f"-x {f} c -> x {f} -c", NUMBERS, "DropInverseFromEquality", uop=False) for f in EQUALITIES],
    *[law(f"~x {f} c -> x {f} ~c", BITS, "DropInverseFromEquality", uop=False) for f in EQUALITIES],
    *[law(f"x - y {f} 0 -> x {f} y", INTEGERS, "ReplaceComparisonOfDifference", uop=False) for f in EQUALITIES],
)
COMPARED_EXTREMA: Final = (
    law("max(x, a) < c -> x < c, a < c", INTEGRAL, when=lambda a, c: a < c),
    law("min(x, a) < c -> x < c, c <= a", INTEGRAL, when=lambda a, c: a >= c),
    law("c < max(x, a) -> c < x, a <= c", INTEGRAL, when=lambda a, c: a <= c),
    law("c < min(x, a) -> c < x, c < a", INTEGRAL, when=lambda a, c: a > c),
)
FAST: Final = (
    law("fast: x + 0.0 -> x", FLOAT),
    law("fast: x - x -> 0", FLOAT),
    law("fast: x * 0 -> 0", FLOAT),
    law("fast: x / x -> 1", FLOAT),
)
FAST_TERMS: Final = (
    law("fast: (x / y) * y -> x", FLOAT),
    law("fast: x * recip(y) -> x / y", FLOAT),
    law("fast: recip(recip(x)) -> x", FLOAT),
    law("fast: recip(sqrt(x)) -> rsqrt(x)", FLOAT),
    law("fast: sqrt(x) * sqrt(x) -> x", FLOAT),
    law("fast: x ** 0.5 -> sqrt(x)", FLOAT),
    law("fast: exp(log(x)) -> x", FLOAT),
    law("fast: log(exp(x)) -> x", FLOAT),
    law("fast: (x + a) + b -> x + (a + b)", FLOAT),
    law("fast: (x * a) * b -> x * (a * b)", FLOAT),
    law("fast: x*y + x*z -> x * (y + z)", FLOAT),
    law("fast: where(x < y, x, y) -> min(x, y)", FLOAT),
    law("fast: where(x < y, y, x) -> max(x, y)", FLOAT),
)
# fmt: on

LAWS: Final[tuple[Law, ...]] = (
    *SUMS, *TERMS, *LIKE_TERMS, *PRODUCTS, *QUOTIENTS, *TRUNCATING, *FLOORING, *FLOORING_TWICE, *FUNCTIONS, *PARTS, *POWERS,
    *MULTIPLY_ADD, *BITWISE, *SHIFTS, *OF_BOOLS, *JOINED_COMPARISONS, *DECIDED_SELECTS, *SELECTS, *EXTREMA_OF_SAME, *EXTREMA,
    *COMPARED_WITH_ITSELF, *TURNED_COMPARISONS, *COMPARED_WITH_ENDS, *NEGATED_COMPARISONS, *SHIFTED_COMPARISONS, *COMPARED_EXTREMA,
)  # fmt: skip
"""All that hold to the last bit."""

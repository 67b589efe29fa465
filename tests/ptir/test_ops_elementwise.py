"""Elementwise ops, every one on every dtype it takes, against Python's own arithmetic."""

from __future__ import annotations

import cmath
import itertools
import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from planish import dtypes
from planish.errors import DTypeError, ShapeError
from planish.ptir import ops
from planish.ptir.ops import checking
from planish.ptir.ops.definition import REGISTRY, OpKey
from planish.ptir.types import TensorType
from tests.ptir.ops_testing import accepts, by_name, check, make, python_values, run, samples, ulps


def total(function):
    """A function of math, with NaN outside its domain and infinity on overflow."""

    def extended(*args):
        try:
            return function(*args)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.copysign(math.inf, args[0]) if function in (math.sinh,) else math.inf

    return extended


def at_zero(function, value):
    return lambda x: value if x == 0 else function(x)


def erf_series(x):
    if abs(x) > 1.5 or x == 0 or math.isnan(x):
        return math.erf(x)  # too many digits cancel in the series
    terms = [(-1) ** n * x ** (2 * n + 1) / (math.factorial(n) * (2 * n + 1)) for n in range(60)]
    return 2 / math.sqrt(math.pi) * math.fsum(terms)


def log_gamma(x):
    if x == math.inf or x == -math.inf or (x <= 0 and x == int(x)):
        return math.inf
    return math.log(abs(math.gamma(x))) if -100 < x < 100 else math.lgamma(x)


def digamma_sum(x):
    if math.isnan(x) or x == -math.inf or (x < 0 and x == math.floor(x)):
        return math.nan
    if x == 0:
        return -math.copysign(math.inf, x)
    if x == math.inf:
        return x
    terms = []
    while x < 60:
        terms.append(-1 / x)
        x += 1
    y = 1 / x
    tail = [math.log(x), -y / 2, -(y**2) / 12, y**4 / 120, -(y**6) / 252]
    return math.fsum(terms + tail)


def erf_inverse(x):
    """Bisection on erf (erfc in the tail)."""
    if not abs(x) <= 1:
        return math.nan
    if abs(x) == 1:
        return math.copysign(math.inf, x)
    if abs(x) < 1e-9:
        return x * (math.sqrt(math.pi) / 2)
    low, high = 0.0, 7.0
    for _ in range(100):
        middle = (low + high) / 2
        below = math.erfc(middle) > 1 - abs(x) if abs(x) > 0.5 else math.erf(middle) < abs(x)
        low, high = (middle, high) if below else (low, middle)
    return math.copysign(low, x)


def cube_root(x):
    if not math.isfinite(x) or x == 0:
        return x
    guess = Fraction(math.copysign(abs(x) ** (1 / 3), x))
    return float(guess - (guess**3 - Fraction(x)) / (3 * guess**2))


def round_half_even(x):
    return x if not math.isfinite(x) or abs(x) > 2**60 else math.copysign(float(round(x)), x)


def signed(function):
    return lambda x: x if not math.isfinite(x) or x == 0 else math.copysign(float(function(x)), x)


def sign(x):
    return x if math.isnan(x) else float((x > 0) - (x < 0))


def inverse(x):
    return math.copysign(math.inf, x) if x == 0 else 1 / x


def root(x):
    return x if x == 0 else total(math.sqrt)(x)


# name: (function on floats, largest error in ULP of f64, of f32)
FLOAT_UNARY = {
    "neg": (operator.neg, 0),
    "abs": (abs, 0),
    "sign": (sign, 0),
    "reciprocal": (inverse, 0),
    "sqrt": (root, 0),
    "rsqrt": (lambda x: inverse(root(x)), 1),
    "cbrt": (cube_root, 1),
    "floor": (signed(math.floor), 0),
    "ceil": (signed(math.ceil), 0),
    "round": (round_half_even, 0),
    "trunc": (signed(math.trunc), 0),
    "exp": (total(math.exp), 2),
    "exp2": (total(lambda x: 2.0**x), 2),
    "expm1": (total(math.expm1), 2),
    "log": (at_zero(total(math.log), -math.inf), 2),
    "log2": (at_zero(total(math.log2), -math.inf), 2),
    "log1p": (lambda x: -math.inf if x == -1 else total(math.log1p)(x), 2),
    "sin": (total(math.sin), 2),
    "cos": (total(math.cos), 2),
    "tan": (total(math.tan), 2),
    "asin": (total(math.asin), 2),
    "acos": (total(math.acos), 2),
    "atan": (math.atan, 2),
    "sinh": (total(math.sinh), 2),
    "cosh": (total(math.cosh), 2),
    "tanh": (math.tanh, 2),
    "asinh": (math.asinh, 2),
    "acosh": (total(math.acosh), 2),
    "atanh": (lambda x: math.copysign(math.inf, x) if abs(x) == 1 else total(math.atanh)(x), 2),
    "erf": (erf_series, 8),
    "erfc": (math.erfc, 2),
    "erfinv": (erf_inverse, 16),
    "lgamma": (log_gamma, 64),
    "digamma": (digamma_sum, 64),
    "is_nan": (math.isnan, 0),
    "is_inf": (math.isinf, 0),
    "is_finite": (math.isfinite, 0),
}
COMPLEX_UNARY = {
    "neg": operator.neg,
    "abs": abs,
    "sign": lambda z: z / abs(z) if z else 0j,
    "reciprocal": lambda z: 1 / z if z else complex(math.nan, math.nan),
    "sqrt": cmath.sqrt,
    "rsqrt": lambda z: 1 / cmath.sqrt(z) if z else complex(math.nan, math.nan),
    "exp": cmath.exp,
    "expm1": lambda z: cmath.exp(z) - 1,
    "log": lambda z: cmath.log(z) if z else complex(-math.inf),
    "log2": lambda z: cmath.log(z) / math.log(2) if z else complex(-math.inf),
    "log1p": lambda z: cmath.log(1 + z) if z != -1 else complex(-math.inf),
    **{
        n: getattr(cmath, n)
        for n in ("sin", "cos", "tan", "asin", "acos", "sinh", "cosh", "tanh", "asinh", "acosh")
    },
    "atan": lambda z: cmath.atan(z) if z not in (1j, -1j) else None,
    "atanh": lambda z: cmath.atanh(z) if z not in (1, -1) else None,
    "is_nan": cmath.isnan,
    "is_inf": cmath.isinf,
    "is_finite": cmath.isfinite,
    "conj": lambda z: z.conjugate(),
    "real": lambda z: z.real,
    "imag": lambda z: z.imag,
}
INT_UNARY = {
    "neg": lambda x, d: -x,
    "abs": lambda x, d: abs(x),
    "sign": lambda x, d: (x > 0) - (x < 0),
    "not": lambda x, d: ~x,
    "popcount": lambda x, d: bin(x & (2**d.bits - 1)).count("1"),
    "clz": lambda x, d: d.bits - (x & (2**d.bits - 1)).bit_length(),
}


def test_every_unary_op_has_an_oracle():
    known = {*FLOAT_UNARY, *COMPLEX_UNARY, *INT_UNARY}
    unary = {
        op.name
        for op in REGISTRY.values()
        if op.key is OpKey.ELEMENTWISE_UNARY or (op.key is OpKey.COMPLEX and op.arity == 1)
    }
    assert known == unary


@pytest.mark.parametrize("name", sorted({*FLOAT_UNARY, *COMPLEX_UNARY, *INT_UNARY}))
def test_unary_takes_exactly_its_dtypes(name):
    op = REGISTRY[name]
    for dtype in checking.ALL:
        wanted = (
            (name in FLOAT_UNARY and dtype.is_float)
            or (name in COMPLEX_UNARY and dtype.is_complex)
            or (name in INT_UNARY and dtype.is_int)
            or (name == "not" and dtype.is_bool)
        )
        assert accepts(op, dtype, 1) is wanted, dtype


@pytest.mark.parametrize("name", FLOAT_UNARY)
@pytest.mark.parametrize("dtype", by_name(checking.FLOATS), ids=str)
def test_float_unary(name, dtype):
    function, bound = FLOAT_UNARY[name]
    x = samples(dtype)
    result = run(REGISTRY[name], x)
    for given, got in zip(python_values(x), python_values(result), strict=True):
        exact = function(given)
        if isinstance(exact, bool):
            assert got is exact
            continue
        wanted = dtype.const(exact)
        # Rounded from a float64 that is off by a few ULP of its own: at most one step in a shorter format.
        allowed = bound if dtype.bits == 64 else min(bound, 1)
        near_zero = name in ("lgamma", "digamma") and abs(got - wanted) <= 16 * dtypes.float_format(dtype).eps
        assert near_zero or ulps(got, wanted, dtype) <= allowed, (given, got, wanted)
        if wanted == 0:
            assert math.copysign(1, got) == math.copysign(1, wanted), (given, got, wanted)


@pytest.mark.parametrize("name", COMPLEX_UNARY)
@pytest.mark.parametrize("dtype", [dtypes.complex64, dtypes.complex128], ids=str)
def test_complex_unary(name, dtype):
    x = samples(dtype)
    result = run(REGISTRY[name], x)
    eps = 1e-5 if dtype is dtypes.complex64 else 1e-13
    for given, got in zip(python_values(x), python_values(result), strict=True):
        wanted = COMPLEX_UNARY[name](given)
        if wanted is None:
            continue
        if isinstance(wanted, bool):
            assert got is wanted
        elif cmath.isnan(wanted):
            assert not cmath.isfinite(got)
        elif cmath.isinf(wanted):
            assert got.real == wanted.real
        else:
            assert abs(got - wanted) <= eps * max(1, abs(wanted)), (given, got, wanted)


@pytest.mark.parametrize("name", INT_UNARY)
@pytest.mark.parametrize("dtype", by_name(checking.INTS), ids=str)
def test_int_unary(name, dtype):
    x = samples(dtype)
    result = run(REGISTRY[name], x)
    assert python_values(result) == [dtype.wrap(INT_UNARY[name](v, dtype)) for v in python_values(x)]


def test_not_of_bools():
    check(run(ops.not_, np.array([True, False])), np.array([False, True]))


# --- binary -----------------------------------------------------------------------------------------------


def int_div(x, y):
    return 0 if y == 0 else x // y


def int_trunc_div(x, y):
    return 0 if y == 0 else int(Fraction(x, y))


def int_trunc_mod(x, y):
    return 0 if y == 0 else x - y * int_trunc_div(x, y)


def int_pow(x, y, dtype):
    if y >= 0:
        return pow(x, y, 1 << dtype.bits)
    return 0 if x == 0 else int(Fraction(1) / Fraction(x) ** (-y)) if abs(x) == 1 else 0


def shift(amount, dtype):
    return amount if 0 <= amount < dtype.bits else dtype.bits


def as_unsigned(x, dtype):
    return x & ((1 << dtype.bits) - 1)


def as_signed(x, dtype):
    x = as_unsigned(x, dtype)
    return x - (1 << dtype.bits) if x >> (dtype.bits - 1) else x


INT_BINARY = {
    "add": lambda x, y, d: x + y,
    "sub": lambda x, y, d: x - y,
    "mul": lambda x, y, d: x * y,
    "floor_div": lambda x, y, d: int_div(x, y),
    "trunc_div": lambda x, y, d: int_trunc_div(x, y),
    "floor_mod": lambda x, y, d: 0 if y == 0 else x % y,
    "trunc_mod": lambda x, y, d: int_trunc_mod(x, y),
    "pow": int_pow,
    "max": lambda x, y, d: max(x, y),
    "min": lambda x, y, d: min(x, y),
    "and": lambda x, y, d: x & y,
    "or": lambda x, y, d: x | y,
    "xor": lambda x, y, d: x ^ y,
    "shl": lambda x, y, d: x << shift(y, d),
    "shr_logical": lambda x, y, d: as_unsigned(x, d) >> shift(y, d),
    "shr_arithmetic": lambda x, y, d: as_signed(x, d) >> shift(y, d),
}
COMPARE = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def exactly(function):
    """Rational arithmetic where both sides are finite and the result is not a signed zero; else float64's."""

    def compute(x, y):
        plain = function(x, y)
        if math.isfinite(x) and math.isfinite(y) and math.isfinite(plain) and plain != 0:
            return float(function(Fraction(x), Fraction(y)))
        return plain

    return compute


def divide(x, y):
    if y != 0:
        return x / y
    return math.nan if x == 0 or math.isnan(x) else math.copysign(math.inf, x) * math.copysign(1, float(y))


def total_max(x, y):
    if math.isnan(x) or math.isnan(y):
        return math.nan
    return max((x, y), key=lambda v: (v, math.copysign(1, v)))


def total_min(x, y):
    return -total_max(-x, -y)


def c_pow(x, y):
    if y == 0 or x == 1:
        return 1.0
    if x == 0 and y < 0:
        return math.copysign(math.inf, x) if y % 2 == 1 else math.inf
    try:
        return math.pow(x, y)
    except ValueError:
        return math.nan
    except OverflowError:
        return -math.inf if x < 0 and y % 2 == 1 else math.inf


def c_fmod(x, y):
    return math.nan if y == 0 or math.isinf(x) or math.isnan(y) else math.fmod(x, y)


def python_mod(x, y):
    return math.nan if y == 0 or math.isinf(x) or math.isnan(x) or math.isnan(y) else x % y


# name: (function, largest error in ULP)
FLOAT_BINARY = {
    "add": (exactly(operator.add), 0),
    "sub": (exactly(operator.sub), 0),
    "mul": (exactly(operator.mul), 0),
    "div": (exactly(divide), 0),
    "trunc_mod": (c_fmod, 0),
    "floor_mod": (python_mod, 1),
    "floor_div": (lambda x, y: divide(x, y) if y == 0 else math.nan if math.isinf(x) else x // y, 1),
    "pow": (c_pow, 2),
    "max": (total_max, 0),
    "min": (total_min, 0),
    "atan2": (math.atan2, 2),
    "hypot": (math.hypot, 2),
    "copysign": (math.copysign, 0),
}
COMPLEX_BINARY = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "pow": operator.pow,
}
BOOL_BINARY: dict[str, Callable[..., Any]] = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "max": max,
    "min": min,
}


def test_every_binary_op_has_an_oracle():
    known = {*INT_BINARY, *FLOAT_BINARY, *COMPLEX_BINARY, *BOOL_BINARY, *COMPARE, "nextafter", "complex"}
    keys = (OpKey.ELEMENTWISE_BINARY, OpKey.COMPARE, OpKey.COMPLEX)
    assert known == {op.name for op in REGISTRY.values() if op.key in keys and op.arity == 2}


@pytest.mark.parametrize("name", sorted({*INT_BINARY, *FLOAT_BINARY, *BOOL_BINARY, *COMPARE}))
def test_binary_takes_exactly_its_dtypes(name):
    for dtype in checking.ALL:
        ordered = name in COMPARE and (not dtype.is_complex or name in ("eq", "ne"))
        wanted = ordered or name in (
            INT_BINARY
            if dtype.is_int
            else FLOAT_BINARY
            if dtype.is_float
            else COMPLEX_BINARY
            if dtype.is_complex
            else BOOL_BINARY
        )
        assert accepts(REGISTRY[name], dtype, 2) is wanted, dtype


def all_pairs(x):
    left, right = (np.ascontiguousarray(part) for part in np.broadcast_arrays(x[:, None], x[None, :]))
    return left, right


@pytest.mark.parametrize("name", INT_BINARY)
@pytest.mark.parametrize("dtype", by_name(checking.INTS), ids=str)
def test_int_binary(name, dtype):
    left, right = all_pairs(samples(dtype))
    result = run(REGISTRY[name], left, right)
    pairs = zip(python_values(left), python_values(right), python_values(result), strict=True)
    for x, y, got in pairs:
        assert got == dtype.wrap(INT_BINARY[name](x, y, dtype)), (x, y)


@pytest.mark.parametrize("name", FLOAT_BINARY)
@pytest.mark.parametrize("dtype", by_name(checking.FLOATS), ids=str)
def test_float_binary(name, dtype):
    function, bound = FLOAT_BINARY[name]
    left, right = all_pairs(samples(dtype))
    result = run(REGISTRY[name], left, right)
    for x, y, got in zip(python_values(left), python_values(right), python_values(result), strict=True):
        wanted = dtype.const(function(x, y))
        assert ulps(got, wanted, dtype) <= bound, (x, y, got, wanted)
        if wanted == 0 and got == 0:
            assert math.copysign(1, got) == math.copysign(1, wanted), (x, y)


@pytest.mark.parametrize("name", COMPLEX_BINARY)
@pytest.mark.parametrize("dtype", [dtypes.complex64, dtypes.complex128], ids=str)
def test_complex_binary(name, dtype):
    left, right = all_pairs(samples(dtype))
    result = run(REGISTRY[name], left, right)
    eps = 1e-5 if dtype is dtypes.complex64 else 1e-13
    for x, y, got in zip(python_values(left), python_values(right), python_values(result), strict=True):
        if (name == "div" and y == 0) or (name == "pow" and x == 0):
            continue
        wanted = COMPLEX_BINARY[name](x, y)
        assert abs(got - wanted) <= eps * max(1, abs(wanted)), (x, y, got, wanted)


@pytest.mark.parametrize("name", BOOL_BINARY)
def test_bool_binary(name):
    left, right = all_pairs(np.array([False, True]))
    result = run(REGISTRY[name], left, right)
    pairs = zip(python_values(left), python_values(right), strict=True)
    assert python_values(result) == [bool(BOOL_BINARY[name](x, y)) for x, y in pairs]


@pytest.mark.parametrize("name", COMPARE)
@pytest.mark.parametrize("dtype", by_name(checking.ALL), ids=str)
def test_compare(name, dtype):
    if dtype.is_complex and name not in ("eq", "ne"):
        return
    left, right = all_pairs(samples(dtype))
    result = run(REGISTRY[name], left, right)
    pairs = zip(python_values(left), python_values(right), strict=True)
    assert python_values(result) == [COMPARE[name](x, y) for x, y in pairs]


@pytest.mark.parametrize("dtype", by_name(checking.FLOATS), ids=str)
def test_nextafter_is_the_neighbour(dtype):
    # Every finite value of the 16-bit and shorter formats in order, so that neighbours are known.
    if dtype.bits > 16:
        x = samples(dtype, special=False)
        check(run(ops.nextafter, x, x[::-1].copy()), np.nextafter(x, x[::-1]))
        return
    everything = np.arange(1 << dtype.bits).astype(f"u{dtype.itemsize}").view(dtype.numpy)
    with np.errstate(invalid="ignore"):
        wide = everything.astype(np.float64)
    values = np.unique(wide[np.isfinite(wide)])
    line = values.astype(dtype.numpy)
    up = run(ops.nextafter, line[:-1], np.full(len(line) - 1, line[-1]))
    assert np.array_equal(up.astype(np.float64), values[1:])
    down = run(ops.nextafter, line[1:], np.full(len(line) - 1, line[0]))
    assert np.array_equal(down.astype(np.float64), values[:-1])


def test_complex_joins_parts():
    for part, whole in ((np.float32, np.complex64), (np.float64, np.complex128)):
        result = run(ops.complex, np.array([1, -0.0], part), np.array([2, np.inf], part))
        assert result.dtype == whole
        assert list(result.real) == [1, 0]
        assert list(result.imag) == [2, np.inf]
    assert not accepts(ops.complex, dtypes.float16, 2)


@pytest.mark.parametrize(
    "name", [op.name for op in REGISTRY.values() if op.elementwise and op.attrs_type is ops.NoAttrs]
)
def test_scalars_give_the_same_bits_as_arrays(name):
    """Folding evaluates on zero-dimensional arrays."""
    op = REGISTRY[name]
    for dtype in checking.ALL:
        if name == "select" or not accepts(op, dtype, op.min_operands):
            continue
        x = samples(dtype)
        operands = [x, x[::-1].copy()][: op.min_operands]
        whole = run(op, *operands)
        for i in range(len(x)):
            single = run(op, *(np.array(operand[i], operand.dtype) for operand in operands))
            check(single.reshape(1), whole[i : i + 1])


# --- select, cast, bitcast --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", by_name(checking.ALL), ids=str)
def test_select(dtype):
    x = samples(dtype)
    predicate = np.arange(len(x)) % 2 == 0
    result = run(ops.select, predicate, x, x[::-1].copy())
    check(result, np.array([a if p else b for p, a, b in zip(predicate, x, x[::-1], strict=True)], x.dtype))


def python_cast(value, source, target):
    if target.is_bool:
        return value != 0
    if target.is_int and source.is_float:
        if math.isnan(value):
            return 0
        return min(
            max(
                int(value) if math.isfinite(value) else (target.max if value > 0 else target.min), target.min
            ),
            target.max,
        )
    if target.is_int:
        return target.wrap(int(value))
    if target.is_complex:
        return complex(target.const(complex(value)))
    return target.const(float(value) if source.is_float else int(value))


@pytest.mark.parametrize("target", by_name(checking.ALL), ids=str)
def test_cast_between_all_dtypes(target):
    for source in checking.ALL:
        attrs = ops.CastAttrs(target)
        if source.is_complex and not (target.is_complex or target.is_bool):
            assert not accepts(ops.cast, source, 1, attrs)
            continue
        x = samples(source)
        if source.is_float and not target.is_float:
            x = np.concatenate([x, make(source, [2.0**e + 0.5 for e in (6, 7, 15, 31, 62, 63, 64)])])
        if source.bits == 64 and source.is_int:
            ties = [2**62 + 2**54 + 1, 2**62 + 2**54, 2**24 + 2**16 + 1, 2**53 + 1, 2**40 + 2**32 + 1]
            x = np.concatenate([x, make(source, ties)])
        if source is dtypes.float64:
            float_ties = [
                1 + 2**-8 + 2**-40,
                1 + 2**-8,
                1 + 3 * 2**-4 + 2**-40,
                2**-134 * (1 + 2**-40),
                3.39e38,
            ]
            x = np.concatenate([x, np.array(float_ties)])
        got = python_values(run(ops.cast, x, attrs=attrs))
        for value, result in zip(python_values(x), got, strict=True):
            wanted = python_cast(value, source, target)
            both_nan = result != result and wanted != wanted
            assert both_nan or (result == wanted and type(result) is type(wanted)), (
                source,
                value,
                result,
                wanted,
            )


@pytest.mark.parametrize(
    ("source", "target"),
    list(itertools.product(by_name(checking.NUMBERS), repeat=2)),
    ids=str,
)
def test_bitcast_round_trip(source, target):
    ratio = max(1, target.bits // source.bits)
    x = samples(source)
    x = np.resize(x, (4, ratio)) if ratio > 1 else x
    there = run(ops.bitcast, x, attrs=ops.BitcastAttrs(target))
    if source.bits > target.bits:
        assert there.shape == (*x.shape, source.bits // target.bits)
    back = run(ops.bitcast, there, attrs=ops.BitcastAttrs(source))
    assert x.tobytes() == back.tobytes()


def test_bitcast_is_little_endian():
    x = np.array([0x0102_0304], np.uint32)
    assert run(ops.bitcast, x, attrs=ops.BitcastAttrs(dtypes.uint8)).tolist() == [[4, 3, 2, 1]]
    nibbles = run(ops.bitcast, x, attrs=ops.BitcastAttrs(dtypes.uint4))
    assert python_values(nibbles) == [4, 0, 3, 0, 2, 0, 1, 0]
    assert run(ops.bitcast, np.float32(1.0), attrs=ops.BitcastAttrs(dtypes.int32)) == 0x3F800000


# --- mistakes ---------------------------------------------------------------------------------------------


def test_operands_must_agree():
    f32, f64 = TensorType(dtypes.float32, (2, 3)), TensorType(dtypes.float64, (2, 3))
    with pytest.raises(DTypeError, match=r"add.*cast"):
        ops.add.result_types([f32, f64], ops.NO_ATTRS)
    with pytest.raises(ShapeError, match="broadcast"):
        ops.add.result_types([f32, TensorType(dtypes.float32, (3,))], ops.NO_ATTRS)
    with pytest.raises(DTypeError, match="predicate"):
        ops.select.result_types([f32, f32, f32], ops.NO_ATTRS)
    with pytest.raises(DTypeError, match="bools"):
        ops.bitcast.result_types([TensorType(dtypes.bool_, (8,))], ops.BitcastAttrs(dtypes.uint8))
    with pytest.raises(ShapeError, match="axis of 4"):
        ops.bitcast.result_types([TensorType(dtypes.uint8, (3,))], ops.BitcastAttrs(dtypes.uint32))


def test_complex_products_commute_to_the_bit():
    rng = np.random.default_rng(0)
    x, y = (
        (rng.standard_normal(4096) + 1j * rng.standard_normal(4096)).astype(np.complex64) for _ in range(2)
    )
    np.testing.assert_array_equal(run(ops.mul, x, y), run(ops.mul, y, x))

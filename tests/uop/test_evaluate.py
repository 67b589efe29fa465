"""The meaning of ops, against Python's integers, NumPy, ml_dtypes and exact rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import ArrayLike

from planish import dtypes
from planish.dtypes import DType, float_format
from planish.errors import GraphError
from planish.uop.evaluate import constant_value, evaluate
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops, UnrolledLanes
from tests.uop.integers import BINARY, UNARY

INTS = [dtypes.int4, dtypes.uint4, dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64]  # fmt: skip
FLOATS = [*dtypes.FLOATS]
SPECIALS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    0.5,
    -3.5,
    7.25,
    math.inf,
    -math.inf,
    math.nan,
    1e30,
    1e-42,
    65504.0,
    448.0,
    3e-8,
]


@pytest.fixture
def t():
    with Table() as table:
        yield table


def free(t: Table, name: str, dtype: DType) -> UOp:
    """A node of any dtype that `env` gives values to."""
    return t.param(ord(name[0]), dtype.scalar, 4).index(t.const(0))


def corners(dtype: DType) -> list[int]:
    low, high = int(dtype.min or 0), int(dtype.max or 0)
    return sorted(
        {n for n in (low, low + 1, -9, -2, -1, 0, 1, 2, 3, 5, 7, 8, high - 1, high) if low <= n <= high}
    )


def expected_int(op: Ops, dtype: DType, *operands: int) -> int:
    if op in (Ops.SHL, Ops.SHR) and not 0 <= operands[1] < dtype.bits:
        return -1 if op is Ops.SHR and operands[0] < 0 else 0
    if op is Ops.POPCOUNT:
        return (operands[0] % (1 << dtype.bits)).bit_count()
    if op is Ops.CLZ:
        return dtype.bits - (operands[0] % (1 << dtype.bits)).bit_length()
    if op is Ops.POW and operands[1] > 0:
        # The exponent can be as large as the dtype goes: modular, then brought back into range.
        return dtype.wrap(pow(operands[0], operands[1], 1 << dtype.bits))
    function = BINARY.get(op) or UNARY[op]
    exact = function(*operands)
    return exact if op.name.startswith("CMP") else dtype.wrap(exact)


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_integers_wrap_as_python_integers_do_modulo_their_width(t, dtype):
    x, y = free(t, "x", dtype), t.param(9, dtype, 4).index(t.const(1))
    values = corners(dtype)
    left, right = np.array(values, object)[:, None], np.array(values, object)[None, :]
    for op in BINARY:
        found = evaluate(x.alu(op, y), {x: left, y: right})
        assert found.dtype == (np.bool_ if op.name.startswith("CMP") else dtype.numpy)
        expected = [[expected_int(op, dtype, a, b) for b in values] for a in values]
        assert found.astype(object).tolist() == expected, op
    for op in UNARY:
        found = evaluate(x.alu(op), {x: left})
        assert found.astype(object).ravel().tolist() == [expected_int(op, dtype, a) for a in values], op


def test_index_is_exact_beyond_64_bits(t):
    x, y = t.variable("x", -(10**40), 10**40), t.variable("y", -(10**20), 10**20)
    a, b = 3 * 10**39 + 7, -(10**19) - 3
    for op in (
        Ops.ADD,
        Ops.SUB,
        Ops.MUL,
        Ops.FLOORDIV,
        Ops.FLOORMOD,
        Ops.TRUNCDIV,
        Ops.TRUNCMOD,
        Ops.XOR,
        Ops.MAX,
    ):
        assert evaluate(x.alu(op, y), {x: a, y: b}).item() == BINARY[op](a, b), op
    assert evaluate(x < y, {x: a, y: b}).item() is False
    back = evaluate(x * y // y, {x: 17, y: np.array([1, -5])})
    assert back.dtype == np.int64
    assert back.tolist() == [17, 17]
    assert evaluate(x.cast(dtypes.uint8), {x: a}).item() == a % 256


def test_division_by_zero_and_the_wrapping_quotient(t):
    x, y = t.variable("x", -128, 127, dtypes.int8), t.variable("y", -128, 127, dtypes.int8)
    for op in (Ops.FLOORDIV, Ops.FLOORMOD, Ops.TRUNCDIV, Ops.TRUNCMOD):
        assert evaluate(x.alu(op, y), {x: [5, -5, 0], y: [0]}).tolist() == [0, 0, 0]
    assert evaluate(x.alu(Ops.FLOORDIV, y), {x: -128, y: -1}).item() == -128
    assert evaluate(x.alu(Ops.TRUNCMOD, y), {x: -128, y: -1}).item() == 0


# -- floats ----------------------------------------------------------------------------------------------------


def same(found: ArrayLike, expected: ArrayLike) -> bool:
    """Equal bit for bit, any NaN as good as another."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    both_nan = np.isnan(found) & np.isnan(expected)
    return bool(np.all(both_nan | ((found == expected) & (np.signbit(found) == np.signbit(expected)))))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_arithmetic_rounds_once(t, dtype):
    x, y = free(t, "x", dtype), t.param(9, dtype, 4).index(t.const(1))
    fmt = float_format(dtype)
    values = [fmt.round(v) for v in SPECIALS]
    left, right = np.array(values)[:, None], np.array(values)[None, :]
    wide = np.float64 if dtype is dtypes.float64 else np.float32
    for op, function in {
        Ops.ADD: np.add,
        Ops.SUB: np.subtract,
        Ops.MUL: np.multiply,
        Ops.FDIV: np.divide,
    }.items():
        with np.errstate(all="ignore"):
            ideal = function(left.astype(wide), right.astype(wide))
            expected = np.vectorize(lambda v: fmt.round(float(v)), otypes=[np.float64])(ideal)
        assert same(evaluate(x.alu(op, y), {x: left, y: right}), expected), op
    assert evaluate(x + y, {x: left, y: right}).dtype == dtype.numpy


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_max_and_min_propagate_nan_and_order_zeros(t, dtype):
    x, y = free(t, "x", dtype), t.param(9, dtype, 4).index(t.const(1))
    assert same(
        evaluate(x.max(y), {x: [0.0, -0.0, math.nan, 1], y: [-0.0, 0.0, 1, math.nan]}),
        [0.0, 0.0, math.nan, math.nan],
    )
    assert same(
        evaluate(x.min(y), {x: [0.0, -0.0, math.nan, 1], y: [-0.0, 0.0, 1, 2]}), [-0.0, -0.0, math.nan, 1]
    )


@pytest.mark.parametrize("dtype", [dtypes.bfloat16, dtypes.float16, dtypes.float32, dtypes.float64], ids=str)
def test_fused_multiply_add_rounds_once(t, dtype):
    x, y, z = (t.param(k, dtype, 4).index(t.const(0)) for k in range(3))
    fmt = float_format(dtype)
    rng = np.random.default_rng(7)
    # Addends near the exact product, of all sizes: cancellation and ties are where a second rounding shows.
    a = [fmt.round(float(v)) for v in rng.standard_normal(300)]
    b = [fmt.round(float(v)) for v in rng.standard_normal(300)]
    c = [fmt.round(-p * q * (1 + fmt.eps * k) * 2.0**s) for p, q, k, s in zip(a, b, rng.integers(-2, 3, 300), rng.integers(-3, 9, 300), strict=True)]  # fmt: skip
    found = evaluate(x.alu(Ops.MULACC, y, z), {x: a, y: b, z: c}).astype(np.float64)
    for p, q, r, result in zip(a, b, c, found.tolist(), strict=True):
        exact = Fraction(p) * Fraction(q) + Fraction(r)
        # No neighbour is closer; a tie goes to the even one, which `round` of the exact scaled integer gives.
        scale = 1 << 2200
        integer = exact * scale
        assert integer.denominator == 1
        ideal = round_exact(fmt, integer.numerator, -2200)
        assert result == ideal, (p, q, r)


def round_exact(fmt, integer: int, exponent: int) -> float:
    """integer * 2**exponent, rounded once."""
    if integer == 0:
        return 0.0
    unit = max(integer.bit_length() + exponent - fmt.precision, fmt.least)
    shift = unit - exponent
    quotient, rest = divmod(abs(integer), 1 << shift) if shift > 0 else (abs(integer) << -shift, 0)
    half = 1 << (shift - 1) if shift > 0 else 1
    quotient += rest > half or (rest == half and quotient & 1)
    return math.ldexp(-quotient if integer < 0 else quotient, unit)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_transcendentals_are_float64_rounded_once(t, dtype):
    x = free(t, "x", dtype)
    fmt = float_format(dtype)
    values = np.array([fmt.round(v) for v in (0.3, -0.7, 1.5, 0.0, 12.0)])
    functions: dict[Ops, Callable[[np.ndarray], np.ndarray]] = {
        Ops.EXP: np.exp, Ops.SIN: np.sin, Ops.TANH: np.tanh, Ops.SQRT: np.sqrt, Ops.CBRT: np.cbrt, Ops.LOG1P: np.log1p,
        Ops.ERF: np.vectorize(math.erf), Ops.ATAN: np.arctan, Ops.EXP2: np.exp2,
    }  # fmt: skip
    for op, function in functions.items():
        with np.errstate(all="ignore"):
            ideal = function(values)
        expected = [fmt.round(float(v)) for v in ideal]
        assert same(evaluate(x.alu(op), {x: values}), np.array(expected)), op


def test_powers_are_c_powers(t):
    x, y = free(t, "x", dtypes.float64), free(t, "y", dtypes.float64)
    bases = np.array([-0.0, -math.inf, 4.0, math.nan, 0.0, -1.0])
    assert same(evaluate(x**y, {x: bases, y: 0.5}), [0.0, math.inf, 2.0, math.nan, 0.0, math.nan])
    assert same(evaluate(x**y, {x: bases, y: np.full(6, 0.5)}), [0.0, math.inf, 2.0, math.nan, 0.0, math.nan])
    assert same(evaluate(x**y, {x: bases, y: 0.0}), np.ones(6))
    assert same(evaluate(x**y, {x: bases, y: -1.0}), [-math.inf, -0.0, 0.25, math.nan, math.inf, -1.0])


def test_rounding_ops_keep_the_sign_of_zero(t):
    x = free(t, "x", dtypes.float32)
    values = [-0.4, 0.5, 1.5, 2.5, -0.0]
    assert same(evaluate(x.alu(Ops.ROUND), {x: values}), np.array([-0.0, 0.0, 2.0, 2.0, -0.0]))
    assert same(evaluate(x.alu(Ops.CEIL), {x: values}), np.array([-0.0, 1.0, 2.0, 3.0, -0.0]))
    assert same(evaluate(x.alu(Ops.TRUNC), {x: values}), np.array([-0.0, 0.0, 1.0, 2.0, -0.0]))


# -- conversions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [*INTS, dtypes.index], ids=str)
def test_float_to_integer_saturates(t, target):
    x = free(t, "x", dtypes.float64)
    low = -(1 << 63) if target.is_index else int(target.min or 0)
    high = (1 << 63) - 1 if target.is_index else int(target.max or 0)
    found = evaluate(x.cast(target), {x: [math.nan, math.inf, -math.inf, 3.99, -3.99, 1e300, -1e300]})
    small = [min(max(n, low), high) for n in (3, -3)]
    assert [int(v) for v in found] == [0, high, low, *small, high, low]


@pytest.mark.parametrize("source", INTS, ids=str)
def test_integer_to_integer_wraps(t, source):
    x = free(t, "x", source)
    values = corners(source)
    for target in INTS:
        found = evaluate(x.cast(target), {x: np.array(values, object)})
        assert found.astype(object).tolist() == [target.wrap(v) for v in values], target


@pytest.mark.parametrize("target", FLOATS, ids=str)
def test_to_float_rounds_once(t, target):
    fmt = float_format(target)
    x, i = free(t, "x", dtypes.float64), free(t, "i", dtypes.int64)
    reals = [1 + 2**-8 + 2**-40, 1 + 2**-9 + 2**-30, *SPECIALS, 3.1e38, -1e300, 5e-324]
    assert same(evaluate(x.cast(target), {x: reals}), np.array([fmt.round(v) for v in reals]))
    wholes = [
        0,
        -1,
        (1 << 53) + 1,
        (1 << 63) - 1,
        (1 << 24) + 1,
        -(1 << 62) - (1 << 38) - 1,
        257 * (1 << 40) + 1,
    ]
    assert same(evaluate(i.cast(target), {i: np.array(wholes)}), np.array([fmt.round(v) for v in wholes]))


def test_bool_casts(t):
    x = free(t, "x", dtypes.float32)
    assert evaluate(x.cast(dtypes.bool_), {x: [0.0, -0.0, math.nan, 0.5]}).tolist() == [
        False,
        False,
        True,
        True,
    ]
    assert evaluate(x.cast(dtypes.bool_).cast(dtypes.int8), {x: [0.0, 2.0]}).tolist() == [0, 1]


def test_bitcast(t):
    x = free(t, "x", dtypes.float32)
    assert evaluate(x.bitcast(dtypes.uint32), {x: [1.0, -0.0]}).tolist() == [0x3F800000, 0x80000000]
    pair = t.make(Ops.VECTORIZE, dtypes.uint8.vec(4), tuple(t.const(k, dtypes.uint8) for k in (1, 2, 3, 4)))
    assert evaluate(pair.bitcast(dtypes.uint32), {}).item() == 0x04030201
    assert evaluate(t.const(0x1F, dtypes.uint8).bitcast(dtypes.int4.vec(2)), {}).tolist() == [-1, 1]
    nibbles = t.vconst([-1, 1], dtypes.int4)
    assert evaluate(nibbles.bitcast(dtypes.uint8), {}).item() == 0x1F


@pytest.mark.parametrize(("integer", "real"), [(dtypes.uint8, dtypes.float8_e5m2), (dtypes.uint16, dtypes.float16), (dtypes.uint16, dtypes.bfloat16)], ids=str)  # fmt: skip
def test_moving_data_keeps_every_bit(t, integer, real):
    x = t.variable("x", 0, int(integer.max or 0), integer)
    values = np.arange(int(integer.max or 0) + 1)
    moved = (x < 3).where(x.bitcast(real), x.bitcast(real))
    pair = t.make(Ops.VECTORIZE, real.vec(2), (moved, moved))
    assert np.array_equal(evaluate(pair.gep(1).bitcast(integer), {x: values}), values)


# -- lanes, ranges, memory -------------------------------------------------------------------------------------


def test_lanes(t):
    x, y = t.variable("x", 0, 9), t.variable("y", 0, 9)
    pair = t.make(Ops.VECTORIZE, dtypes.index.vec(2), (x, y * 10))
    env = {x: np.arange(3)[:, None], y: np.arange(2)}
    assert evaluate(pair, env).shape == (3, 2, 2)
    assert evaluate(pair.gep(1), env).tolist() == [[0, 10]] * 3 or evaluate(pair.gep(1), env).tolist() == [
        [0, 10]
    ]
    assert evaluate(pair.gep(1, 0, 1), {x: 1, y: 2}).tolist() == [20, 1, 20]
    four = t.make(Ops.CAT, dtypes.index.vec(4), (pair, pair + t.const(1, dtypes.index.vec(2))))
    assert evaluate(four, {x: 1, y: 2}).tolist() == [1, 20, 2, 21]


def test_unroll_and_contract_are_inverse(t):
    axes = UnrolledLanes((((0,), 2), ((1,), 3)))
    lanes = t.vconst(range(6))
    spread = t.make(Ops.UNROLL, dtypes.index, (lanes,), axes)
    assert evaluate(spread, {}).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert evaluate(t.make(Ops.CONTRACT, dtypes.index.vec(6), (spread * 2,), axes), {}).ravel().tolist() == [
        0,
        2,
        4,
        6,
        8,
        10,
    ]
    turned = t.make(Ops.CONTRACT, dtypes.index.vec(6), (spread,), UnrolledLanes((((1,), 3), ((0,), 2))))
    assert evaluate(turned, {}).ravel().tolist() == [0, 3, 1, 4, 2, 5]
    inner = t.make(Ops.CONTRACT, dtypes.index.vec(3), (spread,), UnrolledLanes((((1,), 3),)))
    assert evaluate(inner, {}).reshape(2, 3).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_reduce_runs_over_its_ranges(t):
    r, s = t.range(4, 0), t.range(t.variable("n", 0, 3), 1)
    n = s.src[0]
    assert evaluate((r * r).reduce(Ops.ADD, r), {}).item() == 14
    total = (r * 10 + s).reduce(Ops.ADD, r, s)
    found = evaluate(total, {n: np.arange(4)}).ravel().tolist()
    assert found == [sum(10 * i + j for i in range(4) for j in range(k)) for k in range(4)]
    assert evaluate(s.reduce(Ops.MAX, s), {n: 0}).item() == -(1 << 63)
    assert evaluate(r.cast(dtypes.int8).reduce(Ops.MUL, r), {}).item() == 0
    wide = t.vconst([1, 2, 3, 4])
    assert evaluate(t.make(Ops.REDUCE, dtypes.index.vec(2), (wide,), Ops.ADD), {}).tolist() == [4, 6]
    assert evaluate(r + 1, {r: 7}).item() == 8


def test_memory_and_invalid_places(t):
    data = t.param(0, dtypes.float32, 4)
    x = t.variable("x", -1, 4)
    gated = ((x >= 0) & (x < 4)).where(x, t.invalid())
    env = {data: np.array([1.5, 2.5, 3.5, 4.5]), x: np.arange(-1, 5)}
    assert evaluate(data.index(gated), env).tolist() == [0.0, 1.5, 2.5, 3.5, 4.5, 0.0]
    place = t.make(Ops.INDEX, data.dtype, (data, gated))
    load = t.make(Ops.LOAD, dtypes.float32, (place, t.const(-1.0, dtypes.float32), x < 2))
    assert evaluate(load, env).tolist() == [-1.0, 1.5, 2.5, -1.0, -1.0, -1.0]
    masked = evaluate(gated * 2 + 1, env)
    assert isinstance(masked, np.ma.MaskedArray)
    assert masked.mask.tolist() == [True, False, False, False, False, True]
    assert masked.compressed().tolist() == [1, 3, 5, 7]
    with pytest.raises(GraphError, match="outside its buffer"):
        evaluate(data.index(x), env)


def test_invalid_lanes(t):
    x = t.variable("x", 0, 3)
    pair = t.make(Ops.VECTORIZE, dtypes.index.vec(2), ((x < 2).where(x, t.invalid()), x))
    both = evaluate(pair + pair, {x: np.arange(4)})
    assert np.ma.getmaskarray(both).tolist() == [[False, False], [False, False], [True, False], [True, False]]
    assert np.ma.getmaskarray(evaluate(pair.gep(0), {x: np.arange(4)})).tolist() == [False, False, True, True]


def test_threefry_known_answers(t):
    """The vectors published with Random123 for threefry2x32, 20 rounds."""
    x, key = (t.param(k, dtypes.uint64, 4).index(t.const(0)) for k in range(2))
    node = x.alu(Ops.THREEFRY, key)
    known = {
        (0x00000000_00000000, 0x00000000_00000000): 0x6B200159_99BA4EFE,
        (0xFFFFFFFF_FFFFFFFF, 0xFFFFFFFF_FFFFFFFF): 0x1CB996FC_BB002BE7,
        (0x243F6A88_85A308D3, 0x13198A2E_03707344): 0xC4923A9C_483DF7A0,
    }
    for (counter, secret), expected in known.items():
        found = evaluate(node, {x: np.uint64(counter), key: np.uint64(secret)})
        assert int(found) == expected


def test_constant_value_gives_python_numbers(t):
    assert constant_value(t.const(7) // -2) == -4
    assert constant_value(t.const(200, dtypes.uint8) + t.const(100, dtypes.uint8)) == 44
    found = constant_value(t.const(1.0, dtypes.float16) / t.const(3.0, dtypes.float16))
    assert found == float(np.float16(1) / np.float16(3))
    assert type(found) is float
    assert constant_value(t.vconst([1, 2]) * t.vconst([3, 4])) == (3, 8)
    assert constant_value(t.const(3) < t.const(4)) is True


def test_what_has_no_value_says_so(t):
    with pytest.raises(GraphError, match="DEFINE_VAR has no value"):
        evaluate(t.variable("n", 0, 3) + 1, {})
    with pytest.raises(GraphError, match="no contents"):
        evaluate(t.param(0, dtypes.int8, 3).index(t.const(0)), {})
    with pytest.raises(GraphError, match="NEG has no meaning on bool"):
        evaluate(t.const(True, dtypes.bool_).alu(Ops.NEG), {})


def test_a_deep_chain_needs_no_recursion(t):
    x = node = t.variable("x", 0, 63)
    for i in range(20_000):
        node = node + 1 if i % 2 else node * -1
    assert evaluate(node, {x: 5}).item() == 5


def test_large_unsigned_lanes_are_exact():
    with Table() as t:
        lanes = t.vconst((2**64 - 1, 7), dtypes.uint64)
        assert evaluate(lanes, {}).tolist() == [2**64 - 1, 7]

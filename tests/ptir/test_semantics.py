"""docs/semantics.md, point by point: `test_N_M_…` holds the interpreter to point N.M, and none is missing."""

from __future__ import annotations

import math
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from planish import dtypes
from planish.errors import DTypeError, GraphError, ShapeError
from planish.ptir import ops
from planish.ptir.builder import Graph
from planish.ptir.interpret import interpret
from planish.ptir.types import Dim, Quant, TensorType, tensor
from tests.ptir.ops_testing import check, evaluate, make, run, run_all

INF, NAN = math.inf, math.nan
FLOATS = [d for d in dtypes.ALL if d.is_float]
SIGNED = [d for d in dtypes.ALL if d.is_signed]


def test_every_point_has_a_test():
    text = (Path(__file__).parents[2] / "docs" / "semantics.md").read_text(encoding="utf-8")
    points = re.findall(r"^- \*\*(\d+\.\d+)", text, re.MULTILINE)
    tests = [re.match(r"test_(\d+)_(\d+)_", name) for name in globals()]
    tested = {f"{m[1]}.{m[2]}" for m in tests if m}
    assert len(points) > 50
    assert len(set(points)) == len(points)
    assert set(points) == tested


def floats(*values, dtype=dtypes.float32):
    return make(dtype, values)


def both(op, x, y, dtype=dtypes.float32):
    """op on two scalars, as a Python number."""
    return run(op, make(dtype, [x]), make(dtype, [y]))[0].item()


def one(op, x, dtype=dtypes.float32):
    return float(run(op, make(dtype, [x]))[0])


def same(a, b):
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


# --- 1 types and values -----------------------------------------------------------------------------------


def test_1_1_nothing_is_converted_implicitly():
    with pytest.raises(DTypeError):
        run(ops.add, np.float32(1), np.float64(1))
    with pytest.raises(ShapeError):
        run(ops.add, np.ones((2, 1), np.float32), np.ones((2, 3), np.float32))


@pytest.mark.parametrize("dtype", SIGNED, ids=str)
def test_1_2_integers_wrap(dtype):
    low, high = dtype.min, dtype.max
    assert int(run(ops.add, make(dtype, [high]), make(dtype, [1]))[0]) == low
    assert int(run(ops.abs, make(dtype, [low]))[0]) == low
    assert int(run(ops.neg, make(dtype, [low]))[0]) == low
    assert int(run(ops.reduce_sum, make(dtype, [high, 1]), attrs=ops.ReduceAttrs((0,)))) == low
    assert int(run(ops.neg, make(dtypes.uint8, [1]))[0]) == 255


def test_1_3_subnormals_are_kept_and_rounding_is_to_even():
    tiny = float(np.float32(1e-45))
    assert both(ops.add, tiny, tiny) == 2 * tiny
    assert both(ops.mul, tiny, 1.0) == tiny
    assert both(ops.add, 1.0, 2.0**-24) == 1.0
    assert both(ops.add, 1.0 + 2.0**-23, 2.0**-24) == 1.0 + 2.0**-22
    quiet = np.array([0x7FC12345], np.uint32).view(np.float32)
    assert run(ops.reverse, quiet, attrs=ops.ReverseAttrs((0,))).tobytes() == quiet.tobytes()


def test_1_4_narrow_floats_overflow_by_their_format():
    assert math.isnan(one(ops.neg, NAN, dtypes.float8_e4m3fn))
    assert math.isnan(float(run(ops.mul, *[make(dtypes.float8_e4m3fn, [448])] * 2)[0]))
    assert float(run(ops.mul, *[make(dtypes.float8_e5m2, [57344])] * 2)[0]) == INF
    # One rounding: 2049 + 1 is exact in float32 and rounds once to float16.
    assert float(run(ops.add, make(dtypes.float16, [2048]), make(dtypes.float16, [3]))[0]) == 2052


def test_1_5_transcendentals_of_float32_are_rounded_from_a_better_result():
    x = np.linspace(-5, 5, 101).astype(np.float32)
    for op, function in ((ops.exp, np.exp), (ops.sin, np.sin), (ops.tanh, np.tanh), (ops.atan, np.arctan)):
        check(run(op, x), function(x.astype(np.float64)).astype(np.float32))


def test_1_6_bools_do_no_arithmetic():
    x = np.array([True, False])
    for op in (ops.add, ops.sub, ops.mul):
        with pytest.raises(DTypeError, match="cast"):
            run(op, x, x)
    assert run(ops.max, x, ~x).tolist() == [True, True]
    assert run(ops.lt, ~x, x).tolist() == [True, False]
    with pytest.raises(DTypeError):
        run(ops.reduce_sum, x, attrs=ops.ReduceAttrs((0,)))


def test_1_7_reductions_are_deterministic_and_near():
    x = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    first = run(ops.reduce_sum, x, attrs=ops.ReduceAttrs((0,)))
    assert first.tobytes() == run(ops.reduce_sum, x, attrs=ops.ReduceAttrs((0,))).tobytes()
    exact = math.fsum(x.tolist())
    assert abs(float(first) - exact) <= x.size * 2**-24 * math.fsum(np.abs(x).tolist())


# --- 2 integers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if d.is_int], ids=str)
def test_2_1_integer_division_by_zero_is_zero(dtype):
    x = make(dtype, [0, 1, dtype.max, dtype.min])
    for op in (ops.floor_div, ops.trunc_div, ops.floor_mod, ops.trunc_mod):
        check(run(op, x, np.zeros_like(x)), np.zeros_like(x))


@pytest.mark.parametrize("dtype", SIGNED, ids=str)
def test_2_2_min_divided_by_minus_one_wraps(dtype):
    x, y = make(dtype, [dtype.min]), make(dtype, [-1])
    for op in (ops.floor_div, ops.trunc_div):
        assert int(run(op, x, y)[0]) == dtype.min
    for op in (ops.floor_mod, ops.trunc_mod):
        assert int(run(op, x, y)[0]) == 0


def test_2_3_signs_of_quotients_and_remainders():
    x, y = make(dtypes.int32, [7, -7, 7, -7]), make(dtypes.int32, [3, 3, -3, -3])
    assert run(ops.floor_div, x, y).tolist() == [2, -3, -3, 2]
    assert run(ops.floor_mod, x, y).tolist() == [1, 2, -2, -1]
    assert run(ops.trunc_div, x, y).tolist() == [2, -2, -2, 2]
    assert run(ops.trunc_mod, x, y).tolist() == [1, -1, 1, -1]


def test_2_4_shifts_beyond_the_width():
    x = make(dtypes.int8, [-128, 127, -1])
    for amount in (8, 100, -1, -128):
        y = make(dtypes.int8, [amount] * 3)
        assert run(ops.shl, x, y).tolist() == [0, 0, 0]
        assert run(ops.shr_logical, x, y).tolist() == [0, 0, 0]
        assert run(ops.shr_arithmetic, x, y).tolist() == [-1, 0, -1]
    one_step = make(dtypes.int8, [1] * 3)
    assert run(ops.shr_logical, x, one_step).tolist() == [64, 63, 127]
    assert run(ops.shr_arithmetic, x, one_step).tolist() == [-64, 63, -1]
    assert run(ops.shr_arithmetic, make(dtypes.uint8, [0x80]), make(dtypes.uint8, [1])).tolist() == [0xC0]
    assert int(run(ops.shl, make(dtypes.int4, [1]), make(dtypes.int4, [3]))[0]) == -8


def test_2_5_integer_powers():
    for (x, y), wanted in {
        (0, 0): 1, (2, 10): 1024, (3, 21): (3**21 + 2**31) % 2**32 - 2**31, (1, -5): 1, (-1, -5): -1, (-1, -4): 1,
        (2, -1): 0, (0, -1): 0, (-7, -2): 0,
    }.items():  # fmt: skip
        assert both(ops.pow, x, y, dtypes.int32) == wanted, (x, y)


def test_2_6_popcount_and_clz():
    x = make(dtypes.int16, [0, 1, -1, 256])
    assert run(ops.popcount, x).tolist() == [0, 1, 16, 1]
    assert run(ops.clz, x).tolist() == [16, 15, 0, 7]
    assert run(ops.clz, make(dtypes.uint4, [0, 1, 8])).astype(int).tolist() == [4, 3, 0]


# --- 3 floats ---------------------------------------------------------------------------------------------


def test_3_1_division_by_zero():
    assert both(ops.div, 1, 0.0) == INF
    assert both(ops.div, 1, -0.0) == -INF
    assert math.isnan(both(ops.div, 0, 0))
    with pytest.raises(DTypeError, match="float or complex"):
        run(ops.div, np.int32(1), np.int32(1))


def test_3_2_float_remainders():
    cases = [
        (5.5, 2.0),
        (-5.5, 2.0),
        (5.5, -2.0),
        (1.0, 0.1),
        (-1.0, 0.1),
        (6.0, 3.0),
        (-6.0, 3.0),
        (6.0, -3.0),
    ]
    for x, y in cases:
        assert same(both(ops.floor_mod, x, y, dtypes.float64), x % y)
        assert same(both(ops.floor_div, x, y, dtypes.float64), x // y)
        assert same(both(ops.trunc_mod, x, y, dtypes.float64), math.fmod(x, y))
    assert both(ops.floor_div, 1.0, 0.1, dtypes.float64) == 9
    assert both(ops.floor_div, -1.0, 0.0) == -INF
    assert both(ops.floor_mod, -1.0, INF) == INF
    assert math.isnan(both(ops.floor_mod, 1.0, 0.0))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_3_3_max_and_min_order_zeros_and_prefer_nan(dtype):
    x, y = make(dtype, [-0.0, 0.0, NAN, 1, 2]), make(dtype, [0.0, -0.0, 1, NAN, 3])
    check(run(ops.max, x, y), make(dtype, [0.0, 0.0, NAN, NAN, 3]))
    check(run(ops.min, x, y), make(dtype, [-0.0, -0.0, NAN, NAN, 2]))
    zeros, first = make(dtype, [-0.0, 0.0, -0.0]), ops.ReduceAttrs((0,))
    assert same(float(run(ops.reduce_max, zeros, attrs=first)), 0.0)
    assert same(float(run(ops.reduce_min, zeros, attrs=first)), -0.0)
    assert math.isnan(float(run(ops.reduce_min, make(dtype, [1, NAN, 0]), attrs=first)))
    check(run(ops.cummax, zeros, attrs=ops.CumulativeAttrs(0)), make(dtype, [-0.0, 0.0, 0.0]))
    check(run(ops.cummin, make(dtype, [1, NAN, 0]), attrs=ops.CumulativeAttrs(0)), make(dtype, [1, NAN, NAN]))
    window = ops.ReduceWindowAttrs("max", (2,), (1,), (0,), (0,), (1,), (1,))
    check(
        run(ops.reduce_window, make(dtype, [-0.0, -0.0, 0.0, NAN]), attrs=window),
        make(dtype, [-0.0, 0.0, NAN]),
    )
    scattered = run(
        ops.scatter,
        make(dtype, [-0.0, 1]),
        make(dtype, [0.0, NAN]),
        np.array([0, 1]),
        attrs=ops.ScatterAttrs((0,), "max"),
    )
    check(scattered, make(dtype, [0.0, NAN]))


def test_3_4_comparisons():
    x, y = floats(NAN, 0.0, 1.0), floats(NAN, -0.0, NAN)
    wanted = {
        ops.eq: [0, 1, 0],
        ops.ne: [1, 0, 1],
        ops.lt: [0, 0, 0],
        ops.le: [0, 1, 0],
        ops.gt: [0, 0, 0],
        ops.ge: [0, 1, 0],
    }
    for op, results in wanted.items():
        assert run(op, x, y).tolist() == [bool(r) for r in results]


def test_3_5_float_powers():
    for x, y, wanted in (
        (NAN, 0.0, 1.0), (NAN, -0.0, 1.0), (1.0, NAN, 1.0), (-1.0, INF, 1.0), (-1.0, -INF, 1.0), (-2.0, 0.5, NAN),
        (0.0, -1.0, INF), (-0.0, -1.0, -INF), (-0.0, -2.0, INF), (-0.0, 3.0, -0.0), (-8.0, 3.0, -512.0), (0.0, 0.0, 1.0),
        (2.0, -INF, 0.0), (0.5, -INF, INF),
    ):  # fmt: skip
        assert same(both(ops.pow, x, y), wanted), (x, y)


def test_3_6_rounding():
    x = floats(0.5, 1.5, 2.5, -0.5, -1.5, 0.4, -0.4)
    check(run(ops.round, x), floats(0, 2, 2, -0.0, -2, 0, -0.0))
    check(run(ops.ceil, floats(-0.5)), floats(-0.0))
    check(run(ops.trunc, floats(-0.5, 1.9)), floats(-0.0, 1))
    check(run(ops.floor, floats(-0.0, -0.5)), floats(-0.0, -1))
    with pytest.raises(DTypeError, match="float"):
        run(ops.floor, np.int32(1))


def test_3_7_sign():
    check(run(ops.sign, floats(-3, -0.0, 0.0, INF, NAN)), floats(-1, 0, 0, 1, NAN))
    z = run(ops.sign, np.array([3 + 4j, 0], np.complex128))
    np.testing.assert_allclose(z, [0.6 + 0.8j, 0])


def test_3_8_outside_the_domain():
    nans = [
        (ops.sqrt, -1), (ops.rsqrt, -1), (ops.log, -1), (ops.log2, -1), (ops.log1p, -2), (ops.asin, 1.5), (ops.acos, -1.5),
        (ops.acosh, 0.5), (ops.atanh, 1.5), (ops.sin, INF),
    ]  # fmt: skip
    for op, x in nans:
        assert math.isnan(one(op, x)), op
    for op, x, wanted in (
        (ops.log, 0, -INF), (ops.log1p, -1, -INF), (ops.atanh, 1, INF), (ops.atanh, -1, -INF), (ops.rsqrt, 0.0, INF),
        (ops.rsqrt, -0.0, -INF), (ops.reciprocal, -0.0, -INF), (ops.sqrt, -0.0, -0.0),
    ):  # fmt: skip
        assert same(one(op, x), wanted), op


def test_3_9_special_functions_at_their_poles():
    for op, x, wanted in (
        (ops.erfinv, 1, INF), (ops.erfinv, -1, -INF), (ops.erfinv, 1.5, NAN), (ops.lgamma, 0, INF), (ops.lgamma, -1, INF),
        (ops.lgamma, -INF, INF), (ops.lgamma, 1, 0.0), (ops.digamma, 0.0, -INF), (ops.digamma, -0.0, INF),
        (ops.digamma, -2, NAN), (ops.digamma, -INF, NAN), (ops.digamma, INF, INF),
    ):  # fmt: skip
        assert same(one(op, x), wanted), (op, x)


def test_3_10_copysign_hypot_atan2_nextafter():
    assert math.copysign(1, both(ops.copysign, NAN, -1.0)) == -1
    assert both(ops.copysign, 3.0, -0.0) == -3
    assert both(ops.hypot, INF, NAN) == INF
    assert both(ops.hypot, 3e30, 4e30) == float(np.float32(5e30))
    for y, x in ((0.0, -0.0), (-0.0, -0.0), (0.0, 0.0), (1, -INF), (-INF, INF)):
        assert same(both(ops.atan2, y, x, dtypes.float64), math.atan2(y, x))
    assert both(ops.nextafter, 1.0, 2.0) == 1 + 2**-23
    assert same(both(ops.nextafter, 0.0, -0.0), -0.0)
    assert math.isnan(both(ops.nextafter, 1.0, NAN))


# --- 4 complex numbers ------------------------------------------------------------------------------------


def test_4_1_complex_numbers_have_no_order():
    x = np.array([1 + 1j, 1 - 1j], np.complex64)
    assert run(ops.eq, x, x.conj()).tolist() == [False, False]
    assert run(ops.ne, x, x).tolist() == [False, False]
    for op in (ops.lt, ops.ge, ops.max, ops.floor_div, ops.floor_mod):
        with pytest.raises(DTypeError):
            run(op, x, x)
    for op, attrs in (
        (ops.sort, ops.SortAttrs(0)),
        (ops.argmax, ops.ArgReduceAttrs(0)),
        (ops.top_k, ops.TopKAttrs(1, 0)),
    ):
        with pytest.raises(DTypeError):
            run_all(op, x, attrs=attrs)
    with pytest.raises(DTypeError):
        run(ops.round, x)


def test_4_2_parts():
    x = np.array([3e30 + 4e30j, complex(NAN, INF)], np.complex64)
    assert run(ops.abs, x).dtype == np.float32
    assert run(ops.abs, x)[0] == np.float32(5e30)
    assert run(ops.is_nan, x).tolist() == [False, True]
    assert run(ops.is_inf, x).tolist() == [False, True]
    check(run(ops.complex, run(ops.real, x), run(ops.imag, x)), x)


def test_4_3_branch_cuts():
    above, below = np.array([complex(-1, 0.0)]), np.array([complex(-1, -0.0)])
    assert run(ops.sqrt, above)[0] == 1j
    assert run(ops.sqrt, below)[0] == -1j
    assert run(ops.log, above)[0].imag == math.pi
    assert run(ops.log, below)[0].imag == -math.pi


# --- 5 conversions ----------------------------------------------------------------------------------------


def cast(x, dtype):
    return run(ops.cast, x, attrs=ops.CastAttrs(dtype))


def test_5_1_float_to_integer_saturates():
    x = np.array([NAN, INF, -INF, 1e30, -1e30, 2.9, -2.9, 127.5, 128.0, -128.9])
    assert cast(x, dtypes.int8).tolist() == [0, 127, -128, 127, -128, 2, -2, 127, 127, -128]
    assert cast(x, dtypes.uint8).tolist() == [0, 255, 0, 255, 0, 2, 0, 127, 128, 0]
    assert cast(x[:5], dtypes.int64).tolist() == [0, 2**63 - 1, -(2**63), 2**63 - 1, -(2**63)]
    assert cast(x[:5], dtypes.uint64).tolist() == [0, 2**64 - 1, 0, 2**64 - 1, 0]
    assert cast(x, dtypes.int4).astype(int).tolist() == [0, 7, -8, 7, -8, 2, -2, 7, 7, -8]


def test_5_2_integers_wrap_and_round_once():
    assert cast(np.array([300, -1]), dtypes.uint8).tolist() == [44, 255]
    assert cast(np.array([9, -9]), dtypes.int4).astype(int).tolist() == [-7, 7]
    assert float(cast(np.array([2**53 + 1]), dtypes.float64)[0]) == 2**53
    tie = 2**62 + 2**54
    assert cast(np.array([tie, tie + 1]), dtypes.bfloat16).astype(float).tolist() == [
        2.0**62,
        2.0**62 + 2.0**55,
    ]
    assert float(cast(np.array([10**6]), dtypes.float16)[0]) == INF
    assert math.isnan(float(cast(np.array([10**6]), dtypes.float8_e4m3fn)[0]))


def test_5_3_floats_round_once():
    above_tie = 1 + 2.0**-8 + 2.0**-40
    assert float(cast(np.array([above_tie]), dtypes.bfloat16)[0]) == 1 + 2.0**-7
    assert float(np.array([above_tie]).astype(ml_dtypes.bfloat16)[0]) == 1.0, "the detour this point forbids"
    assert float(cast(np.array([1 + 2.0**-4 + 2.0**-40]), dtypes.float8_e4m3fn)[0]) == 1.125
    assert float(cast(np.array([1e300]), dtypes.float32)[0]) == INF
    assert math.isnan(float(cast(np.array([465.0]), dtypes.float8_e4m3fn)[0]))
    assert float(cast(np.array([464.0]), dtypes.float8_e4m3fn)[0]) == 448


def test_5_4_bools():
    assert cast(floats(0, -0.0, NAN, 0.1), dtypes.bool_).tolist() == [False, False, True, True]
    assert cast(np.array([0, 256]), dtypes.bool_).tolist() == [False, True]
    assert cast(np.array([True, False]), dtypes.bfloat16).astype(float).tolist() == [1, 0]


def test_5_5_complex_conversions():
    z = cast(floats(-1.0), dtypes.complex64)
    assert z.tolist() == [-1 + 0j]
    assert not np.signbit(z.imag[0])
    with pytest.raises(DTypeError, match="real"):
        cast(z, dtypes.float32)
    assert cast(np.array([1j, 0j]), dtypes.bool_).tolist() == [True, False]


def test_5_6_bitcasts():
    def bitcast(x, dtype):
        return run(ops.bitcast, x, attrs=ops.BitcastAttrs(dtype))

    assert bitcast(np.array([1.0], np.float32), dtypes.uint16).tolist() == [[0, 0x3F80]]
    assert bitcast(np.array([[0, 0x3F80]], np.uint16), dtypes.float32).tolist() == [1.0]
    assert bitcast(np.array([0x21], np.uint8), dtypes.int4).astype(int).tolist() == [[1, 2]]
    assert bitcast(np.array([1 + 2j], np.complex64), dtypes.float32).tolist() == [[1, 2]]
    with pytest.raises(DTypeError):
        bitcast(np.array([True]), dtypes.uint8)
    with pytest.raises(ShapeError):
        bitcast(np.zeros(3, np.uint8), dtypes.uint16)


# --- 6 reductions -----------------------------------------------------------------------------------------


def test_6_1_narrow_sums_accumulate_wide():
    ones = np.ones(4096, np.float16)
    assert float(run(ops.reduce_sum, ones, attrs=ops.ReduceAttrs((0,)))) == 4096
    assert float(run(ops.reduce_sum, np.ones(600, ml_dtypes.bfloat16), attrs=ops.ReduceAttrs((0,)))) == 600
    scan = run(ops.cumsum, np.ones(600, ml_dtypes.bfloat16), attrs=ops.CumulativeAttrs(0)).astype(float)
    assert scan[-1] == 600
    assert scan[256] == 256
    assert scan[258] == 260
    assert int(run(ops.reduce_sum, np.full(3, 100, np.int8), attrs=ops.ReduceAttrs((0,)))) == 44
    assert run(ops.reduce_sum, np.ones(3, np.int8), attrs=ops.ReduceAttrs((0,))).dtype == np.int8


def test_6_2_empty_reductions_give_the_identity():
    def empty(op, dtype):
        return run(op, np.zeros((0, 1), dtype.numpy), attrs=ops.ReduceAttrs((0,)))[0]

    f32, i8 = dtypes.float32, dtypes.int8
    assert [float(empty(op, f32)) for op in (ops.reduce_sum, ops.reduce_prod)] == [0, 1]
    assert [float(empty(op, f32)) for op in (ops.reduce_max, ops.reduce_min)] == [-INF, INF]
    assert [int(empty(op, i8)) for op in (ops.reduce_max, ops.reduce_min, ops.reduce_and, ops.reduce_or)] == [
        -128,
        127,
        -1,
        0,
    ]
    assert [
        bool(empty(op, dtypes.bool_))
        for op in (ops.reduce_max, ops.reduce_min, ops.reduce_and, ops.reduce_or)
    ] == [False, True, True, False]
    assert float(empty(ops.reduce_max, dtypes.float8_e4m3fn)) == -448
    assert float(empty(ops.reduce_max, dtypes.float8_e5m2)) == -INF


def test_6_3_arg_reductions():
    def arg(op, *values):
        return int(run(op, floats(*values), attrs=ops.ArgReduceAttrs(0)))

    assert arg(ops.argmax, 1, 3, 3) == 1
    assert arg(ops.argmin, 2, 1, 1) == 1
    assert arg(ops.argmax, -0.0, 0.0) == 0
    assert arg(ops.argmin, 0.0, -0.0) == 0
    assert arg(ops.argmax, 9, NAN, NAN) == 1
    assert arg(ops.argmin, -9, NAN, NAN) == 1
    with pytest.raises(ShapeError, match="empty"):
        arg(ops.argmax)


def test_6_4_windows_pad_with_the_identity():
    def window(kind, *values, **attrs):
        a = {"window": 2, "strides": 2, "low": 1, "high": 0, "base": 1, "dilation": 1, **attrs}
        return run(
            ops.reduce_window, floats(*values), attrs=ops.ReduceWindowAttrs(kind, *[(v,) for v in a.values()])
        ).tolist()

    assert window("max", -3, -2, -5, -7) == [-3, -2]
    assert window("min", 3, 2, 5, 7) == [3, 2]
    assert window("sum", 3, 2, 5, 7) == [3, 7]
    assert window("prod", 3, 2, 5, 7) == [3, 10]
    assert window("max", -3, -2, strides=1, low=0, base=2) == [-3, -2]
    assert window("max", 1, window=4) == []


def test_6_5_cumulative_directions():
    x = np.array([1, 2, 3, 4])

    def sums(reverse, exclusive):
        return run(ops.cumsum, x, attrs=ops.CumulativeAttrs(0, reverse, exclusive)).tolist()

    assert sums(False, False) == [1, 3, 6, 10]
    assert sums(False, True) == [0, 1, 3, 6]
    assert sums(True, False) == [10, 9, 7, 4]
    assert sums(True, True) == [9, 7, 4, 0]
    assert run(ops.cummax, floats(1, 2), attrs=ops.CumulativeAttrs(0, False, True)).tolist() == [-INF, 1]


def test_6_6_and_or():
    x = np.array([6, 3], np.uint8)
    assert int(run(ops.reduce_and, x, attrs=ops.ReduceAttrs((0,)))) == 2
    assert int(run(ops.reduce_or, x, attrs=ops.ReduceAttrs((0,)))) == 7
    assert bool(run(ops.reduce_or, np.array([False, True]), attrs=ops.ReduceAttrs((0,))))


# --- 7 contractions ---------------------------------------------------------------------------------------


def vector_product(x, y, accum, out):
    return run(ops.dot_general, x, y, attrs=ops.DotGeneralAttrs((), (), (0,), (0,), accum, out))


def test_7_1_contractions_accumulate_in_their_dtype():
    ones = np.ones(4096, np.float16)
    assert float(vector_product(ones, ones, dtypes.float32, dtypes.float16)) == 4096
    big = np.full(4, 100, np.int8)
    assert int(vector_product(big, big, dtypes.int32, dtypes.int32)) == 40000
    assert int(vector_product(big, big, dtypes.int32, dtypes.int8)) == (40000 + 128) % 256 - 128
    assert ops.contract.resolve_dtypes(dtypes.int8, dtypes.int8, None, None) == (dtypes.int32, dtypes.int8)
    assert ops.contract.resolve_dtypes(dtypes.bfloat16, dtypes.bfloat16, None, None) == (
        dtypes.float32,
        dtypes.bfloat16,
    )
    assert ops.contract.resolve_dtypes(dtypes.uint8, dtypes.int8, None, None) == (dtypes.int32, dtypes.int32)
    attrs = ops.DotGeneralAttrs((1,), (0,), (0,), (2,), dtypes.float32, dtypes.float32)
    x, y = np.zeros((2, 3, 4), np.float32), np.zeros((3, 5, 2), np.float32)
    assert run(ops.dot_general, x, y, attrs=attrs).shape == (3, 4, 5)


def test_7_2_bools_contract_to_any_of_ands():
    x, y = np.array([True, True, False]), np.array([False, True, True])
    assert bool(vector_product(x, y, dtypes.bool_, dtypes.bool_))
    assert not bool(vector_product(x, ~x, dtypes.bool_, dtypes.bool_))


def test_7_3_convolution_does_not_flip():
    def conv(x, w, low=0, high=0, groups=1):
        ones = (1,)
        a = ops.ConvolutionAttrs(
            ones, (low,), (high,), ones, ones, groups, "NCW", "OIW", "NCW", dtypes.float32, dtypes.float32
        )
        return run(ops.convolution, np.array(x, np.float32), np.array(w, np.float32), attrs=a).tolist()

    assert conv([[[1, 2, 3]]], [[[10, 1]]]) == [[[12, 23]]]
    assert conv([[[1, 2, 3]]], [[[10, 1]]], low=1) == [[[1, 12, 23]]]
    assert conv([[[1, 2, 3]]], [[[10, 1]]], low=-1) == [[[23]]]
    assert conv([[[1]]], [[[10, 1]]]) == [[[]]]
    assert conv([[[1], [2]]], [[[3]], [[4]]], groups=2) == [[[3], [8]]]


# --- 8 data movement --------------------------------------------------------------------------------------


def test_8_1_broadcasts_align_at_the_end():
    x = np.array([[1], [2]], np.int32)
    assert run(ops.broadcast_to, x, attrs=ops.BroadcastToAttrs((1, 2, 2))).tolist() == [[[1, 1], [2, 2]]]
    with pytest.raises(ShapeError):
        run(ops.broadcast_to, np.zeros((2, 3), np.int32), attrs=ops.BroadcastToAttrs((2, 3, 1)))
    assert run(ops.reshape, np.arange(6).reshape(2, 3), attrs=ops.ReshapeAttrs((3, 2))).tolist() == [
        [0, 1],
        [2, 3],
        [4, 5],
    ]


def test_8_2_slices_stay_inside_and_pads_crop():
    x = np.arange(4)
    with pytest.raises(ShapeError):
        run(ops.slice_, x, attrs=ops.SliceAttrs((0,), (5,), (1,)))
    with pytest.raises(ShapeError):
        run(ops.slice_, x, attrs=ops.SliceAttrs((3,), (1,), (1,)))
    padded = run(ops.pad, x, np.int64(9), attrs=ops.PadAttrs((-1,), (2,), (1,)))
    assert padded.tolist() == [9, 1, 9, 2, 9, 3, 9, 9]


def test_8_3_gather_clamps():
    x = np.arange(12).reshape(3, 4)
    index = np.array([-1, 5, 1], np.int8)
    assert run(ops.gather, x, index, attrs=ops.GatherAttrs((0,))).tolist() == [
        x[0].tolist(),
        x[2].tolist(),
        x[1].tolist(),
    ]
    assert run(ops.gather, x, np.array([2**64 - 1], np.uint64), attrs=ops.GatherAttrs((1,))).tolist() == [
        [3, 7, 11]
    ]
    with pytest.raises(ShapeError, match="empty"):
        run(ops.gather, np.zeros((0, 2)), index, attrs=ops.GatherAttrs((0,)))
    assert run(ops.gather, np.zeros((0, 2)), index[:0], attrs=ops.GatherAttrs((0,))).shape == (0, 2)


def test_8_4_scatter_drops_what_lies_outside():
    x, updates = np.zeros((2, 2), np.int32), np.array([1, 2, 3], np.int32)
    i, j = np.array([0, -1, 1]), np.array([1, 0, 2])
    assert run(ops.scatter, x, updates, i, j, attrs=ops.ScatterAttrs((0, 1))).tolist() == [[0, 1], [0, 0]]


def test_8_5_duplicate_updates():
    def scatter(kind, x, updates):
        index = np.zeros(len(updates), np.int32)
        return run(ops.scatter, x, updates, index, attrs=ops.ScatterAttrs((0,), kind))[0].item()

    x, updates = np.array([2, 0]), np.array([5, 3, 4])
    wanted = {"replace": 4, "add": 14, "mul": 120, "min": 2, "max": 5}
    for kind, result in wanted.items():
        assert scatter(kind, x, updates) == result
    halves = np.full(4096, 0.5, np.float16)
    assert float(scatter("add", np.array([1024], np.float16), halves)) == 3072


def test_8_6_dynamic_windows_are_moved_inside():
    x = np.arange(5)
    for start, wanted in ((-3, [0, 1]), (4, [3, 4]), (2, [2, 3])):
        assert (
            run(ops.dynamic_slice, x, np.int32(start), attrs=ops.DynamicSliceAttrs((2,))).tolist() == wanted
        )
    assert run(ops.dynamic_update_slice, x, np.array([8, 9]), np.uint8(200)).tolist() == [0, 1, 2, 8, 9]


def test_8_7_iota_converts_from_int64():
    assert run(ops.iota, attrs=ops.IotaAttrs(dtypes.int4, (10,), 0)).astype(int).tolist() == [
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        -8,
        -7,
    ]
    bf16 = run(ops.iota, attrs=ops.IotaAttrs(dtypes.bfloat16, (260,), 0)).astype(float)
    assert bf16[[256, 257, 259]].tolist() == [256, 256, 260]


# --- 9 order ----------------------------------------------------------------------------------------------


def test_9_1_sort():
    x, tags = floats(NAN, 1, -0.0, 0.0, -INF, 1), np.arange(6)
    values, order = run_all(ops.sort, x, tags, attrs=ops.SortAttrs(0))
    assert order.tolist() == [4, 2, 3, 1, 5, 0]
    check(values, floats(-INF, -0.0, 0.0, 1, 1, NAN))
    _, order = run_all(ops.sort, x, tags, attrs=ops.SortAttrs(0, descending=True))
    assert order.tolist() == [0, 1, 5, 2, 3, 4]


def test_9_2_top_k():
    x = floats(3, NAN, 3, 1)
    assert run_all(ops.top_k, x, attrs=ops.TopKAttrs(3, 0))[1].tolist() == [1, 0, 2]
    assert run_all(ops.top_k, x, attrs=ops.TopKAttrs(3, 0, largest=False))[1].tolist() == [3, 0, 2]


def test_9_3_unique():
    values, first, inverse, counts, count = run_all(
        ops.unique, floats(NAN, 0.0, -0.0, NAN, -1), attrs=ops.UniqueAttrs(5)
    )
    assert int(count) == 4
    check(values, floats(-1, 0.0, NAN, NAN, 0))
    assert first.tolist() == [4, 1, 0, 3, 0]
    assert inverse.tolist() == [2, 1, 1, 3, 0]
    assert counts.tolist() == [1, 2, 1, 1, 0]


# --- 10 data-dependent sizes ------------------------------------------------------------------------------


def test_10_1_buffers_are_padded_with_zeros_and_truncated():
    x = np.array([0, 5, 6, 0, 7])
    assert [r.tolist() for r in run_all(ops.nonzero, x, attrs=ops.NonzeroAttrs(5))] == [[[1, 2, 4, 0, 0]], 3]
    assert [r.tolist() for r in run_all(ops.nonzero, x, attrs=ops.NonzeroAttrs(2))] == [[[1, 2]], 2]
    assert [r.tolist() for r in run_all(ops.unique, x, attrs=ops.UniqueAttrs(2))][::4] == [[0, 5], 2]


def test_10_2_bind_dim_cuts_and_clamps():
    attrs = ops.BindDimAttrs(0, "N", 1, 3)
    types = ops.bind_dim.result_types([TensorType(dtypes.int64, (4,)), TensorType(dtypes.int64)], attrs)
    assert types[0].dims == (Dim.named("N", 1, 3),)
    for count, kept in ((2, [0, 1]), (0, [0]), (4, [0, 1, 2])):
        assert evaluate(ops.bind_dim, [np.arange(4), np.int64(count)], attrs, types)[0].tolist() == kept


def test_10_3_dimension_size():
    g = Graph()
    x = g.input("x", tensor("f32", (3, "B")))
    assert [
        int(r)
        for r in interpret(g.build(x.dimension_size(0), x.dimension_size(1)), [np.zeros((3, 5), np.float32)])
    ] == [3, 5]


def test_10_4_non_max_suppression_order_and_degenerate_boxes():
    boxes = np.array([[[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]], np.float32)
    scores = np.array([[[0.5, 0.5, 0.9, 0.4]]], np.float32)
    scalars = [np.int64(9), np.float32(0.5), np.float32(0.4)]
    rows, count = run_all(
        ops.non_max_suppression, boxes, scores, *scalars, attrs=ops.NonMaxSuppressionAttrs(4)
    )
    assert rows[: int(count)].tolist() == [[0, 0, 2], [0, 0, 0], [0, 0, 1]]


# --- 11 random numbers ------------------------------------------------------------------------------------


def test_11_1_bits_are_threefry_of_the_position():
    key = np.zeros(2, np.uint32)
    word = run(ops.rng_bits, key, attrs=ops.RngBitsAttrs(dtypes.uint64, (1,)))
    assert int(word[0]) == 0x6B20015999BA4EFE
    short = run(ops.rng_bits, key, attrs=ops.RngBitsAttrs(dtypes.uint32, (1,)))
    assert int(short[0]) == 0x6B200159 ^ 0x99BA4EFE
    byte = run(ops.rng_bits, key, attrs=ops.RngBitsAttrs(dtypes.uint8, (2, 2)))
    assert int(byte[0, 0]) == int(short[0]) & 0xFF
    assert byte.tobytes() == run(ops.rng_bits, key, attrs=ops.RngBitsAttrs(dtypes.uint8, (4,))).tobytes()


def test_11_2_uniform_and_normal_are_functions_of_the_bits():
    g = Graph()
    key = g.constant(np.array([3, 4], np.uint32))
    bits, uniform, normal = interpret(
        g.build(key.rng_bits((50,), "u32"), g.uniform(key, (50,)), g.normal(key, (50,))), []
    )
    assert uniform.tolist() == [(int(b) >> 8) * 2.0**-24 for b in bits]
    places = [((int(b) >> 9) * 2 + 1) * 2.0**-23 - 1 for b in bits]
    expected = [float(np.float32(one(ops.erfinv, u)) * np.float32(2**0.5)) for u in places]
    assert normal.tolist() == expected


# --- 12 quantisation --------------------------------------------------------------------------------------


def quantize(x, dtype, scale, zero):
    quant = Quant(dtypes.float32, (scale,), (zero,))
    attrs = ops.QuantizeAttrs(dtype, quant)
    types = ops.quantize.result_types([TensorType(dtypes.float32, x.shape)], attrs)
    return evaluate(ops.quantize, [x], attrs, types)[0].astype(int).tolist()


def test_12_1_quantize_rounds_to_even_and_saturates():
    x = floats(0.5, 1.5, -0.5, 1000, -1000, INF, NAN)
    assert quantize(x, dtypes.int8, 1.0, 10) == [10, 12, 10, 127, -128, 127, 10]
    assert quantize(x, dtypes.uint4, 1.0, 3) == [3, 5, 3, 15, 0, 15, 3]


def test_12_2_dequantize_is_exact_until_the_product():
    quant = Quant(dtypes.float32, (0.1,), (-128,))
    attrs = ops.DequantizeAttrs(quant)
    types = ops.dequantize.result_types([TensorType(dtypes.int8, (2,), quant)], attrs)
    (result,) = evaluate(ops.dequantize, [np.array([127, -128], np.int8)], attrs, types)
    check(result, np.array([np.float32(255) * np.float32(0.1), 0], np.float32))


def test_12_3_quantised_values_only_move():
    quant = Quant(dtypes.float32, (0.5,), (0,))
    x = TensorType(dtypes.int8, (2, 3), quant)
    assert ops.transpose.result_types([x], ops.TransposeAttrs((1, 0)))[0].quant == quant
    with pytest.raises(DTypeError, match="dequantize"):
        ops.add.result_types([x, x], ops.NO_ATTRS)
    assert ops.bitcast.result_types([x], ops.BitcastAttrs(dtypes.int8))[0] == TensorType(dtypes.int8, (2, 3))


# --- 13 control flow --------------------------------------------------------------------------------------


def test_13_1_cond_chooses_and_sees_outside():
    g = Graph()
    p, x = g.input("p", tensor("bool", ())), g.input("x", tensor("i32", ()))
    function = g.build(g.cond(p, lambda: [x, x.neg()], lambda: [x.neg(), x]))
    assert [int(v) for v in interpret(function, [np.True_, np.int32(4)])] == [4, -4]
    assert [int(v) for v in interpret(function, [np.False_, np.int32(4)])] == [-4, 4]


def test_13_2_while_may_run_no_times():
    g = Graph()
    x = g.input("x", tensor("i32", ()))
    function = g.build(g.while_loop(lambda v: v.lt(10), lambda v: v.add(3), x))
    assert [int(interpret(function, [np.int32(v)])[0]) for v in (0, 10, 50)] == [12, 10, 50]


def test_13_3_scan_stacks_at_the_slices_index():
    for reverse, wanted in ((False, [0, 1, 3]), (True, [5, 3, 0])):
        g = Graph()
        xs = g.input("xs", tensor("i64", (3,)))
        function = g.build(g.scan(lambda c, x: (c.add(x), c), [g.constant(0)], [xs], reverse=reverse))
        total, before = interpret(function, [np.array([1, 2, 3])])
        assert int(total) == 6
        assert before.tolist() == wanted
    g = Graph()
    xs = g.input("xs", tensor("f32", (0, 2)))
    function = g.build(g.scan(lambda c, x: (c.add(1), x), [g.constant(5)], [xs]))
    total, outputs = interpret(function, [np.zeros((0, 2), np.float32)])
    assert int(total) == 5
    assert outputs.shape == (0, 2)


def test_13_4_calls():
    inner = Graph("inner")
    v = inner.input("v", tensor("f32", ()))
    g = Graph("outer")
    x = g.input("x", tensor("f32", ()))
    program = g.build_program(g.call(inner.build(v.mul(3)), x))
    assert float(interpret(program, [np.float32(2)])[0]) == 6
    h = Graph("custom")
    y = h.input("y", tensor("f32", ()))
    function = h.build(h.custom_call("nobody.knows", [y.exp()], [y.type]))
    with pytest.raises(GraphError, match="nobody"):
        interpret(function, [np.float32(2)])


# --- 14 linear algebra ------------------------------------------------------------------------------------


def test_14_1_matrices_are_the_last_two_axes():
    x = np.broadcast_to(np.eye(2, dtype=np.float32) * 4, (3, 5, 2, 2))
    assert run(ops.cholesky, x, attrs=ops.CholeskyAttrs()).shape == (3, 5, 2, 2)
    with pytest.raises(DTypeError):
        run(ops.cholesky, x.astype(np.float16), attrs=ops.CholeskyAttrs())


def test_14_2_a_failed_cholesky_harms_no_other():
    x = np.array([[[4, 0], [2, 2]], [[-1, 0], [0, 1]]], np.float64)
    good, bad = run(ops.cholesky, x, attrs=ops.CholeskyAttrs())
    assert good.tolist() == [[2, 0], [1, 1]]
    assert np.isnan(bad[np.tril_indices(2)]).all()
    assert bad[0, 1] == 0


def test_14_3_solves_and_lu_of_singular_matrices():
    a = np.array([[2, 9], [4, 0]], np.float64)
    b = np.array([[2], [3]], np.float64)
    assert run(ops.triangular_solve, a, b, attrs=ops.TriangularSolveAttrs()).ravel().tolist() == [1, -INF]
    packed, order = run_all(ops.lu, np.array([[1, 2], [-2, -4]], np.float64))
    assert order.tolist() == [1, 0]
    assert packed.tolist() == [[-2, -4], [-0.5, 0]]
    assert run_all(ops.lu, np.array([[1.0, 0], [-1.0, 0]]))[1].tolist() == [0, 1]


def test_14_4_orders_and_bad_input():
    x = np.diag([1.0, 3.0, 2.0])
    assert run_all(ops.svd, x, attrs=ops.SvdAttrs())[1].tolist() == [3, 2, 1]
    assert run_all(ops.eigh, x, attrs=ops.EighAttrs())[0].tolist() == [1, 2, 3]
    broken = np.array([[[NAN, 0], [0, 1]], [[1, 0], [0, 1]]])
    for op, attrs in ((ops.qr, ops.QrAttrs()), (ops.svd, ops.SvdAttrs()), (ops.eigh, ops.EighAttrs())):
        for part in run_all(op, broken, attrs=attrs):
            assert np.isnan(part[0]).all()
            assert np.isfinite(part[1]).all()


def test_14_5_normalisation_of_transforms():
    x = np.ones(4, np.complex128)
    assert run(ops.fft, x, attrs=ops.FftAttrs((0,))).tolist() == [4, 0, 0, 0]
    assert run(ops.ifft, x, attrs=ops.FftAttrs((0,))).tolist() == [1, 0, 0, 0]
    half = np.array([4 + 5j, 0, 0 + 7j])
    check(run(ops.irfft, half, attrs=ops.IrfftAttrs((0,), 4)), np.ones(4))

"""Every function of a float within the bound that docs/math.md states, on targets with and without a fused multiply-add."""

from __future__ import annotations

import math

import numpy as np
import pytest

from planish import dtypes
from planish.stages.linearizer.calls import kernel
from planish.stages.linearizer.decompositions.support import CPU, Support
from planish.stages.linearizer.s18_decompositions import decompositions
from planish.target import GPU_OPS
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from tests.stages import s18_math
from tests.stages.s18_math import (
    DTYPES,
    NO_FMA,
    TARGETS,
    UNARY,
    Applied,
    bounds,
    cases,
    describe,
    has_tables,
    inputs,
    native,
    pairs,
    same_bits,
    specials,
    worst_double,
    worst_single,
)

BOUNDS = bounds()
SINGLES = 120_000
DOUBLES = 1_200
PAIRS = 2_400
DEFINED = 700
"""How many arguments are tried against the definition: fused float64 sums are slow there."""
FUNCTIONS = (*UNARY, Ops.POW, Ops.ATAN2)


def named(value: object) -> str:
    return value.name if isinstance(value, Ops) else str(value)


def limit(op: Ops, dtype: str) -> float:
    return BOUNDS[op.name.lower(), dtype]


def test_every_function_has_a_bound_within_what_is_promised() -> None:
    for op in FUNCTIONS:
        assert 0.5 <= limit(op, "f32") <= 2
        assert 0.5 <= limit(op, "f64") <= 2
    assert limit(Ops.FMOD, "f32") == limit(Ops.FMOD, "f64") == 0


@pytest.mark.parametrize(("op", "target"), cases(UNARY, dtypes.float32), ids=named)
def test_float32_is_within_its_bound(op: Ops, target: str) -> None:
    x = inputs(op, dtypes.float32, SINGLES)
    found = native(op, dtypes.float32, SINGLES, TARGETS[target])(x)
    worst, place = worst_single(op, found, x)
    assert worst <= limit(op, "f32"), describe(op, place, found, [x])


@pytest.mark.parametrize(("op", "target"), cases(UNARY, dtypes.float64), ids=named)
def test_float64_is_within_its_bound(op: Ops, target: str) -> None:
    x = inputs(op, dtypes.float64, DOUBLES, seed=1)
    found = native(op, dtypes.float64, DOUBLES, TARGETS[target])(x)
    worst, place = worst_double(op, found, x)
    assert worst <= limit(op, "f64"), describe(op, place, found, [x])


@pytest.mark.parametrize(("op", "target"), cases([Ops.POW, Ops.ATAN2], dtypes.float32), ids=named)
def test_binary_functions_are_within_their_bounds(op: Ops, target: str) -> None:
    x, y = pairs(dtypes.float32, SINGLES)
    found = native(op, dtypes.float32, SINGLES, TARGETS[target])(x, y)
    worst, place = worst_single(op, found, x, y)
    assert worst <= limit(op, "f32"), describe(op, place, found, [x, y])
    x, y = pairs(dtypes.float64, PAIRS, seed=1)
    found = native(op, dtypes.float64, PAIRS, TARGETS[target])(x, y)
    worst, place = worst_double(op, found, x, y)
    assert worst <= limit(op, "f64"), describe(op, place, found, [x, y])


@pytest.mark.parametrize("target", ["fma", "no_fma"])
@pytest.mark.parametrize(
    "exponent",
    [
        3.0,
        4.0,
        5.0,
        7.0,
        15.0,
        16.0,
        -2.0,
        -3.0,
        -4.0,
        -7.0,
        0.5,
        1.5,
        2.5,
        3.5,
        -0.5,
        -1.5,
        -2.5,
        0.25,
        17.0,
    ],
)
def test_powers_of_a_constant_exponent_are_within_the_bound(exponent: float, target: str) -> None:
    around = np.exp2(np.linspace(-150, 128, SINGLES // 2) / exponent)  # from the least power to the greatest
    around *= np.random.default_rng(3).choice([-1.0, 1.0], around.size)
    with np.errstate(over="ignore"):
        x = inputs(Ops.POW, dtypes.float32, SINGLES)
        x[-around.size :] = around
    kernel = s18_math.compiled(
        lambda x: x.alu(Ops.POW, x.const_like(exponent)), dtypes.float32, 1, SINGLES, TARGETS[target]
    )
    found, y = kernel(x), np.full_like(x, exponent)
    worst, place = worst_single(Ops.POW, found, x, y)
    assert worst <= limit(Ops.POW, "f32"), describe(Ops.POW, place, found, [x, y])


@pytest.mark.parametrize("exponent", [3.0, 4.0, 7.0, 16.0, -2.0, -3.0, 1.5, 2.5, -0.5, -1.5])
def test_powers_of_a_constant_exponent_are_within_the_bound_in_float64(exponent: float) -> None:
    x = inputs(Ops.POW, dtypes.float64, DOUBLES)
    rng = np.random.default_rng(4)
    with np.errstate(over="ignore"):
        x[-DOUBLES // 2 :] = np.exp2(rng.uniform(-1080, 1024, x[-DOUBLES // 2 :].size) / exponent)
    kernel = s18_math.compiled(
        lambda x: x.alu(Ops.POW, x.const_like(exponent)), dtypes.float64, 1, DOUBLES, TARGETS["fma"]
    )
    found, y = kernel(x), np.full_like(x, exponent)
    worst, place = worst_double(Ops.POW, found, x, y)
    assert worst <= limit(Ops.POW, "f64"), describe(Ops.POW, place, found, [x, y])


@pytest.mark.parametrize("target", ["fma", "no_fma"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_fmod_is_exact(dtype: str, target: str) -> None:
    x, y = pairs(DTYPES[dtype], SINGLES, seed=2)
    found = native(Ops.FMOD, DTYPES[dtype], SINGLES, TARGETS[target])(x, y)
    with np.errstate(invalid="ignore"):
        wanted = np.fmod(x, y)
    assert same_bits(found, wanted)


@pytest.mark.parametrize("op", [Ops.EXP, Ops.EXP2, Ops.TANH], ids=named)
def test_functions_that_start_from_estimates_are_within_their_bounds(op: Ops) -> None:
    """Of exact estimates. What those of a GPU add is measured there (`tests/gpu/test_functions.py`)."""
    x = np.concatenate([specials(dtypes.float32), inputs(op, dtypes.float32, 20_000, seed=5)])
    found = Applied(op, dtypes.float32, Support(GPU_OPS))(x)
    worst, place = worst_single(op, found, x)
    assert worst <= limit(op, "f32"), describe(op, place, found, [x])
    nodes = len(decomposed(op, Support(GPU_OPS)))
    assert nodes < 0.7 * len(decomposed(op, TARGETS["fma"]))


def decomposed(op: Ops, support: Support) -> list[UOp]:
    """The nodes that a function of a float32 becomes."""
    with Table() as table:
        return decompositions(kernel(op, dtypes.float32, table), support).toposort()


def tabled() -> list[tuple[Ops, str, str]]:
    """Every function on every dtype, once more where it has a form of its own for AVX-512."""
    return [
        (op, dtype, target)
        for op in (*UNARY, Ops.POW, Ops.ATAN2, Ops.FMOD)
        for dtype, kind in DTYPES.items()
        for target in ("fma", "avx512")
        if target == "fma" or has_tables(op, kind)
    ]


@pytest.mark.parametrize(("op", "dtype", "target"), tabled(), ids=named)
def test_machine_code_and_the_definition_agree_bit_for_bit(op: Ops, dtype: str, target: str) -> None:
    kind = DTYPES[dtype]
    # the kernels that other tests compiled already
    size = SINGLES if dtype == "f32" or op is Ops.FMOD else DOUBLES if op.min_sources == 1 else PAIRS
    if op.min_sources == 1:
        given = [np.concatenate([specials(kind)[::3], inputs(op, kind, 4000, seed=3)[-300:]])]
    else:
        given = [x[:: len(x) // DEFINED] for x in pairs(kind, 20_000, seed=3)]
    found = native(op, kind, size, TARGETS[target])(*(np.resize(x, size) for x in given))
    given = [np.resize(x, DEFINED) for x in given]
    assert same_bits(found[:DEFINED], Applied(op, kind, TARGETS[target])(*given))


@pytest.mark.parametrize("op", [Ops.EXP, Ops.SIN, Ops.POW, Ops.FMOD, Ops.ERFC], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", DTYPES)
def test_without_a_fused_multiply_add_they_agree_too(op: Ops, dtype: str) -> None:
    given = pairs(DTYPES[dtype], 5000, seed=4)[: op.min_sources]
    found = native(op, DTYPES[dtype], 5000, NO_FMA)(*given)
    assert same_bits(found, Applied(op, DTYPES[dtype], NO_FMA)(*given))


NAN, INF = math.nan, math.inf
POWERS = [
    # base, exponent, result: the cases C names, and docs/semantics.md 3.5
    *((x, 0.0, 1.0) for x in (0.0, -0.0, 1.0, -3.5, INF, -INF, NAN)),
    *((x, -0.0, 1.0) for x in (0.0, -0.0, 1.0, -3.5, INF, -INF, NAN)),
    *((1.0, y, 1.0) for y in (INF, -INF, NAN, 0.3, -7.0)),
    (-1.0, INF, 1.0), (-1.0, -INF, 1.0), (-1.0, 3.0, -1.0), (-1.0, 2.0**60, 1.0), (-1.0, 0.5, NAN),
    (0.0, 3.0, 0.0), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (-0.0, 0.5, 0.0), (0.0, -3.0, INF), (-0.0, -3.0, -INF),
    (-0.0, -2.0, INF), (-0.0, -0.5, INF), (0.0, INF, 0.0), (0.0, -INF, INF), (-0.0, -INF, INF),
    (INF, 2.0, INF), (INF, -2.0, 0.0), (-INF, 3.0, -INF), (-INF, 2.0, INF), (-INF, 0.5, INF), (-INF, -3.0, -0.0),
    (-INF, -2.0, 0.0), (-INF, -0.5, 0.0), (0.5, INF, 0.0), (0.5, -INF, INF), (2.0, INF, INF), (2.0, -INF, 0.0),
    (-0.5, INF, 0.0), (-2.0, INF, INF), (-2.0, -INF, 0.0), (-2.0, 3.0, -8.0), (-2.0, 0.5, NAN), (NAN, 2.0, NAN),
    (2.0, NAN, NAN), (INF, NAN, NAN), (4.0, 0.5, 2.0), (2.0, -1.0, 0.5), (9.0, 1.5, 27.0),
]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_at_the_ends(dtype: str, target: str) -> None:
    kind = DTYPES[dtype].numpy
    x, y, wanted = (np.array(column, kind) for column in zip(*POWERS, strict=True))
    found = native(Ops.POW, DTYPES[dtype], len(x), TARGETS[target])(x, y)
    for row, value in zip(POWERS, found, strict=True):
        assert same_bits(np.array([value]), np.array([row[2]], kind)), (row, value)
    assert same_bits(found, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_angles_at_the_ends_are_those_of_c(dtype: str) -> None:
    kind = DTYPES[dtype].numpy
    ends = [0.0, -0.0, 1.0, -1.0, 5e-324, INF, -INF, NAN]
    y, x = (np.array(c, kind) for c in zip(*((a, b) for a in ends for b in ends), strict=True))
    found = native(Ops.ATAN2, DTYPES[dtype], len(x))(y, x)
    wanted = np.array([math.atan2(a, b) for a, b in zip(y.tolist(), x.tolist(), strict=True)]).astype(kind)
    assert same_bits(found, wanted)


SPECIAL = {
    # docs/semantics.md 3.8, and C
    Ops.EXP: [(-INF, 0.0), (INF, INF), (0.0, 1.0), (-0.0, 1.0)],
    Ops.EXPM1: [(-INF, -1.0), (INF, INF), (0.0, 0.0), (-0.0, -0.0)],
    Ops.LOG: [(0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (-INF, NAN), (1.0, 0.0)],
    Ops.LOG2: [(0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (1.0, 0.0), (8.0, 3.0), (2.0**-140, -140.0)],
    Ops.LOG1P: [(-1.0, -INF), (-2.0, NAN), (INF, INF), (0.0, 0.0), (-0.0, -0.0)],
    Ops.SIN: [(INF, NAN), (-INF, NAN), (0.0, 0.0), (-0.0, -0.0)], Ops.COS: [(INF, NAN), (0.0, 1.0)],
    Ops.TAN: [(INF, NAN), (-0.0, -0.0)], Ops.ASIN: [(1.5, NAN), (-INF, NAN), (-0.0, -0.0)],
    Ops.ACOS: [(1.0, 0.0), (-1.5, NAN)], Ops.ATAN: [(-0.0, -0.0), (INF, math.pi / 2), (-INF, -math.pi / 2)],
    Ops.SINH: [(INF, INF), (-INF, -INF), (-0.0, -0.0)], Ops.COSH: [(INF, INF), (-INF, INF), (0.0, 1.0)],
    Ops.TANH: [(INF, 1.0), (-INF, -1.0), (-0.0, -0.0)], Ops.ASINH: [(INF, INF), (-INF, -INF), (-0.0, -0.0)],
    Ops.ACOSH: [(1.0, 0.0), (0.5, NAN), (INF, INF), (-INF, NAN)],
    Ops.ATANH: [(1.0, INF), (-1.0, -INF), (1.5, NAN), (-0.0, -0.0)], Ops.ERF: [(INF, 1.0), (-INF, -1.0), (-0.0, -0.0)],
    Ops.ERFC: [(INF, 0.0), (-INF, 2.0), (0.0, 1.0)], Ops.CBRT: [(INF, INF), (-INF, -INF), (-0.0, -0.0), (27.0, 3.0), (-8.0, -2.0)],
    Ops.RSQRT: [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-1.0, NAN), (4.0, 0.5)], Ops.EXP2: [(10.0, 1024.0), (-INF, 0.0), (-149.0, 2.0**-149)],
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", SPECIAL, ids=lambda op: op.name)
def test_special_values_are_exact(op: Ops, dtype: str) -> None:
    kind = DTYPES[dtype].numpy
    pairs_of = [*SPECIAL[op], (NAN, NAN)]
    x, wanted = (np.array(column, kind) for column in zip(*pairs_of, strict=True))
    for _, target in cases([op], DTYPES[dtype]):
        assert same_bits(Applied(op, DTYPES[dtype], TARGETS[target])(x), wanted), target


@pytest.mark.parametrize("short", ["f16", "bf16", "f8e4m3fn", "f8e5m2"])
@pytest.mark.parametrize("op", [Ops.EXP, Ops.TANH, Ops.SIN, Ops.POW], ids=lambda op: op.name)
def test_narrow_floats_compute_in_float32_and_round_once(op: Ops, short: str) -> None:
    dtype = dtypes.parse(short)
    count = min(1 << dtype.bits, 4096)
    patterns = np.linspace(0, (1 << dtype.bits) - 1, count).astype(f"u{dtype.itemsize}")
    given = [patterns.view(dtype.numpy), patterns[::-1].copy().view(dtype.numpy)][: op.min_sources]
    found = Applied(op, dtype, CPU)(*given)
    with np.errstate(all="ignore"):
        wide = Applied(op, dtypes.float32, CPU)(*(x.astype(np.float32) for x in given))
        assert same_bits(found.astype(np.float32), wide.astype(dtype.numpy).astype(np.float32))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_power_of_two_as_a_factor_is_the_same_by_any_way(dtype: str) -> None:
    """SCALE by its definition, by other ops, and as an instruction."""
    kind = DTYPES[dtype]
    edge = specials(kind)
    near = np.array(
        [0.0, -0.5, 0.75, 3.0, -3.25, -126, -149.5, -1074, 1100, 1e30, -1e30, np.inf, -np.inf, np.nan]
    )
    x, y = (np.ravel(each).astype(kind.numpy) for each in np.meshgrid(edge, near))
    wanted = Applied(Ops.SCALE, kind, TARGETS["avx512"])(x, y)
    with np.errstate(all="ignore"):
        finite = np.isfinite(y)
        assert same_bits(
            wanted[finite], np.ldexp(x, np.floor(np.clip(np.nan_to_num(y), -1e4, 1e4)).astype(int))[finite]
        )
    assert same_bits(wanted, Applied(Ops.SCALE, kind, CPU)(x, y))
    for target in ("fma", "avx512"):
        assert same_bits(wanted, native(Ops.SCALE, kind, len(x), TARGETS[target])(x, y)), target


@pytest.mark.fuzz
@pytest.mark.parametrize(("op", "target"), cases(UNARY, dtypes.float32), ids=named)
def test_float32_is_within_its_bound_for_every_argument(
    op: Ops, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk = 1 << 20
    kernel = native(op, dtypes.float32, chunk, TARGETS[target])
    if op in {Ops.ERF, Ops.ERFC}:
        # math.erf takes an hour for all of them. The float64 kernel is held against mpmath above.
        monkeypatch.setitem(s18_math.DOUBLE, op, native(op, dtypes.float64, chunk))
    numbers = np.arange(chunk, dtype=np.uint32)
    for start in range(0, 1 << 32, chunk):
        x = (numbers + np.uint32(start)).view(np.float32)
        found = kernel(x)
        worst, place = worst_single(op, found, x)
        assert worst <= limit(op, "f32"), describe(op, place, found, [x])


@pytest.mark.fuzz
@pytest.mark.parametrize(("op", "target"), cases(FUNCTIONS, dtypes.float64), ids=named)
def test_float64_is_within_its_bound_for_many_arguments(op: Ops, target: str) -> None:
    size = 40_000
    given = (
        [inputs(op, dtypes.float64, size, seed=9)]
        if op.min_sources == 1
        else list(pairs(dtypes.float64, size, 9))
    )
    found = native(op, dtypes.float64, size, TARGETS[target])(*given)
    worst, place = worst_double(op, found, *given)
    assert worst <= limit(op, "f64"), describe(op, place, found, given)

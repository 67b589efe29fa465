"""The pass `expand-complex`: pairs of reals compute what complex numbers do.

Movement, sums, products and quotients keep every bit. Functions are held to a distance in units of the last place of the *modulus* of the
exact result, and to the infinities, NaNs and signs of zero of the interpreter, except where C leaves a sign open: next to a NaN.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from planish import dtypes, ptir
from planish.errors import DTypeError, PassError
from planish.ptir import Program, interpret, ops, verify
from planish.ptir.ops.checking import COMPLEX
from planish.ptir.ops.definition import REGISTRY, OpKey
from planish.ptir.passes.expand import ExpandPass
from planish.ptir.passes.expand_complex import RULES, ExpandComplexPass
from planish.ptir.types import TensorType, tensor
from tests.ptir.generate import random_inputs, random_program
from tests.ptir.library.expanding import draw, function_of, types_of
from tests.ptir.ops_testing import by_name, same


def paired(arrays):
    """Complex arrays as the expanded function takes and gives them."""
    return [
        np.ascontiguousarray(a).view(a.real.dtype).reshape(*a.shape, 2) if a.dtype.kind == "c" else a
        for a in map(np.asarray, arrays)
    ]


def expanded(program: ptir.Function | Program) -> Program:
    copy = program.clone() if isinstance(program, Program) else Program([program.clone()])
    ptir.PassManager([ExpandPass(), ExpandComplexPass()]).run(copy)
    verify(copy)
    for function in copy:
        for value in function.values():
            if value.type.dtype.is_complex:
                assert value.def_inst is not None
                near = [value.def_inst, *value.users]
                assert all(inst.op.host or inst.op is ops.bitcast for inst in near), value
    return copy


def run_both(function, arrays):
    copy = expanded(function)
    return paired(interpret(function, arrays)), interpret(copy, paired(arrays))


def check_bits(arrays, build, types=None):
    function = function_of(types_of(arrays) if types is None else types, build)
    for left, right in zip(*run_both(function, arrays), strict=True):
        assert same(left, right), f"\n{left!r}\n{right!r}"


# --- elementwise functions ---

PARTS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-5, 3e4, -700.0, 705.0, math.inf, -math.inf, math.nan]
EXTREME = [*PARTS, 1e200, -1e300, 1e-310]


def grid(parts, dtype):
    return np.array([complex(a, b) for a in parts for b in parts], dtype.numpy)


def numbers(dtype, count=2000):
    rng = np.random.default_rng(count)
    z = rng.standard_normal(count) + 1j * rng.standard_normal(count)
    near_one = np.exp(1j * rng.uniform(-math.pi, math.pi, count)) * (1 + rng.uniform(-1e-3, 1e-3, count))
    return np.concatenate([z * 10.0 ** rng.uniform(-3, 2, count), near_one]).astype(dtype.numpy)


def assert_close(left, right, eps, z):
    """Parts agree to `eps` of the modulus; special values agree."""
    left, right = left.reshape(-1, 2), right.reshape(-1, 2)
    info = np.finfo(left.dtype)
    nan = np.isnan(left)
    finite = np.where(np.isfinite(left), left, 0).astype(np.float64)
    size = np.hypot(finite[:, 0], finite[:, 1])[:, None]
    with np.errstate(all="ignore"):
        near = np.abs(left.astype(np.float64) - right) <= eps * size + 4 * float(info.smallest_subnormal)
    exact = np.isinf(left) | np.isinf(right) | ((left == 0) & (right == 0))
    alike = (left == right) & (np.signbit(left) == np.signbit(right))
    # Next to a NaN the sign of a zero or an infinity is open.
    alike |= nan.any(1, keepdims=True) & (np.abs(left) == np.abs(right))
    good = np.where(nan, np.isnan(right), np.where(exact, alike, near))
    wrong = np.flatnonzero(~good.all(1))
    assert wrong.size == 0, [(z[i], left[i], right[i]) for i in wrong[:5]]


# Units of the last place of the modulus: measured at most 2.8 in float64; float32 is rounded from float64.
ULPS = {dtypes.complex64: 1.0, dtypes.complex128: 4.0}
SMOOTH = [
    "sqrt",
    "rsqrt",
    "exp",
    "expm1",
    "log",
    "log2",
    "log1p",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "asin",
    "acos",
    "atan",
    "asinh",
    "acosh",
    "atanh",
]


@pytest.mark.parametrize("dtype", by_name(COMPLEX), ids=str)
@pytest.mark.parametrize("name", SMOOTH)
def test_functions(name, dtype):
    eps = ULPS[dtype] * np.finfo(dtype.numpy).eps
    parts = PARTS if dtype is dtypes.complex64 else EXTREME
    for z in (grid(parts, dtype), numbers(dtype)):
        function = function_of(types_of([z]), lambda x: getattr(x, name)())
        (left,), (right,) = run_both(function, [z])
        with np.errstate(all="ignore"):
            assert_close(left, right, eps, z)


@pytest.mark.parametrize("dtype", by_name(COMPLEX), ids=str)
def test_arithmetic_keeps_every_bit(dtype):
    z = grid(PARTS, dtype)
    a, b = (m.ravel() for m in np.meshgrid(z, z))

    def build(x, y):
        return [x.add(y), x.sub(y), x.mul(y), x.div(y), x.eq(y), x.ne(y), x.eq(y).select(x, y)]

    check_bits([a, b], build)
    check_bits(
        [np.concatenate([z, numbers(dtype)])],
        lambda x: [x.neg(), x.conj(), x.real(), x.imag(), x.is_nan(), x.is_inf(), x.is_finite(), x.real().complex(x.imag())],
    )  # fmt: skip


@pytest.mark.parametrize("dtype", by_name(COMPLEX), ids=str)
@pytest.mark.parametrize("name", ["sign", "reciprocal"])
def test_directions_and_inverses(name, dtype):
    z = np.concatenate([grid(PARTS, dtype), numbers(dtype)])
    function = function_of(types_of([z]), lambda x: getattr(x, name)())
    (left,), (right,) = run_both(function, [z])
    assert_close(left, right, np.finfo(dtype.numpy).eps, z)


@pytest.mark.parametrize("dtype", by_name(COMPLEX), ids=str)
def test_modulus(dtype):
    z = np.concatenate([grid(EXTREME if dtype is dtypes.complex128 else PARTS, dtype), numbers(dtype)])
    function = function_of(types_of([z]), lambda x: x.abs())
    (left,), (right,) = run_both(function, [z])
    assert np.array_equal(np.isfinite(left), np.isfinite(right))
    np.testing.assert_array_max_ulp(left[np.isfinite(left)], right[np.isfinite(left)], 2)


@pytest.mark.parametrize("dtype", by_name(COMPLEX), ids=str)
def test_powers(dtype):
    rng = np.random.default_rng(0)
    a = numbers(dtype, 500)
    whole = rng.integers(-9, 10, a.shape).astype(dtype.numpy)
    broken = (rng.uniform(-3, 3, a.shape) + 1j * rng.uniform(-3, 3, a.shape)).astype(dtype.numpy)
    # The error of exp(b·log a) grows with |b·log a|, here below 64.
    for exponent, ulps in ((whole, 16), (broken, 64)):
        (left,), (right,) = run_both(
            function_of(types_of([a, exponent]), lambda x, y: x.pow(y)), [a, exponent]
        )
        assert_close(left, right, ulps * np.finfo(dtype.numpy).eps, a)
    small = np.array([complex(x, y) for x in (0.0, -0.0, 1.0, -2.0) for y in (0.0, -0.0, 1.0)], dtype.numpy)
    x, y = (m.ravel() for m in np.meshgrid(small, small))
    (left,), (right,) = run_both(function_of(types_of([x, y]), lambda x, y: x.pow(y)), [x, y])
    assert np.array_equal(np.isnan(left), np.isnan(right))
    np.testing.assert_allclose(left, right, rtol=1e-5 if dtype is dtypes.complex64 else 1e-14, atol=1e-15)


# --- tensors ---


@pytest.mark.parametrize("dtype", by_name(COMPLEX), ids=str)
def test_movement_keeps_every_bit(dtype):
    rng = np.random.default_rng(1)
    x, y = (grid(PARTS, dtype)[rng.integers(0, 100, (4, 6))] for _ in range(2))

    def build(x, y):
        graph = x.graph
        at = graph.constant(np.array([5, 0, 9, -1]))
        one = graph.constant(np.array(1))
        return [
            x.reshape(6, 4),
            x.transpose(),
            x[1:, ::2],
            x.reverse(0),
            x.concat([y], 1),
            x.pad([1, 0], [0, -2], [1, 0], 2 - 1j),
            x[0].broadcast_to(3, 6),
            x.gather([at], 1),
            x.scatter(y[:, :4].transpose(), [at], 1),
            x.scatter(y[:, :4].transpose(), [at], 1, "add"),
            x.dynamic_slice([one, one], [2, 3]),
            x.dynamic_update_slice(y[:2, :2], [one, one]),
            graph.iota((2, 3), 1, dtype),
            graph.constant(np.array([1j, complex(math.nan, -0.0)], dtype.numpy)),
            graph.full((2, 2), 1 - 2j, dtype),
            graph.iota((4, 6), 1).floor_mod(3).sort_with([x], 1)[1],
            *x.nonzero(),
            *x.unique(axis=0),
            x.dimension_size(1),
        ]

    check_bits([x, y], build)


@pytest.mark.parametrize("dtype", by_name(COMPLEX), ids=str)
def test_conversions(dtype):
    z = grid(PARTS, dtype)
    other = dtypes.complex128 if dtype is dtypes.complex64 else dtypes.complex64
    check_bits([z], lambda x: [x.cast(other), x.cast("bool"), x.cast(dtype)])
    reals = [
        draw(np.random.default_rng(0), d, (9,))
        for d in (dtypes.bool_, dtypes.int8, dtypes.float16, dtypes.float64)
    ]
    check_bits(reals, lambda *xs: [x.cast(dtype) for x in xs])


@pytest.mark.parametrize("dtype", by_name(COMPLEX), ids=str)
def test_bitcasts(dtype):
    z = grid(PARTS[:4], dtype).reshape(4, 2, 2)
    targets = ["f32", "f64", "i32", "u64", "i8", "u16", "c64"] + (
        ["c128"] if dtype is dtypes.complex64 else []
    )

    def build(x):
        wide = [x.bitcast(target) for target in targets]
        back = [
            value.bitcast(dtype) for value in wide if value.rank >= x.rank or value.dtype.bits == dtype.bits
        ]
        return [*wide, *back]

    check_bits([z], build)


@pytest.mark.parametrize("dtype", by_name(COMPLEX), ids=str)
def test_contractions(dtype):
    rng = np.random.default_rng(2)

    def some(*shape):
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype.numpy)

    wide = ptir.DotAttrs(dtypes.complex128, dtypes.complex64)
    a, b, image, kernel = some(3, 5, 7), some(3, 7, 4), some(2, 4, 6, 5), some(4, 2, 3, 2)

    def build(a, b, image, kernel):
        return [
            a.matmul(b),
            a.matmul(b, wide),
            image.convolution(kernel, padding=[(1, 1), (0, 2)], strides=[1, 2], groups=2),
        ]

    left, right = run_both(function_of(types_of([a, b, image, kernel]), build), [a, b, image, kernel])
    for wanted, got in zip(left, right, strict=True):
        np.testing.assert_allclose(
            got, wanted, atol=24 * np.finfo(wanted.dtype).eps * np.abs(wanted).max(), rtol=0
        )


@pytest.mark.parametrize("size", [0, 1, 2, 7, 8])
def test_reductions_scans_windows_and_scatters(size):
    rng = np.random.default_rng(size)
    z = rng.standard_normal((3, size)) + 1j * rng.standard_normal((3, size))
    index = rng.integers(-1, 6, (size,))
    ways = [(reverse, exclusive) for reverse in (True, False) for exclusive in (True, False)]
    # An empty axis cannot be dilated, and has no windows.
    window = {"window": [2, 2], "strides": [1, 2], "padding": [(1, 0), (1, 1)], "base_dilation": [2, 1]}

    def build(x, index):
        target = x.graph.full((4, 3), 1 + 1j, "c128")
        return [
            x.reduce_sum([1], True),
            x.reduce_prod([0], True),
            x.reduce_prod([1]),
            x.reduce_prod([0, 1]),
            *(x.cumsum(1, *way) for way in ways),
            *(x.cumprod(0, *way) for way in ways),
            *(x.cumprod(1, *way) for way in ways),
            x.reduce_window("sum", **window),
            x.reduce_window("prod", **window),
            target.scatter(x.transpose(), [index], 0, "mul"),
        ]

    left, right = run_both(function_of(types_of([z, index]), build), [z, index])
    for wanted, got in zip(left, right, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-13, atol=1e-13)


# --- functions, regions, sizes ---


def test_regions_carry_pairs():
    def build(x, ys, n):
        graph = x.graph

        def body(step, held):
            return step.add(1), held.mul(held).add(x)

        _, looped = graph.while_loop(lambda step, held: step.lt(n), body, graph.constant(0), x)
        last, seen, real = graph.scan(
            lambda held, y: (held.sub(y), held.concat([y], 0), y.real().reduce_sum()),
            [looped],
            [ys],
            reverse=True,
        )
        (chosen,) = graph.cond(n.gt(1), lambda: last.conj(), lambda: x.mul(1j))
        (inner,) = graph.cond(n.gt(0), lambda: x.mul(x).real().reduce_sum(), lambda: x.imag().reduce_sum())
        return looped, last, seen, real, chosen, inner

    rng = np.random.default_rng(0)
    x = np.round(rng.standard_normal(3) + 1j * rng.standard_normal(3), 1).astype(np.complex64)
    ys = np.round(rng.standard_normal((4, 3)) * 1j, 1).astype(np.complex64)
    for steps in (0, 1, 2):
        check_bits([x, ys, np.asarray(steps)], build)


def test_calls_pass_numbers_whole():
    graph = ptir.Graph("callee")
    number = graph.input("z", tensor("c64", (3,)))
    callee = graph.build(number.conj(), number.real())
    graph = ptir.Graph("main")
    x = graph.input("x", tensor("c64", (3,)))
    turned, real = graph.call(callee, x.mul(x))
    program = graph.build_program(turned.add(x), real)
    copy = expanded(program)
    assert copy["callee"].param_types == copy["main"].param_types == (tensor("f32", (3, 2)),)
    z = np.array([1 + 2j, -3j, 0.5], np.complex64)
    left, right = paired(interpret(program, [z])), interpret(copy, paired([z]))
    assert all(same(a, b) for a, b in zip(left, right, strict=True))


def test_the_outside_is_a_view_of_the_same_bytes():
    function = function_of([tensor("c128", (2, "N"), N=(1, 5))], lambda x: x.add(1j))
    copy = expanded(function)
    (param,) = copy.entry.params
    assert (param.name, str(param.type)) == ("x0", "tensor<f64, 2xNx2>")
    z = np.arange(6).reshape(2, 3) + 0.5j
    (result,) = interpret(copy, [z.view(np.float64).reshape(2, 3, 2)])
    assert np.array_equal(result.view(np.complex128)[..., 0], z + 1j)


def test_host_ops_stand_between_bitcasts():
    def build(x):
        back = x.fft([1]).mul(x).ifft([1])
        values, _ = x.matmul(x.conj().transpose()).eigh()
        return back, x.real().rfft([0]), values, x.fft([0])

    z = np.random.default_rng(0).standard_normal((4, 6)) + 1j
    function = function_of(types_of([z]), build)
    left, right = run_both(function, [z])
    for wanted, got in zip(left, right, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-11)
    copy = expanded(function)
    assert sum(inst.op.host for inst in copy.entry.walk()) == 5


def test_twice_is_once():
    copy = expanded(function_of([tensor("c64", (4,))], lambda x: [x.fft(), x.mul(2j)]))
    text = ptir.print(copy.entry)
    assert not ExpandComplexPass().run(copy).changed
    assert ptir.print(copy.entry) == text


def test_a_bound_size_is_bound_once():
    def build(x):
        _, count = x.nonzero()
        kept = x.bind_dim(count, 0, "K", 0, 6)
        return kept, kept.conj(), kept.dimension_size(0)

    check_bits([np.array([1, 0, 2j, 0, 0, 3])], build)


def test_a_composite_is_refused_with_a_remedy():
    program = Program([function_of([tensor("c64", (4,))], lambda x: x.unique())])
    with pytest.raises(PassError, match="run expand before it"):
        ExpandComplexPass().run(program)


def test_every_op_that_takes_complex_numbers_has_a_rule():
    control = {"return", "cond", "while", "scan", "call"}
    composites = {"sort", "nonzero", "unique"}
    # Its type decides, which no complex type can have.
    quantised = {"dequantize"}
    # They move numbers between ranks as they are, and are asked with a mesh.
    moving = {op.name for op in REGISTRY.values() if op.key is OpKey.COLLECTIVE}
    number = TensorType(dtypes.complex64, (2, 2))
    asked = []
    for op in REGISTRY.values():
        if op.host or op.name in control | composites | quantised | moving | RULES.keys():
            continue
        # What is left refuses complex operands before it looks at anything else.
        with pytest.raises(DTypeError):
            op.infer([number] * op.min_operands, ops.NO_ATTRS, ())
        asked.append(op.name)
    assert {"max", "floor", "argmax", "reduce_max", "cummax", "top_k", "erf", "rng_bits"} <= set(asked)


# Their float results may differ in the last place, and what follows in a random program may make much of that.
INEXACT = frozenset({*SMOOTH, "pow", "abs", "reciprocal", "sign", "dot_general", "convolution", "reduce_prod", "cumprod", "reduce_window", "reduce_sum", "cumsum", "scatter", "eigh", "svd", "qr", "lu", "cholesky", "triangular_solve", "fft", "ifft", "rfft", "irfft"})  # fmt: skip


@pytest.mark.parametrize("seed", range(150))
def test_random_programs(seed):
    program = random_program(seed, size=25, exclude=INEXACT)
    copy = expanded(program)
    inputs = random_inputs(program, seed)
    left, right = paired(interpret(program, inputs)), interpret(copy, paired(inputs))
    for wanted, got in zip(left, right, strict=True):
        assert same(wanted, got), f"\n{wanted!r}\n{got!r}"


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_of_all_ops_verify(seed):
    copy = expanded(random_program(seed, size=30))
    ptir.PassManager.parse("canonicalize,cse,dce").run(copy)
    verify(copy)

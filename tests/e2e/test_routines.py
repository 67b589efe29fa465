"""Routines against the interpreter: whatever they are given, they give what the op means, without a way back to Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

import planish as pn
from planish import compiler, dtypes, ptir
from planish.compiler import compilation_cache, native, object_code, plan_json
from planish.compiler.executable import Executable
from planish.dtypes import DType
from planish.ptir import ops
from planish.ptir.graph_value import GraphValue
from planish.ptir.ops.checking import ORDERED
from planish.ptir.types import TensorType
from planish.runtime import libraries, plan, processors
from planish.schedule.plan import Host, walk
from planish.target import TARGETS
from tests.e2e.comparing import same
from tests.ptir.library.expanding import draw, function_of, types_of
from tests.ptir.ops_testing import by_name

Array = NDArray[Any]
_KNOWN = [dtype for dtype in by_name(ORDERED) if dtype.bits >= 8 or dtype.is_bool]


def compiled(function: ptir.Function) -> tuple[Executable, list[Host]]:
    """Machine code that does its host ops itself, and those ops."""
    exe = compiler.compile(function)
    hosts = [step for step in walk(exe.lowered.plan.steps) if isinstance(step, Host)]
    assert hosts, exe.lowered.plan
    assert all(host.call is not None for host in hosts), exe.lowered.plan
    assert exe.is_fast, "a call comes back to Python"
    return exe, hosts


def _parts(x: Array) -> Array:
    """Complex numbers as pairs."""
    return np.ascontiguousarray(x)[..., np.newaxis].view(x.real.dtype) if np.iscomplexobj(x) else x


def check(
    arrays: Sequence[Array], build: Callable[..., object], types: Sequence[TensorType] | None = None
) -> list[Host]:
    """A function gives the bits that the interpreter gives."""
    function = function_of(types_of(arrays) if types is None else types, build)
    exe, hosts = compiled(function)
    found, wanted = exe(*arrays), ptir.interpret(function, list(arrays))
    for number, (own, meant) in enumerate(zip(found, wanted, strict=True)):
        what = f"result {number} of {[array.shape for array in arrays]}"
        same(_parts(own), _parts(np.asarray(meant)), what)
    return hosts


# -- order -----------------------------------------------------------------------------------------------------------


def ordered(x: GraphValue) -> list[GraphValue]:
    place, many = x.graph.iota(x.dims, x.rank - 1), min(70, cast("int", x.dims[-1]))
    return [
        x.sort(-1), x.sort(-1, descending=True), x.sort_with([place], -1)[1],
        x.sort_with([place], -1, descending=True)[1], *x.top_k(3), *x.top_k(many, largest=False),
    ]  # fmt: skip


@pytest.mark.parametrize("count", [40, 301, 1100])
@pytest.mark.parametrize("dtype", _KNOWN, ids=lambda dtype: dtype.short)
def test_every_dtype_is_ordered_as_the_interpreter_orders_it(dtype: DType, count: int):
    """Many duplicates, infinities, NaNs and both zeros."""
    hosts = check([draw(np.random.default_rng(1), dtype, (3, count))], ordered)
    assert {host.op.name for host in hosts} == {"sort", "argsort", "top_k"}


@pytest.mark.parametrize("count", [33, 64, 200, 256, 257, 512, 1000, 1025, 4099])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float64, np.uint64])
def test_distinct_values_of_all_sizes(count: int, dtype: type):
    bits = np.random.default_rng(count).integers(0, 256, (2, count, np.dtype(dtype).itemsize), np.uint8)
    with np.errstate(all="ignore"):
        check([bits.view(dtype)[..., 0]], ordered)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("count", [33, 70, 1000])
def test_short_rows_keep_the_bits_of_what_is_equal(count: int, dtype: DType):
    """Nothing but zeros of either sign, NaNs of all kinds and a few numbers between them, either way round."""
    rng, bits = np.random.default_rng(count), dtype.itemsize * 8
    raw = np.dtype(f"uint{bits}").type
    some = draw(rng, dtype, (4, count)).view(raw)
    none = rng.integers(1, 50, (4, count)).astype(raw) | raw(
        ((1 << (bits - 1)) - 1) ^ ((1 << (bits // 8)) - 1)
    )
    kinds, signs = rng.integers(0, 3, (4, count)), rng.integers(0, 2, (4, count)).astype(raw) << raw(bits - 1)
    x = np.choose(kinds, [signs, none | signs, some]).astype(raw).view(dtype.numpy)
    with np.errstate(all="ignore"):
        check([x], ordered)


@pytest.mark.parametrize("order", ["up", "down", "equal", "late"])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_the_best_of_rows_that_are_hard_to_search(order: str, dtype: type):
    """Ascending rows beat the best so far with every element; the best of late ones all come at the end."""
    x: Array = np.sort(np.random.default_rng(0).integers(0, 10_000, (2, 3000)).astype(dtype), -1)
    if order == "down":
        x = x[:, ::-1].copy()
    elif order == "equal":
        x[...] = 7
    elif order == "late":
        x[:, :-60] = 0
    check([x], lambda v: [*v.top_k(1), *v.top_k(5), *v.top_k(64), *v.top_k(65), *v.top_k(700)])


def test_any_axis_and_several_keys():
    rng = np.random.default_rng(2)
    x = rng.integers(0, 4, (400, 3), np.int32)
    y = rng.standard_normal((400, 3)).astype(np.float32)

    def build(a: GraphValue, b: GraphValue) -> list[GraphValue]:
        return [*a.sort_with([b], 0, num_keys=2), *b.top_k(9, 0), a.sort(0)]

    check([x, y], build)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.complex64])
def test_distinct_values_are_found_by_sorting(dtype: type):
    x: Array = np.random.default_rng(0).integers(0, 40, 700).astype(dtype)
    if dtype is not np.int64:
        x[[3, 50]], x[9] = np.nan, -0.0
    hosts = check([x], lambda v: [*v.unique(), *v.unique(5)])
    assert {host.op.name for host in hosts} == {"argsort"}


@pytest.mark.parametrize("most", [250, 5000])
def test_named_sizes(most: int):
    rows, count = ptir.Dim.named("R", 0, 40), ptir.Dim.named("N", 1, most)
    type = TensorType(dtypes.float32, (rows, count))
    function = function_of([type], lambda v: [v.sort(-1), v.sort_with([v.graph.iota(v.dims, 1)], 1)[1]])
    exe, _ = compiled(function)
    for shape in ((0, 5), (1, 1), (17, most), (40, 33)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        for own, meant in zip(exe(x), ptir.interpret(function, [x]), strict=True):
            same(own, np.asarray(meant), str(shape))


def test_machines_without_routines_sort_in_kernels():
    function = function_of([ptir.tensor("f32", (400,))], lambda v: v.sort(0))
    for name in ("scalar", "cuda"):
        plan = compiler.lower(function, TARGETS[name]).plan
        assert not any(isinstance(step, Host) for step in walk(plan.steps)), name


# -- suppression -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_suppression_is_that_of_the_interpreter(seed: int):
    rng = np.random.default_rng(seed)
    batches, classes, count = 1 + seed % 2, 1 + seed % 3, int(rng.integers(1, 90))
    if seed % 4 == 3:
        count = 700  # only the best are visited at first
    dtype = [np.float32, np.float64][seed % 2]
    boxes = (rng.random((batches, count, 4)) * (4 if seed % 3 else 60)).astype(dtype)
    scores = np.round(rng.random((batches, classes, count)), 2).astype(dtype)
    if seed % 5 == 0:
        boxes.flat[rng.integers(0, boxes.size, 6)] = [np.nan, np.inf, -np.inf, 0, 1e30, -1e30]
        scores.flat[rng.integers(0, scores.size, 3)] = [np.nan, np.inf, -np.inf]
    limit, most = int(rng.integers(-1, 12)), int(rng.integers(1, 15))
    overlap = [0.0, 0.3, 0.5, -1.0, float("nan"), 1.0][seed % 6]
    threshold = [0.0, 0.3, float("-inf")][seed % 3]
    attrs = ops.NonMaxSuppressionAttrs(most, bool(seed & 4))

    def build(b: GraphValue, s: GraphValue) -> tuple[GraphValue, ...]:
        kind = b.dtype
        numbers = [b.graph.full((), value, kind) for value in (overlap, threshold)]
        return b.graph.emit_many(
            ops.non_max_suppression, [b, s, b.graph.full((), limit, dtypes.int64), *numbers], attrs
        )

    with np.errstate(all="ignore"):
        check([boxes, scores], build)


# -- Fourier transforms ----------------------------------------------------------------------------------------------

_LENGTHS = [1, 2, 3, 8, 30, 64, 127, 143, 254, 263, 1000, 4096]


@pytest.mark.parametrize(
    ("lines", "dtype"), [(1, np.float32), (5, np.float64), (16, np.float64), (19, np.float32)]
)
def test_transforms_of_all_lengths(lines: int, dtype: type):
    """In lanes, long, by convolution; partly filled lanes. The error is a few units in the last place of the largest."""
    rng = np.random.default_rng(lines)
    for n in _LENGTHS:
        re: Array = rng.standard_normal((lines, n)).astype(dtype)
        z = re + 1j * rng.standard_normal((lines, n)).astype(dtype)
        for name, given in (("fft", z), ("ifft", z), ("rfft", re), ("irfft", z[:, : n // 2 + 1].copy())):
            size = {"n": n} if name == "irfft" else {}
            f, numpys = getattr(pn.fft, name), getattr(np.fft, name)
            wide = given.astype(np.complex128 if name != "rfft" else np.float64)
            found = np.asarray(pn.jit(lambda x, f=f, s=size: f(x, **s))(pn.asarray(given)))
            meant = numpys(wide, **size)
            assert found.dtype == numpys(given, **size).dtype
            bound = 6 * np.finfo(dtype).eps * max(1.0, np.log2(n)) * np.abs(meant).max()
            assert np.abs(found - meant).max() <= bound, (name, n, lines)


def test_a_line_that_is_not_finite_harms_no_other():
    x = np.random.default_rng(0).standard_normal((20, 60)).astype(np.float32)
    x[3, 5], x[7, 9] = np.nan, np.inf
    found = np.asarray(pn.jit(pn.fft.rfft)(pn.asarray(x)))
    clean = np.isfinite(found).all(1)
    assert clean.tolist() == [row not in (3, 7) for row in range(20)]


@pytest.mark.parametrize("axes", [None, (0, 1), (2, 0), (1,)])
def test_transforms_of_any_axes(axes: tuple[int, ...] | None):
    rng = np.random.default_rng(0)
    re = rng.standard_normal((4, 6, 10))
    z = re + 1j * rng.standard_normal(re.shape)
    for name, given in (("fftn", z), ("ifftn", z), ("rfftn", re), ("irfftn", z)):
        f, meant = getattr(pn.fft, name), getattr(np.fft, name)(given, axes=axes)
        found = np.asarray(pn.jit(lambda x, f=f: f(x, axes=axes))(pn.asarray(given)))
        np.testing.assert_allclose(found, meant, atol=1e-12)


def test_complex_results_are_made_where_they_are_returned():
    function = function_of(
        [ptir.tensor("c64", (4, 60))], lambda v: v.graph.emit(ops.fft, [v], ops.FftAttrs((1,)))
    )
    exe, _ = compiled(function)
    assert "copy" not in str(exe.lowered.plan)
    assert not exe.kernels


# -- factorisations --------------------------------------------------------------------------------------------------

_MATRICES = [((), 1), ((), 7), ((), 40), ((3,), 2), ((2, 9), 5), ((19,), 12), ((3,), 33)]


def _matrix(batch: tuple[int, ...], m: int, n: int, dtype: str) -> Array:
    rng = np.random.default_rng(m)
    x = rng.standard_normal((*batch, m, n))
    return (x + 1j * rng.standard_normal(x.shape) if dtype.startswith("c") else x).astype(dtype)


def _near(found: Array, meant: Array, steps: int) -> None:
    bound = 30 * steps * np.finfo(meant.dtype).eps * max(1.0, float(np.abs(meant).max()))
    assert found.shape == meant.shape
    assert np.abs(found - meant).max() <= bound


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_factorisations(dtype: str):
    for batch, n in _MATRICES:
        x = _matrix(batch, n, n, dtype)
        positive = x @ np.conj(np.swapaxes(x, -1, -2)) + n * np.eye(n, dtype=dtype)
        right = _matrix(batch, n, 3, dtype)
        for upper in (False, True):
            only = positive.copy()
            unread = np.tril_indices(n, -1) if upper else np.triu_indices(n, 1)
            only[..., unread[0], unread[1]] = np.nan
            factor = np.asarray(pn.linalg.cholesky(pn.asarray(only), upper=upper))
            turned = np.conj(np.swapaxes(factor, -1, -2))
            _near(turned @ factor if upper else factor @ turned, positive, n)
            assert not factor[..., unread[0], unread[1]].any()
        solved = np.asarray(pn.linalg.solve_triangular(pn.asarray(positive), pn.asarray(right), lower=True))
        _near(np.tril(positive) @ solved, right, n)
        _near(positive @ np.asarray(pn.linalg.solve(pn.asarray(positive), pn.asarray(right))), right, n)
        for shape in ((n, n), (n + 4, n), (n, n + 2)):
            a = _matrix(batch, *shape, dtype)
            for mode in ("reduced", "complete"):
                q, r = (np.asarray(part) for part in pn.linalg.qr(pn.asarray(a), mode=mode))
                _near(q @ r, a, n)
                eye = np.broadcast_to(np.eye(q.shape[-1], dtype=dtype), (*batch, q.shape[-1], q.shape[-1]))
                _near(np.conj(np.swapaxes(q, -1, -2)) @ q, eye, n)
                assert not np.tril(r, -1).any()


@pytest.mark.parametrize("n", [6, 40])
def test_what_cannot_be_factorised_is_nan_and_harms_no_other(n: int):
    x = np.stack([np.eye(n, dtype=np.float32)] * 20)
    x[4, 2, 2] = -1
    x[5, 3, 1] = np.inf
    x[6, 1, 3] = np.nan  # above the diagonal
    factor = np.asarray(pn.jit(pn.linalg.cholesky)(pn.asarray(x)))
    for number, found in enumerate(factor):
        wanted = np.tril(np.full((n, n), np.nan)) if number in (4, 5) else np.eye(n)
        np.testing.assert_array_equal(found, wanted)
    q, r = (np.asarray(part) for part in pn.jit(lambda a: tuple(pn.linalg.qr(a)))(pn.asarray(x)))
    for number in range(20):
        assert np.isnan(q[number]).all() == np.isnan(r[number]).all() == (number in (5, 6))
        assert number in (5, 6) or np.isfinite(q[number]).all()


def test_sizes_of_numbers_do_not_matter_to_small_reflections():
    for scale in (1e-30, 1e30):
        a = (np.random.default_rng(0).standard_normal((4, 6, 6)) * scale).astype(np.float32)
        q, r = (np.asarray(part).astype(np.float64) for part in pn.linalg.qr(pn.asarray(a)))
        assert np.abs(q @ r - a).max() <= 1e-5 * scale
        assert np.abs(np.swapaxes(q, -1, -2) @ q - np.eye(6)).max() <= 1e-5


def test_every_side_and_transform_of_a_triangular_solve():
    rng = np.random.default_rng(0)
    for n in (5, 40):
        a = np.tril(rng.standard_normal((3, n, n)) / n) + 2 * np.eye(n)
        for left in (False, True):
            b = rng.standard_normal((3, n, 2) if left else (3, 2, n))
            for transform in ("none", "transpose", "adjoint"):
                for unit in (False, True):
                    attrs = ops.TriangularSolveAttrs(left, True, transform, unit)
                    function = function_of(
                        types_of([a, b]),
                        lambda x, y, attrs=attrs: x.graph.emit(ops.triangular_solve, [x, y], attrs),
                    )
                    exe, _ = compiled(function)
                    np.testing.assert_allclose(
                        exe(a, b)[0], ptir.interpret(function, [a, b])[0], rtol=1e-9, atol=1e-9
                    )


_NAMED = ptir.Dim.named("B", 0, 40)


@pytest.mark.parametrize(
    ("shape", "build"),
    [
        ((60,), lambda v: v.graph.emit(ops.rfft, [v], ops.FftAttrs((1,)))),
        ((12, 12), lambda v: v.graph.emit(ops.cholesky, [v], ops.CholeskyAttrs())),
        ((40, 40), lambda v: v.graph.emit(ops.cholesky, [v], ops.CholeskyAttrs())),
        ((40, 40), lambda v: v.graph.emit_many(ops.lu, [v])),
    ],
)
def test_as_many_as_there_are(shape: tuple[int, ...], build: Callable[[GraphValue], object]):
    function = function_of([TensorType(dtypes.float64, (_NAMED, *shape))], build)
    exe, _ = compiled(function)
    for count in (0, 1, 17, 40):
        x = np.random.default_rng(count).standard_normal((count, *shape))
        if len(shape) == 2:
            x = x @ np.swapaxes(x, -1, -2) + 50 * np.eye(shape[0])
        for own, meant in zip(exe(x), ptir.interpret(function, [x]), strict=True):
            np.testing.assert_allclose(own, np.asarray(meant), rtol=1e-10, atol=1e-10)


# -- where they come from --------------------------------------------------------------------------------------------


def _both() -> tuple[ptir.Function, list[Array]]:
    """A function of ours and of a library."""

    def build(x: GraphValue, a: GraphValue) -> list[GraphValue]:
        return [x.sort(-1), a.graph.emit(ops.cholesky, [a], ops.CholeskyAttrs())]

    arrays = [np.random.default_rng(0).standard_normal((2, 2000)), np.eye(40) * 4.0]
    return function_of(types_of(arrays), build), arrays


def test_without_the_library_python_does_it(monkeypatch: pytest.MonkeyPatch):
    function, arrays = _both()
    monkeypatch.setattr(libraries, "_function", lambda name: 0)
    monkeypatch.setattr(object_code, "routine_of", object_code.routine_of.__wrapped__)
    monkeypatch.setattr(native, "routine_of", object_code.routine_of)
    exe = compiler.compile(function)
    assert not exe.is_fast
    for own, meant in zip(exe(*arrays), ptir.interpret(function, arrays), strict=True):
        same(own, np.asarray(meant), "by Python")


def test_a_profile_runs_routines_too(monkeypatch: pytest.MonkeyPatch):
    function, arrays = _both()
    exe = compiler.compile(function)
    monkeypatch.setattr(plan.CallHost, "step", lambda *_: pytest.fail("Python does the work of a routine"))
    assert {"sort", "cholesky"} <= {record.kernel for record in exe.profile(*arrays, repeat=2).records}


def test_an_unknown_routine_is_not_there():
    assert object_code.routine_of("polish.float32", processors.host()) is None


def test_a_kept_plan_is_called_as_its_op_says(monkeypatch: pytest.MonkeyPatch):
    """A plan that was changed on disk, so that a routine would write elsewhere, is no plan."""
    function, _ = _both()
    lowered = compiler.lower(function)
    kept = {name: getattr(lowered, name) for name in compilation_cache._NOW}
    arguments = lowered.arguments
    compilation_cache._check(arguments, **kept)
    (host, *_) = [step for step in lowered.plan.steps if isinstance(step, Host)]
    assert host.call is not None
    for wrong in (
        replace(host, call=replace(host.call, integers=(10**9, *host.call.integers[1:]))),
        replace(host, call=replace(host.call, name="sort.float32.ascending")),
        replace(host, call=replace(host.call, chunks=10**6)),
        replace(host, scratch=()),
        replace(host, outputs=host.scratch, scratch=host.outputs),
    ):
        steps = tuple(wrong if step is host else step for step in lowered.plan.steps)
        with pytest.raises(plan_json.Malformed):
            compilation_cache._check(arguments, **{**kept, "plan": replace(lowered.plan, steps=steps)})


def test_a_library_keeps_the_number_of_its_threads():
    asked, told = (
        libraries._function(libraries.PREFIX + name) for name in ("get_num_threads", "set_num_threads")
    )
    if not asked:
        pytest.skip("the threads of this library cannot be asked for")
    get, put = ctypes.CFUNCTYPE(ctypes.c_int)(asked), ctypes.CFUNCTYPE(None, ctypes.c_int)(told)
    before = get()
    try:
        put(2)
        x = pn.asarray(np.eye(600, dtype=np.float32))
        for threads in (1, 2):
            with pn.settings(threads=threads):
                np.asarray(pn.linalg.cholesky(x))
            assert get() == 2
    finally:
        put(before)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(60))
def test_random_orders(seed: int):
    rng = np.random.default_rng(seed)
    dtype = _KNOWN[seed % len(_KNOWN)]
    rows, count = int(rng.integers(1, 40)), int(rng.integers(33, 6000 if seed % 5 else 300))
    x = draw(rng, dtype, (rows, count))
    if seed % 3 == 0:
        bits = rng.integers(0, 256, (rows, count, dtype.itemsize), np.uint8)
        x = (bits & 1 if dtype.is_bool else bits).view(dtype.numpy)[..., 0]
    if seed % 4 == 1:
        x = np.sort(x, 1)
    k = int(rng.integers(1, count + 1)) if seed % 2 else int(rng.integers(1, 70))

    def build(v: GraphValue) -> list[GraphValue]:
        return [v.sort(1, descending=bool(seed & 4)), *v.top_k(k, 1, largest=bool(seed & 2)), *v.unique()]

    with np.errstate(all="ignore"):
        check([x], build)

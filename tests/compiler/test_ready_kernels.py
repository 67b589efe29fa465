"""Products that ready-made code runs: which kernels are some, that they compute the same, and that nobody sees a difference but in time."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import planish as pn
from planish import compiler, ptir
from planish.compiler import compilation_cache, object_code, plan_json, ready_kernels
from planish.compiler.object_code import routine_of
from planish.compiler.ready_kernels import StridedProduct, product_of, reaches
from planish.runtime import processors, ready_routines
from planish.runtime.routines.products import NUMBERS, PANEL, ROWS
from planish.schedule.plan import ReadyKernel
from planish.schedule.planner import plan
from planish.target import TARGETS
from planish.uop.node import Table

Array = NDArray[Any]
V4, V3 = TARGETS["x86-64-v4"], TARGETS["x86-64-v3"]
pytestmark = pytest.mark.skipif(
    ready_routines.level_of(processors.host()) is None, reason="no ready-made code for this processor"
)


def wide() -> bool:
    return processors.host().avx512


def numbers(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


def lowered(function: Callable[..., Any], *arrays: Array) -> compiler.Lowered:
    """What was compiled for a function of arrays."""
    return executable(function, *arrays).lowered


def executable(function: Callable[..., Any], *arrays: Array) -> compiler.Executable:
    return pn.jit(function).lower(*map(pn.asarray, arrays)).compile()._exe


def read(*shapes: tuple[int, ...], of: Callable[..., Any], dtype: str = "f32") -> StridedProduct | None:
    """The one kernel of a function of tensors, as a product."""
    g = ptir.Graph("f")
    f = g.build(of(*(g.input(f"x{n}", ptir.tensor(dtype, shape)) for n, shape in enumerate(shapes))))
    prepared = compiler.prepare(f, compiler.PIPELINE)
    with Table() as table:
        (kernel,) = plan(prepared, table, target=V4).kernels
        return product_of(kernel.sink, V4)


# -- which kernels are products ----------------------------------------------------------------------------------------


def test_a_product_is_read_with_its_steps() -> None:
    found = read((40, 50), (50, 60), of=lambda a, b: a.matmul(b))
    assert found is not None
    assert (found.rows.size, found.inner.size, found.columns.size) == (40, 50, 60)
    assert (found.rows.a, found.inner.a, found.inner.b, found.columns.b, found.rows.out) == (50, 1, 60, 1, 60)
    assert not found.by_columns


def test_transposed_operands_are_other_steps() -> None:
    right = read((40, 50), (60, 50), of=lambda a, b: a.matmul(b.transpose([1, 0])))
    left = read((50, 40), (50, 60), of=lambda a, b: a.transpose([1, 0]).matmul(b))
    assert right is not None
    assert left is not None
    assert right.by_columns
    assert (right.inner.b, right.columns.b) == (1, 50)
    assert (left.rows.a, left.inner.a) == (1, 40)


def test_a_transposed_result_is_the_product_of_the_operands_in_turn() -> None:
    found = read((40, 50), (50, 60), of=lambda a, b: a.matmul(b).transpose([1, 0]))
    assert found is not None
    assert (found.rows.size, found.columns.size, found.columns.out) == (60, 40, 1)
    assert found.slots[1:] == (2, 1)


def test_heads_are_batches_that_lie_in_each_other() -> None:
    def heads(x: Any, y: Any) -> Any:
        a, b = (each.reshape([5, 40, 3, 16]).transpose([0, 2, 1, 3]) for each in (x, y))
        return a.matmul(b.transpose([0, 1, 3, 2]))

    found = read((5, 40, 48), (5, 40, 48), of=heads)
    assert found is not None
    assert [axis.size for axis in found.batches] == [5, 3]
    assert (found.rows.a, found.columns.b, found.inner.b) == (48, 48, 1)


def test_axes_that_are_walked_as_one_are_one() -> None:
    found = read((4, 10, 50), (50, 60), of=lambda a, b: a.reshape([40, 50]).matmul(b).reshape([4, 10, 60]))
    assert found is not None
    assert (found.rows.size, found.batches) == (40, ())


@pytest.mark.parametrize(
    "other",
    [
        lambda a, b: a.matmul(b).mul(a.matmul(b)),  # no product alone
        lambda a, b: a.mul(a).reduce_sum([1]),  # a row times itself
        lambda a, b: a.sub(b).reduce_sum([1]),
        lambda a, b: a.reverse([1]).matmul(b),  # backwards
        lambda a, b: a.exp().matmul(b),
    ],
)
def test_others_are_none(other: Callable[..., Any]) -> None:
    g = ptir.Graph("f")
    f = g.build(other(g.input("a", ptir.tensor("f32", (40, 40))), g.input("b", ptir.tensor("f32", (40, 40)))))
    with Table() as table:
        kernels = plan(compiler.prepare(f, compiler.PIPELINE), table, target=V4).kernels
        found = [product_of(kernel.sink, V4) for kernel in kernels]
    assert found == [None] or sum(each is not None for each in found) < len(kernels)


def test_integers_and_products_of_few_rows_or_columns_are_compiled() -> None:
    assert read((40, 50), (50, 60), of=lambda a, b: a.matmul(b), dtype="i32") is None
    assert lowered(lambda a, b: a @ b, numbers(4, 256), numbers(256, 256)).ready == ()
    assert lowered(lambda a, b: a @ b, numbers(64, 256), numbers(256, 3)).ready == ()


@pytest.mark.parametrize(("rows", "inner", "columns"), [(4, 64, 64), (64, 8, 48), (20, 40, 30), (16, 16, 16)])
def test_what_a_small_product_loses_is_not_worth_compiling(rows: int, inner: int, columns: int) -> None:
    a, b = numbers(rows, inner), numbers(inner, columns)
    assert len(lowered(lambda a, b: a @ b, a, b).ready) == 1
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(
        pn.jit(lambda a, b: a @ b)(pn.asarray(a), pn.asarray(b)).numpy(), wanted, rtol=1e-4, atol=1e-5
    )


# -- what they compute -------------------------------------------------------------------------------------------------


class Operands:
    """Memory behind which nothing may be read: what lies there, lies at the end of a page."""

    def __init__(self) -> None:
        self.pages: list[mmap.mmap] = []

    def put(self, values: Array) -> Array:
        flat = np.ascontiguousarray(values).reshape(-1)
        used = -(-flat.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        page = mmap.mmap(-1, used + mmap.PAGESIZE)
        self.pages.append(page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(page))
        ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + used), mmap.PAGESIZE, 0)
        place = np.frombuffer(page, values.dtype, flat.size, used - flat.nbytes)
        place[:] = flat
        return place


def called(made: StridedProduct, out: Array, a: Array, b: Array, bits: int) -> None:
    """The code for a product, piece by piece, whatever its sizes."""
    ready = ready_kernels._called(made, V4 if bits == 512 else V3)
    assert ready.routine.split(".")[2] == str(bits)
    assert [end <= each.size for end, each in zip(reaches(ready), (out, a, b), strict=True)] == [True] * 3
    assert len(ready.numbers) == len(NUMBERS)
    address = routine_of(ready.routine, processors.host())
    assert address is not None
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * (len(NUMBERS) + 1))(address)
    for piece in reversed(range(ready.pieces)):
        function(*(each.ctypes.data for each in (out, a, b)), *ready.numbers, piece)


SIZES = st.one_of(st.integers(1, 40), st.sampled_from([63, 64, 65, 97, 128, 200, 257]))


@pytest.mark.parametrize("bits", [512, 256])
@settings(max_examples=60, deadline=None)
@given(
    rows=SIZES,
    columns=SIZES,
    inner=st.one_of(SIZES, st.sampled_from([PANEL - 1, PANEL, PANEL + 1])),
    batches=st.integers(1, 3),
    layout=st.sampled_from(["nn", "nt", "tn", "tt"]),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_every_size_and_layout(
    bits: int, rows: int, columns: int, inner: int, batches: int, layout: str, dtype: Any
) -> None:
    if bits == 512 and not wide():
        pytest.skip("a processor without AVX-512")
    a, b = numbers(batches, rows, inner, dtype=dtype), numbers(batches, inner, columns, seed=1, dtype=dtype)
    placed = Operands()
    left = placed.put(a.swapaxes(1, 2) if layout[0] == "t" else a)
    right = placed.put(b.swapaxes(1, 2) if layout[1] == "t" else b)
    out = placed.put(np.full((batches, rows, columns), np.nan, dtype))
    axis = ready_kernels._Axis
    made = StridedProduct(
        np.dtype(dtype).name,
        axis(rows, columns, 1 if layout[0] == "t" else inner, 0),
        axis(columns, 1, 0, inner if layout[1] == "t" else 1),
        axis(inner, 0, rows if layout[0] == "t" else 1, 1 if layout[1] == "t" else columns),
        (axis(batches, rows * columns, rows * inner, inner * columns),) if batches > 1 else (),
        (0, 0, 0),
        (0, 1, 2),
    )
    if layout[1] == "t" and columns == 1:  # one column lies along rows and columns
        made = replace(made, columns=axis(1, 1, 0, 2))
    called(made, out, left, right, bits)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    room = inner * np.finfo(dtype).eps * (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64))
    assert (np.abs(out.reshape(wanted.shape) - wanted) <= room).all()


@pytest.mark.parametrize("bits", [512, 256])
def test_rows_far_apart_are_gathered(bits: int) -> None:
    if bits == 512 and not wide():
        pytest.skip("a processor without AVX-512")
    rows, inner, columns = 1024, 530, 1100
    a, b = numbers(inner, rows), numbers(inner, columns, seed=1)
    axis = ready_kernels._Axis
    made = StridedProduct(
        "float32", axis(rows, columns, 1, 0), axis(columns, 1, 0, 1), axis(inner, 0, rows, columns), (), (0, 0, 0), (0, 1, 2),
    )  # fmt: skip
    of = dict(zip(NUMBERS, ready_kernels._called(made, V4 if bits == 512 else V3).numbers, strict=True))
    assert of["gathered"]
    assert of["row_piece"] <= ROWS
    out = np.full((rows, columns), np.nan, np.float32)
    called(made, out.reshape(-1), a.reshape(-1), b.reshape(-1), bits)
    np.testing.assert_allclose(out, a.T.astype(np.float64) @ b, atol=2e-3)


def test_what_is_not_finite_shows_where_it_should() -> None:
    a, b = numbers(64, 48), numbers(48, 40)
    a[3, 7], b[9, 11], b[9, 12] = np.inf, np.nan, 0
    a[5, 9] = np.inf
    with np.errstate(invalid="ignore"):
        wanted = a @ b
    got = pn.jit(lambda a, b: a @ b)(pn.asarray(a), pn.asarray(b)).numpy()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(wanted))


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "product": (lambda a, b: a @ b, ((64, 96), (96, 80))),
    "transposed": (lambda a, b: a.T @ b.T, ((96, 64), (80, 96))),
    "with itself": (lambda a: a @ a.T, ((64, 96),)),
    "batches": (lambda a, b: a @ b, ((3, 64, 96), (3, 96, 80))),
    "one matrix for all": (lambda a, b: a @ b, ((3, 64, 96), (96, 80))),
    "parts of rows": (lambda a, b: a[:, 16:80] @ b[8:72], ((64, 96), (80, 80))),
    "tanh": (lambda a, b: pn.tanh(a @ b), ((64, 96), (96, 80))),
    "bias": (lambda a, b, c: pn.maximum(a @ b + c, 0.0), ((64, 96), (96, 80), (80,))),
    "added": (lambda a, b, c: c + a @ b, ((64, 96), (96, 80), (64, 80))),
    "scaled and turned": (lambda a, b: (a @ b * 0.5).T, ((64, 96), (96, 80))),
    "twice": (lambda a, b: (a @ b) * pn.exp(-(a @ b)), ((64, 96), (96, 80))),
    "both": (lambda a, b: (a @ b, pn.tanh(a @ b)), ((64, 96), (96, 80))),
    "layers": (lambda a, b: pn.tanh(pn.tanh(a @ b) @ b), ((64, 96), (96, 96))),
}


@pytest.mark.parametrize("name", CASES)
def test_programs_agree_with_numpy_and_with_compiled_kernels(name: str) -> None:
    function, shapes = CASES[name]
    arrays = [numbers(*shape, seed=n) / 4 for n, shape in enumerate(shapes)]
    tensors = [pn.asarray(each) for each in arrays]
    exe = executable(function, *arrays)
    assert any(exe.lowered.ready)
    wide_ones = pn.jit(function)(*(pn.asarray(each.astype(np.float64)) for each in arrays))
    with pn.settings(ready_kernels=False):
        compiled = pn.jit(function)(*tensors)
    ready = pn.jit(function)(*tensors)
    for one, two, exact in zip(*(each if isinstance(each, tuple) else (each,) for each in (ready, compiled, wide_ones)), strict=True):  # fmt: skip
        np.testing.assert_array_equal(one.numpy(), two.numpy())  # sums of both are in the same order
        np.testing.assert_allclose(one.numpy(), exact.numpy(), atol=2e-5)


def test_threads_change_no_bit() -> None:
    a, b = pn.asarray(numbers(400, 300)), pn.asarray(numbers(300, 500))
    with pn.settings(threads=1):
        one = pn.jit(lambda a, b: a @ b)(a, b).numpy()
    with pn.settings(threads=2):
        two = pn.jit(lambda a, b: a @ b)(a, b).numpy()
    np.testing.assert_array_equal(one, two)


def test_gradients_and_the_interpreter_agree() -> None:
    def loss(x: Any, w: Any, v: Any) -> Any:
        return pn.mean((pn.tanh(x @ w) @ v) ** 2)

    arrays = [numbers(*shape, seed=n) / 8 for n, shape in enumerate([(64, 96), (96, 80), (80, 64)])]
    got = pn.jit(pn.grad(loss, argnums=(1, 2)))(*map(pn.asarray, arrays))
    doubles = [pn.asarray(each.astype(np.float64)) for each in arrays]
    with pn.settings(ready_kernels=False):
        wanted = pn.jit(pn.grad(loss, argnums=(1, 2)))(*doubles)
    for one, two in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=2e-4, atol=1e-7)
    interpreted = lowered(loss, *arrays).interpreted()
    np.testing.assert_allclose(
        interpreted(*arrays)[0], pn.jit(loss)(*map(pn.asarray, arrays)).numpy(), rtol=1e-5
    )


# -- what it takes -----------------------------------------------------------------------------------------------------


def test_nothing_is_compiled_for_a_product(tmp_path: Any) -> None:
    with pn.settings(cache_dir=str(tmp_path)):
        before = object_code.counters.compiled
        lowered(lambda a, b: a @ b, numbers(61, 77), numbers(77, 83))
        glue = object_code.counters.compiled - before
        assert glue == 1  # the way through the plan


def test_what_follows_is_a_kernel_of_its_own_in_the_memory_of_the_result() -> None:
    exe = executable(lambda a, b: pn.tanh(a @ b), numbers(64, 96), numbers(96, 80))
    assert [each is not None for each in exe.lowered.ready] == [True, False]
    assert exe.memory.peak == 0
    with pn.settings(ready_kernels=False):
        assert len(executable(lambda a, b: pn.tanh(a @ b), numbers(64, 96), numbers(96, 80)).kernels) == 1


def test_a_large_result_of_short_sums_is_not_read_once_more() -> None:
    found = lowered(lambda a, b: pn.tanh(a @ b), numbers(2000, 32), numbers(32, 2048))
    assert found.ready == ()


@pytest.mark.parametrize(
    "changed",
    [{"beam": 1, "beam_budget": 1}, {"check": "spec"}, {"disable_stages": "6"}, {"ready_kernels": False}],
)
def test_who_chooses_or_checks_schedules_gets_kernels_of_their_own(changed: Any) -> None:
    with pn.settings(**changed):
        assert lowered(lambda a, b: a @ b, numbers(48, 64), numbers(64, 48)).ready == ()


def test_a_schedule_by_hand_is_what_runs() -> None:
    f = pn.jit(lambda a, b: pn.tanh(a @ b), schedule="upcast(j, 16)")
    a, b = numbers(64, 96), numbers(96, 80)
    np.testing.assert_allclose(f(pn.asarray(a), pn.asarray(b)).numpy(), np.tanh(a @ b), atol=1e-4)


def test_counted_loops_keep_kernels_that_can_be_part_of_them() -> None:
    def steps(x: Any, w: Any) -> Any:
        return pn.fori_loop(0, 5, lambda _, x: pn.tanh(x @ w), x)

    assert lowered(steps, numbers(64, 64), numbers(64, 64)).ready == ()


# -- what is seen of it ------------------------------------------------------------------------------------------------


def test_every_level_can_be_read_as_it_would_be_compiled() -> None:
    g = ptir.Graph("f")
    a, b = g.input("a", ptir.tensor("f32", (64, 96))), g.input("b", ptir.tensor("f32", (96, 80)))
    function = g.build(a.matmul(b).tanh())
    exe, plain = compiler.compile(function), compiler.lower(function)
    assert any(exe.lowered.ready)
    for level in ("plan", "schedule", "uop:7", "llir", "llvm"):
        assert exe.lowered.as_text(level) == plain.as_text(level)
    text = exe.why()
    assert "ready-made code, product.float32." in text
    assert "ready product: " in text
    assert [kernel.flops > 0 for kernel in exe.kernels] == [True, True]
    assert exe.cost.launches == 2


def test_the_c_back_end_compiles_them() -> None:
    g = ptir.Graph("f")
    a, b = g.input("a", ptir.tensor("f32", (64, 96))), g.input("b", ptir.tensor("f32", (96, 80)))
    exe = compiler.compile(g.build(a.matmul(b).tanh()))
    x, y = numbers(64, 96), numbers(96, 80)
    try:
        by_c = exe.lowered.compile("c")
    except pn.PlanishError as error:  # no compiler here
        pytest.skip(str(error))
    np.testing.assert_allclose(by_c(x, y)[0], exe(x, y)[0], rtol=1e-5, atol=1e-5)


def test_a_profile_names_both_parts() -> None:
    exe = executable(lambda a, b: pn.tanh(a @ b), numbers(64, 96), numbers(96, 80))
    records = exe.profile(repeat=2).records
    assert [record.calls for record in records] == [1, 1]
    assert all("matmul" in record.ops or "dot" in "".join(record.ops) for record in records)


# -- kept --------------------------------------------------------------------------------------------------------------

_AGAIN = """
import numpy as np, planish as pn
from planish.compiler import object_code
f = pn.jit(lambda a, b: pn.tanh(a @ b))
x = pn.asarray(np.ones((64, 96), np.float32) / 96)
made = f.lower(x, pn.asarray(np.ones((96, 80), np.float32))).compile()._exe
print(object_code.counters.compiled, [each is not None for each in made.lowered.ready], float(f(x, pn.asarray(np.ones((96, 80), np.float32)))[3, 4]))
print([len(each.body) > 3 for each in made.lowered.programs], [choice.origin for choice in made.lowered.choices])
"""


def test_a_second_process_compiles_nothing(tmp_path: Any) -> None:
    told = [
        subprocess.run(
            [sys.executable, "-c", _AGAIN], capture_output=True, text=True, check=True,
            env={"PLANISH_CACHE_DIR": str(tmp_path), "PATH": "", "PYTHONPATH": ":".join(sys.path)},
        ).stdout.splitlines()
        for _ in range(2)
    ]  # fmt: skip
    first, again = (each[0].split(" ", 1) for each in told)
    assert int(first[0]) > 0
    assert int(again[0]) == 0
    assert first[1] == again[1]
    assert told[0][1] == told[1][1] == "[True, True] ['heuristic', 'heuristic']"


@pytest.mark.parametrize("name", ["rows", "columns", "inner", "out_row", "a_row", "b_other", "a_start", "b_batch", "out_batch"])  # fmt: skip
def test_numbers_that_reach_further_are_no_entry(name: str) -> None:
    found = lowered(lambda a, b: a @ b, numbers(3, 64, 96), numbers(3, 96, 80))
    (ready,) = found.ready
    assert ready is not None
    (launch,) = found.plan.launches
    compilation_cache._check_ready(found.plan, launch, ready)
    place = NUMBERS.index(name)
    more = ready.numbers[place] + (1 << 20)
    for wrong in (more, -1):
        other = replace(ready, numbers=(*ready.numbers[:place], wrong, *ready.numbers[place + 1 :]))
        with pytest.raises(plan_json.Malformed):
            compilation_cache._check_ready(found.plan, launch, other)


@pytest.mark.parametrize(
    "changed",
    [
        {"routine": "sort.float32.ascending"}, {"routine": "product.float64.512.rows"}, {"routine": "product.float32.512.rows.x"},
        {"slots": (0, 1, 5)}, {"slots": (0, 1)}, {"numbers": (1, 2)}, {"pieces": 0}, {"pieces": 1 << 40},
    ],
)  # fmt: skip
def test_other_calls_are_no_entry(changed: Any) -> None:
    found = lowered(lambda a, b: a @ b, numbers(3, 64, 96), numbers(3, 96, 80))
    (ready,) = found.ready
    assert isinstance(ready, ReadyKernel)
    (launch,) = found.plan.launches
    with pytest.raises(plan_json.Malformed):
        compilation_cache._check_ready(found.plan, launch, replace(ready, **changed))

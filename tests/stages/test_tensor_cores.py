"""The action TC, for every tensor core in the table: through all stages, executed by the LLIR interpreter, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from planish import dtypes
from planish.actions import base
from planish.actions.base import Refusal, apply_action
from planish.config import settings
from planish.llir.counters import Counters
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.stages.pipeline import Machine, run
from planish.target import TARGETS, Target
from planish.uop.nest import axes_of
from planish.uop.node import Table, UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.products import nearly, products, why_not
from planish.uop.tensor_cores import CORES, MATRICES, Core
from tests.placed import Action, ActionKind

Array = NDArray[Any]
UPCAST, UNROLL, LOCAL, PADTO, TC = (
    ActionKind.UPCAST,
    ActionKind.UNROLL,
    ActionKind.LOCAL,
    ActionKind.PADTO,
    ActionKind.TC,
)
CUDA, AMX = TARGETS["cuda"], TARGETS["x86-64-amx"]
ALIKE = {"mma_m16n8k16_bf16_f32", "mma_m16n8k32_u8_s32", "amx_tdpbuud", "amx_tdpbusd", "amx_tdpbsud"}
"""Cores that differ from another in a dtype alone: what is about layouts is tried on the other."""
EVERY = [
    (target, number)
    for target in (CUDA, AMX)
    for number, core in enumerate(target.tensor_cores)
    if core.m > 1
]
"""Vectors of dot products (`pairs_…`) are tried in tests/optimize/test_dot_products.py."""
LAYOUTS = [(target, number) for target, number in EVERY if target.tensor_cores[number].name not in ALIKE]
IDS = [target.tensor_cores[number].name for target, number in EVERY]
LAYOUT_IDS = [target.tensor_cores[number].name for target, number in LAYOUTS]
F16 = CORES["mma_m16n8k16_f16_f32"]


def matmul(
    t: Table,
    core: Core,
    m: int,
    n: int,
    k: int,
    *,
    a_transposed: bool = False,
    b_transposed: bool = False,
    batch: int = 1,
) -> UOp:
    """out[p, i, j] = sum of a[p, i, r] * b[r, j], in the dtypes of a core."""
    out = t.param(0, core.output, batch * m * n)
    a, b = t.param(1, core.inputs, batch * m * k), t.param(2, core.right or core.inputs, k * n)
    p, i, j, r = t.range(batch, 0), t.range(m, 1), t.range(n, 2), t.range(k, 3, AxisType.REDUCE)
    x = a.index(p * m * k + (r * m + i if a_transposed else i * k + r))
    y = b.index(j * k + r if b_transposed else r * n + j)
    if core.inputs is not core.output:
        x, y = x.cast(core.output), y.cast(core.output)
    total = (x * y).reduce(Ops.ADD, r)
    return t.sink(out.index((p * m + i) * n + j).store(total).end(p, i, j))


def numbers(core: Core, count: int, seed: int, *, right: bool = False) -> Array:
    """Small whole numbers: exact in every dtype, whatever the order of summation."""
    dtype = (core.right if right else None) or core.inputs
    least = 0 if dtype.is_unsigned else -3
    return np.random.default_rng(seed).integers(least, 4, count).astype(dtype.numpy)


class On(NamedTuple):
    """An action on (what is left of) the axis of a path."""

    kind: Callable[..., base.Action]
    path: tuple[int, ...]
    amount: int


def choosing(target: Target, steps: Sequence[Action | On]) -> Callable[[UOp], list[Action]]:
    """Finds the places of axes in the kernel that reaches stage 7."""

    def choose(sink: UOp) -> list[Action]:
        found: list[Action] = []
        for step in steps:
            paths = [cast("Axis", r.arg).path for r in axes_of(sink)]
            action = Action(step.kind, paths.index(step.path), step.amount) if isinstance(step, On) else step
            sink = apply_action(sink, action, target)
            found.append(action)
        return found

    return choose


def lines(sink: UOp, target: Target, steps: Sequence[Action | On]) -> list[UOp]:
    return run(sink, Machine(target, choosing(target, steps)))


def execute(sink: UOp, target: Target, steps: Sequence[Action | On], arrays: list[Array]) -> Counters:
    return interpret(lower("kernel", lines(sink, target, steps)), arrays)


def check(
    core: Core,
    target: Target,
    actions: Sequence[Action | On],
    m: int,
    n: int,
    k: int,
    *,
    batch: int = 1,
    **transposed: bool,
) -> Counters:
    a, b = numbers(core, batch * m * k, 1), numbers(core, k * n, 2, right=True)
    out = np.zeros(batch * m * n, core.output.numpy)
    with Table() as t, settings(fastmath=core.mantissa is not None):
        found = execute(matmul(t, core, m, n, k, batch=batch, **transposed), target, actions, [out, a, b])
    left = a.reshape(batch, k, m).swapaxes(1, 2) if transposed.get("a_transposed") else a.reshape(batch, m, k)
    right = b.reshape(n, k).T if transposed.get("b_transposed") else b.reshape(k, n)
    expected = left.astype(np.float64) @ right.astype(np.float64)
    np.testing.assert_array_equal(out.reshape(batch, m, n), expected)
    assert found.instructions["tile"] == batch * (m // core.m) * (n // core.n) * (k // core.k) * core.threads
    return found


# -- the table ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("core", CORES.values(), ids=lambda core: core.name)
def test_layouts_number_every_element_once(core: Core) -> None:
    assert list(core.problems()) == []
    for matrix in MATRICES:
        rows, columns = core.shape(matrix)
        places = core.memory_places(matrix) if core.in_memory(matrix) else core.places(matrix)
        assert sorted(places.ravel()) == list(range(rows * columns))
        if core.in_memory(matrix):
            continue
        bits = sum(part.bits for part in core.parts(matrix))
        # (of 192 columns, numbers beyond the last are left out)
        assert 1 << (bits - 1) < rows * columns <= 1 << bits


def test_a_wrong_layout_is_noticed() -> None:
    twice = replace(F16, a=("r0", "r0", *F16.a[2:]))
    assert any("matrix" in text or "bits of a" in text for text in twice.problems())
    assert any("powers of two" in text for text in replace(F16, m=12).problems())


def test_fragments_are_those_of_the_manual() -> None:
    """PTX ISA, matrix fragments for mma.m16n8k16 with 16-bit types, and AMX's pairs of rows."""
    a, b, c = (F16.places(matrix) for matrix in MATRICES)
    for lane in range(32):
        group, inside = divmod(lane, 4)
        rows = [group + 8 * (i in {2, 3, 6, 7}) for i in range(8)]
        columns = [inside * 2 + i % 2 + 8 * (i >= 4) for i in range(8)]
        assert list(a[lane]) == [r * 16 + column for r, column in zip(rows, columns, strict=True)]
        assert list(b[lane]) == [(inside * 2 + i % 2 + 8 * (i >= 2)) * 8 + group for i in range(4)]
        assert list(c[lane]) == [(group + 8 * (i >= 2)) * 8 + inside * 2 + i % 2 for i in range(4)]
    pairs = CORES["amx_tdpbf16ps"].places("b")[0]
    assert list(pairs[:4]) == [0, 16, 1, 17]  # k = 0 and 1 of column 0, then of column 1
    assert pairs[32] == 2 * 16


# -- results -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("target", "number"), LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize(("a_transposed", "b_transposed"), [(False, True), (True, False), (True, True)])
def test_operands_may_be_transposed(
    target: Target, number: int, a_transposed: bool, b_transposed: bool
) -> None:
    core = target.tensor_cores[number]
    m, n, k = core.m, core.n, core.k * 2
    check(
        core, target, [Action(TC, 0, number)], m, n, k, a_transposed=a_transposed, b_transposed=b_transposed
    )


@pytest.mark.parametrize(("target", "number"), EVERY, ids=IDS)
def test_every_core_multiplies(target: Target, number: int) -> None:
    core = target.tensor_cores[number]
    check(core, target, [Action(TC, 0, number)], core.m * 2, core.n, core.k * 2)


@pytest.mark.parametrize(("target", "number"), LAYOUTS, ids=LAYOUT_IDS)
def test_one_tile_alone(target: Target, number: int) -> None:
    core = target.tensor_cores[number]
    check(core, target, [Action(TC, 0, number)], core.m, core.n, core.k)


@pytest.mark.parametrize(("target", "number"), LAYOUTS, ids=LAYOUT_IDS)
def test_tiles_of_tiles_stay_in_registers(target: Target, number: int) -> None:
    core = target.tensor_cores[number]
    m, n, k = core.m * 2, core.n * 2, core.k * 2
    plain = check(core, target, [Action(TC, 0, number)], m, n, k)
    tiles: list[Action | On] = [Action(TC, 0, number), On(UPCAST, (1, 0), 2), On(UPCAST, (2, 0), 2)]
    tiled = check(core, target, tiles, m, n, k)
    assert tiled.instructions["load"] < plain.instructions["load"]


def test_warps_share_a_block_and_batches_stay_outside() -> None:
    number = CUDA.tensor_cores.index(F16)
    found = check(F16, CUDA, [Action(TC, 0, number), On(LOCAL, (2, 0), 4)], 16, 32, 32, batch=2)
    assert found.threads == 128


def test_the_accumulator_goes_into_the_core() -> None:
    with Table() as t:
        found = lines(matmul(t, F16, 16, 8, 64), CUDA, [Action(TC, 0, CUDA.tensor_cores.index(F16))])
    tiles = [line for line in found if line.op is Ops.WMMA]
    assert len(tiles) == 1
    assert tiles[0].src[2].op is not Ops.CONST
    assert not any(line.op is Ops.ADD and line.dtype.is_float for line in found)


@pytest.mark.parametrize(
    ("target", "name"), [(CUDA, F16.name), (AMX, "amx_tdpbf16ps"), (CUDA, "mma_m16n8k32_s8_s32")]
)
def test_padded_axes(target: Target, name: str) -> None:
    """Sizes that no tile divides: PADTO first, on all three axes."""
    core = CORES[name]
    number = target.tensor_cores.index(core)
    m, n, k = core.m + 3, core.n + 1, core.k + 5
    a, b = numbers(core, m * k, 1), numbers(core, k * n, 2)
    out = np.zeros(m * n, core.output.numpy)
    padded = [On(PADTO, (axis,), size) for axis, size in ((1, core.m), (2, core.n), (3, core.k))]
    with Table() as t:
        execute(matmul(t, core, m, n, k), target, [*padded, Action(TC, 0, number)], [out, a, b])
    expected = a.reshape(m, k).astype(np.float64) @ b.reshape(k, n).astype(np.float64)
    np.testing.assert_array_equal(out.reshape(m, n), expected)


def test_an_epilogue_is_computed_where_the_tile_is() -> None:
    """relu(a @ b + bias[n]) in one kernel."""
    m, n, k = 16, 16, 32
    number = CUDA.tensor_cores.index(F16)
    a, b = numbers(F16, m * k, 1), numbers(F16, k * n, 2)
    bias = np.arange(n, dtype=np.float32) - 8
    out = np.zeros(m * n, np.float32)
    with Table() as t:
        place, x, y = (
            t.param(0, dtypes.float32, m * n),
            t.param(1, F16.inputs, m * k),
            t.param(2, F16.inputs, k * n),
        )
        z = t.param(3, dtypes.float32, n)
        i, j, r = t.range(m, 0), t.range(n, 1), t.range(k, 2, AxisType.REDUCE)
        total = (x.index(i * k + r).cast(F16.output) * y.index(r * n + j).cast(F16.output)).reduce(Ops.ADD, r)
        value = (total + z.index(j)).alu(Ops.MAX, t.const(0.0, dtypes.float32))
        sink = t.sink(place.index(i * n + j).store(value).end(i, j))
        execute(sink, CUDA, [Action(TC, 0, number)], [out, a, b, bias])
    wide = a.reshape(m, k).astype(np.float32) @ b.reshape(k, n).astype(np.float32)
    np.testing.assert_array_equal(out.reshape(m, n), np.maximum(wide + bias, 0))


def test_two_products_of_the_same_axes_are_both_done() -> None:
    """(a @ b) * (a @ c): the gated layers of transformers."""
    m, n, k = 16, 8, 32
    number = CUDA.tensor_cores.index(F16)
    a, b, c = (numbers(F16, size, seed) for seed, size in enumerate((m * k, k * n, k * n)))
    out = np.zeros(m * n, np.float32)
    with Table() as t:
        place, x = t.param(0, dtypes.float32, m * n), t.param(1, F16.inputs, m * k)
        y, z = t.param(2, F16.inputs, k * n), t.param(3, F16.inputs, k * n)
        i, j, r = t.range(m, 0), t.range(n, 1), t.range(k, 2, AxisType.REDUCE)
        left = x.index(i * k + r).cast(F16.output)
        first, second = ((left * w.index(r * n + j).cast(F16.output)).reduce(Ops.ADD, r) for w in (y, z))
        sink = t.sink(place.index(i * n + j).store(first * second).end(i, j))
        found = execute(sink, CUDA, [Action(TC, 0, number)], [out, a, b, c])
    wide = a.reshape(m, k).astype(np.float32)
    expected = (wide @ b.reshape(k, n).astype(np.float32)) * (wide @ c.reshape(k, n).astype(np.float32))
    np.testing.assert_array_equal(out.reshape(m, n), expected)
    assert found.instructions["tile"] == 2 * 2 * 32


def test_tf32_rounds_what_it_reads() -> None:
    number = next(i for i, core in enumerate(CUDA.tensor_cores) if core.mantissa is not None)
    m, n, k = 16, 8, 8
    a = np.full(m * k, 1 + 2.0**-11, np.float32)  # a tie: away from zero
    a[:k] = 1 + 2.0**-12  # below the tie
    b = np.eye(k, dtype=np.float32).ravel()
    b[0] = np.inf
    a[k] = np.nan
    out = np.zeros(m * n, np.float32)
    with Table() as t, settings(fastmath=True):
        execute(matmul(t, CUDA.tensor_cores[number], m, n, k), CUDA, [Action(TC, 0, number)], [out, a, b])
    found = out.reshape(m, n)
    assert found[0, 1] == 1
    assert found[3, 1] == 1 + 2.0**-10
    assert np.isnan(found[1]).all()
    assert found[2, 0] == np.inf


# -- refusals ----------------------------------------------------------------------------------------------------


def refused(sink: UOp, action: Action, target: Target, reason: str) -> None:
    with pytest.raises(Refusal, match=reason):
        apply_action(sink, action, target)


def test_what_does_not_fit_is_refused_with_a_reason() -> None:
    number = CUDA.tensor_cores.index(F16)
    with Table() as t:
        fits = matmul(t, F16, 32, 16, 32)
        refused(fits, Action(TC, 0, 99), CUDA, "no tensor core core99")
        refused(fits, Action(TC, 0, 0), TARGETS["x86-64"], "no tensor core core0")
        refused(fits, Action(TC, 7, number), CUDA, "does not fit these axes")
        alone = replace(TARGETS["x86-64-v4"], tensor_cores=(F16,))
        refused(fits, Action(TC, 0, 0), alone, "takes 32 threads, a block has 1")
        refused(
            matmul(t, F16, 30, 16, 32), Action(TC, 0, number), CUDA, r"30 values, no multiple of 16.*pad_to"
        )
        once = apply_action(fits, Action(TC, 0, number), CUDA)
        refused(once, Action(TC, 0, number), CUDA, "once")
        f64 = next(core for core in CUDA.tensor_cores if core.inputs is dtypes.float64)
        refused(matmul(t, f64, 16, 16, 8), Action(TC, 0, number), CUDA, "no sum in")


def test_tf32_needs_fastmath() -> None:
    number = next(i for i, core in enumerate(CUDA.tensor_cores) if core.mantissa is not None)
    with Table() as t:
        sink = matmul(t, CUDA.tensor_cores[number], 16, 8, 8)
        refused(sink, Action(TC, 0, number), CUDA, "mantissa bits")
        with settings(fastmath=True):
            apply_action(sink, Action(TC, 0, number), CUDA)


def test_sums_that_are_no_matrix_products_are_not_read_as_such() -> None:
    with Table() as t:
        x, y = t.param(1, F16.inputs, 256), t.param(2, F16.inputs, 256)
        out = t.param(0, F16.output, 256)
        i, r = t.range(16, 0), t.range(16, 1, AxisType.REDUCE)
        wide = x.index(i * 16 + r).cast(F16.output)
        for value, reason in (
            (wide.reduce(Ops.ADD, r), "no sum of products"),
            ((wide * wide).reduce(Ops.MAX, r), "no sum in"),
            ((wide * 2.0).reduce(Ops.ADD, r), "factors are not"),
            (
                (wide * y.index(r).cast(F16.output)).reduce(Ops.ADD, r),
                "no output axis belongs to one factor alone",
            ),
        ):
            sink = t.sink(out.index(i).store(value).end(i))
            assert products(sink, F16) == []
            assert reason in why_not(sink, F16)


def test_an_axis_that_a_scan_runs_along_is_no_axis_of_a_tile() -> None:
    """Threads of a core have elements of a tile in an order of their own."""
    with Table() as t:
        x, y, out = t.param(1, F16.inputs, 512), t.param(2, F16.inputs, 256), t.param(0, F16.output, 128)
        i, j, r = t.range(16, 0), t.range(8, 1), t.range(32, 2, AxisType.REDUCE)
        total = (x.index(i * 32 + r).cast(F16.output) * y.index(r * 8 + j).cast(F16.output)).reduce(
            Ops.ADD, r
        )
        for along in (i, j):
            scan = t.make(Ops.SCAN, F16.output, (total, along), Ops.ADD)
            sink = t.sink(out.index(i * 8 + j).store(scan).end(i, j))
            assert products(sink, F16) == []
            assert nearly(sink, F16) == []
            assert "a SCAN runs along" in why_not(sink, F16)


def test_conditions_on_products_move_to_both_factors() -> None:
    """Where padding guards the product, 0 times infinity must not appear."""
    with Table() as t:
        x, y, out = t.param(1, F16.inputs, 512), t.param(2, F16.inputs, 256), t.param(0, F16.output, 128)
        i, j, r = t.range(16, 0), t.range(8, 1), t.range(32, 2, AxisType.REDUCE)
        product = x.index(i * 32 + r).cast(F16.output) * y.index(r * 8 + j).cast(F16.output)
        guarded = (r < 30).where(product, t.const(0.0, F16.output)).reduce(Ops.ADD, r)
        sink = t.sink(out.index(i * 8 + j).store(guarded).end(i, j))
        found = products(sink, F16)
        assert [each.a.op for each in found] == [Ops.WHERE]
        assert [each.b.op for each in found] == [Ops.WHERE]
        one_sided = ((r < i + 16).where(product, t.const(0.0, F16.output))).reduce(Ops.ADD, r)
        assert products(t.sink(out.index(i * 8 + j).store(one_sided).end(i, j)), F16) == []

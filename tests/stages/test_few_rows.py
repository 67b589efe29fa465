"""Few rows by the cores of warps: terms dealt so that a thread has neighbours (`run`), one row among several (`spare`)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from planish import dtypes
from planish.actions.base import Refusal, apply_action
from planish.actions.text import parse_schedule
from planish.codegen import cuda
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.llir.program import Load, Program, Tile
from planish.stages.pipeline import Machine, run
from planish.target import TARGETS
from planish.uop.nest import axes_of
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops

CUDA = TARGETS["sm_90"]
K = 128


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def product(t: Table, rows: int, columns: int = 32) -> UOp:
    """out[i, j] = sum of x[i, k] * w[j, k]; without rows, of a vector."""
    f16, f32 = dtypes.float16, dtypes.float32
    out, x, w = (
        t.param(0, f32, max(rows, 1) * columns),
        t.param(1, f16, max(rows, 1) * K),
        t.param(2, f16, columns * K),
    )
    i, j, k = t.range(max(rows, 1), 0), t.range(columns, 1), t.range(K, 2, AxisType.REDUCE)
    row = i if rows else t.const(0)
    total = (x.index(row * K + k).cast(f32) * w.index(j * K + k).cast(f32)).reduce(Ops.ADD, k)
    return t.sink(out.index(row * columns + j).store(total).end(*([i, j] if rows else [j])))


def program(sink: UOp, schedule: str) -> Program:
    return lower("kernel", run(sink, Machine(CUDA, lambda _: list(parse_schedule(schedule)))))


def ran(made: Program, rows: int, columns: int = 32) -> None:
    """Small whole numbers: exact, whatever the order of summation."""
    rng = np.random.default_rng(rows)
    x, w = (rng.integers(-3, 4, (n, K)).astype(np.float16) for n in (max(rows, 1), columns))
    found = np.full((max(rows, 1), columns), np.nan, np.float32)
    interpret(made, [found, x, w])
    np.testing.assert_array_equal(found, x.astype(np.float32) @ w.astype(np.float32).T)


def widest(made: Program) -> int:
    return max(
        i.result.dtype.lanes
        for i in made.body
        if isinstance(i, Load) and i.result.dtype.scalar is dtypes.float16
    )


@pytest.mark.parametrize(("tiles", "lanes"), [(1, 2), (2, 8), (4, 8)])
def test_a_thread_has_terms_that_lie_together(t: Table, tiles: int, lanes: int) -> None:
    """Of two tiles of k it holds eight neighbours: one access of 16 bytes."""
    how = f"tensor_core(mma_m16n8k16_f16_f32, j, i, k, run={tiles}); unroll(k.outer, {tiles})"
    made = program(product(t, 8), how.replace(", run=1", "").replace("; unroll(k.outer, 1)", ""))
    assert widest(made) == lanes
    ran(made, 8)


@pytest.mark.parametrize("apart", [2, 4, 8])
def test_the_halves_of_a_register_may_be_terms_that_lie_apart(t: Table, apart: int) -> None:
    how = f"tensor_core(mma_m16n8k16_f16_f32, j, i, k, run=4, apart={apart}); unroll(k.outer, 4)"
    made = program(product(t, 8), how)
    assert widest(made) == 8  # what a thread holds is the same
    assert "__byte_perm(" in cuda.render(made)
    ran(made, 8)


def test_tiles_of_a_sum_are_one_chain(t: Table) -> None:
    """A core goes on with the sums of the tile before: nothing is added up beside it."""
    made = program(
        product(t, 8),
        "tensor_core(mma_m16n8k16_f16_f32, j, i, k, run=2); unroll(k.outer, 4); upcast(j.outer, 2)",
    )
    assert len([i for i in made.body if isinstance(i, Tile)]) == 8
    assert " + " not in "".join(line for line in cuda.render(made).splitlines() if "float r" in line)
    ran(made, 8)


def test_warps_share_a_sum(t: Table) -> None:
    ran(
        program(
            product(t, 16),
            "tensor_core(mma_m16n8k16_f16_f32, j, i, k, run=2); unroll(k.outer, 2); group(k.outer.outer, 4)",
        ),
        16,
    )


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("run=3", "no power of two"),
        ("run=16", "128 terms are no multiple of 16 times 16"),
        ("run=4, apart=3", "apart=3 is no power of two"),
        ("apart=2", "no neighbours so far apart with run=1"),
        ("run=2, apart=8", "no neighbours so far apart with run=2"),
    ],
)
def test_runs_that_are_none(t: Table, how: str, why: str) -> None:
    (action,) = parse_schedule(f"tensor_core(mma_m16n8k16_f16_f32, j, i, k, {how})")
    with pytest.raises(Refusal, match=why):
        apply_action(product(t, 8), action, CUDA)


def test_one_row_is_the_first_of_several(t: Table) -> None:
    sink = product(t, 0)
    (action,) = parse_schedule("spare(8)")
    after = apply_action(sink, action, CUDA)
    assert [f"{r.arg}<{r.src[0].arg}" for r in axes_of(after)] == ["L1<32", "L3<8", "R2<128"]
    ran(program(sink, "spare(8)"), 0)
    ran(program(sink, "spare(8); tensor_core(mma_m16n8k16_f16_f32, j, l, k, run=2); unroll(k.outer, 2)"), 0)


@pytest.mark.parametrize(("rows", "count", "why"), [(8, 8, "no factor"), (0, 1, "from 2 to 64")])
def test_rows_to_spare_are_refused(t: Table, rows: int, count: int, why: str) -> None:
    (action,) = parse_schedule(f"spare({count})")
    with pytest.raises(Refusal, match=why):
        apply_action(product(t, rows), action, CUDA)

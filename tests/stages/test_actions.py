"""Actions (stage 7), lanes (stage 9) and widths (stage 14): no sequence of actions changes a result."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import cast

import numpy as np
import pytest

from planish import dtypes
from planish.actions.base import Refusal, apply_action
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.llir.program import Program
from planish.stages.devectorizer.s11_remove_reduce import remove_reduce
from planish.stages.devectorizer.s13_add_loads import add_loads
from planish.stages.devectorizer.s14_devectorize import devectorize
from planish.stages.devectorizer.s15_lower_index_dtype import lower_index_dtype
from planish.stages.expander.s09_expander import expand
from planish.stages.linearizer.s18_decompositions import decompositions
from planish.stages.linearizer.s19_final_rewrite import final_rewrite
from planish.stages.linearizer.s20_add_control_flow import add_control_flow
from planish.stages.linearizer.s21_linearize import linearize
from planish.stages.rangeify.s04_initial_symbolic import initial_symbolic
from planish.stages.rangeify.s07_apply_opts import apply_opts
from planish.target import TARGETS, Target
from planish.uop.nest import axes_of
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from tests.placed import Action, ActionKind
from tests.stages.kernels import Array, buffers_of

UPCAST, UNROLL = ActionKind.UPCAST, ActionKind.UNROLL
f32, i32 = dtypes.float32, dtypes.int32
WIDE = TARGETS["x86-64-v4"]


def program(sink: UOp, target: Target) -> Program:
    """The rest of the pipeline."""
    sink = add_loads(remove_reduce(expand(initial_symbolic(sink))))
    sink = lower_index_dtype(devectorize(sink, target))
    return lower("kernel", linearize(add_control_flow(final_rewrite(decompositions(initial_symbolic(sink))))))


def result(sink: UOp, target: Target = WIDE) -> Array:
    """What the kernel writes to slot 0."""
    buffers = buffers_of(sink)
    interpret(program(sink, target), [buffers[slot] for slot in sorted(buffers)])
    return buffers[0]


def matmul(t: Table, m: int = 4, n: int = 8, k: int = 6) -> UOp:
    out, a, b = t.param(0, f32, m * n), t.param(1, f32, m * k), t.param(2, f32, k * n)
    i, j, r = t.range(m, 0), t.range(n, 1), t.range(k, 2, AxisType.REDUCE)
    total = (a.index(i * k + r) * b.index(r * n + j)).reduce(Ops.ADD, r)
    return t.sink(out.index(i * n + j).store(total).end(i, j))


def transposed_sum(t: Table) -> UOp:
    out, a, b = t.param(0, i32, 96), t.param(1, i32, 96), t.param(2, i32, 12)
    i, j = t.range(8, 0), t.range(12, 1)
    return t.sink(out.index(i * 12 + j).store(a.index(j * 8 + i) * 3 + b.index(j)).end(i, j))


def row_maximum(t: Table) -> UOp:
    out, a = t.param(0, f32, 6), t.param(1, f32, 96)
    i, r, s = t.range(6, 0), t.range(4, 1, AxisType.REDUCE), t.range(4, 2, AxisType.REDUCE)
    return t.sink(out.index(i).store(a.index(i * 16 + r * 4 + s).reduce(Ops.MAX, r, s)).end(i))


def two_reductions(t: Table) -> UOp:
    """A sum and a product over different ranges in one kernel, and a condition."""
    out, a = t.param(0, i32, 4), t.param(1, i32, 32)
    i, r, s = t.range(4, 0), t.range(8, 1, AxisType.REDUCE), t.range(8, 2, AxisType.REDUCE)
    total = a.index(i * 8 + r).reduce(Ops.ADD, r)
    least = a.index(i * 8 + s).reduce(Ops.MIN, s)
    return t.sink(out.index(i).store((total < least).where(total, least - i.cast(i32))).end(i))


KERNELS: dict[str, Callable[[Table], UOp]] = {
    "matmul": matmul, "transposed sum": transposed_sum, "row maximum": row_maximum, "two reductions": two_reductions,
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("seed", range(12))
def test_random_actions_do_not_change_a_result(name: str, seed: int) -> None:
    rng = random.Random(f"{name} {seed}")
    with Table() as t:
        sink = KERNELS[name](t)
        expected = result(sink)
        taken = []
        for _ in range(rng.randint(1, 5)):
            action = Action(rng.choice((UPCAST, UNROLL)), rng.randrange(5), rng.choice((0, 2, 3, 4, 8)))
            try:
                sink = apply_action(sink, action)
            except Refusal:
                continue
            taken.append(action)
        target = rng.choice(list(TARGETS.values()))
        np.testing.assert_array_equal(result(sink, target), expected, err_msg=f"{taken}, {target}")


def test_a_tile_of_a_matmul_is_folded_until_it_is_cut() -> None:
    with Table() as t:
        sink = apply_opts(matmul(t, 8, 32, 4), [Action(UPCAST, 1, 16), Action(UPCAST, 0, 4)])
        expanded = expand(initial_symbolic(sink))
        products = [n for n in expanded.toposort() if n.op is Ops.MUL and n.dtype.is_float]
        assert [n.dtype for n in products] == [f32.vec(64)]  # one node for 4 × 16
        assert not any(n.op in {Ops.UNROLL, Ops.CONTRACT} for n in expanded.toposort())
        cut = devectorize(add_loads(remove_reduce(expanded)), WIDE)
        assert {n.dtype for n in cut.toposort() if n.op is Ops.MUL and n.dtype.is_float} == {f32.vec(16)}
        wide = [
            n
            for n in cut.toposort()
            if n.op is Ops.LOAD and n.dtype is f32.vec(16) and n.src[0].src[0].arg == 2
        ]
        assert len(wide) == 1  # one row of b serves all four rows of the tile


def test_unrolled_reductions_are_whole_vectors() -> None:
    with Table() as t:
        sink = apply_opts(matmul(t, 2, 16, 8), [Action(UPCAST, 1, 0), Action(UNROLL, 2, 4)])
        cut = devectorize(add_loads(remove_reduce(expand(initial_symbolic(sink)))), WIDE)
        shuffles = [
            n for n in cut.toposort() if n.op is Ops.GEP and len(set(cast("tuple[int, ...]", n.arg))) > 1
        ]
        assert not shuffles  # broadcasts of single elements remain, nothing is interleaved


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (Action(UPCAST, 7, 2), "no axis z7"),
        (Action(UPCAST, 2, 2), "REDUCE"),
        (Action(UNROLL, 0, 2), "LOOP"),
        (Action(UPCAST, 1, 3), "does not divide"),
        (Action(UPCAST, 1, 1), "does not divide"),
    ],
)
def test_actions_that_do_not_fit_are_refused(action: Action, reason: str) -> None:
    with Table() as t:
        sink = matmul(t)
        with pytest.raises(Refusal, match=reason):
            apply_action(sink, action)


def test_more_lanes_than_sensible_are_refused() -> None:
    with Table() as t, pytest.raises(Refusal, match="more than"):
        apply_action(matmul(t, 4, 256, 4), Action(UPCAST, 1, 256))


def test_axes_are_listed_by_type_then_path() -> None:
    with Table() as t:
        sink = apply_action(matmul(t), Action(UPCAST, 1, 4))
        assert [str(r.arg) for r in axes_of(sink)] == ["L0", "L1_0", "u1_1", "R2"]

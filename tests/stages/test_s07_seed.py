"""The actions of seed 001's stage 7: what each does to the axes of a kernel, and that no result changes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from planish.actions.base import Refusal
from planish.stages.rangeify.s07_apply_opts import apply_opts
from planish.target import TARGETS
from planish.uop.nest import axes_of
from planish.uop.node import Table, UOp
from planish.uop.ops import Axis, AxisType, Ops
from tests.placed import Action, ActionKind
from tests.stages.kernels import REDUCE, f32
from tests.stages.memory_kernels import run

GPU, CPU = TARGETS["cuda"], TARGETS["x86-64-v3"]
A = ActionKind


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def row_sums(t: Table, rows: int = 6, columns: int = 32) -> UOp:
    """out[i] = Σ a[i, r]: axis 0 is i, axis 1 is r."""
    i, r = t.range(rows, 0), t.range(columns, 1, REDUCE)
    value = t.param(1, f32, rows * columns).index(i * columns + r).reduce(Ops.ADD, r)
    return t.sink(t.param(0, f32, rows).index(i).store(value).end(i))


def matmul(t: Table) -> UOp:
    i, j, k = t.range(4, 0), t.range(8, 1), t.range(8, 2, REDUCE)
    a, b = t.param(1, f32, 32).index(i * 8 + k), t.param(2, f32, 64).index(k * 8 + j)
    return t.sink(t.param(0, f32, 32).index(i * 8 + j).store((a * b).reduce(Ops.ADD, k)).end(i, j))


def kinds(sink: UOp) -> list[tuple[AxisType, int]]:
    found = []
    for r in axes_of(sink):
        assert isinstance(r.arg, Axis)
        assert isinstance(r.src[0].arg, int)
        found.append((r.arg.kind, r.src[0].arg))
    return found


CASES = [
    ("UPCAST", Action(A.UPCAST, 0, 3), CPU, (AxisType.UPCAST, 3)),
    ("UNROLL", Action(A.UNROLL, 1, 4), CPU, (AxisType.UNROLL, 4)),
    ("LOCAL", Action(A.LOCAL, 0, 3), GPU, (AxisType.LOCAL, 3)),
    ("GROUP", Action(A.GROUP, 1, 8), GPU, (AxisType.GROUP_REDUCE, 8)),
    ("GROUPTOP", Action(A.GROUPTOP, 1, 8), GPU, (AxisType.GROUP_REDUCE, 8)),
    ("THREAD", Action(A.THREAD, 0, 2), CPU, (AxisType.THREAD, 2)),
    ("PADTO", Action(A.PADTO, 0, 8), CPU, (AxisType.LOOP, 8)),
]


@pytest.mark.parametrize(("name", "action", "target", "made"), CASES, ids=[case[0] for case in CASES])
def test_what_an_action_makes(
    t: Table, name: str, action: Action, target: object, made: tuple[AxisType, int]
) -> None:
    machine = GPU if target is GPU else CPU
    sink = row_sums(t)
    assert made in kinds(apply_opts(sink, [action], machine))
    data = np.arange(192, dtype=np.float32) % 7
    buffers = {0: np.zeros(6, np.float32), 1: data}
    run(sink, buffers, machine, [action])
    np.testing.assert_array_equal(buffers[0], data.reshape(6, 32).sum(1))


def test_a_group_takes_neighbours_and_a_grouptop_pieces(t: Table) -> None:
    """Thread g of GROUP reads r*8 + g; of GROUPTOP it reads g*4 + r."""
    for action, step in ((Action(A.GROUP, 1, 8), 1), (Action(A.GROUPTOP, 1, 8), 4)):
        after = apply_opts(row_sums(t), [action], GPU)
        (read,) = [n for n in after.toposort() if n.op is Ops.INDEX and n.src[0].arg == 1]
        (group,) = [r for r in axes_of(after) if kinds_of(r) is AxisType.GROUP_REDUCE]
        factors = [n.src[1].arg for n in read.src[1].toposort() if n.op is Ops.MUL and n.src[0] is group]
        assert (factors or [1]) == [step]


def kinds_of(r: UOp) -> AxisType:
    assert isinstance(r.arg, Axis)
    return r.arg.kind


def test_swap_exchanges_two_axes(t: Table) -> None:
    sink = matmul(t)
    assert [size for _, size in kinds(sink)] == [4, 8, 8]
    assert [size for _, size in kinds(apply_opts(sink, [Action(A.SWAP, 0, 1)], CPU))] == [8, 4, 8]
    a, b = np.arange(32, dtype=np.float32) % 5, np.arange(64, dtype=np.float32) % 3
    buffers = {0: np.zeros(32, np.float32), 1: a, 2: b}
    run(sink, buffers, CPU, [Action(A.SWAP, 0, 1)])
    np.testing.assert_array_equal(buffers[0].reshape(4, 8), a.reshape(4, 8) @ b.reshape(8, 8))


def test_after_nolocals_no_threads_of_a_block_are_taken(t: Table) -> None:
    for action in (Action(A.LOCAL, 0, 3), Action(A.GROUP, 1, 8), Action(A.GROUPTOP, 1, 8)):
        assert apply_opts(row_sums(t), [action], GPU) is not None
        with pytest.raises(Refusal, match="no_locals"):
            apply_opts(row_sums(t), [Action(A.NOLOCALS), action], GPU)


@pytest.mark.parametrize("unroll", [0, 4, 8])
def test_a_padded_sum_loses_nothing(t: Table, unroll: int) -> None:
    """30 elements, padded to 32 and unrolled: what a chunk holds besides the padding still counts."""
    r = t.range(30, 0, REDUCE)
    sink = t.sink(t.param(0, f32, 1).index(t.const(0)).store(t.param(1, f32, 30).index(r).reduce(Ops.ADD, r)))
    actions = [Action(A.PADTO, 0, 32), *([Action(A.UNROLL, 0, unroll)] if unroll else [])]
    buffers = {0: np.zeros(1, np.float32), 1: np.arange(1, 31, dtype=np.float32)}
    run(sink, buffers, CPU, actions)
    assert buffers[0].tolist() == [465]


def test_what_does_not_fit_is_refused_and_changes_nothing(t: Table) -> None:
    sink = row_sums(t)
    for action, target in (
        (Action(A.LOCAL, 0, 3), CPU),  # no threads in blocks
        (Action(A.UPCAST, 1, 4), CPU),  # a reduce axis
        (Action(A.UNROLL, 0, 3), CPU),  # an output axis
        (Action(A.UPCAST, 0, 4), CPU),  # does not divide
        (Action(A.THREAD, 7, 2), CPU),  # no such axis
    ):
        with pytest.raises(Refusal, match=action.word):
            apply_opts(sink, [action], target)

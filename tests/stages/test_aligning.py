"""ALIGN: rows that start anywhere are written in whole lines, nothing else is written, and what cannot move is refused."""

from __future__ import annotations

import numpy as np
import pytest

from planish import dtypes
from planish.actions.align import Align
from planish.actions.base import Refusal, apply_action
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.llir.program import Program, Store
from planish.optimize.heuristic import choose
from planish.stages import pipeline
from planish.stages.rangeify.attempts import attempts
from planish.target import TARGETS
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify
from tests.placed import Action, ActionKind
from tests.stages.memory_kernels import cumsum_columns

CPU = TARGETS["x86-64-v4"]
f32 = dtypes.float32
ALIGN, UPCAST = ActionKind.ALIGN, ActionKind.UPCAST


def rows(t: Table, count: int, length: int, start: int = 0) -> UOp:
    """z[i, j] = 2 x[i, j], behind so many other elements; x has rows that are one element longer."""
    i, j = t.range(count, 0), t.range(length, 1)
    z, x = t.param(0, f32, start + count * length), t.param(1, f32, count * (length + 1))
    value = x.index(i * (length + 1) + j) * 2.0
    return t.sink(z.index(i * length + j + start).store(value).end(i, j))


def compiled(sink: UOp, *actions: Action) -> Program:
    return lower("kernel", pipeline.run(sink, pipeline.Machine(CPU, lambda _: actions)))


@pytest.mark.parametrize(("count", "length", "start"), [(5, 1000, 0), (3, 37, 0), (4, 48, 5), (2, 100, 17)])
def test_rows_are_written_once_and_nothing_else_is(count: int, length: int, start: int) -> None:
    with Table() as t:
        program = compiled(rows(t, count, length, start), Action(ALIGN, 1, 16), Action(UPCAST, 1, 16))
    (store,) = (i for i in program.body if isinstance(i, Store))
    assert store.value.dtype.lanes == 16
    assert store.gate is not None
    x = np.random.default_rng(0).standard_normal((count, length + 1)).astype(np.float32)
    z = np.full(start + count * length, 7, np.float32)
    interpret(program, [z, x.ravel()])
    assert (z[:start] == 7).all()
    np.testing.assert_array_equal(z[start:], 2 * x[:, :-1].ravel())


def test_vectors_lie_at_multiples() -> None:
    """What is written, place by place, as the interpreter counts it: whole vectors start at multiples of 16 only."""
    with Table() as t:
        sink = apply_action(rows(t, 3, 100), Action(ALIGN, 1, 16), CPU)
        (store,) = (node for node in sink.toposort() if node.op is Ops.STORE)
        index = store.src[0].src[1].src[1]  # where the gate holds
        i, j = sorted((r for r in index.ranges), key=lambda r: r.vmax)
        for row in range(3):
            start = simplify(substitute(index, {i: t.const(row), j: t.const(0)}))
            assert isinstance(start.arg, int)
            assert start.arg % 16 == 0
            assert start.arg <= 100 * row < start.arg + 16
        assert j.vmax + 1 == 128  # 100 and up to 15 before, in whole vectors


def aligned(t: Table) -> UOp:
    return rows(t, 4, 64)


def strided(t: Table) -> UOp:
    i = t.range(100, 0)
    return t.sink(t.param(0, f32, 300).index(i * 3 + 1).store(t.param(1, f32, 100).index(i)).end(i))


def two_starts(t: Table) -> UOp:
    i, j = t.range(4, 0), t.range(100, 1)
    x, at = t.param(2, f32, 400).index(i * 100 + j), i * 100 + j
    stores = [t.param(k, f32, 401).index(at + k).store(x) for k in range(2)]
    return t.sink(*(store.end(i, j) for store in stores))


def total(t: Table) -> UOp:
    i, k = t.range(4, 0), t.range(100, 1, AxisType.REDUCE)
    return t.sink(t.param(0, f32, 4).index(i).store(t.param(1, f32, 400).index(i * 100 + k).reduce(Ops.ADD, k)).end(i))  # fmt: skip


@pytest.mark.parametrize(
    ("build", "action", "words"),
    [
        (aligned, Action(ALIGN, 1, 16), "starts at a multiple"),
        (aligned, Action(ALIGN, 1, 1), "no number"),
        (aligned, Action(ALIGN, 0, 16), "too long"),
        (strided, Action(ALIGN, 0, 16), "side by side"),
        (two_starts, Action(ALIGN, 1, 16), "start together"),
        (total, Action(ALIGN, 1, 16), "REDUCE"),
        (cumsum_columns, Action(ALIGN, 1, 5), "SCAN"),
    ],
)
def test_what_cannot_move_is_refused(build: object, action: Action, words: str) -> None:
    assert callable(build)
    with Table() as t, pytest.raises(Refusal, match=words):
        apply_action(build(t), action, CPU)


@pytest.mark.parametrize(
    ("count", "length", "expected"),
    [
        (4096, 1000, True),
        (4096, 1024, False),  # it starts at lines already
        (16, 1000, False),  # it stays in a cache
        (1 << 16, 24, False),  # one vector more would be much
    ],
)
def test_it_is_taken_for_long_rows_of_large_results(count: int, length: int, expected: bool) -> None:
    with Table() as t:
        actions = choose(rows(t, count, length), CPU, attempts(CPU))
        kept = choose(rows(t, count, length), CPU, attempts(CPU, streams=False))
    assert any(isinstance(action, Align) for action in actions) is expected
    assert not any(isinstance(action, Align) for action in kept)  # somebody reads it from a cache

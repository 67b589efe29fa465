"""THREAD in a kernel of several loops: every core does its piece of each, and together they do all of them once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from planish import dtypes
from planish.actions.base import Refusal, apply_action
from planish.target import TARGETS
from planish.uop.interpret import interpret
from planish.uop.nest import axes_of
from planish.uop.node import Table, UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.spec import check
from tests.placed import Action, ActionKind

CPU = TARGETS["x86-64-v4"]
F32 = dtypes.float32


def joined(t: Table, first: int, second: int) -> UOp:
    """c = a, then b, as two loops."""
    i, j = t.range(first, 0), t.range(second, 1)
    a, b, c = t.param(1, F32, first), t.param(2, F32, second), t.param(0, F32, first + second)
    return t.sink(c.index(i).store(a.index(i)).end(i), c.index(j + first).store(b.index(j)).end(j))


def framed(t: Table, rows: int, rim: int) -> UOp:
    """A matrix, and a rim of constants behind it."""
    i, j, k = t.range(rows, 0), t.range(8, 1), t.range(rim, 2)
    a, c = t.param(1, F32, rows * 8), t.param(0, F32, rows * 8 + rim)
    inside = c.index(i * 8 + j).store(a.index(i * 8 + j)).end(i, j)
    return t.sink(inside, c.index(k + rows * 8).store(t.const(7.0, F32)).end(k))


def handed_over(t: Table) -> UOp:
    """The second loop reads what the first one wrote."""
    i, j = t.range(8, 0), t.range(8, 1)
    a, b, c = t.param(2, F32, 8), t.param(1, F32, 8), t.param(0, F32, 8)
    first = b.index(i).store(a.index(i)).end(i)
    return t.sink(c.index(j).store(b.after(first).index(7 - j)).end(j))


def crossed(t: Table) -> UOp:
    """A loop over both axes, and one over the first of them only."""
    i, j, a = t.range(4, 0), t.range(4, 1), t.param(2, F32, 16)
    whole = t.param(0, F32, 16).index(i * 4 + j).store(a.index(i * 4 + j)).end(i, j)
    return t.sink(whole, t.param(1, F32, 4).index(i).store(a.index(i)).end(i))


def run(sink: UOp) -> np.ndarray:
    sizes = {int(str(n.arg)): n.dtype.size for n in sink.toposort() if n.op is Ops.DEFINE_GLOBAL}  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)
    buffers = {slot: rng.random(size, np.float32) for slot, size in sorted(sizes.items())}
    return interpret(sink, buffers)[0]


def cores(sink: UOp) -> list[UOp]:
    return [r for r in axes_of(sink) if isinstance(r.arg, Axis) and r.arg.kind is AxisType.THREAD]


@pytest.mark.parametrize(
    ("kernel", "amount"),
    [
        (lambda t: joined(t, 64, 32), 4),
        (lambda t: joined(t, 64, 32), 32),  # the second loop is gone: one iteration for each core
        (lambda t: framed(t, 64, 12), 4),
        (lambda t: framed(t, 64, 7), 4),  # no pieces, but short
    ],
)
def test_every_core_does_its_piece_of_each_loop(kernel: Callable[[Table], UOp], amount: int) -> None:
    with Table() as t:
        sink = kernel(t)
        after = apply_action(sink, Action(ActionKind.THREAD, 0, amount), CPU)
        check(after, "kernel")
        (core,) = cores(after)
        assert core.vmax + 1 == amount
        assert all(core in end.src for end in after.toposort() if end.op is Ops.END)
        np.testing.assert_array_equal(run(after), run(sink))


@pytest.mark.parametrize(
    ("kernel", "axis", "amount"),
    [
        (lambda t: joined(t, 64, 30), 0, 4),  # long, and no pieces
        (lambda t: framed(t, 8, 7), 0, 4),  # not short enough
        (handed_over, 0, 4),
        (crossed, 1, 4),  # core t would do the diagonal
    ],
)
def test_what_cannot_be_cut_everywhere_is_refused(
    kernel: Callable[[Table], UOp], axis: int, amount: int
) -> None:
    with Table() as t, pytest.raises(Refusal, match=r"not every store|matters"):
        apply_action(kernel(t), Action(ActionKind.THREAD, axis, amount), CPU)

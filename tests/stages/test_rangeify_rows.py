"""Stages 1 to 6 on kernels with running reductions and kept rows: what carries something through a loop keeps its loop."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from planish import dtypes
from planish.dtypes import AddrSpace
from planish.stages.rangeify.s03_split_ranges import split_ranges
from planish.stages.rangeify.s04_initial_symbolic import initial_symbolic
from planish.stages.rangeify.s05_simplify_ranges import simplify_ranges
from planish.stages.rangeify.s06_split_store import split_store
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Bufferize, Ops
from planish.uop.spec import check
from tests.stages.execution import counters, execute

f32 = dtypes.float32
STAGES: list[Callable[[UOp], UOp]] = [split_ranges, initial_symbolic, simplify_ranges, split_store]


def unchanged(sink: UOp, size: int, given: int) -> UOp:
    """The kernel after stages 3 to 6, which store what it stored."""
    memory = {0: np.zeros(size, np.float32), 1: np.arange(1, given + 1, dtype=np.float32)}
    before = execute(sink, memory)
    for stage in STAGES:
        sink = stage(sink)
        check(sink, "kernel")
        np.testing.assert_array_equal(execute(sink, memory)[0], before[0])
    return sink


def scan(value: UOp, along: UOp) -> UOp:
    return value.table.make(Ops.SCAN, value.dtype, (value, along), Ops.ADD)


def keep(value: UOp, at: UOp, size: int) -> UOp:
    return value.table.make(Ops.BUFFERIZE, f32.ptr(size, AddrSpace.LOCAL), (value, at), Bufferize("local"))


@pytest.fixture
def t() -> Table:
    return Table()


def test_a_scanned_range_is_not_split(t: Table) -> None:
    r = t.range(12, 0)
    x = t.param(1, f32, 4).index(r % 4)
    sink = t.sink(t.param(0, f32, 12).index(r).store(scan(x, r)).end(r))
    assert counters(unchanged(sink, 12, 4)) == ["L0<12"]


def test_a_scanned_range_is_not_merged(t: Table) -> None:
    i, k = t.range(3, 0), t.range(4, 1)
    sink = t.sink(
        t.param(0, f32, 12).index(i * 4 + k).store(scan(t.param(1, f32, 12).index(i * 4 + k), k)).end(i, k)
    )
    assert counters(unchanged(sink, 12, 12)) == ["L0<3", "L1<4"]


def test_a_scanned_range_is_neither_cut_nor_shortened(t: Table) -> None:
    r = t.range(40, 0)
    x = (r < 20).where(t.param(1, f32, 40).index(r), 0.0)
    sink = t.sink(t.param(0, f32, 40).index(r).store(scan(x, r)).end(r))
    assert counters(unchanged(sink, 40, 40)) == ["L0<40"]
    guarded = t.param(0, f32, 40).index((r < 20).where(r, t.invalid()))
    sink = t.sink(guarded.store(scan(t.param(1, f32, 40).index(r), r)).end(r))
    assert counters(unchanged(sink, 40, 40)) == ["L0<40"]


def _row(t: Table, load: Callable[[UOp, UOp], UOp], place: Callable[[UOp, UOp], UOp]) -> UOp:
    """x[i, k] - max over k, with the row kept."""
    i, k, out = t.range(3, 0), t.range(20, 2, AxisType.REDUCE), t.range(20, 1)
    value = load(i, k)
    top = value.reduce(Ops.MAX, k)
    kept = t.make(Ops.INDEX, f32, (keep(value, k, 20), out))
    return t.sink(place(i, out).store(kept - top).end(i, out))


def test_rows_and_their_elements_are_not_merged(t: Table) -> None:
    x, y = t.param(1, f32, 60), t.param(0, f32, 60)
    sink = unchanged(_row(t, lambda i, k: x.index(i * 20 + k), lambda i, o: y.index(i * 20 + o)), 60, 60)
    assert counters(sink) == ["L0<3", "L1<20", "R2<20"]


def test_a_kept_row_is_filled_to_its_end(t: Table) -> None:
    x, y = t.param(1, f32, 60), t.param(0, f32, 60)
    load = lambda i, k: (k < 16).where(x.index(i * 20 + k), t.const(float("-inf"), f32))  # noqa: E731
    sink = unchanged(_row(t, load, lambda i, o: y.index(i * 20 + o)), 60, 60)
    assert counters(sink) == ["L0<3", "L1<20", "R2<20"]


def test_a_kept_row_is_not_filled_twice(t: Table) -> None:
    """Cutting the loop over the elements would fill the row, and find its maximum, for each part."""
    x, y, r = t.param(1, f32, 60), t.param(0, f32, 60), t.range(20, 1)
    sink = _row(t, lambda i, k: x.index(i * 20 + k), lambda i, o: y.index(i * 20 + o))
    store = next(node for node in sink.toposort() if node.op is Ops.STORE)
    chosen = store.src[0].store((r < 10).where(store.src[1], 0.0))
    sink = t.sink(chosen.end(t.range(3, 0), r))
    assert len([n for n in unchanged(sink, 60, 60).toposort() if n.op is Ops.BUFFERIZE]) == 1


def test_a_kept_row_of_several_axes_is_filled_by_one_loop(t: Table) -> None:
    i, a, b = t.range(3, 0), t.range(4, 3, AxisType.REDUCE), t.range(5, 4, AxisType.REDUCE)
    out_a, out_b = t.range(4, 1), t.range(5, 2)
    value = t.param(1, f32, 60).index(i * 20 + a * 5 + b)
    kept = t.make(Ops.INDEX, f32, (keep(value, a * 5 + b, 20), out_a * 5 + out_b))
    place = t.param(0, f32, 60).index(i * 20 + out_a * 5 + out_b)
    sink = t.sink(place.store(kept - value.reduce(Ops.MAX, a, b)).end(i, out_a, out_b))
    assert counters(unchanged(sink, 60, 60)) == ["L0<3", "L1<20", "R3<20"]


def test_a_split_range_is_split_for_all_that_close_it(t: Table) -> None:
    i, k, out = t.range(3, 0), t.range(12, 2, AxisType.REDUCE), t.range(12, 1)
    value = t.param(1, f32, 12).index(i * 4 + k % 4)
    kept = t.make(Ops.INDEX, f32, (keep(value, k, 12), out))
    sink = t.sink(t.param(0, f32, 36).index(i * 12 + out).store(kept - value.reduce(Ops.MAX, k)).end(i, out))
    assert len(counters(unchanged(sink, 36, 12))) == 4

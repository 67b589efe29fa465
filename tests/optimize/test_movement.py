"""Moves between layouts, scans and column sums: what is chosen, what the code does per element, and that it is right."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from planish import dtypes
from planish.actions.swap import Swap
from planish.actions.thread import Thread
from planish.dtypes import DType
from planish.llir.counters import Counters
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.llir.program import Build, Compute, Load, Program, SelectLanes, Store
from planish.optimize.heuristic import choose
from planish.stages.pipeline import Machine, run
from planish.stages.rangeify.attempts import attempts
from planish.stages.rangeify.s07_apply_opts import apply_opts
from planish.target import TARGETS, Target
from planish.uop.nest import axes_of, name_of
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.ranges import kind_of
from tests.optimize.corpus import column_sums, offered, transpose
from tests.placed import brief
from tests.stages.kernels import Array, buffers_of
from tests.stages.memory_kernels import cumsum_columns, cumsum_rows

V4 = TARGETS["x86-64-v4"]
f32 = dtypes.float32


def moved(t: Table, dtype: DType, rows: int, columns: int, batch: int = 1, plus: bool = False) -> UOp:
    """out[b, i, j] = a[b, j, i], and perhaps c[b, i, j] besides."""
    size = batch * rows * columns
    out, a, c = (t.param(slot, dtype, size) for slot in range(3))
    b, i, j = t.range(batch, 0), t.range(columns, 1), t.range(rows, 2)
    here = b * (rows * columns) + i * rows + j
    value = a.index(b * (rows * columns) + j * columns + i)
    return t.sink(out.index(here).store(value + c.index(here) if plus else value).end(b, i, j))


def every(t: Table, step: int, start: int = 0, rows: int = 3, columns: int = 40, dtype: DType = f32) -> UOp:
    """out[i, j] = a[i, start + j * step], the last of which is the last element of a."""
    first = start if step > 0 else -step * (columns - 1)
    length = start + abs(step) * (columns - 1) + 1
    out, a = t.param(0, dtype, rows * columns), t.param(1, dtype, rows * length)
    i, j = t.range(rows, 0), t.range(columns, 1)
    return t.sink(out.index(i * columns + j).store(a.index(i * length + j * step + first)).end(i, j))


def chosen(sink: UOp, target: Target, cores: bool = True) -> list[str]:
    return brief(choose(sink, target, attempts(target), cores=cores))


def executed(sink: UOp, target: Target, steered: bool = True) -> tuple[Array, Program, Counters]:
    """What the kernel writes to slot 0, as the heuristic wants it."""
    pick = partial(choose, target=target, attempt=attempts(target))
    program = lower("kernel", run(sink, Machine(target, pick if steered else lambda _: ())))
    buffers = buffers_of(sink)
    counters = interpret(program, [buffers[int(param.name.removeprefix("arg"))] for param in program.params])
    return buffers[0], program, counters


# -- squares ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "dtype", "side"),
    [
        ("x86-64-v4", f32, 16),
        ("x86-64-v4", dtypes.float64, 8),
        ("x86-64-v4", dtypes.int8, 16),
        ("x86-64-v3", f32, 8),
        ("x86-64", f32, 4),
        ("aarch64", dtypes.float16, 8),
    ],
)
def test_a_transpose_moves_squares_of_whole_vectors(name: str, dtype: DType, side: int) -> None:
    target = TARGETS[name]
    with Table() as t:
        sink = moved(t, dtype, 64, 32)
        assert chosen(sink, target)[:2] == [f"upcast {side}"] * 2
        found, program, _ = executed(sink, target)
        accesses = [i for i in program.body if isinstance(i, Load | Store)]
        widths = {(i.result if isinstance(i, Load) else i.value).dtype.lanes for i in accesses}
        assert len(accesses) == 2 * side
        assert widths == {side}
        expected, _, _ = executed(sink, TARGETS["scalar"], steered=False)
    np.testing.assert_array_equal(found, expected)


def test_squares_are_as_wide_as_the_widest_that_is_turned() -> None:
    """out[i, j] = a[i, at[j, i]]: positions of 64 bits, of which a register holds half as many as of what they point to."""
    rows, columns = 32, 200
    with Table() as t:
        out, a = t.param(0, f32, rows * columns), t.param(1, f32, rows * columns)
        at = t.param(2, dtypes.int64, rows * columns)
        i, j = t.range(rows, 0), t.range(columns, 1)
        chosen_at = at.index(j * rows + i).cast(dtypes.index) & 127
        sink = t.sink(out.index(i * columns + j).store(a.index(i * columns + chosen_at)).end(i, j))
        assert chosen(sink, V4) == ["upcast 8", "upcast 8"]


def test_large_ones_are_walked_in_macro_tiles_along_what_is_read() -> None:
    with Table() as t:
        sink = moved(t, f32, 1024, 1024)
        found = chosen(sink, V4)
        assert found[:4] == ["upcast 16", "upcast 16", "split 2", "split 2"]
        assert [word.split()[0] for word in found[4:]] == ["swap", "swap", "thread"]


@pytest.mark.parametrize(
    ("rows", "columns", "plus"),
    [(17, 33, True), (16, 50, False), (3, 40, False), (40, 3, True), (5, 7, False), (1, 9, False)],
)
@pytest.mark.parametrize("target", [V4, TARGETS["x86-64"]], ids=lambda target: target.name)
def test_sizes_that_no_square_divides(rows: int, columns: int, plus: bool, target: Target) -> None:
    with Table() as t:
        sink = moved(t, f32, rows, columns, batch=2, plus=plus)
        found, _, counters = executed(sink, target)
        expected, _, _ = executed(sink, TARGETS["scalar"], steered=False)
    np.testing.assert_array_equal(found, expected)
    if target.masked:
        assert counters.traffic["arg1"].read == 2 * rows * columns * 4


def test_what_is_read_and_written_alike_has_no_squares() -> None:
    with Table() as t:
        assert "upcast 16" in chosen(every(t, 1), V4) or "upcast 8" in chosen(every(t, 1), V4)
        assert len([word for word in chosen(every(t, 1), V4) if word.startswith("upcast")]) == 1


# -- strides -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [-3, -2, -1, 2, 3, 4])
@pytest.mark.parametrize(
    ("dtype", "columns"),
    [(f32, 40), (f32, 33), (dtypes.float64, 33), (dtypes.int8, 160)],
    ids=str,
)
def test_every_nth_element_is_loaded_in_whole_vectors_inside_the_buffer(
    step: int, dtype: DType, columns: int
) -> None:
    with Table() as t:
        sink = every(t, step, columns=columns, dtype=dtype)
        found, program, _ = executed(sink, V4)  # the interpreter refuses what is outside
        expected, _, _ = executed(sink, TARGETS["scalar"], steered=False)
    np.testing.assert_array_equal(found, expected)
    loads = [i for i in program.body if isinstance(i, Load)]
    assert all(i.result.dtype.lanes > 1 for i in loads)
    stored = sum(i.value.dtype.lanes for i in program.body if isinstance(i, Store))
    assert sum(i.result.dtype.lanes for i in loads) <= abs(step) * stored + V4.lanes(dtype)


def test_elements_far_apart_are_loaded_alone() -> None:
    with Table() as t:
        _, program, _ = executed(every(t, 5, columns=32), V4)
    assert {i.result.dtype.lanes for i in program.body if isinstance(i, Load)} == {1}


def test_short_runs_are_loaded_with_the_gaps_between_them() -> None:
    """Eight rows of 5 among 9 are 68 elements: five whole vectors, where rows by themselves would be sixteen loads."""
    rows, width, pitch = 640, 5, 9
    with Table() as t:
        out, a = t.param(0, f32, rows * width), t.param(1, f32, rows * pitch)
        i, j = t.range(rows, 0), t.range(width, 1)
        sink = t.sink(out.index(i * width + j).store(a.index(i * pitch + j + 1) * 2).end(i, j))
        assert chosen(sink, V4)[:2] == ["upcast 5", "upcast 8"]
        plain, _, _ = executed(sink, V4, steered=False)
        ours, program, _ = executed(sink, V4)
    np.testing.assert_array_equal(ours, plain)
    assert [i.result.dtype.lanes for i in program.body if isinstance(i, Load)] == [16] * 5


# -- scans and columns -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [16, 96, 37, 9])
@pytest.mark.parametrize("target", [V4, TARGETS["x86-64"]], ids=lambda target: target.name)
def test_scans_run_in_lanes(n: int, target: Target) -> None:
    with Table() as t:
        sink = cumsum_rows(t, 3, n)
        found, _, counters = executed(sink, target)
        expected, _, _ = executed(sink, TARGETS["scalar"], steered=False)
    np.testing.assert_array_equal(found, expected)
    if n % 16 == 0:
        assert any(word.startswith("prefix") for word in _words(n, target))
        assert counters.instructions["add"] < 3 * n or target.register_bytes < 32


def _words(n: int, target: Target) -> list[str]:
    with Table() as t:
        return chosen(cumsum_rows(t, 3, n), target)


def test_scans_along_the_outer_axis_have_several_vectors_side_by_side() -> None:
    with Table() as t:
        sink = cumsum_columns(t, 8, 128)
        assert "upcast 64" in chosen(sink, V4)
        found, _, _ = executed(sink, V4)
        expected, _, _ = executed(sink, TARGETS["scalar"], steered=False)
    np.testing.assert_array_equal(found, expected)


def test_columns_are_summed_in_blocks_of_rows() -> None:
    with Table() as t:
        assert chosen(column_sums(t, 4096, 4096), V4) == ["upcast 64", "thread 4", "block 8"]
        assert chosen(column_sums(t, 4096, 4096), V4, cores=False) == ["upcast 64", "block 8"]
        assert chosen(column_sums(t, 64, 64), V4) == ["upcast 64"]  # rows follow each other already
    with Table() as t:
        sink = column_sums(t, 48, 256)
        found, _, counters = executed(sink, V4)
        expected, _, _ = executed(sink, TARGETS["scalar"], steered=False)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert counters.traffic["arg1"].read == 48 * 256 * 4


def test_a_selection_of_lanes_is_one_instruction_per_vector() -> None:
    with Table() as t:
        _, program, _ = executed(every(t, 2, columns=64), V4)
    assert sum(isinstance(i, SelectLanes) for i in program.body) <= 2
    assert not any(isinstance(i, Build) for i in program.body)


def test_a_transpose_is_the_one_of_the_corpus() -> None:
    with Table() as t:
        assert chosen(transpose(t, 64, 64), V4, cores=False)[:2] == ["upcast 16", "upcast 16"]


def test_reductions_of_rows_do_not_take_a_row_that_is_used_again() -> None:
    """A window at a step of two is no row."""
    with Table() as t:
        out, a = t.param(0, f32, 32), t.param(1, f32, 64)
        j, r = t.range(32, 0), t.range(2, 1, AxisType.REDUCE)
        sink = t.sink(out.index(j).store(a.index(j * 2 + r).reduce(Ops.MAX, r)).end(j))
        found, program, _ = executed(sink, V4)
        expected, _, _ = executed(sink, TARGETS["scalar"], steered=False)
    np.testing.assert_array_equal(found, expected)
    assert all(i.result.dtype.lanes > 1 for i in program.body if isinstance(i, Load))


def test_the_outermost_loop_as_it_stands_is_shared_among_cores() -> None:
    """Macro tiles change places: what the cores share is what has come to be outside."""
    target = TARGETS["x86-64-v3"]
    with Table() as t:
        i, j = t.range(411, 0), t.range(300, 1)
        read = t.param(1, f32, 411 * 300).index(j * 411 + i)
        sink = t.sink(t.param(0, f32, 411 * 300).index(i * 300 + j).store(read).end(i, j))
        actions = choose(sink, target, attempts(target))
        assert [type(action) for action in actions[-3:]] == [Swap, Swap, Thread]
        before = apply_opts(sink, actions[:-1], target)
        first = next(r for r in axes_of(before) if kind_of(r) is AxisType.LOOP)
        assert isinstance(actions[-1], Thread)
        assert actions[-1].axis == name_of(first)


def test_blocks_of_rows_are_not_cut_into_narrow_columns() -> None:
    with Table() as t:
        i, r = t.range(900, 0), t.range(1500, 1, AxisType.REDUCE)
        total = t.param(1, f32, 1500 * 900).index(r * 900 + i).reduce(Ops.ADD, r)
        sink = t.sink(t.param(0, f32, 900).index(i).store(total).end(i))
        assert brief(offered(sink, V4, "lanes")) == ["pad_to 64", "upcast 64", "thread 3", "block 10"]
        # for one core they are the best there is; many do better with columns of their own
        assert brief(choose(sink, V4, attempts(V4), cores=False)) == ["pad_to 64", "upcast 64", "block 10"]
        assert brief(choose(sink, V4, attempts(V4))) == ["pad_to 64", "upcast 64", "thread 15"]


def test_sums_of_what_lies_otherwise_are_made_in_squares() -> None:
    """The trace of a product: one factor by rows, the other by columns, each read as vectors."""
    with Table() as t:
        i, j = t.range(48, 0, AxisType.REDUCE), t.range(64, 1, AxisType.REDUCE)
        x, y = (t.param(slot, f32, 48 * 64) for slot in (1, 2))
        total = (x.index(i * 64 + j) * y.index(j * 48 + i)).reduce(Ops.ADD, i, j)
        sink = t.sink(t.param(0, f32, 1).index(t.const(0)).store(total))
        actions = choose(sink, V4, attempts(V4))
        assert brief(actions) == ["accumulators 16", "unroll 16"]
        program = lower("kernel", run(sink, Machine(V4, lambda kernel: actions)))
    widths = [i.result.dtype.lanes for i in program.body if isinstance(i, Load)]
    assert widths
    assert set(widths) == {16}
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, 48 * 64).astype(np.float32) for _ in range(2))
    out = np.zeros(1, np.float32)
    interpret(program, [out, a, b])
    assert out[0] == np.trace(a.reshape(48, 64) @ b.reshape(64, 48))


# -- rows shorter than a vector ----------------------------------------------------------------------------------------


def beside(t: Table, width: int, rows: int = 64, apart: int = 0) -> UOp:
    """out[i, j] = a[i, j] + b[i], where rows of a are longer by `apart`: no two axes can be one."""
    out, a, b = t.param(0, f32, rows * width), t.param(1, f32, rows * (width + apart)), t.param(2, f32, rows)
    i, j = t.range(rows, 0), t.range(width, 1)
    value = a.index(i * (width + apart) + j) + b.index(i)
    return t.sink(out.index(i * width + j).store(value).end(i, j))


@pytest.mark.parametrize(
    ("rows", "width"), [(64, 2), (64, 3), (64, 5), (64, 7), (64, 15), (77, 2), (77, 3), (77, 5), (77, 7)]
)
def test_rows_shorter_than_a_vector_are_stored_several_at_a_time(rows: int, width: int) -> None:
    with Table() as t:
        sink = beside(t, width, rows, apart=2)
        plain, _, _ = executed(sink, V4, steered=False)
        ours, program, _ = executed(sink, V4)
        assert f"upcast {width}" in chosen(sink, V4)  # the row as a whole
    np.testing.assert_array_equal(ours, plain)
    assert max(each.value.dtype.lanes for each in program.body if isinstance(each, Store)) == 16


def test_rows_that_are_parts_of_vectors_are_left_to_them() -> None:
    with Table() as t:
        assert [each for each in chosen(beside(t, 8, apart=2), V4) if "upcast" in each] == ["upcast 8"]


@pytest.mark.parametrize("width", [5, 23, 29])
def test_rows_that_no_part_of_a_vector_divides_are_padded(width: int) -> None:
    """Of rows that do not follow each other, or are longer than a vector: lanes that are left out cost less than single elements."""
    rows, pitch = 400, width + 3
    with Table() as t:
        out, a = t.param(0, f32, rows * pitch), t.param(1, f32, rows * pitch)
        i, j = t.range(rows, 0), t.range(width, 1)
        sink = t.sink(out.index(i * pitch + j).store(a.index(i * pitch + j) * 2).end(i, j))
        plain, _, _ = executed(sink, V4, steered=False)
        ours, program, _ = executed(sink, V4)
    np.testing.assert_array_equal(ours, plain)
    stored = [each.value.dtype.lanes for each in program.body if isinstance(each, Store)]
    assert max(stored) >= 4
    assert len(stored) <= 2  # of 5 elements four and one


@pytest.mark.parametrize("columns", [3, 5, 7])
def test_a_few_columns_are_summed_in_one_vector(columns: int) -> None:
    with Table() as t:
        sink = column_sums(t, 300, columns)
        plain, _, _ = executed(sink, V4, steered=False)
        ours, program, _ = executed(sink, V4)
    np.testing.assert_allclose(ours, plain, rtol=1e-5, atol=1e-5)
    made = {
        each.result.dtype.lanes for each in program.body if isinstance(each, Compute) and each.op is Ops.ADD
    }
    assert max(made) >= columns

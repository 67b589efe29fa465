"""Stage 11: accumulators, scans, and one loop for what closes the same range in the same context."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from planish import dtypes
from planish.dtypes import AddrSpace
from planish.errors import LoweringError
from planish.llir.interpret import interpret
from planish.llir.program import Loop
from planish.stages.devectorizer import sharing
from planish.stages.devectorizer.s11_remove_reduce import remove_reduce
from planish.stages.expander.loops import merge_loops, separate_contexts
from planish.stages.expander.s10_add_local_buffers import add_local_buffers
from planish.target import TARGETS
from planish.uop import spec
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.text import print_graph
from tests.conftest import Golden
from tests.placed import Action, ActionKind
from tests.stages.kernels import Array
from tests.stages.memory_kernels import CASES, check, compiled, keep, read, scan

f32, i32 = dtypes.float32, dtypes.int32
REDUCE = AxisType.REDUCE


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def loops(sink: UOp) -> int:
    return sum(isinstance(instruction, Loop) for instruction in compiled(sink).body)


@pytest.mark.parametrize("name", ["softmax", "sum and max", "scan and sum", "crossed", "cumsum of columns"])
def test_reductions_and_scans_become_accumulators(name: str, t: Table, golden: Golden) -> None:
    sink = add_local_buffers(CASES[name].build(t))
    after = remove_reduce(sink)
    spec.check(after, "reduced")
    assert remove_reduce(after) is after
    golden.check(
        f"stages/s11_remove_reduce/{name.replace(' ', '_')}.txt",
        f"=== before\n{print_graph(sink)}=== after\n{print_graph(after)}",
    )


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("softmax", 4),  # rows, and three walks over each
        ("softmax, one range", 4),
        ("sum and max", 2),
        ("scan and sum", 2),
        ("crossed", 3),  # one pair shares its loop, the other cannot
        ("cumsum of rows", 2),
    ],
)
def test_what_can_share_a_loop_shares_it(name: str, count: int, t: Table) -> None:
    assert loops(CASES[name].build(t)) == count


def test_sums_in_different_contexts_keep_their_loops(t: Table) -> None:
    """Of one range, once for every row and once for all: the second is not computed for every row."""
    i, r = t.range(4, 0), t.range(6, 1, REDUCE)
    a, b = t.param(1, i32, 24), t.param(2, i32, 6)
    value = a.index(i * 6 + r).reduce(Ops.ADD, r) * b.index(r).reduce(Ops.MAX, r)
    sink = t.sink(t.param(0, i32, 4).index(i).store(value).end(i))
    after = separate_contexts(sink)
    axes = sorted(str(n.arg) for n in after.toposort() if n.op is Ops.RANGE)
    assert axes == ["L0", "R1", "R1_0"]
    assert loops(sink) == 3


def test_loops_of_different_depth_share_the_outer_one(t: Table) -> None:
    i, j = t.range(4, 0), t.range(6, 1)
    a = t.param(2, f32, 24)
    sink = t.sink(
        t.param(0, f32, 24).index(i * 6 + j).store(a.index(i * 6 + j) * 2).end(i, j),
        t.param(1, f32, 4).index(i).store(a.index(i * 6)).end(i),
    )
    assert loops(sink) == 2
    spec.check(remove_reduce(sink), "reduced")


def test_ends_that_need_each_other_are_not_merged(t: Table) -> None:
    r = t.range(4, 0)
    first = t.param(0, f32, 4).index(r).store(t.param(1, f32, 4).index(r)).end(r)
    second = t.param(2, f32, 4).index(r).store(t.param(0, f32, 4).after(first).index(r)).end(r)
    with pytest.raises(LoweringError, match="closed twice"):
        merge_loops(t.sink(first, second))


def test_scans_that_depend_on_each_others_range_are_refused(t: Table) -> None:
    r, s = t.range(4, 0), t.range(4, 1)
    inner = scan(t.param(1, i32, 16).index(r * 4 + s), r)
    sink = t.sink(t.param(0, i32, 16).index(r * 4 + s).store(scan(inner, s)).end(r, s))
    with pytest.raises(LoweringError, match="neither loop can be the inner"):
        remove_reduce(sink)


def test_a_scan_along_one_value_is_that_value(t: Table) -> None:
    x = t.param(1, i32, 4).index(t.range(4, 0))
    sink = t.sink(t.param(0, i32, 4).index(t.range(4, 0)).store(scan(x, t.const(0))).end(t.range(4, 0)))
    assert not any(n.op is Ops.DEFINE_REG for n in remove_reduce(sink).toposort())


def test_a_place_that_is_written_again_is_read_again(t: Table) -> None:
    """m[0] = m[0]*2 + x[r] for all r: the read stands inside of the loop although it does not depend on it."""
    r = t.range(5, 0)
    place = t.param(0, i32, 1).index(t.const(0))
    sink = t.sink(place.store(place * 2 + t.param(1, i32, 5).index(r)).end(r))
    memory = [np.array([77], np.int32), np.arange(1, 6, dtype=np.int32)]
    interpret(compiled(sink), memory)
    assert memory[0][0] == 77 * 32 + 1 * 16 + 2 * 8 + 3 * 4 + 4 * 2 + 5


# -- LOCAL memory ----------------------------------------------------------------------------------------------------


def chain(t: Table, at: str, dtype: dtypes.DType = i32, again: bool = False) -> UOp:
    """A row, and another made of it: read forwards or backwards; the first perhaps needed once more at the end."""
    n = 8
    i, r, s, u = t.range(3, 0), t.range(n, 1), t.range(n, 2), t.range(n, 3)
    row = keep(t.param(1, i32, 3 * n).index(i * n + r), r)
    there = s if at == "forwards" else s * -1 + (n - 1)
    second = keep((read(row, there) * 2).cast(dtype), s)
    value = read(second, u).cast(i32)
    if again:
        value = value + read(row, u)
    return t.sink(t.param(0, i32, 3 * n).index(i * n + u).store(value).end(i, u))


def expected(x: Array, at: str, again: bool) -> Array:
    rows = x.reshape(3, 8)
    second = (rows if at == "forwards" else rows[:, ::-1]) * 2
    return np.asarray((second + rows if again else second).reshape(-1))


@pytest.mark.parametrize(
    ("at", "dtype", "again", "buffers"),
    [
        ("forwards", i32, False, 1),  # in place
        ("backwards", i32, False, 2),  # element 0 is needed after element 7 was replaced
        ("forwards", i32, True, 2),  # the first row is needed again
        ("forwards", f32, False, 2),  # not the same elements
    ],
)
def test_buffers_share_memory_in_place_or_not_at_all(
    at: str, dtype: dtypes.DType, again: bool, buffers: int, t: Table
) -> None:
    memory = [np.full(24, 77, np.int32), np.arange(24, dtype=np.int32)]
    program = compiled(chain(t, at, dtype, again))
    interpret(program, memory)
    np.testing.assert_array_equal(memory[0], expected(memory[1], at, again))
    assert sum(b.space is AddrSpace.LOCAL for b in program.locals) == buffers


def test_a_wrong_law_of_sharing_would_be_seen(t: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_is_in_place", lambda read, store, threads: True)
    memory = [np.full(24, 77, np.int32), np.arange(24, dtype=np.int32)]
    interpret(compiled(chain(t, "backwards")), memory)
    assert not np.array_equal(memory[0], expected(memory[1], "backwards", False))


def test_memory_is_used_again_after_its_last_reader(t: Table) -> None:
    """Two rows that have nothing to do with each other, one after the other: the second waits for the sum of the first."""
    n, i = 8, t.range(2, 0)
    r, s, p, q = (t.range(n, 1 + k, REDUCE) for k in range(4))
    a, b = t.param(1, i32, 2 * n), t.param(2, i32, 2 * n)
    first = read(keep(a.index(i * n + r), r), s * -1 + 7) * s.cast(i32)
    total = first.reduce(Ops.ADD, s)
    second = read(keep(b.index(i * n + p) + total, p), q * -1 + 7) * q.cast(i32)
    sink = t.sink(t.param(0, i32, 2).index(i).store(second.reduce(Ops.ADD, q)).end(i))
    program = compiled(sink)
    assert sum(b.space is AddrSpace.LOCAL for b in program.locals) == 1
    rng = np.random.default_rng(0)
    memory = [np.zeros(2, np.int32), *(rng.integers(-5, 6, 2 * n).astype(np.int32) for _ in range(2))]
    interpret(program, memory)
    x, y = (m.reshape(2, n) for m in memory[1:])
    k = np.arange(n)
    total_ = (x[:, ::-1] * k).sum(1, keepdims=True)
    np.testing.assert_array_equal(memory[0], ((y + total_)[:, ::-1] * k).sum(1))


def test_each_thread_needs_its_own_elements_to_work_in_place() -> None:
    """Rows of a softmax for three threads: each in place in its own row."""
    counters = check(CASES["softmax"], TARGETS["cuda"], [Action(ActionKind.LOCAL, 0, 3)])
    # what was read is in registers; of what comes of it a block picks an element, and registers have no number
    assert counters.local_bytes == 3 * 8 * 4
    assert counters.register_bytes == 8 * 4 + 2 * 4


@pytest.mark.parametrize("own", [True, False])
def test_sums_go_on_from_what_a_kernel_wrote_and_from_nothing_else(own: bool, t: Table) -> None:
    """Passes over a result add to it in their order; another addend is added to the whole sum, as the program says."""
    b, i, r = t.range(2, 0), t.range(4, 1), t.range(6, 2, REDUCE)
    place = t.param(0, f32, 4).index(i)
    before = place if own else t.param(2, f32, 4).index(i)
    total = t.param(1, f32, 48).index(b * 24 + i * 6 + r).reduce(Ops.ADD, r)
    value = b.eq(0).where(total.const_like(0.0), before) + total
    after = remove_reduce(add_local_buffers(t.sink(place.store(value).end(b, i))))
    starts = [n.src[1] for n in after.toposort() if n.op is Ops.STORE and "reg" in str(n.src[0].src[0].dtype)]
    assert (Ops.WHERE in {start.op for start in starts}) is own

"""Stage 10 as seed 001 describes it: what is kept goes to fast memory, shared by a block or a core's own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from planish.dtypes import AddrSpace
from planish.stages import pipeline
from planish.stages.expander.s10_add_local_buffers import Locals, add_local_buffers, pm_add_buffers_local
from planish.target import TARGETS
from planish.uop import spec
from planish.uop.interpret import interpret
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Bufferize, Ops
from planish.uop.text import print_graph
from tests.conftest import Golden
from tests.placed import Action, ActionKind
from tests.stages.kernels import REDUCE, f32
from tests.stages.memory_kernels import compiled, keep, read, run


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def rows(t: Table) -> UOp:
    """out[i, s] = a[i, s] - max of the row: the row is kept while its maximum is found."""
    i, r, s = t.range(3, 0), t.range(8, 1, REDUCE), t.range(8, 2)
    x = t.param(1, f32, 24).index(i * 8 + r)
    row, top = keep(x, r), x.reduce(Ops.MAX, r)
    return t.sink(t.param(0, f32, 24).index(i * 8 + s).store(read(row, s) - top).end(i, s))


def data() -> dict[int, np.ndarray]:
    return {0: np.zeros(24, np.float32), 1: np.random.default_rng(0).integers(-9, 9, 24).astype(np.float32)}


def test_what_is_kept_becomes_memory_a_store_and_a_loop(t: Table, golden: Golden) -> None:
    before = rows(t)
    after = add_local_buffers(before)
    assert not any(n.op is Ops.BUFFERIZE for n in after.toposort())
    (memory,) = [n for n in after.toposort() if n.op is Ops.DEFINE_LOCAL]
    assert memory.dtype is f32.ptr(8, AddrSpace.LOCAL)
    reads = [n for n in after.toposort() if n.op is Ops.INDEX and n.src[0].op is Ops.AFTER]
    assert all(n.src[0].src[1].op is Ops.END for n in reads)  # read after it is filled
    spec.check(after, pipeline.phase_after(10))
    np.testing.assert_array_equal(interpret(after, data())[0], interpret(before, data())[0])
    golden.check(
        "stages/seed/s10_row.txt",
        f"=== before\n{print_graph(before)}=== after\n{print_graph(after)}",
    )


def test_a_read_finds_its_buffer(t: Table) -> None:
    r, s = t.range(8, 0), t.range(8, 1)
    kept = keep(t.param(1, f32, 8).index(r), r)
    assert kept.arg == Bufferize("local")  # LOCAL memory is allowed, and the scheduler may undo it
    found = pm_add_buffers_local(read(kept, s), Locals())
    assert found is not None
    assert found.src[0].src[0].op is Ops.DEFINE_LOCAL


def test_far_memory_is_read_once(t: Table) -> None:
    buffers = data()
    counters = run(rows(t), buffers)
    assert counters.bytes_read == 24 * 4
    assert counters.scratch_bytes == 8 * 4  # one row, which stays in the nearest cache


def test_a_tile_is_staged_for_the_threads_of_a_block_and_for_a_core(t: Table) -> None:
    i, j, k = t.range(8, 0), t.range(8, 1), t.range(8, 2, REDUCE)
    a, b = t.param(1, f32, 64).index(i * 8 + k), t.param(2, f32, 64).index(k * 8 + j)
    kernel = t.sink(t.param(0, f32, 64).index(i * 8 + j).store((a * b).reduce(Ops.ADD, k)).end(i, j))
    x, y = (np.arange(64, dtype=np.float32) % m for m in (5, 7))
    stage = Action(ActionKind.STAGE, -1, 2)
    for name, actions, barrier in (
        ("cuda", [Action(ActionKind.LOCAL, 1, 8), stage], True),
        ("x86-64-v3", [stage], False),
    ):
        program = compiled(kernel, TARGETS[name], actions)
        assert [buffer.space for buffer in program.locals].count(AddrSpace.LOCAL) == 1
        assert ("barrier" in {i.mnemonic for i in program.body}) is barrier
        buffers = {0: np.zeros(64, np.float32), 1: x, 2: y}
        run(kernel, buffers, TARGETS[name], actions)
        np.testing.assert_array_equal(buffers[0].reshape(8, 8), x.reshape(8, 8) @ y.reshape(8, 8))


def test_threads_have_elements_of_their_own(t: Table) -> None:
    """Threads that a kept value depends on, without being kept for, become dims of the buffer."""
    lane, r, s = t.range(4, 0, AxisType.LOCAL), t.range(3, 1), t.range(3, 2)
    kept = keep(t.param(1, f32, 12).index(lane * 3 + r), r)
    kernel = t.sink(t.param(0, f32, 12).index(lane * 3 + s).store(read(kept, s)).end(lane, s))
    after = add_local_buffers(kernel)
    (memory,) = [n for n in after.toposort() if n.op is Ops.DEFINE_LOCAL]
    assert memory.dtype is f32.ptr(12, AddrSpace.LOCAL)


def test_broadcasts_have_one_dtype(t: Table) -> None:
    """A kept vector is read with as many lanes as its reader has, and no store carries more than place, value and gate."""
    after = add_local_buffers(rows(t))
    for n in after.toposort():
        if n.op is Ops.STORE:
            assert n.arg is None
            assert len(n.src) <= 3
            assert n.src[1].dtype.scalar is f32

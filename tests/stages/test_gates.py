"""Guarded accesses from the index to the machine: stages 15, 19 and 22, and whole kernels through all stages."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from planish import dtypes
from planish.llir.interpret import interpret
from planish.llir.lower import _Lowering, lower
from planish.stages import gates, pipeline
from planish.stages.devectorizer.s13_add_loads import add_loads
from planish.stages.devectorizer.s15_lower_index_dtype import lower_index_dtype
from planish.stages.linearizer.s19_final_rewrite import final_rewrite, pm_split_ends
from planish.stages.linearizer.s21_linearize import linearize
from planish.stages.linearizer.s22_cleanup_if import cleanup_if
from planish.stages.rangeify.s01_early_movement_ops import early_movement_ops
from planish.stages.rangeify.s04_initial_symbolic import initial_symbolic
from planish.uop import spec
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.text import print_graph, print_lines
from tests.conftest import Golden
from tests.stages.execution import execute, same
from tests.stages.kernels import buffers_of, f32, i32, memory, move, random_kernel, store

Array = NDArray[Any]


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def copied(t: Table, gated_store: bool = False) -> UOp:
    """c[i] = x[i - 2] where that exists (7.0 elsewhere); c is written only where i < 9, if asked."""
    i = t.range(10, 0)
    x = t.param(1, f32, 8).index((i >= 2).where(i - 2, t.invalid()))
    place = (i < 9).where(i, t.invalid()) if gated_store else i
    return t.sink(t.param(0, f32, 10).index(place).store((i >= 2).where(x, 7.0)).end(i))


def lines_of(sink: UOp) -> list[UOp]:
    return pipeline.run(sink)


def run_lines(sink: UOp, lines: list[UOp], buffers: Mapping[int, Array]) -> dict[int, Array]:
    """What the LLIR interpreter makes of a kernel."""
    program = lower("kernel", lines)
    after = {slot: array.copy() for slot, array in buffers.items()}
    interpret(program, [after[int(b.name.removeprefix("arg"))] for b in program.params])
    return after


def test_stage_1_takes_a_gate_with_the_index(t: Table) -> None:
    i = t.range(6, 0)
    view = move(memory(t, 1, f32, (4,)), Ops.PAD, ((1, 1),))
    gated = t.make(Ops.INDEX, f32, (view, i, i < 3))
    kernel = early_movement_ops(store(t.param(0, f32, 6), gated, i))
    (found,) = [n for n in kernel.toposort() if n.op is Ops.INDEX and n.src[0].arg == 1]
    assert len(found.src) == 2
    buffers = buffers_of(kernel)
    np.testing.assert_array_equal(execute(kernel, buffers)[0], [0, *buffers[1][:2], 0, 0, 0])


def test_memory_without_elements_is_nowhere(t: Table) -> None:
    i = t.range(3, 0)
    empty = move(move(memory(t, 1, f32, (0,)), Ops.RESHAPE, (0, 2)), Ops.PAD, ((1, 2), (0, 0)))
    kernel = early_movement_ops(store(t.param(0, f32, 3), t.make(Ops.INDEX, f32, (empty, i, t.const(1))), i))
    (found,) = [n for n in kernel.toposort() if n.op is Ops.INDEX and n.src[0].arg == 1]
    assert found.src[1].op is Ops.INVALID
    kernel = initial_symbolic(kernel)
    assert execute(kernel, buffers_of(kernel))[0].tolist() == [0, 0, 0]


def test_stage_15_makes_a_gate_of_invalid(t: Table, golden: Golden) -> None:
    before = add_loads(copied(t, gated_store=True))
    after = lower_index_dtype(before)
    spec.check(after, "lowered")
    assert not any(n.op is Ops.INVALID for n in after.toposort())
    places = [n for n in after.toposort() if n.op is Ops.INDEX]
    assert [len(p.src) for p in places] == [3, 3]
    golden.check(
        "stages/s15_lower_index_dtype/gates.txt",
        f"=== before\n{print_graph(before)}=== after\n{print_graph(after)}",
    )


def test_stage_19_moves_gates_to_accesses(t: Table, golden: Golden) -> None:
    before = lower_index_dtype(add_loads(copied(t, gated_store=True)))
    after = final_rewrite(before)
    spec.check(after, "lowered")
    assert all(len(n.src) == 2 for n in after.toposort() if n.op is Ops.INDEX)
    (load,) = [n for n in after.toposort() if n.op is Ops.LOAD]
    assert load.src[1].arg == 7.0  # the select around the load has become its alternative
    (stored,) = [n for n in after.toposort() if n.op is Ops.STORE]
    assert len(stored.src) == 3
    golden.check(
        "stages/s19_final_rewrite/gates.txt",
        f"=== before\n{print_graph(before)}=== after\n{print_graph(after)}",
    )


def test_gates_of_place_and_access_are_joined(t: Table) -> None:
    n, m = t.variable("n", 0, 9, i32), t.variable("m", 0, 9, i32)
    buffer = t.param(1, f32, 10)
    place = t.make(Ops.INDEX, buffer.dtype, (buffer, n, n < 3))
    load = t.make(Ops.LOAD, f32, (place, t.const(5.0, f32), m < 4))
    found = gates.pm_move_gates_from_index(load)
    assert found is not None
    assert found.src[0].src == (buffer, n)
    assert found.src[1].arg == 5.0
    assert found.src[2] is (n < 3) & (m < 4)


def test_a_gate_of_one_lane_is_for_all(t: Table) -> None:
    n = t.variable("n", 0, 9, i32)
    lanes = t.make(Ops.VECTORIZE, i32.vec(2), (n, n + 1))
    buffer = t.param(1, f32, 16)
    place = t.make(Ops.INDEX, f32.ptr(16).vec(2), (buffer, lanes, lanes < t.const(3, i32.vec(2))))
    stored = t.make(Ops.STORE, dtypes.void, (place, t.const(1.0, f32.vec(2)), n < 4))
    found = gates.pm_move_gates_from_index(stored)
    assert found is not None
    assert found.src[2].dtype is dtypes.bool_.vec(2)


def test_a_select_with_another_condition_stays(t: Table) -> None:
    n = t.variable("n", 0, 9, i32)
    buffer = t.param(1, f32, 10)
    load = t.make(Ops.LOAD, f32, (t.make(Ops.INDEX, buffer.dtype, (buffer, n)), t.const(0.0, f32), n < 3))
    assert gates.pm_move_gates_from_index((n < 4).where(load, 1.0)) is None
    assert gates.pm_move_gates_from_index((n < 3).where(load, load + 1.0)) is None
    assert gates.pm_move_gates_from_index((n < 3).where(load, 1.0)) is not None


def test_stage_22_branches_around_stores(t: Table, golden: Golden) -> None:
    kernel = copied(t, gated_store=True)
    sink = kernel
    for stage in pipeline.STAGES:
        if stage.number not in {5, 6}:  # which would do without the gate
            sink = stage.run(sink, pipeline.PLAIN)
    lines = linearize(sink)
    after = cleanup_if(lines)
    spec.check(after, "program")
    ops = [n.op for n in after]
    place = ops.index(Ops.IF)
    assert ops[place : place + 3] == [Ops.IF, Ops.STORE, Ops.ENDIF]
    assert cleanup_if(lines, predicated_stores=True) == lines
    golden.check(
        "stages/s22_cleanup_if/store.txt", f"=== before\n{print_lines(lines)}=== after\n{print_lines(after)}"
    )
    buffers = buffers_of(kernel)
    wanted = execute(kernel, buffers)
    assert wanted[0][9] == 77  # not written
    assert same(run_lines(kernel, after, buffers), wanted)
    assert same(run_lines(kernel, lines, buffers), wanted)


def test_equal_conditions_are_lines_of_their_own(t: Table) -> None:
    n = t.variable("n", 0, 9, i32)
    lines = [n, t.const(3, i32), gate := n < t.const(3, i32)]
    stores = []
    for slot in (0, 1):
        buffer = t.param(slot, f32, 10)
        place = t.make(Ops.INDEX, buffer.dtype, (buffer, n))
        stores.append(t.make(Ops.STORE, dtypes.void, (place, value := t.const(1.0, f32), gate)))
        lines += [buffer, place, value] if slot == 0 else [buffer, place]
        lines.append(stores[-1])
    after = cleanup_if([*lines, t.sink(*stores)])
    spec.check(after, "program")
    assert sum(line.op is Ops.IF for line in after) == 2


def test_lists_without_gated_stores_stay(t: Table) -> None:
    i = t.range(10, 0)
    lines = lines_of(store(t.param(0, f32, 10), t.param(1, f32, 10).index(i), i))
    assert cleanup_if(lines) == lines


def wrong_kernels(seeds: range) -> list[int]:
    """Random kernels that all stages together make illegal or wrong."""
    found = []
    for seed in seeds:
        with Table() as table:
            kernel = random_kernel(random.Random(seed), table)
            buffers = buffers_of(kernel, seed)
            wanted = execute(kernel, buffers)
            try:
                lines = lines_of(kernel)
                spec.check(lines, "program")
                right = same(run_lines(kernel, lines, buffers), wanted)
            except Exception:  # noqa: BLE001  a planted bug may fail in any way
                right = False
            if not right:
                found.append(seed)
    return found


def test_random_kernels_through_all_stages() -> None:
    assert wrong_kernels(range(2000, 2080)) == []


@pytest.mark.fuzz
def test_many_random_kernels_through_all_stages() -> None:
    assert wrong_kernels(range(3000, 6000)) == []


def test_losing_a_gate_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planish.stages.linearizer.s19_final_rewrite._RULES", pm_split_ends)
    monkeypatch.setattr(_Lowering, "gate", lambda *_: None)
    assert wrong_kernels(range(2000, 2040))

"""Tiles of several buffers: filled ahead in the background, right for any number of iterations, and of no use without their waits."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from planish import dtypes
from planish.actions.base import Action, Refusal, apply_action
from planish.actions.stage import Stage
from planish.actions.text import parse_schedule, print_schedule
from planish.errors import VerifyError
from planish.llir.interpret import interpret as run_llir
from planish.llir.lower import lower
from planish.llir.program import Barrier, CommitCopies, CopyAsync, Program, WaitCopies
from planish.llir.text import parse, print_program
from planish.llir.verify import verify
from planish.stages import pipeline
from planish.target import TARGETS
from planish.uop.interpret import ExecutionError, interpret
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.text import print_graph
from tests.conftest import Golden
from tests.stages.fuzz_actions import contents, results, two_stores
from tests.stages.kernels import store

GPU = TARGETS["sm_90"]
f32 = dtypes.float32


def product(t: Table, m: int, n: int, k: int, *, convert: bool = False) -> UOp:
    i, j, r = t.range(m, 0), t.range(n, 1), t.range(k, 2, AxisType.REDUCE)
    kind = dtypes.float16 if convert else f32
    a, b = t.param(1, kind, m * k).index(i * k + r), t.param(2, kind, k * n).index(r * n + j)
    return store(t.param(0, f32, m * n), (a.cast(f32) * b.cast(f32)).reduce(Ops.ADD, r), i, j)


def ring(buffers: int, *, step: int = 4, turned: str = "", pad: str = "") -> tuple[Action, ...]:
    return parse_schedule(
        f"{pad}upcast(j, 4)\nlocal(j.outer, 2)\nupcast(i, 2)\nlocal(i.outer, 4)\nsplit(k, {step})\n"
        f"stage(arg1, at=k.outer, buffers={buffers}{turned})\nstage(arg2, at=k.outer, buffers={buffers})"
    )


def memory(m: int, n: int, k: int, kind: Any = np.float32) -> dict[int, Any]:
    rng = np.random.default_rng(m * n * k)
    return {
        0: np.zeros(m * n, np.float32),
        1: rng.integers(-4, 5, m * k).astype(kind),
        2: rng.integers(-4, 5, k * n).astype(kind),
    }


def expected(given: dict[int, Any], m: int, n: int, k: int) -> Any:
    return given[1].reshape(m, k).astype(np.float32) @ given[2].reshape(k, n).astype(np.float32)


def by_llir(program: Program, given: dict[int, Any], *, reverse: bool = False) -> Any:
    arrays = {slot: array.copy() for slot, array in given.items()}
    run_llir(program, [arrays[int(p.name.removeprefix("arg"))] for p in program.params], reverse=reverse)
    return arrays[0]


def lines_of(sink: UOp, actions: Sequence[Action]) -> list[UOp]:
    return pipeline.run(sink, pipeline.Machine(GPU, lambda _: actions))


@pytest.mark.parametrize("buffers", [2, 4])
@pytest.mark.parametrize("k", [8, 20])
@pytest.mark.parametrize("turned", ["", ", turned=true, pad=4"])
def test_a_ring_computes_what_one_buffer_does(buffers: int, k: int, turned: str) -> None:
    m, n = 16, 8
    given = memory(m, n, k)
    with Table() as t:
        sink = product(t, m, n, k)
        actions = ring(buffers, turned=turned)
        for step in pipeline.steps(sink, pipeline.Machine(GPU, lambda _: actions)):
            if step.changed and step.stage.number >= 7:
                found = interpret(step.form, given)[0].reshape(m, n)
                np.testing.assert_array_equal(found, expected(given, m, n, k), f"after stage {step.stage}")
        program = lower("kernel", lines_of(sink, actions))
    verify(program)
    assert parse(print_program(program)) == program
    for reverse in (False, True):
        found = by_llir(program, given, reverse=reverse).reshape(m, n)
        np.testing.assert_array_equal(found, expected(given, m, n, k))


@pytest.mark.parametrize("buffers", [2, 3])
def test_a_ring_begins_anew_in_every_iteration_outside(buffers: int) -> None:
    """Rows are a loop of each block, since another result has none; the tile of columns is the same in each of its turns."""
    m, n, k = 32, 8, 12
    given = {**memory(m, n, k), 3: np.zeros(n, np.float32), 4: np.arange(n, dtype=np.float32)}
    with Table() as t:
        j, i, r = t.range(n, 0), t.range(m, 1), t.range(k, 2, AxisType.REDUCE)
        a, b = t.param(1, f32, m * k).index(i * k + r), t.param(2, f32, k * n).index(r * n + j)
        beside = t.param(4, f32, n).index(j)
        total = t.param(0, f32, m * n).index(i * n + j).store((a * b).reduce(Ops.ADD, r) + beside).end(i)
        other = t.param(3, f32, n).index(j).store(beside)
        sink = t.sink(t.make(Ops.GROUP, dtypes.void, (total, other)).end(j))
        actions = parse_schedule(
            "upcast(i, 4)\nlocal(i.outer, 2)\nupcast(j, 2)\nlocal(j.outer, 4)\nsplit(k, 4)\n"
            f"stage(arg1, at=k.outer, buffers={buffers})\nstage(arg2, at=k.outer, buffers={buffers})"
        )
        program = lower("kernel", lines_of(sink, actions))
    verify(program)
    want = expected(given, m, n, k) + given[4]
    for reverse in (False, True):
        np.testing.assert_array_equal(by_llir(program, given, reverse=reverse).reshape(m, n), want)


def test_elements_beyond_the_end_are_zeros() -> None:
    m, n, k = 16, 8, 18
    given = memory(m, n, k)
    with Table() as t:
        program = lower("kernel", lines_of(product(t, m, n, k), ring(3, pad="pad_to(k, 4)\n")))
    assert any(isinstance(i, CopyAsync) and i.gate is not None for i in program.body)
    np.testing.assert_array_equal(by_llir(program, given).reshape(m, n), expected(given, m, n, k))


def test_what_is_converted_on_the_way_is_stored_at_once() -> None:
    """Halves of four bytes are no copy of their own: two bytes cannot be copied in the background."""
    m, n, k = 16, 8, 12
    given = memory(m, n, k, np.float16)
    with Table() as t:
        program = lower(
            "kernel", lines_of(product(t, m, n, k, convert=True), ring(3, turned=", turned=true"))
        )
    copies = [i for i in program.body if isinstance(i, CopyAsync)]
    assert {i.element for i in copies} == {dtypes.float16}
    assert {i.nbytes for i in copies} <= {4, 8, 16}
    np.testing.assert_array_equal(by_llir(program, given).reshape(m, n), expected(given, m, n, k))


def test_one_barrier_in_an_iteration_and_a_group_for_each() -> None:
    with Table() as t:
        program = lower("kernel", lines_of(product(t, 16, 8, 32), ring(3)))
    counts = {
        kind: sum(isinstance(i, kind) for i in program.body) for kind in (Barrier, CommitCopies, WaitCopies)
    }
    assert counts == {Barrier: 1, CommitCopies: 3, WaitCopies: 1}
    assert [i.groups for i in program.body if isinstance(i, WaitCopies)] == [1]
    assert sum(b.elements for b in program.locals if b.space.name == "LOCAL") == 3 * (8 * 4 + 4 * 8)


@pytest.mark.parametrize("missing", [Ops.WAIT, Ops.BARRIER])
def test_a_missing_wait_or_barrier_is_found(missing: Ops) -> None:
    given = memory(16, 8, 20)
    with Table() as t:
        lines = lines_of(product(t, 16, 8, 20), ring(3))
        assert interpret(lines, given)[0].any()
        with pytest.raises(
            ExecutionError, match="under way" if missing is Ops.WAIT else "no barrier"
        ) as error:
            interpret([line for line in lines if line.op is not missing], given)
        assert error.value.fault == "race"


def test_a_wait_for_too_few_groups_is_found() -> None:
    given = memory(16, 8, 20)
    with Table() as t:
        lines = lines_of(product(t, 16, 8, 20), ring(3))
        late = [line.replace(arg=2) if line.op is Ops.WAIT else line for line in lines]
        with pytest.raises(ExecutionError, match="under way"):
            interpret(late, given)
        program = lower("kernel", lines)
    body = tuple(replace(i, groups=2) if isinstance(i, WaitCopies) else i for i in program.body)
    with pytest.raises(VerifyError, match="under way"):
        by_llir(replace(program, body=body), given)


def test_llir_without_its_wait_or_barrier() -> None:
    given = memory(16, 8, 20)
    with Table() as t:
        program = lower("kernel", lines_of(product(t, 16, 8, 20), ring(3)))
    without = replace(program, body=tuple(i for i in program.body if not isinstance(i, WaitCopies)))
    with pytest.raises(VerifyError, match="under way"):
        by_llir(without, given)
    racing = replace(program, body=tuple(i for i in program.body if not isinstance(i, Barrier)))
    try:
        found = [by_llir(racing, given, reverse=reverse).reshape(16, 8) for reverse in (False, True)]
    except VerifyError:
        return
    assert not all(np.array_equal(each, expected(given, 16, 8, 20)) for each in found)


def test_what_is_refused() -> None:
    with Table() as t:
        sink = product(t, 16, 8, 8)
        with pytest.raises(Refusal, match="fetches nothing in the background"):
            apply_action(sink, Stage(1, "k", 2), TARGETS["x86-64-v3"])
        with pytest.raises(Refusal, match="no threads share it yet"):
            apply_action(sink, Stage(1, "k", 2), GPU)
        with pytest.raises(Refusal, match="no such layout"):
            apply_action(sink, Stage(1, "k", swizzle=48), GPU)
        with pytest.raises(Refusal, match="0 buffers"):
            apply_action(sink, Stage(1, "k", 0), GPU)
        with pytest.raises(Refusal, match="fetched ahead"):
            apply_action(sink, Stage(1, "k", own=True), GPU)
        for action in parse_schedule("local(i, 4)\nsplit(k, 4)"):
            sink = apply_action(sink, action, GPU)
        with pytest.raises(Refusal, match="threads read the same of arg2"):
            apply_action(sink, Stage(2, "k.outer", 2, own=True), GPU)


@pytest.mark.parametrize("seed", range(4))
def test_a_tile_that_another_loop_fills_too_has_one_buffer(seed: int) -> None:
    actions = parse_schedule("unroll(j)\nlocal(i, 2)\nstage(arg2, at=k, buffers=2)")
    with Table() as t:
        sink = two_stores(random.Random(seed), t)
        before = contents(sink, seed)
        wanted = results(sink, before, pipeline.PLAIN)
        found = results(sink, before, pipeline.Machine(GPU, lambda _: actions))
    for slot, array in wanted.items():
        np.testing.assert_array_equal(found[slot], array)


def test_the_text_of_a_ring() -> None:
    text = "stage(arg1, at=k.outer, buffers=3, turned=true, swizzle=128)"
    assert print_schedule(parse_schedule(text)) == text


@pytest.mark.parametrize(("stage", "folder"), [(7, "s07_apply_opts"), (12, "s12_add_gpu_dims")])
def test_a_ring_reads_as_stored(stage: int, folder: str, golden: Golden) -> None:
    with Table() as t:
        steps = pipeline.steps(product(t, 8, 8, 12), pipeline.Machine(GPU, lambda _: ring(3)))
        form = next(step.form for step in steps if step.stage.number == stage)
        assert isinstance(form, UOp)
        golden.check(f"stages/{folder}/ring.txt", f"=== {print_schedule(ring(3))}\n{print_graph(form)}")


def test_a_swizzled_tile_is_read_where_it_was_stored() -> None:
    m, n, k = 16, 8, 64
    given = memory(m, n, k)
    actions = ring(2, step=32, turned=", swizzle=128")
    with Table() as t:
        sink = product(t, m, n, k)
        assert "swizzle=128" in print_schedule(actions)
        program = lower("kernel", lines_of(sink, actions))
    assert {i.nbytes for i in program.body if isinstance(i, CopyAsync)} == {16}
    for reverse in (False, True):
        found = by_llir(program, given, reverse=reverse).reshape(m, n)
        np.testing.assert_array_equal(found, expected(given, m, n, k))


# -- what a thread fetches for itself ----------------------------------------------------------------------------------


def rows(t: Table, m: int, k: int, shared: int = 1) -> UOp:
    """Sums of rows times a vector; of the rows, so many neighbours are one element, read under different conditions."""
    i, r = t.range(m, 0), t.range(k // shared, 1, AxisType.REDUCE)
    a, b = t.param(1, f32, m * k // shared), t.param(2, f32, k)
    place = i * (k // shared) + r
    if shared == 1:
        return store(t.param(0, f32, m), (a.index(place) * b.index(r)).reduce(Ops.ADD, r), i)
    half, nowhere = t.range(shared, 2, AxisType.REDUCE), t.invalid(place.dtype)
    first, other = (a.index(half.eq(n).where(place, nowhere)) for n in range(shared))
    value = (half < 1).where(first * 2.0, other)
    return store(t.param(0, f32, m), (value * b.index(r * shared + half)).reduce(Ops.ADD, r, half), i)


def fetched_alone(buffers: int, shared: int) -> tuple[Action, ...]:
    halves = "unroll(k)\n" if shared > 1 else ""
    return parse_schedule(
        f"local(i, 8)\n{halves}unroll(j, 4)\nstage(arg1, at=j.outer, buffers={buffers}, own=true)"
    )


def test_halves_that_an_axis_counts_with_others_are_not_fetched() -> None:
    actions = parse_schedule(
        "local(i, 8)\njoin(j, k)\nunroll(j, 8)\nstage(arg1, at=j.outer, buffers=2, own=true)"
    )
    with Table() as t:
        sink = rows(t, 16, 40, 2)
        for action in actions[:-1]:
            sink = apply_action(sink, action, GPU)
        with pytest.raises(Refusal, match="no box"):
            apply_action(sink, actions[-1], GPU)


@pytest.mark.parametrize("buffers", [2, 3, 5])
@pytest.mark.parametrize("shared", [1, 2])
def test_what_a_thread_fetches_for_itself_waits_for_nobody(buffers: int, shared: int) -> None:
    m, k = 16, 40
    rng = np.random.default_rng(buffers)
    given = {
        0: np.zeros(m, np.float32),
        1: rng.integers(-4, 5, m * k // shared).astype(np.float32),
        2: rng.integers(-4, 5, k).astype(np.float32),
    }
    with Table() as t:
        lines = lines_of(rows(t, m, k, shared), fetched_alone(buffers, shared))
        program = lower("kernel", lines)
        weights = np.repeat(given[1].reshape(m, -1), shared, 1)
        if shared > 1:
            weights[:, ::shared] *= 2
        want = weights @ given[2]
        np.testing.assert_array_equal(interpret(lines, given)[0], want)
        with pytest.raises(ExecutionError, match="under way"):
            interpret([line for line in lines if line.op is not Ops.WAIT], given)
    verify(program)
    assert not any(isinstance(i, Barrier) for i in program.body)
    assert {i.nbytes for i in program.body if isinstance(i, CopyAsync)} == {16}
    for reverse in (False, True):
        np.testing.assert_array_equal(by_llir(program, given, reverse=reverse), want)

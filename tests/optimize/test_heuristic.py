"""The default schedule: legal on every kernel and target, right by the interpreter, and what it should be for the common ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest

from planish.actions.accumulators import Accumulators
from planish.actions.base import Action
from planish.actions.limit import Limit
from planish.actions.local import Local
from planish.actions.pad_to import PadTo
from planish.actions.thread import Thread
from planish.actions.upcast import Upcast
from planish.config import settings
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.optimize.heuristic import choose
from planish.stages.pipeline import STAGES, Machine, run
from planish.stages.rangeify.attempts import attempts
from planish.stages.rangeify.s07_apply_opts import apply_opts
from planish.target import TARGETS, Target
from planish.uop.nest.kernel import Nest
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.strides import stride
from tests.optimize.corpus import (
    CORPUS,
    Build,
    bf16,
    elementwise,
    f16,
    f32,
    i32,
    matmul,
    row_sums,
    symbolic,
    total,
)
from tests.placed import brief
from tests.stages.kernels import Array, buffers_of
from tests.stages.memory_kernels import cumsum_columns, ragged, softmax, triangle

V4, CUDA, SCALAR = TARGETS["x86-64-v4"], TARGETS["cuda"], TARGETS["scalar"]
VARIABLE = {"n": 37}


def chosen(build: Build, target: Target, **options: bool) -> list[Action]:
    with Table() as t:
        return choose(build(t), target, attempts(target), **options)


def words(actions: Sequence[Action]) -> list[str]:
    return brief(actions)


def results(build: Build, target: Target, steered: bool) -> dict[int, Array]:
    """The buffers after the kernel has run."""
    with Table() as t:
        sink = build(t)
        buffers = buffers_of(sink)
        machine = Machine(
            target, partial(choose, target=target, attempt=attempts(target)) if steered else lambda _: ()
        )
        program = lower("kernel", run(sink, machine))
    arrays = [buffers[int(param.name.removeprefix("arg"))] for param in program.params]
    interpret(program, arrays, {v.name: VARIABLE[v.name] for v in program.variables})
    return buffers


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("kernel", CORPUS)
def test_no_choice_is_refused(kernel: str, name: str) -> None:
    target = TARGETS[name]
    with Table() as t:
        sink = CORPUS[kernel](t)
        apply_opts(sink, choose(sink, target, attempts(target)), target)


@pytest.mark.parametrize("target", [V4, CUDA, TARGETS["dsp"]], ids=lambda target: target.name)
@pytest.mark.parametrize("kernel", CORPUS)
def test_no_choice_changes_a_result(kernel: str, target: Target) -> None:
    expected = results(CORPUS[kernel], SCALAR, steered=False)
    found = results(CORPUS[kernel], target, steered=True)
    for slot, array in expected.items():
        np.testing.assert_allclose(found[slot], array, rtol=1e-5, atol=1e-6, err_msg=f"slot {slot}")


def test_the_corpus_is_not_left_alone() -> None:
    """Nearly every kernel gets some action on a machine with vectors, and on a GPU."""
    for target in (V4, CUDA):
        idle = [name for name, build in CORPUS.items() if not chosen(build, target)]
        assert len(idle) <= 3, idle


@pytest.mark.parametrize("build", [triangle, ragged])
def test_what_a_mask_hides_is_not_looked_at(build: Callable[[Table, int, int], UOp]) -> None:
    *others, last = chosen(lambda t: build(t, 256, 256), V4)
    assert isinstance(last, Limit)
    # once, though there are two reductions along the axis of one of them
    assert sum(isinstance(action, Accumulators) for action in others) == 1


def test_scans_are_never_taken_apart() -> None:
    for target in TARGETS.values():
        for action in chosen(partial(cumsum_columns, n=8, columns=32), target):
            assert isinstance(action, (Upcast, Local, Thread))
        with Table() as t:
            sink = cumsum_columns(t, 8, 32)
            after = apply_opts(sink, choose(sink, target, attempts(target)), target)
            scans = [n for n in after.toposort() if n.op is Ops.SCAN]
            assert [n.src[1].vmax for n in scans] == [7]


# -- CPUs --------------------------------------------------------------------------------------------------------


def large(build: Build, **options: bool) -> list[str]:
    return words(chosen(build, V4, **options))


def test_elementwise_kernels_run_in_vectors_on_cores() -> None:
    assert large(partial(elementwise, rows=1024, columns=1024)) == ["upcast 16", "thread 16"]
    assert large(partial(elementwise, rows=6, columns=64)) == ["upcast 16"]  # too little for two cores
    assert large(partial(elementwise, rows=1024, columns=1024), cores=False) == ["upcast 16"]
    assert chosen(partial(elementwise, rows=1024, columns=1024), SCALAR) == []


def test_lengths_that_nothing_divides_are_padded_where_lanes_can_be_masked() -> None:
    assert large(partial(elementwise, columns=67)) == ["pad_to 16", "upcast 16"]
    assert large(partial(elementwise, columns=40)) == ["upcast 8"]  # half a vector does as well
    assert large(symbolic) == ["pad_to 16", "upcast 16"]
    unmasked = chosen(partial(elementwise, columns=67), TARGETS["aarch64"])
    assert PadTo not in {type(action) for action in unmasked}


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v3", "x86-64-v4", "aarch64", "dsp"])
def test_register_tiles_fit_the_registers(name: str) -> None:
    target = TARGETS[name]
    for m in (30, 64, 66, 77, 512):
        for n in (32, 48, 64, 96, 512):
            tile = 1
            for action in chosen(partial(matmul, m=m, n=n, k=64), target, cores=False):
                tile *= action.amount if isinstance(action, Upcast) else 1
            vectors = tile // target.lanes(f32) if tile >= target.lanes(f32) else tile
            assert vectors < target.registers


def test_reductions_of_rows_run_in_lanes_of_their_own() -> None:
    assert large(partial(row_sums, rows=64, columns=1024), cores=False) == ["upcast 8", "accumulators 16"]
    assert large(total) == ["accumulators 64"]
    tile = large(partial(matmul, k=64, transposed=True), cores=False)
    assert tile == ["upcast 6", "upcast 4", "accumulators 16", "swap"]


def test_rows_that_are_kept_have_lanes_in_every_loop() -> None:
    found = large(partial(softmax, rows=4, n=128), cores=False)
    assert [word.split()[0] for word in found].count("accumulators") == 2
    assert "upcast 16" in found


# -- GPUs --------------------------------------------------------------------------------------------------------


def test_gpus_get_blocks_of_threads() -> None:
    assert words(chosen(partial(elementwise, rows=1024, columns=1024), CUDA)) == ["upcast 4", "local 256"]
    tile = words(chosen(partial(matmul, m=512, n=512, k=512), CUDA))
    assert tile == [
        "upcast 4", "local 16", "upcast 2", "upcast 8", "local 16", "split 16", "stage 1", "stage 2"
    ]  # fmt: skip


def test_long_reductions_to_few_outputs_are_shared_by_threads() -> None:
    assert words(chosen(partial(row_sums, rows=4, columns=4096), CUDA)) == ["unroll 4", "group 512"]
    # no number of threads divides these
    assert words(chosen(partial(row_sums, rows=4, columns=5000), CUDA)) == [
        "pad_to 1024",
        "unroll 4",
        "group 256",
    ]
    assert words(chosen(partial(row_sums, rows=4, columns=257), CUDA)) == ["pad_to 32", "group 32"]
    assert words(chosen(total, CUDA)) == ["unroll 4", "group 32"]


def test_tensor_cores_are_used_where_they_fit() -> None:
    build = partial(matmul, m=128, n=128, k=64, dtype=f16)
    assert words(chosen(build, CUDA))[0] == "tensor_core"
    assert "tensor_core" not in {action.word for action in chosen(build, V4)}
    single = partial(matmul, m=128, n=128, k=64)
    assert "tensor_core" not in {action.word for action in chosen(single, CUDA)}
    narrow = partial(matmul, m=128, n=128, k=64, dtype=bf16)
    tiles = ["tensor_core", "upcast 2", "upcast 2", "swap", "stage 2", "stage 1"]
    assert words(chosen(narrow, TARGETS["x86-64-amx"], cores=False)) == tiles
    with settings(fastmath=True):  # tf32 is allowed to round
        assert words(chosen(single, CUDA))[0] == "tensor_core"


# -- looking at kernels ------------------------------------------------------------------------------------------


def test_strides_are_found_through_gates_and_data() -> None:
    with Table() as t:
        i, j = t.range(8, 0), t.range(8, 1)
        data = t.param(1, i32, 8).index(i).cast(i.dtype)
        assert stride(i * 8 + j, i) == 8
        assert stride(data * 8 + j, j) == 1
        assert stride(data * 8 + j, i) is None
        assert stride((i + j) // 2, i) is None
        view = Nest.of(CORPUS["convolution"](t))
        (place,) = [p for p in view.reads if p.src[0].arg == 1]
        assert [view.stride(place, axis) for axis in view.outputs] == [0, 1]


def sink_work(build: Build) -> int:
    with Table() as t:
        sink: UOp = build(t)
        return Nest.of(sink).work


def test_work_is_that_of_the_largest_nest() -> None:
    assert sink_work(partial(matmul, m=8, n=16, k=32)) == 8 * 16 * 32
    assert sink_work(partial(elementwise, rows=6, columns=64)) == 6 * 64


MATMULS = ((30, 17, 9), (64, 64, 64), (511, 513, 517), (768, 3072, 768), (4096, 4096, 4096), (84, 97, 4096))
ROWS = ((3, 37), (128, 128), (1000, 1000), (4096, 8192))
FAMILIES: dict[str, list[Build]] = {
    "matmul": [partial(matmul, m=m, n=n, k=k) for m, n, k in MATMULS],
    "half": [partial(matmul, m=n, n=n, k=n, dtype=f16) for n in (64, 512, 4096)],
    "softmax": [partial(softmax, rows=rows, n=n) for rows, n in ROWS],
    "elementwise": [partial(elementwise, rows=rows, columns=n) for rows, n in ROWS],
    "row sums": [partial(row_sums, rows=rows, columns=n) for rows, n in ROWS],
}
MOST_NODES = {"scalar": 80, "cuda": 1400, "sm_80": 1400, "sm_90": 1500}
"""After stage 14, whatever the sizes; of other targets 700: two kinds of tiles where columns fill no vectors."""


@pytest.mark.parametrize("name", TARGETS)
def test_kernels_stay_small_whatever_the_sizes(name: str) -> None:
    target = TARGETS[name]
    machine = Machine(target, partial(choose, target=target, attempt=attempts(target)))
    for family, builds in FAMILIES.items():
        for build in builds:
            with Table() as t:
                sink = build(t)
                for stage in STAGES[: [stage.number for stage in STAGES].index(14) + 1]:
                    sink = stage.run(sink, machine)
                assert len(sink.toposort()) <= MOST_NODES.get(name, 700), family

"""Sums that the blocks of a cluster share, and rows of results that start anywhere: executed after every stage, and what is planted is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from planish.actions.base import Action, Refusal, apply_action
from planish.actions.pad_to import PadTo
from planish.actions.tensor_core import TensorCore
from planish.codegen import cuda
from planish.compiler.grids import grid_of
from planish.errors import VerifyError
from planish.llir import program as ir
from planish.llir.interpret import interpret as interpret_llir
from planish.llir.lower import lower
from planish.runtime.cuda.build import translate
from planish.stages.pipeline import Machine, steps
from planish.target import TARGETS
from planish.uop.interpret import ExecutionError, interpret
from planish.uop.nest import name_of
from planish.uop.node import UOp
from planish.uop.ops import CLUSTER, AxisType, Ops
from planish.uop.products import nearly
from planish.uop.ranges import kind_of
from planish.uop.rewrite import substitute
from planish.uop.symbolic.alignment import power_of_two
from planish.uop.tensor_cores import CORES, Core
from tests.stages.test_warpgroup_cores import built, operands, run_all

TARGET = TARGETS["sm_90"]
CORE = CORES["wgmma_m64n8_bf16_f32_kk"]
WIDE = CORES["wgmma_m64n64_bf16_f32_kk"]
NVRTC_ARCH = "sm_90a"


def in_parts(core: Core, groups: int, buffers: int, parts: int, *, engine: bool) -> Callable[[UOp], Any]:
    def choose(sink: UOp) -> list[Action]:
        product = nearly(sink, core)[0]
        padded = [(product.m, core.m * groups), (product.n, core.n), (product.k, core.k * parts)]
        pads: list[Action] = [PadTo(name_of(axis), size) for axis, size in padded if (axis.vmax + 1) % size]
        return [*pads, TensorCore.of(core, product, groups, buffers, engine=engine, parts=parts)]

    return choose


@pytest.mark.parametrize(
    ("m", "n", "steps_", "groups", "buffers", "parts", "engine"),
    [
        (64, 8, 4, 1, 2, 2, True),
        (128, 16, 6, 2, 3, 3, True),
        (64, 8, 8, 1, 4, 4, False),
        (128, 8, 7, 1, 2, 2, True),  # one step more than there is
    ],
)
def test_parts_of_a_sum_are_added_up_by_the_blocks_of_a_cluster(
    m: int, n: int, steps_: int, groups: int, buffers: int, parts: int, engine: bool
) -> None:
    k = steps_ * CORE.k
    given, wanted = operands(CORE, "nt", m, n, k)
    program = run_all(
        built(CORE, "nt", m, n, k), in_parts(CORE, groups, buffers, parts, engine=engine), given, wanted
    )
    assert sum(isinstance(i, ir.Barrier) and i.cluster for i in program.body) == 2
    assert {i.peer for i in program.body if isinstance(i, ir.Address)} == set(range(parts + 1))
    text = cuda.render(program)
    assert f"__cluster_dims__({parts}, 1, 1)" in text
    assert translate(text, NVRTC_ARCH, cuda.FLAGS, "cubin").startswith(b"\x7fELF")
    assert grid_of(program).blocks[0].endswith(f" {parts} mul")


def last_form(choose: Callable[[UOp], Any], number: int, *sizes: int) -> Any:
    """What a stage makes of a product."""
    form: Any = built(CORE, "nt", *sizes)
    for step in steps(form, Machine(TARGET, choose)):
        if step.stage.number == number:
            return step.form
    return form


def test_a_barrier_of_the_block_is_not_enough() -> None:
    given, wanted = operands(CORE, "nt", 64, 8, 4 * CORE.k)
    sink = last_form(in_parts(CORE, 1, 2, 2, engine=True), 12, 64, 8, 4 * CORE.k)
    buffers = {0: np.zeros_like(wanted.reshape(-1)), 1: given[0], 2: given[1]}
    assert np.array_equal(interpret(sink, buffers)[0].reshape(wanted.shape), wanted)
    barriers = [n for n in sink.toposort() if n.op is Ops.BARRIER and n.arg == CLUSTER]
    assert len(barriers) == 2
    with pytest.raises(ExecutionError, match="no barrier stands between"):
        interpret(substitute(sink, {barriers[0]: barriers[0].replace(arg=None)}), buffers)


@pytest.mark.parametrize("planted", ["none at all", "of the block", "no last one"])
def test_llir_tells_of_barriers_that_are_missing(planted: str) -> None:
    given, wanted = operands(CORE, "nt", 64, 8, 4 * CORE.k)
    program = lower("kernel", last_form(in_parts(CORE, 1, 2, 2, engine=True), 22, 64, 8, 4 * CORE.k))
    body = list(program.body)
    at = [k for k, i in enumerate(body) if isinstance(i, ir.Barrier) and i.cluster]
    if planted == "no last one":
        del body[at[1]]
    elif planted == "of the block":
        body[at[0]] = ir.Barrier()
    else:
        del body[at[1]], body[at[0]]
    wrong = replace(program, body=tuple(body))
    found = []
    for reverse in (False, True):
        out = np.zeros_like(wanted.reshape(-1))
        try:
            interpret_llir(wrong, [out, *given], reverse=reverse)
        except VerifyError as error:
            found.append("has ended" in str(error))
        else:
            found.append(not np.array_equal(out.reshape(wanted.shape), wanted))
    assert any(found)


def test_blocks_that_share_a_sum_neither_stay_nor_are_too_many() -> None:
    sink = built(CORE, "nt", 64, 8, 4 * CORE.k)
    product = nearly(sink, CORE)[0]
    for action, said in (
        (TensorCore.of(CORE, product, 1, 2, engine=True, stay=2, parts=2), "end with it"),
        (TensorCore.of(CORE, product, 1, 2, engine=True, parts=3), "no multiple of 3 times 64"),
        (TensorCore.of(CORE, product, 1, 2, engine=True, parts=9), "at most 8 blocks"),
    ):
        with pytest.raises(Refusal, match=said):
            apply_action(sink, action, TARGET)
    with pytest.raises(Refusal):
        apply_action(sink, TensorCore.of(CORE, product, 1, 2, parts=2), TARGETS["sm_80"])


def test_every_block_has_its_own_operands() -> None:
    sink = built(CORE, "nt", 64, 8, 4 * CORE.k)
    product = nearly(sink, CORE)[0]
    made = apply_action(sink, TensorCore.of(CORE, product, 1, 2, engine=True, parts=2), TARGET)
    (rank,) = (n for n in made.toposort() if n.op is Ops.RANGE and kind_of(n) is AxisType.CLUSTER)
    fetched = [n for n in made.toposort() if n.op is Ops.FETCH]
    assert len(fetched) == 2
    assert all(any(rank in at.ranges for at in n.src[1:]) for n in fetched)


@pytest.mark.parametrize(("m", "n"), [(64, 61), (128, 75), (70, 129)])
def test_rows_that_start_anywhere_are_written_as_aligned_vectors(m: int, n: int) -> None:
    k = 2 * WIDE.k
    given, wanted = operands(WIDE, "nt", m, n, k)
    program = run_all(built(WIDE, "nt", m, n, k), in_parts(WIDE, 1, 2, 1, engine=True), given, wanted)
    stores = [i for i in program.body if isinstance(i, ir.Store) and i.address in _in_results(program)]
    assert sorted(i.value.dtype.lanes for i in stores) == [1, 4]  # sums of 32 bits
    assert max(i.align for i in stores) == 16
    text = cuda.render(program)
    assert " else {" in text or "else {" in text  # at the end of a row, one by one


def _in_results(program: ir.Program) -> set[ir.Register]:
    return {i.result for i in program.body if isinstance(i, ir.Address) and i.base == program.params[0]}


def test_multiples_are_seen_through_remainders() -> None:
    row = built(CORE, "nt", 64, 8, 64).table.range(4096, 77)
    assert power_of_two(row * 50257 + row % 8 * -1, 8) == 8
    assert power_of_two(row * 50257 + (row * 50257) % 16 * -1 + 4, 16) == 4
    assert power_of_two(row * 50257 + row % 8, 8) == 2
    assert power_of_two(row * 50257 + row % 4 * -1, 8) == 4
    assert power_of_two(row * 3 + row % 6 * -3, 8) == 2

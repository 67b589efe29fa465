"""Tensor cores that read LOCAL memory: every layout and dtype, through all stages, executed by both interpreters, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from planish.actions.base import Action, Refusal, apply_action
from planish.actions.pad_to import PadTo
from planish.actions.tensor_core import TensorCore
from planish.codegen.cuda import render
from planish.config import settings
from planish.errors import VerifyError
from planish.llir import program as ir
from planish.llir.interpret import interpret as interpret_llir
from planish.llir.lower import lower
from planish.llir.text import parse, print_program
from planish.stages.pipeline import Machine, steps
from planish.target import TARGETS
from planish.uop.interpret import ExecutionError, interpret
from planish.uop.nest import axes_of, name_of
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops, TensorCoreOp
from planish.uop.products import nearly
from planish.uop.rewrite import substitute
from planish.uop.tensor_cores import CORES, Core
from tests.stages.test_tensor_cores import matmul, numbers

Array = NDArray[Any]
TARGET = TARGETS["sm_90"]
_LOOKED_AT = (7, 9, 10, 12, 13, 15, 22)
SIZES = {
    "bf16_kk": ("wgmma_m64n8_bf16_f32_kk", "nt"),
    "f16_kk": ("wgmma_m64n16_f16_f32_kk", "nt"),
    "km": ("wgmma_m64n64_bf16_f32_km", "nn"),
    "mk": ("wgmma_m64n8_bf16_f32_mk", "tt"),
    "mm": ("wgmma_m64n64_f16_f32_mm", "tn"),
    "kk, both turned": ("wgmma_m64n8_bf16_f32_kk", "tn"),
    "tf32": ("wgmma_m64n8_tf32_f32_kk", "nn"),
    "e4m3": ("wgmma_m64n8_e4m3_f32_kk", "nt"),
    "s8": ("wgmma_m64n8_s8_s32_kk", "nt"),
}


def scheduled(
    core: Core, groups: int, buffers: int = 1, *, pads: bool = False
) -> Callable[[UOp], list[Action]]:
    """The core, warpgroups of it, and axes padded to its sizes."""

    def choose(sink: UOp) -> list[Action]:
        product = nearly(sink, core)[0]
        axes = (product.m, product.n, product.k)
        actions: list[Action] = []
        if pads:
            actions += [
                PadTo(name_of(axis), size)
                for axis, size in zip(axes, (core.m * groups, core.n, core.k), strict=True)
            ]
        actions.append(TensorCore.of(core, product, groups, buffers))
        return actions

    return choose


def operands(core: Core, layout: str, m: int, n: int, k: int) -> tuple[list[Array], Array]:
    a, b = numbers(core, m * k, 1), numbers(core, k * n, 2)
    left = a.astype(np.float32).reshape((k, m) if layout[0] == "t" else (m, k))
    right = b.astype(np.float32).reshape((n, k) if layout[1] == "t" else (k, n))
    wanted = (left.T if layout[0] == "t" else left) @ (right.T if layout[1] == "t" else right)
    return [a, b], wanted.astype(core.output.numpy)


def built(core: Core, layout: str, m: int, n: int, k: int) -> UOp:
    return matmul(Table(), core, m, n, k, a_transposed=layout[0] == "t", b_transposed=layout[1] == "t")


def run_all(
    sink: UOp, choose: Callable[[UOp], Sequence[Action]], given: list[Array], wanted: Array
) -> ir.Program:
    """What every stage makes, executed."""
    form: Any = sink
    with settings(check="spec", fastmath=True):
        for step in steps(sink, Machine(TARGET, choose)):
            form = step.form
            if step.stage.number in _LOOKED_AT:
                buffers = {0: np.zeros_like(wanted.reshape(-1)), 1: given[0], 2: given[1]}
                found = interpret(form, buffers)[0].reshape(wanted.shape)
                assert np.array_equal(found, wanted), step.stage.name
    program = lower("kernel", form)
    assert parse(print_program(program)) == program
    out = np.zeros_like(wanted.reshape(-1))
    interpret_llir(program, [out, *given])
    assert np.array_equal(out.reshape(wanted.shape), wanted)
    return program


@pytest.mark.parametrize("name", SIZES)
def test_products(name: str) -> None:
    core, layout = CORES[SIZES[name][0]], SIZES[name][1]
    groups = 1 + ("bf16" in core.name)
    m, n, k = core.m * groups, core.n, 2 * core.k
    given, wanted = operands(core, layout, m, n, k)
    program = run_all(built(core, layout, m, n, k), scheduled(core, groups), given, wanted)
    assert "wgmma.mma_async" in render(program)


@pytest.mark.parametrize("buffers", [2, 3, 4])
@pytest.mark.parametrize("name", ["bf16_kk", "e4m3"])
def test_tiles_are_fetched_ahead(name: str, buffers: int) -> None:
    core, layout = CORES[SIZES[name][0]], SIZES[name][1]
    m, n, k = core.m, core.n, 5 * core.k
    given, wanted = operands(core, layout, m, n, k)
    program = run_all(built(core, layout, m, n, k), scheduled(core, 1, buffers), given, wanted)
    (tile,) = (i for i in program.body if isinstance(i, ir.Tile))
    assert tile.pending == (buffers > 2)
    assert any(isinstance(i, ir.Finish) for i in program.body) == (buffers > 2)
    assert any(isinstance(i, ir.CopyAsync) for i in program.body)


def test_a_tile_that_is_needed_once_is_stored_at_once() -> None:
    """With one step along k there is no loop to fill a ring for, and no box to fetch."""
    core = CORES["wgmma_m64n8_f16_f32_kk"]
    given, wanted = operands(core, "nt", core.m, core.n, core.k)
    sink = built(core, "nt", core.m, core.n, core.k)
    plain = scheduled(core, 1, 2)
    program = run_all(
        sink,
        lambda kernel: [
            each.replaced(engine=True) if isinstance(each, TensorCore) else each for each in plain(kernel)
        ],
        given,
        wanted,
    )
    assert not any(isinstance(i, ir.CopyAsync) for i in program.body)


@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_odd_sizes_are_padded(layout: str) -> None:
    core = CORES["wgmma_m64n16_bf16_f32_kk"]
    m, n, k = 70, 19, 75
    given, wanted = operands(core, layout, m, n, k)
    run_all(built(core, layout, m, n, k), scheduled(core, 2, 3, pads=True), given, wanted)


def test_bits_that_do_not_count_are_dropped() -> None:
    core = CORES["wgmma_m64n8_tf32_f32_kk"]
    values = np.array([1.0, 1 + 2.0**-10, 1 + 2.0**-11, -1 - 3 * 2.0**-12, 3e38, 0.0], np.float32)
    assert np.array_equal(
        core.seen(values), np.array([1, 1 + 2.0**-10, 1, -1, 3e38 // 2**117 * 2**117, 0], np.float32)
    )
    assert CORES["wgmma_m64n8_bf16_f32_kk"].seen(values) is values


def small() -> tuple[UOp, Core, list[Array], Array]:
    core = CORES["wgmma_m64n8_bf16_f32_kk"]
    given, wanted = operands(core, "nt", 64, 8, 320)
    return built(core, "nt", 64, 8, 320), core, given, wanted


def after(sink: UOp, core: Core, number: int, buffers: int = 1) -> Any:
    form: Any = sink
    for step in steps(sink, Machine(TARGET, scheduled(core, 1, buffers))):
        form = step.form
        if step.stage.number == number:
            break
    return form


def test_a_barrier_that_is_missing_is_found() -> None:
    sink, core, given, wanted = small()
    made = after(sink, core, 12)
    nodes = made.toposort()
    barriers = [n for n in nodes if n.op is Ops.BARRIER]
    before_next = [n.src[0] for n in nodes if n.op is Ops.END and n.src[0].op is Ops.BARRIER]
    assert len(barriers) > len(before_next) == 1
    for missing in (before_next, [n for n in barriers if n not in before_next]):
        exchange = {each: made.table.make(Ops.GROUP, each.dtype, each.src) for each in missing}
        with pytest.raises(ExecutionError, match="no barrier"):
            interpret(
                substitute(made, exchange),
                {0: np.zeros(wanted.size, np.float32), 1: given[0], 2: given[1]},
            )


def _without(node: UOp) -> UOp:
    return node.src[0]


def _waits_for_less(node: UOp) -> UOp:
    return node.replace(arg=cast("TensorCoreOp", node.arg)._replace(pending=2))


@pytest.mark.parametrize(
    ("op", "broken", "said"),
    [(Ops.FINISH, _without, "no FINISH"), (Ops.WMMA, _waits_for_less, "while a tensor core reads it")],
)
def test_a_wait_for_products_that_is_missing_is_found(
    op: Ops, broken: Callable[[UOp], UOp], said: str
) -> None:
    sink, core, given, wanted = small()
    made = after(sink, core, 12, buffers=4)
    buffers = {0: np.zeros_like(wanted.reshape(-1)), 1: given[0], 2: given[1]}
    assert np.array_equal(interpret(made, buffers)[0].reshape(wanted.shape), wanted)
    found = [n for n in made.toposort() if n.op is op]
    assert found
    with pytest.raises(ExecutionError, match=said):
        interpret(substitute(made, {n: broken(n) for n in found}), buffers)


def test_matrices_in_memory_are_checked() -> None:
    sink, core, given, wanted = small()
    program = lower("kernel", after(sink, core, 22))
    at = next(n for n, i in enumerate(program.body) if isinstance(i, ir.Tile))
    tile = program.body[at]
    assert isinstance(tile, ir.Tile)
    place = next(i for i in program.body if isinstance(i, ir.Address) and i.result == tile.a)

    def moved(by: int) -> ir.Program:
        index = ir.Immediate(by, place.index.dtype)
        body = [replace(i, index=index) if i is place else i for i in program.body]
        return replace(program, body=tuple(body))

    arrays = [np.zeros(wanted.size, np.float32), *given]
    interpret_llir(moved(0), arrays)
    with pytest.raises(VerifyError, match="not inside"):
        interpret_llir(moved(512), arrays)
    with pytest.raises(VerifyError, match="multiple of 1024 bytes"):
        interpret_llir(moved(-8), arrays)


def test_what_does_not_fit_is_refused() -> None:
    sink, core, *_ = small()
    product = nearly(sink, core)[0]
    with pytest.raises(Refusal, match="no tensor core"):
        apply_action(sink, TensorCore.of(core, product), TARGETS["sm_80"])
    tight = replace(TARGET, local_bytes=4096)
    with pytest.raises(Refusal, match="LOCAL memory"):
        apply_action(sink, TensorCore.of(core, product), tight)
    assert axes_of(sink)

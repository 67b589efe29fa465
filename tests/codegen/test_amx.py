"""AMX: kernels as the heuristic makes them, by the interpreter, by generated code on software tiles, and (where there is one) on an AMX unit."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from planish import compiler, dtypes, ptir
from planish.actions import base
from planish.actions.base import Refusal, apply_action
from planish.actions.tensor_core import TensorCore
from planish.codegen import amx, c, llvm
from planish.compiler.native import kernel_call
from planish.config import settings
from planish.errors import PlanishError
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.llir.program import Program
from planish.optimize.heuristic import choose
from planish.runtime import cc, cpu
from planish.stages.pipeline import Machine, run
from planish.target import TARGETS, Target, find
from planish.target import host_features as features
from planish.uop.node import Table, UOp
from planish.uop.tensor_cores import CORES, Core
from tests.codegen.software_tiles import run_c, run_llvm
from tests.placed import Action, ActionKind
from tests.stages.test_tensor_cores import matmul

Array = NDArray[Any]
AMX = TARGETS["x86-64-amx"]
SMALL = replace(AMX, caches=(6 << 10, 64 << 10, 1 << 20), local_bytes=24 << 10)
"""The same machine with caches that small matrices do not fit in."""
BF16, S8, U8 = CORES["amx_tdpbf16ps"], CORES["amx_tdpbssd"], CORES["amx_tdpbuud"]
needs_amx = pytest.mark.skipif(
    not features.amx().features, reason=f"AMX does not run here ({features.amx().why_not}): not executed"
)


class Case(NamedTuple):
    core: Core
    m: int
    n: int
    k: int
    target: Target = AMX
    a_transposed: bool = False
    b_transposed: bool = False
    batch: int = 1


CASES = {
    "whole tiles": Case(BF16, 64, 64, 64),
    "blocks of everything": Case(BF16, 192, 64, 128, SMALL),
    "padded": Case(BF16, 70, 90, 100),
    "odd tiles": Case(BF16, 48, 80, 128, SMALL),
    "b transposed": Case(BF16, 64, 96, 64, b_transposed=True),
    "a transposed": Case(BF16, 64, 64, 96, a_transposed=True),
    "batch": Case(BF16, 64, 64, 64, batch=2),
    "int8": Case(S8, 64, 64, 128),
    "int8 padded": Case(S8, 50, 70, 100),
    "uint8": Case(U8, 64, 64, 128),
    "uint8 and int8": Case(CORES["amx_tdpbusd"], 64, 64, 128),
    "int8 and uint8": Case(CORES["amx_tdpbsud"], 64, 64, 128),
}


def attempt_on(target: Target) -> Any:
    def attempt(sink: UOp, action: Action, before: Any) -> UOp | None:
        try:
            return apply_action(sink, action, target)
        except Refusal:
            return None

    return attempt


@cache
def kernel(case: Case, actions: tuple[base.Action, ...] | None = None) -> tuple[Program, list[base.Action]]:
    """The kernel of a case, as the heuristic chooses it or by the actions given."""
    taken: list[base.Action] = []

    def chosen(sink: UOp) -> list[base.Action]:
        taken[:] = choose(sink, case.target, attempt_on(case.target)) if actions is None else list(actions)
        return taken

    with Table() as t:
        sink = matmul(
            t, case.core, case.m, case.n, case.k,
            a_transposed=case.a_transposed, b_transposed=case.b_transposed, batch=case.batch,
        )  # fmt: skip
        return lower("kernel", run(sink, Machine(case.target, chosen))), taken


def arguments(case: Case) -> list[Array]:
    """Operands that are no whole numbers: every rounding shows."""
    random = np.random.default_rng(3)
    shape = (case.batch * case.m * case.k,), (case.k * case.n,)
    if case.core.inputs is dtypes.bfloat16:
        a, b = (random.standard_normal(s).astype(case.core.inputs.numpy) for s in shape)
    else:
        kinds = case.core.inputs, case.core.right or case.core.inputs
        low = [0 if kind.is_unsigned else -128 for kind in kinds]
        a, b = (
            random.integers(least, least + 256, s).astype(kind.numpy)
            for kind, least, s in zip(kinds, low, shape, strict=True)
        )
    return [np.full(case.batch * case.m * case.n, 7, case.core.output.numpy), a, b]


def exact(case: Case, arrays: list[Array]) -> tuple[Array, Array]:
    """The product in float64, and the sum of absolute products."""
    _, a, b = (x.astype(np.float64) for x in arrays)
    left = a.reshape(case.batch, case.k, case.m).swapaxes(1, 2) if case.a_transposed else a
    right = b.reshape(case.n, case.k).T if case.b_transposed else b.reshape(case.k, case.n)
    left = left.reshape(case.batch, case.m, case.k)
    return (left @ right).ravel(), (abs(left) @ abs(right)).ravel()


@cache
def interpreted(program: Program, case: Case) -> list[Array]:
    arrays = arguments(case)
    interpret(program, arrays)
    return arrays


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_kernels_compute_products(case: Case) -> None:
    program, actions = kernel(case)
    assert TensorCore in {type(action) for action in actions}
    arrays = interpreted(program, case)
    expected, size = exact(case, arrays)
    bound = case.k * 2.0**-24 * size if case.core.inputs.is_float else 0.0
    assert np.all(abs(arrays[0] - expected) <= bound)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_generated_code_agrees_bit_for_bit(case: Case) -> None:
    program, _ = kernel(case)
    expected, found = interpreted(program, case), arguments(case)
    tiles = run_llvm(program, found)
    assert tiles.problems == []
    np.testing.assert_array_equal(found[0], expected[0])
    assert tiles.counts["ldtilecfg"] == tiles.counts["tilerelease"]
    padded = [
        -(-size // step) * step for size, step in zip((case.m, case.n, case.k), case.core.dims, strict=True)
    ]
    least = case.batch * np.prod(padded) // np.prod(case.core.dims)
    # two by two tiles: four products for four loads; padding to even numbers of tiles may add some
    dots = tiles.counts[amx.DOT[case.core.name]]
    assert least <= dots <= 1.2 * least
    assert tiles.counts["tileloadd"] <= 2 * dots


@pytest.mark.skipif(cc.find_compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("name", ["blocks of everything", "int8 padded"])
def test_the_c_back_end_agrees_bit_for_bit(name: str) -> None:
    case = CASES[name]
    program, _ = kernel(case)
    expected, found = interpreted(program, case), arguments(case)
    tiles = run_c(program, found)
    assert tiles.problems == []
    np.testing.assert_array_equal(found[0], expected[0])


def test_schedules_follow_the_caches() -> None:
    def words(case: Case) -> list[str]:
        return [action.word for action in kernel(case)[1]]

    assert words(CASES["whole tiles"]) == ["tensor_core", "upcast", "upcast", "swap", "stage", "stage"]
    assert words(CASES["blocks of everything"]) == [
        *("tensor_core", "upcast", "upcast", "block", "split", "swap", "stage", "stage")
    ]
    large = words(Case(BF16, 1024, 1024, 1024))
    assert large == ["tensor_core", "upcast", "upcast", "block", "thread", "thread", "swap", "stage", "stage"]
    assert words(Case(BF16, 1, 1024, 1024))[:1] != ["tensor_core"]  # a row is no tile
    assert "amx" not in str(kernel(Case(BF16, 32, 32, 32))[1][0])  # not worth a configuration


# -- any use of a tile ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actions", "k"),
    [
        ((Action(ActionKind.TC, 0, 0),), 64),  # operands that no one load brings
        ((Action(ActionKind.TC, 0, 0),), 32),  # and no sum
        ((Action(ActionKind.TC, 0, 0), Action(ActionKind.UPCAST, 0, 4), Action(ActionKind.UPCAST, 0, 4)), 64),
    ],
    ids=["unstaged", "one step", "more accumulators than registers"],
)
def test_every_use_of_a_tile_can_be_written(actions: tuple[Action, ...], k: int) -> None:
    case = Case(BF16, 64, 64, k)
    program, _ = kernel(case, actions)
    expected, found = interpreted(program, case), arguments(case)
    tiles = run_llvm(program, found)
    assert tiles.problems == []
    np.testing.assert_array_equal(found[0], expected[0])


def test_programs_without_tiles_have_no_plan() -> None:
    program, _ = kernel(CASES["whole tiles"]._replace(target=TARGETS["x86-64-v4"]))
    assert amx.plan(program) is None


# -- what is written -----------------------------------------------------------------------------------------------


def test_the_inner_loop_is_loads_and_products_alone() -> None:
    program, _ = kernel(Case(BF16, 1024, 1024, 1024))
    text = cpu.emit_assembly(llvm.render(program), cpu.processor(AMX))
    words = Counter(
        re.findall(r"\b(ldtilecfg|tilerelease|tilezero|tileloadd|tilestored|tdpbf16ps|retq?)\b", text)
    )
    assert words["ldtilecfg"] == words["tilerelease"] == 1
    assert words["retq"] + words["ret"] == 1
    assert (words["tilezero"], words["tileloadd"], words["tdpbf16ps"], words["tilestored"]) == (4, 4, 4, 4)
    blocks = re.split(r"^\.?LBB\w+:", text, flags=re.MULTILINE)
    (inner,) = [block for block in blocks if "tdpbf16ps" in block and "tileloadd" in block]
    lines = re.findall(r"^\t([a-z]\w*)", inner.split("\tj")[0], re.MULTILINE)
    assert len([line for line in lines if line not in {"tileloadd", "tdpbf16ps"}]) <= 6
    assert "zmm" not in inner.split("\tj")[0]


@pytest.mark.skipif(cc.find_compiler() is None, reason="there is no C compiler")
def test_c_has_the_same_instructions() -> None:
    program, _ = kernel(CASES["blocks of everything"])
    image, _ = cc.build([c.render(program)])
    # ldtilecfg and tilerelease begin with these bytes; tdpbf16ps is C4 E2 x2 5C
    assert b"\xc4\xe2\x78\x49\xc0" in image
    assert len(re.findall(rb"\xc4\xe2[\x02-\x7a]\x5c", image)) >= 4


# -- machines ------------------------------------------------------------------------------------------------------


def product(size: int = 64) -> ptir.Function:
    g = ptir.Graph("product")
    a = g.input("a", ptir.tensor("bf16", (size, size)))
    b = g.input("b", ptir.tensor("bf16", (size, size)))
    return g.build(a.matmul(b))


def test_code_with_tiles_is_made_for_machines_that_have_them() -> None:
    program, _ = kernel(CASES["whole tiles"])
    with pytest.raises(PlanishError, match="uses tiles, which x86-64-v4 does not have"):
        cpu.emit_object(llvm.render(program), cpu.processor(TARGETS["x86-64-v4"]))


@pytest.mark.skipif(bool(features.amx().features), reason="this machine has AMX")
def test_a_machine_without_amx_says_so() -> None:
    with pytest.raises(PlanishError, match=r"lacks (avx512bf16, )?amx-bf16, amx-int8, amx-tile"):
        compiler.lower(product(), "x86-64-amx").compile()


def test_a_cache_entry_with_tiles_is_no_entry_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Machines (and processes without permission) that lack AMX neither find nor run what was kept for one that has it."""
    from planish.compiler import compilation_cache

    def made_for(amx_of_host: features.Amx) -> tuple[str, str]:
        monkeypatch.setattr(features, "amx", lambda: amx_of_host)
        find.__globals__["_named_host"].cache_clear()
        find.__globals__["_calibrated"].cache_clear()
        cpu.host.cache_clear()
        target = find("host")
        return compilation_cache.key(product(), target, None, ()), target.name

    try:
        with settings(cache_dir=str(tmp_path)):
            without, plain = made_for(features.Amx(why_not="not permitted"))
            whole, tiles = made_for(features.Amx(frozenset({"amx-tile", "amx-bf16", "amx-int8"})))
            integers, _ = made_for(features.Amx(frozenset({"amx-tile", "amx-int8"})))
        if plain not in {"x86-64-v4", "x86-64-vnni", "x86-64-bf16"}:
            pytest.skip("this machine is no x86-64-v4")
        assert tiles == "x86-64-amx"
        assert len({without, whole, integers}) == 3
        kept = cpu.Processor(cpu.host().triple, "x86-64-v4", "+amx-bf16,+amx-tile")
        with pytest.raises(PlanishError, match="with AMX does not run on this machine: it lacks amx-bf16"):
            cpu.check_runs_here(kept)
    finally:
        monkeypatch.undo()
        find.__globals__["_named_host"].cache_clear()
        find.__globals__["_calibrated"].cache_clear()
        cpu.host.cache_clear()


@needs_amx
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_amx_unit_agrees_bit_for_bit(case: Case) -> None:
    program, _ = kernel(case)
    expected, found = interpreted(program, case), arguments(case)
    kernel_call(program)(found, (), None)
    np.testing.assert_array_equal(found[0], expected[0])

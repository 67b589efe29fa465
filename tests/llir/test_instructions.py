"""Instructions as records: everybody who has something to say about them says it about all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from planish.codegen import c, cuda, llvm
from planish.errors import LoweringError
from planish.llir import syntax
from planish.llir.instruction import FORMS, Instruction, handlers, method_name
from planish.llir.interpret import interpret
from planish.llir.program import Compute, Program, Reload, Spill
from planish.llir.steps import Decoder
from planish.llir.text import parse, print_program
from planish.uop.ops import ALU
from planish.uop.tensor_cores import CORES
from tests.llir import kernels
from tests.llir.generate import random_program

ALLOCATED = {Spill, Reload}


@pytest.mark.parametrize("writer", [c._WRITE, cuda._WRITE, llvm._WRITE], ids=["c", "cuda", "llvm"])
def test_a_renderer_writes_every_instruction_that_is_there_before_allocation(
    writer: dict[type[Instruction], object],
) -> None:
    assert set(FORMS) - ALLOCATED == set(writer)


def test_an_instruction_is_computed_or_has_a_step() -> None:
    steps = handlers(Decoder)
    for form in FORMS:
        assert (form in steps) is not ("evaluate" in vars(form)), form.mnemonic


def test_mnemonics_are_told_apart_from_each_other_and_from_ops() -> None:
    words = [method_name(form) for form in FORMS]
    assert len(set(words)) == len(words)
    assert not {form.mnemonic for form in FORMS} & {op.name.lower() for op in ALU}


def test_templates_name_fields() -> None:
    for form in FORMS:
        if form is not Compute:
            template = syntax._template(form)
            held = {part.field for part in template.parts if part.field} | set(template.dtypes)
            assert held | {form.writes or ""} >= set(form.__dataclass_fields__), form.mnemonic  # type: ignore[attr-defined]


@pytest.mark.fuzz
def test_many_random_programs_are_read_as_they_are_printed() -> None:
    for seed in range(1000, 4000):
        program = random_program(seed, 80)
        assert parse(print_program(program)) == program


@pytest.mark.parametrize("render", [c.render, llvm.render], ids=["c", "llvm"])
def test_a_core_refuses_what_neighbours_do_together(render: Callable[[Program], str]) -> None:
    with pytest.raises(LoweringError, match="combined over 8 threads; a CPU core is one"):
        render(kernels.warp_sum())


@pytest.mark.parametrize("render", [c.render, llvm.render], ids=["c", "llvm"])
def test_a_core_refuses_copies_in_the_background(render: Callable[[Program], str]) -> None:
    with pytest.raises(LoweringError, match="a CPU core does nothing in the background"):
        render(kernels.copied_tile())


def test_copies_are_there_after_a_wait_and_a_barrier() -> None:
    program, x, out = kernels.copied_tile(), np.arange(28, dtype=np.float32), np.zeros(32, np.float32)
    for reverse in (False, True):
        interpret(program, [x, out], reverse=reverse)
        assert out.tolist() == [*[0.0] * 4, *x[::-1].tolist()]
    assert "cp.async.cg.shared.global" in cuda.render(program)


@pytest.mark.parametrize("transposed", [False, True])
def test_rows_are_dealt_out_as_a_tensor_core_holds_its_operand(transposed: bool) -> None:
    """Four matrices are the left operand of m16n8k16 (below each other, then beside), which its description places too."""
    program = kernels.dealt_rows(transposed=transposed)
    operand = np.arange(256, dtype=np.float16).reshape(16, 16)
    quarters = [operand[r : r + 8, c : c + 8] for c in (0, 8) for r in (0, 8)]
    rows = np.concatenate([each.T if transposed else each for each in quarters]).reshape(-1)
    out = np.zeros(256, np.float16)
    interpret(program, [np.ascontiguousarray(rows), out])
    assert (
        out.reshape(32, 8).tolist() == operand.reshape(-1)[CORES["mma_m16n8k16_f16_f32"].places("a")].tolist()
    )
    assert f"ldmatrix.sync.aligned.m8n8.x4{'.trans' if transposed else ''}.shared" in cuda.render(program)


def test_neighbours_all_get_what_they_combine() -> None:
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    interpret(kernels.warp_sum(), [x, out])
    np.testing.assert_array_equal(out, np.repeat(x.reshape(4, 8).sum(1), 8))

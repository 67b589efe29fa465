"""`planish bisect`: a mistake planted anywhere is reported with its row of the table of symptoms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from planish.codegen import llvm
from planish.stages import pipeline
from planish.stages.pipeline import STAGES, PipelineStage
from planish.uop.matcher import Matcher, rule
from planish.uop.ops import Ops
from planish.uop.pattern import anything, node
from planish.uop.rewrite import rewrite
from tests.cli.conftest import Cli

PROGRAM = """\
ptir 1
func @f(%x: tensor<f32, 4x8>, %y: tensor<f32, 4x8>) -> tensor<f32, 4> {
  %0 = mul %x, %y : tensor<f32, 4x8>
  %1 = reduce_sum %0 {axes=[1], keepdims=false} : tensor<f32, 4>
  %2 = exp %1 : tensor<f32, 4>
  return %2
}
"""
LOOP = """\
ptir 1
func @f(%x: tensor<f32, 4>) -> (tensor<f32, 4>, tensor<i32, 4>) {
  %0 = neg %x : tensor<f32, 4>
  %1 = cast %0 {dtype=i32} : tensor<i32, 4>
  return %0, %1
}
"""
WRONG = Matcher(
    "planted",
    [
        rule(
            node(Ops.MUL, anything("x"), anything("y")),
            lambda root, x, y: x + y if x.dtype.is_float else None,
            says="x * y -> x + y",
        )
    ],
)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("p.ptir").write_text(PROGRAM, encoding="utf-8")
    return "p.ptir"


def plant(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(stage: PipelineStage) -> PipelineStage:
        return stage._replace(run=lambda sink, machine: rewrite(stage.run(sink, machine), WRONG))

    monkeypatch.setattr(pipeline, "STAGES", tuple(wrong(s) if s.number == number else s for s in STAGES))


@pytest.mark.parametrize("target", ["scalar", "x86-64-v3", "cuda"])
def test_a_program_that_is_right(cli: Cli, program: str, target: str):
    ran = cli("bisect", program, "--target", target)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == "@f: every stage gives the result of the interpreter\n"


@pytest.mark.parametrize("number", [1, 4, 7, 11, 15])
def test_a_wrong_stage_is_named_with_its_rule_and_its_row(
    cli: Cli, program: str, number: int, monkeypatch: pytest.MonkeyPatch
):
    plant(number, monkeypatch)
    (name,) = (stage.name for stage in STAGES if stage.number == number)
    ran = cli("bisect", program, "--target", "x86-64-v3", "--rules", "--seed", "3")
    assert ran.status == 1
    lines = ran.out.splitlines()
    assert lines[0].startswith("@f, kernel ")
    assert lines[0].endswith(f": stage {number} ({name}): the result is wrong from here on")
    assert " of 4 elements differ, the first at " in lines[1]
    assert lines[2].endswith("in this stage: x * y -> x + y")
    assert "*" in lines[3]
    assert "+" in lines[4]
    assert lines[5].startswith("docs/debugging.md: wrong values | ")
    # without --rules it says no less about the stage
    shorter = cli("bisect", program, "--target", "x86-64-v3", "--seed", "3").out.splitlines()
    assert shorter == [*lines[:2], lines[5]]


def test_wrong_machine_code(cli: Cli, program: str, monkeypatch: pytest.MonkeyPatch):
    real = llvm.render

    def render(*args: object, **options: object) -> str:
        return real(*args, **options).replace("fadd ", "fsub ")  # type: ignore[arg-type]

    monkeypatch.setattr(llvm, "render", render)
    ran = cli("bisect", program, "--target", "scalar")
    assert ran.status == 1
    assert ran.out.startswith("@f: code generation: the result is wrong from here on\n")
    assert "docs/debugging.md: wrong values | LLIR, code generation | " in ran.out


def test_inputs_from_files(cli: Cli, program: str):
    x = np.arange(32, dtype=np.float32).reshape(4, 8) / 32
    np.save("x.npy", x)
    np.save("y.npy", x)
    np.savez("both.npz", x=x, y=x)
    assert cli("bisect", program, "--input", "x.npy", "--input", "y.npy").status == 0
    assert cli("bisect", program, "--input", "both.npz").status == 0
    missing = cli("bisect", program, "--input", "x.npy")
    assert (missing.status, missing.out) == (1, "")
    assert "parameter 1 (y: tensor<f32, 4x8>) has no input" in missing.err
    assert cli("bisect", program, "--input", "z.npy").err.startswith(
        "planish bisect: error: cannot read z.npy"
    )


def test_other_programs(cli: Cli):
    assert cli("bisect", stdin=LOOP).status == 0
    dynamic = "ptir 1\nfunc @f<B in 1..8>(%x: tensor<f32, Bx4>) -> tensor<f32, Bx4> {\n  %0 = neg %x : tensor<f32, Bx4>\n  return %0\n}\n"
    ran = cli("bisect", stdin=dynamic)
    assert ran.status == 0, ran

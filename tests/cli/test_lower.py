from __future__ import annotations

from pathlib import Path

import pytest

from planish import compiler
from planish.ptir import PassManager, text
from tests.cli.conftest import SMALL, Cli

CALLS = """\
ptir 1
func @g(%x: tensor<f32, 4>) -> tensor<f32, 4> {
  %0 = neg %x : tensor<f32, 4>
  return %0
}
entry func @f(%x: tensor<f32, 4>) -> tensor<f32, 4> {
  %0 = call @g %x : tensor<f32, 4>
  %1 = exp %0 : tensor<f32, 4>
  return %1
}
"""
UNSUPPORTED = """\
ptir 1
func @f(%x: tensor<c64, 8>) -> tensor<c64, 8> {
  %0 = cumsum %x {axis=0} : tensor<c64, 8>
  return %0
}
"""


def test_ptir_is_the_program_after_the_pipeline(cli: Cli):
    ran = cli("lower", "--to", "ptir", stdin=CALLS)
    assert (ran.status, ran.err) == (0, "")
    program = text.parse(CALLS)
    PassManager.parse("inline,canonicalize,cse,dce").run(program)
    assert ran.out == text.print(program)
    assert "call" not in program.entry.results[0].def_inst.op.name  # type: ignore[union-attr]
    assert cli("lower", "--to", "ptir", "-p", "", stdin=CALLS).out == CALLS
    # Nothing is lowered for it, so it takes programs that cannot be.
    assert cli("lower", "--to", "ptir", stdin=UNSUPPORTED).out == UNSUPPORTED


@pytest.mark.parametrize(
    ("level", "first"),
    [
        ("uop", "uop 1"),
        ("uop:4", "uop 1"),
        ("uop:04", "uop 1"),
        ("llir", "llir 1"),
        ("llvm", ""),
        ("asm", "\t"),
    ],
)
def test_every_level(cli: Cli, level: str, first: str):
    ran = cli("lower", "--to", level, stdin=SMALL)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith(first)
    assert ran.out.endswith("\n")
    program = text.parse(SMALL)
    PassManager.parse("inline,canonicalize,cse,dce").run(program)
    shown = compiler.lower(program.entry).as_text(level.replace("04", "4"))
    assert ran.out == shown.rstrip("\n") + "\n"


def test_what_cannot_be_lowered_is_an_error_at_its_line(cli: Cli):
    ran = cli("lower", "--to", "llir", stdin=UNSUPPORTED)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("<stdin>:3:3: error: ")
    assert "cumsum" in ran.err.splitlines()[0]
    assert "Traceback" not in ran.err


def test_levels_are_checked(cli: Cli):
    ran = cli("lower", "--to", "llr", stdin=SMALL)
    assert (ran.status, ran.out) == (2, "")
    assert (
        "there is no level 'llr'; did you mean llir? valid: ptir, uop, llir, llvm, asm, uop:NN\n" in ran.err
    )
    assert cli("lower", stdin=SMALL).status == 2
    missing = cli("lower", "--to", "uop:99", stdin=SMALL)
    assert (missing.status, missing.out) == (1, "")
    assert "no stage 99" in missing.err


def test_another_function_can_be_lowered(cli: Cli):
    ran = cli("lower", "--to", "llir", "--entry", "g", stdin=CALLS)
    assert ran.status == 0
    assert "exp" not in ran.out
    wrong = cli("lower", "--to", "llir", "--entry", "h", stdin=CALLS)
    assert wrong.status == 2
    assert wrong.err.endswith("there is no function @h\nhelp: the program has @g, @f\n")


def test_dumps_are_numbered_from_the_input_to_machine_code(cli: Cli, small: str):
    ran = cli("lower", small, "--to", "llir", "--dump-dir", "dump", "-p", "canonicalize,dce")
    assert ran.status == 0
    names = sorted(path.name for path in Path("dump").iterdir())
    assert names[:3] == ["000_input.ptir", "001_canonicalize.ptir", "003_uop.txt"]
    assert names[3].startswith("004_uop_")
    assert [name.partition("_")[2] for name in names[-3:]] == ["llir.txt", "llvm.ll", "asm.s"]
    assert Path("dump", names[-3]).read_text() == ran.out

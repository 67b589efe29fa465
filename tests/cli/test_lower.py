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
func @f(%x: tensor<f32, 1x1x1>) -> tensor<f32, 1073741824x1073741824x64> {
  %0 = broadcast_to %x {dims=[1073741824, 1073741824, 64]} : tensor<f32, 1073741824x1073741824x64>
  return %0
}
"""


def test_ptir_is_the_program_after_the_pipeline(cli: Cli):
    ran = cli("lower", "--to", "ptir", stdin=CALLS)
    assert (ran.status, ran.err) == (0, "")
    program = text.parse(CALLS)
    PassManager.parse(compiler.PIPELINE).run(program)
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
        ("uop:21", "uop 1"),
        ("uop:22", "uop 1"),
        ("plan", "b0: "),
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
    PassManager.parse(compiler.PIPELINE).run(program)
    shown = compiler.lower(program.entry).as_text(level.replace("04", "4"))
    assert ran.out == shown.rstrip("\n") + "\n"


def test_what_cannot_be_lowered_is_an_error_at_its_line(cli: Cli):
    ran = cli("lower", "--to", "llir", stdin=UNSUPPORTED)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("<stdin>:3:3: error: ")
    assert "broadcast_to" in ran.err.splitlines()[0]
    assert "Traceback" not in ran.err


def test_levels_are_checked(cli: Cli):
    ran = cli("lower", "--to", "llr", stdin=SMALL)
    assert (ran.status, ran.out) == (2, "")
    assert (
        "there is no level 'llr'; did you mean llir? valid: ptir, plan, uop, schedule, llir, llvm, c, asm, cuda, ptx, sass, uop:NN\n"
        in ran.err
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


def test_dumps_are_numbered_and_every_kernel_has_a_folder(cli: Cli, small: str):
    ran = cli("lower", small, "--to", "llir", "--dump-dir", "dump", "-p", "canonicalize,dce")
    assert ran.status == 0
    files = sorted(path.name for path in Path("dump").iterdir() if path.is_file())
    assert files == [
        "000_input.ptir", "001_canonicalize.ptir", "003_plan.txt", "004_llir.txt", "005_llvm.ll", "006_asm.s",
    ]  # fmt: skip
    assert Path("dump", "004_llir.txt").read_text() == ran.out
    (kernel,) = (path for path in Path("dump").iterdir() if path.is_dir())
    stages = sorted(path.name for path in kernel.iterdir())
    assert len(stages) == 23
    assert (kernel / "00_scheduled.uop").read_text() == cli("lower", small, "--to", "uop").out
    assert (kernel / "22_clean_up_if.uop").read_text() in (
        "# as in 21_linearize.uop\n",
        cli("lower", small, "--to", "uop:22").out,
    )


def test_target_layout_and_vector_width(cli: Cli, small: str):
    sums = "ptir 1\nfunc @f(%x: tensor<f32, 64>) -> tensor<f32, 64> {\n  %0 = add %x, %x : tensor<f32, 64>\n  return %0\n}\n"  # fmt: skip
    wide = cli("lower", "--to", "llir", "--target", "x86-64-v4", stdin=sums).out
    assert "f32x16" in wide
    narrow = cli("lower", "--to", "llir", "--target", "x86-64-v4", "--vector-width", "4", stdin=sums).out
    assert "f32x4" in narrow
    assert "f32x16" not in narrow
    scalar = cli("lower", small, "--to", "llir", "--vector-width", "1").out
    assert "f32x" not in scalar
    columns = cli("lower", small, "--to", "ptir", "--layout", "column_major", "--dump-dir", "d")
    assert columns.status == 0
    rows = cli("lower", small, "--to", "uop", "--layout", "row_major").out
    assert cli("lower", small, "--to", "uop", "--layout", "column_major").out != rows


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--layout", "rows", "invalid choice: 'rows'"),
        ("--vector-width", "0", "'0' is neither a number of lanes nor native"),
        ("--vector-width", "wide", "'wide' is neither a number of lanes nor native"),
        ("--target", "vax", "unknown target 'vax'"),
    ],
)
def test_options_are_checked(cli: Cli, small: str, option: str, value: str, message: str):
    ran = cli("lower", small, "--to", "llir", option, value)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err

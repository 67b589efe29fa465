"""`planish lower --schedule FILE`: what is done to loops, said by hand."""

from __future__ import annotations

from pathlib import Path

from planish.actions.text import parse_schedule, sections
from tests.cli.conftest import Cli

STEPS = "upcast(j, 16); upcast(i, 4); swap(i.outer, j.outer); stage(arg2, at=j.outer)"
PROGRAM = """\
ptir 1
func @main(%a: tensor<f32, 32x24>, %b: tensor<f32, 24x64>) -> tensor<f32, 32x64> {
  %0 = dot_general %a, %b {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0], accum_dtype=f32, out_dtype=f32} : tensor<f32, 32x64>
  return %0
}
"""


def test_the_command_line_reads_a_schedule(cli: Cli, tmp_path: Path) -> None:
    program, steps = tmp_path / "p.ptir", tmp_path / "steps.txt"
    program.write_text(PROGRAM)
    steps.write_text(STEPS + "\n")
    ran = cli("lower", program, "--to", "schedule", "--schedule", steps, "--target", "x86-64-v4")
    assert ran.status == 0
    assert parse_schedule(next(iter(sections(ran.out).values()))) == parse_schedule(STEPS)
    shown = cli("lower", program, "--to", "uop:7", "--schedule", steps, "--target", "x86-64-v4").out
    assert "axis=j.inner:u" in shown
    steps.write_text("upcast(j, 5)\n")
    ran = cli("lower", program, "--to", "llir", "--schedule", steps, "--target", "x86-64-v4")
    assert ran.status != 0
    assert "5 does not divide the 64 of axis j" in ran.err

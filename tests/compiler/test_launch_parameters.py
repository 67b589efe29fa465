"""What a launch touches and computes, counted from its code."""

from __future__ import annotations

import pytest

from planish import compiler, ptir
from planish.compiler.launch_parameters import float_work, touched_bytes
from planish.llir.program import Program


def only_program(text: str, target: str = "x86-64-v4") -> Program:
    (program,) = compiler.lower(ptir.parse(text), target).programs
    return program


def test_of_a_large_table_only_what_is_read_counts():
    program = only_program("""ptir 1
func @f(%t: tensor<f32, 50000x64>, %i: tensor<i64, 32>) -> tensor<f32, 32x64> {
  %0 = gather %t, %i {axes=[0]}
  return %0
}
""")
    rows = 32 * 64 * 4
    assert touched_bytes(program) == rows + rows + 32 * 8
    assert sum(buffer.nbytes for buffer in program.params) > 700 * touched_bytes(program)
    assert float_work(program) == {}


def test_what_is_read_again_counts_once():
    program = only_program("""ptir 1
func @f(%a: tensor<f32, 64x32>, %b: tensor<f32, 32x64>) -> tensor<f32, 64x64> {
  %0 = dot_general %a, %b {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0], accum_dtype=f32, out_dtype=f32}
  return %0
}
""")
    assert touched_bytes(program) == 4 * (64 * 32 + 32 * 64 + 64 * 64)


@pytest.mark.parametrize(("dtype", "bits"), [("f32", 32), ("f64", 64)])
def test_work_is_counted_by_width(dtype: str, bits: int):
    program = only_program(
        f"ptir 1\nfunc @f(%x: tensor<{dtype}, 1024>) -> tensor<{dtype}, 1024> {{\n  %0 = mul %x, %x\n  return %0\n}}\n"
    )
    assert float_work(program) == {bits: 1024}

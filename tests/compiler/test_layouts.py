"""`compile` in a layout and a vector width: other memory and other registers, the same results."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from planish import compiler, llir, ptir
from planish.errors import LoweringError
from planish.llir.program import Load


def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((5, 7), (7, 6), (6,))]


def function() -> ptir.Function:
    g = ptir.Graph("f")
    a, b, c = (g.input(n, ptir.tensor("f32", s)) for n, s in zip("abc", ((5, 7), (7, 6), (6,)), strict=True))
    r = a.matmul(b).add(c.broadcast_to((5, 6)))
    return g.build(r, r.reduce_max([1]))


@pytest.mark.parametrize(
    ("layout", "width"), list(product(("row_major", "column_major"), ("native", 1, 2, 8)))
)
def test_results_do_not_depend_on_layout_or_width(layout, width):
    given = arrays()
    wanted = ptir.interpret(function(), given)
    run = compiler.compile(function(), layout=layout, vector_width=width)
    for arranged in (np.ascontiguousarray, np.asfortranarray):
        found = run(*[arranged(array) for array in given])
        for a, b in zip(wanted, found, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
            assert b.flags.f_contiguous if layout == "column_major" else b.flags.c_contiguous
    lanes = {
        i.result.dtype.lanes for program in run.lowered.programs for i in program.body if isinstance(i, Load)
    }
    assert max(lanes) == 1 if width == 1 else width == "native" or max(lanes) <= 2 * width


def test_llir_lower_compiles_too():
    given = arrays()
    low = llir.lower(function(), layout="column_major", vector_width=4)
    for a, b in zip(ptir.interpret(function(), given), low.compile()(*given), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_what_is_no_layout_or_width_is_an_error():
    with pytest.raises(
        LoweringError, match=r"unknown layout 'column_mayor'[\s\S]*did you mean 'column_major'"
    ):
        compiler.compile(function(), layout="column_mayor")
    with pytest.raises(LoweringError, match="vector width of 0"):
        compiler.compile(function(), vector_width=0)


def test_functions_that_call_others_have_a_layout():
    program = ptir.parse("""ptir 1
entry func @main(%x: tensor<f32, 3x2>) -> tensor<f32, 3x2> {
  %y = call @twice %x : tensor<f32, 3x2>
  return %y
}
func @twice(%x: tensor<f32, 3x2>) -> tensor<f32, 3x2> {
  %y = add %x, %x
  return %y
}""")
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    (found,) = compiler.compile(program, layout="column_major")(x)
    np.testing.assert_array_equal(found, 2 * x)
    assert found.flags.f_contiguous

"""Factorisations of matrices without rows or columns: LAPACK's routines get all their arguments, and nothing traps."""

from __future__ import annotations

import numpy as np
import pytest

from planish import compiler, ptir


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 0)])
@pytest.mark.parametrize("dtype", ["f32", "c64"])
def test_lu_of_nothing(shape, dtype):
    graph = ptir.Graph("f")
    function = graph.build(*graph.input("x", ptir.tensor(dtype, shape)).lu())
    x = np.ones(shape, np.complex64 if dtype == "c64" else np.float32)
    packed, order = compiler.compile(function)(x)
    assert packed.shape == shape
    assert order.tolist() == ptir.interpret(function, [x])[1].tolist()


def test_the_triangle_of_a_complex_matrix_of_nothing():
    graph = ptir.Graph("f")
    function = graph.build(graph.input("x", ptir.tensor("c64", (0, 0))).cholesky())
    assert compiler.compile(function)(np.ones((0, 0), np.complex64))[0].shape == (0, 0)

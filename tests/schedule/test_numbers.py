"""Kernels that differ in their numbers alone are one, which reads them from a table; results are what they were."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from planish import compiler, dtypes, ptir
from planish.ptir.graph_value import GraphValue
from planish.schedule.plan import Role, While, walk
from planish.target import TARGETS
from tests.schedule.programs import data, program
from tests.schedule.test_plan import Array, agree


def network(numbers: Sequence[tuple[float, ...]], dtype: str = "float32") -> ptir.Function:
    """Products one after the other, each followed by numbers of its own."""

    def build(graph: ptir.Graph, x: GraphValue, w: GraphValue) -> GraphValue:
        for scale, shift, least in numbers:
            x = x.matmul(w).mul(scale).add(shift).max(least)
        return x

    return program(build, *arguments(dtype)).function


def arguments(dtype: str = "float32") -> list[Array]:
    return [data(8, 8, dtype=dtype), data(8, 8, dtype=dtype, seed=1)]


def tables(lowered: compiler.Lowered) -> list[list[float]]:
    return [
        buffer.constant.tolist()
        for buffer in lowered.plan.buffers
        if buffer.role is Role.CONSTANT and buffer.constant is not None
    ]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_layers_with_numbers_of_their_own_are_one_kernel(dtype: str) -> None:
    lowered = agree(network([(0.25, 0.5, -1), (0.75, 0.5, -1), (0.125, 0.375, -1)], dtype), arguments(dtype))
    assert len(lowered.plan.kernels) == 1
    # what is alike, -1, is no element of a table
    assert tables(lowered) == [[0.25, 0.5], [0.75, 0.5], [0.125, 0.375]]


def test_zero_points_are_numbers_too_but_not_those_inside_of_sums_of_integers() -> None:
    """Bytes less a zero point, summed, and moved by another: the sum keeps its own."""

    def build(graph: ptir.Graph, x: GraphValue, w: GraphValue) -> tuple[GraphValue, ...]:
        whole = ptir.ops.DotAttrs(dtypes.int32, dtypes.int32)
        y = x.cast(dtypes.int16).sub(3).matmul(w.cast(dtypes.int16), whole).add(5)
        z = x.cast(dtypes.int16).sub(4).matmul(w.cast(dtypes.int16), whole).add(5)
        u = x.cast(dtypes.int16).sub(4).matmul(w.cast(dtypes.int16), whole).add(7)
        return y, z, u

    bytes_ = [np.arange(64).reshape(8, 8).astype(np.uint8), np.arange(-30, 34).reshape(8, 8).astype(np.int8)]
    lowered = agree(program(build, *bytes_).function, bytes_)
    assert tables(lowered) == []

    def moved(graph: ptir.Graph, x: GraphValue, w: GraphValue) -> tuple[GraphValue, ...]:
        whole = ptir.ops.DotAttrs(dtypes.int32, dtypes.int32)
        first = x.matmul(w, whole).add(5).cast(dtypes.uint8)
        return (first.matmul(w, whole).add(7).cast(dtypes.uint8),)

    lowered = agree(program(moved, *bytes_).function, bytes_)
    assert (len(lowered.plan.kernels), tables(lowered)) == (1, [[5], [7]])


def test_a_number_that_is_used_twice_is_no_other_form() -> None:
    same = agree(network([(0.25, 0.25, -1), (0.75, 0.75, -1)]), arguments())
    assert (len(same.plan.kernels), tables(same)) == (1, [[0.25], [0.75]])
    other = agree(network([(0.25, 0.25, -1), (0.75, 0.5, -1)]), arguments())
    assert (len(other.plan.kernels), tables(other)) == (2, [])


def test_what_is_no_repetition_stays_as_it_is() -> None:
    def build(graph: ptir.Graph, x: GraphValue, w: GraphValue) -> GraphValue:
        return x.matmul(w).mul(0.25).matmul(w).add(0.75)

    lowered = agree(program(build, *arguments()).function, arguments())
    assert (len(lowered.plan.kernels), tables(lowered)) == (2, [])


def test_gpus_keep_their_constants() -> None:
    lowered = compiler.lower(network([(0.25, 0.5, -1), (0.75, 0.5, -1)]), target=TARGETS["sm_90"])
    assert (len(lowered.plan.kernels), tables(lowered)) == (2, [])


LOOP = """  %{after} = while %{before} (%c: tensor<f32, 8x8>) {{
    %m = reduce_max %c {{axes = [0, 1]}}
    %most = constant 100 : tensor<f32>
    %t = lt %m, %most
    return %t
  }} (%c: tensor<f32, 8x8>) {{
    %scale = constant {scale} : tensor<f32, 8x8>
    %d = add %c, %scale
    return %d
  }}
"""


def test_kernels_of_loops_keep_their_constants() -> None:
    kind = "tensor<f32, 8x8>"
    loops = LOOP.format(before="x", after="y", scale=1.5) + LOOP.format(before="x", after="z", scale=2.5)
    lowered = agree(
        f"ptir 1\nfunc @main(%x: {kind}) -> ({kind}, {kind}) {{\n{loops}  return %y, %z\n}}", [data(8, 8)]
    )
    assert sum(isinstance(step, While) for step in walk(lowered.plan.steps)) == 2
    assert tables(lowered) == []

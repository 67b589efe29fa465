"""Random bits and quantisation as compositions: the same bits as the ops."""

from __future__ import annotations

import numpy as np
import pytest

from planish import dtypes
from planish.ptir import interpret
from planish.ptir.ops.checking import FLOATS, INTS
from planish.ptir.types import Quant, TensorType, tensor
from tests.ptir.library.expanding import check_bits, draw, expanded, function_of, same_bits
from tests.ptir.ops_testing import by_name

STORAGE = [d for d in by_name(INTS) if d.bits <= 32]


@pytest.mark.parametrize("dtype", [dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64], ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4, 2)], ids=str)
def test_random_bits(dtype, shape):
    check_bits([np.array([1, 0xFFFFFFFF], np.uint32)], lambda key: key.rng_bits(shape, dtype))


def test_random_bits_of_a_named_size():
    function = function_of(
        [tensor("u32", (2,)), tensor("f32", ("N", 3), N=(0, 50))],
        lambda key, x: [key.rng_bits(x.dims), key.graph.normal(key, x.dims), key.graph.uniform(key, x.dims)],
    )
    program = expanded(function)
    for size in (0, 1, 50):
        arrays = [np.array([7, 9], np.uint32), np.zeros((size, 3), np.float32)]
        same_bits(interpret(function, arrays), interpret(program, arrays))


@pytest.mark.parametrize("storage", STORAGE, ids=str)
@pytest.mark.parametrize("expressed", by_name(FLOATS), ids=str)
def test_quantisation(storage, expressed):
    rng = np.random.default_rng(0)
    x = draw(rng, expressed, (3, 40))
    low, high = int(storage.min or 0), int(storage.max or 0)

    def build(x):
        one = x.quantize(storage, 0.37, low + 1)
        per_axis = x.quantize(storage, [0.5, 1e-3, 7.0], [high, low, (low + high) // 2], 0)
        return [
            one.bitcast(storage),
            one.dequantize(),
            per_axis.bitcast(storage),
            per_axis.transpose().dequantize(),
        ]

    check_bits([x], build)


def test_quantised_values_pass_through_movement_parameters_and_regions():
    quant = Quant(dtypes.float32, (0.25, 0.5, 2.0), (3, -4, 0), 1)
    type = TensorType(dtypes.int8, (4, 3), quant)

    def build(q, x):
        graph = q.graph

        def step(held, x):
            swapped = held.slice([1, 0], [4, 3]).concat([held.slice([0, 0], [1, 3])], 0)
            return swapped, swapped.dequantize().reduce_sum()

        last, sums = graph.scan(step, [q], [x])
        picked = graph.cond(x.reduce_max().gt(0.0), lambda: q, lambda: last)[0]
        key = graph.iota((4, 3), 0).neg()
        _, moved = key.sort_with([picked], 0)
        return moved.dequantize(), sums, moved

    rng = np.random.default_rng(0)
    arrays: list[np.ndarray] = [
        rng.integers(-9, 9, (4, 3)).astype(np.int8),
        rng.standard_normal(5).astype(np.float32),
    ]
    program = check_bits(arrays, build, [type, tensor("f32", (5,))])
    assert program.entry.param_types[0] == TensorType(dtypes.int8, (4, 3))

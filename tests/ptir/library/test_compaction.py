"""nonzero, unique and non-maximum suppression as compositions: the same bits as the ops."""

from __future__ import annotations

import numpy as np
import pytest

from planish import dtypes
from planish.ptir import interpret
from planish.ptir.ops.checking import ALL, FLOATS
from planish.ptir.types import tensor
from tests.ptir.library.expanding import check_bits, draw, expanded, function_of, same_bits
from tests.ptir.ops_testing import by_name

SHAPES = [(), (0,), (1,), (7,), (40,), (2, 3), (3, 0, 2), (2, 5, 4)]


@pytest.mark.parametrize("dtype", by_name(ALL), ids=str)
def test_nonzero_of_every_dtype(dtype):
    check_bits([draw(np.random.default_rng(2), dtype, (5, 4))], lambda x: x.nonzero())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nonzero_of_every_shape(shape):
    x = np.random.default_rng(2).integers(0, 2, shape)
    for size in (None, 0, 3, 50):
        check_bits([np.asarray(x)], lambda x, s=size: x.nonzero(s))


@pytest.mark.parametrize("dtype", by_name(ALL), ids=str)
def test_unique_of_every_dtype(dtype):
    rng = np.random.default_rng(4)
    check_bits([draw(rng, dtype, (6, 5))], lambda x: x.unique())
    check_bits([draw(rng, dtype, (50,))], lambda x: x.unique(7))
    check_bits([draw(rng, dtype, (40, 2))], lambda x: [*x.unique(axis=0), *x.unique(axis=1)])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_unique_of_every_shape(shape):
    x = np.asarray(np.random.default_rng(2).integers(0, 3, shape).astype(np.float32))
    for axis in (None, *range(len(shape))):
        for size in (None, 0, 2, 60):
            check_bits([x], lambda x, s=size, a=axis: x.unique(s, a))


def test_unique_keeps_the_first_zero_and_every_nan():
    x = np.array([-0.0, 0.0, np.nan, 1, np.nan, 0.0, 1] * 6, np.float64)
    check_bits([x], lambda x: x.unique())
    check_bits([x.reshape(21, 2)], lambda x: x.unique(axis=0))


def test_named_sizes():
    types = [tensor("f32", ("N", "M"), N=(0, 40), M=(0, 3))]

    def build(x):
        return [*x.nonzero(), *x.unique(), *x.unique(axis=0), *x.unique(axis=1), *x.nonzero(9), *x.unique(4)]

    function = function_of(types, build)
    program = expanded(function)
    rng = np.random.default_rng(8)
    for sizes in [(0, 0), (0, 3), (1, 1), (40, 2), (5, 3), (17, 0)]:
        x = draw(rng, dtypes.float32, sizes)
        same_bits(interpret(function, [x]), interpret(program, [x]))


def test_a_count_binds_a_size():
    def build(x):
        positions, count = x.nonzero()
        kept = positions.bind_dim(count, 1, "K", 0, 30)
        return kept, kept.reduce_sum([1])

    check_bits([np.random.default_rng(0).integers(0, 2, (6, 5))], build)


# --- non-maximum suppression ---


def boxes_of(rng, batch, count, dtype=np.float32):
    low = rng.integers(0, 8, (batch, count, 2))
    size = rng.integers(0, 5, (batch, count, 2))
    flip = rng.integers(0, 2, (batch, count, 1)).astype(bool)
    corners = np.concatenate([np.where(flip, low + size, low), np.where(flip, low, low + size)], 2)
    return corners.astype(dtype)


def scalar(value, dtype=np.float32):
    return np.asarray(value, dtype)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize(
    "shape", [(1, 1, 10), (2, 3, 8), (1, 2, 0), (0, 2, 5), (2, 1, 1), (1, 1, 40)], ids=str
)
def test_non_max_suppression(shape, center):
    batch, _classes, count = shape
    rng = np.random.default_rng(count)
    boxes = boxes_of(rng, batch, count)
    scores = rng.integers(0, 5, shape).astype(np.float32)
    if count > 4:
        scores[..., 1] = np.nan
        scores[..., 2] = np.inf
        boxes[:, 3] = np.nan
        boxes[:, 4] = np.inf
    for most in (0, 2, 50):
        for limit in (-1, 1, 99):
            arrays = [boxes, scores, np.asarray(limit), scalar(0.3), scalar(0.5)]
            check_bits(
                arrays,
                lambda b, s, n, o, t, m=most: b.non_max_suppression(s, m, o, t, n, center),
            )


@pytest.mark.parametrize("dtype", by_name(FLOATS), ids=str)
def test_non_max_suppression_of_every_dtype(dtype):
    rng = np.random.default_rng(3)
    boxes = boxes_of(rng, 1, 12).astype(dtype.numpy)
    scores = rng.integers(-2, 5, (1, 2, 12)).astype(np.float32).astype(dtype.numpy)
    check_bits([boxes, scores], lambda b, s: b.non_max_suppression(s, 6, 0.25, 0.0))


def test_non_max_suppression_of_named_sizes():
    kinds = {"B": (0, 2), "N": (0, 9)}
    types = [tensor("f32", ("B", "N", 4), **kinds), tensor("f32", ("B", 2, "N"), **kinds)]
    function = function_of(types, lambda b, s: b.non_max_suppression(s, 4, 0.2, 0.5))
    program = expanded(function)
    rng = np.random.default_rng(1)
    for batch, count in [(0, 0), (2, 0), (1, 9), (2, 5)]:
        arrays = [boxes_of(rng, batch, count), rng.integers(0, 4, (batch, 2, count)).astype(np.float32)]
        same_bits(interpret(function, arrays), interpret(program, arrays))

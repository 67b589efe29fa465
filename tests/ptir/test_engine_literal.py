from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from planish import dtypes
from planish.errors import DTypeError, ShapeError
from planish.ptir.ops.literal import Literal


def test_a_uniform_array_is_stored_as_one_element():
    literal = Literal(np.ones((1000, 1000), np.float32))
    assert literal.splat
    assert literal.nbytes == 4
    assert literal.size == 10**6
    assert literal.array().shape == (1000, 1000)
    assert literal.item == 1.0
    assert literal == Literal.full(dtypes.float32, (1000, 1000), 1.0)
    assert hash(literal) == hash(Literal.full(dtypes.float32, (1000, 1000), 1.0))


def test_almost_uniform_arrays_are_not_splats():
    for position in (0, 1, 20, 500, 998, 999):
        array = np.zeros(1000, np.int64)
        array[position] = 1
        assert not Literal(array).splat


def test_literals_compare_by_bits():
    zero = Literal.full(dtypes.float32, (), 0.0)
    assert zero != Literal.full(dtypes.float32, (), -0.0)
    nan = Literal.full(dtypes.float32, (3,), math.nan)
    assert nan == Literal(np.full(3, np.nan, np.float32))
    assert not Literal(np.array([0.0, -0.0])).splat
    assert Literal.full(dtypes.int64, (), 1) != Literal.full(dtypes.int32, (), 1)
    assert Literal.full(dtypes.int64, (), 1) != Literal.full(dtypes.int64, (1,), 1)
    assert Literal.full(dtypes.bool_, (), True) != Literal.full(dtypes.int8, (), 1)
    assert Literal(np.arange(4)) == Literal(np.arange(4))
    assert Literal(np.arange(4)) != Literal(np.arange(4)[::-1])


def test_a_literal_does_not_see_later_writes():
    array = np.arange(4)
    literal = Literal(array)
    array[0] = 9
    assert literal.array().tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="read-only"):
        literal.array()[0] = 1


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if not d.is_index and d is not dtypes.void])
def test_every_dtype_has_literals(dtype):
    literal = Literal.full(dtype, (2, 3), 1)
    assert literal.item == 1
    assert literal.array().dtype == dtype.numpy
    assert literal == Literal.of_item(dtype, (2, 3), literal.item)
    assert hash(literal) == hash(Literal.of_item(dtype, (2, 3), literal.item))
    assert pickle.loads(pickle.dumps(literal)) == literal
    dense = Literal(np.array([0, 1, 0], dtype.numpy), dtype=dtype)
    assert not dense.splat
    assert dense.item is None
    assert pickle.loads(pickle.dumps(dense)) == dense


def test_shapes_of_literals():
    splat = Literal.full(dtypes.int64, (4,), 7)
    assert splat.with_shape((10**6,)).nbytes == 8
    assert splat.with_shape((0,)).size == 0
    dense = Literal(np.arange(6))
    assert dense.with_shape((2, 3)).array().tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ShapeError, match="cannot take shape"):
        dense.with_shape((4,))
    assert Literal.of_item(dtypes.int64, (0, 2), 1) == Literal(np.empty((0, 2), np.int64))


def test_the_dtype_must_fit_the_array():
    with pytest.raises(DTypeError, match="cannot hold"):
        Literal(np.arange(4), dtype=dtypes.float32)

"""Reductions, arg-reductions, cumulative scans and windows against plain loops."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish import dtypes
from planish.errors import DTypeError, ShapeError
from planish.ptir import ops
from planish.ptir.ops import checking
from planish.ptir.ops.reduce import WINDOW_KINDS
from planish.ptir.types import Dim, TensorType
from tests.ptir.ops_testing import accepts, by_name, check, make, python_values, random_array, run, samples

COMBINE: dict[str, Callable[..., Any]] = {
    "sum": operator.add,
    "prod": operator.mul,
    "max": max,
    "min": min,
    "and": operator.and_,
    "or": operator.or_,
}
LEGAL = {
    "sum": checking.NUMBERS,
    "prod": checking.NUMBERS,
    "max": checking.ORDERED,
    "min": checking.ORDERED,
    "and": checking.BITS,
    "or": checking.BITS,
}
DTYPES = by_name(checking.ALL)


def identity(kind, dtype):
    if kind in ("sum", "or"):
        return 0
    if kind == "prod":
        return 1
    if kind == "and":
        return True if dtype.is_bool else dtype.wrap(-1)
    return dtype.min if kind == "max" else dtype.max


def fold(kind, dtype, values):
    """Combine exactly, then bring into the dtype: sums of small numbers have one right answer."""
    result = functools.reduce(COMBINE[kind], values, identity(kind, dtype))
    return dtype.wrap(result) if dtype.is_int else result


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", COMBINE)
def test_reduce_on_all_dtypes(kind, dtype):
    op = ops.REGISTRY[f"reduce_{kind}"]
    assert accepts(op, dtype, 1, ops.ReduceAttrs((0,))) is (dtype in LEGAL[kind])
    if dtype not in LEGAL[kind]:
        return
    x = random_array(np.random.default_rng(2), dtype, (3, 4, 2))
    if dtype.is_float and kind == "prod":
        x = np.abs(x.astype(np.float32)).clip(1, 2).astype(dtype.numpy)
    for axes in ((), (0,), (1,), (0, 2), (0, 1, 2)):
        kept = [a for a in range(3) if a not in axes]
        result = run(op, x, attrs=ops.ReduceAttrs(axes))
        wide = run(op, x, attrs=ops.ReduceAttrs(axes, keepdims=True))
        assert wide.reshape(result.shape).tobytes() == result.tobytes()
        expected = []
        for index in np.ndindex(*(x.shape[a] for a in kept)):
            select = [slice(None)] * 3
            for a, i in zip(kept, index, strict=True):
                select[a] = i
            expected.append(fold(kind, dtype, python_values(np.asarray(x[tuple(select)]))))
        check(result, make(dtype, expected, result.shape))


@pytest.mark.parametrize("dtype", by_name(checking.ORDERED), ids=str)
@pytest.mark.parametrize("largest", [True, False])
def test_arg_reduce(dtype, largest):
    op = ops.argmax if largest else ops.argmin
    rng = np.random.default_rng(3)
    for x in (random_array(rng, dtype, (5, 6)), np.resize(samples(dtype), (4, 5))):
        for index_dtype in (dtypes.int64, dtypes.int32, dtypes.uint8):
            result = run(op, x, attrs=ops.ArgReduceAttrs(1, dtype=index_dtype))
            expected = []
            for row in x:
                values = python_values(row)
                nans = [i for i, v in enumerate(values) if v != v]
                best = max(v for v in values if v == v) if largest else min(v for v in values if v == v)
                expected.append(nans[0] if nans else values.index(best))
            assert python_values(result) == expected


@given(st.data())
def test_cumulative(data):
    kind = data.draw(st.sampled_from(["sum", "prod", "max", "min"]))
    dtype = data.draw(st.sampled_from(by_name(LEGAL[kind])))
    shape = tuple(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    reverse, exclusive = data.draw(st.booleans()), data.draw(st.booleans())
    x = random_array(np.random.default_rng(data.draw(st.integers(0, 9))), dtype, shape)
    if kind == "prod" and not dtype.is_int:
        x = make(dtype, [abs(v) > 2 for v in python_values(x)], shape)
    result = run(ops.REGISTRY[f"cum{kind}"], x, attrs=ops.CumulativeAttrs(axis, reverse, exclusive))
    for index in np.ndindex(*shape):
        i, n = index[axis], shape[axis]
        line = python_values(np.asarray(x[(*index[:axis], slice(None), *index[axis + 1 :])]))
        seen = line[i + exclusive :] if reverse else line[: i + 1 - exclusive]
        assert n == len(line)
        check(np.asarray(result[index]).reshape(1), make(dtype, [fold(kind, dtype, seen)]))


@given(st.data())
def test_reduce_window(data):
    kind = data.draw(st.sampled_from(WINDOW_KINDS))
    dtype = data.draw(
        st.sampled_from([dtypes.int32, dtypes.float32, dtypes.bfloat16, dtypes.uint4, dtypes.float64])
    )
    rank = data.draw(st.integers(1, 2))

    def draw(low, high):
        return tuple(data.draw(st.integers(low, high)) for _ in range(rank))

    shape, window, strides, dilation, base = draw(1, 5), draw(1, 3), draw(1, 3), draw(1, 2), draw(1, 2)
    low, high = draw(-1, 2), draw(-1, 2)
    x = random_array(np.random.default_rng(data.draw(st.integers(0, 9))), dtype, shape)
    attrs = ops.ReduceWindowAttrs(kind, window, strides, low, high, base, dilation)
    result = run(ops.reduce_window, x, attrs=attrs)
    spans = [(w - 1) * d + 1 for w, d in zip(window, dilation, strict=True)]
    padded = [(n - 1) * b + 1 + lo + hi for n, b, lo, hi in zip(shape, base, low, high, strict=True)]
    assert result.shape == tuple(
        max(0, (n - span) // s + 1) for n, span, s in zip(padded, spans, strides, strict=True)
    )
    for index in np.ndindex(*result.shape):
        values = []
        for offset in np.ndindex(*window):
            place = [
                i * s + o * d - lo
                for i, s, o, d, lo in zip(index, strides, offset, dilation, low, strict=True)
            ]
            if all(p % b == 0 and 0 <= p // b < n for p, b, n in zip(place, base, shape, strict=True)):
                values += python_values(
                    np.asarray(x[tuple(p // b for p, b in zip(place, base, strict=True))])
                )
        check(np.asarray(result[index]).reshape(1), make(dtype, [fold(kind, dtype, values)]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", WINDOW_KINDS)
def test_reduce_window_takes_exactly_its_dtypes(kind, dtype):
    one = (1,)
    attrs = ops.ReduceWindowAttrs(kind, one, one, (0,), (0,), one, one)
    assert accepts(ops.reduce_window, dtype, 1, attrs) is (dtype in LEGAL[kind])


def test_float_sums_stay_within_their_bound():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((3, 1000)).astype(np.float32)
    result = run(ops.reduce_sum, x, attrs=ops.ReduceAttrs((1,)))
    for row, got in zip(x, result, strict=True):
        exact = math.fsum(float(v) for v in row)
        assert abs(float(got) - exact) <= 1000 * 2**-24 * math.fsum(abs(float(v)) for v in row)


def test_dynamic_sizes_and_mistakes():
    size = Dim.named("B", 4, 64)
    maybe = Dim.named("M", 0, 8)
    x = TensorType(dtypes.float32, (size, 8))
    assert ops.reduce_sum.result_types([x], ops.ReduceAttrs((0,)))[0].dims == (8,)
    assert ops.reduce_sum.result_types([x], ops.ReduceAttrs((1,), True))[0].dims == (size, 1)
    attrs = ops.ReduceWindowAttrs("max", (3, 1), (2, 1), (1, 0), (0, 0), (1, 1), (1, 1))
    assert ops.reduce_window.result_types([x], attrs)[0].dims == ((size - 2) // 2 + 1, 8)
    with pytest.raises(ShapeError, match="may be empty"):
        ops.argmax.result_types([TensorType(dtypes.float32, (maybe,))], ops.ArgReduceAttrs(0))
    with pytest.raises(ShapeError, match="axis 2"):
        ops.reduce_sum.result_types([x], ops.ReduceAttrs((2,)))
    with pytest.raises(ShapeError, match="ascending"):
        ops.reduce_sum.result_types([x], ops.ReduceAttrs((1, 0)))
    with pytest.raises(DTypeError, match="index"):
        ops.argmin.result_types([x], ops.ArgReduceAttrs(1, dtype=dtypes.float32))
    attrs = ops.ReduceWindowAttrs("max", (5, 1), (1, 1), (0, 0), (0, 0), (1, 1), (1, 1))
    with pytest.raises(ShapeError, match="not certain to fit"):
        ops.reduce_window.result_types([x], attrs)
    attrs = ops.ReduceWindowAttrs("max", (1, 0), (1, 1), (0, 0), (0, 0), (1, 1), (1, 1))
    with pytest.raises(ShapeError, match="below 1"):
        ops.reduce_window.result_types([x], attrs)
    attrs = ops.ReduceWindowAttrs("mean", (1, 1), (1, 1), (0, 0), (0, 0), (1, 1), (1, 1))
    with pytest.raises(ShapeError, match="kinds"):
        ops.reduce_window.result_types([x], attrs)

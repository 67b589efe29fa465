"""Sorting, top_k, data-dependent sizes, random bits and quantisation against plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish import dtypes
from planish.errors import DTypeError, ShapeError
from planish.ptir import ops
from planish.ptir.ops import checking
from planish.ptir.types import Dim, Quant, TensorType
from tests.ptir.ops_testing import (
    by_name,
    check,
    evaluate,
    make,
    python_values,
    random_array,
    run,
    run_all,
    samples,
)

ORDERED = by_name(checking.ORDERED)


def rank_key(value):
    """Python's order with NaN on top."""
    return (1, 0) if value != value else (0, value)


def stable_order(rows, descending):
    """Positions of `rows` (tuples of keys) sorted stably; Python's `reverse` keeps equals in order too."""
    return sorted(range(len(rows)), key=lambda i: [rank_key(v) for v in rows[i]], reverse=descending)


@pytest.mark.parametrize("dtype", ORDERED, ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_sort_and_top_k_on_all_dtypes(dtype, descending):
    x = np.concatenate([samples(dtype), random_array(np.random.default_rng(4), dtype, (9,))])
    payload = np.arange(len(x), dtype=np.int32)
    values, order = run_all(ops.sort, x, payload, attrs=ops.SortAttrs(0, descending))
    wanted = stable_order([(v,) for v in python_values(x)], descending)
    assert order.tolist() == wanted
    assert values.tobytes() == x[wanted].tobytes()
    best, where = run_all(ops.top_k, x, attrs=ops.TopKAttrs(5, 0, descending, dtypes.int32))
    assert where.tolist() == wanted[:5]
    assert best.tobytes() == x[wanted[:5]].tobytes()


@given(st.data())
def test_sort_by_several_keys(data):
    shape = tuple(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=2)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    num_keys = data.draw(st.integers(1, 3))
    descending = data.draw(st.booleans())
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    keys = [rng.integers(0, 3, shape).astype(t) for t in (np.int8, np.float32, np.uint64)]
    payload = rng.standard_normal(shape) + 1j
    results = run_all(ops.sort, *keys, payload, attrs=ops.SortAttrs(axis, descending, num_keys))
    for index in np.ndindex(*(1 if a == axis else n for a, n in enumerate(shape))):
        line = (*index[:axis], slice(None), *index[axis + 1 :])
        rows = list(zip(*(k[line].tolist() for k in keys[:num_keys]), strict=True))
        order = stable_order(rows, descending)
        for before, after in zip([*keys, payload], results, strict=True):
            assert after[line].tolist() == before[line][order].tolist()


def test_sort_mistakes():
    x = TensorType(dtypes.float32, (3,))
    with pytest.raises(DTypeError, match="key"):
        ops.sort.result_types([TensorType(dtypes.complex64, (3,))], ops.SortAttrs(0))
    with pytest.raises(ShapeError, match="num_keys"):
        ops.sort.result_types([x], ops.SortAttrs(0, num_keys=2))
    with pytest.raises(ShapeError, match="k = 4"):
        ops.top_k.result_types([x], ops.TopKAttrs(4, 0))
    size = Dim.named("B", 5, 9)
    dynamic = ops.top_k.result_types([TensorType(dtypes.float32, (size,))], ops.TopKAttrs(4, 0))
    assert [t.dims for t in dynamic] == [(4,), (4,)]


# --- data-dependent sizes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", by_name(checking.ALL), ids=str)
def test_nonzero(dtype):
    x = random_array(np.random.default_rng(5), dtype, (3, 4))
    wanted = [index for index in np.ndindex(3, 4) if python_values(np.asarray(x[index]))[0] != 0]
    for size in (12, 3, 0, 20):
        positions, count = run_all(ops.nonzero, x, attrs=ops.NonzeroAttrs(size))
        found = min(len(wanted), size)
        assert int(count) == found
        assert [tuple(p) for p in positions.T[:found].tolist()] == wanted[:found]
        assert not positions[:, found:].any()


def test_nonzero_of_a_scalar():
    positions, count = run_all(ops.nonzero, np.float32(3), attrs=ops.NonzeroAttrs(1))
    assert positions.shape == (0, 1)
    assert int(count) == 1


@pytest.mark.parametrize("dtype", by_name(checking.ALL), ids=str)
def test_unique(dtype):
    x = random_array(np.random.default_rng(6), dtype, (3, 5))
    values, first, inverse, counts, count = run_all(ops.unique, x, attrs=ops.UniqueAttrs(20))
    flat = python_values(x)
    distinct = sorted(set(flat), key=lambda v: (v.real, v.imag))
    assert int(count) == len(distinct)
    assert python_values(values)[: len(distinct)] == distinct
    assert first.tolist()[: len(distinct)] == [flat.index(v) for v in distinct]
    assert [distinct[i] for i in inverse.ravel()] == flat
    assert counts.tolist()[: len(distinct)] == [flat.count(v) for v in distinct]
    assert not counts[len(distinct) :].any()


@given(st.integers(0, 99), st.integers(0, 2))
def test_unique_slices(seed, axis):
    x = np.random.default_rng(seed).integers(0, 2, (3, 4, 2)).astype(np.int8)
    size = x.shape[axis]
    values, first, inverse, counts, count = run_all(ops.unique, x, attrs=ops.UniqueAttrs(size, axis))
    rows = [tuple(np.take(x, i, axis).ravel().tolist()) for i in range(size)]
    distinct = sorted(set(rows))
    assert int(count) == len(distinct)
    assert [tuple(np.take(values, i, axis).ravel().tolist()) for i in range(len(distinct))] == distinct
    assert first.tolist()[: len(distinct)] == [rows.index(r) for r in distinct]
    assert [distinct[i] for i in inverse] == rows
    assert counts.tolist()[: len(distinct)] == [rows.count(r) for r in distinct]


def test_bind_dim_and_dimension_size():
    x = np.arange(12).reshape(3, 4)
    attrs = ops.BindDimAttrs(1, "N", 1, 4)
    (bound,) = ops.bind_dim.result_types([TensorType(dtypes.int64, (3, 4)), TensorType(dtypes.int64)], attrs)
    assert str(bound) == "tensor<i64, 3xN>"
    for count, kept in ((2, 2), (0, 1), (9, 4), (-5, 1)):
        (result,) = evaluate(ops.bind_dim, [x, np.int64(count)], attrs, [bound])
        check(result, x[:, :kept])
    with pytest.raises(ShapeError, match="does not fit"):
        ops.bind_dim.result_types(
            [TensorType(dtypes.int64, (3, 4)), TensorType(dtypes.int64)], ops.BindDimAttrs(1, "N", 0, 5)
        )
    assert run(ops.dimension_size, x, attrs=ops.DimensionSizeAttrs(1)) == 4


def test_non_max_suppression():
    # Boxes 0 and 1 overlap by 1/3 (2·1 of 3·1·2), 2 is apart, 3 repeats 0 with swapped corners.
    boxes = np.array([[[0, 0, 2, 1], [1, 0, 3, 1], [10, 10, 11, 11], [2, 1, 0, 0]]], np.float32)
    scores = np.array([[[0.9, 0.8, 0.7, 0.95], [0.1, 0.5, 0.5, 0.2]]], np.float32)

    def kept(limit, overlap, threshold, **options):
        scalars = [np.int64(limit), np.float32(overlap), np.float32(threshold)]
        attrs = ops.NonMaxSuppressionAttrs(3, **options)
        rows, count = run_all(ops.non_max_suppression, boxes, scores, *scalars, attrs=attrs)
        assert not rows[int(count) :].any()
        return rows[: int(count)].tolist()

    assert kept(3, 0.5, 0.0) == [[0, 0, 3], [0, 0, 1], [0, 0, 2], [0, 1, 1], [0, 1, 2], [0, 1, 3]]
    assert kept(3, 0.3, 0.0) == [[0, 0, 3], [0, 0, 2], [0, 1, 1], [0, 1, 2]]
    assert kept(1, 0.5, 0.3) == [[0, 0, 3], [0, 1, 1]]
    assert kept(0, 0.5, 0.0) == []
    assert kept(3, 1.0, 0.85) == [[0, 0, 3], [0, 0, 0]]
    centred = np.array([[[1, 1, 2, 2], [1, 1, 2, 2], [5, 5, 2, 2], [9, 9, 0, 0]]], np.float32)
    boxes[...] = centred
    assert kept(3, 0.5, 0.6, center_point_box=True) == [[0, 0, 3], [0, 0, 0], [0, 0, 2]]


# --- random bits ------------------------------------------------------------------------------------------


def threefry_by_hand(key, block):
    """Threefry-2x32-20 on Python ints."""
    mask = 2**32 - 1
    schedule = [key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA]
    a, b = (block[0] + key[0]) & mask, (block[1] + key[1]) & mask
    rotations = [13, 15, 26, 6, 17, 29, 16, 24]
    for i in range(20):
        a = (a + b) & mask
        turn = rotations[i % 8]
        b = ((b << turn | b >> (32 - turn)) & mask) ^ a
        if i % 4 == 3:
            step = i // 4 + 1
            a = (a + schedule[step % 3]) & mask
            b = (b + schedule[(step + 1) % 3] + step) & mask
    return a, b


def test_threefry_known_answers():
    from planish.ptir.ops.random import threefry2x32

    known = {
        ((0, 0), (0, 0)): (0x6B200159, 0x99BA4EFE),
        ((2**32 - 1,) * 2, (2**32 - 1,) * 2): (0x1CB996FC, 0xBB002BE7),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3)): (0xC4923A9C, 0x483DF7A0),
    }
    for (key, block), answer in known.items():
        assert threefry_by_hand(key, block) == answer
        with np.errstate(over="ignore"):
            got = threefry2x32(np.array(key, np.uint32), *(np.array([w], np.uint32) for w in block))
        assert tuple(int(w[0]) for w in got) == answer


@pytest.mark.parametrize("dtype", [dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64], ids=str)
def test_rng_bits(dtype):
    key = np.array([7, 11], np.uint32)
    result = run(ops.rng_bits, key, attrs=ops.RngBitsAttrs(dtype, (2, 3)))
    expected = []
    for n in range(6):
        a, b = threefry_by_hand((7, 11), (0, n))
        expected.append(a << 32 | b if dtype is dtypes.uint64 else (a ^ b) & dtype.max)
    assert python_values(result) == expected


def test_rng_bits_number_elements_beyond_32_bits():
    from planish.ptir.ops.random import random_words

    numbers = [5, 2**31, 2**32 - 1, 2**32, 7 * 2**32 + 9]
    words = random_words(np.array([7, 11], np.uint32), np.array(numbers, np.uint64), dtypes.uint64)
    for number, word in zip(numbers, words, strict=True):
        a, b = threefry_by_hand((7, 11), (number >> 32, number & (2**32 - 1)))
        assert int(word) == a << 32 | b


def test_rng_bits_needs_a_key():
    with pytest.raises(DTypeError, match="key"):
        ops.rng_bits.result_types([TensorType(dtypes.int32, (2,))], ops.RngBitsAttrs(dtypes.uint32, (3,)))
    with pytest.raises(DTypeError, match="result"):
        ops.rng_bits.result_types([TensorType(dtypes.uint32, (2,))], ops.RngBitsAttrs(dtypes.float32, (3,)))


# --- quantisation -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", [d for d in dtypes.ALL if d.is_int and d.bits <= 32], ids=str)
@pytest.mark.parametrize("expressed", by_name(checking.FLOATS), ids=str)
def test_quantize_and_back(storage, expressed):
    scale, zero = 0.5, 3
    quant = Quant(expressed, (scale,), (zero,))
    x = samples(expressed)
    quantized = run_quantize(x, storage, quant)
    wanted = []
    for value in python_values(x):
        steps = 0.0 if math.isnan(value) else value / scale
        steps = steps if math.isinf(steps) else float(round(steps))
        low, high = storage.min, storage.max
        wanted.append(low if steps + zero < low else high if steps + zero > high else int(steps) + zero)
    assert python_values(quantized) == wanted
    attrs = ops.DequantizeAttrs(quant)
    (inferred,) = ops.dequantize.result_types([TensorType(storage, x.shape, quant)], attrs)
    (back,) = evaluate(ops.dequantize, [quantized], attrs, [inferred])
    check(back, make(expressed, [expressed.const((q - zero) * scale) for q in wanted]))


def run_quantize(x, storage, quant):
    attrs = ops.QuantizeAttrs(storage, quant)
    (inferred,) = ops.quantize.result_types([TensorType(quant.expressed, x.shape)], attrs)
    assert inferred.quant == quant
    (result,) = evaluate(ops.quantize, [x], attrs, [inferred])
    assert result.dtype == storage.numpy
    return result


def test_quantize_per_axis():
    quant = Quant(dtypes.float32, (1.0, 0.5), (0, 10), axis=1)
    x = np.array([[1.5, 1.5], [2.5, -1.25], [-300, 300]], np.float32)
    assert run_quantize(x, dtypes.int8, quant).tolist() == [[2, 13], [2, 8], [-128, 127]]
    for wrong in (
        Quant(dtypes.float32, (1.0,), (0,), axis=1),
        Quant(dtypes.float32, (1.0, 0.0), (0, 0), axis=1),
        Quant(dtypes.float32, (1.0, 1.0), (0, 128), axis=1),
        Quant(dtypes.float64, (1.0, 1.0), (0, 0), axis=1),
    ):
        with pytest.raises((ShapeError, DTypeError)):
            run_quantize(
                x, dtypes.int8, wrong
            ) if wrong.expressed is dtypes.float32 else ops.quantize.result_types(
                [TensorType(dtypes.float32, x.shape)], ops.QuantizeAttrs(dtypes.int8, wrong)
            )


@pytest.mark.parametrize(("shape", "axis"), [((0, 2), 0), ((2, 0), 1), ((2, 0), 0), ((0,), None)])
def test_unique_of_an_empty_array(shape, axis):
    *_, count = run_all(ops.unique, np.zeros(shape, np.float32), attrs=ops.UniqueAttrs(2, axis))
    rows = shape[axis] if axis is not None else 0
    assert count == min(rows, 1)

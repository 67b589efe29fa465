"""sort, argsort, top_k and searchsorted as compositions: the same bits as the ops, in programs of constant size."""

from __future__ import annotations

import numpy as np
import pytest

from planish import dtypes
from planish.ptir import interpret
from planish.ptir.library import order
from planish.ptir.ops.checking import ORDERED
from planish.ptir.types import tensor
from tests.ptir.library.expanding import check_bits, draw, expanded, function_of, types_of
from tests.ptir.ops_testing import by_name

SIZES = [0, 1, 2, 3, 7, 32, 33, 64, 100]


@pytest.mark.parametrize("dtype", by_name(ORDERED), ids=str)
def test_sort_keeps_every_bit(dtype):
    rng = np.random.default_rng(dtype.bits)
    for size, descending in [(5, False), (5, True), (32, True), (37, False), (37, True), (64, False)]:
        check_bits([draw(rng, dtype, (2, size))], lambda x, d=descending: x.sort(1, d))


@pytest.mark.parametrize("size", SIZES)
def test_sort_of_every_size_and_axis(size):
    rng = np.random.default_rng(size)
    x = draw(rng, dtypes.float32, (2, size, 3))
    check_bits([x], lambda x: x.sort(1))
    check_bits([x.transpose(1, 0, 2).copy()], lambda x: x.sort(0, descending=True))
    check_bits([rng.integers(-3, 4, size)], lambda x: x.sort())


@pytest.mark.parametrize("size", [4, 31, 40])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("keys", [1, 2, 3])
def test_payload_follows_keys_stably(size, descending, keys):
    rng = np.random.default_rng(size + keys)
    kinds = [dtypes.int8, dtypes.float64, dtypes.bool_, dtypes.complex64, dtypes.bfloat16]
    arrays = [draw(rng, kind, (size, 2)) for kind in kinds]
    check_bits(arrays, lambda *xs: xs[0].sort_with(xs[1:], 0, descending, keys))


@pytest.mark.parametrize("size", [9, 50])
def test_small_keys_are_compared_together(size):
    rng = np.random.default_rng(size)
    kinds = [dtypes.int8, dtypes.uint4, dtypes.bool_, dtypes.float16]
    arrays = [draw(rng, kind, (size,)) for kind in kinds]
    for descending in (False, True):
        program = check_bits(arrays, lambda *xs, d=descending: xs[0].sort_with(xs[1:], 0, d, 3))
        carried = [len(inst.operands) for inst in program.entry.walk() if inst.op.name == "scan"]
        assert carried == ([2] if size > 32 else [])
    check_bits(arrays, lambda *xs: xs[3].sort_with(xs[:3], 0, False, 2))


def test_stability_among_many_equals():
    key = np.array([0, -0.0, 0, np.nan, -np.nan, 1] * 20, np.float32)
    check_bits([key, np.arange(120)], lambda x, i: x.sort_with([i], 0))
    check_bits([key, np.arange(120)], lambda x, i: x.sort_with([i], 0, True))


def test_large_sorts():
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64, np.int64, np.uint32):
        x = (rng.standard_normal(3000) * 100).astype(dtype)
        program = check_bits([x], lambda x: x.sort())
        assert sum(1 for _ in program.entry.walk()) < 60


def test_a_program_does_not_grow_with_the_size():
    def count(size):
        program = expanded(function_of([tensor("f32", (size,))], lambda x: x.sort()))
        return sum(1 for _ in program.entry.walk())

    assert count(1 << 10) == count(1 << 20)
    masks = order.network_masks(1 << 20)
    assert len(masks) == 20 * 21 // 2


@pytest.mark.parametrize("low", [0, 1])
@pytest.mark.parametrize("high", [6, 70])
def test_named_sizes(low, high):
    rng = np.random.default_rng(high)
    types = [
        tensor("f32", ("B", "N"), B=(0, 4), N=(low, high)),
        tensor("i64", ("B", "N"), B=(0, 4), N=(low, high)),
    ]

    def build(x, y):
        return [*x.sort_with([y], 1), y.sort(1, True), *x.sort_with([y], 0)]

    function = function_of(types, build)
    program = expanded(function)
    for sizes in [(0, low), (3, low), (2, high), (4, min(high, 5)), (1, high - 1)]:
        arrays = [draw(rng, dtypes.float32, sizes), draw(rng, dtypes.int64, sizes)]
        for left, right in zip(interpret(function, arrays), interpret(program, arrays), strict=True):
            assert left.tobytes() == right.tobytes()
            assert left.shape == right.shape


@pytest.mark.parametrize("dtype", by_name(ORDERED), ids=str)
def test_top_k(dtype):
    rng = np.random.default_rng(1)
    x = draw(rng, dtype, (3, 50))
    for k in (0, 1, 3, 20, 50):
        for largest in (True, False):
            check_bits([x], lambda x, k=k, b=largest: x.top_k(k, 1, b, dtypes.int32))


@pytest.mark.parametrize("size", [1, 2, 5, 33, 200])
def test_top_k_of_every_size(size):
    rng = np.random.default_rng(size)
    x = draw(rng, dtypes.float16, (size, 2))
    for k in {0, 1, min(size, 4), size}:
        check_bits([x], lambda x, k=k: [*x.top_k(k, 0), *x.top_k(k, 0, False)])


def test_top_k_of_a_named_size():
    function = function_of(
        [tensor("f64", ("N", 2), N=(3, 90))], lambda x: [*x.top_k(3, 0), *x.top_k(2, 0, False)]
    )
    program = expanded(function)
    rng = np.random.default_rng(3)
    for size in (3, 4, 90):
        x = draw(rng, dtypes.float64, (size, 2))
        for left, right in zip(interpret(function, [x]), interpret(program, [x]), strict=True):
            assert left.tobytes() == right.tobytes()


def test_argsort_is_numpys_stable_one():
    rng = np.random.default_rng(5)
    x = rng.integers(0, 9, (4, 60))
    function = function_of(types_of([x]), lambda x: order.argsort([x], 1, dtype=dtypes.int64))
    (got,) = interpret(function, [x])
    assert np.array_equal(got, np.argsort(x, 1, kind="stable"))


@pytest.mark.parametrize("size", [0, 1, 2, 17, 64])
@pytest.mark.parametrize("right", [False, True])
def test_searchsorted_is_numpys(size, right):
    rng = np.random.default_rng(size)
    line = np.sort(rng.integers(0, 12, size).astype(np.float32))
    wanted = np.concatenate([line, rng.uniform(-2, 14, 30).astype(np.float32), [np.inf, -np.inf]]).astype(
        np.float32
    )
    function = function_of(types_of([line, wanted]), lambda a, b: order.searchsorted(a, b, right))
    (got,) = interpret(function, [line, wanted])
    assert np.array_equal(got, np.searchsorted(line, wanted, "right" if right else "left"))

"""Movement and indexing ops against loops that follow their definitions, on random shapes and attributes."""

from __future__ import annotations

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
from planish.ptir.types import Dim, Quant, TensorType
from tests.ptir.ops_testing import by_name, check, make, random_array, run, samples

SCATTER_BY_HAND: dict[str, Callable[..., Any]] = {
    "replace": lambda old, new: new,
    "add": operator.add,
    "mul": operator.mul,
    "min": min,
    "max": max,
}
DTYPES = by_name(checking.ALL)
shapes = st.lists(st.integers(0, 4), min_size=0, max_size=3).map(tuple)
solid_shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


def numbered(shape, dtype=np.int32):
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_movement_keeps_every_bit(dtype):
    """Forward and backward through each op gives the same bits, special values included."""
    x = np.resize(samples(dtype), (3, 4))
    zero = make(dtype, [0]).reshape(())
    assert run(ops.reshape, x, attrs=ops.ReshapeAttrs((2, 6))).tobytes() == x.tobytes()
    turned = run(ops.transpose, x, attrs=ops.TransposeAttrs((1, 0)))
    assert run(ops.transpose, turned, attrs=ops.TransposeAttrs((1, 0))).tobytes() == x.tobytes()
    flipped = run(ops.reverse, x, attrs=ops.ReverseAttrs((0, 1)))
    assert run(ops.reverse, flipped, attrs=ops.ReverseAttrs((0, 1))).tobytes() == x.tobytes()
    halves = [run(ops.slice_, x, attrs=ops.SliceAttrs((0, s), (3, s + 2), (1, 1))) for s in (0, 2)]
    assert run(ops.concat, *halves, attrs=ops.ConcatAttrs(1)).tobytes() == x.tobytes()
    wide = run(ops.pad, x, zero, attrs=ops.PadAttrs((1, 0), (2, 1), (1, 2)))
    assert (
        run(ops.pad, wide, zero, attrs=ops.PadAttrs((-1, 0), (-2, -1), (0, 0)))[::2, ::3].tobytes()
        == x.tobytes()
    )
    row = x[:1]
    assert run(ops.broadcast_to, row, attrs=ops.BroadcastToAttrs((2, 3, 4)))[1, 2].tobytes() == row.tobytes()
    rows = np.array([2, 0, 1])
    moved = run(ops.gather, x, rows, attrs=ops.GatherAttrs((0,)))
    assert moved.tobytes() == x[rows].tobytes()
    back = run(ops.scatter, np.zeros_like(x), moved, rows, attrs=ops.ScatterAttrs((0,)))
    assert back.tobytes() == x.tobytes()
    start = [np.int32(1), np.int32(2)]
    window = run(ops.dynamic_slice, x, *start, attrs=ops.DynamicSliceAttrs((2, 2)))
    assert window.tobytes() == x[1:3, 2:4].tobytes()
    assert run(ops.dynamic_update_slice, x, window, *start).tobytes() == x.tobytes()


@given(st.data())
def test_slice(data):
    shape = data.draw(shapes)
    starts = [data.draw(st.integers(0, n)) for n in shape]
    limits = [data.draw(st.integers(s, n)) for s, n in zip(starts, shape, strict=True)]
    strides = [data.draw(st.integers(1, 3)) for _ in shape]
    x = numbered(shape)
    result = run(ops.slice_, x, attrs=ops.SliceAttrs(tuple(starts), tuple(limits), tuple(strides)))
    picks = [
        [i for i in range(a, b) if (i - a) % s == 0] for a, b, s in zip(starts, limits, strides, strict=True)
    ]
    assert result.shape == tuple(len(p) for p in picks)
    for index in np.ndindex(*result.shape):
        assert result[index] == x[tuple(p[i] for p, i in zip(picks, index, strict=True))]


@given(st.data())
def test_pad(data):
    shape = data.draw(shapes)
    interior = [data.draw(st.integers(0, 2)) for _ in shape]
    spread = [n + max(n - 1, 0) * g for n, g in zip(shape, interior, strict=True)]
    low = [data.draw(st.integers(-n, 3)) for n in spread]
    high = [
        data.draw(st.integers(-n - a, 3)) if n + a > 0 else max(0, -n - a)
        for n, a in zip(spread, low, strict=True)
    ]
    x = numbered(shape) + 1
    attrs = ops.PadAttrs(tuple(low), tuple(high), tuple(interior))
    result = run(ops.pad, x, np.int32(-1), attrs=attrs)
    expected = np.full([a + n + b for a, n, b in zip(low, spread, high, strict=True)], -1, np.int32)
    for index in np.ndindex(*shape):
        place = tuple(a + i * (g + 1) for a, i, g in zip(low, index, interior, strict=True))
        if all(0 <= p < n for p, n in zip(place, expected.shape, strict=True)):
            expected[place] = x[index]
    check(result, expected)


@given(st.data())
def test_broadcast_to(data):
    target = data.draw(shapes)
    rank = data.draw(st.integers(0, len(target)))
    shape = tuple(n if data.draw(st.booleans()) else 1 for n in target[len(target) - rank :])
    x = numbered(shape)
    result = run(ops.broadcast_to, x, attrs=ops.BroadcastToAttrs(target))
    lead = len(target) - rank
    for index in np.ndindex(*target):
        assert result[index] == x[tuple(0 if n == 1 else i for n, i in zip(shape, index[lead:], strict=True))]


@given(st.data())
def test_gather_and_scatter(data):
    """Both against one loop over index and remaining positions; duplicates and indices outside included."""
    shape = data.draw(solid_shapes)
    axes = tuple(data.draw(st.permutations(range(len(shape))))[: data.draw(st.integers(1, len(shape)))])
    index_shape = data.draw(st.lists(st.integers(0, 3), max_size=2).map(tuple))
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    size = int(np.prod(index_shape))
    dtype = data.draw(st.sampled_from([np.int8, np.int64, np.uint8]))
    low = 0 if dtype is np.uint8 else -2
    indices = [
        np.array(
            data.draw(st.lists(st.integers(low, shape[a] + 1), min_size=size, max_size=size)), dtype
        ).reshape(index_shape)
        for a in axes
    ]
    x = numbered(shape)
    updates_shape = (*index_shape, *(shape[a] for a in rest))
    updates = 100 + numbered(updates_shape)
    gathered = run(ops.gather, x, *indices, attrs=ops.GatherAttrs(axes))
    kind = data.draw(st.sampled_from(ops.indexing.SCATTER_KINDS))
    scattered = run(ops.scatter, x, updates, *indices, attrs=ops.ScatterAttrs(axes, kind))
    expected = x.copy()
    for at in np.ndindex(*updates_shape):
        place = [0] * len(shape)
        inside = True
        clamped = [0] * len(shape)
        for axis, index in zip(axes, indices, strict=True):
            i = int(index[at[: len(index_shape)]])
            inside &= 0 <= i < shape[axis]
            place[axis] = i
            clamped[axis] = min(max(i, 0), shape[axis] - 1)
        for axis, i in zip(rest, at[len(index_shape) :], strict=True):
            place[axis] = clamped[axis] = i
        assert gathered[at] == x[tuple(clamped)]
        if inside:
            expected[tuple(place)] = SCATTER_BY_HAND[kind](expected[tuple(place)], updates[at])
    check(scattered, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", ops.indexing.SCATTER_KINDS)
def test_scatter_on_all_dtypes(dtype, kind):
    attrs = ops.ScatterAttrs((0,), kind)
    legal = kind == "replace" or (not dtype.is_complex if kind in ("min", "max") else not dtype.is_bool)
    rng = np.random.default_rng(1)
    x, updates = random_array(rng, dtype, (4,)), random_array(rng, dtype, (3,))
    index = np.array([1, 1, 3])
    if not legal:
        with pytest.raises(DTypeError):
            run(ops.scatter, x, updates, index, attrs=attrs)
        return
    expected = [complex(v) if dtype.is_complex else float(v) for v in x]
    for i, update in zip(index, updates, strict=True):
        new = complex(update) if dtype.is_complex else float(update)
        expected[i] = SCATTER_BY_HAND[kind](expected[i], new)
    check(run(ops.scatter, x, updates, index, attrs=attrs), make(dtype, expected))


@given(st.data())
def test_dynamic_slices_are_moved_inside(data):
    shape = data.draw(solid_shapes)
    sizes = tuple(data.draw(st.integers(0, n)) for n in shape)
    starts = [np.int64(data.draw(st.integers(-3, 6))) for _ in shape]
    x = numbered(shape)
    begins = [min(max(int(s), 0), n - w) for s, n, w in zip(starts, shape, sizes, strict=True)]
    window = tuple(slice(b, b + w) for b, w in zip(begins, sizes, strict=True))
    check(run(ops.dynamic_slice, x, *starts, attrs=ops.DynamicSliceAttrs(sizes)), x[window])
    update = -numbered(sizes) - 1
    expected = x.copy()
    expected[window] = update
    check(run(ops.dynamic_update_slice, x, update, *starts), expected)


@pytest.mark.parametrize("dtype", by_name(checking.NUMBERS), ids=str)
def test_iota(dtype):
    result = run(ops.iota, attrs=ops.IotaAttrs(dtype, (3, 20), 1))
    for row in result:
        check(row, make(dtype, list(range(20))))


# --- dynamic sizes, quantised types and mistakes ----------------------------------------------------------

B = Dim.named("B", 1, 64)


def infer(op, types, attrs=ops.NO_ATTRS):
    return op.result_types(types, attrs)[0]


def f32(*dims):
    return TensorType(dtypes.float32, dims)


def test_dynamic_sizes_flow_through():
    x = f32(B, 8)
    assert infer(ops.reshape, [x], ops.ReshapeAttrs((4, 2 * B))).dims == (4, 2 * B)
    assert infer(ops.transpose, [x], ops.TransposeAttrs((1, 0))).dims == (8, B)
    assert infer(ops.broadcast_to, [f32(8)], ops.BroadcastToAttrs((B, 8))).dims == (B, 8)
    assert infer(ops.concat, [x, x, f32(3, 8)], ops.ConcatAttrs(0)).dims == (2 * B + 3, 8)
    assert infer(ops.pad, [x, f32()], ops.PadAttrs((1, 0), (B, 0), (1, 0))).dims == (3 * B, 8)
    assert infer(ops.slice_, [x], ops.SliceAttrs((0, 1), (B, 7), (2, 3))).dims == ((B + 1) // 2, 2)
    assert infer(ops.slice_, [x], ops.SliceAttrs((1, 0), (B, 8), (1, 1))).dims == (B - 1, 8)
    index = TensorType(dtypes.int32, (5, B))
    assert infer(ops.gather, [x, index], ops.GatherAttrs((1,))).dims == (5, B, B)
    i32 = TensorType(dtypes.int32)
    assert infer(ops.dynamic_slice, [x, i32, i32], ops.DynamicSliceAttrs((1, 8))).dims == (1, 8)
    assert infer(ops.iota, [], ops.IotaAttrs(dtypes.int32, (B, 2), 0)).dims == (B, 2)


@pytest.mark.parametrize(
    ("op", "types", "attrs", "message"),
    [
        (ops.reshape, [f32(B, 8)], ops.ReshapeAttrs((B, 9)), "elements"),
        (ops.transpose, [f32(2, 3)], ops.TransposeAttrs((0, 0)), "permutation"),
        (ops.broadcast_to, [f32(2, 3)], ops.BroadcastToAttrs((3, 3)), "does not broadcast"),
        (ops.broadcast_to, [f32(2, 3)], ops.BroadcastToAttrs((3,)), "does not broadcast"),
        (ops.broadcast_to, [f32(B)], ops.BroadcastToAttrs((64,)), "does not broadcast"),
        (ops.slice_, [f32(4)], ops.SliceAttrs((0,), (5,), (1,)), "not certain"),
        (ops.slice_, [f32(B)], ops.SliceAttrs((0,), (2,), (1,)), "not certain"),
        (ops.slice_, [f32(4)], ops.SliceAttrs((0,), (4,), (0,)), "stride"),
        (ops.reverse, [f32(4)], ops.ReverseAttrs((1,)), "axis 1"),
        (ops.reverse, [f32(4)], ops.ReverseAttrs((0, 0)), "twice"),
        (ops.concat, [f32(4, 2), f32(4, 3)], ops.ConcatAttrs(0), "outside axis 0"),
        (ops.pad, [f32(4), f32(1)], ops.PadAttrs((0,), (0,), (0,)), "scalar"),
        (ops.pad, [f32(4), f32()], ops.PadAttrs((-5,), (0,), (0,)), "size -1"),
        (ops.pad, [f32(4), f32()], ops.PadAttrs((0,), (0,), (-1,)), "negative"),
        (ops.gather, [f32(4), TensorType(dtypes.int32, (2,))], ops.GatherAttrs((1,)), "axis 1"),
        (ops.gather, [f32(0), TensorType(dtypes.int32, (2,))], ops.GatherAttrs((0,)), "empty"),
        (ops.scatter, [f32(4), f32(3), TensorType(dtypes.int32, (2,))], ops.ScatterAttrs((0,)), "updates"),
        (
            ops.scatter,
            [f32(4), f32(2), TensorType(dtypes.int32, (2,))],
            ops.ScatterAttrs((0,), "xor"),
            "kinds",
        ),
        (ops.dynamic_slice, [f32(4)], ops.DynamicSliceAttrs((2,)), "0 starts"),
        (ops.dynamic_slice, [f32(B), TensorType(dtypes.int32)], ops.DynamicSliceAttrs((2,)), "not certain"),
    ],
)
def test_mistakes_are_named(op, types, attrs, message):
    with pytest.raises(ShapeError, match=message) as caught:
        infer(op, types, attrs)
    assert caught.value.op == op.name


def test_wrong_dtypes_are_named():
    with pytest.raises(DTypeError, match="padding value"):
        infer(ops.pad, [f32(4), TensorType(dtypes.int32)], ops.PadAttrs((0,), (0,), (0,)))
    with pytest.raises(DTypeError, match="index"):
        infer(ops.gather, [f32(4), f32(2)], ops.GatherAttrs((0,)))
    with pytest.raises(DTypeError, match="different dtypes"):
        infer(ops.concat, [f32(4), TensorType(dtypes.float64, (4,))], ops.ConcatAttrs(0))


def test_quantised_types_move_with_their_scale_axis():
    per_row = Quant(dtypes.float32, (1.0, 2.0), (0, 3), axis=0)
    x = TensorType(dtypes.int8, (2, 6), per_row)
    moved = infer(ops.transpose, [x], ops.TransposeAttrs((1, 0)))
    assert moved.quant is not None
    assert moved.quant.axis == 1
    assert infer(ops.reshape, [x], ops.ReshapeAttrs((2, 3, 2))).quant == per_row
    assert infer(ops.slice_, [x], ops.SliceAttrs((0, 0), (2, 3), (1, 1))).quant == per_row
    assert infer(ops.broadcast_to, [x], ops.BroadcastToAttrs((4, 2, 6))).quant == Quant(
        dtypes.float32, (1.0, 2.0), (0, 3), 1
    )
    for op, attrs in (
        (ops.slice_, ops.SliceAttrs((0, 0), (1, 6), (1, 1))),
        (ops.reshape, ops.ReshapeAttrs((12,))),
        (ops.reverse, ops.ReverseAttrs((0,))),
    ):
        with pytest.raises(DTypeError, match="scale"):
            infer(op, [x], attrs)
    with pytest.raises(DTypeError, match="quantised"):
        infer(ops.add, [x, x])

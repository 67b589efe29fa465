"""Resizing and pooling against direct formulas: one output element at a time, in Python."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from planish.errors import DTypeError, GraphError, ShapeError
from planish.ptir.library import pooling
from planish.ptir.library.resize import COORDINATES, NEAREST, Resampling, interpolate, resize
from tests.ptir.library.formulas import close, normal, run

# --- the specification of ONNX, element by element ---


def original(mode, i, size, resized, scale, crop):
    if mode == "half_pixel":
        return (i + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        return size / 2 * (1 - resized / (scale * size)) + (i + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return (i + 0.5) / scale - 0.5 if resized > 1 else 0.0
    if mode == "align_corners":
        return i * (size - 1) / (resized - 1) if resized > 1 else 0.0
    if mode == "asymmetric":
        return i / scale
    start, end = crop
    if resized > 1:
        return start * (size - 1) + i * (end - start) * (size - 1) / (resized - 1)
    return 0.5 * (start + end) * (size - 1)


def cubic(d, a):
    d = abs(d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def one_axis(x, resized, scale, how, crop):
    """A vector resized."""
    size = len(x)
    result = np.zeros(resized)
    for i in range(resized):
        at = original(how.coordinates, i, size, resized, scale, crop)
        if how.coordinates == "tf_crop_and_resize" and not 0 <= at <= size - 1:
            result[i] = how.extrapolation
            continue
        if how.mode == "nearest":
            low = math.floor(at)
            rest = at - low
            up = {
                "floor": 0,
                "ceil": int(rest > 0),
                "round_prefer_floor": int(rest > 0.5),
                "round_prefer_ceil": int(rest >= 0.5),
            }[how.nearest]
            result[i] = x[min(max(low + up, 0), size - 1)]
            continue
        shrink = min(scale, 1) if how.antialias else 1
        total = weights = 0.0
        for place in range(-3 * size - 8, 4 * size + 8):
            d = (place - at) * shrink
            weight = max(0.0, 1 - abs(d)) if how.mode == "linear" else cubic(d, how.cubic_a)
            if how.exclude_outside and not 0 <= place < size:
                weight = 0.0
            total += weight * x[min(max(place, 0), size - 1)]
            weights += weight
        result[i] = total / weights
    return result


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_every_coordinate_mode(coordinates, mode):
    x = normal(0, 6, dtype=np.float64)
    crop = (0.2, 0.9)
    for nearest in NEAREST if mode == "nearest" else ["floor"]:
        how = Resampling(mode, coordinates, nearest)
        for resized, scale in [(9, 1.5), (3, 0.5), (1, 1 / 6), (14, 2.4), (6, 1.0), (4, 0.7)]:
            scales = None if scale == resized / 6 else [scale]
            crops = [crop] if coordinates == "tf_crop_and_resize" else None
            (got,) = run(lambda x, n=resized, s=scales, c=crops, h=how: resize(x, [n], s, h, c), x)
            if resized == 6 and scale == 1 and crops is None:
                assert np.array_equal(got, x)
            else:
                close(got, one_axis(x, resized, scale, how, crop))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("exclude", [False, True])
def test_edges_and_antialiasing(mode, antialias, exclude):
    x = normal(1, 11, dtype=np.float64)
    how = Resampling(mode, antialias=antialias, exclude_outside=exclude, cubic_a=-0.5)
    for resized in (3, 7, 20):
        (got,) = run(lambda x, n=resized: resize(x, [n], None, how), x)
        close(got, one_axis(x, resized, resized / 11, how, (0, 1)))


def test_several_axes_and_dtypes():
    x = normal(0, 2, 3, 4, 5)
    how = Resampling("linear")
    (got,) = run(lambda x: resize(x, [None, None, 6, 3], None, how), x)
    wanted = np.apply_along_axis(one_axis, 2, x.astype(np.float64), 6, 1.5, how, (0, 1))
    wanted = np.apply_along_axis(one_axis, 3, wanted, 3, 0.6, how, (0, 1))
    close(got, wanted)
    (got,) = run(lambda x: resize(x, [None, None, 6, 3], None, how), x.astype(np.float16))
    assert got.dtype == np.float16
    close(got, wanted, ulps=8)
    whole = np.arange(6, dtype=np.int32)
    (got,) = run(lambda x: resize(x, [3], None, Resampling("nearest", "asymmetric", "floor")), whole)
    assert got.tolist() == [0, 2, 4]
    with pytest.raises(DTypeError, match="no values between"):
        run(lambda x: resize(x, [3], None, how), whole)
    with pytest.raises(GraphError, match="there is no mode"):
        Resampling("sharp")
    with pytest.raises(ShapeError, match="2 sizes for the 1 axes"):
        run(lambda x: resize(x, [3, 3], None, how), whole)


def test_crops_outside():
    x = normal(0, 4, 5, dtype=np.float64)
    how = Resampling("linear", "tf_crop_and_resize", extrapolation=9.0)
    (got,) = run(lambda x: resize(x, [4, 6], None, how, [(-0.5, 1.0), (0.5, 1.6)]), x)
    rows = [original("tf_crop_and_resize", i, 4, 4, 1, (-0.5, 1.0)) for i in range(4)]
    columns = [original("tf_crop_and_resize", i, 5, 6, 1, (0.5, 1.6)) for i in range(6)]
    for (i, r), (j, c) in itertools.product(enumerate(rows), enumerate(columns)):
        if not (0 <= r <= 3 and 0 <= c <= 4):
            assert got[i, j] == 9
            continue
        total = sum(
            max(0, 1 - abs(p - r)) * max(0, 1 - abs(q - c)) * x[p, q] for p in range(4) for q in range(5)
        )
        assert math.isclose(got[i, j], total, abs_tol=1e-12)


def test_interpolate():
    x = normal(0, 1, 2, 6, 4, dtype=np.float64)
    (got,) = run(lambda x: interpolate(x, scale_factor=[1.5, 2.0]), x)
    rows, columns = [int(i / 1.5) for i in range(9)], [i // 2 for i in range(8)]
    assert np.array_equal(got, x[:, :, rows][..., columns])
    (got,) = run(lambda x: interpolate(x, size=[3, 4], mode="bilinear", align_corners=True), x)
    lines = np.array([0, 2.5, 5])
    low = np.floor(lines).astype(int)
    rest = (lines - low)[:, None]
    close(got, x[:, :, low] * (1 - rest) + x[:, :, np.minimum(low + 1, 5)] * rest)
    (got,) = run(lambda x: interpolate(x, size=[4, 2], mode="area"), x)
    wanted = np.stack(
        [np.stack([x[:, :, i * 6 // 4 : -(-(i + 1) * 6 // 4), 2 * j : 2 * j + 2].mean((2, 3)) for j in range(2)], -1) for i in range(4)], 2
    )  # fmt: skip
    close(got, wanted)
    (got,) = run(lambda x: interpolate(x, size=[12, 8], mode="nearest-exact"), x)
    assert np.array_equal(got, x.repeat(2, 2).repeat(2, 3))
    with pytest.raises(GraphError, match="either sizes or factors"):
        run(interpolate, x)


# --- pooling ---


def windows(x, window, strides, padding, dilation, ceil):
    """Per output position, the elements of (H, W) that its window holds, and how many places it has inside the padding."""
    sizes = []
    for n, w, s, (lo, hi), d in zip(x.shape, window, strides, padding, dilation, strict=True):
        span = (w - 1) * d + 1
        count = (math.ceil if ceil else math.floor)((n + lo + hi - span) / s) + 1
        if ceil and (count - 1) * s >= n + lo:
            count -= 1
        sizes.append(count)
    for place in np.ndindex(*sizes):
        held, room = [], 0
        for offset in np.ndindex(*window):
            at = [
                p * s + o * d - lo
                for p, s, o, d, (lo, _) in zip(place, strides, offset, dilation, padding, strict=True)
            ]
            room += all(-lo <= a < n + hi for a, n, (lo, hi) in zip(at, x.shape, padding, strict=True))
            if all(0 <= a < n for a, n in zip(at, x.shape, strict=True)):
                held.append(x[tuple(at)])
        yield sizes, place, np.array(held), room


CASES = [
    ((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1), False),
    ((3, 2), (2, 1), ((1, 1), (0, 1)), (1, 1), False),
    ((3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), True),
    ((2, 2), (3, 3), ((0, 1), (1, 0)), (2, 1), True),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_pooling(case):
    window, strides, padding, dilation, ceil = case
    x = normal(0, 1, 1, 7, 6)
    found = list(windows(x[0, 0].astype(np.float64), *case))
    shape = (1, 1, *found[0][0])

    def of(compute):
        return np.array([compute(held, room) for _, _, held, room in found]).reshape(shape)

    given = (window, strides, padding, dilation, ceil)
    got = run(
        lambda x: [
            pooling.max_pool(x, *given),
            pooling.average_pool(x, *given),
            pooling.average_pool(x, *given, count_padding=True),
            pooling.lp_pool(x, window, strides, padding, dilation, ceil, 3.0),
        ],
        x,
    )
    close(got[0], of(lambda held, room: held.max()))
    close(got[1], of(lambda held, room: held.mean()))
    close(got[2], of(lambda held, room: held.sum() / room))
    close(got[3], of(lambda held, room: (np.abs(held) ** 3).sum() ** (1 / 3)))


def test_global_and_adaptive_pooling():
    x = normal(0, 2, 3, 5, 6)
    mean, top, same = run(
        lambda x: [pooling.global_average_pool(x), pooling.global_max_pool(x), pooling.adaptive_average_pool(x, [5, 6])], x
    )  # fmt: skip
    close(mean, x.astype(np.float64).mean((2, 3), keepdims=True))
    assert np.array_equal(top, x.max((2, 3), keepdims=True))
    assert np.array_equal(same, x)

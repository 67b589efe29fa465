"""What follows a convolution on a GPU, whose channels lie last: no thread makes a long sum alone, and nothing is written here and there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import compiler, nn
from planish.target import TARGETS

HOPPER = TARGETS["sm_90"]
COPYING = replace(HOPPER, parts=replace(HOPPER.parts, channels_last=0))
"""For which no product is too small to be laid out."""


def spec(*shape: int) -> Any:
    return pn.TensorSpec(shape, pn.float32)


def choices(function: Any, *specs: Any) -> list[tuple[str, str]]:
    """The kernels of a function, each with its schedule."""
    lowered = compiler.lower(pn.jit(function).lower(*specs).function, "sm_90")
    return [
        (kernel.name, "; ".join(map(str, choice.actions)))
        for kernel, choice in zip(lowered.plan.kernels, lowered.choices, strict=True)
    ]


def test_long_sums_across_neighbours_are_shared() -> None:
    """An instance norm: mean and variance of each channel are kernels of their own, the rest is one turned copy."""

    def function(x: Any, w: Any) -> Any:
        y = nn.conv2d(x, w)
        rows = pn.reshape(y, (1, 32 * 64, 62, 62))
        mean = pn.mean(rows, axis=(0, 2, 3), keepdims=True)
        variance = pn.mean((rows - mean) ** 2, axis=(0, 2, 3), keepdims=True)
        return pn.reshape((rows - mean) / pn.sqrt(variance + 1e-5), y.shape)

    found = choices(function, spec(32, 32, 64, 64), spec(64, 32, 3, 3))
    assert not any(name.startswith("rows") for name, _ in found), found
    assert sum("group" in said for _, said in found) == 2
    assert found[-1][0].startswith("map")
    assert "stage" in found[-1][1]


def test_pools_that_are_summed_up_are_shared() -> None:
    found = choices(lambda x: pn.sum(nn.max_pool1d(x[:, None, :], 2)[:, 0], axis=1), spec(128, 32768))
    assert [said for name, said in found if name.startswith("reduce")][-1] == "unroll(k, 2); group(j, 256)"


def test_a_number_for_all_elements_is_a_kernel_of_its_own() -> None:
    """A Frobenius norm: blocks of what is divided by it do not wait for one that stores it."""
    found = choices(lambda x: x / pn.sqrt(pn.sum(x * x)), spec(4096, 8192))
    assert [name.split("_")[0] for name, _ in found] == ["reduce", "reduce", "map"]


def test_groups_of_a_computed_row_are_rows() -> None:
    """No block makes all groups of a row to use one of them."""

    def function(x: Any, b: Any) -> Any:
        y = pn.reshape(x / (1 + pn.exp(-x)) + b, (4096, 64, 64))
        apart = y - pn.mean(y, axis=2, keepdims=True)
        return apart / pn.sqrt(pn.mean(apart * apart, axis=2, keepdims=True) + 1e-5)

    found = choices(function, spec(4096, 4096), spec(4096))
    assert all("group" in said for name, said in found if name.startswith(("rows", "reduce"))), found


@pytest.mark.parametrize("side", [63, 64])
def test_softmax_of_channels(side: int) -> None:
    """Four rows for a warp, sixteen bytes for each thread and access; turned afterwards, rows that start anywhere by neighbouring threads."""

    def function(x: Any, w: Any, b: Any) -> Any:
        return nn.softmax(nn.conv2d(x, w, padding=1) + b, axis=1)

    found = choices(function, spec(16, 32, side, side), spec(64, 32, 3, 3), spec(64, 1, 1))
    (rows,) = (said for name, said in found if name.startswith("rows"))
    assert "unroll(n, 4); group(n.outer, 8)" in rows
    assert "local(i, 16)" in rows
    assert found[-1][0].startswith("copy")
    assert ("local(k, 64)" in found[-1][1]) is (side == 63)


def gated(x: Any, w: Any, a: Any, b: Any) -> Any:
    """Channels by themselves, and a factor for each that all of its pixels decide (squeeze and excite)."""
    y = nn.silu(nn.conv2d(x, w, padding=1, groups=w.shape[0]))
    mean = pn.mean(y, axis=(2, 3))
    gate = nn.sigmoid(nn.silu(mean @ a) @ b)
    return y * gate[:, :, None, None]


def test_factors_of_channels_are_made_before_they_are_multiplied_with() -> None:
    """By the kernel of a product, stored once: who multiplies has all pixels on the grid, and neighbouring threads have channels."""
    kind = pn.bfloat16
    sizes = (64, 24, 24, 144), (144, 1, 3, 3), (144, 6), (6, 144)

    def function(x: Any, *others: Any) -> Any:
        return pn.permute_dims(gated(pn.permute_dims(x, (0, 3, 1, 2)), *others), (0, 2, 3, 1))

    traced = pn.jit(function).lower(*(pn.TensorSpec(size, kind) for size in sizes)).function
    lowered = compiler.lower(traced, "sm_90")
    said = ["; ".join(map(str, choice.actions)) for choice in lowered.choices]
    *_, product, last = said
    assert "tensor_core" in product
    assert last.startswith("upcast(l, 8); local(l.outer, 18)")
    assert any(
        "local(j.outer, 24); group(k, " in each for each in said
    )  # sums of 144 channels, by sectors of them
    stored = [i for i in lowered.programs[-1].body if type(i).__name__ == "Store"]
    assert len(stored) == 1


def test_means_before_a_softmax_are_kernels() -> None:
    """Threads that share a row would each make all of its sums."""
    found = choices(lambda x: nn.softmax(pn.mean(x, axis=1), axis=1), spec(512, 32, 256))
    assert [name.split("_")[0] for name, _ in found] == ["reduce", "rows"]


def chained(x: Any, w: Any) -> Any:
    """A transposed convolution with a stride whose result is odd, a pool and a softmax of channels."""
    y = nn.conv_transpose2d(x, w, stride=2, padding=1)
    return nn.max_pool2d(y, 2), nn.softmax(y, axis=1)


@pytest.mark.slow
def test_results_are_right() -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in ((1, 8, 3, 3), (8, 64, 3, 3))]
    traced = pn.jit(chained).lower(*map(pn.asarray, arrays)).function
    lowered = compiler.lower(traced, COPYING)
    for found, exact in zip(lowered.interpreted()(*arrays), compiler.compile(traced)(*arrays), strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)


def test_groups_of_channels_are_summed_up_pixel_by_pixel_first() -> None:
    """A group norm of what is joined and resized: its channels stay last, and no thread makes a group alone."""

    def function(x: Any, w: Any, y: Any, v: Any) -> Any:
        small, large = nn.conv2d(x, w, padding=1), nn.conv2d(y, w, padding=1)
        joined = pn.concat([nn.interpolate(small, scale_factor=2), large], axis=1)
        return nn.conv2d(nn.silu(nn.group_norm(joined, 8)), v, padding=1)

    found = choices(
        function, spec(4, 64, 16, 16), spec(64, 64, 3, 3), spec(4, 64, 32, 32), spec(64, 128, 3, 3)
    )
    names = [name for name, _ in found]
    assert sum(name.startswith("reduce_4x4x128_") for name in names) == 2, names  # by channel, in parts
    assert sum(name.startswith("map_4x32x32x128_") for name in names) == 1
    assert not any("_4x128x32x32" in name for name in names)


def _grouped(x: Any, w: Any, rows: Any, columns: Any) -> Any:
    y = nn.conv2d(x, w, padding=1)
    return nn.group_norm(y, 4), pn.max(pn.reshape(y, (2, 4, 2, 8, 8)), axis=(2, 3, 4))


def _shuffled(x: Any, w: Any, rows: Any, columns: Any) -> Any:
    y = pn.reshape(nn.conv2d(x, w, padding=1), (2, 2, 4, 8, 8))
    return pn.sum(y, axis=(0, 3, 4)), pn.reshape(pn.permute_dims(y, (0, 2, 1, 3, 4)), (2, 8, 64)) + 1.0


def _joined(x: Any, w: Any, rows: Any, columns: Any) -> Any:
    y = nn.conv2d(x, w, padding=1)
    both = pn.concat([x, y, nn.interpolate(y[:, :, ::2, ::2], scale_factor=2)], axis=1)
    return pn.mean(both, axis=(2, 3)), pn.take(both, columns, axis=3)


def _chosen(x: Any, w: Any, rows: Any, columns: Any) -> Any:
    y = nn.conv2d(x, w, padding=1)
    return y[:, :, rows, columns], y[:, rows], pn.sum(y[rows % 2], axis=(1, 2)), y[rows % 2, :, columns]


def _alone(x: Any, w: Any, rows: Any, columns: Any) -> Any:
    def loss(v: Any, w: Any) -> Any:
        return pn.sum(nn.conv2d(nn.conv2d(x, w, padding=1), v, padding=1, groups=8) ** 2)

    return pn.grad(loss, argnums=(0, 1))(x[:1, :, :3, :3].reshape((8, 1, 3, 3)), w)


@pytest.mark.parametrize("function", [_grouped, _shuffled, _joined, _chosen, _alone])
def test_what_is_made_of_channels_that_are_last_is_right(function: Any) -> None:
    rng = np.random.default_rng(2)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in ((2, 8, 8, 8), (8, 8, 3, 3))]
    arrays += [np.array([5, 0, 3]), np.array([-1, 7, 3])]
    traced = pn.jit(function).lower(*map(pn.asarray, arrays)).function
    lowered = compiler.lower(traced, COPYING)
    for found, exact in zip(lowered.interpreted()(*arrays), compiler.compile(traced)(*arrays), strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4 * max(1.0, abs(exact).max()))


def test_few_weights_of_many_pixels_are_summed_up_in_parts() -> None:
    """The gradient of 64 x 64 weights of a window of nine: nine blocks of a GPU would be busy."""

    def function(x: Any, w: Any, y: Any) -> Any:
        return pn.grad(lambda w: pn.sum(nn.conv2d(x, w, padding=1) * y))(w)

    images = pn.TensorSpec((32, 64, 56, 56), pn.bfloat16)
    found = choices(function, images, pn.TensorSpec((64, 64, 3, 3), pn.bfloat16), images)
    sums = [name for name, said in found if "tensor_core" in said]
    assert len(sums) == 1
    assert sums[0].startswith("reduce_32x64x3x3x64_"), found


def test_gradients_of_depthwise_weights_are_shared() -> None:
    """Their gradients add up products of channels that lie together: nothing is copied for it, and threads share every sum."""

    def function(x: Any, v: Any, y: Any) -> Any:
        x, y = (pn.permute_dims(each, (0, 3, 1, 2)) for each in (x, y))
        return pn.grad(lambda v: pn.sum(nn.conv2d(x, v, padding=1, groups=64) * y))(v)

    images = spec(32, 56, 56, 64)
    found = choices(function, images, spec(64, 1, 3, 3), images)
    assert [name.rpartition("_")[0] for name, _ in found] == ["reduce_32x3x3x64", "reduce_64x3x3"], found
    assert "group(" in found[0][1]


def test_few_sums_of_several_loops_are_shared() -> None:
    """Sixteen columns, and sums of two loops: no thread makes one alone."""

    def function(x: Any, y: Any) -> Any:
        return pn.sum(x, axis=0), pn.max(y, axis=0)

    found = choices(function, spec(1 << 16, 16), spec(1 << 14, 16))
    assert all("group(" in said for name, said in found if name.startswith("reduce")), found


def test_few_long_sums_are_cut_into_parts() -> None:
    """Forty results along what lies together: forty blocks would leave most of a GPU idle."""
    found = choices(lambda x: pn.sum(x, axis=(0, 2, 3)), spec(32, 40, 64, 64))
    assert [name.split("_")[0] for name, _ in found] == ["reduce", "reduce"], found


@pytest.mark.parametrize("last", [True, False])
def test_convolutions_that_share_little_but_weights_are_kernels_of_their_own(last: bool) -> None:
    """Two sums in a kernel are no windows: groups of four channels were padded to the eight columns of a core."""

    def grouped(x: Any, w: Any) -> Any:
        return nn.conv2d(x, w, padding=1, groups=8)

    def both(x: Any, y: Any, w: Any) -> Any:
        if not last:
            return grouped(x, w), grouped(y, w)
        x, y = (pn.permute_dims(each, (0, 3, 1, 2)) for each in (x, y))
        return tuple(pn.permute_dims(grouped(each, w), (0, 2, 3, 1)) for each in (x, y))

    shape = (8, 56, 56, 32) if last else (8, 32, 56, 56)
    given = [pn.zeros(each, dtype=pn.bfloat16) for each in (shape, shape, (32, 4, 3, 3))]
    lowered = compiler.lower(pn.jit(both).lower(*given).function, "sm_90")
    (windows,) = (
        number
        for number, choice in enumerate(lowered.choices)
        if "unroll(" in "; ".join(map(str, choice.actions))
    )
    assert [launch.kernel for launch in lowered.plan.launches].count(windows) == 2
    assert not any("tensor_core" in "; ".join(map(str, choice.actions)) for choice in lowered.choices)

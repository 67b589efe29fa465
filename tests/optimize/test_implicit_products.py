"""Convolutions as products of matrices on tensor cores: what is chosen, and that results are right in the interpreter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import planish as pn
from planish import compiler, nn
from planish.config import settings
from planish.llir.memory_forms import Load
from planish.target import TARGETS

HOPPER = TARGETS["sm_90"]
COPYING = replace(HOPPER, parts=replace(HOPPER.parts, channels_last=0))
"""For which no product is too small to be laid out."""
RNG = np.random.default_rng(5)


def data(*shape: int, dtype: Any = ml_dtypes.bfloat16) -> Any:
    return RNG.integers(-3, 4, shape).astype(dtype)


def nhwc(**options: Any) -> Any:
    """A convolution of (N, H, W, C) with (O, H, W, C)."""

    def function(x: Any, w: Any) -> Any:
        found = nn.conv2d(pn.permute_dims(x, (0, 3, 1, 2)), pn.permute_dims(w, (0, 3, 1, 2)), **options)
        return pn.permute_dims(found, (0, 2, 3, 1))

    return function


CASES: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "3 x 3": (nhwc(padding=1), (data(2, 5, 7, 64), data(32, 3, 3, 64)), "join(i, k); join(n, o); join(n, m); pad_to(i, 128)"),
    "strided": (nhwc(padding=1, stride=2), (data(2, 8, 8, 64), data(32, 3, 3, 64)), "wgmma"),
    "dilated": (nhwc(padding=2, dilation=2), (data(1, 8, 8, 64), data(32, 3, 3, 64)), "wgmma"),
    "strided, one tap": (nhwc(stride=2), (data(2, 16, 16, 64), data(64, 1, 1, 64)), "wgmma"),
    "16 channels": (nhwc(padding=1), (data(1, 8, 8, 16), data(32, 3, 3, 16)), "wgmma"),
    "3 channels": (nhwc(padding=3, stride=2), (data(1, 16, 16, 3), data(32, 7, 7, 3)), "wgmma"),
    "groups": (nhwc(padding=1, groups=2), (data(1, 8, 8, 64), data(64, 3, 3, 32)), "split(k, 32)"),
    "groups of four channels": (nhwc(padding=1, groups=4), (data(1, 8, 8, 16), data(16, 3, 3, 4)), "split(k, 4)"),
    "NCHW": (lambda x, w: nn.conv2d(x, w, padding=1), (data(1, 64, 8, 8), data(32, 64, 3, 3)), "wgmma"),
    "epilogue": (
        lambda x, w, b, y: pn.maximum(nhwc(padding=1)(x, w) + b + y, 0),
        (data(1, 8, 8, 64), data(32, 3, 3, 64), data(32), data(1, 8, 8, 32)),
        "wgmma",
    ),
}  # fmt: skip


_LARGE = ("3 x 3",)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in _LARGE else []) for name in CASES]
)
def test_convolutions(name: str) -> None:
    function, arrays, expected = CASES[name]
    traced = pn.jit(function).lower(*map(pn.asarray, arrays)).function
    with settings(check="spec"):
        lowered = compiler.lower(traced, "sm_90")
    said = "; ".join(str(action) for choice in lowered.choices for action in choice.actions)
    assert expected in said
    wanted = compiler.compile(traced)(*arrays)
    for found, exact in zip(lowered.interpreted()(*arrays), wanted, strict=True):
        np.testing.assert_allclose(found.astype(np.float64), exact.astype(np.float64), rtol=1e-2)


def both(x: Any, w: Any, v: Any, b: Any) -> Any:
    """Two convolutions of what PyTorch's users write (N, C, H, W), with what is between them."""
    return nn.conv2d(pn.maximum(nn.conv2d(x, w, padding=1, stride=2) + b, 0), v, padding=1)


def loss(w: Any, x: Any) -> Any:
    return pn.sum(nn.conv2d(x, w, padding=1, stride=2).astype(pn.float32))


def normalised(x: Any, w: Any) -> Any:
    """Statistics of channels, a window and a slice of what a convolution made."""
    y = nn.conv2d(x, w, padding=1).astype(pn.float32)
    mean = pn.mean(y, axis=(0, 2, 3), keepdims=True)
    y = ((y - mean) / pn.max(abs(y - mean), axis=(0, 2, 3), keepdims=True)).astype(pn.bfloat16)
    return nn.max_pool2d(y, 2)[:, :, ::2, 1:], pn.sum(y, axis=(2, 3))


IN_ORDER: dict[str, tuple[Any, tuple[Any, ...], int]] = {
    "forward": (both, (data(1, 3, 12, 12), data(32, 3, 3, 3), data(32, 32, 3, 3), data(32, 1, 1)), 2),
    "normalised": (normalised, (data(2, 16, 8, 8), data(32, 16, 3, 3)), 1),
    "by the weights": (pn.grad(loss), (data(32, 16, 3, 3), data(2, 16, 8, 8)), 1),
    "by few channels": (pn.grad(loss), (data(32, 3, 3, 3), data(2, 3, 8, 8)), 1),
    "by the input": (pn.grad(loss, 1), (data(32, 16, 3, 3), data(1, 16, 8, 8)), 1),
}


@pytest.mark.parametrize("name", IN_ORDER)
def test_channels_come_last_in_memory(name: str) -> None:
    """Whatever the order of axes in the program, sixteen bytes of channels are copied at once; between convolutions nothing is turned."""
    function, arrays, cores = IN_ORDER[name]
    traced = pn.jit(function).lower(*map(pn.asarray, arrays)).function
    lowered = compiler.lower(traced, COPYING)
    said = ["; ".join(map(str, choice.actions)) for choice in lowered.choices]
    assert sum("wgmma" in each for each in said) >= cores, said
    wanted = compiler.compile(traced)(*arrays)
    for found, exact in zip(lowered.interpreted()(*arrays), wanted, strict=True):
        np.testing.assert_allclose(found.astype(np.float64), exact.astype(np.float64), rtol=2e-2, atol=1)


@pytest.mark.parametrize("side", [7, pytest.param(6, marks=pytest.mark.slow)])
def test_results_are_written_along_pixels(side: int) -> None:
    """Where the pixels of a result lie together, as many are stored at once as do everywhere."""
    arrays = data(2, 32, side, side), data(32, 32, 3, 3)
    traced = pn.jit(lambda x, w: nn.conv2d(x, w, padding=1)).lower(*map(pn.asarray, arrays)).function
    lowered = compiler.lower(traced, COPYING)
    end = lowered.as_text("cuda").rpartition("__syncthreads")[2]
    assert ("words_at<2>" in end) is (side == 6)  # 36 pixels are four at a time, 49 one by one
    (found,), (exact,) = lowered.interpreted()(*arrays), compiler.compile(traced)(*arrays)
    np.testing.assert_allclose(found.astype(np.float64), exact.astype(np.float64), rtol=1e-2)


def test_pixels_of_a_thread_share_what_they_read() -> None:
    """Of windows that share nothing else: seven pixels of a row of three taps read nine words of channels, and three of weights."""
    specs = pn.TensorSpec((64, 28, 28, 256), pn.bfloat16), pn.TensorSpec((256, 3, 3, 1), pn.bfloat16)
    lowered = compiler.lower(pn.jit(nhwc(padding=1, groups=256)).lower(*specs).function, "sm_90")
    said = "; ".join(map(str, lowered.choices[-1].actions))
    assert said == "unroll(n, 3); upcast(l, 2); upcast(k, 7); local(l.outer, 64); local(j, 4)"
    loads = [i for i in lowered.programs[-1].body if type(i).__name__ == "Load"]
    sums = 14  # of registers, which are loads of LLIR's too, in the loop over rows of taps and behind it
    assert len(loads) == 9 + 3 + 2 * sums


def test_groups_of_few_channels_are_sums_of_threads() -> None:
    """A thread has all outputs of a group, and reads four channels by one access; weights lie as neighbouring threads want them."""
    specs = pn.TensorSpec((64, 56, 56, 128), pn.bfloat16), pn.TensorSpec((128, 3, 3, 4), pn.bfloat16)
    lowered = compiler.lower(pn.jit(nhwc(padding=1, groups=32)).lower(*specs).function, "sm_90")
    said = "; ".join(map(str, lowered.choices[-1].actions))
    assert said.startswith(
        "split(l, 4); unroll(o, 4); unroll(n, 3); upcast(l.inner, 4); upcast(k, 8); local(l.outer, 32)"
    )
    wide = [i.result.dtype.lanes for i in lowered.programs[-1].body if isinstance(i, Load)]
    assert wide.count(4) == 10 + 3 * 4


def by_weights(stride: int = 1) -> Any:
    """The gradient of weights for each channel by itself, of images with their channels last."""

    def loss(w: Any, x: Any) -> Any:
        found = nn.conv2d(pn.permute_dims(x, (0, 3, 1, 2)), w, padding=1, groups=w.shape[0], stride=stride)
        return pn.sum(found.astype(pn.float32) ** 2)

    return pn.grad(loss)


def test_gradients_of_weights_of_channels_by_themselves_are_summed_up_in_parts() -> None:
    """A thread has all taps of a row, and some pixels of another, which share what they read; images are parts."""
    specs = pn.TensorSpec((144, 1, 3, 3), pn.bfloat16), pn.TensorSpec((64, 56, 56, 144), pn.bfloat16)
    lowered = compiler.lower(pn.jit(by_weights(2)).lower(*specs).function, "sm_90")
    said = ["; ".join(map(str, choice.actions)) for choice in lowered.choices]
    assert "unroll(n, 7); upcast(l, 2); upcast(k, 3); local(l.outer, 24); local(j, 3); group(m, 7)" in said, (
        said
    )
    assert not any(kernel.name.startswith("copy_9216") for kernel in lowered.plan.kernels)


SLIDES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "channels by themselves": (nhwc(padding=1, groups=16), (data(2, 8, 8, 16), data(16, 3, 3, 1))),
    "in rows": (lambda x, w: nn.conv2d(x, w, padding=1, groups=16), (data(2, 16, 8, 8), data(16, 1, 3, 3))),
    "small groups": (nhwc(padding=1, groups=4), (data(2, 8, 8, 16), data(16, 3, 3, 4))),
    "small groups with a stride": (
        nhwc(padding=1, groups=4, stride=2),
        (data(1, 9, 13, 8), data(8, 3, 3, 2)),
    ),
    "large windows": (nhwc(padding=3, groups=6), (data(1, 9, 11, 6), data(6, 7, 7, 1))),
    "windows with a stride": (nhwc(padding=2, groups=8, stride=2), (data(2, 14, 14, 8), data(8, 5, 5, 1))),
    "by weights": (by_weights(), (data(8, 1, 3, 3), data(2, 16, 16, 8))),
    "by weights with a stride": (by_weights(2), (data(4, 1, 3, 3), data(3, 24, 28, 4))),
    "many taps": (nhwc(padding=2, groups=4), (data(1, 8, 8, 16), data(16, 5, 5, 4))),
    "pool": (lambda x: nn.max_pool2d(x, 3, 2, 1), (data(2, 16, 9, 9),)),
}


@pytest.mark.parametrize("name", SLIDES)
def test_windows(name: str) -> None:
    function, arrays = SLIDES[name]
    traced = pn.jit(function).lower(*map(pn.asarray, arrays)).function
    (found,), (exact,) = (
        compiler.lower(traced, COPYING).interpreted()(*arrays),
        compiler.compile(traced)(*arrays),
    )
    np.testing.assert_allclose(found.astype(np.float64), exact.astype(np.float64), rtol=1e-2)


def test_everything_that_is_turned_is_read_through_tiles() -> None:
    x = pn.TensorSpec((16, 56, 56, 64), pn.bfloat16)
    scale = pn.TensorSpec((64, 1, 1), pn.float32)

    def function(x: Any, y: Any, scale: Any) -> Any:
        first, second = (pn.permute_dims(each, (0, 3, 1, 2)) for each in (x, y))
        return (first * scale + second).astype(pn.bfloat16)

    (choice,) = compiler.lower(pn.jit(function).lower(x, x, scale).function, "sm_90").choices
    assert sum("stage" in str(action) for action in choice.actions) == 2


@pytest.mark.slow
def test_products_of_threads_join_axes_too() -> None:
    arrays = data(2, 8, 8, 8, dtype=np.float32), data(32, 3, 3, 8, dtype=np.float32)
    traced = pn.jit(nhwc(padding=1)).lower(*map(pn.asarray, arrays)).function
    lowered = compiler.lower(traced, "sm_90")
    said = str(lowered.choices[-1].actions)
    assert "join" in said
    assert said.count("stage") == 2
    (found,), (exact,) = lowered.interpreted()(*arrays), compiler.compile(traced)(*arrays)
    np.testing.assert_array_equal(found, exact)

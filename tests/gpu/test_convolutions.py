"""Convolutions on a GPU: layouts, strides, groups, dtypes and gradients, held against float64 on the CPU by norm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn

GPU = "cuda:0"
BOUNDS = {"bfloat16": 4e-3, "float16": 5e-4, "float32": 1e-6}
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "3 x 3": ((8, 64, 28, 28), (64, 64, 3, 3), {"padding": 1}),
    "odd pixels": ((3, 32, 13, 11), (48, 32, 3, 3), {"padding": 1}),
    "strided": ((4, 64, 28, 28), (128, 64, 3, 3), {"padding": 1, "stride": 2}),
    "dilated": ((2, 64, 20, 20), (64, 64, 3, 3), {"padding": 2, "dilation": 2}),
    "few channels": ((4, 3, 64, 64), (32, 3, 7, 7), {"padding": 3, "stride": 2}),
    "one tap": ((4, 64, 14, 14), (256, 64, 1, 1), {}),
    "groups": ((4, 64, 28, 28), (64, 16, 3, 3), {"padding": 1, "groups": 4}),
    "depthwise": ((4, 64, 28, 28), (64, 1, 3, 3), {"padding": 1, "groups": 64}),
    "one image": ((1, 256, 14, 14), (256, 256, 3, 3), {"padding": 1}),
}


def given(name: str, dtype: str) -> list[Any]:
    rng = np.random.default_rng(len(name))
    x, w, _ = CASES[name]
    arrays = [rng.standard_normal(x), rng.standard_normal(w) / np.sqrt(np.prod(w[1:]))]
    return [pn.asarray(each.astype(np.float32)).astype(getattr(pn, dtype)) for each in arrays]


def error(function: Any, operands: list[Any]) -> float:
    there = pn.jit(function)(*(each.to_device(GPU) for each in operands)).astype(pn.float32)
    found = np.asarray(there, np.float64)
    exact = np.asarray(pn.jit(function)(*(each.astype(pn.float64) for each in operands)))
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("name", CASES)
def test_as_users_write_them(name: str, dtype: str) -> None:
    options = CASES[name][2]
    assert error(lambda x, w: nn.conv2d(x, w, **options), given(name, dtype)) < BOUNDS[dtype]


@pytest.mark.parametrize("name", ["3 x 3", "strided", "groups", "depthwise"])
def test_channels_last(name: str) -> None:
    options = CASES[name][2]

    def last(x: Any, w: Any) -> Any:
        found = nn.conv2d(pn.permute_dims(x, (0, 3, 1, 2)), pn.permute_dims(w, (0, 3, 1, 2)), **options)
        return pn.permute_dims(found, (0, 2, 3, 1))

    operands = [pn.permute_dims(each, (0, 2, 3, 1)) for each in given(name, "bfloat16")]
    assert error(last, operands) < BOUNDS["bfloat16"]


@pytest.mark.parametrize("by", [0, 1])
@pytest.mark.parametrize("name", ["3 x 3", "strided", "few channels", "groups"])
def test_gradients(name: str, by: int) -> None:
    options = CASES[name][2]

    def loss(x: Any, w: Any) -> Any:
        return pn.sum(nn.conv2d(x, w, **options))

    assert error(pn.grad(loss, by), given(name, "bfloat16")) < 2 * BOUNDS["bfloat16"]


def test_what_is_between_convolutions() -> None:
    """Normalisation by statistics, an activation, a pool and what is added, all in the order of the convolutions around them."""

    def network(x: Any, w: Any) -> Any:
        y = nn.conv2d(x, w, padding=1)
        y = y / (1 + pn.max(abs(y), axis=(0, 2, 3), keepdims=True))
        y = pn.maximum(y, 0) + x
        return nn.conv2d(nn.max_pool2d(y, 2), w, padding=1)

    assert error(network, given("3 x 3", "bfloat16")) < 3 * BOUNDS["bfloat16"]

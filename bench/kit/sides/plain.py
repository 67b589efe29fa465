"""The plain formulas in NumPy: a peer, the reference in float64, and what the other sides differ from."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..workloads import Array, Workload


def peer(name: str) -> Any:
    """A module that may not be installed, and need not have types."""
    return importlib.import_module(name)


class Left(Exception):
    """This side does not do that workload."""


class Numpy:
    """The plain formulas. In float64 it is also the reference."""

    name = "numpy"

    def __init__(self, threads: int = 1) -> None:
        self.tanh: Any = np.tanh
        self.sqrt: Any = np.sqrt
        self.abs: Any = np.abs

    def sum(self, x: Any, axis: int | None = None) -> Any:
        return x.sum(axis)

    def softmax(self, x: Any) -> Any:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def layernorm(self, x: Any, g: Any, b: Any) -> Any:
        d = x - x.mean(-1, keepdims=True)
        return d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * g + b

    def conv(self, x: Any, w: Any, stride: int, padding: int, groups: int) -> Any:
        o, c, r, s = w.shape
        x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
        windows = np.lib.stride_tricks.sliding_window_view(x, (r, s), (2, 3))[:, :, ::stride, ::stride]
        if groups > 1:
            return np.einsum("nchwrs,crs->nchw", windows, w[:, 0], optimize=True)
        n, _, oh, ow = windows.shape[:4]
        columns = windows.transpose(0, 1, 4, 5, 2, 3).reshape(n, c * r * s, oh * ow)
        return (w.reshape(o, -1) @ columns).reshape(n, o, oh, ow)

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        scores = q @ k.swapaxes(1, 2) * 0.125
        if causal:
            scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf).astype(scores.dtype)
        return self.softmax(scores) @ v

    def relu(self, x: Any) -> Any:
        return np.maximum(x, 0)

    def gelu(self, x: Any) -> Any:
        return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))

    def transpose(self, x: Any) -> Any:
        return np.ascontiguousarray(x.T)

    def take(self, t: Any, i: Any) -> Any:
        return t[i]

    def cumsum(self, x: Any) -> Any:
        return x.cumsum(1)

    def columns(self, x: Any, start: int, stop: int) -> Any:
        return x[:, start:stop]

    def reshape(self, x: Any, shape: tuple[int, ...]) -> Any:
        return x.reshape(shape)

    def permute(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.transpose(axes)

    def prepare(self, w: Workload, arrays: Sequence[Array]) -> Callable[[], Any]:
        if w.dtype != "f32":
            raise Left
        if w.gradient:
            return lambda: mlp_gradient(*arrays)
        return lambda: w.formula(self, *arrays)

    def as_numpy(self, result: Any) -> list[Array]:
        return [np.asarray(r) for r in result] if isinstance(result, (tuple, list)) else [np.asarray(result)]


def mlp_gradient(x: Array, w1: Array, b1: Array, w2: Array, b2: Array, w3: Array, b3: Array) -> list[Array]:
    """The gradient of the multi-layer perceptron's loss, by hand."""
    h1 = np.maximum(x @ w1 + b1, 0)
    h2 = np.maximum(h1 @ w2 + b2, 0)
    d3 = 2 * (h2 @ w3 + b3)
    d2 = (d3 @ w3.T) * (h2 > 0)
    d1 = (d2 @ w2.T) * (h1 > 0)
    return [x.T @ d1, d1.sum(0), h1.T @ d2, d2.sum(0), h2.T @ d3, d3.sum(0)]


class Reference(Numpy):
    """float64, for what the others are compared with."""

    def prepare(self, w: Workload, arrays: Sequence[Array]) -> Callable[[], Any]:
        rounded = arrays
        if w.dtype == "bf16":
            import ml_dtypes

            rounded = [a.astype(ml_dtypes.bfloat16) for a in arrays]
        given = [a.astype(np.float64) if a.dtype != np.int64 else a for a in rounded]
        return (lambda: mlp_gradient(*given)) if w.gradient else lambda: w.formula(self, *given)

"""torch, as it is and compiled, jax and tinygrad: formulas over tensors of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..workloads import Array, Workload
from .plain import Numpy, peer


class Torch(Numpy):
    name = "torch"
    compiled = False

    def __init__(self, threads: int) -> None:
        self.t = peer("torch")
        self.t.set_num_threads(threads)
        self.tanh, self.sqrt, self.abs = self.t.tanh, self.t.sqrt, self.t.abs

    def relu(self, x: Any) -> Any:
        return self.t.relu(x)

    def sum(self, x: Any, axis: int | None = None) -> Any:
        return x.sum() if axis is None else x.sum(axis)

    def softmax(self, x: Any) -> Any:
        return self.t.softmax(x, -1)

    def layernorm(self, x: Any, g: Any, b: Any) -> Any:
        return self.t.nn.functional.layer_norm(x, g.shape, g, b)

    def conv(self, x: Any, w: Any, stride: int, padding: int, groups: int) -> Any:
        return self.t.nn.functional.conv2d(x, w, None, stride, padding, 1, groups)

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        f = self.t.nn.functional.scaled_dot_product_attention
        return f(q[None], k[None], v[None], is_causal=causal)[0]

    def gelu(self, x: Any) -> Any:
        return self.t.nn.functional.gelu(x, approximate="tanh")

    def transpose(self, x: Any) -> Any:
        return x.T.contiguous()

    def cumsum(self, x: Any) -> Any:
        return x.cumsum(1)

    def permute(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.permute(axes)

    def prepare(self, w: Workload, arrays: Sequence[Array]) -> Callable[[], Any]:
        given = [self.t.from_numpy(a) for a in arrays]
        if w.dtype == "bf16":
            given = [a.to(self.t.bfloat16) for a in given]
        formula: Any = lambda *a: w.formula(self, *a)  # noqa: E731
        if self.compiled:
            formula = self.t.compile(formula)
        if w.gradient:
            wanted = [a.requires_grad_() for a in given[1:]]
            return lambda: self.t.autograd.grad(formula(given[0], *wanted), wanted)

        def run() -> Any:
            with self.t.inference_mode():
                return formula(*given)

        return run

    def as_numpy(self, result: Any) -> list[Array]:
        results = result if isinstance(result, (tuple, list)) else [result]
        return [r.detach().float().numpy() for r in results]


class Inductor(Torch):
    name = "inductor"
    compiled = True


class Jax(Numpy):
    name = "jax"

    def __init__(self, threads: int) -> None:
        self.j, self.np = peer("jax"), peer("jax.numpy")
        self.tanh, self.sqrt, self.abs = self.np.tanh, self.np.sqrt, self.np.abs

    def softmax(self, x: Any) -> Any:
        return self.j.nn.softmax(x, -1)

    def layernorm(self, x: Any, g: Any, b: Any) -> Any:
        d = x - x.mean(-1, keepdims=True)
        return d * self.j.lax.rsqrt((d * d).mean(-1, keepdims=True) + 1e-5) * g + b

    def conv(self, x: Any, w: Any, stride: int, padding: int, groups: int) -> Any:
        pads = ((padding, padding), (padding, padding))
        return self.j.lax.conv_general_dilated(x, w, (stride, stride), pads, feature_group_count=groups)

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        scores = q @ k.swapaxes(1, 2) * 0.125
        if causal:
            scores = self.np.where(self.np.tri(scores.shape[-1], dtype=bool), scores, -self.np.inf)
        return self.softmax(scores) @ v

    def relu(self, x: Any) -> Any:
        return self.j.nn.relu(x)

    def gelu(self, x: Any) -> Any:
        return self.j.nn.gelu(x, approximate=True)

    def transpose(self, x: Any) -> Any:
        return x.T

    def prepare(self, w: Workload, arrays: Sequence[Array]) -> Callable[[], Any]:
        given = [self.np.asarray(a) for a in arrays]
        if w.dtype == "bf16":
            given = [a.astype(self.np.bfloat16) for a in given]
        formula = lambda *a: w.formula(self, *a)  # noqa: E731
        if w.gradient:
            formula = self.j.grad(formula, argnums=tuple(range(1, len(given))))
        function = self.j.jit(formula)
        return lambda: self.j.block_until_ready(function(*given))

    def as_numpy(self, result: Any) -> list[Array]:
        results = result if isinstance(result, (tuple, list)) else [result]
        return [np.asarray(r.astype(self.np.float32)) for r in results]


class Tinygrad(Numpy):
    name = "tinygrad"

    def __init__(self, threads: int) -> None:
        self.tiny = peer("tinygrad")
        self.tensor, self.jit, self.dtypes = self.tiny.Tensor, self.tiny.TinyJit, self.tiny.dtypes
        self.tanh, self.sqrt, self.abs = self.tensor.tanh, self.tensor.sqrt, self.tensor.abs

    def relu(self, x: Any) -> Any:
        return x.relu()

    def sum(self, x: Any, axis: int | None = None) -> Any:
        return x.sum(axis)

    def softmax(self, x: Any) -> Any:
        return x.softmax(-1)

    def layernorm(self, x: Any, g: Any, b: Any) -> Any:
        return x.layernorm(eps=1e-5) * g + b

    def conv(self, x: Any, w: Any, stride: int, padding: int, groups: int) -> Any:
        return x.conv2d(w, groups=groups, stride=stride, padding=padding)

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        return q.scaled_dot_product_attention(k, v, is_causal=causal)

    def gelu(self, x: Any) -> Any:
        return 0.5 * x * (1 + (0.7978845608028654 * (x + 0.044715 * x * x * x)).tanh())

    def transpose(self, x: Any) -> Any:
        return x.transpose().contiguous()

    def cumsum(self, x: Any) -> Any:
        return x.cumsum(1)

    def permute(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.permute(axes)

    def prepare(self, w: Workload, arrays: Sequence[Array]) -> Callable[[], Any]:
        given = [self.tensor(a).realize() for a in arrays]
        if w.dtype == "bf16":
            given = [a.cast(self.dtypes.bfloat16).contiguous().realize() for a in given]
        if w.gradient:

            def gradient(*a: Any) -> Any:
                gradients = w.formula(self, *a).gradient(*a[1:])
                self.tensor.realize(*gradients)
                return gradients

            function = self.jit(gradient)
        else:
            function = self.jit(lambda *a: w.formula(self, *a).realize())

        def run() -> Any:
            result = function(*given)
            self.tiny.Device["CPU"].synchronize()
            return result

        return run

    def as_numpy(self, result: Any) -> list[Array]:
        results = result if isinstance(result, (tuple, list)) else [result]
        return [r.cast(self.dtypes.float32).numpy() for r in results]

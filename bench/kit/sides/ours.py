"""planish: scheduled by the heuristic, or by what a search has found."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..workloads import Array, Workload
from .plain import Numpy


class Planish(Numpy):
    """By the heuristic."""

    name = "planish"
    changes: dict[str, Any] = {}
    """Settings besides the number of threads."""

    def __init__(self, threads: int | None = None) -> None:
        import planish

        self.pn = planish
        self.tanh, self.sqrt, self.abs = planish.tanh, planish.sqrt, planish.abs
        if threads is not None:
            planish.settings(threads=threads, **self.changes).__enter__()

    def sum(self, x: Any, axis: int | None = None) -> Any:
        return self.pn.sum(x, axis=axis)

    def softmax(self, x: Any) -> Any:
        return self.pn.nn.softmax(x, axis=-1)

    def layernorm(self, x: Any, g: Any, b: Any) -> Any:
        return self.pn.nn.functional.layer_norm(x, (x.shape[-1],), g, b)

    def conv(self, x: Any, w: Any, stride: int, padding: int, groups: int) -> Any:
        return self.pn.nn.functional.conv2d(x, w, stride=stride, padding=padding, groups=groups)

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        scores = q @ k.mT * 0.125
        if causal:
            i = self.pn.arange(scores.shape[-1])
            scores = self.pn.where(i[:, None] >= i[None, :], scores, -self.pn.inf)
        return self.softmax(scores) @ v

    def relu(self, x: Any) -> Any:
        return self.pn.nn.relu(x)

    def gelu(self, x: Any) -> Any:
        return 0.5 * x * (1 + self.pn.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))

    def transpose(self, x: Any) -> Any:
        return x.mT

    def take(self, t: Any, i: Any) -> Any:
        return self.pn.take(t, i, axis=0)

    def cumsum(self, x: Any) -> Any:
        return self.pn.cumulative_sum(x, axis=1)

    def permute(self, x: Any, axes: tuple[int, ...]) -> Any:
        return self.pn.permute_dims(x, axes)

    def function(self, w: Workload, arrays: Sequence[Array]) -> tuple[Any, list[Any]]:
        """A workload to be compiled, and what it is called with."""
        given = [self.pn.asarray(a) for a in arrays]
        if w.dtype == "bf16":
            given = [self.pn.astype(a, self.pn.bfloat16) for a in given]
            self.pn.realize(*given)
        formula = lambda *a: w.formula(self, *a)  # noqa: E731 - a parameter is needed
        if w.gradient:
            formula = self.pn.grad(formula, argnums=tuple(range(1, len(given))))
        return self.pn.jit(formula), given

    def prepare(self, w: Workload, arrays: Sequence[Array]) -> Callable[[], Any]:
        function, given = self.function(w, arrays)
        return lambda: function(*given)

    def as_numpy(self, result: Any) -> list[Array]:
        results = result if isinstance(result, (tuple, list)) else [result]
        return [np.asarray(self.pn.astype(r, self.pn.float32).numpy()) for r in results]


class Tuned(Planish):
    """The same with the winners of searches that were made before; where there is none, the heuristic."""

    name = "tuned"
    changes: dict[str, Any] = {"beam": 1, "deterministic": True}


class Tuner(Planish):
    """Searches, and computes nothing: `prepare` looks for better schedules for all kernels of a workload, and keeps them."""

    name = "tuner"

    def __init__(self, threads: int) -> None:
        import planish
        from planish.compiler.campaign import Campaign

        super().__init__(threads)
        width, each, total = json.loads(os.environ["BENCH_SEARCH"])
        self.campaign = Campaign(total, told=tell)
        self.search = planish.settings(beam=width, beam_budget=each)

    def prepare(self, w: Workload, arrays: Sequence[Array]) -> Callable[[], Any]:
        known = len(self.campaign.kernels)
        function, given = self.function(w, arrays)
        with self.search, self.campaign:
            function.lower(*given).compile()
        kernels = self.campaign.kernels[known:]
        return lambda: [dataclasses.asdict(kernel) for kernel in kernels]


def tell(kernel: str, progress: Any) -> None:
    """A line for whoever waits: how far a search is."""
    gain = progress.baseline / progress.best if 0 < progress.best < float("inf") else 1.0
    print("~" + json.dumps({"kernel": kernel, "gain": max(gain, 1.0)}), flush=True)

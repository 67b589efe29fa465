"""The functions whose fusion is promised: each as PTIR, with inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planish import ptir
from planish.ptir.graph_value import GraphValue

Array = NDArray[Any]
Build = Callable[..., GraphValue | tuple[GraphValue, ...]]


class Program(NamedTuple):
    """A function and arrays to call it with."""

    function: ptir.Function
    arrays: list[Array]


def data(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    """Numbers of an ordinary size."""
    rng = np.random.default_rng([seed, *shape])
    if np.dtype(dtype).kind in "iu":
        return rng.integers(-50, 50, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def program(build: Build, *arrays: Array) -> Program:
    """The function that `build` makes of inputs like these arrays."""
    graph = ptir.Graph("f")
    inputs = [
        graph.input(f"x{number}", ptir.tensor(str(array.dtype), array.shape))
        for number, array in enumerate(arrays)
    ]
    built = build(graph, *inputs)
    return Program(graph.build(*(built if isinstance(built, tuple) else (built,))), list(arrays))


def like(small: GraphValue, big: GraphValue) -> GraphValue:
    """Broadcast."""
    return small.broadcast_like(big)


def softmax(x: GraphValue, axis: int = -1) -> GraphValue:
    axis %= len(x.type.dims)
    e = x.sub(like(x.reduce_max([axis], keepdims=True), x)).exp()
    return e.div(like(e.reduce_sum([axis], keepdims=True), e))


def mean(x: GraphValue) -> GraphValue:
    last = len(x.type.dims) - 1
    total = x.reduce_sum([last], keepdims=True)
    size = x.type.dims[-1]
    assert isinstance(size, int)
    return total.mul(1 / size)


def layernorm(x: GraphValue, gamma: GraphValue, beta: GraphValue) -> GraphValue:
    centred = x.sub(like(mean(x), x))
    variance = mean(centred.mul(centred))
    scale = variance.add(1e-5).rsqrt()
    return centred.mul(like(scale, x)).mul(like(gamma, x)).add(like(beta, x))


def rmsnorm(x: GraphValue, gamma: GraphValue) -> GraphValue:
    return x.mul(like(mean(x.mul(x)).add(1e-5).rsqrt(), x)).mul(like(gamma, x))


def gelu(x: GraphValue) -> GraphValue:
    return x.mul(0.5).mul(x.mul(0.7071067811865476).erf().add(1.0))


def attention(q: GraphValue, k: GraphValue, v: GraphValue, mask: GraphValue | None = None) -> GraphValue:
    rank = len(q.type.dims)
    order = (*range(rank - 2), rank - 1, rank - 2)
    scores = (q @ k.transpose(order)).mul(0.125)
    if mask is not None:
        scores = mask.select(scores, like(mask_value(scores), scores))
    return softmax(scores) @ v


def mask_value(scores: GraphValue) -> GraphValue:
    return scores.graph.full((1,), -1e30, "float32")


def causal(graph: ptir.Graph, q: GraphValue, k: GraphValue, v: GraphValue) -> GraphValue:
    rank = len(q.type.dims)
    dims = (*q.type.dims[:-1], k.type.dims[-2])
    return attention(q, k, v, graph.iota(dims, rank - 2).ge(graph.iota(dims, rank - 1)))


def sequence(values: Sequence[GraphValue]) -> GraphValue:
    total = values[0]
    for value in values[1:]:
        total = total.add(value)
    return total

"""Random numbers.

With a seed they are a constant of the model: those of NumPy's legacy generator, as in ONNX's own reference. Without one they are
drawn anew on every run, so that a model with them is not kept as one function.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from planish import dtypes
from planish.onnx.ops.common import Array, kind, number, numpy_kind, outputs, sizes
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library import normalize

Make = Callable[[np.random.RandomState], Array]


def drawn(at: NodeSite, make: Make) -> V:
    """What a generator makes: a constant if the node has a seed, else new on every run."""
    seed = at.attr("seed")
    if seed is not None:
        return at.value(make(np.random.RandomState(int(seed))))
    return at.engine.fresh(lambda: make(np.random.RandomState()))


def _uniform(at: NodeSite, shape: list[int], dtype: np.dtype[np.generic]) -> V:
    low, high = at.attr("low", 0.0), at.attr("high", 1.0)
    return drawn(at, lambda source: (source.rand(*shape) * (high - low) + low).astype(dtype))


def _normal(at: NodeSite, shape: list[int], dtype: np.dtype[np.generic]) -> V:
    mean, scale = at.attr("mean", 0.0), at.attr("scale", 1.0)
    return drawn(at, lambda source: (source.randn(*shape) * scale + mean).astype(dtype))


def _random(name: str, draw: Callable[[NodeSite, list[int], np.dtype[np.generic]], V]) -> None:
    def of_shape(at: NodeSite) -> V:
        return draw(at, at.attributes.require("shape"), numpy_kind(at, at.attr("dtype", 1)))

    def like(at: NodeSite, x: V) -> V:
        to = at.attr("dtype")
        return draw(at, sizes(at, x), numpy_kind(at, to) if to else x.dtype.numpy)

    op(f"Random{name}")(of_shape)
    op(f"Random{name}Like")(like)


_random("Uniform", _uniform)
_random("Normal", _normal)


@op("Bernoulli")
def bernoulli(at: NodeSite, x: V) -> V:
    """True as often as the input says."""
    to, dims, dtype = at.attr("dtype"), sizes(at, x), x.dtype.numpy
    chances = drawn(at, lambda source: source.uniform(0.0, 1.0, dims).astype(dtype))
    return chances.lt(x).cast(kind(at, to) if to else x.dtype)


@op("Multinomial")
def multinomial(at: NodeSite, x: V) -> V:
    """Classes by their unnormalised log probabilities: where the running sum of shares passes a random number."""
    dtype, count = kind(at, at.attr("dtype", 6)), at.attr("sample_size", 1)
    batch, classes = sizes(at, x)
    edges = normalize.softmax(normalize.widened(x), 1).cumsum(1)
    chances = drawn(at, lambda source: source.uniform(size=(batch, count)).astype(edges.dtype.numpy))
    dims = (batch, count, classes)
    passed = edges.expand_dims(1).broadcast_to(dims).le(chances.expand_dims(2).broadcast_to(dims))
    return passed.cast(dtypes.int64).reduce_sum([2]).min(classes - 1).cast(dtype)


def _dropped(at: NodeSite, x: V, ratio: float, training: bool) -> tuple[V, V]:
    if not training or ratio == 0:
        at.attr("seed")
        return x, at.graph.full(x.dims, True, dtypes.bool_)
    dims = sizes(at, x)
    kept = drawn(at, lambda source: source.uniform(0.0, 1.0, dims) >= ratio)
    return kept.select(x.mul(1 / (1 - ratio)), 0), kept


@op("Dropout")
def dropout_early(at: NodeSite, x: V) -> V | tuple[V, V]:
    ratio = at.attr("ratio", 0.5)
    training = at.version < 7 and not at.attr("is_test", 0)
    result, mask = _dropped(at, x, ratio, training)
    if outputs(at) < 2:
        return result
    # Before opset 10 the mask had the type of the data.
    return result, mask if at.version >= 10 else mask.cast(x.dtype)


@op("Dropout", since=12, known=(1, 2))
def dropout(at: NodeSite, x: V, ratio: Array | None = None, training: Array | None = None) -> tuple[V, V]:
    share = 0.5 if ratio is None else float(number(ratio))
    return _dropped(at, x, share, training is not None and bool(number(training)))

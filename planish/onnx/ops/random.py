"""Random numbers.

With a seed they are a constant of the model: those of NumPy's legacy generator, as in ONNX's own reference. Without one they are
drawn anew on every run, so that a model with them is not kept as one function.
"""

from __future__ import annotations

import numpy as np

from planish.onnx.engine import At, CannotTrace
from planish.onnx.ops.common import Array, Tensor, number, numpy_kind, outputs, sizes
from planish.onnx.registry import op
from planish.ptir.graph_value import GraphValue as V


def source(at: At) -> np.random.RandomState:
    """The generator of a node."""
    seed = at.attr("seed")
    if seed is not None:
        return np.random.RandomState(int(seed))
    if at.engine.execute is None or at.engine.depth:
        raise CannotTrace(f"{at.node.op_type} draws new numbers on every run")
    return np.random.RandomState()


def _uniform(at: At, shape: list[int], dtype: np.dtype[np.generic]) -> Array:
    low, high = at.attr("low", 0.0), at.attr("high", 1.0)
    return (source(at).rand(*shape) * (high - low) + low).astype(dtype)


def _normal(at: At, shape: list[int], dtype: np.dtype[np.generic]) -> Array:
    mean, scale = at.attr("mean", 0.0), at.attr("scale", 1.0)
    return (source(at).randn(*shape) * scale + mean).astype(dtype)


for _name, _draw in (("Uniform", _uniform), ("Normal", _normal)):
    op(f"Random{_name}")(
        lambda at, draw=_draw: draw(
            at, at.attributes.require("shape"), numpy_kind(at, at.attr("dtype", 1))
        )
    )
    op(f"Random{_name}Like")(
        lambda at, x, draw=_draw: draw(
            at, sizes(at, x), numpy_kind(at, at.attr("dtype")) if at.attr("dtype") else x.dtype.numpy
        )
    )


@op("Bernoulli")
def bernoulli(at: At, x: V) -> V:
    """True as often as the input says."""
    to = at.attr("dtype")
    from planish.onnx.ops.common import kind

    dtype = kind(at, to) if to else x.dtype
    drawn = at.value(source(at).uniform(0.0, 1.0, sizes(at, x)).astype(x.dtype.numpy))
    return drawn.lt(x).cast(dtype)


@op("Multinomial", host=True)
def multinomial(at: At, x: Array) -> Array:
    """Classes by their unnormalised log probabilities."""
    dtype = numpy_kind(at, at.attr("dtype", 6))
    count = at.attr("sample_size", 1)
    shares = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    edges = np.cumsum(shares / shares.sum(1, keepdims=True), 1)
    drawn = source(at).uniform(size=(len(x), count))
    found = [np.minimum(np.searchsorted(e, d, side="right"), x.shape[1] - 1) for e, d in zip(edges, drawn, strict=True)]
    return np.array(found).astype(dtype).reshape(len(x), count)


def _dropped(at: At, x: V, ratio: float, training: bool) -> tuple[V, Tensor]:
    if not training or ratio == 0:
        at.attr("seed")
        return x, at.graph.full(x.dims, True, "bool")
    kept = at.value(source(at).uniform(0.0, 1.0, sizes(at, x)) >= ratio)
    return kept.select(x.mul(1 / (1 - ratio)), 0), kept


@op("Dropout")
def dropout_early(at: At, x: V) -> V | tuple[V, Tensor]:
    at.attr("consumed_inputs")
    ratio = at.attr("ratio", 0.5)
    training = at.version < 7 and not at.attr("is_test", 0)
    result, mask = _dropped(at, x, ratio, training)
    if outputs(at) < 2:
        return result
    # Before opset 10 the mask had the type of the data.
    return result, mask if at.version >= 10 or isinstance(mask, np.ndarray) else mask.cast(x.dtype)


@op("Dropout", since=12, known=(1, 2))
def dropout(at: At, x: V, ratio: Array | None = None, training: Array | None = None) -> tuple[V, Tensor]:
    share = 0.5 if ratio is None else float(number(ratio))
    return _dropped(at, x, share, training is not None and bool(number(training)))

"""Activation functions, element by element: one definition for the Tensor API, ONNX and whoever builds graphs.

Constants are those of the papers and of PyTorch and ONNX. Corners are written as choices, so that the slope there is the slope
of one side: the left one (0 for relu at 0, `slope` for leaky_relu). What a branch would compute for the elements of the other
is kept finite, since 0 · inf is not 0.
"""

from __future__ import annotations

import math

from planish.dtypes import float16
from planish.ptir.graph_value import GraphValue


def relu(x: GraphValue) -> GraphValue:
    """max(x, 0); NaN stays NaN."""
    return _of(x.le(0), 0, x)


def _of(where: GraphValue, number: float, x: GraphValue) -> GraphValue:
    """A number where the condition holds, else x."""
    return where.select(x.graph.full(x.dims, number, x.dtype), x)


def leaky_relu(x: GraphValue, slope: float = 0.01) -> GraphValue:
    """x where it is positive, else slope·x."""
    return x.gt(0).select(x, x.mul(slope))


def sigmoid(x: GraphValue) -> GraphValue:
    """1 / (1 + exp(-x))."""
    return x.sigmoid()


def log_sigmoid(x: GraphValue) -> GraphValue:
    """log(sigmoid(x)) without overflow: -softplus(-x)."""
    return softplus(x.neg()).neg()


def silu(x: GraphValue) -> GraphValue:
    """x · sigmoid(x), also called swish."""
    return x.mul(x.sigmoid())


def softplus(x: GraphValue, beta: float = 1.0, threshold: float | None = None) -> GraphValue:
    """log(1 + exp(beta·x)) / beta; x itself where beta·x is above the threshold.

    Without one: from where on that is x to the last bit, and exp still a number.
    """
    scaled = x if beta == 1.0 else x.mul(beta)
    linear = scaled.gt((10.0 if x.dtype is float16 else 40.0) if threshold is None else threshold)
    grown = _of(linear, 0.0, scaled).exp().log1p()
    return linear.select(x, grown if beta == 1.0 else grown.div(beta))


def mish(x: GraphValue, threshold: float | None = None) -> GraphValue:
    """x · tanh(softplus(x))."""
    return x.mul(softplus(x, threshold=threshold).tanh())


def softsign(x: GraphValue) -> GraphValue:
    """x / (1 + |x|)."""
    return x.div(x.abs().add(1))


def gelu(x: GraphValue, approximate: str = "none") -> GraphValue:
    """x·Φ(x) by erf (`"none"`), or by tanh (`"tanh"`)."""
    if approximate == "tanh":
        cubic = x.mul(x).mul(x).mul(0.044715)
        return x.mul(0.5).mul(x.add(cubic).mul(math.sqrt(2 / math.pi)).tanh().add(1))
    return x.mul(0.5).mul(x.mul(math.sqrt(0.5)).erf().add(1))


def elu(x: GraphValue, alpha: float = 1.0) -> GraphValue:
    """x where it is positive, else alpha·(exp(x) - 1)."""
    positive = x.gt(0)
    return positive.select(x, _of(positive, 0.0, x).expm1().mul(alpha))


def celu(x: GraphValue, alpha: float = 1.0) -> GraphValue:
    """x where it is positive, else alpha·(exp(x/alpha) - 1)."""
    positive = x.gt(0)
    return positive.select(x, _of(positive, 0.0, x).div(alpha).expm1().mul(alpha))


def selu(x: GraphValue, alpha: float = 1.6732632423543772, scale: float = 1.0507009873554805) -> GraphValue:
    """scale · elu(x, alpha): such that mean 0 and variance 1 reproduce themselves."""
    return elu(x, alpha).mul(scale)


def hard_sigmoid(x: GraphValue, alpha: float = 1 / 6, beta: float = 0.5) -> GraphValue:
    """alpha·x + beta, clamped to 0 … 1."""
    line = x.mul(alpha).add(beta)
    return _of(line.le(0), 0.0, _of(line.ge(1), 1.0, line))


def hard_swish(x: GraphValue) -> GraphValue:
    """x · hard_sigmoid(x)."""
    return _of(x.le(-3), 0.0, x.ge(3).select(x, x.mul(x.add(3)).div(6)))


__all__ = [
    "celu", "elu", "gelu", "hard_sigmoid", "hard_swish", "leaky_relu", "log_sigmoid", "mish", "relu", "selu",
    "sigmoid", "silu", "softplus", "softsign",
]  # fmt: skip

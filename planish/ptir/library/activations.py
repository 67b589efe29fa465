"""Activation functions, element by element. Constants are those of the papers and of PyTorch and ONNX."""

from __future__ import annotations

import math

from planish.ptir.graph_value import GraphValue


def relu(x: GraphValue) -> GraphValue:
    """max(x, 0); NaN stays NaN."""
    return x.max(0)


def leaky_relu(x: GraphValue, slope: float = 0.01) -> GraphValue:
    """x where it is not negative, else slope·x."""
    return x.ge(0).select(x, x.mul(slope))


def sigmoid(x: GraphValue) -> GraphValue:
    """1 / (1 + exp(-x))."""
    return x.sigmoid()


def log_sigmoid(x: GraphValue) -> GraphValue:
    """log(sigmoid(x)) without overflow: -softplus(-x)."""
    return softplus(x.neg()).neg()


def silu(x: GraphValue) -> GraphValue:
    """x · sigmoid(x), also called swish."""
    return x.mul(x.sigmoid())


def softplus(x: GraphValue) -> GraphValue:
    """log(1 + exp(x)) without overflow: max(x, 0) + log1p(exp(-|x|))."""
    return x.max(0).add(x.abs().neg().exp().log1p())


def mish(x: GraphValue) -> GraphValue:
    """x · tanh(softplus(x))."""
    return x.mul(softplus(x).tanh())


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
    return x.gt(0).select(x, x.min(0).expm1().mul(alpha))


def celu(x: GraphValue, alpha: float = 1.0) -> GraphValue:
    """x where it is positive, else alpha·(exp(x/alpha) - 1)."""
    return x.gt(0).select(x, x.min(0).div(alpha).expm1().mul(alpha))


def selu(x: GraphValue, alpha: float = 1.6732632423543772, scale: float = 1.0507009873554805) -> GraphValue:
    """scale · elu(x, alpha)."""
    return elu(x, alpha).mul(scale)


def hard_sigmoid(x: GraphValue, alpha: float = 1 / 6, beta: float = 0.5) -> GraphValue:
    """alpha·x + beta, clamped to 0 … 1."""
    return x.mul(alpha).add(beta).clamp(0, 1)


def hard_swish(x: GraphValue) -> GraphValue:
    """x · hard_sigmoid(x)."""
    return x.mul(hard_sigmoid(x))


__all__ = [
    "celu",
    "elu",
    "gelu",
    "hard_sigmoid",
    "hard_swish",
    "leaky_relu",
    "log_sigmoid",
    "mish",
    "relu",
    "selu",
    "sigmoid",
    "silu",
    "softplus",
    "softsign",
]

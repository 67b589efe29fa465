"""Activation functions: tables of names, formulas and defaults of their attributes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from planish import dtypes
from planish.onnx.ops.common import axis_of
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library import activations as act
from planish.ptir.library import normalize
from planish.ptir.library.normalize import converted
from planish.ptir.types import DimLike


def thresholded(x: V, alpha: float) -> V:
    """x above alpha, else 0."""
    return x.gt(alpha).select(x, 0)


def swish(x: V, alpha: float = 1.0) -> V:
    """x · sigmoid(alpha·x)."""
    return x.mul((x if alpha == 1.0 else x.mul(alpha)).sigmoid())


_PLAIN: dict[str, Callable[[V], V]] = {
    "Relu": act.relu, "Sigmoid": V.sigmoid, "Softplus": act.softplus, "Softsign": act.softsign, "Mish": act.mish,
    "HardSwish": act.hard_swish,
}  # fmt: skip
_ALPHA: dict[str, tuple[Callable[[V, float], V], float]] = {
    "LeakyRelu": (act.leaky_relu, 0.01), "Elu": (act.elu, 1.0), "Celu": (act.celu, 1.0), "ThresholdedRelu": (thresholded, 1.0),
    "Swish": (swish, 1.0),
}  # fmt: skip


def wide(function: Callable[[V], V], x: V) -> V:
    """A formula of several steps, for narrow floats in float32 and rounded once."""
    return converted(function(normalize.widened(x)), x.dtype) if x.dtype.is_float else function(x)


def _plain(function: Callable[[V], V], at: NodeSite, x: V) -> V:
    return wide(function, x)


def _alpha(function: Callable[[V, float], V], default: float, at: NodeSite, x: V) -> V:
    alpha = at.attr("alpha", default)
    return wide(lambda v: function(v, alpha), x)


for _name, _function in _PLAIN.items():
    op(_name)(partial(_plain, _function))
for _name, (_scaled, _default) in _ALPHA.items():
    op(_name)(partial(_alpha, _scaled, _default))


@op("Selu")
def selu(at: NodeSite, x: V) -> V:
    early = at.version < 6
    alpha = at.attr("alpha", 1.6732 if early else 1.67326319217681884765625)
    gamma = at.attr("gamma", 1.0507 if early else 1.05070102214813232421875)
    return wide(lambda v: act.selu(v, alpha, gamma), x)


@op("HardSigmoid")
def hard_sigmoid(at: NodeSite, x: V) -> V:
    alpha, beta = at.attr("alpha", 0.2), at.attr("beta", 0.5)
    return wide(lambda v: act.hard_sigmoid(v, alpha, beta), x)


@op("Gelu")
def gelu(at: NodeSite, x: V) -> V:
    how = at.attr("approximate", "none")
    if how not in ("none", "tanh"):
        raise at.refuse(f"there is no approximation {how!r}")
    return wide(lambda v: act.gelu(v, how), x)


# -- along an axis ---------------------------------------------------------------------------------------------------


def hardmax(x: V, axis: int) -> V:
    """1 at the first largest, else 0."""
    best = x.argmax(axis, keepdims=True).broadcast_to(x.dims)
    return x.graph.iota(x.dims, axis, dtypes.int64).eq(best).cast(x.dtype)


def _softmax(x: V, axis: int) -> V:
    """Narrow floats are rounded after every step, as the function that defines the op does."""
    if x.dtype.bits >= 32:
        return normalize.softmax(x, axis)
    grown = x.sub(x.reduce_max([axis], keepdims=True).broadcast_like(x)).exp()
    return grown.div(grown.reduce_sum([axis], keepdims=True).broadcast_like(x))


def _flattened(function: Callable[[V, int], V], at: NodeSite, x: V) -> V:
    """Before opset 13: all axes from `axis` on are one."""
    axis = axis_of(at, at.attr("axis", 1), x.rank)
    if axis == x.rank - 1:
        return function(x, axis)
    one: DimLike = 1
    left, right = math.prod(x.dims[:axis], start=one), math.prod(x.dims[axis:], start=one)
    return function(x.reshape((left, right)), 1).reshape(x.dims)


def _along(function: Callable[[V, int], V], at: NodeSite, x: V) -> V:
    return function(x, axis_of(at, at.attr("axis", -1), x.rank))


for _name, _row in {
    "Softmax": _softmax,
    "LogSoftmax": normalize.log_softmax,
    "Hardmax": hardmax,
}.items():
    op(_name)(partial(_flattened, _row))
    op(_name, since=13)(partial(_along, _row))

"""Elementwise ops: arithmetic, comparisons, bits and logic, with the broadcasting of each opset version."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

import numpy as np

from planish import dtypes
from planish.onnx.ops.common import Tensor, host_arrays, scalar, spread
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.normalize import converted
from planish.ptir.library.shaping import broadcast_together

_UNARY = {
    "Abs": V.abs, "Neg": V.neg, "Floor": V.floor, "Ceil": V.ceil, "Round": V.round, "Sqrt": V.sqrt, "Exp": V.exp, "Log": V.log,
    "Reciprocal": V.reciprocal, "Sign": V.sign, "Sin": V.sin, "Cos": V.cos, "Tan": V.tan, "Asin": V.asin, "Acos": V.acos,
    "Atan": V.atan, "Sinh": V.sinh, "Cosh": V.cosh, "Tanh": V.tanh, "Asinh": V.asinh, "Acosh": V.acosh, "Atanh": V.atanh,
    "Erf": V.erf, "Not": V.not_, "BitwiseNot": V.not_, "IsNaN": V.is_nan,
}  # fmt: skip


def quotient(x: V, y: V) -> V:
    """Integers are divided towards zero."""
    return x.trunc_div(y) if x.dtype.is_int else x.div(y)


_BINARY = {
    "Add": V.add, "Sub": V.sub, "Mul": V.mul, "Div": quotient, "And": V.and_, "Or": V.or_, "Xor": V.xor, "BitwiseAnd": V.and_,
    "BitwiseOr": V.or_, "BitwiseXor": V.xor, "Equal": V.eq, "Less": V.lt, "LessOrEqual": V.le, "Greater": V.gt,
    "GreaterOrEqual": V.ge,
}  # fmt: skip


def power(x: V, y: V) -> V:
    """x ** y in the dtype of x, whatever that of y."""
    if x.dtype is y.dtype:
        return x.pow(y)
    if x.dtype.is_float:
        wide = dtypes.float64 if dtypes.float64 in (x.dtype, y.dtype) else dtypes.float32
        return converted(converted(x, wide).pow(converted(y, wide)), x.dtype)
    wide = dtypes.float64 if y.dtype.is_float else dtypes.int64
    return converted(converted(x, wide).pow(converted(y, wide)), x.dtype)


def aligned(at: NodeSite, x: V, y: V) -> V:
    """y for every element of x by the rule before opset 7: `broadcast` allows it, `axis` says where y begins in x."""
    axis = at.attr("axis")
    if not at.attr("broadcast", 0):
        return y
    start = x.rank - y.rank if axis is None else axis % x.rank
    return y.reshape((*[1] * start, *y.dims, *[1] * (x.rank - start - y.rank))).broadcast_to(x.dims)


def _unary(function: Callable[[V], V], at: NodeSite, x: V) -> V:
    return function(x)


def _binary(function: Callable[[V, V], V], at: NodeSite, x: V, y: V) -> V:
    return function(*broadcast_together(x, y))


def _aligned(function: Callable[[V, V], V], at: NodeSite, x: V, y: V) -> V:
    return function(x, aligned(at, x, y))


def _variadic(function: Callable[[V, V], V], at: NodeSite, *xs: V) -> V:
    return reduce(function, broadcast_together(*xs))


for _name, _function in _UNARY.items():
    op(_name)(partial(_unary, _function))
for _name, _pair in {**_BINARY, "Pow": power}.items():
    op(_name)(partial(_aligned, _pair))
    op(_name, since=7)(partial(_binary, _pair))
for _name, _pair in {"Sum": V.add, "Max": V.max, "Min": V.min}.items():
    op(_name)(partial(_variadic, _pair))


@op("Equal", since=7, known=host_arrays)
def equal(at: NodeSite, x: Tensor, y: Tensor) -> Tensor:
    """Of text too, on the host."""
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        return np.asarray(np.equal(x, y), np.bool_)
    a, b = broadcast_together(at.value(x), at.value(y))
    return a.eq(b)


@op("Mean")
def mean(at: NodeSite, *xs: V) -> V:
    return _variadic(V.add, at, *xs).div(float(len(xs)))


@op("Mod")
def mod(at: NodeSite, x: V, y: V) -> V:
    a, b = broadcast_together(x, y)
    return a.trunc_mod(b) if at.attr("fmod", 0) else a.floor_mod(b)


@op("BitShift")
def bit_shift(at: NodeSite, x: V, y: V) -> V:
    a, b = broadcast_together(x, y)
    way = at.attr("direction")
    if way == "LEFT":
        return a.shl(b)
    if way != "RIGHT":
        raise at.refuse(f"there is no direction {way!r}")
    return a.shr_arithmetic(b) if a.dtype.is_signed else a.shr_logical(b)


@op("Where")
def where(at: NodeSite, condition: V, x: V, y: V) -> V:
    chosen, a, b = broadcast_together(condition, x, y)
    return chosen.select(a, b)


@op("IsInf")
def is_inf(at: NodeSite, x: V) -> V:
    below, above = at.attr("detect_negative", 1), at.attr("detect_positive", 1)
    infinite = x.is_inf()
    if below and above:
        return infinite
    if not below and not above:
        return at.graph.full(x.dims, False, dtypes.bool_)
    return infinite.and_(x.gt(0) if above else x.lt(0))


@op("Clip")
def clip_between(at: NodeSite, x: V) -> V:
    low, high = at.attr("min"), at.attr("max")
    x = x if low is None else x.max(low)
    return x if high is None else x.min(high)


@op("Clip", since=11)
def clip(at: NodeSite, x: V, low: V | None = None, high: V | None = None) -> V:
    x = x if low is None else x.max(spread(low, x))
    return x if high is None else x.min(spread(high, x))


@op("PRelu")
def prelu_channels(at: NodeSite, x: V, slope: V) -> V:
    if slope.rank == 1 and slope.dims[0] != 1 and x.rank > 1:
        slope = slope.reshape((*slope.dims, *[1] * (x.rank - 2)))
    elif slope.type.size == 1:
        slope = scalar(slope)
    return _prelu(x, slope.broadcast_to(x.dims))


@op("PRelu", since=7)
def prelu(at: NodeSite, x: V, slope: V) -> V:
    return _prelu(x, slope.broadcast_to(x.dims))


def _prelu(x: V, slope: V) -> V:
    return x.lt(0).select(x.mul(slope), x)

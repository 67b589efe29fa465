"""Elementwise ops."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from planish.onnx.engine import At
from planish.onnx.ops.broadcasting import together
from planish.onnx.registry import op
from planish.ptir.graph_value import GraphValue as V

_UNARY = {
    "Abs": V.abs, "Neg": V.neg, "Floor": V.floor, "Ceil": V.ceil, "Round": V.round, "Sqrt": V.sqrt, "Exp": V.exp, "Log": V.log,
    "Reciprocal": V.reciprocal, "Sign": V.sign, "Sin": V.sin, "Cos": V.cos, "Tan": V.tan, "Asin": V.asin, "Acos": V.acos,
    "Atan": V.atan, "Sinh": V.sinh, "Cosh": V.cosh, "Tanh": V.tanh, "Asinh": V.asinh, "Acosh": V.acosh, "Atanh": V.atanh,
    "Erf": V.erf, "Not": V.not_, "BitwiseNot": V.not_, "IsNaN": V.is_nan,
}  # fmt: skip
_BINARY = {
    "Add": V.add, "Sub": V.sub, "Mul": V.mul, "And": V.and_, "Or": V.or_, "Xor": V.xor, "BitwiseAnd": V.and_,
    "BitwiseOr": V.or_, "BitwiseXor": V.xor, "Equal": V.eq, "Less": V.lt, "LessOrEqual": V.le, "Greater": V.gt,
    "GreaterOrEqual": V.ge,
}  # fmt: skip


def _unary(name: str, function: Callable[[V], V]) -> None:
    op(name, since=6)(lambda at, x: function(x))


def _binary(name: str, function: Callable[[V, V], V]) -> None:
    op(name, since=7)(lambda at, x, y: function(*together(x, y)))


for _name, _function in _UNARY.items():
    _unary(_name, _function)
for _name, _pair in _BINARY.items():
    _binary(_name, _pair)


@op("Div", since=7)
def div(at: At, x: V, y: V) -> V:
    """Integers are divided towards zero."""
    a, b = together(x, y)
    return a.div(b) if a.dtype.is_float else a.trunc_div(b)


@op("Relu", since=6)
def relu(at: At, x: V) -> V:
    return x.max(at.graph.full(x.dims, 0, x.dtype))


@op("Sum", since=8)
def sum_(at: At, *xs: V) -> V:
    return reduce(V.add, together(*xs))

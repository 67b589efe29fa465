"""Functions of the Array API standard on lazy tensors: promotion and broadcasting happen here, PTIR has neither."""

from __future__ import annotations

from math import prod

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.errors import DTypeError, Location, ShapeError
from planish.frontend.tensor.array import Scalar, Tensor
from planish.ptir import ops
from planish.ptir.ops.contract import DotGeneralAttrs
from planish.ptir.ops.convert import CastAttrs
from planish.ptir.ops.definition import ConstantAttrs, OpDef
from planish.ptir.ops.literal import Literal
from planish.ptir.ops.movement import BroadcastToAttrs, ReshapeAttrs, TransposeAttrs
from planish.ptir.ops.reduce import ReduceAttrs

Operand = Tensor | Scalar
Axis = int | tuple[int, ...] | None


def astype(x: Tensor, dtype: DType) -> Tensor:
    """The elements converted."""
    return x if x.dtype is dtype else Tensor.apply(ops.cast, x, attrs=CastAttrs(dtype))


def broadcast_to(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Axes of size 1 (and missing ones in front) repeated."""
    return x if x.shape == shape else Tensor.apply(ops.broadcast_to, x, attrs=BroadcastToAttrs(shape))


def _both(name: str, x1: Operand, x2: Operand) -> tuple[Tensor, Tensor]:
    """The operands in one dtype and one shape; Python numbers take the other's dtype."""
    given = [x if isinstance(x, Tensor) else _checked(name, x) for x in (x1, x2)]
    dtype = dtypes.result_type(*(x.dtype if isinstance(x, Tensor) else x for x in given))
    tensors = [astype(x, dtype) if isinstance(x, Tensor) else _constant(x, dtype) for x in given]
    try:
        shape = np.broadcast_shapes(tensors[0].shape, tensors[1].shape)
    except ValueError:
        raise ShapeError(
            f"{name}: shapes {tensors[0].shape} and {tensors[1].shape} do not broadcast together",
            op=name,
            location=Location.caller(),
            remedy="sizes of an axis must be equal, or one of them 1",
        ) from None
    return broadcast_to(tensors[0], shape), broadcast_to(tensors[1], shape)


def _checked(name: str, x: object) -> Scalar:
    if isinstance(x, bool | int | float):
        return x
    raise DTypeError(
        f"{name}: an operand must be a Tensor or a number, not {type(x).__name__}",
        op=name,
        location=Location.caller(),
        remedy="convert arrays with planish.asarray",
    )


def _constant(value: Scalar, dtype: DType) -> Tensor:
    return Tensor.apply(ops.constant, attrs=ConstantAttrs(Literal.full(dtype, (), value)))


def _binary(name: str, op: OpDef, x1: Operand, x2: Operand) -> Tensor:
    return Tensor.apply(op, *_both(name, x1, x2))


def _floating(name: str, x: Tensor) -> Tensor:
    if not x.dtype.is_float:
        raise DTypeError(
            f"{name}: {x.dtype} is not a float type",
            op=name,
            location=Location.caller(),
            remedy="convert it first",
        )
    return x


def add(x1: Operand, x2: Operand) -> Tensor:
    """x1 + x2."""
    return _binary("add", ops.add, x1, x2)


def subtract(x1: Operand, x2: Operand) -> Tensor:
    """x1 - x2."""
    return _binary("subtract", ops.sub, x1, x2)


def multiply(x1: Operand, x2: Operand) -> Tensor:
    """x1 * x2."""
    return _binary("multiply", ops.mul, x1, x2)


def divide(x1: Operand, x2: Operand) -> Tensor:
    """x1 / x2, on floats."""
    left, right = _both("divide", x1, x2)
    return Tensor.apply(ops.div, _floating("divide", left), right)


def maximum(x1: Operand, x2: Operand) -> Tensor:
    """The greater of each pair; NaN if either is."""
    return _binary("maximum", ops.max, x1, x2)


def minimum(x1: Operand, x2: Operand) -> Tensor:
    """The smaller of each pair; NaN if either is."""
    return _binary("minimum", ops.min, x1, x2)


def negative(x: Tensor) -> Tensor:
    """-x."""
    return Tensor.apply(ops.neg, x)


def abs(x: Tensor) -> Tensor:
    """|x|."""
    return Tensor.apply(ops.abs, x)


def exp(x: Tensor) -> Tensor:
    """e ** x."""
    return Tensor.apply(ops.exp, _floating("exp", x))


def log(x: Tensor) -> Tensor:
    """The natural logarithm."""
    return Tensor.apply(ops.log, _floating("log", x))


def sqrt(x: Tensor) -> Tensor:
    """The square root."""
    return Tensor.apply(ops.sqrt, _floating("sqrt", x))


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return Tensor.apply(ops.tanh, _floating("tanh", x))


def reshape(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Other dims, the same row-major order; one size may be -1 and is then computed."""
    if shape.count(-1) == 1:
        known = prod(size for size in shape if size != -1)
        if known and prod(x.shape) % known == 0:
            shape = tuple(prod(x.shape) // known if size == -1 else size for size in shape)
    if prod(shape) != prod(x.shape) or any(size < 0 for size in shape):
        raise ShapeError(
            f"reshape: {x.shape} has {prod(x.shape)} elements and cannot take shape {shape}",
            op="reshape",
            location=Location.caller(),
        )
    return x if shape == x.shape else Tensor.apply(ops.reshape, x, attrs=ReshapeAttrs(shape))


def permute_dims(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Axes reordered."""
    return Tensor.apply(ops.transpose, x, attrs=TransposeAttrs(tuple(axes)))


def _reduce(name: str, op: OpDef, x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    given = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    for one in given:
        if not -x.ndim <= one < x.ndim:
            raise ShapeError(f"{name}: no axis {one} in shape {x.shape}", op=name, location=Location.caller())
    axes = tuple(sorted({one % x.ndim for one in given}))
    return Tensor.apply(op, x, attrs=ReduceAttrs(axes, keepdims)) if axes else x


def sum(x: Tensor, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The sum over axes."""
    return _reduce("sum", ops.reduce_sum, x, axis, keepdims)


def max(x: Tensor, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The greatest over axes."""
    return _reduce("max", ops.reduce_max, x, axis, keepdims)


def min(x: Tensor, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest over axes."""
    return _reduce("min", ops.reduce_min, x, axis, keepdims)


def matmul(x1: Tensor, x2: Tensor) -> Tensor:
    """The matrix product over the last two axes; a vector counts as a row on the left, as a column on the right."""
    if x1.ndim == 0 or x2.ndim == 0 or x1.shape[-1] != x2.shape[-2 if x2.ndim > 1 else 0]:
        raise ShapeError(
            f"matmul: shapes {x1.shape} and {x2.shape} do not fit",
            op="matmul",
            location=Location.caller(),
            remedy="the last axis of the first must be as long as the second-last of the second",
        )
    dtype = dtypes.result_type(x1.dtype, x2.dtype)
    left, right = astype(x1, dtype), astype(x2, dtype)
    rows, columns = x1.ndim == 1, x2.ndim == 1
    left = reshape(left, (1, *left.shape)) if rows else left
    right = reshape(right, (*right.shape, 1)) if columns else right
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise ShapeError(
            f"matmul: batch axes of {x1.shape} and {x2.shape} do not broadcast",
            op="matmul",
            location=Location.caller(),
        ) from None
    left = broadcast_to(left, (*batch, *left.shape[-2:]))
    right = broadcast_to(right, (*batch, *right.shape[-2:]))
    count = len(batch)
    axes = tuple(range(count))
    wide = dtypes.float32 if dtype.is_float and dtype.bits < 32 else dtype
    attrs = DotGeneralAttrs(axes, axes, (count + 1,), (count,), wide, dtype)
    result = Tensor.apply(ops.dot_general, left, right, attrs=attrs)
    kept = [size for size, dropped in zip(result.shape[-2:], (rows, columns), strict=True) if not dropped]
    return reshape(result, (*batch, *kept))

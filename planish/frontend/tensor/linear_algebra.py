"""Linear algebra functions of the main namespace: products of matrices, vectors and tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planish import dtypes
from planish.errors import PlanishError, ShapeError
from planish.frontend.storage import Array
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.composite import composite
from planish.frontend.tensor.elementwise import conj, multiply
from planish.frontend.tensor.manipulation import moveaxis
from planish.frontend.tensor.operands import (
    axis_of,
    broadcast,
    broadcast_all,
    common_shape,
    constant,
    permuted,
    promoted,
    reshaped,
    tensor,
)
from planish.frontend.tensor.pointwise import numeric
from planish.frontend.tensor.recipes import remembered
from planish.ptir import ops
from planish.ptir.library import contraction, shaping


def contract(
    left: Tensor, right: Tensor, batch: Sequence[int], left_axes: Sequence[int], right_axes: Sequence[int]
) -> Tensor:
    """Sums of products over axes; the first `batch` axes of both go together."""
    dtype = left.dtype
    wide = dtypes.float32 if dtype.is_float and dtype.bits < 32 else dtype
    axes = tuple(batch)
    attrs = ops.DotGeneralAttrs(axes, axes, tuple(left_axes), tuple(right_axes), wide, dtype)
    return Tensor.apply(ops.dot_general, left, right, attrs=attrs)


def _numbers(name: str, x1: object, x2: object) -> tuple[Tensor, Tensor]:
    left, right = promoted(name, tensor(name, x1), tensor(name, x2))
    return left, right


@remembered
def matmul(x1: Tensor | Array, x2: Tensor | Array, /) -> Tensor:
    """The matrix product over the last two axes; a vector counts as a row on the left, as a column on the right."""
    left, right = _numbers("matmul", x1, x2)
    if left.ndim == 0 or right.ndim == 0 or left.shape[-1] != right.shape[-2 if right.ndim > 1 else 0]:
        raise ShapeError.of(
            "matmul",
            f"shapes {left.shape} and {right.shape} do not fit",
            "the last axis of the first must be as long as the second-last of the second",
        )
    is_row, is_column = left.ndim == 1, right.ndim == 1
    left = reshaped(left, (1, *left.shape)) if is_row else left
    right = reshaped(right, (*right.shape, 1)) if is_column else right
    lead = common_shape("matmul", [left.shape[:-2], right.shape[:-2]])
    count = len(lead)
    if right.ndim == 2 and count:
        # one matrix for all: its product with all rows at once
        result = contract(left, right, (), (left.ndim - 1,), (0,))
    else:
        left, right = broadcast(left, (*lead, *left.shape[-2:])), broadcast(right, (*lead, *right.shape[-2:]))
        result = contract(left, right, range(count), (count + 1,), (count,))
    kept = [size for size, gone in zip(result.shape[-2:], (is_row, is_column), strict=True) if not gone]
    return reshaped(result, (*lead, *kept))


@remembered
def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged."""
    given = tensor("matrix_transpose", x)
    if given.ndim < 2:
        raise ShapeError.of(
            "matrix_transpose", f"shape {given.shape} is not a matrix", "it needs two axes at least"
        )
    return permuted(given, (*range(given.ndim - 2), given.ndim - 1, given.ndim - 2))


@remembered
def tensordot(
    x1: Tensor, x2: Tensor, /, axes: int | tuple[int | Sequence[int], int | Sequence[int]] = 2
) -> Tensor:
    """Sums of products over the last axes of the first and the first of the second, or over pairs of axes."""
    left, right = _numbers("tensordot", x1, x2)
    if isinstance(axes, int):
        if not 0 <= axes <= min(left.ndim, right.ndim):
            raise ShapeError.of(
                "tensordot", f"shapes {left.shape} and {right.shape} have no {axes} axes to sum over"
            )
        pairs = (tuple(range(left.ndim - axes, left.ndim)), tuple(range(axes)))
    else:
        first, second = [(chosen,) if isinstance(chosen, int) else chosen for chosen in axes]
        pairs = (
            tuple(axis_of("tensordot", axis, left.ndim, left.shape) for axis in first),
            tuple(axis_of("tensordot", axis, right.ndim, right.shape) for axis in second),
        )
    sizes = [tuple(x.shape[axis] for axis in chosen) for x, chosen in zip((left, right), pairs, strict=True)]
    if sizes[0] != sizes[1]:
        raise ShapeError.of(
            "tensordot",
            f"axes {pairs[0]} of {left.shape} and {pairs[1]} of {right.shape} differ in size",
            "axes that are summed over together must be equally long",
        )
    return contract(left, right, (), *pairs)


@remembered
def vecdot(x1: Tensor, x2: Tensor, /, axis: int = -1) -> Tensor:
    """The product of vectors along an axis; those of the first are conjugated."""
    left, right = _numbers("vecdot", x1, x2)
    if left.ndim == 0 or right.ndim == 0:
        raise ShapeError.of("vecdot", f"shapes {left.shape} and {right.shape} hold no vectors")
    left, right = (moveaxis(x, axis_of("vecdot", axis, x.ndim, x.shape), -1) for x in (left, right))
    if left.shape[-1] != right.shape[-1]:
        raise ShapeError.of(
            "vecdot",
            f"shapes {tensor('vecdot', x1).shape} and {tensor('vecdot', x2).shape} differ along axis {axis}",
            "both vectors must be equally long",
        )
    left, right = broadcast_all("vecdot", [conj(left), right])
    total = ops.reduce_or if left.dtype is dtypes.bool_ else ops.reduce_sum
    return Tensor.apply(total, multiply(left, right), attrs=ops.ReduceAttrs((left.ndim - 1,)))


@remembered
def einsum(equation: str | Tensor, /, *arrays: Any) -> Tensor:
    """Sums of products by names of axes: `einsum("bij,bjk->bik", x, y)`, or by their numbers: `einsum(x, [0, 1], y, [1, 2], [0, 2])`."""
    if not isinstance(equation, str):
        equation, arrays = _named_axes([equation, *arrays])
    if not arrays:
        raise ShapeError.of("einsum", "there is nothing to multiply")
    given = [numeric("einsum", x) for x in promoted("einsum", *[tensor("einsum", x) for x in arrays])]
    try:
        return composite(_einsum, *given, equation=equation)
    except PlanishError as error:
        error.op = "einsum"
        raise


def _named_axes(given: list[Any]) -> tuple[str, tuple[Any, ...]]:
    """Tensors and lists of the numbers of their axes by turns, and those of the result: as an equation."""
    tensors, lists = tuple(given[: len(given) // 2 * 2 : 2]), given[1::2]
    if len(given) % 2:
        lists.append(given[-1])
    try:
        named = [
            "".join("..." if at is ... else chr(ord("A") + at + 6 * (at > 25)) for at in one) for one in lists
        ]
    except TypeError:
        raise ShapeError.of(
            "einsum", f"{lists} are not the numbers of axes", "give a tensor and a list by turns"
        ) from None
    if len(given) % 2:
        return f"{','.join(named[:-1])}->{named[-1]}", tensors
    return ",".join(named), tensors


def _einsum(*values: object, equation: str) -> object:
    return contraction.einsum(equation, *values)  # type: ignore[arg-type] # handles of a graph


def dot(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The sum of products over the last axis of the first and the second-last (or only) of the second."""
    left, right = _numbers("dot", x1, x2)
    if left.ndim == 0 or right.ndim == 0:
        return multiply(left, right)
    return tensordot(left, right, axes=((left.ndim - 1,), (max(right.ndim - 2, 0),)))


def inner(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The sum of products over the last axes."""
    left, right = _numbers("inner", x1, x2)
    if left.ndim == 0 or right.ndim == 0:
        return multiply(left, right)
    return tensordot(left, right, axes=((left.ndim - 1,), (right.ndim - 1,)))


@remembered
def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """All products of elements of two vectors; other shapes are flattened."""
    left, right = _numbers("outer", x1, x2)
    return multiply(reshaped(left, (left.size, 1)), reshaped(right, (right.size,)))


def kron(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The Kronecker product."""
    left, right = _numbers("kron", x1, x2)
    ndim = max(left.ndim, right.ndim)
    first = (1,) * (ndim - left.ndim) + left.shape
    second = (1,) * (ndim - right.ndim) + right.shape
    spread = [part for size in first for part in (size, 1)]
    between = [part for size in second for part in (1, size)]
    sizes = tuple(a * b for a, b in zip(first, second, strict=True))
    return reshaped(multiply(reshaped(left, spread), reshaped(right, between)), sizes)


def diagonal_of(name: str, x: Tensor, offset: int) -> Tensor:
    """A diagonal of matrices, which becomes the last axis."""
    given = tensor(name, x)
    if given.ndim < 2:
        raise ShapeError.of(name, f"shape {given.shape} is not a matrix", "it needs two axes at least")
    rows, columns = given._type.dims[-2:]
    if isinstance(rows, int) and isinstance(columns, int) and not -rows < offset < columns:
        return constant(0, given.dtype, (*given.shape[:-2], 0))
    return composite(shaping.diagonal, given, offset=offset)


__all__ = [
    "dot", "einsum", "inner", "kron", "matmul", "matrix_transpose", "outer", "tensordot",
    "vecdot",
]  # fmt: skip

"""Norms of vectors and matrices: the standard's, and NumPy's `norm`."""

from __future__ import annotations

import math
from typing import Literal

from planish.errors import ShapeError
from planish.frontend.tensor import factorizations as lapack
from planish.frontend.tensor.array import Axis, Tensor
from planish.frontend.tensor.elementwise import abs, square
from planish.frontend.tensor.manipulation import reshape
from planish.frontend.tensor.operands import axes_of, axis_of, cast_to, permuted, reshaped, tensor
from planish.frontend.tensor.pointwise import floating
from planish.frontend.tensor.scalar_functions import sqrt
from planish.frontend.tensor.statistics import max, min, sum

__all__ = ["matrix_norm", "norm", "vector_norm"]

Order = int | float | Literal["fro", "nuc"]


def vector_norm(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False, ord: int | float = 2) -> Tensor:
    """The length of vectors: (sum of |x|**ord) ** (1/ord), the greatest for inf, the number of nonzeros for 0."""
    given = floating("vector_norm", tensor("vector_norm", x))
    axes = axes_of("vector_norm", axis, given)
    sizes = abs(given)
    if not axes:
        return cast_to(sizes != 0, sizes.dtype) if ord == 0 else sizes
    if ord == math.inf:
        return max(sizes, axis=axes, keepdims=keepdims)
    if ord == -math.inf:
        return min(sizes, axis=axes, keepdims=keepdims)
    if ord == 0:
        return sum(cast_to(sizes != 0, sizes.dtype), axis=axes, keepdims=keepdims)
    if ord == 1:
        return sum(sizes, axis=axes, keepdims=keepdims)
    if ord == 2:
        return sqrt(sum(square(sizes), axis=axes, keepdims=keepdims))
    return sum(sizes ** float(ord), axis=axes, keepdims=keepdims) ** (1.0 / float(ord))


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Order | None = "fro") -> Tensor:
    """The size of matrices: Frobenius, nuclear, or by rows (inf), columns (1) or singular values (2)."""
    given = lapack.matrices("matrix_norm", x)
    pair = (given.ndim - 2, given.ndim - 1)
    if ord in ("fro", None):
        return sqrt(sum(square(abs(given)), axis=pair, keepdims=keepdims))
    if ord == "nuc" or ord in (2, -2):
        s = lapack.singular_values(given)
        if ord == "nuc":
            norms = sum(s, axis=-1)
        else:
            norms = max(s, axis=-1) if ord == 2 else min(s, axis=-1)
        return reshaped(norms, (*norms.shape, 1, 1)) if keepdims else norms
    if ord not in (1, -1, math.inf, -math.inf):
        raise ShapeError.of("matrix_norm", f"there is no norm {ord!r}", "fro, nuc, 1, -1, 2, -2, inf or -inf")
    columns = ord in (1, -1)
    sums = sum(abs(given), axis=pair[0] if columns else pair[1], keepdims=True)
    best = max if ord in (1, math.inf) else min
    return best(sums, axis=pair, keepdims=keepdims)


def norm(x: Tensor, /, ord: Order | None = None, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """NumPy's: a vector norm over one axis, a matrix norm over two, of all elements if nothing is said."""
    given = tensor("norm", x)
    if axis is None and ord is None:
        return vector_norm(given, keepdims=keepdims)
    axes = tuple(range(given.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise ShapeError.of("norm", f"{ord!r} is a norm of matrices", "name two axes")
        return vector_norm(given, axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ShapeError.of("norm", f"{len(axes)} axes hold neither vectors nor matrices")
    first, second = (axis_of("norm", one, given.ndim, given.shape) for one in axes)
    if first == second:
        raise ShapeError.of("norm", f"axis {first} is named twice", "a matrix has two axes")
    rest = [at for at in range(given.ndim) if at not in (first, second)]
    norms = matrix_norm(permuted(given, [*rest, first, second]), ord=ord)
    if not keepdims:
        return norms
    return reshape(norms, [1 if at in (first, second) else size for at, size in enumerate(given.shape)])

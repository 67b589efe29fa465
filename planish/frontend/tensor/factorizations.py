"""Factorisations of matrices: PTIR's linear algebra ops on tensors. `planish.linalg` is made of these.

They run in LAPACK, between compiled kernels. Matrices are the last two axes. Narrow floats are computed in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.errors import ShapeError
from planish.frontend.storage import Array
from planish.frontend.tensor.application import apply
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.composite import composite, composites
from planish.frontend.tensor.operands import cast_to, tensor
from planish.frontend.tensor.pointwise import floating
from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.library import factorizations
from planish.ptir.ops.control import CustomCallAttrs, register_custom_call
from planish.ptir.types import TensorType

EIG: Final = "planish.linalg.eig"


def matrices(name: str, x: object, *, square: bool = False) -> Tensor:
    """Matrices of a dtype that LAPACK has."""
    given = floating(name, tensor(name, x))
    if given.dtype.is_float and given.dtype.bits < 32:
        given = cast_to(given, dtypes.float32)
    if given.ndim < 2:
        raise ShapeError.of(
            name, f"shape {given.shape} is not a matrix", "the last two axes are rows and columns"
        )
    if square and given.shape[-1] != given.shape[-2]:
        raise ShapeError.of(
            name, f"matrices of shape {given.shape} are not square", "the last two sizes must be equal"
        )
    return given


def part_dtype(dtype: DType) -> DType:
    """The dtype of moduli."""
    return {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}.get(dtype, dtype)


def complex_dtype(dtype: DType) -> DType:
    """The complex dtype of the same precision."""
    return {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}.get(dtype, dtype)


def cholesky(x: Tensor, upper: bool) -> Tensor:
    """The triangular factor of a positive definite matrix; NaN if it is not."""
    return Tensor.apply(ops.cholesky, x, attrs=ops.CholeskyAttrs(lower=not upper))


def qr(x: Tensor, full: bool) -> tuple[Tensor, Tensor]:
    """Orthonormal columns and an upper triangle."""
    q, r = apply(ops.qr, x, attrs=ops.QrAttrs(full))
    return q, r


def svd(x: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """u, singular values in descending order, vh."""
    u, s, vh = apply(ops.svd, x, attrs=ops.SvdAttrs(full, True))
    return u, s, vh


def singular_values(x: Tensor) -> Tensor:
    """Singular values in descending order."""
    return apply(ops.svd, x, attrs=ops.SvdAttrs(False, False))[0]


def eigh(x: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues in ascending order, and eigenvectors, of a Hermitian matrix."""
    values, vectors = apply(ops.eigh, x, attrs=ops.EighAttrs())
    return values, vectors


def lu(x: Tensor) -> tuple[Tensor, Tensor]:
    """Both triangles in one matrix, and the order of the rows."""
    packed, order = apply(ops.lu, x)
    return packed, order


def solve(a: Tensor, b: Tensor) -> Tensor:
    """x with a·x = b."""
    return composite(factorizations.lu_solve, *lu(a), b)


def factors_of_determinant(x: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers whose product it is: a diagonal, and a sign."""
    values, sign = composites(factorizations.factors_of_determinant, *lu(x))
    return values, sign


def triangular_solve(
    a: Tensor, b: Tensor, *, lower: bool, unit: bool = False, transform: str = "none"
) -> Tensor:
    """x with a·x = b for a triangular a."""
    return Tensor.apply(
        ops.triangular_solve, a, b, attrs=ops.TriangularSolveAttrs(True, lower, transform, unit)
    )


def eig(x: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of any square matrix."""
    values, vectors = apply(ops.custom_call, x, attrs=CustomCallAttrs(EIG, eig_types(x.dtype, x.shape)))
    return values, vectors


def eig_types(dtype: DType, dims: Sequence[DimLike]) -> tuple[TensorType, TensorType]:
    """What `EIG` gives: eigenvalues and eigenvectors, complex."""
    own = complex_dtype(dtype)
    return TensorType(own, tuple(dims[:-1])), TensorType(own, tuple(dims))


def _eig(arrays: Sequence[Array], attrs: CustomCallAttrs) -> tuple[Array, ...]:
    x = arrays[0]
    values, vectors = (np.full(type.shape, np.nan, type.dtype.numpy) for type in attrs.results)
    for index in np.ndindex(*x.shape[:-2]):
        if np.isfinite(x[index]).all():
            values[index], vectors[index] = np.linalg.eig(x[index])
    return values, vectors


register_custom_call(EIG, _eig)

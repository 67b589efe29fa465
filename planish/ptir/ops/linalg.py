"""Linear algebra: cholesky, qr, svd, eigh, lu, triangular_solve over the last two axes.

These are host ops: LAPACK does the work. A matrix that has no factorisation gives NaN, and does not harm the
others of its batch (semantics section 14).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from planish import dtypes
from planish.ptir.ops import checking, numerics
from planish.ptir.ops import definition as d
from planish.ptir.ops.checking import WIDE, at_most, shape_error
from planish.ptir.ops.literal import Array
from planish.ptir.types import DimLike, TensorType
from planish.records import dataclass

MatrixFn = Callable[[Array], tuple[Array, ...]]


@dataclass(frozen=True, slots=True)
class CholeskyAttrs(d.Attrs):
    """Which triangle is read and returned."""

    lower: bool = True


@dataclass(frozen=True, slots=True)
class QrAttrs(d.Attrs):
    """Whether q is square."""

    full_matrices: bool = False


@dataclass(frozen=True, slots=True)
class SvdAttrs(d.Attrs):
    """Whether u and vh are square, and whether they are wanted at all."""

    full_matrices: bool = False
    compute_uv: bool = True


@dataclass(frozen=True, slots=True)
class EighAttrs(d.Attrs):
    """Which triangle is read."""

    lower: bool = True


@dataclass(frozen=True, slots=True)
class TriangularSolveAttrs(d.Attrs):
    """Solve op(a) x = b (left) or x op(a) = b; op is "none", "transpose" or "adjoint"."""

    left: bool = True
    lower: bool = True
    transform: str = "none"
    unit_diagonal: bool = False


def _matrix(
    op: str, operand: TensorType, square: bool = False
) -> tuple[tuple[DimLike, ...], DimLike, DimLike]:
    """Batch dims, rows, columns."""
    checking.need_dtype(op, operand, WIDE)
    if operand.rank < 2:
        shape_error(op, f"{operand} is not a matrix", "the last two axes are rows and columns")
    *batch, rows, columns = operand.dims
    if square and rows != columns:
        shape_error(op, f"{operand} is not square")
    return tuple(batch), rows, columns


def _smaller(op: str, operand: TensorType, rows: DimLike, columns: DimLike) -> DimLike:
    if not at_most(rows, columns) and not at_most(columns, rows):
        shape_error(
            op, f"it is not certain which side of {operand} is shorter", "give the dims disjoint bounds"
        )
    return rows if at_most(rows, columns) else columns


def _each_matrix(
    function: MatrixFn, x: Array, types: Sequence[TensorType], *, stacks: bool = False
) -> tuple[Array, ...]:
    """Apply to every matrix of a batch; non-finite input and failed factorisations give NaN."""
    batch = x.shape[:-2]
    if stacks and np.isfinite(x).all():
        try:
            return function(x)  # NumPy takes the whole batch
        except np.linalg.LinAlgError:
            pass  # one of them at least: which, is found one by one
    results = [np.full(t.shape, np.nan if t.dtype not in checking.INTS else 0, t.dtype.numpy) for t in types]
    for index in np.ndindex(*batch):
        if not np.isfinite(x[index]).all():
            continue
        try:
            parts = function(x[index])
        except np.linalg.LinAlgError:
            continue
        for result, part in zip(results, parts, strict=True):
            result[index] = part
    return tuple(results)


# --- cholesky ---------------------------------------------------------------------------------------------


def _evaluate_cholesky(arrays: d.Arrays, attrs: CholeskyAttrs, types: d.Types) -> d.Results:
    triangle = np.tril if attrs.lower else np.triu

    def factor(x: Array) -> tuple[Array, ...]:
        # NumPy reads the lower triangle and returns a lower factor; the upper case is its adjoint.
        return (np.linalg.cholesky(x) if attrs.lower else np.linalg.cholesky(x.conj().T).conj().T,)

    # NaN outside the read triangle is none of our business.
    (result,) = _each_matrix(factor, triangle(arrays[0]), types)
    return (triangle(result),)


@d.op(d.OpKey.LINALG, evaluate=_evaluate_cholesky, way=d.Way.HOST)
def cholesky(types: d.Types, attrs: CholeskyAttrs, regions: d.Regions) -> d.ResultTypes:
    """The triangular L with L·Lᴴ = x (or U with Uᴴ·U = x)."""
    _matrix("cholesky", types[0], square=True)
    return (types[0],)


# --- qr, svd, eigh ----------------------------------------------------------------------------------------


def _evaluate_qr(arrays: d.Arrays, attrs: QrAttrs, types: d.Types) -> d.Results:
    def factor(x: Array) -> tuple[Array, ...]:
        return tuple(np.linalg.qr(x, "complete" if attrs.full_matrices else "reduced"))

    return _each_matrix(factor, arrays[0], types)


@d.op(d.OpKey.LINALG, evaluate=_evaluate_qr, num_results=2, way=d.Way.HOST)
def qr(types: d.Types, attrs: QrAttrs, regions: d.Regions) -> d.ResultTypes:
    """q with orthonormal columns and upper triangular r, q·r = x."""
    x = types[0]
    batch, rows, columns = _matrix("qr", x)
    inner = rows if attrs.full_matrices else _smaller("qr", x, rows, columns)
    return x.with_dims((*batch, rows, inner)), x.with_dims((*batch, inner, columns))


def _evaluate_svd(arrays: d.Arrays, attrs: SvdAttrs, types: d.Types) -> d.Results:
    def factor(x: Array) -> tuple[Array, ...]:
        if attrs.compute_uv:
            return tuple(np.linalg.svd(x, full_matrices=attrs.full_matrices))
        return (np.linalg.svd(x, compute_uv=False),)

    return _each_matrix(factor, arrays[0], types, stacks=True)


@d.op(d.OpKey.LINALG, evaluate=_evaluate_svd, num_results=None, way=d.Way.HOST)
def svd(types: d.Types, attrs: SvdAttrs, regions: d.Regions) -> d.ResultTypes:
    """u, singular values in descending order, vh; or the values alone."""
    x = types[0]
    batch, rows, columns = _matrix("svd", x)
    inner = _smaller("svd", x, rows, columns)
    values = TensorType(numerics.part_dtype(x.dtype), (*batch, inner))
    if not attrs.compute_uv:
        return (values,)
    left, right = (rows, columns) if attrs.full_matrices else (inner, inner)
    return x.with_dims((*batch, rows, left)), values, x.with_dims((*batch, right, columns))


def _evaluate_eigh(arrays: d.Arrays, attrs: EighAttrs, types: d.Types) -> d.Results:
    triangle = np.tril if attrs.lower else np.triu

    def factor(x: Array) -> tuple[Array, ...]:
        return tuple(np.linalg.eigh(x, "L" if attrs.lower else "U"))

    return _each_matrix(factor, triangle(arrays[0]), types, stacks=True)


@d.op(d.OpKey.LINALG, evaluate=_evaluate_eigh, num_results=2, way=d.Way.HOST)
def eigh(types: d.Types, attrs: EighAttrs, regions: d.Regions) -> d.ResultTypes:
    """Eigenvalues in ascending order and eigenvectors of a symmetric (Hermitian) matrix."""
    x = types[0]
    batch, rows, _ = _matrix("eigh", x, square=True)
    return TensorType(numerics.part_dtype(x.dtype), (*batch, rows)), x


# --- lu and triangular_solve ------------------------------------------------------------------------------


@numerics.quiet
def _lu(x: Array) -> tuple[Array, ...]:
    packed = x.copy()
    order = np.arange(x.shape[0], dtype=np.int64)
    for k in range(min(x.shape)):
        pivot = k + int(np.argmax(np.abs(packed[k:, k])))
        if packed[pivot, k] == 0:
            continue
        packed[[k, pivot]] = packed[[pivot, k]]
        order[[k, pivot]] = order[[pivot, k]]
        packed[k + 1 :, k] /= packed[k, k]
        packed[k + 1 :, k + 1 :] -= np.outer(packed[k + 1 :, k], packed[k, k + 1 :])
    return packed, order


def _evaluate_lu(arrays: d.Arrays, attrs: d.NoAttrs, types: d.Types) -> d.Results:
    return _each_matrix(_lu, arrays[0], types)


@d.op(d.OpKey.LINALG, evaluate=_evaluate_lu, num_results=2, way=d.Way.HOST)
def lu(types: d.Types, attrs: d.NoAttrs, regions: d.Regions) -> d.ResultTypes:
    """Packed L (unit diagonal) and U with L·U = x[permutation], and the permutation."""
    batch, rows, _ = _matrix("lu", types[0])
    return types[0], TensorType(dtypes.int64, (*batch, rows))


TRANSFORMS: Final = ("none", "transpose", "adjoint")


def _substitute(a: Array, b: Array, lower: bool, unit: bool) -> Array:
    """Solve a·x = b row by row, from the end that has one unknown."""
    x = b.copy()
    size = a.shape[0]
    for row in range(size) if lower else reversed(range(size)):
        known = slice(0, row) if lower else slice(row + 1, size)
        x[row] -= a[row, known] @ x[known]
        if not unit:
            x[row] /= a[row, row]
    return x


@numerics.quiet
def _evaluate_triangular_solve(arrays: d.Arrays, attrs: TriangularSolveAttrs, types: d.Types) -> d.Results:
    a, b = arrays
    lower = attrs.lower
    if attrs.transform != "none":
        a = np.swapaxes(a, -1, -2)
        lower = not lower
        if attrs.transform == "adjoint":
            a = np.conj(a)
    if not attrs.left:
        # x·a = b is aᵀ·xᵀ = bᵀ.
        a, b, lower = np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2), not lower
    result = np.empty(b.shape, b.dtype)
    for index in np.ndindex(*b.shape[:-2]):
        result[index] = _substitute(a[index], b[index], lower, attrs.unit_diagonal)
    return (result if attrs.left else np.swapaxes(result, -1, -2),)


@d.op(d.OpKey.LINALG, arity=2, evaluate=_evaluate_triangular_solve, way=d.Way.HOST)
def triangular_solve(types: d.Types, attrs: TriangularSolveAttrs, regions: d.Regions) -> d.ResultTypes:
    """triangular_solve(a, b): x with op(a)·x = b or x·op(a) = b for a triangular a."""
    op = "triangular_solve"
    a, b = types
    checking.need_same_dtype(op, types)
    batch, size, _ = _matrix(op, a, square=True)
    b_batch, rows, columns = _matrix(op, b)
    if attrs.transform not in TRANSFORMS:
        shape_error(op, f"there is no transform {attrs.transform!r}", f"use one of {', '.join(TRANSFORMS)}")
    if b_batch != batch or (rows if attrs.left else columns) != size:
        shape_error(op, f"the right-hand side {b} does not fit the matrix {a}")
    return (b,)

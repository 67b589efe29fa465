"""Factorisations, systems, determinants and products: the standard's `linalg` extension.

Matrices are the last two axes, leading axes are batch. Factorisations run in LAPACK, those of small matrices in lanes; products and everything around
them is compiled. A singular matrix gives infinities or NaN where NumPy raises: what is in a tensor is not known when the
call is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, overload

from planish import dtypes
from planish.errors import DTypeError, ShapeError
from planish.frontend.custom import custom_jvp
from planish.frontend.tensor import factorizations as lapack
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.creation import eye, iota, zeros
from planish.frontend.tensor.elementwise import abs, conj, real, sign, square, where
from planish.frontend.tensor.linear_algebra import (
    diagonal_of,
    inner,
    kron,
    matmul,
    matrix_transpose,
    outer,
    tensordot,
    vecdot,
)
from planish.frontend.tensor.manipulation import broadcast_to, moveaxis, stack
from planish.frontend.tensor.operands import (
    DTypeLike,
    axis_of,
    cast_to,
    common_shape,
    promoted,
    reshaped,
    tensor,
)
from planish.frontend.tensor.pointwise import floating
from planish.frontend.tensor.scalar_functions import log
from planish.frontend.tensor.statistics import prod, sum, summed_dtype
from planish.linalg.norms import Order, matrix_norm

__all__ = [
    "EigResult", "EighResult", "LstsqResult", "QRResult", "SVDResult", "SlogdetResult", "cholesky", "cond",
    "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inner", "inv", "kron", "lstsq",
    "matmul", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "outer", "pinv", "qr",
    "slogdet", "solve", "solve_triangular", "svd", "svdvals", "tensordot", "trace", "vecdot",
]  # fmt: skip


class EighResult(NamedTuple):
    """Real eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EigResult(NamedTuple):
    """Complex eigenvalues, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """Orthonormal columns and an upper triangle."""

    Q: Tensor
    R: Tensor


class SVDResult(NamedTuple):
    """Left singular vectors, singular values in descending order, right singular vectors as rows."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class SlogdetResult(NamedTuple):
    """The sign (or phase) of a determinant and the logarithm of its modulus."""

    sign: Tensor
    logabsdet: Tensor


class LstsqResult(NamedTuple):
    """What solves a system best, the squared distance left, the rank and the singular values of its matrix."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


# --- factorisations ---------------------------------------------------------------------------------------


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The triangular factor of positive definite matrices; NaN for others."""
    return lapack.cholesky(lapack.matrices("cholesky", x, square=True), upper)


@overload
def qr(x: Tensor, /, mode: Literal["reduced", "complete"] = "reduced") -> QRResult: ...
@overload
def qr(x: Tensor, /, mode: Literal["r"]) -> Tensor: ...
def qr(x: Tensor, /, mode: Literal["reduced", "complete", "r"] = "reduced") -> QRResult | Tensor:
    """Orthonormal columns times an upper triangle; with mode `r` that alone."""
    if mode not in ("reduced", "complete", "r"):
        raise ShapeError.of("qr", f"there is no mode {mode!r}", "reduced, complete or r")
    if mode == "r":
        return lapack.qr(lapack.matrices("qr", x), False)[1]
    return QRResult(*lapack.qr(lapack.matrices("qr", x), mode == "complete"))


@overload
def svd(x: Tensor, /, full_matrices: bool = True, compute_uv: Literal[True] = True) -> SVDResult: ...
@overload
def svd(x: Tensor, /, full_matrices: bool = True, *, compute_uv: Literal[False]) -> Tensor: ...
def svd(x: Tensor, /, full_matrices: bool = True, compute_uv: bool = True) -> SVDResult | Tensor:
    """Singular values and vectors; the values alone without `compute_uv`."""
    if not compute_uv:
        return svdvals(x)
    return SVDResult(*lapack.svd(lapack.matrices("svd", x), full_matrices))


def svdvals(x: Tensor, /) -> Tensor:
    """Singular values in descending order."""
    return lapack.singular_values(lapack.matrices("svdvals", x))


def eigh(x: Tensor, /, UPLO: Literal["L", "U"] = "L") -> EighResult:  # noqa: N803 - NumPy's
    """Eigenvalues and eigenvectors of symmetric or Hermitian matrices, of which the lower or upper triangle is read."""
    given = lapack.matrices("eigh", x, square=True)
    if UPLO not in ("L", "U"):
        raise ShapeError.of("eigh", f"there is no triangle {UPLO!r}", "L or U")
    return EighResult(*lapack.eigh(given if UPLO == "L" else _adjoint(given)))


def eigvalsh(x: Tensor, /, UPLO: Literal["L", "U"] = "L") -> Tensor:  # noqa: N803 - NumPy's
    """Eigenvalues of symmetric or Hermitian matrices."""
    return eigh(x, UPLO).eigenvalues


def eig(x: Tensor, /) -> EigResult:
    """Eigenvalues and eigenvectors of square matrices.

    Eigenvectors have length 1, and no phase of their own: derivatives are those of functions that do not see the phase.
    """
    return EigResult(*_eig(lapack.matrices("eig", x, square=True)))


@custom_jvp
def _eig(x: Tensor) -> tuple[Tensor, Tensor]:
    return lapack.eig(x)


@_eig.defjvp
def _eig_tangent(
    primals: tuple[Tensor], tangents: tuple[Tensor]
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    values, vectors = _eig(*primals)
    inner = _solved(vectors, matmul(cast_to(tangents[0], vectors.dtype), vectors))
    gaps = reshaped(values, (*values.shape[:-1], 1, values.shape[-1])) - reshaped(values, (*values.shape, 1))
    size = values.shape[-1]
    other = iota((size, size), 0) != iota((size, size), 1)
    turned = matmul(vectors, where(other, inner / where(other, gaps, 1.0), 0.0))
    # along itself a vector of length 1 does not move
    along = sum(real(conj(vectors) * turned), axis=-2, keepdims=True)
    return (values, vectors), (diagonal(inner), turned - vectors * cast_to(along, vectors.dtype))


def eigvals(x: Tensor, /) -> Tensor:
    """Eigenvalues of square matrices."""
    return eig(x).eigenvalues


# --- systems ----------------------------------------------------------------------------------------------


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """x with x1·x = x2; x2 is a vector if it has one axis, else a stack of matrices."""
    a, b = promoted("solve", tensor("solve", x1), tensor("solve", x2))
    a, b = lapack.matrices("solve", a, square=True), floating("solve", b)
    is_vector = b.ndim == 1
    b = cast_to(reshaped(b, (b.shape[0], 1)) if is_vector else b, a.dtype)
    if b.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise ShapeError.of(
            "solve",
            f"shapes {a.shape} and {tensor('solve', x2).shape} do not fit",
            "the right side needs a row per row of the matrix",
        )
    lead = common_shape("solve", [a.shape[:-2], b.shape[:-2]])
    a = broadcast_to(a, (*lead, *a.shape[-2:]))
    b = broadcast_to(b, (*lead, *b.shape[-2:]))
    result = _solved(a, b)
    return reshaped(result, result.shape[:-1]) if is_vector else result


def _solved(a: Tensor, b: Tensor) -> Tensor:
    if 0 in a.shape or 0 in b.shape:
        return zeros(b.shape, dtype=b.dtype)
    return lapack.solve(a, b)


def solve_triangular(
    x1: Tensor, x2: Tensor, /, *, lower: bool = False, unit_diagonal: bool = False
) -> Tensor:
    """x with x1·x = x2, where only one triangle of x1 is read."""
    a, b = promoted("solve_triangular", tensor("solve_triangular", x1), tensor("solve_triangular", x2))
    a, b = lapack.matrices("solve_triangular", a, square=True), lapack.matrices("solve_triangular", b)
    lead = common_shape("solve_triangular", [a.shape[:-2], b.shape[:-2]])
    a, b = broadcast_to(a, (*lead, *a.shape[-2:])), broadcast_to(b, (*lead, *b.shape[-2:]))
    return lapack.triangular_solve(a, b, lower=lower, unit=unit_diagonal)


def inv(x: Tensor, /) -> Tensor:
    """The inverse."""
    a = lapack.matrices("inv", x, square=True)
    if 0 in a.shape:
        return a.snapshot()
    size = a.shape[-1]
    return _solved(a, broadcast_to(eye(size, dtype=a.dtype), a.shape))


def lstsq(x1: Tensor, x2: Tensor, /, rcond: float | None = None, *, rtol: float | None = None) -> LstsqResult:
    """What comes closest to x1·x = x2, and is shortest if several do; `rcond` (or `rtol`) as in `pinv`."""
    rtol = rcond if rtol is None else rtol
    a, b = promoted("lstsq", tensor("lstsq", x1), tensor("lstsq", x2))
    a, b = lapack.matrices("lstsq", a), floating("lstsq", b)
    is_vector = b.ndim == 1
    right = reshaped(b, (b.shape[0], 1)) if is_vector else b
    if right.shape[-2] != a.shape[-2]:
        raise ShapeError.of("lstsq", f"shapes {a.shape} and {b.shape} do not fit", "both need the same rows")
    u, s, vh = lapack.svd(a, False)
    keep = s > _threshold(a, s, rtol)
    factor = where(keep, 1.0 / where(keep, s, 1.0), 0.0)
    solution = _adjoint(vh) @ (_column(factor, a) * (_adjoint(u) @ right))
    left = square(abs(a @ solution - right))
    x = reshaped(solution, solution.shape[:-1]) if is_vector else solution
    residuals = sum(left, axis=-2)
    return LstsqResult(x, residuals, sum(cast_to(keep, dtypes.int64), axis=-1), s)


def _column(values: Tensor, like: Tensor) -> Tensor:
    return cast_to(reshaped(values, (*values.shape, 1)), like.dtype)


def _adjoint(x: Tensor) -> Tensor:
    return conj(matrix_transpose(x))


def _threshold(a: Tensor, values: Tensor, rtol: float | Tensor | None) -> Tensor:
    """Singular values below this count as zero."""
    largest = values[..., :1]
    if rtol is None:
        eps = dtypes.float_format(values.dtype).eps
        return largest * (eps * _longest(a))
    if isinstance(rtol, Tensor):
        share = cast_to(rtol, values.dtype)
        return largest * reshaped(share, (*share.shape, 1))
    return largest * rtol


def _longest(a: Tensor) -> int:
    rows, columns = a.shape[-2:]
    return rows if rows > columns else columns


def pinv(x: Tensor, /, rcond: float | Tensor | None = None, *, rtol: float | Tensor | None = None) -> Tensor:
    """The pseudo-inverse; singular values below `rtol` (or `rcond`) times the largest count as zero."""
    rtol = rcond if rtol is None else rtol
    a = lapack.matrices("pinv", x)
    if 0 in a.shape:
        return zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), dtype=a.dtype)
    u, s, vh = lapack.svd(a, False)
    keep = s > _threshold(a, s, rtol)
    factor = where(keep, 1.0 / where(keep, s, 1.0), 0.0)
    return _adjoint(vh) @ (_column(factor, a) * _adjoint(u))


def matrix_rank(
    x: Tensor, /, tol: float | Tensor | None = None, *, rtol: float | Tensor | None = None
) -> Tensor:
    """How many singular values are above `tol`, or above `rtol` times the largest."""
    a = lapack.matrices("matrix_rank", x)
    if 0 in a.shape:
        return zeros(a.shape[:-2], dtype=dtypes.int64)
    s = lapack.singular_values(a)
    least = _threshold(a, s, rtol) if tol is None else tol
    return sum(cast_to(s > least, dtypes.int64), axis=-1)


def cond(x: Tensor, /, p: Order | None = None) -> Tensor:
    """The largest singular value over the smallest, or the norm `p` of a matrix times that of its inverse."""
    if p in (None, 2, -2):
        s = svdvals(x)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return matrix_norm(x, ord=p) * matrix_norm(inv(x), ord=p)


# --- determinants -----------------------------------------------------------------------------------------


def det(x: Tensor, /) -> Tensor:
    """The determinant."""
    a = lapack.matrices("det", x, square=True)
    if a.shape[-1] == 0:
        return zeros(a.shape[:-2], dtype=a.dtype) + 1
    values, parity = lapack.factors_of_determinant(a)
    return prod(values, axis=-1) * cast_to(parity, a.dtype)


def slogdet(x: Tensor, /) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its modulus, where the determinant itself could overflow."""
    a = lapack.matrices("slogdet", x, square=True)
    if a.shape[-1] == 0:
        nothing = zeros(a.shape[:-2], dtype=lapack.part_dtype(a.dtype))
        return SlogdetResult(cast_to(nothing + 1, a.dtype), nothing)
    values, parity = lapack.factors_of_determinant(a)
    return SlogdetResult(
        prod(sign(values), axis=-1) * cast_to(parity, a.dtype), sum(log(abs(values)), axis=-1)
    )


# --- parts and products -----------------------------------------------------------------------------------


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """A diagonal of matrices."""
    return diagonal_of("diagonal", x, offset)


def trace(x: Tensor, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    """The sum of a diagonal."""
    line = diagonal_of("trace", x, offset)
    return sum(line, axis=-1, dtype=summed_dtype(line, dtype))


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of three elements."""
    left, right = promoted("cross", tensor("cross", x1), tensor("cross", x2))
    if left.dtype.is_bool:
        raise DTypeError.of("cross", "bools are not numbers", "convert them first")
    ndim = left.ndim if left.ndim > right.ndim else right.ndim
    if not -ndim <= axis < ndim:
        raise ShapeError.of("cross", f"no axis {axis} in shapes {left.shape} and {right.shape}")
    shape = common_shape("cross", [left.shape, right.shape])
    place = axis_of("cross", axis, len(shape), shape)
    if shape[place] != 3 or 1 in (
        x.shape[axis if axis < 0 else axis - ndim] for x in (left, right) if x.ndim
    ):
        raise ShapeError.of(
            "cross", f"shapes {left.shape} and {right.shape} have no 3 elements along axis {axis}"
        )
    left, right = (moveaxis(broadcast_to(x, shape), place, -1) for x in (left, right))
    a, b = ([x[..., at] for at in range(3)] for x in (left, right))
    parts = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    return moveaxis(stack(parts, axis=-1), -1, place)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """The product of n equal square matrices; of inverses if n is negative."""
    given = tensor("matrix_power", x)
    if given.ndim < 2 or given.shape[-1] != given.shape[-2]:
        raise ShapeError.of("matrix_power", f"matrices of shape {given.shape} are not square")
    base = inv(given) if n < 0 else given
    power = -n if n < 0 else n
    result: Tensor | None = None
    while power:
        if power & 1:
            result = base if result is None else matmul(result, base)
        power >>= 1
        base = matmul(base, base) if power else base
    if result is None:
        return broadcast_to(eye(given.shape[-1], dtype=given.dtype), given.shape)
    return result.snapshot() if result is given else result


def multi_dot(arrays: Sequence[Tensor], /) -> Tensor:
    """The product of several matrices, in the order that needs the least work."""
    given = [tensor("multi_dot", x) for x in arrays]
    if len(given) < 2:
        raise ShapeError.of("multi_dot", f"{len(given)} matrices have no product")
    first, last = given[0].ndim == 1, given[-1].ndim == 1
    chain = [reshaped(x, (1, x.shape[0])) if at == 0 and first else x for at, x in enumerate(given)]
    chain[-1] = reshaped(chain[-1], (chain[-1].shape[0], 1)) if last else chain[-1]
    sizes = [chain[0].shape[0], *[x.shape[-1] for x in chain]]
    count = len(chain)
    cost = [[0] * count for _ in range(count)]
    cut = [[0] * count for _ in range(count)]
    for length in range(2, count + 1):
        for low in range(count - length + 1):
            high = low + length - 1
            options = [
                (cost[low][at] + cost[at + 1][high] + sizes[low] * sizes[at + 1] * sizes[high + 1], at)
                for at in range(low, high)
            ]
            cost[low][high], cut[low][high] = sorted(options)[0]

    def multiplied(low: int, high: int) -> Tensor:
        if low == high:
            return chain[low]
        at = cut[low][high]
        return matmul(multiplied(low, at), multiplied(at + 1, high))

    result = multiplied(0, count - 1)
    kept = [size for size, gone in zip(result.shape, (first, last), strict=True) if not gone]
    return reshaped(result, kept)

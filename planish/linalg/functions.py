"""The exponential and the root of matrices, LU by itself, and equations between tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from planish import dtypes
from planish.errors import ShapeError
from planish.frontend.control import while_loop
from planish.frontend.custom import stop_gradient
from planish.frontend.tensor import factorizations as lapack
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.operands import cast_to, tensor
from planish.linalg.core import inv, solve

_SERIES: Final = {
    7: ((17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1), 3.925724783138660),
    13: (
        (
            64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600, 670442572800,
            33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
        ),
        5.371920351148152,
    ),
}  # fmt: skip
"""By degree, the coefficients of Padé's approximation of the exponential, and up to which norm it is exact: to rounding in
float32 and in float64 (Higham, 2005)."""
_DOUBLINGS: Final = 64
"""Beyond so many the exponential of a matrix is 0 or infinite in float64."""


class LUResult(NamedTuple):
    """x = P·L·U: a permutation, a lower triangle with ones on its diagonal and an upper one."""

    P: Tensor
    L: Tensor
    U: Tensor


class LUFactors(NamedTuple):
    """Both triangles in one matrix, and the order of the rows: L·U = x[order]."""

    LU: Tensor
    order: Tensor


def expm(x: Tensor, /) -> Tensor:
    """The exponential Σ xⁿ/n! of square matrices, by scaling, Padé's approximation and squaring."""
    a = lapack.matrices("expm", x, square=True)
    if 0 in a.shape:
        return a.snapshot()
    part = lapack.part_dtype(a.dtype)
    coefficients, bound = _SERIES[13 if part is dtypes.float64 else 7]
    norm = stop_gradient(fn.max(fn.sum(fn.abs(a), axis=-2), axis=-1))
    ratio = fn.where(fn.isfinite(norm) & (norm > bound), norm / bound, 1.0)
    halvings = fn.minimum(fn.ceil(fn.log2(ratio)), float(_DOUBLINGS))
    scaled = a * cast_to(fn.exp2(-halvings)[..., None, None], a.dtype)
    start = _pade(scaled, coefficients)
    most = fn.max(halvings)

    def goes_on(state: tuple[Tensor, Tensor]) -> Tensor:
        return state[0] < most

    def squared(state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        count, power = state
        waits = (count < halvings)[..., None, None]
        return count + 1.0, fn.where(waits, power @ power, power)

    zero = fn.zeros((), dtype=part)
    result: Tensor = while_loop(goes_on, squared, (zero, start), max_steps=_DOUBLINGS)[1]
    return result


def _pade(a: Tensor, b: Sequence[int]) -> Tensor:
    """(V - U)⁻¹·(V + U), where U has the odd powers and V the even ones."""
    one = fn.eye(a.shape[-1], dtype=a.dtype)
    square = a @ a
    powers = [one, square]
    while len(powers) < min(4, (len(b) + 1) // 2):
        powers.append(powers[-1] @ square)
    odd, even = (_sum(powers, [float(c) for c in b[start::2]]) for start in (1, 0))
    u = a @ odd
    return solve(even - u, even + u)


def _sum(powers: Sequence[Tensor], coefficients: Sequence[float]) -> Tensor:
    """Σ cₙ·a²ⁿ; of more terms than there are powers, those above are a multiple of the last one."""
    low = fn.broadcast_to(powers[0] * coefficients[0], powers[-1].shape)
    for power, c in zip(powers[1:], coefficients[1:], strict=False):
        low = low + power * c
    rest = coefficients[len(powers) :]
    if not rest:
        return low
    high = powers[1] * rest[0]
    for power, c in zip(powers[2:], rest[1:], strict=False):
        high = high + power * c
    return low + powers[-1] @ high


def sqrtm(x: Tensor, /) -> Tensor:
    """The principal root of square matrices without eigenvalues on the negative axis, by Denman's and Beavers's iteration."""
    a = lapack.matrices("sqrtm", x, square=True)
    if 0 in a.shape:
        return a.snapshot()
    size = a.shape[-1]
    one = fn.broadcast_to(fn.eye(size, dtype=a.dtype), a.shape)
    eps = dtypes.float_format(lapack.part_dtype(a.dtype)).eps

    def goes_on(state: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        return fn.any(state[2] > size * eps)

    def step(state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        root, product, _ = state
        # the product form: what is left of it from one says how far the root is
        inverse = inv(product)
        next_root = (root @ (one + inverse)) * 0.5
        next_product = (one + (product + inverse) * 0.5) * 0.5
        left = fn.max(fn.abs(next_product - one), axis=(-2, -1))
        return next_root, next_product, stop_gradient(left)

    far = fn.ones(a.shape[:-2], dtype=lapack.part_dtype(a.dtype))
    result: Tensor = while_loop(goes_on, step, (a, a, far), max_steps=_ROOT_STEPS)[0]
    return result


_ROOT_STEPS: Final = 40
"""Quadratic from where it is near; before, each step halves the logarithm of the condition."""


def logm(x: Tensor, /) -> Tensor:
    """The principal logarithm, of matrices that have a principal root: roots until one is near 1, then Gauss's quadrature of ∫ y/(1 + ty) dt."""
    a = lapack.matrices("logm", x, square=True)
    if 0 in a.shape:
        return a.snapshot()
    part = lapack.part_dtype(a.dtype)
    one = fn.eye(a.shape[-1], dtype=a.dtype)

    def far(root: Tensor) -> Tensor:
        return stop_gradient(fn.max(fn.sum(fn.abs(root - one), axis=-2), axis=-1)) > _NEAR

    def goes_on(state: tuple[Tensor, Tensor]) -> Tensor:
        return fn.any(far(state[0]))

    def step(state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        root, scale = state
        waits = far(root)
        return fn.where(waits[..., None, None], sqrtm(root), root), fn.where(waits, scale * 2.0, scale)

    start = (a, fn.ones(a.shape[:-2], dtype=part))
    root, scale = while_loop(goes_on, step, start, max_steps=_ROOTS)
    rest = root - one
    places, weights = np.polynomial.legendre.leggauss(_POINTS)
    total = fn.zeros_like(rest)
    for place, weight in zip(places, weights, strict=True):
        total = total + solve(one + rest * float((place + 1.0) / 2.0), rest) * float(weight / 2.0)
    return total * cast_to(scale[..., None, None], a.dtype)


_NEAR: Final = 0.25
_POINTS: Final = 8
"""So many points are exact to rounding in float64 for matrices so near 1."""
_ROOTS: Final = 24


def lu(x: Tensor, /) -> LUResult:
    """A permutation times a lower triangle times an upper one, of matrices of any shape."""
    a = lapack.matrices("lu", x)
    packed, order = lapack.lu(a)
    rows, columns = a.shape[-2:]
    inner = min(rows, columns)
    lower = fn.tril(packed[..., :inner], k=-1) + fn.eye(rows, inner, dtype=a.dtype)
    upper = fn.triu(packed[..., :inner, :])
    permutation = cast_to(fn.expand_dims(order, axis=-2) == fn.arange(rows)[:, None], a.dtype)
    return LUResult(permutation, lower, upper)


def lu_factor(x: Tensor, /) -> LUFactors:
    """The triangles of square matrices, for `lu_solve`."""
    return LUFactors(*lapack.lu(lapack.matrices("lu_factor", x, square=True)))


def lu_solve(factors: tuple[Tensor, Tensor], b: Tensor, /) -> Tensor:
    """x with a·x = b, for the factors of a; b is a vector if it has one axis, else a stack of matrices."""
    packed, order = factors
    right = cast_to(tensor("lu_solve", b), packed.dtype)
    is_vector = right.ndim == 1
    right = right[:, None] if is_vector else right
    if right.shape[-2] != packed.shape[-1]:
        raise ShapeError.of("lu_solve", f"factors {packed.shape} and a right side {tensor('lu_solve', b).shape} do not fit", "a row per row of the matrix"
        )  # fmt: skip
    lead = fn.broadcast_shapes(packed.shape[:-2], right.shape[:-2])
    packed = fn.broadcast_to(packed, (*lead, *packed.shape[-2:]))
    right = fn.broadcast_to(right, (*lead, *right.shape[-2:]))
    places = fn.broadcast_to(order[..., None], right.shape)
    rows = fn.take_along_axis(right, places, axis=-2)
    forward = lapack.triangular_solve(packed, rows, lower=True, unit=True)
    x = lapack.triangular_solve(packed, forward, lower=False)
    return x[..., 0] if is_vector else x


def tensorinv(x: Tensor, /, ind: int = 2) -> Tensor:
    """The inverse for `tensordot` over the first `ind` axes."""
    given = tensor("tensorinv", x)
    if not 0 < ind < given.ndim or math.prod(given.shape[:ind]) != math.prod(given.shape[ind:]):
        raise ShapeError.of("tensorinv", f"shape {given.shape} cut at {ind} is not square", "both parts need as many elements"
        )  # fmt: skip
    size = math.prod(given.shape[:ind])
    return fn.reshape(inv(fn.reshape(given, (size, size))), (*given.shape[ind:], *given.shape[:ind]))


def tensorsolve(a: Tensor, b: Tensor, /, axes: Sequence[int] | None = None) -> Tensor:
    """x with tensordot(a, x, x.ndim) = b; `axes` of a are moved to its end first."""
    left, right = tensor("tensorsolve", a), tensor("tensorsolve", b)
    if axes is not None:
        moved = [axis % left.ndim for axis in axes]
        left = fn.permute_dims(left, (*[n for n in range(left.ndim) if n not in moved], *moved))
    rest = left.shape[right.ndim :]
    if left.shape[: right.ndim] != right.shape or math.prod(rest) != right.size:
        raise ShapeError.of("tensorsolve", f"shapes {left.shape} and {right.shape} do not fit", "a begins with the shape of b, and is square as a matrix"
        )  # fmt: skip
    x = solve(fn.reshape(left, (right.size, right.size)), fn.reshape(right, (right.size,)))
    return fn.reshape(x, rest)


__all__ = [
    "LUFactors", "LUResult", "expm", "logm", "lu", "lu_factor", "lu_solve", "sqrtm", "tensorinv", "tensorsolve",
]  # fmt: skip

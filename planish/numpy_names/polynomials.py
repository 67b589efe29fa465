"""Polynomials as vectors of coefficients, highest power first."""

from __future__ import annotations

import numpy as np

from planish import dtypes, linalg
from planish.errors import ShapeError
from planish.frontend.tensor import functions as api
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.operands import Operand, default_float, promoted, tensor
from planish.numpy_names.signals import convolve


def _line(name: str, p: Tensor) -> Tensor:
    """Coefficients; a number is a polynomial too."""
    line = api.atleast_1d(p)
    if line.ndim != 1:
        raise ShapeError.of(name, f"shape {line.shape} is not a vector of coefficients")
    return line


def polyval(p: Tensor, x: Operand, /) -> Tensor:
    """The value of a polynomial, highest power first."""
    coefficients, place = promoted("polyval", p, x)
    coefficients = _line("polyval", coefficients)
    value = api.zeros_like(place)
    for number in range(coefficients.shape[0]):
        value = value * place + coefficients[number]
    return value


def _aligned(name: str, p1: Operand, p2: Operand) -> tuple[Tensor, Tensor]:
    left, right = [_line(name, one) for one in promoted(name, p1, p2)]
    size = max(left.shape[0], right.shape[0])
    return api.pad(left, [(size - left.shape[0], 0)]), api.pad(right, [(size - right.shape[0], 0)])


def polyadd(p1: Operand, p2: Operand, /) -> Tensor:
    """The sum of two polynomials."""
    return api.add(*_aligned("polyadd", p1, p2))


def polysub(p1: Operand, p2: Operand, /) -> Tensor:
    """The difference of two polynomials."""
    return api.subtract(*_aligned("polysub", p1, p2))


def polymul(p1: Operand, p2: Operand, /) -> Tensor:
    """The product of two polynomials."""
    left, right = [_line("polymul", one) for one in promoted("polymul", p1, p2)]
    return convolve(left, right)


def polydiv(u: Operand, v: Operand, /) -> tuple[Tensor, Tensor]:
    """Quotient and remainder of two polynomials."""
    dividend, divisor = [_line("polydiv", default_float(one)) for one in promoted("polydiv", u, v)]
    steps = dividend.shape[0] - divisor.shape[0] + 1
    if steps < 1:
        return api.zeros((1,), dtype=dividend.dtype), dividend
    quotient = []
    rest = dividend
    for number in range(steps):
        factor = rest[number] / divisor[0]
        quotient.append(factor)
        rest = rest - api.pad(divisor * factor, [(number, steps - 1 - number)])
    return api.stack(quotient), rest[steps:] if divisor.shape[0] > 1 else api.zeros((1,), dtype=rest.dtype)


def polyder(p: Tensor, /, m: int = 1) -> Tensor:
    """The derivative of a polynomial, `m` times."""
    line = _line("polyder", tensor("polyder", p))
    for _ in range(m):
        powers = api.arange(line.shape[0] - 1, 0, -1, dtype=line.dtype) if line.shape[0] > 1 else None
        line = line[:0] if powers is None else line[:-1] * powers
    return line


def polyint(p: Tensor, /, m: int = 1, k: Operand = 0) -> Tensor:
    """The integral of a polynomial, `m` times, with constants of integration."""
    line, added = _line("polyint", default_float(tensor("polyint", p))), api.ravel(tensor("polyint", k))
    added = api.astype(api.broadcast_to(added, (m,)) if added.shape[0] == 1 else added, line.dtype)
    for number in range(m):
        powers = api.arange(line.shape[0], 0, -1, dtype=line.dtype)
        line = api.concat([line / powers, added[number : number + 1]])
    return line


def polyfit(x: Tensor, y: Tensor, deg: int, /, *, w: Tensor | None = None) -> Tensor:
    """The polynomial of a degree that is closest to points, by least squares."""
    places, values = [default_float(one) for one in promoted("polyfit", x, y)]
    if places.ndim != 1 or places.shape[0] != values.shape[0] or deg < 0:
        raise ShapeError.of("polyfit", f"{places.shape} points, {values.shape} values, degree {deg}")
    table = api.vander(places, deg + 1)
    if w is not None:
        weight = tensor("polyfit", w)
        table, values = table * weight[:, None], values * (weight if values.ndim == 1 else weight[:, None])
    scale = api.sqrt(api.sum(table * table, axis=0))
    coefficients = linalg.lstsq(table / scale, values)[0]
    return coefficients / (scale if coefficients.ndim == 1 else scale[:, None])


def poly(x: Tensor, /) -> Tensor:
    """The polynomial that has these zeros, or the characteristic one of a matrix."""
    zeros = tensor("poly", x)
    zeros = linalg.eigvals(zeros) if zeros.ndim == 2 else api.atleast_1d(default_float(zeros))
    line = api.ones((1,), dtype=zeros.dtype)
    for number in range(zeros.shape[0]):
        line = api.concat([line, api.zeros((1,), dtype=line.dtype)]) - api.concat(
            [api.zeros((1,), dtype=line.dtype), line * zeros[number]]
        )
    if line.dtype.is_complex and not tensor("poly", x).dtype.is_complex:
        return api.real(line)
    return line


def roots(p: Tensor, /) -> Tensor:
    """The zeros of a polynomial. How many there are depends on the data: leading zeros are no powers."""
    given = default_float(tensor("roots", p))
    if given.ndim != 1:
        raise ShapeError.of("roots", f"shape {given.shape} is not a vector")
    kept = np.flatnonzero(given._elements("roots"))
    complex_kind = (
        dtypes.complex128 if given.dtype in (dtypes.float64, dtypes.complex128) else dtypes.complex64
    )
    if not kept.size:
        return api.zeros((0,), dtype=complex_kind)
    line, at_zero = given[int(kept[0]) : int(kept[-1]) + 1], given.shape[0] - 1 - int(kept[-1])
    size = line.shape[0] - 1
    tail = api.zeros((at_zero,), dtype=complex_kind)
    if size < 1:
        return tail
    companion = api.concat(
        [-(line[1:] / line[0])[None, :], api.eye(size - 1, size, dtype=line.dtype)], axis=0
    )
    return api.concat([linalg.eigvals(companion), tail])


__all__ = [
    "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval", "roots",
]  # fmt: skip

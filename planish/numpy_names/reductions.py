"""Statistics that NumPy has beyond the standard's: those that skip NaN, shares of sorted values, moments of several variables."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from planish import dtypes
from planish.errors import ShapeError
from planish.frontend.tensor import functions as api
from planish.frontend.tensor.array import Axis, Scalar, Tensor
from planish.frontend.tensor.operands import DTypeLike, axes_of, default_float, line_of, size_of, tensor
from planish.frontend.tensor.quantiles import Share, quantiles
from planish.frontend.tensor.spelling import arguments_of


def cumsum(x: Tensor, /, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Running sums along an axis, or of all elements in row-major order."""
    line, along = line_of("cumsum", tensor("cumsum", x), axis)
    return api.cumulative_sum(line, axis=along, dtype=dtype)


def cumprod(x: Tensor, /, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Running products along an axis, or of all elements in row-major order."""
    line, along = line_of("cumprod", tensor("cumprod", x), axis)
    return api.cumulative_prod(line, axis=along, dtype=dtype)


def ptp(x: Tensor, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The distance from the smallest to the greatest."""
    return api.max(x, axis=axis, keepdims=keepdims) - api.min(x, axis=axis, keepdims=keepdims)


# --- without NaN ------------------------------------------------------------------------------------------


def _without(name: str, x: object, value: Scalar) -> tuple[Tensor, Tensor]:
    """With a number in place of NaN, and where that is."""
    given = tensor(name, x)
    missing = api.isnan(given)
    return api.where(missing, value, given), missing


@arguments_of(api.sum)
def nansum(x: Tensor, /, *args: Any, **options: Any) -> Tensor:
    """The sum over axes of what is not NaN."""
    return api.sum(_without("nansum", x, 0)[0], *args, **options)


@arguments_of(api.prod)
def nanprod(x: Tensor, /, *args: Any, **options: Any) -> Tensor:
    """The product over axes of what is not NaN."""
    return api.prod(_without("nanprod", x, 1)[0], *args, **options)


def nancumsum(x: Tensor, /, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Running sums; NaN counts as 0."""
    return cumsum(_without("nancumsum", x, 0)[0], axis, dtype)


def nancumprod(x: Tensor, /, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Running products; NaN counts as 1."""
    return cumprod(_without("nancumprod", x, 1)[0], axis, dtype)


def _real(x: Tensor) -> dtypes.DType:
    return {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}.get(x.dtype, x.dtype)


def _counted(name: str, x: Tensor, dtype: DTypeLike | None, where: Tensor | None) -> tuple[Tensor, Tensor]:
    """The elements as floats, and which of them count: what is not NaN."""
    given = tensor(name, x)
    given = default_float(given) if dtype is None else api.astype(given, dtype)
    counts = api.logical_not(api.isnan(given))
    return given, counts if where is None else api.logical_and(counts, where)


def nanmean(
    x: Tensor,
    /,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    where: Tensor | None = None,
) -> Tensor:
    """The mean over axes of what is not NaN."""
    given, counts = _counted("nanmean", x, dtype, where)
    return api.mean(given, axis, keepdims=keepdims, where=counts)


def nanvar(
    x: Tensor,
    /,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    *,
    ddof: float = 0,
    correction: float | None = None,
    keepdims: bool = False,
    where: Tensor | None = None,
    mean: Tensor | Scalar | None = None,
) -> Tensor:
    """The variance over axes of what is not NaN."""
    given, counts = _counted("nanvar", x, dtype, where)
    middle = nanmean(given, axis, keepdims=True, where=where) if mean is None else mean
    squares = api.square(
        api.abs(api.where(counts, given - middle, 0))
    )  # no NaN under the square has a gradient
    count = api.sum(api.astype(counts, _real(given)), axis, keepdims=True)
    total = api.sum(squares, axis, keepdims=True)
    less = ddof if correction is None else correction
    variance = api.where(count > less, total / (count - less), math.nan)
    return variance if keepdims else api.squeeze(variance, axes_of("nanvar", axis, given))


@arguments_of(nanvar)
def nanstd(x: Tensor, /, *args: Any, **options: Any) -> Tensor:
    """The standard deviation over axes of what is not NaN."""
    return api.sqrt(nanvar(x, *args, **options))


def _extreme(
    name: str,
    reduce: Callable[..., Tensor],
    end: float,
    x: Tensor,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    initial: Tensor | Scalar | None = None,
    where: Tensor | None = None,
) -> Tensor:
    given = tensor(name, x)
    if not given.dtype.is_float:
        return reduce(given, axis=axis, keepdims=keepdims, initial=initial, where=where)
    clean, missing = _without(name, given, end)
    extreme = reduce(clean, axis=axis, keepdims=keepdims, initial=initial, where=where)
    if initial is not None:
        return extreme
    return api.where(api.all(missing, axis=axis, keepdims=keepdims), math.nan, extreme)


@arguments_of(api.max)
def nanmax(x: Tensor, /, *args: Any, **options: Any) -> Tensor:
    """The greatest over axes of what is not NaN."""
    return _extreme("nanmax", api.max, -math.inf, x, *args, **options)


@arguments_of(api.min)
def nanmin(x: Tensor, /, *args: Any, **options: Any) -> Tensor:
    """The smallest over axes of what is not NaN."""
    return _extreme("nanmin", api.min, math.inf, x, *args, **options)


def nanargmax(x: Tensor, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Where the greatest is of what is not NaN."""
    given = tensor("nanargmax", x)
    clean = _without("nanargmax", given, -math.inf)[0] if given.dtype.is_float else given
    return api.argmax(clean, axis=axis, keepdims=keepdims)


def nanargmin(x: Tensor, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Where the smallest is of what is not NaN."""
    given = tensor("nanargmin", x)
    clean = _without("nanargmin", given, math.inf)[0] if given.dtype.is_float else given
    return api.argmin(clean, axis=axis, keepdims=keepdims)


# --- shares of sorted values ------------------------------------------------------------------------------


def percentile(
    x: Tensor, q: Share, /, axis: Axis = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """Values below which `q` per cent of the elements lie; NaN if there is one."""
    return quantiles("percentile", x, q, axis, keepdims, method, scale=100.0)


def nanquantile(
    x: Tensor, q: Share, /, axis: Axis = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """Values below which a share `q` lies of what is not NaN."""
    return quantiles("nanquantile", x, q, axis, keepdims, method, skip=True)


def nanpercentile(
    x: Tensor, q: Share, /, axis: Axis = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """Values below which `q` per cent lie of what is not NaN."""
    return quantiles("nanpercentile", x, q, axis, keepdims, method, skip=True, scale=100.0)


def nanmedian(x: Tensor, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The middle of what is not NaN."""
    return nanquantile(x, 0.5, axis, keepdims=keepdims)


# --- several variables ------------------------------------------------------------------------------------


def cov(
    m: Tensor,
    y: Tensor | None = None,
    /,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """Covariances of variables: one a row (a column without `rowvar`), one observation a column."""
    variables = _variables("cov", m, y, rowvar)
    weights = None
    if fweights is not None:
        weights = api.astype(tensor("cov", fweights), _real(variables))
    if aweights is not None:
        share = api.astype(tensor("cov", aweights), _real(variables))
        weights = share if weights is None else weights * share
    less = ddof if ddof is not None else (0 if bias else 1)
    if weights is None:
        count = size_of(variables, 1, _real(variables))
        total: Tensor | float = float(count) if isinstance(count, int) else count
        mean = api.mean(variables, axis=1, keepdims=True)
        divisor: Tensor | float = (
            api.maximum(total - less, 0.0) if isinstance(total, Tensor) else max(total - less, 0.0)
        )
    else:
        total = api.sum(weights)
        mean = api.sum(variables * weights, axis=1, keepdims=True) / total
        if aweights is None or less == 0:
            divisor = total - less
        else:
            divisor = total - less * api.sum(weights * tensor("cov", aweights)) / total
    centred = variables - mean
    other = centred if weights is None else centred * weights
    return api.squeeze(api.matmul(centred, api.conj(api.matrix_transpose(other))) / divisor)


def _variables(name: str, m: Tensor, y: Tensor | None, rowvar: bool) -> Tensor:
    rows = []
    for given in (m, y):
        if given is not None:
            matrix = api.atleast_2d(default_float(tensor(name, given)))
            if matrix.ndim != 2:
                raise ShapeError.of(name, f"shape {matrix.shape} has more than two axes")
            rows.append(matrix if rowvar or tensor(name, given).ndim == 1 else matrix.T)
    return rows[0] if len(rows) == 1 else api.concat(rows, axis=0)


def corrcoef(x: Tensor, y: Tensor | None = None, /, rowvar: bool = True) -> Tensor:
    """Correlations of variables, between -1 and 1."""
    shared = cov(x, y, rowvar)
    if shared.ndim == 0:
        return shared / shared
    deviation = api.sqrt(api.real(api.diag(shared)))
    scaled = shared / deviation[:, None] / deviation[None, :]
    return scaled if scaled.dtype.is_complex else api.clip(scaled, -1.0, 1.0)


__all__ = [
    "corrcoef", "cov", "cumprod", "cumsum", "nanargmax",
    "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile", "nanprod",
    "nanquantile", "nanstd", "nansum", "nanvar", "percentile", "ptp",
]  # fmt: skip

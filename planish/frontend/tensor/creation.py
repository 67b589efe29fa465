"""Creation functions: tensors from numbers, and from the data of others.

Regular ones (`zeros`, `arange`, `eye` …) are expressions, not memory: they fuse into whatever uses them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, cast, overload

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.errors import DTypeError, ShapeError
from planish.frontend import devices
from planish.frontend.tensor.array import Scalar, Tensor
from planish.frontend.tensor.composite import composite
from planish.frontend.tensor.elementwise import maximum, where
from planish.frontend.tensor.operands import (
    DTypeLike,
    Shape,
    Sizes,
    as_dtype,
    as_shape,
    axis_of,
    broadcast,
    broadcast_all,
    cast_to,
    constant,
    permuted,
    promoted,
    reshaped,
    size_as_number,
    tensor,
)
from planish.frontend.tensor.recipes import remembered
from planish.ptir import ops
from planish.ptir.dims import Dim
from planish.ptir.library import shaping
from planish.ptir.types import DimLike, bounds


def placed(x: Tensor, device: str | None) -> Tensor:
    """The tensor, tied to a device if one is named."""
    if device is None:
        return x
    x._value.device = devices.checked(device)
    return x


def iota(shape: Sequence[DimLike], axis: int, dtype: DType = dtypes.int64) -> Tensor:
    """0, 1, 2 … along an axis."""
    return Tensor.apply(ops.iota, attrs=ops.IotaAttrs(dtype, tuple(shape), axis))


def full(
    shape: Sizes,
    fill_value: Scalar | Tensor | Dim,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
) -> Tensor:
    """One value everywhere."""
    sizes = as_shape("full", shape)
    if isinstance(fill_value, Dim):
        fill_value = tensor("full", fill_value)
    if isinstance(fill_value, Tensor):
        value = tensor("full", fill_value) if dtype is None else cast_to(fill_value, as_dtype(dtype))
        return placed(broadcast(value, sizes).snapshot(), device)
    kind = dtypes.result_type(fill_value) if dtype is None else as_dtype(dtype)
    return placed(constant(fill_value, kind, sizes), device)


def zeros(shape: Sizes, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Zeros."""
    kind = dtypes.DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    return placed(constant(0, kind, as_shape("zeros", shape)), device)


def ones(shape: Sizes, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Ones."""
    kind = dtypes.DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    return placed(constant(1, kind, as_shape("ones", shape)), device)


def empty(shape: Sizes, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Zeros: there is no uninitialised memory."""
    return zeros(shape, dtype=dtype, device=device)


def full_like(
    x: Tensor,
    /,
    fill_value: Scalar | Tensor,
    dtype: DTypeLike | None = None,
    *,
    shape: Sizes | None = None,
    device: str | None = None,
) -> Tensor:
    """One value everywhere, in the shape and dtype of another."""
    given = tensor("full_like", x)
    return full(
        given.shape if shape is None else shape,
        fill_value,
        dtype=given.dtype if dtype is None else dtype,
        device=device or given._device,
    )


def zeros_like(
    x: Tensor, /, dtype: DTypeLike | None = None, *, shape: Sizes | None = None, device: str | None = None
) -> Tensor:
    """Zeros in the shape and dtype of another."""
    return full_like(x, 0, dtype=dtype, shape=shape, device=device)


def ones_like(
    x: Tensor, /, dtype: DTypeLike | None = None, *, shape: Sizes | None = None, device: str | None = None
) -> Tensor:
    """Ones in the shape and dtype of another."""
    return full_like(x, 1, dtype=dtype, shape=shape, device=device)


def empty_like(
    x: Tensor, /, dtype: DTypeLike | None = None, *, shape: Sizes | None = None, device: str | None = None
) -> Tensor:
    """Zeros in the shape and dtype of another: there is no uninitialised memory."""
    return full_like(x, 0, dtype=dtype, shape=shape, device=device)


def arange(
    start: float | Dim,
    /,
    stop: float | Dim | None = None,
    step: float = 1,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
) -> Tensor:
    """start, start + step … up to but without stop."""
    first, last = (0, start) if stop is None else (start, stop)
    if isinstance(first, Dim) or isinstance(last, Dim):
        return _counted(cast("DimLike", first), cast("DimLike", last), cast("int", step), dtype, device)
    given = [_number(number) for number in (first, last, step)]
    if any(not isinstance(number, int | float) for number in given):
        raise DTypeError.of("arange", f"takes real numbers, not {given}")
    first, last, step = given
    if step == 0:
        raise ShapeError.of("arange", "a step of 0 never arrives")
    kind = dtypes.result_type(*given) if dtype is None else as_dtype(dtype)
    if all(isinstance(number, int) for number in given):
        count = len(range(int(first), int(last), int(step)))
    else:
        count = max(0, math.ceil((last - first) / step))
    if kind.is_int and isinstance(first, int) and isinstance(step, int):
        for end in (first, first + (count - 1) * step) if count > 0 else ():
            if not cast("int", kind.min) <= end <= cast("int", kind.max):
                raise DTypeError.of("arange", f"{end} is no {kind.name}", "use a wider dtype")
        counted = iota((count,), 0, dtypes.uint64 if kind is dtypes.uint64 else dtypes.int64)
        wide = counted.dtype
        line = counted * constant(wide.wrap(step), wide) + constant(wide.wrap(first), wide)
    else:
        line = cast_to(iota((count,), 0), dtypes.float64) * float(step) + float(first)
    return placed(cast_to(line, kind), device)


def _counted(first: DimLike, last: DimLike, step: int, dtype: DTypeLike | None, device: str | None) -> Tensor:
    """Numbers up to a size that has only a name."""
    given: tuple[object, ...] = (first, last, step)
    if any(isinstance(number, float) for number in given) or step < 1 or not first <= last:
        raise ShapeError.of(
            "arange",
            f"from {first} to {last} by {step}: how many numbers that are is not certain",
            "with named sizes it counts upwards by a whole number, from a start that is not beyond the end",
        )
    count = (last - first + (step - 1)) // step
    line = iota((count,), 0) * step + (size_as_number(first) if isinstance(first, Dim) else first)
    return placed(cast_to(line, dtypes.int64 if dtype is None else as_dtype(dtype)), device)


def _number(x: object) -> int | float:
    """A number, also as a tensor without axes."""
    return cast("float", x.item() if isinstance(x, Tensor) else x)


@overload
def linspace(
    start: Scalar | Tensor,
    stop: Scalar | Tensor,
    /,
    num: DimLike = 50,
    endpoint: bool = True,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    retstep: Literal[False] = False,
    axis: int = 0,
) -> Tensor: ...
@overload
def linspace(
    start: Scalar | Tensor,
    stop: Scalar | Tensor,
    /,
    num: DimLike = 50,
    endpoint: bool = True,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    retstep: Literal[True],
    axis: int = 0,
) -> tuple[Tensor, Tensor | Scalar]: ...
def linspace(
    start: Scalar | Tensor,
    stop: Scalar | Tensor,
    /,
    num: DimLike = 50,
    endpoint: bool = True,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    retstep: bool = False,
    axis: int = 0,
) -> Tensor | tuple[Tensor, Tensor | Scalar]:
    """Evenly spaced numbers from start to stop; between tensors along a new axis. With `retstep` their distance as well."""
    ends = [
        tensor("linspace", x) if isinstance(x, Tensor | np.ndarray | list | tuple) else x
        for x in (start, stop)
    ]
    first, last = ends
    is_complex = any(x.dtype.is_complex if isinstance(x, Tensor) else isinstance(x, complex) for x in ends)
    kind = as_dtype(dtype) if dtype is not None else _spaced_dtype(ends, is_complex)
    wide = dtypes.complex128 if is_complex or kind.is_complex else dtypes.float64
    if kind.is_bool:
        raise DTypeError.of("linspace", "truth values are not evenly spaced", "use a dtype of numbers")
    if bounds(num)[0] < 0:
        raise ShapeError.of("linspace", f"cannot make {num} numbers")
    between = [x for x in ends if isinstance(x, Tensor)]
    if between:
        first, last = broadcast_all(
            "linspace", [cast_to(x, wide) if isinstance(x, Tensor) else constant(x, wide) for x in ends]
        )
    number = iota((num, *[1] * (first.ndim if isinstance(first, Tensor) else 0)), 0)
    parts, step, is_last = _parts(num, number, last - first, endpoint)
    line = cast_to(number, wide) * step + first
    if endpoint and parts is not None:  # the end itself, not what rounding makes of it
        line = where(
            cast("Tensor", is_last), last if isinstance(last, Tensor) else constant(last, wide), line
        )
    if between and axis:
        place = axis_of("linspace", axis, line.ndim)
        line = permuted(line, [*range(1, place + 1), 0, *range(place + 1, line.ndim)])
    spaced = placed(cast_to(line, kind), device)
    if not retstep:
        return spaced
    certain = bounds(num)[1] > (1 if endpoint else 0)
    return spaced, (step if certain else math.nan)


def _spaced_dtype(ends: Sequence[Scalar | Tensor], is_complex: bool) -> DType:
    """What numbers between ends are computed in: the ends' float dtype, or the default one."""
    default = dtypes.DEFAULT_COMPLEX if is_complex else dtypes.DEFAULT_FLOAT
    known = [x.dtype for x in ends if isinstance(x, Tensor) and (x.dtype.is_float or x.dtype.is_complex)]
    return dtypes.promote(*known, *([default] if is_complex else [])) if known else default


def _parts(
    num: DimLike, number: Tensor, span: Scalar | Tensor, endpoint: bool
) -> tuple[object | None, Tensor | Scalar, Tensor | None]:
    """Into how many parts a line is cut (None: it is one point), how long one is, and which point is the last."""
    if isinstance(num, Dim):
        count = size_as_number(num)
        last = cast_to(count, dtypes.int64) - 1
        parts = cast_to(maximum(last if endpoint else last + 1, 1), dtypes.float64)
        return (
            parts,
            (span if isinstance(span, Tensor) else constant(span, dtypes.result_type(dtypes.float64, span)))
            / parts,
            (number == last) & (last > 0),
        )
    pieces = num - 1 if endpoint else num
    if num <= 1:
        return None, span / pieces if pieces > 0 else 0.0, None
    return pieces, span / pieces, number == num - 1


def logspace(
    start: Scalar | Tensor,
    stop: Scalar | Tensor,
    /,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
    axis: int = 0,
) -> Tensor:
    """Powers of a base, with evenly spaced exponents."""
    exponents = linspace(start, stop, num, dtype=dtypes.float64, endpoint=endpoint, axis=axis)
    ends = [tensor("logspace", x) for x in (start, stop) if isinstance(x, Tensor | np.ndarray | list | tuple)]
    kind = _spaced_dtype(ends, False) if dtype is None else as_dtype(dtype)
    return placed(cast_to(float(base) ** exponents, kind), device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    k: int = 0,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
) -> Tensor:
    """Ones on a diagonal."""
    shape = as_shape("eye", (n_rows, n_rows if n_cols is None else n_cols))
    kind = dtypes.DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    return placed(cast_to(iota(shape, 1) - iota(shape, 0) == _diagonal(k, shape), kind), device)


@remembered
def _triangle(name: str, x: Tensor, k: int, lower: bool) -> Tensor:
    given = tensor(name, x)
    if given.ndim < 2:
        raise ShapeError.of(name, f"shape {given.shape} is not a matrix", "it needs two axes")
    return composite(shaping.tril if lower else shaping.triu, given, diagonal=_diagonal(k, given.shape[-2:]))


def _diagonal(k: int, shape: Shape) -> int:
    """The number of a diagonal; those outside are all alike."""
    rows, columns = (bounds(size)[1] for size in shape)
    return max(-rows, min(k, columns))


def tril(x: Tensor, /, k: int = 0) -> Tensor:
    """Zeros above a diagonal."""
    return _triangle("tril", x, k, True)


def triu(x: Tensor, /, k: int = 0) -> Tensor:
    """Zeros below a diagonal."""
    return _triangle("triu", x, k, False)


def tri(
    n_rows: int,
    n_cols: int | None = None,
    /,
    k: int = 0,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
) -> Tensor:
    """Ones on and below a diagonal."""
    shape = as_shape("tri", (n_rows, n_rows if n_cols is None else n_cols))
    kind = dtypes.DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    return placed(cast_to(iota(shape, 1) - iota(shape, 0) <= _diagonal(k, shape), kind), device)


def diag(x: Tensor, /, k: int = 0) -> Tensor:
    """A matrix with a vector on a diagonal; for a matrix, that diagonal."""
    given = tensor("diag", x)
    if given.ndim == 2:
        return composite(shaping.diagonal, given, offset=k)
    if given.ndim != 1:
        raise ShapeError.of("diag", f"shape {given.shape} is neither a vector nor a matrix")
    size = given.shape[0] + abs(k)
    row, column = iota((size, size), 0), iota((size, size), 1)
    line = Tensor.apply(
        ops.pad, given, constant(0, given.dtype), attrs=ops.PadAttrs((max(0, -k),), (max(0, k),), (0,))
    )
    return where(column - row == k, reshaped(line, (size, 1)), constant(0, given.dtype))


def meshgrid(
    *arrays: Tensor, indexing: Literal["xy", "ij"] = "xy", sparse: bool = False
) -> tuple[Tensor, ...]:
    """Coordinates: each vector along an axis of its own, repeated along the others; with `sparse` not repeated."""
    if indexing not in ("xy", "ij"):
        raise ShapeError.of("meshgrid", f"there is no indexing {indexing!r}", "xy or ij")
    lines = [reshaped(x, (x.size,)) if x.ndim != 1 else x for x in [tensor("meshgrid", x) for x in arrays]]
    order = list(range(len(lines)))
    if indexing == "xy" and len(lines) > 1:
        order[:2] = [1, 0]
    laid = []
    for number, line in enumerate(lines):
        shape = [1] * len(lines)
        shape[order.index(number)] = line.shape[0]
        laid.append(reshaped(line, shape))
    if sparse:
        return tuple([x.snapshot() for x in laid])
    return tuple([x.snapshot() for x in broadcast_all("meshgrid", laid)]) if laid else ()


@remembered
def one_hot(x: Tensor, /, num_classes: int, dtype: DTypeLike | None = None, *, axis: int = -1) -> Tensor:
    """A new axis that is 1 at the index and 0 elsewhere; an index outside gives zeros."""
    given = tensor("one_hot", x)
    if not given.dtype.is_int:
        raise DTypeError.of("one_hot", f"{given.dtype.name} is no index", "convert it to int64")
    kind = dtypes.DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    place = axis_of("one_hot", axis, given.ndim + 1)
    shape: Shape = (*given.shape[:place], num_classes, *given.shape[place:])
    line = reshaped(given, (*given.shape[:place], 1, *given.shape[place:]))
    index = cast_to(line, dtypes.int64) if given.dtype.bits < 64 else line
    return cast_to(broadcast(index, shape) == iota(shape, place, index.dtype), kind)


def vander(x: Tensor, /, n: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of a vector as columns, the highest first."""
    given = tensor("vander", x)
    if given.dtype.is_int or given.dtype.is_bool:
        given = cast_to(given, dtypes.int64)  # powers outgrow narrow integers
    if given.ndim != 1:
        raise ShapeError.of("vander", f"shape {given.shape} is not a vector")
    count = given.shape[0] if n is None else n
    powers = iota((count,), 0, given.dtype)
    line = powers if increasing else (count - 1) - powers
    base, exponent = promoted("vander", reshaped(given, (given.shape[0], 1)), line)
    return base**exponent


def identity(n: int, /, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """The identity matrix."""
    return eye(n, dtype=dtype, device=device)


__all__ = [
    "arange", "diag", "empty", "empty_like", "eye", "full", "full_like", "identity", "linspace", "logspace",
    "meshgrid", "one_hot", "ones", "ones_like", "tri", "tril", "triu", "vander", "zeros", "zeros_like",
]  # fmt: skip

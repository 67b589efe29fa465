"""Fourier transforms: the standard's `fft` extension. Lines are transformed by a routine in machine code.

`norm` says which direction divides by the number of elements n: "backward" (the inverse), "forward", or "ortho" (both by √n).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.errors import DTypeError, ShapeError
from planish.frontend.tensor import transforms
from planish.frontend.tensor.array import Axis, Tensor
from planish.frontend.tensor.creation import iota, placed
from planish.frontend.tensor.elementwise import conj
from planish.frontend.tensor.manipulation import roll, section
from planish.frontend.tensor.mistaken import report_all
from planish.frontend.tensor.operands import DTypeLike, as_dtype, axes_of, axis_of, cast_to, tensor
from planish.frontend.tensor.padding import pad
from planish.frontend.tensor.pointwise import floating

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft",
    "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

Norm = Literal["backward", "ortho", "forward"]
_COMPLEX = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}


def _complex(name: str, x: Tensor) -> Tensor:
    given = floating(name, tensor(name, x))
    if given.dtype.is_complex:
        return given
    wide = given if given.dtype in _COMPLEX else cast_to(given, dtypes.float32)
    return cast_to(wide, _COMPLEX[wide.dtype])


def _real(name: str, x: Tensor) -> Tensor:
    given = floating(name, tensor(name, x))
    if given.dtype.is_complex:
        raise DTypeError.of(name, f"{given.dtype.name} is not real", "use fft for complex numbers")
    return given if given.dtype in _COMPLEX else cast_to(given, dtypes.float32)


def _fitted(x: Tensor, axes: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Axes cut off or filled with zeros to given sizes."""
    for axis, size in zip(axes, sizes, strict=True):
        have = x.shape[axis]
        if size < have:
            x = section(x, axis, 0, size)
        elif size > have:
            x = pad(x, [(0, size - have if at == axis else 0) for at in range(x.ndim)])
    return x


def _sizes(
    name: str, x: Tensor, s: Sequence[int] | None, axes: Axis | Sequence[int]
) -> tuple[list[int], list[int]]:
    """The axes to transform, in the order given, and the sizes they get."""
    if axes is None:
        count = x.ndim if s is None else len(s)
        places = list(range(x.ndim - count, x.ndim))
    else:
        given = [axes] if isinstance(axes, int) else list(axes)
        axes_of(name, tuple(given), x)
        places = [axis_of(name, axis, x.ndim, x.shape) for axis in given]
    sizes = [x.shape[axis] for axis in places] if s is None else list(s)
    if len(sizes) != len(places) or not places:
        raise ShapeError.of(name, f"{len(sizes)} sizes do not go with {len(places)} axes of {x.shape}")
    if any(size < 1 for size in sizes):
        raise ShapeError.of(name, f"sizes {tuple(sizes)} cannot be transformed", "they must be at least 1")
    return places, sizes


def _scale(name: str, x: Tensor, norm: Norm, count: int, inverse: bool) -> Tensor:
    """From PTIR's convention, that of "backward", to another."""
    if norm not in ("backward", "ortho", "forward"):
        raise ShapeError.of(name, f"there is no norm {norm!r}", "backward, ortho or forward")
    if norm == "backward":
        return x
    root = math.sqrt(count) if norm == "ortho" else count
    return x * root if inverse else x / root


def _transform(
    name: str, x: Tensor, s: Sequence[int] | None, axes: Axis | Sequence[int], norm: Norm, inverse: bool
) -> Tensor:
    given = _complex(name, x)
    places, sizes = _sizes(name, given, s, axes)
    fitted = _fitted(given, places, sizes)
    if 0 in fitted.shape:
        return fitted
    op = transforms.backward if inverse else transforms.forward
    return _scale(name, op(fitted, tuple(places)), norm, math.prod(sizes), inverse)


def fft(x: Tensor, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The transform along an axis."""
    return _transform("fft", x, None if n is None else [n], axis, norm, False)


def ifft(x: Tensor, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse transform along an axis."""
    return _transform("ifft", x, None if n is None else [n], axis, norm, True)


def fftn(
    x: Tensor, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """The transform over axes."""
    return _transform("fftn", x, s, None if axes is None else tuple(axes), norm, False)


def ifftn(
    x: Tensor, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """The inverse transform over axes."""
    return _transform("ifftn", x, s, None if axes is None else tuple(axes), norm, True)


def _to_half(name: str, x: Tensor, s: Sequence[int] | None, axes: Axis | Sequence[int], norm: Norm) -> Tensor:
    given = _real(name, x)
    places, sizes = _sizes(name, given, s, axes)
    fitted = _fitted(given, places, sizes)
    return _scale(name, transforms.forward_real(fitted, tuple(places)), norm, math.prod(sizes), False)


def _from_half(
    name: str, x: Tensor, s: Sequence[int] | None, axes: Axis | Sequence[int], norm: Norm
) -> Tensor:
    given = _complex(name, x)
    places, sizes = _sizes(name, given, s, axes)
    if s is None:
        sizes[-1] = 2 * (given.shape[places[-1]] - 1)
        if sizes[-1] < 1:
            raise ShapeError.of(name, f"the length of the result is not known from {given.shape}", "give it")
    fitted = _fitted(given, places, [*sizes[:-1], sizes[-1] // 2 + 1])
    result = transforms.backward_real(fitted, tuple(places), sizes[-1])
    return _scale(name, result, norm, math.prod(sizes), True)


def rfft(x: Tensor, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The transform of real numbers along an axis: its nonnegative frequencies."""
    return _to_half("rfft", x, None if n is None else [n], axis, norm)


def irfft(x: Tensor, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of `rfft`; `n` is the length of the result, by default an even one."""
    return _from_half("irfft", x, None if n is None else [n], axis, norm)


def rfftn(
    x: Tensor, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """The transform of real numbers over axes; the last keeps its nonnegative frequencies."""
    return _to_half("rfftn", x, s, None if axes is None else tuple(axes), norm)


def irfftn(
    x: Tensor, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """The inverse of `rfftn`."""
    return _from_half("irfftn", x, s, None if axes is None else tuple(axes), norm)


def fft2(
    x: Tensor, /, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: Norm = "backward"
) -> Tensor:
    """The transform over two axes."""
    return fftn(x, s, axes, norm)


def ifft2(
    x: Tensor, /, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: Norm = "backward"
) -> Tensor:
    """The inverse transform over two axes."""
    return ifftn(x, s, axes, norm)


def rfft2(
    x: Tensor, /, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: Norm = "backward"
) -> Tensor:
    """The transform of real numbers over two axes; the last keeps its nonnegative frequencies."""
    return rfftn(x, s, axes, norm)


def irfft2(
    x: Tensor, /, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: Norm = "backward"
) -> Tensor:
    """The inverse of `rfft2`."""
    return irfftn(x, s, axes, norm)


_OTHER: dict[Norm, Norm] = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def hfft(x: Tensor, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The transform of a signal whose spectrum is real: half of it is given."""
    return irfft(conj(_complex("hfft", x)), n=n, axis=axis, norm=_OTHER[norm])


def ihfft(x: Tensor, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of `hfft`."""
    return conj(rfft(x, n=n, axis=axis, norm=_OTHER[norm]))


def _frequency_dtype(name: str, dtype: DTypeLike | None) -> DType:
    kind = dtypes.DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    if not kind.is_float:
        raise DTypeError.of(name, f"frequencies of dtype {kind.name}", "use a float dtype")
    return kind


def fftfreq(n: int, /, d: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """The frequencies of a transform of n samples d apart."""
    kind = _frequency_dtype("fftfreq", dtype)
    number = iota((n,), 0)
    signed = (number + n // 2) % n - n // 2
    return placed(cast_to(cast_to(signed, dtypes.float64) / (n * d), kind), device)


def rfftfreq(n: int, /, d: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """The frequencies of a transform of n real samples d apart."""
    kind = _frequency_dtype("rfftfreq", dtype)
    number = iota((n // 2 + 1,), 0)
    return placed(cast_to(cast_to(number, dtypes.float64) / (n * d), kind), device)


def _shifted(name: str, x: Tensor, axes: Axis | Sequence[int], forth: bool) -> Tensor:
    given = tensor(name, x)
    places = axes_of(name, axes, given)
    shifts = [given.shape[axis] // 2 if forth else -(given.shape[axis] // 2) for axis in places]
    return roll(given, shifts, axis=places)


def fftshift(x: Tensor, /, axes: int | Sequence[int] | None = None) -> Tensor:
    """Frequency zero in the middle."""
    return _shifted("fftshift", x, axes, True)


def ifftshift(x: Tensor, /, axes: int | Sequence[int] | None = None) -> Tensor:
    """Frequency zero in front again."""
    return _shifted("ifftshift", x, axes, False)


report_all(globals(), __all__, like=np.fft)

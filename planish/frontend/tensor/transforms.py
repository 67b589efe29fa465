"""Fourier transforms: PTIR's ops on tensors. `planish.fft` is made of these."""

from __future__ import annotations

from planish.frontend.tensor.array import Tensor
from planish.ptir import ops
from planish.ptir.ops.fourier import FftAttrs, IrfftAttrs


def forward(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Of complex numbers, unnormalised."""
    return Tensor.apply(ops.fft, x, attrs=FftAttrs(axes))


def backward(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Of complex numbers, divided by the number of elements."""
    return Tensor.apply(ops.ifft, x, attrs=FftAttrs(axes))


def forward_real(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Of real numbers, unnormalised; the last axis keeps its nonnegative frequencies."""
    return Tensor.apply(ops.rfft, x, attrs=FftAttrs(axes))


def backward_real(x: Tensor, axes: tuple[int, ...], length: int) -> Tensor:
    """To real numbers, divided by the number of elements."""
    return Tensor.apply(ops.irfft, x, attrs=IrfftAttrs(axes, length))

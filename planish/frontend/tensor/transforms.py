"""Fourier transforms: PTIR's ops on tensors. `planish.fft` is made of these."""

from __future__ import annotations

from planish.frontend.tensor.array import Tensor
from planish.ptir import ops


def forward(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Of complex numbers, unnormalised."""
    return Tensor.apply(ops.fft, x, attrs=ops.FftAttrs(axes))


def backward(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Of complex numbers, divided by the number of elements."""
    return Tensor.apply(ops.ifft, x, attrs=ops.FftAttrs(axes))


def forward_real(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Of real numbers, unnormalised; the last axis keeps its nonnegative frequencies."""
    return Tensor.apply(ops.rfft, x, attrs=ops.FftAttrs(axes))


def backward_real(x: Tensor, axes: tuple[int, ...], length: int) -> Tensor:
    """To real numbers, divided by the number of elements."""
    return Tensor.apply(ops.irfft, x, attrs=ops.IrfftAttrs(axes, length))

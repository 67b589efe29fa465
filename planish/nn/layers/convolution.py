"""Convolutions and their transposes."""

from __future__ import annotations

import math
from typing import ClassVar

from planish.dtypes import DType, float32
from planish.errors import ShapeError
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn import spatial
from planish.nn.arguments import Padding, Sizes, pairs, per_axis
from planish.nn.init import Key, keys_of
from planish.nn.layers.linear import small
from planish.nn.module import Module

_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


class _Convolution(Module):
    """Kernels that are learnt, moved over `space` axes."""

    space: ClassVar[int]

    def _set(
        self, channels: tuple[int, int], groups: int, kernel_size: Sizes, stride: Sizes, dilation: Sizes
    ) -> None:
        name = type(self).__name__
        self.in_channels, self.out_channels = channels
        if groups < 1 or self.in_channels % groups or self.out_channels % groups:
            raise ShapeError.of(name, f"{channels[0]} and {channels[1]} channels do not make {groups} groups")
        self.groups = groups
        self.kernel_size = per_axis(name, "kernel_size", kernel_size, self.space)
        self.stride = per_axis(name, "stride", stride, self.space)
        self.dilation = per_axis(name, "dilation", dilation, self.space)

    def _learn(self, key: Key, first: int, second: int, bias: bool, dtype: DType) -> None:
        """Kernels of so many first channels, each of so many second ones."""
        keys = keys_of(key, 2)
        inputs = second * math.prod(self.kernel_size)
        self.weight = small(keys[0], (first, second, *self.kernel_size), inputs, dtype)
        self.bias = small(keys[1], (self.out_channels,), inputs, dtype) if bias else None


class _Conv(_Convolution):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Padding = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        key: Key,
        dtype: DType = float32,
    ) -> None:
        name = type(self).__name__
        if padding_mode not in _MODES:
            raise ShapeError.of(
                name, f"there is no padding_mode {padding_mode!r}", f"one of {', '.join(_MODES)}"
            )
        self._set((in_channels, out_channels), groups, kernel_size, stride, dilation)
        self.padding = pairs(name, padding, self.kernel_size, self.stride, self.dilation)
        self.padding_mode = padding_mode
        self._learn(key, out_channels, in_channels // groups, bias, dtype)

    def __call__(self, x: Tensor) -> Tensor:
        """Of (N, C, …) or (C, …)."""
        function = (spatial.conv1d, spatial.conv2d, spatial.conv3d)[self.space - 1]
        padding: Padding = self.padding
        if self.padding_mode != "zeros" and x.ndim > self.space:
            ends = [(0, 0)] * (x.ndim - self.space) + list(self.padding)
            x = fn.pad(x, ends, mode=_MODES[self.padding_mode])
            padding = 0
        return function(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Conv, space=1):
    """Convolution of (N, C, L)."""


class Conv2d(_Conv, space=2):
    """Convolution of (N, C, H, W)."""


class Conv3d(_Conv, space=3):
    """Convolution of (N, C, D, H, W)."""


class _ConvTranspose(_Convolution):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes = 0,
        output_padding: Sizes = 0, groups: int = 1, bias: bool = True, dilation: Sizes = 1, *, key: Key,
        dtype: DType = float32,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        self._set((in_channels, out_channels), groups, kernel_size, stride, dilation)
        self.padding = per_axis(name, "padding", padding, self.space, least=0)
        self.output_padding = per_axis(name, "output_padding", output_padding, self.space, least=0)
        self._learn(key, in_channels, out_channels // groups, bias, dtype)

    def __call__(self, x: Tensor) -> Tensor:
        """Of (N, C, …) or (C, …)."""
        functions = (spatial.conv_transpose1d, spatial.conv_transpose2d, spatial.conv_transpose3d)
        return functions[self.space - 1](
            x,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.output_padding,
            self.groups,
            self.dilation,
        )


class ConvTranspose1d(_ConvTranspose, space=1):
    """The transpose of `Conv1d`."""


class ConvTranspose2d(_ConvTranspose, space=2):
    """The transpose of `Conv2d`."""


class ConvTranspose3d(_ConvTranspose, space=3):
    """The transpose of `Conv3d`."""


__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
]  # fmt: skip

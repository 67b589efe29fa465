"""Pooling, resizing and shuffling layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from planish.frontend.tensor.array import Tensor
from planish.nn import spatial
from planish.nn.arguments import Sizes
from planish.nn.module import Module


def _fixed(sizes: Sizes | None) -> int | tuple[int, ...] | None:
    return sizes if sizes is None or isinstance(sizes, int) else tuple(sizes)


class _MaxPool(Module):
    space: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size = _fixed(kernel_size)
        self.stride = _fixed(stride)
        self.padding = _fixed(padding)
        self.dilation = _fixed(dilation)
        self.ceil_mode = ceil_mode

    def __call__(self, x: Tensor) -> Tensor:
        """The largest of each window."""
        return spatial.max_pool(
            self.space,
            x,
            self.kernel_size or 1,
            self.stride,
            self.padding or 0,
            self.dilation or 1,
            self.ceil_mode,
        )


class MaxPool1d(_MaxPool):
    """The largest of each window of (N, C, L)."""

    space = 1


class MaxPool2d(_MaxPool):
    """The largest of each window of (N, C, H, W)."""

    space = 2


class MaxPool3d(_MaxPool):
    """The largest of each window of (N, C, D, H, W)."""

    space = 3


class _AvgPool(Module):
    space: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size = _fixed(kernel_size)
        self.stride = _fixed(stride)
        self.padding = _fixed(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def __call__(self, x: Tensor) -> Tensor:
        """The mean of each window."""
        return spatial.avg_pool(
            self.space,
            x,
            self.kernel_size or 1,
            self.stride,
            self.padding or 0,
            self.ceil_mode,
            self.count_include_pad,
        )


class AvgPool1d(_AvgPool):
    """The mean of each window of (N, C, L)."""

    space = 1


class AvgPool2d(_AvgPool):
    """The mean of each window of (N, C, H, W)."""

    space = 2


class AvgPool3d(_AvgPool):
    """The mean of each window of (N, C, D, H, W)."""

    space = 3


class _Adaptive(Module):
    space: ClassVar[int]

    def __init__(self, output_size: int | Sequence[int | None]) -> None:
        self.output_size = output_size if isinstance(output_size, int) else tuple(output_size)


class _AdaptiveAvgPool(_Adaptive):
    def __call__(self, x: Tensor) -> Tensor:
        """Means of windows that share out each axis."""
        return spatial.adaptive_avg_pool(self.space, x, self.output_size)


class _AdaptiveMaxPool(_Adaptive):
    def __call__(self, x: Tensor) -> Tensor:
        """The largest of windows that share out each axis."""
        return spatial.adaptive_max_pool(self.space, x, self.output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """(N, C, L) to a given length, by means."""

    space = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """(N, C, H, W) to given sizes, by means."""

    space = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """(N, C, D, H, W) to given sizes, by means."""

    space = 3


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """(N, C, L) to a given length, by maxima."""

    space = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """(N, C, H, W) to given sizes, by maxima."""

    space = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """(N, C, D, H, W) to given sizes, by maxima."""

    space = 3


class Upsample(Module):
    """Other spatial sizes, by interpolation."""

    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool = False,
    ) -> None:
        self.size = _fixed(size)
        self.scale_factor = (
            scale_factor
            if scale_factor is None or isinstance(scale_factor, int | float)
            else tuple(scale_factor)
        )
        self.mode = mode
        self.align_corners = align_corners

    def __call__(self, x: Tensor) -> Tensor:
        """Of (N, C, …)."""
        return spatial.interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners)


class PixelShuffle(Module):
    """(N, C·r², H, W) to (N, C, H·r, W·r)."""

    def __init__(self, upscale_factor: int) -> None:
        self.upscale_factor = upscale_factor

    def __call__(self, x: Tensor) -> Tensor:
        """Channels become places."""
        return spatial.pixel_shuffle(x, self.upscale_factor)


class PixelUnshuffle(Module):
    """(N, C, H·r, W·r) to (N, C·r², H, W)."""

    def __init__(self, downscale_factor: int) -> None:
        self.downscale_factor = downscale_factor

    def __call__(self, x: Tensor) -> Tensor:
        """Places become channels."""
        return spatial.pixel_unshuffle(x, self.downscale_factor)

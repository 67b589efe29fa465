"""Pooling, resizing and shuffling layers."""

from __future__ import annotations

from collections.abc import Sequence

from planish.nn import spatial
from planish.nn.arguments import Sizes
from planish.nn.layers.applied import FunctionLayer


def _fixed(sizes: Sizes | None) -> int | tuple[int, ...] | None:
    return sizes if sizes is None or isinstance(sizes, int) else tuple(sizes)


class _MaxPool(FunctionLayer):
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


class MaxPool1d(_MaxPool, function=spatial.max_pool1d):
    """The largest of each window of (N, C, L)."""


class MaxPool2d(_MaxPool, function=spatial.max_pool2d):
    """The largest of each window of (N, C, H, W)."""


class MaxPool3d(_MaxPool, function=spatial.max_pool3d):
    """The largest of each window of (N, C, D, H, W)."""


class _AvgPool(FunctionLayer):
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


class AvgPool1d(_AvgPool, function=spatial.avg_pool1d):
    """The mean of each window of (N, C, L)."""


class AvgPool2d(_AvgPool, function=spatial.avg_pool2d):
    """The mean of each window of (N, C, H, W)."""


class AvgPool3d(_AvgPool, function=spatial.avg_pool3d):
    """The mean of each window of (N, C, D, H, W)."""


class _Adaptive(FunctionLayer):
    def __init__(self, output_size: int | Sequence[int | None]) -> None:
        self.output_size = output_size if isinstance(output_size, int) else tuple(output_size)


class AdaptiveAvgPool1d(_Adaptive, function=spatial.adaptive_avg_pool1d):
    """(N, C, L) to a given length, by means."""


class AdaptiveAvgPool2d(_Adaptive, function=spatial.adaptive_avg_pool2d):
    """(N, C, H, W) to given sizes, by means."""


class AdaptiveAvgPool3d(_Adaptive, function=spatial.adaptive_avg_pool3d):
    """(N, C, D, H, W) to given sizes, by means."""


class AdaptiveMaxPool1d(_Adaptive, function=spatial.adaptive_max_pool1d):
    """(N, C, L) to a given length, by maxima."""


class AdaptiveMaxPool2d(_Adaptive, function=spatial.adaptive_max_pool2d):
    """(N, C, H, W) to given sizes, by maxima."""


class AdaptiveMaxPool3d(_Adaptive, function=spatial.adaptive_max_pool3d):
    """(N, C, D, H, W) to given sizes, by maxima."""


class Upsample(FunctionLayer, function=spatial.interpolate):
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


class PixelShuffle(FunctionLayer, function=spatial.pixel_shuffle):
    """(N, C·r², H, W) to (N, C, H·r, W·r)."""

    def __init__(self, upscale_factor: int) -> None:
        self.upscale_factor = upscale_factor


class PixelUnshuffle(FunctionLayer, function=spatial.pixel_unshuffle):
    """(N, C, H·r, W·r) to (N, C·r², H, W)."""

    def __init__(self, downscale_factor: int) -> None:
        self.downscale_factor = downscale_factor


__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d",
    "PixelShuffle", "PixelUnshuffle", "Upsample",
]  # fmt: skip

"""Pooling, resizing and shuffling layers."""

from __future__ import annotations

from collections.abc import Sequence

from planish.frontend.tensor.array import Tensor
from planish.nn import spatial, windows
from planish.nn.arguments import Sizes
from planish.nn.layers.applied import FunctionLayer
from planish.nn.module import Module


def _fixed(sizes: Sizes | None) -> int | tuple[int, ...] | None:
    return sizes if sizes is None or isinstance(sizes, int) else tuple(sizes)


class _MaxPool(Module):
    space = 1

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> None:
        self.kernel_size = _fixed(kernel_size)
        self.stride = _fixed(stride)
        self.padding = _fixed(padding)
        self.dilation = _fixed(dilation)
        self.ceil_mode = ceil_mode
        self.return_indices = return_indices

    def __call__(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """The largest, and where they were if `return_indices`."""
        given = (x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)
        if self.return_indices:
            return windows.max_pool(self.space, *given)  # type: ignore[arg-type] # sizes, fixed
        pool = (spatial.max_pool1d, spatial.max_pool2d, spatial.max_pool3d)[self.space - 1]
        return pool(*given)  # type: ignore[arg-type] # sizes, fixed


class MaxPool1d(_MaxPool):
    """The largest of each window of (N, C, L)."""


class MaxPool2d(_MaxPool, space=2):
    """The largest of each window of (N, C, H, W)."""


class MaxPool3d(_MaxPool, space=3):
    """The largest of each window of (N, C, D, H, W)."""


class _MaxUnpool(Module):
    space = 1

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        self.kernel_size = _fixed(kernel_size)
        self.stride = _fixed(stride)
        self.padding = _fixed(padding)

    def __call__(self, x: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Maxima back at their places."""
        unpool = (windows.max_unpool1d, windows.max_unpool2d, windows.max_unpool3d)[self.space - 1]
        return unpool(x, indices, self.kernel_size, self.stride, self.padding, output_size)  # type: ignore[arg-type] # sizes, fixed


class MaxUnpool1d(_MaxUnpool):
    """The maxima of `MaxPool1d(…, return_indices=True)` back at their places, zeros elsewhere."""


class MaxUnpool2d(_MaxUnpool, space=2):
    """The maxima of `MaxPool2d(…, return_indices=True)` back at their places, zeros elsewhere."""


class MaxUnpool3d(_MaxUnpool, space=3):
    """The maxima of `MaxPool3d(…, return_indices=True)` back at their places, zeros elsewhere."""


class _LPPool(FunctionLayer):
    def __init__(
        self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> None:
        self.norm_type = norm_type
        self.kernel_size = _fixed(kernel_size)
        self.stride = _fixed(stride)
        self.ceil_mode = ceil_mode


class LPPool1d(_LPPool, function=windows.lp_pool1d):
    """The p-norm of each window of (N, C, L)."""


class LPPool2d(_LPPool, function=windows.lp_pool2d):
    """The p-norm of each window of (N, C, H, W)."""


class LPPool3d(_LPPool, function=windows.lp_pool3d):
    """The p-norm of each window of (N, C, D, H, W)."""


class Unfold(FunctionLayer, function=windows.unfold):
    """(N, C, …) as columns of windows."""

    def __init__(
        self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        self.kernel_size = _fixed(kernel_size)
        self.dilation = _fixed(dilation)
        self.padding = _fixed(padding)
        self.stride = _fixed(stride)


class Fold(FunctionLayer, function=windows.fold):
    """The transpose of `Unfold`."""

    def __init__(
        self,
        output_size: Sizes,
        kernel_size: Sizes,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        stride: Sizes = 1,
    ) -> None:
        self.output_size = _fixed(output_size)
        self.kernel_size = _fixed(kernel_size)
        self.dilation = _fixed(dilation)
        self.padding = _fixed(padding)
        self.stride = _fixed(stride)


class _AvgPool(FunctionLayer):
    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        self.kernel_size = _fixed(kernel_size)
        self.stride = _fixed(stride)
        self.padding = _fixed(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override


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


class _Enlarged(FunctionLayer):
    def __init__(
        self, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None
    ) -> None:
        self.size = _fixed(size)
        self.scale_factor = scale_factor


class UpsamplingNearest2d(_Enlarged, function=spatial.interpolate):
    """(N, C, H, W) enlarged by repeating."""


class UpsamplingBilinear2d(
    _Enlarged, function=lambda x, size, factor: spatial.interpolate(x, size, factor, "bilinear", True)
):
    """(N, C, H, W) enlarged in straight lines, corners on corners."""


class ChannelShuffle(FunctionLayer, function=spatial.channel_shuffle):
    """(N, C, …) with the channels of all groups taken in turn."""

    def __init__(self, groups: int) -> None:
        self.groups = groups


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
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "ChannelShuffle", "Fold", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d",
    "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "PixelShuffle", "PixelUnshuffle", "Unfold", "Upsample",
    "UpsamplingBilinear2d", "UpsamplingNearest2d",
]  # fmt: skip

"""Pooling, resizing and shuffling layers."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from planish.frontend.tensor.array import Tensor
from planish.nn import spatial, windows
from planish.nn.layers.applied import FunctionLayer


class MaxPool1d(FunctionLayer, function=spatial.max_pool1d):
    """The largest of each window of (N, C, L); with `return_indices` also where they were."""


class MaxPool2d(FunctionLayer, function=spatial.max_pool2d):
    """The largest of each window of (N, C, H, W); with `return_indices` also where they were."""


class MaxPool3d(FunctionLayer, function=spatial.max_pool3d):
    """The largest of each window of (N, C, D, H, W); with `return_indices` also where they were."""


_UNPOOLED = ("kernel_size", "stride", "padding")


class _MaxUnpool(FunctionLayer):
    def __call__(self, x: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:  # type: ignore[override] # of two tensors
        """Maxima back at their places."""
        return self._of(x, indices, output_size=output_size)


class MaxUnpool1d(_MaxUnpool, function=windows.max_unpool1d, settings=_UNPOOLED):
    """The maxima of `MaxPool1d(…, return_indices=True)` back at their places, zeros elsewhere."""


class MaxUnpool2d(_MaxUnpool, function=windows.max_unpool2d, settings=_UNPOOLED):
    """The maxima of `MaxPool2d(…, return_indices=True)` back at their places, zeros elsewhere."""


class MaxUnpool3d(_MaxUnpool, function=windows.max_unpool3d, settings=_UNPOOLED):
    """The maxima of `MaxPool3d(…, return_indices=True)` back at their places, zeros elsewhere."""


class LPPool1d(FunctionLayer, function=windows.lp_pool1d):
    """The p-norm of each window of (N, C, L)."""


class LPPool2d(FunctionLayer, function=windows.lp_pool2d):
    """The p-norm of each window of (N, C, H, W)."""


class LPPool3d(FunctionLayer, function=windows.lp_pool3d):
    """The p-norm of each window of (N, C, D, H, W)."""


class Unfold(FunctionLayer, function=windows.unfold):
    """(N, C, …) as columns of windows."""


class Fold(FunctionLayer, function=windows.fold):
    """The transpose of `Unfold`."""


class AvgPool1d(FunctionLayer, function=spatial.avg_pool1d):
    """The mean of each window of (N, C, L)."""


class AvgPool2d(FunctionLayer, function=spatial.avg_pool2d):
    """The mean of each window of (N, C, H, W)."""


class AvgPool3d(FunctionLayer, function=spatial.avg_pool3d):
    """The mean of each window of (N, C, D, H, W)."""


class AdaptiveAvgPool1d(FunctionLayer, function=spatial.adaptive_avg_pool1d):
    """(N, C, L) to a given length, by means."""


class AdaptiveAvgPool2d(FunctionLayer, function=spatial.adaptive_avg_pool2d):
    """(N, C, H, W) to given sizes, by means."""


class AdaptiveAvgPool3d(FunctionLayer, function=spatial.adaptive_avg_pool3d):
    """(N, C, D, H, W) to given sizes, by means."""


class AdaptiveMaxPool1d(FunctionLayer, function=spatial.adaptive_max_pool1d):
    """(N, C, L) to a given length, by maxima."""


class AdaptiveMaxPool2d(FunctionLayer, function=spatial.adaptive_max_pool2d):
    """(N, C, H, W) to given sizes, by maxima."""


class AdaptiveMaxPool3d(FunctionLayer, function=spatial.adaptive_max_pool3d):
    """(N, C, D, H, W) to given sizes, by maxima."""


_ENLARGED = ("size", "scale_factor")


class Upsample(FunctionLayer, function=spatial.interpolate, settings=(*_ENLARGED, "mode", "align_corners")):
    """Other spatial sizes, by interpolation."""


class UpsamplingNearest2d(FunctionLayer, function=spatial.interpolate, settings=_ENLARGED):
    """(N, C, H, W) enlarged by repeating."""


class UpsamplingBilinear2d(
    FunctionLayer,
    function=functools.partial(spatial.interpolate, mode="bilinear", align_corners=True),
    settings=_ENLARGED,
):
    """(N, C, H, W) enlarged in straight lines, corners on corners."""


class ChannelShuffle(FunctionLayer, function=spatial.channel_shuffle):
    """(N, C, …) with the channels of all groups taken in turn."""


class PixelShuffle(FunctionLayer, function=spatial.pixel_shuffle):
    """(N, C·r², H, W) to (N, C, H·r, W·r)."""


class PixelUnshuffle(FunctionLayer, function=spatial.pixel_unshuffle):
    """(N, C, H·r, W·r) to (N, C·r², H, W)."""


__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "ChannelShuffle", "Fold", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d",
    "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "PixelShuffle", "PixelUnshuffle", "Unfold", "Upsample",
    "UpsamplingBilinear2d", "UpsamplingNearest2d",
]  # fmt: skip

"""Layers that normalise.

Batch normalisation keeps running statistics in buffers. A call in training replaces them in the module it is called on. In a
function under `jit` or `grad` that is the copy which the function was given: return it, to keep them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from planish.dtypes import DType, float32, int64
from planish.errors import ShapeError
from planish.frontend.custom import stop_gradient
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn import init, normalization
from planish.nn.layers.applied import FunctionLayer
from planish.nn.module import Module


class LayerNorm(Module):
    """Over the last axes, whose shape is given."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        dtype: DType = float32,
    ) -> None:
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape = shape
        self.eps = eps
        self.weight = init.ones(shape, dtype) if elementwise_affine else None
        self.bias = init.zeros(shape, dtype) if elementwise_affine and bias else None

    def __call__(self, x: Tensor) -> Tensor:
        """Mean 0 and variance 1, then weight and bias."""
        return normalization.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """Over the last axes, by the root of the mean square."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        dtype: DType = float32,
    ) -> None:
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape = shape
        self.eps = eps
        self.weight = init.ones(shape, dtype) if elementwise_affine else None

    def __call__(self, x: Tensor) -> Tensor:
        """Mean square 1, then weight."""
        return normalization.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class GroupNorm(Module):
    """Over groups of channels of (N, C, …)."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: DType = float32,
    ) -> None:
        if num_channels % num_groups:
            raise ShapeError.of("GroupNorm", f"{num_channels} channels do not make {num_groups} groups")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.weight = init.ones((num_channels,), dtype) if affine else None
        self.bias = init.zeros((num_channels,), dtype) if affine else None

    def __call__(self, x: Tensor) -> Tensor:
        """Mean 0 and variance 1, then weight and bias."""
        return normalization.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


class _Tracking(Module):
    """Per channel, with statistics that may be kept."""

    axes: ClassVar[tuple[int, ...]]
    """How many axes the input may have."""
    counts_batches: ClassVar[bool] = True
    """Without momentum the statistics are the mean of all batches; instance normalisation, as in PyTorch, does not count them."""
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        dtype: DType = float32,
    ) -> None:
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.weight = init.ones((num_features,), dtype) if affine else None
        self.bias = init.zeros((num_features,), dtype) if affine else None
        tracked = track_running_stats
        self.register_buffer("running_mean", init.zeros((num_features,), dtype) if tracked else None)
        self.register_buffer("running_var", init.ones((num_features,), dtype) if tracked else None)
        self.register_buffer("num_batches_tracked", fn.zeros((), dtype=int64) if tracked else None)

    def _check(self, x: Tensor) -> None:
        name = type(self).__name__
        if x.ndim not in self.axes or x.shape[1] != self.num_features:
            wanted = " or ".join(map(str, self.axes))
            raise ShapeError.of(
                name,
                f"shape {x.shape} does not have {self.num_features} channels on axis 1 and {wanted} axes",
            )

    def _track(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics towards those of a batch."""
        old_mean, old_variance, count = self.running_mean, self.running_var, self.num_batches_tracked
        if old_mean is None or old_variance is None or count is None:
            return
        share: Tensor | float
        if self.counts_batches:
            count = count + 1
        if self.momentum is not None:
            share = self.momentum
        else:
            share = 1.0 / count.astype(old_mean.dtype) if self.counts_batches else 0.0
        self.running_mean = stop_gradient(old_mean + (mean.astype(old_mean.dtype) - old_mean) * share)
        self.running_var = stop_gradient(
            old_variance + (variance.astype(old_mean.dtype) - old_variance) * share
        )
        self.num_batches_tracked = count


class _BatchNorm(_Tracking):
    def __call__(self, x: Tensor) -> Tensor:
        """By the statistics of the batch in training, which are then tracked; by the tracked ones otherwise."""
        self._check(x)
        if self.training or self.running_mean is None:
            result, mean, variance = normalization.batch_norm_training(x, self.weight, self.bias, self.eps)
            if self.training:
                self._track(mean, variance)
            return result
        return normalization.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, False, self.eps
        )


class BatchNorm1d(_BatchNorm, axes=(2, 3)):
    """Batch normalisation of (N, C) or (N, C, L)."""


class BatchNorm2d(_BatchNorm, axes=(4,)):
    """Batch normalisation of (N, C, H, W)."""


class BatchNorm3d(_BatchNorm, axes=(5,)):
    """Batch normalisation of (N, C, D, H, W)."""


class _InstanceNorm(_Tracking):
    counts_batches = False

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        dtype: DType = float32,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, dtype)

    def __call__(self, x: Tensor) -> Tensor:
        """Every channel of every sample by itself; by tracked statistics out of training, where there are any."""
        alone = x.ndim == self.axes[0] - 1
        x = x.reshape((1, *x.shape)) if alone else x
        self._check(x)
        by_itself = self.training or self.running_mean is None
        normalised = normalization.instance_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, by_itself, self.eps
        )
        if self.training and self.running_mean is not None:
            space = tuple(range(2, x.ndim))
            count = x.size // (x.shape[0] * x.shape[1])
            variance = fn.var(x, axis=space, correction=1.0 if count > 1 else 0.0)
            self._track(fn.mean(fn.mean(x, axis=space), axis=0), fn.mean(variance, axis=0))
        return normalised.reshape(normalised.shape[1:]) if alone else normalised


class InstanceNorm1d(_InstanceNorm, axes=(3,)):
    """Instance normalisation of (N, C, L)."""


class InstanceNorm2d(_InstanceNorm, axes=(4,)):
    """Instance normalisation of (N, C, H, W)."""


class InstanceNorm3d(_InstanceNorm, axes=(5,)):
    """Instance normalisation of (N, C, D, H, W)."""


class LocalResponseNorm(FunctionLayer, function=normalization.local_response_norm):
    """By the squares of neighbouring channels."""


__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LayerNorm", "LocalResponseNorm", "RMSNorm",
]  # fmt: skip

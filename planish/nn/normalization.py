"""Normalisation by statistics of the batch, of channels, of groups, of the last axes."""

from __future__ import annotations

from collections.abc import Sequence

from planish.errors import ShapeError
from planish.frontend import library
from planish.frontend.custom import stop_gradient
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn.arguments import floating
from planish.nn.losses import _length


def _trailing(op: str, x: Tensor, normalized_shape: int | Sequence[int], *parameters: Tensor | None) -> int:
    """How many axes at the end are normalised over."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    floating(op, x)
    if not shape or x.shape[x.ndim - len(shape) :] != shape:
        raise ShapeError.of(
            op,
            f"the input {x.shape} does not end in {shape}",
            "normalized_shape is the shape of the last axes",
        )
    for parameter in parameters:
        if parameter is not None and parameter.shape != shape:
            raise ShapeError.of(op, f"a parameter is {parameter.shape}, not {shape}")
    return len(shape)


def layer_norm(
    x: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Over the last axes: (x - mean) / sqrt(variance + eps), times weight, plus bias."""
    axes = _trailing("layer_norm", x, normalized_shape, weight, bias)
    return library.layer_norm(x, weight, bias, x.ndim - axes, eps)


def rms_norm(
    x: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Over the last axes: x / sqrt(mean(x²) + eps), times weight. eps is the dtype's own unless given."""
    axes = _trailing("rms_norm", x, normalized_shape, weight)
    small = float(fn.finfo(x.dtype).eps) if eps is None else eps
    return library.rms_norm(x, weight, x.ndim - axes, small)


def _channels(op: str, x: Tensor, *parameters: Tensor | None) -> None:
    floating(op, x)
    if x.ndim < 2:
        raise ShapeError.of(op, f"shape {x.shape} has no channels", "(batch, channels, …) is expected")
    for parameter in parameters:
        if parameter is not None and parameter.shape != (x.shape[1],):
            raise ShapeError.of(
                op, f"a parameter is {parameter.shape}, and {x.shape} has {x.shape[1]} channels"
            )


def group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Of (N, C, …): channels in consecutive groups, each normalised by itself."""
    _channels("group_norm", x, weight, bias)
    return library.group_norm(x, num_groups, weight, bias, eps)


def instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    eps: float = 1e-5,
) -> Tensor:
    """Of (N, C, …): every channel of every sample by itself, or all by given statistics."""
    _channels("instance_norm", x, running_mean, running_var, weight, bias)
    if use_input_stats:
        if x.ndim < 3:
            raise ShapeError.of("instance_norm", f"shape {x.shape} has no axes to normalise over")
        return library.instance_norm(x, weight, bias, eps)
    return _given("instance_norm", x, running_mean, running_var, weight, bias, eps)


def _given(
    op: str,
    x: Tensor,
    mean: Tensor | None,
    variance: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    if mean is None or variance is None:
        raise ShapeError.of(op, "there are no running statistics", "normalise by those of the input")
    return library.batch_norm(x, mean, variance, weight, bias, epsilon=eps)


def batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    eps: float = 1e-5,
) -> Tensor:
    """Of (N, C, …), per channel: by the statistics of the batch in training, else by the running ones.

    Running statistics are inputs alone; `batch_norm_training` gives those of the batch, to update them with.
    """
    _channels("batch_norm", x, running_mean, running_var, weight, bias)
    if training:
        return batch_norm_training(x, weight, bias, eps)[0]
    return _given("batch_norm", x, running_mean, running_var, weight, bias, eps)


def batch_norm_training(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    """Of (N, C, …) by the statistics of the batch; also their mean and unbiased variance, as constants."""
    _channels("batch_norm", x, weight, bias)
    count = x.size // x.shape[1] if x.shape[1] else 0
    if count <= 1:
        raise ShapeError.of(
            "batch_norm",
            f"one value per channel of shape {x.shape} has no variance",
            "train on more than one sample, or use eval()",
        )
    result, mean, variance = library.batch_norm_training(x, weight, bias, epsilon=eps)
    return result, stop_gradient(mean), stop_gradient(variance * (count / (count - 1)))


def normalize(x: Tensor, p: float = 2.0, axis: int = 1, eps: float = 1e-12) -> Tensor:
    """x over its length along an axis, which counts as eps at least."""
    length = _length(floating("normalize", x), p, axis, True)
    return x / fn.where(length > eps, length, eps)


def local_response_norm(
    x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha · mean of x² over `size` neighbouring channels) to the power beta."""
    _channels("local_response_norm", x)
    squares = fn.square(x)
    ends = [(0, 0)] * x.ndim
    ends[1] = (size // 2, (size - 1) // 2)
    padded = fn.pad(squares, ends)
    total = padded[:, : x.shape[1]]
    for shift in range(1, size):
        total = total + padded[:, shift : shift + x.shape[1]]
    return x / fn.pow(total * (alpha / size) + k, beta)


__all__ = [
    "batch_norm", "batch_norm_training", "group_norm", "instance_norm", "layer_norm", "local_response_norm",
    "normalize", "rms_norm",
]  # fmt: skip

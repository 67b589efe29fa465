"""Convolution, pooling and resizing of (N, C, …), with PyTorch's arguments; one sample (C, …) is taken too."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, TypeVar, cast

from planish.dtypes import float64
from planish.errors import ShapeError
from planish.frontend import library
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn.arguments import Padding, Sizes, batched, floating, pairs, per_axis, same_dtype, unbatched

P = ParamSpec("P")
R = TypeVar("R")


def per_space(
    function: Callable[Concatenate[int, P], R], says: str, suffix: str = ""
) -> tuple[Callable[P, R], Callable[P, R], Callable[P, R]]:
    """A function of the number of spatial axes for one, two and three of them: `name1d`, `name2d`, `name3d`."""

    def of(space: int) -> Callable[P, R]:
        def spatial(*args: P.args, **kwargs: P.kwargs) -> R:
            return function(space, *args, **kwargs)

        signature = inspect.signature(function)
        _, *rest = signature.parameters.values()
        spatial.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        spatial.__name__ = spatial.__qualname__ = f"{function.__name__.strip('_')}{space}d{suffix}"
        x = ("(N, C, L)", "(N, C, H, W)", "(N, C, D, H, W)")[space - 1]
        spatial.__doc__ = says.format(x=x, k=", ".join("K" * space), n=space)
        return spatial

    return of(1), of(2), of(3)


# --- convolution ------------------------------------------------------------------------------------------


def _with_bias(op: str, x: Tensor, bias: Tensor | None) -> Tensor:
    if bias is None:
        return x
    if bias.shape != (x.shape[1],):
        raise ShapeError.of(op, f"the bias is {bias.shape}, and there are {x.shape[1]} output channels")
    return x + bias.reshape((-1, *[1] * (x.ndim - 2)))


def _checked(op: str, x: Tensor, weight: Tensor, bias: Tensor | None, space: int, groups: int) -> None:
    same_dtype(op, x, weight, bias)
    if weight.ndim != space + 2:
        raise ShapeError.of(op, f"the weight {weight.shape} has {weight.ndim} axes, not {space + 2}")
    if groups < 1 or x.shape[1] % groups:
        raise ShapeError.of(op, f"{x.shape[1]} channels of {x.shape} do not make {groups} groups")


def _conv(
    space: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    op = f"conv{space}d"
    x, alone = batched(op, x, space)
    _checked(op, x, weight, bias, space, groups)
    if weight.shape[1] * groups != x.shape[1] or weight.shape[0] % groups:
        raise ShapeError.of(
            op,
            f"a weight {weight.shape} in {groups} groups does not fit the input {x.shape}",
            "the weight is (outputs, channels / groups, …), and groups divides the outputs",
        )
    strides = per_axis(op, "stride", stride, space)
    gaps = per_axis(op, "dilation", dilation, space)
    ends = pairs(op, padding, weight.shape[2:], strides, gaps)
    for axis, (low, high) in enumerate(ends):
        reach = gaps[axis] * (weight.shape[2 + axis] - 1) + 1
        if x.shape[2 + axis] + low + high < reach:
            raise ShapeError.of(
                op,
                f"a window of {reach} does not fit axis {2 + axis} of {x.shape} with padding {(low, high)}",
            )
    convolved = library.convolution(x, weight, strides, ends, gaps, groups)
    return unbatched(_with_bias(op, convolved, bias), alone)


def _conv_transpose(
    space: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The transpose of a convolution: its elements are put apart, and kernels are turned around."""
    op = f"conv_transpose{space}d"
    x, alone = batched(op, x, space)
    _checked(op, x, weight, bias, space, groups)
    if weight.shape[0] != x.shape[1]:
        raise ShapeError.of(
            op,
            f"a weight {weight.shape} does not fit the input {x.shape}",
            "the weight is (channels, outputs / groups, …)",
        )
    strides = per_axis(op, "stride", stride, space)
    gaps = per_axis(op, "dilation", dilation, space)
    cut = per_axis(op, "padding", padding, space, least=0)
    extra = per_axis(op, "output_padding", output_padding, space, least=0)
    for more, step, gap in zip(extra, strides, gaps, strict=True):
        if more >= max(step, gap):
            raise ShapeError.of(
                op, f"output_padding {extra} is not below stride {strides} or dilation {gaps}"
            )
    turned = library.turned_kernel(weight, groups)
    ends = []
    for size, step, gap, low, more, length in zip(
        weight.shape[2:], strides, gaps, cut, extra, x.shape[2:], strict=True
    ):
        reach = gap * (size - 1)
        ends.append((reach - low, reach - low + more))
        if (length - 1) * step + reach - 2 * low + more + 1 < 1:
            raise ShapeError.of(op, f"nothing is left of {x.shape} after padding {cut} is cut off")
    convolved = library.convolution(x, turned, (1,) * space, ends, gaps, groups, spread=strides)
    return unbatched(_with_bias(op, convolved, bias), alone)


conv1d, conv2d, conv3d = per_space(_conv, "{x} with kernels (O, C/groups, {k}).")
conv_transpose1d, conv_transpose2d, conv_transpose3d = per_space(
    _conv_transpose, "The transpose of `conv{n}d`, with kernels (C, O/groups, {k})."
)


# --- pooling ----------------------------------------------------------------------------------------------


def pooling_windows(
    op: str, space: int, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...], tuple[int, ...]]:
    window = per_axis(op, "kernel_size", kernel_size, space)
    strides = window if stride is None else per_axis(op, "stride", stride, space)
    ends = per_axis(op, "padding", padding, space, least=0)
    if any(end > size // 2 for end, size in zip(ends, window, strict=True)):
        raise ShapeError.of(op, f"padding {ends} is more than half of the window {window}")
    return window, strides, tuple((end, end) for end in ends), per_axis(op, "dilation", dilation, space)


def _max_pool(
    space: int,
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    """The largest of each window over `space` axes; `return_indices`: a pair of them and their places."""
    if return_indices:
        from planish.nn.windows import max_pool  # which stands on this module

        pair = max_pool(space, x, kernel_size, stride, padding, dilation, ceil_mode)
        return cast("Tensor", pair)  # as PyTorch's own types have it: most callers want one
    op = f"max_pool{space}d"
    x, alone = batched(op, x, space, integers=True)
    window, strides, ends, gaps = pooling_windows(op, space, kernel_size, stride, padding, dilation)
    pooled = library.max_pool(x, window, strides, ends, gaps, ceil_mode)
    return unbatched(fitting(op, pooled, x, window), alone)


def fitting(op: str, pooled: Tensor, x: Tensor, window: Sequence[int]) -> Tensor:
    """What was made of windows, if there are any."""
    if 0 in pooled.shape[2:] and 0 not in x.shape[2:]:
        raise ShapeError.of(op, f"a window of {tuple(window)} does not fit the input {x.shape}")
    return pooled


max_pool1d, max_pool2d, max_pool3d = per_space(_max_pool, "The largest of each window of {x}.")


def _avg_pool(
    space: int,
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window over `space` axes, or its sum by another divisor."""
    op = f"avg_pool{space}d"
    x, alone = batched(op, x, space, integers=True)
    window, strides, ends, _ = pooling_windows(op, space, kernel_size, stride, padding, 1)
    given = x if x.dtype.is_float else x.astype(float64)
    if divisor_override is not None and not divisor_override:
        raise ShapeError.of(op, f"divisor_override is {divisor_override}: nothing is divided by it")
    pooled = library.average_pool(
        given, window, strides, ends, None, ceil_mode, count_include_pad, divisor_override
    )
    pooled = fitting(op, pooled, x, window)
    # means of integers are cut off, as PyTorch's
    return unbatched(pooled if x.dtype.is_float else fn.trunc(pooled).astype(x.dtype), alone)


avg_pool1d, avg_pool2d, avg_pool3d = per_space(_avg_pool, "The mean of each window of {x}.")


def _adaptive_avg_pool(space: int, x: Tensor, output_size: int | Sequence[int | None]) -> Tensor:
    """Means of windows that share out each of `space` axes; None keeps a size."""
    op = f"adaptive_avg_pool{space}d"
    x, alone = batched(op, x, space)
    return unbatched(library.adaptive_average_pool(x, adaptive_sizes(op, x, space, output_size)), alone)


def adaptive_sizes(op: str, x: Tensor, space: int, given: int | Sequence[int | None]) -> tuple[int, ...]:
    wanted = [given] * space if isinstance(given, int) else list(given)
    if len(wanted) != space:
        raise ShapeError.of(op, f"output_size {given!r} does not fit {space} spatial axes")
    return tuple(x.shape[2 + axis] if size is None else size for axis, size in enumerate(wanted))


def _adaptive_max_pool(space: int, x: Tensor, output_size: int | Sequence[int | None]) -> Tensor:
    """The largest of windows that share out each of `space` axes; None keeps a size."""
    op = f"adaptive_max_pool{space}d"
    x, alone = batched(op, x, space)
    for axis, count in enumerate(adaptive_sizes(op, x, space, output_size), start=2):
        size = x.shape[axis]
        if size == count:
            continue
        if size % count == 0:
            parts = x.reshape((*x.shape[:axis], count, size // count, *x.shape[axis + 1 :]))
            x = fn.max(parts, axis=axis + 1)
            continue
        pieces = []
        for number in range(count):
            start, stop = number * size // count, -(-(number + 1) * size // count)
            key = (slice(None),) * axis + (slice(start, stop),)
            pieces.append(fn.max(x[key], axis=axis, keepdims=True))
        x = fn.concat(pieces, axis=axis)
    return unbatched(x, alone)


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = per_space(
    _adaptive_avg_pool, "{x} to given sizes, by means."
)
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = per_space(
    _adaptive_max_pool, "{x} to given sizes, by maxima."
)


# --- resizing ---------------------------------------------------------------------------------------------


def interpolate(
    x: Tensor,
    size: Sizes | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
    antialias: bool = False,
    recompute_scale_factor: bool = False,
) -> Tensor:
    """(N, C, …) with other spatial sizes: nearest, nearest-exact, linear, bilinear, trilinear, bicubic or area.

    Of integers, what lies between is rounded, half to even, and kept within their range.
    """
    op = "interpolate"
    if not x.dtype.is_int:
        floating(op, x)
    elif not mode.startswith("nearest"):
        wide = interpolate(
            x.astype(float64), size, scale_factor, mode, align_corners, antialias, recompute_scale_factor
        )
        low, high = float(x.dtype.min or 0), float(x.dtype.max or 0)
        return fn.clip(fn.round(wide), low, high).astype(x.dtype)
    space = x.ndim - 2
    if space < 1:
        raise ShapeError.of(op, f"shape {x.shape} has no spatial axes", "(batch, channels, …) is expected")
    factors: tuple[float, ...] | None = None
    if scale_factor is not None:
        factors = (
            (float(scale_factor),) * space
            if isinstance(scale_factor, int | float)
            else tuple(map(float, scale_factor))
        )
        if len(factors) != space or any(not math.isfinite(factor) or factor <= 0 for factor in factors):
            raise ShapeError.of(op, f"scale_factor {scale_factor!r} does not fit {space} spatial axes")
    sizes = None if size is None else per_axis(op, "size", size, space)
    return library.interpolate(x, sizes, factors, mode, align_corners, antialias, recompute_scale_factor)


def pixel_shuffle(x: Tensor, upscale_factor: int) -> Tensor:
    """(…, C·r², H, W) to (…, C, H·r, W·r)."""
    r = upscale_factor
    *lead, channels, height, width = x.shape
    if channels % (r * r):
        raise ShapeError.of("pixel_shuffle", f"{channels} channels of {x.shape} are no multiple of {r}²")
    parts = x.reshape((-1, channels // (r * r), r, r, height, width))
    moved = fn.permute_dims(parts, (0, 1, 4, 2, 5, 3))
    return moved.reshape((*lead, channels // (r * r), height * r, width * r))


def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    """(N, C, …) with the channels of all groups taken in turn."""
    if x.ndim < 3 or groups < 1 or x.shape[1] % groups:
        raise ShapeError.of("channel_shuffle", f"the channels of {x.shape} do not make {groups} groups")
    parts = x.reshape((x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
    return fn.permute_dims(parts, (0, 2, 1, *range(3, parts.ndim))).reshape(x.shape)


def pixel_unshuffle(x: Tensor, downscale_factor: int) -> Tensor:
    """(…, C, H·r, W·r) to (…, C·r², H, W)."""
    r = downscale_factor
    *lead, channels, height, width = x.shape
    if height % r or width % r:
        raise ShapeError.of("pixel_unshuffle", f"the last axes of {x.shape} are no multiples of {r}")
    parts = x.reshape((-1, channels, height // r, r, width // r, r))
    moved = fn.permute_dims(parts, (0, 1, 3, 5, 2, 4))
    return moved.reshape((*lead, channels * r * r, height // r, width // r))


__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "channel_shuffle", "conv1d",
    "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "interpolate",
    "max_pool1d", "max_pool2d", "max_pool3d", "pixel_shuffle", "pixel_unshuffle",
]  # fmt: skip

"""Convolutions, their transposes, and the derivatives of both."""

from __future__ import annotations

from collections.abc import Sequence

from torch.backends import cudnn

from planish import dtypes
from planish.ptir import ops
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import spread
from planish.ptir.library.shaping import turned_kernel
from planish.torch.registry import lowering
from planish.torch.site import FxSite, each_axis, shortened, sizes

_SPACE = "XYZ"


def _as_read(at: FxSite, groups: int, *operands: V) -> list[V]:
    """Operands as torch lets cuDNN read them. Channels that meet no other are not multiplied by tensor cores."""
    alone = groups > 1 and operands[-1].dims[1] == 1
    return list(operands) if alone else shortened(at, getattr(cudnn, "conv", cudnn), *operands)


def _attrs(x: V) -> ops.DotAttrs:
    wide = dtypes.float32 if x.dtype.is_float and x.dtype.bits < 32 else x.dtype
    return ops.DotAttrs(wide, wide if x.dtype is dtypes.tfloat32 else x.dtype)


def _correlated(
    x: V,
    kernel: V,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    groups: int,
    lhs_dilation: Sequence[int] | None = None,
    layouts: tuple[str, str, str] = ("NC", "OI", "NC"),
) -> V:
    space = _SPACE[: x.rank - 2]
    lhs, rhs, out = (layout + space for layout in layouts)
    return x.convolution(kernel, lhs, rhs, out, strides, padding, lhs_dilation, dilation, groups, _attrs(x))


def transposed_convolution(
    at: FxSite,
    x: V,
    weight: V,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
) -> V:
    """The derivative of a convolution by its input, which is one of the widened input."""
    spans = [(size - 1) * gap for size, gap in zip(sizes(at, weight)[2:], dilation, strict=True)]
    ends = [
        (span - pad, span - pad + extra)
        for span, pad, extra in zip(spans, padding, output_padding, strict=True)
    ]
    return _correlated(x, turned_kernel(weight, groups), [1] * len(stride), ends, dilation, groups, stride)


@lowering("aten.convolution")
def convolution(
    at: FxSite,
    x: V,
    weight: V,
    bias: V | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> V:
    space = weight.rank - 2
    steps, pads, gaps, extra = (
        each_axis(given, space) for given in (stride, padding, dilation, output_padding)
    )
    single = x.rank == space + 1
    images, weight = _as_read(at, groups, x.expand_dims(0) if single else x, weight)
    if transposed:
        found = transposed_convolution(at, images, weight, steps, pads, gaps, extra, groups)
    else:
        found = _correlated(images, weight, steps, [(pad, pad) for pad in pads], gaps, groups)
    if bias is not None:
        found = found.add(spread(bias.reshape((bias.dims[0], *(1,) * space)), found.dims))
    return found.squeeze([0]) if single else found


@lowering("aten.convolution_backward")
def convolution_backward(
    at: FxSite,
    gradient: V,
    x: V,
    weight: V,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[V | None, V | None, V | None]:
    space = weight.rank - 2
    steps, pads, gaps = (each_axis(given, space) for given in (stride, padding, dilation))
    by_input = by_weight = None
    by_bias = (
        gradient.reduce_sum([axis for axis in range(gradient.rank) if axis != 1]) if output_mask[2] else None
    )
    gradient, x, weight = _as_read(at, groups, gradient, x, weight)
    if transposed:
        if output_mask[0]:
            by_input = _correlated(gradient, weight, steps, [(pad, pad) for pad in pads], gaps, groups)
            by_input = _fitted(by_input, x)
        if output_mask[1]:
            by_weight = _by_weight(at, gradient, x, weight, steps, pads, gaps, groups)
    else:
        if output_mask[0]:
            by_input = _by_input(at, gradient, x, weight, steps, pads, gaps, groups)
        if output_mask[1]:
            by_weight = _by_weight(at, x, gradient, weight, steps, pads, gaps, groups)
    return by_input, by_weight, by_bias


def _fitted(found: V, like: V) -> V:
    """Cut, or filled with zeros, at the end of each spatial axis: windows that did not fit were left out."""
    if found.dims == like.dims:
        return found
    high = [want - have for want, have in zip(like.dims, found.dims, strict=True)]
    return found.pad([0] * found.rank, high)


def _by_input(
    at: FxSite,
    gradient: V,
    x: V,
    weight: V,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> V:
    known, out, kernel = sizes(at, x)[2:], sizes(at, gradient)[2:], sizes(at, weight)[2:]
    extra = [
        size - ((count - 1) * step - 2 * pad + (width - 1) * gap + 1)
        for size, count, step, pad, width, gap in zip(
            known, out, strides, padding, kernel, dilation, strict=True
        )
    ]
    return transposed_convolution(at, gradient, weight, strides, padding, dilation, extra, groups)


def _by_weight(
    at: FxSite,
    x: V,
    gradient: V,
    weight: V,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> V:
    """Correlates the input with the gradient: samples are summed over, so they take the place of channels."""
    batch, channels = x.dims[:2]
    outputs = gradient.dims[1]
    space = x.dims[2:]
    # groups become rows of the batch: (N, g·c, …) → (g·c, N, …) with groups of kernels
    images = x.transpose([1, 0, *range(2, x.rank)])
    kernels = gradient.transpose([1, 0, *range(2, gradient.rank)])
    known, out, width = sizes(at, x)[2:], sizes(at, gradient)[2:], sizes(at, weight)[2:]
    ends = []
    for size, count, step, pad, wide, gap in zip(known, out, strides, padding, width, dilation, strict=True):
        # the windows are `count` places `step` apart; of their starts just `wide`, `gap` apart, are wanted
        ends.append((pad, (count - 1) * step + (wide - 1) * gap + 1 - size - pad))
    if groups == 1:
        found = _correlated(images, kernels, dilation, ends, strides, 1)
        return found.transpose([1, 0, *range(2, found.rank)])
    share = channels // groups
    parts = images.reshape((groups, share, batch, *space)).transpose([1, 0, 2, *range(3, x.rank + 1)])
    parts = parts.reshape((share, groups * batch, *space))
    found = _correlated(parts, kernels, dilation, ends, strides, groups)
    return found.transpose([1, 0, *range(2, found.rank)]).reshape((outputs, share, *width))

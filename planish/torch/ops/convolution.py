"""Convolutions, their transposes, and the derivatives of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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


class _WindowLayout(NamedTuple):
    """How windows lie: one number per spatial axis each, and the groups of channels."""

    strides: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    groups: int

    def correlated(self, x: V, kernel: V) -> V:
        return _correlated(
            x, kernel, self.strides, [(pad, pad) for pad in self.padding], self.dilation, self.groups
        )


def _windows(
    space: int, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int
) -> _WindowLayout:
    strides, pads, gaps = (each_axis(given, space) for given in (stride, padding, dilation))
    return _WindowLayout(strides, pads, gaps, groups)


def _correlated(
    x: V,
    kernel: V,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    groups: int,
    lhs_dilation: Sequence[int] | None = None,
) -> V:
    space = _SPACE[: x.rank - 2]
    lhs, rhs = f"NC{space}", f"OI{space}"
    return x.convolution(kernel, lhs, rhs, lhs, strides, padding, lhs_dilation, dilation, groups, _attrs(x))


def _transposed(at: FxSite, x: V, weight: V, how: _WindowLayout, output_padding: Sequence[int]) -> V:
    """The derivative of a convolution by its input, which is one of the widened input."""
    spans = [(size - 1) * gap for size, gap in zip(sizes(at, weight)[2:], how.dilation, strict=True)]
    ends = [
        (span - pad, span - pad + extra)
        for span, pad, extra in zip(spans, how.padding, output_padding, strict=True)
    ]
    kernel, steps = turned_kernel(weight, how.groups), [1] * len(how.strides)
    return _correlated(x, kernel, steps, ends, how.dilation, how.groups, how.strides)


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
    how = _windows(space, stride, padding, dilation, groups)
    single = x.rank == space + 1
    images, weight = _as_read(at, groups, x.expand_dims(0) if single else x, weight)
    if transposed:
        convolved = _transposed(at, images, weight, how, each_axis(output_padding, space))
    else:
        convolved = how.correlated(images, weight)
    if bias is not None:
        convolved = convolved.add(spread(bias.reshape((bias.dims[0], *(1,) * space)), convolved.dims))
    return convolved.squeeze([0]) if single else convolved


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
    how = _windows(space, stride, padding, dilation, groups)
    by_input = by_weight = None
    by_bias = (
        gradient.reduce_sum([axis for axis in range(gradient.rank) if axis != 1]) if output_mask[2] else None
    )
    gradient, x, weight = _as_read(at, groups, gradient, x, weight)
    if output_mask[0]:
        by_input = (
            _fitted(how.correlated(gradient, weight), x)
            if transposed
            else _by_input(at, gradient, x, weight, how)
        )
    if output_mask[1]:
        images, kernels = (gradient, x) if transposed else (x, gradient)
        by_weight = _by_weight(at, images, kernels, weight, how)
    return by_input, by_weight, by_bias


def _fitted(images: V, like: V) -> V:
    """Cut, or filled with zeros, at the end of each spatial axis: windows that did not fit were left out."""
    if images.dims == like.dims:
        return images
    high = [want - have for want, have in zip(like.dims, images.dims, strict=True)]
    return images.pad([0] * images.rank, high)


def _by_input(at: FxSite, gradient: V, x: V, weight: V, how: _WindowLayout) -> V:
    known, out, kernel = sizes(at, x)[2:], sizes(at, gradient)[2:], sizes(at, weight)[2:]
    axes = zip(known, out, how.strides, how.padding, kernel, how.dilation, strict=True)
    extra = [
        size - ((count - 1) * step - 2 * pad + (width - 1) * gap + 1)
        for size, count, step, pad, width, gap in axes
    ]
    return _transposed(at, gradient, weight, how, extra)


def _by_weight(at: FxSite, x: V, gradient: V, weight: V, how: _WindowLayout) -> V:
    """Correlates the input with the gradient: samples are summed over, so they take the place of channels."""
    strides, padding, dilation, groups = how
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
        by_weight = _correlated(images, kernels, dilation, ends, strides, 1)
        return by_weight.transpose([1, 0, *range(2, by_weight.rank)])
    share = channels // groups
    parts = images.reshape((groups, share, batch, *space)).transpose([1, 0, 2, *range(3, x.rank + 1)])
    parts = parts.reshape((share, groups * batch, *space))
    by_weight = _correlated(parts, kernels, dilation, ends, strides, groups)
    return by_weight.transpose([1, 0, *range(2, by_weight.rank)]).reshape((outputs, share, *width))

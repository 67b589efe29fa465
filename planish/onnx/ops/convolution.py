"""Convolutions: plain, transposed, deformable, causal with a state, and the inverse of taking blocks."""

from __future__ import annotations

import itertools
import math

import numpy as np

from planish.onnx.ops.byte_convolutions import convolve_units
from planish.onnx.ops.common import Array, ints, size_of, sizes
from planish.onnx.ops.windows import NodeWindow, spatial_letters, window_of
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir import ops
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import along
from planish.ptir.library.normalize import converted, widened
from planish.ptir.library.sampling import sampled
from planish.ptir.library.shaping import turned_kernel


def convolve(x: V, kernel: V, window: NodeWindow, groups: int, attrs: ops.DotAttrs | None = None) -> V:
    """(N, C, …) with (M, C/g, …)."""
    space = spatial_letters(x.rank - 2)
    return x.convolution(
        kernel,
        "NC" + space,
        "OI" + space,
        strides=window.strides,
        padding=window.padding,
        rhs_dilation=window.dilations,
        groups=groups,
        attrs=attrs,
    )


def with_bias(x: V, bias: V | None) -> V:
    """A number per channel added."""
    return x if bias is None else x.add(along(bias, x.dims, 1))


@op("Conv")
def conv(at: NodeSite, x: V, kernel: V, bias: V | None = None) -> V:
    window = window_of(at, x, sizes(at, kernel, 2))
    groups = at.attr("group", 1)
    whole = convolve_units(at, x, kernel, window) if groups == 1 else None
    return with_bias(convolve(x, kernel, window, groups) if whole is None else whole, bias)


@op("ConvTranspose")
def conv_transpose(at: NodeSite, x: V, kernel: V, bias: V | None = None) -> V:
    """A convolution of the input spread out by the strides, with the kernel turned around."""
    count, groups = x.rank - 2, at.attr("group", 1)
    _, each, *shape = sizes(at, kernel)
    at.attr("kernel_shape")
    strides = at.attr("strides") or [1] * count
    dilations = at.attr("dilations") or [1] * count
    extra = at.attr("output_padding") or [0] * count
    pads = at.attr("pads") or [0] * (2 * count)
    how, wanted = at.attr("auto_pad", "NOTSET"), at.attr("output_shape")
    cropped = []
    for n in range(count):
        span = (shape[n] - 1) * dilations[n] + 1
        if wanted is not None or how in ("SAME_UPPER", "SAME_LOWER"):
            size = size_of(at, x, 2 + n)
            full = strides[n] * (size - 1) + extra[n] + span
            target = wanted[n - count] if wanted is not None else size * strides[n]
            total = max(full - target, 0)
            less, more = total // 2, total - total // 2
            begin, end = (less, more) if how == "SAME_UPPER" else (more, less)
            # What the wanted size has beyond the full one is room behind.
            end -= max(target - full, 0)
        else:
            begin, end = (0, 0) if how == "VALID" else (pads[n], pads[n + count])
        cropped.append((begin, end - extra[n]))
    if groups == 1 and set(x.dims[2:]) == {1} and set(dilations) == {1}:
        return with_bias(_kernel_of_pixel(x, kernel, [each, *shape], cropped), bias)
    spans = [(taps - 1) * gap for taps, gap in zip(shape, dilations, strict=True)]
    padding = [(span - begin, span - end) for span, (begin, end) in zip(spans, cropped, strict=True)]
    letters = spatial_letters(count)
    result = x.convolution(
        turned_kernel(kernel, groups),
        "NC" + letters,
        "OI" + letters,
        padding=padding,
        lhs_dilation=strides,
        rhs_dilation=dilations,
        groups=groups,
    )
    return with_bias(result, bias)


def _kernel_of_pixel(x: V, kernel: V, shape: list[int], cropped: list[tuple[int, int]]) -> V:
    """One pixel spread out is the kernel, summed over the channels: a product with the kernel as it lies."""
    batch, inputs = x.dims[:2]
    product = x.reshape((batch, inputs)).matmul(kernel.reshape((inputs, math.prod(shape))))
    low, high = ([-part for part in side] for side in zip(*cropped, strict=True))
    return product.reshape((batch, *shape)).pad([0, 0, *low], [0, 0, *high])


@op("Col2Im", known=(1, 2))
def col2im(at: NodeSite, x: V, image: Array, block: Array) -> V:
    """Blocks added up where they overlap."""
    target, shape = ints(image), ints(block)
    count = len(target)
    strides = at.attr("strides") or [1] * count
    dilations = at.attr("dilations") or [1] * count
    pads = at.attr("pads") or [0] * (2 * count)
    batch, rows, _ = sizes(at, x)
    channels = rows // int(np.prod(shape))
    steps = [
        (target[n] + pads[n] + pads[n + count] - (shape[n] - 1) * dilations[n] - 1) // strides[n] + 1
        for n in range(count)
    ]
    parts = x.reshape((batch, channels, *shape, *steps))
    total: V | None = None
    for place in itertools.product(*(range(k) for k in shape)):
        starts = [0, 0, *place, *[0] * count]
        limits = [batch, channels, *(p + 1 for p in place), *steps]
        part = parts.slice(starts, limits).reshape((batch, channels, *steps))
        low = [place[n] * dilations[n] - pads[n] for n in range(count)]
        high = [target[n] - low[n] - (steps[n] - 1) * strides[n] - 1 for n in range(count)]
        part = part.pad([0, 0, *low], [0, 0, *high], [0, 0, *(s - 1 for s in strides)])
        total = part if total is None else total.add(part)
    return x if total is None else total


@op("DeformConv")
def deform_conv(
    at: NodeSite, x: V, kernel: V, offset: V, bias: V | None = None, mask: V | None = None
) -> V:  # fmt: skip
    """Each tap of each window looks where an offset says, between elements linearly and outside at 0."""
    batch, channels, *space = sizes(at, x)
    outs, _, *shape = sizes(at, kernel)
    count, taps = len(space), int(np.prod(shape))
    window = window_of(at, x, shape)
    groups, shares = at.attr("group", 1), at.attr("offset_group", 1)
    grid = sizes(at, offset, 2)
    graph = at.graph
    wide = widened(x)
    # Every offset group is a batch of its own: (N·G, C/G, …) looked at by (N·G, taps, out …).
    source = wide.reshape((batch * shares, channels // shares, *space))
    where = widened(offset).reshape((batch * shares, taps, count, *grid))
    dims = (batch * shares, taps, *grid)
    places = []
    for n in range(count):
        moved = where.slice([0, 0, n, *[0] * count], [batch * shares, taps, n + 1, *grid]).reshape(dims)
        steps = np.arange(grid[n]) * window.strides[n] - window.padding[n][0]
        inner = int(np.prod(shape[n + 1 :]))
        tap = (np.arange(taps) // inner % shape[n]) * window.dilations[n]
        line = graph.constant(steps.astype(np.float32), wide.dtype)
        column = graph.constant(tap.astype(np.float32), wide.dtype)
        places.append(moved.add(along(line, dims, 2 + n)).add(along(column, dims, 1)))
    total = sampled(source, places, "linear")
    if mask is not None:
        share = widened(mask).reshape((*dims, 1))
        total = total.mul(share.broadcast_to(total.dims))
    # (N, G, taps, out …, C/G) to (N, groups, C/groups, taps, out …)
    parts = total.reshape((batch, shares, taps, *grid, channels // shares))
    parts = parts.transpose((0, 1, 3 + count, 2, *range(3, 3 + count)))
    cells = int(np.prod(grid))
    parts = parts.reshape((batch, groups, channels // groups * taps, cells))
    weights = widened(kernel).reshape((groups, outs // groups, channels // groups * taps))
    result = weights.dot_general(parts, ops.DotDims((0,), (2,), (2,), (1,)))
    result = result.transpose((2, 0, 1, 3)).reshape((batch, outs, *grid))
    return with_bias(converted(result, x.dtype), bias)

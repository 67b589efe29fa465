"""The transposes of contractions: gradients of `dot_general` and `convolution` are contractions of the cotangent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planish.frontend.autodiff.instruction import RuleSite, zeros
from planish.ptir import ops
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.shaping import turned_kernel
from planish.ptir.ops.contract import ConvolutionAttrs, DotGeneralAttrs, convolution_axes, free_axes


def _as(value: V, like: V) -> V:
    return value if value.dtype is like.dtype else value.cast(like.dtype)


def transposed_dot(at: RuleSite, c: V, n: int) -> V:
    """The cotangent of operand n: that of the result over the other operand's free axes."""
    attrs: DotGeneralAttrs = at.attrs
    x, other = at.x[n], at.x[1 - n]
    sides = ((attrs.lhs_batch, attrs.lhs_contract), (attrs.rhs_batch, attrs.rhs_contract))
    (batch, contract), (other_batch, other_contract) = sides[n], sides[1 - n]
    free, other_free = free_axes(x.rank, batch, contract), free_axes(other.rank, other_batch, other_contract)
    count = len(batch)
    # the result has axes batch, left free, right free; the other's free axes are summed over
    first = count + (len(free) if n == 0 else 0)
    summed = tuple(range(first, first + len(other_free)))
    if other.dtype.is_complex:
        other = other.conj()
    wanted = DotGeneralAttrs(
        tuple(range(count)), other_batch, summed, tuple(other_free), attrs.accum_dtype, x.dtype
    )
    back = at.graph.emit(ops.dot_general, (_as(c, x), _as(other, x)), wanted)
    # its axes: batch, this one's free axes, and the contracted ones in the order of the other operand
    order = [*batch, *free, *(contract[other_contract.index(axis)] for axis in sorted(other_contract))]
    return back.transpose([order.index(axis) for axis in range(x.rank)])


def transposed_convolution(at: RuleSite, c: V, n: int) -> V:
    """In the axes (N, C, …), (O, I, …): both gradients are convolutions of the cotangent."""
    attrs: ConvolutionAttrs = at.attrs
    lhs_axes, rhs_axes, out_axes = convolution_axes(attrs, at.x[0].rank)
    own = at.x[n]
    if 0 in c.dims or 0 in own.dims:
        return zeros(at.graph, own.type)
    x, kernel, back = at.x[0].transpose(lhs_axes), at.x[1].transpose(rhs_axes), c.transpose(out_axes)
    if x.dtype.is_complex:
        x, kernel = x.conj(), kernel.conj()
    x, kernel, back = _as(x, own), _as(kernel, own), _as(back, own)
    gradient = _operand(at, attrs, x, kernel, back) if n == 0 else _kernel(at, attrs, x, kernel, back)
    axes = lhs_axes if n == 0 else rhs_axes
    return gradient.transpose([axes.index(axis) for axis in range(own.rank)])


def _convolved(
    at: RuleSite, attrs: ConvolutionAttrs, lhs: V, rhs: V, padding: Sequence[tuple[int, int]],
    strides: tuple[int, ...], lhs_dilation: tuple[int, ...], rhs_dilation: tuple[int, ...],
) -> V:  # fmt: skip
    space = "abcdefgh"[: lhs.rank - 2]
    wanted = replace(
        attrs, strides=strides, low=tuple(low for low, _ in padding), high=tuple(high for _, high in padding),
        lhs_dilation=lhs_dilation, rhs_dilation=rhs_dilation, lhs_layout="NC" + space,
        rhs_layout="OI" + space, out_layout="NC" + space, out_dtype=lhs.dtype,
    )  # fmt: skip
    return at.graph.emit(ops.convolution, (lhs, rhs), wanted)


def _operand(at: RuleSite, attrs: ConvolutionAttrs, x: V, kernel: V, c: V) -> V:
    """The cotangent, spread by the strides, over the flipped kernel with inputs and outputs exchanged in every group."""
    flipped = turned_kernel(kernel, attrs.groups)
    padding = []
    for k in range(x.rank - 2):
        reach = (kernel.dims[2 + k] - 1) * attrs.rhs_dilation[k]
        spread = (x.dims[2 + k] - 1) * attrs.lhs_dilation[k] + 1
        given = (c.dims[2 + k] - 1) * attrs.strides[k] + 1
        low = reach - attrs.low[k]
        padding.append((_known(at, low), _known(at, spread + reach - given - low)))
    return _convolved(at, attrs, c, flipped, padding, attrs.lhs_dilation, attrs.strides, attrs.rhs_dilation)


def _kernel(at: RuleSite, attrs: ConvolutionAttrs, x: V, kernel: V, c: V) -> V:
    """The operand over the cotangent, with batch and features exchanged: batches are what is summed over."""
    groups = attrs.groups
    batch, _, *sizes = x.dims
    _, inputs, *window = kernel.dims
    if max(attrs.lhs_dilation, default=1) > max(attrs.strides, default=1) == 1:
        return _kernel_of_holes(at, attrs, x, kernel, c)
    # one convolution per group, side by side: (I, g·N, …) over (O, N, …) in g groups
    lhs = x.reshape([batch, groups, inputs, *sizes]).transpose([2, 1, 0, *range(3, x.rank + 1)])
    lhs = lhs.reshape([inputs, groups * batch, *sizes])
    rhs = c.transpose([1, 0, *range(2, c.rank)])
    padding = []
    for k in range(x.rank - 2):
        spread = (x.dims[2 + k] - 1) * attrs.lhs_dilation[k] + 1
        reach = (c.dims[2 + k] - 1) * attrs.strides[k] + 1
        wanted = (window[k] - 1) * attrs.rhs_dilation[k] + 1
        padding.append((attrs.low[k], _known(at, wanted + reach - 1 - spread - attrs.low[k])))
    gradient = _convolved(at, attrs, lhs, rhs, padding, attrs.rhs_dilation, attrs.lhs_dilation, attrs.strides)
    return gradient.transpose([1, 0, *range(2, gradient.rank)])


def _kernel_of_holes(at: RuleSite, attrs: ConvolutionAttrs, x: V, kernel: V, c: V) -> V:
    """The cotangent over the operand: where the operand is spread, every element of it counts, and no hole between them."""
    groups, space = attrs.groups, range(x.rank - 2)
    batch, _, *sizes = c.dims
    outputs, inputs, *window = kernel.dims
    lhs = c.reshape([batch, groups, outputs // groups, *sizes]).transpose([2, 1, 0, *range(3, c.rank + 1)])
    lhs = lhs.reshape([outputs // groups, groups * batch, *sizes])
    rhs = x.transpose([1, 0, *range(2, x.rank)])
    padding = []
    for k in space:
        reach = (window[k] - 1) * attrs.rhs_dilation[k]
        spread = (x.dims[2 + k] - 1) * attrs.lhs_dilation[k] + 1
        low = reach - attrs.low[k]
        padding.append((_known(at, low), _known(at, reach + spread - c.dims[2 + k] - low)))
    gradient = _convolved(at, attrs, lhs, rhs, padding, attrs.rhs_dilation, attrs.strides, attrs.lhs_dilation)
    gradient = gradient.reverse(range(2, gradient.rank)).reshape([outputs // groups, groups, inputs, *window])
    return gradient.transpose([1, 0, *range(2, gradient.rank)]).reshape([outputs, inputs, *window])


def _known(at: RuleSite, size: object) -> int:
    """Padding, which convolutions take as numbers: with unit strides a dynamic size cancels out of it."""
    if not isinstance(size, int):
        raise at.no_rule(
            "the gradient of this convolution needs a padding that depends on a dynamic size",
            "give that spatial axis a fixed size, or the convolution unit strides",
        )
    return size

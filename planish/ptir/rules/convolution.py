"""Convolutions: layouts instead of transposes, padding of their own, and contractions where they are just that."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.ops.contract import convolution_axes
from planish.ptir.rewrite import views as v
from planish.ptir.rewrite.prelude import signed_zero
from planish.ptir.rules import draft as d
from planish.ptir.rules.numbers import number_of
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.types import TensorType


def spatial(layout: str) -> str:
    return "".join(letter for letter in layout if letter not in "NC")


def is_plain(attrs: ops.ConvolutionAttrs) -> bool:
    """No padding, no dilation of the operand, one group."""
    return not any((*attrs.low, *attrs.high)) and set(attrs.lhs_dilation) <= {1} and attrs.groups == 1


@rule(benefit=3)
def ReplacePointwiseConvolution(op: v.ConvolutionView) -> Answer:
    """convolution(x, k) -> dot_general(slice(x), k) for a kernel of one element: the features are contracted."""
    attrs, x = op.attrs, op.lhs
    lhs, rhs, _ = convolution_axes(attrs, x.type.rank)
    if not is_plain(attrs) or any(op.rhs.type.dims[axis] != 1 for axis in rhs[2:]):
        return "the kernel has several elements, or there is padding"
    strides = [1] * x.type.rank
    for axis, stride in zip(lhs[2:], attrs.strides, strict=True):
        strides[axis] = stride
    starts: list[DimLike] = [0] * x.type.rank
    taken = d.sliced(x, starts, x.type.dims, strides)
    features = d.reshaped(op.rhs, [op.rhs.type.dims[axis] for axis in sorted(rhs[:2])])
    inputs = 0 if rhs[1] < rhs[0] else 1
    dims = ops.DotGeneralAttrs((), (), (lhs[1],), (inputs,), attrs.accum_dtype, attrs.out_dtype)
    product = d.draft(ops.dot_general, (taken, features), dims)
    # Its axes: those of x but the features, then the output features.
    kept = [letter for letter in attrs.lhs_layout if letter != "C"] + ["C"]
    return d.transposed(product, [kept.index(letter) for letter in attrs.out_layout])


@rule(benefit=2)
def ReplaceFullConvolution(op: v.ConvolutionView) -> Answer:
    """convolution(x, k) -> dot_general(x, k) where the kernel covers x once: everything but the batch is contracted."""
    attrs = op.attrs
    lhs, rhs, out = convolution_axes(attrs, op.lhs.type.rank)
    sizes = [(op.lhs.type.dims[a], op.rhs.type.dims[b]) for a, b in zip(lhs[2:], rhs[2:], strict=True)]
    if not is_plain(attrs) or set(attrs.rhs_dilation) - {1} or any(a != b for a, b in sizes):
        return "the kernel does not cover x as it is"
    dims = ops.DotGeneralAttrs((), (), lhs[1:], rhs[1:], attrs.accum_dtype, attrs.out_dtype)
    product = d.draft(ops.dot_general, (op.lhs, op.rhs), dims)
    if out[0] > out[1]:
        product = d.draft(ops.transpose, (product,), ops.TransposeAttrs((1, 0)))
    return d.reshaped(product, op.dims)


@rule(benefit=3)
def DropTapsBesideImage(op: v.ConvolutionView) -> Answer:
    """convolution(x, k) -> convolution(x, slice(k)) without the first and last taps that meet nothing but padding."""
    attrs = op.attrs
    lhs, rhs, out = convolution_axes(attrs, op.lhs.type.rank)
    low, high, cut, dropped = list(attrs.low), list(attrs.high), d.Cut(op.rhs), False
    for i, (a, b, c) in enumerate(zip(lhs[2:], rhs[2:], out[2:], strict=True)):
        size, taps, count = op.lhs.type.dims[a], op.rhs.type.dims[b], op.dims[c]
        if not isinstance(size, int) or not isinstance(taps, int) or not isinstance(count, int):
            continue
        gap, last = attrs.rhs_dilation[i], (count - 1) * attrs.strides[i]
        room = (size - 1) * attrs.lhs_dilation[i]
        # tap t meets positions t·gap - low to last + t·gap - low of x, which has 0 to room
        met = [t for t in range(taps) if t * gap - low[i] <= room and last + t * gap - low[i] >= 0]
        if (
            not met
            or len(met) == taps
            or min(low[i] - met[0] * gap, high[i] - (taps - 1 - met[-1]) * gap) < 0
        ):
            continue
        low[i], high[i] = low[i] - met[0] * gap, high[i] - (taps - 1 - met[-1]) * gap
        cut[b], dropped = (met[0], met[-1] + 1, 1), True
    if not dropped:
        return "every tap meets x"
    return d.draft(ops.convolution, (op.lhs, cut.term()), replace(attrs, low=tuple(low), high=tuple(high)))


@rule(benefit=2)
def ReplaceConvolutionOfPixel(op: v.ConvolutionView) -> Answer:
    """convolution(x, k) -> pad(dot_general(x, reverse(k)), 0) where x is one pixel: each position of the result meets one tap."""
    attrs, x = op.attrs, op.lhs
    lhs, rhs, out = convolution_axes(attrs, x.type.rank)
    steps = {*attrs.strides, *attrs.rhs_dilation, attrs.groups}
    if any(x.type.dims[axis] != 1 for axis in lhs[2:]) or steps != {1}:
        return "x has several pixels, or there are strides, gaps or groups"
    pixel = d.reshaped(x, [x.type.dims[axis] for axis in sorted(lhs[:2])])
    inputs = 0 if lhs[1] < lhs[0] else 1
    dims = ops.DotGeneralAttrs((), (), (inputs,), (rhs[1],), attrs.accum_dtype, attrs.out_dtype)
    product = d.draft(ops.dot_general, (pixel, d.backwards(op.rhs, rhs[2:])), dims)
    # Its axes: the batch, then those of the kernel but the input features.
    kept = ["N"] + ["C" if letter == "O" else letter for letter in attrs.rhs_layout if letter != "I"]
    turned = d.transposed(product, [kept.index(letter) for letter in attrs.out_layout])
    first, last = [0] * len(op.dims), [0] * len(op.dims)
    for i, (a, b) in enumerate(zip(rhs[2:], out[2:], strict=True)):
        taps = op.rhs.type.dims[a]
        if not isinstance(taps, int):
            return "the number of taps is dynamic"
        first[b], last[b] = attrs.low[i] - taps + 1, attrs.high[i] - taps + 1
    return d.padded(turned, d.number(0, TensorType(attrs.out_dtype, ())), first, last, [0] * len(op.dims))


@rule(benefit=4, any_operand=ops.transpose)
def AbsorbTransposeIntoConvolution(op: v.ConvolutionView) -> Answer:
    """convolution(transpose(x, p), k) -> convolution(x, k) with another layout, and of transpose(k, p)."""
    attrs = op.attrs
    terms = list(op.operands)
    left, right = v.TransposeView.of(op.lhs), v.TransposeView.of(op.rhs)
    if left is not None:
        terms[0] = left.source
        attrs = _with_lhs_layout(attrs, _before(attrs.lhs_layout, left.perm))
    if right is not None:
        terms[1] = right.source
        attrs = replace(attrs, rhs_layout=_before(attrs.rhs_layout, right.perm))
    if left is None and right is None:
        return "no operand is transposed"
    return d.draft(ops.convolution, terms, attrs)


def _before(layout: str, perm: tuple[int, ...]) -> str:
    """The layout of what a transpose by `perm` turned into `layout`."""
    letters = [""] * len(perm)
    for letter, axis in zip(layout, perm, strict=True):
        letters[axis] = letter
    return "".join(letters)


def _with_lhs_layout(attrs: ops.ConvolutionAttrs, layout: str) -> ops.ConvolutionAttrs:
    """Another layout of the operand; whatever is listed per spatial axis follows its order."""
    old = spatial(attrs.lhs_layout)
    order = [old.index(letter) for letter in spatial(layout)]

    def moved(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(values[position] for position in order)

    return replace(
        attrs,
        lhs_layout=layout,
        strides=moved(attrs.strides),
        low=moved(attrs.low),
        high=moved(attrs.high),
        lhs_dilation=moved(attrs.lhs_dilation),
        rhs_dilation=moved(attrs.rhs_dilation),
    )


@rule(benefit=2, watch_uses=True)
def AbsorbTransposeOfConvolution(op: v.TransposeView, inner: v.ConvolutionView) -> Answer:
    """transpose(convolution(x, k), p) -> convolution(x, k) with another result layout, if nothing else needs it."""
    if not op.source.has_one_use:
        return "the untransposed result is needed elsewhere"
    layout = "".join(inner.attrs.out_layout[axis] for axis in op.perm)
    attrs = replace(inner.attrs, out_layout=layout)
    return d.draft(ops.convolution, inner.operands, attrs)


@rule(benefit=4, radius=2)
def AbsorbPadIntoConvolution(op: v.ConvolutionView, inner: v.PadView) -> Answer:
    """convolution(pad(x, 0), k) -> convolution(x, k) with more padding, where only spatial axes are padded."""
    number = number_of(inner.padding)
    if number is None or not signed_zero(number, 1.0):
        return "the padding is not 0"
    attrs, pad = op.attrs, inner.attrs
    lhs = convolution_axes(attrs, op.lhs.type.rank)[0]
    for axis in lhs[:2]:
        if pad.low[axis] != 0 or pad.high[axis] != 0 or pad.interior[axis] != 0:
            return "batch or features are padded"
    low, high, dilation = list(attrs.low), list(attrs.high), list(attrs.lhs_dilation)
    for position, axis in enumerate(lhs[2:]):
        first, last = pad.low[axis], pad.high[axis]
        if not isinstance(first, int) or not isinstance(last, int) or first < 0 or last < 0:
            return f"axis {axis} is cropped, or by a dynamic size"
        if attrs.lhs_dilation[position] != 1 and (first, last, pad.interior[axis]) != (0, 0, 0):
            return f"axis {axis} is padded, then dilated"
        low[position] += first
        high[position] += last
        if pad.interior[axis]:
            dilation[position] = pad.interior[axis] + 1
    wider = replace(attrs, low=tuple(low), high=tuple(high), lhs_dilation=tuple(dilation))
    return d.draft(ops.convolution, (inner.source, op.rhs), wider)


@rule(benefit=2)
def SpreadResultOfConvolution(op: v.ConvolutionView) -> Answer:
    """convolution(x, k) -> pad(convolution(x, k), 0) where holes in x and gaps in k have a common factor: what lies between is 0.

    With holes of d, gaps of e and g = gcd(d, e), position p of the result meets something only if g divides low - p.
    """
    attrs = op.attrs
    lhs, rhs, out = convolution_axes(attrs, op.lhs.type.rank)
    factors = [
        gcd(holes, gaps) if stride == 1 else 1
        for holes, gaps, stride in zip(attrs.lhs_dilation, attrs.rhs_dilation, attrs.strides, strict=True)
    ]
    windows = [op.rhs.type.dims[axis] for axis in rhs[2:]]
    if all(factor == 1 for factor in factors):
        return "holes and gaps have no common factor"
    low, high, first, last = list(attrs.low), list(attrs.high), [0] * len(op.dims), [0] * len(op.dims)
    between = [0] * len(op.dims)
    holes, gaps = list(attrs.lhs_dilation), list(attrs.rhs_dilation)
    for i, factor in enumerate(factors):
        size, window, count, axis = op.lhs.type.dims[lhs[2 + i]], windows[i], op.dims[out[2 + i]], out[2 + i]
        if factor == 1:
            continue
        if not isinstance(size, int) or not isinstance(window, int) or not isinstance(count, int):
            return "a size is dynamic"
        start = attrs.low[i] % factor
        if start >= count or not size:
            return "nothing of x is met"
        fewer = -(-(count - start) // factor)
        holes[i], gaps[i] = holes[i] // factor, gaps[i] // factor
        low[i] = (attrs.low[i] - start) // factor
        high[i] = fewer + (window - 1) * gaps[i] - low[i] - ((size - 1) * holes[i] + 1)
        first[axis], between[axis] = start, factor - 1
        last[axis] = count - start - ((fewer - 1) * factor + 1)
    less = replace(
        attrs, low=tuple(low), high=tuple(high), lhs_dilation=tuple(holes), rhs_dilation=tuple(gaps)
    )
    zero = d.number(0, TensorType(attrs.out_dtype, ()))
    return d.padded(d.draft(ops.convolution, op.operands, less), zero, first, last, between)


populate_canonicalization = family(__name__)

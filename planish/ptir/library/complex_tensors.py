"""Contractions, products, scans and scatters of complex tensors, on pairs of reals.

Sums go part by part, so only what multiplies is here. A product along an axis is a tree where the size is known, and a `scan` where it
is not or where every prefix is wanted.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from planish.ptir import ops
from planish.ptir.graph_value import GraphValue
from planish.ptir.library.common import gather, move_axis
from planish.ptir.library.complex_numbers import Pair, mul
from planish.ptir.library.normalize import converted
from planish.ptir.ops.definition import Attrs, OpDef
from planish.ptir.ops.numerics import part_dtype
from planish.ptir.ops.reduce import reduced_dims
from planish.ptir.types import DimLike, product


def contract(a: Pair, b: Pair, op: OpDef, attrs: ops.DotGeneralAttrs | ops.ConvolutionAttrs) -> Pair:
    """`dot_general` or `convolution` by four real ones, added up in the accumulation dtype and rounded once."""
    part = part_dtype(attrs.accum_dtype)
    real: Attrs = dataclasses.replace(attrs, accum_dtype=part, out_dtype=part)
    emit = a[0].graph.emit
    re = emit(op, (a[0], b[0]), real).sub(emit(op, (a[1], b[1]), real))
    im = emit(op, (a[0], b[1]), real).add(emit(op, (a[1], b[0]), real))
    return converted(re, part_dtype(attrs.out_dtype)), converted(im, part_dtype(attrs.out_dtype))


def _one(like: GraphValue, dims: Sequence[DimLike]) -> Pair:
    return like.graph.full(list(dims), 1.0, like.dtype), like.graph.full(list(dims), 0.0, like.dtype)


def _front(z: Pair, axis: int) -> Pair:
    return move_axis(z[0], axis, 0), move_axis(z[1], axis, 0)


def _part(x: GraphValue, start: int, limit: int) -> GraphValue:
    """Some of axis 0."""
    return x.slice([start, *[0] * (x.rank - 1)], [limit, *x.dims[1:]])


# --- products along axes ----------------------------------------------------------------------------------


def reduce_prod(z: Pair, attrs: ops.ReduceAttrs) -> Pair:
    """The product over some axes, one after the other."""
    shape = reduced_dims(z[0].dims, attrs.axes, attrs.keepdims)
    for axis in sorted(attrs.axes, reverse=True):
        z = _product(_front(z, axis))
    return z[0].reshape(shape), z[1].reshape(shape)


def _product(z: Pair) -> Pair:
    """The product over axis 0."""
    size, *rest = z[0].dims
    if not isinstance(size, int):
        return _running(z, reverse=False, exclusive=False)[0]
    if size == 0:
        return _one(z[0], rest)
    while size > 1:
        half = size // 2
        low, high = (tuple(_part(x, h, h + half) for x in z) for h in (0, half))
        re, im = mul((low[0], low[1]), (high[0], high[1]))
        if size % 2:
            re = re.concat([_part(z[0], size - 1, size)], 0)
            im = im.concat([_part(z[1], size - 1, size)], 0)
        z, size = (re, im), half + size % 2
    return z[0].reshape(rest), z[1].reshape(rest)


def cumprod(z: Pair, attrs: ops.CumulativeAttrs) -> Pair:
    """Every prefix product along an axis, in order."""
    _, (re, im) = _running(_front(z, attrs.axis), attrs.reverse, attrs.exclusive)
    return move_axis(re, 0, attrs.axis), move_axis(im, 0, attrs.axis)


def _running(z: Pair, reverse: bool, exclusive: bool) -> tuple[Pair, Pair]:
    """The product over axis 0, and what it was after (or before) each factor."""

    def step(re: GraphValue, im: GraphValue, x: GraphValue, y: GraphValue) -> tuple[GraphValue, ...]:
        following = mul((re, im), (x, y))
        return (*following, *((re, im) if exclusive else following))

    graph = z[0].graph
    start = _one(z[0], z[0].dims[1:])
    total_re, total_im, re, im = graph.scan(step, start, z, reverse=reverse)
    return (total_re, total_im), (re, im)


def window_prod(z: Pair, attrs: ops.ReduceWindowAttrs, dims: Sequence[DimLike]) -> Pair:
    """The product of each window, one position of the window after the other."""
    between = [dilation - 1 for dilation in attrs.base_dilation]
    spread = [x.pad(attrs.low, attrs.high, between, fill) for x, fill in zip(z, (1.0, 0.0), strict=True)]
    result = _one(z[0], dims)
    for offsets in itertools.product(*[range(size) for size in attrs.window]):
        starts = [offset * dilation for offset, dilation in zip(offsets, attrs.window_dilation, strict=True)]
        limits = [
            start + (count - 1) * stride + 1
            for start, count, stride in zip(starts, dims, attrs.strides, strict=True)
        ]
        if any(count == 0 for count in dims):
            break
        tap = [x.slice(starts, limits, attrs.strides) for x in spread]
        result = mul(result, (tap[0], tap[1]))
    return result


# --- scatter ----------------------------------------------------------------------------------------------


def scatter_mul(z: Pair, updates: Pair, indices: Sequence[GraphValue], attrs: ops.ScatterAttrs) -> Pair:
    """Updates multiplied in one after the other, since several may meet the same element."""
    count = product(indices[0].dims)
    lines = [index.reshape((count,)) for index in indices]
    factors = [part.reshape((count, *part.dims[indices[0].rank :])) for part in updates]
    axes = attrs.axes

    def step(re: GraphValue, im: GraphValue, *slices: GraphValue) -> tuple[GraphValue, ...]:
        *where, x, y = slices
        new = mul((gather(re, where, axes), gather(im, where, axes)), (x, y))
        return re.scatter(new[0], where, axes), im.scatter(new[1], where, axes)

    re, im = z[0].graph.scan(step, z, [*lines, *factors])
    return re, im

"""Contractions: `dot_general` and `convolution`.

Both convert their operands to an accumulation dtype, multiply and add there, and convert the sum once to
the result dtype (semantics section 7). The attributes always hold both dtypes, so that equal contractions
have equal attributes; `DotAttrs` is the form in which a user may leave them out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.ops import checking, numerics
from planish.ptir.ops import definition as d
from planish.ptir.ops.checking import dtype_error, need_axes, shape_error
from planish.ptir.ops.literal import Array
from planish.ptir.ops.movement import pad_array, spread_size
from planish.ptir.ops.reduce import check_positive, window_count
from planish.ptir.types import DimLike, TensorType
from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class DotDims:
    """Which axes a contraction pairs: `batch` axes are kept, `contract` axes are summed."""

    batch: tuple[int, ...] = ()
    lhs_contract: tuple[int, ...] = ()
    rhs_contract: tuple[int, ...] = ()
    rhs_batch: tuple[int, ...] | None = None
    """The batch axes of the right side where they differ from the left's."""


@dataclass(frozen=True, slots=True)
class DotAttrs:
    """The dtypes of a contraction; None means the default of semantics 7.1."""

    accum_dtype: DType | None = None
    out_dtype: DType | None = None


@dataclass(frozen=True, slots=True)
class DotGeneralAttrs(d.Attrs):
    """Paired batch and contracted axes, and both dtypes."""

    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]
    lhs_contract: tuple[int, ...]
    rhs_contract: tuple[int, ...]
    accum_dtype: DType
    out_dtype: DType


@dataclass(frozen=True, slots=True)
class ConvolutionAttrs(d.Attrs):
    """Per spatial axis, in the order of `lhs_layout`; layouts name axes by one letter each.

    `N` and `C` are batch and features of operand and result, `O` and `I` the output and input features of the
    kernel; all other letters are spatial and must be the same three times: `NCHW`, `OIHW`, `NHWC`, `DHWIO` …
    """

    strides: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    groups: int
    lhs_layout: str
    rhs_layout: str
    out_layout: str
    accum_dtype: DType
    out_dtype: DType


def default_accumulator(dtype: DType) -> DType:
    """float32 for narrow floats, int32 for narrow integers, otherwise the dtype itself."""
    if dtype.is_int and dtype.bits < 32:
        return dtypes.int32
    return numerics.accumulator(dtype)


def resolve_dtypes(lhs: DType, rhs: DType, accum: DType | None, out: DType | None) -> tuple[DType, DType]:
    """Fill in what the user left out. Operands of two dtypes have no common one, and tfloat32 is for operands alone: the sum's dtype is the result's."""
    if accum is None:
        accum = default_accumulator(lhs)
    if out is None:
        out = lhs if lhs is rhs and lhs is not dtypes.tfloat32 else accum
    return accum, out


def _check_dtypes(
    op: str, lhs: TensorType, rhs: TensorType, accum: DType, out: DType, allowed: checking.DTypeSet
) -> None:
    checking.need_dtype(op, lhs, allowed, "the left operand")
    checking.need_dtype(op, rhs, allowed, "the right operand")
    kinds = [(d.is_float, d.is_int, d.is_complex, d.is_bool) for d in (lhs.dtype, rhs.dtype, accum, out)]
    if len(set(kinds)) > 1:
        dtype_error(
            op,
            f"operands {lhs.dtype.short} and {rhs.dtype.short} accumulated in {accum.short} to {out.short} mix kinds",
            "all four are floats, integers, complex numbers or bools; cast before or after",
        )


# --- dot_general ------------------------------------------------------------------------------------------


def free_axes(rank: int, *used: Sequence[int]) -> list[int]:
    """The axes in none of the lists."""
    taken = {axis for axes in used for axis in axes}
    return [axis for axis in range(rank) if axis not in taken]


def _as_matrices(x: Array, *groups: Sequence[int]) -> Array:
    """Axes gathered into as many groups as given."""
    sizes = [int(np.prod([x.shape[a] for a in group], dtype=np.int64)) for group in groups]
    return np.transpose(x, [a for group in groups for a in group]).reshape(sizes)


@numerics.quiet
def _evaluate_dot_general(arrays: d.Arrays, attrs: DotGeneralAttrs, types: d.Types) -> d.Results:
    lhs, rhs = (numerics.convert(x, attrs.accum_dtype) for x in arrays)
    lhs_free = free_axes(lhs.ndim, attrs.lhs_batch, attrs.lhs_contract)
    rhs_free = free_axes(rhs.ndim, attrs.rhs_batch, attrs.rhs_contract)
    left = numerics.widen(_as_matrices(lhs, attrs.lhs_batch, lhs_free, attrs.lhs_contract))
    right = numerics.widen(_as_matrices(rhs, attrs.rhs_batch, attrs.rhs_contract, rhs_free))
    product = numerics.convert(np.matmul(left, right), attrs.accum_dtype)
    return (numerics.convert(product, attrs.out_dtype).reshape(types[0].shape),)


@d.op(d.OpKey.DOT_GENERAL, arity=2, evaluate=_evaluate_dot_general)
def dot_general(types: d.Types, attrs: DotGeneralAttrs, regions: d.Regions) -> d.ResultTypes:
    """Sum of products over contracted axes; result axes: batch, left free, right free."""
    op = "dot_general"
    lhs, rhs = types
    _check_dtypes(op, lhs, rhs, attrs.accum_dtype, attrs.out_dtype, checking.ROUNDED)
    need_axes(op, (*attrs.lhs_batch, *attrs.lhs_contract), lhs.rank)
    need_axes(op, (*attrs.rhs_batch, *attrs.rhs_contract), rhs.rank)
    pairs = (
        ("batch", attrs.lhs_batch, attrs.rhs_batch),
        ("contracted", attrs.lhs_contract, attrs.rhs_contract),
    )
    for what, left, right in pairs:
        if len(left) != len(right):
            shape_error(op, f"{len(left)} {what} axes on the left, {len(right)} on the right")
        for a, b in zip(left, right, strict=True):
            if lhs.dims[a] != rhs.dims[b]:
                shape_error(op, f"{what} axes {a} of {lhs} and {b} of {rhs} have different sizes")
    dims = [lhs.dims[a] for a in attrs.lhs_batch]
    dims += [lhs.dims[a] for a in free_axes(lhs.rank, attrs.lhs_batch, attrs.lhs_contract)]
    dims += [rhs.dims[a] for a in free_axes(rhs.rank, attrs.rhs_batch, attrs.rhs_contract)]
    return (TensorType(attrs.out_dtype, tuple(dims)),)


# --- convolution ------------------------------------------------------------------------------------------


def _find_axes(op: str, layout: str, leading: str, rank: int, spatial: str) -> tuple[int, ...]:
    """Where the leading letters and then the spatial letters stand in a layout."""
    letters = leading + spatial
    if len(layout) != rank or sorted(layout) != sorted(letters):
        shape_error(
            op,
            f"layout {layout!r} does not name the {rank} axes {', '.join(letters)}",
            "for example NCHW, OIHW, NCHW or NHWC, HWIO, NHWC",
        )
    return tuple(layout.index(letter) for letter in letters)


def convolution_axes(
    attrs: ConvolutionAttrs, rank: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Axis permutations that bring the operands to (N, C, …), (O, I, …) and the result to (N, C, …)."""
    op = "convolution"
    spatial = "".join(letter for letter in attrs.lhs_layout if letter not in "NC")
    if len(set(attrs.lhs_layout)) != len(attrs.lhs_layout) or set(spatial) & set("OI"):
        shape_error(
            op, f"layout {attrs.lhs_layout!r} repeats a letter or uses O or I", "O and I name kernel axes"
        )
    return (
        _find_axes(op, attrs.lhs_layout, "NC", rank, spatial),
        _find_axes(op, attrs.rhs_layout, "OI", rank, spatial),
        _find_axes(op, attrs.out_layout, "NC", rank, spatial),
    )


@numerics.quiet
def _evaluate_convolution(arrays: d.Arrays, attrs: ConvolutionAttrs, types: d.Types) -> d.Results:
    lhs_axes, rhs_axes, out_axes = convolution_axes(attrs, arrays[0].ndim)
    lhs = numerics.widen(numerics.convert(np.transpose(arrays[0], lhs_axes), attrs.accum_dtype))
    rhs = numerics.widen(numerics.convert(np.transpose(arrays[1], rhs_axes), attrs.accum_dtype))
    batch, features, *_ = lhs.shape
    outputs, group_features, *kernel = rhs.shape
    space = [types[0].shape[a] for a in out_axes[2:]]
    total = np.zeros((batch, attrs.groups, outputs // attrs.groups, *space), lhs.dtype)
    if total.size and features:
        ends = ((0, 0, *attrs.low), (0, 0, *attrs.high), (0, 0, *(d - 1 for d in attrs.lhs_dilation)))
        padded = pad_array(lhs, np.zeros((), lhs.dtype), *ends)
        grouped = padded.reshape(batch, attrs.groups, group_features, *padded.shape[2:])
        kernels = rhs.reshape(attrs.groups, outputs // attrs.groups, group_features, *kernel)
        for offsets in np.ndindex(*kernel):
            taps = tuple(
                slice(o * d, o * d + (n - 1) * s + 1, s)
                for o, d, n, s in zip(offsets, attrs.rhs_dilation, space, attrs.strides, strict=True)
            )
            # (N, G, C, …) with (G, O, C): one matrix product per kernel position.
            tap = grouped[(slice(None), slice(None), slice(None), *taps)]
            flat = tap.reshape(batch, attrs.groups, group_features, -1)
            total = total + np.matmul(kernels[(..., *offsets)], flat).reshape(total.shape)
    result = numerics.convert(numerics.convert(total, attrs.accum_dtype), attrs.out_dtype)
    return (np.transpose(result.reshape(batch, outputs, *space), np.argsort(out_axes)),)


@d.op(d.OpKey.CONVOLUTION, arity=2, evaluate=_evaluate_convolution)
def convolution(types: d.Types, attrs: ConvolutionAttrs, regions: d.Regions) -> d.ResultTypes:
    """Cross-correlation of (operand, kernel) with stride, padding, dilation of both, groups and any layout."""
    op = "convolution"
    lhs, rhs = types
    _check_dtypes(op, lhs, rhs, attrs.accum_dtype, attrs.out_dtype, checking.ROUNDED - checking.BOOL)
    if lhs.rank != rhs.rank or lhs.rank < 2:
        shape_error(op, f"operand {lhs} and kernel {rhs} need the same rank, at least 2")
    lhs_axes, rhs_axes, out_axes = convolution_axes(attrs, lhs.rank)
    for what in ("strides", "low", "high", "lhs_dilation", "rhs_dilation"):
        checking.need_length(op, what, getattr(attrs, what), lhs.rank - 2)
        if what not in ("low", "high"):
            check_positive(op, what, getattr(attrs, what))
    batch, features, *space = (lhs.dims[a] for a in lhs_axes)
    out_features, in_features, *kernel = (rhs.dims[a] for a in rhs_axes)
    if attrs.groups < 1 or out_features % attrs.groups != 0 or in_features * attrs.groups != features:
        shape_error(
            op,
            f"{features} features of {lhs} and kernel {rhs} ({attrs.rhs_layout}) do not fit {attrs.groups} groups",
            "the kernel has features/groups input features, and groups divides its output features",
        )
    dims: list[DimLike] = [batch, out_features]
    for i, size in enumerate(space):
        window = kernel[i]
        if not isinstance(window, int) or window < 1:
            shape_error(op, f"kernel {rhs} has a dynamic or empty spatial axis")
        padded = spread_size(size, attrs.lhs_dilation[i] - 1, op) + attrs.low[i] + attrs.high[i]
        dims.append(window_count(padded, window, attrs.strides[i], attrs.rhs_dilation[i]))
    placed: list[DimLike] = [0] * lhs.rank
    for position, axis in enumerate(out_axes):
        placed[axis] = dims[position]
    return (TensorType(attrs.out_dtype, tuple(placed)),)

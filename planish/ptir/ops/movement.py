"""Ops that move data without computing: reshape, transpose, broadcast_to, slice, reverse, concat, pad.

They take every dtype and keep every bit; sizes may be dynamic wherever the result can be proved to fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from planish.ptir.ops import checking
from planish.ptir.ops import definition as d
from planish.ptir.ops.checking import at_most, shape_error, shape_text
from planish.ptir.ops.literal import Array, Literal
from planish.ptir.types import DimLike, TensorType, bounds, product
from planish.records import dataclass

if TYPE_CHECKING:
    from planish.ptir.function import Inst


@dataclass(frozen=True, slots=True)
class ReshapeAttrs(d.Attrs):
    """The new shape."""

    dims: tuple[DimLike, ...]


@dataclass(frozen=True, slots=True)
class BroadcastToAttrs(d.Attrs):
    """The new shape, aligned with the old one at the last axis."""

    dims: tuple[DimLike, ...]


@dataclass(frozen=True, slots=True)
class TransposeAttrs(d.Attrs):
    """Result axis `i` is operand axis `perm[i]`."""

    perm: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SliceAttrs(d.Attrs):
    """From `starts` up to and without `limits`, every `strides`-th element, per axis."""

    starts: tuple[DimLike, ...]
    limits: tuple[DimLike, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReverseAttrs(d.Attrs):
    """The axes to turn round."""

    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConcatAttrs(d.Attrs):
    """The axis along which operands follow each other."""

    axis: int


@dataclass(frozen=True, slots=True)
class PadAttrs(d.Attrs):
    """Elements added before, after and between, per axis; `low` and `high` may be negative and crop."""

    low: tuple[DimLike, ...]
    high: tuple[DimLike, ...]
    interior: tuple[int, ...]


@d.op(d.OpKey.RESHAPE, evaluate=lambda arrays, attrs, types: (arrays[0].reshape(types[0].shape),))
def reshape(types: d.Types, attrs: ReshapeAttrs, regions: d.Regions) -> d.ResultTypes:
    """The same elements in row-major order under another shape."""
    operand = types[0]
    if product(operand.dims) != product(attrs.dims):
        shape_error(
            "reshape",
            f"{operand} has {product(operand.dims)} elements, shape {shape_text(attrs.dims)} has {product(attrs.dims)}",
            "a reshape keeps the number of elements",
        )
    # A scale axis survives if the same number of elements lies before it and its size is the same.
    axis_map: dict[int, int] = {}
    if operand.quant is not None and operand.quant.axis is not None:
        before = product(operand.dims[: operand.quant.axis])
        for axis in range(len(attrs.dims)):
            if product(attrs.dims[:axis]) == before and attrs.dims[axis] == operand.dims[operand.quant.axis]:
                axis_map[operand.quant.axis] = axis
    return (checking.keep_quant("reshape", operand, attrs.dims, axis_map),)


@d.op(d.OpKey.TRANSPOSE, evaluate=lambda arrays, attrs, types: (np.transpose(arrays[0], attrs.perm),))
def transpose(types: d.Types, attrs: TransposeAttrs, regions: d.Regions) -> d.ResultTypes:
    """Axes in another order."""
    operand = types[0]
    if sorted(attrs.perm) != list(range(operand.rank)):
        shape_error(
            "transpose", f"perm {attrs.perm} is not a permutation of the {operand.rank} axes of {operand}"
        )
    axis_map = {old: new for new, old in enumerate(attrs.perm)}
    return (checking.keep_quant("transpose", operand, [operand.dims[a] for a in attrs.perm], axis_map),)


@d.op(
    d.OpKey.BROADCAST_TO,
    evaluate=lambda arrays, attrs, types: (np.broadcast_to(arrays[0], types[0].shape),),
)
def broadcast_to(types: d.Types, attrs: BroadcastToAttrs, regions: d.Regions) -> d.ResultTypes:
    """Repeat along new leading axes and axes of size 1."""
    operand = types[0]
    lead = len(attrs.dims) - operand.rank
    fits = lead >= 0 and all(
        old == new or old == 1 for old, new in zip(operand.dims, attrs.dims[lead:], strict=True)
    )
    if not fits:
        shape_error(
            "broadcast_to",
            f"{operand} does not broadcast to {shape_text(attrs.dims)}",
            "axes are aligned at the last one; each must be equal or 1 (reshape to insert axes of size 1)",
        )
    axis_map = {axis: axis + lead for axis in range(operand.rank)}
    return (checking.keep_quant("broadcast_to", operand, attrs.dims, axis_map),)


def _evaluate_slice(arrays: d.Arrays, attrs: SliceAttrs, types: d.Types) -> d.Results:
    return (np.asarray(arrays[0][tuple(map(slice_of, attrs.starts, attrs.limits, attrs.strides))]),)


def slice_of(start: DimLike, limit: DimLike, stride: int) -> slice:
    """NumPy's slice; sizes must have been resolved."""
    return slice(static(start), static(limit), stride)


def static(dim: DimLike) -> int:
    """A size that must be a number by now."""
    return dim if isinstance(dim, int) else dim.evaluate({})


def _fold_slice(inst: Inst, constants: Sequence[Literal | None]) -> d.FoldResult:
    """Evaluate unless a bound is a dynamic size, which the result's type need not show."""
    attrs, result = inst.attrs, inst.results[0].type
    literal = constants[0]
    if not isinstance(attrs, SliceAttrs) or literal is None or not _may_fold(result):
        return d.FoldResult.NOTHING
    if literal.splat:
        return d.FoldResult.materialize(literal.with_shape(result.shape))
    if not all(isinstance(dim, int) for dim in (*attrs.starts, *attrs.limits)):
        return d.FoldResult.NOTHING
    index = tuple(map(slice_of, attrs.starts, attrs.limits, attrs.strides))
    return d.FoldResult.materialize(Literal(np.asarray(literal.array()[index]), dtype=literal.dtype))


# As many elements as folding materialises elsewhere.
_FOLD_LIMIT: Final = 1 << 16


def _may_fold(result: TensorType) -> bool:
    return result.quant is None and result.is_static and at_most(result.size, _FOLD_LIMIT)


@d.op(d.OpKey.SLICE, evaluate=_evaluate_slice, fold=_fold_slice, foldable=False)
def slice_(types: d.Types, attrs: SliceAttrs, regions: d.Regions) -> d.ResultTypes:
    """A regular part of each axis."""
    operand = types[0]
    for what in ("starts", "limits", "strides"):
        checking.need_length("slice", what, getattr(attrs, what), operand.rank)
    dims: list[DimLike] = []
    for axis, (start, limit, stride) in enumerate(
        zip(attrs.starts, attrs.limits, attrs.strides, strict=True)
    ):
        if stride < 1:
            shape_error(
                "slice", f"stride {stride} of axis {axis} is not positive", "use reverse to walk backwards"
            )
        if not (at_most(0, start) and at_most(start, limit) and at_most(limit, operand.dims[axis])):
            shape_error(
                "slice",
                f"{start}:{limit} is not certain to lie inside axis {axis} of {operand}",
                "a slice needs 0 <= start <= limit <= size",
            )
        dims.append((limit - start + (stride - 1)) // stride)
    whole = {axis: axis for axis, dim in enumerate(dims) if dim == operand.dims[axis]}
    return (checking.keep_quant("slice", operand, dims, whole),)


@d.op(
    d.OpKey.REVERSE,
    evaluate=lambda arrays, attrs, types: (np.flip(arrays[0], attrs.axes),),
    involution=True,
)
def reverse(types: d.Types, attrs: ReverseAttrs, regions: d.Regions) -> d.ResultTypes:
    """Some axes backwards."""
    operand = types[0]
    checking.need_axes("reverse", attrs.axes, operand.rank)
    kept = {axis: axis for axis in range(operand.rank) if axis not in attrs.axes}
    return (checking.keep_quant("reverse", operand, operand.dims, kept),)


@d.op(
    d.OpKey.CONCAT,
    arity=(1, None),
    evaluate=lambda arrays, attrs, types: (np.concatenate(list(arrays), attrs.axis),),
)
def concat(types: d.Types, attrs: ConcatAttrs, regions: d.Regions) -> d.ResultTypes:
    """Operands one after the other along an axis."""
    first = types[0]
    checking.need_same_dtype("concat", types)
    checking.need_axis("concat", attrs.axis, first.rank)
    total: DimLike = 0
    for operand in types:
        others = operand.dims[: attrs.axis] + operand.dims[attrs.axis + 1 :]
        if operand.rank != first.rank or others != first.dims[: attrs.axis] + first.dims[attrs.axis + 1 :]:
            shape_error("concat", f"shapes differ outside axis {attrs.axis}: {checking.show(types)}")
        total = total + operand.dims[attrs.axis]
    dims = [*first.dims[: attrs.axis], total, *first.dims[attrs.axis + 1 :]]
    kept = {axis: axis for axis in range(first.rank) if axis != attrs.axis}
    return (checking.keep_quant("concat", first, dims, kept),)


def spread_size(size: DimLike, interior: int, op: str) -> DimLike:
    """The size of an axis after `interior` elements were put between neighbours."""
    if interior == 0:
        return size
    low, high = bounds(size)
    if high == 0:
        return 0
    if low == 0:
        shape_error(
            op,
            f"an axis of size {size} that may be empty cannot be dilated",
            "give the dim a lower bound of 1",
        )
    return size + (size - 1) * interior


def pad_array(
    x: Array, value: Array, low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> Array:
    """Spread, then add or crop at both ends."""
    spread = [n + max(n - 1, 0) * gap for n, gap in zip(x.shape, interior, strict=True)]
    shape = [lo + n + hi for lo, n, hi in zip(low, spread, high, strict=True)]
    result = np.full(shape, value, x.dtype)
    source: list[slice] = []
    target: list[slice] = []
    for axis, gap in enumerate(interior):
        step = gap + 1
        # Elements i with 0 <= low + i*step < size survive.
        first = max(0, -(low[axis] // step)) if low[axis] < 0 else 0
        last = (shape[axis] - 1 - low[axis]) // step
        stop = max(first, min(x.shape[axis], last + 1))
        source.append(slice(first, stop))
        begin = low[axis] + first * step
        target.append(slice(begin, begin + (stop - first) * step, step) if stop > first else slice(0, 0))
    result[tuple(target)] = x[tuple(source)]
    return result


def _evaluate_pad(arrays: d.Arrays, attrs: PadAttrs, types: d.Types) -> d.Results:
    low = [static(d) for d in attrs.low]
    high = [static(d) for d in attrs.high]
    return (pad_array(arrays[0], arrays[1], low, high, attrs.interior),)


def _fold_pad(inst: Inst, constants: Sequence[Literal | None]) -> d.FoldResult:
    """Evaluate unless an amount is a dynamic size, which the result's type need not show."""
    attrs = inst.attrs
    x, value = constants
    if not isinstance(attrs, PadAttrs) or x is None or value is None or not _may_fold(inst.results[0].type):
        return d.FoldResult.NOTHING
    if not all(isinstance(dim, int) for dim in (*attrs.low, *attrs.high)):
        return d.FoldResult.NOTHING
    (result,) = _evaluate_pad([x.array(), value.array()], attrs, ())
    return d.FoldResult.materialize(Literal(result, dtype=x.dtype))


@d.op(d.OpKey.PAD, arity=2, evaluate=_evaluate_pad, fold=_fold_pad, foldable=False)
def pad(types: d.Types, attrs: PadAttrs, regions: d.Regions) -> d.ResultTypes:
    """A value put before, after and between the elements of each axis; negative amounts crop."""
    operand, value = types
    if value.dims:
        shape_error("pad", f"the padding value is {value}, not a scalar")
    if value.dtype is not operand.dtype:
        checking.dtype_error(
            "pad",
            f"the padding value has dtype {value.dtype.short}, the operand {operand.dtype.short}",
            "cast it first",
        )
    for what in ("low", "high", "interior"):
        checking.need_length("pad", what, getattr(attrs, what), operand.rank)
    dims: list[DimLike] = []
    for axis, (low, high, interior) in enumerate(zip(attrs.low, attrs.high, attrs.interior, strict=True)):
        if interior < 0:
            shape_error("pad", f"interior {interior} of axis {axis} is negative")
        dim = spread_size(operand.dims[axis], interior, "pad") + low + high
        if not at_most(0, dim):
            shape_error("pad", f"axis {axis} of {operand} would get size {dim}", "crop less than there is")
        dims.append(dim)
    kept = {axis: axis for axis, dim in enumerate(dims) if dim == operand.dims[axis] and attrs.low[axis] == 0}
    return (checking.keep_quant("pad", operand, dims, kept),)

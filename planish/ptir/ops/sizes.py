"""Sizes as data and data as sizes: dimension_size, bind_dim, nonzero, unique, non_max_suppression.

A result whose size depends on data is a buffer of fixed size and a count; `bind_dim` turns the count into
a named bounded dim (semantics section 10).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from planish import dtypes
from planish.ptir.ops import checking, numerics
from planish.ptir.ops import definition as d
from planish.ptir.ops.checking import ALL, shape_error
from planish.ptir.ops.literal import Array, Literal
from planish.ptir.types import Dim, DimLike, TensorType, bounds, product
from planish.records import dataclass

if TYPE_CHECKING:
    from planish.ptir.function import Inst

_COUNT: Final = TensorType(dtypes.int64, ())
_INT64: Final[checking.DTypeSet] = frozenset({dtypes.int64})


@dataclass(frozen=True, slots=True)
class DimensionSizeAttrs(d.Attrs):
    """The axis whose size is asked for."""

    axis: int


@dataclass(frozen=True, slots=True)
class BindDimAttrs(d.Attrs):
    """The axis to cut, and the fresh dim that its size becomes."""

    axis: int
    name: str
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class NonzeroAttrs(d.Attrs):
    """How many positions the buffer holds."""

    size: DimLike


@dataclass(frozen=True, slots=True)
class UniqueAttrs(d.Attrs):
    """How many values the buffer holds; the axis whose slices are compared, or None for single elements."""

    size: DimLike
    axis: int | None = None


@dataclass(frozen=True, slots=True)
class NonMaxSuppressionAttrs(d.Attrs):
    """How many boxes the buffer holds per batch and class, and whether boxes are (x, y, width, height)."""

    max_boxes: int
    center_point_box: bool = False


# --- dimension_size and bind_dim --------------------------------------------------------------------------


def _fold_dimension_size(inst: Inst, constants: Sequence[Literal | None]) -> d.FoldResult:
    """A static size is known whatever the operand holds."""
    attrs = inst.attrs
    if isinstance(attrs, DimensionSizeAttrs):
        size = inst.operands[0].type.dims[attrs.axis]
        if isinstance(size, int):
            return d.FoldResult.materialize(Literal.of_item(dtypes.int64, (), size))
    return d.FoldResult.NOTHING


@d.op(
    d.OpKey.DIMENSION_SIZE,
    evaluate=lambda arrays, attrs, types: (np.array(arrays[0].shape[attrs.axis], np.int64),),
    fold=_fold_dimension_size,
    fold_when=d.FoldWhen.ALWAYS,
)
def dimension_size(types: d.Types, attrs: DimensionSizeAttrs, regions: d.Regions) -> d.ResultTypes:
    """The size of an axis as int64."""
    checking.need_axis("dimension_size", attrs.axis, types[0].rank)
    return (_COUNT,)


def _verify_bind_dim(inst: Inst) -> Iterator[str]:
    attrs = inst.attrs
    if not isinstance(attrs, BindDimAttrs):
        return
    known = [*inst.operands[0].type.symbols()]
    for param in inst.function.params:
        known += param.type.symbols()
    if any(symbol.name == attrs.name for symbol in known):
        yield f"bind_dim names the dim {attrs.name}, which is not fresh: a parameter or the operand has it already"


def _evaluate_bind_dim(arrays: d.Arrays, attrs: BindDimAttrs, types: d.Types) -> d.Results:
    count = max(attrs.lo, min(attrs.hi, arrays[0].shape[attrs.axis], int(arrays[1])))
    return (np.take(arrays[0], range(count), attrs.axis),)


@d.op(
    d.OpKey.OTHER,
    arity=2,
    evaluate=_evaluate_bind_dim,
    verify=_verify_bind_dim,
    foldable=False,
    way=d.Way.CONTROL,
)
def bind_dim(types: d.Types, attrs: BindDimAttrs, regions: d.Regions) -> d.ResultTypes:
    """bind_dim(x, count): the first `count` entries of an axis, whose size becomes a fresh bounded dim."""
    operand, count = types
    checking.need_axis("bind_dim", attrs.axis, operand.rank)
    checking.need_scalar("bind_dim", count, _INT64, "the count")
    dim = Dim.named(attrs.name, attrs.lo, attrs.hi)
    size = operand.dims[attrs.axis]
    if attrs.hi > bounds(size)[1] or not checking.at_most(attrs.lo, size):
        shape_error("bind_dim", f"{dim.declaration} does not fit axis {attrs.axis} of {operand}")
    dims = (*operand.dims[: attrs.axis], dim, *operand.dims[attrs.axis + 1 :])
    kept = {axis: axis for axis in range(operand.rank) if axis != attrs.axis}
    return (checking.keep_quant("bind_dim", operand, dims, kept),)


# --- nonzero and unique -----------------------------------------------------------------------------------


def _check_size(op: str, size: DimLike) -> None:
    if not checking.at_most(0, size):
        shape_error(op, f"a buffer cannot have size {size}")


def _first(rows: Array, size: int, axis: int = 0) -> Array:
    """The first `size` entries of an axis, zeros where there are fewer."""
    shape = list(rows.shape)
    shape[axis] = size
    result = np.zeros(shape, rows.dtype)
    kept = (slice(None),) * axis + (slice(0, min(size, rows.shape[axis])),)
    result[kept] = rows[kept]
    return result


def _count(number: int, size: int) -> Array:
    return np.array(min(number, size), np.int64)


def _evaluate_nonzero(arrays: d.Arrays, attrs: NonzeroAttrs, types: d.Types) -> d.Results:
    array = numerics.widen(arrays[0])
    positions = np.stack(np.nonzero(array)) if array.ndim else np.zeros((0, int(array != 0)), np.int64)
    size = types[0].shape[1]
    return _first(positions.astype(np.int64), size, axis=1), _count(positions.shape[1], size)


@d.op(d.OpKey.NONZERO, evaluate=_evaluate_nonzero, num_results=2, way=d.Way.COMPOSITE)
def nonzero(types: d.Types, attrs: NonzeroAttrs, regions: d.Regions) -> d.ResultTypes:
    """Positions of the nonzero elements in row-major order, one row per axis, and their count."""
    operand = types[0]
    checking.need_dtype("nonzero", operand, ALL)
    _check_size("nonzero", attrs.size)
    return TensorType(dtypes.int64, (operand.rank, attrs.size)), _COUNT


def _comparable_rows(x: Array, axis: int | None) -> tuple[list[Array], Array]:
    """One key column per compared number, and which rows hold a NaN (and so equal nothing)."""
    if axis is None:
        rows = x.reshape(x.size, 1)
    else:
        # sizes are spelt out: -1 cannot be inferred when an axis is empty
        rows = np.moveaxis(x, axis, 0).reshape(x.shape[axis], math.prod(x.shape[:axis] + x.shape[axis + 1 :]))
    if rows.dtype.kind == "c":
        rows = np.stack([rows.real, rows.imag], -1).reshape(rows.shape[0], 2 * rows.shape[1])
    wide = numerics.widen(rows)
    has_nan = np.asarray(np.isnan(wide).any(1)) if wide.dtype.kind == "f" else np.zeros(len(wide), np.bool_)
    keys = numerics.order_key(rows, zeros_equal=True)
    return [keys[:, column] for column in range(keys.shape[1])], has_nan


def _evaluate_unique(arrays: d.Arrays, attrs: UniqueAttrs, types: d.Types) -> d.Results:
    x = arrays[0]
    total = x.size if attrs.axis is None else x.shape[attrs.axis]
    size = types[1].shape[0]
    columns, has_nan = _comparable_rows(x, attrs.axis)
    order = np.lexsort(columns[::-1]) if columns else np.arange(total)
    starts = np.ones(total, np.bool_)
    for i in range(1, total):
        same = all(column[order[i]] == column[order[i - 1]] for column in columns)
        starts[i] = not same or has_nan[order[i]]
    group = np.cumsum(starts) - 1
    inverse = np.empty(total, np.int64)
    inverse[order] = group
    # The sort is stable, so the first of each group is its first occurrence.
    first = order[starts].astype(np.int64)
    counts = np.bincount(group, minlength=0).astype(np.int64) if total else np.zeros(0, np.int64)
    if attrs.axis is None:
        values = _first(x.reshape(-1)[first], size)
    else:
        values = _first(np.take(x, first, attrs.axis), size, attrs.axis)
    distinct = len(first)
    return (
        values,
        _first(first, size),
        inverse.reshape(types[2].shape),
        _first(counts, size),
        _count(distinct, size),
    )


@d.op(d.OpKey.UNIQUE, evaluate=_evaluate_unique, num_results=5, way=d.Way.COMPOSITE)
def unique(types: d.Types, attrs: UniqueAttrs, regions: d.Regions) -> d.ResultTypes:
    """Sorted distinct values, first occurrences, inverse, counts, and how many there are."""
    operand = types[0]
    checking.need_dtype("unique", operand, ALL)
    _check_size("unique", attrs.size)
    buffer = (attrs.size,)
    if attrs.axis is None:
        values, inverse = TensorType(operand.dtype, buffer), operand.dims
    else:
        checking.need_axis("unique", attrs.axis, operand.rank)
        dims = (*operand.dims[: attrs.axis], attrs.size, *operand.dims[attrs.axis + 1 :])
        values, inverse = TensorType(operand.dtype, dims), (operand.dims[attrs.axis],)
    index = TensorType(dtypes.int64, buffer)
    return values, index, TensorType(dtypes.int64, inverse), index, _COUNT


# --- non-maximum suppression ------------------------------------------------------------------------------


def _corners(box: Array, center: bool) -> tuple[float, float, float, float]:
    a, b, c, d = (float(v) for v in box)
    if center:
        return b - d / 2, a - c / 2, b + d / 2, a + c / 2
    return min(a, c), min(b, d), max(a, c), max(b, d)


def _overlap(left: tuple[float, ...], right: tuple[float, ...]) -> float:
    height = max(0.0, min(left[2], right[2]) - max(left[0], right[0]))
    width = max(0.0, min(left[3], right[3]) - max(left[1], right[1]))
    shared = height * width
    union = sum((b[2] - b[0]) * (b[3] - b[1]) for b in (left, right)) - shared
    return shared / union if union > 0 else 0.0


def _evaluate_non_max_suppression(
    arrays: d.Arrays, attrs: NonMaxSuppressionAttrs, types: d.Types
) -> d.Results:
    boxes, scores, *_ = arrays
    limit = min(max(0, int(arrays[2])), attrs.max_boxes)
    overlap, threshold = float(arrays[3]), float(arrays[4])
    rows: list[tuple[int, int, int]] = []
    for batch, label in np.ndindex(*scores.shape[:2]):
        line = scores[batch, label].astype(np.float64)
        taken: list[tuple[float, float, float, float]] = []
        for index in sorted(np.flatnonzero(line > threshold), key=lambda i: -line[i]):
            if len(taken) >= limit:
                break
            box = _corners(boxes[batch, index], attrs.center_point_box)
            if all(_overlap(box, other) <= overlap for other in taken):
                taken.append(box)
                rows.append((batch, label, int(index)))
    table = np.array(rows, np.int64).reshape(-1, 3)
    return _first(table, types[0].shape[0]), np.array(len(rows), np.int64)


@d.op(
    d.OpKey.NON_MAX_SUPPRESSION,
    arity=5,
    evaluate=_evaluate_non_max_suppression,
    num_results=2,
    way=d.Way.COMPOSITE,
)
def non_max_suppression(types: d.Types, attrs: NonMaxSuppressionAttrs, regions: d.Regions) -> d.ResultTypes:
    """non_max_suppression(boxes, scores, limit, overlap, threshold): rows (batch, class, box), and their count."""
    op = "non_max_suppression"
    boxes, scores, limit, overlap, threshold = types
    checking.need_dtype(op, boxes, checking.FLOATS, "boxes")
    checking.need_same_dtype(op, (boxes, scores, overlap, threshold))
    checking.need_scalar(op, limit, _INT64, "the limit")
    checking.need_scalar(op, overlap, checking.FLOATS, "the overlap threshold")
    checking.need_scalar(op, threshold, checking.FLOATS, "the score threshold")
    checking.need_rank(op, boxes, 3, "boxes")
    checking.need_rank(op, scores, 3, "scores")
    if boxes.dims[2] != 4 or boxes.dims[0] != scores.dims[0] or boxes.dims[1] != scores.dims[2]:
        shape_error(op, f"boxes {boxes} and scores {scores} are not (batch, n, 4) and (batch, classes, n)")
    if attrs.max_boxes < 0:
        shape_error(op, f"max_boxes is {attrs.max_boxes}")
    rows = product((scores.dims[0], scores.dims[1], attrs.max_boxes))
    return TensorType(dtypes.int64, (rows, 3)), _COUNT

"""Products of what was quantised: the integers are multiplied, and the sums take their unit afterwards.

Models that carry QuantizeLinear and DequantizeLinear around their products say that operands are integers times a unit. Sums of integers are
exact, and processors make them several times faster than those of floats. That pays where one operand is a weight: what
bytes less their zero point cost is then found when the program is made.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planish import dtypes
from planish.dtypes import DType
from planish.onnx.ops.common import scalar
from planish.onnx.site import NodeSite
from planish.ptir import ops
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import along

Array = NDArray[Any]
WHOLE: Final = ops.DotAttrs(dtypes.int32, dtypes.int32)
_LONGEST: Final = 1 << 15
"""Terms that a sum of products of bytes, less their zero points, may have and fit into an int32."""


class Units(NamedTuple):
    """A value as integers less a zero point, times a unit; both one in all, or one per index of an axis."""

    value: V
    stored: V
    unit: V
    zero: V | None
    axis: int
    weights: Array | None = None
    """The integers, and their zero points, if they are known."""
    points: Array | None = None

    @property
    def is_weight(self) -> bool:
        return self.weights is not None


def shifted(x: V, zero: V | None, axis: int, dtype: DType = dtypes.int16) -> V:
    """x less its zero point (one in all, or one per index of an axis), in a dtype that bytes fit in."""
    wide = x.cast(dtype)
    if zero is None:
        return wide
    point = zero.cast(dtype)
    if point.type.size == 1:
        return wide.sub(scalar(point).broadcast_to(wide.dims))
    if point.rank == 1:
        return wide.sub(along(point, wide.dims, axis % wide.rank))
    return wide.sub(point.broadcast_to(wide.dims))


def point_of(at: NodeSite, position: int, zero: V | None) -> V | None:
    """A zero point, unless it is known to be 0: what is not shifted stays as narrow as it is."""
    known = known_input(at, position)
    return None if known is not None and not known.any() else zero


def known_input(at: NodeSite, position: int) -> Array | None:
    """An input of the node that is known, and the same in all steps of a loop."""
    names = at.node.input
    known = at.scope.find(names[position]) if len(names) > position and names[position] else None
    return known if isinstance(known, np.ndarray) and not at.engine.varies(known) else None


def remember(at: NodeSite, value: V, stored: V, unit: V, zero: V | None, axis: int) -> V:
    """A value that DequantizeLinear made, and what of."""
    if value.dtype is dtypes.float32 and stored.dtype in (dtypes.int8, dtypes.uint8) and stored.rank:
        known, points = known_input(at, 0), known_input(at, 2)
        point = point_of(at, 2, zero)
        at.engine.units[value.id] = Units(value, stored, unit, point, axis % stored.rank, known, points)
    return value


class WholeOperands(NamedTuple):
    """The operands of a product as integers, what its sums have too much for the zero point of the left one, and their units.

    The left operand stays bytes, as it is stored: they are read once for many sums, and multiplied four at a time.
    """

    left: V
    right: V
    excess: V | None
    unit: V
    per_column: V

    def in_units(self, sums: V) -> V:
        """Sums of integers as what they stand for."""
        last = sums.rank - 1
        if self.excess is not None:
            sums = sums.sub(along(self.excess, sums.dims, last))
        wide, unit = sums.cast(dtypes.float32), scalar(self.unit)
        if self.per_column.type.size == 1:
            return wide.mul(unit.mul(scalar(self.per_column)).broadcast_to(wide.dims))
        columns = self.per_column.mul(unit.broadcast_to(self.per_column.dims))
        return wide.mul(along(columns, wide.dims, last))


def whole_operands(at: NodeSite, left: V, right: V, over: int = 0) -> WholeOperands | None:
    """A product of a value and a matrix of weights, summed over an axis of that, in integers; None where floats do it."""
    known: dict[int, Units] = at.engine.units
    a, b = known.get(left.id), known.get(right.id)
    if a is None or b is None or a.value is not left or b.value is not right:
        return None
    terms = right.dims[over] if right.rank == 2 else None
    if left.rank < 2 or a.is_weight or not b.is_weight or not isinstance(terms, int) or terms > _LONGEST:
        return None
    one_unit = a.unit.type.size == 1 and (a.zero is None or a.zero.type.size == 1)
    per_column = all(
        each is None or each.type.size == 1 or (each.rank == 1 and b.axis == 1 - over)
        for each in (b.unit, b.zero)
    )
    if not one_unit or not per_column:
        return None
    weights, excess = shifted(b.stored, b.zero, b.axis), None
    if a.zero is not None:
        sums = weights.cast(dtypes.int32).reduce_sum([over])
        excess = sums.mul(scalar(a.zero.cast(dtypes.int32)).broadcast_to(sums.dims))
    return WholeOperands(a.stored, b.stored if b.zero is None else weights, excess, a.unit, b.unit)


class ByteMatrix(NamedTuple):
    """A matrix of weights that bytes are multiplied with: integers less a zero point, and their sums, less it, per column."""

    stored: V
    zero: V | None
    sums: V

    def less_zero_points(self, sums: V, rows: V, zero: V | None) -> V:
        """Sums of products of rows of bytes as they are stored, as those less their zero point, less that of the weights."""
        last = sums.rank - 1
        if self.zero is not None:
            totals = rows.cast(dtypes.int32).reduce_sum([rows.rank - 1], keepdims=True)
            sums = sums.sub(totals.broadcast_to(sums.dims).mul(_per_column(self.zero, sums)))
        if zero is not None:
            excess = self.sums.mul(scalar(zero.cast(dtypes.int32)).broadcast_to(self.sums.dims))
            sums = sums.sub(along(excess, sums.dims, last))
        return sums


def _per_column(value: V, like: V) -> V:
    return (
        scalar(value).broadcast_to(like.dims)
        if value.type.size == 1
        else along(value, like.dims, like.rank - 1)
    )


def byte_matrix(
    at: NodeSite, weights: Array | None, zero: Array | None, *, turned: bool = False
) -> ByteMatrix | None:
    """Known weights (terms, columns) of bytes, as signed bytes: those that processors multiply with unsigned ones.

    Where they are unsigned and do not fit without their zero point, half of their range is part of that instead. `turned`:
    columns lie together in memory, as a single row is best multiplied with.
    """
    if (
        weights is None
        or weights.ndim != 2
        or weights.dtype not in (np.int8, np.uint8)
        or at.engine.prepared.packed
    ):
        return None
    if len(weights) > _LONGEST or (zero is not None and zero.ndim > 1):
        return None
    point = np.zeros((), np.int16) if zero is None else zero.astype(np.int16)
    whole = weights.astype(np.int16) - point
    sums = at.value(whole.sum(0, dtype=np.int32))
    left = None
    if not point.any() and weights.dtype == np.int8:
        stored = weights
    elif whole.min(initial=0) >= -128 and whole.max(initial=0) <= 127:
        stored = whole.astype(np.int8)
    elif weights.dtype == np.int8:
        return None
    else:
        stored = (weights.astype(np.int16) - 128).astype(np.int8)
        left = at.value(np.asarray(point - 128, np.int32))
    value = at.value(np.ascontiguousarray(stored.T)).transpose((1, 0)) if turned else at.value(stored)
    return ByteMatrix(value, left, sums)

"""Elements by position: windows, dilated and padded axes, slices at run-time starts, all as `INDEX(x, i…[, gate])`.

`elements` builds the node. Per axis it is told where to look, in the coordinates of x after dilation and padding, and whether that may
miss; what misses is excluded by the gate, so that no position ever lies outside x where the gate holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from planish import dtypes
from planish.records import dataclass
from planish.schedule.tensors import Dims, Tensors, expand, full, minus, plus, reshape, times
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.shape import Dim, same_dim, shape


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """Positions along one axis: p = at·stride + tap·reach - low, in x with `dilation` - 1 holes between its elements."""

    at: UOp
    """Which window, per element of the result."""
    size: Dim
    """The size of the axis of x."""
    stride: int = 1
    tap: UOp | None = None
    """Which element of the window."""
    reach: int = 1
    """How far apart the elements of a window are."""
    low: Dim = 0
    """How much is put before x (negative: cropped)."""
    dilation: int = 1
    last: Dim | None = None
    """The greatest value of at·stride + tap·reach; None: no position lies beyond the end of x."""


def _scaled(x: UOp, by: Dim) -> UOp:
    return x if same_dim(by, 1) else x * by


def _place(axis: WindowAxis) -> tuple[UOp, list[UOp]]:
    """The position in x, and what must hold for there to be one."""
    spot = _scaled(axis.at, axis.stride)
    if axis.tap is not None:
        spot = spot + _scaled(axis.tap, axis.reach)
    conditions: list[UOp] = []
    if not same_dim(axis.low, 0):
        spot = spot - axis.low
    if not isinstance(axis.low, int) or axis.low > 0:
        conditions.append(spot >= 0)
    if axis.last is not None:
        end = plus(times(minus(axis.size, 1), axis.dilation), 1)
        slack = minus(minus(end, 1), minus(axis.last, axis.low))
        if (slack if isinstance(slack, int) else slack.vmin) < 0:
            conditions.append(spot < end)
    if axis.dilation > 1:
        conditions.append((spot % axis.dilation).eq(0))
        spot = spot // axis.dilation
    return spot, conditions


def elements(x: UOp, axes: Sequence[WindowAxis]) -> tuple[UOp, UOp | None]:
    """x at these positions, 0 where there is none; and where there is one (None: everywhere)."""
    places: list[UOp] = []
    gate: UOp | None = None
    for axis in axes:
        place, conditions = _place(axis)
        places.append(place)
        for condition in conditions:
            gate = condition if gate is None else gate & condition
    return take(x, places, gate), gate


def take(x: UOp, places: Sequence[UOp], gate: UOp | None = None) -> UOp:
    """x at these positions; 0, and nothing read, where the gate is closed."""
    return x.table.make(Ops.INDEX, x.dtype, (x, *places, *(() if gate is None else (gate,))))


def wide_index(index: UOp) -> UOp:
    """An index of any integer dtype as int64; uint64 stays, whose large values int64 would take for negative ones."""
    return index if index.dtype is dtypes.uint64 else index.cast(dtypes.int64)


def clamped(index: UOp, most: Dim) -> UOp:
    """An index from the program, moved into 0 … most before anything is addressed with it."""
    wide = wide_index(index)
    high = wide.const_like(most) if isinstance(most, int) else most.cast(wide.dtype)
    if wide.dtype.is_signed:
        wide = wide.max(0)
    return wide.min(high).cast(dtypes.index)


def in_bounds(index: UOp, size: Dim) -> UOp:
    """Where an index from the program is one."""
    wide = wide_index(index)
    below = wide < (wide.const_like(size) if isinstance(size, int) else size.cast(wide.dtype))
    return below & (wide >= 0) if wide.dtype.is_signed else below


def indices_of(tensors: Tensors, dims: Dims, given: dict[int, UOp], lead: Dims, rank: int) -> list[UOp]:
    """Per axis of a tensor: the index that is given, spread over the other axes, or the position on its own axis.

    `dims` are those of the result: `lead`, the dims of the given indices, then the axes that are not addressed.
    """
    indices: list[UOp] = []
    own = len(lead)
    for axis in range(rank):
        if axis in given:
            indices.append(given[axis])
        else:
            indices.append(tensors.position(dims, own))
            own += 1
    return indices


def spread(index: UOp, lead: Dims, dims: Dims) -> UOp:
    """An index array of dims `lead` over all of `dims`, which begin with them."""
    if not shape(index):
        return full(index, dims)
    return expand(reshape(index, (*lead, *(1,) * (len(dims) - len(lead)))), dims)

"""NumPy's basic indexing (ints, slices, None, `...`) as a plan of slice, reverse and reshape."""

from __future__ import annotations

from dataclasses import field
from types import EllipsisType
from typing import Final, TypeAlias

from planish.errors import ShapeError
from planish.ptir.dims import Dim
from planish.ptir.ops.checking import at_most
from planish.ptir.types import DimLike, TensorType, bounds
from planish.records import dataclass

IndexItem: TypeAlias = int | Dim | slice | EllipsisType | None
Index: TypeAlias = IndexItem | tuple[IndexItem, ...]


@dataclass(slots=True)
class IndexPlan:
    """What to slice per axis, which axes then run backwards, and the shape at the end."""

    starts: list[DimLike] = field(default_factory=list)
    limits: list[DimLike] = field(default_factory=list)
    strides: list[int] = field(default_factory=list)
    reversed_axes: list[int] = field(default_factory=list)
    dims: list[DimLike] = field(default_factory=list)

    def take(self, start: DimLike, limit: DimLike, stride: int = 1) -> None:
        self.starts.append(start)
        self.limits.append(limit)
        self.strides.append(stride)


def plan_index(operand: TensorType, index: Index) -> IndexPlan:
    """Read an index. On an axis without a fixed size, what its bounds leave no doubt about is allowed."""
    plan = IndexPlan()
    for item in _without_ellipsis(operand, index):
        if item is None:
            plan.dims.append(1)
            continue
        axis = len(plan.starts)
        size = operand.dims[axis]
        if isinstance(item, int | Dim):
            position = item + size if bounds(item)[1] < 0 else item
            if not (at_most(0, position) and at_most(position + 1, size)):
                raise ShapeError(
                    f"index {item} is not certain to lie inside axis {axis} of {operand}",
                    op="slice",
                    remedy=_REMEDY if isinstance(size, Dim) else None,
                )
            plan.take(position, position + 1)
        elif item == slice(None):
            plan.take(0, size)
            plan.dims.append(size)
        elif isinstance(size, int) and not any(isinstance(end, Dim) for end in (item.start, item.stop)):
            chosen = range(size)[item]
            plan.dims.append(len(chosen))
            if chosen.step < 0:
                plan.reversed_axes.append(axis)
                chosen = chosen[::-1]
            if chosen:
                plan.take(chosen[0], chosen[-1] + 1, chosen.step)
            else:
                plan.take(0, 0)
        else:
            _take_dynamic(plan, operand, axis, item)
    return plan


_REMEDY: Final = "give the size bounds that settle it: planish.Dim(name, low, high)"


def _take_dynamic(plan: IndexPlan, operand: TensorType, axis: int, item: slice) -> None:
    """A slice whose ends, or whose axis, have only bounds."""
    size, step = operand.dims[axis], 1 if item.step is None else item.step
    if step < 0 and (step != -1 or item.start is not None or item.stop is not None):
        raise ShapeError(
            f"index {item} walks backwards on the dynamic axis {axis} of {operand}",
            op="slice",
            remedy="take the part first, then turn it round: x[a:b][::-1]",
        )
    if step == -1:
        plan.reversed_axes.append(axis)
        step = 1
    ends: list[DimLike] = []
    for end, default in ((item.start, 0), (item.stop, size)):
        place = default if end is None else end + size if bounds(end)[1] < 0 else end
        if at_most(size, place):
            place = size
        if not (at_most(0, place) and at_most(place, size)):
            raise ShapeError(
                f"index {item} is not certain to end inside the dynamic axis {axis} of {operand}",
                op="slice",
                remedy=_REMEDY,
            )
        ends.append(place)
    start, limit = ends
    if at_most(limit, start):
        start = limit
    elif not at_most(start, limit):
        raise ShapeError(
            f"index {item}: {start} is not certain to come before {limit} on axis {axis} of {operand}",
            op="slice",
            remedy=_REMEDY,
        )
    plan.take(start, limit, step)
    plan.dims.append((limit - start + (step - 1)) // step)


def _without_ellipsis(operand: TensorType, index: Index) -> list[int | Dim | slice | None]:
    """One item per axis (and per new axis), `...` spelt out."""
    items = list(index) if isinstance(index, tuple) else [index]
    if any(not (item is None or item is Ellipsis or isinstance(item, int | Dim | slice)) for item in items):
        raise ShapeError(
            f"index {index!r} is not made of ints, slices, None and ...", op="slice", remedy="use .gather"
        )
    used = sum(isinstance(item, int | Dim | slice) for item in items)
    if used > operand.rank or items.count(Ellipsis) > 1:
        raise ShapeError(f"index {index!r} does not fit {operand}", op="slice")
    whole: list[int | Dim | slice | None] = [slice(None)] * (operand.rank - used)
    at = items.index(Ellipsis) if Ellipsis in items else len(items)
    plain = [
        [item for item in part if not isinstance(item, EllipsisType)] for part in (items[:at], items[at:])
    ]
    return [*plain[0], *whole, *plain[1]]

"""NumPy's basic indexing (ints, slices, None, `...`) as a plan of slice, reverse and reshape."""

from __future__ import annotations

from dataclasses import field
from types import EllipsisType
from typing import TypeAlias

from planish.errors import ShapeError
from planish.ptir.types import DimLike, TensorType, bounds
from planish.records import dataclass

IndexItem: TypeAlias = int | slice | EllipsisType | None
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
    """Read an index; anything but whole-axis slices needs the size of its axis to be static."""
    plan = IndexPlan()
    for item in _without_ellipsis(operand, index):
        if item is None:
            plan.dims.append(1)
            continue
        axis = len(plan.starts)
        size = operand.dims[axis]
        if isinstance(item, int):
            position = item + size if item < 0 and isinstance(size, int) else item
            if not 0 <= position < bounds(size)[0]:
                raise ShapeError(
                    f"index {item} is not certain to lie inside axis {axis} of {operand}", op="slice"
                )
            plan.take(position, position + 1)
        elif item == slice(None):
            plan.take(0, size)
            plan.dims.append(size)
        elif isinstance(size, int):
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
            raise ShapeError(
                f"index {item} on the dynamic axis {axis} of {operand}", op="slice", remedy="use .slice"
            )
    return plan


def _without_ellipsis(operand: TensorType, index: Index) -> list[int | slice | None]:
    """One item per axis (and per new axis), `...` spelt out."""
    items = list(index) if isinstance(index, tuple) else [index]
    if any(not (item is None or item is Ellipsis or isinstance(item, int | slice)) for item in items):
        raise ShapeError(
            f"index {index!r} is not made of ints, slices, None and ...", op="slice", remedy="use .gather"
        )
    used = sum(isinstance(item, int | slice) for item in items)
    if used > operand.rank or items.count(Ellipsis) > 1:
        raise ShapeError(f"index {index!r} does not fit {operand}", op="slice")
    whole: list[int | slice | None] = [slice(None)] * (operand.rank - used)
    at = items.index(Ellipsis) if Ellipsis in items else len(items)
    plain = [
        [item for item in part if not isinstance(item, EllipsisType)] for part in (items[:at], items[at:])
    ]
    return [*plain[0], *whole, *plain[1]]

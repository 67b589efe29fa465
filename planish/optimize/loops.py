"""The loops of a schedule in the making, wherever actions move them: each axis by the path that is left of it.

`Draft` finds an axis by the beginning of its path, which an exchange of loops (SWAP) gives to another. Here exchanges are followed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

from planish.optimize.draft import Draft
from planish.optimize.kernel_view import size_of
from planish.uop.actions import Action, ActionKind, axes_of
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType
from planish.uop.ranges import kind_of


@dataclass(slots=True)
class Loops:
    """The loops that are left of the axes of a kernel, by the paths that actions give them."""

    draft: Draft
    paths: dict[UOp, tuple[int, ...] | None] = field(init=False)
    """None: nothing of the axis is a loop any more."""

    def __post_init__(self) -> None:
        self.paths = {r: cast("Axis", r.arg).path for r in axes_of(self.draft.sink)}

    def path(self, axis: UOp) -> tuple[int, ...] | None:
        """Of what is left of an axis."""
        return self.paths[axis]

    def number(self, path: tuple[int, ...] | None) -> int | None:
        """Where a loop stands among the axes of the kernel."""
        for number, r in enumerate(axes_of(self.draft.sink)):
            if cast("Axis", r.arg).path == path and kind_of(r) in {AxisType.LOOP, AxisType.REDUCE}:
                return number
        return None

    def size(self, axis: UOp) -> int:
        number = self.number(self.path(axis))
        return 1 if number is None else size_of(axes_of(self.draft.sink)[number])

    def take(self, kind: ActionKind, axis: UOp, amount: int, reason: str) -> bool:
        """An action on what is left of an axis; the loop that stays is the outer part, or the inner of a THREAD."""
        path = self.path(axis)
        number, whole = self.number(path), self.size(axis)
        if number is None or path is None or not self.draft.do(Action(kind, number, amount), reason):
            return False
        if kind in {ActionKind.UPCAST, ActionKind.THREAD, ActionKind.UNROLL}:
            inner = 1 if kind is ActionKind.THREAD else 0
            self.paths[axis] = None if amount == whole else (*path, inner)
        if kind is ActionKind.UPCAST:
            self.draft.upcast[axis] = self.draft.upcast.get(axis, 1) * amount
        return True

    def swap(self, one: tuple[int, ...], other: tuple[int, ...]) -> bool:
        """Two loops in each other's place."""
        a, b = self.number(one), self.number(other)
        if (
            a is None
            or b is None
            or one == other
            or not self.draft.do(Action(ActionKind.SWAP, a, b), "order of loops")
        ):
            return False
        exchange = {one: other, other: one}
        for axis in self.paths:
            path = self.path(axis)
            if path in exchange:
                self.paths[axis] = exchange[path]
        return True

    def order(self, wanted: Iterable[tuple[int, ...]]) -> None:
        """The loops in this order, outermost first."""
        left = list(wanted)
        while left:
            standing = sorted(left)
            first = left.pop(0)
            if standing[0] != first and self.swap(first, standing[0]):
                left = [first if path == standing[0] else path for path in left]

    def block(self, axis: UOp, amount: int, reason: str) -> tuple[int, ...] | None:
        """Passes over all outputs, each with a block of a reduced axis: where their loop is, which is outside of all others."""
        path = self.path(axis)
        number, before = self.number(path), _paths(self.draft)
        if number is None or path is None:
            return None
        if not self.draft.do(Action(ActionKind.BLOCK, number, amount), reason):
            return None
        self.paths[axis] = None if amount == 1 else (*path, 1)
        (outer,) = before - _paths(self.draft) - {path}  # its place is that of the passes now
        for other, there in self.paths.items():
            if there == outer:
                self.paths[other] = (*outer, 1)
        return (*outer, 0)

    def stage(self, path: tuple[int, ...] | None, place: UOp, reason: str) -> bool:
        """A copy of what a parameter is needed for inside of a loop (None: of the kernel)."""
        number = -1 if path is None else self.number(path)
        return number is not None and self.draft.do(
            Action(ActionKind.STAGE, number, cast("int", place.src[0].arg)), reason
        )


def _paths(draft: Draft) -> set[tuple[int, ...]]:
    return {cast("Axis", r.arg).path for r in axes_of(draft.sink)}

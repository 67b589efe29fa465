"""A schedule in the making: the kernel as the actions so far have left it, and one more action to try.

Whether an action fits is not decided here: every step is tried by `attempt`, which stage 7 stands behind, and what is refused
changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from planish.optimize.kernel_view import size_of
from planish.target import Target
from planish.uop.actions import Action, ActionKind, axes_of
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType
from planish.uop.ranges import kind_of

Attempt = Callable[[UOp, Action, Sequence[Action]], UOp | None]
"""A kernel after one more action (the actions before it are told too); None if it is refused."""

_SEQUENTIAL: Final = frozenset({AxisType.LOOP, AxisType.REDUCE, AxisType.GLOBAL})


@dataclass(slots=True)
class Draft:
    """The kernel as it stands, and the actions that led there."""

    sink: UOp
    target: Target
    attempt: Attempt
    actions: list[Action] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    """Why each action was taken, in its own words; empty where nothing is to be added to what the action says of itself."""
    upcast: dict[UOp, int] = field(default_factory=dict)
    """How much of an axis is in registers."""
    cores: bool = True
    """Whether the kernel may be cut into pieces for several cores."""

    def place(self, axis: UOp) -> int | None:
        """Where what is left of an axis stands among the axes of the kernel now."""
        path = cast("Axis", axis.arg).path
        for number, r in enumerate(axes_of(self.sink)):
            if cast("Axis", r.arg).path[: len(path)] == path and kind_of(r) in _SEQUENTIAL:
                return number
        return None

    def left(self, axis: UOp) -> int:
        """The size of what is left of an axis; 0 if nothing is, or if it is not a number."""
        number = self.place(axis)
        return 0 if number is None else size_of(axes_of(self.sink)[number])

    def take(self, kind: ActionKind, axis: UOp, amount: int, reason: str = "") -> bool:
        """Do something to an axis, if that fits; the reason is for whoever asks why."""
        number = self.place(axis)
        if number is None or not self.do(Action(kind, number, amount), reason):
            return False
        if kind is ActionKind.UPCAST:
            self.upcast[axis] = self.upcast.get(axis, 1) * amount
        return True

    def do(self, action: Action, reason: str = "") -> bool:
        after = self.attempt(self.sink, action, self.actions)
        if after is None:
            return False
        self.sink = after
        self.actions.append(action)
        self.reasons.append(reason)
        return True

    def take_first(self, kind: ActionKind, axis: UOp, amounts: Iterable[int], reason: str = "") -> int:
        """The first amount that divides what is left of an axis and fits; 1 if there is none."""
        for amount in amounts:
            size = self.left(axis)
            if amount > 1 and size and size % amount == 0 and self.take(kind, axis, amount, reason):
                return amount
        return 1

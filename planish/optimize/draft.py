"""A schedule in the making: the kernel as the actions so far have left it, and one more action to try.

Whether an action fits is not decided here: every step is tried by `attempt`, which stage 7 stands behind, and what is refused
changes nothing. Axes are asked for by what they were in the kernel before any action: what is left of them has their name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final, cast

from planish.actions.base import Action, is_within
from planish.actions.block import Block
from planish.actions.stage import Stage
from planish.actions.swap import Swap
from planish.actions.thread import Thread
from planish.actions.upcast import Upcast
from planish.records import dataclass
from planish.target import Target
from planish.uop.nest import OUTPUT, axes_of, axis_named, is_part, name_of, size_of
from planish.uop.node import UOp
from planish.uop.ops import AxisType
from planish.uop.ranges import kind_of

Attempt = Callable[[UOp, Action, Sequence[Action]], UOp | None]
"""A kernel after one more action (the actions before it are told too); None if it is refused."""
Kind = Callable[[str, int], Action]
"""A kind of action that is told an axis, and how much of it."""

_REDUCED: Final = frozenset({AxisType.REDUCE})


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
    template: str = ""
    """What offered the schedule."""
    refused: frozenset[str] = frozenset()
    """What does not fit the kernel of what is offered for others like it."""
    named: Mapping[str, int] = field(default_factory=dict)
    """Axes that stand in for ones of which the size is not known, and the least that it may be: they have no equal pieces."""

    # -- trials ------------------------------------------------------------------------------------------------------

    def copy(self) -> Draft:
        """The same, to try something that may not fit as a whole."""
        return replace(self, actions=list(self.actions), reasons=list(self.reasons), upcast=dict(self.upcast))

    def adopt(self, trial: Draft) -> None:
        """Go on where a copy has got to."""
        self.sink, self.actions, self.reasons = trial.sink, trial.actions, trial.reasons
        self.upcast, self.cores = trial.upcast, trial.cores
        self.template, self.refused = trial.template, trial.refused

    # -- what is left of axes ----------------------------------------------------------------------------------------

    def loops(self, axis: UOp) -> list[UOp]:
        """The loops that are left of an axis, outermost first."""
        kinds = _REDUCED if kind_of(axis) is AxisType.REDUCE else OUTPUT
        return [r for r in axes_of(self.sink) if kind_of(r) in kinds and is_part(r, axis)]

    def outermost(self, axis: UOp) -> UOp | None:
        """The first of them."""
        return next(iter(self.loops(axis)), None)

    def innermost(self, axis: UOp) -> UOp | None:
        """The last of them."""
        return next(reversed(self.loops(axis)), None)

    def left(self, axis: UOp) -> int:
        """The size of the outermost loop that is left of an axis; 0 if none is, or if it is not a number."""
        loop = self.outermost(axis)
        return 0 if loop is None else size_of(loop)

    def steps(self, axis: UOp) -> int:
        """How often the innermost loop runs that is left of an axis: once if none is."""
        loop = self.innermost(axis)
        return 1 if loop is None else size_of(loop)

    def has_pieces(self, axis: UOp) -> bool:
        """Whether the size of an axis is known, so that something may divide it."""
        return not any(is_within(name_of(axis), name) for name in self.named)

    def least(self, axis: UOp) -> int:
        """The least size that an axis may have."""
        return min(
            (n for name, n in self.named.items() if is_within(name_of(axis), name)), default=size_of(axis)
        )

    # -- actions -----------------------------------------------------------------------------------------------------

    def do(self, action: Action, reason: str = "") -> bool:
        """Take an action, if it fits; the reason is for whoever asks why."""
        after = self.attempt(self.sink, action, self.actions)
        if after is None:
            return False
        self.sink = after
        self.actions.append(action)
        self.reasons.append(reason)
        return True

    def take(self, kind: Kind, axis: UOp, amount: int, reason: str = "", *, inner: bool = False) -> bool:
        """Do something to the outermost (or innermost) loop that is left of an axis, if that fits."""
        loop = self.innermost(axis) if inner else self.outermost(axis)
        if loop is None:
            return False
        action = kind(name_of(loop), amount)
        if kind is Thread and not self.has_pieces(axis):
            action = action.replaced(uneven=True)
        if not self.do(action, reason):
            return False
        if kind is Upcast:
            self.upcast[axis] = self.upcast.get(axis, 1) * amount
        return True

    def take_first(self, kind: Kind, axis: UOp, amounts: Iterable[int], reason: str = "") -> int:
        """The first amount that divides what is left of an axis and fits; 1 if there is none."""
        for amount in amounts:
            size = self.left(axis)
            if amount > 1 and size and size % amount == 0 and self.take(kind, axis, amount, reason):
                return amount
        return 1

    def swap(self, one: UOp | str, other: UOp | str, reason: str = "order of loops") -> bool:
        """Two loops in each other's place."""
        return self.do(Swap(_name(one), _name(other)), reason)

    def order(self, wanted: Iterable[str]) -> None:
        """Loops of these names in this order, outermost first, in the places that they have together."""
        left = list(wanted)
        while left:
            first = min(left, key=lambda name: cast("UOp", axis_named(self.sink, name)).order)
            name = left.pop(0)
            if first != name:
                self.swap(name, first)

    def block(self, axis: UOp, size: int, reason: str) -> str | None:
        """Passes over all outputs, each with a block of a reduced axis: what their loop is called, which is outside of all others."""
        loop = self.innermost(axis)
        if loop is None or not self.do(Block(name_of(loop), size), reason):
            return None
        return f"{name_of(loop)}.outer"

    def stage(self, place: UOp, at: UOp | str | None, reason: str) -> bool:
        """A copy of what a parameter is read for at a place, inside of a loop (None: of the kernel)."""
        return self.do(Stage(cast("int", place.src[0].arg), None if at is None else _name(at)), reason)


def _name(loop: UOp | str) -> str:
    return loop if isinstance(loop, str) else name_of(loop)

"""Actions on axes that are told by their place, for kernels that tests make: whatever the axis there is called.

Action(K.UPCAST, 1, 4)        # upcast(j, 4), if j is the second of `axes_of`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from planish.actions import base
from planish.actions.base import apply_action
from planish.actions.group import Group
from planish.actions.stage import Stage
from planish.actions.swap import Swap
from planish.actions.tensor_core import TensorCore
from planish.actions.text import kinds
from planish.target import TARGETS, Target
from planish.uop.nest import axes_of, name_of
from planish.uop.node import UOp
from planish.uop.products import products


class _Kinds(dict[str, Callable[..., base.Action]]):
    """The kinds of actions, by what the seed calls them: K.UPCAST, K["UPCAST"]."""

    def __getattr__(self, name: str) -> Callable[..., base.Action]:
        return self[name]


ActionKind = _Kinds({word.replace("_", "").upper(): kind for word, kind in kinds().items()})
ActionKind["TC"] = ActionKind.pop("TENSORCORE")
ActionKind["GROUPTOP"] = partial(Group, contiguous=True)


_OF_THE_KIND = frozenset(
    {"word", "does", "threads_needed", "bars_threads", "reads_its_sums", "stores_twice", "asks_settings"}
)
"""What the kind of an action says, which one by place says as it does."""


class Action(base.Action):
    """An action of a kind on the axis at a place, with an amount; of STAGE, the slot and the padding."""

    kind: Callable[..., base.Action]
    place: int = 0
    how_much: int = 0
    pad: int = 0

    def named(self, sink: UOp, target: Target = TARGETS["scalar"]) -> base.Action:
        """The same by name."""
        names = [name_of(r) for r in axes_of(sink)]

        def name(place: int) -> str:
            return names[place] if 0 <= place < len(names) else f"z{place}"

        if self.kind is TensorCore:
            if not 0 <= self.how_much < len(target.tensor_cores):
                return TensorCore(f"core{self.how_much}", "i", "j", "k")
            core = target.tensor_cores[self.how_much]
            ways = products(sink, core)
            if self.place < len(ways):
                return TensorCore.of(core, ways[self.place])
            return TensorCore(core.name, "i", "j", "k")
        if self.kind is Stage:
            return Stage(self.how_much, None if self.place < 0 else name(self.place), pad=self.pad)
        if self.kind is Swap:
            return Swap(name(self.place), name(self.how_much))
        if not base.fields_of(self._class):
            return self.kind()
        return self.kind(name(self.place), self.how_much)

    @property
    def _class(self) -> type[base.Action]:
        kind = self.kind.func if isinstance(self.kind, partial) else self.kind
        return cast("type[base.Action]", kind)

    def __getattribute__(self, name: str) -> object:
        if name in _OF_THE_KIND:
            return getattr(object.__getattribute__(self, "_class"), name)
        return object.__getattribute__(self, name)

    def apply(self, sink: UOp, target: Target) -> UOp:
        return self.named(sink, target).apply(sink, target)

    def __str__(self) -> str:
        return f"{self.word}({self.place}, {self.how_much})"


def by_name(sink: UOp, actions: Sequence[base.Action], target: Target) -> list[base.Action]:
    """Actions by name, for a kernel that they fit."""
    found: list[base.Action] = []
    for action in actions:
        one = action.named(sink, target) if isinstance(action, Action) else action
        sink = apply_action(sink, one, target, found)
        found.append(one)
    return found


def brief(actions: Sequence[base.Action]) -> list[str]:
    """What actions are and how much they take, whatever the axes are called: `upcast 16`, `stage 2` (the parameter), `swap`."""

    def one(action: base.Action) -> str:
        number = action.param if isinstance(action, Stage) else action.amount
        return f"{action.word} {number}" if action.sized or isinstance(action, Stage) else action.word

    return [one(action) for action in actions]

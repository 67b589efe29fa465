"""Who chooses the schedules of a compilation, and what was chosen: the heuristic, unless the settings ask for a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planish.config import current
from planish.optimize.heuristic import drafted
from planish.stages.rangeify.attempts import attempts
from planish.target import Target
from planish.uop.actions import Action
from planish.uop.node import UOp

if TYPE_CHECKING:
    from planish.optimize.searched import Search


@dataclass(frozen=True, slots=True)
class Choice:
    """The schedule of one kernel, and where it comes from."""

    actions: tuple[Action, ...] = ()
    reasons: tuple[str, ...] = ()
    origin: str = "heuristic"
    search: Search | None = None
    """What a search saw, if there was one now."""

    def __repr__(self) -> str:
        return f"<schedule by {self.origin}: {', '.join(map(str, self.actions)) or 'no actions'}>"


@dataclass(slots=True)
class Steering:
    """Chooses for the kernels of one compilation, and remembers what."""

    target: Target
    choices: list[Choice] = field(default_factory=list)

    def __call__(self, sink: UOp, *, in_place: bool = False, streams: bool = True) -> Sequence[Action]:
        """The actions for a kernel that has come to stage 7; whether it writes over what it reads, and past the caches."""
        choice = choose(sink, self.target, in_place=in_place, streams=streams)
        self.choices.append(choice)
        return choice.actions


def choose(sink: UOp, target: Target, *, in_place: bool = False, streams: bool = True) -> Choice:
    """The schedule of a kernel, as the settings want it found."""
    draft = drafted(sink, target, attempts(target, in_place=in_place, streams=streams))
    plain = Choice(tuple(draft.actions), tuple(draft.reasons))
    if current().beam == 0:
        return plain
    from planish.compiler import tuning  # who does not search does not wait for it

    return tuning.choose(sink, target, plain)

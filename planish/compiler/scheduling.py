"""Scheduling: who chooses the actions of a kernel, what was chosen, and the kernel lowered with them.

The heuristic chooses, unless the settings ask for a search; a search lowers one kernel with many lists of actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final

from planish.actions.base import Action
from planish.compiler.functions import with_functions
from planish.config import current
from planish.llir.lower import lower as lower_to_llir
from planish.llir.program import Program
from planish.llir.streaming import with_streaming
from planish.optimize.heuristic import drafted
from planish.records import dataclass
from planish.stages import pipeline
from planish.stages.rangeify.attempts import attempts
from planish.target import Target
from planish.uop.node import UOp

if TYPE_CHECKING:
    from planish.optimize.searched import Search

FIRST: Final = 7
"""The stage that applies actions."""


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


def after_choice(sink: UOp, actions: Sequence[Action], target: Target, name: str = "kernel") -> Program:
    """A kernel that has come to stage 7, with these actions. Its large results stream by, as those of a function do."""
    machine = pipeline.Machine(target, lambda kernel: actions)
    form: pipeline.Form = sink
    for stage in pipeline.stages():
        if stage.number >= FIRST:
            form = stage.run(form, machine)
    lines = form if isinstance(form, list) else [form]
    program = with_functions(lower_to_llir(name, lines), target)
    large = target.streamed_bytes
    return with_streaming(program, target, [b.name for b in program.params if large and b.nbytes >= large])

"""Scheduling: who chooses the actions of a kernel, what was chosen, and the kernel lowered with them.

The heuristic chooses, unless the settings ask for a search or say what to do; a search lowers one kernel with many lists of actions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from planish.actions.base import Action, Refusal, apply_action
from planish.actions.block import Block
from planish.actions.shift_inwards import ShiftInwards
from planish.actions.text import ParameterNames, parse_schedule, print_schedule, sections
from planish.compiler.functions import with_functions
from planish.compiler.observer import observer
from planish.config import current
from planish.errors import LoweringError, PlanishError, did_you_mean
from planish.llir.lower import lower as lower_to_llir
from planish.llir.program import Program
from planish.llir.streaming import with_streaming
from planish.llir.versions import SizedProgram, with_versions
from planish.optimize.heuristic import drafted
from planish.optimize.versions import Bounds, Version, names_of, versions, within
from planish.records import dataclass
from planish.schedule.plan import Plan, Role
from planish.stages import pipeline
from planish.stages.rangeify.attempts import attempts
from planish.target import Target
from planish.uop.nest import axes_of, name_of
from planish.uop.node import UOp

if TYPE_CHECKING:
    from planish.optimize.searched import Search

FIRST: Final = 7
"""The stage that applies actions."""
_SYMBOLIC: Final = 4
"""The first stage that knows more where bounds are narrower."""


@dataclass(frozen=True, slots=True)
class ScheduleChoice:
    """The schedule of one kernel, and where it comes from."""

    actions: tuple[Action, ...] = ()
    reasons: tuple[str, ...] = ()
    origin: str = "heuristic"
    search: Search | None = None
    """What a search saw, if there was one now."""
    versions: tuple[Version, ...] = ()
    """Other schedules for some of its sizes, which come before it."""

    def __repr__(self) -> str:
        return f"<schedule by {self.origin}: {print_schedule(self.actions) or 'no actions'}>"


class Scheduled(NamedTuple):
    """A kernel that has passed all stages, and its schedule."""

    lines: list[UOp]
    choice: ScheduleChoice
    versions: tuple[list[UOp], ...] = ()
    """The same of each version."""


def scheduled(
    sink: UOp,
    target: Target,
    name: str = "kernel",
    *,
    in_place: bool = False,
    streams: bool = True,
    choice: ScheduleChoice | None = None,
    names: ParameterNames = MappingProxyType({}),
) -> Scheduled:
    """A kernel through the stages; whether it writes over what it reads, and past the caches.

    Its schedule is chosen when it comes to stage 7, unless that is left out, or it was chosen before. One that is given may call
    parameters by their `names`.
    """
    schedule = choice or ScheduleChoice(origin=f"stage {FIRST} is disabled")

    watching = observer()
    before = sink

    def chosen(kernel: UOp) -> Sequence[Action]:
        nonlocal schedule, before
        before = kernel
        schedule = (
            choice
            or given(kernel, name, target, names, in_place=in_place)
            or choose(kernel, target, in_place=in_place, streams=streams)
        )
        return schedule.actions

    machine = pipeline.Machine(target, lambda kernel: watching.choosing(kernel, chosen))
    form: pipeline.Form = [sink]
    for step in watching.stages(pipeline.steps(sink, machine, name)):
        form = step.form
    versions = [
        _lines(_narrowed(before, each.bounds, target), each.actions, target) for each in schedule.versions
    ]
    return Scheduled(form if isinstance(form, list) else [form], schedule, tuple(versions))


def _narrowed(sink: UOp, bounds: Bounds, target: Target) -> UOp:
    """A kernel that has come to stage 7, with narrower bounds of its sizes."""
    machine = pipeline.Machine(target, lambda kernel: ())
    form: pipeline.Form = within(sink, bounds)
    for stage in pipeline.stages():
        if _SYMBOLIC <= stage.number < FIRST:
            form = stage.run(form, machine)
    return cast("UOp", form)


def choose(sink: UOp, target: Target, *, in_place: bool = False, streams: bool = True) -> ScheduleChoice:
    """The schedule of a kernel, as the settings want it found."""
    attempt = attempts(target, in_place=in_place, streams=streams)
    draft = drafted(sink, target, attempt)
    plain = ScheduleChoice(tuple(draft.actions), tuple(draft.reasons))
    if current().beam == 0:
        if target.is_gpu or not names_of(sink):
            return plain
        others = versions(
            draft,
            sink,
            target,
            lambda bounds: _narrowed(sink, bounds, target),
            lambda kernel: drafted(kernel, target, attempt),
        )
        return replace(plain, versions=others)
    from planish.compiler import tuning  # who does not search does not wait for it

    return tuning.choose(sink, target, plain)


# -- schedules that are given -------------------------------------------------------------------------------------------


def parameter_names(plan: Plan, names: Sequence[str | None]) -> list[dict[str, set[int]]]:
    """By kernel of a plan: which of its parameters are those of the function, by the names that these have there."""
    by_kernel: list[dict[str, set[int]]] = [{} for _ in plan.kernels]
    for launch in plan.launches:
        for slot, number in enumerate(launch.buffers):
            buffer = plan.buffers[number]
            name = names[buffer.position] if buffer.role is Role.PARAMETER else None
            if name is not None:
                by_kernel[launch.kernel].setdefault(name, set()).add(slot)
    return by_kernel


def given(
    sink: UOp, name: str, target: Target, names: ParameterNames, *, in_place: bool = False
) -> ScheduleChoice | None:
    """The schedule that the settings say for a kernel of a name; None if they say nothing of it.

    Each step is tried; one that does not fit is an error that says why, and which axes there are.
    """
    text = current().schedule
    if text is None:
        return None
    parts = sections(text)
    part = next((part for known, part in parts.items() if not known or fnmatchcase(name, known)), None)
    if part is None:
        return None
    actions = parse_schedule(part, names=names)
    for number, action in enumerate(actions):
        try:
            if in_place and isinstance(action, Block | ShiftInwards):
                raise action.no("an operand lies where the outputs are written")
            sink = apply_action(sink, action, target, actions[:number])
        except Refusal as refusal:
            axes = ", ".join(map(name_of, axes_of(sink)))
            raise LoweringError(
                f"step {number + 1} of the schedule of {name}, {action}, does not fit: {refusal.message}",
                remedy=refusal.remedy or f"the axes before it are {axes}",
            ) from None
    return ScheduleChoice(actions, ("as given",) * len(actions), "given")


def check_given(names: Sequence[str]) -> None:
    """Refuse a schedule for kernels that a function does not have."""
    text = current().schedule
    if text is None:
        return
    known = ", ".join(names) or "none"
    for part in sections(text):
        if not part and len(names) != 1:
            raise LoweringError(
                f"a schedule for one kernel, and the function has {len(names)}",
                remedy=f"put a line [kernel] before its steps; kernels are {known}",
            )
        if part and not any(fnmatchcase(name, part) for name in names):
            close = did_you_mean(part, names)
            hint = f"did you mean {close}? " if close else ""
            raise LoweringError(f"there is no kernel {part}", remedy=f"{hint}kernels are {known}")


def schedule_text(schedule: str | PathLike[str] | Mapping[str, str] | None) -> str | None:
    """A schedule as the settings take it: from a text, a file (what is no step is the name of one), or a mapping from kernels to texts."""
    if schedule is None:
        return None
    if isinstance(schedule, Mapping):
        text = "\n".join(f"[{name}]\n{part}" for name, part in schedule.items())
    elif isinstance(schedule, str) and (not schedule.strip() or not set("(\n[").isdisjoint(schedule)):
        text = schedule
    else:
        try:
            text = Path(schedule).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise PlanishError(
                f"cannot read the schedule {str(schedule)!r}: {reason}",
                remedy="give the name of a file, or steps such as upcast(j, 16)",
            ) from None
    for part in sections(text).values():
        parse_schedule(part)  # what is wrong is told now
    return text


# -- lowering -----------------------------------------------------------------------------------------------------------


def _lines(sink: UOp, actions: Sequence[Action], target: Target) -> list[UOp]:
    """A kernel that has come to stage 7, through the others."""
    machine = pipeline.Machine(target, lambda kernel: actions)
    form: pipeline.Form = sink
    for stage in pipeline.stages():
        if stage.number >= FIRST:
            form = stage.run(form, machine)
    return form if isinstance(form, list) else [form]


def program_of(name: str, staged: Scheduled, target: Target, streams: Collection[str]) -> Program:
    """The LLIR of a kernel and of its versions, whose parameters of these names stream past the caches."""
    general, *others = (
        with_streaming(with_functions(lower_to_llir(name, lines), target), target, streams)
        for lines in (staged.lines, *staged.versions)
    )
    bounds = [each.bounds for each in staged.choice.versions]
    return with_versions(general, [SizedProgram(*pair) for pair in zip(bounds, others, strict=True)])


def after_choice(sink: UOp, actions: Sequence[Action], target: Target, name: str = "kernel") -> Program:
    """A kernel that has come to stage 7, with these actions. Its large results stream by, as those of a function do."""
    program = with_functions(lower_to_llir(name, _lines(sink, actions, target)), target)
    large = target.streamed_bytes
    return with_streaming(program, target, [b.name for b in program.params if large and b.nbytes >= large])

"""A schedule of the user's, tried on a recorded kernel: whether it fits, the code, what the model expects, how long it takes.

Nothing of the recording changes. Measuring runs the kernel in the sandbox of the search, against what it computes without any
action: a schedule that computes something else, crashes or hangs is told as such.
"""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import Final

from planish.actions.base import Action
from planish.actions.text import parse_schedule, print_schedule
from planish.compiler import tuning
from planish.compiler.device_kinds import kind_for
from planish.compiler.scheduling import after_choice
from planish.compiler.tolerance import places_of
from planish.config import settings
from planish.errors import PlanishError
from planish.llir.program import Program
from planish.optimize.cost import estimate
from planish.optimize.searched import Outcome
from planish.runtime import cpu
from planish.runtime.pool import available_cores, wanted_threads
from planish.runtime.sandbox import Sandbox, Trial
from planish.uop.node import Table, UOp
from planish.viz.kernel_view import KernelView, code_at
from planish.viz.schema import EditedSchedule, RefusedAction

_LONGEST: Final = 20_000
"""Characters of a schedule."""
_PATIENCE: Final = 60.0
"""Seconds that the kernel may take without any action."""


def edited(view: KernelView, text: str, *, measure: bool = False) -> EditedSchedule:
    """What a schedule would give; steps are lines, or parted by semicolons."""
    sink = view.before_schedule()
    if sink is None:
        return _refused(text, 0, "a loop that became a kernel has no schedule of its own")
    if len(text) > _LONGEST:
        return _refused(text[:200], 0, f"a schedule of more than {_LONGEST} characters")
    parsed: list[Action] = []
    for number, line in enumerate(filter(str.strip, text.replace(";", "\n").splitlines()), 1):
        try:
            parsed += parse_schedule(line.strip())
        except PlanishError as error:
            return _refused(text, number, str(error))
    actions = tuple(parsed)
    with Table() as table, settings(debug="none", dump_dir=None):
        own = tuning.transplanted(sink, table)
        attempt = tuning.checked(own, view.target)
        kernel = own
        for number, action in enumerate(actions):
            after = attempt(kernel, action, actions[:number])
            if isinstance(after, str):
                return _refused(print_schedule(actions), number + 1, after)
            kernel = after
        cycles = estimate(kernel, view.target, threads=available_cores()).cycles
        try:
            program = after_choice(own, actions, view.target, view.facts.name)
        except PlanishError as error:
            return _refused(print_schedule(actions), len(actions), str(error))
        facts = replace(view.facts, schedule=[str(a) for a in actions], reasons=[])
        levels = {
            level: code_at(level, program, facts, view.target) for level in view.levels if level != "schedule"
        }
        seconds, note = _measured(own, actions, program, view) if measure else (None, "")
    return EditedSchedule(
        True, None, print_schedule(actions), levels, round(cycles * view.cycle_us, 3),
        None if seconds is None else round(seconds * 1e6, 3), note,
    )  # fmt: skip


def _refused(text: str, step: int, reason: str) -> EditedSchedule:
    return EditedSchedule(False, RefusedAction(step, reason), text, {}, None, None)


def _measured(
    sink: UOp, actions: tuple[Action, ...], program: Program, view: KernelView
) -> tuple[float | None, str]:
    """Seconds of one run, and what is to be said about it."""
    target = view.target
    kind = kind_for(target)
    device = kind.number_for(target) if target.is_gpu else None
    if target.is_gpu and device is None:
        return None, f"not measured: there is no GPU of {target.name} here"
    try:
        if not target.is_gpu:
            cpu.check_runs_here(cpu.processor(target))
        places = places_of(sink)

        def ready(candidate: Program) -> Trial:
            return kind.trial(candidate, places, target)

        with Sandbox(
            places, wanted_threads(), workers=1, environment=tuning.SANDBOX_ENVIRONMENT, device=device
        ) as sandbox:
            plain, points = ((), ()) if target.is_gpu else tuning.reference_of(sink, target)
            sandbox.remember(ready(after_choice(sink, plain, target)), _PATIENCE, points)
            (report,) = sandbox.measure([ready(program)], float("inf"))
    except (PlanishError, OSError) as error:
        return None, f"not measured: {error}"
    if report.what != "right" or not isfinite(report.seconds):
        return (None, f"{Outcome[report.what.upper()].value}{': ' + report.detail if report.detail else ''}")
    return report.seconds, "it computes what the kernel computes without any action"

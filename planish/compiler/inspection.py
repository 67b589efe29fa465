"""Inspection: a lowered function at every level as text, why its kernels have their schedules, and where they come from.

Graphs of kernels are not kept. They are planned once more when somebody wants to look at them, and go through the stages with the
schedules that were chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from planish import ptir
from planish.actions.base import Action
from planish.actions.text import print_schedule
from planish.compiler import Lowered
from planish.compiler.device_kinds import kind_of_level
from planish.compiler.lowering import donated_parameters
from planish.compiler.product_fission import apart
from planish.compiler.ready_kernels import READY
from planish.compiler.scheduling import FIRST, ScheduleChoice, parameter_names
from planish.config import settings
from planish.errors import PlanishError
from planish.llir.text import print_program
from planish.optimize.heuristic import rivals
from planish.optimize.why import Why, explain
from planish.optimize.why import loop as explain_loop
from planish.runtime.pool import available_cores
from planish.schedule.origins import Origins
from planish.schedule.plan import Kernel, Role
from planish.schedule.planner import plan as make_plan
from planish.schedule.sharing import settled, share
from planish.stages import pipeline
from planish.stages.boundaries import text_of
from planish.stages.rangeify.attempts import attempts
from planish.target import Target
from planish.uop.node import Table, UOp
from planish.uop.text import print_graph

T = TypeVar("T")


def _replayed(
    look: Callable[[Kernel, ScheduleChoice, Iterator[pipeline.StageRun]], T],
    function: ptir.Function,
    target: Target,
    choices: Sequence[ScheduleChoice] | None,
    donate: Iterable[int] = (),
    *,
    ready: bool = False,
) -> list[T]:
    """What is seen of each kernel that a function is cut into: of it, its schedule, and the stages it goes through.

    `ready`: products are apart, as where some of them are run by ready-made code.
    """
    with Table() as table, settings(debug="none", dump_dir=None):
        seen: list[T] = []
        plan = make_plan(function, table, donated_parameters(function, donate), target)
        kernels = (apart(plan, target)[0] if ready else plan).kernels
        for number, kernel in enumerate(kernels):
            choice = ScheduleChoice(origin="none") if choices is None else choices[number]
            machine = pipeline.Machine(target, partial(_as_chosen, choice))
            seen.append(look(kernel, choice, pipeline.steps(kernel.sink, machine, kernel.name)))
        return seen


def _as_chosen(choice: ScheduleChoice, sink: UOp) -> Sequence[Action]:
    return choice.actions


def stages_of(lowered: Lowered) -> list[list[tuple[str, str]]]:
    """Per kernel that the function was cut into: (stage, text of the graph after it). Loops are made of kernels that have passed them."""

    def look(
        kernel: Kernel, choice: ScheduleChoice, steps: Iterator[pipeline.StageRun]
    ) -> list[tuple[str, str]]:
        before = ("uop", print_graph(kernel.sink))
        return [before, *((str(step.stage.number), text_of(step.form)) for step in steps)]

    return _replayed(look, lowered.function, lowered.target, lowered.choices, ready=any(lowered.ready))


def planned_text(function: ptir.Function, target: Target, donate: Iterable[int], level: str) -> str:
    """The plan of a function, or its kernels, before any stage."""
    with Table() as table:
        plan = make_plan(function, table, donated_parameters(function, donate), target)
        if level == "uop":
            return "\n".join(print_graph(kernel.sink) for kernel in plan.kernels)
        sharing = share(plan)
        return settled(plan, sharing).as_text(sharing.homes)


def stage_text(
    function: ptir.Function,
    target: Target,
    donate: Iterable[int],
    number: int,
    choices: Sequence[ScheduleChoice] | None,
) -> str:
    """The kernels after a stage; only the stages up to it run."""

    def look(kernel: Kernel, choice: ScheduleChoice, steps: Iterator[pipeline.StageRun]) -> str:
        passed: list[str] = []
        for step in steps:
            if step.stage.number == number:
                return text_of(step.form)
            passed.append(str(step.stage.number))
        raise PlanishError(f"no stage {number}", remedy="one of " + ", ".join(passed))

    return "\n".join(_replayed(look, function, target, choices, donate))


def schedules_of(lowered: Lowered) -> str:
    """The schedules of a function's kernels, each step with its reason: what `--schedule` and `jit(schedule=…)` read."""
    lines: list[str] = []
    with Table() as table:
        plan = make_plan(lowered.function, table, target=lowered.target)
        names = parameter_names(plan, [each.name for each in lowered.function.params])
        for kernel, choice, called in zip(plan.kernels, lowered.choices, names, strict=True):
            told = [f"{name} is arg{next(iter(slots))}" for name, slots in called.items() if len(slots) == 1]
            lines.append(f"[{kernel.name}]  # {'; '.join([choice.origin, *told])}")
            for number, action in enumerate(choice.actions):
                reason = choice.reasons[number] if number < len(choice.reasons) else ""
                lines.append(f"{action}  # {reason}" if reason else str(action))
            lines += [f"# for {each}: {print_schedule(each.actions)}" for each in choice.versions]
            lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n" if lines else ""


def explained(lowered: Lowered) -> tuple[Why, ...]:
    """Per kernel: its actions with their reasons, and what the cost model expects."""
    target = lowered.target
    attempt = attempts(target)

    def look(kernel: Kernel, choice: ScheduleChoice, steps: Iterator[pipeline.StageRun]) -> Why:
        sink = kernel.sink
        for step in steps:
            # the schedule is explained on the kernel that it was chosen for
            if step.stage.number >= FIRST or isinstance(step.form, list):
                break
            sink = step.form
        threads = available_cores()
        others = rivals(sink, target, attempt, threads) if choice.origin != "given" else ()
        return explain(
            kernel.name, sink, choice.actions, choice.reasons, choice.origin, target, attempt, threads,
            kernel.because, others, [f"{each}: {print_schedule(each.actions)}" for each in choice.versions],
        )  # fmt: skip

    reasons = _replayed(look, lowered.function, target, lowered.choices, ready=any(lowered.ready))
    for rolled in lowered.rolled:
        parts = [reasons[part] for part in rolled.parts]
        reasons.append(explain_loop(rolled.name, rolled.because, parts, rolled.turns))
    whys = [reasons[origin] for origin in lowered.origins]
    for number, ready in enumerate(lowered.ready):
        if ready is not None:
            whys[number] = replace(whys[number], instead=f"{READY}, {ready.routine}")
    return tuple(whys)


def origins_of(lowered: Lowered, function: ptir.Function | None) -> list[tuple[ptir.Inst, ...]]:
    """The instructions that each launch of a plan computes, of the same function with its lines; none where it is another."""
    watch = Origins()
    donated = frozenset(b.position for b in lowered.plan.buffers if b.role is Role.PARAMETER and b.donated)
    with Table() as table:
        plan = make_plan(
            lowered.function if function is None else function, table, donated, lowered.target, watch
        )
        if any(lowered.ready):
            plan, whole = apart(plan, lowered.target)
            watch.launches = [watch.launches[number] for number in whole]
        by_name = watch.by_kernel(plan, share(plan).needless)
    # a loop that became a kernel computes what the kernels of a turn do
    for loop in lowered.rolled:
        parts = [plan.kernels[part].name for part in loop.parts if part < len(plan.kernels)]
        inside = dict.fromkeys(inst for name in parts for insts in by_name.get(name, ()) for inst in insts)
        by_name.setdefault(loop.name, []).append(tuple(inside))
    by_launch = []
    for launch in lowered.plan.launches:
        left = by_name.get(lowered.plan.kernels[launch.kernel].name, [])
        by_launch.append(left.pop(0) if left else ())
    return by_launch


def text_of_kernels(lowered: Lowered, level: str) -> str:
    """The kernels as LLIR, or as what a kind of device makes of it: LLVM IR, assembly or C, of a GPU CUDA C++, PTX or SASS."""
    if level == "llir":
        return "\n".join(map(print_program, lowered.programs))
    kind = kind_of_level(level)
    rows = zip(lowered.programs, lowered.sharing.aliased, lowered.scratch, strict=True)
    return "\n".join(
        kind.code(program, lowered.target, level, aliased=tuple(aliased), scratch=scratch)
        for program, aliased, scratch in rows
    )

"""Why a kernel is what it is: for each action why it was taken or refused, for each access why it is wide or not, and its loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planish.actions.base import Action
from planish.compiler.tuning import checked
from planish.optimize.cost import estimate
from planish.optimize.heuristic import rivals
from planish.optimize.space import candidates, obstacle
from planish.optimize.why import Rival, explain
from planish.runtime.pool import available_cores
from planish.stages.rangeify.attempts import attempts
from planish.target import Target
from planish.uop.infix import infix
from planish.uop.nest import LANES, THREADS, axes_of, name_of, size_of
from planish.uop.nest.access import Access
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.ranges import kind_of
from planish.viz import schema
from planish.viz.kernel_view import KernelView
from planish.viz.search_tree import ON_THE_WAY

_TRIED: Final = 80
"""Actions beside those of the schedule that are tried."""
_REFUSED: Final = 60
"""Refusals that are shown."""
_SHOWN: Final = 160
"""Characters of an index."""
_WEIGHED: Final = 24
"""Of the actions that fit, those that the model weighs."""


def why(view: KernelView) -> schema.ScheduleWhy:
    """The explanation of a kernel's schedule; of a loop that was made of other kernels, why it was."""
    sink = view.before_schedule()
    facts = view.facts
    if sink is None:
        note = "a loop that became a kernel: its code is made of that of its parts"
        return schema.ScheduleWhy(facts.origin, facts.because, "", [], [], schema.LoopNest([], []), [], note)
    target = view.target
    threads = available_cores()
    told = explain(
        facts.name, sink, view.actions, facts.reasons, facts.origin, target, attempts(target), threads,
        facts.because, rivals(sink, target, attempts(target), threads) if facts.origin != "given" else (),
    )  # fmt: skip
    taken = [
        schema.ActionWhy(
            str(step.action), True, step.reason or step.action.does, _us(view, step.after.cycles), step.effect
        )
        for step in told.steps
    ]
    scheduled = _after_schedule(view)
    final = sink if scheduled is None else scheduled
    others, legal = _refused(view, sink, final, told.cost.cycles)
    return schema.ScheduleWhy(
        facts.origin,
        facts.because,
        str(told.cost),
        [*taken, *others],
        accesses(view, final),
        schema.LoopNest(loops(final), legal),
        [*_rivals(view, told.rivals), *_measured(view)],
        ""
        if len(taken) == len(view.actions)
        else "some actions of the schedule do not fit under the present settings",
    )


def _us(view: KernelView, cycles: float) -> float:
    return round(cycles * view.cycle_us, 3)


def _after_schedule(view: KernelView) -> UOp | None:
    journey = view.journey
    stage = None if journey is None else journey.stage(7)
    form = None if journey is None or stage is None else journey.form(stage)
    return form if isinstance(form, UOp) else None


def _refused(
    view: KernelView, sink: UOp, final: UOp, cycles: float
) -> tuple[list[schema.ActionWhy], list[str]]:
    """What else could be done next: why it is refused, or what the model thinks of it."""
    target = view.target
    attempt = checked(sink, target)
    axes = {name_of(axis): axis for axis in axes_of(final)}
    refused: dict[tuple[str, str], schema.ActionWhy] = {}
    fitting: dict[tuple[str, str], schema.ActionWhy] = {}
    tried = 0
    for action in candidates(final, target):
        # of a kind of action on an axis one amount that fits is enough, or one that is refused
        key = action.word, str(getattr(action, "axis", action))
        if key in fitting:
            continue
        problem = obstacle(axes, action)
        if problem is None and tried < _TRIED:
            tried += 1
            after = attempt(final, action, view.actions)
            if isinstance(after, UOp):
                fitting[key] = _weighed(view, action, after, cycles, len(fitting) < _WEIGHED)
                continue
            problem = after
        if problem is not None:
            refused.setdefault(
                key, schema.ActionWhy(str(action), False, f"refused: {problem}", None, legal=False)
            )
    weighed = sorted(fitting.values(), key=lambda each: (each.estimate_us is None, each.estimate_us or 0.0))
    left = [each for key, each in refused.items() if key not in fitting]
    return [*weighed, *left[:_REFUSED]], [each.action for each in weighed]


def _weighed(
    view: KernelView, action: Action, after: UOp, cycles: float, is_weighed: bool
) -> schema.ActionWhy:
    if not is_weighed or not cycles:
        return schema.ActionWhy(str(action), False, "it fits", None)
    cost = estimate(after, view.target, threads=available_cores()).cycles
    reason = f"it fits; the model expects {cost / cycles:.2f} times the cycles"
    return schema.ActionWhy(str(action), False, reason, _us(view, cost))


def _rivals(view: KernelView, others: Sequence[object]) -> list[schema.CandidateWhy]:
    return [
        schema.CandidateWhy(each.name, "; ".join(map(str, each.actions)), _us(view, each.cost.cycles), None)
        for each in others
        if isinstance(each, Rival)
    ]


def _measured(view: KernelView) -> list[schema.CandidateWhy]:
    search = view.facts.search
    if search is None:
        return []
    return [
        schema.CandidateWhy("search", node.schedule, node.estimate_us, node.measured_us, node.outcome)
        for node in search.nodes
        if node.outcome != ON_THE_WAY
    ]


# -- accesses ----------------------------------------------------------------------------------------------------------


def accesses(view: KernelView, sink: UOp) -> list[schema.AccessWhy]:
    """Every place in memory that a scheduled kernel reads or writes, and whether one access moves several elements."""
    widths = _widths(view)
    by_place: dict[tuple[str, str, bool], schema.AccessWhy] = {}
    names = view.facts.parameters
    for access in Nest.of(sink).accesses:
        if not access.in_memory:
            continue
        slot = access.memory.arg
        if not isinstance(slot, int):
            continue
        name = f"arg{slot}" + (f" ({names[slot]})" if slot < len(names) else "")
        index = infix(access.place, limit=_SHOWN)
        lanes = widths.get((slot, access.is_store), 1)
        wide, reason = _width_reason(access, lanes, view.target)
        by_place[name, index, access.is_store] = schema.AccessWhy(
            name, index, access.is_store, lanes, wide, reason
        )
    return list(by_place.values())


def _widths(view: KernelView) -> dict[tuple[int, bool], int]:
    """By parameter, and whether it is written: the most elements that one access of the last form moves."""
    journey = view.journey
    if journey is None or not journey.stages:
        return {}
    form = journey.form(journey.stages[-1])
    nodes = form.toposort() if isinstance(form, UOp) else form
    widths: dict[tuple[int, bool], int] = {}
    for node in nodes:
        if node.op not in {Ops.LOAD, Ops.STORE}:
            continue
        base = node.src[0]
        while base.op is not Ops.DEFINE_GLOBAL and base.src:
            base = base.src[0]
        if base.op is Ops.DEFINE_GLOBAL and isinstance(base.arg, int):
            moved = node.dtype if node.op is Ops.LOAD else node.src[1].dtype
            key = base.arg, node.op is Ops.STORE
            widths[key] = max(widths.get(key, 1), moved.lanes)
    return widths


def _width_reason(access: Access, lanes: int, target: Target) -> tuple[bool, str]:
    """Whether an access is wide, and why; of a GPU also what the threads of a warp touch together."""
    most = max(target.widths(access.dtype), default=1)
    beside = [axis for axis in access.lanes if kind_of(axis) in LANES]
    along = [axis for axis in access.lanes if kind_of(axis) in THREADS]
    wide, reason = _of_lanes(access, beside, lanes, most, target)
    return wide, f"{reason}; {_of_threads(access, along, lanes)}" if along else reason


def _of_lanes(
    access: Access, beside: Sequence[UOp], lanes: int, most: int, target: Target
) -> tuple[bool, str]:
    if lanes > 1:
        side = [name_of(axis) for axis in beside if access.steps.get(axis) == 1]
        by = f" along {', '.join(side)}" if side else ""
        return True, f"{lanes} neighbouring elements{by}; an access of {target.name} moves up to {most}"
    if most == 1:
        return False, f"an access of {target.name} moves one element"
    if not beside:
        loops = ", ".join(name_of(axis) for axis in access.loops) or "no loop"
        return False, f"no axis around it is in lanes: {loops}; upcast or unroll one that it moves along by 1"
    reasons = []
    for axis in beside:
        step, name = access.steps.get(axis, 0), name_of(axis)
        if step is None:
            reasons.append(f"along {name} it moves by no fixed step (a gather)")
        elif step == 0:
            reasons.append(f"it does not move along {name}: one element serves all lanes")
        elif step != 1:
            reasons.append(f"along {name} it moves by {step} elements")
        else:
            gate = (
                "its gate differs from lane to lane"
                if access.is_gated
                else "its first element is not aligned for it"
            )
            reasons.append(f"along {name} elements are neighbours, but {gate}")
    return False, "; ".join(reasons)


def _of_threads(access: Access, along: Sequence[UOp], lanes: int) -> str:
    """How the threads of a warp lie in memory: side by side their accesses are one (coalesced)."""
    steps = {axis: access.steps.get(axis, 0) for axis in along}
    nearest = next((axis for axis, step in steps.items() if step == lanes), None)
    if nearest is not None:
        return f"threads of {name_of(nearest)} are next to each other in memory (coalesced)"
    if all(step == 0 for step in steps.values()):
        return "all threads touch the same elements"
    if any(step is None for step in steps.values()):
        axis = next(axis for axis, step in steps.items() if step is None)
        return f"threads of {name_of(axis)} move by no fixed step"
    axis, step = min(((a, abs(s)) for a, s in steps.items() if s), key=lambda each: each[1])
    return f"threads of {name_of(axis)} are {step} elements apart: not coalesced"


# -- loops -------------------------------------------------------------------------------------------------------------


def loops(sink: UOp) -> list[schema.LoopEntry]:
    """The loops of a kernel, those inside of each below it."""
    nest = Nest.of(sink)
    axes = axes_of(sink)
    inner: dict[UOp, list[UOp]] = {}
    tops: list[UOp] = []
    for axis in axes:
        outer = [other for other in axes if other is not axis and nest.is_inside(axis, other)]
        # the nearest is the one with the most loops around itself
        parent = max(outer, key=lambda o: sum(nest.is_inside(o, x) for x in axes if x is not o), default=None)
        (tops if parent is None else inner.setdefault(parent, [])).append(axis)

    def entry(axis: UOp, depth: int) -> schema.LoopEntry:
        kind = kind_of(axis)
        return schema.LoopEntry(
            name_of(axis),
            size_of(axis),
            kind.name.lower(),
            depth,
            [entry(each, depth + 1) for each in inner.get(axis, ())],
        )

    return [entry(axis, 0) for axis in tops]

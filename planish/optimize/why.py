"""Why a kernel has the schedule it has: each action with its reason, and what the cost model says it changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from planish.actions.base import Action
from planish.optimize.cost import estimate
from planish.optimize.expected import Estimate
from planish.records import dataclass
from planish.target import Target
from planish.uop.node import UOp

_LITTLE = 0.01
"""Of the whole: what no effect is told by."""
Apply = Callable[[UOp, Action, Sequence[Action]], UOp | None]


@dataclass(frozen=True, slots=True)
class ActionEffect:
    """One action of a schedule."""

    action: Action
    reason: str
    before: Estimate
    after: Estimate

    @property
    def effect(self) -> str:
        """What the model says the action changed most."""
        parts = {
            name: self.before.parts.get(name, 0.0) - self.after.parts.get(name, 0.0)
            for name in {*self.before.parts, *self.after.parts}
        }
        name = max(parts, key=lambda each: abs(parts[each]), default="")
        gain = self.before.cycles / self.after.cycles if self.after.cycles else 1.0
        if not name or abs(gain - 1) < 0.005:
            return "by itself it changes nothing that the model counts"
        if abs(parts[name]) < _LITTLE * self.before.cycles:
            # the same work, done by more cores at once
            return f"{self.before.pieces} -> {self.after.pieces} pieces, {gain:.2f}x by the model"
        was, now = self.before.parts.get(name, 0.0), self.after.parts.get(name, 0.0)
        return f"{name} {was:.3g} -> {now:.3g} cycles, {gain:.2f}x by the model"

    def __str__(self) -> str:
        return f"{self.action}: {self.reason or self.action.does}; {self.effect}"


class Rival(NamedTuple):
    """A schedule that a template offers for a kernel."""

    name: str
    actions: tuple[Action, ...]
    cost: Estimate


@dataclass(frozen=True, slots=True)
class Why:
    """The schedule of one kernel, explained."""

    kernel: str
    origin: str
    """Who chose it: the heuristic, a search, or a search of an earlier time."""
    steps: tuple[ActionEffect, ...]
    cost: Estimate
    because: tuple[str, ...] = ()
    """Why what the kernel makes is in memory."""
    parts: tuple[Why, ...] = ()
    """Of a loop that is a kernel: the kernels that it was made of."""
    rivals: tuple[Rival, ...] = ()
    """What else templates offer, the cheapest first."""
    versions: tuple[str, ...] = ()
    """The sizes that have schedules of their own, and these."""
    instead: str = ""
    """The code that runs in its place."""

    def __repr__(self) -> str:
        return (
            f"<why of {self.kernel}: {len(self.steps)} actions by {self.origin}, {self.cost.bound_by}-bound>"
        )

    def _ratio(self, rival: Rival) -> str:
        ratio = rival.cost.cycles / self.cost.cycles if self.cost.cycles else 1.0
        return f"{ratio:.2f} times the cycles by the model, {rival.cost.bound_by}-bound"

    def __str__(self) -> str:
        lines = [f"{self.kernel}: {self.origin}"]
        if self.instead:
            lines.append(f"  run by {self.instead}; compiled for its sizes it would have this schedule")
        if self.parts:
            inside = "\n".join(map(str, self.parts))
            return "\n".join([*lines, *(f"  {line}" for line in inside.splitlines()), f"  {self.cost}"])
        lines += [f"  in memory: {reason}" for reason in dict.fromkeys(self.because)]
        lines += [f"  {step}" for step in self.steps] or ["  no actions: the loops as they are"]
        lines += [f"  for {each}" for each in self.versions]
        lines += [f"  instead of {each.name}: {self._ratio(each)}" for each in self.rivals]
        return "\n".join([*lines, f"  {self.cost}"])


def loop(kernel: str, because: str, parts: Sequence[Why], turns: int) -> Why:
    """A loop that is a kernel: what its parts cost, so many times."""
    costs = [part.cost for part in parts]
    names = dict.fromkeys(name for cost in costs for name in cost.parts)
    whole = Estimate(
        turns * sum(cost.cycles for cost in costs),
        {name: turns * sum(cost.parts.get(name, 0.0) for cost in costs) for name in names},
        turns * sum(cost.flops for cost in costs),
        tuple(turns * sum(moved) for moved in zip(*(cost.moved for cost in costs), strict=True)),
        max((cost.registers for cost in costs), default=0),
        min((cost.vector_efficiency for cost in costs), default=1.0),
        min((cost.pieces for cost in costs), default=1),
    )
    return Why(kernel, because, (), whole, (), tuple(parts))


def explain(
    kernel: str,
    sink: UOp,
    actions: Sequence[Action],
    reasons: Sequence[str],
    origin: str,
    target: Target,
    apply: Apply,
    threads: int | None = None,
    because: Sequence[str] = (),
    rivals: Sequence[Rival] = (),
    versions: Sequence[str] = (),
) -> Why:
    """A kernel before its actions, taken through them one by one; `rivals`: what templates offer for it; `versions`: its others."""
    now = estimate(sink, target, threads=threads)
    steps: list[ActionEffect] = []
    for number, action in enumerate(actions):
        after = apply(sink, action, actions[:number])
        if after is None:
            break  # chosen under other settings; what follows would be about another kernel
        sink, before, now = after, now, estimate(after, target, threads=threads)
        steps.append(ActionEffect(action, reasons[number] if number < len(reasons) else "", before, now))
    others = tuple(each for each in rivals if each.actions != tuple(actions))
    return Why(kernel, origin, tuple(steps), now, tuple(because), rivals=others, versions=tuple(versions))

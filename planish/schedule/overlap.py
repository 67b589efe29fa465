"""Collectives under way while others work: a plan starts each where it stands, and waits for it where its result is first needed.

A collective goes right behind the steps that make what it sends. Between that and the first step that needs its result are those that do not; where there are none, it is
waited for at once. Until then its buffers are in use, both of them: nobody writes to what is being sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from planish.schedule.liveness import bases, uses
from planish.schedule.overwriting import written as written_by
from planish.schedule.plan import (
    Branch,
    Copy,
    For,
    Host,
    Launch,
    Plan,
    RoutineCall,
    Step,
    Steps,
    SwapPointers,
    View,
    Wait,
    While,
    walk,
)

TICKETS: Final = 64
"""As many as the C has, with the one that nobody waits for."""
STARTED: Final = ("collective", "collective.half")


def overlapped(plan: Plan) -> Plan:
    """The plan with collectives that are waited for later, where there is something to do meanwhile."""
    if not any(isinstance(step, Host) and _starts(step) for step in walk(plan.steps)):
        return plan
    written = [written_by(kernel.sink) for kernel in plan.kernels]
    return replace(plan, steps=_Overlapping(bases(plan), written).block(plan.steps))


def _early(steps: Steps, base: Callable[[int], int]) -> list[Step]:
    """Collectives right behind the steps that make what they send. All ranks have the same plan, and so they meet in one order."""
    ordered: list[Step] = []
    for step in steps:
        if not (isinstance(step, Host) and _starts(step) and _is_static(step)):
            ordered.append(step)
            continue
        own = {base(buffer) for buffer in (*step.inputs, *step.outputs)}
        place = len(ordered)
        while place > 0 and not own & {
            base(b) for inner in walk((ordered[place - 1],)) for b in touched(inner)
        }:
            place -= 1
        behind = ordered[place - 1] if place else None
        if isinstance(behind, Host) and _starts(behind):
            place = len(ordered)  # it would wait at once for that one
        ordered.insert(place, step)
    return ordered


def _starts(step: Host) -> bool:
    return step.call is not None and step.call.name in STARTED


def _is_static(step: Host) -> bool:
    """Whether its sizes are numbers: others may be known only where it stands."""
    return step.call is not None and all(isinstance(size, int) for size in step.call.integers)


def without_ticket(call: RoutineCall) -> RoutineCall:
    """The call of a collective as if it were waited for at once; others, and what has no ticket that there is, as they are."""
    ticket = call.integers[-1] if call.name in STARTED and call.integers else 0
    is_one = isinstance(ticket, int) and 0 < ticket < TICKETS
    return replace(call, integers=(*call.integers[:-1], 0)) if is_one else call


class _Overlapping:
    """Tickets that are free, and which buffers are parts of others."""

    def __init__(self, bases: dict[int, int], written: Sequence[frozenset[int]]) -> None:
        self.bases, self.written = bases, written
        self.free = list(range(TICKETS - 1, 0, -1))

    def block(self, given: Steps) -> Steps:
        rewritten: list[Step] = []
        steps = tuple(_early(given, self.base))
        due: dict[int, list[Wait]] = {}
        for number, step in enumerate(steps):
            rewritten += self.waited(due.pop(number, []))
            match step:
                case Branch():
                    rewritten.append(
                        replace(step, then=self.block(step.then), otherwise=self.block(step.otherwise))
                    )
                case While():
                    rewritten.append(
                        replace(step, condition=self.block(step.condition), body=self.block(step.body))
                    )
                case For():
                    rewritten.append(replace(step, body=self.block(step.body)))
                case Host() if _starts(step):
                    needed = self.first_use(steps, number)
                    between = walk(steps[number + 1 : needed])
                    is_worth = any(isinstance(other, Launch) for other in between)
                    later = is_worth and self.free
                    rewritten.append(self.started(step, due.setdefault(needed, [])) if later else step)
                case _:
                    rewritten.append(step)
        for waits in due.values():
            rewritten += self.waited(waits)
        return tuple(rewritten)

    def started(self, step: Host, due: list[Wait]) -> Host:
        call, ticket = step.call, self.free.pop()
        assert call is not None  # noqa: S101 - it starts a collective
        due.append(Wait((step.inputs[0], step.outputs[0]), ticket, step.op.name))
        return replace(step, call=replace(call, integers=(*call.integers[:-1], ticket)))

    def waited(self, waits: Sequence[Wait]) -> Sequence[Wait]:
        self.free += [wait.ticket for wait in waits]
        return waits

    def first_use(self, steps: Steps, number: int) -> int:
        """Where what a collective makes is first needed, or what it sends is written over; else the end of the block."""
        step = steps[number]
        assert isinstance(step, Host)  # noqa: S101 - asked for collectives alone
        received, sent = ({self.base(buffer) for buffer in ends} for ends in (step.outputs, step.inputs))
        for later in range(number + 1, len(steps)):
            for inner in walk((steps[later],)):
                written = {
                    self.base(buffer) for buffer, is_written in uses(inner, self.written) if is_written
                }
                if received & {self.base(buffer) for buffer in touched(inner)} or sent & written:
                    return later
                if isinstance(inner, SwapPointers) and sent & {inner.first, inner.second}:
                    return later
        return len(steps)

    def base(self, buffer: int) -> int:
        return self.bases.get(buffer, buffer)


def touched(step: Step) -> tuple[int, ...]:
    """The buffers that a step itself has to do with."""
    match step:
        case Launch() | Wait():
            return step.buffers
        case Copy(source, target):
            return source, target
        case SwapPointers(first, second):
            return first, second
        case View(buffer, base):
            return buffer, base
        case Host():
            return (*step.inputs, *step.outputs, *step.constants, *step.scratch)
        case Branch():
            return (step.predicate,)
        case While():
            return (step.flag,)
        case For():
            return ()
        case _:
            return (step.buffer,)


__all__ = ["STARTED", "TICKETS", "overlapped", "touched", "without_ticket"]

"""Templates: ways to schedule kernels. Each looks at a nest and offers candidates; the cost model says which is taken.

Recognising is cheap, making a schedule is not (ten milliseconds): so a candidate is offered first, and made only if it may win. It is
made on a copy of the draft, so that one that fails half-way leaves no trace. Where one candidate is all there is nothing is compared;
and one that comes near to what the machine does at best, or is done in the time of a launch, has no rivals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from planish.optimize.cost import estimate, least_cycles
from planish.optimize.draft import Draft
from planish.uop.nest.kernel import Nest
from planish.uop.nest.memory import local_bytes


class Candidate(NamedTuple):
    """A schedule that a template offers."""

    name: str
    make: Callable[[Draft], bool]
    """Schedules the kernel of a draft; false if it does not fit after all."""
    settled: bool = False
    """Whether none that comes later is made where it fits: what the model says of them is not sure enough."""


Template = Callable[[Draft, Nest], Iterable[Candidate]]
Finish = Callable[[Draft], None]
"""What every schedule ends with."""

_GOOD: Final = 1.4
"""How many times longer than its arithmetic and its memory alone a schedule may take that needs no rivals."""
_CLEARLY: Final = 0.9
"""What a schedule has to cost by that of a candidate before it: by less the model cannot tell two nests apart."""


def only(name: str, schedule: Callable[[Draft, Nest], bool], *, settled: bool = False) -> Template:
    """A template that offers one schedule, whatever the kernel."""
    return lambda draft, nest: [Candidate(name, lambda trial: schedule(trial, nest), settled)]


def _threads(draft: Draft) -> int:
    return draft.target.workers if draft.cores else 1


def _has_room(draft: Draft) -> bool:
    """Whether the threads of a block have the LOCAL memory that a schedule asks for, as a whole."""
    return (
        not draft.actions
        or not draft.target.block
        or local_bytes(draft.sink, final=True) <= draft.target.local_bytes
    )


def choose_best(
    draft: Draft, nest: Nest, templates: Sequence[Template], finish: Finish = lambda draft: None
) -> bool:
    """The cheapest candidate by the model, and of those that cost about the same the first; false, and nothing done, if none fits."""
    target, threads = draft.target, _threads(draft)
    offered = [each for template in templates for each in template(draft, nest)]
    best, least, enough = None, float("inf"), -1.0
    refused: set[str] = set()
    for number, candidate in enumerate(offered):
        trial = draft.copy()
        if not candidate.make(trial) or not _has_room(trial):
            refused.add(candidate.name)
            continue
        finish(trial)
        trial.template = candidate.name
        if best is None and (candidate.settled or number == len(offered) - 1):
            best = trial
            break
        cycles = estimate(trial.sink, target, threads=threads).cycles
        if cycles < _CLEARLY * least:
            best, least = trial, cycles
        if enough < 0:
            enough = max(_GOOD * least_cycles(nest, target) / threads, target.launch)
        if cycles <= enough:
            break
    if best is not None:
        best.refused = frozenset(refused)
        draft.adopt(best)
    return best is not None


def every_candidate(
    draft: Draft, nest: Nest, templates: Sequence[Template], finish: Finish
) -> Iterator[tuple[str, Draft]]:
    """All schedules that fit, also those that choosing leaves out, with their names."""
    for template in templates:
        for candidate in template(draft, nest):
            trial = draft.copy()
            if candidate.make(trial) and _has_room(trial):
                finish(trial)
                yield candidate.name, trial

"""Candidates: schedules of one kernel, each made by a template; the cost model says which is taken.

A template is tried on a copy of the draft, so that one that fails half-way leaves no trace. Making a schedule takes time: whoever comes
near to what the machine does at best has no rivals, and where there is one template there is nothing to compare.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from planish.optimize.body import multiplying
from planish.optimize.cost import estimate
from planish.optimize.draft import Draft
from planish.uop.nest.kernel import Nest

Template = Callable[[Draft, Nest], bool]
"""Schedules a kernel; false if it is none of its kind, or does not fit."""

_GOOD: Final = 1.3
"""How many times longer than its products alone a schedule may take that needs no rivals."""


_CLEARLY: Final = 0.85
"""What a schedule has to cost by that of a template before it: by less the model cannot tell two nests apart."""


def best_of(draft: Draft, view: Nest, templates: Sequence[Template]) -> bool:
    """The cheapest schedule that one of several templates makes, by the model; false, and nothing done, if none does.

    Of schedules that cost about the same, that of the template named first.
    """
    target = draft.target
    threads = target.workers if draft.cores else 1
    enough = _GOOD * multiplying(target, view.work) / threads
    best, least = None, float("inf")
    for template in templates:
        trial = draft.copy()
        if not template(trial, view):
            continue
        if len(templates) == 1:
            best = trial
            break
        cycles = estimate(trial.sink, target, threads=threads).cycles
        if cycles < _CLEARLY * least:
            best, least = trial, cycles
        if cycles <= enough:
            break
    if best is not None:
        draft.adopt(best)
    return best is not None

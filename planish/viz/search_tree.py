"""A schedule search as a tree: below a schedule are those that have one action more, tried or only on the way to others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planish.optimize.searched import Attempted, Outcome, Search
from planish.viz.schema import BeamNode, ScheduleSearch

ON_THE_WAY: Final = "on the way to others"
_REFUSALS: Final = 40
"""Reasons that are told, the commonest first."""


def tree_of(search: Search, chosen: Sequence[str], cycle_us: float) -> ScheduleSearch:
    """What a search saw; the schedule that the kernel got is marked all along its way."""
    tried = {tuple(map(str, trial.actions)): trial for trial in search.trials}
    places: dict[tuple[str, ...], int] = {(): 0}
    for steps in tried:
        for length in range(1, len(steps) + 1):
            places.setdefault(steps[:length], len(places))
    nodes = []
    for steps, number in places.items():
        trial = tried.get(steps)
        nodes.append(
            BeamNode(
                number,
                places[steps[:-1]] if steps else None,
                steps[-1] if steps else "no actions",
                "; ".join(steps),
                None if trial is None else round(trial.expected * cycle_us, 3),
                None if trial is None else _measured_us(trial),
                tuple(chosen[: len(steps)]) == steps,
                ON_THE_WAY if trial is None else _outcome(trial),
            )
        )
    refusals = dict(search.refusals.most_common(_REFUSALS))
    return ScheduleSearch(
        nodes, search.considered, search.rounds, round(search.elapsed, 3), search.ended, refusals
    )


def _measured_us(trial: Attempted) -> float | None:
    right = trial.measured.outcome is Outcome.RIGHT
    return round(trial.measured.seconds * 1e6, 3) if right else None


def _outcome(trial: Attempted) -> str:
    detail = trial.measured.detail
    return trial.measured.outcome.name.lower() + (f": {detail}" if detail else "")

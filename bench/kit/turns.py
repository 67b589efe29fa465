"""Who is faster, on a machine that others use too: sides take short turns, and what counts is a ratio within a round.

Everybody takes a few turns (*heats*); those that come near the fastest peer, and we, go on with many *rounds*, in each of which
everyone has one turn, in an order drawn by lot. Whatever slows the machine down for longer than a round slows all of it, so the
ratio of two turns of one round is steadier than that of two medians of all. Reported is the median of these ratios against each
rival, and of the rivals the one against whom it is worst for us.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import sleep

from .process import Side

PAUSE = 0.05
"""Seconds before a turn: threads of others that still wait for work give up meanwhile."""
TURN = 0.05
"""Seconds of a turn."""
HEATS = 2
NEAR = 1.4
"""How many times slower than the fastest peer a rival may be in the heats."""
RIVALS = 3
"""How many peers go on at most."""


@dataclass(slots=True)
class Result:
    """What one side did with a workload."""

    first: float
    """Seconds of the first call, compiling included."""
    error: float
    """The largest error by the largest value."""
    samples: list[float] = field(default_factory=list)
    heats: list[float] = field(default_factory=list)
    """The median of each turn that everybody took."""
    rounds: list[float] = field(default_factory=list)
    """The median of the turn of each round; empty if it did not go on."""

    @property
    def seconds(self) -> float:
        """The median of all samples."""
        return median(self.samples) if self.samples else float("nan")


Row = dict[str, Result]
"""By side."""


def compete(sides: Sequence[Side], workload: str, ours: Collection[str], rounds: int, allowed: float) -> Row:
    """All sides that do a workload, ours and the fastest peers for many rounds. Who errs by more than `allowed` is no rival."""
    row: Row = {}
    for side in sides:
        answer = side.ask("prepare", workload=workload)
        if "failed" in answer:
            print(f"  {side.name}: {answer['failed']}", file=sys.stderr)
        if "error" in answer:
            row[side.name] = Result(answer["first"], answer["error"])
    able = [side for side in sides if side.name in row]
    for _ in range(HEATS):
        for name, samples in _round(able).items():
            row[name].samples += samples
            row[name].heats.append(median(samples))
    right = [n for n in row if n not in ours and row[n].error <= allowed and row[n].heats]
    on = {*ours, *rivals({name: min(row[name].heats) for name in right})}
    able = [side for side in able if side.name in on and row[side.name].heats]
    for _ in range(rounds):
        for name, samples in _round(able).items():
            row[name].samples += samples
            row[name].rounds.append(median(samples))
    return row


def _round(sides: list[Side]) -> dict[str, list[float]]:
    """A turn for everyone, in any order."""
    by_side = {}
    for side in random.sample(sides, len(sides)):
        sleep(PAUSE)
        times = side.ask("turn", seconds=TURN).get("times")
        if times:
            by_side[side.name] = times
    return by_side


def rivals(peers: dict[str, float]) -> list[str]:
    """Who goes on: those near the fastest."""
    order = sorted(peers, key=peers.__getitem__)
    return [name for name in order if peers[name] <= NEAR * peers[order[0]]][:RIVALS]


def ratio(row: Row, one: str, other: str) -> float:
    """The time of one side by that of another: the median over rounds."""
    pairs = zip(row[one].rounds, row[other].rounds, strict=False)
    return median([a / b for a, b in pairs])


def hardest(row: Row, one: str, ours: Collection[str]) -> tuple[float, str] | None:
    """Our time by that of the rival against whom it is worst, and that rival; None if there is none."""
    if one not in row or not row[one].rounds:
        return None
    against = {n: ratio(row, one, n) for n in row if n not in ours and row[n].rounds}
    worst = max(against, key=against.__getitem__, default=None)
    return None if worst is None else (against[worst], worst)

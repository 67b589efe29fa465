"""How well the cost model ranks schedules: its estimates against measured times, and what it costs to choose by it alone.

    python bench/cost_model.py [--quick] [--kernels product] [--schedules 6] [--seed 0] [--times FILE] [--json FILE]

The kernels are those of the programs in `kit/kernels.py`; schedules are the heuristic's, what it would do on other machines, and steps
of the search from these and from nothing. Each is compiled and timed in the sandbox of the search on one thread, the least of several
runs. Figures, all of ranks (Spearman) or ratios:

* **over all**: of all pairs of kernel and schedule together. That a large kernel takes longer than a small one counts here.
* **within kernels**: the same after estimates and times are divided by their means for each kernel: only schedules are compared.
* **chosen / best**: how much longer than the fastest of a kernel's schedules the one takes that the model would choose.

`--times FILE` keeps what was measured: only what is not in it is measured, so that another model is judged in a minute.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

from kit.kernels import programs

import planish as pn
from planish import compiler
from planish.actions.base import Action, OneAxis
from planish.actions.tensor_core import TensorCore
from planish.actions.thread import Thread
from planish.compiler.device_kinds import kind_for
from planish.compiler.scheduling import FIRST, after_choice
from planish.compiler.tolerance import places_of
from planish.compiler.tuning import checked
from planish.errors import PlanishError
from planish.optimize.cost import estimate
from planish.optimize.moves import other_amounts, relatives, resized, without
from planish.optimize.space import candidates, obstacle, overfull
from planish.runtime.sandbox import Sandbox
from planish.schedule.planner import plan
from planish.stages import pipeline
from planish.stages.rangeify.attempts import attempts
from planish.target import Target, host
from planish.uop.nest import axes_of, axis_named, name_of
from planish.uop.node import Table, UOp

_STEPS = 3
"""Actions of a random walk, at most."""
_QUICK = 8
"""With `--quick`, one kernel of so many is looked at."""
Schedule = tuple[Action, ...]


def kernels(wanted: str, target: Target) -> Iterator[tuple[str, UOp]]:
    """The kernels of all programs that are named so, as they come to stage 7; each lives until the next is asked for."""
    seen: set[bytes] = set()
    for name, function, arguments in programs():
        if wanted in name:
            yield from kernels_of(name, function, arguments, target, seen)


def kernels_of(
    name: str,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    target: Target,
    seen: set[bytes] | None = None,
) -> Iterator[tuple[str, UOp]]:
    """The kernels of one program that were not seen before."""
    machine = pipeline.Machine(target, lambda sink: ())
    seen = set() if seen is None else seen
    captured = compiler.prepare(
        pn.jit(function).lower(*arguments).function, compiler.PIPELINE, routines=target.routines
    )
    with Table() as table:
        for number, kernel in enumerate(plan(captured, table, target=target).kernels):
            sink = kernel.sink
            for stage in pipeline.STAGES:
                if stage.number < FIRST:
                    sink = stage.run(sink, machine)
            if sink.key not in seen:
                seen.add(sink.key)
                yield f"{name} #{number}", sink


@dataclass(slots=True)
class Walks:
    """Schedules of one kernel, no two the same."""

    sink: UOp
    target: Target
    rng: random.Random
    by_sink: dict[UOp, Schedule] = field(default_factory=dict)

    def replay(self, schedule: Schedule) -> UOp | None:
        attempt, now = checked(self.sink, self.target), self.sink
        for number, action in enumerate(schedule):
            after = attempt(now, action, schedule[:number])
            if isinstance(after, str):
                return None
            now = after
        return None if overfull(now, self.target) else now

    def add(self, schedule: Schedule) -> None:
        after = self.replay(schedule)
        if after is not None:
            self.by_sink.setdefault(after, schedule)

    def schedules(self, count: int) -> dict[UOp, Schedule]:
        """The heuristic's, some of its relatives', then steps from any of them."""
        known = [
            tuple(a for a in each if not isinstance(a, Thread))
            for each in relatives(self.sink, self.target, attempts(self.target))
        ]
        first = _heuristic(self.sink, self.target)
        self.add(first)
        self.rng.shuffle(known)
        for each in known[: count // 3]:
            self.add(each)
        for _ in range(4 * count):
            if len(self.by_sink) >= count:
                break
            start = self.rng.choice([first, first, (), *known])
            self.add(self.changed(start) if start and self.rng.random() < 0.6 else self._walked(start))
        return self.by_sink

    def changed(self, schedule: Schedule) -> Schedule:
        """Without one action, or with another amount of it."""
        place = self.rng.randrange(len(schedule))
        if self.rng.random() < 0.3:
            return without(schedule, place)
        before = self.replay(schedule[:place])
        action = schedule[place]
        axis = axis_named(before, action.axis) if before is not None and isinstance(action, OneAxis) else None
        size = 0 if axis is None else axis.vmax + 1
        amounts = other_amounts(self.target, action, size)
        if not amounts:
            return schedule
        several = list(resized(schedule, place, self.rng.choice(amounts)))
        return next((each for each in several if self.replay(each) is not None), schedule)

    def _walked(self, schedule: Schedule) -> Schedule:
        """A part of it, and some actions more."""
        taken = list(schedule[: self.rng.randint(0, len(schedule))])
        now = self.replay(tuple(taken))
        attempt = checked(self.sink, self.target)
        for _ in range(self.rng.randint(1, _STEPS)):
            if now is None:
                break
            axes = {name_of(r): r for r in axes_of(now)}
            fitting = [a for a in candidates(now, self.target) if obstacle(axes, a) is None]
            action = self.rng.choice([a for a in fitting if not isinstance(a, Thread | TensorCore)])
            after = attempt(now, action, taken)
            if isinstance(after, UOp):
                now = after
                taken.append(action)
        return tuple(taken)


def _heuristic(sink: UOp, target: Target) -> Schedule:
    from planish.optimize.heuristic import choose

    return tuple(choose(sink, target, attempts(target), cores=False))


# -- measuring -------------------------------------------------------------------------------------------------------


class Times:
    """Seconds of scheduled kernels, those of earlier runs included."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known: dict[str, float | None] = {}
        if path is not None and path.exists():
            self.known = json.loads(path.read_text())
        self.sandbox: Sandbox | None = None
        self.target = host()

    def of(self, sink: UOp, schedules: dict[UOp, Schedule]) -> dict[UOp, float]:
        """The seconds of each schedule that could be run."""
        missing = {after: taken for after, taken in schedules.items() if after.key.hex() not in self.known}
        if missing:
            places = places_of(sink)
            if self.sandbox is None:
                self.sandbox = Sandbox(places, 1, workers=1, environment={"PLANISH_CACHE": "0"}).__enter__()
            else:
                self.sandbox.use(places)
            for after, taken in missing.items():
                self.known[after.key.hex()] = self._measured(sink, taken)
            if self.path is not None:
                self.path.write_text(json.dumps(self.known))
        times = {after: self.known[after.key.hex()] for after in schedules}
        return {after: seconds for after, seconds in times.items() if seconds is not None}

    def _measured(self, sink: UOp, taken: Schedule) -> float | None:
        assert self.sandbox is not None
        try:
            program = after_choice(sink, taken, self.target)
            kernel = kind_for(self.target).trial(program, self.sandbox.setup.places, self.target)
        except PlanishError:
            return None
        (report,) = self.sandbox.time([kernel])
        return report.seconds if report.what == "right" else None

    def close(self) -> None:
        if self.sandbox is not None:
            self.sandbox.__exit__(None, None, None)


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel: estimates and times of its schedules, the heuristic's first."""

    name: str
    cycles: tuple[float, ...]
    seconds: tuple[float, ...]

    @property
    def loss(self) -> float:
        chosen = min(range(len(self.cycles)), key=self.cycles.__getitem__)
        return self.seconds[chosen] / min(self.seconds)

    @property
    def centred(self) -> Iterator[tuple[float, float]]:
        middle = fmean(map(log, self.cycles)), fmean(map(log, self.seconds))
        for cycles, seconds in zip(self.cycles, self.seconds, strict=True):
            yield log(cycles) - middle[0], log(seconds) - middle[1]


# -- figures ---------------------------------------------------------------------------------------------------------


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value; equal ones share theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    positions = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for place in order[first : last + 1]:
            positions[place] = (first + last) / 2
        first = last + 1
    return positions


def correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's, of two lists."""
    a, b = ranks(one), ranks(other)
    middle = (len(a) - 1) / 2
    top = sum((x - middle) * (y - middle) for x, y in zip(a, b, strict=True))
    below = sum((x - middle) ** 2 for x in a) * sum((y - middle) ** 2 for y in b)
    return top / below**0.5 if below else 1.0


def summary(cases: Sequence[Case]) -> dict[str, float]:
    """The figures of the header."""
    pairs = [pair for case in cases for pair in zip(case.cycles, case.seconds, strict=True)]
    inside = [pair for case in cases for pair in case.centred]
    return {
        "kernels": len(cases),
        "pairs": len(pairs),
        "over_all": correlation(*zip(*pairs, strict=True)),
        "within": correlation(*zip(*inside, strict=True)),
        "chosen": exp(fmean(log(case.loss) for case in cases)),
        "heuristic": exp(fmean(log(case.seconds[0] / min(case.seconds)) for case in cases)),
    }


def looked_at(args: argparse.Namespace) -> Iterator[Case]:
    target, times = host(), Times(args.times)
    total = sum(1 for _ in programs())
    try:
        for number, (name, sink) in enumerate(kernels(args.kernels, target)):
            if args.quick and number % _QUICK:
                continue
            if sys.stderr.isatty():
                print(f"\r{number:4}  of about {total}  {name:<60.60}", end="", file=sys.stderr, flush=True)
            schedules = Walks(sink, target, random.Random(f"{args.seed} {name}")).schedules(args.schedules)
            seconds = times.of(sink, schedules)
            if len(seconds) > 1:
                cycles = [estimate(after, target, threads=1).cycles for after in seconds]
                yield Case(name, tuple(cycles), tuple(seconds.values()))
    finally:
        times.close()
        if sys.stderr.isatty():
            print(file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"one kernel of {_QUICK}")
    parser.add_argument("--kernels", default="", help="only those whose name has this in it")
    parser.add_argument("--schedules", type=int, default=6, help="of each kernel")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worst", type=int, default=12, help="how many kernels are shown")
    parser.add_argument("--times", type=Path, help="where measured times are kept")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    cases = list(looked_at(args))
    if not cases:
        parser.error(f"no kernel has {args.kernels!r} in its name")
    print(f"{'the worst choices':<60} schedules  chosen / best  heuristic's / best")
    for case in sorted(cases, key=lambda case: -case.loss)[: args.worst]:
        own = case.seconds[0] / min(case.seconds)
        print(f"{case.name:<60.60} {len(case.seconds):9}  {case.loss:13.2f}  {own:18.2f}")
    figures = summary(cases)
    print(
        f"\n{figures['kernels']} kernels, {figures['pairs']} schedules on one thread of {host().name}"
        f"\nrank correlation of estimate and time  over all {figures['over_all']:.3f}  within kernels {figures['within']:.3f}"
        f"\nchosen by the model / best  {figures['chosen']:.3f} (geometric mean)  heuristic's / best  {figures['heuristic']:.3f}"
    )
    if args.json is not None:
        record = {**figures, "cases": [[c.name, c.cycles, c.seconds] for c in cases]}
        args.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()

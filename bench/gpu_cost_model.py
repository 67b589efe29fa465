"""How well the cost model ranks schedules for a GPU, and what it costs to choose by it: its estimates against measured times.

    python bench/gpu_cost_model.py --measure --times FILE [--seconds 480] [--kernels product]     # on a machine with a GPU
    python bench/gpu_cost_model.py --times FILE [--kernels product] [--json FILE]                 # anywhere

The kernels are those of the programs in `kit/gpu_kernels.py`; schedules are all that templates offer, what they would offer for other machines, and
these with one action less or another amount. Measuring needs a GPU, and writes what it has when time is over (or every now and then); judging does not, so that
another model is judged, and fitted, without one. Figures, all of ranks (Spearman) or ratios:

* **over all**, **within kernels**: as in `cost_model.py`.
* **judge**: how much longer than the fastest schedule that templates offer the one takes that `choose_best` takes with these prices; **first**: the first that fits.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

from cost_model import Case, Walks, kernels_of, summary
from kit import gpu_kernels
from kit.gpu_kernels import FAMILIES, Program
from kit.gpu_times import BuiltKernel, Deadline, Measurer, built

from planish.actions.text import parse_schedule, print_schedule
from planish.compiler.tolerance import places_of
from planish.optimize.cost import estimate
from planish.optimize.draft import Draft
from planish.optimize.gpu.choose import GPU
from planish.optimize.heuristic import choose
from planish.optimize.templates import choose_best, every_candidate
from planish.runtime.sandbox import TrialBuffer
from planish.stages.rangeify.attempts import attempts
from planish.target import TARGETS, Target
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp

TARGET = TARGETS["sm_90"]
_VARIANTS = 5
"""Of each kernel, schedules besides those of templates."""
_HOPELESS = 100.0
"""How many times more than the cheapest a schedule may cost by the model to be measured at all."""
_KEPT = 60.0
"""Seconds after which what was measured so far is written."""
_TRIED = 4
"""Kernels after which it is given up if nothing could be run."""
_VARIED = ("other machine", "neighbour")
"""What schedules are called that no template offers."""
_MACHINES: Sequence[Callable[[Target], Target]] = (
    lambda t: replace(t, workers=t.workers // 4),
    lambda t: replace(t, workers=t.workers * 4),
    lambda t: replace(t, block_threads=256),
    lambda t: replace(t, local_bytes=t.local_bytes // 4),
    lambda t: replace(t, tensor_cores=tuple(core for core in t.tensor_cores if not core.reads_memory)),
)


class Offered(NamedTuple):
    """A schedule of a kernel, and the kernel with it; `label`: a template, or how it was varied."""

    label: str
    actions: tuple[Any, ...]
    sink: UOp


def offered(sink: UOp, target: Target, rng: random.Random, variants: int) -> list[Offered]:
    """All that templates offer, in order, then some variants; no two the same."""
    by_sink: dict[UOp, Offered] = {}
    draft = Draft(sink, target, attempts(target), cores=False)
    for name, trial in every_candidate(draft, Nest.of(sink), GPU, lambda draft: None):
        by_sink.setdefault(trial.sink, Offered(name, tuple(trial.actions), trial.sink))
    walks = Walks(sink, target, rng)
    most = len(by_sink) + variants
    for machine in _MACHINES:
        actions = tuple(choose(sink, machine(target), attempts(target)))
        after = walks.replay(actions)
        if after is not None and len(by_sink) < most:
            by_sink.setdefault(after, Offered(_VARIED[0], actions, after))
    starts = [each.actions for each in by_sink.values() if each.actions]
    for _ in range(4 * variants):
        if len(by_sink) >= most or not starts:
            break
        actions = walks.changed(rng.choice(starts[:1] * 2 + starts))
        after = walks.replay(actions)
        if after is not None:
            by_sink.setdefault(after, Offered(_VARIED[1], actions, after))
    return list(by_sink.values())


def _promising(schedules: list[Offered]) -> list[Offered]:
    """Without those that are certainly too slow to be timed."""
    cycles = [estimate(each.sink, TARGET).cycles for each in schedules]
    return [each for each, own in zip(schedules, cycles, strict=True) if own <= _HOPELESS * min(cycles)]


# -- measuring -------------------------------------------------------------------------------------------------------


class _Made(NamedTuple):
    name: str
    family: str
    below: int
    places: tuple[TrialBuffer, ...]
    kernels: list[BuiltKernel]


def _programs(*, benchmarks: bool) -> list[Program]:
    if not benchmarks:
        return list(gpu_kernels.programs())
    from kit.gpu_benchmarks import programs  # they want torch

    return list(programs())


def _family(program: Program) -> str:
    longest_first = sorted(FAMILIES, key=len, reverse=True)
    return next((FAMILIES[name] for name in longest_first if program.name.startswith(name)), "benchmarks")


def _build(job: tuple[int, int, bool]) -> list[_Made]:
    """All kernels of a program with all their schedules, as code."""
    number, variants, benchmarks = job
    program = _programs(benchmarks=benchmarks)[number]
    try:
        return list(_built(program, variants))
    except Exception as problem:  # noqa: BLE001 - a program that fails is told, and the others go on
        print(f"{program.name}: {type(problem).__name__}: {str(problem).splitlines()[0][:200]}", flush=True)
        return []


def _built(program: Program, variants: int) -> Iterator[_Made]:
    for name, sink in kernels_of(program.name, program.function, program.arguments, TARGET):
        places = places_of(sink)
        schedules = _promising(offered(sink, TARGET, random.Random(name), variants))
        kernels = [
            built(sink, each.actions, each.label, print_schedule(each.actions), places, TARGET)
            for each in schedules
        ]
        yield _Made(name, _family(program), program.below, places, kernels)


def measure(args: argparse.Namespace) -> None:
    """Build and measure what is not in the file yet, as long as there is time."""
    known: dict[str, Any] = json.loads(args.times.read_text()) if args.times.exists() else {}
    numbers = [
        n for n, program in enumerate(_programs(benchmarks=args.benchmarks)) if args.kernels in program.name
    ]
    random.Random(0).shuffle(numbers)  # of every kind some, if time is over early
    deadline, saved, measurer = Deadline(args.seconds), Deadline(_KEPT), Measurer()
    context = multiprocessing.get_context("spawn")
    with context.Pool(args.processes, maxtasksperchild=20) as pool:
        coming = pool.imap_unordered(_build, [(n, args.variants, args.benchmarks) for n in numbers])
        for done in range(len(numbers)):
            try:
                several = coming.next(timeout=max(deadline.at - time.monotonic(), 0.1))
            except multiprocessing.TimeoutError:
                break
            for case in several:
                if case.name in known or args.build_only:
                    known.setdefault(case.name, {"schedules": [{"error": k.error} for k in case.kernels]})
                    continue
                results = measurer.measure(case.places, case.below, case.kernels)
                rows = [
                    {"label": kernel.label, "actions": kernel.actions, **result}
                    for kernel, result in zip(case.kernels, results, strict=True)
                ]
                known[case.name] = {"family": case.family, "schedules": rows}
                if len(known) == _TRIED and all(
                    "error" in row for each in known.values() for row in each["schedules"]
                ):
                    deadline = Deadline(0)  # nothing works here
            if saved.is_over:
                args.times.write_text(json.dumps(known))
                saved = Deadline(_KEPT)
                print(f"{done + 1} of {len(numbers)} programs, {len(known)} kernels", flush=True)
            if deadline.is_over:
                break
        pool.terminate()
    measurer.close()
    args.times.write_text(json.dumps(known))
    rows = [row for each in known.values() for row in each["schedules"]]
    wrong = [row for row in rows if row.get("error")]
    print(f"{len(known)} kernels, {len(rows)} schedules, {len(wrong)} of them failed")
    for row in wrong[:20]:
        print(f"  {row.get('label')} {row.get('actions', '')[:90]}: {row['error'][:160]}")


# -- judging ---------------------------------------------------------------------------------------------------------


class Choice(NamedTuple):
    """How much longer than the fastest of what templates offer the judge's choice takes for a kernel, and the first that fits."""

    name: str
    template: str
    """The first that fits."""
    chosen: str
    judge: float
    first: float


class Judged(NamedTuple):
    """One kernel: estimates and times of all of its schedules, and the choice if there was one."""

    case: Case
    choice: Choice | None


def judged(program: Program, known: dict[str, Any]) -> Iterator[Judged]:
    """The kernels of a program that were measured."""
    for name, sink in kernels_of(program.name, program.function, program.arguments, TARGET):
        rows = known.get(name, {}).get("schedules", ())
        walks = Walks(sink, TARGET, random.Random(0))
        times: dict[UOp, tuple[str, float]] = {}
        for row in rows:
            after = walks.replay(parse_schedule(row["actions"]))
            if "seconds" in row and after is not None:
                times.setdefault(after, (row["label"], row["seconds"]))
        if not times:
            continue
        cycles = [estimate(after, TARGET).cycles for after in times]
        case = Case(name, tuple(cycles), tuple(seconds for _, seconds in times.values()))
        yield Judged(case, _choice(name, sink, times))


def _choice(name: str, sink: UOp, times: dict[UOp, tuple[str, float]]) -> Choice | None:
    offers = {after: each for after, each in times.items() if each[0] not in _VARIED}
    draft = Draft(sink, TARGET, attempts(TARGET), cores=False)
    choose_best(draft, Nest.of(sink), GPU)
    if len(offers) < 2 or draft.sink not in offers:
        return None
    best = min(seconds for _, seconds in offers.values())
    label, seconds = next(iter(offers.values()))
    return Choice(name, label, draft.template, offers[draft.sink][1] / best, seconds / best)


def _mean(ratios: list[float]) -> float:
    return exp(fmean(map(log, ratios)))


def judge(args: argparse.Namespace) -> None:
    """Hold estimates against the times of a file."""
    known = json.loads(args.times.read_text())
    verdicts = [
        each
        for program in _programs(benchmarks=args.benchmarks)
        if args.kernels in program.name
        for each in judged(program, known)
    ]
    choices = [each.choice for each in verdicts if each.choice is not None]
    print(f"{'the worst choices':<60} first that fits                    judge / best  first / best")
    for one in sorted(choices, key=lambda each: -each.judge)[: args.worst]:
        print(f"{one.name:<60.60} {one.template:<34.34} {one.judge:12.2f} {one.first:13.2f}  {one.chosen}")
    print(f"\n{'first that fits':<42} kernels  judge / best  first / best (geometric means)")
    for template in dict.fromkeys(each.template for each in choices):
        here = [each for each in choices if each.template == template]
        means = _mean([each.judge for each in here]), _mean([each.first for each in here])
        print(f"{template:<42} {len(here):7} {means[0]:13.3f} {means[1]:13.3f}")
    figures = summary([each.case for each in verdicts if len(each.case.cycles) > 1])
    figures["judge"], figures["first"] = (
        _mean([each.judge for each in choices]),
        _mean([each.first for each in choices]),
    )
    print(
        f"\n{figures['kernels']} kernels, {figures['pairs']} schedules on {TARGET.name}"
        f"\nrank correlation of estimate and time  over all {figures['over_all']:.3f}  within kernels {figures['within']:.3f}"
        f"\n{len(choices)} kernels of several templates: judge / best {figures['judge']:.3f}  first / best {figures['first']:.3f}"
    )
    if args.json is not None:
        args.json.write_text(json.dumps({**figures, "choices": choices}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measure", action="store_true", help="on this machine's GPU")
    parser.add_argument("--build-only", action="store_true", help="compile everything, run nothing")
    parser.add_argument("--times", type=Path, required=True, help="where measured times are kept")
    parser.add_argument("--seconds", type=float, default=480.0, help="that measuring may take")
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--variants", type=int, default=_VARIANTS)
    parser.add_argument("--benchmarks", action="store_true", help="kernels of the benchmarks instead")
    parser.add_argument("--kernels", default="", help="only those whose name has this in it")
    parser.add_argument("--worst", type=int, default=12, help="how many kernels are shown")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.measure or args.build_only:
        measure(args)
    else:
        judge(args)


if __name__ == "__main__":
    main()

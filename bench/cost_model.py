"""How well the cost model ranks schedules: its order against measured times, for schedules of one kernel at a time.

    python bench/cost_model.py [--kernel matmul] [--schedules 40] [--json FILE]

For each kernel a walk through the action space gives schedules; each is compiled and timed in the sandbox of the search, on one
thread. Spearman's rank correlation of estimate and time is printed, and how much slower than the best of all the
schedule is that the model would have chosen alone.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from planish.compiler.scheduling import after_choice
from planish.compiler.tolerance import places_of
from planish.compiler.tuning import checked, kernel_of
from planish.errors import PlanishError
from planish.optimize.cost import estimate
from planish.optimize.heuristic import choose
from planish.optimize.space import actions, axes_of, obstacle, overfull
from planish.runtime import cpu
from planish.runtime.sandbox import Sandbox
from planish.stages.rangeify.attempts import attempts
from planish.target import host
from planish.uop.actions import Action, ActionKind
from planish.uop.node import Table, UOp
from tests.optimize.corpus import LARGE

_DEPTH = 6


def schedules(sink: UOp, count: int, seed: int) -> list[tuple[tuple[Action, ...], float]]:
    """Schedules on random walks from the empty one and from the heuristic's, each with its estimate."""
    rng = random.Random(seed)
    target = host()
    attempt = checked(sink, target)
    found: dict[UOp, tuple[tuple[Action, ...], float]] = {}
    start = tuple(choose(sink, target, attempts(target), cores=False))
    space = [a for a in actions(target) if a.kind not in {ActionKind.THREAD, ActionKind.TC}]
    while len(found) < count:
        taken: list[Action] = []
        now = sink
        for action in start[: rng.randint(0, len(start))]:
            after = attempt(now, action, taken)
            if isinstance(after, UOp):
                now = after
                taken.append(action)
        for _ in range(rng.randint(0, _DEPTH - 2)):
            axes = axes_of(now)
            action = rng.choice([a for a in space if obstacle(now, axes, a, target) is None])
            after = attempt(now, action, taken)
            if isinstance(after, UOp) and not overfull(after, target):
                now = after
                taken.append(action)
        found.setdefault(now, (tuple(taken), estimate(now, target, threads=1).cycles))
    return list(found.values())


def ranks(values: list[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    for place, index in enumerate(order):
        found[index] = float(place)
    return found


def correlation(one: list[float], other: list[float]) -> float:
    a, b = ranks(one), ranks(other)
    middle = (len(a) - 1) / 2
    top = sum((x - middle) * (y - middle) for x, y in zip(a, b, strict=True))
    return top / (sum((x - middle) ** 2 for x in a) or 1.0)


def compared(name: str, count: int, seed: int) -> dict[str, object]:
    target = host()
    with Table() as table:
        sink = LARGE[name](table)
        places = places_of(sink)
        expected: list[float] = []
        times: list[float] = []
        with Sandbox(places, 1, workers=1) as sandbox:
            for taken, cycles in schedules(sink, count, seed):
                try:
                    kernel = kernel_of(after_choice(sink, taken, target), places, cpu.processor(target))
                except PlanishError:
                    continue
                (report,) = sandbox.time([kernel])
                if report.what == "right":
                    expected.append(cycles)
                    times.append(report.seconds)
    chosen = times[min(range(len(times)), key=expected.__getitem__)]
    return {
        "name": name,
        "schedules": len(times),
        "correlation": round(correlation(expected, times), 3),
        "loss": round(chosen / min(times), 2),
        "range": round(max(times) / min(times), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernel", choices=LARGE, action="append")
    parser.add_argument("--schedules", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    print(f"{'kernel':<20} schedules  correlation  model's choice / best  slowest / best")
    for name in args.kernel or LARGE:
        row = compared(name, args.schedules, args.seed)
        rows.append(row)
        print(
            f"{name:<20} {row['schedules']:9}  {row['correlation']:11}  {row['loss']:21}  {row['range']:14}",
            flush=True,
        )
    if args.json is not None:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

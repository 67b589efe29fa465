"""How fast compiled functions run on this CPU, beside every peer that is installed, and beside what the machine can do.

    python bench/cpu.py [--threads 2,1] [--only softmax,matmul_512] [--peers torch,jax] [--rounds 12] [--json FILE]
    python bench/cpu.py --beam 4 [--budget 10] [--total 600] [--store DIR]

Every side is a process of its own that keeps freed memory; within a workload they take short turns in an order drawn by lot, after
a pause so that no one's waiting threads disturb the next, and a few calls that do not count. Milliseconds are medians of all
samples. Ratios are our time by a peer's *in the same round*, the median over all rounds, against the peer for which it is
worst: below 1 we are ahead of everyone. Results are compared with float64: `!` marks one that is off by more than 2e-5 of the
largest value (bf16: 1e-2). `limit` is what reading and writing all operands once, or the multiplications, would take at the rates
measured in the same run.

With `--beam` all kernels are searched for better schedules first (anew for each number of threads), `--budget` seconds each and `--total` in all, and `tuned` runs beside
`planish`, which stays with the heuristic. What was found is kept in `--store` (without it, for this run only): with the same
store, another run only measures.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from dataclasses import asdict
from math import exp, log
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from kit.limits import Limits
from kit.process import Side, lay_out
from kit.sides import MODULES, OURS, PEERS
from kit.turns import Row, compete, hardest
from kit.workloads import WORKLOADS

ALLOWED = {"f32": 2e-5, "bf16": 1e-2}
NAMES = tuple(side.name for side in OURS)


# -- searching ---------------------------------------------------------------------------------------------------------


class Bar:
    """How far the searches are: a line that is drawn again and again on a terminal, and once per workload elsewhere."""

    def __init__(self, workloads: list[str], total: float) -> None:
        self.workloads, self.total = workloads, total
        self.begin = monotonic()
        self.drawn = sys.stderr.isatty()

    def show(self, place: int, what: str, *, last: bool = False) -> None:
        """What is going on at the workload of that place."""
        if not self.drawn and not last:
            return
        width, seconds = 24, monotonic() - self.begin
        done = min(int(width * seconds / self.total), width)
        bar = f"[{'#' * done}{' ' * (width - done)}] {seconds:.0f} of at most {self.total:.0f} s"
        text = f"searching {bar}, {place + 1} of {len(self.workloads)} workloads, {self.workloads[place]}: {what}"
        sys.stderr.write(f"\r{text}\033[K" + ("\n" if last else "") if self.drawn else text + "\n")
        sys.stderr.flush()


def search(workloads: list[str], threads: int, folder: Path, extra: dict[str, str]) -> dict[str, list[Any]]:
    """Look for better schedules for all kernels of all workloads; by workload, what became of each kernel."""
    searches: dict[str, list[Any]] = {}
    bar = Bar(workloads, json.loads(extra["BENCH_SEARCH"])[2])
    tuner = Side("tuner", threads, folder, extra)
    for place, workload in enumerate(workloads):
        answer = tuner.ask(
            "search",
            workload=workload,
            told=lambda step, place=place: bar.show(place, f"{step['kernel']}, {step['gain']:.2f}x"),
        )
        searches[workload] = answer.get("kernels", [])
        told = [f"{kernel['gain']:.2f}x" for kernel in searches[workload] if kernel["replaced"]]
        kernels = f"{len(told)} of {len(searches[workload])} kernels replaced"
        bar.show(place, answer.get("failed") or f"{kernels} {' '.join(told)}", last=True)
    tuner.close()
    return searches


# -- the report --------------------------------------------------------------------------------------------------------


def table(rows: dict[str, Row], limits: dict[str, float], names: list[str]) -> dict[str, float]:
    """Print milliseconds and ratios; the geometric mean of the ratios of each of ours."""
    ours = [name for name in names if name in NAMES]
    print(
        f"{'workload':12}" + "".join(f"{n[:9]:>10}" for n in names) + f"{'limit':>9}{'GF/s':>7}{'GB/s':>7}"
        + "".join(f"{'ratio' if n == 'planish' else n:>8} {'to':11}" for n in ours)
    )  # fmt: skip
    ratios: dict[str, list[float]] = {name: [] for name in ours}
    for workload, row in rows.items():
        w = WORKLOADS[workload]
        limit = max(w.moved / limits[w.like], w.flops / limits["fma"]) / 1e9
        text = f"{workload:12}"
        for name in names:
            cell = row.get(name)
            text += (
                f"{'':>10}"
                if cell is None
                else (f"{cell.seconds * 1e3:9.3f}" + ("!" if cell.error > ALLOWED[w.dtype] else " "))
            )
        text += f"{limit * 1e3:9.3f}"
        if "planish" in row:
            seconds = row["planish"].seconds
            text += f"{w.flops / seconds / 1e9:7.0f}{w.moved / seconds / 1e9:7.1f}"
        for name in ours:
            against = hardest(row, name, NAMES)
            if against is not None:
                ratios[name].append(against[0])
                text += f"{against[0]:8.2f} {against[1]:11}"
        print(text)
    means = {}
    for name, values in ratios.items():
        means[name] = exp(sum(map(log, values)) / len(values)) if values else float("nan")
        print(
            f"{name}: geometric mean of our time by the best peer's {means[name]:.3f}; worst {max(values, default=0):.2f}"
        )
    first = [row["planish"].first for row in rows.values() if "planish" in row]
    if first:
        print(f"first calls: median {median(first) * 1e3:.0f} ms, longest {max(first) * 1e3:.0f} ms")
    return means


def summary(searches: dict[str, list[Any]]) -> str:
    """What the searches came to."""
    kernels = [kernel for each in searches.values() for kernel in each]
    replaced = [kernel for kernel in kernels if kernel["replaced"]]
    late = sum("no time" in kernel["origin"] for kernel in kernels)
    text = (
        f"searches: a winner replaced the heuristic's schedule for {len(replaced)} of {len(kernels)} kernels"
    )
    if replaced:
        text += (
            f", by {exp(sum(log(kernel['gain']) for kernel in replaced) / len(replaced)):.2f}x in the mean"
        )
    return text + (f"; for {late} no time was left" if late else "")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", default="2,1")
    parser.add_argument("--only", help="parts of names of workloads, separated by commas")
    parser.add_argument("--peers", help="peers, separated by commas; without it all that are installed")
    parser.add_argument("--rounds", type=int, default=12, help="turns of ours and of the fastest peers")
    parser.add_argument("--beam", type=int, default=0, help="search for schedules first, this wide")
    parser.add_argument("--budget", type=int, default=10, help="seconds of search for each kernel")
    parser.add_argument("--total", type=float, default=600, help="seconds of search in all")
    parser.add_argument("--store", type=Path, help="folder where what was found is kept")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def main() -> None:
    options = _options()
    peers = [side.name for side in PEERS] if options.peers is None else options.peers.split(",")
    there = [name for name in peers if name and importlib.util.find_spec(MODULES.get(name, name))]
    names = ["planish", *(["tuned"] if options.beam else []), *there]
    parts = options.only.split(",") if options.only else [""]
    workloads = [name for name in WORKLOADS if any(part in name for part in parts)]
    if not workloads:
        raise SystemExit(f"no workload is called {options.only}; there are {', '.join(WORKLOADS)}")
    threads = [int(t) for t in options.threads.split(",")]
    everything: dict[str, Any] = {}
    begin = monotonic()
    with tempfile.TemporaryDirectory(prefix="planish-bench-") as temporary:
        folder = Path(temporary)
        store = (options.store or folder / "winners").absolute()
        searches: dict[str, list[Any]] = {}
        kept = {"PLANISH_CACHE_DIR": str(store)}
        plan = {"BENCH_SEARCH": json.dumps([options.beam, options.budget, options.total])}
        for count in threads:
            if (
                options.beam
            ):  # a side has as many cores as threads: for another number of cores a winner is none
                searches = search(workloads, count, folder, kept | plan)
            limits = Limits().measure(count)
            rates = ", ".join(f"{k} {v:.1f}" for k, v in limits.items())
            print(f"\n{count} thread(s); limits: {rates} (GF/s, GB/s)")
            sides = [Side(name, count, folder, kept if name == "tuned" else {}) for name in names]
            rows: dict[str, Row] = {}
            for workload in workloads:
                print(f"  {monotonic() - begin:4.0f} s: {workload} …", file=sys.stderr)
                lay_out(workload, folder)
                allowed = ALLOWED[WORKLOADS[workload].dtype]
                rows[workload] = compete(sides, workload, NAMES, options.rounds, allowed)
            for side in sides:
                side.close()
            means = table(rows, limits, names)
            if searches:
                print(summary(searches))
            everything[str(count)] = {
                "searches": searches,
                "limits": limits,
                "rows": {w: {name: asdict(r) for name, r in row.items()} for w, row in rows.items()},
                "means": means,
            }
    print(f"all of it took {monotonic() - begin:.0f} s", file=sys.stderr)
    if options.json is not None:
        options.json.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main()

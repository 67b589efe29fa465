"""How fast compiled functions run on this CPU, beside every peer that is installed, and beside what the machine can do.

    python bench/cpu.py [--threads 1,2] [--only softmax,matmul_512] [--peers torch,jax] [--rounds 5] [--beam K] [--json FILE]

Every side is a process of its own that keeps freed memory; within a workload they take turns, with a pause so that no one's
waiting threads disturb the next. A figure is the median of all samples, a sample one call, finished. Results are compared with
float64: `!` marks one that is off by more than 2e-5 of the largest value (bf16: 1e-2). `limit` is what reading and writing
all operands once, or the multiplications, would take at the rates measured in the same run. The last column is our time
by the best peer's: below 1 we are ahead.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import subprocess
import sys
from math import exp, log
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
from kit.sides import MODULES, SIDES, Left, Reference
from kit.workloads import WORKLOADS

PAUSE = 0.05
BLOCK_SECONDS = 0.12
BLOCK_SAMPLES = 60
SHORT = 2e-4
"""Calls shorter than this are timed several at once."""
ALLOWED = {"f32": 2e-5, "bf16": 1e-2}


# -- one side: a process that answers lines of JSON ------------------------------------------------------------------


def _error(found: list[Any], wanted: list[Any]) -> float:
    worst = 0.0
    for a, b in zip(found, wanted, strict=True):
        if a.shape != b.shape:
            raise ValueError(f"shape {a.shape}, not {b.shape}")
        worst = max(worst, float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)))
    return worst


def _samples(run: Any) -> list[float]:
    begin = perf_counter()
    run()
    once = perf_counter() - begin
    inner = max(1, int(SHORT / max(once, 1e-7)))
    times: list[float] = []
    start = perf_counter()
    while len(times) < 3 or (perf_counter() - start < BLOCK_SECONDS and len(times) < BLOCK_SAMPLES):
        begin = perf_counter()
        for _ in range(inner):
            run()
        times.append((perf_counter() - begin) / inner)
    return times


def serve(name: str, threads: int) -> None:
    """Answer requests until there are no more."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    side = SIDES[name](threads)
    run: Any = None
    for line in sys.stdin:
        what, workload = line.split()
        answer: dict[str, Any] = {}
        try:
            if what == "prepare":
                run = None
                w = WORKLOADS[workload]
                arrays = w.arrays()
                begin = perf_counter()
                run = side.prepare(w, arrays)
                result = run()
                answer["first"] = perf_counter() - begin
                for _ in range(3):
                    result = run()
                wanted = Reference()
                reference = wanted.as_numpy(wanted.prepare(w, arrays)())
                answer["error"] = _error(side.as_numpy(result), reference)
                del result, reference
            else:
                answer["times"] = _samples(run)
        except Left:
            answer["left"] = True
        except Exception as problem:  # noqa: BLE001 - a peer may fail in any way; the run goes on
            answer["failed"] = f"{type(problem).__name__}: {problem}"[:300]
        print("\n@" + json.dumps(answer), flush=True)


class Side:
    """The other end of `serve`."""

    def __init__(self, name: str, threads: int, beam: int, folder: str) -> None:
        environment = os.environ | {
            "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads),
            "NUMBA_NUM_THREADS": str(threads), "NUMEXPR_NUM_THREADS": str(threads),
            "MALLOC_TRIM_THRESHOLD_": "8000000000", "MALLOC_MMAP_MAX_": "0", "MALLOC_TOP_PAD_": "268435456",
            "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16", "JAX_PLATFORMS": "cpu", "DEV": "CPU", "BENCH_BEAM": str(beam),
            "PLANISH_CACHE_DIR": folder, "TOKENIZERS_PARALLELISM": "false", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
        }  # fmt: skip
        command = [sys.executable, __file__, "--serve", name, "--threads", str(threads)]
        self.name = name
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True,
        )  # fmt: skip

    def ask(self, what: str, workload: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(f"{what} {workload}\n")
            self.process.stdin.flush()
            for line in self.process.stdout:
                if line.startswith("@"):
                    answer: dict[str, Any] = json.loads(line[1:])
                    return answer
        except BrokenPipeError:
            pass
        return {"failed": f"the process of {self.name} has ended"}

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


# -- the run -----------------------------------------------------------------------------------------------------------


def measure(sides: list[Side], workload: str, rounds: int) -> dict[str, dict[str, Any]]:
    """Median seconds, first call and error of each side that does a workload."""
    found: dict[str, dict[str, Any]] = {}
    times: dict[str, list[float]] = {}
    for side in sides:
        answer = side.ask("prepare", workload)
        if "failed" in answer:
            print(f"  {side.name}: {answer['failed']}", file=sys.stderr)
        if "error" in answer:
            found[side.name] = answer
            times[side.name] = []
    able = [side for side in sides if side.name in found]
    for _ in range(rounds):
        random.shuffle(able)
        for side in able:
            sleep(PAUSE)
            answer = side.ask("time", workload)
            times[side.name] += answer.get("times", [])
    for name, samples in times.items():
        found[name]["seconds"] = median(samples) if samples else float("nan")
        found[name]["best"] = min(samples, default=float("nan"))
    return found


def table(rows: dict[str, dict[str, dict[str, Any]]], limits: dict[str, float], names: list[str]) -> float:
    """Print milliseconds; the geometric mean of our time by the best peer's."""
    print(
        f"{'workload':12}"
        + "".join(f"{n[:9]:>10}" for n in names)
        + f"{'limit':>9}{'GF/s':>7}{'GB/s':>7}{'ratio':>7}"
    )
    ratios = []
    for workload, row in rows.items():
        w = WORKLOADS[workload]
        limit = max(w.moved / limits["copy"], w.flops / limits["fma"]) / 1e9
        text = f"{workload:12}"
        for name in names:
            cell = row.get(name)
            text += (
                f"{'':>10}"
                if cell is None
                else (f"{cell['seconds'] * 1e3:9.3f}" + ("!" if cell["error"] > ALLOWED[w.dtype] else " "))
            )
        text += f"{limit * 1e3:9.3f}"
        mine = row.get("planish")
        good = {n: c["seconds"] for n, c in row.items() if n != "planish" and c["error"] <= ALLOWED[w.dtype]}
        if mine is not None:
            text += f"{w.flops / mine['seconds'] / 1e9:7.0f}{w.moved / mine['seconds'] / 1e9:7.1f}"
            if good:
                best = min(good, key=good.__getitem__)
                ratios.append(mine["seconds"] / good[best])
                text += f"{ratios[-1]:7.2f} {best}"
        print(text)
    mean = exp(sum(map(log, ratios)) / len(ratios)) if ratios else float("nan")
    first = [row["planish"]["first"] for row in rows.values() if "planish" in row]
    print(
        f"geometric mean of our time by the best peer's: {mean:.3f}; worst {max(ratios, default=float('nan')):.2f}"
    )
    if first:
        print(f"first calls: median {median(first) * 1e3:.0f} ms, longest {max(first) * 1e3:.0f} ms")
    return mean


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", default="2,1")
    parser.add_argument("--only", help="workloads, separated by commas")
    parser.add_argument("--peers", help="peers, separated by commas; without it all that are installed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--beam", type=int, default=0, help="search for schedules, this wide")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, int(options.threads))
        return
    import tempfile

    from kit.limits import Limits

    wanted = options.peers.split(",") if options.peers is not None else [n for n in SIDES if n != "planish"]
    names = ["planish", *(n for n in wanted if n and importlib.util.find_spec(MODULES.get(n, n)))]
    everything: dict[str, Any] = {}
    for threads in (int(t) for t in options.threads.split(",")):
        limits = Limits().measure(threads)
        print(
            f"\n{threads} thread(s); limits: "
            + ", ".join(f"{k} {v:.1f}" for k, v in limits.items())
            + " (GF/s, GB/s)"
        )
        with tempfile.TemporaryDirectory(prefix="planish-bench-") as folder:
            sides = [Side(name, threads, options.beam, folder) for name in names]
            rows = {}
            for workload in options.only.split(",") if options.only else WORKLOADS:
                print(f"  {workload} …", file=sys.stderr)
                rows[workload] = measure(sides, workload, options.rounds)
            for side in sides:
                side.close()
        mean = table(rows, limits, names)
        everything[str(threads)] = {"limits": limits, "rows": rows, "mean": mean}
    if options.json is not None:
        options.json.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main()

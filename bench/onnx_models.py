"""Trained models beside onnxruntime: milliseconds per run, on one thread and on two.

    python bench/onnx_models.py --wheels DIR [--fetch] [--only NAME ...] [--threads 1 2] [--device cuda] [--json FILE] [--table]

Both sides run in turn in one process on the same inputs; an answer that is not the peer's is said instead of timed. `first`
is the time from the file to the first answer, with an empty cache of planish and with what that left there. Without the
wheels (`--fetch` downloads them) there is nothing to run, and the script says so. With `--device cuda` planish runs on the GPU,
and so does onnxruntime if it can; answers are held against onnxruntime's on the CPU.

`--table` writes the table of docs/onnx.md instead: processor time on one thread, each model in processes of its own, whose Python is
compiled as that of an installed package is.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
import report
from onnx_models_programs import MODELS, Trained, fetch

from planish.config import settings
from planish.onnx import load

_LIMIT = 1e-3


def session(data: bytes, threads: int, device: str = "cpu") -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 4
    there = [name for name in ("CUDAExecutionProvider",) if device != "cpu"]
    known = [name for name in there if name in onnxruntime.get_available_providers()]
    return onnxruntime.InferenceSession(data, options, providers=[*known, "CPUExecutionProvider"])


def milliseconds(call: Any, least: float = 0.2) -> float:
    """The median of as many runs as fit into a moment."""
    times, end = [], perf_counter() + least
    while len(times) < 3 or perf_counter() < end:
        begin = perf_counter()
        call()
        times.append(perf_counter() - begin)
    return float(np.median(times)) * 1e3


def error_of(ours: list[Any], theirs: list[Any]) -> float:
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if np.shape(a) != np.shape(b):
            return math.inf
        wide, other = np.asarray(a, np.float64), np.asarray(b, np.float64)
        if other.size:
            worst = max(worst, float(np.max(np.abs(wide - other)) / (np.max(np.abs(other)) + 1e-6)))
    return worst


def measure(model: Trained, folder: Path, threads: int, repeats: int, device: str) -> list[report.Row]:
    data, feeds = model.data(folder), model.feeds()
    begin = perf_counter()
    peer = session(data, threads, device)
    wanted = peer.run(None, feeds)
    peer_first = (perf_counter() - begin) * 1e3
    rows = []
    with tempfile.TemporaryDirectory() as cache, settings(threads=threads, cache_dir=cache):
        for state in ("cold", "cached"):
            begin = perf_counter()
            ours = load(data, device=device)
            got = ours.run(None, feeds)
            took = (perf_counter() - begin) * 1e3
            rows.append(
                report.Row(
                    f"{model.name} first, {state}",
                    threads,
                    took,
                    "ms",
                    "onnxruntime",
                    peer_first,
                    peer_first / took,
                    0.0,
                )
            )
        if device != "cpu":
            wanted = session(data, threads).run(None, feeds)
        error = error_of(got, wanted)
        if device != "cpu":
            print(f"{model.name}: {error:.1e} of the largest element apart from onnxruntime on the CPU")
        elif error > _LIMIT:
            print(f"{model.name}: {error:.1e} of the largest element apart from onnxruntime", file=sys.stderr)
        rows += report.compare(
            model.name,
            threads,
            "ms",
            lambda: milliseconds(lambda: ours.run(None, feeds)),
            {"onnxruntime": lambda: milliseconds(lambda: peer.run(None, feeds))},
            repeats,
        )
    return rows


def processor_time(call: Any) -> tuple[float, Any]:
    """Seconds of this process, and the result."""
    begin = process_time()
    result = call()
    return process_time() - begin, result


def one(name: str, folder: Path, kind: str, threads: int = 1) -> dict[str, float]:
    """What a process of its own measures of a model: its start, or (`steady`) also the least of runs in turn, in seconds."""
    model = next(each for each in MODELS if each.name == name)
    data, feeds = model.data(folder), model.feeds()
    if kind == "peer":
        return {"peer start": processor_time(lambda: session(data, threads).run(None, feeds))[0]}
    with settings(threads=threads):
        start, ours = processor_time(lambda: (loaded := load(data), loaded.run(None, feeds))[0])
        if kind == "cached":
            return {"cached": start}
        peer, least = session(data, threads), {"ours": math.inf, "peer": math.inf}
        end = perf_counter() + 2
        while perf_counter() < end:
            for side, run in (("ours", ours.run), ("peer", peer.run)):
                least[side] = min(least[side], processor_time(lambda run=run: run(None, feeds))[0])
    return {"first": start, **least}


def table(names: Sequence[str], folder: Path) -> None:
    """The table, as Markdown."""
    print("| model | ms | onnxruntime | ratio | first, s | cached, s | onnxruntime, s |")
    print("|---|---|---|---|---|---|---|")
    bytecode = str(folder / "bytecode")
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env |= {"PYTHONPYCACHEPREFIX": bytecode}

    def child(name: str, kind: str, cache: str) -> dict[str, float]:
        command = [sys.executable, __file__, "--wheels", str(folder), "--one", name, kind]
        known = {**env, "PLANISH_CACHE_DIR": cache}
        done = subprocess.run(command, capture_output=True, text=True, env=known, check=False)
        if done.returncode:
            print(f"{name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            return {}
        told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return told

    ratios, firsts = [], []
    for number, name in enumerate(names):
        seconds: dict[str, float] = {}
        if not number:  # who is first compiles Python, and is forgotten
            with tempfile.TemporaryDirectory() as cache:
                child(name, "cached", cache)
        with tempfile.TemporaryDirectory() as cache:
            for kind in ("steady", "cached", "peer"):
                seconds |= child(name, kind, cache)
        if len(seconds) < 5:
            continue
        ratios.append(seconds["ours"] / seconds["peer"])
        firsts.append(seconds["first"])
        times = f"{seconds['ours'] * 1e3:.2f} | {seconds['peer'] * 1e3:.2f} | {ratios[-1]:.2f}"
        print(
            f"| {name} | {times} | {seconds['first']:.1f} | {seconds['cached']:.3f} | {seconds['peer start']:.3f} |",
            flush=True,
        )
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(
            f"\nThe geometric mean of the ratios is {mean:.2f}; the first answer takes {np.mean(firsts):.1f} s in the mean."
        )


def main() -> None:
    options: argparse.ArgumentParser = report.parser(__doc__)
    options.add_argument("--wheels", type=Path, default=Path("bench/wheels"), help="where the wheels are")
    options.add_argument("--fetch", action="store_true", help="download the wheels first")
    options.add_argument("--only", nargs="*", help="these models alone")
    options.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    options.add_argument("--device", default="cpu", help="where planish runs")
    options.add_argument("--table", action="store_true", help="the table of docs/onnx.md, as Markdown")
    options.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.one:
        print(json.dumps(one(args.one[0], args.wheels, args.one[1])))
        return
    if args.fetch:
        args.wheels.mkdir(parents=True, exist_ok=True)
        fetch(args.wheels)
    try:
        import onnxruntime  # noqa: F401
    except ModuleNotFoundError:
        print("onnxruntime is not installed: nothing to compare with", file=sys.stderr)
        return
    if args.table:
        table([m.name for m in MODELS if not args.only or m.name in args.only], args.wheels.resolve())
        return
    rows: list[report.Row] = []
    for threads in args.threads:
        ratios = []
        for model in MODELS:
            if args.only and model.name not in args.only:
                continue
            try:
                of_model = measure(model, args.wheels, threads, args.repeats, args.device)
            except Exception as error:  # noqa: BLE001 - the others are measured all the same
                print(f"{model.name}: {error}", file=sys.stderr)
                continue
            rows += of_model
            ratios += [1 / row.ratio for row in of_model if row.name == model.name and row.ratio]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(
                f"{threads} threads: {mean:.2f} times onnxruntime's time, geometric mean of {len(ratios)} models"
            )
    report.finish(rows, args.json)


if __name__ == "__main__":
    main()

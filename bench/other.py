"""Programs that stand in no other benchmark: each beside torch, jax and onnxruntime in one process, worst first.

    python bench/other.py [--threads 1] [--only int8,norm] [--repeats 7] [--inductor] [--json FILE]

`--inductor` lets `torch.compile` take part, which takes it seconds for each.

Everyone computes the same from the same numbers, in turns, in an order drawn by lot; a figure is the least time of a call in any turn, and a ratio that of the
best peer by ours (above 1 is ahead). Results are compared with torch's in float64, integers bit by bit: `!` marks one that is off.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Sequence
from functools import partial
from math import exp, log
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
import report
import torch
from kit.programs import PROGRAMS, Program
from report import Row

import planish as pn

TURN = 0.02
"""Seconds of a turn."""
PAUSE = 0.02
"""Seconds before it: threads of others that still wait for work give up meanwhile."""
ALLOWED = 3e-5


def prepared(
    program: Program, given: list[Any], threads: int, inductor: bool
) -> dict[str, Callable[[], Any]]:
    """Everyone who computes a program, ready to be called."""
    sides: dict[str, Callable[[], Any]] = {}
    ours, arrays = pn.jit(program.ours), [pn.asarray(a) for a in given]
    sides["planish"] = lambda: ours(*arrays)
    tensors = [torch.from_numpy(a) for a in given]

    def by_torch(function: Callable[..., Any]) -> Any:
        if program.gradient:
            return function(*tensors)
        with torch.inference_mode():
            return function(*tensors)

    sides["torch"] = partial(by_torch, program.torch)
    if inductor:
        torch._dynamo.reset()
        sides["inductor"] = partial(by_torch, torch.compile(program.torch))
    if program.jax is not None:
        import jax

        function, values = jax.jit(program.jax), [jax.numpy.asarray(a) for a in given]
        sides["jax"] = lambda: jax.block_until_ready(function(*values))
    if program.onnx is not None:
        sides["onnxruntime"] = by_onnxruntime(program, given, threads)
    return sides


def by_onnxruntime(program: Program, given: list[Any], threads: int) -> Callable[[], Any]:
    """A model whose weights it knows beforehand."""
    import onnxruntime

    assert program.onnx is not None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(program.onnx(*given), options, ["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(given[0]))
    name = session.get_outputs()[0].name
    binding.bind_output(name)
    session.run_with_iobinding(binding)
    binding.bind_ortvalue_output(name, binding.get_outputs()[0])

    def run() -> Any:
        session.run_with_iobinding(binding)
        return binding.get_outputs()[0]

    return run


def as_arrays(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)):
        return [array for each in result for array in as_arrays(each)]
    if isinstance(result, torch.Tensor):
        return [result.detach().numpy()]
    return [np.asarray(result.numpy() if hasattr(result, "numpy") else result)]


def error(computed: list[Any], wanted: list[Any]) -> float:
    """The largest difference by the largest value; of integers any at all counts."""
    worst = 0.0
    for one, other in zip(computed, wanted, strict=True):
        if one.shape != other.shape:
            return float("inf")
        off = float(np.abs(one.astype(np.float64) - other.astype(np.float64)).max(initial=0))
        whole = np.issubdtype(one.dtype, np.integer)
        worst = max(worst, off if whole else off / max(float(np.abs(other).max(initial=0)), 1e-30))
    return worst


def turn(run: Callable[[], Any]) -> float:
    """Seconds of a call: the least of several."""
    sleep(PAUSE)
    run()
    begin = perf_counter()
    run()
    inner = max(1, int(2e-4 / max(perf_counter() - begin, 1e-7)))
    best, end = float("inf"), perf_counter() + TURN
    while perf_counter() < end or best == float("inf"):
        begin = perf_counter()
        for _ in range(inner):
            run()
        best = min(best, (perf_counter() - begin) / inner)
    return best


def measure(name: str, program: Program, repeats: int, threads: int, inductor: bool) -> list[Row]:
    """One row for each peer."""
    rng = np.random.default_rng(7)
    given = [make(rng) for make in program.inputs]
    exact = [torch.from_numpy(a.astype(np.float64) if a.dtype == np.float32 else a) for a in given]
    wanted = as_arrays(program.torch(*exact))
    sides = prepared(program, given, threads, inductor)
    wrong = {side: error(as_arrays(run()), wanted) > ALLOWED for side, run in sides.items()}
    figures: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(repeats):
        for side in random.sample(list(sides), len(sides)):
            figures[side].append(turn(sides[side]))
    best = {side: min(times) * 1e3 for side, times in figures.items()}
    mark = "!" if wrong["planish"] else ""
    rows = [
        Row(name + mark, 0, best["planish"], "ms", side, best[side], best[side] / best["planish"], 0.0)
        for side in sides
        if side != "planish" and not wrong[side]
    ]
    return [min(rows, key=lambda row: row.ratio or 0.0)] if rows else []


def main(arguments: Sequence[str] | None = None) -> None:
    options = report.parser(__doc__)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--only", default="", help="parts of names, separated by commas")
    options.add_argument("--leave", default="", help="parts of names that are left out")
    options.add_argument("--inductor", action="store_true")
    chosen = options.parse_args(arguments)
    wanted = chosen.only.split(",")
    unwanted = [part for part in chosen.leave.split(",") if part]
    # before anyone has started a thread: those to come are bound likewise
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: chosen.threads])
    os.environ["JAX_PLATFORMS"] = "cpu"
    torch.set_num_threads(chosen.threads)
    rows: list[Row] = []
    with pn.settings(threads=chosen.threads):
        for name, program in PROGRAMS.items():
            if any(part in name for part in wanted) and not any(part in name for part in unwanted):
                try:
                    rows += measure(name, program, chosen.repeats, chosen.threads, chosen.inductor)
                except Exception as problem:  # noqa: BLE001 - the others are measured all the same
                    print(f"{name}: {type(problem).__name__}: {str(problem)[:300]}", file=sys.stderr)
                else:
                    print(f"{rows[-1].ratio or 0:6.2f}x {rows[-1].ours:9.3f} ms  {name}", file=sys.stderr)
    report.finish(sorted(rows, key=lambda row: row.ratio or 0.0), chosen.json)
    ratios = [row.ours / row.peer for row in rows if row.peer]
    if ratios:
        mean, above = exp(sum(map(log, ratios)) / len(ratios)), sum(ratio > 1.3 for ratio in ratios)
        print(f"ours / best: geometric mean {mean:.2f} of {len(ratios)} programs, {above} above 1.3")


if __name__ == "__main__":
    main()

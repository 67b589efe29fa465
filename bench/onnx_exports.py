"""Exports by torch beside onnxruntime: milliseconds per run, on one thread and on two.

    python bench/onnx_exports.py [--only NAME ...] [--threads 1 2] [--repeats 5] [--json FILE]

Both sides run in turn in one process on the same inputs, the least of a turn counts, and of the turns the median: processor time on one
thread, wall time on more, with a pause before each turn, in which the workers of the other side go to sleep. An answer that is further from onnxruntime's than `_LIMIT` of the largest element is said; quantised models
are held against onnxruntime without its optimisations, since with them it rounds elsewhere.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import onnxruntime
import report
from onnx_exports_programs import EXPORTS, Export
from onnx_models import error_of

from planish.config import settings
from planish.onnx import load

_LIMIT = {"float": 1e-4, "half": 5e-3, "qdq": 1e-2, "operators": 1e-2, "dynamic": 1e-2}
"""By form: float32, products of halves that are summed in other orders, and bytes, of which one may be rounded the other way."""
_TURN, _PAUSE = 0.1, 0.02
"""Seconds of a turn, and before it."""
_GROUP = 2e-4
"""Seconds of calls that are timed as one."""


def session(data: bytes, threads: int, optimised: bool = True) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 4
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def least(call: Any, clock: Any) -> float:
    """Milliseconds of a call: the shortest group of calls of a turn, each of which lasts long enough for the clock."""
    sleep(_PAUSE)
    for _ in range(5):
        call()
    begin = perf_counter()
    call()
    together = max(1, int(_GROUP / (perf_counter() - begin)))
    best, end = math.inf, perf_counter() + _TURN
    while perf_counter() < end:
        begin = clock()
        for _ in range(together):
            call()
        best = min(best, (clock() - begin) / together)
    return best * 1e3


def measure(export: Export, threads: int, repeats: int) -> list[report.Row]:
    data, feeds = export.data()
    wanted = session(data, 1, export.form in ("float", "half")).run(None, feeds)
    peer = session(data, threads)
    clock = process_time if threads == 1 else perf_counter
    with settings(threads=threads):
        ours = load(data)
        error = error_of(ours.run(None, feeds), wanted)
        if error > _LIMIT[export.form]:
            print(
                f"{export.name}: {error:.1e} of the largest element apart from onnxruntime", file=sys.stderr
            )
        return report.compare(
            export.name,
            threads,
            "ms",
            lambda: least(lambda: ours.run(None, feeds), clock),
            {"onnxruntime": lambda: least(lambda: peer.run(None, feeds), clock)},
            repeats,
        )


def main() -> None:
    options = report.parser(__doc__)
    options.add_argument("--only", nargs="*", help="these exports alone")
    options.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    args = options.parse_args()
    rows: list[report.Row] = []
    print(f"{'export':26} threads, ms, onnxruntime's, ratio of the two, spread")
    for threads in args.threads:
        mine = []
        for export in EXPORTS:
            if not args.only or export.name in args.only:
                of_export = measure(export, threads, args.repeats)
                for row in of_export:
                    times = f"{row.ours:8.3f} {row.peer:8.3f} {row.ours / row.peer:6.2f}" if row.peer else "-"
                    print(f"{row.name:26} {threads} {times} {row.spread:5.0%}", flush=True)
                mine += of_export
        ratios = [1 / row.ratio for row in mine if row.ratio]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(
                f"{threads} threads: our time by theirs {mean:.2f} in the mean, {max(ratios):.2f} at worst",
                flush=True,
            )
        rows += mine
    report.finish(rows, args.json, shown=True)


if __name__ == "__main__":
    main()

"""KernelBench's own problems beside eager torch and Inductor, at published sizes or shrunk for a CPU: microseconds per call.

    python bench/kernelbench.py FOLDER [--level 1,2] [--only 1,23] [--all] [--threads 2] [--inductor] [--device cpu]
                                [--work 1e9] [--mib 16] [--repeats 5] [--warm 8] [--json FILE]

FOLDER is `KernelBench` of a checkout of that project. Without `--all` the odd-numbered problems are run. On a CPU the sizes that a
problem names are halved, those of its inputs first, until a call has at most so many operations and its inputs and results so many MiB;
nothing of it is run before that. Problems run in a process that is started anew when one of them ends it or takes too long; `--warm N`
compiles all of them in N processes at once first, so that the one that measures finds them in the caches.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import json
import math
import os
import queue
import re
import select
import statistics
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import report

SMALLEST = 4
"""Sizes are not halved below this."""


def whole_number(value: ast.expr) -> int | None:
    """What an expression of numbers alone says."""
    if any(isinstance(node, ast.Name | ast.Call | ast.Attribute) for node in ast.walk(value)):
        return None
    number = eval(compile(ast.Expression(value), "size", "eval"), {})
    return number if type(number) is int else None


class Problem:
    """A problem's file: its model, what it is given, and the sizes that it names."""

    def __init__(self, path: Path) -> None:
        self.tree = ast.parse(path.read_text())
        self.sizes: dict[str, int] = {}
        for statement in self.tree.body:
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            size = whole_number(statement.value) if isinstance(statement, ast.Assign) and names else None
            if size is not None:
                self.sizes.update(dict.fromkeys(names, size))
        definition = next(
            f for f in self.tree.body if isinstance(f, ast.FunctionDef) and f.name == "get_init_inputs"
        )
        self.of_model = {name.id for name in ast.walk(definition) if isinstance(name, ast.Name)}

    def names(self, sizes: dict[str, int]) -> dict[str, Any]:
        """What the file defines with these sizes."""
        tree = ast.Module(list(self.tree.body), [])
        for at, statement in enumerate(tree.body):
            names = [t.id for t in getattr(statement, "targets", ()) if isinstance(t, ast.Name)]
            if isinstance(statement, ast.Assign) and names and all(name in sizes for name in names):
                tree.body[at] = ast.copy_location(
                    ast.Assign(statement.targets, ast.Constant(sizes[names[0]])), statement
                )
        namespace: dict[str, Any] = {"__name__": "problem"}
        exec(compile(ast.fix_missing_locations(tree), "problem", "exec"), namespace)
        return namespace

    def work(self, sizes: dict[str, int]) -> tuple[float, float]:
        """Operations of a call, and MiB of what goes in and comes out; nothing is computed."""
        import torch
        from torch.utils.flop_counter import FlopCounterMode

        names = self.names(sizes)
        with torch.device("meta"), FlopCounterMode(display=False) as counter:
            model = names["Model"](*names["get_init_inputs"]())
            given = names["get_inputs"]()
            out = model(*given)
        all_of = [
            t for t in (*given, *(out if isinstance(out, tuple | list) else (out,))) if hasattr(t, "numel")
        ]
        return float(counter.get_total_flops()), sum(t.numel() * t.element_size() for t in all_of) / 2**20

    def shrunk(self, operations: float, mib: float) -> dict[str, int]:
        """Sizes with which a call stays below so many operations and MiB; as they are where the file has none to change."""
        sizes = dict(self.sizes)
        fixed = {
            name
            for name, size in sizes.items()
            if size <= SMALLEST or re.search("kernel|stride|pad|dilat|group", name)
        }
        while True:
            work, size = self.work(sizes)
            if work <= operations and size <= mib:
                return sizes
            for name in sorted(
                sizes.keys() - fixed, key=lambda n: (n in self.of_model, "batch" not in n, -sizes[n], n)
            ):
                smaller = {**sizes, name: sizes[name] // 2}
                try:
                    done = self.work(smaller)
                except (RuntimeError, ValueError, AssertionError):
                    fixed.add(name)
                    continue
                if done >= (work, size):
                    fixed.add(name)
                    continue
                sizes = smaller
                if sizes[name] <= SMALLEST:
                    fixed.add(name)
                break
            else:
                return sizes


def problems(folder: Path, levels: list[str], only: list[str], every: bool) -> Iterator[Path]:
    """The files asked for, in the order of their numbers."""
    for level in levels:
        files = {int(path.name.split("_")[0]): path for path in (folder / f"level{level}").glob("*.py")}
        for number in sorted(files):
            if str(number) in only if only else every or number % 2:
                yield files[number]


CHUNK = 1 << 26
"""Elements that are compared at a time: in float64 they need room."""


def squares(result: Any, exact: Any) -> tuple[float, float]:
    """The squared norms of a difference and of what is exact."""
    away = whole = 0.0
    for m, e in zip(result.reshape(-1).split(CHUNK), exact.reshape(-1).split(CHUNK), strict=True):
        away += float((m.double() - e.double()).square().sum())
        whole += float(e.double().square().sum())
    return away, whole


def distance(result: Any, exact: Any) -> float:
    """By norm, of results from the exact ones."""
    pairs = list(zip(result, exact, strict=True)) if isinstance(result, tuple | list) else [(result, exact)]
    return max(math.sqrt(away / max(whole, 1e-60)) for away, whole in (squares(m, e) for m, e in pairs))


WIDE = 1 << 30
"""Bytes of inputs up to which a GPU computes in float64 as well."""


def reference(model: Any, given: list[Any], device: str) -> Any:
    """What is exact: float64; where that would take a GPU's memory and minutes, float32 without shortened products."""
    import torch

    torch.manual_seed(1)
    bytes_in = sum(g.numel() * g.element_size() for g in given if torch.is_tensor(g))
    if device == "cpu" or bytes_in < WIDE:
        wide = [g.double() if torch.is_tensor(g) and g.is_floating_point() else g for g in given]
        return copy.deepcopy(model).double()(*wide)
    torch.backends.cudnn.allow_tf32 = False
    try:
        return model(*given)
    finally:
        torch.backends.cudnn.allow_tf32 = True


def timed(call: Any, given: Any, options: Any) -> float:
    """Microseconds of a call: the least of a few, each long enough to be read; on one thread those of the processor."""
    import torch

    clock = process_time if options.threads == 1 and options.device == "cpu" else perf_counter
    settle = torch.cuda.synchronize if options.device != "cpu" else lambda: None

    def calls(count: int) -> float:
        begin = clock()
        for _ in range(count):
            call(*given)
        settle()
        return (clock() - begin) / count

    settle()
    once = calls(1)
    if once > SLOW:
        return once * 1e6
    count = max(1, int(0.01 / max(once, 1e-7)))
    return min(calls(count) for _ in range(3)) * 1e6


TF32 = 2.0**-11
"""What rounding to tf32 may change: torch lets convolutions on a GPU read that, whether or not cuDNN's choice does."""


def convolves(model: Any) -> bool:
    """Whether there is a convolution that may do so."""
    import torch

    kinds = torch.nn.modules.conv._ConvNd
    return torch.backends.cudnn.allow_tf32 and any(isinstance(each, kinds) for each in model.modules())


SLOW = 0.5
"""Seconds of a call that is not repeated."""


def run(path: Path, options: Any, warm: bool) -> dict[str, Any]:
    """One problem in this process: sizes, errors and times of each side; to warm the caches, one call of each is all."""
    import torch

    import planish.torch

    torch._dynamo.reset()
    planish.torch.report(reset=True)
    problem = Problem(path)
    sizes = problem.sizes if options.device != "cpu" else problem.shrunk(options.work, options.mib)
    names = problem.names(sizes)
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    begin = perf_counter()
    with torch.device(options.device), torch.no_grad():
        model = names["Model"](*names["get_init_inputs"]()).eval()
        given = names["get_inputs"]()
        sides = {"planish": planish.torch.compile(model, threads=options.threads), "eager": model}
        if options.inductor:
            sides["inductor"] = torch.compile(model, backend="inductor")
        if warm:
            for call in sides.values():
                call(*given)
            return {"warm": perf_counter() - begin}
        exact = reference(model, given, options.device)
        errors = {}
        for side, call in sides.items():
            torch.manual_seed(1)
            errors[side] = distance(call(*given), exact)
        del exact
        times: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(options.repeats):
            for side, call in sides.items():
                times[side].append(timed(call, given, options))
    return {
        "sizes": sizes,
        "back": planish.torch.report().fallbacks,
        "unit": TF32 if options.device != "cpu" and convolves(model) else 0.0,
        "errors": errors,
        "times": {side: statistics.median(each) for side, each in times.items()},
    }


def serve(options: Any) -> None:
    """A worker: a path per line comes in, a row per line goes out."""
    import torch

    for line in sys.stdin:
        verb, _, path = line.strip().partition(" ")
        try:
            row = run(Path(path), options, verb == "warm")
        except Exception as error:  # noqa: BLE001 - it is said, and the next problem is tried
            row = {
                "failed": f"{type(error).__name__}: {error}"[:300],
                "where": traceback.format_exc()[-1500:],
            }
        print("ROW " + json.dumps(row), flush=True)
        gc.collect()
        if options.device != "cpu":
            torch.cuda.empty_cache()


class Worker:
    """A process that runs problems, started anew after one that ended it or took too long."""

    def __init__(self, arguments: list[str], seconds: float) -> None:
        self.command = [sys.executable, __file__, "--serve", *arguments]
        self.seconds = seconds
        self.process: subprocess.Popen[str] | None = None

    def ask(self, verb: str, path: Path) -> dict[str, Any]:
        """What the process says of a problem."""
        if self.process is None:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            threading.Thread(target=self._drain, args=(self.process,), daemon=True).start()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{verb} {path}\n")
        self.process.stdin.flush()
        end = perf_counter() + self.seconds
        while True:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, end - perf_counter()))
            line = self.process.stdout.readline() if ready else None
            if line and not line.startswith("ROW "):
                continue
            if line:
                row: dict[str, Any] = json.loads(line[4:])
                return row
            self.process.kill()
            status = self.process.wait()
            self.process = None
            return {
                "failed": f"not done in {self.seconds:.0f} s"
                if line is None
                else f"the process ended with {status}"
            }

    def _drain(self, process: subprocess.Popen[str]) -> None:
        """What it writes to standard error is of no interest, but must not fill the pipe."""
        assert process.stderr is not None
        for _ in process.stderr:
            pass

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def warm_up(paths: list[Path], count: int, arguments: list[str], seconds: float) -> None:
    """Compile all problems in so many processes: what they make is in the caches afterwards."""
    waiting: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for path in paths:
        waiting.put(path)

    def work() -> None:
        worker = Worker(arguments, seconds)
        while True:
            try:
                path = waiting.get_nowait()
            except queue.Empty:
                break
            row = worker.ask("warm", path)
            print(f"compiled {path.stem[:40]}: {row.get('failed') or round(row['warm'], 1)}", flush=True)
        worker.close()

    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "2")
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def show(path: Path, row: dict[str, Any]) -> None:
    """A line on a problem."""
    if "failed" in row:
        print(f"{path.stem[:50]:50}  FAILED  {row['failed']}", flush=True)
        return
    times, errors = row["times"], row["errors"]
    row["wrong"] = errors["planish"] > max(1e-5, 4 * errors["eager"], row["unit"])
    ratios = "  ".join(
        f"{times['planish'] / times[peer]:5.2f} of {peer}" for peer in times if peer != "planish"
    )
    notes = f"  WRONG {errors}" * row["wrong"] + f"  by torch: {row['back']}" * bool(row["back"])
    print(f"{path.stem[:50]:50}  {times['planish']:9.0f} us  {ratios}{notes}", flush=True)


def summary(rows: dict[str, Any]) -> None:
    """How many are right, and the means."""
    ran = [row for row in rows.values() if "times" in row]
    right = [row for row in ran if not row["wrong"]]
    print(
        f"{len(rows)} problems, {len(right)} right, {sum(not row['back'] for row in right)} of them by planish alone"
    )
    for peer in ("eager", "inductor"):
        ratios_by = [row["times"]["planish"] / row["times"][peer] for row in ran if peer in row["times"]]
        if ratios_by:
            print(
                f"geometric mean of the time by {peer}: {mean(ratios_by):.2f} over {len(ratios_by)}",
                flush=True,
            )


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path())
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--level", default="1,2")
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--inductor", action="store_true")
    parser.add_argument("--work", type=float, default=1e9)
    parser.add_argument("--mib", type=float, default=16)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--warm", type=int, default=0)
    given = parser.parse_args()
    if given.serve:
        serve(given)
        return
    passed_on = [a for a in sys.argv[1:] if a != str(given.folder)]
    paths = list(
        problems(given.folder, given.level.split(","), [n for n in given.only.split(",") if n], given.all)
    )
    if given.warm:
        warm_up(paths, given.warm, passed_on, given.seconds)
    worker = Worker(passed_on, given.seconds)
    rows: dict[str, Any] = {}
    for path in paths:
        row = worker.ask("time", path)
        rows[f"{path.parent.name}/{path.stem}"] = row
        show(path, row)
        if given.json:
            given.json.write_text(json.dumps(rows, indent=1))
    worker.close()
    summary(rows)


if __name__ == "__main__":
    main()

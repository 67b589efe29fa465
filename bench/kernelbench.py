"""KernelBench's own problems beside eager torch and Inductor, at published sizes or shrunk for a CPU: microseconds per call.

    python bench/kernelbench.py FOLDER [--level 1,2] [--only 1,23] [--all] [--threads 2] [--inductor] [--device cpu]
                                [--work 1e9] [--mib 16] [--repeats 5] [--json FILE]

FOLDER is `KernelBench` of a checkout of that project. Without `--all` the odd-numbered problems are run. On a CPU the sizes that a
problem names are halved, those of its inputs first, until a call has at most so many operations and its inputs and results so many MiB;
nothing of it is run before that. Each problem is a process of its own. An answer that is not eager torch's is said instead of timed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import math
import re
import statistics
import subprocess
import sys
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
    found = eval(compile(ast.Expression(value), "size", "eval"), {})
    return found if type(found) is int else None


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
        made = next(
            f for f in self.tree.body if isinstance(f, ast.FunctionDef) and f.name == "get_init_inputs"
        )
        self.of_model = {name.id for name in ast.walk(made) if isinstance(name, ast.Name)}

    def names(self, sizes: dict[str, int]) -> dict[str, Any]:
        """What the file defines with these sizes."""
        tree = ast.Module(list(self.tree.body), [])
        for at, statement in enumerate(tree.body):
            names = [t.id for t in getattr(statement, "targets", ()) if isinstance(t, ast.Name)]
            if isinstance(statement, ast.Assign) and names and all(name in sizes for name in names):
                tree.body[at] = ast.copy_location(
                    ast.Assign(statement.targets, ast.Constant(sizes[names[0]])), statement
                )
        found: dict[str, Any] = {"__name__": "problem"}
        exec(compile(ast.fix_missing_locations(tree), "problem", "exec"), found)
        return found

    def work(self, sizes: dict[str, int]) -> tuple[float, float]:
        """Operations of a call, and MiB of what goes in and comes out; nothing is computed."""
        import torch
        from torch.utils.flop_counter import FlopCounterMode

        names = self.names(sizes)
        with torch.device("meta"), FlopCounterMode(display=False) as counter:
            model = names["Model"](*names["get_init_inputs"]())
            given = names["get_inputs"]()
            made = model(*given)
        all_of = [
            t for t in (*given, *(made if isinstance(made, tuple | list) else (made,))) if hasattr(t, "numel")
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


def distance(made: Any, exact: Any) -> float:
    """By norm, of results from the exact ones."""
    pairs = list(zip(made, exact, strict=True)) if isinstance(made, tuple | list) else [(made, exact)]
    return max(float((m.double() - e.double()).norm() / e.double().norm().clamp(min=1e-30)) for m, e in pairs)


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

    count = max(1, int(0.01 / max(calls(1), 1e-7)))
    return min(calls(count) for _ in range(3)) * 1e6


def run(path: Path, options: Any) -> dict[str, Any]:
    """One problem in this process: sizes, errors and times of each side."""
    import torch

    import planish.torch

    problem = Problem(path)
    sizes = problem.sizes if options.device != "cpu" else problem.shrunk(options.work, options.mib)
    names = problem.names(sizes)
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    with torch.device(options.device), torch.no_grad():
        model = names["Model"](*names["get_init_inputs"]()).eval()
        given = names["get_inputs"]()
        sides = {"planish": planish.torch.compile(model, threads=options.threads), "eager": model}
        if options.inductor:
            sides["inductor"] = torch.compile(model, backend="inductor")
        made = {}
        for side, call in sides.items():
            torch.manual_seed(1)
            made[side] = call(*given)
        torch.manual_seed(1)
        exact = copy.deepcopy(model).double()(
            *[g.double() if torch.is_tensor(g) and g.is_floating_point() else g for g in given]
        )
        times: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(options.repeats):
            for side, call in sides.items():
                times[side].append(timed(call, given, options))
    return {
        "sizes": sizes,
        "back": planish.torch.report().fallbacks,
        "errors": {side: distance(result, exact) for side, result in made.items()},
        "times": {side: statistics.median(each) for side, each in times.items()},
    }


def told(path: Path, arguments: list[str], seconds: float) -> dict[str, Any]:
    """What a process of its own says of a problem."""
    command = [sys.executable, __file__, str(path), "--one", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done in {seconds:.0f} s"}
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {"failed": (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1][:200]}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--level", default="1,2")
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--inductor", action="store_true")
    parser.add_argument("--work", type=float, default=1e9)
    parser.add_argument("--mib", type=float, default=16)
    parser.add_argument("--seconds", type=float, default=300)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(run(given.folder, given)))
        return
    passed_on = [a for a in sys.argv[1:] if a != str(given.folder)]
    found: dict[str, Any] = {}
    for path in problems(
        given.folder, given.level.split(","), [n for n in given.only.split(",") if n], given.all
    ):
        row = told(path, passed_on, given.seconds)
        found[f"{path.parent.name}/{path.stem}"] = row
        if "failed" in row:
            print(f"{path.stem[:50]:50}  FAILED  {row['failed']}", flush=True)
            continue
        times, errors = row["times"], row["errors"]
        wrong = errors["planish"] > max(1e-5, 4 * errors["eager"])
        ratios = "  ".join(
            f"{times['planish'] / times[peer]:5.2f} of {peer}" for peer in times if peer != "planish"
        )
        notes = f"  WRONG {errors}" * wrong + f"  by torch: {row['back']}" * bool(row["back"])
        print(f"{path.stem[:50]:50}  {times['planish']:9.0f} us  {ratios}{notes}", flush=True)
        row["wrong"] = wrong
    ran = [row for row in found.values() if "times" in row]
    right = [row for row in ran if not row["wrong"]]
    print(
        f"{len(found)} problems, {len(right)} right, {sum(not row['back'] for row in right)} of them by planish alone"
    )
    for peer in ("eager", "inductor"):
        ratios_by = [row["times"]["planish"] / row["times"][peer] for row in ran if peer in row["times"]]
        if ratios_by:
            print(f"geometric mean of the time by {peer}: {mean(ratios_by):.2f} over {len(ratios_by)}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

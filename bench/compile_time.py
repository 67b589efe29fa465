"""How long the first call of a function takes: from a graph to a result, nothing kept from before.

    python bench/compile_time.py [--json FILE] [--repeats N] [--only GPT,sort] [--parts programs,growth,start]

*programs*: those of `kit/compiled.py` (and, if named, workloads of `cpu.py`), beside jax (and tinygrad) in turn, each in a fresh process
with empty caches; what is imported and started for the first small function is there already. Processor seconds, helpers and threads
included; the least of the repeats counts, since others only ever add. `cached` is ours with what a process before left in the cache.

*others*: those of `kit/compiled_others.py`, in the same way; only if the part is named.

*growth*: chains of a hundred to ten thousand operations, and the exponent of the time in their number (1 is linear), from the best line
through the logarithms.

*start*: the first call of a process, for a small function: what the call takes, and that with the imports.

Files of Python are compiled before: where that is not kept beside them, it is kept for this run.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from math import exp, log
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
import report
from kit.compiled import CHAINS, COMPILED, Compiled, Words
from kit.compiled_others import OTHERS
from kit.workloads import WORKLOADS
from report import Row

LENGTHS = (100, 300, 1000, 3000, 10_000)
ALLOWED = 1e-3


def processor_seconds() -> float:
    """Of this process and of those it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


class Told(NamedTuple):
    """What a fresh process says: seconds of the first call, and the sums of the magnitudes of what it computed."""

    seconds: float
    sums: list[float]


# -- in a process of its own -------------------------------------------------------------------------------------------


def first_call(side: str, program: Compiled) -> Told:
    """The first call of a program by a side that has run something already."""
    words = Words(side)
    given = [words.asarray(a) for a in program.arrays()]
    words.done(words.jit(lambda x: x + 1)(words.ones((3,), dtype=words.float32)))
    start = processor_seconds()
    results = words.done(words.jit(lambda *a: program.formula(words, *a))(*given))
    seconds = processor_seconds() - start
    return Told(seconds, [float(np.abs(np.asarray(each, dtype=np.float64)).sum()) for each in results])


def first_of_workload(side: str, name: str) -> Told:
    """The same for a workload of `cpu.py`."""
    from kit.sides import SIDES

    working, wanted = SIDES[side](len(os.sched_getaffinity(0))), WORKLOADS[name]
    working.prepare(WORKLOADS["matmul_256"], [np.ones((4, 4), np.float32)] * 2)()  # its own start
    given = wanted.arrays()
    start = processor_seconds()
    working.prepare(wanted, given)()
    return Told(processor_seconds() - start, [])


def program_of(case: str) -> Compiled | None:
    """A program by its name; a chain by its kind and length; None for a workload."""
    kind, _, length = case.rpartition(" × ")
    return CHAINS[kind](int(length)) if kind in CHAINS else (COMPILED | OTHERS).get(case)


_START = """
import time
begin = time.process_time()
import numpy as np
{imports}
x = {module}.asarray(np.ones((4, 4), np.float32))
imported = time.process_time()
np.asarray({jit}(lambda a, b: a * b + 1)(x, x))
print([time.process_time() - imported, time.process_time() - begin])
"""
STARTS = {
    "planish": _START.format(imports="import planish as pn", module="pn", jit="pn.jit"),
    "jax": _START.format(imports="import jax, jax.numpy", module="jax.numpy", jit="jax.jit"),
}


# -- the one that asks -------------------------------------------------------------------------------------------------


class Bench:
    """Fresh processes, with caches in folders of their own."""

    def __init__(self, repeats: int, compiled: str) -> None:
        self.repeats = repeats
        self.compiled = compiled

    def run(self, command: list[str], folder: str | None = None) -> Any:
        """What a new process prints last; without a folder its caches are empty."""
        if folder is None:
            with tempfile.TemporaryDirectory(prefix="planish-bench-") as empty:
                return self.run(command, empty)
        env = os.environ | {
            "XDG_CACHE_HOME": folder, "PLANISH_CACHE_DIR": f"{folder}/planish", "CACHEDB": f"{folder}/tinygrad.db", "CACHELEVEL": "0",
            "DEV": "CPU", "JAX_PLATFORMS": "cpu", "PYTHONPYCACHEPREFIX": self.compiled,
        }  # fmt: skip
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        done = subprocess.run(
            [sys.executable, *command], env=env, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        return json.loads(done.stdout.splitlines()[-1])

    def told(self, side: str, case: str, folder: str | None = None) -> Told:
        return Told(*self.run([__file__, "--one", side, case], folder))

    def compare(self, case: str, size: int, sides: Sequence[str]) -> list[Row]:
        """Us and every peer in turn; results have to agree."""
        answers: dict[str, list[Told]] = {side: [] for side in sides}
        for _ in range(self.repeats):
            for side in sides:
                answers[side].append(self.told(side, case))
        for side in sides[1:]:
            np.testing.assert_allclose(answers[side][0].sums, answers[sides[0]][0].sums, rtol=ALLOWED)
        times = {side: [each.seconds for each in told] for side, told in answers.items()}
        return rows(case, size, times)

    def cached(self, case: str, size: int) -> list[Row]:
        with tempfile.TemporaryDirectory(prefix="planish-bench-") as kept:
            self.told("planish", case, kept)
            times = [self.told("planish", case, kept).seconds for _ in range(self.repeats)]
        return rows(f"{case}, cached", size, {"planish": times})

    def start(self, sides: Sequence[str]) -> list[Row]:
        """The call, and the process from its first import on."""
        answers = {side: [self.run(["-c", STARTS[side]]) for _ in range(self.repeats)] for side in sides}
        with tempfile.TemporaryDirectory(prefix="planish-bench-") as kept:
            again = [self.run(["-c", STARTS["planish"]], kept) for _ in range(self.repeats + 1)][1:]
        table = []
        for place, what in enumerate(("first call", "first call with imports")):
            table += rows(what, 16, {side: [told[place] for told in each] for side, each in answers.items()})
            table += rows(f"{what}, cached", 16, {"planish": [told[place] for told in again]})
        return table


def rows(name: str, size: int, times: dict[str, list[float]]) -> list[Row]:
    """A row for every peer, in milliseconds: the least of each side's times."""
    least = {side: min(each) * 1e3 for side, each in times.items()}
    spread = max((max(each) - min(each)) / min(each) for each in times.values())
    ours = least.pop("planish")
    table = [Row(name, size, ours, "cpu ms", peer, t, t / ours, spread) for peer, t in least.items()]
    return table or [Row(name, size, ours, "cpu ms", None, None, None, spread)]


def exponent(lengths: Sequence[int], times: Sequence[float]) -> float:
    """Of time in length."""
    return float(np.polyfit(np.log(lengths), np.log(times), 1)[0])


def growth(bench: Bench, kind: str, sides: Sequence[str], show: Callable[[list[Row]], None]) -> None:
    """A chain at every length, then the exponent of each side."""
    table = []
    for length in LENGTHS:
        table += bench.compare(f"{kind} × {length}", length, sides)
        show(table[-len(sides) + 1 :] if len(sides) > 1 else table[-1:])
    ours = exponent(LENGTHS, [row.ours for row in table[:: max(len(sides) - 1, 1)]])
    theirs = f", jax {exponent(LENGTHS, [row.peer or 0 for row in table if row.peer_name == 'jax']):.2f}" if len(sides) > 1 else ""  # fmt: skip
    print(f"{kind}: time grows with length to the {ours:.2f}{theirs}", flush=True)


def summary(part: str, table: Sequence[Row]) -> None:
    """What the ratios to jax come to."""
    ratios = [row.ours / row.peer for row in table if row.peer_name == "jax" and row.peer]
    if ratios:
        mean, above = exp(sum(map(log, ratios)) / len(ratios)), sum(r > 1.2 for r in ratios)
        print(f"ours / jax: geometric mean {mean:.2f} of {len(ratios)} {part}, {above} above 1.2", flush=True)


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--one", nargs=2, help="run one side of one case here")
    parser.add_argument(
        "--only", help="parts of names of programs, or workloads of cpu.py, separated by commas"
    )
    parser.add_argument("--parts", default="programs,growth,start")
    options = parser.parse_args()
    if options.one:
        side, case = options.one
        program = program_of(case)
        print(json.dumps(first_of_workload(side, case) if program is None else first_call(side, program)))
        return
    jax = ["jax"] if importlib.util.find_spec("jax") is not None else []
    tiny = ["tinygrad"] if importlib.util.find_spec("tinygrad") is not None else []
    words = options.only.split(",") if options.only else [""]
    table: list[Row] = []

    def show(more: list[Row]) -> None:
        table.extend(more)
        report.show(more, heading=len(table) == len(more))

    def show_named(programs: dict[str, Compiled]) -> None:
        for case, program in programs.items():
            if any(word in case for word in words):
                show(bench.compare(case, program.size, ["planish", *jax]))

    with tempfile.TemporaryDirectory(prefix="planish-bench-") as compiled:
        bench = Bench(options.repeats, compiled)
        bench.told("planish", "GPT-2 block, gradient")  # what Python compiles, it compiles now
        if "programs" in options.parts:
            show_named(COMPILED)
            for case in (word for word in words if word in WORKLOADS and word not in COMPILED):
                size = int(np.prod(WORKLOADS[case].inputs[0].shape))
                show([*bench.compare(case, size, ["planish", *tiny, *jax]), *bench.cached(case, size)])
            summary("programs", table)
        if "others" in options.parts:
            before = len(table)
            show_named(OTHERS)
            summary("others", table[before:])
        if "growth" in options.parts:
            for kind in CHAINS:
                growth(bench, kind, ["planish", *jax], show)
        if "start" in options.parts:
            show(bench.start(["planish", *jax]))
    report.finish(table, options.json, shown=True)


if __name__ == "__main__":
    main()

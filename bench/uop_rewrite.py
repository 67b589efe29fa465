"""The UOp rewrite engine against tinygrad's: the same expressions, the full rule set of each, time per node.

    python bench/uop_rewrite.py [--sizes 1000 10000 100000] [--json FILE]

`clean` has nothing to rewrite; in `mixed` a sixth of the nodes are identities (x + 0, x * 1) and a sixth constant
subtrees; both are int32. `index` is what reshapes produce: flat indices of four loops, taken apart again by division and
remainder, in the index type of each side. Both sides rewrite a freshly built graph; building is timed apart. CPU time, collector held off, both sides
interleaved, medians.
"""

from __future__ import annotations

import gc
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import report

from planish import dtypes
from planish.uop.node import Table, UOp
from planish.uop.rewrite import rewrite
from planish.uop.symbolic import symbolic

ARGUMENTS = 96
LITERALS = 16
WINDOW = 400  # operands come from the latest values: chains stay deep, sharing stays local

Step = tuple[str, Any, Any]


def program(size: int, kind: str, seed: int = 7) -> list[Step]:
    """A straight-line program of add and mul on operands ('v', i), ('a', i) or ('c', number)."""
    rng = random.Random(seed)
    steps: list[Step] = []
    live: list[tuple[str, int]] = [("a", i) for i in range(ARGUMENTS)]

    def operand() -> tuple[str, int]:
        return live[-1 - min(int(rng.expovariate(1 / 60)), len(live) - 1, WINDOW)]

    def emit(op: str, x: Any, y: Any) -> tuple[str, int]:
        steps.append((op, x, y))
        return ("v", len(steps) - 1)

    used: set[tuple[str, Any, Any]] = set()
    while len(steps) < size:
        x, y = operand(), operand()
        draw = rng.random() if kind == "mixed" else 1.0
        if draw < 1 / 6:
            live.append(emit("add", x, ("c", 0)) if rng.random() < 0.5 else emit("mul", x, ("c", 1)))
        elif draw < 1 / 4:  # two nodes: a constant subtree and its user
            k = emit("add", ("c", rng.randrange(LITERALS) + 2), ("c", rng.randrange(LITERALS) + 2))
            live.append(emit("mul", x, k))
        elif x != y:
            op = "add" if rng.random() < 0.5 else "mul"
            if (op, x, y) in used or (op, y, x) in used:
                continue
            used.add((op, x, y))
            live.append(emit(op, x, y))
    return steps


SIZES = (2, 3, 4, 5, 8, 16)


def layouts(count: int, seed: int = 3) -> list[tuple[int, ...]]:
    """The sizes of four nested loops, per flat index."""
    rng = random.Random(seed)
    return [tuple(rng.choice(SIZES) for _ in range(4)) for _ in range(count)]


def indexing(sizes: tuple[int, ...], loops: list[Any]) -> Any:
    """A flat index over four loops, then the indices of its last axes, weighted."""
    flat = ((loops[0] * sizes[1] + loops[1]) * sizes[2] + loops[2]) * sizes[3] + loops[3]
    return (flat // sizes[3]) % sizes[2] * 7 + flat % sizes[3] + (flat // (sizes[3] * sizes[2])) * 3


INDEXING_NODES = 18  # of one such expression, about


def evaluate(steps: list[Step], arguments: list[Any], constant: Callable[[int], Any]) -> list[Any]:
    """The values of a program that nobody uses, over either side's nodes."""
    values: list[Any] = []

    def get(operand: tuple[str, int]) -> Any:
        tag, number = operand
        return values[number] if tag == "v" else arguments[number] if tag == "a" else constant(number)

    for op, x, y in steps:
        values.append(get(x) + get(y) if op == "add" else get(x) * get(y))
    used = {operand[1] for _, x, y in steps for operand in (x, y) if operand[0] == "v"}
    return [value for i, value in enumerate(values) if i not in used]


Build = Callable[[int], tuple[Any, Callable[[], object]]]
"""Builds a graph anew (told apart by a number); gives its size and what to time."""


def timed(build: Build, times: dict[str, float]) -> Callable[[], float]:
    count = [0]
    _, warm = build(0)
    warm()  # both sides compile their rules on first use

    def run() -> float:
        count[0] += 1
        start = process_time()
        nodes, work = build(count[0])
        times["build"] = process_time() - start
        gc.collect()
        gc.disable()
        start = process_time()
        result = work()
        seconds = process_time() - start
        gc.enable()
        del result
        return seconds / nodes * 1e6

    return run


def ours(kind: str, size: int) -> Build:
    steps = program(size, kind) if kind != "index" else []
    sizes = layouts(size // INDEXING_NODES) if kind == "index" else []

    def build(unique: int) -> tuple[int, Callable[[], object]]:
        table = Table()
        roots: list[UOp] = []
        for i, dims in enumerate(sizes):
            roots.append(
                indexing(dims, [table.variable(f"r{i}_{j}_{unique}", 0, n - 1) for j, n in enumerate(dims)])
            )
        if steps:
            arguments = [
                table.variable(f"a{i}_{unique}", -1000, 1000, dtypes.int32) for i in range(ARGUMENTS)
            ]
            roots = evaluate(steps, arguments, lambda number: table.const(number, dtypes.int32))
        sink = table.sink(*roots)
        return len(sink.toposort()), lambda: rewrite(sink, symbolic)

    return build


def tinygrads(kind: str, size: int) -> Build | None:
    try:
        from tinygrad.dtype import dtypes as tdtypes
        from tinygrad.uop.ops import UOp as TUOp
        from tinygrad.uop.ops import graph_rewrite
        from tinygrad.uop.symbolic import symbolic as tsymbolic
    except ImportError:
        return None
    steps = program(size, kind) if kind != "index" else []
    sizes = layouts(size // INDEXING_NODES) if kind == "index" else []

    def build(unique: int) -> tuple[int, Callable[[], object]]:
        roots: list[Any] = []
        for i, dims in enumerate(sizes):
            roots.append(
                indexing(dims, [TUOp.variable(f"r{i}_{j}_{unique}", 0, n - 1) for j, n in enumerate(dims)])
            )
        if steps:
            arguments = [TUOp.variable(f"a{i}_{unique}", -1000, 1000, tdtypes.int) for i in range(ARGUMENTS)]
            roots = evaluate(steps, arguments, arguments[0].const_like)
        sink = TUOp.sink(*roots)
        return len(sink.toposort()), lambda: graph_rewrite(sink, tsymbolic)

    return build


def main() -> None:
    options = report.parser(__doc__)
    options.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    options.add_argument("--kinds", nargs="+", default=["clean", "mixed", "index"])
    arguments = options.parse_args()
    rows: list[report.Row] = []
    for kind in arguments.kinds:
        figures = []
        for size in arguments.sizes:
            mine: dict[str, float] = {}
            theirs: dict[str, float] = {}
            peer = tinygrads(kind, size)
            if peer is None:
                print("tinygrad is not installed: left out", file=sys.stderr)
            peers = {"tinygrad symbolic": timed(peer, theirs)} if peer is not None else {}
            of_size = report.compare(
                f"rewrite {kind}", size, "us/node", timed(ours(kind, size), mine), peers, arguments.repeats
            )
            rows += of_size
            figures.append(of_size[0].ours * size)
            if peer is not None:
                b, t = mine["build"] / size * 1e6, theirs["build"] / size * 1e6
                rows.append(report.Row(f"build {kind}", size, b, "us/node", "tinygrad", t, t / b, 0.0))
        if len(arguments.sizes) > 1:
            exponent = math.log(figures[-1] / figures[0]) / math.log(arguments.sizes[-1] / arguments.sizes[0])
            print(f"{kind}: time grows as size ** {exponent:.2f}")
    report.finish(rows, arguments.json)


if __name__ == "__main__":
    main()

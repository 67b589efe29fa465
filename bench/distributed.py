"""Collectives of compiled programs beside mpi4py's own, on the same buffers, on ranks of this machine.

    planish launch -n 2 bench/distributed.py [--json FILE]

`all_reduce, 64 MiB` is one collective of a program, `100 all_reduces` a program of a hundred of them that follow each other, of 8 bytes each: what a collective costs
besides MPI's time. The peer is mpi4py's `Allreduce` on the same arrays, called as often. All ranks run the two in turns and the slowest
rank counts; medians of repeats.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
import report
from mpi4py import MPI

import planish as pn
from planish import compiler, distributed
from planish.ptir import Graph, tensor


def program(size: int, count: int, ranks: int) -> compiler.Executable:
    graph = Graph(f"all_reduce{count}")
    x = graph.input("x", tensor("f32", (size,)))
    for _ in range(count):
        x = x.all_reduce((("data", ranks),), ("data",))
    return compiler.compile(graph.build(x))


def slowest(call: Callable[[], object], times: int) -> Callable[[], float]:
    """Microseconds of a call, on the rank that takes longest."""

    def measured() -> float:
        MPI.COMM_WORLD.Barrier()
        begin = perf_counter()
        for _ in range(times):
            call()
        took = (perf_counter() - begin) / times * 1e6
        return float(MPI.COMM_WORLD.allreduce(took, MPI.MAX))

    return measured


def main() -> None:
    options = report.parser(__doc__).parse_args()
    world = distributed.init()
    rows = []
    with pn.settings(threads=1):
        for name, size, count, times in (
            ("all_reduce, 64 MiB", 16 << 20, 1, 3),
            ("all_reduce, 64 KiB", 16 << 10, 1, 100),
            ("100 all_reduces of 8 bytes", 2, 100, 20),
        ):
            run = program(size, count, world.size)
            given = np.full(size, world.size**-100.0 if count > 1 else 1.0, np.float32)
            reduced = np.empty_like(given)

            def peer(given=given, reduced=reduced, count=count) -> None:
                for _ in range(count):
                    MPI.COMM_WORLD.Allreduce(given, reduced)

            rows += report.compare(
                name,
                size,
                "µs",
                slowest(lambda run=run, given=given: run(given), times),
                {"mpi4py": slowest(peer, times)},
                options.repeats,
            )
    if world.rank == 0:
        report.finish(rows, options.json)
    world.barrier()


if __name__ == "__main__":
    main()

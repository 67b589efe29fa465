"""One rank of a test of faults: `python -m planish launch -n 2 tests/distributed/faulty.py HOW`."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np

from planish import compiler, distributed, ptir


def program(size: int, ranks: int) -> ptir.Function:
    graph = ptir.Graph("step")
    x = graph.input("x", ptir.tensor("f32", (size,)))
    return graph.build(x.all_reduce((("data", ranks),), ("data",)))


def main(how: str) -> None:
    here = distributed.init(timeout=1.5)
    run = compiler.compile(program(8, here.size))
    assert run(np.full(8, 1 + here.rank, np.float32))[0].tolist() == [3.0] * 8
    other = here.rank == 1
    if how == "raise" and other:
        raise ValueError("a fault of this rank")
    if how == "kill" and other:
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit" and other:
        sys.exit(3)
    if how == "hang" and other:
        time.sleep(60)
    if how == "mismatch":
        try:
            compiler.compile(program(16 if other else 8, here.size))
        except distributed.CollectiveError as error:
            print(f"rank {here.rank} heard: {error}", flush=True)
            return
    run(np.zeros(8, np.float32))


if __name__ == "__main__":
    main(sys.argv[1])

"""What a call costs besides its work: into a compiled function, and out to the threads.

    python bench/overhead.py [--json FILE]

`call` is a compiled function of four arrays of one element; beside it NumPy's cheapest ufunc call on the same arrays, which
checks one output and two inputs. `dispatch` hands an empty job of as many chunks as threads to a pool whose workers are awake, and waits for
it, from native code. Microseconds, medians of repeats; the machine is to be idle.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
import report

from planish import compiler
from planish.compiler import object_code
from planish.ptir import Graph, tensor
from planish.runtime import cpu
from planish.runtime.elf import Loaded
from planish.runtime.pool import available_cores

CALLS = 20_000

_EMPTY = """
declare void @pool_run(ptr, ptr, ptr, i64, i64, i64)
define void @nothing(ptr %arg, i64 %i) {
  ret void
}
define void @many(ptr %pool, ptr %arg, i64 %count, i64 %times) {
entry:
  br label %l
l:
  %i = phi i64 [ 0, %entry ], [ %j, %l ]
  call void @pool_run(ptr %pool, ptr @nothing, ptr %arg, i64 %count, i64 1000000000, i64 %count)
  %j = add i64 %i, 1
  %c = icmp ult i64 %j, %times
  br i1 %c, label %l, label %e
e:
  ret void
}
"""


def each(call: Callable[..., Any], *arguments: Any) -> float:
    """Microseconds per call."""
    start = perf_counter()
    for _ in range(CALLS):
        call(*arguments)
    return (perf_counter() - start) / CALLS * 1e6


def main() -> None:
    options = report.parser(__doc__).parse_args()
    g = Graph("four")
    a, b, c, d = (g.input(name, tensor("f32", (1,))) for name in "abcd")
    exe = compiler.compile(g.build(a.add(b).add(c).add(d)))
    arrays = [np.ones(1, np.float32) for _ in range(4)]
    rows = report.compare(
        "call, 4 arrays in, 1 out", 4, "µs", lambda: each(exe, *arrays),
        {"numpy add(out=)": lambda: each(np.add, arrays[0], arrays[1], arrays[2])}, options.repeats,
    )  # fmt: skip
    support, pool = object_code.support(), object_code.pool()
    pool.prepare()
    loaded = Loaded(cpu.emit_object(_EMPTY), {"pool_run": support.address("pool_run")})
    kinds = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 2
    many = ctypes.CFUNCTYPE(None, *kinds)(loaded.address("many"))
    cores = available_cores()

    def dispatch() -> float:
        start = perf_counter()
        many(pool.address, None, cores, CALLS)
        return (perf_counter() - start) / CALLS * 1e6

    dispatch()  # wakes the workers
    rows += report.compare(f"dispatch to {cores} threads", cores, "µs", dispatch, {}, options.repeats)
    report.finish(rows, options.json)


if __name__ == "__main__":
    main()

"""How long the first call of a function takes: from a graph to a result, nothing kept from before.

    python bench/compile_time.py [--json FILE] [--repeats N] [--only add,softmax,gpt2_block]

Cold means: caches empty or off, imports done, target machine and thread pool there; every figure is the median of fresh processes. The peers
do the same in processes of their own, in turn with ours. A peer that is not installed is left out. Besides the cases here, every
workload of `cpu.py` can be named. `cached` is the same of ours with what a process before left in the cache, without a peer, and
`start` a whole process of it, from nothing to the answer of a small function.

Files of Python are compiled before: where that is not kept beside them, it is kept for this run.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
import report
from kit.sides import SIDES as WORKING
from kit.workloads import WORKLOADS

Array = np.ndarray[Any, Any]
SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "add": ((1024, 1024), (1024, 1024)),
    "matmul": ((768, 768), (768, 768)),
    "conv": ((1, 64, 56, 56), (64, 64, 3, 3)),
    "softmax": ((1024, 1024),),
    "attention": ((8, 256, 64), (8, 256, 64), (8, 256, 64)),
}


def arrays(case: str) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in SHAPES[case]]


def expected(case: str, given: list[Array]) -> Array:
    """What NumPy says; the convolution by shifted products."""
    if case == "add":
        return given[0] + given[1]
    if case == "matmul":
        return given[0] @ given[1]
    if case == "conv":
        x, w = np.pad(given[0], ((0, 0), (0, 0), (1, 1), (1, 1))), given[1]
        parts = [(x[:, :, i : i + 56, j : j + 56], w[:, :, i, j]) for i in range(3) for j in range(3)]
        return np.asarray(sum(np.einsum("nchw,oc->nohw", a, b, optimize=True) for a, b in parts))
    scores = given[0] if case == "softmax" else given[0] @ given[1].swapaxes(1, 2)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weights = e / e.sum(-1, keepdims=True)
    return weights if case == "softmax" else weights @ given[2]


# -- the sides: each builds and runs one case, and tells how long that took -----------------------------------------


def planish(case: str, given: list[Array]) -> tuple[float, Array]:
    from planish import compiler, ptir
    from planish.compiler import object_code
    from planish.ptir.graph_value import GraphValue

    def softmax(x: GraphValue) -> GraphValue:
        last = len(x.type.dims) - 1
        e = x.sub(x.reduce_max([last], keepdims=True).broadcast_like(x)).exp()
        return e.div(e.reduce_sum([last], keepdims=True).broadcast_like(e))

    g = ptir.Graph("tiny")
    compiler.compile(g.build(g.input("x", ptir.tensor("f32", (3,))).neg()))(
        np.ones(3, np.float32)
    )  # its own start
    object_code.threads()
    start = perf_counter()
    g = ptir.Graph(case)
    x = [g.input(f"x{n}", ptir.tensor("f32", a.shape)) for n, a in enumerate(given)]
    match case:
        case "add":
            y = x[0].add(x[1])
        case "matmul":
            y = x[0].matmul(x[1])
        case "conv":
            y = x[0].convolution(x[1], padding=((1, 1), (1, 1)))
        case "softmax":
            y = softmax(x[0])
        case _:
            y = softmax(x[0].matmul(x[1].transpose((0, 2, 1)))).matmul(x[2])
    (found,) = compiler.compile(g.build(y))(*given)
    return perf_counter() - start, found


def tinygrad(case: str, given: list[Array]) -> tuple[float, Array]:
    from tinygrad import Tensor

    (Tensor([1.0]) + 1).numpy()  # its own start
    x = [Tensor(a).realize() for a in given]
    start = perf_counter()
    match case:
        case "add":
            y = x[0] + x[1]
        case "matmul":
            y = x[0] @ x[1]
        case "conv":
            y = x[0].conv2d(x[1], padding=1)
        case "softmax":
            y = x[0].softmax(-1)
        case _:
            y = (x[0] @ x[1].transpose(1, 2)).softmax(-1) @ x[2]
    y.realize()
    spent = perf_counter() - start
    return spent, y.numpy()


def jax(case: str, given: list[Array]) -> tuple[float, Array]:
    import jax as j
    import jax.numpy as jnp

    j.jit(lambda x: x + 1)(jnp.ones(3)).block_until_ready()
    x = [jnp.asarray(a) for a in given]
    functions: dict[str, Callable[..., Any]] = {
        "add": lambda a, b: a + b,
        "matmul": lambda a, b: a @ b,
        "conv": lambda a, b: j.lax.conv(a, b, (1, 1), "SAME"),
        "softmax": lambda a: j.nn.softmax(a, -1),
        "attention": lambda a, b, c: j.nn.softmax(a @ b.swapaxes(1, 2), -1) @ c,
    }
    start = perf_counter()
    found = j.jit(functions[case])(*x).block_until_ready()
    return perf_counter() - start, np.asarray(found)


SIDES = {"planish": planish, "tinygrad": tinygrad, "jax": jax}


def workload(side: str, case: str) -> float:
    """Seconds to prepare and run a workload of `cpu.py` once, by a side that has run something already."""
    working, wanted = WORKING[side](len(os.sched_getaffinity(0))), WORKLOADS[case]
    working.prepare(WORKLOADS["matmul_256"], [np.ones((4, 4), np.float32)] * 2)()  # its own start
    given = wanted.arrays()
    start = perf_counter()
    working.prepare(wanted, given)()
    return perf_counter() - start


def one(side: str, case: str) -> None:
    """In a process of its own: the milliseconds on standard output."""
    if case in WORKLOADS:
        print(f"{workload(side, case) * 1e3:.3f}")
        return
    given = arrays(case)
    spent, found = SIDES[side](case, given)
    np.testing.assert_allclose(found, expected(case, given), rtol=2e-3, atol=2e-3)
    print(f"{spent * 1e3:.3f}")


def process(command: list[str], folder: str, compiled: str) -> str:
    """What a new process prints last; its caches are in a folder."""
    env = os.environ | {
        "XDG_CACHE_HOME": folder, "PLANISH_CACHE_DIR": f"{folder}/planish", "CACHEDB": f"{folder}/tinygrad.db", "CACHELEVEL": "0",
        "DEV": "CPU", "JAX_PLATFORMS": "cpu", "PYTHONPYCACHEPREFIX": compiled,
    }  # fmt: skip
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([sys.executable, *command], env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return done.stdout.split()[-1]


def fresh(side: str, case: str, compiled: str) -> float:
    """Milliseconds, in a new process with empty caches."""
    with tempfile.TemporaryDirectory(prefix="planish-bench-") as folder:
        return float(process([__file__, "--one", side, case], folder, compiled))


_START = """
import sys, time
begin = time.perf_counter()
import numpy as np
import planish as pn
x = pn.asarray(np.ones((4, 4), np.float32))
pn.jit(lambda a, b: a * b + 1)(x, x)
print((time.perf_counter() - begin) * 1e3)
"""


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--one", nargs=2, help="run one side of one case here")
    parser.add_argument("--only", help="cases, separated by commas")
    options = parser.parse_args()
    if options.one:
        one(*options.one)
        return
    peers = [name for name in ("tinygrad", "jax") if importlib.util.find_spec(name) is not None]
    rows = []
    with tempfile.TemporaryDirectory(prefix="planish-bench-") as folder:
        compiled, kept = f"{folder}/pyc", f"{folder}/kept"
        for case in options.only.split(",") if options.only else (*SHAPES, "gpt2_block"):
            theirs = {name: partial(fresh, name, case, compiled) for name in peers}
            size = int(np.prod((SHAPES.get(case) or [each.shape for each in WORKLOADS[case].inputs])[0]))
            ours = partial(fresh, "planish", case, compiled)
            ours()  # what Python compiles, it compiles now
            rows += report.compare(case, size, "ms", ours, theirs, options.repeats)
            again = [__file__, "--one", "planish", case]
            process(again, kept, compiled)
            rows += report.compare(
                f"{case}, cached", size, "ms", lambda again=again: float(process(again, kept, compiled)), {}, options.repeats
            )  # fmt: skip
        process(["-c", _START], kept, compiled)
        rows += report.compare(
            "start, cached",
            16,
            "ms",
            lambda: float(process(["-c", _START], kept, compiled)),
            {},
            options.repeats,
        )
    report.finish(rows, options.json)


if __name__ == "__main__":
    main()

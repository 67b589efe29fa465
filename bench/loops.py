"""Counted loops: nanoseconds of a turn, and what compiling many tiny ops takes, beside jax.

    python bench/loops.py [--json FILE] [--only NAME]

Each row is one compiled function of a loop (fori_loop or scan) on one thread of either side; the time of a call is divided by the turns, so
that launches, copies and whatever else a turn costs are all in it. `grad` is the gradient of a recurrent network through its
scan. `compile` is the first call of a function of that many ops, in microseconds an op, without any cache.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
sys.path.insert(0, str(Path(__file__).parent))
import jax
import jax.numpy as jnp
import numpy as np
import report
from jax import lax

import planish as pn

MOST_FOR_JAX = 1000
"""Ops in one function: a chain of 5,000 takes jax minutes, and more memory than small machines have."""
RNG = np.random.default_rng(0)


def f32(*shape: int) -> np.ndarray:
    return RNG.uniform(-0.5, 0.5, shape).astype(np.float32)


class Both:
    """The few names in which the two differ."""

    def __init__(self, np_like: Any, fori: Any, scan: Any) -> None:
        self.np, self.fori, self.scan = np_like, fori, scan


OURS, JAX = Both(pn, pn.fori_loop, pn.scan), Both(jnp, lax.fori_loop, lax.scan)


def _recur(b: Both, turns: int) -> Callable[..., Any]:
    return lambda x: b.fori(0, turns, lambda i, c: c * 0.999 + 1.0, x)


def _counting(b: Both, turns: int) -> Callable[..., Any]:
    return lambda x: b.fori(0, turns, lambda i, c: c * 0.5 + i * 0.001, x)


def _until(b: Both, turns: int) -> Callable[..., Any]:
    return lambda x, n: b.fori(0, n, lambda i, c: c * 0.999 + 1.0, x)


def _logistic(b: Both, turns: int) -> Callable[..., Any]:
    def step(i: Any, c: Any) -> Any:
        x, total = c
        x = 3.7 * x * (1.0 - x)
        return x, total + x

    return lambda x: b.fori(0, turns, step, (x, x * 0.0))


def _average(b: Both, turns: int) -> Callable[..., Any]:
    def step(h: Any, x: Any) -> Any:
        h = h * 0.9 + x * 0.1
        return h, h

    return lambda h, xs: b.scan(step, h, xs)


def _rnn(b: Both, turns: int) -> Callable[..., Any]:
    def run(w: Any, u: Any, h: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = b.np.tanh(w @ h + u @ x)
            return h, h

        return b.scan(step, h, xs)

    return run


def _grad(b: Both, turns: int) -> Callable[..., Any]:
    run = _rnn(b, turns)
    grad = pn.grad if b is OURS else jax.grad
    return grad(lambda w, u, h, xs: b.np.sum(run(w, u, h, xs)[1] ** 2), argnums=(0, 1))


def _stencil(b: Both, turns: int) -> Callable[..., Any]:
    def step(i: Any, c: Any) -> Any:
        return b.np.concat([c[:1], 0.25 * c[:-2] + 0.5 * c[1:-1] + 0.25 * c[2:], c[-1:]])

    return lambda x: b.fori(0, turns, step, x)


def _power(b: Both, turns: int) -> Callable[..., Any]:
    def run(a: Any, v: Any) -> Any:
        def step(i: Any, v: Any) -> Any:
            w = a @ v
            return w / b.np.sqrt(b.np.sum(w * w))

        return b.fori(0, turns, step, v)

    return run


CASES: list[tuple[str, int, Callable[[Both, int], Callable[..., Any]], Callable[[int], tuple[Any, ...]]]] = [
    ("recurrence, one number", 100_000, _recur, lambda n: (f32(),)),
    ("recurrence, 64 numbers", 100_000, _recur, lambda n: (f32(64),)),
    ("recurrence, 10,000 numbers", 1_000, _recur, lambda n: (f32(10_000),)),
    ("with the counter, 16 numbers", 100_000, _counting, lambda n: (f32(16),)),
    ("turns from memory, 8 numbers", 100_000, _until, lambda n: (f32(8), np.int64(n))),
    ("two carried, one number", 100_000, _logistic, lambda n: (np.float32(0.3),)),
    ("moving average, 16 series", 10_000, _average, lambda n: (f32(16), f32(n, 16))),
    ("recurrent network, 16", 2_000, _rnn, lambda n: (f32(16, 16), f32(16, 8), f32(16), f32(n, 8))),
    ("recurrent network, 64", 1_000, _rnn, lambda n: (f32(64, 64), f32(64, 32), f32(64), f32(n, 32))),
    ("grad of the network, 16", 1_000, _grad, lambda n: (f32(16, 16), f32(16, 8), f32(16), f32(n, 8))),
    ("grad of the network, 64", 500, _grad, lambda n: (f32(64, 64), f32(64, 32), f32(64), f32(n, 32))),
    ("stencil, 200 places", 10_000, _stencil, lambda n: (f32(200),)),
    ("power iteration, 32", 5_000, _power, lambda n: (f32(32, 32), f32(32))),
]


def turn(
    call: Callable[..., Any], arguments: tuple[Any, ...], turns: int, wait: Callable[[Any], Any]
) -> float:
    """Nanoseconds of a turn: the best of a few calls."""
    wait(call(*arguments))
    best = float("inf")
    for _ in range(5):
        start = perf_counter()
        wait(call(*arguments))
        best = min(best, perf_counter() - start)
    return best / turns * 1e9


def chain(b: Both, ops: int) -> Callable[..., Any]:
    def run(x: Any) -> Any:
        for n in range(ops // 2):
            x = x * (1.0 + 0.001 * n) + 1.0
        return x

    return run


def apart(b: Both, ops: int) -> Callable[..., Any]:
    return lambda x: [x * float(n) for n in range(ops)]


def first(make: Callable[[], Callable[..., Any]], ops: int) -> float:
    """Microseconds of the first call for every op."""
    call = make()
    start = perf_counter()
    call(np.ones(8, np.float32))
    return (perf_counter() - start) / ops * 1e6


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    options = parser.parse_args()
    rows: list[report.Row] = []
    with pn.settings(threads=1):
        for name, turns, make, given in CASES:
            if options.only not in name:
                continue
            arguments = given(turns)
            ours, theirs = pn.jit(make(OURS, turns)), jax.jit(make(JAX, turns))
            mine = tuple(pn.asarray(x) for x in arguments)
            rows += report.compare(
                name, turns, "ns a turn", lambda o=ours, a=mine, t=turns: turn(o, a, t, lambda r: r),
                {"jax": lambda j=theirs, a=arguments, t=turns: turn(j, a, t, jax.block_until_ready)}, options.repeats,
            )  # fmt: skip
        for name, many in (("compile, a chain", chain), ("compile, apart", apart)):
            for ops in (500, 1000, 2000, 5000):
                if options.only not in name:
                    continue
                peer: dict[str, Callable[[], float]] = {}
                if ops <= MOST_FOR_JAX:
                    peer["jax"] = lambda m=many, n=ops: first(lambda: jax.jit(m(JAX, n)), n)
                with pn.settings(cache=False):
                    rows += report.compare(
                        name,
                        ops,
                        "µs an op",
                        lambda m=many, n=ops: first(lambda: pn.jit(m(OURS, n)), n),
                        peer,
                        1,
                    )
    report.finish(rows, options.json)


if __name__ == "__main__":
    main()

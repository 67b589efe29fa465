"""What an operation costs besides its work: microseconds per op and per call on arrays of 1000 floats.

    python bench/dispatch.py [--json FILE]

Chains of elementwise ops, computed at the end or op by op; a long loop; a compiled function of two tensors, and of a tree of
twenty; everyday calls on 100 floats, each computed at once. Peers run the same on one thread, each in its own way: NumPy and torch op by op, JAX op by op or under `jit`, tinygrad
lazily. Warm: everything that is compiled once has been. Physical limit: an op that reads and writes 8 KB in L1 takes less than 0.1 µs.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

os.environ.setdefault("DEV", "CPU")  # tinygrad
os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
import report

import planish as pn

SIZE, CHAIN, LOOP, CALLS = 1000, 100, 5000, 200
SECONDS = 0.1
A = np.full(SIZE, 0.999, np.float32)
Step = Callable[[Any, Any], Any]


def each(work: Callable[[], Any], count: int) -> Callable[[], float]:
    """Microseconds per op of some work of that many ops: the best in a tenth of a second; twice before to warm up."""

    def run() -> float:
        best, end = float("inf"), perf_counter() + SECONDS
        while perf_counter() < end or best == float("inf"):
            start = perf_counter()
            work()
            best = min(best, perf_counter() - start)
        return best / count * 1e6

    work()
    work()
    return run


class Peer:
    """How a library makes an array, and how it is made to compute."""

    def __init__(self, name: str, make: Callable[[Any], Any], wait: Callable[[Any], Any]) -> None:
        self.name, self.make, self.wait = name, make, wait

    def chain(self, step: Step, length: int = CHAIN) -> Callable[[], Any]:
        """A chain, computed at the end."""
        x, y = self.make(A), self.make(A)

        def work() -> None:
            z = x
            for _ in range(length):
                z = step(z, y)
            self.wait(z)

        return work

    def singly(self, step: Step) -> Callable[[], Any]:
        """A chain, computed op by op."""
        x, y = self.make(A), self.make(A)

        def work() -> None:
            z = x
            for _ in range(CHAIN):
                z = self.wait(step(z, y))

        return work


def peers() -> list[Peer]:
    """Those that are installed."""
    installed = [Peer("numpy", np.array, lambda x: x)]

    def module(name: str) -> Any:
        try:
            return importlib.import_module(name)
        except ImportError:
            print(f"{name} is not installed and is left out")
            return None

    torch = module("torch")
    if torch is not None:
        torch.set_num_threads(1)
        installed.append(Peer("torch", torch.tensor, lambda x: x))
    jax = module("jax")
    if jax is not None:
        installed.append(Peer("jax", jax.numpy.asarray, lambda x: x.block_until_ready()))
    tinygrad = module("tinygrad")
    if tinygrad is not None:
        installed.append(Peer("tinygrad", tinygrad.Tensor, lambda x: x.realize()))
    return installed


def product(x: Any, y: Any) -> Any:
    """One op on two arrays."""
    return x * y


def affine(x: Any, _: Any) -> Any:
    """Two ops with numbers."""
    return x * 0.999 + 0.001


def compiled(repeats: int) -> list[report.Row]:
    """Calls of compiled functions."""
    x, y = pn.asarray(A).realize(), pn.asarray(A).realize()
    function = pn.jit(product)
    function(x, y)
    native = function.lower(x, y).compile()._exe

    def many(call: Callable[..., Any], *args: Any) -> Callable[[], Any]:
        def work() -> None:
            for _ in range(CALLS):
                call(*args)

        return work

    others = {
        "native call": each(many(native, x._data(), y._data()), CALLS),
        "numpy x * y": each(many(np.multiply, A, A), CALLS),
    }
    tree = {f"layer{n}": {"w": pn.asarray(A).realize(), "b": pn.asarray(A).realize()} for n in range(10)}
    step = pn.jit(
        lambda t: {name: {"w": layer["w"] + layer["b"], "b": layer["b"]} for name, layer in t.items()}
    )
    step(tree)
    others_tree: dict[str, Callable[[], float]] = {}
    try:
        import jax
    except ImportError:
        pass
    else:
        theirs, a = jax.jit(product), jax.numpy.asarray(A)
        others["jax.jit"] = each(many(theirs, a, a), CALLS)
        theirs_tree = {f"layer{n}": {"w": jax.numpy.asarray(A), "b": jax.numpy.asarray(A)} for n in range(10)}
        their_step = jax.jit(
            lambda t: {name: {"w": layer["w"] + layer["b"], "b": layer["b"]} for name, layer in t.items()}
        )
        others_tree["jax.jit"] = each(many(their_step, theirs_tree), CALLS)
    rows = report.compare(
        "call of jit, 2 tensors", SIZE, "µs/call", each(many(function, x, y), CALLS), others, repeats
    )
    rows += report.compare(
        "call of jit, tree of 20", SIZE, "µs/call", each(many(step, tree), CALLS), others_tree, repeats
    )
    return rows


def _assigned(x: Any) -> Any:
    x[3] = 1.0
    return x


EVERYDAY: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "x + y": lambda x, y, m, i: x + y,
    "x * 2.5": lambda x, y, m, i: x * 2.5,
    "x > y": lambda x, y, m, i: x > y,
    "m @ m": lambda x, y, m, i: m @ m,
    "m.T": lambda x, y, m, i: m.T,
    "x.sum()": lambda x, y, m, i: x.sum(),
    "x[3:6]": lambda x, y, m, i: x[3:6],
    "x[index]": lambda x, y, m, i: x[i],
    "x[3] = 1": lambda x, y, m, i: _assigned(x),
    "x.reshape": lambda x, y, m, i: x.reshape(10, 10),
}


def everyday(repeats: int) -> list[report.Row]:
    """Small calls, one at a time, on vectors of 100 and a matrix of 10 x 10."""
    values, index = np.arange(100, dtype=np.float32), np.array([1, 5, 7, 3])

    def given(make: Callable[[Any], Any]) -> tuple[Any, ...]:
        return make(values), make(values + 1), make(values.reshape(10, 10)), make(index)

    def many(
        call: Callable[..., Any], args: tuple[Any, ...], wait: Callable[[Any], Any]
    ) -> Callable[[], Any]:
        def work() -> None:
            for _ in range(CALLS):
                wait(call(*args))

        return work

    try:
        import torch
    except ImportError:
        torch = None  # type: ignore[assignment]
    rows: list[report.Row] = []
    for name, call in EVERYDAY.items():
        ours = given(lambda array: pn.asarray(array).realize())
        others = {"numpy": each(many(call, given(np.array), lambda x: x), CALLS)}
        if torch is not None:
            others["torch"] = each(many(call, given(torch.tensor), lambda x: x), CALLS)
        mine = each(many(call, ours, lambda x: x.realize()), CALLS)
        rows += report.compare(name, 100, "µs/call", mine, others, repeats)
    return rows


def main() -> None:
    options = report.parser(__doc__).parse_args()
    ours = Peer("planish", pn.asarray, lambda x: x.realize())
    installed = peers()
    rows: list[report.Row] = []

    def against(name: str, count: int, work: Callable[[Peer], Callable[[], Any]]) -> None:
        nonlocal rows
        mine = each(work(ours), count)
        others = {peer.name: each(work(peer), count) for peer in installed}
        rows += report.compare(name, SIZE, "µs/op", mine, others, options.repeats)

    against("chain of x * y", CHAIN, lambda peer: peer.chain(product))
    against("chain of x * 0.999 + 0.001", 2 * CHAIN, lambda peer: peer.chain(affine))
    against("x * y, computed op by op", CHAIN, lambda peer: peer.singly(product))
    lazy = [peer for peer in installed if peer.name != "tinygrad"]  # it recurses too deep
    mine = each(ours.chain(affine, LOOP), 2 * LOOP)
    others = {peer.name: each(peer.chain(affine, LOOP), 2 * LOOP) for peer in lazy}
    rows += report.compare("loop of 10,000 ops", SIZE, "µs/op", mine, others, options.repeats)
    rows += compiled(options.repeats)
    rows += everyday(options.repeats)
    report.finish(rows, options.json)


if __name__ == "__main__":
    main()

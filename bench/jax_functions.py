"""Programs of jax's, compiled by jax and by planish from the same StableHLO: microseconds per call, on one thread.

    python bench/jax_functions.py [--only NAME ...] [--repeats 7] [--json FILE]

Both sides run in turn in one process on the same inputs, by the processor's time; an answer that is not jax's is said instead of timed.
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from time import process_time
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parent))
import jax
import jax.numpy as jnp
import numpy as np
import report
from jax import lax

import planish
import planish.jax


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=shape) * 0.1).astype(np.float32)


def perceptron(weights: Any, x: Any) -> Any:
    for w, b in weights:
        x = jax.nn.gelu(x @ w + b)
    return x


def attention_block(w: Any, x: Any) -> Any:
    """Norm, four heads of causal attention, a residual, norm, a perceptron, a residual."""
    batch, length, depth = x.shape

    def norm(v: Any) -> Any:
        return (v - v.mean(-1, keepdims=True)) * lax.rsqrt(v.var(-1, keepdims=True) + 1e-5)

    q, k, v = jnp.split((norm(x) @ w["qkv"]).reshape(batch, length, 4, -1), 3, -1)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(depth / 4)
    mask = jnp.tril(jnp.ones((length, length), bool))
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(mask, scores, -1e9)), v)
    x = x + mixed.reshape(x.shape) @ w["out"]
    return x + jax.nn.gelu(norm(x) @ w["up"]) @ w["down"]


def conv_net(w: Any, x: Any) -> Any:
    for kernel in w["kernels"]:
        x = jax.nn.relu(
            lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        )
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.mean((1, 2)) @ w["head"]


def recurrent(w: Any, x: Any) -> Any:
    def step(state: Any, item: Any) -> Any:
        state = jnp.tanh(item @ w["in"] + state @ w["state"])
        return state, state

    return lax.scan(step, jnp.zeros((x.shape[1], w["state"].shape[0])), x)[1]


def cross_entropy(w: Any, x: Any, labels: Any) -> Any:
    def loss(weights: Any) -> Any:
        return -jax.nn.log_softmax(x @ weights)[jnp.arange(x.shape[0]), labels].mean()

    return jax.grad(loss)(w)


LABELS = np.random.default_rng(0).integers(0, 1000, 256).astype(np.int32)
BLOCK = {"qkv": floats(256, 768), "out": floats(256, 256), "up": floats(256, 1024), "down": floats(1024, 256)}
KERNELS = [floats(3, 3, 3, 32), floats(3, 3, 32, 64), floats(3, 3, 64, 64)]
PROGRAMS: dict[str, Any] = {
    "perceptron": (perceptron, [(floats(512, 512, seed=n), floats(512)) for n in range(3)], floats(64, 512)),
    "attention block": (attention_block, BLOCK, floats(2, 128, 256)),
    "conv net": (conv_net, {"kernels": KERNELS, "head": floats(64, 10)}, floats(4, 32, 32, 3)),
    "scan of a cell": (recurrent, {"in": floats(64, 128), "state": floats(128, 128)}, floats(64, 16, 64)),
    "cross entropy grad": (cross_entropy, floats(256, 1000), floats(256, 256), LABELS),
}


def timed(call: Any) -> Any:
    """One figure: the least microseconds that a few calls in a row took."""
    begin = process_time()
    call()
    count = max(1, int(0.01 / max(process_time() - begin, 1e-7)))

    def run() -> float:
        best = math.inf
        for _ in range(5):
            begin = process_time()
            for _ in range(count):
                call()
            best = min(best, (process_time() - begin) / count * 1e6)
        return best

    return run


def measure(name: str, repeats: int) -> list[report.Row]:
    function, *args = PROGRAMS[name]
    theirs, placed = jax.jit(function), jax.device_put(args)
    ours = planish.jax.compile(jax.jit(function).lower(*args))
    for computed, wanted in zip(jax.tree.leaves(ours(*args)), jax.tree.leaves(theirs(*placed)), strict=True):
        np.testing.assert_allclose(computed, wanted, rtol=1e-3, atol=1e-4, err_msg=name)
    peers = {"jax": timed(lambda: jax.block_until_ready(theirs(*placed)))}
    return report.compare(name, 1, "us", timed(lambda: ours(*args)), peers, repeats)


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    given = parser.parse_args()
    rows: list[report.Row] = []
    with planish.settings(threads=1):
        for name in given.only or PROGRAMS:
            rows += measure(name, given.repeats)
            report.show(rows[-1:], heading=len(rows) == 1)
    ratios = [row.ratio for row in rows if row.ratio]
    print(f"geometric mean of the time by jax: {1 / math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")
    report.finish(rows, given.json, shown=True)


if __name__ == "__main__":
    main()

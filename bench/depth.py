"""What depth costs: networks of many equal layers and chains of stencils, their runs and their compilation.

    python bench/depth.py --threads 1
    python bench/depth.py --only gpt --layers 2 8 24 --json depth.json

Runs are compared with torch (eager) and jax, compilation (processor seconds, helpers included) with jax. A training step is
forward, backward and AdamW.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np
from report import Row, compare, finish, parser, show

import planish as pn
from planish import nn, optim

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

ROWS, WIDTH = 512, 256
BATCH, CONTEXT, HEADS, LETTERS = 8, 128, 8, 256
SIZE, STEPS = 1000, 10


def timed(run: Callable[[], object]) -> Callable[[], float]:
    """Milliseconds of a call."""

    def once() -> float:
        start = perf_counter()
        run()
        return (perf_counter() - start) * 1e3

    return once


def processor_seconds() -> float:
    """Of this process and of those it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def spent(run: Callable[[], object]) -> float:
    """Processor seconds of a call."""
    before = processor_seconds()
    run()
    return processor_seconds() - before


# -- residual layers, normalised -------------------------------------------------------------------------------------


def residual(layers: int, repeats: int, peers: Any) -> Iterator[Row]:
    """Gradients by all weights of `x + layer_norm(x) @ w`, so many times."""
    rng = np.random.default_rng(0)
    weights = [(rng.standard_normal((WIDTH, WIDTH)) * 0.05).astype(np.float32) for _ in range(layers)]
    x = rng.standard_normal((ROWS, WIDTH)).astype(np.float32)

    def loss(ws: list[pn.Tensor], y: pn.Tensor) -> pn.Tensor:
        for w in ws:
            y = y + nn.layer_norm(y, (WIDTH,)) @ w
        return pn.mean(y * y)

    step = pn.jit(pn.grad(loss))
    mine = [pn.asarray(w) for w in weights], pn.asarray(x)
    step(*mine)
    sides = {}
    if peers.torch is not None:
        torch = peers.torch
        theirs = [torch.tensor(w, requires_grad=True) for w in weights]
        start = torch.tensor(x)

        def eager() -> object:
            y = start
            for w in theirs:
                y = y + torch.nn.functional.layer_norm(y, (WIDTH,)) @ w
            return torch.autograd.grad((y * y).mean(), theirs)

        eager()
        sides["torch"] = timed(eager)
    yield from compare("residual layers, gradient", layers, "ms", timed(lambda: step(*mine)), sides, repeats)


# -- a GPT ---------------------------------------------------------------------------------------------------------------


def gpt(layers: int, repeats: int, peers: Any) -> Iterator[Row]:
    """A training step of a GPT, and what its first one costs."""
    from gpt import GPT

    tokens = np.random.default_rng(0).integers(0, LETTERS, (BATCH, CONTEXT + 1))
    model = GPT(LETTERS, CONTEXT, WIDTH, HEADS, layers, pn.random.key(0))
    optimizer = optim.AdamW(1e-3)
    state = optimizer.init(model)
    pn.realize(*model.parameters().values())
    given = pn.asarray(tokens)

    def loss_of(model: GPT, tokens: pn.Tensor) -> pn.Tensor:
        scores = model(tokens[:, :-1])
        return nn.cross_entropy(scores.reshape(-1, LETTERS), tokens[:, 1:].reshape(-1))

    @pn.jit
    def step(model: GPT, state: optim.State, tokens: pn.Tensor) -> tuple[GPT, optim.State, pn.Tensor]:
        loss, gradients = pn.value_and_grad(loss_of)(model, tokens)
        return (*optimizer.update(model, gradients, state), loss)

    with pn.settings(cache=False):
        compiled = spent(lambda: step(model, state, given))
    sides = {}
    if peers.torch is not None:
        sides["torch"] = timed(_torch_gpt(peers.torch, layers, tokens))
    yield from compare(
        "GPT training step", layers, "ms", timed(lambda: step(model, state, given)), sides, repeats
    )
    theirs = {} if peers.jax is None else {"jax": lambda: spent(_jax_gpt(peers.jax, layers, tokens))}
    yield from compare("GPT training step, first", layers, "cpu s", lambda: compiled, theirs, 1)


def _torch_gpt(torch: Any, layers: int, tokens: Any) -> Callable[[], object]:
    functional = torch.nn.functional

    class Block(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
            self.mix, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
            self.wide, self.narrow = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            parts = self.mix(self.norm1(x)).reshape(BATCH, CONTEXT, 3, HEADS, WIDTH // HEADS)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.out(mixed.permute(0, 2, 1, 3).reshape(BATCH, CONTEXT, WIDTH))
            return x + self.narrow(functional.gelu(self.wide(self.norm2(x)), approximate="tanh"))

    letter, place = torch.nn.Embedding(LETTERS, WIDTH), torch.nn.Embedding(CONTEXT, WIDTH)
    blocks, norm = torch.nn.ModuleList(Block() for _ in range(layers)), torch.nn.LayerNorm(WIDTH)
    parts = torch.nn.ModuleList([letter, place, blocks, norm])
    optimizer = torch.optim.AdamW(parts.parameters(), 1e-3)
    given = torch.tensor(tokens)

    def step() -> None:
        optimizer.zero_grad()
        x = letter(given[:, :-1]) + place(torch.arange(CONTEXT))
        for block in blocks:
            x = block(x)
        scores = norm(x) @ letter.weight.T
        functional.cross_entropy(scores.reshape(-1, LETTERS), given[:, 1:].reshape(-1)).backward()
        optimizer.step()

    step()
    return step


def _jax_gpt(jax: Any, layers: int, tokens: Any) -> Callable[[], object]:
    """The first step: traced, compiled and run."""
    np_ = jax.numpy
    rng = np.random.default_rng(0)

    def random(*dims: int) -> Any:
        return (rng.standard_normal(dims) * 0.02).astype(np.float32)

    block = {"n1": (WIDTH,), "b1": (WIDTH,), "mix": (WIDTH, 3 * WIDTH), "mixb": (3 * WIDTH,), "out": (WIDTH, WIDTH), "outb": (WIDTH,),
             "n2": (WIDTH,), "b2": (WIDTH,), "wide": (WIDTH, 4 * WIDTH), "wideb": (4 * WIDTH,), "narrow": (4 * WIDTH, WIDTH),
             "narrowb": (WIDTH,)}  # fmt: skip
    parameters = {
        "letter": random(LETTERS, WIDTH), "place": random(CONTEXT, WIDTH), "n": random(WIDTH), "b": random(WIDTH),
        "blocks": [{name: random(*dims) for name, dims in block.items()} for _ in range(layers)],
    }  # fmt: skip
    mask = np.tril(np.ones((CONTEXT, CONTEXT), bool))

    def normalised(x: Any, scale: Any, shift: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * scale + shift

    def loss(p: Any, given: Any) -> Any:
        x = p["letter"][given[:, :-1]] + p["place"]
        for b in p["blocks"]:
            parts = normalised(x, b["n1"], b["b1"]) @ b["mix"] + b["mixb"]
            query, key, value = parts.reshape(BATCH, CONTEXT, 3, HEADS, WIDTH // HEADS).transpose(
                2, 0, 3, 1, 4
            )
            scores = query @ key.swapaxes(-1, -2) / (WIDTH // HEADS) ** 0.5
            mixed = jax.nn.softmax(np_.where(mask, scores, -np.inf)) @ value
            x = x + mixed.transpose(0, 2, 1, 3).reshape(BATCH, CONTEXT, WIDTH) @ b["out"] + b["outb"]
            wide = normalised(x, b["n2"], b["b2"]) @ b["wide"] + b["wideb"]
            x = x + jax.nn.gelu(wide) @ b["narrow"] + b["narrowb"]
        scores = jax.nn.log_softmax(normalised(x, p["n"], p["b"]) @ p["letter"].T)
        return -np_.take_along_axis(scores, given[:, 1:, None], -1).mean()

    def updated(w: Any, g: Any, m: Any, v: Any) -> Any:
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return w - 1e-3 * (m / (np_.sqrt(v) + 1e-8) + 0.01 * w), m, v

    @jax.jit
    def step(p: Any, m: Any, v: Any, given: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(p, given)
        return value, jax.tree.map(updated, p, gradients, m, v)

    empty = jax.tree.map(np.zeros_like, parameters)
    return lambda: jax.block_until_ready(step(parameters, empty, empty, tokens))


# -- stencils ------------------------------------------------------------------------------------------------------------


def stencils(steps: int, repeats: int, peers: Any) -> Iterator[Row]:
    """Means of four neighbours, again and again, over a square."""

    def relaxed(m: Any) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for _ in range(steps):
                inner = 0.25 * (x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1])
                x = m.pad(inner, ((1, 1), (1, 1)))
            return x

        return run

    x = np.random.default_rng(0).random((SIZE, SIZE), np.float32)
    mine, given = pn.jit(relaxed(pn)), pn.asarray(x)
    sides = {}
    if peers.jax is not None:
        theirs, start = peers.jax.jit(relaxed(peers.jax.numpy)), peers.jax.numpy.asarray(x)
        np.testing.assert_allclose(np.asarray(mine(given)), np.asarray(theirs(start)), rtol=1e-5)
        sides["jax"] = timed(lambda: theirs(start).block_until_ready())
    yield from compare("stencil steps", steps, "ms", timed(lambda: mine(given)), sides, repeats)


KINDS: dict[str, tuple[Callable[[int, int, Any], Iterator[Row]], tuple[int, ...]]] = {
    "residual": (residual, (2, 4, 8, 16, 48)),
    "gpt": (gpt, (2, 8, 24)),
    "stencils": (stencils, (1, 3, STEPS)),
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--only", choices=list(KINDS))
    options.add_argument("--layers", type=int, nargs="+", help="other depths than the usual ones")
    args = options.parse_args()
    os.environ["XLA_FLAGS"] = (
        f"--xla_cpu_multi_thread_eigen={str(args.threads > 1).lower()} intra_op_parallelism_threads={args.threads}"
    )

    peers = SimpleNamespace(torch=_maybe("torch"), jax=_maybe("jax"))
    if peers.torch is not None:
        peers.torch.set_num_threads(args.threads)
    rows: list[Row] = []
    with pn.settings(threads=args.threads):
        for name, (rows_of, depths) in KINDS.items():
            if args.only in (None, name):
                for depth in args.layers or depths:
                    of_depth = list(rows_of(depth, args.repeats, peers))
                    show(of_depth)
                    rows += of_depth
    finish(rows, args.json)


def _maybe(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        print(f"{name} is not installed: left out")
        return None


if __name__ == "__main__":
    main()

"""A small GPT trained on several ranks: data, tensor, sequence and pipeline parallel are nothing but other specs of the same program.

    python examples/distributed_gpt.py                                          # one process
    planish launch -n 2 examples/distributed_gpt.py                             # every rank has a part of the batch
    planish launch -n 2 examples/distributed_gpt.py --parallel tensor           # every rank has some heads and hidden units
    planish launch -n 2 examples/distributed_gpt.py --parallel sequence         # and between them a part of the letters
    planish launch -n 2 examples/distributed_gpt.py --parallel pipeline         # every rank has some layers, and batches go through them
    planish launch -n 4 examples/distributed_gpt.py --parallel tensor --model 2 # two by two: batch and heads

The losses are those of one process, but for the order of sums. `--run folder` saves after the last step and goes on from what is there,
on any number of ranks (those of a pipeline, whose layers are stacked, with a pipeline).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

import planish as pn
from planish import nn, optim

ROOT = Path(__file__).parent.parent
CUT_OUTPUTS = ("query", "key", "value", "wide")
"""Layers whose outputs are cut: every rank has some of the heads and hidden units."""
CUT_INPUTS = ("out", "narrow")
"""Layers whose inputs are cut: their products are summed over the ranks."""


class Block(nn.Module):
    """Attention over the letters before, and a layer of its own for each."""

    def __init__(self, width: int, heads: int, key: pn.Tensor) -> None:
        keys = [pn.random.fold_in(key, number) for number in range(6)]
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, key=each) for each in keys[:4])
        self.wide = nn.Linear(width, 4 * width, key=keys[4])
        self.narrow = nn.Linear(4 * width, width, key=keys[5])

    def __call__(self, x: pn.Tensor) -> pn.Tensor:
        batch, letters, width = x.shape
        y = self.norm1(x)
        parts = [
            pn.permute_dims(layer(y).reshape(batch, letters, self.heads, width // self.heads), (0, 2, 1, 3))
            for layer in (self.query, self.key, self.value)
        ]
        mixed = nn.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(pn.permute_dims(mixed, (0, 2, 1, 3)).reshape(batch, letters, width))
        return x + self.narrow(nn.gelu(self.wide(self.norm2(x)), "tanh"))


class GPT(nn.Module):
    """Letters in, scores of the next letter out. Between blocks, `between` says how letters are cut.

    `stack` makes its blocks one, whose tensors have the layers as their first axis: stages of a pipeline for so many small batches at a time.
    """

    def __init__(self, letters: int, context: int, width: int, heads: int, layers: int) -> None:
        keys = [pn.random.fold_in(pn.random.key(0), number) for number in range(layers + 2)]
        self.letter = nn.Embedding(letters, width, key=keys[0])
        self.place = nn.Embedding(context, width, key=keys[1])
        self.letter.weight, self.place.weight = 0.02 * self.letter.weight, 0.02 * self.place.weight
        self.blocks = [Block(width, heads, key) for key in keys[2:]]
        self.norm = nn.LayerNorm(width)
        self.batches = 0

    def stack(self, batches: int) -> None:
        self.blocks = pn.tree.map(lambda *each: pn.stack(each), *self.blocks)
        self.batches = batches

    def __call__(self, tokens: pn.Tensor, between: pn.P | None = None) -> pn.Tensor:
        x = self.letter(tokens) + self.place(pn.arange(tokens.shape[1]))
        if self.batches:
            # every so many rows are a batch, so that rows of a rank stay with it
            rows = x.reshape(-1, self.batches, *x.shape[1:]).swapaxes(0, 1)
            rows = pn.distributed.pipeline(lambda block, x: block(x), self.blocks, rows, axis="model")
            x = rows.swapaxes(0, 1).reshape(x.shape)
        else:
            for block in self.blocks:
                x = block(x if between is None else pn.with_sharding(x, between))
        return nn.linear(self.norm(x), self.letter.weight)


def mean_surprise(scores: pn.Tensor, letters: pn.Tensor) -> pn.Tensor:
    """Cross entropy. The score of a letter is a sum over all that leaves one: every rank looks at its own rows and nowhere else."""
    chosen = pn.where(letters[..., None] == pn.arange(scores.shape[-1]), nn.log_softmax(scores, -1), 0.0)
    return -pn.mean(pn.sum(chosen, axis=-1))


def spec_of(name: str, shape: tuple[int, ...]) -> pn.P | None:
    """How a parameter is cut in tensor parallel training, by its name; None leaves it to what it is computed with, as the optimiser's averages are."""
    layers = name.replace("[", ".").replace("]", "").split(".")
    if any(layer in layers for layer in CUT_OUTPUTS):
        return pn.P("model", None) if len(shape) == 2 else pn.P("model")
    if any(layer in layers for layer in CUT_INPUTS) and len(shape) == 2:
        return pn.P(None, "model")
    return None


def stage_of(name: str, shape: tuple[int, ...]) -> pn.P | None:
    """How a parameter is cut in pipeline parallel training: of stacked blocks every rank has its layers."""
    return pn.P("model") if ".blocks." in name and "model" in name else None


def main(arguments: Sequence[str] | None = None) -> list[float]:
    """Train; the losses."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--parallel", choices=("data", "tensor", "sequence", "pipeline"), default="data")
    parser.add_argument("--batches", type=int, default=4, help="small batches that go through a pipeline")
    parser.add_argument(
        "--model", type=int, help="so many ranks share a model; by default all, or one for data"
    )
    for name, default in (
        ("steps", 20),
        ("batch", 64),
        ("context", 64),
        ("layers", 2),
        ("heads", 4),
        ("width", 128),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--run", type=Path, help="a folder of checkpoints")
    args = parser.parse_args(arguments)

    world = pn.distributed.init()
    per_model = args.model or (1 if args.parallel == "data" else world.size)
    mesh = pn.Mesh((world.size // per_model, per_model), ("data", "model"))
    text = "\n\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
    alphabet = sorted(set(text))
    tokens = np.array([alphabet.index(letter) for letter in text[:20_000]], np.int64)
    starts = np.arange(0, len(tokens) - args.context - 1, args.context // 2)
    windows = tokens[starts[:, None] + np.arange(args.context + 1)]

    model = GPT(len(alphabet), args.context, args.width, args.heads, args.layers)
    if args.parallel == "pipeline":
        model.stack(args.batches)
    optimizer = optim.AdamW(args.lr)
    state: Any = {"model": model, "slots": optimizer.init(model)}
    cut = {"data": pn.P(), "pipeline": stage_of}.get(args.parallel, spec_of)
    between = pn.P("data", "model", None) if args.parallel == "sequence" else None

    def loss_of(model: GPT, letters: pn.Tensor) -> pn.Tensor:
        return mean_surprise(model(letters[:, :-1], between), letters[:, 1:])

    @pn.jit(mesh=mesh, in_shardings=(cut, pn.P("data")), out_shardings=(pn.P(), None))
    def step(state: Any, letters: pn.Tensor) -> tuple[pn.Tensor, Any]:
        loss, gradients = pn.value_and_grad(loss_of)(state["model"], letters)
        model, slots = optimizer.update(state["model"], gradients, state["slots"])
        return loss, {"model": model, "slots": slots}

    loader = pn.data.Loader(windows, args.batch, shuffle=True, seed=0, drop_last=True)
    if args.run and (args.run / "index.json").exists():
        saved = pn.distributed.load(args.run, {"state": state, "loader": loader.state_dict()})
        state = saved["state"]
        loader.load_state_dict(saved["loader"])
    losses: list[float] = []
    begin = busy = 0.0
    before = pn.distributed.statistics()
    for number in range(args.steps):
        letters = next(iter(loader))
        loss, state = step(state, letters)
        losses.append(float(np.asarray(loss)))
        if number == 1:  # compiled, and warm
            begin, busy, before = perf_counter(), process_time(), pn.distributed.statistics()
    took, worked, after = perf_counter() - begin, process_time() - busy, pn.distributed.statistics()
    if world.rank == 0:
        print("losses " + " ".join(f"{loss:.4f}" for loss in losses))
        count = max(args.steps - 2, 1)
        waited = after.processor - before.processor
        print(
            f"{world.size} ranks, {args.parallel} parallel: {took / count * 1e3:.1f} ms a step, "
            f"{(worked - waited) / count * 1e3:.1f} ms of processor and {waited / count * 1e3:.1f} ms of waiting for ranks"
        )
    if args.run:
        pn.distributed.save(args.run, {"state": state, "loader": loader.state_dict()})
    return losses


if __name__ == "__main__":
    main()

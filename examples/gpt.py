"""A small GPT learns to write like planish's own documents, word by word, and then writes.

Its tokens are the words that are frequent in the text, and single letters for all others.

Training is one compiled step: forward, backward, clipping, AdamW with its schedule. Writing keeps the keys and values of what was
written before: one more token costs one more column of attention. The cache grows with every token, yet the step is compiled
once, since the length is a bounded dynamic size (`pn.Dim`).

    python examples/gpt.py
    python examples/gpt.py --steps 2000 --layers 6 --width 192 --heads 6 --prompt "A kernel is"
    python examples/gpt.py --text book.txt --run run/ --every 200       # saves; the same again goes on where it stopped
    python examples/gpt.py --text book.txt --run run/ --steps 0         # only writes
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

import planish as pn
from planish import nn, optim

Tokens = NDArray[np.int64]
ROOT = Path(__file__).parent.parent
FREQUENT = 3000
"""Words that sentences to learn from are made of."""


class Attention(nn.Module):
    """Each token looks at those before it."""

    def __init__(self, width: int, heads: int, key: pn.Tensor) -> None:
        self.heads = heads
        self.mix = nn.Linear(width, 3 * width, key=pn.random.fold_in(key, 0))
        self.out = nn.Linear(width, width, key=pn.random.fold_in(key, 1))

    def parts(self, x: pn.Tensor) -> list[pn.Tensor]:
        """Queries, keys and values: (batch, heads, tokens, depth)."""
        batch, tokens, width = x.shape
        whole = self.mix(x).reshape(batch, tokens, 3, self.heads, width // self.heads)
        return [pn.permute_dims(whole[:, :, number], (0, 2, 1, 3)) for number in range(3)]

    def joined(self, mixed: pn.Tensor) -> pn.Tensor:
        batch, heads, tokens, depth = mixed.shape
        return self.out(pn.permute_dims(mixed, (0, 2, 1, 3)).reshape(batch, tokens, heads * depth))

    def __call__(self, x: pn.Tensor) -> pn.Tensor:
        query, key, value = self.parts(x)
        return self.joined(nn.scaled_dot_product_attention(query, key, value, is_causal=True))

    def following(self, x: pn.Tensor, past: pn.Tensor) -> tuple[pn.Tensor, pn.Tensor]:
        """One token more: past holds keys and values (2, heads, tokens, depth), and so does what it adds to them."""
        query, key, value = self.parts(x)
        keys = pn.concat([past[0:1], key], axis=2)
        values = pn.concat([past[1:2], value], axis=2)
        mixed = nn.scaled_dot_product_attention(query, keys, values)
        return self.joined(mixed), pn.concat([key, value], axis=0)


class Block(nn.Module):
    """Attention, and a layer of its own for each token, each added to what comes in."""

    def __init__(self, width: int, heads: int, key: pn.Tensor) -> None:
        first, second, third = (pn.random.fold_in(key, number) for number in range(3))
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, first)
        self.norm2 = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 4 * width, key=second)
        self.narrow = nn.Linear(4 * width, width, key=third)

    def thought(self, x: pn.Tensor) -> pn.Tensor:
        return x + self.narrow(nn.gelu(self.wide(self.norm2(x)), "tanh"))

    def __call__(self, x: pn.Tensor) -> pn.Tensor:
        return self.thought(x + self.attention(self.norm1(x)))

    def following(self, x: pn.Tensor, past: pn.Tensor) -> tuple[pn.Tensor, pn.Tensor]:
        seen, new = self.attention.following(self.norm1(x), past)
        return self.thought(x + seen), new


class GPT(nn.Module):
    """Tokens in, scores of the next one out."""

    def __init__(
        self, tokens: int, context: int, width: int, heads: int, layers: int, key: pn.Tensor
    ) -> None:
        self.token = nn.Embedding(tokens, width, key=pn.random.fold_in(key, 0))
        self.place = nn.Embedding(context, width, key=pn.random.fold_in(key, 1))
        self.token.weight, self.place.weight = 0.02 * self.token.weight, 0.02 * self.place.weight
        self.blocks = [Block(width, heads, pn.random.fold_in(key, 2 + number)) for number in range(layers)]
        self.norm = nn.LayerNorm(width)

    def scores(self, x: pn.Tensor) -> pn.Tensor:
        """By the same table that tokens come in with."""
        return nn.linear(self.norm(x), self.token.weight)

    def __call__(self, tokens: pn.Tensor) -> pn.Tensor:
        """(batch, tokens) to (batch, tokens, scores)."""
        x = self.token(tokens) + self.place(pn.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.scores(x)

    def following(self, token: pn.Tensor, place: pn.Tensor, past: pn.Tensor) -> tuple[pn.Tensor, pn.Tensor]:
        """Scores after one token more, and the cache (layers, 2, heads, tokens, depth) with it."""
        x = (self.token(token) + self.place(place)).reshape(1, 1, -1)
        new = []
        for number, block in enumerate(self.blocks):
            x, own = block.following(x, past[number])
            new.append(own)
        return self.scores(x).reshape(-1), pn.concat([past, pn.stack(new)], axis=3)


def read(limit: int | None) -> str:
    """The project's own documents: those sentences that are made of frequent words."""
    text = "\n\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
    plain = re.sub(r"```.*?```|<!--.*?-->|`|\*\*|\[|\]\(.*?\)", "", text, flags=re.DOTALL)
    parts = re.split(r"\n\s*\n|\n\s*- |(?<=\.)\s", plain)
    sentences = [" ".join(part.split()) for part in parts]
    frequent = {word for word, _ in Counter(re.findall(r"\w+", plain)).most_common(FREQUENT)}
    chosen = [
        x
        for x in sentences
        if re.fullmatch(r"[A-Z][\w ,;:'-]{20,}\.", x) and {*re.findall(r"\w+", x)} <= frequent
    ]
    return " ".join(chosen)[:limit]


def split(text: str, known: Container[str] | None = None) -> list[str]:
    """A text as tokens: words (with the space before them) that are known, and letters. Without any known: all its words."""
    parts = re.findall(r" ?\w+|.", text, re.DOTALL)
    return parts if known is None else [x for part in parts for x in ([part] if part in known else part)]


def vocabulary(text: str, words: int) -> list[str]:
    """The words of a text that come often, and all its letters."""
    frequent = [word for word, _ in Counter(split(text)).most_common(words)]
    return sorted({*text, *frequent})


def main(arguments: Sequence[str] | None = None) -> tuple[float, str]:
    """Train and write; the last loss and the text."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=48)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--write", type=int, default=120, help="so many tokens")
    parser.add_argument("--words", type=int, default=FREQUENT, help="so many frequent ones are tokens")
    parser.add_argument("--prompt", default="The compiler")
    parser.add_argument("--temperature", type=float, default=0.5)
    parser.add_argument("--limit", type=int, help="read so many letters only")
    parser.add_argument(
        "--text", type=Path, help="a text file to learn from; by default the project's documents"
    )
    parser.add_argument(
        "--run", type=Path, help="a folder of checkpoints: saved there, and gone on from the last one"
    )
    parser.add_argument("--every", type=int, default=100, help="save after so many steps")
    parser.add_argument("--stop", type=int, help="stop after this step, as if interrupted")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    text = (
        read(options.limit)
        if options.text is None
        else options.text.read_text(encoding="utf-8")[: options.limit]
    )
    # a resumed run has the letters it began with, whatever the prompt is
    alphabet = vocabulary(text if options.run is not None else f"{text} {options.prompt}", options.words)
    number = {token: place for place, token in enumerate(alphabet)}
    data = np.array([number[token] for token in split(text, number)], np.int64)
    key = pn.random.key(options.seed)
    model = GPT(len(alphabet), options.context, options.width, options.heads, options.layers, key)
    size = sum(value.size for value in model.parameters().values())
    print(
        f"gpt: {len(text):,} letters are {len(data):,} tokens, {len(alphabet)} different ones; {size:,} parameters"
    )
    model, loss = train(model, data, options)
    written = write(
        model,
        alphabet,
        [number[token] for token in split(options.prompt, number) if token in number],
        options,
    )
    return loss, written


def train(model: GPT, data: Tokens, options: argparse.Namespace) -> tuple[GPT, float]:
    """The model after all steps, and the loss of the last ones."""
    warmup = max(options.steps // 20, 1)
    rate = optim.WarmupCosine(options.lr, warmup, max(options.steps, warmup + 1), options.lr / 10)
    optimizer = optim.AdamW(rate, (0.9, 0.99), weight_decay=0.1, decays=lambda parameter: parameter.ndim > 1)
    state = optimizer.init(model)

    def loss_of(model: GPT, tokens: pn.Tensor) -> pn.Tensor:
        scores = model(tokens[:, :-1])
        return nn.cross_entropy(scores.reshape(-1, scores.shape[-1]), tokens[:, 1:].reshape(-1))

    @pn.jit
    def step(model: GPT, state: optim.State, tokens: pn.Tensor) -> tuple[GPT, optim.State, pn.Tensor]:
        loss, gradients = pn.value_and_grad(loss_of)(model, tokens)
        gradients, _ = optim.clip_by_norm(gradients, 1.0)
        model, state = optimizer.update(model, gradients, state)
        return model, state, loss

    windows = pn.data.Loader(
        np.arange(len(data) - options.context - 1),
        options.batch,
        shuffle=True,
        seed=options.seed,
        drop_last=True,
    )
    done = 0
    if options.run is not None and pn.io.checkpoints(options.run):
        like = {"model": model, "state": state, "windows": windows.state_dict(), "step": 0}
        saved = pn.io.load_checkpoint(options.run, like)
        model, state, done = saved["model"], saved["state"], saved["step"]
        windows.load_state_dict(saved["windows"])
        print(f"  goes on after step {done}")
    began = perf_counter()
    compiled, first = 0.0, done + 1
    recent: list[float] = []
    last = min(options.steps, options.stop or options.steps)
    for starts in forever(windows) if done < last else ():
        done += 1
        window = data[np.asarray(starts)[:, None] + np.arange(options.context + 1)]
        model, state, loss = step(model, state, pn.asarray(window))
        recent = [*recent[-19:], float(loss)]
        if options.run is not None and (done % options.every == 0 or done == last):
            whole = {"model": model, "state": state, "windows": windows.state_dict(), "step": done}
            pn.io.save_checkpoint(options.run, whole, step=done, keep=2)
        if done == first:
            compiled = perf_counter() - began
            print(f"  the step is compiled in {compiled:.1f} s; loss {recent[0]:.3f}", flush=True)
        else:
            rate = (done - first) * options.batch * options.context / (perf_counter() - began - compiled)
            line = f"  step {done:4d} of {options.steps}  loss {np.mean(recent):.3f}  {rate:,.0f} tokens per second"
            if sys.stdout.isatty():
                print(f"\r{line}", end="\n" if done == last else "", flush=True)
            elif done % max(options.steps // 10, 1) == 0:
                print(line, flush=True)
        if done == last:
            break
    return model, float(np.mean(recent)) if recent else float("nan")


def forever(loader: pn.data.Loader) -> Iterator[pn.Tensor]:
    """Batches, epoch after epoch."""
    while True:
        yield from loader


def write(model: GPT, alphabet: Sequence[str], prompt: Sequence[int], options: argparse.Namespace) -> str:
    """A text, token by token. When the cache is full, the second half of the text so far is read anew."""
    past = pn.Dim("past", 0, options.context - 1)

    @pn.jit(dims={"cache": (None, None, None, past, None)})
    def following(
        model: GPT, token: pn.Tensor, cache: pn.Tensor, place: pn.Tensor, key: pn.Tensor
    ) -> tuple[pn.Tensor, pn.Tensor]:
        scores, cache = model.following(token, place, cache)
        return pn.random.categorical(key, scores / options.temperature), cache

    depth = options.width // options.heads
    empty = pn.zeros((options.layers, 2, options.heads, 0, depth))
    key = pn.random.key(options.seed + 1)
    tokens = list(prompt[-options.context :])
    cache, place, began, timed = empty, 0, 0.0, 0
    chosen = pn.asarray(0)
    print(f"  writing: {''.join(alphabet[token] for token in tokens)}", end="")
    waiting = list(tokens)
    while len(tokens) < len(prompt) + options.write:
        if place == options.context:
            waiting = tokens[-(options.context // 2) :]
            cache, place = empty, 0
        own = pn.random.fold_in(key, len(tokens))
        chosen, cache = following(model, pn.asarray(waiting.pop(0)), cache, pn.asarray(place), own)
        place += 1
        if not waiting:
            tokens.append(int(chosen))
            waiting = [tokens[-1]]
            print(alphabet[tokens[-1]], end="", flush=True)
        if began == 0.0:
            began = perf_counter()  # the first call compiled
        else:
            timed += 1
    rate = timed / max(perf_counter() - began, 1e-9)
    misses = following.cache_info().misses
    print(
        f"\n  {rate:,.0f} tokens per second; the step was compiled {'once' if misses == 1 else f'{misses} times'}"
    )
    return "".join(alphabet[token] for token in tokens)


if __name__ == "__main__":
    main()

"""A transformer's training step under data, tensor and sequence parallel specs: the collectives that textbooks have, and one result."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn
from planish.ptir.ops.collective import EXCHANGES

P = pn.P
WIDTH, HEADS, LETTERS, CONTEXT, BATCH = 16, 4, 24, 8, 8


class Block(nn.Module):
    """Attention and a hidden layer, each added to what comes in."""

    def __init__(self, key: pn.Tensor) -> None:
        keys = [pn.random.fold_in(key, number) for number in range(6)]
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH, key=k) for k in keys[:4])
        self.wide = nn.Linear(WIDTH, 4 * WIDTH, key=keys[4])
        self.narrow = nn.Linear(4 * WIDTH, WIDTH, key=keys[5])

    def __call__(self, x: pn.Tensor) -> pn.Tensor:
        y = self.norm1(x)
        shape = (BATCH, CONTEXT, HEADS, WIDTH // HEADS)
        parts = [
            pn.permute_dims(f(y).reshape(shape), (0, 2, 1, 3)) for f in (self.query, self.key, self.value)
        ]
        mixed = nn.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(pn.permute_dims(mixed, (0, 2, 1, 3)).reshape(BATCH, CONTEXT, WIDTH))
        return x + self.narrow(nn.gelu(self.wide(self.norm2(x))))


class Model(nn.Module):
    """Letters in, scores of letters out."""

    def __init__(self) -> None:
        self.letter = nn.Embedding(LETTERS, WIDTH, key=pn.random.key(0))
        self.block = Block(pn.random.key(1))
        self.norm = nn.LayerNorm(WIDTH)


def by_name(name: str, shape: tuple[int, ...]) -> pn.P | None:
    layer = name.split(".")[-2]
    if layer in ("query", "key", "value", "wide"):
        return P("model")
    return P(None, "model") if layer in ("out", "narrow") and len(shape) == 2 else None


def step_with(between: pn.P | None):
    def loss_of(model: Any, letters: pn.Tensor) -> pn.Tensor:
        x = model.letter(letters[:, :-1])
        x = model.block(x if between is None else pn.with_sharding(x, between))
        scores = nn.linear(model.norm(x), model.letter.weight)
        return nn.cross_entropy(scores.reshape(-1, LETTERS), letters[:, 1:].reshape(-1))

    def step(model: Any, letters: pn.Tensor) -> Any:
        loss, slopes = pn.value_and_grad(loss_of)(model, letters)
        return loss, pn.tree.map(lambda p, g: p - 0.1 * g, model, slopes)

    return step


STYLES: dict[str, Any] = {
    # the losses and their count, and all gradients at once
    "data": ((2, 1), P(), None, {"all_reduce": 2}),
    # forward and backward one for attention and one for the hidden layer each
    "tensor": ((1, 2), by_name, None, {"all_reduce": 4}),
    "both": ((2, 2), by_name, None, None),
    "sequence": ((1, 2), by_name, P("data", "model", None), None),
}


@pytest.fixture(scope="module")
def alone():
    letters = np.random.default_rng(0).integers(0, LETTERS, (BATCH, CONTEXT + 1))
    return letters, *pn.jit(step_with(None))(Model(), letters)


@pytest.mark.parametrize("style", STYLES)
def test_parallel_styles_are_specs(style, alone):
    shape, specs, between, wanted = STYLES[style]
    letters, loss, model = alone
    many: Any = pn.jit(
        step_with(between),
        in_shardings=(specs, P("data")),
        out_shardings=(P(), specs),
        mesh=pn.Mesh(shape, ("data", "model")),
    )
    found, cut = many(Model(), letters)
    np.testing.assert_allclose(found.numpy(), loss.numpy(), rtol=1e-5)
    for a, b in zip(pn.tree.leaves(model), pn.tree.leaves(cut), strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-3, atol=1e-5)
    function = many.lower(Model(), letters)
    counts = Counter(i.op.name for i in function.walk() if i.op.name in EXCHANGES)
    if wanted is not None:
        assert counts == wanted
    if style == "sequence":
        # letters are gathered where attention needs all, and sums are scattered
        assert {"all_gather", "reduce_scatter"} <= set(counts)

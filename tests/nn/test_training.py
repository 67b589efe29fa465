"""A transformer trained side by side with torch: the losses of a compiled step are torch's, step after step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn, optim
from tests.nn.compare import torch

F = torch.nn.functional
LETTERS, CONTEXT, WIDTH, HEADS, BATCH = 11, 6, 8, 2, 4


class Transformer(nn.Module):
    def __init__(self, key: pn.Tensor) -> None:
        keys = [pn.random.fold_in(key, n) for n in range(6)]
        self.letter = nn.Embedding(LETTERS, WIDTH, key=keys[0])
        self.norm1, self.norm2, self.norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mix = nn.Linear(WIDTH, 3 * WIDTH, key=keys[1])
        self.out = nn.Linear(WIDTH, WIDTH, key=keys[2])
        self.wide = nn.Linear(WIDTH, 2 * WIDTH, key=keys[3])
        self.narrow = nn.Linear(2 * WIDTH, WIDTH, key=keys[4])

    def __call__(self, tokens: pn.Tensor) -> pn.Tensor:
        x = self.letter(tokens)
        batch, length = tokens.shape
        whole = self.mix(self.norm1(x)).reshape(batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = (pn.permute_dims(whole[:, :, n], (0, 2, 1, 3)) for n in range(3))
        seen = nn.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(pn.permute_dims(seen, (0, 2, 1, 3)).reshape(batch, length, WIDTH))
        x = x + self.narrow(nn.gelu(self.wide(self.norm2(x))))
        return nn.linear(self.norm(x), self.letter.weight)


def reference(p: dict[str, Any], tokens: Any) -> Any:
    def linear(x: Any, name: str) -> Any:
        return F.linear(x, p[f"{name}.weight"], p[f"{name}.bias"])

    def norm(x: Any, name: str) -> Any:
        return F.layer_norm(x, (WIDTH,), p[f"{name}.weight"], p[f"{name}.bias"])

    x = F.embedding(tokens, p["letter.weight"])
    whole = linear(norm(x, "norm1"), "mix").reshape(*tokens.shape, 3, HEADS, WIDTH // HEADS)
    q, k, v = (whole[:, :, n].permute(0, 2, 1, 3) for n in range(3))
    seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + linear(seen.permute(0, 2, 1, 3).reshape(*tokens.shape, WIDTH), "out")
    x = x + linear(F.gelu(linear(norm(x, "norm2"), "wide")), "narrow")
    return F.linear(norm(x, "norm"), p["letter.weight"])


def test_losses_of_a_compiled_training_step():
    model = Transformer(pn.random.key(0))
    optimizer = optim.AdamW(optim.Cosine(1e-2, 20), weight_decay=0.1, decays=lambda p: p.ndim > 1)
    state = optimizer.init(model)
    params = {name: torch.tensor(np.asarray(v), requires_grad=True) for name, v in model.state_dict().items()}
    groups = [
        {"params": [v for v in params.values() if (v.ndim > 1) is chosen], "weight_decay": decay}
        for chosen, decay in ((True, 0.1), (False, 0.0))
    ]
    theirs = torch.optim.AdamW(groups, lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(theirs, 20)

    def loss_of(model: Transformer, tokens: pn.Tensor) -> pn.Tensor:
        scores = model(tokens[:, :-1])
        return nn.cross_entropy(scores.reshape(-1, LETTERS), tokens[:, 1:].reshape(-1))

    @pn.jit
    def step(
        model: Transformer, state: optim.State, tokens: pn.Tensor
    ) -> tuple[Transformer, optim.State, pn.Tensor, pn.Tensor]:
        loss, grads = pn.value_and_grad(loss_of)(model, tokens)
        grads, length = optim.clip_by_norm(grads, 1.0)
        model, state = optimizer.update(model, grads, state)
        return model, state, loss, length

    generator = np.random.default_rng(0)
    for _ in range(12):
        tokens = generator.integers(0, LETTERS, (BATCH, CONTEXT + 1))
        model, state, loss, length = step(model, state, pn.asarray(tokens))
        given = torch.tensor(tokens)
        wanted = F.cross_entropy(
            reference(params, given[:, :-1]).reshape(-1, LETTERS), given[:, 1:].reshape(-1)
        )
        theirs.zero_grad()
        wanted.backward()
        their_length = torch.nn.utils.clip_grad_norm_(list(params.values()), 1.0)
        theirs.step()
        schedule.step()
        assert float(loss) == pytest.approx(float(wanted.detach()), rel=2e-5)
        assert float(length) == pytest.approx(float(their_length), rel=2e-4)
    assert step.cache_info().misses == 1

"""What stands around a model on a GPU, beside the CPU: distributions, losses, sampling, optimisers, checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn, optim, random

GPU = "cuda:0"
rng = np.random.default_rng(0)
LABELS = np.array([[1, 2, 2, 3], [3, 3, 1, 0], [2, 0, 0, 0], [0, 0, 0, 0]])
WEIGHTS = pn.asarray(np.array([0.5, 1.5, 3.0], np.float32))


def normal(*shape: int) -> Any:
    return rng.normal(size=shape).astype(np.float32)


def ctc(x: pn.Tensor) -> pn.Tensor:
    return nn.ctc_loss(nn.log_softmax(x, -1), pn.asarray(LABELS), [9, 8, 5, 6], [4, 3, 1, 0])


def updated(optimizer: Any) -> Callable[[pn.Tensor], Any]:
    return lambda x: optimizer.update([x], [x * 0.5], optimizer.init([x]))[0]


KEY = np.array([3, 4], np.uint32)
IMAGE, GRID = normal(2, 3, 8, 7), normal(2, 4, 6, 2)
CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "gamma": (lambda k: random.gamma(k, pn.asarray([0.2, 2.5, 30.0]), (400, 3)), [KEY]),
    "dirichlet": (lambda k: random.dirichlet(k, WEIGHTS, 300), [KEY]),
    "slope of beta": (pn.grad(lambda a, k: pn.sum(random.beta(k, a, 2.0, (300,)))), [np.float32(1.5), KEY]),
    "poisson": (lambda k: random.poisson(k, pn.asarray([3.0, 300.0]), (400, 2)), [KEY]),
    "binomial": (lambda k: random.binomial(k, pn.asarray([9, 300]), 0.3, (400, 2)), [KEY]),
    "vonmises": (lambda k: random.vonmises(k, 0.0, 2.0, (500,)), [KEY]),
    "ctc": (pn.value_and_grad(ctc), [normal(9, 4, 5)]),
    "grid_sample": (lambda x, g: nn.grid_sample(x, g, "bicubic", "reflection"), [IMAGE, GRID]),
    "slope of grid_sample": (
        pn.grad(lambda x, g: pn.sum(nn.grid_sample(x, g) ** 2), argnums=(0, 1)),
        [IMAGE, GRID],
    ),
    "max_pool with places": (lambda x: nn.max_pool2d_with_indices(x, 3, 2, 1), [IMAGE]),
    "unfold and fold": (lambda x: nn.fold(nn.unfold(x, 3, 1, 1, 2), (8, 7), 3, 1, 1, 2), [IMAGE]),
    "embedding_bag": (
        lambda w: nn.embedding_bag(pn.asarray([1, 2, 5, 6, 2]), w, pn.asarray([0, 2, 2]), "max"),
        [normal(7, 3)],
    ),
    "scatter_reduce": (
        lambda x, s: pn.scatter_reduce(x, pn.asarray([1, 1, 4, 1]), s, reduce="mean"),
        [normal(5), normal(4)],
    ),
    "expm": (pn.linalg.expm, [normal(3, 4, 4)]),
    "NAdam": (updated(optim.NAdam(0.1)), [normal(8)]),
    "Accumulate": (updated(optim.Accumulate(optim.Adam(0.1), 1)), [normal(8)]),
    "encoder layer": (
        lambda x: nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True, key=0)(x),
        [normal(2, 5, 16)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_as_on_the_cpu(name: str):
    function, given = CASES[name]
    tensors = [pn.asarray(x) for x in given]
    wanted = pn.tree.leaves(pn.jit(function)(*tensors))
    found = pn.tree.leaves(pn.jit(function)(*[x.to_device(GPU) for x in tensors]))
    for a, b in zip(found, wanted, strict=True):
        assert a.device == GPU
        np.testing.assert_allclose(np.asarray(a.to_device("cpu")), np.asarray(b), rtol=1e-4, atol=1e-5)


def test_a_checkpoint_goes_back_to_the_gpu(tmp_path: Path):
    run: dict[str, Any] = {
        "x": pn.asarray(normal(5)).to_device(GPU),
        "key": random.key(1).to_device(GPU),
        "step": 3,
    }
    pn.io.save_checkpoint(tmp_path, run, step=3)
    found = pn.io.load_checkpoint(tmp_path, run)
    assert found["x"].device == found["key"].device == GPU
    assert np.array_equal(np.asarray(found["x"].to_device("cpu")), np.asarray(run["x"].to_device("cpu")))


def test_a_minimum_is_found_there():
    scale = pn.asarray(np.array([1.0, 10.0, 100.0], np.float32))
    start = pn.zeros(3).to_device(GPU)
    found, _ = optim.LBFGS(max_iter=50).minimize(
        lambda x, s: pn.sum((x - 3.0) ** 2 * s), start, scale.to_device(GPU)
    )
    assert found.device == GPU
    np.testing.assert_allclose(np.asarray(found.to_device("cpu")), 3.0, rtol=1e-4)

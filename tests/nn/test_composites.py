"""Composites live once: what `nn` computes is what the library of PTIR defines, bit for bit, and so is what ONNX imports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn, ptir
from planish.onnx.ops import activations as imported
from planish.ptir.library import activations, losses, normalize

SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30, -1e-30, 1.0, -1.0, 3.0, -3.0, 19.9, 20.1, 39.0, 41.0, 1e30, -1e30, 88.0, -104.0],
    np.float64,
)  # fmt: skip
PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "relu": (nn.relu, activations.relu),
    "leaky_relu": (nn.leaky_relu, activations.leaky_relu),
    "elu": (nn.elu, activations.elu),
    "selu": (nn.selu, activations.selu),
    "celu": (nn.celu, activations.celu),
    "sigmoid": (nn.sigmoid, activations.sigmoid),
    "log_sigmoid": (nn.log_sigmoid, activations.log_sigmoid),
    "softsign": (nn.softsign, activations.softsign),
    "gelu": (nn.gelu, activations.gelu),
    "hardsigmoid": (nn.hardsigmoid, activations.hard_sigmoid),
    "hardswish": (nn.hardswish, activations.hard_swish),
    "softmax": (nn.softmax, normalize.softmax),
    "log_softmax": (nn.log_softmax, normalize.log_softmax),
    "logsumexp": (nn.logsumexp, normalize.logsumexp),
}


def of_graph(function: Callable[..., Any], *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    graph = ptir.Graph("g")
    inputs = [graph.input(f"x{n}", ptir.tensor(a.dtype.name, a.shape)) for n, a in enumerate(arrays)]
    return np.asarray(ptir.interpret(graph.build(function(*inputs)), list(arrays))[0])


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_nn_computes_what_the_library_defines(name: str, dtype: type[np.generic]) -> None:
    with np.errstate(over="ignore"):
        x = SPECIAL.astype(dtype)
    ours, theirs = PAIRS[name]
    with pn.settings(device="interpreter"):
        got = ours(pn.asarray(x)).numpy()
    np.testing.assert_array_equal(np.asarray(got), of_graph(theirs, x))


def test_losses_of_pairs_are_those_of_the_library() -> None:
    x, y = np.linspace(-3, 3, 12).reshape(3, 4), np.linspace(2, -1, 12).reshape(3, 4)
    with pn.settings(device="interpreter"):
        a, b = pn.asarray(x), pn.asarray(y)
        for ours, theirs in (
            (nn.mse_loss(a, b, "none"), losses.mean_squared_error),
            (nn.l1_loss(a, b, "none"), losses.mean_absolute_error),
            (nn.huber_loss(a, b, 0.7, "none"), lambda u, v: losses.huber(u, v, 0.7)),
            (nn.smooth_l1_loss(a, b, 0.5, "none"), lambda u, v: losses.smooth_l1(u, v, 0.5)),
            (nn.kl_div(a, b, "none"), losses.kl_divergence),
            (nn.cosine_similarity(a, b), losses.cosine_similarity),
        ):
            np.testing.assert_array_equal(ours.numpy(), of_graph(theirs, x, y))


def test_a_corner_has_the_slope_of_its_left_side() -> None:
    zero = pn.asarray(0.0)
    assert float(pn.grad(nn.relu)(zero)) == 0.0
    assert float(pn.grad(lambda x: nn.leaky_relu(x, 0.25))(zero)) == 0.25
    assert float(pn.grad(nn.hardswish)(pn.asarray(-3.0))) == 0.0


def test_softplus_is_exact_without_a_threshold_and_pytorchs_with_one() -> None:
    x = np.array([-50.0, -1.0, 0.0, 20.5, 39.5, 41.0, 1000.0])
    exact = np.logaddexp(0.0, x)
    np.testing.assert_allclose(of_graph(activations.softplus, x), exact, rtol=1e-15)
    got = nn.softplus(pn.asarray(x)).numpy()
    np.testing.assert_array_equal(got[3:], x[3:])
    np.testing.assert_allclose(got, exact, rtol=1e-9)


def test_onnx_takes_them_from_there() -> None:
    assert imported._PLAIN["Relu"] is activations.relu
    assert imported._ALPHA["LeakyRelu"][0] is activations.leaky_relu

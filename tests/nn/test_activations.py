"""Activation functions and softmax against torch: values, and slopes also at corners."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn
from planish.frontend.transforms import grad
from tests.nn.compare import arrays, close, same_function, torch

F = torch.nn.functional
POINTS = np.array([-120, -30, -6, -3, -1, -0.5, -0.0, 0, 1e-3, 0.5, 1, 3, 6, 19, 21, 30, 120], np.float64)

CASES: dict[str, tuple[Any, Any]] = {
    "relu": (nn.relu, F.relu),
    "relu6": (nn.relu6, F.relu6),
    "leaky_relu": (lambda x: nn.leaky_relu(x, 0.2), lambda x: F.leaky_relu(x, 0.2)),
    "elu": (lambda x: nn.elu(x, 1.3), lambda x: F.elu(x, 1.3)),
    "selu": (nn.selu, F.selu),
    "celu": (lambda x: nn.celu(x, 2.0), lambda x: F.celu(x, 2.0)),
    "gelu": (nn.gelu, F.gelu),
    "gelu_tanh": (lambda x: nn.gelu(x, "tanh"), lambda x: F.gelu(x, approximate="tanh")),
    "sigmoid": (nn.sigmoid, torch.sigmoid),
    "log_sigmoid": (nn.log_sigmoid, F.logsigmoid),
    "silu": (nn.silu, F.silu),
    "mish": (nn.mish, F.mish),
    "softplus": (lambda x: nn.softplus(x, 2.0, 10.0), lambda x: F.softplus(x, 2.0, 10.0)),
    "softsign": (nn.softsign, F.softsign),
    "tanhshrink": (nn.tanhshrink, F.tanhshrink),
    "hardtanh": (lambda x: nn.hardtanh(x, -3.0, 6.0), lambda x: F.hardtanh(x, -3.0, 6.0)),
    "hardsigmoid": (nn.hardsigmoid, F.hardsigmoid),
    "hardswish": (nn.hardswish, F.hardswish),
    "hardshrink": (nn.hardshrink, F.hardshrink),
    "softshrink": (nn.softshrink, F.softshrink),
    "threshold": (lambda x: nn.threshold(x, 0.5, 20.0), lambda x: F.threshold(x, 0.5, 20.0)),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_slopes(name: str):
    ours, theirs = CASES[name]
    # torch rounds 1/6 to float32 in the slope of hardsigmoid
    same_function(ours, theirs, [POINTS.astype(np.float32 if name == "hardsigmoid" else np.float64)])


def test_in_compiled_code_too():
    same_function(
        lambda x: tuple(ours(x) for ours, _ in CASES.values()),
        lambda x: tuple(theirs(x) for _, theirs in CASES.values()),
        [POINTS.astype(np.float32)],
        native=True,
        scale=4,
    )


@pytest.mark.parametrize("name", ["sigmoid", "log_sigmoid", "silu", "softplus", "elu", "gelu"])
def test_second_derivatives(name: str):
    ours, theirs = CASES[name]
    x = np.array([-40.0, -2, -0.3, 0.4, 3, 40])
    found = grad(lambda v: pn.sum(grad(lambda u: pn.sum(ours(u)))(v)))(pn.asarray(x).to_device("interpreter"))
    given = torch.tensor(x, requires_grad=True)
    (first,) = torch.autograd.grad(theirs(given).sum(), given, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), given)
    close(found, second.numpy(), 100)


def test_nan_stays_nan():
    x = pn.asarray([float("nan")]).to_device("interpreter")
    for name, (ours, _) in CASES.items():
        assert np.isnan(np.asarray(ours(x))).all(), name


@pytest.mark.parametrize("weight", [1, 3])
def test_prelu(weight: int):
    x, slopes = arrays([(2, 3, 4), (weight,)])
    x[0, 0, 0] = 0
    same_function(nn.prelu, F.prelu, [x, slopes])


def test_glu():
    (x,) = arrays([(2, 6, 3)])
    same_function(lambda v: nn.glu(v, 1), lambda v: F.glu(v, 1), [x])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_softmax_family(axis: int, dtype: Any):
    (x,) = arrays([(3, 4, 5)], dtype=dtype)
    x[0, 0] = 300
    x[1, 1, 1] = -np.inf
    same_function(
        lambda v: (nn.softmax(v, axis), nn.logsumexp(v, axis), nn.softmin(v * 0.5, axis)),
        lambda v: (F.softmax(v, axis), torch.logsumexp(v, axis), F.softmin(v * 0.5, axis)),
        [x],
        native=dtype == np.float32,
    )


def test_log_softmax_and_logsumexp_of_axes():
    (x,) = arrays([(3, 4, 5)])
    same_function(
        lambda v: (nn.log_softmax(v, 1), nn.logsumexp(v, (0, 2), keepdims=True)),
        lambda v: (F.log_softmax(v, 1), torch.logsumexp(v, (0, 2), keepdim=True)),
        [x],
    )
    infinite = pn.asarray([[-np.inf, -np.inf], [np.inf, 1.0]]).to_device("interpreter")
    assert np.asarray(nn.logsumexp(infinite)).tolist() == [-np.inf, np.inf]


def test_narrow_softmax_is_computed_wide():
    x = np.linspace(-3, 3, 1000).astype(np.float16)
    found = np.asarray(nn.softmax(pn.asarray(x)))
    assert found.dtype == np.float16
    wide = np.exp(x.astype(np.float64))
    assert np.abs(found - wide / wide.sum()).max() < 2e-6


def test_gumbel_softmax():
    key = pn.random.key(3)
    logits = pn.asarray(np.log(np.array([[0.2, 0.8]] * 4000, np.float32)))
    hard = np.asarray(nn.gumbel_softmax(logits, key, hard=True))
    assert set(hard.ravel().tolist()) == {0.0, 1.0}
    assert abs(hard[:, 1].mean() - 0.8) < 0.03
    slope = grad(lambda x: pn.sum(nn.gumbel_softmax(x, key, hard=True)[:, 0]))(logits[:3])
    soft = grad(lambda x: pn.sum(nn.gumbel_softmax(x, key)[:, 0]))(logits[:3])
    np.testing.assert_allclose(np.asarray(slope), np.asarray(soft), rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: nn.gelu(pn.arange(3)), "gelu: int64 is not a real float"),
        (lambda: nn.gelu(pn.ones(3), "sigmoid"), "no approximation 'sigmoid'"),
        (lambda: nn.glu(pn.ones((2, 3))), r"\(2, 3\) has no halves"),
        (lambda: nn.prelu(pn.ones((2, 3)), pn.ones(2)), r"2 slopes for the channels of shape \(2, 3\)"),
        (lambda: nn.softmax({"a": 1.0}), "dict is not a Tensor"),  # type: ignore[arg-type]
    ],
)
def test_mistakes(call: Any, complaint: str):
    with pytest.raises(pn.PlanishError, match=complaint):
        call()

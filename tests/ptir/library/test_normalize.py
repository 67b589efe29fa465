"""Activations, softmax and normalisations against their formulas in float64."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from planish.errors import ShapeError
from planish.ptir import interpret
from planish.ptir.library import activations, normalize
from planish.ptir.types import tensor
from tests.ptir.library.expanding import function_of
from tests.ptir.library.formulas import close, normal, run

FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]


def erf(x):
    return np.vectorize(math.erf)(x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(0, x)


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x >= 0, x, 0.01 * x),
    "sigmoid": sigmoid,
    "log_sigmoid": lambda x: -softplus(-x),
    "silu": lambda x: x * sigmoid(x),
    "softplus": softplus,
    "mish": lambda x: x * np.tanh(softplus(x)),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "celu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "hard_sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    assert sorted(ACTIVATIONS) == sorted(activations.__all__)
    x = np.concatenate([normal(0, 200, dtype=np.float64) * 4, [0.0, -0.0, 80.0, -80.0]])
    (got,) = run(getattr(activations, name), x)
    close(got, ACTIVATIONS[name](x), ulps=8)


def test_activations_take_huge_arguments():
    for name in ("softplus", "log_sigmoid", "elu", "celu", "selu", "mish", "silu"):
        (got,) = run(getattr(activations, name), np.array([-1e4, 1e4]))
        assert np.isfinite(got).all(), name


def test_gelu_by_tanh_and_other_parameters():
    x = normal(1, 100, dtype=np.float64)
    (got,) = run(lambda x: activations.gelu(x, "tanh"), x)
    close(got, 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
    (got,) = run(lambda x: activations.celu(x, 0.3), x)
    close(got, np.where(x > 0, x, 0.3 * np.expm1(x / 0.3)))
    (got,) = run(lambda x: activations.leaky_relu(x, 0.2), x)
    close(got, np.where(x >= 0, x, 0.2 * x))


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(dtype, axis):
    x = (normal(0, 3, 7, 5) * 3).astype(dtype)
    wide = x.astype(np.float64)
    (got,) = run(lambda x: normalize.softmax(x, axis), x)
    close(got, softmax(wide, axis), ulps=4)
    assert got.dtype == dtype
    (got,) = run(lambda x: normalize.log_softmax(x, axis), x)
    close(got, np.log(softmax(wide, axis)), ulps=4)
    (got,) = run(lambda x: normalize.logsumexp(x, axis, True), x)
    close(got, np.log(np.exp(wide).sum(axis, keepdims=True)), ulps=4)


def test_logsumexp_of_infinities_and_several_axes():
    inf = np.inf
    x = np.array([[-inf, -inf], [inf, 1], [1000, 1000], [-inf, 3]])
    (got,) = run(lambda x: normalize.logsumexp(x, 1), x)
    close(got, [-inf, inf, 1000 + math.log(2), 3])
    y = normal(0, 3, 4, 5)
    (got,) = run(lambda y: normalize.logsumexp(y, [0, 2]), y)
    close(got, np.log(np.exp(y.astype(np.float64)).sum((0, 2))))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
def test_mean_and_variance(dtype):
    x = normal(0, 4, 9, 2).astype(dtype)
    wide = x.astype(np.float64)
    for axes in (0, [1], [0, 2], [0, 1, 2]):
        over = tuple([axes] if isinstance(axes, int) else axes)
        (got,) = run(lambda x, a=axes: normalize.mean(x, a), x)
        close(got, wide.mean(over), ulps=4)
        (got,) = run(lambda x, a=axes: normalize.variance(x, a, True, 1.0), x)
        close(got, wide.var(over, keepdims=True, ddof=1), ulps=8)


def standard(x, axes, epsilon):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
def test_layer_and_rms_norm(dtype):
    x, weight, bias = (
        normal(0, 3, 4, 6).astype(dtype),
        normal(1, 4, 6).astype(dtype),
        normal(2, 4, 6).astype(dtype),
    )
    wide = [a.astype(np.float64) for a in (x, weight, bias)]
    (got,) = run(lambda x, w, b: normalize.layer_norm(x, w, b, axis=1), x, weight, bias)
    close(got, standard(wide[0], (1, 2), 1e-5) * wide[1] + wide[2], ulps=16)
    (got,) = run(lambda x, w, b: normalize.layer_norm(x), x, weight, bias)
    close(got, standard(wide[0], (2,), 1e-5), ulps=16)
    (got,) = run(lambda x, w: normalize.rms_norm(x, w, 1), x, weight)
    close(got, wide[0] / np.sqrt((wide[0] ** 2).mean((1, 2), keepdims=True) + 1e-6) * wide[1], ulps=16)


def test_group_instance_and_batch_norm():
    x = normal(0, 2, 6, 3, 5)
    weight, bias, mean = normal(1, 6), normal(2, 6), normal(3, 6)
    variance = np.abs(normal(4, 6))
    wide = x.astype(np.float64)

    def channel(v):
        return v.astype(np.float64)[:, None, None]

    (got,) = run(lambda x, w, b: normalize.group_norm(x, 3, w, b), x, weight, bias)
    groups = standard(wide.reshape(2, 3, 2, 3, 5), (2, 3, 4), 1e-5).reshape(x.shape)
    close(got, groups * channel(weight) + channel(bias))
    (got,) = run(lambda x, w, b: normalize.instance_norm(x, w, b), x, weight, bias)
    close(got, standard(wide, (2, 3), 1e-5) * channel(weight) + channel(bias))
    (got,) = run(
        lambda x, m, v, w, b: normalize.batch_norm(x, m, v, w, b, epsilon=1e-3),
        x,
        mean,
        variance,
        weight,
        bias,
    )
    scaled = (wide - channel(mean)) / np.sqrt(channel(variance) + 1e-3)
    close(got, scaled * channel(weight) + channel(bias))
    got, average, spread = run(normalize.batch_norm_training, x)
    close(got, standard(wide, (0, 2, 3), 1e-5))
    close(average, wide.mean((0, 2, 3)))
    close(spread, wide.var((0, 2, 3)))
    last = np.moveaxis(x, 1, -1).copy()
    (got,) = run(lambda x, m, v: normalize.batch_norm(x, m, v, axis=-1), last, mean, variance)
    close(got, np.moveaxis((wide - channel(mean)) / np.sqrt(channel(variance) + 1e-5), 1, -1))
    with pytest.raises(ShapeError, match="6 channels do not fit 4 groups"):
        run(lambda x: normalize.group_norm(x, 4), x)


def test_named_sizes():
    def build(x):
        return [
            normalize.softmax(x, 1),
            normalize.layer_norm(x),
            normalize.rms_norm(x),
            normalize.mean(x, [0, 1]),
            normalize.variance(x, 0, correction=1.0),
        ]

    function = function_of([tensor("f32", ("B", "N"), B=(2, 9), N=(1, 9))], build)
    x = normal(0, 5, 7)
    wide = x.astype(np.float64)
    a, b, c, d, e = interpret(function, [x])
    close(a, softmax(wide, 1))
    close(b, standard(wide, (1,), 1e-5))
    close(c, wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6))
    close(d, wide.mean())
    close(e, wide.var(0, ddof=1))

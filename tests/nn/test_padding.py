"""Padding, distances between rows, and the layers that only differ in their noise, against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn
from planish.errors import PlanishError, ShapeError
from tests.nn.compare import arrays, same_function, torch

F = torch.nn.functional


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize(
    ("shape", "sides"),
    [((2, 3, 6), (2, 1)), ((2, 3, 5, 6), (1, 2, 3, 0)), ((1, 2, 4, 5, 4), (1, 2, 0, 3, 2, 1))],
)
def test_padding(mode: str, shape: tuple[int, ...], sides: tuple[int, ...]):
    (x,) = arrays([shape])
    options: Any = {"value": 1.5} if mode == "constant" else {}
    same_function(
        lambda x: nn.pad(x, sides, mode, **options), lambda x: F.pad(x, sides, mode, **options), [x]
    )


def test_negative_padding_cuts_off():
    (x,) = arrays([(2, 3, 6)])
    same_function(
        lambda x: nn.pad(x, (-2, 1, 1, -1), value=3.0), lambda x: F.pad(x, (-2, 1, 1, -1), value=3.0), [x]
    )
    assert np.array_equal(np.asarray(nn.pad(pn.asarray(x), (0, 0))), x)


@pytest.mark.parametrize("name", ["ZeroPad", "ConstantPad", "ReflectionPad", "ReplicationPad", "CircularPad"])
@pytest.mark.parametrize("space", [1, 2, 3])
def test_padding_layers(name: str, space: int):
    (x,) = arrays([(2, 3, 5, 4, 6)[: 2 + space]])
    given: Any = (1, 0.5) if name == "ConstantPad" else (1,)
    ours, theirs = getattr(nn, f"{name}{space}d")(*given), getattr(torch.nn, f"{name}{space}d")(*given)
    assert np.array_equal(np.asarray(ours(pn.asarray(x))), theirs(torch.tensor(x)).numpy())
    assert type(ours).__name__ == f"{name}{space}d"


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, float("inf")])
def test_distances_of_all_rows(p: float):
    (x,) = arrays([(5, 3)])
    same_function(lambda x: nn.pdist(x, p), lambda x: F.pdist(x, p), [x])


def test_equal_rows_have_no_slope():
    assert np.asarray(pn.grad(lambda x: pn.sum(nn.pdist(x)))(pn.ones((3, 2)))).tolist() == [[0, 0]] * 3


def test_alpha_dropout_keeps_mean_and_variance():
    x = pn.random.normal(pn.random.key(0), (400, 50, 4))
    for layer in (nn.AlphaDropout(0.3), nn.FeatureAlphaDropout(0.3)):
        made = np.asarray(layer(x, key=pn.random.key(1)))
        assert abs(made.mean()) < 0.05
        assert abs(made.std() - 1) < 0.05
        assert np.array_equal(np.asarray(layer.eval()(x)), np.asarray(x))
    with pytest.raises(PlanishError, match="needs a random key"):
        nn.AlphaDropout(0.3)(x)


def test_random_slopes_are_within_their_bounds():
    (x,) = arrays([(50,)], dtype=np.float32)
    layer = nn.RReLU(0.2, 0.3)
    slopes = np.asarray(layer(pn.asarray(x), key=pn.random.key(0)))[x < 0] / x[x < 0]
    assert slopes.min() >= 0.2 - 1e-6
    assert slopes.max() <= 0.3 + 1e-6
    wanted = torch.nn.RReLU(0.2, 0.3).eval()(torch.tensor(x)).numpy()
    np.testing.assert_allclose(np.asarray(layer.eval()(pn.asarray(x))), wanted, rtol=1e-6)


def test_other_names():
    (x,) = arrays([(2, 3, 4, 5)])
    given, there = pn.asarray(x), torch.tensor(x)
    for ours, theirs in [
        (nn.Softmin(1), torch.nn.Softmin(1)),
        (nn.Softmax2d(), torch.nn.Softmax2d()),
        (nn.UpsamplingNearest2d(scale_factor=2), torch.nn.UpsamplingNearest2d(scale_factor=2)),
        (nn.UpsamplingBilinear2d((7, 6)), torch.nn.UpsamplingBilinear2d((7, 6))),
    ]:
        np.testing.assert_allclose(np.asarray(ours(given)), theirs(there).numpy(), rtol=1e-10)
    assert nn.MultiheadAttention is nn.MultiHeadAttention


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: nn.pad(pn.ones((2, 3)), (1,)), "1 numbers do not pad"),
        (lambda: nn.pad(pn.ones((2, 3)), (1, 1), "mirror"), "no mode 'mirror'"),
        (lambda: nn.pad(pn.ones((2, 3)), (3, 0), "reflect"), r"cannot be padded by \(3, 0\).*at most 2"),
        (lambda: nn.pad(pn.ones((2, 3)), (-4, 0)), "cannot be padded"),
        (lambda: nn.ZeroPad2d((1, 2)), "2 numbers for 2 axes"),
        (lambda: nn.pdist(pn.ones(3)), "has no rows"),
    ],
)
def test_mistakes(call: Any, complaint: str):
    with pytest.raises(PlanishError, match=complaint):
        call()


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_padding_that_cuts_is_torchs(mode: str):
    for pad in ((-1, 2, 2, -1), (2, -2, 0, -3), (0, -1, -1, 0)):
        same_function(
            lambda x, pad=pad: nn.pad(x, pad, mode),
            lambda x, pad=pad: torch.nn.functional.pad(x, pad, mode),
            arrays([(1, 2, 4, 4)]),
        )


def test_names_that_pytorch_gives_are_taken():
    spelled: Any = nn  # a type checker knows one name
    x = pn.asarray(arrays([(3, 4)])[0])
    y = np.asarray(nn.softmax(x, 0))
    assert np.array_equal(np.asarray(spelled.softmax(input=x, dim=0)), y)
    assert np.array_equal(np.asarray(nn.Softmax(dim=0)(x)), y)
    near = spelled.pairwise_distance(x, x, eps=1e-3, keepdim=True)
    assert np.array_equal(np.asarray(near), np.asarray(nn.pairwise_distance(x, x, 2.0, 1e-3, True)))
    with pytest.raises(TypeError, match="dims"):
        spelled.softmax(x, dims=0)


@pytest.mark.parametrize(("ceil", "padding"), [(False, 0), (True, 1)])
def test_sums_of_windows_by_a_divisor(ceil: bool, padding: int):
    same_function(
        lambda x: nn.avg_pool2d(x, (3, 2), 2, padding, ceil, divisor_override=5),
        lambda x: torch.nn.functional.avg_pool2d(x, (3, 2), 2, padding, ceil, divisor_override=5),
        arrays([(2, 3, 6, 5)]),
    )


def test_windows_that_do_not_fit():
    for pool in (nn.max_pool2d, nn.avg_pool2d):
        with pytest.raises(ShapeError, match=r"window of \(3, 3\) does not fit the input \(1, 1, 2, 8\)"):
            pool(pn.ones((1, 1, 2, 8)), 3)

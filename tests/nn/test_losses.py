"""Losses against torch: every reduction, weights, ignored classes, smoothing, and the places where slopes jump."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn
from planish.errors import PlanishError
from tests.nn.compare import arrays, same_function, torch

F = torch.nn.functional
REDUCTIONS = ["mean", "sum", "none"]


def sample(shape: tuple[int, ...] = (4, 5)) -> list[Any]:
    x, target = arrays([shape, shape], 3)
    x.flat[0] = target.flat[0]
    x.flat[1] = target.flat[1] + 1.0
    return [x, target]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss"])
def test_distances(name: str, reduction: str):
    ours, theirs = getattr(nn, name), getattr(F, name)
    same_function(
        lambda x, t: ours(x, t, reduction=reduction), lambda x, t: theirs(x, t, reduction=reduction), sample()
    )


def test_other_thresholds():
    same_function(
        lambda x, t: (nn.huber_loss(x, t, 0.3), nn.smooth_l1_loss(x, t, 2.5), nn.smooth_l1_loss(x, t, 0)),
        lambda x, t: (
            F.huber_loss(x, t, delta=0.3),
            F.smooth_l1_loss(x, t, beta=2.5),
            F.smooth_l1_loss(x, t, beta=0),
        ),
        sample(),
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropy(reduction: str):
    x, weight = arrays([(3, 4), (3, 4)], 1)
    x = 1 / (1 + np.exp(-x))
    target = np.round(np.random.default_rng(0).random((3, 4)), 1)
    same_function(
        lambda p: nn.binary_cross_entropy(p, interpreted(target), interpreted(weight), reduction),
        lambda p: F.binary_cross_entropy(p, torch.tensor(target), torch.tensor(weight), reduction=reduction),
        [x],
    )


def interpreted(x: Any) -> pn.Tensor:
    return pn.asarray(x).to_device("interpreter")


def test_certain_probabilities_cost_no_more_than_100():
    found = nn.binary_cross_entropy(pn.asarray([0.0, 1.0]), pn.asarray([1.0, 1.0]), reduction="none")
    assert np.asarray(found).tolist() == [100, 0]


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropy_with_logits(reduction: str):
    x, target, weight, positive = arrays([(3, 4), (3, 4), (3, 4), (4,)], 1)
    x[0, 0], x[0, 1], x[0, 2] = 0, 200, -200
    w, p = torch.tensor(weight), torch.tensor(np.abs(positive))
    same_function(
        lambda x, t: nn.binary_cross_entropy_with_logits(
            x, t, interpreted(weight), interpreted(np.abs(positive)), reduction
        ),
        lambda x, t: F.binary_cross_entropy_with_logits(x, t, w, reduction=reduction, pos_weight=p),
        [x, np.clip(target, 0, 1)],
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(6, 5), (2, 5, 3)])
def test_cross_entropy(reduction: str, shape: tuple[int, ...]):
    x, weight = arrays([shape, (5,)], 2)
    target = np.random.default_rng(1).integers(0, 5, (shape[0], *shape[2:]))
    target.flat[1] = -100
    ours, theirs = interpreted(target), torch.tensor(target)
    w = np.abs(weight)
    kind: Any = {"reduction": reduction}
    same_function(
        lambda x: (
            nn.cross_entropy(x, ours, **kind),
            nn.cross_entropy(x, ours, interpreted(w), **kind),
            nn.cross_entropy(x, ours, label_smoothing=0.1, **kind),
            nn.cross_entropy(x, ours, interpreted(w), label_smoothing=0.1, **kind),
            nn.cross_entropy(x, pn.maximum(ours, 0), interpreted(w), ignore_index=2, **kind),
        ),
        lambda x: (
            F.cross_entropy(x, theirs, **kind),
            F.cross_entropy(x, theirs, torch.tensor(w), **kind),
            F.cross_entropy(x, theirs, label_smoothing=0.1, **kind),
            F.cross_entropy(x, theirs, torch.tensor(w), label_smoothing=0.1, **kind),
            F.cross_entropy(x, theirs.clamp(min=0), torch.tensor(w), ignore_index=2, **kind),
        ),
        [x],
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_cross_entropy_of_probabilities(reduction: str):
    x, target, weight = arrays([(4, 3, 2), (4, 3, 2), (3,)], 2)
    share = np.exp(target) / np.exp(target).sum(1, keepdims=True)
    same_function(
        lambda x, t, w: nn.cross_entropy(x, t, w, label_smoothing=0.2, reduction=reduction),
        lambda x, t, w: F.cross_entropy(x, t, w, label_smoothing=0.2, reduction=reduction),
        [x, share, np.abs(weight)],
    )


def test_cross_entropy_of_one_sample_and_compiled():
    x = arrays([(8, 10)], 7, np.float32)[0]
    target = np.arange(8)
    same_function(
        lambda x: nn.cross_entropy(x, pn.asarray(target)),
        lambda x: F.cross_entropy(x, torch.tensor(target)),
        [x],
        native=True,
    )
    same_function(lambda x: nn.nll_loss(x, interpreted(3)), lambda x: F.nll_loss(x, torch.tensor(3)), [x[0]])


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("reduction", [*REDUCTIONS, "batchmean"])
@pytest.mark.parametrize("log_target", [False, True])
def test_kl_divergence(reduction: str, log_target: bool):
    x, target = arrays([(4, 5), (4, 5)], 2)
    target = target if log_target else np.abs(target)
    if not log_target:
        target[0, 0] = 0
    same_function(
        lambda x: nn.kl_div(x, interpreted(target), reduction, log_target),
        lambda x: F.kl_div(x, torch.tensor(target), reduction=reduction, log_target=log_target),
        [x],
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_the_others(reduction: str):
    a, b, c = arrays([(5, 4), (5, 4), (5, 4)], 4)
    sign = np.where(np.arange(5) % 2, 1.0, -1.0)
    signs = np.broadcast_to(sign[:, None], (5, 4)).copy()
    count = np.abs(np.round(3 * b)) + 0.0
    one, many, counts = interpreted(sign), interpreted(signs), interpreted(count)
    t_one, t_many, t_counts = torch.tensor(sign), torch.tensor(signs), torch.tensor(count)
    kind: Any = {"reduction": reduction}
    same_function(
        lambda a, b, c: (
            nn.soft_margin_loss(a, many, **kind),
            nn.hinge_embedding_loss(a, many, 0.7, **kind),
            nn.margin_ranking_loss(a, b, many, 0.2, **kind),
            nn.cosine_embedding_loss(a, b, one, 0.1, **kind),
            nn.triplet_margin_loss(a, b, c, **kind),
            nn.triplet_margin_loss(a, b, c, p=1.0, **kind),
            nn.poisson_nll_loss(a, counts, **kind),
            nn.poisson_nll_loss(pn.abs(a), counts, log_input=False, full=True, **kind),
            nn.gaussian_nll_loss(a, b, pn.abs(c), full=True, **kind),
        ),
        lambda a, b, c: (
            F.soft_margin_loss(a, t_many, **kind),
            F.hinge_embedding_loss(a, t_many, 0.7, **kind),
            F.margin_ranking_loss(a, b, t_many, 0.2, **kind),
            F.cosine_embedding_loss(a, b, t_one, 0.1, **kind),
            F.triplet_margin_loss(a, b, c, **kind),
            F.triplet_margin_loss(a, b, c, p=1.0, **kind),
            F.poisson_nll_loss(a, t_counts, **kind),
            F.poisson_nll_loss(torch.abs(a), t_counts, log_input=False, full=True, **kind),
            F.gaussian_nll_loss(a, b, torch.abs(c), full=True, **kind),
        ),
        [a, b, c],
    )


def test_similarities():
    a, b = arrays([(3, 4, 2), (3, 4, 2)], 6)
    a[0, :, 0] = 0
    same_function(
        lambda a, b: (
            nn.cosine_similarity(a, b, 1),
            nn.pairwise_distance(a, b, 3.0),
            nn.pairwise_distance(a, b, math.inf, keepdims=True),
            nn.normalize(a + 1, 2.0, 2),
        ),
        lambda a, b: (
            F.cosine_similarity(a, b, 1),
            F.pairwise_distance(a, b, 3.0),
            F.pairwise_distance(a, b, math.inf, keepdim=True),
            F.normalize(a + 1, 2.0, 2),
        ),
        [a, b],
    )


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: nn.mse_loss(pn.ones(3), pn.ones(2)), r"the input is \(3,\), the target \(2,\)"),
        (lambda: nn.mse_loss(pn.ones(3), pn.ones(3), "avg"), "no reduction 'avg'.*mean"),
        (lambda: nn.cross_entropy(pn.ones((2, 3)), pn.ones((2,))), "the target is float32"),
        (lambda: nn.cross_entropy(pn.ones((2, 3)), pn.asarray([1, 2, 0])), r"\(2, 3\), the target \(3,\)"),
        (lambda: nn.huber_loss(pn.ones(3), pn.ones(3), 0.0), "not positive"),
    ],
)
def test_mistakes(call: Any, complaint: str):
    with pytest.raises(pn.PlanishError, match=complaint):
        call()


# --- labels that are no class -----------------------------------------------------------------------------


LABELLED: dict[str, Callable[..., pn.Tensor]] = {
    "cross_entropy": nn.cross_entropy,
    "nll_loss": nn.nll_loss,
    "weighted": lambda x, t, **kind: nn.cross_entropy(x, t, pn.asarray([1.0, 2.0, 3.0]), **kind),
    "smoothed": lambda x, t, **kind: nn.cross_entropy(x, t, label_smoothing=0.1, **kind),
}


@pytest.mark.parametrize("name", LABELLED)
@pytest.mark.parametrize("wrong", [3, -1, 1 << 40])
def test_a_known_label_outside_is_an_error(name: str, wrong: int):
    loss, x = LABELLED[name], pn.ones((2, 3))
    labels = pn.asarray([0, wrong])
    with pytest.raises(IndexError, match=f"label {wrong}, and there are 3 classes") as caught:
        loss(x, labels)
    assert isinstance(caught.value, PlanishError)
    with pytest.raises(IndexError, match="labels are 0 to 2, or ignore_index=-100"):
        pn.grad(lambda x: loss(x, labels))(x)
    assert np.isfinite(loss(x, labels, ignore_index=wrong).item())


@pytest.mark.parametrize("name", LABELLED)
@pytest.mark.parametrize("wrong", [3, -1, -101])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_an_unknown_label_outside_is_nan_in_value_and_gradient(name: str, wrong: int, reduction: str):
    loss, x = LABELLED[name], pn.ones((3, 3))

    def total(x, labels):
        made = loss(x, labels, reduction=reduction)
        return pn.sum(made), made

    labels = pn.asarray([0, wrong, -100])
    (value, each), slope = pn.jit(pn.value_and_grad(total, has_aux=True))(x, labels)
    assert np.isnan(value.item())
    assert np.isnan(slope.numpy()[1]).any()
    assert np.isfinite(slope.numpy()[[0, 2]]).all() or reduction == "mean"
    if reduction == "none":
        assert np.isnan(each.numpy()).tolist() == [False, True, False]
    # labels that wait are not computed to look at them
    assert np.isnan(pn.sum(loss(x, labels + 0, reduction=reduction)).item())
    assert np.isfinite(pn.jit(loss)(x, pn.asarray([0, 2, -100])).item())


def test_labels_of_classes_whose_number_has_a_name():
    count = pn.Dim("classes", 2, 8)
    loss = pn.jit(nn.nll_loss, dims={"x": (None, count)})
    for classes in (3, 5):
        x = pn.ones((2, classes))
        assert loss(x, pn.asarray([0, classes - 1])).item() == -1
        assert np.isnan(loss(x, pn.asarray([0, classes])).item())


@pytest.mark.parametrize("dtype", [pn.uint8, pn.int8, pn.int16, pn.uint64])
def test_labels_of_any_integer_dtype(dtype):
    x = pn.reshape(pn.arange(600, dtype=pn.float32), (2, 300))
    labels = pn.asarray([1, 100], dtype=dtype)
    expected = nn.cross_entropy(x, labels.astype(pn.int64)).item()
    assert nn.cross_entropy(x, labels).item() == expected
    assert pn.jit(nn.cross_entropy)(x, labels).item() == pytest.approx(expected)

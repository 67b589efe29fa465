"""CTC, margins over classes, and losses as layers, against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn
from planish.errors import PlanishError
from tests.nn.compare import arrays, same_function, same_module, torch

F = torch.nn.functional
REDUCTIONS = ["mean", "sum", "none"]


def there(x: Any) -> pn.Tensor:
    return pn.asarray(x).to_device("interpreter")


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_margins(reduction: str):
    a, b, c = arrays([(5, 4), (5, 4), (5, 4)], 3)
    weight = np.abs(arrays([(4,)], 5)[0])
    classes = np.array([0, 3, 1, 1, 2])
    several = np.array([[1, 2, -1, 0], [3, -1, 0, 0], [-1, 1, 1, 1], [0, 1, 2, 3], [2, 0, -1, -1]])
    yes = np.round(np.random.default_rng(0).random((5, 4)))
    kind: Any = {"reduction": reduction}
    same_function(
        lambda a, b, c: (
            nn.multi_margin_loss(a, there(classes), **kind),
            nn.multi_margin_loss(a, there(classes), 2, 0.7, there(weight), **kind),
            nn.multilabel_margin_loss(a, there(several), **kind),
            nn.multilabel_soft_margin_loss(a, there(yes), there(weight), **kind),
            nn.triplet_margin_loss(a, b, c, swap=True, **kind),
            nn.triplet_margin_with_distance_loss(
                a, b, c, lambda x, y: pn.max(pn.abs(x - y), axis=-1), 0.5, True, **kind
            ),
        ),
        lambda a, b, c: (
            F.multi_margin_loss(a, torch.tensor(classes), **kind),
            F.multi_margin_loss(a, torch.tensor(classes), 2, 0.7, torch.tensor(weight), **kind),
            F.multilabel_margin_loss(a, torch.tensor(several), **kind),
            F.multilabel_soft_margin_loss(a, torch.tensor(yes), torch.tensor(weight), **kind),
            F.triplet_margin_loss(a, b, c, swap=True, **kind),
            F.triplet_margin_with_distance_loss(
                a, b, c, distance_function=lambda x, y: (x - y).abs().amax(-1), margin=0.5, swap=True, **kind
            ),
        ),
        [a, b, c],
    )


TARGETS = np.array([[1, 2, 2, 3], [3, 3, 1, 0], [2, 0, 0, 0], [0, 0, 0, 0]])
LENGTHS = [4, 3, 1, 0]
INPUTS = [9, 8, 5, 6]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("form", ["rows", "line", "last blank"])
def test_ctc(reduction: str, form: str):
    (x,) = arrays([(9, 4, 5)], 2)
    targets, blank = TARGETS, 0
    if form == "line":
        targets = np.concatenate([row[:count] for row, count in zip(TARGETS, LENGTHS, strict=True)])
    if form == "last blank":
        targets, blank = np.maximum(TARGETS - 1, 0), 4
    same_function(
        lambda x: nn.ctc_loss(
            nn.log_softmax(x, -1),
            there(targets),
            there(np.array(INPUTS)),
            pn.asarray(LENGTHS),
            blank,
            reduction,
        ),
        lambda x: F.ctc_loss(
            x.log_softmax(-1),
            torch.tensor(targets),
            torch.tensor(INPUTS),
            torch.tensor(LENGTHS),
            blank,
            reduction,
        ),
        [x],
        scale=10.0,
    )


def test_ctc_of_one_example_and_compiled():
    (x,) = arrays([(7, 4)], 2, np.float32)
    same_function(
        lambda x: nn.ctc_loss(nn.log_softmax(x, -1), pn.asarray([1, 2]), [7], [2], reduction="none"),
        lambda x: F.ctc_loss(
            x.log_softmax(-1), torch.tensor([1, 2]), torch.tensor(7), torch.tensor(2), reduction="none"
        ),
        [x],
        native=True,
    )


def test_a_target_too_long_for_its_input_costs_inf_or_nothing():
    x = nn.log_softmax(pn.asarray(arrays([(2, 2, 3)], 1)[0]), -1)
    targets, lengths = pn.asarray([[1, 1], [1, 2]]), [2, 2]
    found = nn.ctc_loss(x, targets, [2, 2], lengths, reduction="none")
    assert np.isinf(np.asarray(found)).tolist() == [True, False]
    slope = pn.grad(lambda x: nn.ctc_loss(x, targets, [2, 2], lengths, reduction="sum", zero_infinity=True))(
        x
    )
    assert np.isfinite(np.asarray(slope)).all()
    assert not np.asarray(slope)[:, 0].any()


LAYERS: dict[str, tuple[dict[str, Any], int]] = {
    "BCEWithLogitsLoss": ({"reduction": "sum"}, 2),
    "CosineEmbeddingLoss": ({"margin": 0.2}, 3),
    "CrossEntropyLoss": ({"label_smoothing": 0.1}, 2),
    "GaussianNLLLoss": ({"full": True}, 3),
    "HingeEmbeddingLoss": ({}, 2),
    "HuberLoss": ({"delta": 0.5}, 2),
    "KLDivLoss": ({"reduction": "batchmean"}, 2),
    "L1Loss": ({}, 2),
    "MSELoss": ({"reduction": "none"}, 2),
    "MarginRankingLoss": ({"margin": 0.3}, 3),
    "MultiLabelSoftMarginLoss": ({}, 2),
    "PoissonNLLLoss": ({"log_input": True}, 2),
    "SmoothL1Loss": ({"beta": 0.5}, 2),
    "SoftMarginLoss": ({}, 2),
    "TripletMarginLoss": ({"margin": 0.5}, 3),
    "TripletMarginWithDistanceLoss": ({"margin": 0.5}, 3),
}


@pytest.mark.parametrize("name", LAYERS)
def test_losses_as_layers(name: str):
    settings, count = LAYERS[name]
    given = [np.abs(x) + 0.1 for x in arrays([(4, 3)] * count, 8)]
    if name == "CosineEmbeddingLoss":
        given[2] = np.array([1.0, -1, 1, -1])
    if name == "HingeEmbeddingLoss":
        given[1] = np.where(np.arange(12).reshape(4, 3) % 2, 1.0, -1.0)
    layer = getattr(nn, name)(**settings)
    found = layer(*map(there, given))
    wanted = getattr(torch.nn, name)(**settings)(*map(torch.tensor, given))
    np.testing.assert_allclose(np.asarray(found), wanted.numpy(), rtol=1e-11)


def test_weights_of_a_loss_are_kept_and_not_learnt():
    layer = nn.CrossEntropyLoss(weight=pn.asarray([1.0, 2.0]), reduction="sum")
    assert list(layer.buffers()) == ["weight"]
    assert not layer.parameters()
    x = arrays([(3, 2)], 0, np.float32)[0]
    wanted = F.cross_entropy(
        torch.tensor(x), torch.tensor([0, 1, 1]), torch.tensor([1.0, 2.0]), reduction="sum"
    )
    assert float(layer(pn.asarray(x), pn.asarray([0, 1, 1]))) == pytest.approx(float(wanted), rel=1e-6)
    compiled = pn.jit(lambda layer, x: layer(x, pn.asarray([0, 1, 1])))(layer, pn.asarray(x))
    assert float(compiled) == pytest.approx(float(wanted), rel=1e-6)
    with pytest.raises(TypeError, match="MSELoss has no setting 'size_average'; it has reduction"):
        nn.MSELoss(size_average=True)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: nn.multi_margin_loss(pn.ones((2, 3)), pn.asarray([0, 1]), 3), "the power is 3"),
        (lambda: nn.multi_margin_loss(pn.ones((2, 3)), pn.ones(2)), "the target float32"),
        (lambda: nn.multilabel_margin_loss(pn.ones((2, 3)), pn.asarray([[1]])), r"the target \(1, 1\)"),
        (
            lambda: nn.ctc_loss(pn.ones((4, 2, 3)), pn.asarray([[1], [1]]), [4, 4], [1, 1], 3),
            "the blank is 3",
        ),
        (
            lambda: nn.ctc_loss(pn.ones((4, 2, 3)), pn.asarray([[1], [1]]), [4], [1, 1]),
            "2 integers are expected",
        ),
        (lambda: nn.ctc_loss(pn.ones((4, 2, 3)), pn.ones((2, 1)), [4, 4], [1, 1]), "targets are float32"),
        (
            lambda: pn.jit(lambda n: nn.ctc_loss(pn.ones((4, 1, 3)), pn.asarray([1]), [4], n))(
                pn.asarray([1])
            ),
            "lengths that are known",
        ),
    ],
)
def test_mistakes(call: Any, complaint: str):
    with pytest.raises(PlanishError, match=complaint):
        call()


def test_adaptive_log_softmax():
    targets = np.array([0, 2, 3, 7, 11, 5])
    ours = nn.AdaptiveLogSoftmaxWithLoss(16, 12, [3, 6], 2.0, True, key=0)
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(16, 12, [3, 6], 2.0, True)
    (x,) = arrays([(6, 16)])
    same_module(ours, theirs, [x, targets])
    state = {name: value.numpy().astype(np.float64) for name, value in theirs.state_dict().items()}
    ours = ours.astype(pn.float64)
    ours.load_state_dict(state)
    theirs = theirs.double()
    for name in ("log_prob", "predict"):
        wanted = getattr(theirs, name)(torch.tensor(x)).detach().numpy()
        np.testing.assert_allclose(np.asarray(getattr(ours, name)(pn.asarray(x))), wanted, rtol=1e-10)
    with pytest.raises(PlanishError, match=r"cutoffs are \[6, 3\] for 12 classes.*rise"):
        nn.AdaptiveLogSoftmaxWithLoss(16, 12, [6, 3], key=0)
    with pytest.raises(PlanishError, match=r"targets \(5,\) do not go with inputs \(6, 16\)"):
        ours(pn.asarray(x), pn.asarray(targets[:5]))

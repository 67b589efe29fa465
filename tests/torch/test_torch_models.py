"""Models of many families, forward and a training step: one graph each, all of it run by planish, as eager torch has it."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

import planish.torch  # noqa: E402
from tests.torch.models import MODELS  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"
)


NATIVE = pytest.param(None, marks=pytest.mark.slow)
"""Machine code for every model takes a minute; the interpreter checks the lowerings in a second each."""


@pytest.mark.parametrize("device", ["interpreter", NATIVE])
@pytest.mark.parametrize("name", MODELS)
def test_forward(name, device):
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    model.eval()
    torch._dynamo.reset()
    planish.torch.report(reset=True)
    with torch.no_grad():
        found = planish.torch.compile(model, fullgraph=True, device=device)(*inputs)
        torch.testing.assert_close(found, model(*inputs), rtol=1e-4, atol=1e-5)
    report = planish.torch.report()
    assert (report.graphs, report.segments, report.fallbacks) == (1, 1, {})


@pytest.mark.parametrize("device", ["interpreter", NATIVE])
@pytest.mark.parametrize("name", MODELS)
def test_a_training_step(name, device):
    torch.manual_seed(0)
    ours, inputs = MODELS[name]()
    theirs = copy.deepcopy(ours)
    torch._dynamo.reset()
    planish.torch.report(reset=True)
    for model, run in ((ours, planish.torch.compile(ours, fullgraph=True, device=device)), (theirs, theirs)):
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        run(*inputs).square().mean().backward()
        optimiser.step()
    for (label, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(
            a, b, rtol=1e-3, atol=1e-5, msg=lambda text, label=label: f"{label}: {text}"
        )
    report = planish.torch.report()
    assert (report.graphs, report.segments, report.fallbacks) == (2, 2, {})

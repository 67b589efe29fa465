"""Models of transformers, where it is installed: one graph each way, nothing handed back, eager torch's results."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import planish.torch  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"),
]

TEXT = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64,
        "max_position_embeddings": 64, "use_cache": False}  # fmt: skip
MODELS = {
    "GPT2LMHeadModel": {
        "vocab_size": 99,
        "n_embd": 32,
        "n_layer": 1,
        "n_head": 4,
        "n_positions": 64,
        "use_cache": False,
    },
    "BertForMaskedLM": TEXT,
    "LlamaForCausalLM": {**TEXT, "num_key_value_heads": 2},
}


def _made(name):
    torch.manual_seed(0)
    kind = getattr(transformers, name)
    return kind(kind.config_class(**MODELS[name])), torch.randint(3, 90, (2, 12))


@pytest.mark.parametrize("name", MODELS)
def test_forward(name):
    model, tokens = _made(name)
    model.eval()
    torch._dynamo.reset()
    planish.torch.report(reset=True)
    with torch.no_grad():
        found = planish.torch.compile(model, fullgraph=True, device="interpreter")(input_ids=tokens).logits
        torch.testing.assert_close(found, model(input_ids=tokens).logits, rtol=1e-4, atol=1e-5)
    report = planish.torch.report()
    assert (report.graphs, report.segments, report.fallbacks) == (1, 1, {})


@pytest.mark.parametrize("name", MODELS)
def test_a_training_step_with_the_dropout_that_eager_torch_has(name):
    ours, tokens = _made(name)
    theirs = copy.deepcopy(ours)
    torch._dynamo.reset()
    planish.torch.report(reset=True)
    for model, run in (
        (ours, planish.torch.compile(ours, fullgraph=True, device="interpreter")),
        (theirs, theirs),
    ):
        model.train()
        torch.manual_seed(3)
        run(input_ids=tokens).logits.square().mean().backward()
    for (label, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(
            a.grad, b.grad, rtol=1e-3, atol=1e-5, msg=lambda text, label=label: f"{label}: {text}"
        )
    report = planish.torch.report()
    assert (report.graphs, report.fallbacks) == (2, {})

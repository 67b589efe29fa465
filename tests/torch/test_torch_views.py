"""Results that torch makes as views of what a segment is given or computes: the same numbers, in the memory that eager torch would have."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import planish.torch  # noqa: E402
from planish.torch import partition, running, views  # noqa: E402


def attention() -> Any:
    """Queries, keys and values of one product, for an op that is torch's."""
    model = torch.nn.ModuleDict({"into": torch.nn.Linear(32, 96), "out": torch.nn.Linear(32, 32)})

    def forward(x: Any) -> Any:
        n, t, c = x.shape
        q, k, v = model["into"](x).view(n, t, 3, 4, c // 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return model["out"](y.transpose(1, 2).reshape(n, t, c)), q[:, 0]

    model.forward = forward
    return model


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Attention is torch's, and views are, as for tensors on a GPU; what each segment computes."""
    torch._dynamo.reset()
    computed: list[Any] = []
    unlowered, compiled = partition.unlowered, running.compiled

    def with_attention(graph: Any) -> Any:
        found = unlowered(graph)
        for node in graph.nodes:
            if "scaled_dot_product" in str(node.target) or any(each in found for each in node.args[:1]):
                found[node] = "torch's"
        return found

    def noted(function: Any, inputs: Any, outputs: Any, options: Any, device: Any = None) -> Any:
        computed.append([tuple(form.shape) for form in outputs])
        return compiled(function, inputs, outputs, options)

    monkeypatch.setattr(running, "unlowered", with_attention)
    monkeypatch.setattr(running, "compiled", noted)
    monkeypatch.setattr(running, "device_of", lambda nodes: torch.device("cpu"))
    return computed


def test_parts_of_a_product_are_views_of_it(as_on_a_gpu: list[Any]) -> None:
    torch.manual_seed(0)
    model, x = attention(), torch.randn(2, 5, 32)
    with torch.no_grad():
        made, head = planish.torch.compile(model)(x)
        exact, theirs = model(x)
    assert torch.allclose(made, exact, rtol=1e-4, atol=1e-5)
    assert torch.allclose(head, theirs, rtol=1e-4, atol=1e-5)
    assert head.stride() == theirs.stride()
    assert (10, 96) in as_on_a_gpu[0]  # the product, and nothing of it by itself
    assert (2, 4, 5, 8) not in as_on_a_gpu[0]


def test_a_training_step_of_it(as_on_a_gpu: list[Any]) -> None:
    torch.manual_seed(0)
    model, x = attention(), torch.randn(2, 5, 32)
    fast = planish.torch.compile(model)
    grads = []
    for each in (model, fast):
        model.zero_grad()
        each(x)[0].square().mean().backward()
        grads.append([p.grad.clone() for p in model.parameters()])
    for exact, made in zip(*grads, strict=True):
        assert torch.allclose(made, exact, rtol=1e-4, atol=1e-5)


def test_what_nobody_sees_is_not_computed() -> None:
    graph = torch.fx.symbolic_trace(
        lambda x: torch.ops.aten.slice.Tensor(torch.ops.aten.exp.default(x), 1, 0, 1)
    )
    nodes = [node for node in graph.graph.nodes if node.op == "call_function"]
    given = next(iter(graph.graph.nodes))
    given.meta["val"] = nodes[0].meta["val"] = torch.empty(4, 8)
    nodes[1].meta["val"] = torch.empty(4, 8)[:, :1]
    segment = partition.segment_of(nodes)
    assert views.views_of_segment(segment) == {}


def test_a_sum_with_a_bias_is_rounded_once() -> None:
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(256, 64).bfloat16(), torch.randn(16, 256).bfloat16()
    with torch.no_grad():
        exact = torch.nn.functional.linear(x.double(), layer.weight.double(), layer.bias.double())
        made, eager = (f(x).double() for f in (planish.torch.compile(layer), layer))
    assert (made - exact).norm() <= 1.05 * (eager - exact).norm()


def test_what_a_graph_writes_to_its_inputs_is_there() -> None:
    def step(x: Any, count: Any, y: Any) -> Any:
        x.add_(1)
        count += 1
        return x * y, x.view(-1)

    given = [torch.arange(12.0).reshape(3, 4), torch.tensor(3), torch.full((3, 4), 2.0)]
    mine = [x.clone() for x in given]
    expected, made = step(*given), planish.torch.compile(step)(*mine)
    for ours, theirs in zip([*mine, *made], [*given, *expected], strict=True):
        assert torch.equal(ours, theirs)
    assert made[1].data_ptr() == mine[0].data_ptr()

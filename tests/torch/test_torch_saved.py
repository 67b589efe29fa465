"""What forward keeps for backward on a GPU: captured on the CPU, looked at as if it were on one. No GPU is needed."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from torch._functorch.partitioners import min_cut_rematerialization_partition  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode  # noqa: E402

from planish import compiler, ptir  # noqa: E402
from planish.ptir.library.pooling import max_pool_back  # noqa: E402
from planish.torch import decompositions, mutations, saved  # noqa: E402
from planish.torch.backend import boxed  # noqa: E402
from planish.torch.forms import array_of, form_like, tensor_of  # noqa: E402
from planish.torch.importing import Import  # noqa: E402

CUDA = torch.device("cuda", 0)


def _on_gpu(fake: Any, mode: FakeTensorMode) -> Any:
    if isinstance(fake, tuple | list):
        return type(fake)(_on_gpu(each, mode) for each in fake)
    if not isinstance(fake, torch.Tensor):
        return fake
    with mode:
        plain = torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device="meta")
        return FakeTensor(mode, plain, CUDA)


class Captured:
    """The graphs of a training step as functions of PTIR, for tensors on a GPU; run by the reference interpreter."""

    def __init__(self) -> None:
        self.mode = FakeTensorMode()
        self.functions: list[ptir.Function] = []
        self.inputs: list[list[Any]] = []
        self.results: list[list[Any]] = []

    def __call__(self, module: Any, inputs: Sequence[Any]) -> Any:
        return aot_autograd(
            fw_compiler=self.graph,
            bw_compiler=self.graph,
            decompositions=decompositions.table(),
            keep_inference_input_mutations=True,
            partition_fn=min_cut_rematerialization_partition,
        )(module, inputs)

    def graph(self, module: Any, examples: Sequence[Any]) -> Any:
        graph = module.graph
        saved.take_orders(graph, examples)
        for node in graph.nodes:
            if "val" in node.meta:
                node.meta["val"] = _on_gpu(node.meta["val"], self.mode)
        saved.choose_orders(graph)
        saved.report(graph)
        writes = mutations.take_writes(module)
        writing = Import("captured")
        forms = [form_like(node.meta["val"]) for node in graph.nodes if node.op == "placeholder"]
        for node in graph.nodes:
            if node.op == "placeholder":
                writing.take(node, form_like(node.meta["val"]))
            elif node.op == "call_function":
                writing.lower(node)
        wanted = saved.results_of(graph)
        told: list[Any] = [None if node is None else form_like(node.meta["val"]) for node in wanted]
        given_on = [node is None or node.op == "placeholder" for node in wanted]
        function = writing.build(
            [
                (node, form)
                for node, form, is_given in zip(wanted, told, given_on, strict=True)
                if not is_given
            ]
        )
        inputs = [node for node in graph.nodes if node.op == "placeholder"]
        self.functions.append(function)
        self.inputs.append(forms)
        self.results.append(told)

        def run(given: list[Any]) -> list[Any]:
            arrays = [
                array_of(form.ordered(x).contiguous(), form.dtype)
                for form, x in zip(forms, given, strict=True)
            ]
            made = iter(ptir.interpret(function, arrays))
            return [
                (None if node is None else given[inputs.index(node)])
                if is_given
                else form.restored(tensor_of(np.array(next(made), order="C"), form.dtype))
                for node, form, is_given in zip(wanted, told, given_on, strict=True)
            ]

        return boxed(mutations.with_writes(run, writes))


def _model() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(16, 32, 3, padding=1, bias=False), torch.nn.BatchNorm2d(32), torch.nn.ReLU(),
        torch.nn.MaxPool2d(3, 2, 1), torch.nn.Conv2d(32, 64, 1, bias=False), torch.nn.BatchNorm2d(64),
    )  # fmt: skip


@pytest.fixture(scope="module")
def step() -> tuple[Captured, Any, Any, Any]:
    torch._dynamo.reset()
    captured = Captured()
    exact, ours = _model(), _model().bfloat16()
    x = torch.randn(8, 16, 16, 16).bfloat16()
    exact(x.float()).square().mean().backward()
    torch.compile(ours, backend=captured, dynamic=False)(x).float().square().mean().backward()
    return captured, ours, exact, x


def test_a_step_is_as_exact_as_eager(step: tuple[Captured, Any, Any, Any]) -> None:
    _, ours, exact, x = step
    eager = _model().bfloat16()
    eager(x).float().square().mean().backward()
    for mine, theirs, right in zip(ours.parameters(), eager.parameters(), exact.parameters(), strict=True):
        allowed = max(2 * (theirs.grad.float() - right.grad).norm(), 0.02 * right.grad.norm())
        assert (mine.grad.float() - right.grad).norm() <= allowed
    for (name, mine), right in zip(ours.named_buffers(), exact.buffers(), strict=True):
        assert torch.allclose(mine.float(), right.float(), rtol=2e-2, atol=1e-2), name


def test_images_are_kept_with_their_channels_last(step: tuple[Captured, Any, Any, Any]) -> None:
    captured = step[0]
    forward, backward = captured.results[0], captured.inputs[1]
    images = [form for form in forward[1:] if form is not None and len(form.shape) == 4]
    kept = [form for form in images if form.order == (0, 2, 3, 1)]
    given = [form for form in images if form.shape[2:] in ((3, 3), (1, 1)) or form.shape[1] == 16]
    assert len(kept) >= 4
    assert len(kept) + len(given) == len(images)
    assert forward[0].order is None  # what the user sees is as eager has it
    told = [form for form in backward if form.shape in {each.shape for each in kept}]
    assert sum(form.order == (0, 2, 3, 1) for form in told) == len(kept)


def test_nothing_is_turned_between_forward_and_backward(step: tuple[Captured, Any, Any, Any]) -> None:
    forward, backward = (compiler.lower(each, "sm_90").plan for each in step[0].functions)
    copies = [
        [name for name in (kernel.name for kernel in plan.kernels) if name.startswith("copy_")]
        for plan in (forward, backward)
    ]
    # x, the gradient of the result and the weights of the 3 x 3 window: what others have laid out
    assert len(copies[0]) <= 2, copies
    assert len(copies[1]) <= 2, copies
    assert not any(kernel.name.startswith("scatter") for kernel in backward.kernels)


@pytest.mark.parametrize(
    ("size", "window", "stride", "pad", "gap", "ceil"),
    [
        ((2, 3, 11, 9), 3, 2, 1, 1, False),
        ((1, 2, 8, 8), 2, 2, 0, 1, False),
        ((2, 2, 10, 12), 3, 1, 1, 1, False),
        ((1, 1, 13, 15), 3, 2, 1, 2, False),
        ((1, 2, 7, 10), 2, 3, 1, 1, True),
    ],
)
def test_a_maximum_pool_is_differentiated_by_asking_windows(
    size: tuple[int, ...], window: int, stride: int, pad: int, gap: int, ceil: bool
) -> None:
    torch.manual_seed(0)
    x = torch.randn(size, dtype=torch.float64, requires_grad=True)
    y, where = torch.nn.functional.max_pool2d(x, window, stride, pad, gap, ceil, return_indices=True)
    gradient = torch.randn_like(y)
    y.backward(gradient)
    g = ptir.Graph("back")
    given = g.input("gradient", ptir.tensor("f64", tuple(y.shape)))
    places = g.input("where", ptir.tensor("i64", tuple(y.shape)))
    each = ([window] * 2, [stride] * 2, [pad] * 2, [gap] * 2)
    function = g.build(max_pool_back(given, places, size, *each))
    (found,) = ptir.interpret(function, [gradient.numpy(), where.numpy()])
    np.testing.assert_allclose(found, x.grad.numpy(), atol=1e-12)


def test_a_product_over_images_and_pixels_is_cut_into_parts() -> None:
    g = ptir.Graph("by_weights")
    x, y = (
        g.input(name, ptir.tensor("bf16", (64, 56, 56, width))) for name, width in (("x", 64), ("y", 256))
    )
    dims = ptir.ops.DotDims((), (0, 1, 2), (0, 1, 2))
    plan = compiler.lower(g.build(x.dot_general(y, dims)), "sm_90").plan
    assert [kernel.name.rpartition("_")[0] for kernel in plan.kernels] == [
        "reduce_32x64x256",
        "reduce_64x256",
    ]


def test_images_that_are_looked_at_in_another_order_are_kept_as_they_are_computed() -> None:
    """A norm of channels moves them last: the convolution's result is kept as that sees it, in one piece."""

    class Stem(torch.nn.Module):  # type: ignore[name-defined,misc]  # torch is Any here
        def __init__(self) -> None:
            super().__init__()
            self.patches, self.norm = torch.nn.Conv2d(16, 32, 2, 2), torch.nn.LayerNorm(32)

        def forward(self, x: Any) -> Any:
            return self.norm(self.patches(x).permute(0, 2, 3, 1))

    torch._dynamo.reset()
    torch.manual_seed(0)
    model, captured = Stem(), Captured()
    x = torch.randn(4, 16, 8, 8)
    exact = copy.deepcopy(model).double()
    exact(x.double()).square().mean().backward()
    with torch.backends.cudnn.flags(allow_tf32=False):
        torch.compile(model, backend=captured, dynamic=False)(x).square().mean().backward()
    for mine, right in zip(model.parameters(), exact.parameters(), strict=True):
        assert torch.allclose(mine.grad.double(), right.grad, rtol=1e-4, atol=1e-5)
    kept = [form for form in captured.results[0][1:] if form is not None and len(form.shape) == 4]
    images = [form for form in kept if form.shape in ((4, 4, 4, 32), (4, 32, 4, 4))]
    assert images
    for form in images:
        assert form.order == (None if form.shape[-1] == 32 else (0, 2, 3, 1))


def test_tokens_of_checks_are_no_results_that_backward_reads():
    a, b = (torch.randn(3, n, generator=torch.Generator().manual_seed(n)) for n in (3, 2))

    def slopes(function):
        given = [x.clone().requires_grad_() for x in (a, b)]
        function(*given).sum().backward()
        return [x.grad for x in given]

    solve = torch.compile(torch.linalg.solve, backend="planish", options={"device": "interpreter"})
    for ours, theirs in zip(slopes(solve), slopes(torch.linalg.solve), strict=True):
        torch.testing.assert_close(ours, theirs)

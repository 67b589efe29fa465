"""bitcast against NumPy's view, scatter_reduce against torch's, with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planish as pn
from planish.errors import PlanishError


@pytest.mark.parametrize(
    ("source", "target"),
    [("float32", "int32"), ("float64", "uint8"), ("uint8", "float32"), ("int16", "uint64"), ("complex64", "float32"), ("bool", "int8")],
)  # fmt: skip
@pytest.mark.parametrize("device", ["cpu", "interpreter"])
def test_bits_are_numpys_view(source: str, target: str, device: str):
    x = (np.random.default_rng(0).normal(size=(3, 8)) * 50).astype(source)
    given = pn.asarray(x).to_device(device)
    if source == "complex64" and device == "cpu":
        given = pn.asarray(x)
    found = np.asarray(given.view(getattr(pn, target)))
    assert np.array_equal(found.view(np.uint8), x.view(target).view(np.uint8))
    assert found.shape == x.view(target).shape


def test_a_view_of_a_shape_is_a_reshape():
    assert pn.arange(6).view(2, -1).shape == (2, 3)
    assert pn.arange(6).view((3, 2)).shape == (3, 2)
    assert pn.asarray([1.0]).view("int32").tolist() == [0x3F800000]


REDUCTIONS = ["sum", "prod", "mean", "amax", "amin"]


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
def test_scatter_reduce_is_torchs(reduce: str, include_self: bool, axis: int):
    torch: Any = pytest.importorskip("torch")
    generator = np.random.default_rng(axis)
    x, src = generator.normal(size=(5, 4)), generator.normal(size=(4, 3))
    index = generator.integers(0, 4, (4, 3))
    there = pn.asarray(index)

    def ours(x: pn.Tensor, src: pn.Tensor) -> pn.Tensor:
        return pn.scatter_reduce(x, there, src, axis, reduce=reduce, include_self=include_self)

    a, b = torch.tensor(x, requires_grad=True), torch.tensor(src, requires_grad=True)
    wanted = a.scatter_reduce(axis, torch.tensor(index), b, reduce, include_self=include_self)
    cotangent = generator.normal(size=x.shape)
    wanted.backward(torch.tensor(cotangent))
    found, pull = pn.vjp(ours, pn.asarray(x), pn.asarray(src))
    by_x, by_src = pull(pn.asarray(cotangent))
    np.testing.assert_allclose(np.asarray(found), wanted.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(by_x), a.grad.numpy(), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(np.asarray(by_src), b.grad.numpy(), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce_of_integers(reduce: str, include_self: bool):
    torch: Any = pytest.importorskip("torch")
    x, src, index = np.arange(5), np.array([7, -3, 4, 10]), np.array([1, 1, 4, 1])
    found = pn.scatter_reduce(
        pn.asarray(x), pn.asarray(index), pn.asarray(src), reduce=reduce, include_self=include_self
    )
    wanted = torch.tensor(x).scatter_reduce(
        0, torch.tensor(index), torch.tensor(src), reduce, include_self=include_self
    )
    assert np.asarray(found).tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: pn.ones(3).view(pn.float64), "3 float32 of shape .* do not make whole float64"),
        (lambda: pn.ones(()).view(pn.int8), "without axes"),
        (lambda: pn.ones(3).view(pn.bool), "need not be bools"),
        (
            lambda: pn.scatter_reduce(pn.ones(3), pn.asarray([0]), pn.ones(1), reduce="last"),
            "no reduction 'last'",
        ),
    ],
)
def test_mistakes(call: Any, complaint: str):
    with pytest.raises(PlanishError, match=complaint):
        call()

"""Convolutions whose space is cut: neighbours lend their edges, nobody gathers anything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn

MESH = pn.Mesh((2, 2), ("rows", "columns"))


@pytest.mark.parametrize(
    ("window", "options"),
    [
        (3, {"padding": 1}),
        (1, {"padding": 0}),
        (5, {"padding": 2}),
        (3, {"padding": 2, "dilation": 2}),
        (3, {"padding": 1, "stride": 2}),
        (2, {"padding": 0, "stride": 2}),
        (4, {"padding": 1, "stride": 2}),
        (3, {"padding": 1, "groups": 2}),
    ],
)
def test_parts_of_a_picture(window: int, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(window)
    x = rng.integers(-4, 5, (2, 4, 16, 8)).astype(np.float32)
    w = rng.integers(-4, 5, (6, 4 // options.get("groups", 1), window, window)).astype(np.float32)

    def f(x: Any, w: Any) -> Any:
        return nn.conv2d(x, w, **options)

    cut = pn.P(None, None, "rows", "columns")
    many: Any = pn.jit(f, mesh=MESH, in_shardings=(cut, pn.P()), out_shardings=cut)
    names = {inst.op.name for inst in many.lower(x, w).walk()}
    assert not {"all_gather", "all_to_all", "all_reduce"} & names
    assert ("permute" in names) == (window > options.get("stride", 1))
    np.testing.assert_array_equal(many(x, w).numpy(), np.asarray(pn.jit(f)(x, w)))


def test_edges_wider_than_a_part_are_gathered() -> None:
    x = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
    w = np.ones((1, 1, 7, 7), np.float32)
    cut = pn.P(None, None, ("rows", "columns"), None)
    many: Any = pn.jit(lambda x, w: nn.conv2d(x, w, padding=3), mesh=MESH, in_shardings=(cut, pn.P()))
    assert "all_gather" in {inst.op.name for inst in many.lower(x, w).walk()}
    np.testing.assert_array_equal(
        np.asarray(many(x, w)), np.asarray(pn.jit(lambda x, w: nn.conv2d(x, w, padding=3))(x, w))
    )


def test_a_gradient_through_edges() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 3, 8, 8)), rng.standard_normal((4, 3, 3, 3))

    def loss(w: Any, x: Any) -> Any:
        return pn.sum(pn.tanh(nn.conv2d(x, w, padding=1)) ** 2)

    both = pn.value_and_grad(loss, argnums=(0, 1))
    many: Any = pn.jit(both, mesh=MESH, in_shardings=(pn.P(), pn.P(None, None, "rows", "columns")))
    value, (dw, dx) = many(w, x)
    alone, (aw, ax) = pn.jit(both)(w, x)
    np.testing.assert_allclose(np.asarray(value), np.asarray(alone), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(dw), np.asarray(aw), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np.asarray(dx), np.asarray(ax), rtol=1e-10, atol=1e-12)

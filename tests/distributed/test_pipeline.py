"""Pipelines are specs: stages cut over an axis of the mesh, and a permute between them at every step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planish as pn
from planish.distributed import pipeline
from planish.errors import ShapeError
from planish.ptir.ops.collective import EXCHANGES

MESH = pn.Mesh(2, "pipe")
STAGES, BATCHES, WIDTH = 4, 3, 5


def stage(params, x):
    return pn.tanh(x @ params["w"] + params["b"])


def data():
    rng = np.random.default_rng(0)
    params = {"w": rng.standard_normal((STAGES, WIDTH, WIDTH)), "b": rng.standard_normal((STAGES, WIDTH))}
    return params, rng.standard_normal((BATCHES, 2, WIDTH))


def one_after_the_other(params, x):
    for n in range(STAGES):
        x = np.tanh(x @ params["w"][n] + params["b"][n])
    return x


def loss(params, x):
    return pn.sum(pipeline(stage, params, x) ** 2)


def test_stages_in_turn():
    params, x = data()
    wanted = one_after_the_other(params, x)
    tensors = {name: pn.asarray(value) for name, value in params.items()}
    np.testing.assert_allclose(pipeline(stage, tensors, pn.asarray(x)).numpy(), wanted, rtol=1e-12)
    many: Any = pn.jit(lambda p, v: pipeline(stage, p, v), in_shardings=(pn.P("pipe"), None), mesh=MESH)
    np.testing.assert_allclose(many(params, x).numpy(), wanted, rtol=1e-12)
    function = many.lower(params, x)
    names = [inst.op.name for inst in function.walk()]
    assert names.count("permute") == 1, "stages hand on to the next rank"
    assert not {"all_gather", "all_to_all"} & set(names), "parameters and hands stay where they are"
    assert [p.type.dims for p in function.params[:2]] == [(2, WIDTH), (2, WIDTH, WIDTH)]


def test_training():
    params, x = data()
    tensors = {name: pn.asarray(value) for name, value in params.items()}
    value, slopes = pn.jit(pn.value_and_grad(loss))(tensors, pn.asarray(x))
    many: Any = pn.jit(
        pn.value_and_grad(loss),
        in_shardings=(pn.P("pipe"), None),
        out_shardings=(None, pn.P("pipe")),
        mesh=MESH,
    )
    found, cut = many(params, x)
    np.testing.assert_allclose(found.numpy(), value.numpy(), rtol=1e-12)
    for name, slope in slopes.items():
        assert cut[name].spec[0] == ("pipe",)
        np.testing.assert_allclose(cut[name].numpy(), slope.numpy(), rtol=1e-10, atol=1e-12)


def test_stages_must_agree():
    params, x = data()
    with pytest.raises(ShapeError, match="parameters are of 3 and 4 stages"):
        pipeline(stage, {"w": pn.asarray(params["w"]), "b": pn.asarray(params["b"][:3])}, pn.asarray(x))
    with pytest.raises(ShapeError, match=r"4 stages do not divide over pipe \(3\).*make it 6 stages"):
        pipeline(stage, params, x, mesh=pn.Mesh(3, "pipe"))
    with pytest.raises(ShapeError, match=r"takes float64 \(2, 5\) and gives float64 \(2, 3\).*keep shape"):
        pipeline(lambda p, v: stage(p, v)[:, :3], params, x)
    with pytest.raises(ShapeError, match=r"no batches in shape \(\)"):
        pipeline(stage, params, pn.asarray(1.0))


def test_batches_may_be_cut_too_and_nothing_is_gathered() -> None:
    params, _ = data()
    x = np.random.default_rng(1).standard_normal((BATCHES, 16, WIDTH))
    mesh = pn.Mesh((2, 2), ("data", "pipe"))
    many: Any = pn.jit(pn.value_and_grad(loss), in_shardings=(pn.P("pipe"), pn.P(None, "data")), mesh=mesh)
    value, slopes = pn.jit(pn.value_and_grad(loss))(params, x)
    found, cut = many(params, x)
    np.testing.assert_allclose(found.numpy(), value.numpy(), rtol=1e-12)
    for name, slope in slopes.items():
        assert cut[name].spec[0] == ("pipe",)
        np.testing.assert_allclose(cut[name].numpy(), slope.numpy(), rtol=1e-10, atol=1e-12)
    function = many.lower(params, x)
    for inst in function.walk():
        if inst.op.name in EXCHANGES:
            assert inst.op.name in ("permute", "all_reduce")
            assert (inst.op.name == "permute") == (inst.parent is not function.body)


def test_all_that_a_loop_carries_may_be_cut() -> None:
    def cell(carry: Any, x: Any) -> Any:
        h, c = carry
        c = 0.5 * c + pn.tanh(x + h)
        return (pn.sin(c), c), (h, c)

    def run(x: Any) -> Any:
        start = pn.zeros(x.shape[1:], dtype=x.dtype)
        return pn.scan(cell, (start, start), x)

    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    many: Any = pn.jit(run, in_shardings=pn.P(None, "pipe"), mesh=MESH)
    function = many.lower(x)
    assert not {inst.op.name for inst in function.walk()} & set(EXCHANGES)
    assert function.layout.results == ((("pipe",), ()),) * 2 + (((), ("pipe",), ()),) * 2
    for got, wanted in zip(pn.tree.leaves(many(x)), pn.tree.leaves(pn.jit(run)(x)), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-12)

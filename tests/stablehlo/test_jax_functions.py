"""`planish.jax`: functions of trees, lowered and exported programs, kinds of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import planish as pn  # noqa: E402
import planish.jax  # noqa: E402
from planish import stablehlo  # noqa: E402
from planish.errors import PlanishError, ShapeError  # noqa: E402
from planish.ptir.ops.control import ScanAttrs  # noqa: E402

W, X = np.ones((4, 5), np.float32), np.arange(12, dtype=np.float32).reshape(3, 4)


def _layer(w: Any, x: Any) -> dict[str, Any]:
    return {"y": jnp.tanh(x @ w), "sum": x.sum()}


def test_kinds_of_arrays_come_back() -> None:
    run = planish.jax.compile(_layer)
    kinds = {np.ndarray: W, jax.Array: jnp.asarray(W), pn.Tensor: pn.asarray(W)}
    for kind, given in kinds.items():
        found = run(given, X)
        assert isinstance(found["y"], kind)
        np.testing.assert_allclose(np.asarray(found["sum"]), X.sum())
    assert len(run.programs) == 1


def test_lowered_and_exported() -> None:
    exported = jax.export.export(jax.jit(_layer))(W, X)
    for source in (jax.jit(_layer).lower(W, X), exported):
        np.testing.assert_allclose(planish.jax.compile(source)(W, X)["y"], np.tanh(X @ W), rtol=1e-6)
    for data in (exported.serialize(), exported.mlir_module_serialized):
        np.testing.assert_allclose(stablehlo.load(bytes(data))(W, X)[0 + 1], np.tanh(X @ W), rtol=1e-6)
    with pytest.raises(PlanishError, match="is expected"):
        planish.jax.compile(exported)(W)


def test_arguments_that_jax_leaves_out() -> None:
    lowered = jax.jit(lambda a, b: b * 2).lower(W, X)
    np.testing.assert_array_equal(planish.jax.compile(lowered)(W, X), X * 2)


def test_static_arguments_counted_from_the_end() -> None:
    run = planish.jax.compile(lambda x, n: x.reshape(n, -1), static_argnums=-1)
    assert run(X, 2).shape == (2, 6)
    assert run(X, 4).shape == (4, 3)
    assert len(run.programs) == 2


def test_static_arguments_and_keys() -> None:
    run = planish.jax.compile(lambda x, n: x.reshape(n, -1), static_argnums=1)
    assert run(X, 2).shape == (2, 6)
    assert run(X, 6).shape == (6, 2)
    assert len(run.programs) == 2
    key = jax.random.key(3)
    found = planish.jax.compile(jax.random.split)(key)
    np.testing.assert_array_equal(jax.random.key_data(found), jax.random.key_data(jax.random.split(key)))


def test_sizes_with_names() -> None:
    (size,) = jax.export.symbolic_shape("b")

    def program(x: Any, y: Any) -> Any:
        return (
            jnp.concatenate([x, y]).reshape(-1) * x.shape[0],
            jnp.cumsum(x, 0),
            x[:, None] + y[None],
            jnp.arange(x.shape[0]),
        )

    spec = jax.ShapeDtypeStruct((size, 4), np.float32)
    exported = jax.export.export(jax.jit(program))(spec, spec)
    each, once = stablehlo.load(exported), stablehlo.load(exported, dims={"b": (1, 64)})
    for count in (2, 3):
        x = X[:count].copy()
        for way in (each, once):
            for found, wanted in zip(way(x, x + 1), program(x, x + 1), strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert (len(each._compiled), len(once._compiled)) == (2, 1)
    with pytest.raises(ShapeError):
        each(X, X[:2])


def test_a_scan_of_jax_has_a_derivative() -> None:
    def last(x: Any) -> Any:
        return jax.lax.scan(lambda c, v: (jnp.tanh(c + v), c), jnp.zeros(4), x)[0].sum()

    program = stablehlo.load(jax.jit(last).lower(X))
    found = pn.grad(lambda x: program(x))(pn.asarray(X * 0.1))
    np.testing.assert_allclose(found.numpy(), jax.grad(last)(X * 0.1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_of_jax_is_a_scan_of_slices(reverse: bool) -> None:
    """What it reads and writes once per turn does not go around: a derivative would keep all of it for every turn."""

    def run(x: Any) -> Any:
        return jax.lax.scan(lambda c, v: (jnp.tanh(c + v), c * 2), jnp.zeros(4), x, reverse=reverse)

    program = stablehlo.load(jax.jit(run).lower(X))
    (scan,) = [inst for inst in program.function() if inst.op.name == "scan"]
    assert isinstance(scan.attrs, ScanAttrs)
    assert scan.attrs.num_carries == 1
    assert [result.type.dims for result in scan.results] == [(4,), (3, 4)]
    for found, wanted in zip(program.interpret(X), run(X), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)

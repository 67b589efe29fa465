"""Meshes, specs, sharded arrays and `jit` with shardings, on virtual ranks of one process."""

from __future__ import annotations

import re
from typing import Any, cast

import numpy as np
import pytest

import planish as pn
from planish import ptir
from planish.errors import PlanishError
from planish.frontend.sharding import Sharded, Sharding
from planish.ptir import ops

MESH = pn.Mesh((2, 2), ("data", "model"))
P = pn.P
WRONG: Any = "data"
"""A name where something else belongs."""


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def kinds(function) -> list[str]:
    return [i.op.name for i in function.walk() if i.op.name in ops.collective.EXCHANGES]


def test_meshes_and_specs():
    assert (MESH.size, MESH.shape, MESH.names) == (4, (2, 2), ("data", "model"))
    assert pn.Mesh((2, 2), ("data", "model")) == MESH != pn.Mesh(4, "data")
    assert repr(P("data", None, ("data", "model"))) == "P('data', None, ('data', 'model'))"
    assert P("data") == P(("data",)) != P("data", None)


def test_arrays_are_cut_and_put_together():
    x = numbers(4, 6)
    for spec in (P(), P("data"), P(None, "model"), P("model", "data"), P(("model", "data"))):
        array = pn.shard(x, MESH, spec)
        np.testing.assert_array_equal(array.numpy(), x)
        np.testing.assert_array_equal(pn.shard(array, MESH, P(None, "model")).numpy(), x)
    cut = pn.shard(x, MESH, P("data", "model"))
    assert [part.shape for part in cut.parts.values()] == [(2, 3)] * 4
    np.testing.assert_array_equal(cut.parts[1].numpy(), x[:2, 3:])
    assert (cut.shape, cut.dtype, cut.ndim) == ((4, 6), pn.float32, 2)
    np.testing.assert_array_equal(np.asarray(pn.shard(cut, pn.Mesh(2, "m"), P("m"))), x)


def loss(params, x):
    return pn.mean((pn.tanh(x @ params["w1"]) @ params["w2"]) ** 2)


def step(params, x):
    value, slopes = pn.value_and_grad(loss)(params, x)
    return value, {name: params[name] - 0.1 * slopes[name] for name in params}


WEIGHTS = {"w1": numbers(16, 32, seed=1), "w2": numbers(32, 16, seed=2)}
STYLES = {
    "data": ({"w1": P(), "w2": P()}, P(("data", "model")), {"all_reduce"}),
    "tensor": ({"w1": P(None, "model"), "w2": P("model")}, P("data"), {"all_reduce"}),
    "zero": ({"w1": P("data"), "w2": P("data")}, P("data"), {"all_gather", "reduce_scatter", "all_reduce"}),
}


@pytest.mark.parametrize("style", STYLES)
def test_training_is_only_another_spec(style):
    """Data parallel, tensor parallel, and parameters cut over the data axis: the same losses and weights."""
    specs, given, wanted = STYLES[style]
    x = numbers(64, 16)
    single = {name: pn.asarray(w) for name, w in WEIGHTS.items()}
    params = {name: pn.shard(w, MESH, specs[name]) for name, w in WEIGHTS.items()}
    one, many = pn.jit(step), pn.jit(step, in_shardings=(specs, given), out_shardings=(P(), specs), mesh=MESH)
    assert set(kinds(many.lower(params, x))) == wanted
    for _ in range(3):
        value, single = one(single, x)
        found, params = many(params, x)
        np.testing.assert_allclose(found.numpy(), value.numpy(), rtol=1e-5)
    for name, w in single.items():
        assert isinstance(params[name], Sharded) or not any(specs[name])
        np.testing.assert_allclose(params[name].numpy(), w.numpy(), rtol=1e-4, atol=1e-6)


def test_what_is_not_said_is_found():
    """A plain array is free; a sharded one brings its spec and its mesh."""
    x = pn.shard(numbers(8, 16), MESH, P("data"))
    double = pn.jit(lambda a, b: (a * 2 + b, pn.sum(a)))
    y, total = double(x, numbers(8, 16, seed=4))
    assert y.spec == (("data",), ())
    assert total.shape == ()
    np.testing.assert_allclose(total.numpy(), x.numpy().sum(), rtol=1e-5)


def test_specs_by_name_and_static_arguments():
    def f(params, x, power):
        return x @ params["w1"] ** power

    by_name = lambda name, shape: P(None, "model") if "w1" in name else None  # noqa: E731
    many = pn.jit(f, in_shardings=(by_name, P("data"), None)[:2], static_argnums=2, mesh=MESH)
    x = numbers(8, 16)
    y = many(WEIGHTS, x, 2)
    assert y.spec == (("data",), ("model",))
    np.testing.assert_allclose(y.numpy(), x @ WEIGHTS["w1"] ** 2, rtol=1e-4, atol=1e-4)


def test_results_have_names_for_specs():
    names = []

    def spec(name, shape):
        names.append((name, shape))
        return P("data") if "['w1']" in name else None

    many: Any = pn.jit(lambda params: {"new": params, "n": 1.0}, out_shardings=spec, mesh=MESH)
    made = many(WEIGHTS)
    assert names == [
        ("result['n']", ()),
        ("result['new']['w1']", (16, 32)),
        ("result['new']['w2']", (32, 16)),
    ]
    assert made["new"]["w1"].spec == (("data",), ())


def test_constraints_inside():
    def f(x):
        y = pn.with_sharding(pn.exp(x), P(None, "model"))
        return pn.with_sharding(y, P("model"))

    many = pn.jit(f, in_shardings=P("data"), mesh=MESH)
    x = numbers(4, 8)
    y = many(x)
    assert y.spec == (("model",), ())
    np.testing.assert_allclose(y.numpy(), np.exp(x), rtol=1e-6)
    with MESH:
        plain = pn.with_sharding(pn.asarray(x), P("data"))
    np.testing.assert_array_equal(plain.numpy(), x)
    assert "sharding" not in pn.jit(lambda a: pn.with_sharding(a, P("data"), mesh=MESH) * 2).lower(x).as_text(
        "plan"
    )


def test_the_program_as_text():
    many: Any = pn.jit(loss, in_shardings=(P(), P("data")), mesh=MESH)
    function = many.lower(WEIGHTS, numbers(8, 16))
    text = ptir.print(function)
    assert 'layout {mesh=[["data", 2], ["model", 2]], params=' in text
    assert ptir.print(ptir.parse(text)) == text
    assert ptir.from_json(ptir.to_json(function)).entry.layout == function.layout


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pn.Mesh((2, 2), ("a",)), "mesh of 2 axes .* and 1 names a"),
        (lambda: pn.Mesh((2, 0), ("a", "b")), "axis 'b' of the mesh has 0 ranks"),
        (lambda: pn.shard(numbers(4, 4), MESH, P("dta")), "no axis 'dta'.*did you mean 'data'"),
        (
            lambda: pn.shard(numbers(5, 4), MESH, P("data")),
            r"size 5 .* data \(2\) into 2 equal parts.*pad it to 6",
        ),
        (lambda: pn.shard(numbers(4, 4), MESH, P("data", "data")), "name one twice"),
        (
            lambda: pn.shard(numbers(4), MESH, P("data", None)),
            r"P\('data', None\) is about 2 axes, and the shape is \(4,\)",
        ),
        (lambda: pn.with_sharding(numbers(4), P("data")), "no mesh says"),
        (
            lambda: pn.jit(loss, in_shardings=(P(),), mesh=MESH)(WEIGHTS, numbers(8, 16)),
            "has 1 entries.*called with 2",
        ),
        (
            lambda: pn.jit(loss, in_shardings=(P(), P("data")))(WEIGHTS, numbers(8, 16)),
            "has shardings and no mesh",
        ),
        (
            lambda: pn.jit(loss, in_shardings=({"w1": P()}, None), mesh=MESH)(WEIGHTS, numbers(8, 16)),
            "does not fit 2 values of a dict",
        ),
        (
            lambda: pn.jit(lambda x: x, mesh=MESH)(pn.shard(numbers(4), pn.Mesh(2, "m"), P("m"))),
            "arrays of two meshes",
        ),
        (
            lambda: pn.Mesh(cast("Any", (1.5, 2)), ("a", "b")),
            r"whole number says, not \(1.5, 2\).*write Mesh",
        ),
        (lambda: pn.Mesh((2, 2), cast("Any", (1, 2))), "named by text, not 1, 2.*write Mesh"),
        (lambda: P(cast("Any", 3)), "names axes of a mesh, not 3.*write P"),
        (lambda: pn.shard(numbers(4), WRONG, P("data")), "shard: 'data' is no mesh.*make one"),
        (lambda: pn.jit(loss, mesh=WRONG), "jit: 'data' is no mesh.*make one"),
        (lambda: Sharding(MESH, WRONG), "'data' is no spec.*write planish.P"),
        (lambda: pn.shard(3.0, MESH, P("data")), r"the shape is \(\).*a single number is not cut"),
        (lambda: pn.shard("letters", MESH, P("data")), "not a rectangular array of numbers"),
        (
            lambda: pn.jit(loss, in_shardings="data", mesh=MESH)(WEIGHTS, numbers(8, 16)),
            "'data' does not fit",
        ),
        (
            lambda: pn.jit(lambda x: x[:3], in_shardings=P(), out_shardings=P("data"), mesh=MESH)(numbers(4)),
            "size 3 cannot be cut",
        ),
    ],
)
def test_mistakes_name_the_line(make, message):
    with pytest.raises(PlanishError) as caught:
        make()
    assert re.search(message, str(caught.value), re.DOTALL), caught.value
    assert "test_sharding_api.py" in str(caught.value)


def test_a_single_number_is_on_every_rank() -> None:
    number = pn.shard(np.float32(3), MESH, P())
    assert (number.shape, number.part.shape, number.numpy().shape) == ((), (), ())
    assert float(pn.jit(lambda x: x * 2)(number)) == 6


def test_a_sharding_holds_mesh_and_spec():
    many: Any = pn.jit(lambda x: pn.sum(x, 0), in_shardings=Sharding(MESH, P("data", "model")))
    x = numbers(4, 8)
    y = many(x)
    assert y.spec == (("model",),)
    np.testing.assert_allclose(y.numpy(), x.sum(0), rtol=1e-5)


@pytest.mark.parametrize("option", [{"device": "cpu"}, {"schedule": "upcast(i, 4)"}])
def test_what_a_sharded_function_does_not_take_is_refused(option):
    with pytest.raises(PlanishError, match=r"cannot be given beside shardings.*leave it out"):
        pn.jit(step, mesh=MESH, **option)
    many: Any = pn.jit(lambda x: x, in_shardings=Sharding(MESH, P("data", "model")))
    with pytest.raises(PlanishError, match=r"cannot be given beside sharded arrays.*leave it out"):
        pn.jit(lambda x: x + 1, **option)(many(numbers(4, 8)))


def test_donated_parts_give_their_memory_and_are_gone() -> None:
    mesh = pn.Mesh((1,), ("data",))

    @pn.jit(donate_argnums=0, mesh=mesh, in_shardings=(pn.P("data"), pn.P()), out_shardings=pn.P("data"))
    def add(x: Any, y: Any) -> Any:
        return x + y

    given = np.arange(4096, dtype=np.float32)
    x, y = pn.shard(given, mesh, pn.P("data")), np.ones(4096, np.float32)
    place = x.part.numpy().ctypes.data
    made = add(x, y)
    assert made.part.numpy().ctypes.data == place
    np.testing.assert_array_equal(made.numpy(), given + 1)
    with pytest.raises(pn.PlanishError, match="donated"):
        x.numpy()
    # an array of the caller's own stays as it is
    np.testing.assert_array_equal(add(given, y).numpy(), np.arange(4096) + 1)
    np.testing.assert_array_equal(given, np.arange(4096))


def test_values_within_a_program_are_cut_as_far_as_they_divide() -> None:
    mesh = pn.Mesh((2, 3), ("a", "b"))

    @pn.jit(mesh=mesh, in_shardings=P("a"))
    def odd(x: Any) -> Any:
        y = pn.with_sharding(pn.cumulative_sum(x[:, :7], axis=1), P("b", "a"))  # 4 x 7: not at all
        z = pn.with_sharding(pn.concat([y, x], axis=1), P(None, ("a", "b")))  # 4 x 16: along a alone
        return z, pn.sum(z, axis=0)

    x = numbers(4, 9)
    wanted = np.concatenate([np.cumsum(x[:, :7], axis=1), x], axis=1)
    made, total = odd(x)
    assert made.spec == ((), ("a",))
    np.testing.assert_allclose(made.numpy(), wanted, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(total), wanted.sum(0), rtol=1e-5)
    with pytest.raises(PlanishError, match="no axis 'c'"):
        pn.jit(lambda x: pn.with_sharding(x, P("c")), mesh=mesh)(x)


def test_a_module_may_change_between_calls() -> None:
    layer: Any = pn.nn.Linear(6, 4, key=pn.random.key(0))
    many: Any = pn.jit(layer, in_shardings=(P("data"),), mesh=MESH)
    x = numbers(4, 6)
    first = many(x).numpy()
    layer.weight, layer.bias = layer.weight * 2, layer.bias * 2
    np.testing.assert_allclose(many(x).numpy(), 2 * first, rtol=1e-6)


def test_methods_and_arguments_by_name_have_shardings() -> None:
    class Scaled(pn.nn.Module):
        def __init__(self) -> None:
            self.by = pn.asarray(np.float32(3))

        @pn.jit(mesh=MESH, in_shardings=(None, P("data"), P(None, "model")))
        def __call__(self, x: Any, y: Any) -> Any:
            return x * self.by + y

    x, y = numbers(4, 6), numbers(4, 6, seed=1)
    made: Any = Scaled()(x, y=y)
    assert made.spec == (("data",), ("model",))
    np.testing.assert_allclose(made.numpy(), x * 3 + y, rtol=1e-6)


def test_results_may_have_named_sizes() -> None:
    many: Any = pn.jit(
        lambda x: x + pn.sum(x, axis=1, keepdims=True),
        dims={"x": (None, pn.Dim("n", 1, 9))},
        in_shardings=P("data"),
        mesh=MESH,
    )
    for size in (3, 8):
        x = numbers(4, size)
        assert many(x).shape == (4, size)
        np.testing.assert_allclose(many(x).numpy(), x + x.sum(1, keepdims=True), rtol=1e-5)


def test_shardings_of_a_function_hold_where_another_calls_it() -> None:
    inner: Any = pn.jit(
        lambda x: pn.tanh(x), in_shardings=P("data"), out_shardings=P(None, "model"), mesh=MESH
    )
    outer: Any = pn.jit(lambda x: inner(x) + 1, mesh=MESH)
    x = numbers(4, 6)
    function = outer.lower(x)
    assert function.layout.params == ((("data",), ()),)
    assert outer(x).spec == ((), ("model",))
    np.testing.assert_allclose(outer(x).numpy(), np.tanh(x) + 1, rtol=1e-6)
    uneven: Any = pn.jit(lambda x: inner(x[:3]), mesh=MESH)
    np.testing.assert_allclose(np.asarray(uneven(x)), np.tanh(x[:3]), rtol=1e-6)

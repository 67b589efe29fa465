"""Functions under transforms that look at their values, run without compilation, or are asked for shapes alone."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish.config import current


def branching(x: pn.Tensor) -> pn.Tensor:
    """Which way it goes depends on the value."""
    return x * x if x > 1.0 else -x


def test_derivatives_follow_the_branch_that_the_value_takes() -> None:
    for value, slope in ((3.0, 6.0), (0.5, -1.0)):
        x = pn.asarray(value)
        assert float(pn.grad(branching)(x)) == slope
        assert float(pn.jvp(branching, (x,), (pn.asarray(1.0),))[1]) == slope
        assert float(pn.jacfwd(branching)(x)) == slope
        _out, back = pn.vjp(branching, x)
        assert float(back(pn.asarray(1.0))[0]) == slope
    assert float(pn.grad(pn.grad(branching))(pn.asarray(3.0))) == 2.0  # the inner one looks through the outer


def test_masks_prints_and_numbers_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    def loss(x: pn.Tensor) -> pn.Tensor:
        print("here", x)
        positive = x[x > 0]
        return pn.sum(positive**2) * float(pn.max(x))

    gradient = pn.grad(loss)(pn.asarray([1.0, -2.0, 3.0]))
    assert gradient.tolist() == [6.0, 0.0, 18.0]
    assert "here Tensor([ 1., -2.,  3.]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("function", "shape"),
    [(pn.jit(branching), ()), (pn.jit(pn.grad(branching)), ()), (pn.vmap(branching), (2,))],
)
def test_what_serves_any_value_still_has_none(function: Any, shape: tuple[int, ...]) -> None:
    with pytest.raises(pn.PlanishError, match="is asked for while"):
        function(pn.ones(shape))


def test_functions_with_rules_look_at_their_values_too() -> None:
    ruled = pn.custom_vjp(branching)
    ruled.defvjp(
        lambda x: (branching(x), x if float(x) > 1 else None),
        lambda kept, g: (g * (7 if kept is None else 5),),
    )
    jvp_ruled = pn.custom_jvp(branching)
    jvp_ruled.defjvp(lambda p, t: (jvp_ruled(p[0]), (3 if p[0] > 1 else 4) * t[0]))
    again = pn.checkpoint(branching)
    for value, slope in ((3.0, 5.0), (0.5, 7.0)):
        assert float(pn.grad(lambda x: 2 * ruled(x))(pn.asarray(value))) == 2 * slope
    x = pn.asarray(3.0)
    assert float(pn.grad(jvp_ruled)(x)) == 3.0
    assert float(pn.jvp(jvp_ruled, (pn.asarray(0.5),), (x,))[1]) == 12.0
    assert float(pn.grad(lambda x: again(x) * 2)(x)) == 12.0
    assert float(pn.grad(pn.grad(lambda x: again(again(x))))(x)) == 12 * 9.0
    assert float(pn.jvp(lambda x: again(-x), (x,), (x,))[1]) == 3.0
    kept = pn.checkpoint(lambda x: pn.sum(x[x > 1] ** 2))
    assert pn.grad(kept)(pn.asarray([0.5, 2.0])).tolist() == [0.0, 4.0]
    for function in (ruled, again):
        with pytest.raises(pn.PlanishError, match="is asked for while"):
            pn.jit(pn.grad(function))(x)
        with pytest.raises(pn.PlanishError, match="is asked for while"):
            pn.vmap(pn.grad(function))(pn.ones(2))


def test_a_mask_that_is_not_known_says_what_to_do() -> None:
    with pytest.raises(pn.PlanishError, match=r"x\[mask\]: how many.*planish\.where\(mask, x, 0\)"):
        pn.jit(lambda x: x[x > 0])(pn.ones(2))


def test_looking_inside_a_loop_of_a_transform_is_refused() -> None:
    with pytest.raises(pn.PlanishError, match="is asked for while"):
        pn.grad(lambda x: pn.fori_loop(0, 3, lambda i, c: c * 2 if c > 0 else c, x))(pn.asarray(2.0))


def test_without_jit_functions_run_as_python() -> None:
    seen: list[float] = []

    @pn.jit
    def step(x: pn.Tensor) -> pn.Tensor:
        seen.append(float(x) if not current().jit else 0.0)
        return x * 2

    with pn.disable_jit():
        assert float(step(pn.asarray(3.0))) == 6.0
        assert float(pn.jit(branching)(pn.asarray(3.0))) == 9.0
    assert seen == [3.0]
    assert step.cache_info().misses == 0


def test_without_jit_loops_and_branches_run_as_python() -> None:
    seen: list[float] = []

    def look(x: pn.Tensor) -> pn.Tensor:
        if not current().jit:
            seen.append(float(x))
        return x

    def step(carried: pn.Tensor, x: dict[str, pn.Tensor]) -> tuple[pn.Tensor, Any]:
        return look(carried) + x["a"], {"y": carried * 2, "n": 1}

    xs = {"a": pn.arange(1.0, 4.0)}
    calls: list[Any] = [
        lambda: pn.scan(step, 0.0, xs),
        lambda: pn.scan(step, 0.0, xs, reverse=True),
        lambda: pn.map(lambda x: (look(x), 2), pn.arange(3.0)),
        lambda: pn.fori_loop(2, pn.asarray(5), lambda i, c: look(c) + i, 1.0),
        lambda: pn.while_loop(lambda c: look(c["v"]) < 9, lambda c: {"v": c["v"] * 2}, {"v": 1.0}),
        lambda: pn.while_loop(lambda c: c < 9, lambda c: look(c) * 2, 1.0, max_steps=2),
        lambda: pn.cond(pn.asarray(False), lambda x: x, lambda x: look(x) + 1, pn.asarray(3.0)),
        lambda: pn.switch(7, [lambda x: x, lambda x: look(x) * 5], pn.asarray(3.0)),
        lambda: pn.grad(lambda x: pn.scan(step, x, xs)[1]["y"].sum())(pn.asarray(1.0)),
    ]
    counts = [3, 3, 3, 3, 5, 2, 1, 1, 3]
    for call, count in zip(calls, counts, strict=True):
        traced = call()
        assert not seen
        with pn.disable_jit():
            found = call()
        assert len(seen) == count
        seen.clear()
        assert pn.tree.structure(found) == pn.tree.structure(traced)
        for ours, theirs in zip(pn.tree.leaves(found), pn.tree.leaves(traced), strict=True):
            assert (ours.dtype, ours.tolist()) == (theirs.dtype, theirs.tolist())


def test_without_jit_a_loop_of_no_turns_still_has_its_types() -> None:
    with pn.disable_jit():
        made = pn.scan(lambda c, x: (c, {"y": x}), 0.0, pn.zeros((0, 2)))[1]
    assert made["y"].shape == (0, 2)


def test_shapes_are_known_without_computing() -> None:
    spec = pn.TensorSpec((3, 4))
    found = pn.eval_shape(lambda x, y: {"a": x @ y, "n": pn.sum(x)}, spec, pn.ones((4, 2)))
    assert found == {"a": pn.TensorSpec((3, 2)), "n": pn.TensorSpec(())}


def test_a_linearized_function_is_its_derivative() -> None:
    x = np.array([0.5, 1.0, 2.0], np.float32)
    out, linear = pn.linearize(lambda x: pn.sin(x) * x, pn.asarray(x))
    np.testing.assert_allclose(np.asarray(out), np.sin(x) * x, rtol=1e-6)
    for tangent in (np.ones(3, np.float32), x):
        slope = (np.cos(x) * x + np.sin(x)) * tangent
        np.testing.assert_allclose(np.asarray(linear(pn.asarray(tangent))), slope, rtol=1e-6)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_an_associative_scan_is_the_running_result(size: int, reverse: bool) -> None:
    """Of affine functions, which do not commute."""
    a, b = np.random.default_rng(size).normal(size=(2, 3, size))

    def combine(left: Any, right: Any) -> Any:
        return left[0] * right[0], left[1] * right[0] + right[1]

    ours = pn.associative_scan(combine, (pn.asarray(a), pn.asarray(b)), reverse=reverse, axis=1)
    order = range(size)[::-1] if reverse else range(size)
    running, wanted = (1.0, 0.0), np.zeros((2, 3, size))
    for place in order:
        running = combine(running, (a[:, place], b[:, place]))
        wanted[:, :, place] = running
    for one, other in zip(ours, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-12, atol=1e-12)


@dataclasses.dataclass
class Layer:
    weight: pn.Tensor
    name: str
    size: int = dataclasses.field(default=2, metadata={"static": True})


def test_static_fields_are_part_of_the_program() -> None:
    calls = []

    @pn.jit
    def scaled(layer: Layer, x: pn.Tensor) -> Layer:
        calls.append(layer.name)
        return dataclasses.replace(
            layer, weight=layer.weight * x * (2 if layer.name == "double" else 1) * layer.size
        )

    for _ in range(2):
        made = scaled(Layer(pn.ones(2), "double"), pn.asarray(3.0))
        assert made.weight.tolist() == [12.0, 12.0]
        assert (made.name, made.size) == ("double", 2)
    assert scaled(Layer(pn.ones(2), "single", 5), pn.asarray(1.0)).weight.tolist() == [5.0, 5.0]
    assert calls == ["double", "single"]
    gradient = pn.grad(lambda layer: pn.sum(layer.weight**2))(Layer(pn.ones(2), "a"))
    assert (gradient.weight.tolist(), gradient.name) == ([2.0, 2.0], "a")
    with pytest.raises(pn.PlanishError, match=r"static field size of Layer cannot be hashed"):
        scaled(Layer(pn.ones(2), "a", [1]), pn.asarray(1.0))  # type: ignore[arg-type]


def test_dicts_of_the_library_come_back_as_they_were() -> None:
    ordered = OrderedDict(z=pn.ones(2), a=pn.zeros(2))
    missing = defaultdict(list, {"k": [pn.ones(1)]})
    for through in (lambda t: pn.tree.map(lambda x: x + 1, t), pn.jit(lambda t: t)):
        assert list(through(ordered)) == ["z", "a"]
        found = through(missing)
        assert type(found) is defaultdict
        assert found["new"] == []
    assert pn.tree.structure(missing) != pn.tree.structure(defaultdict(None, missing))
    assert list(pn.grad(lambda t: pn.sum(t["z"] * t["a"]))(ordered)) == ["z", "a"]


def test_trees_are_taken_apart_by_path() -> None:
    tree = {"b": [pn.ones(2), 3.0], "a": Layer(pn.zeros(1), "n")}
    leaves, structure = pn.tree.flatten(tree)
    assert [path for path, _ in pn.tree.flatten_with_path(tree)[0]] == [
        "['a'].weight",
        "['b'][0]",
        "['b'][1]",
    ]
    assert pn.tree.structure(pn.tree.unflatten(structure, leaves)) == structure
    assert pn.tree.map(lambda x, y: x + y, [1, {"k": 2}], [10, {"k": 20}]) == [11, {"k": 22}]
    paths: Any = pn.tree.map_with_path(lambda path, x, y: (path, x * y), [1, 2], [3, 4])
    assert paths == [("[0]", 3), ("[1]", 8)]
    assert pn.tree.reduce(lambda a, b: a + b, {"x": 1, "y": (2, 3)}) == 6
    assert pn.tree.all([True, [True]])
    assert not pn.tree.all([True, [False]])
    with pytest.raises(pn.PlanishError, match=r"trees differ: list\(\*\) and list\(\*, \*\).*keys"):
        pn.tree.map(lambda x, y: x, [1], [1, 2])
    with pytest.raises(pn.PlanishError, match=r"dict\(a=\*\) and dict\(b=\*\)"):
        pn.tree.map(lambda x, y: x, {"a": 1}, {"b": 1})

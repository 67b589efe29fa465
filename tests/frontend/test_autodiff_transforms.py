"""The transforms as users call them: trees, errors at their line, composition, rules of one's own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

import planish as pn
from planish import ptir
from planish.errors import DTypeError, GraphError, PlanishError, ShapeError
from planish.frontend import autodiff
from planish.frontend.custom import checkpoint, custom_jvp, custom_vjp, stop_gradient
from planish.frontend.flat import Flat, TracedTree
from planish.frontend.tensor.application import apply
from planish.frontend.trace import trace
from planish.frontend.transforms import grad, hessian, jacfwd, jacrev, jvp, value_and_grad, vjp, vmap
from planish.ptir import ops

HERE = __file__
X = np.array([0.5, -1.25, 2.0])


def tensor(*numbers, dtype=np.float64):
    return pn.asarray(np.array(numbers, dtype))


def close(tensor, wanted, tolerance=1e-12):
    np.testing.assert_allclose(np.asarray(tensor.numpy()), wanted, rtol=tolerance, atol=tolerance)


def run(function, *tensors):
    """A function on tensors, traced and run by the interpreter as a transform would see it: markers kept."""
    given = Flat(tensors)
    program, free = TracedTree("test", lambda params: function(*params), given.types).captured()
    assert not free
    return ptir.interpret(program, [x.numpy() for x in tensors])


# --- trees and arguments ---


@dataclass
class Layer:
    weight: object
    bias: object


def test_gradients_are_trees_like_the_argument():
    params = {"layers": [Layer(tensor(1.0, 2.0), tensor(0.5)), Layer(tensor(3.0, 4.0), None)], "scale": 2.0}

    def loss(params, x):
        first, second = params["layers"]
        assert second.bias is None
        return pn.sum(first.weight * x * second.weight) * params["scale"] + first.bias[0]

    found = grad(loss)(params, tensor(1.0, 10.0))
    assert isinstance(found["layers"][0], Layer)
    close(found["layers"][0].weight, [6.0, 80.0])
    close(found["layers"][0].bias, [1.0])
    close(found["layers"][1].weight, [2.0, 40.0])
    assert found["layers"][1].bias is None
    close(found["scale"], 83.0)


def test_argnums():
    def f(a, b, c):
        return pn.sum(a * b) + c

    a, b = tensor(1.0, 2.0), tensor(3.0, 4.0)
    close(grad(f, 1)(a, b, 0.0), [1, 2])
    close(grad(f, -1)(a, b, 0.0), 1)
    first, last = grad(f, (0, 2))(a, b, 1.0)
    close(first, [3, 4])
    close(last, 1)
    assert isinstance(grad(f, [0])(a, b, 1.0), tuple)
    with pytest.raises(PlanishError, match="argnums has 3, and there are 3 positional"):
        grad(f, 3)(a, b, 0.0)
    with pytest.raises(PlanishError, match="twice"):
        grad(f, (0, -3))(a, b, 0.0)


def test_keywords_are_constants():
    close(grad(lambda x, *, power: pn.sum(x**power))(tensor(2.0, 3.0), power=3), [12, 27])


def test_integers_in_a_tree_have_no_gradient():
    found = grad(lambda p: pn.sum(p["x"] * p["n"]))(
        {"x": tensor(1.0, 2.0), "n": pn.asarray(np.array([3, 4]))}
    )
    close(found["x"], [3, 4])
    assert found["n"] is None


def test_value_and_aux():
    def f(x):
        return pn.sum(x * x), {"seen": x + 1, "note": "kept", "flag": True}

    (value, aux), gradient = value_and_grad(f, has_aux=True)(tensor(1.0, 2.0))
    close(value, 5)
    close(aux["seen"], [2, 3])
    assert (aux["note"], aux["flag"]) == ("kept", True)
    close(gradient, [2, 4])
    gradient, aux = grad(f, has_aux=True)(tensor(1.0, 2.0))
    assert aux["note"] == "kept"
    with pytest.raises(PlanishError, match=r"has to return a pair \(value, aux\)"):
        grad(lambda x: pn.sum(x), has_aux=True)(tensor(1.0))


def test_what_is_closed_over_is_constant():
    w = tensor(3.0, 5.0)
    close(grad(lambda x: pn.sum(w * x))(tensor(1.0, 2.0)), [3, 5])


def test_numbers_of_other_precisions():
    x = pn.asarray(X.astype(np.float32))
    found = grad(lambda x: pn.sum(pn.astype(x, pn.float64) ** 2))(x)
    assert found.dtype == pn.float32
    close(found, 2 * X, 1e-6)


# --- errors ---


def at_this_file(caught) -> bool:
    return caught.value.location is not None and caught.value.location.file == HERE


def test_errors_are_at_the_users_line():
    with pytest.raises(
        ShapeError, match=r"grad: the function has to return one number, not float64\[2\]"
    ) as caught:
        grad(lambda x: x * 2)(tensor(1.0, 2.0))
    assert at_this_file(caught)
    assert "jacrev" in str(caught.value)
    with pytest.raises(DTypeError, match=r"argument 0 holds int64\[2\]: that has no derivative") as other:
        grad(lambda x: pn.sum(x))(tensor(1, 2, dtype=np.int64))
    assert at_this_file(other)
    with pytest.raises(DTypeError, match="has to return a real number, not complex128"):
        grad(lambda x: pn.sum(x * 1j))(tensor(1.0))
    with pytest.raises(DTypeError, match="not int64"):
        grad(lambda x: pn.sum(pn.astype(x, pn.int64)))(tensor(1.0))
    with pytest.raises(DTypeError, match="has to return one real number, not a str"):
        grad(lambda x: "loss")(tensor(1.0))
    with pytest.raises(DTypeError, match="holds a str"):
        grad(lambda x: pn.sum(x))("nothing")


def test_a_missing_derivative_names_the_line_of_the_op():
    def f(x):
        return pn.sum(apply(ops.custom_call, x, attrs=ops.CustomCallAttrs("none", (x._type,)))[0])

    line = f.__code__.co_firstlineno + 1
    with pytest.raises(GraphError, match="custom_call has no derivative") as caught:
        grad(f)(tensor(1.0, 2.0))
    assert at_this_file(caught)
    assert caught.value.location is not None
    assert caught.value.location.line == line


def test_instructions_of_derivatives_keep_the_line_they_come_from():
    def f(x):
        return pn.sum(pn.sin(x))

    program, _ = TracedTree("test", lambda params: f(*params), [tensor(1.0)._type]).captured()
    lines = {inst.loc.line for inst in autodiff.vjp(program) if inst.op is ops.cos and inst.loc is not None}
    assert lines == {f.__code__.co_firstlineno + 1}


def test_a_while_loop_without_a_bound():
    def f(x):
        condition = trace("while", lambda a: [pn.sum(a) < 100.0], [x._type])
        body = trace("while", lambda a: [a * 2.0], [x._type])
        return pn.sum(apply(ops.while_, x, bodies=(condition, body))[0])

    with pytest.raises(GraphError, match="no reverse derivative") as caught:
        grad(f)(tensor(1.0, 2.0))
    assert "max_steps" in str(caught.value)
    _, moved = jvp(f, (tensor(1.0, 2.0),), (tensor(1.0, 0.0),))
    close(moved, 64)


# --- products with Jacobians ---


def test_vjp_and_its_pull():
    (out, other), pull = vjp(lambda x, y: (x * y, {"sum": pn.sum(x)}), tensor(1.0, 2.0), 3.0)
    close(out, [3, 6])
    close(other["sum"], 3)
    for scale in (1.0, 10.0):
        dx, dy = pull((tensor(scale, 0.0), {"sum": 2.0}))
        close(dx, [3 * scale + 2, 2])
        close(dy, scale)
    with pytest.raises(ShapeError, match=r"the cotangent is float64\[3\], and belongs to float64\[2\]"):
        pull((tensor(1.0, 2.0, 3.0), {"sum": 2.0}))
    with pytest.raises(PlanishError, match="the cotangent is a tree"):
        pull(tensor(1.0, 2.0))
    result, pull, aux = vjp(lambda x: (x * 2, "aux"), tensor(1.0), has_aux=True)
    assert aux == "aux"
    close(pull(tensor(5.0))[0], [10])
    close(result, [2])


def test_vjp_with_integers():
    _, pull = vjp(lambda x, n: (x * n, n), tensor(1.0, 2.0), pn.asarray(np.array([2, 3])))
    dx, dn = pull((tensor(1.0, 1.0), None))
    close(dx, [2, 3])
    assert dn is None


def test_jvp():
    out, moved = jvp(
        lambda x, n: (x**2, n), (tensor(1.0, 2.0), pn.asarray(np.array(3))), (tensor(1.0, 0.5), None)
    )
    close(out[0], [1, 4])
    close(moved[0], [2, 2])
    assert moved[1] is None
    with pytest.raises(PlanishError, match="come in tuples"):
        jvp(lambda x: x, tensor(1.0), tensor(1.0))
    with pytest.raises(ShapeError, match="a tangent is"):
        jvp(lambda x: x, (tensor(1.0),), (tensor(1.0, 2.0),))
    out, moved, aux = jvp(lambda x: (x * 2, "aux"), (tensor(1.0),), (tensor(3.0),), has_aux=True)
    assert aux == "aux"
    close(moved, [6])


def test_jacobians():
    matrix = np.arange(6.0).reshape(2, 3)

    def f(x):
        return {"a": pn.asarray(matrix) @ x, "b": pn.sum(x**2)}

    for transform in (jacrev, jacfwd):
        found = transform(f)(tensor(*X))
        close(found["a"], matrix)
        close(found["b"], 2 * X)
        two = transform(lambda x, y: x[:, None] * y, (0, 1))(tensor(1.0, 2.0), tensor(3.0))
        close(two[0], [[[3, 0]], [[0, 3]]])
        close(two[1], [[[1]], [[2]]])
        with pytest.raises(DTypeError, match=r"returns int64\[3\], which has no derivative"):
            transform(lambda x: pn.astype(x, pn.int64))(tensor(*X))
    close(jacrev(lambda x: pn.asarray(np.ones(2)))(tensor(*X)), np.zeros((2, 3)))


def test_hessian():
    def rosenbrock(x):
        return pn.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    a, b, c = X
    wanted = [
        [1200 * a**2 - 400 * b + 2, -400 * a, 0],
        [-400 * a, 200 + 1200 * b**2 - 400 * c + 2, -400 * b],
        [0, -400 * b, 200],
    ]
    close(hessian(rosenbrock)(tensor(*X)), wanted, 1e-9)


def test_higher_orders():
    def f(x):
        return x**5

    wanted = [2.0**5, 5 * 2.0**4, 20 * 2.0**3, 60 * 2.0**2, 120 * 2.0, 120.0, 0.0]
    for value in wanted:
        close(f(tensor(2.0)[0]), value, 1e-9)
        f = grad(f)


def test_transforms_compose():
    x = tensor(*X)
    close(vmap(grad(lambda a: pn.sin(a) * a))(x), np.cos(X) * X + np.sin(X))
    close(grad(lambda x: pn.sum(vmap(lambda a: a**3)(x)))(x), 3 * X**2)
    close(vmap(hessian(lambda a: a**3))(x), 6 * X)
    close(
        grad(lambda s: pn.sum(vmap(lambda a: vmap(lambda b: a * b * s)(x))(x)))(
            pn.asarray(2.0, dtype=pn.float64)
        ),
        X.sum() ** 2,
    )
    close(jvp(grad(lambda x: pn.sum(x**3)), (x,), (tensor(1.0, 0.0, 0.0),))[1], [6 * X[0], 0, 0])


def test_loops_and_jit_compose():
    """Compiled: jit of grad of vmap of scan, and every other order."""
    w, xs = np.array([0.3, 0.7]), np.linspace(-1, 1, 24).reshape(3, 4, 2)

    def loss(w, xs):
        last, sums = pn.scan(lambda c, x: (pn.tanh(c * w + x), pn.sum(c)), pn.zeros(2, dtype=pn.float64), xs)
        return pn.sum(last) + pn.sum(sums)

    def by_hand(w, xs):
        states = [np.zeros(2)]
        for x in xs:
            states.append(np.tanh(states[-1] * w + x))
        slope, total = np.ones(2), np.zeros(2)
        for before, after in zip(reversed(states[:-1]), reversed(states[1:]), strict=True):
            inner = slope * (1 - after**2)
            total, slope = total + inner * before, inner * w + 1
        return total

    each = np.stack([by_hand(w, x) for x in xs])
    close(pn.jit(vmap(grad(loss), in_axes=(None, 0)))(pn.asarray(w), pn.asarray(xs)), each)
    whole = grad(lambda w: pn.sum(vmap(lambda x: loss(w, x))(pn.asarray(xs))))
    close(pn.jit(whole)(pn.asarray(w)), each.sum(0))
    close(grad(pn.jit(loss))(pn.asarray(w), pn.asarray(xs[0])), each[0])


def test_while_with_a_bound_and_fori_loop():
    w = np.array([0.5, 1.5])
    doubled = grad(
        lambda w: pn.sum(pn.while_loop(lambda c: pn.sum(c) < 30.0, lambda c: c * 2.0, w, max_steps=20))
    )
    close(doubled(pn.asarray(w)), [16, 16])
    close(grad(lambda w: pn.sum(pn.fori_loop(0, 3, lambda i, c: c * w, w)))(pn.asarray(w)), 4 * w**3)
    branch = grad(lambda w: pn.sum(pn.cond(pn.sum(w) > 0, lambda w: w * w, lambda w: -w, w)))
    close(branch(pn.asarray(w)), 2 * w)
    close(branch(pn.asarray(-w)), [-1, -1])


# --- stop_gradient, checkpoint ---


def test_stop_gradient():
    x = tensor(*X)
    close(grad(lambda x: pn.sum(stop_gradient(x) * x))(x), X)
    close(grad(lambda x: pn.sum(stop_gradient({"a": x, "n": 3})["a"] ** 2 + x))(x), np.ones(3))
    for dtype in (pn.float16, pn.bfloat16, pn.float32, pn.complex64, pn.complex128):
        own = pn.astype(x, dtype)
        _, moved = jvp(lambda x: stop_gradient(x) + x, (own,), (pn.ones_like(own),))
        close(pn.astype(pn.abs(moved), pn.float64), np.ones(3))
    one, letter, same = stop_gradient((1, "a", x))
    assert (one, letter) == (1, "a")
    close(vmap(grad(lambda a: stop_gradient(a) * a))(x), X)
    x[0] = 7.0
    close(same, X)


def count(program, *names: str) -> list[int]:
    program = ptir.Program([program.clone()])
    ptir.PassManager.parse("canonicalize,cse,dce").run(program)
    found = Counter(inst.op.name for inst in program.entry.walk())
    return [found[name] for name in names]


def pulled(function, types):
    """The program of a function and its gradient."""
    program, _ = TracedTree("test", lambda params: function(*params), types).captured()
    return autodiff.vjp(program)


def block(x, w):
    return pn.sin(x * w) * pn.exp(x)


@pytest.mark.parametrize("nested", [False, True])
def test_a_checkpoint_is_computed_again(nested):
    def loss(f):
        inner = checkpoint(lambda x, w: pn.tanh(f(x, w))) if nested else f
        return lambda x, w: pn.sum(inner(inner(x, w), w))

    x, w = tensor(*X), tensor(1.0, 2.0, 3.0)
    types = [x._type, w._type]
    plain, kept = (pulled(loss(f), types) for f in (block, checkpoint(block)))
    for a, b in zip(
        grad(loss(block), (0, 1))(x, w), grad(loss(checkpoint(block)), (0, 1))(x, w), strict=True
    ):
        close(a, b.numpy())
    if not nested:
        assert count(plain, "sin", "exp") == [2, 2]
        assert count(kept, "sin", "exp") == [4, 4]


def test_a_checkpoint_keeps_its_argument_alone():
    """Of the first computation nothing is used on the way back but the argument and the result."""
    types = [tensor(*X)._type] * 2
    back = ptir.Program([pulled(lambda x, w: pn.sum(checkpoint(block)(x, w)), types)])
    ptir.PassManager.parse("canonicalize,cse,dce").run(back)
    function = back.entry
    first = {
        value for inst in _before(function.results[0]) for value in inst.results if inst.op.name != "constant"
    }
    later = [inst for inst in function if not (set(inst.results) & first)]
    kept = {
        value.def_inst.op.name
        for inst in later
        for value in inst.operands
        if value in first and value.def_inst
    }
    assert kept == {"checkpoint"}


def test_a_compiled_checkpoint_is_computed_again():
    def loss(f):
        return lambda x: pn.sum(f(f(x, 2.0), 2.0))

    for f, times in ((block, 2), (checkpoint(block), 4)):
        text = pn.jit(grad(loss(f))).lower(tensor(*X)).as_text("ptir")
        assert (text.count("= sin "), text.count("= exp ")) == (times, times)


def _before(value):
    seen, pending = [], [value]
    while pending:
        inst = pending.pop().def_inst
        if inst is not None and inst not in seen:
            seen.append(inst)
            pending += inst.operands
    return seen


def test_a_checkpoint_sees_what_is_around_it_and_composes():
    x, w = tensor(*X), tensor(1.0, 2.0, 3.0)
    close(grad(lambda w: pn.sum(checkpoint(lambda x: x * w * w)(x)))(w), 2 * X * [1, 2, 3])
    close(grad(grad(lambda a: checkpoint(lambda a: a**4)(a)))(pn.asarray(2.0, dtype=pn.float64)), 48)
    close(vmap(grad(checkpoint(pn.sin)))(x), np.cos(X))
    close(jvp(checkpoint(pn.sin), (x,), (x,))[1], np.cos(X) * X)

    @checkpoint
    def tree(x, *, scale):
        return {"y": x * scale, "name": "kept"}

    def loss(x):
        made = tree(x, scale=2.0)
        return pn.sum(made["y"]), made["name"]

    assert grad(loss, has_aux=True)(x)[1] == "kept"
    close(checkpoint(block)(x, w), np.sin(X * [1, 2, 3]) * np.exp(X))


def test_a_checkpoint_in_a_loop():
    def f(x):
        body = trace("scan", lambda c: [checkpoint(lambda c: pn.sin(c) * 1.5)(c)], [x._type])
        return pn.sum(apply(ops.scan, x, attrs=ops.ScanAttrs(1, 3), bodies=(body,))[0])

    wanted, value = np.ones(3), X
    for _ in range(3):
        wanted, value = wanted * 1.5 * np.cos(value), 1.5 * np.sin(value)
    close(grad(f)(tensor(*X)), wanted)


# --- rules of one's own ---


@custom_vjp
def clipped(x, limit):
    """x, whose gradient is cut."""
    return x * 1.0


clipped.defvjp(lambda x, limit: (x * 1.0, limit), lambda limit, c: (pn.clip(c, -limit, limit), None))


@custom_jvp
def loud(x, y):
    """x·y, with a tangent ten times too large."""
    return x * y


@loud.defjvp
def _loud_rule(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    return x * y, 10.0 * (dx * y + x * dy)


def test_custom_vjp():
    x = tensor(*X)
    assert clipped.__doc__ == "x, whose gradient is cut."
    close(clipped(x, 0.5), X)
    close(grad(lambda x: pn.sum(clipped(x, 0.5) * tensor(0.1, 1.0, -3.0)))(x), [0.1, 0.5, -0.5])
    close(vmap(grad(lambda a: clipped(a, 0.5) * 3.0))(x), [0.5] * 3)
    close(grad(lambda x: pn.sum(vmap(lambda a: clipped(a, 0.5) * 3.0)(x)))(x), [0.5] * 3)
    _, moved = jvp(lambda x: clipped(x, 0.5), (x,), (tensor(0.1, 0.2, 0.3),))
    close(moved, [0.1, 0.2, 0.3])
    assert run(lambda x: [clipped(x, 0.5)], x)[0].tolist() == X.tolist()


def test_custom_vjp_of_trees_and_several_results():
    @custom_vjp
    def f(p, x):
        return {"y": p["w"] * x, "n": pn.asarray(np.array(7))}, p["b"]

    def forward(p, x):
        return f(p, x), (p, x, "static")

    def backward(kept, c):
        _, x, note = kept
        assert note == "static"
        assert c[0]["n"] is None
        return {"w": c[0]["y"] * x * 2, "b": c[1] * 3, "name": None}, None

    f.defvjp(forward, backward)
    p = {"w": tensor(*X), "b": tensor(1.0), "name": "p"}

    def loss(p, x):
        first, second = f(p | {"name": "p"}, x)
        return pn.sum(first["y"]) + pn.sum(second)

    trainable = {"w": p["w"], "b": p["b"]}
    (dp, dx) = grad(loss, (0, 1))(trainable, tensor(1.0, 2.0, 3.0))
    close(dp["w"], [2, 4, 6])
    close(dp["b"], [3])
    close(dx, [0, 0, 0])


def test_custom_jvp():
    x, y = tensor(*X), tensor(1.0, 2.0, 3.0)
    close(loud(x, y), X * [1, 2, 3])
    close(jvp(loud, (x, y), (x, y))[1], 10 * (X * [1, 2, 3] + X * [1, 2, 3]))
    dx, dy = grad(lambda x, y: pn.sum(loud(x, y)), (0, 1))(x, y)
    close(dx, [10, 20, 30])
    close(dy, 10 * X)
    close(vmap(grad(loud), in_axes=(0, None))(x, y[1]), [20] * 3)
    close(grad(grad(lambda a: loud(a, a)))(x[0]), 20)


@pytest.mark.parametrize("rule", [loud, clipped], ids=["custom_jvp", "custom_vjp"])
def test_rules_survive_loops_and_other_transforms(rule):
    def f(x):
        def step(c):
            return [rule(c, 2.0 * c) if rule is loud else rule(c, 2.0) * c]

        body = trace("scan", step, [x._type])
        (out,) = apply(ops.scan, x, attrs=ops.ScanAttrs(1, 2), bodies=(body,))
        return pn.sum(checkpoint(lambda y: y * 1.0)(out))

    x = tensor(0.5, 0.25)
    found = grad(f)(x).numpy()
    slope, value = np.ones(2), np.array([0.5, 0.25])
    values = [value]
    for _ in range(2):
        value = 2 * value**2 if rule is loud else value**2
        values.append(value)
    for value in reversed(values[:-1]):
        slope = slope * 40 * value if rule is loud else slope * value + np.clip(slope * value, -2, 2)
    np.testing.assert_allclose(found, slope)
    close(vmap(grad(lambda a: f(a[None])))(x), slope)


def test_what_a_rule_sees_besides_its_arguments_is_constant():
    def loss(x, w):
        @custom_vjp
        def scaled(x):
            return x * w

        scaled.defvjp(lambda x: (scaled(x), x), lambda x, c: (c * w * 3.0,))
        return pn.sum(scaled(x))

    x, w = tensor(*X), tensor(1.0, 2.0, 3.0)
    dx, dw = grad(loss, (0, 1))(x, w)
    close(dx, [3, 6, 9])
    close(dw, [0, 0, 0])
    close(grad(lambda x: pn.sum(grad(loss)(x, w) ** 2))(x), [0, 0, 0])


def test_a_rule_that_does_not_fit():
    @custom_vjp
    def f(x):
        return x * 2

    x = tensor(*X)
    with pytest.raises(GraphError, match="f: it has no rule for its derivative yet"):
        grad(lambda x: pn.sum(f(x)))(x)
    f.defvjp(lambda x: (x * 2, None), lambda kept, c: (c[:2],))
    with pytest.raises(ShapeError, match=r"gives float64\[2\] for an argument float64\[3\]"):
        grad(lambda x: pn.sum(f(x)))(x)
    f.defvjp(lambda x: (x[:2], None), lambda kept, c: (c,))
    with pytest.raises(ShapeError, match=r"gives float64\[2\] where the function gives float64\[3\]"):
        grad(lambda x: pn.sum(f(x)))(x)
    f.defvjp(lambda x: x * 2, lambda kept, c: (c,))
    with pytest.raises(PlanishError, match="has to give a pair"):
        grad(lambda x: pn.sum(f(x)))(x)
    f.defvjp(lambda x: (x * 2, None), lambda kept, c: (c, c))
    with pytest.raises(PlanishError, match="tuple of 1 cotangents"):
        grad(lambda x: pn.sum(f(x)))(x)
    with pytest.raises(PlanishError, match="takes no keyword arguments"):
        f(x=x)


def test_the_compiler_never_meets_a_marker():
    def f(x):
        return pn.sum(checkpoint(pn.sin)(clipped(loud(x, x), 1.0)))

    x = tensor(*X)
    with_markers, _ = TracedTree("test", lambda params: f(*params), [x._type]).captured()
    assert {inst.op.name for inst in with_markers.walk()} & {"checkpoint", "custom_vjp", "custom_jvp"}
    body = trace("test", lambda x: [f(x)], [x._type])
    from planish.frontend.capture import capture_body

    plain, _ = capture_body(body)
    ptir.verify(plain)
    assert not {inst.op.name for inst in plain.walk()} & {"checkpoint", "custom_vjp", "custom_jvp"}
    assert ptir.interpret(plain, [X]) == ptir.interpret(with_markers, [X])
    assert set(ops.REGISTRY) & {"checkpoint", "custom_vjp", "custom_jvp"} == set()

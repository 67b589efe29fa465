"""Transforms of a function of two vectors of four that gives one, into another such: chains of any length have a meaning.

Each is written for a namespace `xp`: planish, or the oracle of `transform_oracle`. Between them they use every transform and every
kind of control flow, with trees, closures, and numbers that do not move among what goes around a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import planish as pn

Function = Callable[[Any, Any], Any]


# --- transforms of functions of two vectors that give one ---------------------------------------------------


def _weights(xp: Any) -> Any:
    return xp.asarray([0.5, -1.0, 0.25, 1.5])


def _grad(xp: Any, f: Function) -> Function:
    return lambda a, b: xp.grad(lambda x, y: xp.sum(f(x, y) * _weights(xp)))(a, b)


def _value_and_grad(xp: Any, f: Function) -> Function:
    def both(a: Any, b: Any) -> Any:
        value, slope = xp.value_and_grad(lambda x, y: xp.sum(f(x, y) * _weights(xp)))(a, b)
        return slope + value

    return both


def _jvp(xp: Any, f: Function) -> Function:
    def along(a: Any, b: Any) -> Any:
        value, slope = xp.jvp(f, (a, b), (b, a))
        return value + slope

    return along


def _vjp(xp: Any, f: Function) -> Function:
    def back(a: Any, b: Any) -> Any:
        value, pull = xp.vjp(f, a, b)
        first, second = pull(_weights(xp))
        return value + first - second

    return back


def _vmap(xp: Any, f: Function) -> Function:
    def rows(a: Any, b: Any) -> Any:
        return xp.sum(xp.vmap(f, (0, None))(xp.stack([a, b, a * b]), b), axis=0)

    return rows


def _vmap_both(xp: Any, f: Function) -> Function:
    def rows(a: Any, b: Any) -> Any:
        return xp.vmap(f, (0, 0))(xp.stack([a, b]), xp.stack([b, a]))[1]

    return rows


def _cond(xp: Any, f: Function) -> Function:
    return lambda a, b: xp.cond(a[0] > b[1], f, lambda x, y: f(y, x) - x, a, b)


def _fori_loop(xp: Any, f: Function) -> Function:
    return lambda a, b: xp.fori_loop(0, 2, lambda i, c: xp.sin(f(c, b[:])), a)


def _while_loop(xp: Any, f: Function) -> Function:
    def loop(a: Any, b: Any) -> Any:
        start = xp.concat([a, xp.asarray([0.0])])

        def step(c: Any) -> Any:
            count = c[4:5] + 1.0
            return xp.concat([xp.sin(f(c[0:4], b[:])), count])

        return xp.while_loop(lambda c: xp.sum(c[4:5]) + 0.1 * c[0] < 1.5, step, start, max_steps=3)[0:4]

    return loop


def _scan(xp: Any, f: Function) -> Function:
    def loop(a: Any, b: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            made = f(c, x)
            return xp.sin(made), made - c

        last, all_ = xp.scan(step, a, xp.stack([b, a]))
        return last + xp.sum(all_, axis=0)

    return loop


def _grad_both(xp: Any, f: Function) -> Function:
    def gradients(a: Any, b: Any) -> Any:
        def loss(x: Any, y: Any) -> Any:
            made = f(x, y)
            return xp.sum(made * _weights(xp)), {"made": made, "note": "kept"}

        (first, second), aux = xp.grad_both(loss)(a, b)
        assert aux["note"] == "kept"
        return first - second + aux["made"]

    return gradients


def _jacrev(xp: Any, f: Function) -> Function:
    return lambda a, b: xp.sum(xp.jacrev(f)(a, b) * _weights(xp), axis=1)


def _jacfwd(xp: Any, f: Function) -> Function:
    return lambda a, b: xp.sum(xp.jacfwd(f)(a, b) * _weights(xp), axis=0)


def _hessian(xp: Any, f: Function) -> Function:
    def curved(a: Any, b: Any) -> Any:
        return xp.sum(xp.hessian(lambda x, y: xp.sum(f(x, y) * _weights(xp)))(a, b) * b, axis=1)

    return curved


def _vmap_columns(xp: Any, f: Function) -> Function:
    """Examples in columns, there and back."""

    def columns(a: Any, b: Any) -> Any:
        return xp.columns(xp.vmap_columns(f)(xp.columns(xp.stack([a, b])), b))[0]

    return columns


def _switch(xp: Any, f: Function) -> Function:
    def chosen(a: Any, b: Any) -> Any:
        number = xp.count(a > 0.3)
        return xp.switch(number - 1, [f, lambda x, y: f(y, x), lambda x, y: x - f(x, y)], a, b)

    return chosen


def _map(xp: Any, f: Function) -> Function:
    return lambda a, b: xp.sum(xp.map(lambda row: f(row, b[:]), xp.stack([a, b, a + b])), axis=0)


def _carried_tree(xp: Any, f: Function) -> Function:
    """A scan backward whose carry has a counter and a flag beside the vector, and that stacks two results."""

    def loop(a: Any, b: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            state, count, flag = carry["state"], carry["count"], carry["flag"]
            made = xp.where(flag, f(state, x), state * 0.5)
            return {"state": xp.sin(made), "count": count + 1, "flag": made[0] < 0.4}, (made, count)

        init = {"state": a, "count": xp.integers(0), "flag": a[1] < 0.8}
        last, (every, counts) = xp.scan_back(step, init, xp.stack([b, a, b]))
        return last["state"] + xp.sum(every, axis=0) + 0.1 * xp.floats(last["count"] + counts[0])

    return loop


TRANSFORMS: Final[dict[str, Callable[[Any, Function], Function]]] = {
    "jit": lambda xp, f: xp.jit(f),
    "checkpoint": lambda xp, f: xp.checkpoint(f),
    "custom": lambda xp, f: xp.custom(f),
    "custom_back": lambda xp, f: xp.custom_back(f),
    "grad": _grad,
    "value_and_grad": _value_and_grad,
    "jvp": _jvp,
    "vjp": _vjp,
    "vmap": _vmap,
    "vmap_both": _vmap_both,
    "cond": _cond,
    "fori_loop": _fori_loop,
    "while_loop": _while_loop,
    "scan": _scan,
    "grad_both": _grad_both,
    "jacrev": _jacrev,
    "jacfwd": _jacfwd,
    "hessian": _hessian,
    "vmap_columns": _vmap_columns,
    "switch": _switch,
    "map": _map,
    "carried_tree": _carried_tree,
}
SLOPES: Final = {
    **dict.fromkeys(("grad", "value_and_grad", "grad_both", "jvp", "vjp", "jacrev", "jacfwd"), 1),
    "hessian": 2,
}
"""How many derivatives each takes."""


def wrapper(xp: Any) -> Callable[[str, Function], Function]:
    """`wrap("jit grad", f)` is jit(grad(f)), in a namespace."""

    def wrap(chain: str, function: Function) -> Function:
        for name in reversed(chain.split()):
            function = TRANSFORMS[name](xp, function)
        return function

    return wrap


def _custom(function: Function) -> Function:
    """The function with its own derivative for a rule."""
    made = pn.custom_jvp(function)
    made.defjvp(lambda primals, tangents: pn.jvp(function, primals, tangents))
    return made


def _custom_back(function: Function) -> Function:
    made = pn.custom_vjp(function)
    made.defvjp(
        lambda a, b: (function(a[:], b[:]), (a, b)),
        lambda kept, cotangent: pn.vjp(function, *kept)[1](cotangent),
    )
    return made


PLANISH: Final = SimpleNamespace(
    asarray=lambda x, copy=None: pn.asarray(x, copy=copy) if isinstance(x, pn.Tensor) else pn.asarray(x, dtype=pn.float64),
    integers=lambda x: pn.asarray(x),
    sin=pn.sin, stack=pn.stack, concat=pn.concat, where=pn.where, sum=pn.sum, jit=pn.jit, checkpoint=pn.checkpoint,
    custom=_custom, jvp=pn.jvp, vjp=pn.vjp, grad=pn.grad, value_and_grad=pn.value_and_grad, vmap=pn.vmap,
    custom_back=_custom_back, jacrev=pn.jacrev, jacfwd=pn.jacfwd, hessian=pn.hessian, switch=pn.switch, map=pn.map,
    grad_both=lambda f: pn.grad(f, argnums=(0, 1), has_aux=True), columns=lambda x: x.mT,
    vmap_columns=lambda f: pn.vmap(f, (1, None), 1), count=lambda x: pn.sum(x.astype(pn.int64)),
    scan_back=lambda f, init, xs: pn.scan(f, init, xs, reverse=True), floats=lambda x: x.astype(pn.float64),
    cond=pn.cond, fori_loop=pn.fori_loop, while_loop=pn.while_loop, scan=pn.scan,
)  # fmt: skip

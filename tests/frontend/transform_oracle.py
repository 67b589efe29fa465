"""What transforms mean, in plain Python: arrays that are assigned to, and functions of them differentiated, batched, looped.

It is slow and obvious. Elements are numbers, or duals for derivatives: one fresh perturbation per direction, so that derivatives
nest. Nothing is traced: a transform calls its function with copies of its arguments, as often as the mathematics says. Random
programs (`assignment_programs`) run on this module and on planish, and have to agree.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_TAGS = itertools.count(1)


class Dual:
    """value + slope · ε, for an ε of its own; both may be duals of older ones."""

    __slots__ = ("slope", "tag", "value")

    def __init__(self, value: Any, slope: Any, tag: int) -> None:
        self.value, self.slope, self.tag = value, slope, tag

    def __add__(self, other: Any) -> Any:
        return _binary(self, other, lambda a, b: a + b, lambda a, b, s, t: s + t)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Any:
        return _binary(self, other, lambda a, b: a * b, lambda a, b, s, t: s * b + a * t)

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return Dual(-self.value, -self.slope, self.tag)

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return other + -self

    def sin(self) -> Any:
        return Dual(_sin(self.value), self.slope * _cos(self.value), self.tag)

    def cos(self) -> Any:
        return Dual(_cos(self.value), -(self.slope * _sin(self.value)), self.tag)

    def __float__(self) -> float:
        return float(self.value)


def _tag(x: Any) -> int:
    return x.tag if isinstance(x, Dual) else 0


def _parts(x: Any, tag: int) -> tuple[Any, Any]:
    return (x.value, x.slope) if _tag(x) == tag else (x, 0.0)


def _binary(x: Any, y: Any, value: Callable[..., Any], slope: Callable[..., Any]) -> Any:
    tag = max(_tag(x), _tag(y))
    (a, s), (b, t) = _parts(x, tag), _parts(y, tag)
    return Dual(value(a, b), slope(a, b, s, t), tag)


def _sin(x: Any) -> Any:
    return x.sin() if isinstance(x, Dual) else math.sin(x)


def _cos(x: Any) -> Any:
    return x.cos() if isinstance(x, Dual) else math.cos(x)


class Array:
    """Elements that assignment changes; reading copies."""

    __slots__ = ("data",)

    def __init__(self, data: Any) -> None:
        self.data = np.array(data, object)

    def __getitem__(self, key: Any) -> Array:
        return Array(self.data[_plain(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        new = _of(value)
        # an array without axes would become an element
        self.data[_plain(key)] = new[()] if isinstance(new, np.ndarray) else new

    def __add__(self, other: Any) -> Array:
        return Array(self.data + _of(other))

    def __radd__(self, other: Any) -> Array:
        return Array(_of(other) + self.data)

    def __sub__(self, other: Any) -> Array:
        return Array(self.data - _of(other))

    def __rsub__(self, other: Any) -> Array:
        return Array(_of(other) - self.data)

    def __mul__(self, other: Any) -> Array:
        return Array(self.data * _of(other))

    def __rmul__(self, other: Any) -> Array:
        return Array(_of(other) * self.data)

    def __gt__(self, other: Any) -> Any:
        return np.vectorize(float, otypes=[float])(self.data) > np.asarray(_of(other), float)

    def __lt__(self, other: Any) -> Any:
        return np.vectorize(float, otypes=[float])(self.data) < np.asarray(_of(other), float)

    def reshape(self, *shape: int) -> Array:
        return Array(self.data.reshape(shape))

    def numpy(self) -> Any:
        return self.data.astype(float)


def _of(x: Any) -> Any:
    return x.data if isinstance(x, Array) else x


def _plain(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple([_plain(part) for part in key])
    return key.data.astype(int) if isinstance(key, Array) else key


# --- functions ----------------------------------------------------------------------------------------------


def asarray(x: Any, copy: bool | None = None) -> Array:
    return x if isinstance(x, Array) and not copy else Array(_of(x))


def integers(x: Any) -> Array:
    return Array(x)


def floats(x: Array) -> Array:
    return x


def count(x: Any) -> Any:
    return int(np.sum(x))


def sin(x: Array) -> Array:
    made = np.empty(x.data.shape, object)
    for place in np.ndindex(x.data.shape):
        made[place] = _sin(x.data[place])
    return Array(made)


def stack(parts: Sequence[Array]) -> Array:
    return Array(np.stack([part.data for part in parts]))


def concat(parts: Sequence[Array]) -> Array:
    return Array(np.concatenate([part.data for part in parts]))


def where(choice: Any, a: Array, b: Array) -> Array:
    return Array(np.where(choice, _of(a), _of(b)))


def sum(x: Array, axis: int | None = None) -> Array:
    return Array(np.sum(x.data, axis=axis))


# --- transforms ---------------------------------------------------------------------------------------------


def jit(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *args: _copied(function(*_copies(args)))


checkpoint = custom = custom_back = jit


def _copied(x: Array) -> Array:
    return Array(x.data)


def _copies(args: Sequence[Array]) -> list[Array]:
    return [_copied(x) for x in args]


def jvp(
    function: Callable[..., Array], primals: Sequence[Array], tangents: Sequence[Array]
) -> tuple[Array, Array]:
    tag = next(_TAGS)
    moving = []
    for x, t in zip(primals, tangents, strict=True):
        own = _copied(x)
        for place in np.ndindex(own.data.shape):
            own.data[place] = Dual(x.data[place], t.data[place], tag)
        moving.append(own)
    made = function(*moving)
    parts = [_parts(element, tag) for element in made.data.reshape(-1)]
    values, slopes = Array(made.data), Array(made.data)
    for place, (value, slope) in zip(np.ndindex(made.data.shape), parts, strict=True):
        values.data[place], slopes.data[place] = value, slope
    return values, slopes


def vjp(function: Callable[..., Array], *args: Array) -> tuple[Array, Callable[[Array], tuple[Array, ...]]]:
    """The whole Jacobian, now: what changes later does not matter."""
    value = function(*_copies(args))
    columns: list[list[tuple[Any, Array]]] = []
    for number, x in enumerate(args):
        own = []
        for place in np.ndindex(x.data.shape):
            tangents = [Array(np.zeros(y.data.shape)) for y in args]
            tangents[number].data[place] = 1.0
            own.append((place, jvp(function, args, tangents)[1]))
        columns.append(own)

    def pull(cotangent: Array) -> tuple[Array, ...]:
        found = []
        for x, own in zip(args, columns, strict=True):
            made = Array(np.zeros(x.data.shape))
            for place, column in own:
                made.data[place] = sum(column * cotangent).data[()]
            found.append(made)
        return tuple(found)

    return _copied(value), pull


def value_and_grad(function: Callable[..., Array]) -> Callable[..., tuple[Array, Array]]:
    def both(*args: Array) -> tuple[Array, Array]:
        value, pull = vjp(lambda x: function(x, *_copies(args[1:])), args[0])
        return value, pull(Array(1.0))[0]

    return both


def grad(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *args: value_and_grad(function)(*args)[1]


def grad_both(function: Callable[..., Any]) -> Callable[..., Any]:
    def both(*args: Array) -> Any:
        _, pull = vjp(lambda *args: function(*args)[0], *args)
        return pull(Array(1.0)), function(*_copies(args))[1]

    return both


def jacfwd(function: Callable[..., Array]) -> Callable[..., Array]:
    def jacobian(*args: Array) -> Array:
        value = function(*_copies(args))
        made = Array(np.zeros((*value.data.shape, *args[0].data.shape)))
        for place in np.ndindex(args[0].data.shape):
            tangents = [Array(np.zeros(y.data.shape)) for y in args]
            tangents[0].data[place] = 1.0
            made.data[(..., *place)] = jvp(function, args, tangents)[1].data
        return made

    return jacobian


jacrev = jacfwd


def hessian(function: Callable[..., Array]) -> Callable[..., Array]:
    return jacfwd(grad(function))


def columns(x: Array) -> Array:
    return Array(x.data.T)


def vmap_columns(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda a, b: columns(vmap(function, (0, None))(columns(a), b))


def vmap(function: Callable[..., Array], in_axes: Sequence[int | None]) -> Callable[..., Array]:
    def mapped(*args: Array) -> Array:
        count = next(len(x.data) for x, axis in zip(args, in_axes, strict=True) if axis == 0)
        rows = [
            [x[n] if axis == 0 else _copied(x) for x, axis in zip(args, in_axes, strict=True)]
            for n in range(count)
        ]
        return stack([function(*row) for row in rows])

    return mapped


# --- control flow -------------------------------------------------------------------------------------------


def cond(choice: Any, then: Callable[..., Array], other: Callable[..., Array], *args: Array) -> Array:
    return _copied((then if choice else other)(*_copies(args)))


def fori_loop(low: int, high: int, body: Callable[[Any, Array], Array], init: Array) -> Array:
    value = _copied(init)
    for number in range(low, high):
        value = _copied(body(number, value))
    return value


def while_loop(
    test: Callable[[Array], Any], body: Callable[[Array], Array], init: Array, max_steps: int | None = None
) -> Array:
    value, steps = _copied(init), 0
    while (max_steps is None or steps < max_steps) and test(_copied(value)):
        value, steps = _copied(body(value)), steps + 1
    return value


def switch(number: Any, branches: Sequence[Callable[..., Array]], *args: Array) -> Array:
    chosen = min(max(int(_of(number)), 0), len(branches) - 1)
    return _copied(branches[chosen](*_copies(args)))


def map(function: Callable[[Array], Array], xs: Array) -> Array:
    return stack([function(xs[number]) for number in range(len(xs.data))])


def scan_back(body: Callable[[Any, Array], Any], init: dict[str, Any], xs: Array) -> Any:
    """Of the carry and the pair that `transform_chains` has."""
    carry, made = {**init, "state": _copied(init["state"])}, []
    for number in reversed(range(len(xs.data))):
        carry, ys = body(carry, xs[number])
        made.append(ys)
    made.reverse()
    return carry, (stack([y for y, _ in made]), stack([n for _, n in made]))


def scan(body: Callable[[Array, Array], tuple[Array, Array]], init: Array, xs: Array) -> tuple[Array, Array]:
    value, made = _copied(init), []
    for number in range(len(xs.data)):
        value, y = (_copied(part) for part in body(value, xs[number]))
        made.append(y)
    return value, stack(made)

"""Values where they are not known: leaked tensors are told with the line that made them and who keeps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish.errors import GraphError

KEPT: list[pn.Tensor] = []
X = pn.asarray(np.arange(3, dtype=np.float32))


def keeping(a: pn.Tensor) -> pn.Tensor:
    b = a * 2
    KEPT[:] = [b]
    return b + 1


LINE = keeping.__code__.co_firstlineno + 1
TRACES: dict[str, Callable[[], object]] = {
    "jit": lambda: pn.jit(keeping)(X),
    "grad": lambda: pn.grad(lambda a: keeping(a).sum())(X),
    "vmap": lambda: pn.vmap(keeping)(X),
    "scan": lambda: pn.scan(lambda c, t: (keeping(c + t), None), 0.0, X),
    "cond": lambda: pn.jit(lambda a: pn.cond(a[0] > 0, keeping, lambda v: v, a))(X),
}
USES: dict[str, Callable[[], object]] = {
    "elements": lambda: KEPT[0].numpy(),
    "an op": lambda: (KEPT[0] + 1).tolist(),
    "many ops": lambda: float(pn.sum(pn.exp(KEPT[0] * 3 - 1))),
    "another trace": lambda: pn.jit(lambda z: z + KEPT[0])(X),
    "an argument": lambda: pn.jit(lambda z: z + 1)(KEPT[0]),
}


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("use", USES)
def test_a_leak_is_told_with_the_line_that_made_it(trace: str, use: str) -> None:
    TRACES[trace]()
    with pytest.raises(GraphError) as caught:
        USES[use]()
    message = str(caught.value)
    assert f"made at {__file__}:{LINE} in keeping" in message
    assert f"kept in a list, variable KEPT of {__name__}" in message
    assert (trace if trace != "cond" else "jit") in message
    assert caught.value.location is not None
    assert caught.value.location.file == __file__


def test_an_attribute_that_keeps_a_tensor_is_named() -> None:
    class Model:
        def __init__(self) -> None:
            self.hidden: Any = None

        def __call__(self, a: pn.Tensor) -> Any:
            self.hidden = pn.tanh(a)
            return self.hidden

    model = Model()
    pn.jit(lambda a: model(a))(X)
    with pytest.raises(GraphError, match="kept in attribute hidden of a Model"):
        print(np.asarray(model.hidden + 1))


def test_an_argument_that_leaks_is_named() -> None:
    pn.jit(lambda a: KEPT.__setitem__(slice(None), [a]))(X)
    with pytest.raises(GraphError, match="depends on argument a"):
        KEPT[0].numpy()


def test_under_vmap_every_example_has_its_own_value() -> None:
    with pytest.raises(GraphError, match="every example has its own"):
        pn.vmap(lambda a: a if a > 1 else -a)(X)


def test_what_is_known_around_a_trace_is_known_inside() -> None:
    def f(w: pn.Tensor) -> Any:
        def each(a: pn.Tensor) -> pn.Tensor:
            return a * w if w > 1 else -a

        def turn(c: pn.Tensor, a: pn.Tensor) -> Any:
            return (c + a * w if float(w) > 1 else c), None

        return pn.sum(pn.vmap(each)(X)) + pn.scan(turn, 0.0, X)[0]

    assert float(pn.grad(f)(pn.asarray(2.0))) == 6
    assert float(pn.grad(f)(pn.asarray(0.5))) == 0
    with pytest.raises(GraphError, match="while jit traces"):
        pn.jit(pn.grad(f))(pn.asarray(2.0))

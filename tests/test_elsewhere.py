"""Names from PyTorch, JAX, NumPy and Keras are answered by what to write, and what is told to write is there."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

import planish as pn
from planish import elsewhere, nn, optim
from planish.errors import PlanishError

X = pn.ones((2, 3))
LAYER = nn.Linear(3, 2, key=0)

NAMES: dict[str, tuple[Callable[[], Any], str]] = {
    "a function of nn": (lambda: pn.softmax, "it is planish.nn.softmax"),  # type: ignore[attr-defined]
    "torch's name": (lambda: pn.cat, r"write planish.concat\(xs, axis\)"),  # type: ignore[attr-defined]
    "jax's module": (lambda: pn.lax, "planish.scan, planish.cond"),  # type: ignore[attr-defined]
    # said for whoever has not imported it, as a test before this one may have
    "a module to import": (lambda: vars(pn)["__getattr__"]("onnx"), "it comes with `import planish.onnx`"),
    "a hidden state": (lambda: pn.random.seed, r"planish.random.key\(seed\)"),  # type: ignore[attr-defined]
    "a parameter": (lambda: nn.Parameter, "an attribute of a module is a parameter"),  # type: ignore[attr-defined]
    "small letters": (lambda: optim.sgd, "did you mean SGD"),  # type: ignore[attr-defined]
    "a loader": (lambda: pn.data.DataLoader, "planish.data.Loader"),  # type: ignore[attr-defined]
    "a method": (lambda: X.gather, "planish.take_along_axis"),  # type: ignore[attr-defined]
    "a method in place": (lambda: X.clip_, r"write x = x.clip\(…\)"),  # type: ignore[attr-defined]
    "a gradient": (lambda: X.grad, r"planish.grad\(function\)\(x\)"),  # type: ignore[attr-defined]
    "a module moved": (lambda: LAYER.to, "planish.tree.map"),  # type: ignore[attr-defined]
    "a module's attribute": (lambda: LAYER.weigth, "did you mean weight"),  # type: ignore[attr-defined]
    "a step": (lambda: optim.Adam(0.1).step, r"optimizer.update\(params, gradients, state\)"),  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_from_elsewhere_is_answered(name: str) -> None:
    ask, answer = NAMES[name]
    with pytest.raises(AttributeError, match=answer):
        ask()


def test_what_is_told_to_write_is_there() -> None:
    tables = [elsewhere.TENSOR, elsewhere.MODULE, elsewhere.OPTIMIZER, *elsewhere._MODULES.values()]
    for table in tables:
        for answer in table.values():
            for path in re.findall(r"planish((?:\.\w+)+)", answer):
                found: Any = pn
                for part in path[1:].split("."):
                    found = getattr(found, part)
    for name in elsewhere.TENSOR:
        assert not hasattr(X, name)
    for module, table in elsewhere._MODULES.items():
        found = pn if module == "planish" else getattr(pn, module.partition(".")[2])
        assert [name for name in table if hasattr(found, name)] == []


def test_nothing_is_suggested_where_nothing_is_near() -> None:
    with pytest.raises(AttributeError) as caught:
        X.strudel  # type: ignore[attr-defined] # noqa: B018
    assert str(caught.value) == "a Tensor has no attribute 'strudel'"


def test_modules_and_optimisers_are_copied_and_pickled_as_before() -> None:
    for made in (LAYER, optim.AdamW(0.1)):
        assert repr(copy.deepcopy(made)) == repr(pickle.loads(pickle.dumps(made))) == repr(made)


def test_forward_and_parameters_are_told_where_they_belong() -> None:
    class Net(nn.Module):
        def forward(self, x: pn.Tensor) -> pn.Tensor:
            return x

    with pytest.raises(PlanishError, match="what PyTorch calls forward is __call__ here"):
        Net()(X)
    for given in (LAYER, LAYER.parameters(), [X]):
        with pytest.raises(TypeError, match=r"at least 0.0, or a function.*state = optimizer.init\(params\)"):
            optim.Adam(given)  # type: ignore[arg-type]


def test_lists_forgotten_and_arrays_that_are_static() -> None:
    with pytest.raises(TypeError, match=r"not an array of shape \(2, 3\).*concat\(\[x, y\]\)"):
        pn.concat(X, X)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"an array of shape \(2, 3\).*int\(x\) or tuple"):
        pn.jit(lambda x, n: x, static_argnums=1)(X, X)
    with pytest.raises(ValueError, match="swapaxes"):
        pn.ones((2, 3, 4)).transpose(1, 2)

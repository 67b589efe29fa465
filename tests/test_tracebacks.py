"""A traceback shows the lines of the user, whatever planish does between them; a bug shows everything."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn, optim
from planish.errors import InternalError, PlanishError
from planish.tracebacks import short_tracebacks

X = pn.ones((2, 3))
HERE = pn.asarray(np.ones((2, 3), np.float32))
PACKAGE = str(Path(pn.__file__).parent)


def files(trace: TracebackType | None) -> list[str]:
    return [frame.filename for frame in traceback.extract_tb(trace)]


def deep(x: pn.Tensor) -> Any:
    return pn.jit(lambda x: pn.vmap(pn.grad(lambda y: nn.softmax(y, axis=3).sum()))(x))(x)


MISTAKES: dict[str, Callable[[], Any]] = {
    "an operator": lambda: X + pn.ones((4, 5)),
    "an operator of one": lambda: ~X,
    "two devices": lambda: HERE.to_device("cpu") + HERE.to_device("interpreter"),
    "a product": lambda: X @ X,
    "an index": lambda: X[7],
    "a function": lambda: pn.sum(X, axis=4),
    "a composition": lambda: nn.softmax(X, axis=3),
    "a branch under jit": lambda: pn.jit(lambda x: x if x.sum() > 0 else -x)(X),
    "a schedule": lambda: pn.jit(lambda x: x @ x.T, schedule="upcats(j, 2)"),
    "passes": lambda: pn.jit(lambda x: x, passes="canonicalise"),
    "transforms in transforms": lambda: deep(X),
    "a loop": lambda: pn.scan(lambda c, x: (c + x[5], None), X, X),
    "a layer": lambda: nn.Linear(4, 2, key=0)(X),
    "a layer's option": lambda: nn.Conv2d(3, 8, kernel_sise=3, key=0),  # type: ignore[call-arg]
    "a file": lambda: pn.io.load("nowhere.safetensors"),
    "arguments that nothing can be done with": lambda: pn.pad(X, float("nan")),  # type: ignore[arg-type]
    "too few arguments": lambda: pn.jit(lambda x, y: x)(X),  # type: ignore[call-arg]
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_shows_no_line_of_planish(name: str) -> None:
    with pytest.raises(Exception) as caught:
        MISTAKES[name]()
    error: BaseException | None = caught.value
    while error is not None:
        shown = files(error.__traceback__)
        assert not [file for file in shown if file.startswith(PACKAGE)]
        error = error.__cause__


@pytest.mark.parametrize("name", ["two devices", "a number that is too large"])
def test_operands_of_known_types_do_not_either(name: str) -> None:
    """Operators remember what they did to operands of the same types, which lie elsewhere, or are other numbers."""
    narrow = pn.ones((2, 3), dtype=pn.int8)
    known, mistaken = {
        "two devices": (lambda: HERE + HERE, MISTAKES["two devices"]),
        "a number that is too large": (lambda: narrow + 1, lambda: narrow + 1000),
    }[name]
    known()
    with pytest.raises(PlanishError) as caught:
        mistaken()
    assert not [file for file in files(caught.value.__traceback__) if file.startswith(PACKAGE)]


def test_functions_of_the_user_stay_between() -> None:
    def inner(y: pn.Tensor) -> pn.Tensor:
        return y + pn.ones((7,))

    def outer(x: pn.Tensor) -> pn.Tensor:
        made: pn.Tensor = pn.grad(lambda y: inner(y).sum())(x)
        return made

    with pytest.raises(PlanishError) as caught:
        pn.jit(outer)(X)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names == ["test_functions_of_the_user_stay_between", "outer", "<lambda>", "inner"]


def test_errors_of_the_users_own_are_shown_so_too() -> None:
    def fails(x: pn.Tensor) -> pn.Tensor:
        raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        pn.jit(pn.grad(fails))(X)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names == ["test_errors_of_the_users_own_are_shown_so_too", "fails"]


def test_a_bug_keeps_every_line() -> None:
    bug = compile("def bug(x): return {}[x]", PACKAGE + "/made.py", "exec")
    names: dict[str, Any] = {}
    exec(bug, names)
    with pytest.raises(KeyError) as caught:
        short_tracebacks(names["bug"])("key")
    assert PACKAGE + "/made.py" in files(caught.value.__traceback__)

    @short_tracebacks
    def fails() -> None:
        raise InternalError("one")

    with pytest.raises(InternalError) as told:
        fails()
    assert [file for file in files(told.value.__traceback__) if file.startswith(PACKAGE)]


def test_the_setting_shows_every_line() -> None:
    with pn.settings(debug="errors"), pytest.raises(PlanishError) as caught:
        deep(X)
    assert len([file for file in files(caught.value.__traceback__) if file.startswith(PACKAGE)]) > 10


def test_a_layer_without_its_key_is_told_what_a_key_is() -> None:
    with pytest.raises(
        TypeError, match=r"Linear\(\) missing .* 'key'.*planish\.random\.key\(0\).*called as Linear"
    ):
        nn.Linear(2, 3)  # type: ignore[call-arg]


def test_names_of_options_are_told() -> None:
    with pytest.raises(
        TypeError, match=r"Adam\(\) got .* did you mean weight_decay\? it is called as Adam\("
    ):
        optim.Adam(1e-3, weight_decays=0.1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="dim is called axis here; it is called as sum"):
        pn.sum(X, dim=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="keepdim is called keepdims here"):
        X.mean(1, keepdim=True)  # type: ignore[call-arg]

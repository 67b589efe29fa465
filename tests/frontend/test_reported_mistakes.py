"""What nobody checked for ends in one error that names the function, its arguments, the user's line and how it is called."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import planish as pn
from planish import nn
from planish.errors import PlanishError, ShapeError

X = pn.ones((2, 3))
KEY = pn.random.key(0)

MISTAKES: dict[str, tuple[type[Exception], Callable[[], Any]]] = {
    "gamma": (TypeError, lambda: pn.random.gamma(KEY, 1.0, 2.5)),  # type: ignore[arg-type]
    "ReflectionPad3d": (TypeError, lambda: nn.ReflectionPad3d(pn.float32)),  # type: ignore[arg-type]
    "layer_norm": (TypeError, lambda: nn.layer_norm(X, None)),  # type: ignore[arg-type]
    "pad": (TypeError, lambda: pn.pad(X, float("nan"))),  # type: ignore[arg-type]
    "fft": (TypeError, lambda: pn.fft.fft(X, [])),  # type: ignore[arg-type]
    "round": (TypeError, lambda: pn.round(X, [])),  # type: ignore[arg-type]
    "select": (TypeError, lambda: pn.select(X, int)),  # type: ignore[arg-type]
    "Mesh": (TypeError, lambda: pn.Mesh(1, 2)),  # type: ignore[arg-type]
    "Accumulate": (TypeError, lambda: pn.optim.Accumulate(pn.optim.SGD(0.1), "four")),  # type: ignore[arg-type]
    "while_loop": (TypeError, lambda: pn.while_loop(1, 2, X)),  # type: ignore[arg-type]
    "save_npz": (TypeError, lambda: pn.io.save_npz("x.npz", [X])),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", MISTAKES)
def test_arguments_that_nothing_can_be_done_with(name: str) -> None:
    kind, call = MISTAKES[name]
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, PlanishError)
    assert caught.value.op == name
    assert caught.value.location is not None
    assert caught.value.location.file == __file__
    assert f"it is called as {name}(" in str(caught.value)
    assert caught.value.__cause__ is not None


def test_arguments_are_shown_by_name_shape_and_dtype() -> None:
    with pytest.raises(PlanishError, match=r"x=f32\[2, 3\], pad_width=nan"):
        pn.pad(X, float("nan"))  # type: ignore[arg-type]


def test_errors_of_the_users_own_functions_pass() -> None:
    nothing: dict[object, object] = {}

    def fails(x: object) -> object:
        return nothing[x]

    with pytest.raises(KeyError) as caught:
        pn.tree.map(fails, {"a": "key"})
    assert not isinstance(caught.value, PlanishError)
    with pytest.raises(KeyError):
        pn.apply_along_axis(lambda x: nothing["missing"], 0, X)


def test_an_argument_too_many_is_pythons_to_tell() -> None:
    with pytest.raises(TypeError, match="unexpected keyword"):
        pn.sum(X, foo=1)  # type: ignore[call-arg]


def test_functions_and_layers_are_pickled_as_before() -> None:
    for function in (pn.sum, pn.concatenate, pn.random.normal, pn.linalg.norm, pn.fft.fft, pn.scan):
        assert pickle.loads(pickle.dumps(function)) is function
    layer = nn.Linear(3, 2, key=KEY)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(layer))(X), layer(X))


def test_a_tensor_of_data() -> None:
    np.testing.assert_array_equal(pn.Tensor([[1.0, 2.0]]), [[1.0, 2.0]])
    with pytest.raises(PlanishError, match="rectangular"):
        pn.Tensor("text")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: pn.nn.Dropout(1.5), "Dropout: 1.5 is not a probability"),
        (lambda: pn.grad(cast("Any", pn.ones(3))), r"grad: takes a function, not .*grad\(f\)\(x\)"),
        (lambda: pn.tree.register(int, *cast("Any", (None, None))), "tree.register: flatten is missing"),
        (lambda: pn.bincount(pn.asarray([-1, 2])), "bincount: -1 is below 0"),
        (lambda: pn.Dim("B", 5, 2), "5..2"),
        (lambda: pn.histogram(pn.ones(3), bins=-2), "histogram: there are no -2 intervals"),
        (lambda: pn.tile(pn.ones(3), -1), r"tile: cannot repeat \(-1,\) times"),
        (lambda: pn.random.normal(pn.random.key(0), (-1,)), r"shape \(-1,\) has a negative size"),
        (lambda: pn.random.beta(pn.random.key(0), pn.ones(3), pn.ones(4)), r"beta: shapes \(3,\) and \(4,\)"),
    ],
)
def test_more_mistakes_are_told_where_they_are_made(wrong: Any, words: str) -> None:
    with pytest.raises(pn.PlanishError, match=words) as told:
        wrong()
    assert "test_reported_mistakes.py" in str(told.value)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"no such folder.*{tmp_path.name}/nowhere'"):
        pn.io.save(tmp_path / "nowhere" / "x.npz", {"x": pn.ones(2)})


def test_bincount_of_a_length_counts_what_lies_within() -> None:
    given = pn.asarray([0, -1, 5, 2, 2])
    np.testing.assert_array_equal(pn.bincount(given, length=3), [1, 0, 2])
    np.testing.assert_array_equal(pn.jit(lambda x: pn.bincount(x, length=3))(given), [1, 0, 2])
    weights = pn.asarray([1.0, 2.0, 3.0, 4.0, 5.0])
    np.testing.assert_array_equal(pn.bincount(given, weights, length=4), [1, 0, 9, 0])


def test_dtypes_of_random_numbers_and_layers_have_names_too() -> None:
    for dtype in ("float16", "f16", np.float16, pn.float16):
        assert pn.random.normal(KEY, (2,), dtype=dtype).dtype is pn.float16  # type: ignore[arg-type]
        assert pn.random.uniform(KEY, (2,), dtype).dtype is pn.float16  # type: ignore[arg-type]
        assert nn.Linear(2, 3, key=0, dtype=dtype).weight.dtype is pn.float16  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"unknown dtype 'floot'.*did you mean 'float"):
        nn.Linear(2, 3, key=0, dtype="floot")  # type: ignore[arg-type]


def test_sizes_that_are_no_tuple() -> None:
    with pytest.raises(TypeError, match=r"3 is not a dtype.*several sizes are one tuple: \(2, 3\)"):
        pn.zeros(2, 3)  # type: ignore[arg-type]


def test_a_matrix_norm_takes_two_axes() -> None:
    with pytest.raises(ShapeError, match="axis 0 is named twice"):
        pn.linalg.norm(X, axis=(0, -2))

"""Windows whose place is computed: against NumPy, under jit, vmap and grad; and what replaces asking for a number."""

from __future__ import annotations

import numpy as np
import pytest

import planish as pn
from planish.errors import DTypeError, GraphError, ShapeError

DATA = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
X = pn.asarray(DATA)


@pytest.mark.parametrize("place", [0, 1, 2, 7, -1, -2, -9])
def test_a_window_is_where_its_start_says_and_inside(place: int) -> None:
    start = int(np.clip(place + 3 if place < 0 else place, 0, 1))
    wanted = DATA[:, start : start + 2]
    np.testing.assert_array_equal(pn.dynamic_slice(X, (0, place, 0), (2, 2, 4)), wanted)
    compiled = pn.jit(lambda x, i: pn.dynamic_slice(x, (0, i, 0), (2, 2, 4)))
    np.testing.assert_array_equal(compiled(X, place), wanted)
    changed = DATA.copy()
    changed[:, start : start + 2] = -1
    made = pn.jit(lambda x, i: pn.dynamic_update_slice(x, pn.full((2, 2, 4), -1), (0, i, 0)))(X, place)
    np.testing.assert_array_equal(made, changed)
    assert made.dtype is pn.float32


def test_one_program_for_every_place() -> None:
    f = pn.jit(lambda x, i: pn.dynamic_slice(x, (0, i, 0), (2, 1, 4)))
    for place in range(3):
        np.testing.assert_array_equal(f(X, place), DATA[:, place : place + 1])
    assert f.cache_info().misses == 1


def test_each_example_has_its_own_window_and_gradients_go_back_to_it() -> None:
    starts = np.array([[0, 0], [1, 2]])
    windows = pn.vmap(lambda x, at: pn.dynamic_slice(x, at, (2, 2)))
    np.testing.assert_array_equal(windows(X, starts), np.stack([DATA[0, :2, :2], DATA[1, 1:3, 2:4]]))
    slope = pn.grad(lambda x: pn.sum(pn.dynamic_slice(x, (0, 1, 1), (1, 2, 2)) ** 2))(X)
    wanted = np.zeros_like(DATA)
    wanted[:1, 1:3, 1:3] = 2 * DATA[:1, 1:3, 1:3]
    np.testing.assert_array_equal(slope, wanted)


def test_what_does_not_fit_is_told() -> None:
    with pytest.raises(ShapeError, match=r"sizes \(1, 1, 5\) does not fit shape \(2, 3, 4\)"):
        pn.dynamic_slice(X, (0, 0, 0), (1, 1, 5))
    with pytest.raises(ShapeError, match="2 starts for the 3 axes"):
        pn.dynamic_slice(X, (0, 0), (1, 1, 1))
    with pytest.raises(DTypeError, match="a start is float32"):
        pn.dynamic_slice(X, (0.5, 0, 0), (1, 1, 1))  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"a window of shape \(9,\)"):
        pn.dynamic_update_slice(X, pn.ones(9), (0, 0, 0))


def test_a_slice_by_what_is_not_known_names_the_windows() -> None:
    with pytest.raises(GraphError, match=r"fori_loop.*dynamic_slice.*static argument"):
        pn.jit(lambda x, n: x[:, n : n + 2])(X, 1)


def test_flatten_takes_an_axis_as_pytorchs_does() -> None:
    assert X.flatten(1).shape == (2, 12)
    assert X.flatten(0, 1).shape == (6, 4)
    assert X.flatten().shape == (24,)
    np.testing.assert_array_equal(X.flatten("F"), DATA.flatten("F"))

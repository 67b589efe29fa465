"""x[key], x[key] = v and x.at[key] against NumPy, for every kind of key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import planish as pn
from planish.errors import GraphError, ShapeError
from planish.frontend.trace import trace

X = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
MASK = X % 5 < 2
ROWS = np.asarray([[True, False, True], [False, False, True]])
I1 = np.asarray([1, 0, -1])
I2 = np.asarray([[0, 2], [-1, 1]])

KEYS: dict[str, Any] = {
    "integer": 1,
    "negative": (-1, -2),
    "all integers": (1, 2, 3),
    "slice": (slice(None), slice(1, 3)),
    "steps": (slice(None), slice(None, None, 2), slice(3, 0, -2)),
    "backwards": (slice(None, None, -1),),
    "nothing": (slice(None), slice(2, 1)),
    "ellipsis": (..., 1),
    "an ellipsis of no axis between arrays": (slice(None), I1, ..., 1),
    "an ellipsis of no axis behind them": (slice(None), I1, I1, ...),
    "ellipsis in the middle": (1, ..., slice(1, 3)),
    "new axes": (None, 1, None, ..., None),
    "everything": ...,
    "list": [1, 0],
    "array": (slice(None), I1),
    "array in the middle": (slice(None), I1, slice(1, 3)),
    "two arrays": (I1 % 2, I1),
    "arrays that broadcast": (np.asarray([[0], [1]]), I1),
    "arrays apart": (I1 % 2, slice(None), I1),
    "array and integer together": (0, I1),
    "array and integer apart": (0, slice(None), I1),
    "array after a new axis": (None, slice(None), I2),
    "array of two axes": (slice(None), I2, ..., slice(0, 2)),
    "no positions": (np.asarray([], np.int64),),
    "one position": (np.asarray(1),),
    "mask": MASK,
    "mask of leading axes": ROWS,
    "mask of one axis": (slice(None), np.asarray([True, False, True])),
    "mask and slice": (ROWS, slice(1, 3)),
    "mask and integer": (np.asarray([True, True]), 1),
    "mask of nothing": np.zeros((2, 3), bool),
    "true": True,
    "false": False,
    "true among others": (slice(None), True, 1),
}


def ours(key: Any) -> Any:
    """The key with tensors for arrays."""
    items = key if isinstance(key, tuple) else (key,)
    made = tuple(pn.asarray(item) if isinstance(item, np.ndarray) else item for item in items)
    return made if isinstance(key, tuple) else made[0]


@pytest.mark.parametrize("name", KEYS)
def test_reading(name: str) -> None:
    with pn.settings(device="interpreter"):
        found = pn.asarray(X)[ours(KEYS[name])].numpy()
        lazy = (pn.asarray(X) + 0)[ours(KEYS[name])].numpy()
    np.testing.assert_array_equal(found, X[KEYS[name]], strict=True)
    np.testing.assert_array_equal(lazy, X[KEYS[name]], strict=True)


@pytest.mark.parametrize("name", KEYS)
def test_writing(name: str) -> None:
    key = KEYS[name]
    value = -np.arange(X[key].size, dtype=np.float32).reshape(X[key].shape) - 1
    for new in (np.float32(-5.0), value):
        expected = X.copy()
        expected[key] = new
        with pn.settings(device="interpreter"):
            x = pn.asarray(X)
            x[ours(key)] = pn.asarray(new)
            np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize("name", KEYS)
def test_adding_counts_every_time_a_position_is_named(name: str) -> None:
    key = KEYS[name]
    expected = X.copy()
    np.add.at(expected, key, 2.0)
    with pn.settings(device="interpreter"):
        np.testing.assert_array_equal(pn.asarray(X).at[ours(key)].add(2.0).numpy(), expected)


@pytest.mark.parametrize("name", ["steps", "arrays apart", "mask", "array in the middle", "mask and slice"])
def test_as_machine_code(name: str) -> None:
    key = KEYS[name]
    x = pn.asarray(X) * 1
    np.testing.assert_array_equal(x[ours(key)].numpy(), X[key], strict=True)
    expected = X.copy()
    expected[key] = -1
    x[ours(key)] = -1
    np.testing.assert_array_equal(x.numpy(), expected)


@st.composite
def keys(draw: st.DrawFn) -> tuple[Any, ...]:
    """Keys of integers, slices, new axes and integer arrays in any mixture."""
    items: list[Any] = []
    count = draw(st.integers(0, X.ndim))
    for axis in range(count):
        size = X.shape[axis]
        ends = st.none() | st.integers(-size - 1, size + 1)
        items.append(
            draw(
                st.integers(-size, size - 1)
                | st.builds(slice, ends, ends, st.none() | st.sampled_from([1, 2, -1, -3]))
                | st.lists(st.integers(-size, size - 1), min_size=2, max_size=2).map(np.asarray)
            )
        )
    if count < X.ndim and draw(st.booleans()):
        items.append(...)
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), None)
    return tuple(items)


@given(keys())
def test_any_mixture(key: tuple[Any, ...]) -> None:
    with pn.settings(device="interpreter"):
        np.testing.assert_array_equal(pn.asarray(X)[ours(key)].numpy(), X[key], strict=True)
        expected = X.copy()
        expected[key] = -1
        x = pn.asarray(X) + 0
        x[ours(key)] = -1
        np.testing.assert_array_equal(x.numpy(), expected)


def test_every_update() -> None:
    x = np.asarray([1.0, 5.0, 3.0])
    with pn.settings(device="interpreter"):
        at = pn.asarray(x).at[pn.asarray([0, 0, 2])]
        assert at.get().tolist() == [1.0, 1.0, 3.0]
        assert at.set(pn.asarray([7.0, 8.0, 9.0])).tolist() == [8.0, 5.0, 9.0]
        assert at.add(1.0).tolist() == [3.0, 5.0, 4.0]
        assert at.multiply(2.0).tolist() == [4.0, 5.0, 6.0]
        assert at.min(2.0).tolist() == [1.0, 5.0, 2.0]
        assert at.max(2.0).tolist() == [2.0, 5.0, 3.0]
        assert pn.asarray(x).at[1:].add(1.0).tolist() == [1.0, 6.0, 4.0]


def test_what_was_computed_before_an_assignment_stays() -> None:
    x = pn.asarray([1.0, 2.0, 3.0])
    doubled = x * 2
    part = x[:2]
    other = pn.reshape(x, (3,))
    x[0] = 10.0
    x[1:] += 1.0
    assert doubled.tolist() == [2.0, 4.0, 6.0]
    assert part.tolist() == [1.0, 2.0]
    assert other.tolist() == [1.0, 2.0, 3.0]
    assert x.tolist() == [10.0, 3.0, 4.0]
    assert (x + 0).tolist() == [10.0, 3.0, 4.0]


def test_an_alias_by_name_sees_assignments_and_a_copy_does_not() -> None:
    x = pn.zeros(2)
    name, copy = x, pn.asarray(x, copy=True)
    x[0] = 1.0
    assert name.tolist() == [1.0, 0.0]
    assert copy.tolist() == [0.0, 0.0]
    assert pn.zeros(2).tolist() == [0.0, 0.0]


def test_assigning_under_a_trace() -> None:
    def local(x: pn.Tensor) -> list[pn.Tensor]:
        y = pn.zeros(3)
        y[1] = x
        return [y]

    body = trace("jit", local, [pn.asarray(1.0)._type])
    assert body.results[0].type.dims == (3,)

    outside = pn.zeros(3)

    def captured(x: pn.Tensor) -> list[pn.Tensor]:
        outside[0] = x
        return [outside]

    with pytest.raises(GraphError, match="from outside is assigned to while jit traces") as caught:
        trace("jit", captured, [pn.asarray(1.0)._type])
    assert "at[…].set" in str(caught.value)


def test_masks_under_a_trace_work_where_no_size_depends_on_them() -> None:
    def masked(x: pn.Tensor) -> list[pn.Tensor]:
        x[x > 1] = 0.0
        return [x]

    assert trace("jit", masked, [pn.zeros((3,))._type]).results[0].type.dims == (3,)
    with pytest.raises(GraphError, match="depends on data") as caught:
        trace("jit", lambda x: [x[x > 1]], [pn.zeros((3,))._type])
    assert "nonzero" in str(caught.value)


def test_positions_known_only_later_are_clamped() -> None:
    x = pn.asarray([1.0, 2.0, 3.0])
    index = pn.asarray([0, 5]) + 0
    assert x[index].tolist() == [1.0, 3.0]
    assert x.at[index].set(9.0).tolist() == [9.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (5, ("index 5", "axis 0", "(2, 3, 4)", "-2 to 1")),
        ((0, -4), ("index -4", "axis 1")),
        ((0, 0, 0, 0), ("4 indices are too many", "(2, 3, 4)")),
        ((..., ...), ("only one ...",)),
        (1.5, ("1.5 is no index",)),
        ("a", ("'a' is no index", "integer arrays")),
        ([0.5], ("is no index",)),
        ([0, 7], ("index 7", "axis 0")),
        (([0, 1], [0, 1, 2]), ("(2,)", "(3,)")),
        (np.ones((2, 4), bool), ("mask of shape (2, 4)", "(2, 3, 4)")),
        (slice(None, None, 0), ("step 0",)),
        (slice(0.5, None), ("slice", "integers")),
    ],
)
def test_bad_keys_are_refused_at_the_users_line(key: Any, words: tuple[str, ...]) -> None:
    x = pn.asarray(X)
    with pytest.raises((IndexError, ShapeError)) as caught:
        x[key]
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "test_array_indexing.py" in message


def test_bad_values_are_refused_and_the_tensor_stays_as_it_was() -> None:
    x = pn.asarray(X)
    with pytest.raises(ShapeError, match=r"shape \(5,\) do not fit where \(3, 4\)"):
        x[0] = pn.zeros(5)
    with pytest.raises(TypeError, match="complex64 cannot become float32"):
        x[0] = pn.ones(4, dtype=pn.complex64)
    with pytest.raises(TypeError, match=r"1\.5 cannot be an element of a int64 tensor"):
        pn.arange(3)[0:1] = 1.5
    assert x.tolist() == X.tolist()


def test_bounds_that_are_tensors_count_by_their_values():
    """Calls of equal types are not equal calls: the bounds of a slice decide on its shape."""
    x = pn.arange(5)
    start = pn.asarray(0, dtype=pn.int32)
    for number, count in enumerate(pn.asarray([1, 2, 0, 2], dtype=pn.int32)):
        part = x[start : start + count]
        assert part.tolist() == [[0], [1, 2], [], [3, 4]][number]
        start = start + count

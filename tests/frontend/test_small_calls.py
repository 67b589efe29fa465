"""Small calls: recipes, the short way to elements, and assignment in place give what the long ways give, and are taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish.frontend import plans, session
from planish.frontend.direct import DirectRuns
from planish.frontend.tensor import recipes

RNG = np.random.default_rng(0)
A = RNG.standard_normal(12).astype(np.float32)
M = RNG.standard_normal((4, 3)).astype(np.float32)
N = RNG.standard_normal((3, 4)).astype(np.float32)


def data(array: Any) -> pn.Tensor:
    return pn.asarray(np.array(array)).realize()


@pytest.fixture
def long_ways(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often an expression was read as a structure."""
    seen: list[int] = []
    real = plans.Plans.run

    def run(self: plans.Plans, *args: Any) -> Any:
        seen.append(1)
        return real(self, *args)

    monkeypatch.setattr(plans.Plans, "run", run)
    return seen


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Callable[..., Any]]] = {
    "add": (lambda x, y: x + y, (A, A + 1), lambda x, y: x + y),
    "same twice": (lambda x: x * x, (A,), lambda x: x * x),
    "matmul": (lambda x, y: x @ y, (M, N), lambda x, y: x @ y),
    "matmul of a row": (lambda x, y: x @ y, (N[0], N.T), lambda x, y: x @ y),
    "sum": (lambda x: pn.sum(x, axis=0), (M,), lambda x: x.sum(0)),
    "mean": (lambda x: pn.mean(x, axis=-1, keepdims=True), (M,), lambda x: x.mean(-1, keepdims=True)),
    "where": (lambda x, y: pn.where(x > y, x, 0.0), (A, A[::-1].copy()), lambda x, y: np.where(x > y, x, 0)),
    "stack": (lambda x, y: pn.stack([x, y], axis=1), (A, A + 1), lambda x, y: np.stack([x, y], 1)),
    "clip": (lambda x: pn.clip(x, -0.5, 0.5), (A,), lambda x: np.clip(x, -0.5, 0.5)),
    "pick": (lambda x, i: x[i], (M, np.array([2, 0, 3])), lambda x, i: x[i]),
    "pick from the end": (lambda x, i: x[i], (M, np.array([-1, 0])), lambda x, i: x[i]),
    "argmax": (lambda x: pn.argmax(x, axis=1), (M,), lambda x: x.argmax(1)),
    "transpose": (lambda x: x.T, (M,), lambda x: x.T),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_call_that_comes_again_gives_the_same(name: str) -> None:
    function, arrays, oracle = FUNCTIONS[name]
    for turn in range(4):
        given = [array + turn if array.dtype.kind == "f" else array for array in arrays]
        np.testing.assert_allclose(
            function(*map(data, given)).numpy(), oracle(*given), rtol=1e-5, atol=1e-6, err_msg=str(turn)
        )


@pytest.mark.parametrize(
    "name", ["add", "same twice", "matmul", "sum", "mean", "stack", "pick", "argmax", "transpose"]
)
def test_a_call_that_comes_again_goes_the_short_way(name: str, long_ways: list[int]) -> None:
    function, arrays, _ = FUNCTIONS[name]
    for _ in range(3):
        function(*map(data, arrays)).realize()
    long_ways.clear()
    function(*map(data, arrays)).realize()
    assert not long_ways


def test_numbers_that_change_are_not_those_that_were_compiled() -> None:
    for number in (2.0, 2.0, 3.0, 0.1, 0.7, -0.0, 0.0, 2.0):
        np.testing.assert_array_equal((data(A) * number).numpy(), A * np.float32(number))
        assert (
            np.signbit((data(A) * 0 + pn.copysign(data(A), number)).numpy()).tolist()
            == np.signbit(np.copysign(A, np.float32(number))).tolist()
        )


def test_operands_that_become_one_are_seen_as_one() -> None:
    x, y = data(A), data(A + 1)
    for left, right in ((x, y), (x, x), (y, x), (x, y)):
        np.testing.assert_array_equal((left - right).numpy(), left.numpy() - right.numpy())
        found = pn.where(left > 0, left, right)
        np.testing.assert_array_equal(found.numpy(), np.where(left.numpy() > 0, left.numpy(), right.numpy()))


def test_settings_in_force_hold_on_the_short_way() -> None:
    x = data(np.array([-1.0, 2.0], np.float32))
    for _ in range(3):
        pn.sqrt(x).realize()
    with pn.settings(check="nan"), pytest.raises(pn.PlanishError, match="NaN"):
        pn.sqrt(x).realize()


def test_a_recipe_tells_the_line_of_the_call() -> None:
    x = data(M)
    y = [pn.mean(x, axis=0) for _ in range(3)][-1]
    node = y._value.node
    assert node is not None
    location = node.location
    assert location is not None
    assert location.file.endswith("test_small_calls.py")


def test_recipes_work_in_a_trace() -> None:
    def f(x: pn.Tensor) -> pn.Tensor:
        return pn.sum(pn.matmul(x, pn.permute_dims(x, (1, 0))) ** 2)

    expected = 4 * M @ M.T @ M
    for _ in range(3):
        np.testing.assert_allclose(pn.grad(f)(data(M)).numpy(), expected, rtol=1e-4)
        np.testing.assert_allclose(pn.jit(pn.grad(f))(data(M)).numpy(), expected, rtol=1e-4)


def test_a_mistake_is_told_every_time() -> None:
    for _ in range(4):
        with pytest.raises(pn.PlanishError, match="do not fit"):
            pn.matmul(data(M), data(M))


def test_what_needs_elements_is_never_written_down() -> None:
    for array in (A, -A, A + 5):
        assert pn.nonzero(data(array) > 0)[0].tolist() == np.nonzero(array > 0)[0].tolist()
        assert pn.where(data(array) > 0)[0].tolist() == np.nonzero(array > 0)[0].tolist()


def test_the_tables_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "_LARGEST", 2)
    runs = DirectRuns()
    monkeypatch.setattr("planish.frontend.direct._KEPT", 2)
    monkeypatch.setattr(session.SESSION.plans, "direct", runs)
    for size in range(2, 12):
        for _ in range(3):
            array = np.arange(size * 2, dtype=np.float32).reshape(2, size)
            np.testing.assert_array_equal(pn.sum(data(array), axis=1).numpy(), array.sum(1))
    assert len(runs.known) <= 2


# --- assignment -------------------------------------------------------------------------------------------


def test_a_loop_of_assignments_writes_in_place() -> None:
    x = pn.zeros(1000).realize()
    x[0] = 1.0
    place = x._value.storage
    for number in range(1000):
        x[number] = float(number)
    assert x._value.storage is place
    np.testing.assert_array_equal(x.numpy(), np.arange(1000, dtype=np.float32))


def test_nobody_else_sees_an_assignment() -> None:
    x = data(A)
    f = pn.jit(lambda y: (y + 1, x))
    f(data(A))
    waiting, view, name, array = x * 2, x.reshape(3, 4), x.snapshot(), np.asarray(x)
    part, row = x[2:9], x[3]
    for _ in range(2):
        x[3] = 100.0
    assert float(x[3]) == 100
    np.testing.assert_array_equal(waiting.numpy(), A * 2)
    for other in (view, name, array, f(data(A))[1]):
        np.testing.assert_array_equal(np.asarray(other).ravel(), A)
    np.testing.assert_array_equal(part.numpy(), A[2:9])
    assert float(row) == A[3]


def test_a_large_part_and_the_whole_are_two_tensors() -> None:
    x = data(np.arange(5000.0))
    part = x[10:4990]
    x[11], part[0] = -1.0, -2.0
    assert float(part[1]) == 11
    assert float(x[10]) == 10


def test_a_part_may_be_assigned_to_its_own_tensor() -> None:
    x = data(np.arange(5000.0))
    x[1:] = x[:-1]
    np.testing.assert_array_equal(x.numpy(), np.concatenate([[0.0], np.arange(4999.0)]))


def test_a_mistake_changes_nothing() -> None:
    x = data(np.arange(4, dtype=np.int32))
    for key, value in ((4, 1), (slice(0, 2), data(np.arange(3, dtype=np.int32))), (0, 2.5), (0, 2**40)):
        with pytest.raises(pn.PlanishError):
            x[key] = value
    assert x.tolist() == [0, 1, 2, 3]

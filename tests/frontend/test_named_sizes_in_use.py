"""What programs do with a size that has only a name: one compilation for all of them, with the results of the fixed size."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish.actions.thread import Thread

SIZE = pn.Dim("n", 2, 64)
WEIGHT = np.random.default_rng(0).normal(size=(4, 1, 2)).astype(np.float32)
USES: dict[str, Callable[[Any], Any]] = {
    "last": lambda x: x[-1],
    "tail": lambda x: x[1:],
    "init": lambda x: x[:-1],
    "last two": lambda x: x[-2:],
    "backwards": lambda x: x[::-1],
    "every other": lambda x: x[::2],
    "longer than it can be": lambda x: x[:100],
    "up to a size": lambda x: x[: x.shape[0] - 1],
    "at a size": lambda x: x[x.shape[0] - 1],
    "every third up to a size": lambda x: x[0 : x.shape[0] : 3],
    "first half": lambda x: x[: x.shape[0] // 2],
    "second half": lambda x: x[x.shape[0] // 2 :] * 2,
    "arange": lambda x: x + pn.arange(x.shape[0]),
    "arange by two": lambda x: pn.arange(1, x.shape[0], 2),
    "linspace": lambda x: x * pn.linspace(-1.0, 2.0, x.shape[0]),
    "linspace without its end": lambda x: x * pn.linspace(1.0, 2.0, x.shape[0], endpoint=False),
    "times a size": lambda x: x * (x.shape[0] * 2 + 1),
    "a size times": lambda x: x.shape[0] * x,
    "by a size": lambda x: x / x.shape[0],
    "median": pn.median,
    "quantile": lambda x: pn.quantile(x, 0.3),
    "diff": pn.diff,
    "shifted": lambda x: pn.concat([x[1:], x[:1]]),
    "mask by position": lambda x: pn.where(pn.arange(x.shape[0]) < x.shape[0] - 1, x, 0),
    "by position": lambda x: x[pn.arange(x.shape[0]) // 2],
    "convolution": lambda x: pn.nn.functional.conv1d(x[None, None, :], pn.asarray(WEIGHT), padding=1),
}


@pytest.mark.parametrize("name", USES)
def test_one_compilation_serves_all_sizes(name: str) -> None:
    use = USES[name]
    compiled = pn.jit(use, dims={0: (SIZE,)})
    for values in ([3.0, 1.0, 2.0, 5.0], [9.0, 8.0], [1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 6.0]):
        x = pn.asarray(values, dtype=pn.float32)
        ours, wanted = np.asarray(compiled(x)), np.asarray(use(x))
        assert ours.dtype == wanted.dtype
        np.testing.assert_allclose(ours, wanted, rtol=1e-6, atol=1e-6)
    assert compiled.cache_info().misses == 1


@pytest.mark.parametrize(
    ("use", "complaint"),
    [
        (lambda x: x[3], r"index 3 is not certain to lie inside axis 0.*planish.Dim"),
        (lambda x: x[:5], "not certain to end inside the dynamic axis"),
        (lambda x: x[::-2], "walks backwards"),
        (lambda x: x / len(x), r"named size n.*x.shape\[0\]"),
        (lambda x: x if x.shape[0] < 9 else -x, "not known before the program runs"),
        (lambda x: pn.arange(0, x.shape[0], -1), "not certain"),
    ],
)
def test_what_bounds_do_not_settle_is_refused(use: Callable[[Any], Any], complaint: str) -> None:
    with pytest.raises(pn.PlanishError, match=complaint):
        pn.jit(use, dims={0: (SIZE,)})(pn.ones(4))


def test_bounds_decide_comparisons() -> None:
    assert SIZE > 1
    assert SIZE >= 2
    assert SIZE < 65
    assert SIZE <= 64
    assert not SIZE > 64
    assert not SIZE > 65
    assert SIZE + 1 > SIZE


QUOTIENTS: list[Callable[[Any, int], Any]] = [
    lambda n, by: n - n // by,
    lambda n, by: n // by * by - n,
    lambda n, by: (n + by - 1) // by * by - n,
    lambda n, by: 2 * (n // by) - n // 2,
    lambda n, by: n - n // by - n // 2,
    lambda n, by: (n - 1) // by + 1 - n // by,
]


@pytest.mark.parametrize("by", [2, 3, 7])
def test_bounds_of_quotients_hold_and_are_tight(by: int) -> None:
    n = pn.Dim("n", 1, 40)
    for expression in QUOTIENTS:
        found = expression(n, by)
        values = [expression(number, by) for number in range(1, 41)]
        low, high = (found, found) if isinstance(found, int) else (found.lo, found.hi)
        assert low <= min(values)
        assert max(values) <= high
    assert n - n // by >= 1
    assert n - n // by * by < by


def test_results_whose_size_follows_from_arguments_go_the_short_way() -> None:
    for name in ("tail", "every other", "shifted", "first half", "convolution"):
        compiled = pn.jit(USES[name], dims={0: (SIZE,)})
        assert compiled.lower(pn.TensorSpec((SIZE,))).compile()._exe.is_fast, name


def test_cores_share_rows_of_unknown_number_not_columns() -> None:
    n = pn.Dim("n", 1, 4096)
    f = pn.jit(lambda x: x[1:] + 1, dims={0: (n, None)})
    made = f.lower(pn.TensorSpec((n, 64))).compile()
    (kernel,) = made.kernels
    shared = [step.action for step in kernel.why.steps if isinstance(step.action, Thread)]
    assert [action.axis.partition(".")[0] for action in shared] == ["i"]
    x = np.arange(3 * 64, dtype=np.float32).reshape(3, 64)
    for rows in (1, 2, 3):
        np.testing.assert_array_equal(f(pn.asarray(x[:rows])).numpy(), x[1:rows] + 1)


def test_sizes_are_named_by_argument():
    with pytest.raises(pn.PlanishError, match=r"dims is \[.*by argument: dims=\{0"):
        pn.jit(lambda x: x, dims=[(SIZE,)])  # type: ignore[call-overload]


# --- numbers made of sizes, and assignment ----------------------------------------------------------------


def _assigned(x: pn.Tensor, key: Any, value: Any) -> pn.Tensor:
    y = x * 1.0
    y[key] = value if not callable(value) else value(y)
    return y


NUMBERS_OF_SIZES: dict[str, Callable[[pn.Tensor], pn.Tensor]] = {
    "1 / n": lambda x: x * (1 / x.shape[0]),
    "n / 2": lambda x: x * (x.shape[0] / 2),
    "n / n": lambda x: x * (x.shape[0] / (x.shape[0] + 1)),
    "n ** 0.5": lambda x: x / x.shape[0] ** 0.5,
    "n ** 2": lambda x: x * x.shape[0] ** 2,
    "2 ** n": lambda x: x * 2.0 ** (x.shape[0] % 5),
    "0.5 - n": lambda x: x * (0.5 - x.shape[0] * 0.25 + 0.1),
    "-n": lambda x: x * -x.shape[0],
    "divmod": lambda x: x * divmod(x.shape[0], 2)[1],
    "asarray": lambda x: x * pn.asarray(x.shape[0]),
    "full": lambda x: pn.full((x.shape[0],), x.shape[0]) * 1.0,
    "cov": lambda x: pn.cov(x.T),
    "x[0] =": lambda x: _assigned(x, 0, 5.0),
    "x[-1] =": lambda x: _assigned(x, -1, 5.0),
    "x[1:] =": lambda x: _assigned(x, slice(1, None), 2.0),
    "x[1:] +=": lambda x: _assigned(x, slice(1, None), lambda y: y[1:] + 1.0),
    "x[:-1] =": lambda x: _assigned(x, slice(None, -1), lambda y: y[1:]),
    "x[::2] =": lambda x: _assigned(x, slice(None, None, 2), lambda y: y[::2] * 3.0),
    "x[1::3, 1] =": lambda x: _assigned(x, (slice(1, None, 3), 1), 7.0),
    "x[::-1] =": lambda x: _assigned(x, slice(None, None, -1), lambda y: y * 1.0),
    "at[-1].add": lambda x: x.at[-1].add(1.0),
}


@pytest.mark.parametrize("name", NUMBERS_OF_SIZES)
def test_sizes_make_numbers_and_name_places_to_assign_to(name: str) -> None:
    """One compilation for all sizes; what the same function gives without names is right."""
    function = NUMBERS_OF_SIZES[name]
    compiled = pn.jit(function, dims={"x": (pn.Dim("B", 2, 40), None)})
    for size in (7, 2, 40, 3):
        x = pn.asarray(np.random.default_rng(size).normal(size=(size, 3)).astype(np.float32))
        np.testing.assert_allclose(
            compiled(x), function(x), rtol=1e-5, atol=1e-5, err_msg=f"{name} of {size}"
        )
    assert compiled.cache_info().misses == 1


@pytest.mark.parametrize("kind", [float, int])
def test_a_size_is_no_number_of_pythons(kind: type) -> None:
    with pytest.raises(TypeError, match=r"\(\) of the named size B.*n \*\* 0.5"):
        pn.jit(lambda x: x * kind(x.shape[0]), dims={"x": (pn.Dim("B", 2, 40),)})(pn.ones(3))


PLACES: dict[str, Callable[[Any, Any, int], Any]] = {
    "remainder by a size": lambda xp, i, n: i % (n + 1),
    "remainder": lambda xp, i, n: i % 3,
    "at most": lambda xp, i, n: xp.minimum(i, 2),
    "at most a size": lambda xp, i, n: xp.minimum(i, n),
    "quotient": lambda xp, i, n: i // 4,
    "distance": lambda xp, i, n: abs(i - 4),
    "squares": lambda xp, i, n: i * i % 7 % (n + 1),
    "in steps": lambda xp, i, n: 2 * i,
}


@pytest.mark.parametrize("kind", ["add", "set"])
@pytest.mark.parametrize("place", PLACES)
def test_places_that_are_computed_are_written_in_order(place: str, kind: str) -> None:
    """Several updates of one place, of which no data tells: the last one counts, or all do."""
    where = PLACES[place]

    def function(x: Any, y: Any) -> Any:
        zeros = pn.zeros((x.shape[0] + 19, 2), dtype=pn.float64)
        return getattr(zeros.at[where(pn, pn.arange(y.shape[0]), x.shape[0])], kind)(y)

    compiled = pn.jit(function, dims={"x": (pn.Dim("n", 0, 20),), "y": (pn.Dim("m", 1, 9), None)})
    for n, m in ((0, 9), (1, 9), (3, 5), (20, 7), (2, 1)):
        x, y = np.zeros(n), np.random.default_rng(m).normal(size=(m, 2))
        wanted = np.zeros((n + 19, 2))
        for at, row in zip(where(np, np.arange(m), n), y, strict=True):
            wanted[at] = row if kind == "set" else wanted[at] + row
        for threads in (1, 2):
            with pn.settings(threads=threads):
                np.testing.assert_allclose(compiled(x, y), wanted, err_msg=f"{n} and {m}")


BESIDE: dict[str, Callable[[Any, Any], Any]] = {
    "n < y": operator.lt, "n <= y": operator.le, "n > y": operator.gt, "n >= y": operator.ge, "n == y": operator.eq,
    "n != y": operator.ne, "n // y": operator.floordiv, "n % y": operator.mod, "n - y": operator.sub, "n / y": operator.truediv,
}  # fmt: skip


@pytest.mark.parametrize("name", BESIDE)
def test_a_size_beside_a_tensor_is_a_number(name: str) -> None:
    """Element by element, on either side."""
    made = BESIDE[name]
    y = np.array([-3, 1, 4, 5, 7, 5])
    compiled = pn.jit(
        lambda x, y: (made(x.shape[0], y), made(y, x.shape[0])), dims={"x": (pn.Dim("n", 1, 40),), "y": None}
    )
    for size in (5, 7):
        for given in (y, y.astype(np.float32)):
            found = compiled(np.zeros(size, np.float32), given)
            for ours, theirs in zip(found, (made(size, given), made(given, size)), strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize(
    "look",
    [
        lambda x: int(pn.asarray(x.shape[0]) + 0),
        lambda x: bool(pn.sqrt(x.shape[0]) > 2),
        lambda x: pn.arange(x.shape[0]).numpy(),
        lambda x: float(pn.sum(pn.ones((x.shape[0], 2)))),
        lambda x: pn.repeat(x, x.shape[0]),
    ],
)
def test_the_number_of_a_size_is_not_known_while_a_function_is_traced(look: Callable[[Any], Any]) -> None:
    """It was taken for 0."""

    def function(x: Any) -> Any:
        look(x)
        return x

    with pytest.raises(pn.PlanishError, match="named size"):
        pn.jit(function, dims={"x": (pn.Dim("n", 2, 40),)})(pn.ones(7))

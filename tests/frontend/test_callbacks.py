"""Callbacks, `debug.print` and `debug.breakpoint`: when they happen, how often, in which order, with which values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import planish as pn

X = np.arange(3, dtype=np.float32)


def x() -> pn.Tensor:
    return pn.asarray(X)


def said(value: Any, fmt: str, *args: Any) -> Any:
    """A value, printed something about."""
    pn.debug.print(fmt, *args)
    return value


def loss(values: pn.Tensor) -> pn.Tensor:
    pn.debug.print("sum {s:.1f}", s=pn.sum(values))
    y = values * values
    pn.debug.print("y {}", y)
    return pn.sum(y)


def step(carry: Any, item: Any) -> Any:
    pn.debug.print("{} {}", carry, item)
    return carry + item, carry * item


def branch(values: pn.Tensor) -> None:
    pn.cond(pn.sum(values) > 1, lambda: pn.debug.print("big {}", values), lambda: None)


def both(values: pn.Tensor) -> pn.Tensor:
    pn.debug.print("1")
    _, seen = pn.scan(lambda c, t: (said(c, "2 {:.0f}", t), t), 0.0, values)
    pn.debug.print("3")
    branch(values)
    pn.debug.print("5")
    return pn.sum(seen)


def loops(values: pn.Tensor) -> Any:
    def test(i: Any) -> Any:
        pn.debug.print("test {}", i)
        return i < 2

    def body(i: Any) -> Any:
        pn.debug.print("step {}", i)
        return i + 1

    n = pn.while_loop(test, body, 0)
    return pn.fori_loop(0, n, lambda i, c: said(c + i, "turn {}", i), pn.sum(values))


ONCE = ["sum 3.0", "y [0. 1. 4.]"]
TURNS = ["0.0 0.0", "0.0 1.0", "1.0 2.0"]
ORDER = ["1", "2 0", "2 1", "2 2", "3", "big [0. 1. 2.]", "5"]
LOOPS = ["test 0", "step 0", "test 1", "step 1", "test 2", "turn 0", "turn 1"]
CASES: dict[str, tuple[Callable[[], object], Sequence[str]]] = {
    "as it is": (lambda: loss(x()), ONCE),
    "jit": (lambda: pn.jit(loss)(x()), ONCE),
    "grad": (lambda: pn.grad(loss)(x()), ONCE),
    "jit of grad": (lambda: pn.jit(pn.grad(loss))(x()), ONCE),
    "grad of jit": (lambda: pn.grad(pn.jit(loss))(x()), ONCE),
    "jvp": (lambda: pn.jit(lambda a: pn.jvp(loss, (a,), (a,)))(x()), ONCE),
    "vmap": (lambda: pn.vmap(lambda a: said(a, "{}", a))(x()), ["0.0", "1.0", "2.0"]),
    "jit of vmap": (
        lambda: pn.jit(pn.vmap(lambda a: said(a, "{}", a)))(x()),
        ["0.0", "1.0", "2.0"],
    ),
    "scan": (lambda: pn.scan(step, 0.0, x()), TURNS),
    "scan in jit": (lambda: pn.jit(lambda a: pn.scan(step, 0.0, a))(x()), TURNS),
    "scan in grad": (lambda: pn.grad(lambda a: pn.scan(step, 0.0, a)[1].sum())(x()), TURNS),
    "scan in grad in jit": (lambda: pn.jit(pn.grad(lambda a: pn.scan(step, 0.0, a)[1].sum()))(x()), TURNS),
    "branch taken": (lambda: branch(x()), ["big [0. 1. 2.]"]),
    "branch taken in jit": (lambda: pn.jit(branch)(x()), ["big [0. 1. 2.]"]),
    "branch not taken": (lambda: pn.jit(branch)(-x()), []),
    "order": (lambda: pn.jit(both)(x()), ORDER),
    "order in grad in jit": (lambda: pn.jit(pn.grad(both))(x()), ORDER),
    "loops": (lambda: loops(x()), LOOPS),
    "loops in jit": (lambda: pn.jit(loops)(x()), LOOPS),
    "nothing to carry": (
        lambda: pn.jit(lambda a: pn.scan(lambda c, t: (said(None, "{}", t), None), None, a))(x()),
        ["0.0", "1.0", "2.0"],
    ),
    "same twice": (
        lambda: pn.jit(lambda a: (said(None, "{}", a), said(None, "{}", a)))(x()),
        ["[0. 1. 2.]"] * 2,
    ),
    "interpreter": (lambda: pn.jit(both, device="interpreter")(x()), ORDER),
    "watched": (lambda: _watched(lambda: pn.jit(loss)(x())), ONCE),
}


def _watched(call: Callable[[], object]) -> None:
    with pn.settings(check="nan"):
        call()


@pytest.mark.parametrize("name", CASES)
def test_it_happens_once_and_in_order(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    call, expected = CASES[name]
    call()
    assert capsys.readouterr().out.splitlines() == list(expected)


def test_every_call_of_compiled_code_prints(capsys: pytest.CaptureFixture[str]) -> None:
    f = pn.jit(lambda a: pn.debug.print("{a}", a=pn.sum(a)))
    for number in range(3):
        f(x() + number)
    assert capsys.readouterr().out.split() == ["3.0", "6.0", "9.0"]
    assert f.cache_info().misses == 1


def test_kernels_interpreted_print_too(capsys: pytest.CaptureFixture[str]) -> None:
    f = pn.jit(both)
    low = f.lower(x())
    low.compile()(x())
    assert capsys.readouterr().out.splitlines() == ORDER
    low._lowered.interpreted()(X)
    assert capsys.readouterr().out.splitlines() == ORDER


def test_trees_and_words_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    pn.jit(lambda t: pn.debug.print("{} {who!r} {n}", t, who="me", n=t["b"][0]))({"b": (x(), 2)})
    assert capsys.readouterr().out == ("{'b': (array([0., 1., 2.], dtype=float32), 2)} 'me' [0. 1. 2.]\n")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pn.debug.print("{y}", x()), "asks for 'y'"),
        (lambda: pn.debug.print("{} {}", x()), "out of range"),
        (lambda: pn.debug.print("{}", x(), x()), "argument 1 is not used"),
        (lambda: pn.debug.print("{", x()), "'{'"),
        (lambda: said(None, x()), "not a Tensor"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_format_is_told_where_it_is_written(call: Callable[[], object], message: str) -> None:
    with pytest.raises(pn.PlanishError, match=message) as caught:
        call()
    assert caught.value.location is not None
    assert caught.value.location.file == __file__


# --- callbacks that give something --------------------------------------------------------------------------


def test_a_callback_gives_tensors() -> None:
    def both_of(a: np.ndarray[Any, Any], factor: float) -> dict[str, Any]:
        return {"sin": np.sin(a), "count": np.int32(a.size * factor)}

    like = {"sin": x(), "count": pn.TensorSpec((), pn.int32)}

    def f(a: pn.Tensor) -> Any:
        found = pn.pure_callback(both_of, like, a, factor=2.0)
        return found["sin"] + 1, found["count"]

    for call in (f, pn.jit(f)):
        sin, count = call(x())
        np.testing.assert_allclose(sin.numpy(), np.sin(X) + 1, rtol=1e-6)
        assert int(count) == 6


def test_a_callback_in_transforms_and_loops() -> None:
    def sin(a: pn.Tensor) -> Any:
        return pn.pure_callback(np.sin, a, a)

    @pn.custom_jvp
    def f(a: pn.Tensor) -> Any:
        return sin(a)

    f.defjvp(lambda p, t: (f(p[0]), pn.cos(p[0]) * t[0]))
    for outer in (lambda g: g, pn.jit):
        np.testing.assert_allclose(outer(pn.vmap(sin))(x()).numpy(), np.sin(X), rtol=1e-6)
        np.testing.assert_allclose(outer(pn.grad(lambda a: pn.sum(f(a))))(x()).numpy(), np.cos(X), rtol=1e-6)
        carried = outer(lambda a: pn.scan(lambda c, t: (sin(c + t), None), 0.0, a)[0])(x())
        np.testing.assert_allclose(float(carried), np.sin(np.sin(1) + 2), rtol=1e-5)


def test_a_callback_that_is_not_needed_is_not_called() -> None:
    calls: list[int] = []

    def seen(a: Any) -> Any:
        calls.append(1)
        return a

    def f(a: pn.Tensor) -> pn.Tensor:
        pn.pure_callback(seen, a, a)
        return a + 1

    pn.jit(f)(x())
    assert not calls
    pn.jit(lambda a: pn.pure_callback(seen, a, a) + pn.pure_callback(seen, a, a))(x())
    assert len(calls) == 1


def test_an_effect_happens_though_nobody_needs_it() -> None:
    numbers = iter(range(100))
    spec = pn.TensorSpec((), pn.int32)

    def f(a: pn.Tensor) -> Any:
        pn.io_callback(lambda: np.int32(next(numbers)), spec)
        return pn.io_callback(lambda v: np.int32(next(numbers)) + 0 * np.int32(v), spec, pn.sum(a))

    compiled = pn.jit(f)
    assert [int(compiled(x())) for _ in range(3)] == [1, 3, 5]


def test_what_a_callback_keeps_is_its_own() -> None:
    kept: list[Any] = []
    f = pn.jit(lambda a: pn.debug.callback(kept.append, a * 2))
    for number in range(3):
        f(x() + number)
    for number, array in enumerate(kept):
        np.testing.assert_array_equal(array, 2 * (X + number))
        array[...] = 0  # and may be written to


def test_named_sizes_reach_callbacks() -> None:
    n = pn.Dim("n", 1, 10)
    f = pn.jit(lambda a: pn.pure_callback(lambda v: v[::-1], a, a) * 2, dims={"a": (n,)})
    for size in (3, 7):
        given = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(f(given).numpy(), 2 * given[::-1])
    assert f.cache_info().misses == 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda a: a[:1], r"gave float32\[1\]"),
        (lambda a: (a, a), r"gave float32\[2, 3\]"),
        (lambda a: a.astype(complex), "gave complex128"),
    ],
)
def test_what_a_callback_gives_is_checked(function: Callable[..., Any], message: str) -> None:
    for call in (
        lambda a: pn.pure_callback(function, a, a),
        pn.jit(lambda a: pn.pure_callback(function, a, a)),
    ):
        with pytest.raises(pn.PlanishError, match=message) as caught:
            call(x())
        assert caught.value.location is not None
        assert caught.value.location.file == __file__


def test_mistakes_of_callbacks() -> None:
    with pytest.raises(ZeroDivisionError):
        pn.jit(lambda a: pn.pure_callback(lambda v: 1 / 0, a, a))(x())
    with pytest.raises(pn.PlanishError, match="no shape and dtype"):
        pn.pure_callback(np.sin, "float32", x())
    total = lambda a: pn.sum(pn.pure_callback(np.sin, a, a))  # noqa: E731
    for call in (
        pn.jit(pn.grad(total)),
        pn.grad(total),  # its elements are known here, and would have had a slope of zero
        pn.grad(pn.jit(total)),
        lambda a: pn.jvp(total, (a,), (a,)),
    ):
        with pytest.raises(pn.PlanishError, match="has no derivative"):
            call(x())
    slope = pn.grad(lambda a: pn.sum(a * pn.pure_callback(np.sin, a, pn.stop_gradient(a))))
    np.testing.assert_allclose(slope(x()).numpy(), np.sin(X), rtol=1e-6)
    with pytest.raises(pn.PlanishError, match="vmap_method"):
        pn.pure_callback(np.sin, x(), x(), vmap_method="expand")


# --- the debugger -------------------------------------------------------------------------------------------


def test_the_debugger_stops_at_the_line_with_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    stops: list[tuple[str, int, Any, Any]] = []

    def hook() -> None:
        frame = sys._getframe(1)
        names = {**frame.f_globals, **frame.f_locals}
        stops.append((frame.f_code.co_filename, frame.f_lineno, names["double"], names["word"]))

    monkeypatch.setattr(sys, "breakpointhook", hook)

    def f(a: pn.Tensor) -> pn.Tensor:
        double, word = a * 2, "here"
        pn.debug.breakpoint()
        return double + len(word)

    line = f.__code__.co_firstlineno + 2
    for call in (f, pn.jit(f), lambda a: pn.scan(lambda c, t: (f(c + t), None), 0.0, a)):
        stops.clear()
        call(x())
        assert len(stops) == (3 if call not in (f,) and not isinstance(call, type(pn.jit(f))) else 1)
        for file, at, double, word in stops:
            assert (file, at, word) == (__file__, line, "here")
            assert isinstance(double, np.ndarray)


def test_shapes_and_lists_of_numbers_read_as_pythons(capfd: pytest.CaptureFixture[str]):
    @pn.jit
    def f(x: pn.Tensor) -> pn.Tensor:
        pn.debug.print("{} {} {}", x.shape, [pn.sum(x), 2.5], x)
        return x * 2

    f(pn.ones(3)).realize()
    assert capfd.readouterr().out == "(3,) [3.0, 2.5] [1. 1. 1.]\n"

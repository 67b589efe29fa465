"""`debug="kernels"`: a line per kernel and run, with its user's line, and the same results."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish.compiler.launch_log import shown

X: Any = np.arange(40000, dtype=np.float32).reshape(400, 100) % 7
LINE = re.compile(r"^\S+ +[\d.]+ (s|ms|µs) +[\d.]+ GB/s +[\d.]+ GFLOP/s  ")


def f(x: pn.Tensor) -> tuple[pn.Tensor, pn.Tensor]:
    y = pn.matmul(x, x.T)
    return pn.sort(y, axis=1), pn.tanh(x) + 1


def test_every_run_tells_its_kernels(capfd: pytest.CaptureFixture[str]) -> None:
    compiled = pn.jit(f)
    expected = [np.asarray(part) for part in compiled(X)]
    assert capfd.readouterr().err == ""
    with pn.settings(debug="kernels"):
        for _ in range(3):
            for part, wanted in zip(compiled(X), expected, strict=True):
                np.testing.assert_array_equal(np.asarray(part), wanted)
            lines = capfd.readouterr().err.splitlines()
            kernels = [line for line in lines if LINE.match(line)]
            assert len(kernels) == len(compiled.lower(X).compile().kernels)
            assert any("sort on the host" in line for line in lines)
            at = f.__code__.co_firstlineno
            assert any(f"{__name__.replace('.', '/')}.py:{at + 1} in f" in line for line in kernels)
            assert any(f"{__name__.replace('.', '/')}.py:{at + 2} in f" in line for line in kernels)
    compiled(X)
    assert capfd.readouterr().err == ""


def test_expressions_loops_and_donated_arguments_tell_too(capfd: pytest.CaptureFixture[str]) -> None:
    with pn.settings(debug="kernels"):
        assert float(pn.sum(pn.asarray(X) * 2)) == X.sum() * 2
        assert capfd.readouterr().err
        total, _ = pn.scan(lambda c, row: (c + row, None), pn.zeros(100), pn.asarray(X))
        np.testing.assert_allclose(total.numpy(), X.sum(0))
        assert capfd.readouterr().err
        add = pn.jit(lambda a: a + 1, donate_argnums=0)
        for _ in range(2):
            np.testing.assert_array_equal(add(pn.asarray(X)).numpy(), X + 1)
        assert len(capfd.readouterr().err.splitlines()) == 2


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.0, "2.0 s"), (0.0123, "12.3 ms"), (4.5e-6, "4.5 µs"), (0, "0.0 µs")]
)
def test_times_are_shown_in_their_unit(seconds: float, text: str) -> None:
    assert shown(seconds) == text

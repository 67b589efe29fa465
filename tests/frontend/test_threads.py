"""Threads that ask for the same lazy values at once: each gets them, and nothing is said of traces or missing parts."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import planish as pn


@pytest.fixture(autouse=True)
def hasty() -> Iterator[None]:
    """Threads take turns as often as Python lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_threads_share_expressions():
    failed: list[BaseException] = []

    def look(parts: list[pn.Tensor], wanted: list[float], first: int, barrier: threading.Barrier) -> None:
        try:
            barrier.wait()
            for place in [*range(first, len(parts)), *range(first)]:
                np.testing.assert_array_equal(parts[place].numpy(), np.full(8, wanted[place], np.float32))
        except BaseException as error:  # noqa: BLE001 - told below, with the others
            failed.append(error)

    for number in range(60):
        x = pn.asarray(np.full(8, number, np.float32))
        a = x * 1.5
        b = a + 2
        c = b * a
        d = c - b
        e = d + a
        f = float(number) * 1.5
        g = f + 2
        wanted = [f, g, g * f, g * f - g, g * f - g + f, g * f + (g * f - g + f), g * (g * f - g + f)]
        parts = [a, b, c, d, e, c + e, b * e]
        barrier = threading.Barrier(6)
        threads = [threading.Thread(target=look, args=(parts, wanted, n, barrier)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == []

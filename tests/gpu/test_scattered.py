"""Rows that data chooses, added up by blocks that claim them: to the bit what adding one after the other gives."""

from __future__ import annotations

import numpy as np
import pytest

import planish as pn


@pytest.mark.parametrize("columns", [1, 3, 6, 24, 32, 200, 768])
@pytest.mark.parametrize(("entries", "rows"), [(40, 50), (1000, 169), (2401, 169), (5000, 3000)])
def test_rows_are_added_up_in_the_order_of_their_list(columns: int, entries: int, rows: int) -> None:
    rng = np.random.default_rng(entries + columns)
    places = rng.integers(-rows, rows + 3, entries)  # some from the end, some nowhere
    x = rng.standard_normal((entries, columns)).astype(np.float32)
    start = rng.standard_normal((rows, columns)).astype(np.float32)
    wanted = start.copy()
    inside = places < rows
    np.add.at(wanted, places[inside], x[inside])
    added = pn.jit(lambda w, i, x: w.at[i].add(x), device="cuda")
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(added(start, places, x)), wanted)


def test_the_last_of_several_rows_counts() -> None:
    rng = np.random.default_rng(0)
    places = rng.integers(0, 40, 3000)
    x = rng.standard_normal((3000, 64)).astype(np.float32)
    wanted = np.zeros((100, 64), np.float32)
    wanted[places] = x
    found = pn.jit(lambda i, x: pn.zeros((100, 64)).at[i].set(x), device="cuda")(places, x)
    np.testing.assert_array_equal(np.asarray(found), wanted)

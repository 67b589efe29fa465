"""Rows that data chooses, added up by blocks that claim them: to the bit what adding one after the other gives."""

from __future__ import annotations

from typing import Any

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


@pytest.mark.parametrize(("entries", "places"), [(100, 7), (5000, 1), (5000, 3000), (30_000, 100)])
def test_elements_are_added_up_in_the_order_of_their_list(entries: int, places: int) -> None:
    """A warp does 32 entries at a time; those with the same place take turns."""
    rng = np.random.default_rng(entries)
    chosen = rng.integers(-places, places + 3, entries)
    x = rng.standard_normal(entries).astype(np.float32)
    inside = chosen < places
    wanted = np.zeros(places, np.float32)
    np.add.at(wanted, chosen[inside], x[inside])
    last = np.zeros(places, np.float32)
    last[chosen[inside]] = x[inside]
    added = pn.jit(lambda i, x: pn.zeros((places,)).at[i].add(x), device="cuda")
    replaced = pn.jit(lambda i, x: pn.zeros((places,)).at[i].set(x), device="cuda")
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(added(chosen, x)), wanted)
        np.testing.assert_array_equal(np.asarray(replaced(chosen, x)), last)


@pytest.mark.parametrize("places", [5, 1000, 100_003, 1 << 20])
@pytest.mark.parametrize("entries", [1 << 17, 1_000_003])
def test_long_lists_have_tables_of_parts(entries: int, places: int) -> None:
    """Integers and extrema are the very same numbers, sums the same every time."""
    rng = np.random.default_rng(places)
    chosen = rng.integers(0, places + 3, entries)
    x = rng.standard_normal(entries).astype(np.float32)
    inside = chosen < places
    counted = pn.jit(lambda i: pn.zeros((places,), dtype=pn.int32).at[i].add(1), device="cuda")
    wanted = np.bincount(chosen[inside], minlength=places)
    np.testing.assert_array_equal(np.asarray(counted(chosen)), wanted)
    largest = np.full(places, -1, np.float32)
    np.maximum.at(largest, chosen[inside], x[inside])
    found = pn.jit(lambda i, x: pn.full((places,), -1.0).at[i].max(x), device="cuda")(chosen, x)
    np.testing.assert_array_equal(np.asarray(found), largest)
    added = pn.jit(lambda i, x: pn.zeros((places,)).at[i].add(x), device="cuda")
    first, second = (np.asarray(added(chosen, x)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    exact = np.bincount(chosen[inside], x[inside].astype(np.float64), minlength=places)
    np.testing.assert_allclose(first, exact, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("classes", [1000, 32000, 50257, 128256])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_of_class_scores(classes: int, dtype: str) -> None:
    """Rows that fit nowhere are read again, and no zeros are stored for the classes that are not meant."""
    rng = np.random.default_rng(classes)
    x = rng.standard_normal((64, classes)).astype(np.float32)
    labels = rng.integers(0, classes, 64)
    labels[5] = -100
    slopes = pn.grad(lambda x, t: pn.nn.functional.cross_entropy(x, t).astype(pn.float32))
    given = pn.asarray(x).astype(getattr(pn, dtype))
    found = np.asarray(pn.jit(slopes, device="cuda")(given, labels)).astype(np.float64)
    wide = np.asarray(given).astype(np.float64)
    wanted = np.exp(wide - wide.max(1, keepdims=True))
    wanted /= wanted.sum(1, keepdims=True)
    wanted[np.arange(64), np.where(labels < 0, 0, labels)] -= 1
    wanted[labels < 0] = 0
    wanted /= 63
    np.testing.assert_allclose(found, wanted, rtol=2e-2 if dtype == "bfloat16" else 1e-4, atol=1e-7)


@pytest.mark.parametrize("columns", [32000, 40000, 50257, 57000, 100_000])
def test_long_rows(columns: int) -> None:
    rng = np.random.default_rng(columns)
    x, y = (rng.standard_normal((8, columns)).astype(np.float32) for _ in range(2))

    def functions(x: Any, y: Any) -> Any:
        soft = pn.nn.softmax(x, axis=-1)
        norm = pn.nn.layer_norm(x, (columns,))
        slopes = pn.grad(lambda x: pn.sum(pn.nn.layer_norm(x, (columns,)) * y))(x)
        return soft, soft * x, norm, slopes, pn.grad(lambda x: pn.sum(pn.nn.softmax(x, axis=-1) * y))(x)

    wanted = pn.jit(functions)(x, y)
    for found, exact in zip(pn.jit(functions, device="cuda")(x, y), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(exact), rtol=1e-3, atol=1e-6)


def test_sampled_pictures() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 24, 20, 22)).astype(np.float32)
    grid = rng.uniform(-1.1, 1.1, (4, 30, 28, 2)).astype(np.float32)
    slopes = pn.grad(lambda x, g: pn.sum(pn.nn.functional.grid_sample(x, g) ** 2), argnums=0)
    found, wanted = pn.jit(slopes, device="cuda")(x, grid), pn.jit(slopes)(x, grid)
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-3, atol=1e-3)

"""Layouts of tiles: every element has a place of its own, chunks stay together, eight rows of a column are in eight banks."""

from __future__ import annotations

from itertools import product

import pytest

from planish import dtypes
from planish.actions.layouts import CHUNK, SWIZZLES, Layout
from planish.uop.evaluate import evaluate
from planish.uop.node import Table

SHAPES = [
    Layout(16, 64, 2, swizzle=128),
    Layout(24, 128, 2, swizzle=128),
    Layout(16, 32, 2, swizzle=64),
    Layout(32, 16, 2, swizzle=32),
    Layout(8, 32, 4, swizzle=128),
    Layout(16, 64, 1, swizzle=64),
    Layout(8, 12, 4),
    Layout(16, 128, 4, pad=4),
]


@pytest.mark.parametrize("layout", SHAPES, ids=str)
def test_every_element_has_a_place_of_its_own(layout: Layout) -> None:
    places = {layout.place(row, column) for row, column in product(range(layout.rows), range(layout.columns))}
    assert len(places) == layout.rows * layout.columns
    assert min(places) == 0
    assert max(places) < layout.elements


@pytest.mark.parametrize("layout", SHAPES, ids=str)
def test_vectors_stay_together(layout: Layout) -> None:
    for row, column in product(range(layout.rows), range(0, layout.columns, layout.vector)):
        first = layout.place(row, column)
        assert first % layout.vector == 0
        assert [layout.place(row, column + n) for n in range(layout.vector)] == [
            first + n for n in range(layout.vector)
        ]


@pytest.mark.parametrize("layout", [each for each in SHAPES if each.swizzle], ids=str)
def test_a_swizzle_is_the_exclusive_or_of_address_bits(layout: Layout) -> None:
    bits = {128: 7, 64: 3, 32: 1}[layout.swizzle] << 4
    plain = Layout(layout.rows, layout.swizzle // layout.itemsize, layout.itemsize)
    for row, column in product(range(layout.rows), range(layout.columns)):
        panel, within = divmod(column, plain.columns)
        address = plain.place(row, within) * layout.itemsize
        swizzled = address ^ (address >> 3 & bits)
        assert (
            layout.place(row, column) * layout.itemsize == swizzled + panel * layout.panel * layout.itemsize
        )


@pytest.mark.parametrize("width", SWIZZLES)
def test_eight_rows_of_a_chunk_are_in_different_banks(width: int) -> None:
    layout = Layout(8, width // 2, 2, swizzle=width)
    for chunk in range(width // CHUNK):
        banks = {layout.place(row, chunk * 8) * 2 // CHUNK % 8 for row in range(8)}
        assert len(banks) == 8


def test_the_widest_swizzle_that_fits() -> None:
    assert [Layout.swizzled(8, n, 2).swizzle for n in (128, 64, 32, 16, 8, 40)] == [128, 128, 64, 32, 0, 0]


def test_indices_are_those_of_numbers() -> None:
    layout = SHAPES[1]
    with Table() as table:
        row, column = table.variable("r", 0, layout.rows - 1), table.variable("c", 0, layout.columns - 1)
        place = layout.place(row, column)
        assert place.dtype is dtypes.index
        assert 0 <= place.vmin <= place.vmax < layout.elements
        for r, c in product(range(0, layout.rows, 3), range(0, layout.columns, 5)):
            assert int(evaluate(place, {row: r, column: c})) == layout.place(r, c)

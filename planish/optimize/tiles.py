"""The register tile of a contraction: rows of vectors that stay in registers while the reduced axis runs by.

Per step of the reduced axis a tile of r rows and v vectors loads v vectors and r scalars, each scalar into a whole register, and
does r·v multiply-adds. What that costs is counted in cycles of a machine that does two multiply-adds and two loads in each; a
size that the tile does not divide is computed up to the next multiple. Of all tiles that fit the registers the cheapest wins.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from planish.target import Target

MOST_LANES: Final = 64
"""Lanes of one axis in a register tile."""
_MOST_ROWS: Final = 16
_ENOUGH: Final = 24
"""Sums at once, beyond which a tile gains nothing but code."""
_TALL: Final = 8
"""Rows beyond which the rows of an operand start to collide in the first cache."""
_COLLIDING: Final = 4096
"""Rows so many bytes apart, or a multiple of it, all lie in one set of the first cache: more than it has ways do not stay."""
_PORTS: Final = 2
"""Multiply-adds, and loads, of one cycle."""
_LATENCY: Final = 4
"""Cycles until a sum can be added to again."""
_STEP: Final = 2.0
"""Cycles of a step that do not depend on the tile: counting, and waiting for the second cache."""
_AGAIN: Final = {1: 1.3, 2: 1.1, 3: 1.04, 4: 1.0}
"""What the other operand costs, which is read once for each panel of so many vectors."""
_EDGE: Final = (1.01, 1.01)
"""What a tile costs that runs over an edge, of rows and of columns: addresses for every row, and gates on what is stored."""

_ADDED_UP: Final = 8.0
"""Cycles in which the lanes of a sum are added up."""
_COPIED: Final = 4.0
"""Cycles in which a vector is copied: the columns that are in lanes are, where there is one panel of them."""
_TURNED: Final = 1.5
"""Cycles in which one of the other columns' elements is."""
_TWICE: Final = 1.03
"""What code for two kinds of tiles has to be worth."""
_LONG: Final = 4
"""Vectors along the reduced axis, from which on sums in lanes are worth their beginning and end."""


class Shape(NamedTuple):
    """A register tile: rows of vectors."""

    rows: int
    vectors: int

    def cycles(self, pitch: int) -> float:
        """One step of the reduced axis, with rows of an operand so many bytes apart."""
        tall = 1.0
        if self.rows > _TALL:
            tall = 1.05 if pitch % _COLLIDING else 2.0
        return self.step * _AGAIN[self.vectors] * tall

    @property
    def step(self) -> float:
        """Cycles of multiplying, or of loading what is multiplied."""
        work = max(self.rows * self.vectors, self.rows + self.vectors) / _PORTS
        return max(work, _LATENCY) + _STEP


def _cost(shape: Shape, rows: int, columns: int, lanes: int, pitch: int) -> float:
    """Cycles of one step of the reduced axis, for an output of so many rows and columns."""
    down, across = -(-rows // shape.rows), -(-columns // (shape.vectors * lanes))
    edge = _EDGE[0] if rows % shape.rows else 1.0
    if columns % (shape.vectors * lanes):
        edge *= _EDGE[1]
    return down * across * shape.cycles(pitch) * edge


def best_tile(target: Target, rows: int, columns: int, lanes: int, pitch: int = 4) -> Shape | None:
    """The cheapest tile for an output of so many rows and columns; None if no vector divides it and nothing can be padded.

    `pitch`: the bytes from one row of the left operand to the next.
    """
    fitting = [
        shape
        for shape in (Shape(r, v) for r in range(1, min(rows, _MOST_ROWS) + 1) for v in _AGAIN)
        if shape.rows * shape.vectors + shape.vectors + 1 <= target.registers
        and shape.rows * shape.vectors <= _ENOUGH
        and shape.vectors * lanes <= MOST_LANES
        and (shape.vectors - 1) * lanes < columns
        and (target.masked or columns % (shape.vectors * lanes) == 0)
    ]
    return min(
        fitting,
        key=lambda shape: (_cost(shape, rows, columns, lanes, pitch), -shape.rows * shape.vectors),
        default=None,
    )


# -- columns that fill no vectors --------------------------------------------------------------------------------------


class Division(NamedTuple):
    """The columns that tiles of whole vectors compute, and what computes the others."""

    tile: Shape
    columns: int
    """Those of the tile; the others are behind them."""
    rest: Shape | None = None
    """Rows and columns of the tile of the others, each of them a sum in lanes; None: there are no others."""


def best_division(
    target: Target, rows: int, columns: int, along: int, lanes: int, pitch: int = 4
) -> Division | None:
    """Whether the last columns are lanes that are partly empty, or sums in lanes along the reduced axis, by what is cheaper."""
    whole = best_tile(target, rows, columns, lanes, pitch)
    found = [] if whole is None else [(_cost(whole, rows, columns, lanes, pitch), Division(whole, columns))]
    for width in {vectors * lanes for vectors in _AGAIN if vectors * lanes <= MOST_LANES}:
        most = columns // width * width
        tile = best_tile(target, rows, most, lanes, pitch) if 0 < most < columns else None
        whole_sums = along >= _LONG * lanes and (target.masked or along % lanes == 0)
        if tile is None or not whole_sums or columns - most >= width:
            continue
        rest = _best_sums(target, tile.rows, columns - most)
        cost = _cost(tile, rows, most, lanes, pitch) + _cost_of_sums(rest, rows, columns - most, along, lanes)
        cost += (columns - most) * _TURNED
        if most <= tile.vectors * lanes:
            cost += most / lanes * _COPIED
        found.append((cost * _TWICE, Division(tile, most, rest)))
    return min(found, default=(0.0, None))[1]


def _best_sums(target: Target, rows: int, columns: int) -> Shape:
    """As many sums at once as there are registers for, each a vector: of the rows of a tile, and columns in even parts."""
    most = max(1, min(columns, (min(target.registers, _ENOUGH + rows) - 1) // (rows + 1)))
    return Shape(rows, -(-columns // -(-columns // most)))


def _cost_of_sums(shape: Shape, rows: int, columns: int, along: int, lanes: int) -> float:
    """Cycles for one step of the reduced axis, the adding up of lanes at the end shared out among all steps."""
    down, across = -(-rows // shape.rows), -(-columns // shape.vectors)
    return down * across * (shape.step / lanes + shape.rows * shape.vectors * _ADDED_UP / along)

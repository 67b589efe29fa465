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


class Shape(NamedTuple):
    """A register tile: rows of vectors."""

    rows: int
    vectors: int

    def cycles(self, pitch: int) -> float:
        """One step of the reduced axis, with rows of an operand so many bytes apart."""
        work = max(self.rows * self.vectors, self.rows + self.vectors) / _PORTS
        tall = 1.0
        if self.rows > _TALL:
            tall = 1.05 if pitch % _COLLIDING else 2.0
        return (max(work, _LATENCY) + _STEP) * _AGAIN[self.vectors] * tall


def best_tile(target: Target, rows: int, columns: int, lanes: int, pitch: int = 4) -> Shape | None:
    """The cheapest tile for an output of so many rows and columns; None if no vector divides it and nothing can be padded.

    `pitch`: the bytes from one row of the left operand to the next.
    """

    def cost(shape: Shape) -> tuple[float, int]:
        down, across = -(-rows // shape.rows), -(-columns // (shape.vectors * lanes))
        edge = _EDGE[0] if rows % shape.rows else 1.0
        if columns % (shape.vectors * lanes):
            edge *= _EDGE[1]
        return down * across * shape.cycles(pitch) * edge, -shape.rows * shape.vectors

    fitting = [
        shape
        for shape in (Shape(r, v) for r in range(1, min(rows, _MOST_ROWS) + 1) for v in _AGAIN)
        if shape.rows * shape.vectors + shape.vectors + 1 <= target.registers
        and shape.rows * shape.vectors <= _ENOUGH
        and shape.vectors * lanes <= MOST_LANES
        and (shape.vectors - 1) * lanes < columns
        and (target.masked or columns % (shape.vectors * lanes) == 0)
    ]
    return min(fitting, key=cost, default=None)

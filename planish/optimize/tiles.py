"""The register tile of a contraction: rows of vectors that stay in registers while the reduced axis runs by.

Per step of the reduced axis a tile of r rows and v vectors loads v vectors and r scalars, each scalar into a whole register, and
does r·v multiply-adds; `body.py` says what that costs. A size that the tile does not divide is computed up to the next multiple.
Of all tiles that fit the registers the cheapest wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Final, NamedTuple

from planish.optimize.body import Body
from planish.target import Target

MOST_LANES: Final = 64
"""Lanes of one axis in a register tile."""
_MOST_ROWS: Final = 16
"""Rows and sums along each side of a tile that are tried."""
_VECTORS: Final = (1, 2, 3, 4)
"""Vectors across a tile that are tried."""
_ITEM: Final = 4
"""Bytes of an element of a row."""
_TWICE: Final = 1.08
"""What code for two kinds of tiles has to be worth."""
_AS_FAST: Final = 1.08
"""What a smaller tile may take more, where much follows each sum: that is written out for every one of a tile, and takes long to compile."""


class Shape(NamedTuple):
    """A register tile: rows of vectors."""

    rows: int
    vectors: int

    def cycles(self, target: Target, pitch: int) -> float:
        """One step of the reduced axis, with rows of an operand so many bytes apart."""
        tall = 1.0
        if self.rows > target.register_tiles.tall:
            tall = 1.05 if pitch % target.alias_bytes else 2.0
        return self.step(target) * tall

    def step(self, target: Target) -> float:
        """Cycles of multiplying, or of loading what is multiplied; vectors come from the second cache, rows from the one behind it."""
        near, far = target.bytes_per_cycle[:2]
        body = Body(
            multiplies=self.rows * self.vectors,
            loads=self.rows + self.vectors,
            chain=target.latency,
            nbytes=self.vectors * target.register_bytes + self.rows * _ITEM * near / far,
        )
        return body.cycles(target) + target.branches


def _cost(target: Target, shape: Shape, rows: int, columns: int, lanes: int, pitch: int) -> float:
    """Cycles of one step of the reduced axis, for an output of so many rows and columns."""
    width = shape.vectors * lanes
    left = rows % shape.rows, columns % width
    edges = [more for more, beyond in zip(target.register_tiles.edges, left, strict=True) if beyond]
    return -(-rows // shape.rows) * -(-columns // width) * shape.cycles(target, pitch) * prod(edges)


def best_tile(
    target: Target, rows: int, columns: int, lanes: int, pitch: int = 4, after: float = 0.0
) -> Shape | None:
    """The cheapest tile for an output of so many rows and columns; None if no vector divides it and nothing can be padded.

    `pitch`: the bytes from one row of the left operand to the next; `after`: operations that follow each sum, per step of the reduced axis.
    """
    last = rows * columns * after / (lanes * target.ports)
    costs = {
        shape: _cost(target, shape, rows, columns, lanes, pitch) + last
        for shape in _shapes(target, rows, lanes)
        if (shape.vectors - 1) * lanes < columns and (target.masked or columns % (shape.vectors * lanes) == 0)
    }
    best = min(costs, key=lambda shape: (costs[shape], -shape.rows * shape.vectors), default=None)
    return _least_code(costs, best) if best is not None and after else best


def _least_code(costs: Mapping[Shape, float], best: Shape) -> Shape:
    """The smallest tile that is nearly as fast as the fastest."""
    as_fast = [shape for shape, cost in costs.items() if cost <= _AS_FAST * costs[best]]
    return min(as_fast, key=lambda shape: (shape.rows * shape.vectors, costs[shape]))


def dividing_tile(target: Target, rows: int, columns: int, lanes: int, after: float = 0.0) -> Shape:
    """The tile that takes least for each of its sums, of those that divide an output (0 columns: any will do, they are padded)."""
    costs = {
        shape: shape.cycles(target, 4) / (shape.rows * shape.vectors) + after / target.ports
        for shape in _shapes(target, rows, lanes)
        if rows % shape.rows == 0 and columns % (shape.vectors * lanes) == 0
    }
    best = min(costs, key=lambda shape: (costs[shape], -shape.rows), default=Shape(1, 1))
    return _least_code(costs, best) if costs and after else best


def _shapes(target: Target, rows: int, lanes: int) -> Iterator[Shape]:
    """The tiles that there are registers for: their sums, a row of vectors, and an element of a row."""
    for shape in (Shape(r, v) for r in range(1, min(rows, _MOST_ROWS) + 1) for v in _VECTORS):
        sums = shape.rows * shape.vectors
        if (
            sums <= target.register_tiles.sums
            and sums + shape.vectors < target.registers
            and shape.vectors * lanes <= MOST_LANES
        ):
            yield shape


# -- columns that fill no vectors --------------------------------------------------------------------------------------


class Division(NamedTuple):
    """The columns that tiles of whole vectors compute, and what computes the others."""

    tile: Shape
    columns: int
    """Those of the tile; the others are behind them."""
    rest: Shape | None = None
    """Rows and columns of the tile of the others, each of them a sum in lanes; None: there are no others."""


def best_division(
    target: Target, rows: int, columns: int, along: int, lanes: int, pitch: int = 4, after: float = 0.0
) -> Division | None:
    """Whether the last columns are lanes that are partly empty, or sums in lanes along the reduced axis, by what is cheaper."""
    whole = best_tile(target, rows, columns, lanes, pitch, after)
    divisions = (
        []
        if whole is None
        else [(_cost(target, whole, rows, columns, lanes, pitch), Division(whole, columns))]
    )
    for width in {vectors * lanes for vectors in _VECTORS if vectors * lanes <= MOST_LANES}:
        most = columns // width * width
        tile = best_tile(target, rows, most, lanes, pitch, after) if 0 < most < columns else None
        whole_sums = along >= target.register_tiles.long_sum * lanes and (target.masked or along % lanes == 0)
        if tile is None or not whole_sums or columns - most >= width:
            continue
        rest = _best_sums(target, tile.rows, columns - most)
        cost = _cost(target, tile, rows, most, lanes, pitch)
        cost += _cost_of_sums(target, rest, rows, columns - most, along, lanes)
        # both parts are copied: vectors of columns where there is one panel of them, and the other columns, turned
        if most <= tile.vectors * lanes:
            cost += most / lanes * (Body(loads=1, stores=1).cycles(target) + target.branches)
        cost += (columns - most) * Body(elements=1, stores=1 / lanes).cycles(target)
        divisions.append((cost * _TWICE, Division(tile, most, rest)))
    return min(divisions, default=(0.0, None))[1]


def best_sums(
    target: Target, rows: int, columns: int, along: int, lanes: int, pitches: tuple[int, int] = (4, 4)
) -> Shape | None:
    """The cheapest tile of sums in lanes for all of an output; None if what is summed up is too short for it.

    `pitches`: the bytes from one row of each operand to the next.
    """
    if along < target.register_tiles.long_sum * lanes or not (target.masked or along % lanes == 0):
        return None
    of = target.register_tiles
    shapes = (
        Shape(r, c)
        for r in range(1, min(rows, _MOST_ROWS) + 1)
        for c in range(1, min(columns, _MOST_ROWS) + 1)
        if r * c <= of.sums and r * c + min(r, c) < target.registers
    )

    def cost(shape: Shape) -> float:
        edges = [
            more
            for more, left in zip(of.edges, (rows % shape.rows, columns % shape.vectors), strict=True)
            if left
        ]
        # all of them are walked side by side
        colliding = sum(
            count for count, pitch in zip(shape, pitches, strict=True) if pitch % target.alias_bytes == 0
        )
        crowded = 2.0 if colliding > of.tall else 1.0
        return _cost_of_sums(target, shape, rows, columns, along, lanes) * prod(edges) * crowded

    return min(shapes, key=cost)


def _best_sums(target: Target, rows: int, columns: int) -> Shape:
    """As many sums at once as there are registers for, each a vector: of the rows of a tile, and columns in even parts."""
    most = max(1, min(columns, (min(target.registers, target.register_tiles.sums + rows) - 1) // (rows + 1)))
    return Shape(rows, -(-columns // -(-columns // most)))


def _cost_of_sums(target: Target, shape: Shape, rows: int, columns: int, along: int, lanes: int) -> float:
    """Cycles for one step of the reduced axis, the adding up of lanes at the end shared out among all steps."""
    down, across = -(-rows // shape.rows), -(-columns // shape.vectors)
    rounds = (lanes - 1).bit_length()
    added_up = Body(operations=rounds, shuffles=rounds, chain=rounds * target.latency / 2).cycles(target)
    return down * across * (shape.step(target) / lanes + shape.rows * shape.vectors * added_up / along)

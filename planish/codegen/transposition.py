"""Vectors made of lanes of many others, found to be a transposition: a few shuffles of whole vectors do it at once.

Rows v0 … v(m-1) of L lanes, read column by column, are one long vector of m·L lanes. A `Build` of consecutive lanes of that, or a
selection of them from the rows joined (`Lanes` of a `Concat`), is a piece of the transposition (a row of the result, a part of one, or
several), which takes log2(m) rounds: in each, the first half of all lanes and the second are interleaved.

A selection of lanes that are each of another row, but no such piece, is built lane by lane. Rows that are joined for nothing but selections of
both kinds are not joined at all: the long vector would be many registers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from functools import cache
from typing import Final, NamedTuple

from planish.llir import program as ir
from planish.records import dataclass

_BLOCK: Final = 16
"""Bytes within which lanes are exchanged most cheaply."""
_LOOKED_AT: Final = (*ir.CONTROL, ir.SelectLanes, ir.Concat, ir.Build)
_FEW: Final = 3
"""Registers that may be joined and selected from as one."""


@dataclass(slots=True)
class Transposition:
    """Rows that are transposed, and the registers that are pieces of the result."""

    rows: tuple[ir.Register, ...]
    pieces: dict[ir.Register, int] = field(default_factory=dict)
    """The first lane of each piece in the long vector."""

    @property
    def lanes(self) -> int:
        """The lanes of a row."""
        return self.rows[0].dtype.lanes

    @property
    def is_worth_it(self) -> bool:
        """Whether most of the result is wanted."""
        wanted = sum(piece.dtype.lanes for piece in self.pieces)
        return 2 * wanted >= len(self.rows) * self.lanes


Lane = tuple[ir.Register, int]
"""A register, and which of its lanes."""


class LanesOfMany(NamedTuple):
    """What a kernel makes of lanes of many registers."""

    pieces: dict[ir.Register, Transposition]
    """By register: the transposition that it is a piece of. All pieces of one are in the same block: branches may stand between them."""
    scattered: dict[ir.Register, list[Lane]]
    """Selections of lanes that are each of another row, but no piece of a transposition."""
    unneeded: set[ir.Register]
    """Rows joined for these alone."""


NONE: Final = LanesOfMany({}, {}, set())
"""Of a kernel that selects no lanes."""


def find(program: ir.Program) -> LanesOfMany:
    """The transpositions of a kernel, and other selections from many registers."""
    lanes: dict[ir.Register, Lane] = {}
    joined: dict[ir.Register, ir.Concat] = {}
    transpositions: dict[tuple[int, tuple[ir.Register, ...]], Transposition] = {}
    scattered: dict[ir.Register, list[Lane]] = {}
    # what stands between a loop or branch and its end; what comes first there has been computed wherever the rest is
    blocks, block = [0], 0
    for i in program.body:
        if not isinstance(i, _LOOKED_AT):
            continue
        taken: list[Lane] = []
        if isinstance(i, ir.OPENING):
            block += 1
            blocks.append(block)
        elif isinstance(i, ir.CLOSING):
            blocks.pop()
        elif isinstance(i, ir.SelectLanes) and isinstance(i.operand, ir.Register):
            if i.operand in joined:
                taken = _taken(joined[i.operand], i.lanes)
                if len({row for row, _ in taken}) == len(taken) > _FEW:
                    scattered[i.result] = taken
            elif len(i.lanes) == 1:
                lanes[i.result] = i.operand, i.lanes[0]
        elif isinstance(i, ir.Concat):
            joined[i.result] = i
        elif isinstance(i, ir.Build):
            taken = [lanes[x] for x in i.inputs if isinstance(x, ir.Register) and x in lanes]
            if len(taken) < len(i.inputs):
                continue
        if taken and i.target is not None and (place := _place(taken)) is not None:
            rows, start = place
            transpositions.setdefault((blocks[-1], rows), Transposition(rows)).pieces[i.target] = start
    pieces = {piece: t for t in transpositions.values() if t.is_worth_it for piece in t.pieces}
    scattered = {result: taken for result, taken in scattered.items() if result not in pieces}
    apart = pieces.keys() | scattered.keys()
    return LanesOfMany(
        pieces, scattered, _unneeded(program.body, joined, apart) if joined and apart else set()
    )


def _taken(rows: ir.Concat, lanes: Iterable[int]) -> list[Lane]:
    """The lanes of registers of one dtype that a selection of them joined is; none if they are of several."""
    dtype = rows.inputs[0].dtype
    if any(not isinstance(row, ir.Register) or row.dtype is not dtype for row in rows.inputs):
        return []
    places = [divmod(lane, dtype.lanes) for lane in lanes]
    return [(row, lane) for number, lane in places if isinstance(row := rows.inputs[number], ir.Register)]


def _unneeded(
    body: Iterable[ir.Instruction], joined: Iterable[ir.Register], apart: Iterable[ir.Register]
) -> set[ir.Register]:
    """Of what is joined, that of which nothing is read but what is made from the rows themselves."""
    unread, apart = set(joined), set(apart)
    for i in body:
        if isinstance(i, ir.Address) or (isinstance(i, ir.Load) and i.gate is None):
            continue  # the most frequent ones, which read no vector
        if not (isinstance(i, ir.SelectLanes) and i.result in apart):
            unread.difference_update(i.registers)
    return unread


def _place(parts: Sequence[tuple[ir.Register, int]]) -> tuple[tuple[ir.Register, ...], int] | None:
    """The rows that lanes come from, and where they begin in the transposition."""
    rows = tuple(dict.fromkeys(row for row, _ in parts))
    count, first = len(rows), parts[0][1]
    dtype = rows[0].dtype
    if not (_is_power(count) and _is_power(dtype.lanes) and _is_power(len(parts))) or dtype.bits < 8:
        return None
    if len({row.dtype for row in rows}) > 1 or first * count % len(parts):
        return (
            None  # of several kinds; a piece that is neither part of one row of the result nor some of them
        )
    for position, (row, lane) in enumerate(parts):
        if row != rows[position % count] or lane != first + position // count:
            return None
    return rows, first * count


def _is_power(number: int) -> bool:
    return number > 1 and number & (number - 1) == 0


Shuffle = tuple[int, int, tuple[int, ...]]
"""Two rows, and which of their lanes a new one is made of."""


@cache
def rounds(rows: int, lanes: int, itemsize: int) -> list[list[Shuffle]]:
    """Per round, the rows that come out: each a shuffle of two that went in."""
    if rows == lanes and lanes * itemsize > _BLOCK:
        return _in_blocks(lanes, _BLOCK // itemsize)
    low = [lane for pair in ((n, lanes + n) for n in range(lanes // 2)) for lane in pair]
    high = [lane + lanes // 2 for lane in low]
    one = [(row, row + rows // 2, tuple(mask)) for row in range(rows // 2) for mask in (low, high)]
    return [one] * (rows.bit_length() - 1)


def _in_blocks(side: int, block: int) -> list[list[Shuffle]]:
    """A square, by the shuffles that machines do best: first within blocks of 16 bytes, then of whole blocks.

    A shuffle takes lanes of two rows by turns, 1, 2, 4 … at a time, from the first or the second half of each block; or every
    second block of both. Either way it brings together what differs in one bit of the row's number.
    """
    held = [[(row, column) for column in range(side)] for row in range(side)]
    rounds: list[list[Shuffle]] = []
    step = 1
    while step < side:
        position = {lanes[0]: number for number, lanes in enumerate(held)}
        shuffles: list[Shuffle] = []
        for number, lanes in enumerate(held):
            row, column = lanes[0]
            if row & step:
                continue
            other = position[row | step, column]
            for half in (0, 1):
                taken = (
                    _half_of_blocks(side, block, step, half) if step < block else _blocks(side, block, half)
                )
                shuffles.append((number, other, taken))
        held = [[(held[a] + held[b])[lane] for lane in taken] for a, b, taken in shuffles]
        rounds.append(shuffles)
        step *= 2
    place = {lanes[0][1]: number for number, lanes in enumerate(held)}
    rounds[-1] = [rounds[-1][place[column]] for column in range(side)]
    return rounds


def _half_of_blocks(side: int, block: int, run: int, half: int) -> tuple[int, ...]:
    """Half of each block of both rows, in turns of so many lanes."""
    return tuple(
        lane
        for start in range(half * block // 2, side, block)
        for turn in range(start, start + block // 2, run)
        for row in (0, side)
        for lane in range(row + turn, row + turn + run)
    )


def _blocks(side: int, block: int, half: int) -> tuple[int, ...]:
    """Every second block of one row, then of the other."""
    return tuple(
        lane
        for row in (0, side)
        for start in range(row + half * block, row + side, 2 * block)
        for lane in range(start, start + block)
    )

"""Vectors built lane by lane out of others, found to be a transposition: a few shuffles of whole vectors do it at once.

Rows v0 … v(m-1) of L lanes, read column by column, are one long vector of m·L lanes. A `Build` of consecutive pieces of that is a
piece of the transposition, which takes log2(m) rounds: in each, the first half of all lanes and the second are interleaved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from planish.llir.program import Build, EndIf, EndLoop, If, Lanes, Loop, Program, Register


@dataclass(slots=True)
class Transposition:
    """Rows that are transposed, and the registers that are pieces of the result."""

    rows: tuple[Register, ...]
    pieces: dict[Register, int] = field(default_factory=dict)
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


def find(program: Program) -> dict[Register, Transposition]:
    """By register: the transposition that it is a piece of. All pieces of one are in the same straight run of code."""
    lanes: dict[Register, tuple[Register, int]] = {}
    found: dict[tuple[int, tuple[Register, ...]], Transposition] = {}
    run = 0
    for i in program.body:
        if isinstance(i, Loop | EndLoop | If | EndIf):
            run += 1
        elif isinstance(i, Lanes) and len(i.lanes) == 1 and isinstance(i.operand, Register):
            lanes[i.result] = i.operand, i.lanes[0]
        elif isinstance(i, Build):
            parts = [lanes.get(x) for x in i.inputs if isinstance(x, Register)]
            taken = [part for part in parts if part is not None]
            if len(taken) == len(i.inputs) and (place := _place(taken)) is not None:
                rows, start = place
                found.setdefault((run, rows), Transposition(rows)).pieces[i.result] = start
    return {piece: t for t in found.values() if t.is_worth_it for piece in t.pieces}


def _place(parts: Sequence[tuple[Register, int]]) -> tuple[tuple[Register, ...], int] | None:
    """The rows that lanes come from, and where they begin in the transposition."""
    rows = tuple(dict.fromkeys(row for row, _ in parts))
    count, first = len(rows), parts[0][1]
    dtype = rows[0].dtype
    if not (_is_power(count) and _is_power(dtype.lanes)) or dtype.bits < 8 or len(parts) % dtype.lanes:
        return None
    if len({row.dtype for row in rows}) > 1 or first * count % dtype.lanes or len(parts) > dtype.lanes:
        return None
    for position, (row, lane) in enumerate(parts):
        if row != rows[position % count] or lane != first + position // count:
            return None
    return rows, first * count


def _is_power(number: int) -> bool:
    return number > 1 and number & (number - 1) == 0


def rounds(rows: int, lanes: int) -> list[list[tuple[int, int, tuple[int, ...]]]]:
    """Per round, the rows that come out: each a shuffle of two that went in."""
    low = [lane for pair in ((n, lanes + n) for n in range(lanes // 2)) for lane in pair]
    high = [lane + lanes // 2 for lane in low]
    one = [(row, row + rows // 2, tuple(mask)) for row in range(rows // 2) for mask in (low, high)]
    return [one] * (rows.bit_length() - 1)

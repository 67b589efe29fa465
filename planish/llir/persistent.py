"""Blocks that stay: as many as there are multiprocessors, each of which does one tile after the other.

A block that ends leaves nothing behind: the next one on its multiprocessor fetches its first operands while nobody multiplies, and the results of
the last one are written while nobody fetches. A block that stays goes on fetching: when results are written, the operands of its next tile
are there. That takes memory of their own for results, and a program in which what is fetched is told apart (`fetching.py`).

Steps go on from tile to tile. A tile has as many steps as its sum; step r of tile t is use `t · uses + r // buffers` of buffer
`r % buffers`, of whose uses a tile has `uses`.

Before → after, of 512 tiles on 132 multiprocessors::

    gidx0 < 512                              b = gidx0 < 132; loop t < (512 - b + 131) / 132: gidx0 = t · 132 + b
      fetcher: loop r: acquire r …             fetcher: loop r: acquire step(t, r) …
      loop r: await r; tile; release r - 1     loop r: await step(t, r); tile; release step(t, r - 1)
      finish; results                          finish; release step(t, last); results; barrier
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from planish import dtypes
from planish.dtypes import AddrSpace
from planish.llir.fetching import Fresh
from planish.llir.program import (
    Acquire,
    AwaitBoxes,
    Barrier,
    Compute,
    CopyBox,
    EndFetcher,
    EndLoop,
    Finish,
    Immediate,
    Instruction,
    Loop,
    Operand,
    Ops,
    Program,
    Register,
    Release,
    Special,
)

_BLOCK: Final = "gidx0"
_MOST: Final = 226 << 10
"""Bytes of LOCAL memory of a block."""
_I32: Final = dtypes.int32


def persistent(program: Program, workers: int) -> Program:
    """The program whose blocks stay, where there are more tiles than multiprocessors, and a multiprocessor has room for one of them."""
    sizes = _grid(program)
    steps = _steps(program)
    local = sum(b.nbytes for b in program.locals if b.space is AddrSpace.LOCAL)
    if sizes is None or not steps or not workers or prod(sizes.values()) <= workers:
        return program
    if not _MOST < 2 * local <= 2 * _MOST:
        return program
    return _Staying(program, sizes, steps, workers).made()


def _grid(program: Program) -> dict[str, int] | None:
    """How many blocks there are along each index; None if that varies."""
    found: dict[str, int] = {}
    for special in program.specials:
        if not special.is_thread:
            bound = special.bound
            if (
                not isinstance(bound, Immediate)
                or not isinstance(bound.value, int)
                or special.result.dtype is not _I32
            ):
                return None
            found[special.name] = bound.value
    return found


def _steps(program: Program) -> int:
    """How many steps a tile has; 0 if it has no fetcher, not one loop of a known length for it, or nobody is told to finish."""
    lengths: set[int] = set()
    bounds: list[Operand] = []
    for i in program.body:
        if isinstance(i, Loop):
            bounds.append(i.bound)
        elif isinstance(i, EndLoop):
            bounds.pop()
        elif isinstance(i, Acquire | AwaitBoxes):
            known = len(bounds) == 1 and isinstance(bounds[0], Immediate) and isinstance(bounds[0].value, int)
            lengths.add(bounds[0].value if known else 0)  # type: ignore[union-attr,arg-type]  # as was just seen
    rings = [i for i in program.body if isinstance(i, AwaitBoxes)]
    ended = any(isinstance(i, Finish) for i in program.body)
    return lengths.pop() if len(lengths) == 1 and len(rings) == 1 and ended else 0


class _Staying:
    """One program."""

    def __init__(self, program: Program, sizes: dict[str, int], steps: int, workers: int) -> None:
        self.program, self.sizes, self.steps, self.workers = program, sizes, steps, workers
        self.fresh = Fresh(program)
        self.buffers = next(i.buffers for i in program.body if isinstance(i, AwaitBoxes))
        self.body: list[Instruction] = []
        self.numbers: dict[Operand, Operand] = {}
        """Steps that are known here."""

    def made(self) -> Program:
        end = next(k for k, i in enumerate(self.program.body) if isinstance(i, EndFetcher))
        fetcher, mine = self.program.body[1:end], self.program.body[end + 1 :]
        self.body.append(self.program.body[0])
        self.turns(fetcher, is_fetcher=True)
        self.body.append(EndFetcher())
        self.turns(mine, is_fetcher=False)
        return replace(self.program, body=tuple(self.body))

    def compute(self, op: Ops, x: Operand, y: Operand | int) -> Register:
        result = self.fresh(_I32)
        right = Immediate(y, _I32) if isinstance(y, int) else y
        self.body.append(Compute(result, op, (x, right)))
        return result

    def turns(self, body: Sequence[Instruction], *, is_fetcher: bool) -> None:
        """What is done for a tile, for all tiles of a block."""
        block, turn, total = self.fresh(_I32), self.fresh(_I32), prod(self.sizes.values())
        self.body.append(Special(block, _BLOCK, Immediate(self.workers, _I32)))
        left = self.compute(Ops.SUB, Immediate(total + self.workers - 1, _I32), block)
        count = self.compute(Ops.TRUNCDIV, left, self.workers)
        self.body.append(Loop(turn, count, 1))
        tile = self.compute(Ops.ADD, self.compute(Ops.MUL, turn, self.workers), block)
        below, places = 1, {}
        for name, size in sorted(self.sizes.items()):  # the first runs fastest
            number = self.compute(Ops.TRUNCDIV, tile, below) if below > 1 else tile
            places[name] = self.compute(Ops.TRUNCMOD, number, size)
            below *= size
        known: dict[Operand, Operand] = {}
        self.numbers.clear()

        def read(register: Register) -> Register:
            found = known.get(register, register)
            return found if isinstance(found, Register) else register

        finished = False
        for i in body:
            if isinstance(i, Special) and not i.is_thread:
                known[i.result] = places[i.name]
                continue
            if isinstance(i, EndLoop):
                self.numbers.clear()
            mine = i.renamed(read, lambda register: register)
            if isinstance(mine, Acquire | AwaitBoxes | CopyBox | Release):
                mine = replace(mine, step=self.step(turn, mine.step))
            self.body.append(mine)
            if isinstance(i, Finish) and not finished:
                finished = True
                last = self.step(turn, Immediate(self.steps - 1, _I32))
                ring = next(a.ring for a in self.program.body if isinstance(a, AwaitBoxes))
                self.body.append(Release(last, ring, self.buffers))
        if not is_fetcher:
            self.body.append(Barrier())  # before results are put where these still lie
        self.body.append(EndLoop(turn, count))

    def step(self, turn: Register, step: Operand) -> Operand:
        """The number of a step, going on from tile to tile."""
        if step not in self.numbers:
            self.numbers[step] = self._numbered(turn, step)
        return self.numbers[step]

    def _numbered(self, turn: Register, step: Operand) -> Operand:
        n = self.buffers
        if self.steps % n == 0:
            return self.compute(Ops.ADD, self.compute(Ops.MUL, turn, self.steps), step)
        place = self.compute(Ops.TRUNCMOD, step, n)
        uses = self.compute(
            Ops.TRUNCDIV, self.compute(Ops.SUB, Immediate(self.steps + n - 1, _I32), place), n
        )
        use = self.compute(Ops.ADD, self.compute(Ops.MUL, turn, uses), self.compute(Ops.TRUNCDIV, step, n))
        return self.compute(Ops.ADD, self.compute(Ops.MUL, use, n), place)

"""Resident blocks: as many as a machine runs at once do one tile of the result after the other.

A block that does one tile begins when another has ended: its barriers are made, its first operands awaited, and memory is idle meanwhile. One that
stays has the operands of its next tile fetched while it still writes the results of the last: the ring goes on from tile to tile. Results then
have memory of their own. How many stay is said by the boxes (`Box.stay`); block b does the tiles b, b + stay, …

Before → after::

    fetcher                                          fetcher
      g = special gidx0 < 512                          b = special gidx0 < 132
      loop r < 5: acquire r; copy_box …; end           loop t < (511 - b) / 132 + 1: g = t·132 + b
    end_fetcher                                          loop r < 5: acquire t·5 + r; copy_box …; end
    g = special gidx0 < 512                            end
    loop r < 5: await_boxes r; tile …;               end_fetcher
      release r - 1; end                             b = special gidx0 < 132
    finish; store @c; barrier; …                     loop t < …: g = t·132 + b
                                                       loop r < 5: await_boxes t·5 + r; tile …; release t·5 + r - 1; end
                                                       finish; release t·5 + 4; barrier; store @c; barrier; …
                                                     end
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Final, cast

from planish import dtypes
from planish.dtypes import AddrSpace, DType
from planish.llir import program as ir
from planish.uop.hardware_index import HardwareIndex, IndexKind

_KIND: Final = dtypes.int32


def resident(program: ir.Program) -> ir.Program:
    """The program, its blocks staying where its boxes say so and there are more tiles than may stay."""
    stay = max((box.stay for box in program.boxes), default=0)
    if not stay:
        return program
    body = [replace(i, stay=0) if isinstance(i, ir.CopyBox) else i for i in program.body]
    grid = {i.index: i.bound for i in program.specials if not i.is_thread}
    steps = {i.bound for i, inside in pairwise(body) if isinstance(i, ir.Loop) and _is_ring_loop(i, inside)}
    bounds = [*grid.values(), *steps]
    sizes = [int(cast("int", bound.value)) for bound in bounds if isinstance(bound, ir.Immediate)]
    if not isinstance(body[0], ir.Fetcher) or len(sizes) != len(bounds) or len(steps) != 1:
        return replace(program, body=tuple(body))
    order = sorted(grid, key=lambda index: (not index.is_rank, index.axis))  # gidx0 runs fastest
    known = dict(zip(grid, sizes, strict=False))
    counts = {index: known[index] for index in order}
    if prod(counts.values()) <= stay:
        return replace(program, body=tuple(body))
    split = next(k for k, i in enumerate(body) if isinstance(i, ir.EndFetcher))
    staying = _Staying(program, counts, stay, sizes[-1])
    return replace(
        program,
        body=(ir.Fetcher(), *staying.part(body[1:split]), ir.EndFetcher(), *staying.part(body[split + 1 :])),
    )


def _is_ring_loop(i: ir.Instruction, first: ir.Instruction) -> bool:
    return isinstance(i, ir.Loop) and isinstance(first, ir.Acquire | ir.AwaitBoxes)


class _Staying:
    """One kernel, whose tiles are numbered."""

    def __init__(self, program: ir.Program, counts: dict[HardwareIndex, int], stay: int, steps: int) -> None:
        self.counts, self.stay, self.steps = counts, stay, steps
        self.next = 1 + max(i.target.number for i in program.body if i.target is not None)
        self.body: list[ir.Instruction] = []
        boxes = program.boxes
        self.buffers = boxes[0].buffers
        self.rings = {
            i.base
            for i in program.body
            if isinstance(i, ir.Address) and i.result in {b.address for b in boxes}
        }
        self.base = self.fresh(_KIND)

    def fresh(self, dtype: DType) -> ir.Register:
        self.next += 1
        return ir.Register(self.next - 1, dtype)

    def compute(self, op: ir.Ops, *operands: ir.Operand | int) -> ir.Register:
        result = self.fresh(_KIND)
        given = tuple(ir.Immediate(x, _KIND) if isinstance(x, int) else x for x in operands)
        self.body.append(ir.Compute(result, op, given))
        return result

    def part(self, body: Sequence[ir.Instruction]) -> list[ir.Instruction]:
        """What the fetcher runs, or what the others do: a loop over the tiles of the block."""
        specials = {i.result: i for i in body if isinstance(i, ir.Special)}
        self.body = [i for i in specials.values() if i.is_thread]
        block, tile, count = self.fresh(_KIND), self.fresh(_KIND), prod(self.counts.values())
        self.body.append(ir.Special(block, HardwareIndex(IndexKind.GRID), ir.Immediate(self.stay, _KIND)))
        rounds = self.compute(ir.Ops.TRUNCDIV, self.compute(ir.Ops.SUB, count - 1, block), self.stay)
        rounds = self.compute(ir.Ops.ADD, rounds, 1)
        self.body.append(ir.Loop(tile, rounds, 1))
        number = self.compute(ir.Ops.ADD, self.compute(ir.Ops.MUL, tile, self.stay), block)
        places: dict[HardwareIndex, ir.Register] = {}
        *others, slowest = self.counts
        for index in others:
            places[index] = self.compute(ir.Ops.TRUNCMOD, number, self.counts[index])
            number = self.compute(ir.Ops.TRUNCDIV, number, self.counts[index])
        places[slowest] = number
        self.base = self.compute(ir.Ops.MUL, tile, self.steps)
        known = {result: places[i.index] for result, i in specials.items() if not i.is_thread}
        self.walk_tile(
            [i.renamed(lambda r: known.get(r, r), lambda r: r) for i in body if not isinstance(i, ir.Special)]
        )
        self.body.append(ir.EndLoop(tile, rounds))
        return self.body

    def walk_tile(self, body: Sequence[ir.Instruction]) -> None:
        """One tile: steps of the ring go on from the last one."""
        last = max((k for k, i in enumerate(body) if isinstance(i, ir.Finish)), default=-1)
        lag = max((i.pending for i in body if isinstance(i, ir.Tile)), default=0)
        results = next((k for k, i in enumerate(body) if self.is_result(i, body)), -1)
        at = 0
        while at < len(body):
            i = body[at]
            if at == results:
                self.body.append(ir.Barrier())  # what was there of the last tile has been read
            if at + 1 < len(body) and _is_ring_loop(i, body[at + 1]):
                end = next(
                    k
                    for k in range(at, len(body))
                    if isinstance(body[k], ir.EndLoop) and body[k].registers[:1] == (i.target,)
                )
                self.ring(cast("ir.Loop", i), body[at + 1 : end])
                self.body.append(body[end])
                at = end
            else:
                self.body.append(i)
            if at == last:
                for step in range(self.steps - lag, self.steps):
                    self.body.append(ir.Release(self.compute(ir.Ops.ADD, self.base, step), 0, self.buffers))
            at += 1

    def is_result(self, i: ir.Instruction, body: Sequence[ir.Instruction]) -> bool:
        """Whether results are put down in LOCAL memory."""
        maker = next(
            (
                a
                for a in body
                if isinstance(a, ir.Address) and isinstance(i, ir.Store) and a.result == i.address
            ),
            None,
        )
        return maker is not None and isinstance(maker.base, ir.Buffer) and maker.base.space is AddrSpace.LOCAL

    def ring(self, header: ir.Loop, inside: Sequence[ir.Instruction]) -> None:
        """The loop over the steps of a tile: its number counts what is read, the step of all tiles together where it lies in the ring."""
        self.body.append(header)
        step = self.compute(ir.Ops.ADD, self.base, header.counter)
        place = (
            self.compute(ir.Ops.TRUNCMOD, step, self.buffers) if self.steps % self.buffers else header.counter
        )
        twins = {header.counter: place}
        for i in inside:
            if (
                isinstance(i, ir.Compute)
                and not twins.keys().isdisjoint(i.registers)
                and place is not header.counter
            ):
                twins[i.result] = self.fresh(i.result.dtype)
                self.body.append(i.renamed(lambda r: twins.get(r, r), lambda r: twins.get(r, r)))
            if isinstance(i, ir.Acquire | ir.AwaitBoxes | ir.CopyBox):
                self.body.append(replace(i, step=step))
            elif isinstance(i, ir.Release):
                before = self.compute(ir.Ops.ADD, self.base, i.step)
                self.body.append(replace(i, step=before))
            elif isinstance(i, ir.Address) and i.base in self.rings:
                self.body.append(i.renamed(lambda r: twins.get(r, r), lambda r: r))
            else:
                self.body.append(i)

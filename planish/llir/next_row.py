"""The next row, asked for while this one is computed.

A row kernel reads a row in one loop, which waits for memory, and works on it in others, which leave memory idle. So what is read in the
next iteration of the loop around them is prefetched by all of them, each as much of it as it takes of the time: memory is then
busy from the first loop to the last.

Before → after::

    loop %r                                 loop %r
      loop %i < n: load @x[%r*m + %i]         loop %i < n: prefetch @x[(%r + 1)*m + a*%i]; load @x[%r*m + %i]
      loop %j < n: …                          loop %j < n: prefetch @x[(%r + 1)*m + a*n + b*%j]; …

Behind the last row there is nothing to be asked for; a prefetch of nothing does nothing.
"""

from __future__ import annotations

from typing import Final

from planish import dtypes
from planish.llir import program as ir
from planish.llir.makers import Sum
from planish.llir.nests import LINE, InstructionNest, Nests
from planish.records import dataclass

_MOST: Final = 8
"""Rows that are asked for at once: more would wait for each other."""
_NEAREST: Final = 3
_NEAR: Final = 2


@dataclass(frozen=True, slots=True)
class _NextRow:
    """A piece of a parameter that a loop reads, one element after another, and the next iteration of the loop around reads another of."""

    buffer: ir.Buffer
    index: Sum
    """Where the next one starts."""
    elements: int
    loads: tuple[int, ...]
    """Where it is read."""

    @property
    def nbytes(self) -> int:
        return self.elements * self.buffer.dtype.itemsize


def ask_for_next_rows(nests: Nests) -> set[int]:
    """Ask for next rows of large parameters; the positions of the loads that will find theirs."""
    done: set[int] = set()
    for around in nests.loops:
        loops = [loop for loop in around.children if loop.is_innermost and loop.length > 1]
        if len(loops) < 2:
            continue
        rows: list[_NextRow] = []
        for loop in loops:
            nearby = _rows(nests, loop, around)
            rows += [
                row for row in nearby if all((row.buffer, row.index) != (r.buffer, r.index) for r in rows)
            ]
        for elements in dict.fromkeys(row.elements for row in rows):
            same = [row for row in rows if row.elements == elements]
            walking = [loop for loop in loops if _walks_over(nests, loop, elements)]
            if (
                len(walking) > 1
                and len(same) <= _MOST
                and 2 * sum(row.nbytes for row in same) <= nests.target.caches[1]
            ):
                _ask(nests, around, same, walking)
                done.update(position for row in same for position in row.loads)
    return done


def _rows(nests: Nests, loop: InstructionNest, around: InstructionNest) -> list[_NextRow]:
    """What a loop reads of large parameters, from end to end, and elsewhere in each iteration of the loop around."""
    makers = nests.makers
    pieces: dict[tuple[ir.Buffer, frozenset[tuple[ir.Register, int]]], list[tuple[int, int, int]]] = {}
    for position, i in nests.loads_of(loop):
        buffer, index = makers.buffer(i.address), makers.index(i.address)
        if buffer is None or buffer not in nests.large or index is None:
            continue
        if i.result.dtype.lanes > 1:
            key = buffer, frozenset(index.terms.items())
            pieces.setdefault(key, []).append((index.constant, i.result.dtype.lanes, position))
    rows = []
    for (buffer, terms), parts in pieces.items():
        index = Sum(0, dict(terms))
        along, across = (index.terms.pop(nest.header.counter, 0) for nest in (loop, around))
        if any(makers.places.get(r, -1) >= around.start for r in index.terms):
            continue
        for run in _runs(parts):
            first, last = run[0], max(run)
            # the last iteration may be cut off: rows lie as close as they are long
            elements = min(along * loop.length, abs(across))
            if 0 < along <= last[0] + last[1] - first[0] and along * (loop.length - 1) < elements:
                start = Sum(first[0] + across, {**index.terms, around.header.counter: across})
                rows.append(_NextRow(buffer, start, elements, tuple(part[2] for part in run)))
    return rows


def _runs(parts: list[tuple[int, int, int]]) -> list[list[tuple[int, int, int]]]:
    """Places, numbers of elements there (and where they are read) as runs without a gap."""
    runs: list[list[tuple[int, int, int]]] = []
    end = 0
    for place, size, position in sorted(parts):
        if runs and place <= end:
            runs[-1].append((place, size, position))
        else:
            runs.append([(place, size, position)])
        end = place + size
    return runs


def _walks_over(nests: Nests, loop: InstructionNest, elements: int) -> bool:
    """Whether a loop reads or writes as many elements, one after another; up to two iterations more, for its edges."""
    addresses = [i.address for _, i in nests.loads_of(loop)] + [i.address for _, i in nests.stores_of(loop)]
    steps = (nests.makers.step(address, loop.header.counter, loop.start) for address in addresses)
    return any(
        step is not None and step * (loop.length - 2) < elements <= step * loop.length for step in steps
    )


def _ask(nests: Nests, around: InstructionNest, rows: list[_NextRow], loops: list[InstructionNest]) -> None:
    """Let loops ask for next rows, in order, each for as much as it takes of the time."""
    total = sum(row.nbytes for row in rows)
    locality = _NEAREST if 3 * total <= nests.target.caches[0] else _NEAR
    starts = [_start(nests, around, row) for row in rows]
    efforts = [loop.effort * loop.length for loop in loops]
    begins = [0 for _ in rows]
    for loop, effort in zip(loops, efforts, strict=True):
        counter = loop.header.counter
        for number, row in enumerate(rows):
            step = -(-row.elements * effort // (sum(efforts) * loop.length))
            at, place = nests.makers.fresh(counter.dtype), nests.makers.fresh(starts[number].dtype)
            shift = ir.Immediate(begins[number], counter.dtype)
            nests.add_behind(
                loop.start,
                ir.Compute(at, ir.Ops.MULACC, (counter, ir.Immediate(step, counter.dtype), shift)),
                ir.Address(place, starts[number], at),
                *_asked(nests, place, step, row.buffer.dtype.itemsize, locality),
            )
            begins[number] += step * loop.length


def _asked(
    nests: Nests, place: ir.Register, elements: int, itemsize: int, locality: int
) -> list[ir.Instruction]:
    """Prefetches of so many elements at a place, line by line."""
    written: list[ir.Instruction] = [ir.Prefetch(place, locality=locality)]
    for further in range(LINE // itemsize, elements, LINE // itemsize):
        address = nests.makers.fresh(place.dtype)
        written += [
            ir.Address(address, place, ir.Immediate(further, dtypes.int64)),
            ir.Prefetch(address, locality=locality),
        ]
    return written


def _start(nests: Nests, around: InstructionNest, row: _NextRow) -> ir.Register:
    """The address of the next row, computed where the loop around begins an iteration."""
    fits = row.buffer.elements + 2 * abs(row.index.terms[around.header.counter]) < 1 << 31
    kind = around.header.counter.dtype if fits else dtypes.int64
    written: list[ir.Instruction] = []
    total: ir.Register | ir.Immediate = ir.Immediate(row.index.constant, kind)
    for register, factor in row.index.terms.items():
        operand = register
        if register.dtype is not kind:
            operand = nests.makers.fresh(kind)
            written.append(ir.Convert(operand, register))
        following = nests.makers.fresh(kind)
        written.append(ir.Compute(following, ir.Ops.MULACC, (operand, ir.Immediate(factor, kind), total)))
        total = following
    result = nests.makers.fresh(row.buffer.pointer)
    nests.add_behind(around.start, *written, ir.Address(result, row.buffer, total))
    return result

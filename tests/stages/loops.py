"""Random loop nests over a kernel's own memory, as graphs whose only order is true dependency, and as Python runs them.

A program is a list of statements: stores, and loops of statements. The graph has an AFTER exactly where two accesses to one
buffer must not change places, so that loops that have nothing to do with each other are left unordered.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish import dtypes
from planish.dtypes import AddrSpace
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops

i32 = dtypes.int32
SIZE = 4
BUFFERS = 3


@dataclass(frozen=True)
class Store:
    """buffer[index] = constant + Σ other[other index]; an index is a loop's number and a constant, modulo the size."""

    buffer: int
    index: tuple[int, int]
    reads: tuple[tuple[int, tuple[int, int]], ...]
    constant: int


@dataclass(frozen=True)
class Loop:
    """Statements, some number of times; None: as often as the variable `n` says."""

    number: int
    count: int | None
    body: tuple[Statement, ...]


Statement = Store | Loop


def random_program(rng: random.Random) -> tuple[Statement, ...]:
    """A few loops, nested and side by side."""
    numbers = iter(range(100))

    def index(around: list[int]) -> tuple[int, int]:
        return (rng.choice([*around, -1]), rng.randint(0, SIZE - 1))

    def statements(around: list[int], depth: int) -> tuple[Statement, ...]:
        found: list[Statement] = []
        for _ in range(rng.randint(1, 3)):
            if depth < 3 and rng.random() < 0.6 - 0.1 * depth:
                number = next(numbers)
                inner = statements([*around, number], depth + 1)
                found.append(Loop(number, rng.choice((1, 2, 3, None)), inner))
            else:
                reads = tuple((rng.randrange(BUFFERS), index(around)) for _ in range(rng.randint(0, 2)))
                found.append(Store(rng.randrange(BUFFERS), index(around), reads, rng.randint(-9, 9)))
        return tuple(found)

    return statements([], 0)


def run_program(program: tuple[Statement, ...], n: int) -> NDArray[Any]:
    """What the buffers hold afterwards."""
    memory = np.zeros((BUFFERS, SIZE), np.int64)

    def at(index: tuple[int, int], loops: dict[int, int]) -> int:
        return (loops.get(index[0], 0) + index[1]) % SIZE

    def run(body: tuple[Statement, ...], loops: dict[int, int]) -> None:
        for statement in body:
            if isinstance(statement, Loop):
                for i in range(n if statement.count is None else statement.count):
                    run(statement.body, {**loops, statement.number: i})
            else:
                total = statement.constant + sum(memory[b, at(i, loops)] for b, i in statement.reads)
                memory[statement.buffer, at(statement.index, loops)] = total % 1009

    run(program, {})
    return memory.reshape(-1)


@dataclass
class _Graph:
    table: Table
    writes: dict[int, list[UOp]] = field(default_factory=dict)
    """Effects that the next read of a buffer comes after."""
    accesses: dict[int, list[UOp]] = field(default_factory=dict)
    """Effects that the next write of a buffer comes after."""

    def place(self, buffer: int, index: UOp, effects: list[UOp], ranges: list[UOp]) -> UOp:
        memory = self.table.make(Ops.DEFINE_LOCAL, i32.ptr(SIZE, AddrSpace.LOCAL), (), buffer)
        ordered = memory.after(*dict.fromkeys((*effects, *ranges))) if effects or ranges else memory
        return self.table.make(Ops.INDEX, memory.dtype, (ordered, index))

    def store(self, statement: Store, loops: dict[int, UOp]) -> UOp:
        table, ranges = self.table, list(loops.values())

        def index(given: tuple[int, int]) -> UOp:
            constant = table.const(given[1], i32)
            return (loops[given[0]] + constant) % SIZE if given[0] in loops else constant

        value = table.const(statement.constant, i32)
        for buffer, where in statement.reads:
            place = self.place(buffer, index(where), self.writes[buffer], ranges)
            value = value + table.make(Ops.LOAD, i32, (place,))
        target = self.place(statement.buffer, index(statement.index), self.accesses[statement.buffer], ranges)
        effect = target.store(value % 1009)
        self.note(effect, {buffer for buffer, _ in statement.reads}, {statement.buffer})
        return effect

    def note(self, effect: UOp, read: set[int], written: set[int]) -> None:
        for buffer in read - written:
            self.accesses[buffer] = [*self.accesses[buffer], effect]
        for buffer in written:
            self.writes[buffer] = [effect]
            self.accesses[buffer] = [effect]

    def loop(self, statement: Loop, loops: dict[int, UOp]) -> UOp:
        table = self.table
        bound = table.variable("n", 0, 1, i32) if statement.count is None else table.const(statement.count, i32)  # fmt: skip
        counter = table.range(bound, statement.number, AxisType.LOOP)
        writes, accesses = dict(self.writes), dict(self.accesses)
        effects = self.body(statement.body, {**loops, statement.number: counter})
        end = table.make(Ops.GROUP, dtypes.void, tuple(effects)).end(counter)
        self.writes, self.accesses = writes, accesses
        self.note(end, *_touched(statement.body))
        return end

    def body(self, statements: tuple[Statement, ...], loops: dict[int, UOp]) -> list[UOp]:
        return [self.loop(s, loops) if isinstance(s, Loop) else self.store(s, loops) for s in statements]


def _touched(statements: tuple[Statement, ...]) -> tuple[set[int], set[int]]:
    read: set[int] = set()
    written: set[int] = set()
    for statement in statements:
        if isinstance(statement, Loop):
            inner_read, inner_written = _touched(statement.body)
            read, written = read | inner_read, written | inner_written
        else:
            read |= {buffer for buffer, _ in statement.reads}
            written.add(statement.buffer)
    return read, written


def graph_of(program: tuple[Statement, ...], table: Table) -> UOp:
    """The kernel: buffers set to 0, the program, buffers copied out. As it stands before stage 20."""
    graph = _Graph(table)
    for buffer in range(BUFFERS):
        graph.writes[buffer] = graph.accesses[buffer] = []
    loop = Loop(200, SIZE, tuple(Store(b, (200, 0), (), 0) for b in range(BUFFERS)))
    effects = graph.body((loop, *program), {})
    out, copies = table.param(0, i32, BUFFERS * SIZE), []
    for buffer in range(BUFFERS):
        for i in range(SIZE):
            place = graph.place(buffer, table.const(i, i32), graph.writes[buffer], [])
            target = table.make(Ops.INDEX, out.dtype, (out, table.const(buffer * SIZE + i, i32)))
            copies.append(target.store(table.make(Ops.LOAD, i32, (place,))))
    return table.sink(*effects, *copies)

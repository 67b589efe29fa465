"""The next row: which loops ask for it, at which addresses, and that nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planish import dtypes
from planish.dtypes import AddrSpace
from planish.llir.builder import Builder
from planish.llir.interpret import interpret
from planish.llir.next_row import with_next_row
from planish.llir.program import Address, Loop, Prefetch, Program
from planish.llir.text import parse, print_program
from planish.llir.verify import verify
from planish.target import TARGETS

F32 = dtypes.float32
V4 = replace(TARGETS["x86-64-v4"], caches=(1 << 10, 4 << 10, 1 << 20))
"""Small caches: what is large is quick to interpret."""
ROWS, LENGTH, LANES = 4, 512, 16


def rows(count: int = ROWS, *, second: int = LENGTH // LANES, chases: bool = False) -> Program:
    """Each row is copied to LOCAL memory, then walked over by a light and a heavy loop."""
    b = Builder("rows")
    z, x = b.param("z", F32, count * LENGTH), b.param("x", F32, count * LENGTH)
    near = b.memory("near", F32, LENGTH, AddrSpace.LOCAL)
    with b.loop(count) as r:
        row = b.mul(r, LENGTH)
        with b.loop(LENGTH // LANES) as i:
            at = b.mul(i, LANES)
            b.store(b.address(near, at), b.load(b.address(x, b.add(row, at)), F32.vec(LANES)))
        with b.loop(second) as j:  # light
            at = b.mul(j, LANES)
            value = b.load(b.address(near, at), F32.vec(LANES))
            b.store(b.address(near, at), b.add(value, value))
        with b.loop(second) as k:  # heavy
            at = b.mul(k, LANES)
            value = b.load(b.address(x if chases else near, at), F32.vec(LANES))
            for _ in range(4):
                value = b.mul(value, value)
            b.store(b.address(z, b.add(row, at)), value)
    return b.program()


def prefetches(program: Program) -> list[Prefetch]:
    return [i for i in program.body if isinstance(i, Prefetch)]


def test_the_heaviest_later_loop_asks_for_what_the_first_reads_next() -> None:
    program = with_next_row(rows(), V4)
    verify(program)
    (asked,) = prefetches(program)
    loops = [p for p, i in enumerate(program.body) if isinstance(i, Loop)]
    assert program.body.index(asked) > loops[-1]
    made = {i.result: i for i in program.body if isinstance(i, Address)}
    base = made[asked.address].base
    assert base is program.params[1] or str(base) == "@x"
    assert asked.locality == 2  # 2 KiB do not stay in a third of a first cache of 1 KiB
    assert (
        prefetches(with_next_row(rows(), replace(V4, caches=(32 << 10, 4 << 10, 1 << 20))))[0].locality == 3
    )


def test_it_is_the_row_behind_this_one() -> None:
    text = print_program(with_next_row(rows(), V4))
    lines = [line.strip() for line in text.splitlines()]
    at = next(number for number, line in enumerate(lines) if line.startswith("prefetch"))
    assert any(line.endswith(f"add %0, 1 : {dtypes.int32}") for line in lines[at - 6 : at])
    assert print_program(parse(text)) == text


def test_small_parameters_other_lengths_and_loops_that_read_themselves_are_left_alone() -> None:
    assert not prefetches(with_next_row(rows(1), V4))  # 2 KiB are in the second cache
    assert not prefetches(with_next_row(rows(second=LENGTH // LANES // 2), V4))
    assert len(prefetches(with_next_row(rows(chases=True), V4))) == 1  # the light loop does it then
    assert with_next_row(rows(), TARGETS["cuda"]) == rows()
    assert with_next_row(rows(), TARGETS["scalar"]) == rows()


def test_results_are_the_same() -> None:
    data = np.random.default_rng(1).standard_normal(ROWS * LENGTH).astype(np.float32)
    found = []
    for program in (rows(), with_next_row(rows(), V4)):
        result = np.zeros_like(data)
        interpret(program, [result, data])
        found.append(result)
    np.testing.assert_array_equal(found[0], found[1])
    assert np.any(found[0])

"""The next row: which loops ask for how much of it, at which addresses, and that nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planish import dtypes
from planish.dtypes import AddrSpace
from planish.llir.builder import Builder
from planish.llir.interpret import interpret
from planish.llir.program import (
    Address,
    Compute,
    Immediate,
    Instruction,
    Loop,
    Operand,
    Ops,
    Prefetch,
    Program,
    Register,
)
from planish.llir.streaming import with_streaming
from planish.llir.text import parse, print_program
from planish.llir.verify import verify
from planish.target import TARGETS

F32 = dtypes.float32
V4 = replace(TARGETS["x86-64-v4"], caches=(1 << 10, 4 << 10, 1 << 20))
"""Small caches: what is large is quick to interpret."""
ROWS, LENGTH, LANES, HEAVY = 4, 512, 16, 6


def rows(count: int = ROWS, *, second: int = LENGTH // LANES, gap: int = 0) -> Program:
    """Each row is copied to LOCAL memory, then walked over by a light and a heavy loop."""
    b = Builder("rows")
    z, x = b.param("z", F32, count * LENGTH), b.param("x", F32, count * LENGTH * (1 + gap))
    near = b.memory("near", F32, LENGTH, AddrSpace.LOCAL)
    with b.loop(count) as r:
        row = b.mul(r, LENGTH)
        with b.loop(LENGTH // LANES) as i:
            at = b.mul(i, LANES)
            place = b.mul(b.add(row, at), 1 + gap)
            b.store(b.address(near, at), b.load(b.address(x, place), F32.vec(LANES)))
        with b.loop(second) as j:  # light
            at = b.mul(j, LANES)
            value = b.load(b.address(near, at), F32.vec(LANES))
            b.store(b.address(near, at), b.add(value, value))
        with b.loop(second) as k:  # heavy
            at = b.mul(k, LANES)
            value = b.load(b.address(near, at), F32.vec(LANES))
            for _ in range(HEAVY):
                value = b.mul(value, value)
            b.store(b.address(z, b.add(row, at)), value)
    return b.program()


def prefetches(program: Program) -> list[Prefetch]:
    return [i for i in program.body if isinstance(i, Prefetch)]


def asked(program: Program) -> list[list[int]]:
    """Per inner loop of the first iteration: the elements behind the start of the row at which memory is asked for."""
    made = {i.target: i for i in program.body if i.target is not None}
    inner = [i for i in program.body if isinstance(i, Loop)][1:]
    places: list[list[int]] = [[] for _ in inner]
    for request in prefetches(program):
        for number, loop in enumerate(inner):
            if depends(made, request.address, loop.counter):
                counts = range(loop.bound.value)  # type: ignore[union-attr, arg-type]
                places[number] += [evaluate(made, request.address, {loop.counter: k}) for k in counts]
    return places


def depends(made: dict[Register, Instruction], register: Register, counter: Register) -> bool:
    found = [register]
    for each in found:
        found += made[each].registers if not isinstance(made[each], Loop) else ()
    return counter in found


def evaluate(made: dict[Register, Instruction], operand: Operand, known: dict[Register, int]) -> int:
    """An index, with all other counters 0."""
    if isinstance(operand, Immediate):
        assert isinstance(operand.value, int)
        return operand.value
    i = made[operand]
    if isinstance(i, Address):
        base = evaluate(made, i.base, known) if isinstance(i.base, Register) else 0
        return base + evaluate(made, i.index, known)
    if isinstance(i, Loop):
        return known.get(i.counter, 0)
    assert isinstance(i, Compute)
    assert i.op is Ops.MULACC
    x, y, z = (evaluate(made, each, known) for each in i.inputs)
    return x * y + z


def test_all_loops_over_a_row_ask_for_the_next_one() -> None:
    program = with_streaming(rows(), V4)
    verify(program)
    places = asked(program)
    lines = [{place // (64 // 4) for place in each} for each in places]
    assert set.union(*lines) >= set(
        range(LENGTH // 16, 2 * LENGTH // 16)
    )  # every line of the row behind this one
    assert max(map(max, places)) < 2 * LENGTH + 64  # and little more
    assert [min(each) for each in places] == sorted(min(each) for each in places)
    copied, light, heavy = map(len, lines)
    assert copied < heavy > light  # who works longest asks for most
    assert heavy > LENGTH // 16 // 2


def test_stores_past_the_caches_take_time_too() -> None:
    plain, streamed = (with_streaming(rows(), V4, names) for names in ((), {"z"}))
    assert max(asked(plain)[2]) - min(asked(plain)[2]) < max(asked(streamed)[2]) - min(asked(streamed)[2])


def test_a_row_stays_in_a_third_of_the_first_cache() -> None:
    assert {i.locality for i in prefetches(with_streaming(rows(), V4))} == {2}
    wide = replace(V4, caches=(32 << 10, 4 << 10, 1 << 20))
    assert {i.locality for i in prefetches(with_streaming(rows(), wide))} == {3}


def test_small_parameters_other_lengths_and_gaps_are_left_alone() -> None:
    assert not prefetches(with_streaming(rows(1), V4))  # 2 KiB are in the second cache
    assert not prefetches(with_streaming(rows(second=LENGTH // LANES // 2), V4))
    assert not prefetches(with_streaming(rows(gap=1), V4))
    assert not prefetches(with_streaming(rows(), replace(V4, caches=(1 << 10, 3 << 10, 1 << 20))))  # two rows
    assert with_streaming(rows(), TARGETS["cuda"]) == rows()
    assert with_streaming(rows(), TARGETS["scalar"]) == rows()


def test_results_are_the_same() -> None:
    data = np.random.default_rng(1).standard_normal(ROWS * LENGTH).astype(np.float32)
    found = []
    for program in (rows(), with_streaming(rows(), V4)):
        assert parse(print_program(program)) == program
        result = np.zeros_like(data)
        interpret(program, [result, data])
        found.append(result)
    np.testing.assert_array_equal(found[0], found[1])
    assert np.any(found[0])

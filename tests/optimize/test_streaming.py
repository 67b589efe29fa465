"""Streams: cut into whole vectors for every core, in several parts at once where memory is what is waited for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planish import dtypes
from planish.actions.base import Action
from planish.actions.split import Split
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.optimize.heuristic import choose
from planish.stages import pipeline
from planish.stages.rangeify.attempts import attempts
from planish.target import TARGETS, Target
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from tests.placed import brief

V4, V2 = TARGETS["x86-64-v4"], TARGETS["x86-64"]
f32 = dtypes.float32
LARGE = 1 << 21
"""8 MiB of float32, more than twice a second cache."""


def stream(t: Table, size: int, reads: int = 1, op: Ops | None = None) -> UOp:
    """The sum of several arrays, and a function of it."""
    i = t.range(size, 0)
    value = t.param(1, f32, size).index(i)
    for number in range(1, reads):
        value = value + t.param(number + 1, f32, size).index(i)
    if op is not None:
        value = value.alu(op)
    return t.sink(t.param(0, f32, size).index(i).store(value).end(i))


def words(size: int, reads: int = 1, op: Ops | None = None, target: Target = V4) -> list[str]:
    with Table() as t:
        actions = choose(stream(t, size, reads, op), target, attempts(target))
    return brief(actions)


def test_what_leaves_the_caches_is_walked_over_in_four_parts() -> None:
    found = words(LARGE)
    pieces = int(found[0].removeprefix("thread "))
    assert found[1:] == [f"split {LARGE // pieces // 4}", "upcast 4", "upcast 16"]


@pytest.mark.parametrize(
    ("size", "reads", "op", "parts"),
    [
        (LARGE, 3, None, 4),
        (LARGE, 4, None, 2),  # more streams would not find room
        (LARGE, 7, None, 1),
        (LARGE, 1, Ops.EXP, 2),  # a function needs the registers
        (LARGE // 8, 1, None, 1),  # it stays in a cache
    ],
)
def test_how_many_parts(size: int, reads: int, op: Ops | None, parts: int) -> None:
    found = words(size, reads, op)
    assert (f"upcast {parts}" in found) is (parts > 1)
    assert any(word.startswith("split") for word in found) is (parts > 1)


def test_functions_have_registers_for_as_many_parts_as_there_are() -> None:
    half = replace(V4, registers=16)
    assert not any(word.startswith("split") for word in words(LARGE, op=Ops.EXP, target=half))
    assert "upcast 4" in words(LARGE, target=half)


def test_a_length_that_nothing_divides_is_padded_for_all_parts() -> None:
    found = words(LARGE + 37)
    pieces = int(found[1].removeprefix("thread "))
    assert found[0] == f"pad_to {16 * 4 * pieces}"
    assert found[-1] == "upcast 16"


def spacing(found: list[str], size: int) -> int:
    """Bytes from one part to the next."""
    amounts = {word.split()[0]: int(word.split()[1]) for word in found[:-2]}
    padded = -(-size // amounts.get("pad_to", 1)) * amounts.get("pad_to", 1)
    assert padded % (amounts["thread"] * amounts["split"]) == 0
    return amounts["split"] * 4


def near(step: int) -> int:
    return min(step % 4096, -step % 4096)


@pytest.mark.parametrize("more", [-32, -16, 0, 16, 32, 48, 3000])
@pytest.mark.parametrize("op", [None, Ops.EXP])
@pytest.mark.parametrize("odd", [0, 5])
def test_no_part_is_read_just_behind_where_another_is_written(more: int, op: Ops | None, odd: int) -> None:
    """A load waits for stores that are at the same place of another page, which is all that is compared at first."""
    parts = 4 if op is None else 2
    pieces = int(next(word for word in words(8 * LARGE, op=op) if "thread" in word).removeprefix("thread "))
    size = 8 * LARGE + pieces * parts * more - odd
    found = words(size, op=op)
    assert f"upcast {parts}" in found
    step = spacing(found, size)
    assert all(near(n * step) == 0 or near(n * step) > 256 for n in range(1, parts))


def test_whole_vectors_stay_where_parts_do_no_harm() -> None:
    assert not any(word.startswith("pad_to") for word in words(LARGE, op=Ops.EXP))
    # parts of 64 pieces are a line short of pages, those of 63 are whole pages, those of 60 are neither
    size = 4096 * 4095
    found = words(size)
    assert "thread 60" in found
    assert not any(word.startswith("pad_to") for word in found)
    assert near(spacing(found, size)) == 1024


def test_machines_that_do_not_mask_are_not_padded() -> None:
    with Table() as t:
        actions = choose(stream(t, LARGE + 37), V2, attempts(V2))
    assert not any(action.word == "pad_to" for action in actions)


@pytest.mark.parametrize("size", [1 << 16, (1 << 16) + 37])
def test_results_are_the_same(size: int) -> None:
    small = replace(V4, caches=(1 << 10, 4 << 10, 1 << 20))  # what is long for these is quick to interpret
    taken: list[Action] = []

    def chosen(sink: UOp) -> list[Action]:
        taken.extend(choose(sink, small, attempts(small)))
        return taken

    with Table() as t:
        program = lower("kernel", pipeline.run(stream(t, size), pipeline.Machine(small, chosen)))
    assert any(isinstance(action, Split) for action in taken)
    x = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    found = np.zeros_like(x)
    interpret(program, [found, x])
    np.testing.assert_array_equal(found, x)

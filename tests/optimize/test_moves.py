"""Schedules made of schedules: amounts that divide, edges that follow their tiles, and schedules of other machines."""

from __future__ import annotations

from functools import partial

import pytest

from planish.actions.block import Block
from planish.actions.overrun import Overrun
from planish.actions.pad_to import PadTo
from planish.actions.swap import Swap
from planish.actions.thread import Thread
from planish.actions.upcast import Upcast
from planish.optimize.heuristic import choose
from planish.optimize.moves import other_amounts, relatives, resized, tiles, without
from planish.optimize.searched import Schedule
from planish.stages.rangeify.attempts import attempts
from planish.target import TARGETS
from planish.uop.node import Table, UOp
from tests.optimize.corpus import Build, matmul
from tests.stages.memory_kernels import softmax

V4 = TARGETS["x86-64-v4"]


def fits(sink: UOp, schedule: Schedule) -> bool:
    now: UOp | None = sink
    for number, action in enumerate(schedule):
        now = attempts(V4)(now, action, schedule[:number]) if now is not None else None
    return now is not None


def test_amounts_are_those_of_the_table_and_the_next_divisors() -> None:
    found = other_amounts(V4, Block("k", 196), 784)
    assert {98, 112, 392, 784} <= set(found)
    assert 196 not in found
    assert 128 in found  # of the table, whether or not it fits
    assert other_amounts(V4, Swap("i", "j"), 784) == ()
    assert set(other_amounts(V4, Upcast("i", 4), 0)) <= set(other_amounts(V4, Upcast("i", 4), 64))


def test_what_follows_an_action_that_is_dropped_is_done_to_the_whole_axis() -> None:
    schedule = (Upcast("j", 16), Thread("j.outer", 2), Upcast("i", 4), Swap("i.outer", "j.outer.inner"))
    assert without(schedule, 0) == (Thread("j", 2), Upcast("i", 4), Swap("i.outer", "j.inner"))
    assert without(schedule, 1) == (schedule[0], schedule[2], Swap("i.outer", "j.outer"))
    assert without(schedule, 3) == schedule[:3]


def test_the_edge_of_a_tile_follows_it() -> None:
    schedule = (Overrun("i", 66), Upcast("j", 64), Upcast("i", 6), Thread("j.outer", 2))
    with Table() as t:
        sink = matmul(t, 64, 128, 16)
        assert fits(sink, schedule)
        made = {n: next(s for s in resized(schedule, 2, n) if fits(sink, s)) for n in (5, 8, 11)}
    assert made[8] == (Upcast("j", 64), Upcast("i", 8), Thread("j.outer", 2))  # no edge is left
    assert made[5][0] == Overrun("i", 5)
    assert made[11] == (*schedule[:2], Upcast("i", 11), *schedule[3:])  # 66 is a multiple of it, too


def test_a_tile_that_is_shared_among_cores_is_whole_for_each() -> None:
    schedule = (Upcast("j", 64), Upcast("i", 8), Thread("i.outer", 2))
    with Table() as t:
        sink = matmul(t, 64, 64, 16)
        (made, *_) = [s for s in resized(schedule, 1, 6) if fits(sink, s)]
    assert made == (schedule[0], PadTo("i", 12), Upcast("i", 6), schedule[2])


def test_tiles_have_room_in_the_registers() -> None:
    schedule = (Upcast("j", 64), Upcast("i", 4))
    with Table() as t:
        sink = matmul(t, 64, 192, 16)
        found = [next((s for s in choices if fits(sink, s)), None) for choices in tiles(schedule, V4, 16)]
    shapes = {
        tuple(next(a.amount for a in s if isinstance(a, Upcast) and a.axis == axis) for axis in "ij")
        for s in found
        if s is not None
    }  # fmt: skip
    assert (4, 64) not in shapes  # that it has
    assert {(6, 64), (8, 48), (12, 32), (14, 32)} <= shapes
    assert all(rows * width // 16 + width // 16 + 1 <= 32 for rows, width in shapes)
    assert list(tiles((Upcast("j", 64),), V4, 16)) == []  # no tile, only a vector


@pytest.mark.parametrize("build", [partial(matmul, m=96, n=512, k=1024), partial(softmax, rows=64, n=512)])
def test_other_machines_have_other_schedules_that_fit_here(build: Build) -> None:
    with Table() as t:
        sink = build(t)
        own = tuple(choose(sink, V4, attempts(V4)))
        found = list(relatives(sink, V4, attempts(V4)))
        assert len(found) == len(set(found)) > 1
        assert all(fits(sink, schedule) for schedule in found)
    assert set(found) - {own}

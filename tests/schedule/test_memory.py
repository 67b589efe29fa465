"""The memory planner: random plans give the same results on the arena, known ones take the bytes they should."""

from __future__ import annotations

import numpy as np
import pytest

from planish import compiler, dtypes, ptir
from planish.errors import InternalError, LoweringError
from planish.schedule import liveness, memory, sharing
from planish.schedule.memory import Memory, layout, pack
from planish.schedule.overwriting import written
from planish.schedule.plan import Plan, PlanBuffer, Role
from planish.schedule.sharing import share
from planish.schedule.verify import verify
from planish.uop.node import Table
from tests.schedule.memory_plans import Endless, arguments, executable, random_plan


def overlapping(found: Memory) -> list[tuple[int, int]]:
    """Pairs of places that are in use at the same time and share a byte."""
    return [
        (a, b)
        for a, x in enumerate(found.places)
        for b, y in enumerate(found.places[:a])
        if x.begin <= y.end
        and y.begin <= x.end
        and x.offset < y.offset + y.nbytes
        and y.offset < x.offset + x.nbytes
    ]


def differs(seed: int) -> bool:
    """Whether a random plan gives other results on the arena than with memory for every buffer."""
    with Table() as table:
        plan, calls = random_plan(seed, table)
        shared, apart = (executable(plan, calls, reuse=reuse) for reuse in (True, False))
        for attempt in range(2):
            given = arguments(plan, seed + attempt)
            wanted = apart(*[array.copy() for array in given])
            try:
                found = shared(*[array.copy() for array in given])
            except Endless:
                return True
            if not all(np.array_equal(a, b) for a, b in zip(wanted, found, strict=True)):
                return True
        return False


@pytest.mark.parametrize("seed", range(60))
def test_random_plans_give_the_same_results_on_the_arena(seed):
    assert not differs(seed)


@pytest.mark.fuzz
def test_many_random_plans_give_the_same_results_on_the_arena():
    assert [seed for seed in range(3000) if differs(seed)] == []


@pytest.mark.parametrize("seed", range(60))
def test_what_lives_at_the_same_time_does_not_overlap(seed):
    with Table() as table:
        plan, _ = random_plan(seed, table)
        found = layout(plan, share(plan))
        apart = layout(plan, share(plan, reuse=False))
    assert overlapping(found) == overlapping(apart) == []
    assert all(place.offset % 64 == 0 for place in found.places)
    assert found.lower_bound <= found.peak <= apart.peak
    assert {buffer for place in apart.places for buffer in place.buffers} >= set(found.offsets)


@pytest.mark.parametrize("seed", range(60, 120))
def test_the_memory_of_random_plans_is_proved(seed):
    with Table() as table:
        plan, _ = random_plan(seed, table)
        for reuse in (True, False):
            verify(plan, share(plan, reuse=reuse))


def refused(seed: int) -> bool:
    """Whether the proof fails."""
    with Table() as table:
        plan, _ = random_plan(seed, table)
        try:
            verify(plan, share(plan))
        except InternalError:
            return True
        return False


def blind_to_loops(self, once, head):
    once(head)
    return head


def blind_to_swaps(self, time, pair, live):
    for buffer in pair:
        live.pop(buffer, None)


def always_in_place(sink):
    return ((0, 1),) if len(list(written(sink))) == 1 else ()


PLANTED = [
    (liveness.Liveness, "_fixpoint", blind_to_loops),
    (liveness.Liveness, "swap", blind_to_swaps),
    (sharing, "in_place", always_in_place),
    (sharing, "_meetings", lambda one, two: iter(())),
    (sharing._Groups, "in_one_memory", lambda self, time, first, second: True),
    (sharing._Groups, "exchange", lambda self, swaps: None),
]


@pytest.mark.parametrize(("owner", "name", "wrong"), PLANTED, ids=[name for _, name, _ in PLANTED])
def test_a_planted_mistake_is_found(monkeypatch, owner, name, wrong):
    """Both by what is computed and by the proof."""
    monkeypatch.setattr(owner, name, wrong)
    assert any(differs(seed) for seed in range(200))
    assert any(refused(seed) for seed in range(60))


def test_pack_fills_the_gap_that_fits_best():
    # 0 and 1 live together, 2 in the place of 0, 3 in that of 1, whatever the order of their sizes
    assert pack([(0, 1, 256), (0, 3, 64), (2, 3, 128), (2, 3, 100)]) == [0, 256, 0, 128]
    assert pack([]) == []
    assert pack([(0, 5, 0), (0, 5, 10), (0, 5, 0)]) == [0, 0, 0]


def test_sizes_beyond_64_bits_are_refused():
    big = PlanBuffer(dtypes.float64, 2**61, Role.PARAMETER)
    plan = Plan((), (), (big,), (), ())
    with pytest.raises(LoweringError, match="beyond 64 bits"):
        layout(plan, share(plan))
    apart = memory.Sharing(
        tuple(memory.ArenaBlock((number,), 0, 1) for number in range(3)), {}, (), (), frozenset()
    )
    half = Plan((), (), (PlanBuffer(dtypes.float64, 2**59, Role.ARENA),) * 3, (), ())
    with pytest.raises(LoweringError, match=r"arena of .* beyond 64 bits"):
        layout(half, apart)


def test_a_gather_over_the_memory_of_its_indices_is_no_copy() -> None:
    """The result takes over the memory of the indices, which die there; what is stored comes from elsewhere."""
    g = ptir.Graph("solve")
    x, b = g.input("x", ptir.tensor("f64", (4, 4))), g.input("b", ptir.tensor("f64", (4,)))
    factors, order = x.lu()
    function = g.build(factors.triangular_solve(b.gather([order], [0]).reshape([4, 1]), unit_diagonal=True))
    rng = np.random.default_rng(0)
    given = [rng.random((4, 4)) + 3 * np.eye(4)[::-1], rng.random(4)]
    lowered = compiler.lower(function)
    assert len(lowered.plan.launches) == 1
    (found,) = lowered.compile()(*given)
    np.testing.assert_array_equal(found, ptir.interpret(function, given)[0])

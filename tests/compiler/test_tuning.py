"""Searching for real: candidates run in processes of their own, winners are kept, and what is planted never wins."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import planish
from planish import compiler, ptir
from planish.actions.base import Action
from planish.actions.block import Block
from planish.actions.split import Split
from planish.actions.thread import Thread
from planish.actions.upcast import Upcast
from planish.compiler import tuning
from planish.compiler.campaign import Campaign
from planish.compiler.progress import ProgressLine
from planish.compiler.scheduling import after_choice
from planish.compiler.tolerance import places_of
from planish.compiler.tuning import TuningWarning
from planish.dtypes import int64
from planish.llir.program import Address, EndLoop, Immediate, Instruction, Loop, Program, Register, Store
from planish.optimize.heuristic import choose
from planish.optimize.searched import Outcome, Progress, Search
from planish.runtime import sandbox
from planish.runtime.sandbox import Check
from planish.stages.rangeify.attempts import attempts
from planish.target import Target, host
from planish.uop.node import Table, UOp
from tests.optimize.corpus import bf16, column_sums, convolution, elementwise, lookup, matmul, row_sums
from tests.stages.memory_kernels import softmax

MATMUL = partial(matmul, m=64, n=64, k=32)
SMALL = partial(matmul, m=16, n=32, k=8)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path) -> Iterator[None]:
    with planish.settings(cache_dir=str(tmp_path / "cache"), beam=1, beam_budget=1, threads=1):
        yield


def product(m: int = 64, n: int = 64, k: int = 32) -> ptir.Function:
    g = ptir.Graph("f")
    a, b = g.input("a", ptir.tensor("f32", (m, k))), g.input("b", ptir.tensor("f32", (k, n)))
    return g.build(a.matmul(b))


def arguments(
    m: int = 64, n: int = 64, k: int = 32
) -> list[np.ndarray[tuple[int, int], np.dtype[np.float32]]]:
    rng = np.random.default_rng(0)
    return [rng.random(shape, np.float32) for shape in ((m, k), (k, n))]


# -- planted candidates ----------------------------------------------------------------------------------------------


def wrong(program: Program) -> Program:
    """Stores a 7 somewhere."""
    (place, store) = next((n, i) for n, i in enumerate(program.body) if isinstance(i, Store))
    instead = replace(store, value=Immediate(7.0, store.value.dtype))
    return replace(program, body=(*program.body[:place], instead, *program.body[place + 1 :]))


def crashing(program: Program) -> Program:
    """Its last address is far away."""
    (place, at) = [(n, i) for n, i in enumerate(program.body) if isinstance(i, Address)][-1]
    instead = replace(at, index=Immediate(1 << 43, int64)) if at.index.dtype.lanes == 1 else at
    return replace(program, body=(*program.body[:place], instead, *program.body[place + 1 :]))


def hanging(program: Program) -> Program:
    """Stores the last thing for ever."""
    place = [n for n, i in enumerate(program.body) if isinstance(i, Store)][-1]
    counter, bound = Register(1 << 20, int64), Immediate(1 << 62, int64)
    loop: list[Instruction] = [Loop(counter, bound), program.body[place], EndLoop(counter, bound)]
    return replace(program, body=(*program.body[:place], *loop, *program.body[place + 1 :]))


@pytest.mark.parametrize(
    ("plant", "outcome"), [(wrong, Outcome.WRONG), (crashing, Outcome.CRASHED), (hanging, Outcome.HUNG)]
)
def test_planted_candidates_are_reported_and_never_chosen(
    plant: Callable[[Program], Program], outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the search adds to the schedule it starts from is planted: two of a kind, and what is merely wrong."""
    if plant is hanging:
        monkeypatch.setattr(sandbox, "_LEAST", 1.0)
    plants = iter((plant, plant))
    with Table() as t:
        sink = SMALL(t)
        start = tuple(choose(sink, host(), attempts(host())))

        def lower(kernel: UOp, actions: Sequence[Action], target: Target) -> Program:
            good = after_choice(kernel, actions, target)
            return good if tuple(actions) in {(), start} else next(plants, wrong)(good)

        with planish.settings(beam_budget=30):  # it is over before: nothing improves
            found = tuning.search(sink, host(), start, lower=lower)
    assert found.actions == start
    assert found.seconds < float("inf")
    assert [trial.measured.outcome for trial in found.rejected].count(outcome) >= 2
    assert {trial.measured.outcome for trial in found.rejected} == {outcome, Outcome.WRONG}
    with pytest.warns(TuningWarning, match="rejected") as caught:
        tuning._warn(found)
    assert str(found.rejected[0].actions[0]) in str(caught[0].message)


# -- real ones -------------------------------------------------------------------------------------------------------


def test_compiling_with_a_beam_searches_and_is_right() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no candidate of ours is wrong
        lowered = compiler.lower(product())
    (choice,) = lowered.choices
    assert choice.search is not None
    assert choice.search.trials
    assert choice.search.rejected == []
    assert choice.actions == choice.search.actions
    exe = lowered.compile()
    a, b = arguments()
    np.testing.assert_allclose(exe(a, b)[0], a @ b, rtol=1e-5)


def test_a_winner_is_found_by_the_next_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "search", fake(1.5, OTHER))
    first = compiler.lower(product())
    monkeypatch.setattr(tuning, "search", lambda *_, **__: pytest.fail("searched again"))
    tuning._opened.cache_clear()  # another process reads the file
    again = compiler.lower(product())
    assert again.choices[0].actions == first.choices[0].actions
    assert again.choices[0].search is None
    assert "earlier search" in again.choices[0].origin
    assert tuning.winners().path is not None
    (winner,) = tuning.winners().all()
    assert winner.actions == first.choices[0].actions


def fake(gain: float, actions: tuple[Action, ...]) -> Callable[..., Search]:
    return lambda sink, target, start, budget: Search(actions, 1.0, gain, elapsed=2.0)


OTHER = (Upcast("j", 16), Upcast("i", 4))


def test_what_a_search_finds_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "search", fake(1.5, OTHER))
    lowered = compiler.lower(product())
    assert lowered.choices[0].actions == OTHER
    assert "measured to be faster" in lowered.choices[0].reasons
    assert lowered.choices[0].origin == "search: 1.50 times as fast as the heuristic's"
    a, b = arguments()
    np.testing.assert_allclose(lowered.compile()(a, b)[0], a @ b, rtol=1e-5)


def test_the_heuristic_alone_uses_no_winner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "search", fake(1.5, OTHER))
    compiler.lower(product())
    with planish.settings(beam=0):
        plain = compiler.lower(product())
    assert plain.choices[0].actions != OTHER
    assert plain.choices[0].origin == "heuristic"


def test_deterministic_pins_winners_and_never_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(*given: object, budget: float) -> Search:
        calls.append(1)
        return Search(OTHER, 1.0, 2.0)

    monkeypatch.setattr(tuning, "search", counted)
    with planish.settings(deterministic=True):
        assert compiler.lower(product()).choices[0].origin == "heuristic"
    assert not calls
    compiler.lower(product())
    with planish.settings(deterministic=True):
        assert compiler.lower(product()).choices[0].actions == OTHER
    assert len(calls) == 1


def test_kernels_that_are_over_at_once_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "search", lambda *_, **__: pytest.fail("searched"))
    assert compiler.lower(product(4, 4, 4)).choices[0].search is None


def test_code_for_another_machine_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "search", lambda *_, **__: pytest.fail("searched"))
    for target in ("aarch64", "cuda"):
        compiler.lower(product(), target)


def test_a_search_that_cannot_be_made_costs_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, budget: float) -> Search:
        raise OSError("no processes left")

    monkeypatch.setattr(tuning, "search", fails)
    with pytest.warns(TuningWarning, match="no processes left"):
        assert compiler.lower(product()).choices[0].origin == "heuristic"


def test_settings_that_change_code_have_winners_of_their_own() -> None:
    with Table() as t:
        sink = MATMUL(t)
        plain = tuning.place_of(sink, host())
        with planish.settings(fastmath=True):
            assert tuning.place_of(sink, host()) != plain
        with planish.settings(threads=2, beam=7):
            assert tuning.place_of(sink, host()) == plain  # results never depend on threads
        assert tuning.place_of(matmul(t, 64, 64, 31), host()).kernel != plain.kernel
    assert "cores" in plain.machine


def test_winners_are_bit_identical_for_every_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = (*OTHER, Split("k", 8), Thread("i.outer", 8))
    monkeypatch.setattr(tuning, "search", fake(1.5, shared))
    a, b = arguments()
    found = []
    for threads in (1, 2, 3):
        with planish.settings(threads=threads):
            lowered = compiler.lower(product())
            assert lowered.choices[0].actions == shared
            found.append(lowered.compile()(a, b)[0].tobytes())
    assert len(set(found)) == 1


def test_the_cache_follows_the_winners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "search", fake(1.5, OTHER[:1]))
    compiler.compile(product())
    monkeypatch.setattr(tuning, "search", lambda *_, **__: pytest.fail("searched again"))
    kept = compiler.compile(product()).lowered
    assert kept.choices[0].search is None
    assert kept.choices[0].actions == OTHER[:1]
    (old,) = tuning.winners().all()
    tuning.winners().add(replace(old, actions=OTHER))
    assert compiler.compile(product()).lowered.choices[0].actions == OTHER


def test_a_block_is_not_taken_where_an_operand_may_be_written_over() -> None:
    """A residual that the epilogue adds may lie where the sums are kept."""
    with Table() as t:
        sink = matmul(t, 64, 64, 64)
        (end,) = sink.src
        store = end.src[0]
        place, value = store.src
        residual = t.param(3, value.dtype, 64 * 64).index(place.src[1])
        added = t.sink(place.store(value + residual).end(*end.src[1:]))
        block = Block("k", 16)
        assert isinstance(tuning.checked(sink, host())(sink, block, ()), UOp)
        refused = tuning.checked(added, host())(added, block, ())
        assert isinstance(refused, str)
        assert "written" in refused


# -- what is demanded of results -------------------------------------------------------------------------------------


def checks(sink: UOp) -> list[Check | None]:
    return [place.check for place in places_of(sink)]


def test_what_is_demanded_follows_from_what_is_computed() -> None:
    eps = 2.0**-23
    with Table() as t:
        assert checks(elementwise(t)) == [Check(), None, None]
        assert checks(lookup(t)) == [Check(), None, None]
        assert checks(MATMUL(t)) == [Check(32, eps, True), None, None]
        assert checks(row_sums(t, 5, 128)) == [Check(128, eps, True), None]
        assert checks(column_sums(t, 20, 48)) == [Check(20, eps, True), None]
        assert checks(convolution(t))[0] == Check(3, eps, True)
        (found, _) = checks(softmax(t, 3, 32))
        assert found is not None
        assert found.terms >= 32
        assert not found.whole  # exponentials are no whole numbers
        half = checks(matmul(t, 16, 16, 32, dtype=bf16))[0]
        assert half == Check(32, eps, True)  # summed in float32


def test_of_large_kernels_a_part_is_the_reference() -> None:
    with Table() as t:
        assert tuning.reference_of(MATMUL(t), host()) == ((), ())
        actions, points = tuning.reference_of(matmul(t, 1000, 1024, 1024), host())
        assert [type(action) for action in actions] == [Thread]
        assert points[0] == 0
        assert points[-1] == actions[0].amount - 1
        assert tuning.reference_of(row_sums(t, 1, 1 << 28), host()) == ((), ())  # nothing to divide


def test_a_search_is_part_of_the_line_of_what_compiles() -> None:
    with ProgressLine("compiling f", shown=False) as outer, Campaign().searching("add 64x64") as show:
        show(Progress(2, 17, 400, 0.5, 1.0, 5.0, 10.0))
        assert outer.line(0).startswith(
            "compiling f [############            ] searching add 64x64: 17 of 400 measured, 2.00x, "
        )


# -- why -------------------------------------------------------------------------------------------------------------


def test_why_and_cost_of_an_executable() -> None:
    with planish.settings(beam=0):
        exe = compiler.compile(product(128, 128, 64))
        again = compiler.compile(product(128, 128, 64))  # from the cache
    for each in (exe, again):
        (kernel,) = each.kernels
        assert [step.action for step in kernel.why.steps] == list(each.lowered.choices[0].actions)
        assert kernel.why.origin == "heuristic"
        # tiles may run over the edge
        assert 2 * 128 * 128 * 64 <= kernel.cost.flops < 1.2 * 2 * 128 * 128 * 64
        assert kernel.cost.nbytes > 0
        assert kernel.cost.bound_by in kernel.cost.parts
        assert each.cost.kernels == {kernel.name: kernel.cost}
        text = each.why()
        assert kernel.name in text
        assert all(str(action) in text for action in each.lowered.choices[0].actions)
    assert exe.why() == again.why()


def test_a_jitted_function_says_why() -> None:
    function = planish.jit(lambda x: planish.tanh(x) * 2)
    with planish.settings(beam=0):
        compiled = function.lower(planish.zeros((64, 64))).compile()
    assert "heuristic" in compiled.why()
    (kernel,) = compiled.kernels
    assert kernel.cost.bound_by in kernel.cost.parts


# -- campaigns -------------------------------------------------------------------------------------------------------


def test_a_campaign_tells_what_became_of_each_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "search", fake(1.5, OTHER))
    with Campaign() as campaign:
        compiler.lower(product())
    with campaign, planish.settings(deterministic=True):
        compiler.lower(product())
        compiler.lower(product(k=31))
    compiler.lower(product(k=30))  # not within it
    first, again, other = campaign.kernels
    assert (first.name, first.gain, first.replaced, first.seconds) == ("add 64x64x32", 1.5, True, 2.0)
    assert (again.gain, again.replaced, again.seconds) == (1.5, True, 0.0)
    assert (other.gain, other.replaced, other.origin) == (1.0, False, "heuristic")


def test_a_campaign_ends_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    budgets: list[float] = []
    now = [0.0]
    campaign = Campaign(total=25.0, clock=lambda: now[0])

    def search(sink: UOp, target: Target, start: Sequence[Action], *, budget: float) -> Search:
        budgets.append(budget)
        with campaign.searching("a kernel"):
            now[0] += budget + 1  # processes had to be started
        return Search(tuple(start), 1.0, 1.0)

    monkeypatch.setattr(tuning, "search", search)
    with campaign, planish.settings(beam_budget=10):
        for k in (29, 30, 31, 32):
            compiler.lower(product(k=k))
    assert budgets == [10.0, 10.0, 3.0]
    assert [kernel.origin for kernel in campaign.kernels[2:]] == [
        "heuristic, not beaten by a search",
        "heuristic, no time was left for a search",
    ]


def test_a_campaign_hears_of_its_searches() -> None:
    heard: list[tuple[str, Progress]] = []
    with Campaign(told=lambda *step: heard.append(step)) as campaign:
        compiler.lower(product())
    assert {name for name, _ in heard} == {"add 64x64x32"}
    assert heard[-1][1].measured > 0
    assert campaign.spent > 0

"""The search, with compiling and measuring made up: what it tries, what it keeps, when it ends, whom it never chooses."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from planish.actions.accumulators import Accumulators
from planish.actions.base import Action, Refusal, apply_action
from planish.actions.thread import Thread
from planish.actions.upcast import Upcast
from planish.errors import LoweringError, PlanishError
from planish.optimize.beam import Beam
from planish.optimize.cost import estimate
from planish.optimize.heuristic import choose
from planish.optimize.searched import Measured, Outcome, Progress, Search
from planish.stages.rangeify.attempts import attempts
from planish.stages.rangeify.s07_apply_opts import apply_opts
from planish.target import TARGETS
from planish.uop.node import Table, UOp
from tests.optimize.corpus import Build, elementwise, matmul, row_sums

V4 = TARGETS["x86-64-v4"]
Schedule = tuple[Action, ...]
BUILD = partial(matmul, m=32, n=64, k=16)


def attempt(sink: UOp, action: Action, before: Sequence[Action]) -> UOp | str:
    try:
        return apply_action(sink, action, V4, before)
    except Refusal as refusal:
        return refusal.message


class Clock:
    """Seconds pass only when something is measured, or looked at."""

    def __init__(self, tick: float = 0.0) -> None:
        self.now = 0.0
        self.tick = tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


def run(
    measure: Callable[[Schedule], Measured],
    *,
    build: Build = BUILD,
    start: Sequence[Action] | None = None,
    compile: Callable[[Schedule], Schedule] = lambda actions: actions,
    width: int = 2,
    budget: float = 16.0,
    cores: int = 1,
    clock: Clock | None = None,
    pressure: Callable[[Schedule], int] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Search:
    clock = clock or Clock()

    def several(candidates: Sequence[Schedule], best: float) -> list[Measured]:
        clock.now += len(candidates)
        return [measure(candidate) for candidate in candidates]

    def in_turn(candidates: Sequence[Schedule]) -> list[list[float]]:
        every = [[measure(candidate) for _ in range(8)] for candidate in candidates]
        right = [all(each.outcome is Outcome.RIGHT for each in rounds) for rounds in every]
        return [[m.seconds for m in each] if ok else [] for each, ok in zip(every, right, strict=True)]

    with Table() as t:
        sink = build(t)
        first = choose(sink, V4, attempts(V4)) if start is None else start
        beam = Beam(
            sink,
            V4,
            attempt,
            compile,
            several,
            in_turn,
            width,
            budget,
            cores,
            pressure,
            progress=progress,
            clock=clock,
        )
        return beam.search(first)


def by_model(build: Build, actions: Schedule, threads: int = 1) -> float:
    """As fast as the model says: a machine that agrees with it."""
    with Table() as t:
        return estimate(apply_opts(build(t), actions, V4), V4, threads=threads).cycles / 1e9


def right(seconds: float) -> Measured:
    return Measured(Outcome.RIGHT, seconds)


def test_from_a_poor_start_it_finds_what_the_machine_likes() -> None:
    found = run(lambda actions: right(by_model(BUILD, actions)), start=[Upcast("j", 2)])
    assert found.gain > 5
    assert found.seconds == by_model(BUILD, found.actions)
    assert {type(action) for action in found.actions} >= {Upcast}
    assert found.rejected == []


def test_the_answer_is_the_heuristics_if_nothing_is_faster() -> None:
    start = [Upcast("j", 32), Upcast("i", 8)]
    found = run(lambda actions: right(1.0), start=start, budget=40)
    assert found.actions == tuple(start)
    assert found.gain == 1.0
    assert found.ended in {"nothing improved", "nothing is left to try"}


def test_less_than_noise_is_no_gain() -> None:
    start = (Upcast("j", 32),)
    found = run(lambda actions: right(1.0 if actions == start else 0.99), start=start)
    assert found.actions == start


def test_a_lucky_measurement_is_not_enough() -> None:
    """Ahead once, but not when it is measured again beside the other."""
    times: dict[Schedule, int] = {}
    start = (Upcast("j", 32),)

    def measure(actions: Schedule) -> Measured:
        times[actions] = times.get(actions, 0) + 1
        return right(1.0 if actions == start or times[actions] > 1 else 0.5)

    assert run(measure, start=start).actions == start


def test_who_wins_is_ahead_in_most_rounds() -> None:
    """Twice as fast in the median, but behind in every third round: that is noise."""
    calls: dict[Schedule, int] = {}
    start = (Upcast("j", 32),)

    def measure(actions: Schedule) -> Measured:
        calls[actions] = calls.get(actions, 0) + 1
        return right(1.0 if actions == start else 1.1 if calls[actions] % 3 == 0 else 0.5)

    assert run(measure, start=start).actions == start


def test_who_wins_is_ahead_from_beginning_to_end() -> None:
    """Ahead by far in one process, behind by a little in the next."""
    calls: dict[Schedule, int] = {}
    start = (Upcast("j", 32),)

    def measure(actions: Schedule) -> Measured:
        calls[actions] = calls.get(actions, 0) + 1
        return right(1.0 if actions == start else 0.8 if calls[actions] < 6 else 0.99)

    assert run(measure, start=start).actions == start


@pytest.mark.parametrize("outcome", [Outcome.WRONG, Outcome.CRASHED, Outcome.HUNG])
def test_what_goes_wrong_is_reported_and_never_chosen(outcome: Outcome) -> None:
    """Everything with fewer rows than the start would be the fastest by far, if only it worked."""
    start = (Upcast("j", 32), Upcast("i", 8))
    bad: set[Schedule] = set()

    def measure(actions: Schedule) -> Measured:
        if any(action.amount == 4 for action in actions):
            bad.add(actions)
            return Measured(outcome, detail="planted")
        return right(1.0)

    found = run(measure, start=start)
    assert bad
    assert {trial.actions for trial in found.rejected} == bad
    assert all(trial.measured.outcome is outcome for trial in found.rejected)
    assert found.actions == start
    text = str(found.rejected[0])
    assert outcome.value in text
    assert "planted" in text
    assert str(found.rejected[0].actions[0]) in text


def test_a_candidate_that_turns_wrong_in_the_final_is_not_chosen() -> None:
    start = (Upcast("j", 32),)
    seen: set[Schedule] = set()

    def measure(actions: Schedule) -> Measured:
        if actions == start:
            return right(1.0)
        if actions in seen:
            return Measured(Outcome.WRONG)
        seen.add(actions)
        return right(0.1)

    found = run(measure, start=start)
    assert found.actions == start
    assert found.rejected


def test_what_cannot_be_compiled_is_reported() -> None:
    start = (Upcast("j", 32),)

    def compile(actions: Schedule) -> Schedule:
        if actions != start:
            raise LoweringError("planted\nsecond line")
        return actions

    found = run(lambda actions: right(1.0), start=start, compile=compile)
    assert found.actions == start
    assert {trial.measured.outcome for trial in found.rejected} == {Outcome.FAILED}
    assert found.rejected[0].measured.detail == "planted"


def test_a_start_that_fails_is_no_reason_to_choose_anything_wrong() -> None:
    found = run(lambda actions: Measured(Outcome.CRASHED))
    assert found.seconds == float("inf")
    assert len(found.rejected) == len(found.trials) > 0


def test_a_start_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(PlanishError, match="does not fit"):
        run(lambda actions: right(1.0), start=[Upcast("i", 5)])


def test_the_budget_is_kept() -> None:
    measured: list[Schedule] = []

    def measure(actions: Schedule) -> Measured:
        measured.append(actions)
        return right(1.0 / len(measured))  # always a reason to go on

    found = run(measure, budget=12)
    assert found.ended == "the time is up"
    assert len(found.trials) <= 12 + 2 + 2 * 4  # the last few, and the final
    found = run(lambda actions: right(1.0), clock=Clock(1.0), budget=10)
    assert found.ended == "the time is up"
    assert found.considered < 20


def test_refusals_are_counted_by_reason() -> None:
    found = run(lambda actions: right(1.0))
    assert found.refusals["upcast: does not divide"] > 0
    assert found.refusals["upcast: not for such an axis"] > 0
    assert any(reason.startswith("stage: ") for reason in found.refusals)  # stage 7's own words
    assert not any(re.search(r"\b\d+\b", reason) for reason in found.refusals)


def test_no_kernel_is_measured_twice_on_the_way() -> None:
    seen: list[UOp] = []
    with Table() as t:
        sink = BUILD(t)

        def measure(candidates: Sequence[Schedule], best: float) -> list[Measured]:
            seen.extend(apply_opts(sink, actions, V4) for actions in candidates)
            return [right(1.0) for _ in candidates]

        Beam(sink, V4, attempt, lambda a: a, measure, lambda a: [[1.0]] * len(a), 2, 30.0).search(
            [Upcast("j", 32)]
        )
    assert len(seen) > 5
    assert len(seen) == len(set(seen))


def test_the_same_code_is_measured_once() -> None:
    """Two schedules may be two kernels, and one code."""
    measured: list[int] = []

    def several(candidates: Sequence[int], best: float) -> list[Measured]:
        measured.extend(candidates)
        return [right(1.0) for _ in candidates]

    with Table() as t:
        beam = Beam(
            BUILD(t), V4, attempt, lambda actions: len(actions), several, lambda a: [[1.0]] * len(a), 2, 30.0
        )
        found = beam.search([Upcast("j", 32)])
    assert len(measured) == len(set(measured)) > 1
    assert found.refusals["its code is that of another"] > 0


def test_schedules_that_the_model_cannot_tell_apart_are_not_all_measured() -> None:
    found = run(lambda actions: right(1.0), build=partial(elementwise, rows=64, columns=64), budget=30)
    assert found.refusals["the model sees no difference to what was measured"] > 0


def test_cores_are_not_taken_away() -> None:
    """Measured on one thread a schedule for one core may look better; others will call it with more."""
    start = (Upcast("j", 32), Thread("i", 8))

    def measure(actions: Schedule) -> Measured:
        shared = any(isinstance(action, Thread) for action in actions)
        return right(1.0 if shared else 0.1)

    found = run(measure, start=start, cores=2)
    assert all(any(isinstance(a, Thread) for a in trial.actions) for trial in found.trials)
    assert any(isinstance(action, Thread) for action in found.actions)


def test_code_that_spills_is_not_measured() -> None:
    """The registers that compiled code wants are better known than guessed."""
    start = (Upcast("j", 32), Upcast("i", 8))
    found = run(
        lambda actions: right(1.0), start=start, pressure=lambda actions: 8 if actions == start else 100_000
    )
    assert found.refusals["its code spills too many registers"] > 0
    assert {trial.actions for trial in found.trials} == {start}


def test_reductions_are_searched_too() -> None:
    build = partial(row_sums, rows=64, columns=256)
    found = run(lambda actions: right(by_model(build, actions)), build=build, start=[])
    assert Accumulators in {type(action) for action in found.actions}


def test_it_says_where_it_stands() -> None:
    told: list[Progress] = []
    found = run(lambda actions: right(1.0), progress=told.append)
    assert [step.measured for step in told] == sorted(step.measured for step in told)
    assert told[-1].measured == len(found.trials)
    assert all(step.budget == 16.0 and step.best == 1.0 for step in told)

"""The schedule search: what the heuristic chose, varied step by step, the most promising measured, the fastest kept.

How. The space of a target (`space.py`) gives the next actions; an action that was taken may also be dropped or get another
amount. Stage 7 says what fits (`attempt`), the cost model which of the rest are promising, and those are compiled and run
(`compile` and `measure`, which are handed in: how a kernel becomes code and where it runs is not known here). The best
`width` schedules are varied again, until nothing improves or the time is up. A second start is the empty schedule: the model
alone walks from there for a part of the time, and where it ends is measured as well.

What is promised. The answer is the schedule of the heuristic unless another was measured to be faster, and then ran in turn with it and was
faster in most rounds, by more than noise.
A candidate that crashed, hung, could not be compiled or computed something else is in `Search.rejected`, and never the answer.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from math import log2
from statistics import median
from typing import Final, Generic, TypeVar

from planish import dtypes
from planish.actions.base import Action, OneAxis
from planish.actions.tensor_core import TensorCore
from planish.errors import PlanishError
from planish.optimize.cost import estimate
from planish.optimize.expected import Estimate
from planish.optimize.moves import other_amounts, relatives, resized, tiles, without
from planish.optimize.searched import Attempted, Measured, Outcome, Progress, Schedule, Search
from planish.optimize.space import candidates, obstacle, overfull, reason_of
from planish.records import dataclass
from planish.target import Target
from planish.uop.nest import axes_of, axis_named, name_of, size_of
from planish.uop.node import UOp

Attempt = Callable[[UOp, Action, Sequence[Action]], UOp | str]
"""A kernel after one more action, or why it is refused."""
C = TypeVar("C", bound=Hashable)
"""Code: what a schedule is compiled to."""

GAIN: Final = 0.02
"""What a winner has to be faster by: less is noise."""
_PROMISING: Final = 4.0
"""Candidates that the model takes to be so many times slower than the best are not measured."""
_PER_STATE: Final = 3
"""Candidates that are measured in a round, for each schedule that is kept."""
_PATIENCE: Final = 2
"""Rounds without a gain before the search ends."""
_WALK: Final = 0.1
"""The part of the time that the model may spend alone."""
_STEPS: Final = 12
"""Actions that the model takes at most when it walks alone."""
_FINALISTS: Final = 3
_ALIKE: Final = 2
"""Schedules that the model cannot tell apart, of which no more are measured as long as there are others."""
_TILES: Final = 2
"""Other register tiles that are measured at the start, for each schedule that is kept."""


@dataclass(frozen=True, slots=True)
class _Visited:
    """A schedule, and the kernel as it leaves it."""

    actions: Schedule
    sink: UOp
    expected: Estimate
    seconds_per_cycle: float = 1.0
    """What a cycle of the model took for the schedule that this one was made of, if that was measured."""
    move: str = ""
    """By what kind of change."""

    @property
    def guess(self) -> float:
        """How long it may take. The model is better at what a step changes than at what a whole schedule costs."""
        return self.expected.cycles * self.seconds_per_cycle


def _signature(expected: Estimate) -> tuple[int, ...]:
    """The same for schedules that the model takes to be the same, to a few percent of each part."""
    cycles = max(expected.cycles, 1.0)
    parts = [round(50 * part / cycles) for _, part in sorted(expected.parts.items())]
    return (*parts, round(50 * log2(cycles)), expected.registers, expected.pieces)


def _is_ahead(gains: Sequence[float]) -> bool:
    """Whether one is faster than another, by how many times it was in each round.

    In the earlier rounds and in the later ones: by more than noise in the middle, and at all in three of four. Noise
    hardly ever agrees with itself so often.
    """
    half = len(gains) // 2
    parts = [sorted(part) for part in (gains[:half], gains[half:]) if part]
    return all(median(part) > 1 + GAIN and part[len(part) // 4] > 1 for part in parts)


def _size_at(sink: UOp, action: Action) -> int:
    """The size of the axis that an action is about to change."""
    axis = axis_named(sink, action.axis) if isinstance(action, OneAxis) else None
    return 0 if axis is None else size_of(axis)


@dataclass(slots=True)
class Beam(Generic[C]):
    """A search for one kernel.

    `compile` makes code of a list of actions (PlanishError if it cannot); `measure` runs several candidates, each against what the
    unoptimised kernel computes, and gives up on one that takes much longer than the seconds it is told; `contest` runs several in
    turn, round by round, and tells the seconds of each in every round (none of one that is wrong).
    """

    sink: UOp
    target: Target
    attempt: Attempt
    compile: Callable[[Schedule], C]
    measure: Callable[[Sequence[C], float], Sequence[Measured]]
    contest: Callable[[Sequence[C]], Sequence[Sequence[float]]]
    width: int = 4
    budget: float = 10.0
    cores: int = 1
    """Cores of the machine: whatever it is measured with, a schedule has to have work for them if the heuristic's has."""
    pressure: Callable[[C], int] | None = None
    """The vector registers that compiled code wants."""
    progress: Callable[[Progress], None] | None = None
    clock: Callable[[], float] = time.monotonic
    result: Search = field(default_factory=Search)
    _times: dict[UOp, float] = field(default_factory=dict)
    _seen: set[UOp] = field(default_factory=set)
    _expanded: set[UOp] = field(default_factory=set)
    _codes: set[C] = field(default_factory=set)
    """The code that was measured: different schedules may become the same."""
    _alike: Counter[tuple[int, ...]] = field(default_factory=Counter)
    """How many schedules were measured that the model cannot tell apart."""
    _most_alike: int = _ALIKE
    _aside: list[_Visited] = field(default_factory=list)
    """What may be measured when there is nothing better."""
    _pieces: int = 1
    _best_expected: float = float("inf")
    _wanted: int = 0
    _started: float = 0.0

    def search(self, heuristic: Sequence[Action], others: Iterable[Sequence[Action]] = ()) -> Search:
        """Look for something better than the heuristic's schedule; `others` are schedules that are worth a try."""
        self._started = self.clock()
        result = self.result
        first = self._replay(tuple(heuristic))
        empty = self._replay(())
        if first is None or empty is None:
            raise PlanishError("the schedule to start from does not fit the kernel")
        result.actions = first.actions
        self._pieces = min(first.expected.pieces, self.cores)
        self._run([first])
        result.baseline = result.seconds = self._times.get(first.sink, float("inf"))
        given = [state for each in others if (state := self._replay(tuple(each))) is not None]
        starts = [*self._relatives(), *self._tiles(first), *self._walk(empty)]
        self._run([*given, *(state for state in starts if not self._is_hopeless(state, first))])
        kept = self._best([first, *given, *self._measured_states()])
        idle = 0
        while not self._is_over():
            if not kept or idle >= _PATIENCE:
                result.ended = "nothing improved"
                break
            result.rounds += 1
            before = self._fastest()
            candidates = self._promising(kept)
            if not candidates:
                result.ended = "nothing is left to try"
                break
            self._run(candidates)
            kept = self._best([*kept, *candidates])
            idle = 0 if self._fastest() < before * (1 - GAIN / 2) else idle + 1
        else:
            result.ended = "the time is up"
        self._decide(first, kept)
        result.elapsed = self.clock() - self._started
        return result

    # -- the space -----------------------------------------------------------------------------------------------

    def _replay(self, actions: Schedule) -> _Visited | None:
        sink = self.sink
        for number, action in enumerate(actions):
            after = self._try(sink, action, actions[:number])
            if after is None:
                return None
            sink = after
        return self._state(actions, sink)

    def _state(self, actions: Schedule, sink: UOp) -> _Visited:
        self.result.considered += 1
        return _Visited(actions, sink, estimate(sink, self.target, threads=self.cores))

    def _try(self, sink: UOp, action: Action, before: Schedule) -> UOp | None:
        after = self.attempt(sink, action, before)
        if isinstance(after, str):
            self.result.refusals[reason_of(after)] += 1
            return None
        return after

    def _next(self, state: _Visited) -> Iterator[tuple[str, Schedule, UOp]]:
        """Every schedule one step from a state that fits: one action more, one less, or another amount; with what was changed."""
        axes = {name_of(r): r for r in axes_of(state.sink)}
        for action in candidates(state.sink, self.target):
            reason = obstacle(axes, action)
            if reason is not None:
                self.result.refusals[reason] += 1
                continue
            if isinstance(action, TensorCore) and state.actions:
                self.result.refusals["tensor_core: comes first"] += 1
                continue
            after = self._try(state.sink, action, state.actions)
            if after is not None and after is not state.sink:
                where = action.axis if isinstance(action, OneAxis) else ""
                yield f"+{action.word}({where})", (*state.actions, action), after
        known = self._steps(state.actions)
        for place, action in enumerate(state.actions):
            changes: list[tuple[str, Iterable[Schedule]]] = [(f"-{place}", [without(state.actions, place)])]
            for amount in other_amounts(self.target, action, _size_at(known[place], action)):
                changes.append((f"={place}", resized(state.actions, place, amount)))
            for move, schedules in changes:
                for actions in schedules:
                    if self._is_over():
                        return
                    replayed = self._replayed(actions, state.actions, known)
                    if replayed is not None:
                        yield move, actions, replayed
                        break

    def _steps(self, actions: Schedule) -> list[UOp]:
        """The kernel before each action of a schedule that fits, and after the last."""
        kernels = [self.sink]
        for number, action in enumerate(actions):
            after = self._try(kernels[-1], action, actions[:number])
            if after is None:
                raise PlanishError("a schedule that was measured does not fit its kernel")
            kernels.append(after)
        return kernels

    def _replayed(self, actions: Schedule, other: Schedule = (), known: Sequence[UOp] = ()) -> UOp | None:
        """The kernel after a schedule, if all of it fits; `known` are the steps of another, with which it may begin."""
        pairs = enumerate(zip(actions, other, strict=False))
        start = next((n for n, (one, two) in pairs if one != two), min(len(actions), len(other)))
        sink = known[start] if known else self.sink
        for number in range(start if known else 0, len(actions)):
            after = self._try(sink, actions[number], actions[:number])
            if after is None:
                return None
            sink = after
        return sink

    def _expand(self, states: Sequence[_Visited]) -> list[_Visited]:
        """What is one step from states and was not seen before, the most promising first."""
        fresh: list[_Visited] = []
        for state in states:
            seconds = self._times.get(state.sink, float("inf"))
            rate = seconds / state.expected.cycles if seconds < float("inf") else 1.0
            for move, actions, sink in self._next(state):
                if self._is_over():
                    break
                if self._is_new(sink):
                    successor = self._state(actions, sink)
                    fresh.append(replace(successor, seconds_per_cycle=rate, move=move))
        return sorted(fresh, key=lambda each: (each.guess, len(each.actions)))

    def _is_new(self, sink: UOp) -> bool:
        """Whether a kernel was not seen before, and could be run at all."""
        if sink in self._seen:
            return False
        self._seen.add(sink)
        if overfull(sink, self.target):
            self.result.refusals["more than registers or shared memory could hold"] += 1
            return False
        return True

    def _is_hopeless(self, state: _Visited, first: _Visited) -> bool:
        """Whether the model expects it to be so much slower than the first that it is not measured."""
        if state.expected.cycles <= _PROMISING * first.expected.cycles:
            return False
        self.result.refusals["the model expects it to be much slower"] += 1
        return True

    def _relatives(self) -> list[_Visited]:
        """What the heuristic would do on other machines."""

        def attempt(sink: UOp, action: Action, before: Sequence[Action]) -> UOp | None:
            return self._try(sink, action, tuple(before))

        states = []
        for actions in relatives(self.sink, self.target, attempt):
            if self._is_over():
                break
            state = self._replay(actions)
            if state is not None and state.expected.pieces >= self._pieces and self._is_new(state.sink):
                states.append(state)
        return states

    def _tiles(self, first: _Visited) -> list[_Visited]:
        """The most promising of the schedules that differ from the first by their register tile."""
        states: list[_Visited] = []
        lanes = self.target.lanes(dtypes.float32)
        known = self._steps(first.actions)
        for choices in tiles(first.actions, self.target, lanes):
            for actions in choices:
                if self._is_over():
                    return []
                sink = self._replayed(actions, first.actions, known)
                if sink is not None:
                    if self._is_new(sink):
                        states.append(self._state(actions, sink))
                    break
        states = [state for state in states if state.expected.pieces >= self._pieces]
        return sorted(states, key=lambda each: each.guess)[: _TILES * self.width]

    def _walk(self, empty: _Visited) -> list[_Visited]:
        """Where the model alone gets to from nothing."""
        until = self.clock() + _WALK * self.budget
        best, front = empty, [empty]
        for _ in range(_STEPS):
            if self.clock() > until:
                break
            front = self._expand(front)[: max(self.width // 2, 1)]
            if not front or front[0].expected.cycles >= best.expected.cycles * (1 - GAIN / 2):
                break
            best = front[0]
        self._seen.clear()  # what was passed on the way may be worth a measurement later
        if best.expected.pieces < self._pieces:
            shared = [state for state in self._expand([best]) if state.expected.pieces >= self._pieces]
            self._seen.clear()
            return shared[:1]
        return [best] if best.actions else []

    def _promising(self, kept: Sequence[_Visited]) -> list[_Visited]:
        """What to measure next: what the fastest lead to first; the others can wait until that is measured."""
        while True:
            left = [state for state in kept if state.sink not in self._expanded][: max(self.width // 2, 1)]
            self._expanded |= {state.sink for state in left}
            chosen = self._chosen(self._expand(left))
            if chosen or not left:
                return chosen

    def _chosen(self, fresh: Sequence[_Visited]) -> list[_Visited]:
        """Of each kind of change the best before any second best, since the model is no good judge of kinds; with what was left aside."""
        most = _PROMISING * self._fastest()
        counted: Counter[str] = Counter()
        ordered = [(0, state.guess, state) for state in self._aside]
        for state in fresh:
            if state.expected.pieces < self._pieces:
                self.result.refusals["fewer pieces than there are cores"] += 1
            elif state.guess > most:
                self.result.refusals["the model expects it to be much slower"] += 1
            else:
                ordered.append((counted[state.move] // 2, state.guess, state))
                counted[state.move] += 1
        chosen: list[_Visited] = []
        self._aside = []
        for _, _, state in sorted(ordered, key=lambda each: each[:2]):
            signature = _signature(state.expected)
            alike = self._alike[signature] >= self._most_alike
            if alike:
                self.result.refusals["the model sees no difference to what was measured"] += 1
            if alike or len(chosen) == _PER_STATE * self.width:
                self._aside.append(state)
                continue
            self._alike[signature] += 1
            chosen.append(state)
        if not chosen and self._aside:  # all that is left looks like what was measured
            self._most_alike += _ALIKE
            chosen = self._aside[: _PER_STATE * self.width]
            self._aside = self._aside[_PER_STATE * self.width :]
        return chosen

    # -- measuring -----------------------------------------------------------------------------------------------

    def _run(self, states: Sequence[_Visited]) -> None:
        """Compile and measure what was not measured yet, a few at a time, as long as there is time."""
        waiting = [state for state in states if state.sink not in self._times]
        size = max(self.width, 2)
        for start in range(0, len(waiting), size):
            if start and self._is_over():
                return
            ready: list[tuple[_Visited, C]] = []
            for state in waiting[start : start + size]:
                try:
                    code = self.compile(state.actions)
                except PlanishError as error:
                    self._note(state, Measured(Outcome.FAILED, detail=str(error).partition("\n")[0]))
                    continue
                if code in self._codes:
                    self.result.refusals["its code is that of another"] += 1
                elif not self._spills(state, code):
                    self._codes.add(code)
                    ready.append((state, code))
            results = self.measure([each for _, each in ready], self._fastest())
            for (state, _), measured in zip(ready, results, strict=True):
                self._note(state, measured)
            self._tell()

    def _spills(self, state: _Visited, code: C) -> bool:
        """Whether code turns out to want so many registers that it is not promising any more.

        Registers are counted in the order in which LLIR stands; LLVM finds a better one. So what counts is how many more it wants
        than the schedule that the search began with.
        """
        if self.pressure is None:
            return False
        wanted = self.pressure(code)
        if not self._wanted:
            self._wanted, self._best_expected = max(wanted, self.target.registers), state.expected.cycles
        more = wanted - self._wanted
        if more <= 0:
            return False
        told = estimate(state.sink, self.target, threads=self.cores, pressure=self.target.registers + more)
        if told.cycles <= _PROMISING * self._best_expected:
            return False
        self.result.refusals["its code spills too many registers"] += 1
        return True

    def _note(self, state: _Visited, measured: Measured) -> None:
        self._seen.add(state.sink)
        self.result.trials.append(Attempted(state.actions, measured, state.expected.cycles))
        right = measured.outcome is Outcome.RIGHT
        self._times[state.sink] = measured.seconds if right else float("inf")

    def _measured_states(self) -> list[_Visited]:
        right = [trial.actions for trial in self.result.trials if trial.measured.outcome is Outcome.RIGHT]
        return [state for actions in right if (state := self._replay(actions)) is not None]

    def _fastest(self) -> float:
        return min(self._times.values(), default=float("inf"))

    def _best(self, states: Sequence[_Visited]) -> list[_Visited]:
        unique = {state.sink: state for state in states}.values()
        right = [state for state in unique if self._times.get(state.sink, float("inf")) < float("inf")]
        return sorted(right, key=lambda state: self._times[state.sink])[: self.width]

    def _decide(self, first: _Visited, kept: Sequence[_Visited]) -> None:
        """Let the fastest and the heuristic's run in turn: the answer is what is ahead in most rounds, by more than noise."""
        result = self.result
        rivals = [state for state in kept if state.sink is not first.sink][:_FINALISTS]
        rivals = [state for state in rivals if self._times[state.sink] < result.baseline * (1 - GAIN)]
        if not rivals:
            return
        plain, *others = self.contest([self.compile(state.actions) for state in (first, *rivals)])
        if not plain:
            return
        result.baseline = result.seconds = median(plain)
        for state, times in zip(rivals, others, strict=True):
            gains = [before / now for before, now in zip(plain, times, strict=False)]
            if not gains:
                self._note(state, Measured(Outcome.WRONG, detail="when it ran in turn with others"))
                continue
            seconds = result.baseline / median(gains)
            if seconds < result.seconds and _is_ahead(gains) and min(plain) / min(times) > 1 + GAIN / 2:
                result.actions, result.seconds = state.actions, seconds

    def _is_over(self) -> bool:
        return self.clock() - self._started >= self.budget

    def _tell(self) -> None:
        if self.progress is not None:
            result = self.result
            self.progress(
                Progress(
                    result.rounds, len(result.trials), result.considered, self._fastest(), result.baseline,
                    self.clock() - self._started, self.budget,
                )
            )  # fmt: skip

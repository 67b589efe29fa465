"""The schedule search: what the heuristic chose, varied step by step, the most promising measured, the fastest kept.

How. The space of a target (`space.py`) gives the next actions; an action that was taken may also be dropped or get another
amount. Stage 7 says what fits (`attempt`), the cost model which of the rest are promising, and those are compiled and run
(`compile` and `measure`, which are handed in: how a kernel becomes code and where it runs is not known here). The best
`width` schedules are varied again, until nothing improves or the time is up. A second start is the empty schedule: the model
alone walks from there for a part of the time, and where it ends is measured as well.

What is promised. The answer is the schedule of the heuristic unless another was measured to be faster, twice, by more than noise.
A candidate that crashed, hung, could not be compiled or computed something else is in `Search.rejected`, and never the answer.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import log2
from typing import Final, Generic, TypeVar

from planish.errors import PlanishError
from planish.optimize.cost import Estimate, estimate
from planish.optimize.space import actions as space_of
from planish.optimize.space import amounts, axes_of, obstacle, overfull, reason_of
from planish.target import Target
from planish.uop.actions import Action, ActionKind
from planish.uop.node import UOp

Attempt = Callable[[UOp, Action, Sequence[Action]], UOp | str]
"""A kernel after one more action, or why it is refused."""
Schedule = tuple[Action, ...]
C = TypeVar("C")

GAIN: Final = 0.02
"""What a winner has to be faster by: less is noise."""
_PROMISING: Final = 4.0
"""Candidates that the model takes to be so many times slower than the best are not measured."""
_PER_STATE: Final = 3
"""Candidates that are measured in a round, for each schedule that is kept."""
_PATIENCE: Final = 2
"""Rounds without a gain before the search ends."""
_WALK: Final = 0.25
"""The part of the time that the model may spend alone."""
_STEPS: Final = 12
"""Actions that the model takes at most when it walks alone."""
_FINALISTS: Final = 3
_ALIKE: Final = 2
"""Schedules that the model cannot tell apart, of which no more are measured."""


class Outcome(Enum):
    """What became of a candidate."""

    RIGHT = "it computed what the unoptimised kernel computes"
    WRONG = "it computed something else"
    CRASHED = "it ended its process"
    HUNG = "it did not end in time"
    FAILED = "it could not be compiled"


@dataclass(frozen=True, slots=True)
class Measured:
    """One candidate, run."""

    outcome: Outcome
    seconds: float = float("inf")
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate and what became of it."""

    actions: Schedule
    measured: Measured
    expected: float
    """Cycles by the model."""

    def __str__(self) -> str:
        what = self.measured.outcome.value
        detail = f" ({self.measured.detail})" if self.measured.detail else ""
        return f"{what}{detail}: {', '.join(map(str, self.actions)) or 'no actions'}"


@dataclass(slots=True)
class Search:
    """What a search found, and all it saw on the way."""

    actions: Schedule = ()
    """The answer."""
    seconds: float = float("inf")
    baseline: float = float("inf")
    """Seconds of what the heuristic chose."""
    trials: list[Trial] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)
    """How often an action did not fit, by reason."""
    considered: int = 0
    """Schedules that fitted, and were weighed by the model."""
    rounds: int = 0
    elapsed: float = 0.0
    ended: str = ""
    """Why it ended."""

    @property
    def rejected(self) -> list[Trial]:
        """Candidates that are never chosen."""
        return [trial for trial in self.trials if trial.measured.outcome is not Outcome.RIGHT]

    @property
    def gain(self) -> float:
        """How many times faster the answer is than the heuristic's schedule."""
        return self.baseline / self.seconds if 0 < self.seconds < float("inf") else 1.0


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a search stands."""

    round: int
    measured: int
    considered: int
    best: float
    baseline: float
    elapsed: float
    budget: float


@dataclass(frozen=True, slots=True)
class _State:
    """A schedule, and the kernel as it leaves it."""

    actions: Schedule
    sink: UOp
    expected: Estimate


def _signature(expected: Estimate) -> tuple[int, ...]:
    """The same for schedules that the model takes to be the same, to a few percent of each part."""
    cycles = max(expected.cycles, 1.0)
    parts = [round(50 * part / cycles) for _, part in sorted(expected.parts.items())]
    return (*parts, round(50 * log2(cycles)), expected.registers, expected.pieces)


@dataclass(slots=True)
class Beam(Generic[C]):
    """A search for one kernel.

    `compile` makes code of a list of actions (PlanishError if it cannot); `measure` runs several candidates, each against what the
    unoptimised kernel computes, and gives up on one that takes much longer than the seconds it is told.
    """

    sink: UOp
    target: Target
    attempt: Attempt
    compile: Callable[[Schedule], C]
    measure: Callable[[Sequence[C], float], Sequence[Measured]]
    width: int = 4
    budget: float = 10.0
    cores: int = 1
    """Cores of the machine: whatever it is measured with, a schedule has to have work for them if the heuristic's has."""
    pressure: Callable[[C], int] | None = None
    """The vector registers that compiled code wants."""
    progress: Callable[[Progress], None] | None = None
    clock: Callable[[], float] = time.monotonic
    found: Search = field(default_factory=Search)
    _times: dict[UOp, float] = field(default_factory=dict)
    _seen: set[UOp] = field(default_factory=set)
    _alike: Counter[tuple[int, ...]] = field(default_factory=Counter)
    """How many schedules were measured that the model cannot tell apart."""
    _pieces: int = 1
    _best_expected: float = float("inf")
    _wanted: int = 0
    _started: float = 0.0

    def search(self, heuristic: Sequence[Action], others: Iterable[Sequence[Action]] = ()) -> Search:
        """Look for something better than the heuristic's schedule; `others` are schedules that are worth a try."""
        self._started = self.clock()
        found = self.found
        first = self._replay(tuple(heuristic))
        empty = self._replay(())
        if first is None or empty is None:
            raise PlanishError("the schedule to start from does not fit the kernel")
        found.actions = first.actions
        self._pieces = min(first.expected.pieces, self.cores)
        self._run([first])
        found.baseline = found.seconds = self._times.get(first.sink, float("inf"))
        given = [state for each in others if (state := self._replay(tuple(each))) is not None]
        self._run([*given, *self._walk(empty)])
        kept = self._best([first, *given, *self._measured_states()])
        idle = 0
        while not self._is_over():
            if not kept or idle >= _PATIENCE:
                found.ended = "nothing improved"
                break
            found.rounds += 1
            before = self._fastest()
            candidates = self._promising(kept)
            if not candidates:
                found.ended = "nothing is left to try"
                break
            self._run(candidates)
            kept = self._best([*kept, *candidates])
            idle = 0 if self._fastest() < before * (1 - GAIN / 2) else idle + 1
        else:
            found.ended = "the time is up"
        self._decide(first, kept)
        found.elapsed = self.clock() - self._started
        return found

    # -- the space -----------------------------------------------------------------------------------------------

    def _replay(self, actions: Schedule) -> _State | None:
        sink = self.sink
        for number, action in enumerate(actions):
            after = self._try(sink, action, actions[:number])
            if after is None:
                return None
            sink = after
        return self._state(actions, sink)

    def _state(self, actions: Schedule, sink: UOp) -> _State:
        self.found.considered += 1
        return _State(actions, sink, estimate(sink, self.target, threads=self.cores))

    def _try(self, sink: UOp, action: Action, before: Schedule) -> UOp | None:
        after = self.attempt(sink, action, before)
        if isinstance(after, str):
            self.found.refusals[reason_of(after)] += 1
            return None
        return after

    def _next(self, state: _State) -> Iterator[tuple[Schedule, UOp]]:
        """Every schedule one step from a state that fits: one action more, one less, or another amount."""
        axes = axes_of(state.sink)
        for action in space_of(self.target):
            reason = obstacle(state.sink, axes, action, self.target)
            if reason is not None:
                self.found.refusals[reason] += 1
                continue
            if action.kind is ActionKind.TC and state.actions:
                self.found.refusals["TC: comes first"] += 1
                continue
            after = self._try(state.sink, action, state.actions)
            if after is not None and after is not state.sink:
                yield (*state.actions, action), after
        for place, action in enumerate(state.actions):
            head, tail = state.actions[:place], state.actions[place + 1 :]
            changed = [
                action._replace(amount=n) for n in amounts(self.target, action.kind) if n != action.amount
            ]
            for instead in ((), *((each,) for each in changed)):
                if self._is_over():
                    return
                actions = (*head, *instead, *tail)
                replayed = self._replayed(actions)
                if replayed is not None:
                    yield actions, replayed

    def _replayed(self, actions: Schedule) -> UOp | None:
        sink = self.sink
        for number, action in enumerate(actions):
            after = self._try(sink, action, actions[:number])
            if after is None:
                return None
            sink = after
        return sink

    def _expand(self, states: Sequence[_State]) -> list[_State]:
        """What is one step from states and was not seen before, cheapest by the model first."""
        fresh: list[_State] = []
        for state in states:
            for actions, sink in self._next(state):
                if self._is_over():
                    break
                if sink in self._seen:
                    continue
                self._seen.add(sink)
                if overfull(sink, self.target):
                    self.found.refusals["more lanes than registers could hold"] += 1
                    continue
                fresh.append(self._state(actions, sink))
        return sorted(fresh, key=lambda each: (each.expected.cycles, len(each.actions)))

    def _walk(self, empty: _State) -> list[_State]:
        """Where the model alone gets to from nothing."""
        until = self._started + _WALK * self.budget
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

    def _promising(self, kept: Sequence[_State]) -> list[_State]:
        fresh = self._expand(kept)
        if not fresh:
            return []
        most = _PROMISING * min(fresh[0].expected.cycles, kept[0].expected.cycles)
        chosen: list[_State] = []
        for state in fresh:
            if state.expected.cycles > most or len(chosen) == _PER_STATE * self.width:
                break
            if state.expected.pieces < self._pieces:
                self.found.refusals["fewer pieces than there are cores"] += 1
            elif self._alike[_signature(state.expected)] >= _ALIKE:
                self.found.refusals["the model sees no difference to what was measured"] += 1
            else:
                self._alike[_signature(state.expected)] += 1
                chosen.append(state)
        return chosen

    # -- measuring -----------------------------------------------------------------------------------------------

    def _run(self, states: Sequence[_State], repeat: bool = False) -> None:
        """Compile and measure what was not measured yet, a few at a time, as long as there is time."""
        waiting = [state for state in states if repeat or state.sink not in self._times]
        size = max(self.width, 2)
        for start in range(0, len(waiting), size):
            if start and self._is_over() and not repeat:
                return
            ready: list[tuple[_State, C]] = []
            for state in waiting[start : start + size]:
                try:
                    made = self.compile(state.actions)
                except PlanishError as error:
                    self._note(state, Measured(Outcome.FAILED, detail=str(error).partition("\n")[0]))
                    continue
                if repeat or not self._spills(state, made):
                    ready.append((state, made))
            results = self.measure([each for _, each in ready], self._fastest())
            for (state, _), measured in zip(ready, results, strict=True):
                self._note(state, measured)
            self._tell()

    def _spills(self, state: _State, made: C) -> bool:
        """Whether code turns out to want so many registers that it is not promising any more.

        Registers are counted in the order in which LLIR stands; LLVM finds a better one. So what counts is how many more it wants
        than the schedule that the search began with.
        """
        if self.pressure is None:
            return False
        wanted = self.pressure(made)
        if not self._wanted:
            self._wanted, self._best_expected = max(wanted, self.target.registers), state.expected.cycles
        more = wanted - self._wanted
        if more <= 0:
            return False
        told = estimate(state.sink, self.target, threads=self.cores, pressure=self.target.registers + more)
        if told.cycles <= _PROMISING * self._best_expected:
            return False
        self.found.refusals["its code spills too many registers"] += 1
        return True

    def _note(self, state: _State, measured: Measured) -> None:
        self._seen.add(state.sink)
        self.found.trials.append(Trial(state.actions, measured, state.expected.cycles))
        right = measured.outcome is Outcome.RIGHT
        self._times[state.sink] = measured.seconds if right else float("inf")

    def _measured_states(self) -> list[_State]:
        right = [trial.actions for trial in self.found.trials if trial.measured.outcome is Outcome.RIGHT]
        return [state for actions in right if (state := self._replay(actions)) is not None]

    def _fastest(self) -> float:
        return min(self._times.values(), default=float("inf"))

    def _best(self, states: Sequence[_State]) -> list[_State]:
        unique = {state.sink: state for state in states}.values()
        right = [state for state in unique if self._times.get(state.sink, float("inf")) < float("inf")]
        return sorted(right, key=lambda state: self._times[state.sink])[: self.width]

    def _decide(self, first: _State, kept: Sequence[_State]) -> None:
        """Measure the fastest once more, side by side with the heuristic's: the answer is what stays ahead."""
        found = self.found
        rivals = [state for state in kept if state.sink is not first.sink][:_FINALISTS]
        rivals = [state for state in rivals if self._times[state.sink] < found.baseline * (1 - GAIN)]
        if not rivals:
            return
        wrong = set()
        again = {state.sink: float("inf") for state in (first, *rivals)}
        for _ in range(2):
            self._times.clear()
            self._run([first, *rivals], repeat=True)
            wrong |= {state.sink for state in rivals if self._times[state.sink] == float("inf")}
            again = {sink: min(again[sink], self._times[sink]) for sink in again}
        found.baseline = found.seconds = again[first.sink]
        for state in rivals:
            if state.sink not in wrong and again[state.sink] < min(
                found.seconds, found.baseline * (1 - GAIN)
            ):
                found.actions, found.seconds = state.actions, again[state.sink]

    def _is_over(self) -> bool:
        return self.clock() - self._started >= self.budget

    def _tell(self) -> None:
        if self.progress is not None:
            found = self.found
            self.progress(
                Progress(
                    found.rounds, len(found.trials), found.considered, self._fastest(), found.baseline,
                    self.clock() - self._started, self.budget,
                )
            )  # fmt: skip

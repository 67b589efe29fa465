"""`fixpoint(canonicalize,cse)`: passes in turn until none of them finds anything left to do.

What one pass leaves may be work for another: a merged subtraction has equal operands, a cancelled pair of transposes leaves two
equal products. The passes of a group run one after the other until each of them has said that it changes nothing. One that is
settled by its own account is not asked again unless another has changed something since.

A pass manager unrolls groups: its instruments see the passes inside, one run after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from typing import ClassVar, Final, TypeAlias

from planish.config import current
from planish.errors import PassError
from planish.ptir.function import Program
from planish.ptir.passes.definition import DEFAULT_CONTEXT, Pass, PassContext, PassResult, register
from planish.records import dataclass

Schedule: TypeAlias = Generator[Pass, PassResult, bool]
"""Gives the pass to run next and is sent what it did; in the end, whether anything changed."""
_ROUNDS: Final = 32
"""Real programs take two or three; passes that undo each other would go on for ever."""


@register
@dataclass(frozen=True, slots=True)
class FixpointPass:
    """Run passes in turn until none of them changes anything."""

    name: ClassVar[str] = "fixpoint"

    passes: tuple[Pass, ...] = ()
    max_rounds: int = _ROUNDS
    """Rounds after which it gives up; an error if expensive checks are on, for then passes undo each other."""

    def unrolled(self) -> Schedule:
        """The passes one after the other, as often as they are needed."""
        ever = False
        unchanged = 0
        for _ in range(self.max_rounds):
            for step in self.passes:
                result = yield from _one(step)
                ever |= result.changed
                unchanged = int(result.settled) if result.changed else unchanged + 1
                if unchanged >= len(self.passes):
                    return ever
        if self.passes and current().check in ("expensive", "all"):
            names = ", ".join(step.name for step in self.passes)
            raise PassError(
                f"the passes {names} still change the program after {self.max_rounds} rounds",
                remedy="one of them undoes another",
            )
        return ever

    def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
        statistics: dict[str, int | float] = {}
        functions: dict[str, None] = {}
        schedule = self.unrolled()
        try:
            step = next(schedule)
            while True:
                result = step.run(program, context)
                functions |= dict.fromkeys(result.functions)
                for name, value in result.statistics.items():
                    statistics[f"{step.name}.{name}"] = statistics.get(f"{step.name}.{name}", 0) + value
                step = schedule.send(result)
        except StopIteration as end:
            return PassResult(bool(end.value), statistics, tuple(functions), settled=True)


def _one(step: Pass) -> Generator[Pass, PassResult, PassResult]:
    if isinstance(step, FixpointPass):
        return PassResult((yield from step.unrolled()), settled=True)
    return (yield step)


def unrolled(step: Pass) -> Schedule:
    """The runs of a pass: its own, or those of the passes inside a fixpoint."""
    return (yield from _one(step)).changed


def flat(passes: Iterable[Pass]) -> Iterator[Pass]:
    """Every pass, those inside of fixpoints in place of them."""
    for step in passes:
        if isinstance(step, FixpointPass):
            yield from flat(step.passes)
        else:
            yield step


def mapped(passes: Iterable[Pass], of: Callable[[Pass], Pass]) -> list[Pass]:
    """The same pipeline with other passes, also inside of fixpoints."""
    return [
        replace(step, passes=tuple(mapped(step.passes, of))) if isinstance(step, FixpointPass) else of(step)
        for step in passes
    ]

"""A function at every level on its way to machine code, each made when it is asked for, from the cache where that has it.

    ptir             after the passes                nothing is planned
    plan, uop        kernels as they are planned     no stage runs
    uop:NN           after stage NN                  stages up to NN run
    llir and below   as kernels are compiled         from the compilation cache, or lowered once

What is asked for later is made under the settings of the moment at which the function was given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Final, get_args

from planish import ptir
from planish.compiler import PIPELINE, Executable, Level, Lowered, compile, kept, lower, prepare
from planish.compiler.device_kinds import kind_of
from planish.config import current, settings
from planish.errors import PlanishError
from planish.target import Target
from planish.target import find as find_target

if TYPE_CHECKING:
    from planish.ptir.passes import Passes

_STAGE: Final = "uop:"


class Levels:
    """One function, to be read at any level, or compiled."""

    def __init__(
        self,
        function: ptir.Function | ptir.Program,
        target: str | Target | None = None,
        *,
        passes: Passes | None = PIPELINE,
        donate: Iterable[int] = (),
        device: str = "cpu",
    ) -> None:
        """As `planish.compiler.lower` takes them; a GPU as `device` is the target."""
        self.function = function
        self.passes = passes
        self.donate = frozenset(donate)
        self.device = device
        if device != "cpu":
            kind, number = kind_of(device)
            target = kind.target(number)
        now = current()
        self.target = (
            target if isinstance(target, Target) else find_target(now.target if target is None else target)
        )
        self._settings = settings(**dataclasses.asdict(now))

    def __repr__(self) -> str:
        entry = self.function.entry if isinstance(self.function, ptir.Program) else self.function
        return f"<@{entry.name}, to be lowered for {self.target.name}>"

    @cached_property
    def prepared(self) -> ptir.Function:
        """The function after the passes."""
        with self._settings:
            return prepare(self.function, self.passes, routines=self.target.routines)

    @cached_property
    def lowered(self) -> Lowered:
        """Its kernels in LLIR: those of the compilation cache, or made now."""
        with self._settings:
            lowered = kept(self.function, self.target, self.passes, self.donate)
            if lowered is not None:
                return lowered
            return lower(self.function, self.target, passes=self.passes, donate=self.donate)

    def compile(self) -> Executable:
        """Machine code."""
        with self._settings:
            return compile(
                self.function, self.target, passes=self.passes, donate=self.donate, device=self.device
            )

    def as_text(self, level: str) -> str:
        """The function at a level: ptir, plan, uop, uop:NN (after that stage), schedule, llir; llvm, c or asm; of a GPU cuda, ptx or sass."""
        if level == "ptir":
            return ptir.print(self.prepared)
        with self._settings:
            if level in {"plan", "uop"}:
                from planish.compiler import inspection

                return inspection.planned_text(self.prepared, self.target, self.donate, level)
            if level.startswith(_STAGE):
                return self._after(level.removeprefix(_STAGE))
            if level in get_args(Level):
                return self.lowered.as_text(level)
        raise PlanishError(
            f"unknown level {level!r}", remedy=f"one of {', '.join(get_args(Level))}, or uop:NN"
        )

    def _after(self, number: str) -> str:
        from planish.compiler import inspection
        from planish.compiler.scheduling import FIRST

        if not number.isdecimal():
            raise PlanishError(f"no stage {number!r}", remedy="stages are numbers: uop:14")
        # Before the actions are applied nothing depends on which they are.
        choices = self.lowered.choices if int(number) >= FIRST else None
        return inspection.stage_text(self.prepared, self.target, self.donate, int(number), choices)


__all__ = ["Levels"]

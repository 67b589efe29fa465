"""Who watches compilations: one observer for the process, installed once; the compiler tells it where it stands.

    with observing(recorder): …            everything that is compiled inside

Nobody watches by default: `NOBODY` hears a handful of calls per kernel and does nothing. Single rewrites are not told from here; an
observer that wants them installs a `Trial` of its own around a program (`planish.uop.trial`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from planish.config import current

if TYPE_CHECKING:
    from planish.actions.base import Action
    from planish.compiler import Executable, Lowered
    from planish.compiler.scheduling import ScheduleChoice
    from planish.llir.program import Program as LlirProgram
    from planish.ptir import Function, PassManager, Program
    from planish.schedule.memory import Sharing
    from planish.schedule.origins import Origins
    from planish.schedule.plan import Kernel, Plan
    from planish.stages.pipeline import StageRun
    from planish.target import Target
    from planish.uop.node import UOp

__all__ = ["NOBODY", "CompilationObserver", "install", "observer", "observing"]


class CompilationObserver:
    """Hears what the compiler does; each method does nothing until overridden. An observer changes nothing of it."""

    wants_fresh = False
    """Whether functions are to be compiled even if the cache has them."""

    def program(
        self, function: Function | Program, target: Target, donate: frozenset[int]
    ) -> AbstractContextManager[None]:
        """A function is about to be lowered; what is heard until the end is about it."""
        return nullcontext()

    def passes(self, manager: PassManager) -> PassManager:
        """The pipeline that is about to run, or one like it that is watched."""
        return manager

    def origins(self) -> Origins | None:
        """What is to watch the function being cut into kernels, if anything."""
        return None

    def cut(self, plan: Plan) -> None:
        """It was; launches that nobody needs are still among the others, and all are in their first order."""

    def planned(self, function: Function, plan: Plan, sharing: Sharing) -> None:
        """The function after its passes was cut into kernels."""

    def kernel(self, number: int, kernel: Kernel) -> AbstractContextManager[None]:
        """A kernel is about to be lowered."""
        return nullcontext()

    def stages(self, steps: Iterator[StageRun]) -> Iterator[StageRun]:
        """The stages that a kernel goes through, one by one."""
        return steps

    def choosing(self, sink: UOp, choose: Callable[[UOp], Sequence[Action]]) -> Sequence[Action]:
        """The schedule of a kernel is being chosen."""
        return choose(sink)

    def scheduled(self, choice: ScheduleChoice, program: LlirProgram) -> None:
        """The kernel has a schedule, and is in LLIR."""

    def told(self, number: int) -> bytes:
        """What was heard of a kernel, for the process that this one is a fork of; nothing where it is none."""
        return b""

    def hears(
        self, number: int, kernel: Kernel, told: bytes, choice: ScheduleChoice, program: LlirProgram
    ) -> None:
        """What a fork has told of a kernel that it made."""

    def lowered(self, lowered: Lowered) -> None:
        """All kernels of the function are there."""

    def compiled(self, executable: Executable) -> None:
        """A function has become machine code."""


NOBODY: Final = CompilationObserver()


class _ObserverState:
    __slots__ = ("observer",)

    def __init__(self) -> None:
        self.observer: CompilationObserver | None = None
        """None until somebody asks: then the settings say."""


_state = _ObserverState()


def observer() -> CompilationObserver:
    """Whoever watches."""
    watching = _state.observer
    if watching is None:
        watching = _state.observer = _by_settings()
    return watching


def _by_settings() -> CompilationObserver:
    wanted = current().viz
    if wanted is None or wanted in {"", "0"}:
        return NOBODY
    from planish.viz.process import record_process  # who does not record does not wait for it

    return record_process(wanted)


def install(watching: CompilationObserver) -> CompilationObserver:
    """Have somebody watch from now on; who did before."""
    previous = observer()
    _state.observer = watching
    return previous


@contextmanager
def observing(watching: CompilationObserver) -> Iterator[None]:
    """Have somebody watch what is compiled inside."""
    previous = install(watching)
    try:
        yield
    finally:
        install(previous)

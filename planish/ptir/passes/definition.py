"""What a pass is: a frozen dataclass whose fields are its options, and a kebab-case name that pipelines call it by."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from typing import ClassVar, Final, Protocol, TypeVar, runtime_checkable

from planish.errors import PassError
from planish.ptir.function import Function, Program
from planish.ptir.rewrite.listener import Listener
from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class PassContext:
    """What a run hands to its passes besides the program."""

    listener: Listener | None = None
    """Hears every change made through a rewriter."""
    routines: bool = False
    """Whether the program is for a machine with routines for sorting and its like (`library.hosted`)."""


DEFAULT_CONTEXT: Final = PassContext()


@dataclass(slots=True)
class PassResult:
    """What a pass did."""

    changed: bool = False
    statistics: dict[str, int | float] = field(default_factory=dict)
    """Named counters; patterns appear as `pattern.NAME.hits` and its like."""
    functions: tuple[str, ...] = ()
    """The functions that changed and still exist."""
    settled: bool = field(default=False, compare=False)
    """Whether running it again right away would change nothing: then a fixpoint need not try."""

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {value}" for name, value in self.statistics.items() if "." not in name)
        return f"{'changed' if self.changed else 'unchanged'}{': ' + shown if shown else ''}"


def over_functions(
    program: Program, change: Callable[[Function], int], counter: str, *, settled: bool = False
) -> PassResult:
    """A pass that changes each function by itself, and says how many times."""
    counts = {function: change(function) for function in program}
    changed = [function for function, count in counts.items() if count]
    for function in changed:
        function.version += 1
    names = tuple(function.name for function in changed)
    return PassResult(bool(changed), {counter: sum(counts.values())}, names, settled=settled)


@runtime_checkable
class Pass(Protocol):
    """One transformation of a program; implementations are frozen dataclasses."""

    name: ClassVar[str]

    def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
        """Transform `program` in place."""
        ...


P = TypeVar("P", bound=type[Pass])
PASSES: Final[dict[str, type[Pass]]] = {}


def register(cls: P) -> P:
    """Make a pass known to pipelines, under its name."""
    if not getattr(getattr(cls, "__dataclass_params__", None), "frozen", False):
        raise PassError(f"pass {cls.__name__} is not a frozen dataclass")
    name = getattr(cls, "name", None)
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise PassError(
            f"pass {cls.__name__} is called {name!r}, which is not kebab-case",
            remedy='give it a name: ClassVar[str] = "my-pass"',
        )
    if not callable(getattr(cls, "run", None)):
        raise PassError(
            f"pass {cls.__name__} does not say what it does", remedy="give it run(self, program, context)"
        )
    known = PASSES.get(name)
    # The same class defined once more (a cell of a notebook, a file loaded again) takes the place of the former.
    if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise PassError(f"there is a pass {name!r} already: {known.__module__}.{known.__qualname__}")
    PASSES[name] = cls
    return cls

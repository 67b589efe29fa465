"""Problems of a program: what the verifier found, and the lines it is about with each problem under its line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from planish.errors import Location
from planish.ptir.function import Function, Inst
from planish.ptir.printer import FunctionPrinter
from planish.records import dataclass

_CONTEXT: Final = 2
"""Lines shown around an offending one."""
_MAX_SHOWN: Final = 20
"""Problems shown in windows; the error lists all of them."""


@dataclass(frozen=True, slots=True)
class BrokenInvariant:
    """One broken invariant."""

    rule: str
    message: str
    function: Function | None = None
    inst: Inst | None = None
    """The instruction, or the end of the region, that it is about; None for the function as a whole."""

    @property
    def location(self) -> Location | None:
        if self.inst is not None and self.inst.loc is not None:
            return self.inst.loc
        return None if self.function is None else self.function.loc

    def __str__(self) -> str:
        where = "" if self.function is None else f"@{self.function.name}: "
        what = f"{where}{self.rule}: {self.message}"
        return what if self.location is None else f"{what}; at {self.location}"


def is_tangled(broken: Sequence[BrokenInvariant]) -> bool:
    """Whether a plain walk over the function might not end."""
    return any(problem.rule in ("links", "regions") for problem in broken)


def windows(broken: Sequence[BrokenInvariant]) -> Iterator[str]:
    """For each function with problems, its offending lines with the problems under them."""
    by_function: dict[Function, list[BrokenInvariant]] = {}
    for problem in broken[:_MAX_SHOWN]:
        if problem.function is not None:
            by_function.setdefault(problem.function, []).append(problem)
    for function, its in by_function.items():
        if is_tangled([problem for problem in broken if problem.function is function]):
            continue
        yield _window(function, its)


def _window(function: Function, broken: Sequence[BrokenInvariant]) -> str:
    printer = FunctionPrinter(function, ids=True, lenient=True)
    lines = printer.print()
    under: dict[int, list[str]] = {}
    for problem in broken:
        line = 0 if problem.inst is None else printer.line_of.get(problem.inst, 0)
        under.setdefault(line, []).append(f"{problem.rule}: {problem.message}")
    shown = sorted(
        {n for line in under for n in range(line - _CONTEXT, line + _CONTEXT + 1) if 0 <= n < len(lines)}
    )
    width = len(str(len(lines)))
    text = [f"in @{function.name}:"]
    previous = -1
    for number in shown:
        if number != previous + 1:
            text.append(f"  {'...':>{width}}")
        previous = number
        text.append(f"  {number + 1:>{width}} | {lines[number]}")
        indent = " " * (len(lines[number]) - len(lines[number].lstrip()))
        text += [f"  {' ' * width} | {indent}^ {message}" for message in under.get(number, ())]
    if shown[-1] != len(lines) - 1:
        text.append(f"  {'...':>{width}}")
    return "\n".join(text)

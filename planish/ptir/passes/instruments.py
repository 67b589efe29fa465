"""What can be hung onto a pipeline: verification, dumps, printing, timing.

Each is an `Instrument` of its own and knows nothing of the others. "Changed" is what passes report, never a
comparison of texts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from planish.errors import VerifyError
from planish.filenames import file_name
from planish.ptir.dump import program_text
from planish.ptir.function import Program
from planish.ptir.passes.manager import Instrument, Pass, PassResult, pass_text
from planish.ptir.verify import problems, windows


class VerifyEach(Instrument):
    """Verify the program before the first pass and after each one that changed it.

    All of it, since a change in one function may break a call in another.
    """

    __slots__ = ()

    def before_pass(self, number: int, step: Pass, program: Program) -> None:
        if number == 1:
            self._verify("the input", program)

    def after_pass(
        self, number: int, step: Pass, program: Program, result: PassResult, seconds: float
    ) -> None:
        if result.changed:
            self._verify(f"the output of {pass_text(step)}", program)

    def _verify(self, what: str, program: Program) -> None:
        broken = problems(program)
        if broken:
            error = VerifyError(f"{what} is invalid", [str(problem) for problem in broken])
            for window in windows(broken):
                error.add_note(window)
            raise error


class DumpDir(Instrument):
    """Write the program as numbered files, `000_input.ptir`, then `NNN_pass.ptir` after each change."""

    __slots__ = ("directory",)

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)

    def before_pass(self, number: int, step: Pass, program: Program) -> None:
        if number == 1:
            self._write("000_input", "input", program)

    def after_pass(
        self, number: int, step: Pass, program: Program, result: PassResult, seconds: float
    ) -> None:
        if result.changed:
            self._write(f"{number:03}_{file_name(step.name)}", pass_text(step), program)

    def _write(self, stem: str, title: str, program: Program) -> None:
        path = self.directory / f"{stem}.ptir"
        path.write_text(f"// {title}\n{program_text(program)}", encoding="utf-8")


class PrintChanged(Instrument):
    """Hand the text of the program to `write` after each pass that changed it."""

    __slots__ = ("write",)

    def __init__(self, write: Callable[[str], object]) -> None:
        self.write = write

    def after_pass(
        self, number: int, step: Pass, program: Program, result: PassResult, seconds: float
    ) -> None:
        if result.changed:
            self.write(f"// after {pass_text(step)}\n{program_text(program)}")
        else:
            self.write(f"// {pass_text(step)} changed nothing")


class Timing(Instrument):
    """Add up the time of each pass."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def after_pass(
        self, number: int, step: Pass, program: Program, result: PassResult, seconds: float
    ) -> None:
        self.seconds[step.name] = self.seconds.get(step.name, 0.0) + seconds

    def __str__(self) -> str:
        total = sum(self.seconds.values())
        lines = [f"{'pass':<20} {'ms':>10} {'%':>6}"]
        for name, seconds in sorted(self.seconds.items(), key=lambda item: -item[1]):
            share = 100 * seconds / total if total else 0.0
            lines.append(f"{name:<20} {seconds * 1e3:>10.3f} {share:>6.1f}")
        lines.append(f"{'total':<20} {total * 1e3:>10.3f}")
        return "\n".join(lines)

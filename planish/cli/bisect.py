"""`planish opt --bisect COMMAND`: the pass, and in it the rewrite, after which a command begins to fail.

The command is asked like `git bisect run` asks: exit status 0 means good. It gets the program as a file, whose name
replaces `{}` in the command or is appended to it.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from planish.cli.console import CommandError, UsageError
from planish.cli.watch import diff_lines
from planish.compiler.progress import ProgressLine, report
from planish.ptir import Program, text
from planish.ptir.function import Function
from planish.ptir.passes import Pass
from planish.ptir.passes.bisect import PassCulprit, bisect_passes


class Oracle:
    """Asks a command whether a program is good, and counts."""

    def __init__(self, command: str, folder: Path, *, quiet: bool) -> None:
        try:
            self.words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"cannot read the command {command!r}: {error}") from None
        if not self.words:
            raise UsageError("--bisect needs a command")
        self.path = folder / "program.ptir"
        self.output = subprocess.DEVNULL if quiet else None
        self.asked = 0

    def good(self, program: Program) -> bool:
        self.asked += 1
        report(doing=f"asked {self.asked} times")
        self.path.write_text(text.print(program), encoding="utf-8")
        words = [word.replace("{}", str(self.path)) for word in self.words]
        if words == self.words:
            words.append(str(self.path))
        try:
            # The user's own command, not a text made up here.
            ran = subprocess.run(words, check=False, stdout=subprocess.DEVNULL, stderr=self.output)  # noqa: S603
        except OSError as error:
            raise CommandError(f"cannot run {words[0]}: {error.strerror}") from None
        return ran.returncode == 0


def bisect(program: Program, passes: Sequence[Pass], command: str, *, quiet: bool = True) -> str:
    """A report that names the culprit; `program` is used up."""
    # a command that writes to the terminal itself needs no line
    watched = ProgressLine("bisecting", shown=None if quiet else False)
    with watched, tempfile.TemporaryDirectory(prefix="planish-bisect-") as folder:
        oracle = Oracle(command, Path(folder), quiet=quiet)
        if not oracle.good(program):
            raise CommandError("the command fails on the input already: there is nothing to bisect")
        culprit = bisect_passes(program, passes, oracle.good)
        if culprit is None:
            raise CommandError("the command succeeds on the result too: there is nothing to bisect")
        return "\n".join([str(culprit), *pass_lines(culprit), f"the command was asked {oracle.asked} times"])


def pass_lines(culprit: PassCulprit) -> Iterator[str]:
    """What a pass did wrong: the rewrite, if it is known, and the lines that differ."""
    rewrite = culprit.rewrite
    if rewrite is None:
        yield from _difference(culprit.before, culprit.after)
        return
    what = str(rewrite.step).strip().partition(" ")[2]
    yield f"in @{rewrite.before.name}, rewrite {rewrite.step.number} of {rewrite.steps}: {what}"
    yield from _difference(rewrite.before, rewrite.after)


def _difference(before: Program | Function, after: Program | Function) -> Iterator[str]:
    return diff_lines(text.print(before, ids=True), text.print(after, ids=True), "before", "after")

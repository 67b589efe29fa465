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
from planish.ptir import Program, bisect_rewrites, text
from planish.ptir.function import Function
from planish.ptir.passes import CanonicalizePass, Instrument, Pass, PassManager, PassResult, pass_text


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
        watch = _FirstFailure(oracle, program)
        PassManager(passes, instruments=[watch]).run(program)
        if watch.step is None:
            raise CommandError("the command succeeds on the result too: there is nothing to bisect")
        lines = [f"pass {watch.number} of {watch.ran} breaks it: {pass_text(watch.step)}"]
        if isinstance(watch.step, CanonicalizePass):
            lines += _rewrite(watch.before, watch.step, oracle)
        else:
            lines += _difference(watch.before, watch.after)
        return "\n".join([*lines, f"the command was asked {oracle.asked} times"])


class _FirstFailure(Instrument):
    """Asks the command after every pass that changed something, until it fails."""

    __slots__ = ("after", "before", "number", "oracle", "ran", "step")

    def __init__(self, oracle: Oracle, program: Program) -> None:
        self.oracle = oracle
        self.before = self.after = program
        self.number = self.ran = 0
        self.step: Pass | None = None

    def before_pass(self, number: int, step: Pass, program: Program) -> None:
        if self.step is None:
            self.before = program.clone()

    def after_pass(
        self, number: int, step: Pass, program: Program, result: PassResult, seconds: float
    ) -> None:
        self.ran = number
        if self.step is None and result.changed and not self.oracle.good(program):
            self.step, self.number, self.after = step, number, program.clone()


def _rewrite(program: Program, step: CanonicalizePass, oracle: Oracle) -> list[str]:
    """The rewrite at fault: functions are rewritten one after the other, as the pass does."""
    patterns = step.pattern_set()
    state = program
    for function in program:

        def good(candidate: Function, state: Program = state, name: str = function.name) -> bool:
            others = {**state.functions, name: candidate}
            return oracle.good(Program(others.values(), state.entry_name))

        culprit = bisect_rewrites(function, patterns, good, step.config())
        if culprit is not None:
            what = str(culprit.step).strip().partition(" ")[2]
            headline = f"in @{function.name}, rewrite {culprit.step.number} of {culprit.steps}: {what}"
            return [headline, *_difference(culprit.before, culprit.after)]
        step.run(Program([function]))
    return []


def _difference(before: Program | Function, after: Program | Function) -> Iterator[str]:
    return diff_lines(text.print(before, ids=True), text.print(after, ids=True), "before", "after")

"""Programs in and out: text or JSON, files or the standard streams."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from planish.cli.console import CommandError, CommandParser, Console
from planish.errors import Location, ParseError
from planish.ptir import Program, json, text
from planish.ptir.verify import BrokenInvariant, problems, windows

STDIN: Final = "<stdin>"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """An input as it was read, and what locations call it."""

    name: str
    text: str

    @property
    def is_json(self) -> bool:
        # No program in text form begins with a brace.
        return self.text.lstrip().startswith("{")


def add_file_arguments(
    parser: CommandParser, help: str = "the program; - or nothing: standard input"
) -> None:
    """The input and the output of a command."""
    parser.option("file", "FILE", help, nargs="?", default="-")
    parser.option("-o", "--output", "FILE", "where to write; -: standard output", default="-")


def read_source(path: str, console: Console) -> SourceFile:
    """The contents of a file, or of standard input for `-`."""
    name = STDIN if path == "-" else path
    if path == "-" and sys.stdin.isatty():
        console.say("reading a program from the terminal; end it with Ctrl-D")
    try:
        data = _standard_input() if path == "-" else Path(path).read_bytes()
        contents = data.decode("utf-8-sig")
    except OSError as error:
        raise CommandError(f"cannot read {name}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        remedy = None
        if name.endswith(".onnx"):
            remedy = (
                "it takes PTIR: `planish compile` writes that of a model into its folder, as program.ptir"
            )
        raise CommandError(f"{name} is no text: byte {error.start} is not UTF-8", remedy=remedy) from None
    console.sources[name] = contents
    return SourceFile(name, contents)


def _standard_input() -> bytes:
    binary = getattr(sys.stdin, "buffer", None)
    return sys.stdin.read().encode() if binary is None else bytes(binary.read())


def parse_source(source: SourceFile) -> Program:
    """The program of a source, in either form; errors name the file."""
    if not source.is_json:
        return text.parse(source.text, file=source.name)
    try:
        return json.loads(source.text)
    except ParseError as error:
        lines = source.text.split("\n")
        if error.line is not None and lines[error.line - 1].removesuffix("\r") == error.source_line:
            error.location = Location(source.name, error.line, error.column)
        else:
            # What it points at is a string within the JSON, and its path is in the message.
            error.message = f"{source.name}: {error.message}"
        raise


def check_input(program: Program, console: Console) -> None:
    """Report every invariant that an input breaks, each under its line, and give up."""
    broken = problems(program)
    if not broken:
        return
    for problem in broken:
        console.complain(_described(problem), location=problem.location)
    # Where the lines themselves cannot be shown, the program as it was understood can.
    for window in windows(
        [p for p in broken if p.location is None or p.location.file not in console.sources]
    ):
        console.say(window)
    raise CommandError


def _described(problem: BrokenInvariant) -> str:
    where = "" if problem.function is None else f" (in @{problem.function.name})"
    return f"{problem.rule}: {problem.message}{where}"


def write_output(path: str, contents: str, console: Console, language: str | None = None) -> None:
    """Write the product, only now that all of it is there; on a terminal in the colours of a language."""
    if path == "-":
        console.write_code(contents, language)
        return
    try:
        Path(path).write_text(contents, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from None

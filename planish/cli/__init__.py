"""The command line: `planish run`, `planish compile`, `planish opt`, `planish lower`, `planish bench`, `planish bisect`, `planish cache`, `planish info`.

Standard output carries the product and nothing else; whatever is said about it goes to standard error. The exit
status is 0 on success, 1 when the input or a pass is at fault, 2 when the command line is. Nothing reaches standard
output on failure, and no traceback is shown unless `-v` or the setting `debug` asks for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Final

from planish._version import __version__
from planish.cli.console import Console, UsageError
from planish.errors import did_you_mean

__all__ = ["COMMANDS", "main"]

Run = Callable[[Sequence[str], Console], int]

COMMANDS: Final = {
    "run": "run an ONNX model, or a compiled one",
    "compile": "compile an ONNX model into a folder that runs without it",
    "opt": "rewrite a program with a pipeline of passes",
    "lower": "show a program at a later level: plan, uop, llir, llvm, c, asm",
    "bench": "time a program and its kernels, and search for better schedules",
    "launch": "run a program on several ranks, by mpirun",
    "bisect": "find the stage, and the rule, that makes a program's result wrong",
    "cache": "show or clear what is kept of earlier compilations",
    "info": "versions, machine and settings, as bug reports want them",
}

_HELP: Final = """\
usage: planish [-h] [-V] [-v] COMMAND ...

planish, a tensor compiler in Python

commands:
{commands}

options:
  -h, --help     show this help and exit
  -V, --version  show the version and exit
  -v, --verbose  show tracebacks with errors

`planish COMMAND --help` describes a command.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    console = Console()
    if arguments is None:  # this is the whole program: nobody else wants to hear of warnings
        console.warnings_as_notes()
    return console.guard(lambda: _dispatch(given, console))


def _dispatch(given: Sequence[str], console: Console) -> int:
    for position, word in enumerate(given):
        if word in ("-v", "--verbose"):
            console.verbose = True
        elif word in ("-V", "--version"):
            console.write(f"planish {__version__}\n")
            return 0
        elif word in ("-h", "--help"):
            break
        elif word.startswith("-"):
            raise UsageError(f"there is no option {word!r}", remedy="options of a command come after it")
        else:
            return _command(word)(given[position + 1 :], console)
    width = max(map(len, COMMANDS)) + 2
    listed = "\n".join(f"  {name:<{width}} {summary}" for name, summary in COMMANDS.items())
    console.write(_HELP.format(commands=listed))
    return 0


def _command(name: str) -> Run:
    # Imported when asked for: `planish --version` needs none of it.
    match name:
        case "run":
            from planish.cli import run

            return run.run
        case "compile":
            from planish.cli import compile

            return compile.run
        case "opt":
            from planish.cli import opt

            return opt.run
        case "lower":
            from planish.cli import lower

            return lower.run
        case "bench":
            from planish.cli import bench

            return bench.run
        case "launch":
            from planish.cli import launch

            return launch.run
        case "bisect":
            from planish.cli import stage_bisect

            return stage_bisect.run
        case "cache":
            from planish.cli import cache

            return cache.run
        case "info":
            from planish.cli import info

            return info.run
    close = did_you_mean(name, COMMANDS)
    hint = f"did you mean {close!r}? " if close else ""
    raise UsageError(f"there is no command {name!r}", remedy=f"{hint}valid: {', '.join(COMMANDS)}")

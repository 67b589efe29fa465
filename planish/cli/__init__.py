"""The command line. `COMMANDS` is the table of what there is; a command is a module with `parser()` and `run`.

Standard output carries the product and nothing else; whatever is said about it goes to standard error. The exit
status is 0 on success, 1 when the input or a pass is at fault, 2 when the command line is. Nothing reaches standard
output on failure, and no traceback is shown unless `-v` or the setting `debug` asks for it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Final, cast

from planish._version import __version__
from planish.cli.console import Console, UsageError
from planish.errors import did_you_mean

__all__ = ["COMMANDS", "main", "module_of"]

Run = Callable[[Sequence[str], Console], int]

COMMANDS: Final = {
    "run": "run an ONNX model, a compiled one, or a Python script",
    "compile": "compile an ONNX model into a folder that runs without it",
    "opt": "rewrite a program with a pipeline of passes",
    "lower": "show a program at a later level: plan, uop, llir, llvm, c, asm",
    "bench": "time a program and its kernels, and search for better schedules",
    "launch": "run a program on several ranks, by mpirun",
    "profile": "show which kernels take the time of a call, or write a trace of it",
    "bisect": "find the stage, and the rule, that makes a program's result wrong",
    "viz": "record a compilation and look at it in a page",
    "cache": "show or clear what is kept of earlier compilations",
    "info": "versions, machine and settings, and on request what the machine can do",
    "completion": "the script that lets a shell complete commands, options and their values",
}
_MODULES: Final = {"bisect": "stage_bisect"}
"""The modules that are not called as their command is."""

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
            close = did_you_mean(word, ("--help", "--version", "--verbose"))
            hint = f"did you mean {close}? " if close else ""
            raise UsageError(
                f"there is no option {word!r}", remedy=f"{hint}options of a command come after it"
            )
        else:
            return _command(word)(given[position + 1 :], console)
    width = max(map(len, COMMANDS)) + 2
    listed = "\n".join(f"  {name:<{width}} {summary}" for name, summary in COMMANDS.items())
    console.write(_HELP.format(commands=listed))
    return 0


def _command(name: str) -> Run:
    return cast("Run", module_of(name).run)


def module_of(name: str) -> ModuleType:
    """The module of a command: its `parser()` declares the options, its `run` does the work.

    Imported when asked for: `planish --version` needs none of them.
    """
    if name not in COMMANDS:
        close = did_you_mean(name, COMMANDS)
        hint = f"did you mean {close!r}? " if close else ""
        raise UsageError(f"there is no command {name!r}", remedy=f"{hint}valid: {', '.join(COMMANDS)}")
    return importlib.import_module(f"planish.cli.{_MODULES.get(name, name)}")

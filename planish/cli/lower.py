"""`planish lower`: a program at any level on its way to machine code."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from planish.cli.console import OK, Console, Parser, UsageError
from planish.cli.files import add_file_arguments, check_input, parse_source, read_source, write_output
from planish.cli.pipeline import read_passes, reproducer_directory
from planish.compiler import Lowered, lower
from planish.config import current
from planish.errors import did_you_mean
from planish.ptir import PassManager, text
from planish.ptir.passes import DumpDir

# Kernels are cut from one function, so calls are inlined first.
PIPELINE: Final = "inline,canonicalize,cse,dce"
LEVELS: Final = {"ptir": ".ptir", "uop": ".txt", "llir": ".txt", "llvm": ".ll", "asm": ".s"}
"""Each level with the ending of its files."""

_EPILOG: Final = """\
levels:
  ptir     the program after the pipeline
  uop      the kernels as they are scheduled; uop:NN after stage NN
  llir     loops, addresses, registers
  llvm     LLVM IR before LLVM's own passes
  asm      machine code of the host
"""


def _parser() -> Parser:
    parser = Parser("planish lower", "Lower a program's entry and show it at one level.", _EPILOG)
    add_file_arguments(parser)
    parser.add_argument(
        "--to", metavar="LEVEL", type=_level, required=True, help="ptir, uop, uop:NN, llir, llvm or asm"
    )
    parser.add_argument(
        "-p",
        "--pipeline",
        metavar="TEXT",
        default=PIPELINE,
        help=f"the passes to run before (default: {PIPELINE})",
    )
    parser.add_argument("--entry", metavar="NAME", help="lower this function instead of the program's entry")
    parser.add_argument("--dump-dir", metavar="DIR", help="write every level as a numbered file as well")
    return parser


def _level(word: str) -> str:
    stage = re.fullmatch(r"uop:(\d+)", word)
    if stage is not None:
        return f"uop:{int(stage.group(1))}"
    if word not in LEVELS:
        close = did_you_mean(word, LEVELS)
        hint = f"did you mean {close}? " if close else ""
        raise argparse.ArgumentTypeError(
            f"there is no level {word!r}; {hint}valid: {', '.join(LEVELS)}, uop:NN"
        )
    return word


def run(arguments: Sequence[str], console: Console) -> int:
    """Run the command."""
    args = _parser().parse(arguments, console)
    passes = read_passes(args.pipeline)
    program = parse_source(read_source(args.file, console))
    check_input(program, console)
    if args.entry is not None:
        if args.entry not in program.functions:
            raise UsageError(
                f"there is no function @{args.entry}",
                remedy=f"the program has {', '.join('@' + name for name in program.functions) or 'none'}",
            )
        program.entry_name = args.entry
    directory = args.dump_dir or current().dump_dir
    manager = PassManager(passes, reproducer_dir=reproducer_directory(directory))
    if directory is not None:
        manager.watch(DumpDir(directory))
    manager.run(program)
    if args.to == "ptir" and directory is None:
        # Nothing has to be lowered for it, so it shows programs that cannot be lowered, too.
        write_output(args.output, text.print(program), console)
        return OK
    lowered = lower(program.entry)
    if directory is not None:
        _dump(lowered, Path(directory), len(manager.passes) + 1)
    shown = text.print(program) if args.to == "ptir" else lowered.as_text(args.to)
    write_output(args.output, shown.rstrip("\n") + "\n" if shown else "", console)
    return OK


def _dump(lowered: Lowered, directory: Path, first: int) -> None:
    """Write every level below PTIR, numbered on from the passes."""
    for number, level in enumerate(_levels(lowered), first):
        ending = LEVELS[level.partition(":")[0]]
        path = directory / f"{number:03}_{level.replace(':', '_')}{ending}"
        path.write_text(lowered.as_text(level).rstrip("\n") + "\n", encoding="utf-8")


def _levels(lowered: Lowered) -> Iterator[str]:
    yield "uop"
    kernels = lowered.stages
    for stage, _ in kernels[0][1:] if kernels else ():
        yield f"uop:{stage}"
    yield from ("llir", "llvm", "asm")

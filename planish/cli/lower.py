"""`planish lower`: a program at any level on its way to machine code.

planish lower prog.ptir --to llir
planish lower prog.ptir --to uop:14 --target sm_90
planish lower model.onnx --dim batch=4 --to plan
planish lower mlp.py:forward --args "f32[64, 64], f32[n=1..64, 64]" --to asm
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from planish import compiler
from planish.cli.console import OK, CommandParser, Console, UsageError, examples
from planish.cli.files import add_file_arguments, write_output
from planish.cli.load import add_load_argument, load_files
from planish.cli.pipeline import adjust, read_passes, reproducer_directory
from planish.cli.sources import SOURCE_HELP, add_source_arguments, read_program
from planish.compiler.device_kinds import KINDS
from planish.compiler.layouts import lower as lower_in_layout
from planish.compiler.levels import Levels
from planish.compiler.progress import ProgressLine, report
from planish.compiler.scheduling import schedule_text
from planish.config import current, settings
from planish.errors import did_you_mean
from planish.ptir import PassManager, Program, text
from planish.ptir.passes import DumpDir
from planish.target import TARGETS, Target
from planish.target import find as find_target

LEVELS: Final = {
    "ptir": ".ptir",
    "plan": ".txt",
    "uop": ".txt",
    "schedule": ".txt",
    "llir": ".txt",
    "llvm": ".ll",
    "c": ".c",
    "asm": ".s",
    "cuda": ".cu",
    "ptx": ".ptx",
    "sass": ".sass",
}
"""Each level with the ending of its files."""
_LANGUAGES: Final = {"llvm": "llvm", "c": "c", "asm": "gas", "cuda": "cuda"}
"""What those that highlight code call the languages of levels."""
LAYOUTS: Final = ("row_major", "column_major")

_EPILOG: Final = """\
levels:
  ptir     the program after the pipeline
  plan     which kernels run on which buffers
  uop      the kernels as they are scheduled; uop:NN after stage NN
  schedule what is done to the loops of each kernel, as --schedule reads it
  llir     loops, addresses, registers
  llvm     LLVM IR before LLVM's own passes
  c        C
  asm      machine code of the host
  cuda     CUDA C++, for a GPU such as --target sm_90; ptx and sass: what NVRTC makes of it
"""


def parser() -> CommandParser:
    parser = CommandParser(
        "planish lower",
        "Lower a program's entry and show it at one level.",
        f"{_EPILOG}\n{examples(__doc__)}",
    )
    add_file_arguments(parser, SOURCE_HELP)
    add_source_arguments(parser)
    parser.option("--to", "LEVEL", ", ".join(LEVELS) + " or uop:NN", type=_level, required=True)
    parser.option(
        "-p",
        "--pipeline",
        "TEXT",
        f"the passes to run before (default: {compiler.PIPELINE})",
        default=compiler.PIPELINE,
    )
    add_load_argument(parser)
    add_target_argument(parser)
    parser.add_argument(
        "--layout", choices=LAYOUTS, default="row_major", help="how parameters and results lie in memory"
    )
    parser.option("--vector-width", "N", "lanes per register, or native", type=_width, default="native")
    parser.option(
        "--schedule",
        "FILE",
        "what to do to the loops, in place of what would be chosen; a line [kernel] before each part",
    )
    add_entry_argument(parser)
    parser.option("--dump-dir", "DIR", "write every level and every stage to files as well")
    return parser


def add_target_argument(parser: CommandParser) -> None:
    """`--target T`."""
    parser.option("--target", "T", f"the machine: host, {', '.join(TARGETS)}")


def add_entry_argument(parser: CommandParser) -> None:
    """`--entry NAME`."""
    parser.option("--entry", "NAME", "this function instead of the program's entry")


def enter(program: Program, name: str | None) -> None:
    """Make a function the entry of its program."""
    if name is None:
        return
    if name not in program.functions:
        raise UsageError(
            f"there is no function @{name}",
            remedy=f"the program has {', '.join('@' + known for known in program.functions) or 'none'}",
        )
    program.entry_name = name


def levels() -> list[str]:
    """What `--to` takes, as a shell completes it."""
    return [*LEVELS, *(f"uop:{number}" for number in range(1, 23))]


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


def _width(word: str) -> int | str:
    if word != "native" and not (word.isdigit() and int(word)):
        raise argparse.ArgumentTypeError(f"{word!r} is neither a number of lanes nor native")
    return word if word == "native" else int(word)


def run(arguments: Sequence[str], console: Console) -> int:
    args = parser().parse(arguments, console)
    loaded = load_files(args.load)
    passes = adjust(read_passes(args.pipeline), extra=loaded)
    program = read_program(args, console)
    enter(program, args.entry)
    directory = args.dump_dir or current().dump_dir
    manager = PassManager(passes, reproducer_dir=reproducer_directory(directory))
    if directory is not None:
        manager.watch(DumpDir(directory))
    steps = schedule_text(None if args.schedule is None else Path(args.schedule))
    with (
        ProgressLine(f"lowering @{program.entry.name}"),
        settings(schedule=steps) if steps is not None else nullcontext(),
    ):
        report(doing="passes")
        ran = len(manager.run(program).runs)
        shown = _shown(program, args, directory, ran)
    if args.json:
        record = {"entry": program.entry.name, "level": args.to, "target": _target(args).name, "text": shown}
        shown = json.dumps(record, indent=2) + "\n"
    write_output(args.output, shown, console, "json" if args.json else _LANGUAGES.get(args.to))
    return OK


def _shown(program: Program, args: argparse.Namespace, directory: str | None, ran: int) -> str:
    if directory is None:
        # Only as far as it is asked for, so that programs are shown that cannot be lowered, too.
        shown = text.print(program) if args.to == "ptir" else _levels(program, args).as_text(args.to)
    else:
        with settings(dump_dir=directory):
            lowered = _lowered(program, args)
        _dump(lowered, Path(directory), ran + 1)
        shown = text.print(program) if args.to == "ptir" else lowered.as_text(args.to)
    return shown.rstrip("\n") + "\n" if shown else ""


def _levels(program: Program, args: argparse.Namespace) -> Levels | compiler.Lowered:
    if _is_plain(args):
        return Levels(program, _target(args), passes=None)
    return _lowered(program, args)


def _lowered(program: Program, args: argparse.Namespace) -> compiler.Lowered:
    if _is_plain(args):
        return compiler.lower(program, _target(args), passes=None)
    return lower_in_layout(program.entry, args.layout, args.vector_width, _target(args)).lowered


def _is_plain(args: argparse.Namespace) -> bool:
    return bool(args.layout == "row_major" and args.vector_width == "native")


def _target(args: argparse.Namespace) -> Target:
    return find_target(current().target if args.target is None else args.target)


def _dump(lowered: compiler.Lowered, directory: Path, first: int) -> None:
    """Write what the stages do not, numbered on from the passes; each kernel has a folder with its stages."""
    for number, level in enumerate(("plan", "llir", *KINDS[lowered.target.device].dumped), first):
        path = directory / f"{number:03}_{level}{LEVELS[level]}"
        path.write_text(lowered.as_text(level).rstrip("\n") + "\n", encoding="utf-8")

"""`planish profile`: where the time of a call goes, kernel by kernel, with the lines that asked for it; and as a trace for viewers.

planish profile prog.ptir
planish profile model.onnx --dim batch=8 --trace trace.json         for chrome://tracing and Perfetto
planish profile mlp.py:forward --args "f32[64, 64]" --speedscope profile.json
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from planish import compiler
from planish.cli.console import OK, CommandError, CommandParser, Console, UsageError, examples
from planish.cli.lower import add_entry_argument, enter
from planish.cli.models import random_inputs, read_dims
from planish.cli.recorded import REPEAT, ModelRecorder
from planish.cli.run import open_model
from planish.cli.sources import SOURCE_HELP, add_source_arguments, is_model, read_program
from planish.compiler.profile import Profile
from planish.compiler.progress import ProgressLine
from planish.frontend.devices import CPU, checked


def parser() -> CommandParser:
    parser = CommandParser(
        "planish profile", "Time every launch of a call by itself, on random inputs.", examples(__doc__)
    )
    parser.option("file", "FILE", SOURCE_HELP, nargs="?", default="-")
    add_source_arguments(parser)
    parser.option("--device", "DEVICE", "where it runs: cpu, or cuda, cuda:1", default=CPU)
    parser.option("--repeat", "N", f"the median of so many (default: {REPEAT})", type=int, default=REPEAT)
    parser.add_argument("--seed", type=int, default=0, help="for the random inputs of a model")
    parser.option("--trace", "FILE", "write a trace for chrome://tracing and Perfetto")
    parser.option("--speedscope", "FILE", "write a profile for speedscope")
    add_entry_argument(parser)
    return parser


def run(arguments: Sequence[str], console: Console) -> int:
    args = parser().parse(arguments, console)
    if args.repeat < 1:
        raise UsageError("--repeat is at least 1")
    device = checked(args.device)
    for path in filter(None, (args.trace, args.speedscope)):
        if not Path(path).absolute().parent.is_dir():
            raise CommandError(f"cannot write {path}: there is no such folder")
    if is_model(args.file):
        profile = _of_model(args.file, args, device)
    else:
        program = read_program(args, console)
        enter(program, args.entry)
        with ProgressLine(f"compiling {program.entry.name}"):
            executable = compiler.compile(program, device=device)
        prepared = compiler.prepare(program.entry, compiler.PIPELINE)
        with ProgressLine("timing kernels"):
            profile = executable.profile(repeat=args.repeat, function=prepared)
    console.product(profile.to_dict(), profile.table())
    if args.trace is not None:
        profile.to_chrome(args.trace)
        console.say(f"wrote {args.trace}")
    if args.speedscope is not None:
        profile.to_speedscope(args.speedscope)
        console.say(f"wrote {args.speedscope}")
    return OK


def _of_model(path: str, args: argparse.Namespace, device: str) -> Profile:
    """The function of a model that takes the most time."""
    sizes = read_dims(args.dim)
    model = open_model(path, sizes)
    if device != CPU:
        model.to_device(device)
    recorder = ModelRecorder(device)
    model.make = recorder.make
    with ProgressLine(f"compiling {Path(path).name}"):
        model.run(None, random_inputs(model.inputs, sizes, {}, args.seed))
    with ProgressLine("timing kernels"):
        profiles = [profile for _, profile in recorder.profiles(args.repeat)]
    if not profiles:
        raise CommandError(f"nothing of {path} is compiled: its outputs are constants, or made on the host")
    return max(profiles, key=lambda profile: profile.seconds)

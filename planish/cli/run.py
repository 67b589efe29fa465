"""`planish run`: a model with its inputs and outputs, or a script of Python's.

planish run model.onnx --random --dim batch=4 -o out.npz
planish run model.onnx --input x=image.npy --check-with onnxruntime --profile
planish run out/ --random                                        what `planish compile` wrote; needs no onnx package
planish run --set threads=1 --device cuda script.py --epochs 3   a script, with its own arguments behind it
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from planish.cli import deployment, script
from planish.cli.console import OK, CommandError, CommandParser, Console, UsageError, examples, plural
from planish.cli.models import DimSizes, check_output, random_inputs, read_dims, read_inputs, write_outputs
from planish.cli.outputs import check_with_onnxruntime, described, summary, write_text
from planish.cli.recorded import REPEAT, ModelRecorder, tables
from planish.cli.timeline import TimelineSink
from planish.compiler.progress import ProgressLine, report
from planish.config import current, in_environment
from planish.frontend.devices import CPU, checked
from planish.frontend.nan_check import interpret_without_nan
from planish.ptir import Function
from planish.ptir.trace import FileTraceSink, install_global_sink

if TYPE_CHECKING:
    from planish.onnx import Model

Array = NDArray[Any]


def parser() -> CommandParser:
    parser = CommandParser(
        "planish run",
        "Run an ONNX model, the folder that `planish compile` wrote, or a Python script.",
        examples(__doc__),
    )
    parser.option(
        "model",
        "MODEL",
        "model.onnx, a folder of a compiled model, or script.py with the script's arguments behind it",
    )
    parser.several("-i", "--input", "NAME=FILE", "an input from .npy or .npz:KEY")
    parser.flag("--random", "random arrays for inputs that are not given")
    parser.add_argument("--seed", type=int, default=0, help="for --random")
    parser.several("--dim", "NAME=N", "the size of a named dim, or 1..64")
    parser.option("--device", "DEVICE", "where it runs: cpu (the default for models), or cuda, cuda:1")
    parser.option("-o", "--output", "FILE", "write the outputs to .npz, or one to .npy")
    parser.add_argument(
        "--check-with", choices=("onnxruntime",), help="compare with what another runtime computes"
    )
    parser.flag("--profile", "show the slowest kernels, and the nodes they compute")
    parser.option(
        "--dump-dir", "DIR", "write a trace of the first run there: program, passes, counters, time"
    )
    parser.option(
        "--trace", "FILE", "write what ran when, and the passes before it, for chrome://tracing and Perfetto"
    )
    parser.option(
        "--repeat",
        "N",
        "run so often and show the best time; for --profile, the median of so many",
        type=int,
        default=1,
    )
    return parser


def run(arguments: Sequence[str], console: Console) -> int:
    own, words = script.divide(arguments, parser())
    args = parser().parse(own, console)
    if args.trace is not None and args.dump_dir is not None:
        raise UsageError("--trace and --dump-dir: one at a time")
    if args.trace is not None and not Path(args.trace).absolute().parent.is_dir():
        raise CommandError(f"cannot write {args.trace}: there is no such folder")
    if words is not None:
        return _script(args, words, console)
    sizes = read_dims(args.dim)
    if args.repeat < 1:
        raise UsageError("--repeat is at least 1")
    if Path(args.model).is_dir():
        return _deployed(args, sizes, console)
    model = open_model(args.model, sizes)
    device = checked(args.device or CPU)
    if device != CPU:
        model.to_device(device)
    if current().check == "nan":
        if args.profile or device != CPU:
            raise UsageError(
                "check=nan runs op by op, in the interpreter", remedy="leave out --profile and --device"
            )
        model.make = lambda function: partial(_op_by_op, function)
    recorder = ModelRecorder(device) if args.profile else None
    if recorder is not None:
        model.make = recorder.make
    _tell_ports(model, console)
    check_output(args.output, len(model.outputs))
    feeds = _feeds(args, model.inputs, sizes)
    with ProgressLine(f"compiling {Path(args.model).name}") as progress, _tracing(args, console):
        results = model.run(None, feeds)
        first = progress.seconds
    console.say(f"first run in {first:.2f} s, {plural(model.compilations, 'compilation')}")
    names = [info.name for info in model.outputs]
    record: dict[str, Any] = {"model": args.model, "first_seconds": first, "compilations": model.compilations}
    record["best_seconds"] = _repeat(args.repeat, lambda: model.run(None, feeds), console)
    _finish(args, names, results, record, console)
    if recorder is not None:
        repeat = args.repeat if args.repeat > 1 else REPEAT
        with ProgressLine("timing kernels"):
            profiles = recorder.profiles(repeat)
        record["profiles"] = [profile.to_dict() for _, profile in profiles]
        write_text(console, tables(profiles))
    status = (
        check_with_onnxruntime(args.model, feeds, names, results, record, console) if args.check_with else OK
    )
    if args.json:
        console.product(record, "")
    return status


def _op_by_op(function: Function, *arrays: Array) -> list[Array]:
    return list(interpret_without_nan(function, arrays))


def _script(args: argparse.Namespace, words: Sequence[str], console: Console) -> int:
    for name in ("input", "random", "dim", "output", "check_with", "profile"):
        if getattr(args, name):
            raise UsageError(
                f"--{name.replace('_', '-')} is for models", remedy="a script reads its own arguments"
            )
    if args.repeat != 1 or args.json:
        raise UsageError("a script is run once, and what it writes is its own")
    chosen = {"device": args.device} if args.device is not None else {}
    with in_environment(chosen), _tracing(args, console):
        return script.run_script(args.model, words, console)


@contextmanager
def _tracing(args: argparse.Namespace, console: Console) -> Iterator[None]:
    """The first run leaves its traces in the dump directory or in a file, if there is one."""
    directory = args.dump_dir or current().dump_dir
    if args.trace is None:
        with nullcontext() if directory is None else install_global_sink(FileTraceSink(directory)):
            yield
        return
    timeline = TimelineSink()
    try:
        with install_global_sink(timeline):
            yield
    finally:  # also of what failed
        console.say(f"wrote {args.trace}: {plural(timeline.write(args.trace), 'event')}")


def open_model(path: str, sizes: DimSizes) -> Model:
    """A model from a file; the onnx package is needed for it."""
    try:
        import planish.onnx
    except ModuleNotFoundError as error:
        raise CommandError(
            f"reading {path} needs the package {error.name}", remedy="pip install 'planish[onnx]'"
        ) from None
    if path.endswith((".ptir", ".json")):
        raise CommandError(
            f"{path} is a program, not an ONNX model",
            remedy="`planish bench` runs programs, `planish lower` shows them",
        )
    return planish.onnx.load(path, sizes)


def _deployed(args: argparse.Namespace, sizes: DimSizes, console: Console) -> int:
    if not deployment.is_deployment(args.model):
        raise CommandError(f"{args.model} holds no compiled model", remedy="`planish compile` writes one")
    if args.check_with:
        raise UsageError("--check-with needs the .onnx file")
    if args.device not in (None, CPU):
        raise UsageError(
            "a folder of a compiled model runs on the CPU", remedy="give the .onnx file for --device"
        )
    with ProgressLine(f"loading {args.model}"):
        model = deployment.load(args.model)
    _tell_ports(model, console)
    check_output(args.output, len(model.outputs))
    feeds = _feeds(args, model.inputs, sizes)
    with _tracing(args, console):
        results = model.run(None, feeds)
    record: dict[str, Any] = {"model": args.model, "compilations": 0}
    record["best_seconds"] = _repeat(args.repeat, lambda: model.run(None, feeds), console)
    _finish(args, [port.name for port in model.outputs], results, record, console)
    if args.profile:
        given = [feeds[port.name] for port in model.inputs]
        repeat = args.repeat if args.repeat > 1 else REPEAT
        profile = model.executable.profile(*given, *model.weights, repeat=repeat)
        record["profiles"] = [profile.to_dict()]
        write_text(console, str(profile))
    if args.json:
        console.product(record, "")
    return OK


def _tell_ports(model: Any, console: Console) -> None:
    for port in model.inputs:
        console.say(f"input   {port}")
    for port in model.outputs:
        console.say(f"output  {port}")


def _feeds(args: argparse.Namespace, ports: Sequence[Any], sizes: DimSizes) -> dict[str, Array]:
    given = read_inputs(args.input, ports)
    missing = [str(port) for port in ports if port.name not in given]
    if missing and not args.random:
        raise UsageError(
            f"nothing is given for {', '.join(missing)}", remedy="--input NAME=FILE.npy, or --random"
        )
    return random_inputs(ports, sizes, given, args.seed)


def _repeat(count: int, call: Any, console: Console) -> float | None:
    """The best time of the runs after the first; None if there are none."""
    times: list[float] = []
    with ProgressLine("running", counted="runs"):
        for _ in range(count - 1):
            report(len(times), count - 1)
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
    if times:
        console.say(f"best of {len(times)} more: {min(times) * 1e3:.3f} ms")
    return min(times, default=None)


def _finish(
    args: argparse.Namespace,
    names: Sequence[str],
    results: Sequence[Any],
    record: dict[str, Any],
    console: Console,
) -> None:
    record["outputs"] = {name: described(value) for name, value in zip(names, results, strict=True)}
    for name, value in zip(names, results, strict=True):
        write_text(console, f"{name}: {summary(value)}\n")
    if args.output is not None:
        write_outputs(args.output, names, results)
        console.say(f"wrote {args.output}")

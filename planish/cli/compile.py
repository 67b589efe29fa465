"""`planish compile`: an ONNX model as a folder that runs without it.

planish compile model.onnx -o out/ --dim batch=1..64
planish run out/ --random --dim batch=8
cc main.c -Iout -Lout -lplanish -Wl,-rpath,out          a program in C that runs it (out/planish.h)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from planish.cli import deployment
from planish.cli.cache import size
from planish.cli.console import OK, CommandError, CommandParser, Console, UsageError, examples
from planish.cli.models import read_dims
from planish.cli.run import open_model
from planish.compiler.progress import ProgressLine
from planish.config import settings
from planish.runtime.processors import LEVELS


def parser() -> CommandParser:
    parser = CommandParser(
        "planish compile",
        "Compile an ONNX model into a folder: program, weights, machine code.",
        examples(__doc__),
    )
    parser.option("model", "MODEL", "model.onnx")
    parser.option("-o", "--output", "DIR", "the folder to write", required=True)
    parser.several("--dim", "NAME=N", "the size of a named dim, or 1..64")
    parser.several("--shape", "NAME=AxB", "the shape of an input")
    parser.option("--target", "NAME", f"the processor: host, {', '.join(LEVELS)}", default="host")
    return parser


def run(arguments: Sequence[str], console: Console) -> int:
    args = parser().parse(arguments, console)
    folder = Path(args.output)
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{folder} is no folder")
    if folder.is_dir() and any(folder.iterdir()) and not deployment.is_deployment(args.output):
        raise CommandError(f"{folder} holds something else", remedy="name an empty folder, or a new one")
    model = open_model(args.model, read_dims(args.dim))
    shapes = _shapes(args.shape)
    known = [info.name for info in model.inputs]
    for name in shapes:
        if name not in known:
            raise UsageError(
                f"the model has no input {name!r}", remedy=f"it has {', '.join(known) or 'none'}"
            )
    with ProgressLine(f"compiling {Path(args.model).name}") as progress:
        program = model.program(shapes)
        inputs = [
            deployment.Port(info.name, info.dtype, _dims(info, shapes, model.dims)) for info in model.inputs
        ]
        outputs = [deployment.Port(info.name, info.dtype, info.dims) for info in model.outputs]
        with settings(target=args.target):
            saved = deployment.save(folder, program.function, program.weights, inputs, outputs)
        took = progress.seconds
    if args.json:
        console.product(_record(folder, took, inputs, outputs, saved), "")
    console.say(f"wrote {folder} in {took:.1f} s: {len(program.weights)} weights, {size(saved.weights)}")
    if saved.only_python:
        console.say(f"note: it runs from Python alone, not from C: {saved.only_python}")
    return OK


def _record(
    folder: Path,
    seconds: float,
    inputs: Sequence[deployment.Port],
    outputs: Sequence[deployment.Port],
    saved: deployment.Saved,
) -> dict[str, object]:
    ports = {"inputs": inputs, "outputs": outputs}
    return {
        "folder": str(folder), "seconds": seconds, "weight_bytes": saved.weights, "runs_from_c": not saved.only_python,
        **{which: [{"name": p.name, "dtype": p.dtype, "dims": p.dims} for p in each] for which, each in ports.items()},
    }  # fmt: skip


def _shapes(words: Sequence[str]) -> dict[str, list[int]]:
    shapes = {}
    for word in words:
        name, equals, text = word.rpartition("=")
        if not equals or not all(part.isdigit() for part in text.split("x")):
            raise UsageError(f"{word!r} is no shape", remedy="write NAME=1x3x224x224")
        shapes[name] = [int(part) for part in text.split("x")]
    return shapes


def _dims(info: Any, shapes: dict[str, list[int]], known: Any) -> tuple[int | str | None, ...] | None:
    """Dims with their sizes; those with bounds keep their names."""
    if info.name in shapes:
        return tuple(shapes[info.name])
    if info.dims is None:
        return None
    return tuple(known[d] if isinstance(d, str) and isinstance(known.get(d), int) else d for d in info.dims)

"""`planish viz`: record a compilation and look at it.

planish viz script.py --epochs 1        run a script, then open a page of what it compiled
planish viz model.onnx                  compile a model
planish viz prog.ptir --export out.html write the page to one file that can be mailed
planish viz old.planish new.planish     two recordings side by side
"""

from __future__ import annotations

import argparse
import runpy
import sys
import traceback
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from planish.cli.console import FAILED, OK, CommandError, Console, Options, UsageError, examples
from planish.errors import PlanishError

if TYPE_CHECKING:
    from planish.viz.recording import Documents

_WHAT: Final = "script.py, model.onnx, prog.ptir, a recording (.planish), or a folder that --dump-dir wrote"


def parser() -> Options:
    """The options."""
    made = Options("planish viz", "Record a compilation and look at it.", examples(__doc__))
    made.add_argument("source", metavar="WHAT", help=_WHAT)
    made.add_argument(
        "other",
        nargs="?",
        metavar="B",
        help="a second one, to be compared (not behind a script: words there are its own)",
    )
    made.add_argument("--export", metavar="FILE.html", help="write a page of one file instead of serving one")
    made.add_argument("--save", metavar="FILE.planish", help="keep the recording, to be opened later")
    made.add_argument("--no-open", action="store_true", help="print the address, open no browser")
    made.add_argument(
        "--port", type=_port, default=0, metavar="N", help="listen there (default: a free port)"
    )
    made.add_argument(
        "--dim", metavar="NAME=N", action="append", default=[], help="the size of a named dim of a model"
    )
    made.add_argument("--no-serve", action="store_true", help="record, save and export, and end")
    return made


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port")
    return int(text)


def run(arguments: Sequence[str], console: Console) -> int:
    """Run the command."""
    options = parser()
    own, words = _divided(arguments, options)
    args = options.parse(own, console)
    recording, status = opened(args.source, words, args.dim, console)
    if args.other is not None:
        from planish.viz.recording import Comparison

        second, failed = opened(args.other, [], args.dim, console)
        recording, status = Comparison(recording, second), status or failed
    if not recording.index.programs:
        console.say_labelled("note", f"{args.source} compiled nothing: there is nothing to see but that")
    if args.save is not None:
        _save(recording, Path(args.save), console)
    if args.export is not None:
        from planish.viz.export import export

        export(recording, Path(args.export))
        console.say(f"written to {args.export}")
    elif not args.no_serve:
        from planish.viz.server import serve

        serve(recording, args.port, lambda url: _show(url, console, browse=not args.no_open))
    return status


def _divided(arguments: Sequence[str], options: Options) -> tuple[list[str], list[str]]:
    """Our words, and those behind a script: they are its own."""
    valued = {word for action in options._actions if action.nargs != 0 for word in action.option_strings}
    skip = False
    for position, word in enumerate(arguments):
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = word in valued
        elif word.endswith(".py"):
            return list(arguments[: position + 1]), list(arguments[position + 1 :])
        else:
            break
    return list(arguments), []


def _save(recording: Documents, path: Path, console: Console) -> None:
    from planish.viz.recording import Recording

    if not isinstance(recording, Recording):
        raise UsageError(
            "--save keeps a recording that is made now", remedy="give a script, a model or a program"
        )
    recording.save(path)
    console.say(f"kept as {path}")


def _show(url: str, console: Console, *, browse: bool) -> None:
    console.say(f"open {url}\n(Ctrl-C ends it)")
    if browse:
        webbrowser.open(url)


# -- what is looked at -------------------------------------------------------------------------------------------------


def opened(source: str, words: Sequence[str], dims: Sequence[str], console: Console) -> tuple[Documents, int]:
    """The recording of something, and the exit status: that of a script."""
    path = Path(source)
    if path.is_dir():
        from planish.viz.dumps import DumpedRecording

        return DumpedRecording(path), OK
    if not path.exists():
        raise CommandError(f"cannot open {source}: there is no such file", remedy=f"give {_WHAT}")
    from planish.viz.storage import StoredRecording, is_recording

    if is_recording(path):
        return StoredRecording(path), OK
    return _recorded(path, words, dims, console)


def _recorded(
    path: Path, words: Sequence[str], dims: Sequence[str], console: Console
) -> tuple[Documents, int]:
    from planish.compiler.observer import observing
    from planish.viz.recorder import Recorder
    from planish.viz.recording import Recording

    recorder, error, status = Recorder(), "", OK
    try:
        with observing(recorder):
            if path.suffix == ".py":
                status = _run_script(path, words, console)
            elif path.suffix == ".onnx":
                _run_model(path, dims)
            else:
                _compile_program(path, console)
    except _ScriptFailed as failed:
        error, status = failed.told, FAILED
        console.say(error)
        console.say_labelled("note", "recorded until there")
    command = " ".join(["planish viz", str(path), *words])
    return Recording(recorder, path.name, command, error), status


class _ScriptFailed(Exception):
    """A script raised: its traceback."""

    def __init__(self, told: str) -> None:
        super().__init__(told)
        self.told = told


def _run_script(path: Path, words: Sequence[str], console: Console) -> int:
    with _as_program(path, words):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as stop:
            if stop.code is None or isinstance(stop.code, int):
                return stop.code or OK
            console.say(str(stop.code))
            return FAILED
        except Exception as error:
            raise _ScriptFailed(_told(error, path)) from error
    return OK


@contextmanager
def _as_program(path: Path, words: Sequence[str]) -> Iterator[None]:
    """What a program finds in `sys` when Python starts it."""
    arguments, paths = sys.argv, list(sys.path)
    sys.argv = [str(path), *words]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = arguments, paths


def _told(error: Exception, path: Path) -> str:
    """The traceback of a script, from its own first line on."""
    found = error.__traceback__
    while found is not None and found.tb_frame.f_code.co_filename != str(path):
        found = found.tb_next
    shown = error.with_traceback(found or error.__traceback__)
    return "".join(traceback.format_exception(shown)).rstrip("\n")


def _run_model(path: Path, dims: Sequence[str]) -> None:
    from planish.cli.models import random_inputs, read_dims
    from planish.cli.run import open_model

    sizes = read_dims(dims)
    model = open_model(str(path), sizes)
    model.run(None, random_inputs(model.inputs, sizes, {}, 0))


def _compile_program(path: Path, console: Console) -> None:
    from planish import compiler
    from planish.cli.files import check_input, parse_source, read_source

    program = parse_source(read_source(str(path), console))
    check_input(program, console)
    try:
        made = compiler.compile(program)
    except PlanishError as error:
        raise _ScriptFailed(str(error)) from error
    from planish.compiler.profile import made_up

    if made.native is not None:
        made(*made_up(made))

"""`planish viz`: record a compilation and look at it.

planish viz script.py                      run a script (its own words behind --), then open a page of what it compiled
planish viz model.onnx                     compile a model
planish viz prog.ptir --export out.html    write the page to one file that can be mailed
planish viz old.planish new.planish        two recordings side by side
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import webbrowser
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from planish import compiler
from planish.cli.console import FAILED, OK, CommandError, CommandParser, Console, UsageError, examples
from planish.cli.models import random_inputs, read_dims
from planish.cli.script import divide, run_script
from planish.cli.sources import add_source_arguments, is_function, is_model, read_program
from planish.compiler.observer import observing
from planish.compiler.profile import made_up
from planish.compiler.progress import ProgressLine
from planish.config import current
from planish.errors import PlanishError
from planish.target import find as find_target
from planish.viz.documents import plain
from planish.viz.machine import keep
from planish.viz.recorder import Recorder
from planish.viz.recording import Comparison, Documents, Recording
from planish.viz.storage import SUFFIX, StoredRecording, is_recording

_WHAT: Final = "script.py, model.onnx, prog.ptir, MODULE:FUNCTION with --args, a recording (.planish), or a folder that --dump-dir wrote"


def parser() -> CommandParser:
    parser = CommandParser("planish viz", "Record a compilation and look at it.", examples(__doc__))
    parser.option("source", "WHAT", _WHAT)
    parser.option(
        "other",
        "B",
        "a second one, to be compared (not behind a script: words that are no options of viz are its own)",
        nargs="?",
    )
    parser.option("--export", "FILE.html", "write a page of one file instead of serving one")
    parser.option("--save", "FILE.planish", "keep the recording, to be opened later")
    parser.flag("--no-open", "print the address, open no browser")
    parser.option("--port", "N", "listen there (default: a free port)", type=_port, default=0)
    add_source_arguments(parser)
    parser.flag("--measure", "measure first what the machine can do, for the roofline (ten seconds)")
    parser.flag("--no-serve", "record, save and export, and end")
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port")
    return int(text)


def run(arguments: Sequence[str], console: Console) -> int:
    options = parser()
    own, words = divided(arguments, options)
    args = options.parse(own, console)
    if args.measure:
        with ProgressLine("measuring this machine", counted="rates"):
            keep(measured())
    recording, status = opened(args, args.source, words, console)
    if args.other is not None:
        second, failed = opened(args, args.other, (), console)
        recording, status = Comparison(recording, second), status or failed
    if not recording.index.programs:
        console.say_labelled("note", f"{args.source} compiled nothing: there is nothing to see but that")
    if args.save is not None:
        _save(recording, Path(args.save), console)
    if args.export is not None:
        from planish.viz.export import export

        with ProgressLine(f"writing {args.export}", counted="documents"):
            export(recording, Path(args.export))
        console.say(f"written to {args.export}")
    if (
        args.json
    ):  # for those who read it by program: all other documents are in what --save and --export write
        console.write(json.dumps(plain(recording.index), indent=1) + "\n")
    elif args.export is None and not args.no_serve:
        from planish.viz.server import serve

        serve(recording, args.port, lambda url: _show(url, console, browse=not args.no_open), measured)
    return status


def measured() -> dict[str, Any]:
    """What every device can do."""
    from planish.cli.capability import measure

    return measure()


def divided(arguments: Sequence[str], options: CommandParser) -> tuple[list[str], list[str]]:
    """Our words, and those of a script: what we do not know behind its name, and all behind `--`."""
    own, rest = divide(arguments, options)
    words: list[str] = []
    given = iter(rest or ())
    for word in given:
        action = options._option_string_actions.get(word.partition("=")[0]) if word.startswith("-") else None
        if word == "--":
            words += given
        elif action is None:
            words.append(word)
        elif action.nargs == 0 or "=" in word:
            own.append(word)
        else:
            own += [word, *islice(given, 1)]
    return own, words


def _save(recording: Documents, path: Path, console: Console) -> None:
    if not isinstance(recording, Recording):
        raise UsageError(
            "--save keeps a recording that is made now", remedy="give a script, a model or a program"
        )
    with ProgressLine(f"writing {path}"):
        recording.save(path)
    console.say(f"kept as {path}")


def _show(url: str, console: Console, *, browse: bool) -> None:
    console.say(f"open {url}\n(Ctrl-C ends it)")
    sys.stderr.flush()  # whoever reads it from a pipe waits for it
    if browse and _has_display():
        webbrowser.open(url)


def _has_display() -> bool:
    """Whether a browser would be seen: one in a terminal could not show the page."""
    return sys.platform in {"darwin", "win32"} or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))


# -- what is looked at -------------------------------------------------------------------------------------------------


def opened(
    args: argparse.Namespace, source: str, words: Sequence[str], console: Console
) -> tuple[Documents, int]:
    """The recording of something, and the exit status: that of a script."""
    path = Path(source)
    if path.is_dir():
        from planish.viz.dumps import DumpedRecording

        return DumpedRecording(path), OK
    if not path.exists() and not is_function(source):
        raise CommandError(f"cannot open {source}: there is no such file", remedy=f"give {_WHAT}")
    if path.suffix == SUFFIX or (path.is_file() and is_recording(path)):
        return StoredRecording(path), OK
    return _recorded(args, source, words, console)


def _recorded(
    args: argparse.Namespace, source: str, words: Sequence[str], console: Console
) -> tuple[Documents, int]:
    """What is compiled now, until the end or an error."""
    recorder, errors, status = Recorder(), list[str](), OK
    with observing(recorder):
        if source.endswith(".py"):
            status = run_script(source, words, console, errors.append)
        elif is_model(source):
            _run_model(source, args.dim)
        else:
            status = _compile(args, source, console, errors)
    for told in errors:
        console.say(told)
        console.say_labelled("note", "recorded until there")
    command = " ".join(["planish viz", source, *words])
    return Recording(recorder, Path(source).name, command, "\n".join(errors)), status


def _run_model(path: str, dims: Sequence[str]) -> None:
    from planish.cli.run import open_model

    sizes = read_dims(dims)
    model = open_model(path, sizes)
    model.run(None, random_inputs(model.inputs, sizes, {}, 0))


def _compile(args: argparse.Namespace, source: str, console: Console, errors: list[str]) -> int:
    """A program as text, or a function: compiled, and called once with made-up arrays."""
    program = read_program(argparse.Namespace(**{**vars(args), "file": source}), console)
    try:
        if find_target(current().target).is_gpu:  # to be looked at, it needs none
            compiler.lower(program)
            return OK
        executable = compiler.compile(program)
        executable(*made_up(executable))
    except PlanishError as error:
        errors.append(str(error))
        return FAILED
    return OK

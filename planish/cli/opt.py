"""`planish opt`: read a program, run a pipeline of passes over it, write it."""

from __future__ import annotations

import argparse
import json as builtin_json
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final, TypeVar

from planish.cli.bisect import bisect
from planish.cli.console import OK, CommandError, CommandParser, Console, OptionGroup, UsageError
from planish.cli.explain import explanation
from planish.cli.files import (
    SourceFile,
    add_file_arguments,
    check_input,
    parse_source,
    read_source,
    write_output,
)
from planish.cli.load import add_load_argument, load_files
from planish.cli.pipeline import (
    adjust,
    passes_record,
    passes_text,
    patterns_record,
    patterns_text,
    read_passes,
    reproducer_directory,
)
from planish.cli.watch import DiffChanged, StepInstrument, StepPrinter, statistics_text, timing_text
from planish.compiler.progress import ProgressLine, report
from planish.config import current
from planish.errors import ParseError, VerifyError
from planish.ptir import Pass, PassManager, Program, json, text
from planish.ptir.passes import DEFAULT_PIPELINE, DumpDir, PrintChanged, VerifyEach
from planish.ptir.rewrite.reproducer import Reproducer, read_reproducer
from planish.ptir.verify import verify

T = TypeVar("T")

_EPILOG: Final = f"""\
Without -p the pipeline is {DEFAULT_PIPELINE}, or the one a reproducer names in its line `// run: ...`.

examples:
  planish opt prog.ptir
  planish opt prog.ptir -p "canonicalize{{max-iterations=3}},cse,dce" --stats
  planish opt prog.ptir --load my_passes.py -p "my-pass,canonicalize"
  planish opt prog.ptir --explain %3 FoldTransposeOfTranspose
  planish opt prog.ptir --bisect "python check.py {{}}"
"""


def parser() -> CommandParser:
    parser = CommandParser(
        "planish opt",
        "Run a pipeline of passes over a program (PTIR, as text or JSON).",
        _EPILOG,
        json="write JSON (as input it is recognised by itself)",
    )
    add_file_arguments(parser)
    parser.option("-p", "--pipeline", "TEXT", f"the passes to run (default: {DEFAULT_PIPELINE})")
    parser.option("--run-reproducer", "FILE", "run a reproducer; it must name its pipeline")
    add_load_argument(parser)
    parser.flag("--list-passes", "list all passes with their options and exit")
    parser.flag("--list-patterns", "list all canonicalisation patterns and exit")

    group = OptionGroup(parser, "output")
    group.flag("--locations", "write where each instruction comes from")
    group.flag("--ids", "call unnamed values by their ids, as --log-steps does")

    group = OptionGroup(parser, "watching (on standard error)")
    group.flag("--stats", "counters per pass; tries, hits and time per pattern")
    group.flag("--timing", "time per phase and pass")
    group.flag("--log-steps", "every rewrite, fold and removal as it happens")
    group.option(
        "--print-changed",
        "ir|diff",
        "the program after each pass that changed it (the default), or --print-changed=diff",
        choices=("ir", "diff"),
    )
    group.option("--dump-dir", "DIR", "the same as numbered files: 000_input.ptir, 001_...")

    group = OptionGroup(parser, "checking")
    group.flag("--verify-each", "verify what each pass changed")
    group.flag("--no-verify", "verify neither the input nor the result")
    group.flag("--expensive-checks", "hold every pattern to its word")
    group.option("--reproducer-dir", "DIR", "where a failing pass leaves its reproducer")
    group.flag("--no-reproducer", "write none (and keep no copy for it)")

    group = OptionGroup(parser, "finding out")
    group.several("--disable-pattern", "NAME", "repeatable")
    group.several("--enable-pattern", "NAME", "only these; repeatable")
    group.option("--max-rewrites", "N", "stop after N rewrites per function", type=_count)
    group.add_argument(
        "--explain",
        nargs=2,
        metavar=("INST", "PATTERN"),
        action="append",
        default=[],
        help="why PATTERN (or `all`) fires or not at INST of the input: %%name, #id or :line",
    )
    group.option(
        "--bisect", "COMMAND", "find the rewrite that makes COMMAND fail on the program in the file {}"
    )
    return parser


def _count(word: str) -> int:
    if not word.isdecimal():
        raise argparse.ArgumentTypeError(f"{word!r} is not a number of rewrites")
    return int(word)


def run(arguments: Sequence[str], console: Console) -> int:
    # The value of this option is optional and must not swallow the file after it, as argparse would let it.
    spelled = ["--print-changed=ir" if word == "--print-changed" else word for word in arguments]
    args = parser().parse(spelled, console)
    args.loaded = load_files(args.load)
    if args.list_passes or args.list_patterns:
        return _list(args, console)
    if args.run_reproducer is not None and args.file != "-":
        raise UsageError("--run-reproducer names the input: there cannot be another")
    if (args.explain or args.bisect) and (args.stats or args.timing):
        raise UsageError("--explain and --bisect write a report, not a program")
    if args.explain and (args.pipeline is not None or args.bisect):
        raise UsageError("--explain looks at the input and runs nothing", remedy="run the pipeline first")
    passes = None if args.pipeline is None else _adjusted(read_passes(args.pipeline), args)

    clock = _Clock()
    source = read_source(args.run_reproducer or args.file, console)
    reproducer = _reproducer(source, required=args.run_reproducer is not None)
    if passes is None:
        passes = _adjusted(_default_passes(source, reproducer), args)
    program = clock.time("parse", lambda: parse_source(source))
    if not args.no_verify:
        clock.time("verify", lambda: check_input(program, console))

    if args.explain:
        lines = [explanation(program, source, where, pattern) for where, pattern in args.explain]
        asked = [{"instruction": where, "pattern": pattern} for where, pattern in args.explain]
        record = [{**each, "explanation": line} for each, line in zip(asked, lines, strict=True)]
        _report(args, record, "\n".join(lines) + "\n", console)
        return OK
    if args.bisect is not None:
        report_text = bisect(program, passes, args.bisect, quiet=not console.verbose)
        _report(args, {"report": report_text.split("\n")}, report_text + "\n", console)
        return OK

    manager = _manager(passes, args, console, verify_each=args.verify_each or reproducer is not None)
    # those who watch every pass write to the terminal themselves
    with ProgressLine("rewriting", shown=False if args.log_steps or args.print_changed else None):
        report(doing=args.run_reproducer or args.file)
        result = manager.run(program)
    clock.phases += [(each.text, each.seconds) for each in result.runs]
    if not args.no_verify:
        clock.time("verify", lambda: _check_result(program))
    written = clock.time("print", lambda: _printed(program, args))
    write_output(args.output, written, console)
    if args.stats:
        console.say(statistics_text(result))
    if args.timing:
        console.say(timing_text(clock.phases))
    return OK


def _list(args: argparse.Namespace, console: Console) -> int:
    """What there is to choose from."""
    listed = [passes_text()] * args.list_passes + [patterns_text()] * args.list_patterns
    record: dict[str, object] = {"passes": passes_record()} if args.list_passes else {}
    record |= {"patterns": patterns_record()} if args.list_patterns else {}
    _report(args, record, "\n".join(listed), console)
    return OK


def _report(args: argparse.Namespace, record: object, shown: str, console: Console) -> None:
    """A product that is no program: text, or the same as data."""
    write_output(args.output, builtin_json.dumps(record, indent=2) + "\n" if args.json else shown, console)


class _Clock:
    """Times the phases of a run."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, float]] = []

    def time(self, name: str, work: Callable[[], T]) -> T:
        start = perf_counter()
        result = work()
        self.phases.append((name, perf_counter() - start))
        return result


def _reproducer(source: SourceFile, *, required: bool) -> Reproducer | None:
    """What a reproducer says; None for any other program."""
    try:
        return read_reproducer(source.text)
    except ParseError as error:
        if required:
            raise CommandError(f"{source.name}: {error.message}") from None
        return None


def _default_passes(source: SourceFile, reproducer: Reproducer | None) -> list[Pass]:
    if reproducer is None:
        return read_passes(DEFAULT_PIPELINE)
    try:
        return read_passes(reproducer.pipeline)
    except UsageError as error:
        # The file is at fault, not the command line.
        raise CommandError(f"{source.name}: {error.message}", remedy=error.remedy) from error


def _adjusted(passes: list[Pass], args: argparse.Namespace) -> list[Pass]:
    return adjust(
        passes,
        extra=args.loaded,
        enable=args.enable_pattern,
        disable=args.disable_pattern,
        max_rewrites=args.max_rewrites,
        expensive_checks=args.expensive_checks,
    )


def _manager(
    passes: Sequence[Pass], args: argparse.Namespace, console: Console, *, verify_each: bool
) -> PassManager:
    """The pipeline with whatever the user wants to see of it."""
    dump_dir = args.dump_dir or current().dump_dir
    directory = None if args.no_reproducer else reproducer_directory(args.reproducer_dir or dump_dir)
    manager = PassManager(passes, reproducer_dir=directory)
    # Dumps come first: a program that fails to verify is the one that its user wants to read.
    if dump_dir is not None:
        manager.watch(DumpDir(dump_dir))
    if args.log_steps:
        manager.listener = printer = StepPrinter(console.say)
        manager.watch(StepInstrument(printer))
    if args.print_changed is not None:
        manager.watch(DiffChanged(console) if args.print_changed == "diff" else PrintChanged(console.say))
    if verify_each:
        manager.watch(VerifyEach())
    return manager


def _check_result(program: Program) -> None:
    try:
        verify(program)
    except VerifyError as error:
        error.message = "the result of the pipeline is invalid"
        error.location = None
        error.remedy = "--verify-each finds the pass at fault"
        raise


def _printed(program: Program, args: argparse.Namespace) -> str:
    if args.json:
        return json.dumps(program, indent=2) + "\n"
    return text.print(program, locations=args.locations, ids=args.ids)

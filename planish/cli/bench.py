"""`planish bench`: how fast a program is, kernel by kernel, against what the machine can do; and a search for better schedules.

planish bench prog.ptir                                time, GFLOP/s, GB/s and the share of the measured limit
planish bench model.onnx --dim batch=8 --threads 2     the same for a model, beside runtimes that are installed
planish bench mlp.py:forward --args "f32[64, 64]" --peer torch=mlp.py:forward_torch --plot bench.svg
planish bench prog.ptir --tune --budget 20 --explain   search, show before and after, and why
planish bench --export winners.json                    what searches have found, to be used on machines of this kind
planish bench --import winners.json
planish bench --project overhead --plot overhead.png   a benchmark of the project's own, with its options behind --
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from planish.cli.bench_report import TUNED, UNKNOWN, BenchResult, kernel_rows
from planish.cli.bench_subjects import OURS, BenchWork, Subject, best_of, work_of
from planish.cli.console import OK, CommandError, CommandParser, Console, UsageError, examples, plural
from planish.cli.lower import add_entry_argument
from planish.cli.plots import check_plot, write_plot
from planish.cli.project_benchmarks import known, run_project
from planish.cli.sources import add_source_arguments
from planish.compiler import tuning
from planish.compiler.campaign import Campaign
from planish.compiler.launch_parameters import float_work, touched_bytes
from planish.compiler.progress import ProgressLine, report
from planish.config import current, settings
from planish.dtypes import float32
from planish.errors import PlanishError
from planish.frontend.devices import CPU, checked
from planish.runtime.limits import Meter
from planish.runtime.pool import wanted_threads
from planish.runtime.sandbox import Sandbox
from planish.target import host

_BEAM: Final = 4
"""How many schedules a search keeps if nothing is said."""


def parser() -> CommandParser:
    parser = CommandParser(
        "planish bench", "Time a program and its kernels; search for better schedules.", examples(__doc__)
    )
    parser.option("program", "PROGRAM", "prog.ptir, model.onnx, or MODULE:FUNCTION with --args", nargs="?")
    parser.flag("--tune", "search for schedules, and show before and after")
    parser.option("--beam", "K", f"schedules that a search keeps (default: {_BEAM})", type=int)
    parser.option("--budget", "S", "seconds of search for each kernel", type=int)
    parser.option("--total", "S", "seconds of search for all kernels together", type=int)
    parser.option("--threads", "N", "threads of a call", type=int)
    parser.option("--device", "DEVICE", "where it runs: cpu, or cuda, cuda:1", default=CPU)
    add_source_arguments(parser)
    parser.several(
        "--peer",
        "KIND=PLACE",
        "a function that computes the same: torch=FILE.py:FUNCTION, jax=… or numpy=…; repeatable",
    )
    parser.flag("--no-peers", "run no other runtime beside")
    parser.option("--plot", "FILE", "draw the figures: .png, .svg, .pdf, or .txt")
    parser.option("--project", "NAME", "run a benchmark of the project's own; `list` names them")
    parser.add_argument("--seed", type=int, default=0, help="for the random inputs")
    parser.flag("--explain", "why each kernel has its schedule")
    parser.option("--export", "FILE", "write what searches have found on this machine to a file")
    parser.option("--import", "FILE", "take winners from a file", dest="import_")
    add_entry_argument(parser)
    return parser


def run(arguments: Sequence[str], console: Console) -> int:
    own, words = _divided(arguments)
    args = parser().parse(own, console)
    check_plot(args.plot)
    if args.project is not None:
        return _project(args, words, console)
    if words:
        raise UsageError("what stands behind -- is for --project")
    for name, least in (("beam", 1), ("budget", 1), ("total", 1), ("threads", 1)):
        value = getattr(args, name)
        if value is not None and value < least:
            raise UsageError(f"--{name} is at least {least}")
    if args.program is None and args.export is None and args.import_ is None:
        raise UsageError("there is nothing to do", remedy="name a program, --export FILE or --import FILE")
    if args.program is None and (args.tune or args.explain):
        raise UsageError("there is no program", remedy="name a .ptir or .onnx file")
    if args.import_ is not None:
        _import(args.import_, console)
    if args.program is not None:
        with settings(
            threads=args.threads or current().threads, beam_budget=args.budget or current().beam_budget
        ):
            measured = _bench(args, console)
        console.product(measured.record(), measured.text())
        if args.plot is not None:
            console.say(f"wrote {write_plot(args.plot, measured.panels())}")
    if args.export is not None:
        _export(args.export, console)
    return OK


def _divided(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What is ours, and what stands behind `--`."""
    at = list(arguments).index("--") if "--" in arguments else len(arguments)
    return list(arguments[:at]), list(arguments[at + 1 :])


def _project(args: argparse.Namespace, words: Sequence[str], console: Console) -> int:
    if args.program is not None:
        raise UsageError("--project names what is run: there cannot be a program, too")
    if args.project == "list":
        listed = known()
        width = max(map(len, listed))
        console.product(listed, "".join(f"{name:<{width}}  {does}\n" for name, does in listed.items()))
        return OK
    rows = run_project(args.project, words, args.plot, console)
    console.product(rows, "")
    return OK


# -- winners ---------------------------------------------------------------------------------------------------------


def _import(path: str, console: Console) -> None:
    try:
        winners = tuning.import_winners(Path(path))
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from None
    except PlanishError as error:
        raise CommandError(f"{path}: {error.message}", remedy=error.remedy) from None
    left = [f"{winners.elsewhere} for other machines"] if winners.elsewhere else []
    left += [f"{winners.outdated} of another version of planish"] if winners.outdated else []
    console.say(f"{winners.usable} winners for this machine imported" + "".join(f", {each}" for each in left))


def _export(path: str, console: Console) -> None:
    try:
        count = tuning.export_winners(Path(path))
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from None
    console.say(f"{count} winners written to {path}")


# -- searches --------------------------------------------------------------------------------------------------------


def _bench_on_gpu(args: argparse.Namespace, work: BenchWork, console: Console) -> BenchResult:
    """Every launch between two events, before a search and after it."""
    with ProgressLine(f"compiling {Path(args.program).name}"), settings(beam=0):
        subject = work.make()
    profiles = [("", executable.profile()) for executable in subject.executables]
    beam = _beam(args)
    if beam:
        with settings(beam=beam), Campaign(args.total or float("inf")):
            subject = work.make()
        _searches(subject, console)
        profiles = [("before", profile) for _, profile in profiles]
        profiles += [("after", executable.profile()) for executable in subject.executables]
    return BenchResult(args.program, profiles=profiles, why=_why(args, subject))


def _beam(args: argparse.Namespace) -> int:
    """How many schedules a search keeps; 0: nobody asked for one."""
    return int(args.beam or current().beam or (_BEAM if args.tune else 0))


def _why(args: argparse.Namespace, subject: Subject) -> str:
    return "\n".join(exe.why() for exe in subject.executables) + "\n" if args.explain else ""


# -- measuring -------------------------------------------------------------------------------------------------------


def _bench(args: argparse.Namespace, console: Console) -> BenchResult:
    args.device = checked(args.device)
    work = work_of(args, console)
    if args.device != CPU:
        return _bench_on_gpu(args, work, console)
    with ProgressLine(f"compiling {Path(args.program).name}"), settings(beam=0):
        plain = work.make()
    beam = _beam(args)
    tuned = None
    if beam:
        with settings(beam=beam), Campaign(args.total or float("inf")):
            tuned = work.make()
    shown = tuned or plain
    with (
        ProgressLine("timing"),
        Sandbox((), wanted_threads(), workers=1, environment={"PLANISH_CACHE": "0"}) as sandbox,
    ):
        report(doing="limits of this machine")
        meter = Meter(sandbox, host().lanes(float32))
        limits = meter.limits()
        console.say(
            f"limits on {plural(wanted_threads(), 'thread')}: {limits.flops / 1e9:.0f} GFLOP/s, "
            f"{limits.bandwidth / 1e9:.1f} GB/s from memory"
        )
        before = _kernels(plain, sandbox)
        after = None if tuned is None else _kernels(tuned, sandbox)
        shares = _shares(shown, after or before, meter)
        if None in shares.values():
            console.say(
                f"{UNKNOWN}: its limit could not be measured: other instructions, or something else ran meanwhile"
            )
        report(doing="whole program")
        sides = {OURS: plain.call} | ({TUNED: tuned.call} if tuned is not None else {})
        whole = best_of(sides | ({} if args.no_peers else work.peers))
    if tuned is not None:
        _searches(tuned, console)
    rows = kernel_rows(shown.executables, before, after, shares)
    return BenchResult(args.program, rows, whole, why=_why(args, shown))


def _searches(subject: Subject, console: Console) -> None:
    for executable in subject.executables:
        lowered = executable.lowered
        for number, program in enumerate(lowered.programs):
            choice = lowered.choice(number)
            search = choice.search
            if search is None:
                console.say(f"{program.name}: {choice.origin}")
                continue
            seen = f"{len(search.trials)} measured of {search.considered}, {search.rounds} rounds, {search.ended}"
            console.say(f"{program.name}: {choice.origin} ({seen})")
            for trial in search.rejected:
                console.say(f"  rejected: {trial}")


def _kernels(subject: Subject, sandbox: Sandbox) -> dict[tuple[int, int], float]:
    """Seconds of one launch of each kernel, on made-up data."""
    seconds: dict[tuple[int, int], float] = {}
    every = sum(len(executable.kernels) for executable in subject.executables)
    for number, executable in enumerate(subject.executables):
        for place, kernel in enumerate(tuning.ready_kernels(executable.lowered)):
            report(len(seconds), every)
            sandbox.use(kernel.places)
            (trial,) = sandbox.time([kernel.kernel])
            seconds[number, place] = trial.seconds
    return seconds


def _shares(
    subject: Subject, seconds: dict[tuple[int, int], float], meter: Meter
) -> dict[tuple[int, int], float | None]:
    """How near each kernel comes to what the machine can do under the same conditions; None if that is not known."""
    shares: dict[tuple[int, int], float | None] = {}
    for (number, place), spent in seconds.items():
        program = subject.executables[number].lowered.programs[place]
        work = float_work(program)
        shares[number, place] = None if work is None else meter.share(work, touched_bytes(program), spent)
    return shares

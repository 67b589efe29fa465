"""`planish bench`: how fast a program is, kernel by kernel, against what the machine can do; and a search for better schedules.

planish bench prog.ptir                                time, GFLOP/s, GB/s and the share of the measured limit
planish bench model.onnx --dim batch=8 --threads 2     the same for a model
planish bench prog.ptir --tune --budget 20 --explain   search, show before and after, and why
planish bench --export winners.json                    what searches have found, to be used on machines of this kind
planish bench --import winners.json
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from planish import compiler, ptir
from planish.cli.console import OK, CommandError, Console, Options, UsageError, examples
from planish.cli.deployment import Port
from planish.cli.files import check_input, parse_source, read_source
from planish.cli.lower import add_entry_argument, enter
from planish.cli.models import random_inputs, read_dims
from planish.cli.run import open_model
from planish.compiler import Executable, tuning
from planish.compiler.campaign import Campaign
from planish.compiler.launch_parameters import float_work, touched_bytes
from planish.compiler.progress import ProgressLine
from planish.config import current, settings
from planish.dtypes import float32
from planish.errors import PlanishError
from planish.frontend.devices import CPU, checked
from planish.runtime.limits import Meter
from planish.runtime.pool import wanted_threads
from planish.runtime.sandbox import Sandbox
from planish.target import host

Array = NDArray[Any]
_BEAM: Final = 4
"""How many schedules a search keeps if nothing is said."""
_UNKNOWN: Final = "–"
_SECONDS: Final = 0.3
"""How long the whole program is run."""


def _parser() -> Options:
    parser = Options(
        "planish bench", "Time a program and its kernels; search for better schedules.", examples(__doc__)
    )
    parser.add_argument("program", nargs="?", metavar="PROGRAM", help="prog.ptir or model.onnx")
    parser.add_argument("--tune", action="store_true", help="search for schedules, and show before and after")
    parser.add_argument(
        "--beam", type=int, metavar="K", help=f"schedules that a search keeps (default: {_BEAM})"
    )
    parser.add_argument("--budget", type=int, metavar="S", help="seconds of search for each kernel")
    parser.add_argument("--total", type=int, metavar="S", help="seconds of search for all kernels together")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of a call")
    parser.add_argument("--device", metavar="DEVICE", default=CPU, help="where it runs: cpu, or cuda, cuda:1")
    parser.add_argument(
        "--dim", metavar="NAME=N", action="append", default=[], help="the size of a named dim"
    )
    parser.add_argument("--seed", type=int, default=0, help="for the random inputs")
    parser.add_argument("--explain", action="store_true", help="why each kernel has its schedule")
    parser.add_argument(
        "--export", metavar="FILE", help="write what searches have found on this machine to a file"
    )
    parser.add_argument("--import", metavar="FILE", dest="import_", help="take winners from a file")
    add_entry_argument(parser)
    return parser


def run(arguments: Sequence[str], console: Console) -> int:
    """Run the command."""
    args = _parser().parse(arguments, console)
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
            _bench(args, console)
    if args.export is not None:
        _export(args.export, console)
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


# -- programs --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Subject:
    """Something compiled that can be called again and again."""

    executables: list[Executable]
    call: Callable[[], object]


def _program(args: argparse.Namespace, console: Console) -> Callable[[], _Subject]:
    """Compiles the program under the settings in force."""
    sizes = read_dims(args.dim)
    if args.program.endswith(".onnx"):

        def model() -> _Subject:
            executables: list[Executable] = []
            opened = open_model(args.program, sizes)

            def make(function: ptir.Function) -> Executable:
                executables.append(compiler.compile(function, device=args.device))
                return executables[-1]

            opened.make = make
            feeds = random_inputs(opened.inputs, sizes, {}, args.seed)
            opened.run(None, feeds)
            return _Subject(executables, lambda: opened.run(None, feeds))

        return model
    program = parse_source(read_source(args.program, console))
    check_input(program, console)
    enter(program, args.entry)
    ports = [
        Port(f"argument {n}", type.dtype.numpy.name, tuple(d if isinstance(d, int) else str(d) for d in type.dims))
        for n, type in enumerate(program.entry.param_types)
    ]  # fmt: skip
    arrays = list(random_inputs(ports, sizes, {}, args.seed).values())

    def function() -> _Subject:
        executable = compiler.compile(program, device=args.device)
        executable(*arrays)
        return _Subject([executable], lambda: executable(*arrays))

    return function


def _bench_on_gpu(args: argparse.Namespace, make: Callable[[], _Subject], console: Console) -> None:
    """Every launch between two events, before a search and after it."""
    with ProgressLine(f"compiling {Path(args.program).name}"), settings(beam=0):
        subject = make()
    for executable in subject.executables:
        console.write(executable.profile().table())
    beam = _beam(args)
    if not beam:
        return
    with settings(beam=beam), Campaign(args.total or float("inf")):
        subject = make()
    _searches(subject, console)
    for executable in subject.executables:
        console.write(executable.profile().table())
    if args.explain:
        console.write("\n".join(exe.why() for exe in subject.executables) + "\n")


def _beam(args: argparse.Namespace) -> int:
    """How many schedules a search keeps; 0: nobody asked for one."""
    return int(args.beam or current().beam or (_BEAM if args.tune else 0))


# -- measuring -------------------------------------------------------------------------------------------------------


def _bench(args: argparse.Namespace, console: Console) -> None:
    args.device = checked(args.device)
    make = _program(args, console)
    if args.device != CPU:
        _bench_on_gpu(args, make, console)
        return
    with ProgressLine(f"compiling {Path(args.program).name}"), settings(beam=0):
        plain = make()
    beam = _beam(args)
    tuned = None
    if beam:
        with settings(beam=beam), Campaign(args.total or float("inf")):
            tuned = make()
    with Sandbox((), wanted_threads(), workers=1, environment={"PLANISH_CACHE": "0"}) as sandbox:
        meter = Meter(sandbox, host().lanes(float32))
        limits = meter.limits()
        console.say(
            f"limits on {_plural(wanted_threads(), 'thread')}: {limits.flops / 1e9:.0f} GFLOP/s, "
            f"{limits.bandwidth / 1e9:.1f} GB/s from memory"
        )
        before = _kernels(plain, sandbox)
        after = None if tuned is None else _kernels(tuned, sandbox)
        shares = _shares(plain if tuned is None else tuned, after or before, meter)
    console.write(_table(plain if tuned is None else tuned, before, after, shares))
    if None in shares.values():
        console.say(
            f"{_UNKNOWN}: its limit could not be measured: other instructions, or something else ran meanwhile"
        )
    total = _best(plain.call)
    if tuned is None:
        console.write(f"whole program: {total * 1e3:.3f} ms\n")
    else:
        now = _best(tuned.call)
        console.write(
            f"whole program: {total * 1e3:.3f} ms before, {now * 1e3:.3f} ms after, {total / now:.2f}x\n"
        )
        _searches(tuned, console)
    if args.explain:
        console.write("\n".join(exe.why() for exe in (tuned or plain).executables) + "\n")


def _searches(subject: _Subject, console: Console) -> None:
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


def _kernels(subject: _Subject, sandbox: Sandbox) -> dict[tuple[int, int], float]:
    """Seconds of one launch of each kernel, on made-up data."""
    seconds: dict[tuple[int, int], float] = {}
    for number, executable in enumerate(subject.executables):
        for place, kernel in enumerate(tuning.ready_kernels(executable.lowered)):
            sandbox.use(kernel.places)
            (report,) = sandbox.time([kernel.kernel])
            seconds[number, place] = report.seconds
    return seconds


def _shares(
    subject: _Subject, seconds: dict[tuple[int, int], float], meter: Meter
) -> dict[tuple[int, int], float | None]:
    """How near each kernel comes to what the machine can do under the same conditions; None if that is not known."""
    shares: dict[tuple[int, int], float | None] = {}
    for (number, place), spent in seconds.items():
        program = subject.executables[number].lowered.programs[place]
        work = float_work(program)
        shares[number, place] = None if work is None else meter.share(work, touched_bytes(program), spent)
    return shares


def _best(call: Callable[[], object]) -> float:
    least, until = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < until or least == float("inf"):
        begin = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - begin)
    return least


def _table(
    subject: _Subject,
    before: dict[tuple[int, int], float],
    after: dict[tuple[int, int], float] | None,
    shares: dict[tuple[int, int], float | None],
) -> str:
    rows = []
    for number, executable in enumerate(subject.executables):
        for place, info in enumerate(executable.kernels):
            seconds = (after or before)[number, place]
            was = "" if after is None else f"  {before[number, place] * 1e3:9.4f}"
            same = executable.lowered.choice(place).origin.startswith("heuristic")
            gain = (
                "" if after is None else "    same" if same else f"  {before[number, place] / seconds:5.2f}x"
            )
            share = shares[number, place]
            limit = _UNKNOWN if share is None else f"{share:.0%}"
            nbytes = touched_bytes(info.program)
            rows.append(
                (
                    info.name,
                    (
                        f"{info.launches:5d}{was}  {seconds * 1e3:9.4f}{gain}  {info.flops / seconds / 1e9:8.1f}"
                        f"  {nbytes / seconds / 1e9:7.1f}  {limit:>6}  {info.cost.bound_by}"
                    ),
                )
            )
    width = max([len(name) for name, _ in rows], default=6)
    was = "" if after is None else f"  {'before ms':>9}"
    gain = "" if after is None else "    gain"
    head = f"{'kernel':<{width}}  calls{was}  {'ms':>9}{gain}   GFLOP/s     GB/s   limit  bound by"
    return "\n".join([head, *(f"{name:<{width}}  {rest}" for name, rest in rows)]) + "\n"


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"

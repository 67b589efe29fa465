"""Which schedule a kernel gets: the heuristic's, one that an earlier search found, or one that is searched for now.

With `beam=0` it is the heuristic's. With `beam=k` it is the stored winner for this kernel on this machine; where there is none, a
search (`optimize/beam.py`) is made and its answer stored, unless `deterministic` is set: then the heuristic's is used and
nothing is searched. Candidates run in `runtime/sandbox.py`, each against what the kernel computes without any action.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from planish.actions.base import Action, Refusal, apply_action
from planish.actions.block import Block
from planish.actions.thread import Thread
from planish.compiler.campaign import Tuned, campaign
from planish.compiler.device_kinds import kind_for
from planish.compiler.scheduling import ScheduleChoice, after_choice
from planish.compiler.tolerance import places_of
from planish.config import current
from planish.errors import PlanishError
from planish.llir.program import Address, Buffer, Program, Register, Store
from planish.optimize.beam import Beam
from planish.optimize.searched import Measured, Outcome, Search
from planish.optimize.winners import Imported, Where, Winner, Winners, export, import_file
from planish.runtime.cache import own_cache
from planish.runtime.pool import available_cores, wanted_threads
from planish.runtime.sandbox import CandidateReport, TimedKernel, Trial, TrialBuffer
from planish.schedule.overwriting import in_place
from planish.target import Target
from planish.target import find as find_target
from planish.uop.nest import axes_of, size_of
from planish.uop.nest import name_of as axis_name
from planish.uop.nest.kernel import Nest
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops

if TYPE_CHECKING:
    from planish.compiler import Lowered

CODE_SETTINGS: Final = ("fastmath", "contract", "devectorize", "allow_half8", "disable_stages")
"""Settings that change the code that a list of actions becomes."""
_RULES: Final = (
    "actions", "uop", "stages", "optimize", "llir", "codegen", "compiler/functions.py",
    "compiler/scheduling.py", "target", "dtypes",
)  # fmt: skip
SANDBOX_ENVIRONMENT: Final = {"PLANISH_CACHE": "0", "PLANISH_BEAM": "0"}
"""What a worker is told is complete: its own settings only name the cache."""
_WORTH: Final = 1 << 12
"""Iterations below which a kernel is over before anything could be gained."""
_LONG: Final = 1 << 27
"""Iterations beyond which only a part of the unoptimised kernel is run."""
_CONTEST: Final = 1.6
"""Seconds in which the fastest run in turn."""
_REFERENCE: Final = 120.0
"""Seconds that the unoptimised kernel may take."""


class TuningWarning(UserWarning):
    """Something a search met: it costs nothing but the time it took."""


def choose(sink: UOp, target: Target, plain: ScheduleChoice) -> ScheduleChoice:
    """The schedule of a kernel with `beam` on; `plain` is the heuristic's."""
    settings = current()
    where = place_of(sink, target)
    known = winners().find(where)
    if known is not None and _fits(sink, known.actions, target):
        return _noted(sink, _from_winner(known, plain), plain, known.gain)
    if settings.deterministic or not _is_worth(sink, target):
        return _noted(sink, plain, plain)
    going = campaign()
    budget = going.budget(float(settings.beam_budget))
    if budget is None:
        return _noted(sink, replace(plain, origin="heuristic, no time was left for a search"), plain)
    try:
        outcome = search(sink, target, plain.actions, budget=budget)
    except (PlanishError, OSError) as error:
        reason = str(error).partition("\n")[0]
        warnings.warn(f"no search: {reason}", TuningWarning, stacklevel=2)
        return _noted(sink, plain, plain)
    _warn(outcome)
    if outcome.seconds < float("inf"):
        winners().add(Winner(where, outcome.actions, outcome.seconds, outcome.baseline, name_of(sink)))
    if outcome.actions == plain.actions:
        return _noted(
            sink,
            ScheduleChoice(plain.actions, plain.reasons, "heuristic, not beaten by a search", outcome),
            plain,
        )
    origin = f"search: {outcome.gain:.2f} times as fast as the heuristic's"
    choice = ScheduleChoice(outcome.actions, _shared_reasons(outcome.actions, plain), origin, outcome)
    return _noted(sink, choice, plain, outcome.gain)


def _noted(sink: UOp, choice: ScheduleChoice, plain: ScheduleChoice, gain: float = 1.0) -> ScheduleChoice:
    """The choice, after the campaign heard of it and of the heuristic's."""
    replaced = choice.actions != plain.actions
    seconds = 0.0 if choice.search is None else choice.search.elapsed
    campaign().kernels.append(
        Tuned(name_of(sink), choice.origin, gain if replaced else 1.0, replaced, seconds)
    )
    return choice


def _from_winner(winner: Winner, plain: ScheduleChoice) -> ScheduleChoice:
    if winner.actions == plain.actions:
        return ScheduleChoice(plain.actions, plain.reasons, "heuristic, not beaten by an earlier search")
    origin = f"earlier search: {winner.gain:.2f} times as fast as the heuristic's"
    return ScheduleChoice(winner.actions, _shared_reasons(winner.actions, plain), origin)


def _shared_reasons(actions: Sequence[Action], plain: ScheduleChoice) -> tuple[str, ...]:
    """The reasons of the heuristic for what it would have done as well; of the rest, that it was measured."""
    known = dict(zip(plain.actions, plain.reasons, strict=True))
    return tuple(known.get(action, "measured to be faster") for action in actions)


def _fits(sink: UOp, actions: Sequence[Action], target: Target) -> bool:
    attempt = checked(sink, target)
    for number, action in enumerate(actions):
        after = attempt(sink, action, actions[:number])
        if isinstance(after, str):
            return False
        sink = after
    return True


def _is_worth(sink: UOp, target: Target) -> bool:
    view = Nest.of(sink)
    if not view.writes or view.work < _WORTH:
        return False
    if target.is_gpu and not all(size_of(r) for r in view.ranges):
        return False  # sizes that are told when the code runs are no sizes to measure with
    return kind_for(target).number_for(target) is not None


def _warn(outcome: Search) -> None:
    rejected = outcome.rejected
    if rejected:
        shown = "\n".join(f"  {trial}" for trial in rejected[:4])
        more = f"\n  and {len(rejected) - 4} more" if len(rejected) > 4 else ""
        warnings.warn(
            f"{len(rejected)} candidates of a search were rejected:\n{shown}{more}",
            TuningWarning,
            stacklevel=3,
        )


def name_of(sink: UOp) -> str:
    sizes = [r.vmax + 1 for r in sink.toposort() if r.op is Ops.RANGE]
    kinds = {
        node.arg.name.lower()
        for node in sink.toposort()
        if node.op is Ops.REDUCE and isinstance(node.arg, Ops)
    }
    return f"{' '.join(sorted(kinds)) or 'elementwise'} {'x'.join(map(str, sizes))}"


# -- the store -------------------------------------------------------------------------------------------------------


@cache
def _opened(path: Path | None) -> Winners:
    return Winners(path)


def winners() -> Winners:
    """The winners that the settings name: those in the folder of the cache, or of this process if there is none."""
    kept = own_cache()
    return _opened(kept.folder / "winners.json" if kept.usable else None)


def machine_name(target: Target) -> str:
    """The machine that a winner is for, in words: what was measured on another says nothing here."""
    return kind_for(target).title(target)


@cache
def rules() -> str:
    """The rules that make code of actions: a hash of their text, the same wherever this version is installed."""
    from importlib.metadata import version

    whole = hashlib.blake2b(digest_size=12)
    root = Path(__file__).parent.parent
    for name in _RULES:
        place = root / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            whole.update(f"{path.relative_to(root)}\n".encode())
            whole.update(path.read_bytes())
    whole.update(version("llvmlite").encode())
    return whole.hexdigest()


def place_of(sink: UOp, target: Target) -> Where:
    """What a winner for this kernel is kept under. The number of threads is not part of it: results never depend on that."""
    settings = current()
    chosen = ",".join(f"{name}={getattr(settings, name)}" for name in CODE_SETTINGS)
    return Where(sink.key.hex(), machine_name(target), f"{target.name} {rules()}", chosen)


def export_winners(path: Path) -> int:
    """Write what searches have found, on this machine and others, to a file; how many they are."""
    return export(winners().all(), path)


def import_winners(path: Path) -> Imported:
    """Take the winners of a file."""
    target = find_target(current().target)
    return import_file(path, winners(), machine_name(target), f"{target.name} {rules()}")


@dataclass(frozen=True, slots=True)
class Ready:
    """A kernel of a function, with the parameters that it runs on."""

    places: tuple[TrialBuffer, ...]
    kernel: Trial


def ready_kernels(lowered: Lowered) -> list[Ready]:
    """The kernels of a lowered function, each to be run by itself."""
    ready, kind = [], kind_for(lowered.target)
    for program in lowered.programs:
        written = _written(program)
        places = tuple(
            TrialBuffer(b.name, b.dtype.scalar.numpy.name, max(b.elements, 1), b.name in written)
            for b in program.params
        )
        ready.append(Ready(places, kind.trial(program, places, lowered.target)))
    return ready


def _written(program: Program) -> set[str]:
    bases: dict[Register, str] = {}
    names: set[str] = set()
    for i in program.body:
        if isinstance(i, Address):
            bases[i.result] = i.base.name if isinstance(i.base, Buffer) else bases[i.base]
        elif isinstance(i, Store):
            names.add(bases[i.address])
    return names


# -- searching -------------------------------------------------------------------------------------------------------


def checked(sink: UOp, target: Target) -> Callable[[UOp, Action, Sequence[Action]], UOp | str]:
    """An action tried on a kernel: the kernel after it, or why not."""
    shared = bool(in_place(sink))

    def attempt(kernel: UOp, action: Action, before: Sequence[Action]) -> UOp | str:
        if shared and isinstance(action, Block):
            # the first pass would leave its sums where the last one reads the operand
            return "block: an operand may lie where the outputs are written"
        try:
            return apply_action(kernel, action, target, before)
        except Refusal as refusal:
            return refusal.message

    return attempt


def transplanted(sink: UOp, table: Table) -> UOp:
    """The same graph in another table: what a search makes goes with its own."""
    copies: dict[UOp, UOp] = {}
    for node in sink.toposort():
        copies[node] = table.make(node.op, node.dtype, tuple([copies[s] for s in node.src]), node.arg)
    return copies[sink]


def search(
    sink: UOp,
    target: Target,
    heuristic: Sequence[Action],
    *,
    budget: float | None = None,
    lower: Callable[[UOp, Sequence[Action], Target], Program] = after_choice,
) -> Search:
    """Look for a better schedule than the heuristic's, for so many seconds (by default as the settings say).

    `lower` makes LLIR of a kernel and actions.
    """
    settings = current()
    seconds = float(settings.beam_budget) if budget is None else budget
    threads = wanted_threads()
    with Table() as table, campaign().searching(name_of(sink)) as progress:
        own = transplanted(sink, table)
        places = places_of(own)
        kind = kind_for(target)
        device = kind.number_for(target) if target.is_gpu else None

        def compile(actions: tuple[Action, ...]) -> Trial:
            return kind.trial(lower(own, actions, target), places, target)

        with campaign().sandbox(
            places, threads, workers=min(2, available_cores()), environment=SANDBOX_ENVIRONMENT, device=device
        ) as sandbox:
            # a GPU runs all of an unoptimised kernel, an element for a block
            actions, points = reference_of(own, target) if device is None else ((), ())
            sandbox.remember(compile(actions), _REFERENCE, points)
            if points:
                # one that is not right is met again when the search begins, and told there
                sandbox.extend(compile(tuple(heuristic)), _REFERENCE)

            def measure(kernels: Sequence[Trial], best: float) -> list[Measured]:
                return [_measured(report) for report in sandbox.measure(kernels, best)]

            beam = Beam(
                own, target, checked(own, target), compile, measure,
                lambda kernels: sandbox.contest(kernels, _CONTEST), settings.beam, seconds,
                1 if device is not None else available_cores(), vectors_of if device is None else None, progress,
            )  # fmt: skip
            return beam.search(heuristic)


def vectors_of(kernel: Trial) -> int:
    """The vector registers that code for a CPU wants."""
    return kernel.vectors if isinstance(kernel, TimedKernel) else 0


def reference_of(sink: UOp, target: Target) -> tuple[tuple[Action, ...], tuple[int, ...]]:
    """How the unoptimised kernel is run: without any action; if that takes too long, in pieces, of which some are run."""
    view = Nest.of(sink)
    reads = {place.src[0] for place in view.reads}
    if view.work <= _LONG or any(place.src[0] in reads for place in view.writes):
        return (), ()
    attempt = checked(sink, target)
    for pieces in range(min(target.cores, 64), 1, -1):
        for axis in axes_of(sink):
            action = Thread(axis_name(axis), pieces)
            if axis in view.outputs and isinstance(attempt(sink, action, ()), UOp):
                # the last has the edges, if there are any
                return (action,), tuple(
                    sorted({0, pieces // 2, pieces - 1} if view.work // pieces < _LONG else {0, pieces - 1})
                )
    return (), ()


def _measured(report: CandidateReport) -> Measured:
    return Measured(Outcome[report.what.upper()], report.seconds, report.detail)


__all__ = ["TuningWarning", "choose", "place_of", "rules", "search", "winners"]

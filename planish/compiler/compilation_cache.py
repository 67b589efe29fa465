"""A lowered function in the compilation cache: what a second process needs to run it without lowering anything.

The key is the text of the function, the target, the passes and the settings that change code. The value is the plan and what a
call needs to know of its kernels; behind it, to be read when somebody asks, the function after the passes as text and the
schedules of its kernels. Their LLIR follows from these, and is made once more for whoever wants to see it: writing it would take a
twentieth of all compiling. Object code has entries of its own. All of it is plain data (`plain`): what is no entry of this make is not there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence, Sized
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from planish import ptir
from planish.compiler import plan_json
from planish.compiler.arguments import Arguments
from planish.compiler.observer import observer
from planish.config import Changes, Settings, current, settings
from planish.errors import InternalError, PlanishError
from planish.ptir.dims import bounds
from planish.runtime.cache import disk_cache, key_of
from planish.runtime.grid import GridKernel
from planish.runtime.pool import available_cores
from planish.runtime.processors import processor
from planish.runtime.routines import names, routine_named
from planish.runtime.routines.products import NUMBERS, PARAMETERS
from planish.schedule.memory import Sharing
from planish.schedule.overlap import TICKETS, without_ticket
from planish.schedule.plan import Host, Launch, Plan, ReadyKernel, Role, Rolled, Wait, walk
from planish.target import Target
from planish.target import find as find_target

if TYPE_CHECKING:
    from planish.compiler import Executable, Lowered

__all__ = ["LATER", "disk_cache", "key", "key_of", "load", "revive", "save", "standard_key", "surroundings"]
_RELEVANT: Final = (
    "fastmath", "contract", "winograd", "ready_kernels", "devectorize", "allow_half8", "beam", "deterministic", "schedule",
    "keep_collectives",
)  # fmt: skip
"""Settings that change what is generated."""


_AXES: Final = 3
_MOST_SIZES: Final = 64
"""Variables of one kernel that are tried."""
LATER: Final = ("function", "programs", "choices", "chosen")
"""What of a lowered function only those need who look at it."""
_NOW: Final = {
    "plan": "Plan",
    "sharing": "Sharing",
    "keys": "tuple[str, ...]",
    "scratch": "tuple[int, ...]",
    "variables": "tuple[tuple[str, ...], ...]",
    "calls": "tuple[NativeKernel, ...]",
    "launches": "tuple[GridKernel, ...]",
    "is_plain": "bool",
    "origins": "tuple[int, ...]",
    "rolled": "tuple[Rolled, ...]",
    "kept": "tuple[str, ...]",
    "ready": "tuple[ReadyKernel | None, ...]",
}


def key(
    function: ptir.Function | ptir.Program | str, target: Target, passes: str | None, donate: Iterable[int]
) -> str:
    """Under which a lowered function is kept; of a large one the text, if it is at hand, is quicker than the function."""
    written = function if isinstance(function, str) else ptir.print(function)
    return key_of(
        "lowered", written, str(passes), ",".join(map(str, sorted(donate))), surroundings(target)
    )  # fmt: skip


def surroundings(target: Target | None = None) -> str:
    """What else code follows from: the target (by default that of the settings), the processor, settings."""
    settings = current()
    target = find_target(settings.target) if target is None else target
    chosen = ",".join(f"{name}={getattr(settings, name)}" for name in _RELEVANT)
    if settings.beam:
        from planish.compiler import tuning

        chosen += f",winners={tuning.winners().stamp}"
    made_for = target.arch if target.is_gpu else str(processor(target))
    return f"{target.in_full()} {chosen} {made_for}"


def save(where: str, lowered: Lowered) -> None:
    """Keep it. What has no plain form (a custom call's data) is simply not there next time."""
    cache = disk_cache()
    if not cache.usable:
        return
    from planish.actions.text import print_schedule

    now = {name: (kind, getattr(lowered, name)) for name, kind in _NOW.items()}
    choices = [
        [
            print_schedule(choice.actions),
            choice.reasons,
            choice.origin,
            [[dict(each.bounds), print_schedule(each.actions), each.reasons] for each in choice.versions],
        ]
        for choice in lowered.chosen
    ]
    later = [ptir.print(lowered.function), choices, available_cores()]
    try:
        data = plan_json.pack(now, later)
    except (plan_json.Malformed, InternalError):
        return
    cache.put(where, data)


def load(where: str, function: ptir.Function | ptir.Program, target: Target) -> Lowered | None:
    """What was kept, if it was; nothing for an observer who wants to see it made."""
    raw = None if observer().wants_fresh else disk_cache().get(where)
    if raw is None:
        return None
    return _read(raw, Arguments(function.entry if isinstance(function, ptir.Program) else function), target)


def standard_key(function: ptir.Function | str) -> str:
    """Under which `compile(function)` keeps it, for the target of the settings; a text is that of the function."""
    from planish.compiler import PIPELINE

    return key(function, find_target(current().target), PIPELINE, ())


def revive(where: str, arguments: Arguments) -> Executable | None:
    """A function that `compile` made in another process, by its key: its own text is not needed."""
    raw = None if observer().wants_fresh else disk_cache().get(where)
    lowered = None if raw is None else _read(raw, arguments, find_target(current().target))
    return None if lowered is None else lowered.compile()


def _read(raw: bytes, arguments: Arguments, target: Target) -> Lowered | None:
    from planish.compiler import Lowered

    try:
        kept, later = plan_json.unpack(raw, _NOW)
        _check(arguments, **kept)
    except plan_json.Malformed:
        # a record of another make: lower it again
        return None
    lowered = object.__new__(Lowered)
    lowered.__dict__.update(
        kept, target=target, arguments=arguments, _rest=partial(_later, later, lowered, current())
    )
    return lowered


def _check_routine(plan: Plan, step: Host) -> None:
    """That a routine is given what its op and types ask for: it reads and writes where it is told."""
    from planish.schedule.routines import find_routine

    meant = find_routine(step.op.name, step.attrs, step.input_types, step.output_types)
    own = step.call and without_ticket(step.call)
    if meant is None or meant.call != own or len(meant.tables) != len(step.constants):
        raise plan_json.Malformed("a routine is called for another op")
    pairs = zip((*step.inputs, *step.outputs), (*step.input_types, *step.output_types), strict=True)
    fits = all(
        plan.buffers[n].dtype is t.dtype and bounds(plan.buffers[n].size)[1] >= bounds(t.size)[1]
        for n, t in pairs
    )
    room = [plan.buffers[n] for n in step.scratch]
    wanted = [] if meant.scratch == 0 else [(1, meant.scratch)]
    tables = [plan.buffers[n].constant for n in step.constants]
    same = all(
        a is not None and a.dtype == b.dtype and np.array_equal(a, b.reshape(-1))
        for a, b in zip(tables, meant.tables, strict=True)
    )
    if not (fits and same and [(b.dtype.itemsize, b.size) for b in room] == wanted):
        raise plan_json.Malformed("the memory of a routine is not what it needs")


def _check_ready(plan: Plan, step: Launch, ready: ReadyKernel) -> None:
    """That ready-made code stays within the memory that it is given."""
    from planish.compiler.ready_kernels import reaches

    known = routine_named(ready.routine)
    if known is None or not ready.routine.startswith("product.") or ready.routine not in names("product"):
        raise plan_json.Malformed("there is no such ready-made code")
    if len(ready.slots) != PARAMETERS or not all(0 <= slot < len(step.buffers) for slot in ready.slots):
        raise plan_json.Malformed("ready-made code is called with other parameters")
    if len(ready.numbers) != len(NUMBERS):
        raise plan_json.Malformed("ready-made code is called with other numbers")
    given = [plan.buffers[step.buffers[slot]] for slot in ready.slots]
    wanted = ready.routine.split(".")[1]
    for buffer, end in zip(given, reaches(ready), strict=True):
        if buffer.dtype.name != wanted or not 0 < end <= bounds(buffer.size)[0]:
            raise plan_json.Malformed("ready-made code would leave the memory that it is given")


def _check(
    arguments: Arguments,
    plan: Plan,
    sharing: Sharing,
    keys: Sized,
    launches: Sequence[GridKernel],
    is_plain: bool,
    rolled: Sequence[Rolled],
    kept: Sized,
    ready: Sequence[ReadyKernel | None],
    **kernels: Sized,
) -> None:
    """That all numbers are those of something: the parts may each be well-formed, and yet of different plans."""
    buffers, count = len(plan.buffers), len(plan.kernels)

    def inside(number: int) -> int:
        if not 0 <= number < buffers:
            raise plan_json.Malformed(f"there is no buffer {number}")
        return number

    for step in walk(plan.steps):
        if isinstance(step, Launch):
            if not 0 <= step.kernel < count:
                raise plan_json.Malformed(f"there is no kernel {step.kernel}")
            for number in step.buffers:
                inside(number)
            if ready and (of := ready[step.kernel : step.kernel + 1]) and of[0] is not None:
                _check_ready(plan, step, of[0])
        else:
            step.renamed(inside)
            if isinstance(step, Host) and step.call is not None:
                _check_routine(plan, step)
            if isinstance(step, Wait) and not (0 < step.ticket < TICKETS and len(step.buffers) == 2):
                raise plan_json.Malformed("nobody has such a ticket")
    for number in plan.results:
        inside(number)
    for block in sharing.blocks:
        for number in block.buffers:
            inside(number)
    for pair in sharing.homes.items():
        for number in pair:
            inside(number)
    ends = {Role.PARAMETER: len(arguments.types), Role.RESULT: len(plan.results)}
    for buffer in plan.buffers:
        position, size = buffer.position, bounds(buffer.size)
        if not 0 <= position < ends.get(buffer.role, position + 1) or size[0] < 0:
            raise plan_json.Malformed("a buffer is none of a parameter or result")
        if (buffer.constant is not None) != (buffer.role is Role.CONSTANT):
            raise plan_json.Malformed("a constant has no data")
        if buffer.constant is not None and (buffer.constant.size, buffer.constant.dtype) != (
            buffer.size,
            buffer.dtype.numpy,
        ):
            raise plan_json.Malformed("a constant has other data")
    if len(plan.results) != len(plan.result_dims) or len(plan.results) != len(arguments.results):
        raise plan_json.Malformed("the results are those of another function")
    lengths = {len(sharing.aliased), *map(len, kernels.values())}
    if lengths != {count} or not {len(keys), len(launches), len(ready)} <= {0, count}:
        raise plan_json.Malformed("the kernels are those of another plan")
    for launch in launches:
        try:
            sizes = len(launch.grid.at((1,) * _MOST_SIZES)), len(launch.grid.threads)
        except (ValueError, IndexError):
            sizes = 0, 0
        if sizes != (_AXES, _AXES):
            raise plan_json.Malformed("a grid has no three axes")


def as_they_were(at: Settings) -> Changes:
    """The settings that something was compiled under; nobody watches now."""
    then = {each.name: getattr(at, each.name) for each in fields(at)}
    return cast("Changes", then | {"debug": "none", "dump_dir": None})


def _later(data: bytes, lowered: Lowered, at: Settings, name: str) -> None:
    """Read what is asked for: the function and the schedules, or make the kernels by them, under the settings they were found for.

    The digest of the entry holds for it too.
    """
    from planish.actions.text import parse_schedule
    from planish.compiler.lowering import relowered
    from planish.compiler.scheduling import ScheduleChoice
    from planish.optimize.versions import Version

    try:
        text, choices, cores = json.loads(data)
        if "function" not in lowered.__dict__:
            chosen = tuple(
                ScheduleChoice(
                    parse_schedule(schedule),
                    tuple(reasons),
                    origin,
                    versions=tuple(
                        Version(
                            {n: (low, high) for n, (low, high) in bounds.items()}, parse_schedule(s), tuple(r)
                        )
                        for bounds, s, r in versions
                    ),
                )
                for schedule, reasons, origin, versions in choices
            )
            lowered.__dict__.update(function=ptir.parse(text).entry, chosen=chosen)
            if not any(lowered.ready):
                lowered.__dict__["choices"] = chosen
        if name not in lowered.__dict__:
            with settings(**as_they_were(at)):
                relowered(lowered, cores).tell(lowered)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise PlanishError(
            f"the kept form of a function cannot be read: {error}",
            remedy="empty the cache: planish cache clear",
        ) from None

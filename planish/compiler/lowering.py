"""From a function to kernels in LLIR, and on to their objects: what runs when the cache has nothing.

Everything that plans, schedules and renders is imported from here: whoever finds a function in the cache does not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import thread_time
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, cast

from planish import ptir
from planish.actions.text import ParameterNames
from planish.collector import collector_off
from planish.compiler import Lowered, prepare
from planish.compiler.arguments import Arguments
from planish.compiler.compilation_cache import as_they_were
from planish.compiler.launch_parameters import native_kernel, ready_call, scratch_of
from planish.compiler.loops import Rolling, candidates, launched, roll
from planish.compiler.native import source_of
from planish.compiler.non_temporal import streamed
from planish.compiler.object_code import object_key, object_of, routine_image
from planish.compiler.observer import NOBODY, CompilationObserver, observer, observing
from planish.compiler.parallel import Beside, is_worth_sharing, shared
from planish.compiler.product_fission import apart
from planish.compiler.progress import report
from planish.compiler.ready_kernels import READY, is_wanted, ready_kernels
from planish.compiler.scheduling import ScheduleChoice, check_given, parameter_names, program_of, scheduled
from planish.config import Settings, current, settings
from planish.errors import InternalError, ShapeError
from planish.llir.program import Program
from planish.runtime import cpu
from planish.runtime.pool import available_cores
from planish.schedule.memory import Sharing
from planish.schedule.overlap import overlapped
from planish.schedule.plan import Launch, Plan, ReadyKernel, Role, Step, mapped
from planish.schedule.planner import plan as make_plan
from planish.schedule.sharing import settled, share
from planish.schedule.verify import verify
from planish.target import Target
from planish.uop.node import Table

if TYPE_CHECKING:
    from planish.ptir.passes import Passes


def donated_parameters(function: ptir.Function, donate: Iterable[int]) -> frozenset[int]:
    """The parameters to donate, which have to be there."""
    positions = frozenset(donate)
    for position in positions:
        if not 0 <= position < len(function.params):
            raise ShapeError(
                f"{function.name} has no parameter {position} to donate",
                remedy=f"it has {len(function.params)}, counted from 0",
            )
    return positions


def lower_for(
    function: ptir.Function | ptir.Program,
    target: Target,
    passes: Passes | None,
    donate: Iterable[int],
    reuse: bool,
    compiled_for: CodeMaker | None,
    *,
    loops: bool = True,
) -> Lowered:
    """`compiler.lower` for a target; where code is wanted, kernels are compiled as they come."""
    watching = observer()
    with watching.program(function, target, frozenset(donate)):
        lowered = _lowered(function, target, passes, donate, reuse, compiled_for, loops, watching)
        watching.lowered(lowered)
        return lowered


def _lowered(
    function: ptir.Function | ptir.Program,
    target: Target,
    passes: Passes | None,
    donate: Iterable[int],
    reuse: bool,
    compiled_for: CodeMaker | None,
    loops: bool,
    watching: CompilationObserver,
) -> Lowered:
    prepared = prepare(function, passes, routines=target.routines)
    with Table() as table:
        plan = make_plan(prepared, table, donated_parameters(prepared, donate), target, watching.origins())
        is_ready = compiled_for is not None and not watching.wants_fresh and is_wanted(target)
        if is_ready:
            plan, _ = apart(plan, target)
        watching.cut(plan)
        plan = overlapped(plan)
        sharing = share(plan, reuse=reuse)
        if current().check != "none":
            verify(plan, sharing)
        plan = settled(plan, sharing)
        watching.planned(prepared, plan, sharing)
        names = [each.name for each in prepared.params]
        ready = ready_kernels(plan, target) if is_ready else {}
        kernels, images, rolling = _make_kernels(
            plan, sharing, target, compiled_for, loops, names=names, ready=ready
        )
    arguments = Arguments(function.entry if isinstance(function, ptir.Program) else function)
    plan, sharing, numbers = _renumbered(plan, sharing, rolling, [each.program for each in kernels])
    used = [kernels[number] for number in numbers]
    choices = tuple(each.choice for each in kernels[: rolling.known])
    keys = tuple(each.key for each in used) if images is not None else ()
    code = None if images is None else tuple(images[number] for number in numbers)
    lowered = Lowered(
        prepared, arguments, plan, sharing, tuple(each.program for each in used if each.program is not None), target, choices, code, keys,
        numbers, tuple(rolling.rolled), tuple(rolling.kept), tuple(ready.get(number) for number in numbers) if ready else (),
    )  # fmt: skip
    if ready:
        _lower_when_asked(lowered, [each.program for each in used])
    return lowered


def _lower_when_asked(lowered: Lowered, programs: Sequence[Program | None]) -> None:
    """Of a function with ready kernels: what a call needs to know of all of them, and their LLIR when somebody wants to see it."""
    known = lowered.__dict__
    known["scratch"] = tuple(0 if each is None else scratch_of(each) for each in programs)
    known["variables"] = tuple(
        () if each is None else tuple(variable.name for variable in each.variables) for each in programs
    )
    known["calls"] = tuple(
        native_kernel(f"k{number}", each, scratch) if each is not None else ready_call(f"k{number}", ready)
        for number, (each, scratch, ready) in enumerate(
            zip(programs, lowered.scratch, lowered.ready, strict=True)
        )
    )
    del known["programs"]
    known["chosen"] = known.pop("choices")
    known["_rest"] = partial(_rest, lowered, current(), available_cores())


def _rest(lowered: Lowered, at: Settings, cores: int, name: str) -> None:
    with settings(**as_they_were(at)):
        relowered(lowered, cores).tell(lowered)


def _renumbered(
    plan: Plan, sharing: Sharing, rolling: Rolling, programs: Sequence[Program | None]
) -> tuple[Plan, Sharing, tuple[int, ...]]:
    """The plan with the kernels that it launches and no others, and the numbers that these had; of ready kernels there is no program."""
    steps, known = rolling.result, rolling.known
    numbers = sorted(launched(steps))
    new = {number: place for place, number in enumerate(numbers)}
    kernels = (*plan.kernels, *(each.kernel for each in rolling.made))
    aliased = (*sharing.aliased, *(each.aliased for each in rolling.made))
    # what the stages found unused is no parameter any more
    slots = [
        range(len(kernel.buffers)) if program is None else [b.number for b in program.params]
        for program, kernel in zip(programs, kernels, strict=True)
    ]

    def kept(step: Step) -> Step:
        if not isinstance(step, Launch):
            return step
        buffers = tuple(step.buffers[slot] for slot in slots[step.kernel])
        return Launch(new[step.kernel], buffers)

    final = replace(plan, steps=mapped(steps, kept), kernels=tuple(kernels[number] for number in numbers))
    # kernels of loops take no scratch memory, so that only those from outside have to be told
    times = tuple(
        (time, new[number]) for time, number in sharing.launches if number < known and number in new
    )
    return final, replace(sharing, aliased=tuple(aliased[n] for n in numbers), launches=times), tuple(numbers)


class CodeMaker(NamedTuple):
    """How kernels become machine code: their source, the key that it is kept under, and the code of both."""

    source: Callable[[Program, frozenset[int]], str]
    key: Callable[[str], str]
    code: Callable[[str, str], bytes]
    hands: int = 1
    """Threads that compile at a time while others are being lowered."""


def for_processor(target: cpu.Processor) -> CodeMaker:
    """By LLVM, for a processor."""

    def source(program: Program, aliased: frozenset[int]) -> str:
        return source_of(program, aliased, scratch=scratch_of(program), avx512=target.avx512)

    return CodeMaker(source, partial(_key_for, target), partial(_code_for, target))


def _key_for(target: cpu.Processor, text: str) -> str:
    return object_key(text, target)


def _code_for(target: cpu.Processor, text: str, key: str) -> bytes:
    return object_of(text, target, key)


class _LoweredKernel(NamedTuple):
    """A kernel in LLIR, how it was scheduled, and its object code if another process made that too, under its key."""

    program: Program | None
    """None: ready-made code runs it."""
    choice: ScheduleChoice
    key: str = ""
    image: bytes | None = None
    told: bytes = b""
    """What an observer heard in that process."""


class Relowered(NamedTuple):
    """The kernels of a function, and the schedules of all that it was cut into."""

    programs: tuple[Program, ...]
    schedules: tuple[ScheduleChoice, ...]

    def tell(self, lowered: Lowered) -> None:
        """A function that was compiled without them has them from now on."""
        lowered.__dict__.update(programs=self.programs, choices=self.schedules)


def relowered(lowered: Lowered, cores: int) -> Relowered:
    """The kernels of a function whose LLIR was not kept: cut once more, with the schedules that were chosen for so many cores."""
    donated = frozenset(b.position for b in lowered.plan.buffers if b.role is Role.PARAMETER and b.donated)
    with observing(NOBODY), collector_off(), Table() as table:
        plan = make_plan(lowered.function, table, donated, lowered.target)
        if any(lowered.ready):
            plan, _ = apart(plan, lowered.target)
        sharing = share(plan)
        plan = settled(plan, sharing)
        kernels, _, rolling = _make_kernels(
            plan, sharing, lowered.target, None, True, choices=lowered.chosen, cores=cores
        )
    programs = [cast("Program", each.program) for each in kernels]
    _, _, numbers = _renumbered(plan, sharing, rolling, programs)
    if numbers != lowered.origins:
        raise InternalError(f"{lowered.function.name} is cut into other kernels than those that were kept")
    schedules = tuple(each.choice for each in kernels[: rolling.known])
    return Relowered(tuple(programs[number] for number in numbers), schedules)


def _make_kernels(
    plan: Plan,
    sharing: Sharing,
    target: Target,
    compiled_for: CodeMaker | None,
    loops: bool,
    *,
    choices: Sequence[ScheduleChoice] | None = None,
    cores: int | None = None,
    names: Sequence[str | None] = (),
    ready: Mapping[int, ReadyKernel] = MappingProxyType({}),
) -> tuple[list[_LoweredKernel], dict[int, Callable[[], bytes]] | None, Rolling]:
    """The kernels of a plan, then those of its loops, and if they are wanted their objects: perhaps still in the making.

    What may become part of a loop waits to be compiled until that is known. `choices` are schedules that were chosen before, `names`
    those of the function's parameters, which schedules that are given may use; `ready` kernels are not lowered.
    """
    called: Sequence[ParameterNames] = [{}] * len(plan.kernels)
    if choices is None and current().schedule is not None:
        check_given([kernel.name for kernel in plan.kernels])
        called = parameter_names(plan, names)
    streams = streamed(plan, sharing, target)

    def lowered(number: int) -> _LoweredKernel:
        kernel, watching = plan.kernels[number], observer()
        with watching.kernel(number, kernel):
            staged = scheduled(
                kernel.sink,
                target,
                kernel.name,
                in_place=bool(sharing.aliased[number]),
                streams=bool(streams[number]),
                choice=None if choices is None or choices[number].origin == READY else choices[number],
                names=called[number],
            )
            program = program_of(kernel.name, staged, target, streams[number])
            watching.scheduled(staged.choice, program)
        return _LoweredKernel(program, staged.choice)

    def complete(number: int) -> _LoweredKernel:
        kernel = lowered(number)
        kernel = kernel._replace(told=observer().told(number))
        if compiled_for is None or number in waiting:
            return kernel
        text = compiled_for.source(cast("Program", kernel.program), sharing.aliased[number])
        key = compiled_for.key(text)
        return kernel._replace(key=key, image=compiled_for.code(text, key))

    kernels = dict.fromkeys(ready, _LoweredKernel(None, ScheduleChoice(origin=READY)))
    images: dict[int, Callable[[], bytes]] = {
        number: partial(_ready_image, each.routine, target) for number, each in ready.items()
    }
    beside = Beside(1 if compiled_for is None else compiled_for.hands)
    started, count = thread_time(), len(plan.kernels)
    waiting = candidates(plan) if loops else frozenset()

    def compiled(number: int, aliased: frozenset[int]) -> None:
        """Have a kernel compiled, if that is wanted and not done."""
        kernel = kernels[number]
        if compiled_for is None:
            return
        if kernel.image is not None:
            images[number] = partial(_given, kernel.image)
            return
        text = compiled_for.source(cast("Program", kernel.program), aliased)
        key = compiled_for.key(text)
        images[number] = beside.make(partial(compiled_for.code, text, key))
        kernels[number] = kernel._replace(key=key)

    try:
        todo = [number for number in range(count) if number not in ready]
        for done, number in enumerate(todo):
            report(number, count)
            # a search measures: nobody else is to work meanwhile
            spent = thread_time() - started
            hands = 1 if current().beam else is_worth_sharing(len(todo) - done, done, spent)
            if hands > 1:
                beside.settle()  # a compiler at work in a thread holds locks that a fork would need
                # the largest first: whoever comes last has little left to wait for
                sizes = {n: len(plan.kernels[n].sink.toposort()) for n in todo[done:]}
                order = sorted(sizes, key=lambda n: -sizes[n])
                kernels |= shared(order, complete, hands, partial(_taken, number, count))
                for each in todo[done:]:
                    new = kernels[each]
                    observer().hears(
                        each, plan.kernels[each], new.told, new.choice, cast("Program", new.program)
                    )
                    if each not in waiting:
                        compiled(each, sharing.aliased[each])
                break
            kernels[number] = lowered(number)
            if number not in waiting:
                compiled(number, sharing.aliased[number])
        report(count, count)
        # (those of loops have been lowered)
        programs = [cast("Program", kernels[number].program) for number in range(count)]
        rolling = roll(plan, sharing, programs, target, cores or available_cores(), loops)
        kernels |= {
            count + n: _LoweredKernel(each.program, ScheduleChoice(origin="loop"))
            for n, each in enumerate(rolling.made)
        }
        for number in launched(rolling.result):
            if number not in images:
                aliased = sharing.aliased[number] if number < count else rolling.made[number - count].aliased
                compiled(number, aliased)
    finally:
        beside.close()
    return (
        [kernels[number] for number in range(len(kernels))],
        images if compiled_for is not None else None,
        rolling,
    )


def _taken(begun: int, count: int, taken: int) -> None:
    report(begun + taken, count)


def _ready_image(routine: str, target: Target) -> bytes:
    image = routine_image(routine, cpu.processor(target))
    if image is None:
        raise InternalError(f"there is no routine {routine}")
    return image


def _given(image: bytes) -> bytes:
    return image

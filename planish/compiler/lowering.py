"""From a function to kernels in LLIR, and on to their objects: what runs when the cache has nothing.

Everything that plans, schedules and renders is imported from here: whoever finds a function in the cache does not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from planish import ptir
from planish.actions.base import Action
from planish.codegen import c, llvm
from planish.compiler import Lowered, prepare
from planish.compiler.arguments import Arguments
from planish.compiler.functions import with_functions
from planish.compiler.launch_parameters import scratch_of
from planish.compiler.loops import Rolling, candidates, launched, roll
from planish.compiler.native import source_of
from planish.compiler.non_temporal import streamed
from planish.compiler.object_code import object_key, object_of
from planish.compiler.parallel import Beside, is_worth_sharing, shared
from planish.compiler.progress import report
from planish.compiler.scheduling import FIRST, Choice, Steering, check_given
from planish.config import current, settings
from planish.errors import PlanishError, ShapeError
from planish.llir.lower import lower as lower_to_llir
from planish.llir.program import Program
from planish.llir.streaming import with_streaming
from planish.llir.text import print_program
from planish.runtime import cpu
from planish.runtime.pool import available_cores
from planish.schedule.memory import Sharing
from planish.schedule.origins import Origins
from planish.schedule.plan import Launch, Plan, Role, Step, blocks, mapped, walk
from planish.schedule.planner import plan as make_plan
from planish.schedule.sharing import settled, share
from planish.schedule.verify import verify
from planish.stages import pipeline
from planish.stages.boundaries import text_of
from planish.stages.rangeify.attempts import attempts
from planish.target import Target
from planish.uop.node import Table, UOp
from planish.uop.text import print_graph

if TYPE_CHECKING:
    from planish.optimize.why import Why
    from planish.ptir.passes import Passes


def steered(target: Target) -> pipeline.Machine:
    """What the stages are told for a target: it, and who chooses the actions."""
    return pipeline.Machine(target, Steering(target))


def _parameters(function: ptir.Function, donate: Iterable[int]) -> frozenset[int]:
    found = frozenset(donate)
    for position in found:
        if not 0 <= position < len(function.params):
            raise ShapeError(
                f"{function.name} has no parameter {position} to donate",
                remedy=f"it has {len(function.params)}, counted from 0",
            )
    return found


def lower_for(
    function: ptir.Function | ptir.Program,
    target: Target,
    passes: Passes | None,
    donate: Iterable[int],
    reuse: bool,
    compiled_for: cpu.Processor | None,
    *,
    loops: bool = True,
) -> Lowered:
    """`compiler.lower` for a target; for a processor, kernels are compiled as they come."""
    prepared = prepare(function, passes, routines=target.routines)
    with Table() as table:
        plan = make_plan(prepared, table, _parameters(prepared, donate), target)
        sharing = share(plan, reuse=reuse)
        if current().check != "none":
            verify(plan, sharing)
        plan = settled(plan, sharing)
        made, images, rolling = _make_kernels(plan, sharing, target, compiled_for, loops)
    arguments = Arguments(function.entry if isinstance(function, ptir.Program) else function)
    plan, sharing, numbers = _renumbered(plan, sharing, rolling, [each.program for each in made])
    used = [made[number] for number in numbers]
    programs, choices = (
        tuple(each.program for each in used),
        tuple(each.choice for each in made[: rolling.known]),
    )
    keys = tuple(each.key for each in used) if images is not None else ()
    ready = None if images is None else tuple(images[number] for number in numbers)
    return Lowered(
        prepared, arguments, plan, sharing, programs, target, choices, ready, keys, numbers, tuple(rolling.rolled), tuple(rolling.kept)
    )  # fmt: skip


def _renumbered(
    plan: Plan, sharing: Sharing, rolling: Rolling, programs: Sequence[Program]
) -> tuple[Plan, Sharing, tuple[int, ...]]:
    """The plan with the kernels that it launches and no others, and the numbers that these had."""
    steps, known = rolling.result, rolling.known
    numbers = sorted(launched(steps))
    new = {number: place for place, number in enumerate(numbers)}
    kernels = (*plan.kernels, *(each.kernel for each in rolling.made))
    aliased = (*sharing.aliased, *(each.aliased for each in rolling.made))
    # what the stages found unused is no parameter any more
    slots = [[int(b.name.removeprefix("arg")) for b in program.params] for program in programs]

    def kept(step: Step) -> Step:
        if not isinstance(step, Launch):
            return step
        buffers = tuple(step.buffers[slot] for slot in slots[step.kernel])
        return Launch(new[step.kernel], buffers)

    found = replace(plan, steps=mapped(steps, kept), kernels=tuple(kernels[number] for number in numbers))
    # kernels of loops take no scratch memory, so that only those from outside have to be told
    times = tuple(
        (time, new[number]) for time, number in sharing.launches if number < known and number in new
    )
    return found, replace(sharing, aliased=tuple(aliased[n] for n in numbers), launches=times), tuple(numbers)


class _Made(NamedTuple):
    """A kernel in LLIR, how it was scheduled, and its object code if another process made that too, under its key."""

    program: Program
    choice: Choice
    key: str = ""
    image: bytes | None = None


def _make_kernels(
    plan: Plan, sharing: Sharing, target: Target, compiled_for: cpu.Processor | None, loops: bool
) -> tuple[list[_Made], dict[int, Callable[[], bytes]] | None, Rolling]:
    """The kernels of a plan, then those of its loops, and for a processor their objects: perhaps still in the making.

    What may become part of a loop waits to be compiled until that is known.
    """
    check_given([kernel.name for kernel in plan.kernels])
    steering = Steering(target)
    streams = streamed(plan, sharing, target)

    def lowered(number: int) -> _Made:
        kernel = plan.kernels[number]
        choose = partial(
            steering, name=kernel.name, in_place=bool(sharing.aliased[number]), streams=bool(streams[number])
        )
        lines = pipeline.run(kernel.sink, pipeline.Machine(target, choose), name=kernel.name)
        program = with_functions(lower_to_llir(kernel.name, lines), target)
        program = with_streaming(program, target, streams[number])
        # stage 7 may have been left out
        choice = steering.choices.pop() if steering.choices else Choice(origin="stage 7 is disabled")
        return _Made(program, choice)

    def source(program: Program, aliased: frozenset[int]) -> str:
        avx512 = compiled_for is not None and compiled_for.avx512
        return source_of(program, aliased, scratch=scratch_of(program), avx512=avx512)

    def complete(number: int) -> _Made:
        made = lowered(number)
        if compiled_for is None or number in waiting:
            return made
        text = source(made.program, sharing.aliased[number])
        return made._replace(key=object_key(text, compiled_for), image=object_of(text, compiled_for))

    found: dict[int, _Made] = {}
    images: dict[int, Callable[[], bytes]] = {}
    beside, started, count = Beside(), perf_counter(), len(plan.kernels)
    waiting = candidates(plan) if loops else frozenset()

    def compiled(number: int, aliased: frozenset[int]) -> None:
        """Have a kernel compiled, if that is wanted and not done."""
        made = found[number]
        if compiled_for is None:
            return
        if made.image is not None:
            images[number] = partial(_given, made.image)
            return
        text = source(made.program, aliased)
        images[number] = beside.make(partial(object_of, text, compiled_for))
        found[number] = made._replace(key=object_key(text, compiled_for))

    try:
        for number in range(count):
            report(number, count)
            # a search measures: nobody else is to work meanwhile
            hands = (
                1 if current().beam else is_worth_sharing(count - number, number, perf_counter() - started)
            )
            if hands > 1:
                # the largest first: whoever comes last has little left to wait for
                sizes = {n: len(plan.kernels[n].sink.toposort()) for n in range(number, count)}
                order = sorted(sizes, key=lambda n: -sizes[n])
                found |= shared(order, complete, hands, partial(_taken, number, count))
                for each in range(number, count):
                    if each not in waiting:
                        compiled(each, sharing.aliased[each])
                break
            found[number] = lowered(number)
            if number not in waiting:
                compiled(number, sharing.aliased[number])
        report(count, count)
        programs = [found[number].program for number in range(count)]
        rolling = roll(plan, sharing, programs, target, available_cores(), loops)
        found |= {
            count + n: _Made(each.program, Choice(origin="loop")) for n, each in enumerate(rolling.made)
        }
        for number in launched(rolling.result):
            if number not in images:
                aliased = sharing.aliased[number] if number < count else rolling.made[number - count].aliased
                compiled(number, aliased)
    finally:
        beside.close()
    return (
        [found[number] for number in range(len(found))],
        images if compiled_for is not None else None,
        rolling,
    )


def _taken(begun: int, count: int, taken: int) -> None:
    report(begun + taken, count)


def _given(image: bytes) -> bytes:
    return image


# -- to be read ------------------------------------------------------------------------------------------------------


def _as_chosen(choice: Choice, sink: UOp) -> Sequence[Action]:
    return choice.actions


def stages_of(lowered: Lowered) -> list[list[tuple[str, str]]]:
    """Per kernel that the function was cut into: (stage, text of the graph after it). Loops are made of kernels that have passed them."""
    kernels: list[list[tuple[str, str]]] = []
    with Table() as table, settings(debug="none", dump_dir=None):
        for kernel, choice in zip(
            make_plan(lowered.function, table, target=lowered.target).kernels, lowered.choices, strict=True
        ):
            texts = [("uop", print_graph(kernel.sink))]
            machine = pipeline.Machine(lowered.target, partial(_as_chosen, choice))
            for step in pipeline.steps(kernel.sink, machine, kernel.name):
                texts.append((str(step.stage.number), text_of(step.form)))
            kernels.append(texts)
    return kernels


def planned_text(function: ptir.Function, target: Target, donate: Iterable[int], level: str) -> str:
    """The plan of a function, or its kernels, before any stage."""
    with Table() as table:
        plan = make_plan(function, table, _parameters(function, donate), target)
        if level == "uop":
            return "\n".join(print_graph(kernel.sink) for kernel in plan.kernels)
        sharing = share(plan)
        return settled(plan, sharing).as_text(sharing.homes)


def stage_text(
    function: ptir.Function,
    target: Target,
    donate: Iterable[int],
    number: int,
    choices: Sequence[Choice] | None,
) -> str:
    """The kernels after a stage; only the stages up to it run."""
    texts: list[str] = []
    with Table() as table, settings(debug="none", dump_dir=None):
        kernels = make_plan(function, table, _parameters(function, donate), target).kernels
        for position, kernel in enumerate(kernels):
            choice = Choice(origin="none") if choices is None else choices[position]
            machine = pipeline.Machine(target, partial(_as_chosen, choice))
            ran: list[str] = []
            for step in pipeline.steps(kernel.sink, machine, kernel.name):
                ran.append(str(step.stage.number))
                if step.stage.number == number:
                    texts.append(text_of(step.form))
                    break
            else:
                raise PlanishError(f"no stage {number}", remedy="one of " + ", ".join(ran))
    return "\n".join(texts)


def origins_of(lowered: Lowered, function: ptir.Function | None) -> list[tuple[ptir.Inst, ...]]:
    """The instructions that each launch of a plan computes, of the same function with its lines; none where it is another."""
    watch = Origins()
    donated = frozenset(b.position for b in lowered.plan.buffers if b.role is Role.PARAMETER and b.donated)
    with Table() as table:
        plan = make_plan(
            lowered.function if function is None else function, table, donated, lowered.target, watch
        )
        needless = share(plan).needless
    plain = [step for step in walk(plan.steps) if not blocks(step)]
    needed = [number not in needless for number, step in enumerate(plain) if isinstance(step, Launch)]
    by_name: dict[str, list[tuple[ptir.Inst, ...]]] = {}
    for launch, insts, is_needed in zip(plan.launches, watch.launches, needed, strict=True):
        if is_needed:
            by_name.setdefault(plan.kernels[launch.kernel].name, []).append(insts)
    # a loop that became a kernel computes what the kernels of a turn do
    for loop in lowered.rolled:
        parts = [plan.kernels[part].name for part in loop.parts if part < len(plan.kernels)]
        inside = dict.fromkeys(inst for name in parts for insts in by_name.get(name, ()) for inst in insts)
        by_name.setdefault(loop.name, []).append(tuple(inside))
    found = []
    for launch in lowered.plan.launches:
        left = by_name.get(lowered.plan.kernels[launch.kernel].name, [])
        found.append(left.pop(0) if left else ())
    return found


def schedules_of(lowered: Lowered) -> str:
    """The schedules of a function's kernels, each step with its reason: what `--schedule` and `jit(schedule=…)` read."""
    lines: list[str] = []
    with Table() as table:
        kernels = make_plan(lowered.function, table, target=lowered.target).kernels
        for kernel, choice in zip(kernels, lowered.choices, strict=True):
            lines.append(f"[{kernel.name}]  # {choice.origin}")
            for number, action in enumerate(choice.actions):
                reason = choice.reasons[number] if number < len(choice.reasons) else ""
                lines.append(f"{action}  # {reason}" if reason else str(action))
            lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n" if lines else ""


def explained(lowered: Lowered) -> tuple[Why, ...]:
    """Per kernel: its actions with their reasons, and what the cost model expects."""
    from planish.optimize.why import explain, loop

    target = lowered.target
    attempt = attempts(target)
    found: list[Why] = []
    with Table() as table, settings(debug="none", dump_dir=None):
        machine = pipeline.Machine(target, lambda sink: ())
        for kernel, choice in zip(
            make_plan(lowered.function, table, target=lowered.target).kernels, lowered.choices, strict=False
        ):
            sink = kernel.sink
            for step in pipeline.steps(sink, machine, kernel.name):
                if step.stage.number >= FIRST:
                    break
                sink = step.form if not isinstance(step.form, list) else sink
            found.append(
                explain(
                    kernel.name, sink, choice.actions, choice.reasons, choice.origin, target, attempt, available_cores(),
                    kernel.because,
                )
            )  # fmt: skip
    for rolled in lowered.rolled:
        found.append(loop(rolled.name, rolled.because, [found[part] for part in rolled.parts], rolled.turns))
    return tuple(found[origin] for origin in lowered.origins)


def text_of_kernels(lowered: Lowered, level: str) -> str:
    """The kernels as LLIR, LLVM IR, assembly or C."""
    if level == "llir":
        return "\n".join(map(print_program, lowered.programs))
    if level in {"cuda", "ptx", "sass"}:
        from planish.compiler.gpu import text_of as text_for_gpu

        return text_for_gpu(lowered, level)
    pairs = zip(lowered.programs, lowered.scratch, strict=True)
    if level == "c":
        return "\n".join(c.render(program, scratch=bool(scratch)) for program, scratch in pairs)
    made_for = cpu.processor(lowered.target)
    sources = [
        llvm.render(
            program, aliased=[f"arg{slot}" for slot in aliased], scratch=bool(scratch), avx512=made_for.avx512
        )
        for (program, scratch), aliased in zip(pairs, lowered.sharing.aliased, strict=True)
    ]
    return "\n".join(
        sources if level == "llvm" else [cpu.emit_assembly(source, made_for) for source in sources]
    )

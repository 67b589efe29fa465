"""The compiler: strings the phases together. Read it as the table of contents of the journey.

lowered = lower(function)          PTIR → passes → plan of kernels → stages → LLIR
lowered.as_text("llir")            any level, as text
run = lowered.compile()            → LLVM → machine code
run(array, …)                      → results
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from time import perf_counter
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

from planish import ptir
from planish.codegen import c, llvm
from planish.compiler import stored
from planish.compiler.arguments import Arguments
from planish.compiler.choices import Choice, Steering
from planish.compiler.executable import Cost, Executable, KernelInfo
from planish.compiler.hands import Beside, is_worth_sharing, shared
from planish.compiler.kernels import FIRST, scratch_of
from planish.compiler.native import Backend, source_of
from planish.compiler.objects import object_key, object_of
from planish.compiler.streams import streamed
from planish.config import current, settings
from planish.errors import PlanishError, ShapeError
from planish.llir.lower import lower as lower_to_llir
from planish.llir.program import Program
from planish.llir.streaming import with_streaming
from planish.llir.text import print_program
from planish.ptir.passes.manager import collector_off
from planish.runtime import cpu
from planish.runtime import kernels as kernel_calls
from planish.runtime.pool import available_cores
from planish.schedule.memory import Memory, Sharing, layout, share
from planish.schedule.plan import Launch, Plan, mapped
from planish.schedule.planner import plan as make_plan
from planish.stages import pipeline
from planish.stages.boundaries import text_of
from planish.stages.rangeify.attempts import attempts
from planish.target import Target
from planish.target import find as find_target
from planish.uop.actions import Action
from planish.uop.node import Table, UOp
from planish.uop.text import print_graph

if TYPE_CHECKING:
    from planish.optimize.why import Why

__all__ = [
    "PIPELINE",
    "Cost",
    "Executable",
    "KernelInfo",
    "Level",
    "Lowered",
    "Memory",
    "Program",
    "compile",
    "lower",
]

Level = Literal["ptir", "plan", "uop", "llir", "llvm", "c", "asm"]
PIPELINE: Final = "inline,expand,expand-complex,canonicalize,cse,dce"
"""What runs before a function is cut into kernels: composite ops become others, then what repeats goes."""


@dataclass(frozen=True)
class Lowered:
    """A function cut into kernels, each lowered to LLIR; every level can be read."""

    function: ptir.Function
    """After the passes."""
    arguments: Arguments
    """What it takes, before the passes."""
    plan: Plan
    sharing: Sharing
    programs: tuple[Program, ...]
    """One per kernel of the plan."""
    target: Target
    choices: tuple[Choice, ...] = ()
    """The schedule of each kernel, and who chose it."""
    images: tuple[Callable[[], bytes], ...] | None = field(default=None, repr=False, compare=False)
    """The object code of each kernel, if it was compiled on the way."""
    keys: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """Under which the cache has it, if that is known."""

    @property
    def schedule(self) -> Plan:
        """The plan."""
        return self.plan

    @cached_property
    def scratch(self) -> tuple[int, ...]:
        """The bytes that each kernel takes from the arena for itself."""
        return tuple(map(scratch_of, self.programs))

    def layout(self, sizes: Mapping[str, int]) -> Memory:
        """The memory of a call at given sizes."""
        return layout(self.plan, self.sharing, sizes, self.scratch)

    @cached_property
    def memory(self) -> Memory:
        """The memory of a call at the largest sizes."""
        return self.layout({})

    @property
    def stages(self) -> list[list[tuple[str, str]]]:
        """Per kernel: (stage, text of the graph after it). Lowered once more to be looked at; compiling prints nothing."""
        kernels: list[list[tuple[str, str]]] = []
        with Table() as table, settings(debug="none", dump_dir=None):
            for kernel, choice in zip(make_plan(self.function, table).kernels, self.choices, strict=True):
                texts = [("uop", print_graph(kernel.sink))]
                machine = pipeline.Machine(self.target, partial(_as_chosen, choice))
                for step in pipeline.steps(kernel.sink, machine, kernel.name):
                    texts.append((str(step.stage.number), text_of(step.form)))
                kernels.append(texts)
        return kernels

    @cached_property
    def explained(self) -> tuple[Why, ...]:
        """Per kernel: its actions with their reasons, and what the cost model expects. Worked out when asked for."""
        from planish.optimize.why import explain

        attempt = attempts(self.target)
        found: list[Why] = []
        with Table() as table, settings(debug="none", dump_dir=None):
            machine = pipeline.Machine(self.target, lambda sink: ())
            for kernel, choice in zip(make_plan(self.function, table).kernels, self.choices, strict=False):
                sink = kernel.sink
                for step in pipeline.steps(sink, machine, kernel.name):
                    if step.stage.number >= FIRST:
                        break
                    sink = step.form if not isinstance(step.form, list) else sink
                found.append(
                    explain(
                        kernel.name,
                        sink,
                        choice.actions,
                        choice.reasons,
                        choice.origin,
                        self.target,
                        attempt,
                        available_cores(),
                    )
                )
        return tuple(found)

    def as_text(self, level: str) -> str:
        """The program at a level: ptir, plan, uop, uop:NN (after that stage), llir, llvm, c or asm."""
        if level == "ptir":
            return ptir.print(self.function)
        if level == "plan":
            return str(self.plan)
        if level == "uop":
            return "\n".join(kernel[0][1] for kernel in self.stages)
        if level.startswith("uop:"):
            return "\n".join(self._after(kernel, level[4:]) for kernel in self.stages)
        if level == "llir":
            return "\n".join(map(print_program, self.programs))
        if level == "llvm":
            return "\n".join(self._rendered())
        if level == "asm":
            made_for = cpu.processor(self.target)
            return "\n".join(cpu.emit_assembly(source, made_for) for source in self._rendered())
        if level == "c":
            pairs = zip(self.programs, self.scratch, strict=True)
            return "\n".join(c.render(program, scratch=bool(scratch)) for program, scratch in pairs)
        raise PlanishError(
            f"unknown level {level!r}", remedy=f"one of {', '.join(get_args(Level))}, or uop:NN"
        )

    @staticmethod
    def _after(kernel: Sequence[tuple[str, str]], number: str) -> str:
        for stage, text in kernel:
            if stage == number:
                return text
        raise PlanishError(
            f"no stage {number}", remedy="one of " + ", ".join(stage for stage, _ in kernel[1:])
        )

    def _rendered(self) -> list[str]:
        """The LLVM IR of each kernel."""
        avx512 = cpu.processor(self.target).avx512
        return [
            llvm.render(
                program, aliased=[f"arg{slot}" for slot in aliased], scratch=bool(scratch), avx512=avx512
            )
            for program, aliased, scratch in zip(
                self.programs, self.sharing.aliased, self.scratch, strict=True
            )
        ]

    def compile(self, backend: Backend = "llvm") -> Executable:
        """Machine code: by LLVM, or by the system's C compiler ("c")."""
        if backend not in get_args(Backend):
            raise PlanishError(
                f"unknown back end {backend!r}", remedy=f"one of {', '.join(get_args(Backend))}"
            )
        return Executable(self, backend=backend)

    def interpreted(self, observer: kernel_calls.Observer | None = None) -> Executable:
        """The same plan, its kernels executed by the LLIR interpreter; the observer hears what each run of one did."""
        calls = [kernel_calls.interpreted(program, observer) for program in self.programs]
        return Executable(self, calls)


def _as_chosen(choice: Choice, sink: UOp) -> Sequence[Action]:
    return choice.actions


def steered(target: Target) -> pipeline.Machine:
    """What the stages are told for a target: it, and who chooses the actions."""
    return pipeline.Machine(target, Steering(target))


def prepare(function: ptir.Function | ptir.Program, passes: str | None) -> ptir.Function:
    """The entry of a copy of a program, after the passes."""
    program = function.clone() if isinstance(function, ptir.Program) else ptir.Program([function.clone()])
    if passes is not None:
        ptir.PassManager.parse(passes).run(program)
    return program.entry


def _parameters(function: ptir.Function, donate: Iterable[int]) -> frozenset[int]:
    found = frozenset(donate)
    for position in found:
        if not 0 <= position < len(function.params):
            raise ShapeError(
                f"{function.name} has no parameter {position} to donate",
                remedy=f"it has {len(function.params)}, counted from 0",
            )
    return found


def lower(
    function: ptir.Function | ptir.Program,
    target: str | Target | None = None,
    *,
    passes: str | None = PIPELINE,
    donate: Iterable[int] = (),
    reuse: bool = True,
) -> Lowered:
    """Cut a function into kernels and lower each to LLIR, for a target (by default the one in the settings).

    The function is not changed: `passes` run on a copy (None: as it is). `donate` are the parameters whose memory a call may
    overwrite and give back as a result. Without `reuse`, every buffer has memory of its own.
    """
    if not isinstance(target, Target):
        target = find_target(current().target if target is None else target)
    return _lower(function, target, passes, donate, reuse, None)


def _lower(
    function: ptir.Function | ptir.Program,
    target: Target,
    passes: str | None,
    donate: Iterable[int],
    reuse: bool,
    compiled_for: cpu.Processor | None,
) -> Lowered:
    """The same; for a processor, kernels are compiled as they come."""
    prepared = prepare(function, passes)
    with collector_off(), Table() as table:
        plan = make_plan(prepared, table, _parameters(prepared, donate))
        sharing = share(plan, reuse=reuse)
        count = itertools.count()
        needed = mapped(plan.steps, lambda launch: None if next(count) in sharing.needless else launch)
        plan = replace(plan, steps=needed)
        made, images = _make_kernels(plan, sharing, target, compiled_for)
    # what the stages found unused is no parameter any more
    slots = [[int(b.name.removeprefix("arg")) for b in each.program.params] for each in made]

    def kept(launch: Launch) -> Launch | None:
        return replace(launch, buffers=tuple(launch.buffers[slot] for slot in slots[launch.kernel]))

    plan = replace(plan, steps=mapped(plan.steps, kept))
    arguments = Arguments(function.entry if isinstance(function, ptir.Program) else function)
    programs, choices = tuple(each.program for each in made), tuple(each.choice for each in made)
    keys = tuple(each.key for each in made) if images is not None else ()
    return Lowered(prepared, arguments, plan, sharing, programs, target, choices, images, keys)


class _Made(NamedTuple):
    """A kernel in LLIR, how it was scheduled, and its object code if another process made that too, under its key."""

    program: Program
    choice: Choice
    key: str = ""
    image: bytes | None = None


def _make_kernels(
    plan: Plan, sharing: Sharing, target: Target, compiled_for: cpu.Processor | None
) -> tuple[list[_Made], tuple[Callable[[], bytes], ...] | None]:
    """The kernels of a plan, and for a processor their objects: perhaps still in the making."""
    steering = Steering(target)
    machine = pipeline.Machine(target, steering)
    streams = streamed(plan, sharing, target)

    def lowered(number: int) -> _Made:
        kernel = plan.kernels[number]
        steering.in_place = bool(sharing.aliased[number])
        lines = pipeline.run(kernel.sink, machine, name=kernel.name)
        program = with_streaming(lower_to_llir(kernel.name, lines), target, streams[number])
        # stage 7 may have been left out
        choice = steering.choices.pop() if steering.choices else Choice(origin="stage 7 is disabled")
        return _Made(program, choice)

    def source(number: int, program: Program) -> str:
        avx512 = compiled_for is not None and compiled_for.avx512
        return source_of(program, sharing.aliased[number], scratch=scratch_of(program), avx512=avx512)

    def complete(number: int) -> _Made:
        made = lowered(number)
        if compiled_for is None:
            return made
        text = source(number, made.program)
        return made._replace(key=object_key(text, compiled_for), image=object_of(text, compiled_for))

    found: dict[int, _Made] = {}
    images: dict[int, Callable[[], bytes]] = {}
    beside, started, count = Beside(), perf_counter(), len(plan.kernels)
    try:
        for number in range(count):
            # a search measures: nobody else is to work meanwhile
            hands = (
                1 if current().beam else is_worth_sharing(count - number, number, perf_counter() - started)
            )
            if hands > 1:
                found |= shared(range(number, count), complete, hands)
                break
            made = found[number] = lowered(number)
            if compiled_for is not None:
                text = source(number, made.program)
                images[number] = beside.make(partial(object_of, text, compiled_for))
                found[number] = made._replace(key=object_key(text, compiled_for))
    finally:
        beside.close()
    kernels = [found[number] for number in range(count)]
    if compiled_for is None:
        return kernels, None
    ready = [
        images[n] if made.image is None else partial(_given, made.image) for n, made in enumerate(kernels)
    ]
    return kernels, tuple(ready)


def _given(image: bytes) -> bytes:
    return image


def compile(
    function: ptir.Function | ptir.Program,
    target: str | Target | None = None,
    *,
    passes: str | None = PIPELINE,
    donate: Iterable[int] = (),
) -> Executable:
    """Machine code for a function: from the compilation cache, or lowered, compiled and kept there."""
    if not isinstance(target, Target):
        target = find_target(current().target if target is None else target)
    donated = frozenset(donate)
    where = stored.key(function, target, passes, donated)
    lowered = stored.load(where, function)
    if lowered is None:
        lowered = _lower(function, target, passes, donated, True, cpu.processor(target))
        if current().beam:  # searches have added to what the key follows from
            where = stored.key(function, target, passes, donated)
        stored.save(where, lowered)
    return lowered.compile()

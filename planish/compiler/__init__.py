"""The compiler: strings the phases together. Read it as the table of contents of the journey.

lowered = lower(function)          PTIR → passes → plan of kernels → stages → LLIR
lowered.as_text("llir")            any level, as text
run = lowered.compile()            → LLVM → machine code
run(array, …)                      → results
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal, get_args

from planish import ptir
from planish.codegen import c, llvm
from planish.codegen.blocks import block_bytes, scratch_bytes
from planish.compiler import stored
from planish.compiler.arguments import Arguments
from planish.compiler.executable import Cost, Executable, KernelInfo
from planish.compiler.native import Backend
from planish.config import current, settings
from planish.errors import PlanishError, ShapeError
from planish.llir.lower import lower as lower_to_llir
from planish.llir.program import Program
from planish.llir.text import print_program
from planish.optimize.heuristic import choose
from planish.runtime import cpu
from planish.runtime import kernels as kernel_calls
from planish.schedule.memory import Memory, Sharing, layout, share
from planish.schedule.plan import Launch, Plan, mapped
from planish.schedule.planner import plan as make_plan
from planish.stages import pipeline
from planish.stages.boundaries import text_of
from planish.stages.rangeify.attempts import attempts
from planish.target import Target
from planish.target import find as find_target
from planish.uop.node import Table
from planish.uop.text import print_graph

__all__ = ["PIPELINE", "Cost", "Executable", "KernelInfo", "Level", "Lowered", "Memory", "compile", "lower"]

Level = Literal["ptir", "plan", "uop", "llir", "llvm", "c", "asm"]
PIPELINE: Final = "inline,expand,expand-complex,canonicalize,cse,dce"
"""What runs before a function is cut into kernels: composite ops become others, then what repeats goes."""
_STACK: Final = 64 << 10
"""LOCAL memory of a block up to this many bytes is on the stack of whoever runs it; more is in the arena."""


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

    @property
    def schedule(self) -> Plan:
        """The plan."""
        return self.plan

    @cached_property
    def scratch(self) -> tuple[int, ...]:
        """The bytes that each kernel takes from the arena for itself."""
        return tuple(
            scratch_bytes(program) if block_bytes(program) > _STACK else 0 for program in self.programs
        )

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
            for kernel in make_plan(self.function, table).kernels:
                texts = [("uop", print_graph(kernel.sink))]
                for step in pipeline.steps(kernel.sink, steered(self.target), kernel.name):
                    texts.append((str(step.stage.number), text_of(step.form)))
                kernels.append(texts)
        return kernels

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
        return [
            llvm.render(program, aliased=[f"arg{slot}" for slot in aliased], scratch=bool(scratch))
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


def steered(target: Target) -> pipeline.Machine:
    """What the stages are told for a target: it, and who chooses the actions."""
    attempt = attempts(target)
    return pipeline.Machine(target, lambda sink: choose(sink, target, attempt))


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
    machine = steered(target)
    prepared = prepare(function, passes)
    programs: list[Program] = []
    with Table() as table:
        plan = make_plan(prepared, table, _parameters(prepared, donate))
        sharing = share(plan, reuse=reuse)
        for kernel in plan.kernels:
            lines = pipeline.run(kernel.sink, machine, name=kernel.name)
            programs.append(lower_to_llir(kernel.name, lines))
    # what the stages found unused is no parameter any more
    slots = [[int(buffer.name.removeprefix("arg")) for buffer in program.params] for program in programs]

    count = itertools.count()

    def kept(launch: Launch) -> Launch | None:
        if next(count) in sharing.needless:
            return None
        return replace(launch, buffers=tuple(launch.buffers[slot] for slot in slots[launch.kernel]))

    plan = replace(plan, steps=mapped(plan.steps, kept))
    arguments = Arguments(function.entry if isinstance(function, ptir.Program) else function)
    return Lowered(prepared, arguments, plan, sharing, tuple(programs), target)


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
        lowered = lower(function, target, passes=passes, donate=donated)
        stored.save(where, lowered)
    return lowered.compile()

"""The compiler: strings the phases together. Read it as the table of contents of the journey.

lowered = lower(function)          PTIR → kernels → stages → LLIR
lowered.as_text("llir")            any level, as text
run = lowered.compile()            → LLVM → machine code
run(array, …)                      → results
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from planish import ptir
from planish.codegen import llvm
from planish.config import current
from planish.errors import PlanishError, ShapeError
from planish.llir import interpret as llir_interpreter
from planish.llir.lower import lower as lower_to_llir
from planish.llir.program import Program
from planish.llir.text import print_program
from planish.optimize.heuristic import choose
from planish.runtime.cpu import Module
from planish.schedule.kernels import Kernel, Schedule, schedule
from planish.stages import pipeline
from planish.target import Target
from planish.target import find as find_target
from planish.uop.node import Table, UOp
from planish.uop.text import print_graph

Array = NDArray[Any]
Level = Literal["ptir", "uop", "llir", "llvm", "asm"]
KernelCall = Callable[[Sequence[Array]], object]


@dataclass(frozen=True, slots=True)
class Lowered:
    """A function cut into kernels, each lowered to LLIR; every level can be read."""

    function: ptir.Function
    schedule: Schedule
    programs: tuple[Program, ...]
    target: Target

    @property
    def stages(self) -> list[list[tuple[str, str]]]:
        """Per kernel: (stage, text of the graph after it). Lowered once more to be looked at; compiling prints nothing."""
        kernels: list[list[tuple[str, str]]] = []
        with Table() as table:
            for kernel in schedule(self.function, table).kernels:
                texts = [("uop", print_graph(kernel.sink))]

                def observe(stage: pipeline.Stage, sink: UOp, texts: list[tuple[str, str]] = texts) -> None:
                    texts.append((str(stage.number), print_graph(sink)))

                pipeline.run(kernel.sink, _steered(self.target), observe)
                kernels.append(texts)
        return kernels

    def as_text(self, level: str) -> str:
        """The program at a level: ptir, uop, uop:NN (after that stage), llir, llvm or asm."""
        if level == "ptir":
            return ptir.print(self.function)
        if level == "uop":
            return "\n".join(kernel[0][1] for kernel in self.stages)
        if level.startswith("uop:"):
            return "\n".join(self._after(kernel, level[4:]) for kernel in self.stages)
        if level == "llir":
            return "\n".join(map(print_program, self.programs))
        if level == "llvm":
            return "\n".join(map(llvm.render, self.programs))
        if level == "asm":
            return "\n".join(Module(llvm.render(program)).assembly for program in self.programs)
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

    def compile(self) -> Executable:
        """Machine code."""
        modules = [Module(llvm.render(program)) for program in self.programs]
        calls = [m.kernel(p.name, len(p.params)) for m, p in zip(modules, self.programs, strict=True)]
        return Executable(self, tuple(calls), tuple(modules))

    def interpreted(self) -> Executable:
        """The same plan, executed by the LLIR interpreter."""

        def call(program: Program) -> KernelCall:
            return lambda arrays: llir_interpreter.interpret(program, arrays)

        return Executable(self, tuple(map(call, self.programs)), ())


@dataclass(frozen=True, slots=True)
class Executable:
    """A compiled function: call it with one array per parameter."""

    lowered: Lowered
    kernels: tuple[KernelCall, ...]
    modules: tuple[Module, ...]

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """The results, in new arrays."""
        plan = self.lowered.schedule
        given = self._check(arrays)
        memory: list[Array] = []
        for buffer in plan.buffers:
            if buffer.parameter is not None:
                memory.append(np.ascontiguousarray(given[buffer.parameter]).reshape(-1))
            elif buffer.constant is not None:
                memory.append(buffer.constant)
            else:
                memory.append(np.empty(buffer.size, buffer.dtype.numpy))
        function = self.lowered.function
        with ptir.trace.execution(
            ptir.Program([function]),
            targets=[value.id for value in function.results],
            backend="llvm" if self.modules else "llir-interpreter",
        ) as running:
            running.counters["kernels"] = len(plan.kernels)
            for kernel, call in zip(plan.kernels, self.kernels, strict=True):
                call([memory[number] for number in kernel.buffers])
        return tuple(memory[number].reshape(dims) for number, dims in plan.results)

    def _check(self, arrays: Sequence[Array]) -> Sequence[Array]:
        params = self.lowered.function.params
        if len(arrays) != len(params):
            raise ShapeError(f"{self.lowered.function.name} takes {len(params)} arrays, not {len(arrays)}")
        for number, (array, param) in enumerate(zip(arrays, params, strict=True)):
            if array.shape != param.type.dims or array.dtype != param.type.dtype.numpy:
                raise ShapeError(
                    f"{self.lowered.function.name}: argument {number} is {array.dtype}{list(array.shape)}, "
                    f"{param.type} is expected",
                    remedy="pass an array of that dtype and shape",
                )
        return arrays


def _steered(target: Target) -> pipeline.Machine:
    return pipeline.Machine(target, lambda sink: choose(sink, target))


def lower(function: ptir.Function, target: str | None = None) -> Lowered:
    """Cut a function into kernels and lower each to LLIR, for a target (by default the one in the settings)."""
    machine = find_target(current().target if target is None else target)
    programs: list[Program] = []
    kernels: list[Kernel] = []
    with Table() as table:
        plan = schedule(function, table)
        for kernel in plan.kernels:
            program = lower_to_llir(kernel.name, pipeline.run(kernel.sink, _steered(machine)))
            programs.append(program)
            # what the stages found unused is no parameter any more
            slots = [int(buffer.name.removeprefix("arg")) for buffer in program.params]
            kernels.append(replace(kernel, buffers=tuple(kernel.buffers[slot] for slot in slots)))
    return Lowered(function, replace(plan, kernels=tuple(kernels)), tuple(programs), machine)

"""The processor as a kind of device: one, with the host's memory and NumPy's arrays, and machine code by LLVM or the system's C compiler."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import numpy as np

from planish.compiler.device_kinds import HOST, DeviceKind, DeviceProperties
from planish.compiler.executable import Executable
from planish.compiler.native import Backend
from planish.compiler.object_code import blocks
from planish.errors import PlanishError
from planish.runtime.memory import Blocks
from planish.runtime.pool import available_cores
from planish.target import Target, host, model_name

if TYPE_CHECKING:
    from planish.compiler import Lowered
    from planish.compiler.lowering import CodeMaker
    from planish.llir.program import Program
    from planish.runtime.sandbox import TimedKernel, TrialBuffer

# LLVM, renderers and the search are imported by who asks for them: a function from the cache needs none of them.


class CpuDevice(DeviceKind):
    """The cores of this machine."""

    name: ClassVar[str] = HOST
    storage = np.ndarray

    def count(self) -> int:
        return 1

    def why_none(self) -> str:
        return ""

    def target(self, number: int) -> Target:
        return host()

    def number_for(self, target: Target) -> int | None:
        from planish.runtime import cpu

        try:
            cpu.check_runs_here(cpu.processor(target))
        except PlanishError:
            return None
        return 0

    def properties(self, number: int) -> DeviceProperties:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return DeviceProperties(model_name(), host().name, None, memory)

    def title(self, target: Target) -> str:
        from planish.runtime import cpu

        made_for = cpu.processor(target)
        features = hashlib.blake2b(made_for.features.encode(), digest_size=6).hexdigest()
        return f"{model_name()}, {available_cores()} cores, {made_for.name}, features {features}"

    def put(self, number: int, array: Any) -> np.ndarray[Any, Any]:
        return array if isinstance(array, np.ndarray) else np.asarray(array)

    def memory(self, number: int) -> Blocks:
        return blocks()

    def load(self, lowered: Lowered, number: int, backend: Backend) -> Executable:
        if backend not in get_args(Backend):
            raise PlanishError(
                f"unknown back end {backend!r}", remedy=f"one of {', '.join(get_args(Backend))}"
            )
        return Executable(lowered, backend=backend)

    def code_maker(self, target: Target) -> CodeMaker:
        from planish.compiler.lowering import for_processor
        from planish.runtime import cpu

        return for_processor(cpu.processor(target))

    def code(
        self, program: Program, target: Target, level: str, *, aliased: Sequence[int] = (), scratch: int = 0
    ) -> str:
        from planish.codegen import c, llvm
        from planish.runtime import cpu

        if level == "c":
            return c.render(program, scratch=bool(scratch))
        made_for = cpu.processor(target)
        source = llvm.render(
            program, aliased=[f"arg{slot}" for slot in aliased], scratch=bool(scratch), avx512=made_for.avx512
        )
        return source if level == "llvm" else cpu.emit_assembly(source, made_for)

    def trial(self, program: Program, places: Sequence[TrialBuffer], target: Target) -> TimedKernel:
        from planish.codegen import llvm
        from planish.compiler.launch_parameters import grid_of, scratch_of, work_of
        from planish.llir.regalloc import pressure
        from planish.runtime import cpu
        from planish.runtime.sandbox import TimedKernel

        scratch, grid, made_for = scratch_of(program), grid_of(program), cpu.processor(target)
        numbers = {place.name: number for number, place in enumerate(places)}
        return TimedKernel(
            llvm.render(replace(program, name="kernel"), scratch=bool(scratch), avx512=made_for.avx512),
            made_for,
            tuple(numbers[buffer.name] for buffer in program.params),
            tuple(variable.high for variable in program.variables),
            grid,
            scratch,
            work_of(program, prod(grid)),
            pressure(program, target.register_bytes).vector,
        )


KIND = CpuDevice()

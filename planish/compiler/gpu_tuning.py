"""Candidates of a search for a GPU: which GPU they run on, and a kernel as a worker wants it.

The driver is asked when there is a kernel for a GPU, and not before.
"""

from __future__ import annotations

from collections.abc import Sequence

from planish.codegen import cuda, symbols
from planish.codegen.cuda_blocks import shared_memory
from planish.compiler.grids import grid_of, maps_of
from planish.llir.program import Program
from planish.runtime.sandbox import GpuKernel, TrialBuffer
from planish.target import Target


def gpu_for(target: Target) -> int | None:
    """The number of the first GPU that a target is; None if there is none here."""
    from planish.runtime.cuda.device import gpu
    from planish.runtime.cuda.driver import device_count

    for number in range(device_count()):
        found = gpu(number)
        if found.arch == target.arch and found.attribute("MULTIPROCESSOR_COUNT") == target.workers:
            return number
    return None


def gpu_name(number: int) -> str:
    """A GPU in words: what was measured on another says nothing here."""
    from planish.runtime.cuda.build import version
    from planish.runtime.cuda.device import gpu

    found = gpu(number)
    return f"{found.model}, {found.attribute('MULTIPROCESSOR_COUNT')} multiprocessors, {found.arch}, NVRTC {version()}"


def gpu_kernel(program: Program, places: Sequence[TrialBuffer]) -> GpuKernel:
    """A kernel as a worker wants it."""
    numbers = {place.name: number for number, place in enumerate(places)}
    return GpuKernel(
        cuda.render(program),
        symbols.kernel(program.name),
        tuple(cuda.FLAGS),
        tuple(numbers[buffer.name] for buffer in program.params),
        tuple(variable.high for variable in program.variables),
        grid_of(program),
        shared_memory(program).dynamic,
        maps_of(program),
    )

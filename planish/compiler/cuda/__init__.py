"""NVIDIA's GPUs as a kind of device: kernels as CUDA C++ by NVRTC, functions as graphs of the driver.

What the driver is asked for is in `planish.runtime.cuda`; here is what the rest of planish asks of the kind, and how a lowered function runs on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from planish.codegen import cuda, symbols
from planish.codegen.cuda_blocks import shared_memory
from planish.compiler.cuda import executable
from planish.compiler.cuda.executable import GpuExecutable, code_text
from planish.compiler.device_kinds import Accelerator, DeviceProperties
from planish.compiler.grids import grid_of, maps_of
from planish.errors import Location, PlanishError
from planish.llir.program import Program
from planish.runtime.cuda import build, dlpack, driver
from planish.runtime.cuda.arrays import GpuArray
from planish.runtime.cuda.device import Gpu, gpu
from planish.runtime.cuda.memory import Pool
from planish.runtime.grid import GridKernel
from planish.runtime.sandbox import GpuKernel, TrialBuffer
from planish.schedule.collectives import collectives_in
from planish.target import TARGETS, Target

if TYPE_CHECKING:
    from planish.compiler import Lowered
    from planish.compiler.lowering import CodeMaker
    from planish.compiler.native import Backend

_OLDEST: Final = 8
_HOPPER: Final = 9


class Cuda(Accelerator):
    """The GPUs that CUDA can use, of compute capability 8.0 or later."""

    name: ClassVar[str] = "cuda"
    storage = GpuArray

    # -- which there are ---------------------------------------------------------------------------------------------

    def count(self) -> int:
        return driver.device_count()

    def why_none(self) -> str:
        return driver.why_none()

    def target(self, number: int) -> Target:
        device = gpu(number)
        major, _ = device.capability
        if major < _OLDEST:
            raise PlanishError(
                f"{device.name} ({device.model}) has compute capability {major}, planish needs {_OLDEST}.0 (Ampere) or later",
                remedy="use device='cpu'",
            )
        named = TARGETS["sm_90" if major >= _HOPPER else "sm_80"]
        if major != _HOPPER:  # cores that read LOCAL memory are Hopper's own: what came after has others
            named = replace(
                named, tensor_cores=tuple(core for core in named.tensor_cores if not core.reads_memory)
            )
        return replace(named, arch=device.arch, workers=_multiprocessors(device))

    def number_for(self, target: Target) -> int | None:
        for number in range(self.count()):
            device = gpu(number)
            if device.arch == target.arch and _multiprocessors(device) == target.workers:
                return number
        return None

    def properties(self, number: int) -> DeviceProperties:
        device = gpu(number)
        ghz = round(device.attribute("CLOCK_RATE") / 1e6, 3) or None
        return DeviceProperties(device.model, device.arch, ghz, device.memory_bytes)

    def title(self, target: Target) -> str:
        number = self.number_for(target)
        if number is None:
            return f"{target.arch}, no GPU"
        device = gpu(number)
        return f"{device.model}, {_multiprocessors(device)} multiprocessors, {device.arch}, NVRTC {build.version()}"

    # -- memory ------------------------------------------------------------------------------------------------------

    def put(self, number: int, array: Any) -> GpuArray:
        return executable.put(gpu(number), array)

    def memory(self, number: int) -> Pool:
        return gpu(number).pool

    def array_at(self, number: int, address: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> GpuArray:
        return GpuArray(gpu(number), None, address, dtype, shape)

    def borrowed(self, x: Any) -> tuple[GpuArray, tuple[int, ...] | None]:
        return dlpack.borrowed(x)

    def lent(self, array: GpuArray, stream: int | None, *, versioned: bool, read_only: bool) -> object:
        return dlpack.lent(array, stream, versioned=versioned, read_only=read_only)

    def at_once(self, x: Any) -> GpuArray | None:
        return dlpack.at_once(x)

    def reader_of(self, number: int, kind: Any, shape: tuple[int, ...]) -> Callable[[Any], GpuArray | None]:
        return dlpack.reader_of(number, kind, shape)

    def writer_of(
        self, number: int, dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> Callable[[GpuArray], Any]:
        return dlpack.writer_of(number, dtype, shape)

    def array_interface(self, array: GpuArray) -> dict[str, Any]:
        return dlpack.interface(array)

    def on_stream(self, number: int, handle: object) -> AbstractContextManager[None]:
        return gpu(number).on_stream(_address(handle))

    # -- code --------------------------------------------------------------------------------------------------------

    def launches(self, lowered: Lowered) -> tuple[GridKernel, ...]:
        return executable.launches_of(lowered)

    def load(self, lowered: Lowered, number: int, backend: Backend) -> GpuExecutable:
        own = gpu(number)
        if not collectives_in(lowered.plan):
            return GpuExecutable(lowered, own)
        from planish.compiler.cuda.collectives import carried

        return GpuExecutable(lowered, own, carried(lowered, own))

    def code_maker(self, target: Target) -> CodeMaker:
        return executable.code_maker(target)

    def code(
        self, program: Program, target: Target, level: str, *, aliased: Sequence[int] = (), scratch: int = 0
    ) -> str:
        if not target.arch:
            raise PlanishError(
                f"{target.name} is no GPU", remedy="lower for sm_80 or sm_90 to read CUDA C++, PTX or SASS"
            )
        return code_text(executable.source_of(program, aliased), target.arch, level)

    def trial(self, program: Program, places: Sequence[TrialBuffer], target: Target) -> GpuKernel:
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


def _multiprocessors(device: Gpu) -> int:
    return device.attribute("MULTIPROCESSOR_COUNT")


def _address(handle: object) -> int:
    """Of a stream: as the libraries that have them tell it."""
    told = getattr(handle, "__cuda_stream__", None)
    if told is not None:
        return int((told() if callable(told) else told)[1])
    for name in ("cuda_stream", "ptr", "handle"):  # torch, cupy, numba
        pointer = getattr(handle, name, None)
        if pointer is not None:
            return int(getattr(pointer, "value", pointer) or 0)
    if isinstance(handle, int):
        return handle
    raise PlanishError(
        f"{handle!r} is no stream of CUDA",
        location=Location.caller(),
        remedy="pass a stream of torch or cupy, or its address",
    )


KIND = Cuda()

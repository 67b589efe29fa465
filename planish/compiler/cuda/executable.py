"""A function compiled for a GPU: kernels rendered as CUDA C++, compiled by NVRTC, and a plan that runs on addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planish import ptir
from planish.codegen import cuda, symbols
from planish.codegen.cuda_blocks import shared_memory
from planish.compiler.assemble import assemble
from planish.compiler.cuda.call import fast_call, launcher
from planish.compiler.executable import Executable, alone, weakly
from planish.compiler.grids import grid_of, maps_of
from planish.compiler.reproducers import keep_program
from planish.errors import InternalError
from planish.runtime.cuda.arrays import GpuArray
from planish.runtime.cuda.build import cubin_key, cubin_of, kept_cubin, translate
from planish.runtime.cuda.code import CarriedCollectives, GpuCode, Watch
from planish.runtime.cuda.device import Gpu
from planish.runtime.cuda.disassembly import sass_of
from planish.runtime.cuda.launch import LoadedKernel
from planish.runtime.fastcall import Builtin
from planish.runtime.grid import GridKernel
from planish.schedule.memory import elements
from planish.schedule.plan import Role

if TYPE_CHECKING:
    from planish.compiler import Lowered
    from planish.compiler.lowering import CodeMaker
    from planish.compiler.profile import TimedWalk
    from planish.llir.program import Program
    from planish.target import Target

_SIZES: Final = 64
"""Sets of sizes of one function that are kept: as many as a server sees in turn."""
_HANDS: Final = 8
"""Kernels that NVRTC compiles at a time in one process."""


def source_of(program: Program, aliased: Sequence[int] | frozenset[int]) -> str:
    """The CUDA C++ of a kernel of a plan."""
    return cuda.render(program, aliased=[f"arg{slot}" for slot in aliased])


def code_maker(target: Target) -> CodeMaker:
    """By NVRTC, for a GPU; it works outside of the interpreter's lock."""
    from planish.compiler.lowering import CodeMaker

    return CodeMaker(source_of, partial(_key_for, target.arch), partial(_code_for, target.arch), _HANDS)


def _key_for(arch: str, source: str) -> str:
    return cubin_key(source, arch, cuda.FLAGS)


def _code_for(arch: str, source: str, key: str) -> bytes:
    return cubin_of(source, arch, cuda.FLAGS)


def launches_of(lowered: Lowered) -> tuple[GridKernel, ...]:
    """What the driver is told of each kernel."""
    arch = lowered.target.arch
    keys = lowered.keys or [cubin_key(source, arch, cuda.FLAGS) for source in sources_of(lowered)]
    return tuple(
        GridKernel(
            symbols.kernel(program.name),
            key,
            grid_of(program),
            shared_memory(program).dynamic,
            maps_of(program),
        )
        for program, key in zip(lowered.programs, keys, strict=True)
    )


def sources_of(lowered: Lowered) -> list[str]:
    """The CUDA C++ of each kernel."""
    return [
        source_of(p, aliased) for p, aliased in zip(lowered.programs, lowered.sharing.aliased, strict=True)
    ]


def _cubin(lowered: Lowered, number: int, arch: str) -> bytes:
    """The machine code of a kernel: made on the way, by its key from the cache, or compiled."""
    if lowered.images is not None:
        return lowered.images[number]()
    cubin = kept_cubin(lowered.launches[number].key)
    if cubin is None:
        source = source_of(lowered.programs[number], lowered.sharing.aliased[number])
        cubin = cubin_of(source, arch, cuda.FLAGS)
    return cubin


def put(place: Gpu, array: Any) -> GpuArray:
    """An array of the host, or of another GPU, in the memory of a GPU."""
    return array.moved(place) if isinstance(array, GpuArray) else GpuArray.of(place, np.asarray(array))


def code_text(source: str, arch: str, level: str) -> str:
    """CUDA C++ as it is, as PTX, or as the instructions of the GPU."""
    if level == "cuda":
        return source
    if level == "ptx":
        return translate(source, arch, cuda.FLAGS, "ptx").decode().rstrip("\0")
    return sass_of(cubin_of(source, arch, cuda.FLAGS))


class GpuExecutable(Executable):
    """A compiled function on a GPU: called with arrays (those of the host are copied there), it gives arrays on the GPU."""

    def __init__(self, lowered: Lowered, gpu: Gpu, carried: CarriedCollectives | None = None) -> None:
        self.lowered, self.gpu = lowered, gpu
        assembled = assemble(lowered.plan, lowered.variables, lowered.arguments.names)
        self._code, self._sizes, self._results = assembled.code, assembled.sizes, assembled.results
        self._native = self._fast = self._kept = self._told = None
        self._backend, self._threads = gpu.name, alone
        with ThreadPoolExecutor(max_workers=_HANDS) as pool:  # NVRTC works outside of the interpreter's lock
            numbers = range(len(lowered.launches))
            cubins = list(pool.map(lambda number: _cubin(lowered, number, gpu.arch), numbers))
        kernels = [
            LoadedKernel(gpu, launch.name, cubin, launch.grid, launch.shared, launch.maps)
            for launch, cubin in zip(lowered.launches, cubins, strict=True)
        ]
        buffers = lowered.plan.buffers
        self.run = GpuCode(
            gpu,
            launcher(),
            self._code,
            kernels,
            [b.dtype.itemsize for b in buffers],
            [np.dtype(b.dtype.numpy) for b in buffers],
            carried,
        )
        self._constants = {
            number: GpuArray.of(gpu, np.ascontiguousarray(buffer.constant).reshape(-1))
            for number, buffer in enumerate(buffers)
            if buffer.constant is not None
        }
        self._places: dict[tuple[int, ...], _GpuLayout] = {}
        self._assembled = assembled
        self._sized: dict[tuple[Any, ...], Builtin | None] = {}
        """Builtins by the shapes of the arguments, where those may vary."""
        if lowered.arguments.is_static:
            layout = self._places[()] = _GpuLayout(lowered, {})
            self._kept = self._builtin(layout, {})
            self._fast = None if self._kept is None else self._kept.call

    def _builtin(self, layout: _GpuLayout, sizes: Mapping[str, int]) -> Builtin | None:
        return fast_call(
            self.lowered,
            self._assembled,
            self.run,
            self._constants,
            layout.memory,
            layout.nbytes,
            weakly(self),
            sizes,
        )

    def __call__(self, *arrays: object) -> tuple[Any, ...]:
        if ptir.trace.current_sink() is None and self._told is None:
            if self._fast is not None:
                return self._fast(1, *arrays)
            if self._sized:
                builtin = self._sized.get(tuple([getattr(array, "shape", None) for array in arrays]))
                if builtin is not None:
                    return builtin.call(1, *arrays)
        return self.general(*arrays)

    def general(self, *arrays: object, watch: Watch | None = None) -> tuple[Any, ...]:
        """The results, in new arrays on the GPU. Who watches runs every launch himself."""
        if watch is None and self._told is not None:
            return self._told(arrays)
        gpu = self.gpu
        given = [self.placed(array) for array in arrays]
        checked, sizes = self.lowered.arguments.check(given)
        slots = list(self._code.slots)
        for name, slot in self._sizes:
            slots[slot] = sizes[name]
        key = tuple(sizes.values())
        layout = self._places.get(key)
        if layout is None:
            if len(self._places) >= _SIZES:
                self._places.clear()
                self._sized.clear()
            layout = self._places[key] = _GpuLayout(self.lowered, sizes)
            if sizes:
                self._sized[tuple(array.shape for array in checked)] = self._builtin(layout, sizes)
        memory, owners = layout.allocate(gpu, checked, self._constants)
        function = self.lowered.function
        try:
            with ptir.trace.execution(
                ptir.Program([function]),
                targets=[value.id for value in function.results],
                backend=self._backend,
            ) as running:
                own = list(memory)
                self.run(own, slots, layout.nbytes, watch)
                running.counters["kernels"] = self.run.launched
        except InternalError as error:
            keep_program(error, self.lowered)
            raise
        results = []
        told = self.lowered.arguments.results
        for number, dims, dtype in zip(self.lowered.plan.results, self._results, told, strict=True):
            shape = tuple(slots[slot] for slot in dims)
            plain = np.dtype(self.lowered.plan.buffers[number].dtype.numpy)
            if plain != dtype and np.dtype(dtype).kind == "c":
                shape = shape[:-1]
            owner = owners.get(own[number]) or _owner_of(owners, own[number])
            results.append(GpuArray(gpu, owner, own[number], np.dtype(dtype), shape))
        return tuple(results)

    def timed_walk(self, given: Sequence[object]) -> TimedWalk:
        from planish.compiler.cuda.profile import GpuWalk

        return GpuWalk(self, given)

    def placed(self, array: object) -> GpuArray:
        """An argument as an array on the GPU that it runs on."""
        return put(self.gpu, array)


def _owner_of(owners: dict[int, Any], address: int) -> Any:
    """The block that an address lies in."""
    for start, owner in owners.items():
        nbytes = getattr(owner, "nbytes", 0)
        if start <= address < start + nbytes:
            return owner
    return None


class _GpuLayout:
    """Where the buffers of a call are, for one set of sizes."""

    def __init__(self, lowered: Lowered, sizes: dict[str, int]) -> None:
        memory = lowered.layout(sizes)
        self.buffers = lowered.plan.buffers
        self.peak = memory.peak
        counts = [elements(buffer.size, sizes) for buffer in self.buffers]
        self.nbytes = [count * b.dtype.itemsize for count, b in zip(counts, self.buffers, strict=True)]
        self.memory, self.homes, self.offsets = memory, memory.homes, memory.offsets

    def allocate(
        self, gpu: Gpu, given: Sequence[Any], constants: dict[int, GpuArray]
    ) -> tuple[list[int], dict[int, Any]]:
        """An address per buffer, and by address what keeps it alive."""
        owners: dict[int, Any] = {}
        memory = [0] * len(self.buffers)
        arena = gpu.pool.take(self.peak) if self.peak else None
        if arena is not None:
            owners[arena.address] = arena
        for number, buffer in enumerate(self.buffers):
            if buffer.role is Role.PARAMETER:
                array = given[buffer.position]
                memory[number] = array.address
                owners[array.address] = array.owner
            elif number in constants:
                memory[number] = constants[number].address
                owners[memory[number]] = constants[number].owner
            elif self.homes.get(number, number) != number:
                continue
            elif number in self.offsets and arena is not None:
                memory[number] = arena.address + self.offsets[number]
            elif buffer.role is Role.RESULT:
                block = gpu.pool.take(self.nbytes[number])
                memory[number] = block.address
                owners[block.address] = block
        for number, home in self.homes.items():
            if number != home:
                memory[number] = memory[home]
        return memory, owners

"""Kernels on a GPU: modules loaded from cubins, the grid of a launch, and the words that a launch is given."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from planish.errors import LoweringError
from planish.llir.program import Compute, Convert, Immediate, Operand, Ops, Program, Special
from planish.runtime.cuda.device import STREAM, Gpu
from planish.runtime.cuda.driver import bindings, call, refuse

Values = Sequence[int]
_AXES: Final = 3


@dataclass(frozen=True, slots=True)
class Grid:
    """How many blocks, of how many threads; along each axis a number, or what follows from the variables."""

    blocks: tuple[int | Callable[[Values], int], ...]
    threads: tuple[int, ...]

    @property
    def is_static(self) -> bool:
        return all(isinstance(size, int) for size in self.blocks)

    def at(self, values: Values) -> tuple[int, ...]:
        """The blocks of a launch whose variables have these values."""
        return tuple(size if isinstance(size, int) else size(values) for size in self.blocks)


def grid_of(program: Program) -> Grid:
    """The grid that the special indices of a kernel ask for."""
    blocks: list[int | Callable[[Values], int]] = [1] * _AXES
    threads = [1] * _AXES
    for special in program.specials:
        axis = int(special.name[4:])
        bound = special.bound
        if isinstance(bound, Immediate) and isinstance(bound.value, int):
            (threads if special.is_thread else blocks)[axis] = bound.value
        elif special.is_thread:
            raise LoweringError(f"{program.name}: a block of varying size", op="SPECIAL")
        else:
            blocks[axis] = _computed(program, special)
    return Grid(tuple(blocks), tuple(threads))


_INTEGERS: Final[dict[Ops, Callable[..., int]]] = {
    Ops.ADD: lambda x, y: x + y, Ops.SUB: lambda x, y: x - y, Ops.MUL: lambda x, y: x * y, Ops.NEG: lambda x: -x,
    Ops.TRUNCDIV: lambda x, y: abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if y else 0,
    Ops.SHL: lambda x, y: x << y, Ops.SHR: lambda x, y: x >> y, Ops.AND: lambda x, y: x & y, Ops.MAX: max, Ops.MIN: min,
    Ops.MULACC: lambda x, y, z: x * y + z, Ops.OR: lambda x, y: x | y, Ops.XOR: lambda x, y: x ^ y,
    Ops.TRUNCMOD: lambda x, y: int(math.fmod(x, y)) if y else 0, Ops.CMPLT: lambda x, y: int(x < y),
    Ops.CMPLE: lambda x, y: int(x <= y), Ops.CMPEQ: lambda x, y: int(x == y), Ops.CMPNE: lambda x, y: int(x != y), Ops.WHERE: lambda p, x, y: x if p else y,
}  # fmt: skip
"""What a size is computed by."""


def _computed(program: Program, special: Special) -> Callable[[Values], int]:
    """A bound as a function of the variables of the kernel."""
    makers = {i.target: i for i in program.body if i.target is not None}
    places = {variable.result: k for k, variable in enumerate(program.variables)}

    def build(operand: Operand) -> Callable[[Values], int]:
        if isinstance(operand, Immediate):
            constant = int(operand.value)  # type: ignore[arg-type]  # a size is one integer
            return lambda values: constant
        if operand in places:
            place = places[operand]
            return lambda values: values[place]
        maker = makers.get(operand)
        if isinstance(maker, Convert):
            return build(maker.operand)
        if isinstance(maker, Compute) and maker.op in _INTEGERS:
            inputs, compute = [build(x) for x in maker.inputs], _INTEGERS[maker.op]
            return lambda values: compute(*(x(values) for x in inputs))
        raise LoweringError(f"{program.name}: the grid depends on more than sizes", op="SPECIAL")

    return build(special.bound)


class LoadedKernel:
    """A kernel that a GPU can run."""

    def __init__(self, gpu: Gpu, name: str, cubin: bytes, grid: Grid, shared: int) -> None:
        self.gpu, self.name, self.grid, self.shared = gpu, name, grid, shared
        gpu.enter()
        self._module = call("cuModuleLoadData", cubin, doing=f"while {name} was loaded")
        self.function = call("cuModuleGetFunction", self._module, name.encode())
        if shared:
            attribute = bindings().CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            call(
                "cuFuncSetAttribute",
                self.function,
                attribute,
                shared,
                doing=f"for {shared} bytes of shared memory of {name}",
            )

    def attribute(self, name: str) -> int:
        """A number that the driver tells of it, such as `NUM_REGS` or `LOCAL_SIZE_BYTES`."""
        which = getattr(bindings().CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(call("cuFuncGetAttribute", which, self.function))


class Site:
    """One launch in a program: its kernel, and the words it is given, where the driver reads them."""

    __slots__ = ("_launch", "_pack", "_static", "_words", "kernel", "params")

    def __init__(self, kernel: LoadedKernel, words: int) -> None:
        self.kernel = kernel
        count, size = max(words, 1), ctypes.sizeof(ctypes.c_int64)
        self._words = (ctypes.c_int64 * count)()
        self._pack = struct.Struct(f"<{words}q").pack_into
        start = ctypes.addressof(self._words)
        self.params = (ctypes.c_void_p * count)(*(start + k * size for k in range(count)))
        self._launch = bindings().cuLaunchKernel
        grid = kernel.grid
        self._static = self._arguments(grid.at(())) if grid.is_static else None

    def _arguments(self, blocks: tuple[int, ...]) -> tuple[Any, ...]:
        kernel = self.kernel
        return (
            kernel.function,
            *blocks,
            *kernel.grid.threads,
            kernel.shared,
            STREAM,
            ctypes.addressof(self.params),
            0,
        )

    def set(self, words: Sequence[int]) -> None:
        """Addresses and variables, in the order of the kernel's parameters."""
        self._pack(self._words, 0, *words)

    def launch(self, variables: Values) -> None:
        """Start it, behind everything that was started before."""
        arguments = self._static
        if arguments is None:
            blocks = self.kernel.grid.at(variables)
            if 0 in blocks:
                return
            arguments = self._arguments(blocks)
        (status,) = self._launch(*arguments)
        if status:
            shape = f"{arguments[1:4]} blocks of {arguments[4:7]} threads"
            refuse(int(status), "cuLaunchKernel", f"when {self.kernel.name} was launched ({shape})")


def node_params(site: Site, variables: Values) -> Any:
    """What a node of a graph needs to know of a launch."""
    kernel = site.kernel
    params = bindings().CUDA_KERNEL_NODE_PARAMS()
    params.func = kernel.function
    params.gridDimX, params.gridDimY, params.gridDimZ = kernel.grid.at(variables)
    params.blockDimX, params.blockDimY, params.blockDimZ = kernel.grid.threads
    params.sharedMemBytes = kernel.shared
    params.kernelParams = ctypes.addressof(site.params)
    return params

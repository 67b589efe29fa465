"""Kernels on a GPU: modules loaded from cubins, and the grid of a launch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from planish.errors import LoweringError
from planish.llir.program import Compute, Convert, Immediate, Operand, Ops, Program, Special
from planish.runtime.cuda.build import cubin_of
from planish.runtime.cuda.device import Gpu
from planish.runtime.cuda.driver import bindings, call

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


_COPY: Final = """
extern "C" __global__ void planish_copy(char *to, const char *from, long long nbytes) {
    const long long i = (blockIdx.x * 256ll + threadIdx.x) * 16;
    const unsigned long long both = (unsigned long long)to | (unsigned long long)from;
    if (i + 16 <= nbytes && both % 16 == 0) *(uint4 *)(to + i) = *(const uint4 *)(from + i);
    else if (i + 16 <= nbytes && both % 4 == 0)
        for (int k = 0; k < 16; k += 4) *(unsigned *)(to + i + k) = *(const unsigned *)(from + i + k);
    else
        for (long long k = i; k < i + 16 && k < nbytes; k++) to[k] = from[k];
}
"""
"""In a graph, a kernel costs half of what a copy of the driver does, and its words can be set anew like those of others."""
_COPIERS: Final[dict[int, LoadedKernel]] = {}


def copier(gpu: Gpu) -> LoadedKernel:
    """The kernel that copies bytes: target, source, how many."""
    found = _COPIERS.get(gpu.number)
    if found is None:
        grid = Grid((lambda values: -(-values[0] // 4096), 1, 1), (256, 1, 1))
        found = _COPIERS[gpu.number] = LoadedKernel(
            gpu, "planish_copy", cubin_of(_COPY, gpu.arch, ()), grid, 0
        )
    return found

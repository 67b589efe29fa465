"""Kernels on a GPU: modules loaded from cubins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planish.runtime.cuda.build import cubin_of
from planish.runtime.cuda.device import Gpu
from planish.runtime.cuda.driver import bindings, call
from planish.runtime.cuda.tensor_maps import words_of
from planish.runtime.grid import Grid, TensorMap


class LoadedKernel:
    """A kernel that a GPU can run."""

    def __init__(
        self, gpu: Gpu, name: str, cubin: bytes, grid: Grid, shared: int, maps: Sequence[TensorMap] = ()
    ) -> None:
        self.gpu, self.name, self.grid, self.shared = gpu, name, grid, shared
        gpu.enter()
        self._module = call("cuModuleLoadData", cubin, doing=f"while {name} was loaded")
        self.function = call("cuModuleGetFunction", self._module, name.encode())
        self.maps = [(each.position, *words_of(each)) for each in maps]
        """Of each tensor map, the parameter it is of, where the address is in it, and its words."""
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
    kernel = _COPIERS.get(gpu.number)
    if kernel is None:
        grid = Grid(("v0 4095 add 4096 truncdiv", "1", "1"), (256, 1, 1))
        kernel = _COPIERS[gpu.number] = LoadedKernel(
            gpu, "planish_copy", cubin_of(_COPY, gpu.arch, ()), grid, 0
        )
    return kernel

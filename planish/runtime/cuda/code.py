"""A compiled function on a GPU: its flat code walked on addresses, what is known beforehand launched as one graph.

The code is that of `runtime.plan`; memory is addresses, so that a slice is an addition and an exchange is one of numbers. A stretch of
launches and copies without a jump is a graph: one call of the driver, however many kernels it has. What a flag or a size in memory decides is read back; host instructions work on copies.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish.runtime.cuda.device import STREAM, Gpu
from planish.runtime.cuda.driver import bindings, call, refuse
from planish.runtime.cuda.launch import LoadedKernel, Site, node_params
from planish.runtime.plan import (
    OPERATIONS,
    Below,
    Calculate,
    Call,
    Code,
    Copy,
    Host,
    Instruction,
    Jump,
    PlanState,
    Read,
    Slice,
    Swap,
    Unless,
)

Array = NDArray[Any]
_WORTH: Final = 2
"""Launches that are worth a graph."""
_LONGEST: Final = 4096
"""Nodes of one graph."""
_KEPT: Final = 8
"""Graphs of one stretch, for as many sets of addresses."""


class GpuCode:
    """The code of a function, and the kernels it calls."""

    def __init__(
        self,
        gpu: Gpu,
        code: Code,
        kernels: Sequence[LoadedKernel],
        itemsizes: Sequence[int],
        dtypes: Sequence[np.dtype[Any]],
    ) -> None:
        self.gpu, self.code, self.kernels = gpu, code, kernels
        self.itemsizes, self.dtypes = itemsizes, dtypes
        calls = {i.site: i for i in code.instructions if isinstance(i, Call)}
        self.sites = {
            number: Site(kernels[i.kernel], len(i.buffers) + len(i.variables)) for number, i in calls.items()
        }
        self.stretches = _stretches(code.instructions)
        self._graphs: dict[int, Graph] = {}
        self.launched = 0
        self._lock = threading.RLock()
        only = code.instructions[0] if len(code.instructions) == 1 else None
        self._only = (
            (self.sites[only.site], only.buffers) if isinstance(only, Call) and not only.variables else None
        )
        """The one launch that a call is."""

    def __call__(self, memory: list[int], slots: list[int], sizes: Sequence[int]) -> None:
        """One call on addresses by buffer and integers by slot; `sizes`: the bytes of each buffer.

        One at a time: what a launch is given lies where the driver reads it, which works outside of the interpreter's lock.
        """
        with self._lock:
            self._run(memory, slots, sizes)

    def _run(self, memory: list[int], slots: list[int], sizes: Sequence[int]) -> None:
        self.gpu.enter()
        if self._only is not None:
            site, buffers = self._only
            site.set([memory[buffer] for buffer in buffers])
            site.launch(())
            self.launched = 1
            return
        instructions, position, self.launched = self.code.instructions, 0, 0
        while position < len(instructions):
            end = self.stretches.get(position)
            if end is not None:
                graph = self._graphs.get(position)
                if graph is None:
                    graph = self._graphs[position] = Graph(self, position, end)
                graph.launch(memory, slots)
                self.launched += graph.kernels
                position = end
                continue
            position = self._step(instructions[position], position, memory, slots, sizes)

    def _step(
        self, i: Instruction, position: int, memory: list[int], slots: list[int], sizes: Sequence[int]
    ) -> int:
        match i:
            case Call():
                site = self.sites[i.site]
                variables = [slots[slot] for slot in i.variables]
                site.set([*(memory[buffer] for buffer in i.buffers), *variables])
                site.launch(variables)
                self.launched += 1
            case Copy(source, target, size):
                self.gpu.copy(memory[source], memory[target], slots[size] * self.itemsizes[target])
            case Swap(first, second):
                memory[first], memory[second] = memory[second], memory[first]
            case Slice(buffer, base, index, size):
                memory[buffer] = memory[base] + slots[index] * slots[size] * self.itemsizes[buffer]
            case Calculate(target, op, left, right):
                slots[target] = OPERATIONS[op](slots[left], slots[right])
            case Read(_, buffer):
                found = np.empty(1, np.int64)
                self.gpu.download(memory[buffer], found)
                i.step(PlanState({buffer: found}, slots, (), ()))  # type: ignore[arg-type]  # all that it looks at
            case Jump(to):
                return to
            case Unless(flag, to):
                found = np.empty(1, np.uint8)
                self.gpu.download(memory[flag], found)
                return position + 1 if found[0] else to
            case Below(left, right, to):
                return position + 1 if slots[left] < slots[right] else to
            case Host():
                self._host(i, memory, slots, sizes)
        return position + 1

    def _host(self, i: Host, memory: list[int], slots: list[int], sizes: Sequence[int]) -> None:
        """What the host does, it does on copies."""
        arrays: dict[int, Array] = {}
        for buffer in (*i.inputs, *i.outputs):
            dtype = self.dtypes[buffer]
            arrays[buffer] = np.empty(sizes[buffer] // max(dtype.itemsize, 1), dtype)
        for buffer in i.inputs:
            self.gpu.download(memory[buffer], arrays[buffer])
        i.step(PlanState(arrays, slots, (), ()))  # type: ignore[arg-type]  # it looks at its own buffers alone
        for buffer in i.outputs:
            self.gpu.upload(arrays[buffer], memory[buffer])


def _stretches(instructions: Sequence[Instruction]) -> dict[int, int]:
    """Where a run of launches and copies begins, and where it ends: nothing jumps into it, and nothing in it changes an address."""
    targets = {i.to for i in instructions if isinstance(i, Jump | Unless | Below)}
    found: dict[int, int] = {}
    begin = 0
    while begin < len(instructions):
        end = begin
        while (
            end < len(instructions)
            and isinstance(instructions[end], Call | Copy)
            and end - begin < _LONGEST
            and (end == begin or end not in targets)
        ):
            end += 1
        if end - begin >= _WORTH:
            found[begin] = end
        begin = max(end, begin + 1)
    return found


class Graph:
    """Launches and copies as one. What was made for some addresses and sizes is kept: a program has few sets of them in turn."""

    def __init__(self, code: GpuCode, begin: int, end: int) -> None:
        self.code = code
        self.steps = [i for i in code.code.instructions[begin:end] if isinstance(i, Call | Copy)]
        self.kernels = sum(isinstance(i, Call) for i in self.steps)
        self._made: dict[tuple[tuple[int, ...], tuple[int, ...]], Any] = {}
        self._launch = bindings().cuGraphLaunch

    def launch(self, memory: Sequence[int], slots: Sequence[int]) -> None:
        """Run it on these addresses."""
        key = tuple(memory), tuple(slots)
        found = self._made.get(key)
        if found is None:
            if len(self._made) >= _KEPT:
                call("cuGraphExecDestroy", self._made.pop(next(iter(self._made))))
            found = self._made[key] = self._build(memory, slots)
        (status,) = self._launch(found, STREAM)
        if status:
            refuse(int(status), "cuGraphLaunch", "when a graph of kernels was launched")

    def _build(self, memory: Sequence[int], slots: Sequence[int]) -> Any:
        graph = call("cuGraphCreate", 0)
        context = call("cuCtxGetCurrent")
        before: list[Any] = []
        for i in self.steps:
            own = _words(i, memory, slots, self.code)
            if isinstance(i, Call):
                site = self.code.sites[i.site]
                variables = [slots[slot] for slot in i.variables]
                site.set(own)
                if 0 in site.kernel.grid.at(variables):
                    continue
                before = [
                    call("cuGraphAddKernelNode", graph, before, len(before), node_params(site, variables))
                ]
            elif own[2] and own[0] != own[1]:
                before = [
                    call("cuGraphAddMemcpyNode", graph, before, len(before), _copy_params(*own), context)
                ]
        made = call("cuGraphInstantiate", graph, 0)
        call("cuGraphDestroy", graph)
        return made


def _words(i: Call | Copy, memory: Sequence[int], slots: Sequence[int], code: GpuCode) -> tuple[int, ...]:
    if isinstance(i, Call):
        return (*(memory[buffer] for buffer in i.buffers), *(slots[slot] for slot in i.variables))
    return memory[i.source], memory[i.target], slots[i.size] * code.itemsizes[i.target]


def _copy_params(source: int, target: int, nbytes: int) -> Any:
    driver = bindings()
    params = driver.CUDA_MEMCPY3D()
    device = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    params.srcMemoryType = params.dstMemoryType = device
    params.srcDevice, params.dstDevice = source, target
    params.WidthInBytes, params.Height, params.Depth = nbytes, 1, 1
    return params

"""A compiled function on a GPU: its flat code walked on addresses, what is known beforehand launched as one graph.

The code is that of `runtime.plan`; memory is addresses, so that a slice is an addition and an exchange is one of numbers. A stretch of
launches and copies without a jump is a graph: one call of the driver, however many kernels it has. Its nodes are told when addresses
change. What a flag or a size in memory decides is read back; host instructions work on copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish.runtime.cuda.device import STREAM, Gpu
from planish.runtime.cuda.driver import bindings, call
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
    Read,
    Slice,
    State,
    Swap,
    Unless,
)

Array = NDArray[Any]
_WORTH: Final = 2
"""Launches that are worth a graph."""
_LONGEST: Final = 4096
"""Nodes of one graph."""


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

    def __call__(self, memory: list[int], slots: list[int], sizes: Sequence[int]) -> None:
        """One call on addresses by buffer and integers by slot; `sizes`: the bytes of each buffer."""
        self.gpu.enter()
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
                i.step(State(_Only(buffer, found), slots, (), ()))  # type: ignore[arg-type]  # all that it looks at
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
        i.step(State(arrays, slots, (), ()))  # type: ignore[arg-type]  # it looks at its own buffers alone
        for buffer in i.outputs:
            self.gpu.upload(arrays[buffer], memory[buffer])


class _Only(dict[int, Array]):
    def __init__(self, buffer: int, array: Array) -> None:
        super().__init__({buffer: array})


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
    """Launches and copies as one."""

    def __init__(self, code: GpuCode, begin: int, end: int) -> None:
        self.code = code
        self.steps = [i for i in code.code.instructions[begin:end] if isinstance(i, Call | Copy)]
        self.kernels = sum(isinstance(i, Call) for i in self.steps)
        self._exec: Any = None
        self._nodes: list[Any] = []
        self._known: list[tuple[int, ...]] = []

    def launch(self, memory: Sequence[int], slots: Sequence[int]) -> None:
        """Run it on these addresses."""
        words = [_words(i, memory, slots, self.code) for i in self.steps]
        if (
            self._exec is None
            or any(0 in now and not isinstance(i, Call) for i, now in zip(self.steps, words, strict=True))
            or (words != self._known and not self._update(words, slots))
        ):
            self._build(words, slots)
        self._known = words
        call("cuGraphLaunch", self._exec, STREAM, doing="when a graph of kernels was launched")

    def _build(self, words: Sequence[tuple[int, ...]], slots: Sequence[int]) -> None:
        graph = call("cuGraphCreate", 0)
        before: list[Any] = []
        self._nodes = []
        for i, own in zip(self.steps, words, strict=True):
            if isinstance(i, Call):
                params = self._params(i, own, slots)
                node = (
                    None
                    if params is None
                    else call("cuGraphAddKernelNode", graph, before, len(before), params)
                )
            else:
                node = self._copy_node(graph, before, own)
            self._nodes.append(node)
            before = before if node is None else [node]
        self._exec = call("cuGraphInstantiate", graph, 0)
        self._graph = graph

    def _params(self, i: Call, own: tuple[int, ...], slots: Sequence[int]) -> Any:
        site = self.code.sites[i.site]
        variables = [slots[slot] for slot in i.variables]
        site.set(own)
        return None if 0 in site.kernel.grid.at(variables) else node_params(site, variables)

    def _copy_node(self, graph: Any, before: list[Any], own: tuple[int, ...]) -> Any:
        source, target, nbytes = own
        if not nbytes or source == target:
            return None
        params = _copy_params(source, target, nbytes)
        context = call("cuCtxGetCurrent")
        return call("cuGraphAddMemcpyNode", graph, before, len(before), params, context)

    def _update(self, words: Sequence[tuple[int, ...]], slots: Sequence[int]) -> bool:
        """Tell the nodes what has changed; False if the graph has to be made anew."""
        for i, now, known, node in zip(self.steps, words, self._known, self._nodes, strict=True):
            if now == known:
                continue
            if not isinstance(i, Call) or node is None:
                return False
            params = self._params(i, now, slots)
            if params is None:
                return False
            call("cuGraphExecKernelNodeSetParams", self._exec, node, params)
        return True


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

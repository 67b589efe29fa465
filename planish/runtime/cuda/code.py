"""A compiled function on a GPU: its flat code as segments, which are launched as a whole, and what the host does between them.

The code is that of `runtime.plan`; memory is addresses. A segment is a stretch of launches that are known beforehand (`trace`), for the
integers of a call; it runs natively, from its second time on as a graph: one call of the driver, however many kernels it has, and even
for one of them a third of the price of a launch. What a size in memory decides is read back, and so is a flag where the driver has no conditional nodes; host instructions work on copies.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planish.runtime.cuda.device import Gpu
from planish.runtime.cuda.driver import CudaError, call, refuse
from planish.runtime.cuda.graphs import Built, GraphBuilder, decides
from planish.runtime.cuda.launch import LoadedKernel, copier
from planish.runtime.cuda.native import WANTS_GRAPH, Launcher, WordArrays, packed
from planish.runtime.cuda.nccl import NcclCollective
from planish.runtime.cuda.tensor_maps import map_words
from planish.runtime.cuda.trace import (
    LONGEST,
    Choice,
    Exchanged,
    Item,
    Joined,
    KernelLaunch,
    LaunchLoop,
    Stretch,
    Word,
    follow,
)
from planish.runtime.plan import CallHost, Code, CopyBuffer, PlanState, Read, SwapBuffers, Unless

Array = NDArray[Any]
_GRAPHS: Final = 4
"""Graphs of one segment, for as many sets of addresses; of another set, the words of the oldest are set anew."""
_WHOLE: Final = 8
"""The same where they cannot be set anew."""
_SEGMENTS: Final = 64
"""Of one function: as many sizes as a server sees in turn."""
_WORDS: Final = 256
"""Of one launch; a kernel has at most 4 KiB of parameters, and this is half of that."""
Watch: TypeAlias = "Callable[[LaunchSegment, Sequence[int]], None]"
_LAUNCHED: Final[weakref.WeakValueDictionary[int, LaunchSegment]] = weakref.WeakValueDictionary()
"""By address."""


class CarriedCollectives(NamedTuple):
    """The collectives of a function that the device carries, by key."""

    exchanges: Mapping[int, NcclCollective]
    places: Mapping[int, int]
    """Of all of them: where this rank's place in its group is in memory, for those that ask for it; 0 for others."""
    kept: tuple[object, ...] = ()
    """What owns that memory."""


class GpuCode:
    """The code of a function, and the kernels it calls."""

    def __init__(
        self,
        gpu: Gpu,
        launcher: Launcher,
        code: Code,
        kernels: Sequence[LoadedKernel],
        itemsizes: Sequence[int],
        dtypes: Sequence[np.dtype[Any]],
        carried: CarriedCollectives | None = None,
    ) -> None:
        self.gpu, self.launcher, self.code = gpu, launcher, code
        self.carried = carried or CarriedCollectives({}, {})
        self.itemsizes, self.dtypes = itemsizes, dtypes
        self.decides = any(isinstance(i, Unless) for i in code.instructions) and decides(gpu)
        copies = bool(self.carried.places) or any(
            isinstance(i, CopyBuffer | SwapBuffers) for i in code.instructions
        )
        self.kernels = [*kernels, copier(gpu)] if copies else list(kernels)  # `trace.COPY` is the last one
        self._segments: dict[tuple[int, bool, tuple[int | None, ...]], LaunchSegment] = {}
        self.launched = 0
        """Kernels of the last call."""

    def __call__(
        self, memory: list[int], slots: list[int], sizes: Sequence[int], watch: Watch | None = None
    ) -> None:
        """One call on addresses by buffer and integers by slot; `sizes`: the bytes of each buffer.

        Who watches runs every launch himself, one at a time.
        """
        instructions, position, launched = self.code.instructions, 0, 0
        while position < len(instructions):
            segment = self.segment(position, slots, sizes, single=watch is not None)
            (segment.run if watch is None else partial(watch, segment))(memory)
            launched += segment.kernels
            stretch = segment.stretch
            memory[:] = [memory[root] + offset for root, offset in stretch.memory]
            slots[:] = stretch.slots  # type: ignore[assignment]  # None is never looked at
            position = stretch.end
            if position < len(instructions):
                position = self._step(position, memory, slots, sizes)
        self.launched = launched

    def segment(
        self, position: int, slots: Sequence[int], sizes: Sequence[int], *, single: bool = False
    ) -> LaunchSegment:
        """What is launched from a position on; of that, the first launch alone."""
        key = position, single, tuple(slots)
        segment = self._segments.get(key)
        if segment is None:
            stretch = follow(
                self.code, position, slots, sizes, self.itemsizes,
                decides=self.decides and not single, longest=1 if single else LONGEST, places=self.carried.places,
            )  # fmt: skip
            if len(self._segments) >= _SEGMENTS:
                self._segments.pop(next(iter(self._segments)), None)
            segment = self._segments[key] = self.laid_out(stretch)
        return segment

    def laid_out(self, stretch: Stretch) -> LaunchSegment:
        """A stretch of this code, to be run."""
        return LaunchSegment(self.gpu, self.launcher, stretch, self.kernels, self.carried.exchanges)

    def _step(self, position: int, memory: list[int], slots: list[int], sizes: Sequence[int]) -> int:
        """What only the host can do."""
        match i := self.code.instructions[position]:
            case Read(_, buffer):
                value = np.empty(1, np.int64)
                self.gpu.download(memory[buffer], value)
                i.step(PlanState({buffer: value}, slots, (), ()))  # type: ignore[arg-type]  # all that it looks at
            case Unless(flag, to):
                value = np.empty(1, np.uint8)
                self.gpu.download(memory[flag], value)
                return position + 1 if value[0] else to
            case CallHost():
                self._host(i, memory, slots, sizes)
            case _:  # the stretch was as long as it may be
                return position
        return position + 1

    def _host(self, i: CallHost, memory: list[int], slots: list[int], sizes: Sequence[int]) -> None:
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


class LaunchSegment:
    """A stretch, laid out for the native way; and the graphs that were made of it."""

    def __init__(
        self,
        gpu: Gpu,
        launcher: Launcher,
        stretch: Stretch,
        kernels: Sequence[LoadedKernel],
        exchanges: Mapping[int, NcclCollective] | None = None,
    ) -> None:
        self.gpu, self.stretch, self._kernels, self._launcher = gpu, stretch, kernels, launcher
        self._exchanges = exchanges or {}
        self._memory = WordArrays()
        self._graphs: dict[int, tuple[Built, WordArrays]] = {}
        self.items = tuple(_not_empty(stretch.items, kernels))
        launches = [i for i in self.items if isinstance(i, KernelLaunch)] if stretch.is_straight else []
        self._launches = launches
        everything = list(_launches(self.items))
        self.kernels = len(everything)
        words = [*(w for launch in everything for w in launch.words), *_flags(self.items)]
        words += [w for item in self.items if isinstance(item, Exchanged) for w in (item.given, item.made)]
        self._roots = sorted({word.root for word in words if word.root >= 0})
        settable = stretch.is_straight and all(len(launch.words) <= _WORDS for launch in launches)
        graphs = _GRAPHS if settable else _WHOLE
        keep = self._memory.words
        self._words = (ctypes.c_int64 * 12)(
            len(launches) if settable else 0,
            sum(len(launch.words) for launch in launches),
            keep([word for launch in launches for word in self._laid_out(launch)]),
            len(self._roots),
            keep(self._roots),
            graphs if self.items else 0,
            0,
            keep([0] * (5 * graphs)),
            int(settable),
            0,
            0,
            0,
        )
        self.address = ctypes.addressof(self._words)
        _LAUNCHED[self.address] = self

    def _laid_out(self, launch: KernelLaunch) -> list[int]:
        """`struct launch`."""
        kernel = self._kernels[launch.kernel]
        x, y, z = kernel.grid.at(launch.variables)
        tx, ty, tz = kernel.grid.threads
        terms = self._memory.words([number for word in launch.words for number in word])
        sizes = (packed(x, y), packed(z, tx), packed(ty, tz), packed(kernel.shared, 0))
        return [int(kernel.function), *sizes, len(launch.words), terms]

    def run(self, memory: Sequence[int]) -> None:
        """Launch it on these addresses."""
        if not self.items:
            return
        frame = (ctypes.c_int64 * max(len(memory), 1))(*memory)
        while (status := self._launcher.run(self.address, frame, self.gpu.place)) == WANTS_GRAPH:
            self._add_graph(memory)
        if status:
            self.refused(status)

    def refused(self, status: int) -> None:
        """Say that the driver refused a launch."""
        number, status = status >> 32, status & 0xFFFFFFFF
        names = self.names()
        what = (
            f"{names[0]} was launched"
            if len(names) == 1
            else f"a graph of {self.kernels} kernels was launched"
        )
        if number:
            what = f"{self._kernels[self._launches[number].kernel].name} was launched"
        refuse(status, "a launch", f"when {what}")

    def names(self) -> list[str]:
        """Of its kernels, each once."""
        return list(dict.fromkeys(self._kernels[launch.kernel].name for launch in _launches(self.items)))

    def prepare(self, frame: int) -> None:
        """Make a graph for the addresses that lie at one."""
        self._add_graph(list((ctypes.c_int64 * len(self.stretch.memory)).from_address(frame)))

    def _add_graph(self, memory: Sequence[int]) -> None:
        built = GraphBuilder(self.gpu, self._kernels, memory, self._exchanges).build(self.items)
        own, old = WordArrays(), (ctypes.c_int64 * 5)()
        frame = own.words([memory[root] for root in self._roots])
        new = (ctypes.c_int64 * 5)(
            int(built.executable), frame, own.words(built.nodes), own.words(built.words), 0
        )
        self._graphs[int(built.executable)] = built, own
        self._launcher.add(self.address, new, old)
        if old[0]:
            _destroy(self.gpu, self._graphs.pop(old[0])[0])

    def __del__(self) -> None:
        for built, _ in self._graphs.values():
            _destroy(self.gpu, built)


def _destroy(gpu: Gpu, built: Built) -> None:
    try:
        gpu.enter()
        call("cuGraphExecDestroy", built.executable)
        call("cuGraphDestroy", built.graph)
    except (CudaError, TypeError):  # the device is gone, or the interpreter is going
        pass


def names_of(segments: Sequence[int]) -> tuple[str, ...]:
    """The names of the kernels of segments, by their addresses, each once."""
    known = map(_LAUNCHED.get, segments)
    return tuple(dict.fromkeys(name for segment in known if segment is not None for name in segment.names()))


def _not_empty(items: Sequence[Item], kernels: Sequence[LoadedKernel]) -> Iterator[Item]:
    """Without launches of no blocks, and with the tensor maps of those that have some."""
    for item in items:
        match item:
            case KernelLaunch():
                kernel = kernels[item.kernel]
                if 0 not in kernel.grid.at(item.variables):
                    yield item._replace(words=(*item.words, *map_words(kernel.maps, item.words)))
            case Choice(flag, then, otherwise):
                yield Choice(flag, tuple(_not_empty(then, kernels)), tuple(_not_empty(otherwise, kernels)))
            case LaunchLoop(flag, turns, flags, back):
                inner = tuple(tuple(_not_empty(turn, kernels)) for turn in turns)
                yield LaunchLoop(flag, inner, flags, tuple(_not_empty(back, kernels)))
            case Exchanged() | Joined():
                yield item


def _launches(items: Sequence[Item]) -> Iterator[KernelLaunch]:
    for item in items:
        match item:
            case KernelLaunch():
                yield item
            case Choice(_, then, otherwise):
                yield from _launches((*then, *otherwise))
            case LaunchLoop(_, turns, _, back):
                yield from _launches([one for turn in (*turns, back) for one in turn])


def _flags(items: Sequence[Item]) -> Iterator[Word]:
    for item in items:
        match item:
            case Choice(flag, then, otherwise):
                yield flag
                yield from _flags((*then, *otherwise))
            case LaunchLoop(flag, turns, flags, _):
                yield from (flag, *flags)
                yield from _flags([one for turn in turns for one in turn])

"""What the interpreter of LLIR knows of a run: the contents of memory, the registers of a thread, and what is on its way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planish.dtypes import DType
from planish.llir.counters import Traffic
from planish.llir.program import Buffer
from planish.uop.hardware_index import HardwareIndex

Array = NDArray[Any]

WAIT: Final = -1
"""What a step returns for a thread that has to wait for others."""
GARBAGE: Final = 0xAA
"""What memory holds before it is written."""


class MemoryImage:
    """The contents of one buffer, as scalars, and what happened to it."""

    __slots__ = ("buffer", "data", "in_flight", "read", "read_places", "written", "written_places")

    def __init__(self, buffer: Buffer, data: Array) -> None:
        self.buffer = buffer
        self.data = data
        self.read = 0
        self.written = 0
        self.read_places = np.zeros(data.size, np.bool_)
        self.written_places = np.zeros(data.size, np.bool_)
        self.in_flight: Array | None = None
        """Which elements asynchronous copies are about to replace; None if there was never one."""

    def traffic(self) -> Traffic:
        size = self.buffer.dtype.itemsize
        read, written = int(self.read_places.sum()), int(self.written_places.sum())
        return Traffic(self.read * size, self.written * size, read * size, written * size)


class Pointer(NamedTuple):
    """An address: scalars into a memory; or several, as an array."""

    memory: MemoryImage
    place: Any


class AsyncCopy(NamedTuple):
    """An asynchronous copy under way: what it will write where."""

    memory: MemoryImage
    places: Array
    values: Array


class Ring:
    """Buffers that a copy engine fills, step by step."""

    __slots__ = ("boxes", "buffers", "expected", "released", "sizes")

    def __init__(self, buffers: int) -> None:
        self.buffers = buffers
        self.boxes: dict[int, list[AsyncCopy]] = {}
        """By step: what is on its way."""
        self.expected: dict[int, int] = {}
        """By step: bytes that are still to come."""
        self.released: dict[int, set[int]] = {}
        """By step: the groups of threads that are done with it."""
        self.sizes: dict[MemoryImage, int] = {}
        """Elements of a buffer, by the memory it is in."""

    def is_free(self, step: int, groups: int) -> bool:
        return step < self.buffers or len(self.released.get(step - self.buffers, ())) == groups

    def is_there(self, step: int) -> bool:
        return self.expected.get(step) == 0

    def land(self, step: int) -> None:
        """What was brought for a step is seen from now on."""
        for memory, places, values in self.boxes.pop(step, ()):
            memory.data[places] = values
            memory.written += places.size
            memory.written_places[places] = True
            if memory.in_flight is not None:
                memory.in_flight[places] = False


class ThreadState:
    """What belongs to one thread."""

    __slots__ = (
        "fetches", "flights", "memory", "number", "peers", "products", "registers", "rings", "slots", "specials", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        registers: list[Any],
        memory: dict[Buffer, MemoryImage],
        specials: dict[HardwareIndex, int],
    ) -> None:
        self.number = number
        self.registers = registers
        self.memory = memory
        self.specials = specials
        self.slots: dict[int, Any] = {}
        self.flights: list[list[AsyncCopy]] = [[]]
        """Copies that it has not waited for, in groups; the last is not committed."""
        self.waiting = 0
        """The position of the instruction it waits at."""
        self.fetches = False
        """Whether it is the fetcher."""
        self.peers: list[BlockState] = []
        """The blocks of its cluster."""
        self.rings: dict[int, Ring] = {}
        """Those of its block."""
        self.products: list[list[Pointer]] = []
        """What its products under way read."""


class BlockState:
    """One block of a cluster: its LOCAL memory, its threads, and how many of them have ended."""

    __slots__ = ("ended", "everybody", "local", "threads")

    def __init__(self, local: dict[Buffer, MemoryImage], threads: list[ThreadState]) -> None:
        self.local = local
        self.threads = threads
        self.everybody = list(threads)
        """With who fetches."""
        self.ended = 0

    @property
    def is_over(self) -> bool:
        return self.ended == len(self.everybody)


Step = Callable[[ThreadState], int | None]
"""One instruction, decoded: does its work and returns where to go on, or None for the next line."""


def garbage(dtype: DType, count: int) -> Array:
    scalar = dtype.scalar
    if scalar.is_bool or scalar.bits < 8:
        return np.ones(count, scalar.numpy)
    return np.full(count * scalar.itemsize, GARBAGE, np.uint8).view(scalar.numpy)

"""The instructions of a copy engine, decoded: a box is copied at once, and seen when its step is awaited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from planish.errors import VerifyError
from planish.llir import program as ir
from planish.llir.program import Immediate, Operand, Program
from planish.llir.text import instruction_line
from planish.llir.thread_state import WAIT, Array, AsyncCopy, MemoryImage, Ring, Step, ThreadState
from planish.uop.ops import Box

_CHUNK = 16
"""Bytes that stay together in a row."""
_ROWS = 8
"""After how many rows the exchange of chunks repeats."""
_DROPPED = 13
"""Bits of a float32 that tf32 has not."""


def placed(box: Box, itemsize: int) -> tuple[tuple[Array, Array], Array, int]:
    """How far into a box its elements are along the first two dims, how far behind its address, and how many there are."""
    row, rows = box.sizes
    number = np.arange(box.elements)
    panel, y, x = number // (row * rows), number // row % rows, number % row
    chunk = _CHUNK // itemsize
    place = panel * (row * rows) + y * row + ((x // chunk) ^ (y % _ROWS)) * chunk + x % chunk
    return (panel * row + x, y), place, box.elements


def _pixels(box: Box, begin: Sequence[int], ahead: Array) -> list[Array] | None:
    """Where pixels are along all dims but the first, counted from the one that a copy begins at; None if none is there."""
    pixels: list[Array] = []
    number = ahead
    for place, dim, low, high, step in zip(
        begin[1:-1], box.dims[1:-1], box.lower, box.upper, box.steps, strict=True
    ):
        count = (dim + high - low - 1) // step + 1
        first, odd = divmod(place - low, step)
        if odd or not 0 <= first < count:
            return None
        number = number + first
        pixels.append(low + number % count * step)
        number = number // count
    return [*pixels, begin[-1] + number]


def rounded_tf32(values: Array) -> Array:
    """Floats with the mantissa bits of tf32: to nearest, ties away from zero."""
    bits = values.view(np.uint32)
    kept = (bits + np.uint32(1 << _DROPPED - 1)) & np.uint32(0xFFFFFFFF >> _DROPPED << _DROPPED)
    return np.where(np.isfinite(values), kept, bits).astype(np.uint32).view(values.dtype)


class FetchSteps:
    """What a decoder knows of copy engines."""

    program: Program
    position: int
    partner: dict[int, int]

    def slot(self, operand: Operand) -> int:
        raise NotImplementedError

    def _check_bounds(self, t: ThreadState, memory: MemoryImage, places: Any) -> None:
        raise NotImplementedError

    def fetcher(self, i: ir.Fetcher) -> Step:
        behind = self.partner[self.position] + 1
        return lambda t: None if t.fetches else behind

    def end_fetcher(self, i: ir.EndFetcher) -> Step:
        behind = len(self.program.body)
        return lambda t: behind

    def acquire(self, i: ir.Acquire | ir.AwaitBoxes) -> Step:
        """Who waits here is let go by the block."""
        position = self.position
        self.slot(i.step)

        def step(t: ThreadState) -> int:
            t.waiting = position
            t.rings.setdefault(i.ring, Ring(i.buffers))
            return WAIT

        return step

    await_boxes = acquire

    def copy_box(self, i: ir.CopyBox) -> Step:
        address, at, number = self.slot(i.address), [self.slot(c) for c in i.coordinates], self.slot(i.step)
        aside = [self.slot(c) for c in i.offsets]
        position, box, groups = self.position, i.box, self.groups
        inside, ahead, elements = placed(box, i.element.itemsize)

        def step(t: ThreadState) -> None:
            t.waiting = position
            memory, start = t.registers[address]
            given, now, ring = t.memory[i.param], int(t.registers[number]), t.rings[i.ring]
            if not ring.is_free(now, groups):
                self._refuse(t, f"step {now} replaces what is not released", "acquire belongs before a copy")
            self._check_bounds(t, memory, start + ahead)
            source, is_open = np.zeros(elements, np.int64), np.ones(elements, np.bool_)
            begin = [int(t.registers[first]) for first in at]
            places: list[Any] = [begin[0] + inside[0], begin[1] + inside[1], *begin[2:]]
            if aside:
                pixels = _pixels(box, begin, inside[1])
                if pixels is None:
                    self._refuse(
                        t, f"no pixel is at {begin[1:]}", "begin at one of those between the corners"
                    )
                places[1:] = pixels
                for dim, offset in enumerate(aside, 1):
                    places[dim] = places[dim] + int(t.registers[offset])
            for along, dim, stride in zip(places, box.dims, box.strides, strict=True):
                source += along * stride
                is_open &= (along >= 0) & (along < dim)
            self._check_bounds(t, given, source[is_open])
            given.read += int(is_open.sum())
            given.read_places[source[is_open]] = True
            values = np.zeros(elements, memory.data.dtype)
            values[is_open] = given.data[source[is_open]]
            if box.rounded:
                values = rounded_tf32(values)
            if memory.in_flight is None:
                memory.in_flight = np.zeros(memory.data.size, np.bool_)
            memory.in_flight[start + ahead] = True
            ring.sizes[memory] = elements
            ring.boxes.setdefault(now, []).append(AsyncCopy(memory, start + ahead, values))
            ring.expected[now] = ring.expected.get(now, 0) - values.nbytes

        return step

    def release(self, i: ir.Release) -> Step:
        number, gate, position = (
            self.slot(i.step),
            None if i.gate is None else self.slot(i.gate),
            self.position,
        )

        def step(t: ThreadState) -> None:
            t.waiting = position
            if gate is not None and not t.registers[gate]:
                return
            now, ring = int(t.registers[number]), t.rings[i.ring]
            for memory, place in (pointer for read in t.products for pointer in read):
                if memory in ring.sizes and place // ring.sizes[memory] == now % ring.buffers:
                    self._refuse(t, f"step {now} is released while a product reads it", "release it later")
            ring.released.setdefault(now, set()).add(t.number // ir.GROUP)

        return step

    @property
    def groups(self) -> int:
        """How many groups of threads release a buffer."""
        bounds = {s.index: s.bound for s in self.program.specials if s.is_thread}
        sizes = [b.value for b in bounds.values() if isinstance(b, Immediate)]
        return max(int(np.prod(sizes, dtype=np.int64)) // ir.GROUP, 1)

    def _refuse(self, t: ThreadState, what: str, remedy: str) -> NoReturn:
        line = instruction_line(self.program.body[t.waiting])
        raise VerifyError(f"{self.program.name}: {line}: {what}, by thread {t.number}", remedy=remedy)

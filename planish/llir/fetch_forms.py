"""Instructions of a copy engine: boxes of a parameter, brought to LOCAL memory while threads do something else.

One thread more than the block has, the *fetcher*, runs what stands between `fetcher` and `end_fetcher`, and nothing else; the others skip
it. They meet in a *ring* of buffers, of which step s uses number s % buffers: the fetcher acquires it when every group of 128 threads has released
step s - buffers, and has boxes copied there; a thread awaits step s and then sees them all. Who reads a box without having awaited
it, or has it replaced before it is released, is told so by the interpreter; who waits for what never comes, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from planish import dtypes
from planish.dtypes import AddrSpace, DType, PtrDType
from planish.llir.instruction import Complaint, Instruction, form, is_integer
from planish.llir.values import Buffer, Operand, Register
from planish.uop.ops import Box

if TYPE_CHECKING:
    from planish.llir.program import Program

GROUP: Final = 128
"""Threads that release a buffer together."""


@form
class Fetcher(Instruction):
    """What follows, up to end_fetcher, is run by one thread more than the block has, and by no other."""

    mnemonic = "fetcher"


@form
class EndFetcher(Instruction):
    """Where the others go on; the fetcher is done."""

    mnemonic = "end_fetcher"


def _counts(step: Operand) -> Iterator[Complaint]:
    if not is_integer(step.dtype) or step.dtype.lanes != 1:
        yield "bounds", f"steps are counted in i32 or i64, not in {step.dtype}"


@form
class Acquire(Instruction):
    """The fetcher goes on when the buffers of the ring for this step are free; so many bytes are going to be brought there."""

    mnemonic, reads = "acquire", ("step",)
    syntax = "step:i32 ring=ring buffers=buffers nbytes=nbytes"
    step: Operand
    ring: int
    buffers: int
    nbytes: int

    def problems(self, program: Program) -> Iterator[Complaint]:
        return _counts(self.step)


@form
class CopyBox(Instruction):
    """What is at the address = the box of a parameter that starts at the coordinates, for a step of a ring.

    With `offsets` its rows are pixels, which run from corner to corner of all dims but the first and the last; each is read so far aside.
    """

    mnemonic, reads = "copy_box", ("address", "coordinates", "step", "offsets")
    syntax = (
        "address, step:i32 from param at coordinates:i32 of dims by strides as sizes"
        "( aside offsets:i32 from lower to upper every steps)( panels=panels) ring=ring buffers=buffers( rounded)( stay=stay)"
    )
    address: Register
    step: Operand
    param: Buffer
    coordinates: tuple[Operand, ...]
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    sizes: tuple[int, ...]
    ring: int
    buffers: int
    panels: int = 0
    rounded: bool = False
    offsets: tuple[Operand, ...] = ()
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    stay: int = 0
    """How many blocks do one tile after the other (`resident.py`); 0: each does one."""

    @property
    def box(self) -> Box:
        """What it says to the copy engine, of its own parameter."""
        row, rows = self.sizes
        panels, corners = max(self.panels, 1), (self.lower, self.upper, self.steps)
        return Box(0, self.dims, self.strides, (row, rows), panels, self.buffers, self.rounded, *corners)

    @property
    def element(self) -> DType:
        return self.param.dtype.scalar

    def problems(self, program: Program) -> Iterator[Complaint]:
        yield from _counts(self.step)
        pointer = self.address.dtype
        if not isinstance(pointer, PtrDType) or pointer.space is not AddrSpace.LOCAL:
            yield "address", f"{self.address} is {pointer}, not an address in LOCAL memory"
        elif pointer.base.scalar is not self.element:
            yield "types", f"{self.element} is not copied to {pointer}"
        if self.param not in program.params:
            yield "buffer", f"{self.param} is no parameter"
        if not len(self.coordinates) == len(self.dims) == len(self.strides) or len(self.sizes) != 2:
            yield "lanes", "a box has a coordinate and a stride for each dim, and two sizes"
        if any(c.dtype is not dtypes.int32 for c in (*self.coordinates, *self.offsets)):
            yield "types", "coordinates are i32"
        corners = {len(each) for each in (self.offsets, self.lower, self.upper, self.steps)}
        if corners not in ({0}, {len(self.dims) - 2}):
            yield (
                "lanes",
                "windows have an offset, corners and steps for every dim but the first and the last",
            )
        for dim, low, high, step in zip(self.dims[1:], self.lower, self.upper, self.steps, strict=False):
            if step < 1 or dim + high <= low:
                yield "lanes", f"there is no pixel from {low} to {dim + high} in steps of {step}"


@form
class AwaitBoxes(Instruction):
    """The thread goes on, and sees them, when all boxes of a step are there."""

    mnemonic, reads, syntax = "await_boxes", ("step",), "step:i32 ring=ring buffers=buffers"
    step: Operand
    ring: int
    buffers: int

    def problems(self, program: Program) -> Iterator[Complaint]:
        return _counts(self.step)


@form
class Release(Instruction):
    """The thread, and the others of its group, will not look at the buffers of a step any more; nothing where the gate does not hold."""

    mnemonic, reads = "release", ("step", "gate")
    syntax = "step:i32( if gate:bool) ring=ring buffers=buffers"
    step: Operand
    ring: int
    buffers: int
    gate: Operand | None = None

    def problems(self, program: Program) -> Iterator[Complaint]:
        return _counts(self.step)


__all__ = ["GROUP", "Acquire", "AwaitBoxes", "Box", "CopyBox", "EndFetcher", "Fetcher", "Release"]

"""What a GPU's work costs, in cycles of its clock: the numbers by which schedules of its kernels are judged.

They were fitted to 4308 measured schedules of 445 kernels (`bench/gpu_cost_model.py`, [docs/tuning.md](../../docs/tuning.md)): what stands here is what
explains the times best when all of it is added up, and no figure of a data sheet.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class GpuRates(NamedTuple):
    """Of one multiprocessor, if nothing else is said."""

    resident_threads: int
    resident_blocks: int
    shared_bytes: int
    """LOCAL memory of all blocks that it runs at once."""
    begin: float
    """Cycles of a kernel that does nothing, one of many."""
    block: float
    """Cycles until the next block is begun."""
    instructions: float
    """Of warps, per cycle."""
    place: float
    """Cycles for an instruction that works out where something is: most are begun beside others."""
    loop: float
    """Cycles to count an iteration of a loop of a warp."""
    line: float
    """Cycles for each line that an access of a warp touches."""
    shared_line: float
    """The same of LOCAL memory."""
    memory: float
    """Bytes per cycle from memory."""
    near_bytes: tuple[float, float]
    """Bytes of a kernel's parameters up to which they are found in the second cache, and from which on they come from memory."""
    near_wait: float
    """Cycles that a thread waits for what it reads, beside others, if that is in the second cache."""
    far_wait: float
    """The same from memory."""
    ordered_wait: float
    """The same where it reads what it has just written."""
    barrier: float
    shuffle: float
    """Cycles until a warp has exchanged values."""
    finish: float
    """Cycles for each value of LOCAL memory that few threads add up while the others are idle."""
    step: float
    """Cycles that an iteration of a loop takes at least."""
    tiled: float
    """Multiply-adds per cycle times the bits of an element, of tensor cores that have their operands in registers."""
    walked: float
    """The same of those that read LOCAL memory."""
    copied: float
    """How many times longer tiles take that threads copy, by those that a copy engine brings, if some are fetched ahead."""
    copied_at_once: float
    """The same if all of a sum is one tile."""
    warps: float
    """With so many warps tensor cores of warps are half as fast as with many."""
    registers: tuple[float, float, float, float]
    """Of a thread: those of each, for each word of sums, for each doubling of these, and for each word that is loaded at once."""
    hidden: float
    """How much of what does not bound is seen nevertheless."""
    most_registers: int = 255
    """Registers that a thread can name."""
    reserved_bytes: int = 1024
    """Bytes of LOCAL memory that a block takes beside what it asks for."""
    busy_warps: int = 8
    """Warps that keep tensor cores busy."""
    enough: float = 0.6
    """Of all multiprocessors, how many are enough for memory to be read at full speed."""


H200: Final = GpuRates(
    resident_threads=2048, resident_blocks=32, shared_bytes=227 << 10,
    begin=1725.0, block=88.0, instructions=6.28, place=0.023, loop=0.062, line=0.492, shared_line=0.1,
    memory=23.5, near_bytes=(1.8e6, 7.8e6), near_wait=11.0, far_wait=241.0, ordered_wait=609.0,
    barrier=12.0, shuffle=14.5, finish=24.0, step=25.0, tiled=19000.0, walked=29000.0, copied=1.7, copied_at_once=0.87, warps=3.0,
    registers=(20.0, 0.8, 7.8, 0.2), hidden=0.744,
)  # fmt: skip

"""The memory that compiled functions keep between calls: how much it is, and how to return it to the system.

Results and the space a call works in come from a pool of blocks (`planish.runtime.memory`). A block goes back to it when the
last array in it is gone, and is kept for the next call, up to the setting `memory_limit`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from planish.compiler.device_kinds import KeptMemory, kind_of
from planish.runtime.memory import PoolStatistics as Statistics

if TYPE_CHECKING:
    from planish.runtime.cuda.memory import GpuStatistics

__all__ = ["Statistics", "release", "statistics"]


@overload
def statistics(device: Literal["cpu"] = "cpu") -> Statistics: ...
@overload
def statistics(device: str) -> Statistics | GpuStatistics: ...
def statistics(device: str = "cpu") -> Statistics | GpuStatistics:
    """Bytes in use, bytes kept and the most that are kept, and how many blocks were new and how many were there already.

    Of a GPU: bytes in use, bytes kept, and how often its driver was asked for more.
    """
    counts: Statistics | GpuStatistics = _kept(device).statistics
    return counts


def release(device: str = "cpu") -> int:
    """Return all kept memory to the system, or to the driver of a GPU; how many bytes that was. What arrays are in stays."""
    return _kept(device).release()


def _kept(device: str) -> KeptMemory:
    kind, number = kind_of(device)
    return kind.memory(number)

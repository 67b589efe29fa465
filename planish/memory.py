"""The memory that compiled functions keep between calls: how much it is, and how to return it to the system.

Results and the space a call works in come from a pool of blocks (`planish.runtime.memory`). A block goes back to it when the
last array in it is gone, and is kept for the next call, up to the setting `memory_limit`.
"""

from __future__ import annotations

from planish.compiler.object_code import blocks
from planish.runtime.memory import Statistics

__all__ = ["Statistics", "release", "statistics"]


def statistics() -> Statistics:
    """Bytes in use, bytes kept and the most that are kept, and how many blocks were new and how many were there already."""
    return blocks().statistics


def release() -> int:
    """Return all kept memory to the system; how many bytes that was. What arrays are in stays."""
    return blocks().release()

"""What an execution did, as numbers: instructions, bytes moved, scratch memory. Tests assert on these, never on time."""

from __future__ import annotations

from collections.abc import Mapping

from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that went to and from one buffer: all accesses, and the distinct places among them."""

    read: int
    written: int
    distinct_read: int
    distinct_written: int


@dataclass(frozen=True, slots=True)
class Counters:
    """One launch."""

    instructions: Mapping[str, int]
    """How often each instruction ran, by its word in the text form."""
    traffic: Mapping[str, Traffic]
    """Per global buffer, by name."""
    blocks: int
    threads: int
    """Threads of a block."""
    local_bytes: int
    """LOCAL memory of a block."""
    register_bytes: int
    """REG memory of a thread."""

    @property
    def executed(self) -> int:
        """All instructions together."""
        return sum(self.instructions.values())

    @property
    def bytes_read(self) -> int:
        """From global memory."""
        return sum(t.read for t in self.traffic.values())

    @property
    def bytes_written(self) -> int:
        """To global memory."""
        return sum(t.written for t in self.traffic.values())

    @property
    def distinct_bytes_read(self) -> int:
        """Global memory that was read at all."""
        return sum(t.distinct_read for t in self.traffic.values())

    @property
    def distinct_bytes_written(self) -> int:
        """Global memory that was written at all."""
        return sum(t.distinct_written for t in self.traffic.values())

    @property
    def scratch_bytes(self) -> int:
        """LOCAL memory per thread."""
        return -(-self.local_bytes // self.threads)

"""Descriptions of memory, as onnxruntime's programs make them: allocators and arenas are the runtime's own affair here."""

from __future__ import annotations

import enum

from planish.records import dataclass


class OrtAllocatorType(enum.IntEnum):
    """Who hands out memory."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(enum.IntEnum):
    """What memory is for."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


@dataclass(slots=True)
class OrtMemoryInfo:
    """Some memory, by the name of its device."""

    name: str = "Cpu"
    allocator_type: OrtAllocatorType = OrtAllocatorType.ORT_DEVICE_ALLOCATOR
    id: int = 0
    mem_type: OrtMemType = OrtMemType.DEFAULT


__all__ = ["OrtAllocatorType", "OrtMemType", "OrtMemoryInfo"]

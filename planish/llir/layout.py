"""Where the elements of a tensor lie: sizes, strides, alignments and offsets, in 64 bits, with overflow an error.

An element at indices (i, j, …) lies at base + (i·stride_i + j·stride_j + …)·itemsize. Row-major lets the last index run
fastest, column-major the first. A size of 0 is legal: such a tensor has no elements and takes no bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Final

from planish.dtypes import DType, Kind
from planish.errors import LoweringError
from planish.llir.program import MIN_ALIGNMENT, Buffer
from planish.records import dataclass

_LARGEST: Final = 2**63 - 1
"""The largest size or offset that signed 64-bit address arithmetic can hold."""


class MemoryLayout(Enum):
    """Which index of a tensor runs fastest."""

    ROW_MAJOR = "row_major"
    COLUMN_MAJOR = "column_major"


def strides(shape: Sequence[int], layout: MemoryLayout = MemoryLayout.ROW_MAJOR) -> tuple[int, ...]:
    """The distance, in elements, between neighbours along each axis of a densely stored tensor."""
    sizes = shape if layout is MemoryLayout.COLUMN_MAJOR else tuple(reversed(shape))
    steps, step = [], 1
    for size in sizes:
        steps.append(step)
        step *= max(size, 1)
    return tuple(steps if layout is MemoryLayout.COLUMN_MAJOR else reversed(steps))


def element_count(shape: Sequence[int]) -> int:
    """How many elements a tensor has; a negative size is an error."""
    total = 1
    for axis, size in enumerate(shape):
        if size < 0:
            raise LoweringError(
                f"axis {axis} of shape {tuple(shape)} has size {size}",
                remedy="sizes are 0 or more; a dynamic size is a named dim with bounds",
            )
        total *= size
    return total


def byte_size(shape: Sequence[int], dtype: DType) -> int:
    """The bytes of a densely stored tensor, whose elements have a size in memory."""
    if dtype.is_index or dtype.kind is Kind.VOID:
        raise LoweringError(
            f"{dtype} has no size in memory",
            remedy="store machine integers: cast to int64" if dtype.is_index else "store numbers",
        )
    total = element_count(shape) * dtype.itemsize * dtype.lanes
    if total > _LARGEST:
        raise LoweringError(
            f"a tensor of shape {tuple(shape)} and dtype {dtype} takes {total} bytes, beyond 64 bits",
            remedy="make its dims smaller",
        )
    return total


def alignment(dtype: DType) -> int:
    """Where a buffer of this dtype that we allocate may start."""
    return max(dtype.itemsize, MIN_ALIGNMENT)


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Where the elements of a tensor lie: the one at indices i is at base + (Σ iₖ·stridesₖ)·itemsize.

    Sizes and strides that depend on a named size are expressions over it; `nbytes` is for the largest.
    """

    name: str
    dtype: DType
    dims: tuple[object, ...]
    layout: MemoryLayout
    strides: tuple[object, ...]
    nbytes: int
    alignment: int


@dataclass(frozen=True, slots=True)
class Arena:
    """Buffers with their offsets in one block of memory."""

    buffers: tuple[Buffer, ...]
    nbytes: int
    alignment: int


def pack(buffers: Sequence[Buffer]) -> Arena:
    """Every buffer at an offset of its own, one after another; those that have an offset keep it."""
    placed: list[Buffer] = []
    end = max((b.offset + b.nbytes for b in buffers if b.offset is not None), default=0)
    for buffer in buffers:
        if buffer.offset is None:
            start = -(-end // buffer.alignment) * buffer.alignment
            end = start + buffer.nbytes
            placed.append(replace(buffer, offset=start))
        else:
            placed.append(buffer)
    if end > _LARGEST:
        raise LoweringError(f"an arena of {end} bytes is beyond 64 bits", remedy="make the tensors smaller")
    return Arena(tuple(placed), end, max((b.alignment for b in buffers), default=1))

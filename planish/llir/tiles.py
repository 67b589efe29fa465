"""Tile operations as data: a @ b + c on matrices whose elements are spread over registers and threads.

A matrix of a tile is held by `threads` threads, each with the same number of register lanes. Which element sits where is
a permutation of bits: a fragment lists, from the least significant bit of the element's row-major number on, the bit
it comes from: `r0`, `r1` … of the lane number in the register, `l0`, `l1` … of the thread number in its group.
An empty list stands for row-major order in the registers of one thread, whatever the sizes. `@k` or `@mn` stands for a matrix in
LOCAL memory (`planish.uop.tensor_cores`): its operand is the address of its first element, the same in all threads.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish.records import dataclass
from planish.uop.tensor_cores import IN_MEMORY, closed_up, memory_places

Numbers = NDArray[np.int64]

PLACES_ALIGNED: Final = 1024
"""Matrices in LOCAL memory start at multiples of so many bytes: the order of pieces in a row is told by the address."""
_BIT: Final = re.compile(r"[lr](0|[1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class TileOp:
    """C[m, n] = A[m, k] @ B[k, n] + C[m, n], and where each thread holds its part."""

    name: str
    m: int
    n: int
    k: int
    threads: int = 1
    a: tuple[str, ...] = ()
    b: tuple[str, ...] = ()
    c: tuple[str, ...] = ()

    @property
    def fragments(self) -> dict[str, tuple[int, int, tuple[str, ...]]]:
        """Rows, columns and layout of each matrix."""
        return {"a": (self.m, self.k, self.a), "b": (self.k, self.n, self.b), "c": (self.m, self.n, self.c)}

    def in_memory(self, matrix: str) -> bool:
        """Whether a matrix is read from LOCAL memory."""
        bits = self.fragments[matrix][2]
        return len(bits) == 1 and bits[0] in IN_MEMORY

    def memory_places(self, matrix: str) -> Numbers:
        """How far behind the address each element of a matrix in LOCAL memory lies, in row-major order."""
        rows, columns, bits = self.fragments[matrix]
        return memory_places(matrix, (rows, columns), self.k, bits[0])

    def lanes(self, matrix: str) -> int:
        """The register lanes that one thread holds of a matrix; of one in LOCAL memory its address."""
        rows, columns, _ = self.fragments[matrix]
        if self.in_memory(matrix):
            return 1
        return rows * columns // self.threads

    def places(self, matrix: str) -> Numbers:
        """The row-major number of the element that [thread, lane] holds."""
        _, _, bits = self.fragments[matrix]
        shape = (self.threads, self.lanes(matrix))
        thread, lane = np.indices(shape)
        if not bits:
            return np.asarray(lane, np.int64)
        place = np.zeros(shape, np.int64)
        for position, bit in enumerate(bits):
            source = thread if bit[0] == "l" else lane
            place |= (source >> int(bit[1:]) & 1) << position
        return closed_up(place, self.fragments[matrix][1])

    def problems(self) -> list[str]:
        """What is wrong with the description."""
        if min(self.m, self.n, self.k, self.threads) < 1:
            return [f"its sizes {self.m}x{self.n}x{self.k} and threads {self.threads} must be positive"]
        problems = []
        for matrix, (rows, columns, bits) in self.fragments.items():
            if self.in_memory(matrix) and matrix != "c":
                continue
            if not bits:
                if self.threads > 1:
                    problems.append(f"matrix {matrix} is spread over {self.threads} threads without a layout")
                continue
            if any(_BIT.fullmatch(bit) is None for bit in bits):
                problems.append(f"matrix {matrix} has a bit that is neither l<number> nor r<number>")
                continue
            size = rows << (columns - 1).bit_length()  # rows are numbered as if they were that long
            expected = {f"l{i}" for i in range(_log2(self.threads))}
            expected |= {f"r{i}" for i in range(_log2(size) - _log2(self.threads))}
            powers = size == 1 << _log2(size) and self.threads == 1 << _log2(self.threads)
            whole = (
                columns == 1 << _log2(columns)
                or bits[_log2(columns)] == f"r{_log2(size // self.threads) - 1}"
            )
            if not powers or not whole or len(bits) != _log2(size) or set(bits) != expected:
                problems.append(
                    f"the bits of matrix {matrix} do not number its {rows}x{columns} elements once each"
                )
        return problems

    def gather(self, matrix: str, fragments: NDArray[Any]) -> NDArray[Any]:
        """The matrix that the threads hold together; `fragments` is [thread, lane]."""
        rows, columns, _ = self.fragments[matrix]
        whole = np.empty(rows * columns, fragments.dtype)
        whole[self.places(matrix)] = fragments
        return whole.reshape(rows, columns)

    def scatter(self, matrix: str, whole: NDArray[Any]) -> NDArray[Any]:
        """What each thread holds of a matrix, as [thread, lane]."""
        return whole.reshape(-1)[self.places(matrix)]


def _log2(value: int) -> int:
    return value.bit_length() - 1


MMA_M16N8K16: Final = TileOp(
    "mma_m16n8k16", 16, 8, 16, 32,
    a=("r0", "l0", "l1", "r2", "l2", "l3", "l4", "r1"),
    b=("l2", "l3", "l4", "r0", "l0", "l1", "r1"),
    c=("r0", "l0", "l1", "l2", "l3", "l4", "r1"),
)  # fmt: skip
"""The 16-bit `mma.sync` of NVIDIA GPUs since Ampere."""

"""Layouts of tiles in LOCAL memory: where the element of a row and column lies.

One description for whoever fills a tile and whoever reads it: loops, asynchronous copies, `ldmatrix`, and tensor cores that read
LOCAL memory by themselves. A layout is a function of indices, nothing else: places are proved to be inside of the tile like any
other index.

| kind | where (row, column) lies, in elements |
|---|---|
| plain | row · columns + column |
| padded | row · (columns + pad) + column |
| swizzle of 128, 64 or 32 bytes | in panels that many bytes wide, one behind the other; in a panel, 16-byte chunk c of row r lies at c ^ f(r) |

Threads that read the same column of neighbouring rows all want the same bank of a plain tile. Padding moves every row by some banks.
A swizzle exchanges chunks, so that eight neighbouring rows have eight different chunks in the same place, takes no more memory, and
is what NVIDIA's copy engine and `wgmma` descriptors mean by the same name: f(r) is r % 8 for rows of 128 bytes, r // 2 % 4 for 64,
r // 4 % 2 for 32, which is to say that bits 4 to 6 of a byte's address are exclusive-ored with bits 7 to 9 (and so on).
"""

from __future__ import annotations

from math import gcd
from typing import Final, TypeVar

from planish.records import dataclass
from planish.uop.node import UOp

CHUNK: Final = 16
"""Bytes that stay together under a swizzle: what one thread copies at once, and a row of a matrix for `ldmatrix`."""
SWIZZLES: Final = (128, 64, 32)
"""Widths of a panel, in bytes."""
_PERIOD: Final = 8
"""The exchange of chunks repeats after that many times the width of a panel."""

Index = TypeVar("Index", int, UOp)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the elements of a tile lie."""

    rows: int
    columns: int
    itemsize: int
    """Bytes of an element."""
    pad: int = 0
    """Elements between the rows of a plain tile."""
    swizzle: int = 0
    """The width of a panel in bytes; 0: there are none."""

    @classmethod
    def swizzled(cls, rows: int, columns: int, itemsize: int) -> Layout:
        """The widest swizzle that fits, or a plain tile."""
        fitting = [s for s in SWIZZLES if columns * itemsize % s == 0 and CHUNK % itemsize == 0]
        return cls(rows, columns, itemsize, swizzle=max(fitting, default=0))

    @property
    def pitch(self) -> int:
        """Elements from one row to the next (of a panel)."""
        return self.swizzle // self.itemsize if self.swizzle else self.columns + self.pad

    @property
    def elements(self) -> int:
        """How many elements it takes, padding included."""
        return self.rows * (self.columns if self.swizzle else self.pitch)

    @property
    def panel(self) -> int:
        """Elements from one panel to the next."""
        return self.rows * self.pitch

    @property
    def vector(self) -> int:
        """How many neighbours of a row lie next to each other, from every multiple of that many columns on."""
        chunk = max(CHUNK // self.itemsize, 1)
        return chunk if self.swizzle else gcd(chunk, self.columns, self.pitch)

    @property
    def alignment(self) -> int:
        """The bytes that the first element has to be aligned to, for the hardware to find the same chunks."""
        return self.swizzle * _PERIOD if self.swizzle else CHUNK

    def place(self, row: Index, column: Index) -> Index:
        """The number of an element; of numbers a number, of index expressions one."""
        if not self.swizzle:
            return row * self.pitch + column
        chunk, across = CHUNK // self.itemsize, self.swizzle // CHUNK
        within = column % self.pitch
        exchanged = (within // chunk) ^ (row // (SWIZZLES[0] // self.swizzle) % across)
        return column // self.pitch * self.panel + row * self.pitch + exchanged * chunk + within % chunk

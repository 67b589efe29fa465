"""Tiles that the threads of a block fetch together, as rows and columns of memory.

A read of a tile is an index in terms of loops, threads and lanes: `(l*8 + u)*K + k` of a product, and of a tensor core's operand also
parts of the number of a thread, `(w//4)*K + w%4*2`. Each such part is a *digit*: it counts so many values and moves the index by
so much. Digits that continue each other are one *dim*: neighbours in memory, then rows of them. What is copied is a box of
dims, each thread taking every so manieth vector of it, in the order of memory; where it lies is the business of a
`Layout`, by rows and columns, for the copy and for whoever reads.

Before → after::

    a[(l*8 + u)*K + (o*16 + k)]     rows = l*8 + u (128), columns = k (16)
    BUFFERIZE(a[(c//16)*K + o*16 + c%16], layout(c//16, c%16)),  c = vector number * 4 + lane
    INDEX(…, layout(l*8 + u, k))
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import cast

from planish.actions.layouts import Layout
from planish.actions.padding import gated
from planish.records import dataclass
from planish.target import Target
from planish.uop.nest import plain_index
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Bufferize, Ops
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify

Fresh = Callable[[int, AxisType], UOp]
"""A new range of a size."""


@dataclass(frozen=True, slots=True)
class Digit:
    """`axis // divisor % size`, which moves an index by `weight`."""

    axis: UOp
    divisor: int
    size: int
    weight: int

    @property
    def value(self) -> UOp:
        return self.axis // self.divisor % self.size


@dataclass(frozen=True, slots=True)
class TileDim:
    """Digits that continue each other, the fastest first."""

    digits: tuple[Digit, ...]

    @property
    def base(self) -> int:
        """By how much its neighbours are apart."""
        return self.digits[0].weight

    @property
    def size(self) -> int:
        return prod(digit.size for digit in self.digits)

    def coordinate(self) -> UOp:
        """Where a read is along it."""
        total = self.digits[0].axis.table.const(0)
        for digit in self.digits:
            total = total + digit.value * (digit.weight // self.base)
        return simplify(total)


def _by(node: UOp, op: Ops) -> tuple[UOp, int]:
    if node.op is op and node.src[1].op is Ops.CONST:
        return node.src[0], cast("int", node.src[1].arg)
    return node, 0


def _digit(term: UOp, weight: int, inner: Collection[UOp]) -> Digit | None:
    core, modulus = _by(term, Ops.FLOORMOD)
    axis, divisor = _by(core, Ops.FLOORDIV)
    divisor = divisor or 1
    if axis not in inner or weight < 1 or (axis.vmax + 1) % divisor:
        return None
    left = (axis.vmax + 1) // divisor
    if modulus and left % modulus:
        return None
    return Digit(axis, divisor, modulus or left, weight)


def _depends(node: UOp, inner: Collection[UOp]) -> bool:
    return any(n in inner for n in node.toposort())


def dims_of(read: UOp, inner: Sequence[UOp], *, repeated: bool = False) -> tuple[TileDim, ...] | None:
    """The dims of what is read, slowest first; None if it is no box of them.

    Unless `repeated`, neither if several values of an axis are the same element.
    """
    index = plain_index(read)
    if index is None:
        return None
    digits: list[Digit] = []
    stack = [(simplify(index), 1)]
    while stack:
        node, weight = stack.pop()
        factor, times = _by(node, Ops.MUL)
        if node.op is Ops.ADD:
            stack.extend((source, weight) for source in node.src)
        elif times:
            stack.append((factor, weight * times))
        elif _depends(node, inner):
            digit = _digit(node, weight, inner)
            if digit is None:
                return None
            digits.append(digit)
    digits.sort(key=lambda digit: digit.weight)
    for axis in () if repeated else inner:  # every value of an axis is another element
        parts = sorted((digit for digit in digits if digit.axis is axis), key=lambda digit: digit.divisor)
        reach = 1
        for part in parts:
            if part.divisor != reach:
                return None
            reach *= part.size
        if reach != axis.vmax + 1:
            return None
    dims: list[list[Digit]] = []
    reach = 0
    for digit in digits:
        if dims and digit.weight == dims[-1][-1].weight * dims[-1][-1].size:
            dims[-1].append(digit)
        elif digit.weight > reach:
            dims.append([digit])
        else:
            return None
        reach += digit.weight * (digit.size - 1)
    return tuple(TileDim(tuple(each)) for each in reversed(dims))


def _cut(dim: TileDim, size: int) -> tuple[TileDim, ...]:
    """A dim as rows of a size, if its digits allow that."""
    for count in range(1, len(dim.digits)):
        if TileDim(dim.digits[:count]).size == size:
            return TileDim(dim.digits[count:]), TileDim(dim.digits[:count])
    return (dim,)


@dataclass(frozen=True, slots=True)
class SharedTile:
    """A box of memory and where it lies in LOCAL memory."""

    dims: tuple[TileDim, ...]
    layout: Layout
    turned: bool
    """Whether neighbours in memory are rows of the tile."""

    @classmethod
    def of(
        cls,
        read: UOp,
        inner: Sequence[UOp],
        *,
        turned: bool,
        swizzle: int,
        pad: int,
        repeated: bool = False,
    ) -> SharedTile | None:
        """The tile of a read; None if it is no box, or rows of it do not make whole panels."""
        dims = dims_of(read, inner, repeated=repeated)
        if not dims:
            return None
        itemsize = read.dtype.itemsize
        if swizzle and len(dims) == 1:  # rows that follow each other without a gap
            dims = _cut(dims[0], swizzle // itemsize)
        columns = dims[-1].size
        rows = prod(dim.size for dim in dims[:-1])
        if turned:
            rows, columns = columns, rows
        if swizzle and columns * itemsize % swizzle:
            return None
        return cls(dims, Layout(rows, columns, itemsize, pad, swizzle), turned)

    @property
    def elements(self) -> int:
        return prod(dim.size for dim in self.dims)

    def place(self, at: Sequence[UOp]) -> UOp:
        """Where an element lies, by its coordinates along the dims."""
        row = at[0].table.const(0)
        for dim, coordinate in zip(self.dims[:-1], at, strict=False):
            row = row * dim.size + coordinate
        row, column = (at[-1], row) if self.turned else (row, at[-1])
        return simplify(self.layout.place(row, column))

    def read_place(self) -> UOp:
        """Where the read finds its element."""
        return self.place([dim.coordinate() for dim in self.dims])

    def width(self, read: UOp, threads: int, target: Target) -> int:
        """How many neighbours one thread copies at once."""
        if self.turned or self.dims[-1].base != 1:
            return 1
        most = min(max(target.widths(read.dtype), default=1), self.layout.vector)
        fitting = [w for w in range(1, most + 1) if self.dims[-1].size % w == 0]
        return max((w for w in fitting if self.elements // w >= threads), default=1)

    def copied(self, read: UOp, threads: Sequence[UOp], fresh: Fresh, target: Target, buffers: int) -> UOp:
        """The tile, filled by all threads of a block: each takes every so manieth vector."""
        table, count = read.table, prod(r.vmax + 1 for r in threads)
        width = self.width(read, count, target)
        me = table.const(0)
        for r in threads:
            me = me * (r.vmax + 1) + r
        rounds = -(-self.elements // (count * width))
        number = (fresh(rounds, AxisType.LOOP) * count + me) * width if rounds > 1 else me * width
        if width > 1:
            number = number + fresh(width, AxisType.UPCAST)
        at: list[UOp] = []
        left = number
        for dim in reversed(self.dims[1:]):
            at.append(left % dim.size)
            left = left // dim.size
        at.append(left)
        at.reverse()
        value = substitute(read, self._axes(at))
        place = self.place(at)
        if (
            rounds * count * width > self.elements
        ):  # what is too many reads nothing and is kept behind the others
            inside = number < self.elements
            value = gated(value, inside)
            place = inside.where(place, self.layout.elements + number - self.elements)
        kept = Bufferize("local", buffers=buffers)
        return table.make(Ops.BUFFERIZE, read.dtype, (value, simplify(place)), kept)

    def fetched_alone(self, read: UOp, fresh: Fresh, target: Target, buffers: int) -> UOp:
        """The read of a tile that its thread fills by itself: where a vector lies is told apart from where an element lies in it.

        The vectors of all threads are then next to each other, so that no two of a warp want the same bank.
        """
        table, width = read.table, self.width(read, 1, target)
        count = self.elements // width
        vector = fresh(count, AxisType.LOOP) if count > 1 else table.const(0)
        lane = fresh(width, AxisType.UPCAST) if width > 1 else table.const(0)
        number, at = vector * width + lane, list[UOp]()
        for dim in reversed(self.dims[1:]):
            at.append(number % dim.size)
            number = number // dim.size
        value = substitute(read, self._axes([number, *reversed(at)]))
        kept = Bufferize("local", buffers=buffers, own=True)
        copied = table.make(Ops.BUFFERIZE, read.dtype, (value, vector, lane), kept)
        place = table.const(0)
        for dim in self.dims:
            place = place * dim.size + dim.coordinate()
        return table.make(Ops.INDEX, read.dtype, (copied, simplify(place // width), simplify(place % width)))

    def _axes(self, at: Sequence[UOp]) -> dict[UOp, UOp]:
        """The axes of a read that is at these coordinates."""
        axes: dict[UOp, UOp] = {}
        for dim, coordinate in zip(self.dims, at, strict=True):
            for digit in dim.digits:
                part = coordinate // (digit.weight // dim.base) % digit.size * digit.divisor
                known = axes.get(digit.axis)
                axes[digit.axis] = part if known is None else known + part
        return {axis: simplify(value) for axis, value in axes.items()}

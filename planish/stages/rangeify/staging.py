"""The action STAGE of stage 7: the piece of a parameter that is needed inside of a loop is copied to LOCAL memory first.

On a CPU that is packing: a panel that is walked again and again lies in one piece, near the core. On a GPU the threads of a
block fetch a tile together, each a part of it, and then all read all of it.

How. A read `b[f(o…, i…)]` depends on loops outside of the one named (o) and on what runs inside of it (i): inner loops, threads,
lanes. The tile has an element for each value of i…; the copy runs over twins of them and is kept (BUFFERIZE), the read
becomes a read of what is kept, at i…. In the tile the axis with the longest stride in memory comes first, so that copying
keeps the order of memory; `pad` elements may be added to each row. Where memory is contiguous the copy goes in vectors.
A place that is nowhere is kept as 0. What the loops outside are is decided by what the read depends on: a tile that does not
depend on the loop named is copied further out.

Before → after::

    REDUCE(a[i*K + k] * b[k*N + n], k)              at n, b
    REDUCE(a[i*K + k] * INDEX(t, k*8 + n'), k),  t = BUFFERIZE(b[k₂*N + n₂], k₂*8 + n'₂)      n = n_o*8 + n'
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final, cast

from planish.stages.expander.loops import SEQUENTIAL, THREADS, around, kind_of
from planish.stages.rangeify.legality import LANES, Facts, plain_index
from planish.stages.rangeify.padding import gated
from planish.stages.rangeify.refusal import Refusal
from planish.target import Target
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Bufferize, Ops
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify

_STEP: Final = 1000
"""Twins of axes are numbered from here on, per staged read."""


def stride(index: UOp, axis: UOp) -> int | None:
    """By how much an index grows with an axis; None if that is not one number."""
    step = simplify(substitute(index, {axis: axis + 1}) + index * -1)
    return cast("int", step.arg) if step.op is Ops.CONST else None


@dataclass(frozen=True, slots=True)
class _Tile:
    """What is copied for one read: its axes (slowest first), their sizes, and the distance of neighbours along each."""

    axes: tuple[UOp, ...]
    sizes: tuple[int, ...]
    pitches: tuple[int, ...]

    @property
    def elements(self) -> int:
        return prod(self.sizes)

    def place(self, at: tuple[UOp, ...], table_zero: UOp) -> UOp:
        total = table_zero
        for index, pitch in zip(at, self.pitches, strict=True):
            total = total + index * pitch
        return total


def _is_lane_axis(node: UOp) -> bool:
    return node.op is Ops.UNROLL and node.src[0].op is Ops.VCONST


def _inner(facts: Facts, read: UOp, loop: UOp | None) -> list[UOp]:
    """What a read depends on that runs inside of a loop (of the kernel): loops, threads and lanes."""
    found: dict[UOp, None] = {}
    for each in read.src[1:]:
        for node in each.toposort(lambda n: n.op not in {Ops.INDEX, Ops.REDUCE, Ops.RANGE}):
            if _is_lane_axis(node) or (node.op is Ops.RANGE and _runs_inside(facts, node, loop)):
                found[node] = None
    return list(found)


def _runs_inside(facts: Facts, r: UOp, loop: UOp | None) -> bool:
    kind = kind_of(r)
    if kind in THREADS | LANES:
        return True
    if kind not in SEQUENTIAL or r is loop:
        return False
    return loop is None or any(loop in around(r, closing) for closing in facts.closers.get(r, ()))


def _size(axis: UOp) -> int:
    return axis.vmax + 1


def _tile(read: UOp, inner: list[UOp], pad: int) -> _Tile:
    index = plain_index(read)
    steps = {axis: (None if index is None else stride(index, axis)) for axis in inner}
    # what has no one stride stays in the middle: nothing is known about its order
    order = sorted(inner, key=lambda axis: -abs(steps[axis] or 0))
    sizes = tuple(_size(axis) for axis in order)
    pitches = [1] * len(order)
    for k in range(len(order) - 2, -1, -1):
        pitches[k] = pitches[k + 1] * sizes[k + 1] + (pad if k == len(order) - 2 else 0)
    return _Tile(tuple(order), sizes, tuple(pitches))


def _kept(x: UOp, place: UOp) -> UOp:
    return x.table.make(Ops.BUFFERIZE, x.dtype, (x, place), Bufferize("local"))


class _Twins:
    """Fresh axes for the copies of one action."""

    def __init__(self, facts: Facts) -> None:
        taken = [cast("Axis", n.arg).path[0] for n in facts.nodes if n.op is Ops.RANGE]
        self.next = _STEP * (1 + max(taken, default=0) // _STEP)
        self.table = facts.sink.table

    def range(self, size: int, kind: AxisType = AxisType.LOOP) -> UOp:
        self.next += 1
        return self.table.range(size, self.next - 1, kind)


def _vector(size: int, contiguous: bool, read: UOp, target: Target) -> int:
    """How many neighbours are copied at once."""
    if not contiguous:
        return 1
    most = max(target.widths(read.dtype), default=1) if target.block else target.lanes(read.dtype)
    return max((width for width in range(1, most + 1) if size % width == 0), default=1)


def _copy_alone(read: UOp, tile: _Tile, twins: _Twins, target: Target) -> UOp:
    """The tile, filled by loops: on a CPU, and for a kernel without threads."""
    index = plain_index(read)
    last = len(tile.axes) - 1
    contiguous = index is not None and bool(tile.axes) and stride(index, tile.axes[last]) == 1
    exchange: dict[UOp, UOp] = {}
    at: list[UOp] = []
    for k, (axis, size) in enumerate(zip(tile.axes, tile.sizes, strict=True)):
        width = _vector(size, contiguous and k == last, read, target)
        if width > 1:
            lanes = twins.range(width, AxisType.UPCAST)
            twin = lanes if width == size else twins.range(size // width) * width + lanes
        else:
            twin = twins.range(size)
        exchange[axis] = twin
        at.append(twin)
    return _kept(substitute(read, exchange), tile.place(tuple(at), read.table.const(0)))


def _copy_together(read: UOp, tile: _Tile, threads: list[UOp], twins: _Twins, target: Target) -> UOp:
    """The tile, filled by all threads of a block: each takes every so manieth vector of it."""
    table, count = read.table, prod(_size(r) for r in threads)
    index = plain_index(read)
    last = len(tile.axes) - 1
    contiguous = index is not None and stride(index, tile.axes[last]) == 1
    width = _vector(tile.sizes[last], contiguous, read, target)
    while width > 1 and tile.elements // width < count:
        width = max(w for w in range(1, width) if tile.sizes[last] % w == 0)
    me = table.const(0)
    for r in threads:
        me = me * _size(r) + r
    rounds = -(-tile.elements // (count * width))
    number = (twins.range(rounds) * count + me) * width if rounds > 1 else me * width
    if width > 1:
        number = number + twins.range(width, AxisType.UPCAST)
    left, at = number, []
    for size in reversed(tile.sizes[1:]):
        at.append(left % size)
        left = left // size
    coordinates = (left, *reversed(at))  # the slowest runs on beyond the end, where nothing is read
    copied = substitute(read, dict(zip(tile.axes, coordinates, strict=True)))
    if rounds * count * width > tile.elements:
        copied = gated(copied, number < tile.elements)
    place = tile.place(coordinates, table.const(0)) if any(_gaps(tile)) else number
    return _kept(copied, simplify(place))


def _gaps(tile: _Tile) -> list[bool]:
    dense = 1
    found = []
    for size, pitch in zip(reversed(tile.sizes), reversed(tile.pitches), strict=True):
        found.append(pitch != dense)
        dense *= size
    return found


def stage(sink: UOp, loop: UOp | None, slot: int, pad: int, target: Target) -> UOp:
    """The kernel that copies what it reads of a parameter inside of a loop (of all, if none is named)."""
    facts = Facts(sink)
    reads = [
        n
        for n in facts.nodes
        if n.op is Ops.INDEX and n.src[0].op is Ops.DEFINE_GLOBAL and n.src[0].arg == slot
    ]
    written = {n.src[0].src[0] for n in facts.nodes if n.op is Ops.STORE and n.src[0].op is Ops.INDEX}
    if not reads:
        raise Refusal(f"STAGE: the kernel does not read parameter {slot}")
    if reads[0].src[0] in written:
        raise Refusal(f"STAGE: the kernel writes parameter {slot}")
    twins = _Twins(facts)
    threads = sorted(
        (n for n in facts.nodes if n.op is Ops.RANGE and kind_of(n) in THREADS), key=lambda r: r.order
    )
    exchange: dict[UOp, UOp] = {}
    for read in reads:
        inner = _inner(facts, read, loop)
        if plain_index(read) is None:
            raise Refusal(f"STAGE: parameter {slot} is read at more than one index")
        if not inner:
            continue
        if any(
            n.op is Ops.INDEX and not n.ranges.isdisjoint(inner) for i in read.src[1:] for n in i.toposort()
        ):
            raise Refusal(f"STAGE: which elements of parameter {slot} are read depends on data")
        if any(n.op is Ops.RANGE and n.src[0].op is not Ops.CONST for n in inner):
            raise Refusal(f"STAGE: how much of parameter {slot} is needed is not known")
        tile = _tile(read, inner, pad)
        kept = (
            _copy_together(read, tile, threads, twins, target)
            if threads
            else _copy_alone(read, tile, twins, target)
        )
        at = tile.place(tile.axes, read.table.const(0))
        exchange[read] = read.table.make(Ops.INDEX, read.dtype, (kept, at))
    if not exchange:
        raise Refusal(f"STAGE: nothing of parameter {slot} is read again inside of that loop")
    return substitute(sink, exchange)

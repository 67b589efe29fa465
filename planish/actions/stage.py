"""`stage(arg2, at=k.outer)`: the piece of a parameter that is needed inside of a loop is copied to LOCAL memory first.

On a CPU that is packing: a panel that is walked again and again lies in one piece, near the core. On a GPU the threads of a
block fetch a tile together, each a part of it, and then all read all of it.

How. A read `b[f(o…, i…)]` depends on loops outside of the one named (o) and on what runs inside of it (i): inner loops, threads,
lanes. The tile has an element for each value of i…; the copy runs over twins of them and is kept (BUFFERIZE), the read
becomes a read of what is kept, at i…. In the tile the axis with the longest stride in memory comes first, so that copying
keeps the order of memory; `pad` elements may be added to each row. What a tensor core of one thread takes as an operand lies
together instead, in the order in which it holds it. Where memory is contiguous the copy goes in vectors. On a CPU the tile is
a box (`boxes.py`): windows that overlap are kept once, and what is contiguous in lanes only is transposed.
With `own`, a thread fetches what it alone reads: it hands on nothing and waits for nobody, and needs no registers for what is under way.
A place that is nowhere is kept as 0. What the loops outside are is decided by what the read depends on: a tile that does not
depend on the loop named is copied further out.

Before → after::

    REDUCE(a[i*K + k] * b[k*N + n], k)              at n, b
    REDUCE(a[i*K + k] * INDEX(t, k*8 + n'), k),  t = BUFFERIZE(b[k₂*N + n₂], k₂*8 + n'₂)      n = n_o*8 + n'
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from random import Random
from typing import Final, cast

from planish.actions.base import Action, AxisName, Param, fitting
from planish.actions.boxes import Boxed, boxed, extent, lanes_of
from planish.actions.copies import ReadCopy, prepared, reads_of_copies
from planish.actions.fragments import dealt, lane_axes
from planish.actions.layouts import SWIZZLES
from planish.actions.padding import gated
from planish.actions.repeated_reads import read_once
from planish.actions.shared_tiles import SharedTile, dims_of
from planish.records import dataclass
from planish.target import Target
from planish.uop.nest import (
    LANES,
    SEQUENTIAL,
    THREADS,
    around,
    axes_of,
    is_named,
    name_of,
    next_root,
    plain_index,
)
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Bufferize, Ops, UnrolledLanes
from planish.uop.ranges import kind_of
from planish.uop.rewrite import substitute
from planish.uop.strides import stride
from planish.uop.symbolic import simplify
from planish.uop.symbolic.alignment import const_factor
from planish.uop.tensor_cores import ROW

_LINE: Final = 64
"""Bytes that move together between caches."""
_ACCESS: Final = 16
"""Bytes that a thread moves at once."""
_BANKS: Final = 128
"""Bytes of shared memory that the threads of a warp reach at once, if no two of them want the same bank."""
_AHEAD: Final = 2
"""Tiles of which one is fetched while another is used."""
_OWN_DRAWN: Final = 0.3


@dataclass(frozen=True, slots=True)
class _CopiedTile:
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


def _inner(facts: Nest, read: UOp, loop: UOp | None) -> list[UOp]:
    """What a read depends on that runs inside of a loop (of the kernel): loops, threads and lanes."""
    inner: dict[UOp, None] = {}
    for each in read.src[1:]:
        for node in each.toposort(lambda n: n.op not in {Ops.INDEX, Ops.REDUCE, Ops.RANGE}):
            if _is_lane_axis(node) or (node.op is Ops.RANGE and _runs_inside(facts, node, loop)):
                inner[node] = None
    return sorted(inner, key=lambda axis: axis.order)  # (nodes come in the order in which they were made)


def _runs_inside(facts: Nest, r: UOp, loop: UOp | None) -> bool:
    kind = kind_of(r)
    if kind in THREADS | LANES:
        return True
    if kind not in SEQUENTIAL or r is loop:
        return False
    return loop is None or any(loop in around(r, closing) for closing in facts.closers.get(r, ()))


def _tile(
    read: UOp,
    inner: Sequence[UOp],
    pad: int,
    turned: UOp | None = None,
    outer: Collection[UOp] = (),
    threads: Collection[UOp] = (),
) -> _CopiedTile:
    index = plain_index(read)
    steps = {axis: (None if index is None else stride(index, axis)) for axis in inner}
    # what has no one stride comes first: nothing is known about its order, but mostly it is rows that run over their end
    order = sorted(
        inner,
        key=lambda axis: (
            axis not in outer or steps[axis] == 1,
            steps[axis] is not None,
            -abs(steps[axis] or 0),
        ),
    )
    fragment = _fragment(order)
    if fragment:
        order, pad = [axis for axis in order if axis not in fragment] + fragment, 0
    elif turned is not None:  # what the lanes read together lies together
        order = [axis for axis in order if axis is not turned] + [turned]
    sizes = tuple(extent(axis) for axis in order)
    pitches = [1] * len(order)
    line = max(_LINE // max(read.dtype.itemsize, 1), 1)
    access, banks = (max(each // max(read.dtype.itemsize, 1), 1) for each in (_ACCESS, _BANKS))
    for k in range(len(order) - 2, -1, -1):
        pitches[k] = pitches[k + 1] * sizes[k + 1] + (pad if k == len(order) - 2 else 0)
        if threads:
            if order[k] in threads and pitches[k] > access:
                pitches[k] += (
                    access - pitches[k]
                ) % banks  # neighbouring threads find theirs in neighbouring banks
        elif k < len(order) - 2 and not fragment and turned is None and pitches[k] % (2 * line) == 0:
            pitches[k] += line  # planes an odd number of lines apart: all sets of a cache hold some of them
    return _CopiedTile(tuple(order), sizes, tuple(pitches))


def _panels(box: Boxed) -> set[UOp]:
    """Loops around a reduction that reads far apart what they have next to each other: what each iteration reads lies together."""
    alone = [axis for axis, at in box.at.items() if at is axis and axis.op is Ops.RANGE]
    if not any(kind_of(axis) is AxisType.REDUCE for axis in alone):
        return set()
    return {axis for axis in alone if kind_of(axis) is AxisType.LOOP}


def _fragment(axes: Sequence[UOp]) -> list[UOp]:
    """The lanes of a tensor core's operand, slowest first: they lie in LOCAL memory as the core wants them, together."""
    lanes = [axis for axis in axes if _is_lane_axis(axis)]
    return sorted(lanes, key=lambda axis: cast("UnrolledLanes", axis.arg).axes[0][0])


def _together(tile: _CopiedTile, read: UOp, target: Target) -> dict[UOp, int]:
    """How many of the lanes of an operand are copied at once: the last ones, as many as make a vector.

    If they are neighbours in memory, too, and too few, those of the next steps join them.
    """
    widths: dict[UOp, int] = {}
    index, most, count, straight = plain_index(read), target.lanes(read.dtype), 1, True
    fragment = _fragment(tile.axes)
    for axis in reversed(tile.axes):
        size = extent(axis)
        straight = straight and index is not None and stride(index, axis) == count
        if axis in fragment:
            if count * size > most:
                return widths
            widths[axis] = size
        else:
            width = max((w for w in range(1, most // count + 1) if size % w == 0), default=1)
            return {**widths, axis: width} if fragment and straight and width > 1 else widths
        count *= size
    return widths


def _kept(x: UOp, place: UOp, buffers: int = 1) -> UOp:
    return x.table.make(Ops.BUFFERIZE, x.dtype, (x, place), Bufferize("local", buffers=buffers))


class _Twins:
    """Fresh axes for the copies of one action."""

    def __init__(self, facts: Nest) -> None:
        self.next = next_root(facts.nodes)
        self.table = facts.sink.table

    def range(self, size: int | UOp, kind: AxisType = AxisType.LOOP) -> UOp:
        self.next += 1
        return self.table.range(size, self.next - 1, kind)


def _vector(size: int, contiguous: bool, read: UOp, target: Target) -> int:
    """How many neighbours are copied at once."""
    if not contiguous:
        return 1
    most = max(target.widths(read.dtype), default=1) if target.block else target.lanes(read.dtype)
    return max((width for width in range(1, most + 1) if size % width == 0), default=1)


def _copy_alone(
    read: UOp, tile: _CopiedTile, twins: _Twins, target: Target, turned: UOp | None = None
) -> UOp:
    """The tile, filled by loops: on a CPU, and for a kernel without threads. What is turned is copied in squares of lanes."""
    index = plain_index(read)
    last = tile.axes[-1:]
    in_vectors = {axis for axis in tile.axes if turned is not None or axis in last}
    contiguous = {axis for axis in in_vectors if index is not None and stride(index, axis) == 1} | {turned}
    exchange: dict[UOp, UOp] = {}
    together = _together(tile, read, target)
    sizes = dict(zip(tile.axes, tile.sizes, strict=True))
    for axis in _as_read(tile, read, turned):
        # of a size that is told at launch, the tile has room for the most, and so many are copied as there are
        size, bound = sizes[axis], axis.src[0] if is_named(axis) else axis.table.const(sizes[axis])
        width = together.get(axis) or _vector(const_factor(bound), axis in contiguous, read, target)
        if width > 1:
            lanes = twins.range(width, AxisType.UPCAST)
            exchange[axis] = lanes if width == size else twins.range(simplify(bound // width)) * width + lanes
        else:
            exchange[axis] = twins.range(bound)
    at = tuple([exchange[axis] for axis in tile.axes])
    return _kept(substitute(read, exchange), tile.place(at, read.table.const(0)))


def _as_read(tile: _CopiedTile, read: UOp, turned: UOp | None) -> list[UOp]:
    """The axes of a tile in the order in which a copy runs over them: as they lie in memory, so that lines are read once.

    What lies in the tile in another order is written here and there, to fewer lines than are read. A tensor core's operands
    and squares that are turned keep the order of the tile: what they read is whole lines in any order.
    """
    index = plain_index(read)
    if turned is not None or _fragment(tile.axes) or index is None:
        return list(tile.axes)
    steps = {axis: stride(index, axis) for axis in tile.axes}
    if None in steps.values():
        return list(tile.axes)
    return sorted(tile.axes, key=lambda axis: -abs(steps[axis] or 0))


def _copy_together(
    read: UOp, tile: _CopiedTile, threads: list[UOp], twins: _Twins, target: Target, buffers: int
) -> UOp:
    """The tile, filled by all threads of a block: each takes every so manieth vector of it."""
    table, count = read.table, prod(extent(r) for r in threads)
    index = plain_index(read)
    last = len(tile.axes) - 1
    contiguous = index is not None and stride(index, tile.axes[last]) == 1
    width = _vector(tile.sizes[last], contiguous, read, target)
    while width > 1 and tile.elements // width < count:
        width = max(w for w in range(1, width) if tile.sizes[last] % w == 0)
    me = table.const(0)
    for r in threads:
        me = me * extent(r) + r
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
    return _kept(copied, simplify(place), buffers)


def _gaps(tile: _CopiedTile) -> list[bool]:
    dense = 1
    gaps = []
    for size, pitch in zip(reversed(tile.sizes), reversed(tile.pitches), strict=True):
        gaps.append(pitch != dense)
        dense *= size
    return gaps


class Stage(Action):
    """A tile of a parameter in LOCAL memory."""

    word = "stage"
    does = "copy the piece of a parameter that is needed inside of a loop to LOCAL memory first"
    param: Param
    at: AxisName | None = None
    """The loop that it is copied in; None: the kernel."""
    buffers: int = 1
    """How many tiles there are: with two, the next is fetched while one is used."""
    pad: int = 0
    """Elements more from one row of the tile to the next."""
    turned: bool = False
    """Of a tile that threads share: whether neighbours in memory become rows, so that who reads across them reads neighbours."""
    swizzle: int = 0
    """The same: the width in bytes of panels in which chunks are exchanged (`layouts.py`); 0: there are none."""
    own: bool = False
    """Whether each thread fetches what it reads itself, and waits for nobody: of what no two threads read, some iterations ahead."""

    @classmethod
    def drawn(cls, rng: Random, sink: UOp, target: Target) -> Stage:
        at = rng.choice([None, *map(name_of, axes_of(sink))])
        stage = cls(
            rng.choice((1, 1, 2, 3)),
            at,
            rng.choice((1, 1, 2, 3)),
            rng.choice((0, 0, 3)),
            rng.random() < 0.2,
            rng.choice((0, 0, 0, 32, 64, 128)),
        )
        plain = stage.buffers >= _AHEAD and not (stage.pad or stage.turned or stage.swizzle)
        return stage.replaced(own=rng.random() < _OWN_DRAWN) if plain else stage

    def apply(self, sink: UOp, target: Target) -> UOp:
        if self.buffers < 1:
            raise self.no(f"{self.buffers} buffers are none", remedy="buffers=1")
        if self.buffers > 1 and not target.block:
            raise self.no(
                f"{self.buffers} buffers: {target.name} fetches nothing in the background that could fill another",
                remedy="buffers=1",
            )
        if self.swizzle not in {0, *SWIZZLES} or (self.swizzle and self.pad):
            raise self.no(
                f"swizzle={self.swizzle}, pad={self.pad}: there is no such layout",
                remedy="swizzle is 0, 32, 64 or 128, and then nothing is padded",
            )
        if (self.swizzle or self.turned) and not target.block:
            raise self.no(f"{target.name} has no threads that share a tile", remedy="swizzle=0, turned=false")
        if self.own and (self.swizzle or self.turned or self.pad or self.buffers < _AHEAD):
            raise self.no(
                "own=true: what a thread fetches for itself lies as it is read, and is fetched ahead",
                remedy=f"buffers={_AHEAD} or more, and no other layout",
            )
        loop = None if self.at is None else self.axis_of(sink, self.at)
        if loop is not None and kind_of(loop) in {AxisType.GLOBAL, AxisType.THREAD}:
            loop = None  # nothing is outside of these
        if loop is not None and kind_of(loop) in LANES | THREADS:
            raise self.no(f"axis {self.at} is {kind_of(loop).name}, not a loop")
        return fitting(sink, self.staged(sink, loop, target), self, target)

    def staged(self, sink: UOp, loop: UOp | None, target: Target) -> UOp:
        """The kernel that copies what it reads of the parameter inside of a loop (of all, if none is named)."""
        slot, pad, special = self.param, self.pad, self.buffers > 1 or self.turned or self.swizzle
        facts = Nest.of(sink)
        copied = reads_of_copies(facts)
        reads = [
            n
            for n in facts.nodes
            if n.op is Ops.INDEX
            and n.src[0].op is Ops.DEFINE_GLOBAL
            and n.src[0].arg == slot
            and n not in copied
        ]
        written = {n.src[0].src[0] for n in facts.nodes if n.op is Ops.STORE and n.src[0].op is Ops.INDEX}
        if not reads:
            raise self.no(f"the kernel does not read arg{slot}")
        if reads[0].src[0] in written:
            raise self.no(f"the kernel writes arg{slot}")
        if (
            loop is not None
        ):  # one parameter may be several operands: what changes with the loop is meant, if anything does
            reads = [read for read in reads if loop in read.ranges] or reads
        twins = _Twins(facts)
        threads = sorted(
            (n for n in facts.nodes if n.op is Ops.RANGE and kind_of(n) in THREADS),
            key=lambda r: (
                kind_of(r) is AxisType.WARP,
                r.order,
            ),  # neighbours copy what lies next to each other
        )
        if (special or self.own) and not threads:
            raise self.no("no threads share it yet", remedy="local(…) first")
        exchange: dict[UOp, UOp] = {}
        copies: list[ReadCopy] = []
        several: dict[UOp, UOp] = {}
        insides = {read: _inner(facts, read, loop) for read in reads}
        for read in sorted(reads, key=lambda read: -len(insides[read])):
            inner = insides[read]
            if plain_index(read) is None:
                raise self.no(f"arg{slot} is read at more than one index")
            wanted = read if threads else prepared(facts, read)
            shared = None
            if not self.own:
                shared = next((value for copy in copies if (value := copy.serves(wanted)) is not None), None)
            if shared is not None:
                exchange[wanted] = shared
            if not inner or shared is not None:
                continue
            if any(
                n.op is Ops.INDEX and not n.ranges.isdisjoint(inner)
                for i in read.src[1:]
                for n in i.toposort()
            ):
                raise self.no(f"which elements of arg{slot} are read depends on data")
            if any(is_named(n) and (threads or not n.src[0].ranges.isdisjoint(inner)) for n in inner):
                raise self.no(f"how much of arg{slot} is needed is not known")
            if self.own and not all(r in inner for r in threads):
                raise self.no(f"threads read the same of arg{slot}, and would fetch it each")
            if self.own or (special and dims_of(read, inner) is None):
                value = self.once(read, inner, threads, twins, target, several)
                if value is None and self.own:
                    raise self.no(f"what a thread reads of arg{slot} is no box")
                if value is not None:
                    exchange[read] = value
                    continue
            if threads:
                exchange |= self.shared(facts, read, inner, threads, twins, target)
                copies.append(ReadCopy(read, exchange[read]))
                continue
            box = boxed(read, inner, lanes_of(facts, read), twins.range, target)
            tile = _tile(box.read, list(box.at), pad, box.turned, _panels(box))
            kept = _copy_alone(box.read, tile, twins, target, box.turned)
            at = tile.place(tuple(box.at[axis] for axis in tile.axes), read.table.const(0))
            if wanted is not read:
                kept = _kept(substitute(wanted, {read: kept.src[0]}), kept.src[1])
            exchange[wanted] = read.table.make(Ops.INDEX, wanted.dtype, (kept, at))
            copies.append(ReadCopy(wanted, exchange[wanted]))
        if not exchange:
            raise self.no(f"nothing of arg{slot} is read again inside of that loop")
        return substitute(sink, exchange)

    def once(
        self,
        read: UOp,
        inner: list[UOp],
        threads: list[UOp],
        twins: _Twins,
        target: Target,
        known: dict[UOp, UOp],
    ) -> UOp | None:
        """What a read becomes of which several axes are the same element; `known` is what was copied before. None if it is no box."""
        axes = [axis for axis in inner if not self.own or axis not in threads]
        tiled = read_once(read, axes, turned=self.turned, swizzle=self.swizzle, pad=self.pad)
        if tiled is None:
            return None
        if tiled.bare not in known:
            tile, single = tiled.tile, tiled.single
            if self.own:
                known[tiled.bare] = tile.fetched_alone(single, twins.range, target, self.buffers)
            else:
                kept = tile.copied(single, threads, twins.range, target, self.buffers)
                known[tiled.bare] = read.table.make(Ops.INDEX, read.dtype, (kept, tile.read_place()))
        return tiled.under_conditions(known[tiled.bare])

    def shared(
        self, facts: Nest, read: UOp, inner: list[UOp], threads: list[UOp], twins: _Twins, target: Target
    ) -> dict[UOp, UOp]:
        """A tile that all threads of a block fetch together: what a read becomes, and operands of tensor cores made of it."""
        special, table = self.turned or self.swizzle, read.table
        warp = next((axis for axis in inner if axis.op is Ops.RANGE and kind_of(axis) is AxisType.WARP), None)
        if special or warp is not None or self.buffers > 1:
            box = SharedTile.of(read, inner, turned=self.turned, swizzle=self.swizzle, pad=self.pad)
            if box is not None:
                kept = box.copied(read, threads, twins.range, target, self.buffers)
                exchange = {read: table.make(Ops.INDEX, read.dtype, (kept, box.read_place()))}
                if warp is not None and ROW // max(read.dtype.itemsize, 1) in target.widths(read.dtype):
                    exchange |= _dealt(facts, read, inner, warp, box, kept, twins)
                return exchange
            if special:
                raise self.no(f"what is read of arg{self.param} is no box of rows for such a layout")
        tile = _tile(read, inner, self.pad, threads=threads)
        kept = _copy_together(read, tile, threads, twins, target, self.buffers)
        return {read: table.make(Ops.INDEX, read.dtype, (kept, tile.place(tile.axes, table.const(0))))}


def _dealt(
    facts: Nest, read: UOp, inner: list[UOp], warp: UOp, box: SharedTile, kept: UOp, twins: _Twins
) -> dict[UOp, UOp]:
    """The operands of tensor cores that a read is all of, from rows of its tile."""
    operands: dict[UOp, UOp] = {}
    for node in facts.nodes:
        if node.op is Ops.CONTRACT and node.src[0] is read and (axes := lane_axes(node, inner)) is not None:
            operand = dealt(node, box, kept, warp, axes, twins.next)
            if operand is not None:
                twins.next += 1
                operands[node] = operand
    return operands

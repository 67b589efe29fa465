"""How many threads a block of a kernel has, and how much LOCAL memory it needs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, cast

from planish.dtypes import PtrDType
from planish.uop.nest import SIDE_BY_SIDE, THREADS, closed_by, without_gate
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Bufferize, Ops, UnrolledLanes
from planish.uop.ranges import is_rank, kind_of

_TELLING: Final = frozenset({Ops.RANGE, Ops.UNROLL, Ops.INDEX, Ops.REDUCE, Ops.DEFINE_LOCAL, Ops.BUFFERIZE})
"""What LOCAL memory follows from. It is asked for after every action that is tried, and most of a kernel has no part in it."""
_BARRIERS: Final = 16
"""Bytes for each tile that a copy engine fills: it tells when it is there, and is told when all are done with it."""


def threads_of(sink: UOp) -> int:
    """How many threads a block has."""
    return prod(n.vmax + 1 for n in sink.toposort() if n.op is Ops.RANGE and kind_of(n) in THREADS)


def _copies(x: UOp, closed: frozenset[UOp], unrolled: bool, places: Sequence[UOp] = ()) -> int:
    """How many elements of a value there are at once: one for each thread and lane that it depends on, and the places do not."""
    count = prod(r.vmax + 1 for r in x.ranges - closed if kind_of(r) in SIDE_BY_SIDE)
    if not unrolled:
        return count
    axes = _lanes_of(x) - {axis for place in places for axis in _lanes_of(place)}
    return count * prod(size for _, size in axes)


def _lanes_of(x: UOp) -> set[tuple[tuple[int, ...], int]]:
    return {
        axis for n in x.toposort(_is_open) if n.op is Ops.UNROLL for axis in cast("UnrolledLanes", n.arg).axes
    }


def _is_open(node: UOp) -> bool:
    return node.op not in {Ops.CONTRACT, Ops.BUFFERIZE}


def local_bytes(sink: UOp, *, in_lanes: bool = False, final: bool = False) -> int:
    """How much LOCAL memory a kernel needs; what is made of a buffer element by element takes its place, if nobody reads that later.

    With `in_lanes`, only that of rows which several lanes have each for itself. If it is `final`, elements that several threads make
    have a place of their own: another action may yet have given each its thread.
    """
    nodes = [n for n in sink.toposort() if n.op in _TELLING]
    threads = frozenset(n for n in nodes if n.op is Ops.RANGE and kind_of(n) in THREADS)
    alone = not threads
    unrolled = any(n.op is Ops.UNROLL for n in nodes)
    readers: dict[UOp, list[UOp]] = {}
    for node in nodes:
        if node.op is Ops.INDEX and node.src[0].op is Ops.BUFFERIZE:
            readers.setdefault(node.src[0], []).append(node)
    kept: dict[UOp, int] = {}
    several: set[UOp] = set()
    total = 0
    for node in nodes:
        if node.op is Ops.DEFINE_LOCAL:
            memory = cast("PtrDType", node.dtype)
            total += memory.size * memory.base.itemsize
        elif node.op is Ops.BUFFERIZE:
            x = node.src[0]
            here = [place for place in node.src[1:] if not is_rank(place)]
            size = prod(place.vmax + 1 for place in here) * cast("Bufferize", node.arg).buffers
            copies = _copies(x, closed_by(node), unrolled, node.src[1:])
            kept[node] = size * copies * x.dtype.itemsize
            if copies > 1:
                several.add(node)
            single = not final or threads <= frozenset[UOp]().union(*(place.ranges for place in node.src[1:]))
            for read in x.toposort(lambda n: n.op not in {Ops.REDUCE, Ops.INDEX}):
                # a thread reads just what it then writes
                own = alone or (single and tuple(map(without_gate, read.src[1:])) == node.src[1:])
                if read.op is not Ops.INDEX or not own or kept.get(read.src[0]) != kept[node]:
                    continue
                if len(readers[read.src[0]]) == 1 or set(readers[read.src[0]]) <= set(x.toposort()):
                    kept[read.src[0]] = 0
                    break  # there is one place to take
        elif node.op is Ops.REDUCE:
            group = [
                r for r in node.src[1:] if isinstance(r.arg, Axis) and kind_of(r) is AxisType.GROUP_REDUCE
            ]
            if group:
                size = prod(r.vmax + 1 for r in group)
                total += size * _copies(node, frozenset(), unrolled) * node.src[0].dtype.itemsize
    if in_lanes:
        return sum(kept[node] for node in several)
    rings = sum(size for node, size in kept.items() if cast("Bufferize", node.arg).buffers > 1)
    late = sum(size for node, size in kept.items() if cast("Bufferize", node.arg).late)
    total += sum(_BARRIERS * cast("Bufferize", n.arg).buffers for n in kept if n.src[0].op is Ops.FETCH)
    return total + sum(kept.values()) - min(rings, late)

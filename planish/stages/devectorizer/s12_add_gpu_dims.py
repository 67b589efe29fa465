"""Stage 12, add GPU dims: axes that run side by side become hardware indices.

Why: nobody loops over the blocks of a grid or the threads of a block; each of them asks for its own number.

| axis | index |
|---|---|
| GLOBAL, THREAD | `gidx0` … of the grid, the innermost axis as `gidx0`; on a CPU all together one `core` |
| CLUSTER | `cidx0`, the number of a block in its cluster |
| WARP, LOCAL, GROUP_REDUCE | `lidx0` … of the block; `lidx0` runs fastest, a WARP is the whole of it |
| LOOP, REDUCE | a loop, as before |

A machine has few such indices and each has a largest value (`Target.grid`, `Target.block`). Neighbouring axes are *grouped*
into one index while their product fits, an axis that is too long is *split* over two; the axes are computed from the indices by
division and remainder. What fits neither way is refused, with the reason.

LOCAL memory that no thread shares with another becomes its registers (`own_registers.py`). A STORE whose place does not depend
on some axis of the block would be done by all its threads: it is gated to the first. Where threads share LOCAL memory, they
wait for each other (`barriers.py`); tiles of several buffers are filled ahead (`software_pipeline.py`).

Before → after::

    g = RANGE(256, GLOBAL), l = RANGE(32, LOCAL)     SPECIAL(256, gidx0), SPECIAL(32, lidx0)
    RANGE(2048, LOCAL), at most 1024                 SPECIAL(2, lidx1) * 1024 + SPECIAL(1024, lidx0)
    STORE(c[g], x), a block of l                     STORE(c[where(l == 0, g, INVALID)], x)

Would break without it: parallel axes would be loops that nobody opens.

Holds afterwards: every RANGE is a LOOP or a REDUCE; AFTER and END list no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from planish.dtypes import AddrSpace
from planish.errors import LoweringError
from planish.stages.devectorizer.barriers import add_barriers
from planish.stages.devectorizer.finishing import finished_by_few
from planish.stages.devectorizer.own_registers import own_registers
from planish.stages.devectorizer.software_pipeline import pipelined
from planish.stages.expander.s10_add_local_buffers import spread
from planish.target import Target
from planish.uop.hardware_index import HardwareIndex, IndexKind
from planish.uop.laws import space_of
from planish.uop.nest import THREADS
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.ranges import kind_of
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify

_BLOCKS: Final = frozenset({AxisType.GLOBAL, AxisType.THREAD})
_RANKS: Final = 8
"""Blocks of a cluster at most."""

Segment = tuple[tuple[int, ...], tuple[int, ...]]
"""Neighbouring axes and the hardware indices that number them together; both slowest first, equal products."""


# -- dimension limiting ----------------------------------------------------------------------------------------------


def limit_dims(sizes: Sequence[int], limits: Sequence[int]) -> list[Segment] | None:
    """Axes (slowest first) on hardware indices with these limits (fastest first); None if they do not fit.

    Group what is too many, split what is too long: of all ways to group neighbours the one that needs the fewest divisions
    and products is taken.
    """
    best: list[Segment] | None = None
    for cuts in range(1 << max(len(sizes) - 1, 0)):
        groups: list[list[int]] = [[sizes[0]]] if sizes else []
        for k, size in enumerate(sizes[1:]):
            if cuts >> k & 1:
                groups[-1].append(size)
            else:
                groups.append([size])
        segments = _on_indices(groups, limits)
        if segments is not None and (best is None or _divisions(segments) < _divisions(best)):
            best = segments
    return best


def _divisions(segments: list[Segment]) -> int:
    return sum(len(axes) + len(indices) - 2 for axes, indices in segments)


def _on_indices(groups: list[list[int]], limits: Sequence[int]) -> list[Segment] | None:
    """Each group on one index, or on several if it is too long; from the fastest on."""
    segments: list[Segment] = []
    left = list(limits)
    for k, group in enumerate(reversed(groups)):
        others = len(groups) - k - 1
        indices = _split(prod(group), left[: max(len(left) - others, 0)])
        if indices is None:
            return None
        left = left[len(indices) :]
        segments.append((tuple(group), tuple(reversed(indices))))
    segments.reverse()
    return segments


def _split(size: int, limits: Sequence[int]) -> list[int] | None:
    """A size as factors within limits, the fastest first, as few as possible."""
    if not limits:
        return None
    if size <= limits[0]:
        return [size]
    for factor in range(min(limits[0], size), 1, -1):
        if size % factor == 0:
            rest = _split(size // factor, limits[1:])
            if rest is not None:
                return [factor, *rest]
    return None


# -- indices ---------------------------------------------------------------------------------------------------------


def _special(kind: IndexKind, axis: int, bound: UOp) -> UOp:
    return bound.table.make(Ops.SPECIAL, bound.dtype, (bound,), HardwareIndex(kind, axis))


def _numbered(axes: list[UOp], limits: Sequence[int], kind: IndexKind, what: str) -> dict[UOp, UOp]:
    """Each axis in terms of hardware indices."""
    if not axes:
        return {}
    sizes = [axis.vmax + 1 for axis in axes]
    segments = limit_dims(sizes, limits)
    if segments is None:
        raise LoweringError(
            f"a {what} of {' x '.join(map(str, sizes))} does not fit the limits {tuple(limits)}",
            op="RANGE",
            remedy="give less of these axes to threads, or pad the long one to a number with divisors",
        )
    count = sum(len(indices) for _, indices in segments)
    numbers: dict[UOp, UOp] = {}
    place = 0
    for parts, indices in segments:
        members = axes[place : place + len(parts)]
        place += len(parts)
        bounds = [axis.src[0] for axis in members]
        table = members[0].table
        if len(indices) == 1:
            whole = bounds[0]
            for bound in bounds[1:]:
                whole = whole * bound
            number = _special(kind, count - 1, simplify(whole))
        elif any(bound.op is not Ops.CONST for bound in bounds):
            raise LoweringError(
                f"a {what} of varying size does not fit the limits {tuple(limits)}", op="RANGE"
            )
        else:
            number = table.const(0)
            for k, size in enumerate(indices):
                number = number * size + _special(kind, count - 1 - k, table.const(size))
        count -= len(indices)
        for axis, bound in zip(reversed(members[1:]), reversed(bounds[1:]), strict=True):
            numbers[axis] = simplify(number % bound)
            number = number // bound
        numbers[members[0]] = simplify(number)
    return numbers


def _by_order(nodes: list[UOp], *kinds: AxisType) -> list[UOp]:
    return sorted((n for n in nodes if n.op is Ops.RANGE and kind_of(n) in kinds), key=lambda r: r.order)


def _indices(nodes: list[UOp], target: Target) -> dict[UOp, UOp]:
    outer = _by_order(nodes, *_BLOCKS)
    # a warp is neighbouring threads: the fastest index, and all of it
    inner = [*_by_order(nodes, AxisType.LOCAL, AxisType.GROUP_REDUCE), *_by_order(nodes, AxisType.WARP)]
    if inner and not target.block:
        raise LoweringError(f"{target.name} has no threads in blocks", op="RANGE")
    threads = prod(r.vmax + 1 for r in inner)
    if threads > target.block_threads:
        raise LoweringError(
            f"{threads} threads are more than the {target.block_threads} of a block", op="RANGE"
        )
    if target.grid:
        indices = _numbered(outer, target.grid, IndexKind.GRID, "grid")
    else:
        indices = _numbered(outer, (target.cores,), IndexKind.CORE, "number of pieces")
    indices |= _numbered(_by_order(nodes, AxisType.CLUSTER), (_RANKS,), IndexKind.CLUSTER, "cluster")
    return indices | _numbered(inner, target.block, IndexKind.BLOCK, "block")


# -- stores ----------------------------------------------------------------------------------------------------------


def _idle(store: UOp, threads: list[UOp]) -> list[UOp]:
    """The axes of a block that neither the place of a store depends on, nor whether it is done: its gate picks a thread itself."""
    place = store.src[0]
    if place.op is not Ops.INDEX or space_of(place) is AddrSpace.REG:
        return []
    return [r for r in threads if r not in place.src[1].ranges]


def _gated(store: UOp, idle: list[UOp]) -> UOp:
    """A store that is done where these indices are 0."""
    place = store.src[0]
    index = place.src[1]
    gate = idle[0].eq(0)
    for number in idle[1:]:
        gate = gate & number.eq(0)
    lanes = index.dtype.lanes
    gated = spread(gate, lanes).where(index, spread(index.table.invalid(index.dtype.scalar), lanes))
    return store.replace(src=(place.replace(src=(place.src[0], gated, *place.src[2:])), *store.src[1:]))


def _replaced(sink: UOp, indices: dict[UOp, UOp], threads: list[UOp]) -> UOp:
    """The kernel with indices for ranges. What waited for such a range, or closed it, does not any more."""
    final: dict[UOp, UOp] = dict(indices)
    for node in sink.toposort():
        if node in final:
            continue
        listed = node.src
        if node.op is Ops.COMBINE:
            listed = node.src[:1]  # neighbours are those of the block
        elif node.op is Ops.WMMA:
            listed = node.src[:3]
        elif node.op in {Ops.AFTER, Ops.END}:
            listed = (node.src[0], *(s for s in node.src[1:] if s not in indices))
        src = tuple([final[source] for source in listed])
        if node.op in {Ops.AFTER, Ops.END} and len(src) == 1:
            final[node] = src[0]
            continue
        rebuilt = node if src == node.src else node.replace(src=src)
        idle = _idle(node, threads) if node.op is Ops.STORE else []
        final[node] = _gated(rebuilt, [indices[r] for r in idle]) if idle else rebuilt
    return final[sink]


def add_gpu_dims(sink: UOp, target: Target) -> UOp:
    """Number what runs side by side."""
    nodes = sink.toposort()
    if not any(n.op is Ops.RANGE and kind_of(n) in THREADS | _BLOCKS for n in nodes):
        return sink
    threads = _by_order(nodes, *THREADS)
    if target.is_gpu:
        sink = own_registers(sink, target)
        stores = [n for n in sink.toposort() if n.op is Ops.STORE]
        sink = finished_by_few(sink, {store: _idle(store, threads) for store in stores})
        nodes = sink.toposort()
    result = _bounded(_replaced(sink, _indices(nodes, target), threads))
    return add_barriers(*pipelined(result)) if threads else result


def _bounded(sink: UOp) -> UOp:
    """The kernel with the lengths of its loops in simplest form: what simplifies an index later must not make another loop of one."""
    exchange = {
        r: r.replace(src=(simplify(r.src[0]),))
        for r in sink.toposort()
        if r.op is Ops.RANGE and r.src[0].op is not Ops.CONST
    }
    return substitute(sink, exchange) if exchange else sink

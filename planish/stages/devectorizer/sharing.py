"""LOCAL buffers share memory where their lifetimes allow it, in place too: a softmax needs one row of scratch, not two.

Buffer b may lie where buffer a lies if nobody reads a any more once b is being filled. Both are filled by a loop in the
same context (the same loops around), and every read of a

* is inside of a loop that is over before b's loop begins, which the graph says already or is made to say by an AFTER on
  the places where b is stored; or
* is in b's own loop, at the very place at which b's element is then stored, and what is stored is computed from what was
  read: *in place*. Each thread must have its own elements there, since others might read what one has just replaced.

A read outside of all loops may happen at any time after the fill, so such a buffer keeps its memory to itself. So does one of
which there are several in a ring: it is filled while it is read.
"""

from __future__ import annotations

from typing import Final, cast

from planish.dtypes import DType, PtrDType
from planish.records import dataclass
from planish.stages.expander.loops import nest_all
from planish.uop.access_hints import hints_of
from planish.uop.nest import THREADS, closed_by, loops_of, without_gate
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.ranges import kind_of
from planish.uop.rewrite import substitute

_TINY: Final = 1 << 10
"""Bytes that the threads of a block have to spare: to share them they would have to wait for each other once more."""


@dataclass(frozen=True, slots=True)
class _Buffer:
    """One LOCAL buffer: where it is filled and read."""

    memory: UOp
    fills: tuple[UOp, ...]
    """The effects after which it is read."""
    stores: tuple[UOp, ...]
    reads: tuple[UOp, ...]

    @property
    def size(self) -> int:
        return cast("PtrDType", self.memory.dtype).size

    @property
    def element(self) -> DType:
        return cast("PtrDType", self.memory.dtype).base


def _memory(place: UOp) -> UOp | None:
    buffer = place.src[0]
    while buffer.op is Ops.AFTER:
        buffer = buffer.src[0]
    return buffer if buffer.op is Ops.DEFINE_LOCAL else None


class _Kernel:
    """What is asked about a whole kernel."""

    def __init__(self, sink: UOp) -> None:
        nodes = sink.toposort()
        self.ends = {r: n for n in nodes if n.op is Ops.END for r in loops_of(closed_by(n))}
        self.threads = frozenset(n for n in nodes if n.op is Ops.RANGE and kind_of(n) in THREADS)
        written = {n.src[0] for n in nodes if n.op is Ops.STORE}
        # places that something else is done with than to be stored to
        used = {s for n in nodes for s in (n.src[1:] if n.op is Ops.STORE else n.src) if s.op is Ops.INDEX}
        stores: dict[UOp, list[UOp]] = {}
        reads: dict[UOp, list[UOp]] = {}
        fills: dict[UOp, dict[UOp, None]] = {}
        for node in nodes:
            if node.op is Ops.STORE and node.src[0].op is Ops.INDEX:
                memory = _memory(node.src[0])
                if memory is not None:
                    stores.setdefault(memory, []).append(node)
            elif node.op is Ops.INDEX:
                memory = _memory(node)
                if memory is None:
                    continue
                if node not in written or node in used:
                    reads.setdefault(memory, []).append(node)
                    if node.src[0].op is Ops.AFTER:
                        fills.setdefault(memory, {}).update(dict.fromkeys(node.src[0].src[1:]))
        rings = {m for m, filled in stores.items() if any(hints_of(store).buffers for store in filled)}
        self.buffers = [
            _Buffer(m, tuple(fills.get(m, ())), tuple(stores.get(m, ())), tuple(reads.get(m, ())))
            for m in nodes
            if m.op is Ops.DEFINE_LOCAL and m not in rings
        ]
        bits = {
            fill: 1 << n for n, fill in enumerate(dict.fromkeys(f for b in self.buffers for f in b.fills))
        }
        self._bits = bits
        self._below: dict[UOp, int] = {}
        for node in nodes:
            below = bits.get(node, 0)
            for source in node.src:
                below |= self._below[source]
            self._below[node] = below

    def needs(self, node: UOp, fill: UOp) -> bool:
        """Whether a fill comes before a node, or is it. Asked of all pairs: worked out once, a bit for each fill."""
        return bool(self._below[node] & self._bits[fill])

    def loop_of(self, read: UOp, context: frozenset[UOp]) -> UOp | None:
        """The END of the loop, directly in a context, that a read is in."""
        for r in loops_of(read.ranges) - context:
            end = self.ends.get(r)
            if end is not None and loops_of(end.ranges) == context:
                return end
        return None


def _order(kernel: _Kernel, a: _Buffer, b: _Buffer) -> tuple[UOp, ...] | None:
    """What b's stores have to wait for to lie where a lies; None if they may not."""
    if kernel.threads and min(a.size, b.size) * a.element.itemsize <= _TINY:
        return None
    if a.element is not b.element or not a.fills or len(b.fills) != 1 or len(b.stores) != 1:
        return None
    (filled_b,), (store,) = b.fills, b.stores
    context = loops_of(filled_b.ranges)
    if filled_b in a.fills or any(loops_of(fill.ranges) != context for fill in a.fills):
        return None
    if store.src[0].src[0].op is not Ops.DEFINE_LOCAL:
        return None
    waits = dict.fromkeys(a.fills)
    for read in a.reads:
        loop = kernel.loop_of(read, context)
        if loop is None:
            return None
        if loop is not filled_b:
            waits[loop] = None
        elif not _is_in_place(read, store, kernel.threads):
            return None
    if any(not loop.ranges <= store.ranges or kernel.needs(loop, filled_b) for loop in waits):
        return None  # what is waited for is over: of the threads' axes too, which are no loops
    return tuple(waits)


def _is_in_place(read: UOp, store: UOp, threads: frozenset[UOp]) -> bool:
    place, value = store.src[:2]
    return (
        len(store.src) == len(read.src) == len(place.src) == 2
        and read.dtype is place.dtype
        and without_gate(read.src[1]) is without_gate(place.src[1])
        and threads <= place.src[1].ranges
        and read in value.toposort()
    )


def share_locals(sink: UOp) -> UOp:
    """The kernel with LOCAL buffers in each other's memory where that is safe."""
    if sum(n.op is Ops.DEFINE_LOCAL for n in sink.toposort()) < 2:
        return sink
    sink = nest_all(sink)
    while (shared := _share_two(sink)) is not None:
        sink = shared
    return sink


def _share_two(sink: UOp) -> UOp | None:
    kernel = _Kernel(sink)
    pairs = [
        (a, b, waits)
        for a in kernel.buffers
        for b in kernel.buffers
        if a is not b and (waits := _order(kernel, a, b)) is not None
    ]
    if not pairs:
        return None
    # in place first: a chain of buffers, each made of the one before, is one buffer only if neighbours are joined
    a, b, waits = next((each for each in pairs if _is_made_of(kernel, each[1], each[0])), pairs[0])
    if a.size != b.size:  # the next look finds them again, of one size
        small, large = (a, b) if a.size < b.size else (b, a)
        return _enlarged(sink, small.memory, large.memory.dtype)
    place = b.stores[0].src[0]
    new = place.replace(src=(a.memory.after(*waits), *place.src[1:]))
    shared = substitute(sink, {place: new, b.memory: a.memory})
    return substitute(shared, _filled_again(kernel, a, b))


def _filled_again(kernel: _Kernel, a: _Buffer, b: _Buffer) -> dict[UOp, UOp]:
    """The places where a is stored, in every turn of the loops around: some lanes of what is stored may turn out not to depend on one.

    (Threads wait for each other in every turn.)
    """
    around = sorted(loops_of(b.fills[0].ranges), key=lambda r: r.order)
    if kernel.threads or not around:
        return {}
    places = {store.src[0] for store in a.stores if store.src[0].src[0].op is Ops.DEFINE_LOCAL}
    return {each: each.replace(src=(a.memory.after(*around), *each.src[1:])) for each in places}


def _is_made_of(kernel: _Kernel, b: _Buffer, a: _Buffer) -> bool:
    """Whether the loop that fills b reads a."""
    filled = b.fills[0]
    context = loops_of(filled.ranges)
    return any(kernel.loop_of(read, context) is filled for read in a.reads)


def _enlarged(sink: UOp, memory: UOp, dtype: DType) -> UOp:
    """The kernel with more memory in place of some; what stands for it is of its dtype."""
    final = {memory: memory.replace(dtype=dtype)}
    for node in sink.toposort():
        if node not in final:
            src = tuple([final[source] for source in node.src])
            changed = src[0].dtype if node.op is Ops.AFTER else node.dtype
            final[node] = node if src == node.src else node.replace(dtype=changed, src=src)
    return final[sink]

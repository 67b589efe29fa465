"""Software pipelining: tiles of several buffers are filled in the background, some iterations before they are needed.

A loop that fills a tile, waits and computes leaves memory idle while it computes, and the arithmetic idle while it fills. With n
buffers in a ring, iteration r computes with buffer r % n while the copies for iteration r + n - 1 are under way to the one that
iteration r - 1 was the last to read. The copies are asynchronous stores (`STORE` with the hint `async`): a COMMIT makes a
group of a thread's copies, a WAIT lets all groups but the last few become visible to the thread, and a BARRIER to the block.

Before → after, with n = 3::

    loop r < k:                              fill(0) to t[0]; commit; fill(1) to t[1]; commit
      fill(r) to t; barrier                  loop r < k:
      use t                                    wait, all groups but 1; barrier
      barrier                                  fill(r + 2) to t[(r + 2) % 3], where r + 2 < k; commit
                                               use t[r % 3]

One barrier per iteration does both: what it has waited for is seen by all, and what iteration r - 1 read may be replaced. Beyond the
end of the loop a copy reads nothing and writes zeros to a buffer that nobody reads again, so that every iteration has its group.
What is not copied as it is (converted on the way) is stored at once: the ring is as right, and memory is waited for. A tile that is
filled together with another, or with what the iteration itself makes, has one buffer after all. Where each thread fills what it alone
reads, in all rings of the loop, nobody waits for another: there is no barrier.

Where a tile is a box that a copy engine can bring, FETCHED says so in every iteration, and LLIR decides (`llir/fetching.py`).

All rings of a loop are filled equally far ahead; one buffer less far where a tensor core reads them in the background (`overlap.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from planish import dtypes
from planish.dtypes import AddrSpace, PtrDType
from planish.records import dataclass
from planish.stages.devectorizer import overlap
from planish.stages.expander.s10_add_local_buffers import spread
from planish.uop.access_hints import NO_HINTS, AccessHints, hints_of
from planish.uop.laws import space_of
from planish.uop.nest import around, closed_by, closers_of, loops_of, next_root
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify


@dataclass(frozen=True, slots=True)
class _Ring:
    """One tile of several buffers."""

    memory: UOp
    observed: UOp
    """The memory after it is filled, which is what is read."""
    store: UOp
    loops: tuple[UOp, ...]
    """Those of the copy itself."""
    buffers: int
    own: bool
    """Whether each thread fills what it reads itself."""

    @property
    def size(self) -> int:
        """Elements of one buffer."""
        return cast("PtrDType", self.memory.dtype).size // self.buffers

    def at(self, step: UOp) -> UOp:
        """Where the buffer for an iteration begins."""
        return step % self.buffers * self.size


def _ring(observed: UOp) -> _Ring | None:
    if observed.op is not Ops.AFTER or observed.src[0].op is not Ops.DEFINE_LOCAL or len(observed.src) != 2:
        return None
    memory, effect = observed.src
    loops: list[UOp] = []
    while effect.op is Ops.END:
        loops += sorted(closed_by(effect), key=lambda r: r.order)
        effect = effect.src[0]
    hints = hints_of(effect) if effect.op is Ops.STORE else NO_HINTS
    if not hints.buffers:
        return None
    return _Ring(memory, observed, effect, tuple(loops), hints.buffers, hints.own)


def _where(condition: UOp, index: UOp) -> UOp:
    """An index that is nowhere unless a condition holds."""
    lanes = index.dtype.lanes
    return spread(condition, lanes).where(index, spread(index.table.invalid(index.dtype.scalar), lanes))


def _shifted(index: UOp, by: UOp) -> UOp:
    if index.op is Ops.WHERE:
        gate, inside, outside = index.src
        return gate.where(_shifted(inside, by), outside)
    return index + spread(by, index.dtype.lanes)


def _plain(value: UOp) -> UOp:
    """What is stored, whoever fetches it."""
    return value.src[0] if value.op is Ops.FETCH else value


class _Pipeline:
    """One loop and its rings."""

    def __init__(
        self, loop: UOp, rings: Sequence[_Ring], first: int, lag: int, outside: Sequence[UOp] = ()
    ) -> None:
        self.loop, self.rings, self.next, self.outside = loop, rings, first, outside
        self.table = loop.table
        self.ahead = min(ring.buffers for ring in rings) - 1 - lag

    def effect(self, op: Ops, sources: Sequence[UOp], arg: int | None = None) -> UOp:
        return self.table.make(op, dtypes.void, tuple(sources), arg)

    def fill(self, ring: _Ring, step: UOp, after: Sequence[UOp]) -> UOp:
        """The copy for an iteration, to its buffer."""
        twins: dict[UOp, UOp] = {}
        for r in ring.loops:
            twins[r] = self.table.range(r.src[0], self.next)
            self.next += 1
        exchange = {self.loop: step, **twins}
        place, value = (
            substitute(source, exchange) for source in (ring.store.src[0], _plain(ring.store.src[1]))
        )
        beyond = simplify(step < self.loop.src[0])
        if beyond.op is not Ops.CONST or not beyond.arg:
            reads = {
                n: n.replace(src=(n.src[0], _where(beyond, n.src[1]), *n.src[2:]))
                for n in value.toposort()
                if n.op is Ops.INDEX and space_of(n) is AddrSpace.GLOBAL
            }
            value = substitute(value, reads)
        memory = ring.memory.after(*after) if after else ring.memory
        index = _shifted(place.src[1], ring.at(step))
        place = place.replace(src=(memory, simplify(index), *place.src[2:]))
        direct = value.op is Ops.INDEX and space_of(value) is AddrSpace.GLOBAL
        hints = AccessHints(asynchronous=direct, own=ring.own)
        store = ring.store.replace(src=(place, value, *ring.store.src[2:]), arg=hints if any(hints) else None)
        return store.end(*twins.values()) if twins else store

    def started(self) -> UOp:
        """The first iterations' copies: the last of their groups.

        In every iteration of the loops outside they are made anew, whether or not what is copied is another: the end of the loop has left zeros.
        Those have to be there first.
        """
        group: tuple[UOp, ...] = (self.effect(Ops.WAIT, self.outside, 0),) if self.outside else ()
        for step in range(self.ahead):
            fills = [self.fill(ring, self.table.const(step), group) for ring in self.rings]
            group = (self.effect(Ops.COMMIT, fills),)
        return group[0]

    def exchanged(self) -> dict[UOp, UOp]:
        """What the memory of each ring is, where it is read."""
        waited = self.effect(Ops.WAIT, (self.started(), self.loop), self.ahead - 1)
        is_own = all(ring.own for ring in self.rings)
        fence = waited if is_own else self.effect(Ops.BARRIER, (waited,))
        step = self.loop + self.ahead
        group = self.effect(Ops.COMMIT, [self.fill(ring, step, (fence,)) for ring in self.rings])
        return {ring.observed: ring.memory.after(group, *self.boxes(ring)) for ring in self.rings}

    def boxes(self, ring: _Ring) -> list[UOp]:
        """What a copy engine could have brought to a ring for an iteration."""
        value = ring.store.src[1]
        if value.op is not Ops.FETCH:
            return []
        sources = (ring.memory, simplify(ring.at(self.loop)), *value.src[1:])
        return [self.table.make(Ops.FETCHED, dtypes.void, sources, value.arg)]


def _loop_of(ring: _Ring) -> UOp | None:
    """The loop whose iterations a ring is filled for; None if it is filled once, or with what the iteration itself makes."""
    loops = sorted(loops_of(ring.observed.ranges), key=lambda r: r.order)
    made_inside = any(
        n.op is Ops.INDEX and space_of(n) is not AddrSpace.GLOBAL and loops and loops[-1] in n.ranges
        for source in (ring.store.src[0].src[1], ring.store.src[1])
        for n in source.toposort()
    )
    return loops[-1] if loops and not made_inside else None


def pipelined(sink: UOp) -> tuple[UOp, Mapping[UOp, UOp]]:
    """The kernel with its rings filled ahead; and for the memory of each, the loop whose iterations it is filled for."""
    nodes = sink.toposort()
    rings = [ring for ring in map(_ring, nodes) if ring is not None]
    # which of them was made first depends on the kernels before this one
    loops = {ring: _loop_of(ring) for ring in sorted(rings, key=lambda ring: ring.memory.order)}
    filled_ahead = {ring.store for ring, loop in loops.items() if loop is not None}
    exchange: dict[UOp, UOp] = {
        store: store.replace(src=(store.src[0], _plain(store.src[1]), *store.src[2:]), arg=None)
        for store in nodes
        if store.op is Ops.STORE and hints_of(store).buffers and store not in filled_ahead
    }
    first, closers = next_root(nodes), closers_of(nodes)
    filled: dict[UOp, tuple[UOp, UOp]] = {}
    lags: dict[UOp, int] = {}
    for loop in dict.fromkeys(each for each in loops.values() if each is not None):
        mine = [ring for ring, its in loops.items() if its is loop]
        lag = overlap.lag(nodes, {ring.observed for ring in mine}, min(ring.buffers for ring in mine))
        lags[loop] = lag
        outside = {s for closing in closers.get(loop, ()) for s in around(loop, closing)} - {loop}
        pipeline = _Pipeline(loop, mine, first, lag, sorted(outside, key=lambda s: s.order))
        exchange |= pipeline.exchanged()
        first = pipeline.next
        filled |= {ring.observed: (exchange[ring.observed], ring.at(loop)) for ring in mine}
    for node in nodes:
        if node.op is Ops.INDEX and node.src[0] in filled:
            memory, begin = filled[node.src[0]]
            exchange[node] = node.replace(src=(memory, simplify(_shifted(node.src[1], begin)), *node.src[2:]))
    exchange |= {n: n.src[0] for n in nodes if n.op is Ops.FETCH}
    kernel = substitute(sink, exchange) if exchange else sink
    for loop, lag in lags.items():
        kernel = overlap.begun(kernel, loop, lag) if lag else kernel
    return kernel, {ring.memory: loop for ring, loop in loops.items() if loop is not None}

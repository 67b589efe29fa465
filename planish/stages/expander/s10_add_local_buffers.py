"""Stage 10, add local buffers: a value that is kept for all values of some ranges gets LOCAL memory and a loop that fills it.

Why: a row that is needed three times, or a tile that every thread of a block reads, should be computed and read from far
memory once. LOCAL memory is a core's own scratch on a CPU, memory shared by a block on a GPU.

How: `BUFFERIZE(x, i…)` says that x is stored at the places i…, which are index expressions; the ranges in them close there,
and dim k has as many elements as i_k has values. It becomes a DEFINE_LOCAL, a STORE, an END and an AFTER, the only
ordering there is; a read of it becomes a read of the memory after that. Threads of a block that x depends on without
closing them each need an element of their own: they become dims of the buffer (lanes did so in stage 9). Dims are in
row-major order with those of threads behind the others and those of lanes last: neighbouring threads then lie next to each
other, and lanes are a vector. Where threads fill a buffer together (they close there), those that do not are rows of their own, and
come first; but not where each keeps what it reduced, which is read in another order.

Before → after::

    b = BUFFERIZE(x, r)              m = DEFINE_LOCAL; e = END(STORE(INDEX(m, r), x), r)
    INDEX(b, i)                      INDEX(AFTER(m, e), i)
    BUFFERIZE(x(t), r), t: LOCAL(4)  STORE(INDEX(m, r*4 + t), x)

Would break without it: stage 21 could not place a BUFFERIZE anywhere; without the dims of threads, threads would
overwrite each other.

What the blocks of a cluster keep, by their number in it, is in the LOCAL memory of each; who reads what another block has says which (`peer`).

Of what is kept in several buffers the memory is that many times as large, and the first is used; stage 12 makes a ring of them.

Holds afterwards: no BUFFERIZE is left; a range is closed in one context only (`loops.py`).
"""

from __future__ import annotations

from dataclasses import field
from typing import Final, cast

from planish import dtypes
from planish.dtypes import AddrSpace
from planish.errors import LoweringError
from planish.records import dataclass
from planish.stages.expander.loops import separate_contexts
from planish.uop.access_hints import AccessHints
from planish.uop.matcher import Matcher, rule
from planish.uop.nest import THREADS, closed_by
from planish.uop.node import UOp
from planish.uop.ops import CONSTANTS, AxisType, Bufferize, Ops
from planish.uop.pattern import node
from planish.uop.ranges import is_rank, kind_of
from planish.uop.rewrite import rewrite
from planish.uop.symbolic import simplify


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the elements of one buffer lie: memory as it is once it is filled, and where each index goes."""

    memory: UOp
    dims: tuple[tuple[UOp | int, int], ...]
    """Slowest first: a thread's range, or the number of a given index; and the size."""
    place: UOp | None = None
    """Where the fill stores."""
    rank: int | None = None
    """The number of the index that is that of a block in its cluster."""

    def flat(self, given: tuple[UOp, ...], lanes: int) -> UOp:
        """The place of an element as one index."""
        total: UOp | None = None
        for what, size in self.dims:
            index = spread(given[what] if isinstance(what, int) else what, lanes)
            total = index if total is None else total * total.const_like(size) + index
        table = self.memory.table
        return simplify(total) if total is not None else table.const(0, dtypes.index.vec(lanes))


@dataclass(slots=True)
class Locals:
    """The LOCAL buffers of a kernel so far."""

    count: int = 0
    layouts: dict[UOp, _Layout] = field(default_factory=dict)


def spread(value: UOp, lanes: int) -> UOp:
    """A scalar in every lane; what has lanes already stays."""
    if value.dtype.lanes == lanes:
        return value
    if value.op is Ops.CONST:
        return value.replace(dtype=value.dtype.vec(lanes))
    return value.table.make(Ops.VECTORIZE, value.dtype.vec(lanes), (value,) * lanes)


def _is_shared_sum(place: UOp) -> bool:
    """Whether a place is the number of a thread among those that share a reduction: each has kept what it reduced."""
    if place.op is Ops.VECTORIZE and len(set(place.src)) == 1:
        (place, *_) = place.src
    return place.op is Ops.RANGE and kind_of(place) is AxisType.GROUP_REDUCE


def _layout(buffer: UOp, ctx: Locals) -> _Layout:
    layout = ctx.layouts.get(buffer)
    if layout is not None:
        return layout
    kept = cast("Bufferize", buffer.arg)
    if kept.space != "local":
        raise LoweringError(f"BUFFERIZE in {kept.space} memory inside of a kernel", op="BUFFERIZE")
    x, *places = buffer.src
    rank = next((k for k, place in enumerate(places) if is_rank(place)), None)
    closed = closed_by(buffer)
    threads = [r for r in x.ranges - closed if kind_of(r) in THREADS]
    lanes_only = [k for k, place in enumerate(places) if place.op in CONSTANTS and place.dtype.lanes > 1]
    rows = [k for k in range(len(places)) if k not in lanes_only and not is_rank(places[k])]
    # the threads of a warp are neighbours
    own = sorted(threads, key=lambda r: (kept.own and kind_of(r) is AxisType.WARP, r.order))
    sums = bool(rows) and all(_is_shared_sum(places[k]) for k in rows)
    together = any(kind_of(r) in THREADS for r in closed) and not sums
    order: list[UOp | int] = [*own, *rows, *lanes_only] if together else [*rows, *own, *lanes_only]
    dims = tuple((k, (places[k] if isinstance(k, int) else k).vmax + 1) for k in order)
    table, size = buffer.table, 1
    for _, each in dims:
        size *= each
    if x.dtype.is_index:  # memory has no such elements
        x = x.cast(dtypes.int64)
    memory = table.make(
        Ops.DEFINE_LOCAL, x.dtype.scalar.ptr(size * kept.buffers, AddrSpace.LOCAL), (), ctx.count
    )
    ctx.count += 1
    place = _Layout(memory, dims).flat(tuple(places), x.dtype.lanes)
    filled = table.make(Ops.INDEX, x.dtype, (memory, place)).store(x)
    if kept.buffers > 1:
        filled = filled.replace(arg=AccessHints(buffers=kept.buffers, own=kept.own))
    if closed:
        filled = filled.end(*sorted(closed, key=lambda r: r.order))
    result = ctx.layouts[buffer] = _Layout(memory.after(filled), dims, place, rank)
    return result


def _read(root: UOp, buffer: UOp, ctx: Locals) -> UOp:
    indices = root.src[1:]
    gate = indices[-1:] if indices and indices[-1].dtype.is_bool else ()
    layout = _layout(buffer, ctx)
    flat = layout.flat(indices[: len(indices) - len(gate)], root.dtype.lanes)
    ahead = cast("Bufferize", buffer.arg).own
    if not gate and not closed_by(buffer) and flat is layout.place and not ahead and layout.rank is None:
        return buffer.src[0]  # nothing but lanes: what was just stored is still at hand
    dtype = dtypes.int64.vec(root.dtype.lanes) if root.dtype.is_index else root.dtype
    peer = None if layout.rank is None else _number(indices[layout.rank])
    return root.replace(dtype=dtype, src=(layout.memory, flat, *gate), arg=peer).cast(root.dtype)


def _number(rank: UOp) -> int:
    if rank.op is Ops.VECTORIZE and len(set(rank.src)) == 1:
        (rank, *_) = rank.src
    if rank.op is not Ops.CONST:
        raise LoweringError("a block of a cluster is read that is not known by its number", op="INDEX")
    return cast("int", rank.arg)


pm_add_buffers_local: Final = Matcher(
    "pm_add_buffers_local",
    [
        rule(
            node(Ops.INDEX, node(Ops.BUFFERIZE, name="buffer"), rest=True),
            _read,
            says="INDEX(BUFFERIZE(x, r), i) -> INDEX(AFTER(m, END(STORE(INDEX(m, r), x), r)), i)",
        )
    ],
)


def add_local_buffers(sink: UOp) -> UOp:
    """Give memory to what is kept (sink first: a read is looked at before the buffer it reads)."""
    nodes = sink.toposort()
    if not any(n.op is Ops.BUFFERIZE for n in nodes):
        return sink
    first = max((cast("int", n.arg) + 1 for n in nodes if n.op is Ops.DEFINE_LOCAL), default=0)
    return rewrite(separate_contexts(sink), pm_add_buffers_local, Locals(first), order="sink_first")

"""Stage 9, expander: UPCAST and UNROLL ranges become lanes; every op over them becomes one vector op.

Why: UPCAST and UNROLL only mark what shall run side by side. Here that becomes vectors, which hardware has.

How. A range of n becomes `UNROLL` of the constants 0…n-1: a scalar that stands for n positions. An op with UNROLL sources
becomes one op on vectors, under one UNROLL over all axes of its sources; a source that lacks an axis is widened by
selecting its lanes repeatedly. Of P positions, lane l·P + p of the vector under an UNROLL is lane l at position p; positions
are counted with the last axis fastest, reduce axes slowest, so that lanes of a reduction are whole vectors. Nothing is duplicated: a 4 × 8 tile of sums is one ADD of 32 lanes until stage 14 cuts it.
`CONTRACT` gathers axes into lanes where a reduction closes them; END drops them. What is kept (BUFFERIZE) is kept for every
lane: axes that it does not close become dims of the buffer, and its readers read at their own lane.

`pm_group_for_reduce` finishes a reduction that the threads of a block share: each thread reduces its part and keeps the
result for its number, then all are combined by a loop over these numbers. (Stage 10 adds the other threads of the block to
the buffer: they have results of their own.)

Before → after::

    u = RANGE(4, UPCAST)             UNROLL(VCONST 0 1 2 3, u)
    ADD(INDEX(a, i*4 + u), x)        UNROLL(ADD(INDEX(a, ⟨i*4 … i*4+3⟩), ⟨x x x x⟩), u)
    REDUCE(v, r: UNROLL)             REDUCE(CONTRACT(v, r))         lanes are combined first
    END(UNROLL(STORE …), i, u)       END(STORE …, i)
    BUFFERIZE(UNROLL(x, u), r)       BUFFERIZE(x, ⟨r r r r⟩, ⟨0 1 2 3⟩)
    REDUCE(x, r, g: GROUP_REDUCE)    REDUCE(INDEX(BUFFERIZE(REDUCE(x, r), g), h), h)
    g: GROUP_REDUCE(256)             g: GROUP_REDUCE(8) * 32 + w: WARP(32)         where threads run in warps
    REDUCE(x, r, w: WARP)            COMBINE(REDUCE(x, r), w)
    SCAN(x, r, w: WARP)              what came before along r, op COMBINE of the threads before, op x

Precedence (data: `EXPANDER_ORDER`): the algebra first, so that what does not depend on a range is seen not to; ranges
before the ops over them.

Would break without it: an UPCAST range would be a loop that nobody opens.

Holds afterwards: no UPCAST or UNROLL range, no UNROLL and no CONTRACT is left; a vector dtype says how many lanes a node has.
No REDUCE closes a GROUP_REDUCE range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache
from math import prod
from typing import Final, cast

from planish import dtypes
from planish.dtypes import AddrSpace, PtrDType
from planish.errors import LoweringError
from planish.records import dataclass
from planish.uop.kernel_algebra import pm_flatten_range
from planish.uop.matcher import Matcher, rule
from planish.uop.nest import THREADS
from planish.uop.nest.grid import fastest_thread
from planish.uop.node import Number, UOp
from planish.uop.ops import ALU, Axis, AxisType, Bufferize, Combine, Ops, UnrolledLanes
from planish.uop.pattern import anything, node
from planish.uop.ranges import kind_of
from planish.uop.rewrite import rewrite, substitute
from planish.uop.strides import stride
from planish.uop.symbolic import sym
from planish.uop.symbolic.reduce import identity

LaneAxes = tuple[tuple[tuple[int, ...], int], ...]
Paths = frozenset[tuple[int, ...]]
_EXPANDED: Final = ALU | {
    Ops.RARE,
    Ops.CAST,
    Ops.BITCAST,
    Ops.INDEX,
    Ops.LOAD,
    Ops.STORE,
    Ops.REDUCE,
    Ops.SCAN,
    Ops.GEP,
    Ops.NOOP,
    Ops.WMMA,
    Ops.COMBINE,
    Ops.EXCHANGE,
    Ops.FETCH,
}
_COMPUTED_WITH: Final = {Ops.REDUCE: 1, Ops.SCAN: 1, Ops.WMMA: 3, Ops.FETCH: 1}
"""How many sources are values; ranges follow."""
_TWIN: Final = 100
"""How far the axis of the loop that finishes a GROUP_REDUCE is from it: free, and in the order of these. Nobody reads it back."""


@dataclass(slots=True)
class Expansion:
    """One kernel: the unrolled axes of reductions, and all axes there are."""

    reduced: Paths = frozenset()
    axes: set[tuple[int, ...]] = field(default_factory=set)


def _axes(value: UOp) -> LaneAxes:
    return cast("UnrolledLanes", value.arg).axes if value.op is Ops.UNROLL else ()


def _union(*axes: LaneAxes, reduced: Paths) -> LaneAxes:
    """All axes, those of reductions first (slowest)."""
    every = {axis for several in axes for axis in several}
    return tuple(sorted(every, key=lambda axis: (axis[0] not in reduced, axis[0])))


def _count(axes: LaneAxes) -> int:
    return prod(size for _, size in axes)


@lru_cache(maxsize=512)
def _positions(wanted: LaneAxes, have: LaneAxes, lanes: int) -> tuple[int, ...]:
    """The lanes, of a vector of so many at every position over the axes a value has, for every position over the wanted axes.

    Axes that it does not have do not matter. Most ops of a kernel ask for the same.
    """
    strides, stride = {}, 1
    for path, size in reversed(have):
        strides[path] = stride
        stride *= size
    places = [0]
    for path, size in wanted:
        step = strides.get(path, 0)
        places = [flat + position * step for flat in places for position in range(size)]
    count = _count(have)
    return tuple([lane * count + place for lane in range(lanes) for place in places])


def _select(value: UOp, lanes: tuple[int, ...]) -> UOp:
    """Lanes of a value; a constant has the same in each."""
    count = len(lanes)
    dtype = value.dtype.scalar.vec(count)
    if value.op is Ops.CONST:
        return value.replace(dtype=dtype)
    if value.dtype.lanes == count and lanes == tuple(range(count)):
        return value
    if value.dtype.lanes == 1:
        return value.table.make(Ops.VECTORIZE, dtype, (value,) * count)
    return value.table.make(Ops.GEP, dtype, (value,), lanes)


def widen(value: UOp, axes: LaneAxes) -> UOp:
    """The vector that holds a value at every position over the axes."""
    inner = value.src[0] if value.op is Ops.UNROLL else value
    return _select(inner, _positions(axes, _axes(value), value.dtype.lanes))


def _range_to_lanes(root: UOp) -> UOp | None:
    axis = cast("Axis", root.arg)
    if axis.kind not in {AxisType.UPCAST, AxisType.UNROLL} or root.src[0].op is not Ops.CONST:
        return None
    size = cast("int", root.src[0].arg)
    if size == 1:
        return root.const_like(0)
    return _lanes_of(root, axis.path, size)


def _lanes_of(like: UOp, path: tuple[int, ...], size: int) -> UOp:
    """The positions on an axis, one per lane."""
    table = like.table
    return table.make(Ops.UNROLL, dtypes.index, (table.vconst(range(size)),), UnrolledLanes(((path, size),)))


def _expand(root: UOp, ctx: Expansion) -> UOp | None:
    axes = _union(*map(_axes, root.src), reduced=ctx.reduced)
    if not axes:
        return None
    count = _count(axes)
    # memory is one, whatever the lanes; ranges of a reduction are closed, not computed with
    whole = 1 if root.op in {Ops.INDEX} else 0
    last = _COMPUTED_WITH.get(root.op, len(root.src))
    if any(_axes(source) for source in root.src[last:]):
        if root.op is Ops.SCAN:
            raise LoweringError("a SCAN runs in order: its range cannot be in lanes", op="SCAN")
        return None
    src = (
        *root.src[:whole],
        *(source if source.dtype.is_pointer else widen(source, axes) for source in root.src[whole:last]),
        *root.src[last:],
    )
    dtype, arg = root.dtype, root.arg
    if dtype is not dtypes.void:
        dtype = dtype.scalar.vec(dtype.lanes * count)
    if root.op is Ops.GEP:
        chosen = cast("tuple[int, ...]", arg)
        arg = tuple(lane * count + position for lane in chosen for position in range(count))
    wide = root.table.make(root.op, dtype, src, arg)
    return root.table.make(Ops.UNROLL, root.dtype, (wide,), UnrolledLanes(axes))


def _contract(root: UOp, x: UOp) -> UOp:
    """The axes as lanes; what else the value is spread over stays outside."""
    axes, have = cast("UnrolledLanes", root.arg).axes, _axes(x)
    outside = tuple(axis for axis in have if axis not in axes)
    inner = x.src[0] if x.op is Ops.UNROLL else x
    gathered = _select(inner, _positions((*axes, *outside), have, x.dtype.lanes))
    return (
        gathered
        if not outside
        else root.table.make(Ops.UNROLL, root.dtype, (gathered,), UnrolledLanes(outside))
    )


def _scan_lanes(root: UOp) -> UOp | None:
    """A SCAN along lanes: they come first, those of one position next to each other. Along a warp's threads: what each has, handed on."""
    x, r, *along = root.src
    own = tuple(axis for each in along for axis in _axes(each))
    warp = [each for each in along if each.op is Ops.RANGE and kind_of(each) is AxisType.WARP]
    if not own and not warp:
        return None
    if x.dtype.lanes > 1:
        raise LoweringError("a SCAN along lanes of what is a vector already", op="SCAN")
    axes = (*own, *(axis for axis in _axes(x) if axis not in own))
    wide = widen(x, axes)
    scan = (
        _scan_warp(root, wide, r, warp[0], _count(own))
        if warp
        else root.table.make(Ops.SCAN, wide.dtype, (wide, r, root.table.const(_count(own))), root.arg)
    )
    return root.table.make(Ops.UNROLL, root.dtype, (scan,), UnrolledLanes(axes)) if axes else scan


def _scan_warp(root: UOp, wide: UOp, r: UOp, warp: UOp, positions: int) -> UOp:
    """Running values of the lanes of each thread; before them those of the threads before, and all of what came before in the loop.

    What came before is the first of two positions of a SCAN along the loop, of nothing and of what the warp has together.
    """
    table, op, zero = root.table, cast("Ops", root.arg), r.const_like(0)
    running = (
        table.make(Ops.SCAN, wide.dtype, (wide, zero, table.const(positions)), op) if positions > 1 else wide
    )
    width = wide.dtype.lanes // positions
    own = _select(running, tuple(range(wide.dtype.lanes - width, wide.dtype.lanes)))
    before = table.make(Ops.COMBINE, own.dtype, (own,), Combine(op, warp.vmax + 1, before=True))
    if r.op is not Ops.CONST:
        together = table.make(Ops.COMBINE, own.dtype, (own, warp), Combine(op, warp.vmax + 1))
        nothing = table.const(cast("Number", identity(op, own)), own.dtype)
        pair = table.make(Ops.CAT, own.dtype.scalar.vec(2 * width), (nothing, together))
        passed = table.make(Ops.SCAN, pair.dtype, (pair, r, table.const(2)), op)
        before = _select(passed, tuple(range(width))).alu(op, before)
    return _select(before, tuple(range(width)) * positions).alu(op, running)


def _reduce_lanes(root: UOp, ctx: Expansion) -> UOp | None:
    value, *ranges = root.src
    axes = _union(*map(_axes, ranges), reduced=ctx.reduced)
    if not axes:
        return None
    wide = value.dtype.scalar.vec(value.dtype.lanes * _count(axes))
    gathered = root.table.make(Ops.CONTRACT, wide, (value,), UnrolledLanes(axes))
    return root.replace(src=(gathered, *(r for r in ranges if not _axes(r))))


def _end_lanes(root: UOp) -> UOp | None:
    body, *ranges = root.src
    kept = tuple(r for r in ranges if r.op is not Ops.UNROLL)
    inner = body.src[0] if body.op is Ops.UNROLL else body
    if inner is body and len(kept) == len(ranges):
        return None
    return inner.end(*kept) if kept else inner


def _bufferize_lanes(root: UOp, ctx: Expansion) -> UOp | None:
    """What is kept, kept in every lane. Axes that are not closed here become dims; an UNROLL tells the readers which."""
    axes = _union(*map(_axes, root.src), reduced=ctx.reduced)
    if not axes:
        return None
    x, *places = root.src
    closed = {axis for place in places for axis in _axes(place)}
    still_open = tuple(axis for axis in axes if axis not in closed)
    lanes = (_lanes_of(root, *axis) for axis in still_open)
    src = tuple(widen(source, axes) for source in (x, *places, *lanes))
    dtype = root.dtype.scalar.vec(_count(still_open))
    kept = root.replace(dtype=dtype, src=src)
    return root.table.make(Ops.UNROLL, root.dtype, (kept,), UnrolledLanes(still_open)) if still_open else kept


def _read_lanes(root: UOp, x: UOp) -> UOp:
    """A read of what is kept for several lanes: at one's own."""
    indices = root.src[1:]
    gate = indices[-1:] if indices and indices[-1].dtype.is_bool else ()
    lanes = (_lanes_of(root, *axis) for axis in _axes(x))
    return root.replace(src=(x.src[0], *indices[: len(indices) - len(gate)], *lanes, *gate))


def _effects_of_lanes(root: UOp) -> UOp | None:
    """An effect on vectors is one effect."""
    if not any(_axes(source) for source in root.src):
        return None
    value = root.src[0]
    if value.dtype is not dtypes.void and _axes(value):  # AFTER of a vector
        src = (value.src[0], *(s.src[0] if _axes(s) else s for s in root.src[1:]))
        return value.replace(src=(root.replace(dtype=src[0].dtype, src=src),))
    return root.replace(src=tuple(s.src[0] if _axes(s) else s for s in root.src))


def _finish_group(root: UOp, ctx: Expansion) -> UOp | None:
    x, *ranges = root.src
    group = [r for r in ranges if isinstance(r.arg, Axis) and r.arg.kind is AxisType.GROUP_REDUCE]
    warp = [r for r in ranges if isinstance(r.arg, Axis) and r.arg.kind is AxisType.WARP]
    if not group and not warp:
        return None
    others = tuple(r for r in ranges if r not in group and r not in warp)
    partial = root.replace(src=(x, *others)) if others or x.dtype is not root.dtype else x
    for r in warp:
        how = Combine(cast("Ops", root.arg), r.vmax + 1)
        partial = root.table.make(Ops.COMBINE, root.dtype, (partial, r), how)
    if not group:
        return partial
    kept = root.table.make(Ops.BUFFERIZE, root.dtype, (partial, *group), Bufferize("local"))
    twins = tuple(_twin(r, ctx) for r in group)
    read = root.table.make(Ops.INDEX, root.dtype, (kept, *twins))
    return root.replace(src=(read, *twins))


def _twin(r: UOp, ctx: Expansion) -> UOp:
    """The loop over what the threads of a group have kept."""
    first, *rest = cast("Axis", r.arg).path
    step = _TWIN * (1 + max(path[0] for path in ctx.axes) // _TWIN)
    return r.replace(arg=Axis((first + step, *rest), AxisType.REDUCE))


def _merge(root: UOp, x: UOp) -> UOp:
    outer, inner = cast("UnrolledLanes", root.arg).axes, _axes(x)
    return root.table.make(Ops.UNROLL, root.dtype, x.src, UnrolledLanes(outer + inner))


pm_pre_expander = Matcher(
    "pm_pre_expander",
    [rule(node(Ops.RANGE), _range_to_lanes, says="RANGE(n, UPCAST or UNROLL) -> UNROLL(VCONST 0…n-1)")],
)

pm_group_for_reduce = Matcher(
    "pm_group_for_reduce",
    [
        rule(
            node(Ops.REDUCE),
            _finish_group,
            says="REDUCE(x, r, g) -> REDUCE(INDEX(BUFFERIZE(REDUCE(x, r), g), h), h), g: GROUP_REDUCE",
        )
    ],
)

expander = Matcher(
    "expander",
    [
        rule(node(Ops.REDUCE), _reduce_lanes, says="REDUCE(x, UNROLL…) -> REDUCE(CONTRACT(x))"),
        rule(
            node(Ops.SCAN),
            _scan_lanes,
            says="SCAN(x, r, UNROLL(u)) -> UNROLL(SCAN(CONTRACT(x), r, number of u), u); w: WARP by COMBINE",
        ),
        rule(node(Ops.END), _end_lanes, says="END(UNROLL(x), UNROLL…) -> END(x)"),
        rule(
            node({Ops.AFTER, Ops.GROUP, Ops.BARRIER, Ops.SINK}),
            _effects_of_lanes,
            says="GROUP(UNROLL(e)) -> GROUP(e)",
        ),
        rule(
            node(Ops.BUFFERIZE),
            _bufferize_lanes,
            says="BUFFERIZE(UNROLL(x), r) -> BUFFERIZE(x, widened r, lanes)",
        ),
        rule(
            node(Ops.INDEX, node(Ops.UNROLL, node(Ops.BUFFERIZE), name="x"), rest=True),
            _read_lanes,
            says="INDEX(UNROLL(BUFFERIZE(x, r, lanes)), i) -> INDEX(BUFFERIZE(x, r, lanes), i, lanes)",
        ),
        rule(node(Ops.CONTRACT, anything("x")), _contract, says="CONTRACT(UNROLL(x)) -> lanes of x"),
        rule(
            node(Ops.UNROLL, node(Ops.UNROLL, name="x")),
            _merge,
            says="UNROLL(UNROLL(x, b), a) -> UNROLL(x, a and b)",
        ),
        rule(node(_EXPANDED), _expand, says="op(UNROLL(x), y) -> UNROLL(op(x, widened y))"),
    ],
)

EXPANDER_ORDER: Final = (sym, pm_pre_expander, pm_group_for_reduce, expander)
"""Which matcher is tried first where several fit."""
_MARKED: Final = frozenset({AxisType.UPCAST, AxisType.UNROLL, AxisType.GROUP_REDUCE, AxisType.WARP})


def in_warps(sink: UOp, warp: int) -> UOp:
    """The kernel whose shared reductions are first finished by the threads of a warp, which need no memory for it.

    Neighbouring threads have to be those that share the reduction: the axis must be the fastest of the block. That is the one along
    which most accesses to parameters find neighbours, so that a warp reads and writes together.
    """
    nodes = sink.toposort()
    threads = sorted((n for n in nodes if n.op is Ops.RANGE and kind_of(n) in THREADS), key=lambda r: r.order)
    if warp == 1 or not threads or any(kind_of(r) is AxisType.WARP for r in threads):
        return sink
    fastest = _fastest(nodes, threads)
    if fastest is not threads[-1]:
        last = threads[-1]
        places = cast("Axis", fastest.arg), cast("Axis", last.arg)
        exchange = {
            fastest: fastest.replace(arg=places[0].moved(places[1].path)),
            last: last.replace(arg=places[1].moved(places[0].path)),
        }
        return in_warps(rewrite(substitute(sink, exchange), pm_flatten_range), warp)
    r = threads[-1]
    size = r.vmax + 1
    if kind_of(r) is not AxisType.GROUP_REDUCE or r.src[0].op is not Ops.CONST:
        return sink
    axis = cast("Axis", r.arg)
    if size <= warp and size & size - 1 == 0:
        return substitute(sink, {r: r.replace(arg=axis.part(1, AxisType.WARP))})
    if size % warp:
        return sink
    inner = r.table.make(Ops.RANGE, r.dtype, (r.table.const(warp, r.dtype),), axis.part(1, AxisType.WARP))
    outer = r.table.make(Ops.RANGE, r.dtype, (r.table.const(size // warp, r.dtype),), axis.part(0))
    return rewrite(substitute(sink, {r: outer * warp + inner}), pm_flatten_range)


def _fastest(nodes: Sequence[UOp], threads: Sequence[UOp]) -> UOp:
    indices = [i for n in nodes if is_global(n) for i in n.src[1:2]]
    return fastest_thread(threads, lambda r: (stride(i, r) for i in indices if r in i.ranges))


def is_global(place: UOp) -> bool:
    """Whether it is a place in a parameter."""
    if place.op is not Ops.INDEX or len(place.src) < 2:
        return False
    dtype = place.src[0].dtype
    return isinstance(dtype, PtrDType) and dtype.space is AddrSpace.GLOBAL


def expand(sink: UOp, order: Sequence[Matcher] = EXPANDER_ORDER, warp: int = 1) -> UOp:
    """Turn marked ranges into lanes; `warp`: how many threads run in step."""
    sink = in_warps(sink, warp)
    nodes = sink.toposort()
    axes = [cast("Axis", n.arg) for n in nodes if n.op is Ops.RANGE]
    if not any(axis.kind in _MARKED for axis in axes) and not any(n.op is Ops.UNROLL for n in nodes):
        return sink
    reduced = frozenset(axis.path for axis in axes if axis.kind is AxisType.UNROLL)
    matcher = _EXPANSION if tuple(order) == EXPANDER_ORDER else sum(order[1:], order[0])
    return rewrite(sink, matcher, Expansion(reduced, axes={axis.path for axis in axes}))


_EXPANSION: Final = sum(EXPANDER_ORDER[1:], EXPANDER_ORDER[0])

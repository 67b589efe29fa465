"""Stage 9, expander: UPCAST and UNROLL ranges become lanes; every op over them becomes one vector op.

Why: UPCAST and UNROLL only mark what shall run side by side. Here that becomes vectors, which hardware has.

How. A range of n becomes `UNROLL` of the constants 0…n-1: a scalar that stands for n positions. An op with UNROLL sources
becomes one op on vectors, under one UNROLL over all axes of its sources; a source that lacks an axis is widened by
selecting its lanes repeatedly. Of P positions, lane l·P + p of the vector under an UNROLL is lane l at position p; positions
are counted with the last axis fastest, reduce axes slowest, so that lanes of a reduction are whole vectors. Nothing is duplicated: a 4 × 8 tile of sums is one ADD of 32 lanes until stage 14 cuts it.
`CONTRACT` gathers axes into lanes where a reduction closes them; END drops them.

Before → after::

    u = RANGE(4, UPCAST)             UNROLL(VCONST 0 1 2 3, u)
    ADD(INDEX(a, i*4 + u), x)        UNROLL(ADD(INDEX(a, ⟨i*4 … i*4+3⟩), ⟨x x x x⟩), u)
    REDUCE(v, r: UNROLL)             REDUCE(CONTRACT(v, r))         lanes are combined first
    END(UNROLL(STORE …), i, u)       END(STORE …, i)

Precedence (data: `EXPANDER_ORDER`): the algebra first, so that what does not depend on a range is seen not to; ranges
before the ops over them.

Would break without it: an UPCAST range would be a loop that nobody opens.

Holds afterwards: no UPCAST or UNROLL range, no UNROLL and no CONTRACT is left; a vector dtype says how many lanes a node has.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Final, cast

from planish import dtypes
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import ALU, Axis, AxisType, Lanes, Ops
from planish.uop.pattern import anything, node
from planish.uop.rewrite import rewrite
from planish.uop.symbolic import sym

LaneAxes = tuple[tuple[tuple[int, ...], int], ...]
Paths = frozenset[tuple[int, ...]]
_EXPANDED: Final = ALU | {
    Ops.CAST,
    Ops.BITCAST,
    Ops.INDEX,
    Ops.LOAD,
    Ops.STORE,
    Ops.REDUCE,
    Ops.GEP,
    Ops.NOOP,
}


def _axes(value: UOp) -> LaneAxes:
    return cast("Lanes", value.arg).axes if value.op is Ops.UNROLL else ()


def _union(*axes: LaneAxes, reduced: Paths) -> LaneAxes:
    """All axes, those of reductions first (slowest)."""
    every = {axis for several in axes for axis in several}
    return tuple(sorted(every, key=lambda axis: (axis[0] not in reduced, axis[0])))


def _count(axes: LaneAxes) -> int:
    return prod(size for _, size in axes)


def _positions(wanted: LaneAxes, have: LaneAxes) -> list[int]:
    """For each position over the wanted axes, the position over those a value has (missing ones do not matter)."""
    names = [path for path, _ in wanted]
    found = []
    for position in product(*(range(size) for _, size in wanted)):
        at = dict(zip(names, position, strict=True))
        flat = 0
        for path, size in have:
            flat = flat * size + at.get(path, 0)
        found.append(flat)
    return found


def _select(value: UOp, lanes: list[int]) -> UOp:
    """Lanes of a value; a constant has the same in each."""
    dtype = value.dtype.scalar.vec(len(lanes))
    if value.op is Ops.CONST:
        return value.replace(dtype=dtype)
    if lanes == list(range(value.dtype.lanes)):
        return value
    if value.dtype.lanes == 1:
        return value.table.make(Ops.VECTORIZE, dtype, (value,) * len(lanes))
    return value.table.make(Ops.GEP, dtype, (value,), tuple(lanes))


def widen(value: UOp, axes: LaneAxes) -> UOp:
    """The vector that holds a value at every position over the axes."""
    inner = value.src[0] if value.op is Ops.UNROLL else value
    have = _axes(value)
    places, count = _positions(axes, have), _count(have)
    return _select(inner, [lane * count + place for lane in range(value.dtype.lanes) for place in places])


def _range_to_lanes(root: UOp) -> UOp | None:
    axis = cast("Axis", root.arg)
    if axis.kind not in {AxisType.UPCAST, AxisType.UNROLL} or root.src[0].op is not Ops.CONST:
        return None
    size = cast("int", root.src[0].arg)
    if size == 1:
        return root.const_like(0)
    table = root.table
    return table.make(
        Ops.UNROLL, root.dtype, (table.vconst(range(size), root.dtype),), Lanes(((axis.path, size),))
    )


def _expand(root: UOp, ctx: Paths) -> UOp | None:
    axes = _union(*map(_axes, root.src), reduced=ctx)
    if not axes:
        return None
    count = _count(axes)
    # memory is one, whatever the lanes; ranges of a reduction are closed, not computed with
    whole = 1 if root.op in {Ops.INDEX} else 0
    last = 1 if root.op is Ops.REDUCE else len(root.src)
    if any(_axes(source) for source in root.src[last:]):
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
    return root.table.make(Ops.UNROLL, root.dtype, (wide,), Lanes(axes))


def _contract(root: UOp, x: UOp) -> UOp:
    """The axes as lanes; what else the value is spread over stays outside."""
    axes, have = cast("Lanes", root.arg).axes, _axes(x)
    outside = tuple(axis for axis in have if axis not in axes)
    inner = x.src[0] if x.op is Ops.UNROLL else x
    places, count = _positions((*axes, *outside), have), _count(have)
    gathered = _select(inner, [lane * count + place for lane in range(x.dtype.lanes) for place in places])
    return gathered if not outside else root.table.make(Ops.UNROLL, root.dtype, (gathered,), Lanes(outside))


def _reduce_lanes(root: UOp, ctx: Paths) -> UOp | None:
    value, *ranges = root.src
    axes = _union(*map(_axes, ranges), reduced=ctx)
    if not axes:
        return None
    wide = value.dtype.scalar.vec(value.dtype.lanes * _count(axes))
    gathered = root.table.make(Ops.CONTRACT, wide, (value,), Lanes(axes))
    return root.replace(src=(gathered, *(r for r in ranges if not _axes(r))))


def _end_lanes(root: UOp) -> UOp | None:
    body, *ranges = root.src
    kept = tuple(r for r in ranges if r.op is not Ops.UNROLL)
    inner = body.src[0] if body.op is Ops.UNROLL else body
    if inner is body and len(kept) == len(ranges):
        return None
    return inner.end(*kept) if kept else inner


def _merge(root: UOp, x: UOp) -> UOp:
    outer, inner = cast("Lanes", root.arg).axes, _axes(x)
    return root.table.make(Ops.UNROLL, root.dtype, x.src, Lanes(outer + inner))


pm_pre_expander = Matcher(
    "pm_pre_expander",
    [rule(node(Ops.RANGE), _range_to_lanes, says="RANGE(n, UPCAST or UNROLL) -> UNROLL(VCONST 0…n-1)")],
)

expander = Matcher(
    "expander",
    [
        rule(node(Ops.REDUCE), _reduce_lanes, says="REDUCE(x, UNROLL…) -> REDUCE(CONTRACT(x))"),
        rule(node(Ops.END), _end_lanes, says="END(UNROLL(x), UNROLL…) -> END(x)"),
        rule(node(Ops.CONTRACT, anything("x")), _contract, says="CONTRACT(UNROLL(x)) -> lanes of x"),
        rule(
            node(Ops.UNROLL, node(Ops.UNROLL, name="x")),
            _merge,
            says="UNROLL(UNROLL(x, b), a) -> UNROLL(x, a and b)",
        ),
        rule(node(_EXPANDED), _expand, says="op(UNROLL(x), y) -> UNROLL(op(x, widened y))"),
    ],
)

EXPANDER_ORDER: Final = (sym, pm_pre_expander, expander)
"""Which matcher is tried first where several fit."""
_EXPANSION: Final = sum(EXPANDER_ORDER[1:], EXPANDER_ORDER[0])


def expand(sink: UOp) -> UOp:
    """Turn marked ranges into lanes."""
    axes = [cast("Axis", n.arg) for n in sink.toposort() if n.op is Ops.RANGE]
    if not any(axis.kind in {AxisType.UPCAST, AxisType.UNROLL} for axis in axes):
        return sink
    reduced = frozenset(axis.path for axis in axes if axis.kind is AxisType.UNROLL)
    return rewrite(sink, _EXPANSION, reduced)

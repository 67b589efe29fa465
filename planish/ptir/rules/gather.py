"""Gathers: slices where the indices are a pattern, and moves of the indices or the source carried to the result."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from planish.dtypes import value_preserving
from planish.ptir import ops
from planish.ptir.dims import DimLike, bounds
from planish.ptir.function import Inst
from planish.ptir.ops import numerics
from planish.ptir.ops.checking import at_most
from planish.ptir.ops.definition import OpDef, OpKey
from planish.ptir.ops.literal import Literal
from planish.ptir.rewrite import views as v
from planish.ptir.rules import draft as d
from planish.ptir.rules.cast import counts_exactly
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.rules.shapes import moved_alike, others, ranks

# Constants beyond this are data, not a pattern somebody wrote.
_INDEX_LIMIT: Final = 1 << 16


def rest_axes(op: v.GatherView) -> list[int]:
    """The axes of the source that no index addresses."""
    return others(op.source.type.dims, op.attrs.axes)


def clamped(index: int, size: DimLike) -> int | None:
    """The position a constant index reads (semantics 8.3); None if that depends on a dynamic size."""
    low, high = bounds(size)
    if index <= 0:
        return 0
    if index < low:
        return index
    return low - 1 if low == high else None


def _line(x: d.Term, axis: int, start: DimLike, limit: DimLike, stride: int = 1) -> d.Term | None:
    """A slice of one axis."""
    cut = d.Cut(x)
    cut[axis] = start, limit, stride
    return cut.term()


def _to_front(x: d.Term | None, axis: int) -> d.Term | None:
    if x is None:
        return None
    return d.transposed(x, [axis, *[other for other in range(x.type.rank) if other != axis]])


@rule(benefit=2, operands=(None, ops.constant))
def ReplaceUniformGatherBySlice(op: v.GatherView) -> Answer:
    """gather(x, constant i; a) -> broadcast_to(x[i] along a), where every index of an axis is the same."""
    x: d.Term | None = op.source
    for value, axis in zip(op.operands[1:], op.attrs.axes, strict=True):
        literal = value.literal
        index = literal.item if literal is not None else None
        position = clamped(index, op.source.type.dims[axis]) if isinstance(index, int) else None
        if position is None or x is None:
            return f"which element of axis {axis} is read is not known"
        x = _line(x, axis, position, position + 1)
    rest = [op.source.type.dims[axis] for axis in rest_axes(op)]
    return d.broadcasted(d.reshaped(x, rest), op.dims)


@rule(operands=(None, ops.constant))
def ReplaceRegularGatherBySlice(op: v.GatherView) -> Answer:
    """gather(x, constant [i, i + s, …]; a) -> x[i::s] along a, in front; reversed if s < 0."""
    literal = op.operands[1].literal
    if literal is None or len(op.operands) != 2 or len(literal.shape) != 1:
        return "not one line of constant indices"
    if literal.size < 2 or literal.size > _INDEX_LIMIT:
        return "no pattern in that many indices"
    axis = op.attrs.axes[0]
    size = op.source.type.dims[axis]
    positions = [clamped(int(index), size) for index in literal.array()]
    known = [position for position in positions if position is not None]
    step = known[1] - known[0] if len(known) == len(positions) else 0
    if step == 0 or any(b - a != step for a, b in pairwise(known)):
        return "the indices are not evenly spaced"
    least, most = min(known), max(known)
    line = _line(op.source, axis, least, most + 1, abs(step))
    if step < 0:
        line = d.backwards(line, (axis,))
    return _to_front(line, axis)


@rule(operands=(None, ops.iota))
def ReplaceIotaGatherBySlice(op: v.GatherView) -> Answer:
    """gather(x, iota(n); a) -> x[0:n] along a, in front."""
    line = v.IotaView.of(op.operands[1])
    if line is None or len(op.operands) != 2 or len(line.dims) != 1:
        return "not one line of indices"
    axis = op.attrs.axes[0]
    count, size = line.dims[0], op.source.type.dims[axis]
    if not at_most(count, size) or not counts_exactly(line.dtype, bounds(count)[1] - 1):
        return f"{count} indices may lie outside axis {axis} of {op.source.type}"
    return _to_front(_line(op.source, axis, 0, count), axis)


@rule(benefit=2)
def FoldGatherFromUnitAxis(op: v.GatherView) -> Answer:
    """gather(x, i; axes of size 1) -> broadcast_to(x): every index is clamped to 0."""
    dims = op.source.type.dims
    if any(dims[axis] != 1 for axis in op.attrs.axes):
        return "an index may choose"
    rest = d.reshaped(op.source, [dims[axis] for axis in rest_axes(op)])
    return d.broadcasted(rest, op.dims)


def _gathered(op: v.GatherView, mover: OpDef) -> tuple[Inst, d.Term | None]:
    """The one way in which all indices are moved, and what they would gather before that."""
    moved, indices = moved_alike(op.indices, mover)
    return moved, d.draft(ops.gather, (op.source, *indices), op.attrs)


@rule(any_operand=ops.broadcast_to)
def SinkBroadcastBelowGather(op: v.GatherView) -> Answer:
    """gather(x, broadcast_to(i)) -> broadcast_to(gather(x, i))."""
    return d.broadcasted(_gathered(op, ops.broadcast_to)[1], op.dims)


@rule(any_operand=ops.reshape)
def SinkReshapeBelowGather(op: v.GatherView) -> Answer:
    """gather(x, reshape(i)) -> reshape(gather(x, i))."""
    return d.reshaped(_gathered(op, ops.reshape)[1], op.dims)


@rule(any_operand=ops.transpose)
def SinkTransposeBelowGather(op: v.GatherView) -> Answer:
    """gather(x, transpose(i, p)) -> transpose(gather(x, i), p and the other axes)."""
    moved, inner = _gathered(op, ops.transpose)
    perm = v.TransposeView(moved).perm
    return d.transposed(inner, [*perm, *range(len(perm), len(op.dims))])


@rule()
def LiftGatherAboveTranspose(op: v.GatherView, inner: v.TransposeView) -> Answer:
    """gather(transpose(x, p), i; a) -> transpose(gather(x, i; p[a]))."""
    lead = op.operands[1].type.rank
    axes = tuple([inner.perm[axis] for axis in op.attrs.axes])
    wanted = [inner.perm[axis] for axis in rest_axes(op)]
    gathered = d.draft(ops.gather, (inner.source, *op.operands[1:]), ops.GatherAttrs(axes))
    return d.transposed(gathered, [*range(lead), *[lead + rank for rank in ranks(wanted)]])


@rule(
    roots=(OpKey.GATHER, OpKey.SCATTER, OpKey.DYNAMIC_SLICE, OpKey.DYNAMIC_UPDATE_SLICE), any_operand=ops.cast
)
def DropIndexCast(op: Inst) -> Answer:
    """gather(x, cast(i)) -> gather(x, i) where the cast keeps every value; likewise where to scatter, slice, update."""
    first = 2 if op.op in (ops.scatter, ops.dynamic_update_slice) else 1
    indices = op.operands[first:]
    inner = next((c for c in map(v.CastView.of, indices) if c is not None), None)
    if inner is None:
        return "no index is cast"
    source = inner.source.type.dtype
    if not source.is_int or not value_preserving(source, inner.dtype):
        return f"{source} to {inner.dtype} may change an index"
    changed: list[d.Term | None] = []
    for index in indices:
        cast, literal = v.CastView.of(index), index.literal
        if cast is not None and cast.source.type.dtype is source:
            changed.append(cast.source)
        elif literal is not None and literal.size <= _INDEX_LIMIT:
            data = numerics.convert(literal.array(), source)
            back = numerics.convert(data, literal.dtype)
            fits = np.array_equal(numerics.widen(back), numerics.widen(literal.array()))
            changed.append(d.constant(Literal(data, dtype=source)) if fits else None)
        else:
            return "the indices do not all come from one dtype"
    return d.draft(op.op, (*op.operands[:first], *changed), op.attrs)


populate_canonicalization = family(__name__)

"""Gathers: slices where the indices are a pattern, and moves of the indices or the source carried to the result."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from planish.dtypes import value_preserving
from planish.ptir import ops
from planish.ptir.dims import DimLike, bounds
from planish.ptir.function import Inst, Value
from planish.ptir.ops import numerics
from planish.ptir.ops.checking import at_most
from planish.ptir.ops.definition import OpDef, OpKey
from planish.ptir.ops.literal import Literal
from planish.ptir.rewrite.prelude import (
    CastView,
    GatherView,
    IotaView,
    OpRewritePattern,
    Pattern,
    PatternSet,
    ProgramRewriter,
    TransposeView,
)
from planish.ptir.rules import draft as d
from planish.ptir.rules.cast import counts_exactly
from planish.ptir.rules.shapes import resized, uniform

# Constants beyond this are data, not a pattern somebody wrote.
_INDEX_LIMIT: Final = 1 << 16


def rest_axes(op: GatherView) -> list[int]:
    """The axes of the source that no index addresses."""
    return [axis for axis in range(op.source.type.rank) if axis not in op.attrs.axes]


def clamped(index: int, size: DimLike) -> int | None:
    """The position a constant index reads (semantics 8.3); None if that depends on a dynamic size."""
    low, high = bounds(size)
    if index <= 0:
        return 0
    if index < low:
        return index
    return low - 1 if low == high else None


def _line(x: Value, axis: int, start: DimLike, limit: DimLike, stride: int = 1) -> d.Term | None:
    """A slice of one axis."""
    starts: list[DimLike] = [0] * x.type.rank
    limits: list[DimLike] = list(x.type.dims)
    strides = [1] * x.type.rank
    starts[axis], limits[axis], strides[axis] = start, limit, stride
    return d.sliced(x, starts, limits, strides)


def _to_front(x: d.Term | None, axis: int) -> d.Term | None:
    if x is None:
        return None
    return d.transposed(x, [axis, *[other for other in range(x.type.rank) if other != axis]])


class ReplaceUniformGatherBySlice(OpRewritePattern[GatherView]):
    """gather(x, constant i; a) -> broadcast_to(x[i] along a), where every index of an axis is the same."""

    benefit = 2
    radius = 1
    operands = (None, ops.constant)

    def match_and_rewrite(self, op: GatherView, rw: ProgramRewriter) -> bool:
        x: d.Term | None = op.source
        for value, axis in zip(op.operands[1:], op.attrs.axes, strict=True):
            literal = value.literal
            index = literal.item if literal is not None else None
            position = clamped(index, op.source.type.dims[axis]) if isinstance(index, int) else None
            if position is None or x is None:
                return rw.fail(op.inst, f"which element of axis {axis} is read is not known")
            starts: list[DimLike] = [0] * x.type.rank
            limits: list[DimLike] = list(x.type.dims)
            starts[axis], limits[axis] = position, position + 1
            x = d.sliced(x, starts, limits, (1,) * len(starts))
        rest = [op.source.type.dims[axis] for axis in rest_axes(op)]
        return d.replace(rw, op.inst, d.broadcasted(d.reshaped(x, rest), op.dims))


class ReplaceRegularGatherBySlice(OpRewritePattern[GatherView]):
    """gather(x, constant [i, i + s, …]; a) -> x[i::s] along a, in front; reversed if s < 0."""

    radius = 1
    operands = (None, ops.constant)

    def match_and_rewrite(self, op: GatherView, rw: ProgramRewriter) -> bool:
        literal = op.operands[1].literal
        if literal is None or len(op.operands) != 2 or len(literal.shape) != 1:
            return rw.fail(op.inst, "not one line of constant indices")
        if literal.size < 2 or literal.size > _INDEX_LIMIT:
            return rw.fail(op.inst, "no pattern in that many indices")
        axis = op.attrs.axes[0]
        size = op.source.type.dims[axis]
        positions = [clamped(int(index), size) for index in literal.array()]
        known = [position for position in positions if position is not None]
        step = known[1] - known[0] if len(known) == len(positions) else 0
        if step == 0 or any(b - a != step for a, b in pairwise(known)):
            return rw.fail(op.inst, "the indices are not evenly spaced")
        least, most = min(known), max(known)
        line = _line(op.source, axis, least, most + 1, abs(step))
        if step < 0:
            line = d.backwards(line, (axis,))
        return d.replace(rw, op.inst, _to_front(line, axis))


class ReplaceIotaGatherBySlice(OpRewritePattern[GatherView]):
    """gather(x, iota(n); a) -> x[0:n] along a, in front."""

    radius = 1
    operands = (None, ops.iota)

    def match_and_rewrite(self, op: GatherView, rw: ProgramRewriter) -> bool:
        line = IotaView.of(op.operands[1])
        if line is None or len(op.operands) != 2 or len(line.dims) != 1:
            return rw.fail(op.inst, "not one line of indices")
        axis = op.attrs.axes[0]
        count, size = line.dims[0], op.source.type.dims[axis]
        if not at_most(count, size) or not counts_exactly(line.dtype, bounds(count)[1] - 1):
            return rw.fail(op.inst, f"{count} indices may lie outside axis {axis} of {op.source.type}")
        return d.replace(rw, op.inst, _to_front(_line(op.source, axis, 0, count), axis))


class FoldGatherFromUnitAxis(OpRewritePattern[GatherView]):
    """gather(x, i; axes of size 1) -> broadcast_to(x): every index is clamped to 0."""

    benefit = 2
    radius = 0

    def match_and_rewrite(self, op: GatherView, rw: ProgramRewriter) -> bool:
        dims = op.source.type.dims
        if any(dims[axis] != 1 for axis in op.attrs.axes):
            return rw.fail(op.inst, "an index may choose")
        rest = d.reshaped(op.source, [dims[axis] for axis in rest_axes(op)])
        return d.replace(rw, op.inst, d.broadcasted(rest, op.dims))


def _moved_indices(op: GatherView, mover: OpDef) -> tuple[Inst, list[d.Term | None]] | None:
    """The one way in which all indices are moved, and the indices before that."""
    moved: Inst | None = None
    for index in op.operands[1:]:
        definition = index.def_inst
        if definition is not None and definition.op is mover:
            if moved is None:
                moved = definition
            elif (definition.attrs, definition.operands[0].type) != (moved.attrs, moved.operands[0].type):
                return None
        elif not uniform(index):
            return None
    if moved is None:
        return None
    dims = moved.operands[0].type.dims
    found: list[d.Term | None] = []
    for index in op.operands[1:]:
        definition = index.def_inst
        if definition is not None and definition.op is mover:
            found.append(definition.operands[0])
        else:
            found.append(resized(index, dims))
    return moved, found


class SinkBroadcastBelowGather(OpRewritePattern[GatherView]):
    """gather(x, broadcast_to(i)) -> broadcast_to(gather(x, i))."""

    radius = 1
    any_operand = ops.broadcast_to

    def match_and_rewrite(self, op: GatherView, rw: ProgramRewriter) -> bool:
        found = _moved_indices(op, ops.broadcast_to)
        if found is None:
            return rw.fail(op.inst, "the indices are not broadcast alike")
        few = d.draft(ops.gather, (op.source, *found[1]), op.attrs)
        return d.replace(rw, op.inst, d.broadcasted(few, op.dims))


class SinkReshapeBelowGather(OpRewritePattern[GatherView]):
    """gather(x, reshape(i)) -> reshape(gather(x, i))."""

    radius = 1
    any_operand = ops.reshape

    def match_and_rewrite(self, op: GatherView, rw: ProgramRewriter) -> bool:
        found = _moved_indices(op, ops.reshape)
        if found is None:
            return rw.fail(op.inst, "the indices are not reshaped alike")
        return d.replace(
            rw, op.inst, d.reshaped(d.draft(ops.gather, (op.source, *found[1]), op.attrs), op.dims)
        )


class SinkTransposeBelowGather(OpRewritePattern[GatherView]):
    """gather(x, transpose(i, p)) -> transpose(gather(x, i), p and the other axes)."""

    radius = 1
    any_operand = ops.transpose

    def match_and_rewrite(self, op: GatherView, rw: ProgramRewriter) -> bool:
        found = _moved_indices(op, ops.transpose)
        if found is None:
            return rw.fail(op.inst, "the indices are not transposed alike")
        perm = TransposeView(found[0]).perm
        inner = d.draft(ops.gather, (op.source, *found[1]), op.attrs)
        return d.replace(rw, op.inst, d.transposed(inner, [*perm, *range(len(perm), len(op.dims))]))


class LiftGatherAboveTranspose(OpRewritePattern[GatherView]):
    """gather(transpose(x, p), i; a) -> transpose(gather(x, i; p[a]))."""

    radius = 1
    operands = (ops.transpose,)

    def match_and_rewrite(self, op: GatherView, rw: ProgramRewriter) -> bool:
        inner = TransposeView.of(op.source)
        if inner is None:
            return False
        lead = op.operands[1].type.rank
        axes = tuple([inner.perm[axis] for axis in op.attrs.axes])
        wanted = [inner.perm[axis] for axis in rest_axes(op)]
        given = sorted(wanted)
        gathered = d.draft(ops.gather, (inner.source, *op.operands[1:]), ops.GatherAttrs(axes))
        perm = [*range(lead), *[lead + given.index(axis) for axis in wanted]]
        return d.replace(rw, op.inst, d.transposed(gathered, perm))


class DropIndexCast(Pattern[Inst]):
    """gather(x, cast(i)) -> gather(x, i) where the cast keeps every value; likewise where to scatter, slice, update."""

    radius = 1
    roots = (OpKey.GATHER, OpKey.SCATTER, OpKey.DYNAMIC_SLICE, OpKey.DYNAMIC_UPDATE_SLICE)
    any_operand = ops.cast

    def match_and_rewrite(self, op: Inst, rw: ProgramRewriter) -> bool:
        first = 2 if op.op in (ops.scatter, ops.dynamic_update_slice) else 1
        indices = op.operands[first:]
        inner = next((c for c in map(CastView.of, indices) if c is not None), None)
        if inner is None:
            return rw.fail(op, "no index is cast")
        source = inner.source.type.dtype
        if not source.is_int or not value_preserving(source, inner.dtype):
            return rw.fail(op, f"{source} to {inner.dtype} may change an index")
        changed: list[d.Term | None] = []
        for index in indices:
            cast, literal = CastView.of(index), index.literal
            if cast is not None and cast.source.type.dtype is source:
                changed.append(cast.source)
            elif literal is not None and literal.size <= _INDEX_LIMIT:
                data = numerics.convert(literal.array(), source)
                back = numerics.convert(data, literal.dtype)
                fits = np.array_equal(numerics.widen(back), numerics.widen(literal.array()))
                changed.append(d.constant(Literal(data, dtype=source)) if fits else None)
            else:
                return rw.fail(op, "the indices do not all come from one dtype")
        return d.replace(rw, op, d.draft(op.op, (*op.operands[:first], *changed), op.attrs))


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns rooted at gathers, and of index operands."""
    patterns.add(
        ReplaceUniformGatherBySlice,
        ReplaceRegularGatherBySlice,
        ReplaceIotaGatherBySlice,
        FoldGatherFromUnitAxis,
        SinkBroadcastBelowGather,
        SinkReshapeBelowGather,
        SinkTransposeBelowGather,
        LiftGatherAboveTranspose,
        DropIndexCast,
    )

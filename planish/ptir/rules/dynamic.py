"""Windows at run-time positions: ordinary slices and pads once the position is known, and reads of what was written."""

from __future__ import annotations

from typing import ClassVar

from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.function import Value
from planish.ptir.ops.definition import Attrs, OpKey
from planish.ptir.ops.literal import Literal
from planish.ptir.rewrite.pattern import Root
from planish.ptir.rewrite.prelude import (
    BroadcastView,
    DynamicSliceView,
    DynamicUpdateSliceView,
    OpRewritePattern,
    PatternSet,
    ProgramRewriter,
    SliceView,
    SourceView,
    TransposeView,
    inverse_permutation,
)
from planish.ptir.rules import draft as d
from planish.ptir.rules.shapes import constant_start, same_scalar, source_axis, uniform, varies


class WindowView(SourceView[Attrs]):
    """`dynamic_slice` or `dynamic_update_slice`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.DYNAMIC_SLICE, OpKey.DYNAMIC_UPDATE_SLICE)

    @property
    def window(self) -> tuple[DimLike, ...]:
        """The size of the window."""
        return self.dims if self.op is ops.dynamic_slice else self.operands[1].type.dims

    @property
    def first_start(self) -> int:
        """The operand that holds the first start."""
        return 1 if self.op is ops.dynamic_slice else 2


def constant_starts(
    starts: tuple[Value, ...], sizes: tuple[DimLike, ...], window: tuple[DimLike, ...]
) -> list[int] | None:
    """Where a window lies, if that is known for every axis."""
    found = [constant_start(s.literal, n, w) for s, n, w in zip(starts, sizes, window, strict=True)]
    known = [start for start in found if start is not None]
    return known if len(known) == len(found) else None


class NormalizeStart(OpRewritePattern[WindowView]):
    """dynamic_slice(x, i) -> dynamic_slice(x, clamped i) for constants; 0 where the window is the whole axis."""

    radius = 1

    def match_and_rewrite(self, op: WindowView, rw: ProgramRewriter) -> bool:
        operands = list(op.operands)
        sizes = op.source.type.dims
        for axis, window in enumerate(op.window):
            value = operands[op.first_start + axis]
            start = 0 if window == sizes[axis] else constant_start(value.literal, sizes[axis], window)
            if start is None or (value.literal is not None and value.literal.item == start):
                continue
            literal = Literal.full(value.type.dtype, (), start)
            operands[op.first_start + axis] = rw.materialize_constant(op.inst, literal)
        if tuple(operands) == op.operands:
            return rw.fail(op.inst, "every start is a variable or where the window begins")
        rw.set_operands(op.inst, operands)
        return True


class ReplaceDynamicSliceBySlice(OpRewritePattern[DynamicSliceView]):
    """dynamic_slice(x, constant i) -> x[i : i + window]."""

    benefit = 2
    radius = 1

    def match_and_rewrite(self, op: DynamicSliceView, rw: ProgramRewriter) -> bool:
        starts = constant_starts(op.starts, op.source.type.dims, op.dims)
        if starts is None:
            return rw.fail(op.inst, "where the window begins is not known")
        limits = [start + size for start, size in zip(starts, op.dims, strict=True)]
        return d.replace(rw, op.inst, d.sliced(op.source, starts, limits, (1,) * len(starts)))


class LiftDynamicSliceAboveTranspose(OpRewritePattern[DynamicSliceView]):
    """dynamic_slice(transpose(x, p), i) -> transpose(dynamic_slice(x, i by p), p)."""

    radius = 1
    operands = (ops.transpose,)

    def match_and_rewrite(self, op: DynamicSliceView, rw: ProgramRewriter) -> bool:
        inner = TransposeView.of(op.source)
        if inner is None:
            return False
        back = inverse_permutation(inner.perm)
        sizes = tuple([op.dims[axis] for axis in back])
        starts = [op.starts[axis] for axis in back]
        part = d.draft(ops.dynamic_slice, (inner.source, *starts), ops.DynamicSliceAttrs(sizes))
        return d.replace(rw, op.inst, d.transposed(part, inner.perm))


class LiftDynamicSliceAboveBroadcast(OpRewritePattern[DynamicSliceView]):
    """dynamic_slice(broadcast_to(x), i) -> broadcast_to(dynamic_slice(x, i along the axes of x))."""

    radius = 1
    operands = (ops.broadcast_to,)

    def match_and_rewrite(self, op: DynamicSliceView, rw: ProgramRewriter) -> bool:
        inner = BroadcastView.of(op.source)
        if inner is None:
            return False
        sizes: list[DimLike] = list(inner.source.type.dims)
        starts: list[Value] = list(op.starts[len(op.dims) - len(sizes) :])
        for axis, size in enumerate(op.dims):
            source = source_axis(inner.inst, axis)
            if source is not None and varies(inner.inst, axis):
                sizes[source] = size
        attrs = ops.DynamicSliceAttrs(tuple(sizes))
        part: d.Term | None = inner.source
        if tuple(sizes) != inner.source.type.dims:
            part = d.draft(ops.dynamic_slice, (inner.source, *starts), attrs)
        return d.replace(rw, op.inst, d.broadcasted(part, op.dims))


def _same_place(left: tuple[Value, ...], right: tuple[Value, ...]) -> bool:
    return all(same_scalar(a, b) for a, b in zip(left, right, strict=True))


class ForwardDynamicSliceOfUpdate(OpRewritePattern[DynamicSliceView]):
    """dynamic_slice(dynamic_update_slice(x, u, i), i) -> u, for a window of the size of u."""

    benefit = 2
    radius = 2
    operands = (ops.dynamic_update_slice,)

    def match_and_rewrite(self, op: DynamicSliceView, rw: ProgramRewriter) -> bool:
        inner = DynamicUpdateSliceView.of(op.source)
        if inner is None:
            return False
        if inner.update.type.dims != op.dims or not _same_place(inner.starts, op.starts):
            return rw.fail(op.inst, "another window is read than was written")
        return d.replace(rw, op.inst, inner.update)


class ReplaceWholeUpdate(OpRewritePattern[DynamicUpdateSliceView]):
    """dynamic_update_slice(x: s, u: s, i) -> u: the window is all of x."""

    benefit = 3
    radius = 0

    def match_and_rewrite(self, op: DynamicUpdateSliceView, rw: ProgramRewriter) -> bool:
        if op.update.type != op.type:
            return rw.fail(op.inst, "the window is not all of it")
        return d.replace(rw, op.inst, op.update)


class RemoveEmptyUpdate(OpRewritePattern[DynamicUpdateSliceView]):
    """dynamic_update_slice(x, u without elements, i) -> x."""

    benefit = 3
    radius = 0

    def match_and_rewrite(self, op: DynamicUpdateSliceView, rw: ProgramRewriter) -> bool:
        if 0 not in op.update.type.dims:
            return rw.fail(op.inst, "there may be something to write")
        return d.replace(rw, op.inst, op.source)


class RemoveUpdateByItself(OpRewritePattern[DynamicUpdateSliceView]):
    """dynamic_update_slice(x, dynamic_slice(x, i), i) -> x; likewise x[i : j] written at a constant i."""

    benefit = 2
    radius = 2

    def match_and_rewrite(self, op: DynamicUpdateSliceView, rw: ProgramRewriter) -> bool:
        read, cut = DynamicSliceView.of(op.update), SliceView.of(op.update)
        same = False
        if read is not None:
            same = read.source is op.source and _same_place(read.starts, op.starts)
        elif cut is not None and cut.source is op.source and all(s == 1 for s in cut.attrs.strides):
            starts = constant_starts(op.starts, op.dims, op.update.type.dims)
            same = starts is not None and tuple(starts) == cut.attrs.starts
        if not same:
            return rw.fail(op.inst, "what is written was not read from there")
        return d.replace(rw, op.inst, op.source)


class FoldUpdateOfUpdate(OpRewritePattern[DynamicUpdateSliceView]):
    """dynamic_update_slice(dynamic_update_slice(x, u, i), v, i) -> dynamic_update_slice(x, v, i), v as large as u."""

    benefit = 2
    radius = 2
    operands = (ops.dynamic_update_slice,)

    def match_and_rewrite(self, op: DynamicUpdateSliceView, rw: ProgramRewriter) -> bool:
        inner = DynamicUpdateSliceView.of(op.source)
        if inner is None:
            return False
        if inner.update.type.dims != op.update.type.dims or not _same_place(inner.starts, op.starts):
            return rw.fail(op.inst, "some of the first window stays")
        return d.replace(
            rw, op.inst, d.draft(ops.dynamic_update_slice, (inner.source, op.update, *op.starts))
        )


class ReplaceUpdateOfUniformByPad(OpRewritePattern[DynamicUpdateSliceView]):
    """dynamic_update_slice(splat v, u, constant i) -> pad(u, v); likewise of a broadcast scalar."""

    radius = 1
    operands = ((ops.constant, ops.broadcast_to),)

    def match_and_rewrite(self, op: DynamicUpdateSliceView, rw: ProgramRewriter) -> bool:
        if not uniform(op.source):
            return rw.fail(op.inst, "what is around the window differs")
        window = op.update.type.dims
        starts = constant_starts(op.starts, op.dims, window)
        if starts is None:
            return rw.fail(op.inst, "where the window begins is not known")
        high = [n - start - w for n, start, w in zip(op.dims, starts, window, strict=True)]
        literal, definition = op.source.literal, op.source.def_inst
        value: d.Term | None
        if literal is not None:
            value = d.constant(literal.with_shape(()), op.source.type.quant)
        else:
            value = None if definition is None else definition.operands[0]
        return d.replace(rw, op.inst, d.padded(op.update, value, starts, high, (0,) * len(starts)))


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns of windows at run-time positions."""
    patterns.add(
        NormalizeStart,
        ReplaceDynamicSliceBySlice,
        LiftDynamicSliceAboveTranspose,
        LiftDynamicSliceAboveBroadcast,
        ForwardDynamicSliceOfUpdate,
        ReplaceWholeUpdate,
        RemoveEmptyUpdate,
        RemoveUpdateByItself,
        FoldUpdateOfUpdate,
        ReplaceUpdateOfUniformByPad,
    )

"""Sorts and top_k that have nothing to order, or are ordered already."""

from __future__ import annotations

from typing import ClassVar

from planish.ptir import ops
from planish.ptir.function import Value
from planish.ptir.ops.definition import OpKey
from planish.ptir.rewrite.pattern import Root
from planish.ptir.rewrite.prelude import (
    AttrsView,
    OpRewritePattern,
    PatternSet,
    ProgramRewriter,
    ReverseView,
    SourceView,
)
from planish.ptir.rules import draft as d
from planish.ptir.rules.shapes import varies


class SortView(AttrsView[ops.SortAttrs]):
    """`sort(keys…, payloads…)`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.SORT,)


class TopKView(SourceView[ops.TopKAttrs]):
    """`top_k(source)`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.TOP_K,)


class RemoveUnitSort(OpRewritePattern[SortView]):
    """sort(x…; a) -> x… along an axis of size 1."""

    benefit = 3
    radius = 0

    def match_and_rewrite(self, op: SortView, rw: ProgramRewriter) -> bool:
        if op.dims[op.attrs.axis] != 1:
            return rw.fail(op.inst, "there may be something to order")
        return d.replace(rw, op.inst, *op.operands)


class RemoveUniformSort(OpRewritePattern[SortView]):
    """sort(keys that are equal along a, x…; a) -> keys, x…: a stable sort moves nothing."""

    benefit = 2
    radius = 1
    operands = ((ops.constant, ops.broadcast_to),)

    def match_and_rewrite(self, op: SortView, rw: ProgramRewriter) -> bool:
        keys = op.operands[: op.attrs.num_keys]
        if not all(_equal_along(key, op.attrs.axis) for key in keys):
            return rw.fail(op.inst, "keys may differ along the axis")
        return d.replace(rw, op.inst, *op.operands)


def _equal_along(value: Value, axis: int) -> bool:
    inst = value.def_inst
    if inst is None:
        return False
    if inst.op is ops.broadcast_to:
        return not varies(inst, axis)
    return value.literal is not None and value.literal.splat


class FoldSortOfSort(OpRewritePattern[SortView]):
    """sort(sort(x…)) -> sort(x…) in the same order."""

    benefit = 2
    radius = 1
    operands = (ops.sort,)

    def match_and_rewrite(self, op: SortView, rw: ProgramRewriter) -> bool:
        inner = op.operands[0].def_inst
        if inner is None or inner.op is not ops.sort or inner.attrs != op.attrs:
            return rw.fail(op.inst, "what is sorted was sorted in another way")
        keys = op.attrs.num_keys
        if op.operands[:keys] != inner.results[:keys]:
            return rw.fail(op.inst, "the keys are not those of one sort")
        return d.replace(rw, op.inst, *op.operands)


class DropReverseBeforeSort(OpRewritePattern[SortView]):
    """sort(reverse(x, a); a) -> sort(x; a) for integers, whose equals cannot be told apart."""

    radius = 1
    operands = (ops.reverse,)

    def match_and_rewrite(self, op: SortView, rw: ProgramRewriter) -> bool:
        inner = ReverseView.of(op.operands[0])
        if inner is None:
            return False
        axis = op.attrs.axis
        if len(op.operands) != 1 or axis not in inner.attrs.axes:
            return rw.fail(op.inst, "the sorted axis is not reversed, or something follows it")
        if not (inner.dtype.is_int or inner.dtype.is_bool):
            return rw.fail(op.inst, "equal floats may have different bits")
        rest = [other for other in inner.attrs.axes if other != axis]
        return d.replace(rw, op.inst, d.draft(ops.sort, (d.backwards(inner.source, rest),), op.attrs))


class DropUnusedSortPayload(OpRewritePattern[SortView]):
    """sort(keys…, x, y) -> sort(keys…, x) where nobody uses y sorted."""

    radius = 0
    watch_uses = True

    def match_and_rewrite(self, op: SortView, rw: ProgramRewriter) -> bool:
        keys = op.attrs.num_keys
        unused = [i for i, value in enumerate(op.results) if i >= keys and not value.users]
        if not unused:
            return rw.fail(op.inst, "every payload is used")
        kept = [i for i in range(len(op.results)) if i not in unused]
        new = rw.insert_before(op.inst, ops.sort, [op.operands[i] for i in kept], op.attrs)
        for old, value in zip(kept, new.results, strict=True):
            if op.results[old].users:
                rw.replace_all_uses(op.results[old], value)
        rw.erase_inst(op.inst)
        return True


class RemoveUnitTopK(OpRewritePattern[TopKView]):
    """top_k(x; k = 1) -> x, 0 along an axis of size 1."""

    benefit = 3
    radius = 0

    def match_and_rewrite(self, op: TopKView, rw: ProgramRewriter) -> bool:
        if op.attrs.k != 1 or op.source.type.dims[op.attrs.axis] != 1:
            return rw.fail(op.inst, "there may be something to choose from")
        return d.replace(rw, op.inst, op.source, d.number(0, op.results[1].type))


class ReplaceTopOneByReduce(OpRewritePattern[TopKView]):
    """top_k(x; k = 1) -> reduce_max(x), argmax(x) for integers (or min, argmin)."""

    radius = 0

    def match_and_rewrite(self, op: TopKView, rw: ProgramRewriter) -> bool:
        attrs, dtype = op.attrs, op.source.type.dtype
        if attrs.k != 1:
            return rw.fail(op.inst, "more than one is wanted")
        if not (dtype.is_int or dtype.is_bool):
            # The largest of -0 and +0 is +0, but top_k gives whichever comes first.
            return rw.fail(op.inst, "equal floats may have different bits")
        reduce, place = (ops.reduce_max, ops.argmax) if attrs.largest else (ops.reduce_min, ops.argmin)
        best = d.draft(reduce, (op.source,), ops.ReduceAttrs((attrs.axis,), keepdims=True))
        where = d.draft(place, (op.source,), ops.ArgReduceAttrs(attrs.axis, keepdims=True, dtype=attrs.dtype))
        return d.replace(rw, op.inst, best, where)


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns of sort and top_k."""
    patterns.add(
        RemoveUnitSort,
        RemoveUniformSort,
        FoldSortOfSort,
        DropReverseBeforeSort,
        DropUnusedSortPayload,
        RemoveUnitTopK,
        ReplaceTopOneByReduce,
    )

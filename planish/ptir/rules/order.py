"""Sorts and top_k that have nothing to order, or are ordered already."""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.function import Inst, Value
from planish.ptir.ops.definition import OpKey
from planish.ptir.rewrite import views as v
from planish.ptir.rewrite.prelude import ProgramRewriter
from planish.ptir.rules import draft as d
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.rules.shapes import varies


class SortView(v.AttrsView[ops.SortAttrs], roots=(OpKey.SORT,)):
    """`sort(keys…, payloads…)`."""


class TopKView(v.SourceView[ops.TopKAttrs], roots=(OpKey.TOP_K,)):
    """`top_k(source)`."""


@rule(benefit=3)
def RemoveUnitSort(op: SortView) -> Answer:
    """sort(x…; a) -> x… along an axis of size 1."""
    return op.operands if op.dims[op.attrs.axis] == 1 else "there may be something to order"


@rule(benefit=2, operands=((ops.constant, ops.broadcast_to),))
def RemoveUniformSort(op: SortView) -> Answer:
    """sort(keys that are equal along a, x…; a) -> keys, x…: a stable sort moves nothing."""
    keys = op.operands[: op.attrs.num_keys]
    if not all(_equal_along(key, op.attrs.axis) for key in keys):
        return "keys may differ along the axis"
    return op.operands


def _equal_along(value: Value, axis: int) -> bool:
    inst = value.def_inst
    if inst is None:
        return False
    if inst.op is ops.broadcast_to:
        return not varies(inst, axis)
    return value.literal is not None and value.literal.splat


@rule(benefit=2, operands=(ops.sort,))
def FoldSortOfSort(op: SortView, inner: Inst) -> Answer:
    """sort(sort(x…)) -> sort(x…) in the same order."""
    if inner.op is not ops.sort or inner.attrs != op.attrs:
        return "what is sorted was sorted in another way"
    keys = op.attrs.num_keys
    return op.operands if op.operands[:keys] == inner.results[:keys] else "the keys are not those of one sort"


@rule()
def DropReverseBeforeSort(op: SortView, inner: v.ReverseView) -> Answer:
    """sort(reverse(x, a); a) -> sort(x; a) for integers, whose equals cannot be told apart."""
    axis = op.attrs.axis
    if len(op.operands) != 1 or axis not in inner.attrs.axes:
        return "the sorted axis is not reversed, or something follows it"
    if not (inner.dtype.is_int or inner.dtype.is_bool):
        return "equal floats may have different bits"
    rest = [other for other in inner.attrs.axes if other != axis]
    return d.draft(ops.sort, (d.backwards(inner.source, rest),), op.attrs)


@rule(watch_uses=True)
def DropUnusedSortPayload(op: SortView, rw: ProgramRewriter) -> Answer:
    """sort(keys…, x, y) -> sort(keys…, x) where nobody uses y sorted."""
    keys = op.attrs.num_keys
    unused = [i for i, value in enumerate(op.results) if i >= keys and not value.users]
    if not unused:
        return "every payload is used"
    kept = [i for i in range(len(op.results)) if i not in unused]
    new = rw.insert_before(op.inst, ops.sort, [op.operands[i] for i in kept], op.attrs)
    for old, value in zip(kept, new.results, strict=True):
        if op.results[old].users:
            rw.replace_all_uses(op.results[old], value)
    rw.erase_inst(op.inst)
    return True


@rule(benefit=3)
def RemoveUnitTopK(op: TopKView) -> Answer:
    """top_k(x; k = 1) -> x, 0 along an axis of size 1."""
    if op.attrs.k != 1 or op.source.type.dims[op.attrs.axis] != 1:
        return "there may be something to choose from"
    return (op.source, d.number(0, op.results[1].type))


@rule()
def ReplaceTopOneByReduce(op: TopKView) -> Answer:
    """top_k(x; k = 1) -> reduce_max(x), argmax(x) for integers (or min, argmin)."""
    attrs, dtype = op.attrs, op.source.type.dtype
    if attrs.k != 1:
        return "more than one is wanted"
    if not (dtype.is_int or dtype.is_bool):
        # The largest of -0 and +0 is +0, but top_k gives whichever comes first.
        return "equal floats may have different bits"
    reduce, place = (ops.reduce_max, ops.argmax) if attrs.largest else (ops.reduce_min, ops.argmin)
    best = d.draft(reduce, (op.source,), ops.ReduceAttrs((attrs.axis,), keepdims=True))
    where = d.draft(place, (op.source,), ops.ArgReduceAttrs(attrs.axis, keepdims=True, dtype=attrs.dtype))
    return (best, where)


populate_canonicalization = family(__name__)

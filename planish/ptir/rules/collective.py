"""Collectives: none where a rank is alone, pairs that cancel gone, and no more sent than is kept."""

from __future__ import annotations

from planish import dtypes
from planish.config import current
from planish.ptir import ops
from planish.ptir.function import Value
from planish.ptir.ops.collective import (
    AllGatherAttrs,
    AllReduceAttrs,
    AllToAllAttrs,
    CollectiveAttrs,
    PermuteAttrs,
    ReduceScatterAttrs,
    group_size,
)
from planish.ptir.ops.literal import Literal
from planish.ptir.rewrite import views as v
from planish.ptir.rewrite.prelude import ProgramRewriter
from planish.ptir.rules import draft as d
from planish.ptir.rules.rule import Answer, family, rule

_EXACT = ("max", "min", "and", "or")
"""Reductions whose results do not depend on the order, nor on how often a part counts."""


class CollectiveView(
    v.SourceView[CollectiveAttrs],
    roots=(ops.all_reduce, ops.all_gather, ops.reduce_scatter, ops.all_to_all, ops.permute, ops.broadcast),
):
    """Any collective of one operand."""


class IndexView(v.AttrsView[CollectiveAttrs], roots=(ops.mesh_index,)):
    """`mesh_index()`."""


class AllReduceView(v.SourceView[AllReduceAttrs], roots=(ops.all_reduce,)):
    """`all_reduce(source)`."""


class AllGatherView(v.SourceView[AllGatherAttrs], roots=(ops.all_gather,)):
    """`all_gather(source)`."""


class ReduceScatterView(v.SourceView[ReduceScatterAttrs], roots=(ops.reduce_scatter,)):
    """`reduce_scatter(source)`."""


class AllToAllView(v.SourceView[AllToAllAttrs], roots=(ops.all_to_all,)):
    """`all_to_all(source)`."""


class PermuteView(v.SourceView[PermuteAttrs], roots=(ops.permute,)):
    """`permute(source)`."""


def own_axis(window: v.DynamicSliceView, attrs: CollectiveAttrs) -> int:
    """The axis of which a `dynamic_slice` takes the part of the rank's place in a group, and all of the others."""
    axes: list[int] = []
    dims, count = window.source.type.dims, group_size(attrs.mesh, attrs.over)
    for axis, (start, size) in enumerate(zip(window.operands[1:], window.dims, strict=True)):
        if size == dims[axis]:
            continue
        if not isinstance(size, int) or size * count != dims[axis] or not _is_own(start, attrs, size):
            raise d.Declined("it is not the part of the rank's place")
        axes.append(axis)
    if len(axes) != 1:
        raise d.Declined("it is not a part of one axis")
    return axes[0]


def _is_own(start: Value, attrs: CollectiveAttrs, size: int) -> bool:
    """Whether a start is that of the rank's part of that size."""
    inst = start.def_inst
    if inst is not None and inst.op is ops.mul and size != 1:
        factors = [value.literal for value in inst.operands]
        index = [value for value, literal in zip(inst.operands, factors, strict=True) if literal is None]
        if [literal.item for literal in factors if literal is not None] != [size] or len(index) != 1:
            return False
        inst = index[0].def_inst
    elif size != 1:
        return False
    return (
        inst is not None
        and inst.op is ops.mesh_index
        and inst.attrs == CollectiveAttrs(attrs.mesh, attrs.over)
    )


@rule(benefit=3)
def DropLonelyCollective(op: CollectiveView) -> Answer:
    """all_reduce(x), all_gather(x) … -> x in groups of one rank."""
    if group_size(op.attrs.mesh, op.attrs.over) != 1:
        return "ranks have company"
    if current().keep_collectives:
        return "it is to be kept"
    if isinstance(op.attrs, PermuteAttrs) and not op.attrs.pairs:
        return "nobody sends anything"
    return op.source


@rule()
def FoldLonelyIndex(op: IndexView, rw: ProgramRewriter) -> Answer:
    """mesh_index() -> 0 in groups of one rank."""
    if group_size(op.attrs.mesh, op.attrs.over) != 1:
        return "ranks have company"
    if current().keep_collectives:
        return "it is to be kept"
    return rw.materialize_constant(op.inst, Literal.full(dtypes.int64, (), 0))


@rule(benefit=2, radius=2)
def FoldOwnPartOfGather(op: v.DynamicSliceView, inner: AllGatherView) -> Answer:
    """dynamic_slice(all_gather(x), own part) -> x."""
    if own_axis(op, inner.attrs) != inner.attrs.axis:
        return "it is cut along another axis than gathered"
    return inner.source


@rule(radius=2, alone=True)
def ScatterWhatIsCut(op: v.DynamicSliceView, inner: AllReduceView) -> Answer:
    """dynamic_slice(all_reduce(x), own part) -> reduce_scatter(x), if nothing else needs the whole."""
    of = inner.attrs
    attrs = ReduceScatterAttrs(of.mesh, of.over, own_axis(op, of), of.kind)
    return d.draft(ops.reduce_scatter, (inner.source,), attrs)


@rule(alone=True)
def ReduceWhatIsGathered(op: AllGatherView, inner: ReduceScatterView) -> Answer:
    """all_gather(reduce_scatter(x)) -> all_reduce(x) along the same axes, if nothing else needs the part."""
    of = inner.attrs
    if (of.mesh, of.over, of.axis) != (op.attrs.mesh, op.attrs.over, op.attrs.axis):
        return "it is gathered another way than scattered"
    return d.draft(ops.all_reduce, (inner.source,), AllReduceAttrs(of.mesh, of.over, of.kind))


@rule()
def FoldExchangeOfExchange(op: AllToAllView, inner: AllToAllView) -> Answer:
    """all_to_all(all_to_all(x, i, j), j, i) -> x."""
    of, to = inner.attrs, op.attrs
    if (of.mesh, of.over, of.split, of.concat) != (to.mesh, to.over, to.concat, to.split):
        return "the second does not undo the first"
    return inner.source


@rule()
def FoldPermuteOfPermute(op: PermuteView, inner: PermuteView) -> Answer:
    """permute(permute(x, p), q) -> permute(x, q after p)."""
    of, to = inner.attrs, op.attrs
    if (of.mesh, of.over) != (to.mesh, to.over):
        return "they are about different groups"
    onward = dict(to.pairs)
    pairs = tuple([(source, onward[target]) for source, target in of.pairs if target in onward])
    return d.draft(ops.permute, (inner.source,), PermuteAttrs(of.mesh, of.over, pairs))


@rule(benefit=2)
def DropIdentityPermute(op: PermuteView) -> Answer:
    """permute(x, every place to itself) -> x."""
    if current().keep_collectives:
        return "it is to be kept"
    places = range(group_size(op.attrs.mesh, op.attrs.over))
    if sorted(op.attrs.pairs) != [(place, place) for place in places]:
        return "some place gets another's"
    return op.source


@rule()
def FoldAllReduceOfAllReduce(op: AllReduceView, inner: AllReduceView) -> Answer:
    """all_reduce(all_reduce(x, a), b) -> all_reduce(x, a and b) of extremes and conjunctions."""
    of, to = inner.attrs, op.attrs
    if of.mesh != to.mesh or of.kind != to.kind or of.kind not in _EXACT:
        return "sums are not reordered"
    over = (*of.over, *[name for name in to.over if name not in of.over])
    return d.draft(ops.all_reduce, (inner.source,), AllReduceAttrs(of.mesh, over, of.kind))


populate_canonicalization = family(__name__)

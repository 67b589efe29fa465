"""Diagonals and traces of contractions: of the products that nobody reads none is computed.

What is read along a free axis of both factors at once is a batch axis of both; and where every sum is added up again, the batch axes are
contracted, too: the trace of a product is one sum of products.
"""

from __future__ import annotations

from dataclasses import replace

from planish.ptir import ops
from planish.ptir.dims import bounds
from planish.ptir.ops.checking import at_most
from planish.ptir.rewrite import views as v
from planish.ptir.rules import draft as d
from planish.ptir.rules.cast import counts_exactly
from planish.ptir.rules.dot import Side, contraction, sides
from planish.ptir.rules.rule import Answer, family, rule


@rule(benefit=3, operands=(ops.dot_general, ops.iota, ops.iota), alone=True)
def LiftDiagonalAboveDot(op: v.GatherView, inner: v.DotGeneralView) -> Answer:
    """gather(dot_general(x, y), iota, iota) along a free axis of x and one of y -> dot_general with both as batch axes."""
    lines = [v.IotaView.of(index) for index in op.operands[1:]]
    both = sides(inner)
    places = [("batch", axis) for axis in both[0].batch]
    places += [("left", axis) for axis in both[0].free] + [("right", axis) for axis in both[1].free]
    chosen = dict(places[axis] for axis in op.attrs.axes)
    if len(lines) != 2 or chosen.keys() != {"left", "right"}:
        return "not one free axis of each operand"
    first, second = lines
    if first is None or second is None or len(first.dims) != 1 or first.dims != second.dims:
        return "not a diagonal"
    (count,) = first.dims
    parts: list[Side | None] = []
    for side, name in zip(both, ("left", "right"), strict=True):
        axis = chosen[name]
        if not at_most(count, side.dims[axis]):
            return f"{count} indices may lie outside of the product"
        cut = d.Cut(side.value)
        cut[axis] = 0, count, 1
        value = cut.term()
        parts.append(None if value is None else Side(value, (axis, *side.batch), side.contract))
    if not all(line is not None and counts_exactly(line.dtype, bounds(count)[1] - 1) for line in lines):
        return "the indices are not all exact"
    return contraction(inner.attrs, parts)


@rule(benefit=3, operands=(ops.dot_general,), alone=True)
def ContractSummedBatch(op: v.ReduceView, inner: v.DotGeneralView) -> Answer:
    """reduce_sum(dot_general(x, y)) over batch axes, where no axis is free -> these are contracted."""
    if op.op is not ops.reduce_sum or op.attrs.keepdims:
        return "it is no sum, or keeps its axes"
    attrs, both = inner.attrs, sides(inner)
    if any(side.free for side in both):
        return "an operand has axes of its own"
    if not attrs.out_dtype == attrs.accum_dtype == op.dtype:
        return "what is added up is rounded in between"
    gone = set(op.attrs.axes)
    parts = [
        replace(
            side,
            batch=tuple(axis for number, axis in enumerate(side.batch) if number not in gone),
            contract=(*side.contract, *(side.batch[number] for number in sorted(gone))),
        )
        for side in both
    ]
    return contraction(attrs, parts)


populate_canonicalization = family(__name__)

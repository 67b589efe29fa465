"""Movement meets elementwise ops: whatever keeps all elements moves below them, slices move above.

f(move(x)) -> move(f(x)) lets moves meet further down, where they cancel or are absorbed; f(broadcast(x)) ->
broadcast(f(x)) also computes less. slice(f(x)) -> f(slice(x)) computes less too, and is done where f is not
needed for anything else.
"""

from __future__ import annotations

from collections.abc import Callable

from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.function import Inst, Value
from planish.ptir.ops.definition import OpDef, OpKey
from planish.ptir.rewrite import views as v
from planish.ptir.rules import draft as d
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.rules.shapes import moved_alike, resized, uniform, varies

ONE_TO_ONE: tuple[OpKey, ...] = (OpKey.ELEMENTWISE_UNARY, OpKey.CAST, OpKey.COMPLEX, OpKey.BITCAST)
SEVERAL_TO_ONE: tuple[OpKey, ...] = (
    OpKey.ELEMENTWISE_BINARY,
    OpKey.ELEMENTWISE_TERNARY,
    OpKey.COMPARE,
    OpKey.SELECT,
)


class PointwiseView(v.OpView, roots=(*ONE_TO_ONE, *SEVERAL_TO_ONE)):
    """Any op that makes each element of its result from the elements at the same place."""


def is_pointwise(inst: Inst) -> bool:
    """Elementwise, or a bitcast between dtypes of one width."""
    if inst.op is ops.bitcast:
        return inst.results[0].type.dims == inst.operands[0].type.dims
    return inst.op.elementwise


def _sink(mover: OpDef, op: v.OpView) -> Answer:
    """f(move(x), move(y), uniform) -> move(f(x, y, uniform))."""
    if not is_pointwise(op.inst):
        return "it changes the shape"
    moved, operands = moved_alike(op.operands, mover)
    return d.draft(mover, (d.elementwise(op.inst, operands),), moved.attrs)


@rule(benefit=3, roots=ONE_TO_ONE, operands=(ops.broadcast_to,))
def FuseUnaryThroughBroadcast(op: PointwiseView, spread: Inst) -> Answer:
    """f(broadcast_to(x, s)) -> broadcast_to(f(x), s); f(x) has the shape of x."""
    if len(op.operands) != 1 or not is_pointwise(op.inst):
        return "not an elementwise op of one operand"
    return d.broadcasted(d.elementwise(op.inst, (spread.operands[0],)), op.dims)


@rule(benefit=2, roots=(*SEVERAL_TO_ONE, OpKey.COMPLEX), any_operand=ops.broadcast_to)
def SinkBroadcastBelowElementwise(op: PointwiseView) -> Answer:
    """f(broadcast_to(x, s), broadcast_to(y, s)) -> broadcast_to(f(x, y), s) over the axes that all repeat along."""
    inst = op.inst
    if len(inst.operands) < 2:
        return "it has one operand"
    needed = set[int]()
    skip = len(op.dims)
    for value in inst.operands:
        definition = value.def_inst
        if definition is not None and definition.op is ops.broadcast_to:
            needed.update(axis for axis in range(len(op.dims)) if varies(definition, axis))
            skip = min(skip, len(op.dims) - definition.operands[0].type.rank)
        elif not uniform(value):
            return "an operand is not broadcast"
    kept: list[DimLike] = [dim if axis in needed else 1 for axis, dim in enumerate(op.dims)]
    # New leading axes go altogether, as far as all sources lack them.
    skip = min([skip, *needed])
    kept = kept[skip:]
    if tuple(kept) == op.dims:
        return "no axis repeats in all operands"
    operands = [_narrowed(value, kept) for value in inst.operands]
    return d.broadcasted(d.elementwise(inst, operands), op.dims)


def _narrowed(value: Value, dims: list[DimLike]) -> d.Term | None:
    definition = value.def_inst
    if definition is not None and definition.op is ops.broadcast_to:
        return d.broadcasted(definition.operands[0], dims)
    return resized(value, dims)


@rule(any_operand=ops.transpose)
def SinkTransposeBelowElementwise(op: PointwiseView) -> Answer:
    """f(transpose(x, p), transpose(y, p)) -> transpose(f(x, y), p)."""
    return _sink(ops.transpose, op)


@rule(any_operand=ops.reshape)
def SinkReshapeBelowElementwise(op: PointwiseView) -> Answer:
    """f(reshape(x, s), reshape(y, s)) -> reshape(f(x, y), s)."""
    return _sink(ops.reshape, op)


@rule(any_operand=ops.reverse)
def SinkReverseBelowElementwise(op: PointwiseView) -> Answer:
    """f(reverse(x, a), reverse(y, a)) -> reverse(f(x, y), a)."""
    return _sink(ops.reverse, op)


@rule(radius=2, roots=ONE_TO_ONE, alone=True)
def SinkPadBelowElementwise(op: PointwiseView, pad: v.PadView) -> Answer:
    """f(pad(x, v)) -> pad(f(x), f(v)) for a constant v, if nothing else needs the padded x."""
    if len(op.operands) != 1 or not is_pointwise(op.inst):
        return "not an elementwise op of one operand"
    if pad.padding.literal is None:
        return "the padding is not constant"
    attrs = pad.attrs
    inner, filler = (d.elementwise(op.inst, (value,)) for value in (pad.source, pad.padding))
    return d.padded(inner, filler, attrs.low, attrs.high, attrs.interior)


@rule(operands=((*ONE_TO_ONE, *SEVERAL_TO_ONE),), alone=True)
def LiftSliceAboveElementwise(op: v.SliceView, inner: Inst) -> Answer:
    """slice(f(x, y)) -> f(slice(x), slice(y)), if nothing else needs f(x, y)."""
    attrs = op.attrs
    return _lift(op, inner, lambda value: d.sliced(value, attrs.starts, attrs.limits, attrs.strides))


@rule(operands=((*ONE_TO_ONE, *SEVERAL_TO_ONE),), alone=True)
def LiftDynamicSliceAboveElementwise(op: v.DynamicSliceView, inner: Inst) -> Answer:
    """dynamic_slice(f(x, y), i) -> f(dynamic_slice(x, i), dynamic_slice(y, i)), if nothing else needs f(x, y)."""
    return _lift(op, inner, lambda value: d.draft(ops.dynamic_slice, (value, *op.starts), op.attrs))


def _lift(op: v.OpView, inner: Inst, sliced: Callable[[Value], d.Term | None]) -> Answer:
    if not is_pointwise(inner):
        return "the sliced op changes the shape"
    # One slice per value: f(x, x) stays f of one thing.
    cut = {x: resized(x, op.dims) if uniform(x) else sliced(x) for x in inner.operands}
    return d.elementwise(inner, [cut[value] for value in inner.operands])


populate_canonicalization = family(__name__)

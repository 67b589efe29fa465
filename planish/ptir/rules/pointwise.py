"""Movement meets elementwise ops: whatever keeps all elements moves below them, slices move above.

f(move(x)) -> move(f(x)) lets moves meet further down, where they cancel or are absorbed; f(broadcast(x)) ->
broadcast(f(x)) also computes less. slice(f(x)) -> f(slice(x)) computes less too, and is done where f is not
needed for anything else.
"""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.function import Inst, Value
from planish.ptir.ops.definition import OpDef, OpKey
from planish.ptir.rewrite import views as v
from planish.ptir.rewrite.prelude import ProgramRewriter
from planish.ptir.rules import draft as d
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.rules.shapes import resized, uniform, varies

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


def _sink(mover: OpDef, op: v.OpView, rw: ProgramRewriter) -> bool:
    """Replace f(move(x), move(y), uniform) by move(f(x, y, uniform))."""
    inst = op.inst
    if not is_pointwise(inst):
        return rw.fail(inst, "it changes the shape")
    moved: Inst | None = None
    for value in inst.operands:
        definition = value.def_inst
        if definition is not None and definition.op is mover:
            if moved is None:
                moved = definition
            elif (
                definition.attrs != moved.attrs
                or definition.operands[0].type.dims != moved.operands[0].type.dims
            ):
                return rw.fail(inst, f"its operands are moved by {mover.name} in different ways")
        elif not uniform(value):
            return rw.fail(inst, f"an operand is not moved by {mover.name}")
    if moved is None:
        return rw.fail(inst, f"no operand is moved by {mover.name}")
    dims = moved.operands[0].type.dims
    operands = [
        value.def_inst.operands[0]
        if value.def_inst is not None and value.def_inst.op is mover
        else resized(value, dims)
        for value in inst.operands
    ]
    return d.replace(rw, inst, d.draft(mover, (d.elementwise(inst, operands),), moved.attrs))


@rule(benefit=3, roots=ONE_TO_ONE, operands=(ops.broadcast_to,))
def FuseUnaryThroughBroadcast(op: PointwiseView) -> Answer:
    """f(broadcast_to(x, s)) -> broadcast_to(f(x), s); f(x) has the shape of x."""
    inst = op.inst
    spread = inst.operands[0].def_inst
    if spread is None or len(inst.operands) != 1 or not is_pointwise(inst):
        return "not an elementwise op of one operand"
    return d.broadcasted(d.elementwise(inst, (spread.operands[0],)), op.dims)


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
def SinkTransposeBelowElementwise(op: PointwiseView, rw: ProgramRewriter) -> Answer:
    """f(transpose(x, p), transpose(y, p)) -> transpose(f(x, y), p)."""
    return _sink(ops.transpose, op, rw)


@rule(any_operand=ops.reshape)
def SinkReshapeBelowElementwise(op: PointwiseView, rw: ProgramRewriter) -> Answer:
    """f(reshape(x, s), reshape(y, s)) -> reshape(f(x, y), s)."""
    return _sink(ops.reshape, op, rw)


@rule(any_operand=ops.reverse)
def SinkReverseBelowElementwise(op: PointwiseView, rw: ProgramRewriter) -> Answer:
    """f(reverse(x, a), reverse(y, a)) -> reverse(f(x, y), a)."""
    return _sink(ops.reverse, op, rw)


@rule(radius=2, roots=ONE_TO_ONE, operands=(ops.pad,), watch_uses=True)
def SinkPadBelowElementwise(op: PointwiseView) -> Answer:
    """f(pad(x, v)) -> pad(f(x), f(v)) for a constant v, if nothing else needs the padded x."""
    inst = op.inst
    pad = v.PadView.of(inst.operands[0])
    if pad is None or len(inst.operands) != 1 or not is_pointwise(inst):
        return "not an elementwise op of one operand"
    if pad.padding.literal is None:
        return "the padding is not constant"
    if not pad.result.has_one_use or pad.inst.parent is not inst.parent:
        return "the padded value is used elsewhere"
    attrs = pad.attrs
    inner = d.elementwise(inst, (pad.source,))
    filler = d.elementwise(inst, (pad.padding,))
    return d.padded(inner, filler, attrs.low, attrs.high, attrs.interior)


@rule(operands=((*ONE_TO_ONE, *SEVERAL_TO_ONE),), watch_uses=True)
def LiftSliceAboveElementwise(op: v.SliceView, inner: Inst) -> Answer:
    """slice(f(x, y)) -> f(slice(x), slice(y)), if nothing else needs f(x, y)."""
    if not is_pointwise(inner):
        return "the sliced op changes the shape"
    if not op.source.has_one_use or inner.parent is not op.inst.parent:
        return "the sliced value is used elsewhere"
    attrs = op.attrs
    # One slice per value: f(x, x) stays f of one thing.
    cut = {
        value: resized(value, op.dims)
        if uniform(value)
        else d.sliced(value, attrs.starts, attrs.limits, attrs.strides)
        for value in inner.operands
    }
    return d.elementwise(inner, [cut[value] for value in inner.operands])


@rule(operands=((*ONE_TO_ONE, *SEVERAL_TO_ONE),), watch_uses=True)
def LiftDynamicSliceAboveElementwise(op: v.DynamicSliceView, inner: Inst) -> Answer:
    """dynamic_slice(f(x, y), i) -> f(dynamic_slice(x, i), dynamic_slice(y, i)), if nothing else needs f(x, y)."""
    if not is_pointwise(inner):
        return "the sliced op changes the shape"
    if not op.source.has_one_use or inner.parent is not op.inst.parent:
        return "the sliced value is used elsewhere"
    cut = {
        value: resized(value, op.dims)
        if uniform(value)
        else d.draft(ops.dynamic_slice, (value, *op.starts), op.attrs)
        for value in inner.operands
    }
    return d.elementwise(inner, [cut[value] for value in inner.operands])


populate_canonicalization = family(__name__)

"""Concatenations: flattened, freed of parts that add nothing, and undone where the parts belong together anyway."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.function import Value
from planish.ptir.ops.checking import at_most
from planish.ptir.ops.literal import Literal
from planish.ptir.rewrite import views as v
from planish.ptir.rules import draft as d
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.rules.shapes import resized, uniform, varies

# As many elements as folding materialises elsewhere.
_CONSTANT_LIMIT: Final = 1 << 16


@rule(benefit=4)
def RemoveSingleConcat(op: v.ConcatView) -> Answer:
    """concat(x) -> x."""
    return op.parts[0] if len(op.parts) == 1 else "there are several parts"


@rule(benefit=3)
def DropEmptyParts(op: v.ConcatView) -> Answer:
    """concat(x, y: 0 elements along the axis) -> concat(x)."""
    axis = op.attrs.axis
    parts = [part for part in op.parts if part.type.dims[axis] != 0]
    if len(parts) == len(op.parts):
        return "every part may hold elements"
    return d.joined(parts or op.parts[:1], axis)


@rule(benefit=3, any_operand=ops.concat, watch_uses=True)
def FlattenConcat(op: v.ConcatView) -> Answer:
    """concat(concat(x, y; a), z; a) -> concat(x, y, z; a), if nothing else needs the inner one."""
    parts: list[Value] = []
    for part in op.parts:
        inner = v.ConcatView.of(part)
        own = inner is not None and part.has_one_use and inner.inst.parent is op.inst.parent
        if inner is not None and own and inner.attrs == op.attrs:
            parts += inner.parts
        else:
            parts.append(part)
    if len(parts) == len(op.parts):
        return "no part is a concat of its own along this axis"
    return d.joined(parts, op.attrs.axis)


Merge = Callable[[Value, Value, int], d.Term | None]


def _merge_neighbours(op: v.ConcatView, merge: Merge) -> Answer:
    """The concatenation with the first pair of neighbours one that `merge` makes one of."""
    parts: Sequence[Value] = op.parts
    axis = op.attrs.axis
    for index in range(len(parts) - 1):
        merged = merge(parts[index], parts[index + 1], axis)
        if merged is not None:
            return d.joined([*parts[:index], merged, *parts[index + 2 :]], axis)
    return "no neighbours belong together"


@rule(benefit=2, radius=2, any_operand=ops.slice_)
def MergeAdjacentSlices(op: v.ConcatView) -> Answer:
    """concat(x[a:b], x[b:c]) -> x[a:c]."""
    return _merge_neighbours(op, _merge_slices)


def _merge_slices(left: Value, right: Value, axis: int) -> d.Term | None:
    first, second = v.SliceView.of(left), v.SliceView.of(right)
    if first is None or second is None or first.source is not second.source:
        return None
    one, two = first.attrs, second.attrs
    for other in range(len(one.starts)):
        if one.strides[other] != two.strides[other]:
            return None
        if other != axis and (one.starts[other], one.limits[other]) != (two.starts[other], two.limits[other]):
            return None
    # The second begins where the first would go on.
    size = left.type.dims[axis]
    if two.starts[axis] != one.starts[axis] + size * one.strides[axis]:
        return None
    limits = (*one.limits[:axis], two.limits[axis], *one.limits[axis + 1 :])
    if not at_most(one.starts[axis], two.limits[axis]):
        return None
    return d.sliced(first.source, one.starts, limits, one.strides)


@rule(benefit=2, any_operand=ops.constant)
def MergeAdjacentConstants(op: v.ConcatView) -> Answer:
    """concat(constant, constant, x) -> concat(constant, x)."""
    return _merge_neighbours(op, _merge_constants)


def _merge_constants(left: Value, right: Value, axis: int) -> d.Term | None:
    first, second = left.literal, right.literal
    if first is None or second is None or left.type.quant != right.type.quant:
        return None
    quant = left.type.quant
    if quant is not None and quant.axis is not None:
        return None
    if first.splat and second.splat and first.with_shape(()) == second.with_shape(()):
        shape = list(first.shape)
        shape[axis] += second.shape[axis]
        return d.constant(first.with_shape(tuple(shape)), quant)
    if first.size + second.size > _CONSTANT_LIMIT:
        return None
    data = np.concatenate([first.array(), second.array()], axis)
    return d.constant(Literal(data, dtype=first.dtype), quant)


@rule(benefit=2, radius=2, any_operand=ops.broadcast_to)
def MergeAdjacentBroadcasts(op: v.ConcatView) -> Answer:
    """concat(broadcast_to(x, m), broadcast_to(x, n)) -> broadcast_to(x, m + n) along an axis that repeats."""
    return _merge_neighbours(op, _merge_broadcasts)


def _merge_broadcasts(left: Value, right: Value, axis: int) -> d.Term | None:
    first, second = v.BroadcastView.of(left), v.BroadcastView.of(right)
    if first is None or second is None or first.source is not second.source:
        return None
    if varies(first.inst, axis) or varies(second.inst, axis):
        return None
    dims: list[DimLike] = list(first.dims)
    dims[axis] = dims[axis] + second.dims[axis]
    return d.broadcasted(first.source, dims)


@rule(any_operand=(ops.constant, ops.broadcast_to))
def ReplaceConcatOfUniformByPad(op: v.ConcatView) -> Answer:
    """concat(x, splat v) -> pad(x, v); likewise with the splat first, or a broadcast scalar."""
    parts, axis, rank = op.parts, op.attrs.axis, len(op.dims)
    if len(parts) < 2:
        return "there is one part"
    low: list[DimLike] = [0] * rank
    high: list[DimLike] = [0] * rank
    if uniform(parts[-1]):
        filler, rest, high[axis] = parts[-1], parts[:-1], parts[-1].type.dims[axis]
    elif uniform(parts[0]):
        filler, rest, low[axis] = parts[0], parts[1:], parts[0].type.dims[axis]
    else:
        return "neither the first nor the last part is uniform"
    return d.padded(d.joined(rest, axis), resized(filler, ()), low, high, (0,) * rank)


populate_canonicalization = family(__name__)

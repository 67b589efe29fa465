"""Scatters that write nothing, nothing new, everything, or one place known beforehand."""

from __future__ import annotations

import numpy as np

from planish.ptir import ops
from planish.ptir.dims import DimLike, bounds
from planish.ptir.function import Value
from planish.ptir.ops import numerics
from planish.ptir.ops.literal import Literal
from planish.ptir.rewrite import views as v
from planish.ptir.rewrite.prelude import (
    ProgramRewriter,
    inverse_permutation,
    is_negative_zero,
    is_one,
    is_zero,
    literal_of,
)
from planish.ptir.rules import draft as d
from planish.ptir.rules.cast import counts_exactly
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.types import product


@rule(benefit=3)
def RemoveEmptyScatter(op: v.ScatterView) -> Answer:
    """scatter(x, no updates, i) -> x."""
    return op.source if 0 in op.updates.type.dims else "there may be updates"


@rule(benefit=2, radius=1)
def RemoveOutsideScatter(op: v.ScatterView) -> Answer:
    """scatter(x, u, constant i outside of x) -> x: such updates are dropped."""
    for value, axis in zip(op.indices, op.attrs.axes, strict=True):
        literal = value.literal
        if literal is None:
            continue
        index = numerics.widen(literal.data)
        if bool(np.all((index < 0) | (index >= bounds(op.dims[axis])[1]))):
            return op.source
    return "an index may lie inside"


@rule(benefit=2, operands=(None, ops.constant))
def RemoveScatterOfIdentity(op: v.ScatterView) -> Answer:
    """scatter(x, 0, i; add) -> x; likewise 1 for mul, and the extremes for min and max."""
    return op.source if _is_identity(op.attrs.kind, op.updates) else "the updates may change something"


def _is_identity(kind: str, updates: Value) -> bool:
    dtype, literal = updates.type.dtype, literal_of(updates)
    if literal is None or not literal.splat:
        return False
    if kind == "add":
        return is_zero(updates) if dtype.is_int else is_negative_zero(updates)
    if kind == "mul":
        # Multiplying complex numbers mixes the parts: inf·(1 + 0i) is not inf.
        return is_one(updates) and not dtype.is_complex
    if kind in ("min", "max"):
        extreme = numerics.highest(dtype) if kind == "min" else numerics.lowest(dtype)
        return literal.with_shape(()) == Literal.full(dtype, (), extreme)
    return False


@rule(benefit=2, radius=1)
def ReplaceWholeScatter(op: v.ScatterView) -> Answer:
    """scatter(x, u, iota(n); a) -> u with its first axis at a, where n is the size of a: all is written."""
    line = v.IotaView.of(op.indices[0])
    if op.attrs.kind != "replace" or len(op.indices) != 1 or line is None or len(line.dims) != 1:
        return "not a replacement along one line"
    axis = op.attrs.axes[0]
    count = line.dims[0]
    if count != op.dims[axis] or not counts_exactly(line.dtype, bounds(count)[1] - 1):
        return "some of it may stay"
    front = [axis, *[other for other in range(len(op.dims)) if other != axis]]
    return d.transposed(op.updates, inverse_permutation(front))


@rule(radius=1)
def ReplaceScatterByUpdate(op: v.ScatterView) -> Answer:
    """scatter(x, u, one constant i inside; replace) -> dynamic_update_slice(x, u, i)."""
    if op.attrs.kind != "replace" or product(op.indices[0].type.dims) != 1:
        return "not a replacement at one place"
    dtype = op.indices[0].type.dtype
    starts = [0] * len(op.dims)
    window: list[DimLike] = list(op.dims)
    for value, axis in zip(op.indices, op.attrs.axes, strict=True):
        item = None if value.literal is None else value.literal.item
        if not isinstance(item, int) or not 0 <= item < bounds(op.dims[axis])[0]:
            return f"the place along axis {axis} is not known to lie inside"
        starts[axis], window[axis] = item, 1
    places = [d.constant(Literal.full(dtype, (), start)) for start in starts]
    return d.draft(ops.dynamic_update_slice, (op.source, d.reshaped(op.updates, window), *places))


@rule(radius=1)
def MarkUniqueScatter(op: v.ScatterView, rw: ProgramRewriter) -> Answer:
    """scatter(x, u, i) -> scatter(x, u, i; unique_indices) where i is one place, or constant without repetition."""
    attrs = op.attrs
    if attrs.unique_indices:
        return "it is marked"
    if product(op.indices[0].type.dims) != 1:
        literals = [value.literal for value in op.indices]
        known = [literal for literal in literals if literal is not None]
        if len(known) != len(literals):
            return "the indices are not known"
        places = list(zip(*[literal.array().ravel().tolist() for literal in known], strict=True))
        if len(set(places)) != len(places):
            return "a place is written twice"
    rw.set_attrs(op.inst, ops.ScatterAttrs(attrs.axes, attrs.kind, unique_indices=True))
    return True


populate_canonicalization = family(__name__)

"""Scatters that write nothing, nothing new, everything, or one place known beforehand."""

from __future__ import annotations

import numpy as np

from planish.ptir import ops
from planish.ptir.dims import DimLike, bounds
from planish.ptir.function import Value
from planish.ptir.ops import numerics
from planish.ptir.ops.literal import Literal
from planish.ptir.rewrite.prelude import (
    IotaView,
    OpRewritePattern,
    PatternSet,
    ProgramRewriter,
    ScatterView,
    inverse_permutation,
    is_negative_zero,
    is_one,
    is_zero,
    literal_of,
)
from planish.ptir.rules import draft as d
from planish.ptir.rules.cast import counts_exactly
from planish.ptir.types import product


class RemoveEmptyScatter(OpRewritePattern[ScatterView]):
    """scatter(x, no updates, i) -> x."""

    benefit = 3
    radius = 0

    def match_and_rewrite(self, op: ScatterView, rw: ProgramRewriter) -> bool:
        if 0 not in op.updates.type.dims:
            return rw.fail(op.inst, "there may be updates")
        return d.replace(rw, op.inst, op.source)


class RemoveOutsideScatter(OpRewritePattern[ScatterView]):
    """scatter(x, u, constant i outside of x) -> x: such updates are dropped."""

    benefit = 2
    radius = 1

    def match_and_rewrite(self, op: ScatterView, rw: ProgramRewriter) -> bool:
        for value, axis in zip(op.indices, op.attrs.axes, strict=True):
            literal = value.literal
            if literal is None:
                continue
            index = numerics.widen(literal.data)
            if bool(np.all((index < 0) | (index >= bounds(op.dims[axis])[1]))):
                return d.replace(rw, op.inst, op.source)
        return rw.fail(op.inst, "an index may lie inside")


class RemoveScatterOfIdentity(OpRewritePattern[ScatterView]):
    """scatter(x, 0, i; add) -> x; likewise 1 for mul, and the extremes for min and max."""

    benefit = 2
    radius = 1
    operands = (None, ops.constant)

    def match_and_rewrite(self, op: ScatterView, rw: ProgramRewriter) -> bool:
        if not _is_identity(op.attrs.kind, op.updates):
            return rw.fail(op.inst, "the updates may change something")
        return d.replace(rw, op.inst, op.source)


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


class ReplaceWholeScatter(OpRewritePattern[ScatterView]):
    """scatter(x, u, iota(n); a) -> u with its first axis at a, where n is the size of a: all is written."""

    benefit = 2
    radius = 1

    def match_and_rewrite(self, op: ScatterView, rw: ProgramRewriter) -> bool:
        line = IotaView.of(op.indices[0])
        if op.attrs.kind != "replace" or len(op.indices) != 1 or line is None or len(line.dims) != 1:
            return rw.fail(op.inst, "not a replacement along one line")
        axis = op.attrs.axes[0]
        count = line.dims[0]
        if count != op.dims[axis] or not counts_exactly(line.dtype, bounds(count)[1] - 1):
            return rw.fail(op.inst, "some of it may stay")
        front = [axis, *[other for other in range(len(op.dims)) if other != axis]]
        return d.replace(rw, op.inst, d.transposed(op.updates, inverse_permutation(front)))


class ReplaceScatterByUpdate(OpRewritePattern[ScatterView]):
    """scatter(x, u, one constant i inside; replace) -> dynamic_update_slice(x, u, i)."""

    radius = 1

    def match_and_rewrite(self, op: ScatterView, rw: ProgramRewriter) -> bool:
        if op.attrs.kind != "replace" or product(op.indices[0].type.dims) != 1:
            return rw.fail(op.inst, "not a replacement at one place")
        dtype = op.indices[0].type.dtype
        starts = [0] * len(op.dims)
        window: list[DimLike] = list(op.dims)
        for value, axis in zip(op.indices, op.attrs.axes, strict=True):
            item = None if value.literal is None else value.literal.item
            if not isinstance(item, int) or not 0 <= item < bounds(op.dims[axis])[0]:
                return rw.fail(op.inst, f"the place along axis {axis} is not known to lie inside")
            starts[axis], window[axis] = item, 1
        places = [d.constant(Literal.full(dtype, (), start)) for start in starts]
        return d.replace(
            rw,
            op.inst,
            d.draft(ops.dynamic_update_slice, (op.source, d.reshaped(op.updates, window), *places)),
        )


class MarkUniqueScatter(OpRewritePattern[ScatterView]):
    """scatter(x, u, i) -> scatter(x, u, i; unique_indices) where i is one place, or constant without repetition."""

    radius = 1

    def match_and_rewrite(self, op: ScatterView, rw: ProgramRewriter) -> bool:
        attrs = op.attrs
        if attrs.unique_indices:
            return rw.fail(op.inst, "it is marked")
        if product(op.indices[0].type.dims) != 1:
            literals = [value.literal for value in op.indices]
            known = [literal for literal in literals if literal is not None]
            if len(known) != len(literals):
                return rw.fail(op.inst, "the indices are not known")
            places = list(zip(*[literal.array().ravel().tolist() for literal in known], strict=True))
            if len(set(places)) != len(places):
                return rw.fail(op.inst, "a place is written twice")
        rw.set_attrs(op.inst, ops.ScatterAttrs(attrs.axes, attrs.kind, unique_indices=True))
        return True


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns rooted at scatters."""
    patterns.add(
        RemoveEmptyScatter,
        RemoveOutsideScatter,
        RemoveScatterOfIdentity,
        ReplaceWholeScatter,
        ReplaceScatterByUpdate,
        MarkUniqueScatter,
    )

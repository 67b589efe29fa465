"""Transposes: composed, cancelled, and kept between what slices (above) and what reshapes or repeats (below)."""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.rewrite.prelude import (
    BroadcastView,
    ConcatView,
    OpRewritePattern,
    PadView,
    PatternSet,
    ProgramRewriter,
    ReshapeView,
    TransposeView,
    compose_permutations,
    inverse_permutation,
    is_identity_permutation,
)
from planish.ptir.rules import draft as d
from planish.ptir.rules.shapes import match_axes, resized, uniform


class RemoveIdentityTranspose(OpRewritePattern[TransposeView]):
    """transpose(x, (0, 1, …)) -> x."""

    benefit = 3
    radius = 0

    def match_and_rewrite(self, op: TransposeView, rw: ProgramRewriter) -> bool:
        if not is_identity_permutation(op.perm):
            return rw.fail(op.inst, "an axis moves")
        rw.replace_op(op.inst, op.source)
        return True


class FoldTransposeOfTranspose(OpRewritePattern[TransposeView]):
    """transpose(transpose(x, p), q) -> transpose(x, p[q]), or x where that is the identity."""

    benefit = 2
    radius = 1
    operands = (ops.transpose,)

    def match_and_rewrite(self, op: TransposeView, rw: ProgramRewriter) -> bool:
        inner = TransposeView.of(op.source)
        if inner is None:
            return False
        perm = compose_permutations(inner.perm, op.perm)
        return d.replace(rw, op.inst, d.transposed(inner.source, perm))


class ReplaceTransposeByReshape(OpRewritePattern[TransposeView]):
    """transpose(x, p) -> reshape(x) where only axes of size 1 change places."""

    radius = 0

    def match_and_rewrite(self, op: TransposeView, rw: ProgramRewriter) -> bool:
        sizes = op.source.type.dims
        kept = [axis for axis in op.perm if sizes[axis] != 1]
        if kept != sorted(kept) or is_identity_permutation(op.perm):
            return rw.fail(op.inst, "no axis moves, or one that may hold several elements")
        return d.replace(rw, op.inst, d.reshaped(op.source, op.dims))


class SinkReshapeBelowTranspose(OpRewritePattern[TransposeView]):
    """transpose(reshape(x, s), p) -> reshape(transpose(x, q), s[p]) where p keeps together what x holds in one axis."""

    radius = 1
    operands = (ops.reshape,)

    def match_and_rewrite(self, op: TransposeView, rw: ProgramRewriter) -> bool:
        inner = ReshapeView.of(op.source)
        if inner is None:
            return False
        x = inner.source
        groups = match_axes(x.type.dims, inner.dims)
        if groups is None:
            return rw.fail(op.inst, "the reshape keeps no axes apart")
        by_first = {group.target[0]: group for group in groups}
        moved = [axis for axis in op.perm if inner.dims[axis] != 1]
        order: list[int] = []
        at = 0
        while at < len(moved):
            group = by_first.get(moved[at])
            if group is None or tuple(moved[at : at + len(group.target)]) != group.target:
                return rw.fail(op.inst, "the transpose takes apart what the reshape split")
            order += group.source
            at += len(group.target)
        # Axes of size 1 stay where they are; the reshape below puts them anywhere.
        places = [axis for axis, dim in enumerate(x.type.dims) if dim != 1]
        perm = list(range(x.type.rank))
        for place, axis in zip(places, order, strict=True):
            perm[place] = axis
        return d.replace(rw, op.inst, d.reshaped(d.transposed(x, perm), op.dims))


class SinkBroadcastBelowTranspose(OpRewritePattern[TransposeView]):
    """transpose(broadcast_to(x, s), p) -> broadcast_to(transpose(x, q), s[p]), x with all axes written out."""

    radius = 1
    operands = (ops.broadcast_to,)

    def match_and_rewrite(self, op: TransposeView, rw: ProgramRewriter) -> bool:
        inner = BroadcastView.of(op.source)
        if inner is None:
            return False
        x = inner.source
        lead = len(op.dims) - x.type.rank
        full = d.reshaped(x, (1,) * lead + x.type.dims) if x.type.rank else x
        source = d.transposed(full, op.perm) if x.type.rank else x
        return d.replace(rw, op.inst, d.broadcasted(source, op.dims))


class SinkPadBelowTranspose(OpRewritePattern[TransposeView]):
    """transpose(pad(x, v), p) -> pad(transpose(x, p), v), if nothing else needs the padded x."""

    radius = 1
    watch_uses = True
    operands = (ops.pad,)

    def match_and_rewrite(self, op: TransposeView, rw: ProgramRewriter) -> bool:
        inner = PadView.of(op.source)
        if inner is None:
            return False
        if not op.source.has_one_use or inner.inst.parent is not op.inst.parent:
            return rw.fail(op.inst, "the padded value is used elsewhere")
        attrs, perm = inner.attrs, op.perm
        moved = d.padded(
            d.transposed(inner.source, perm),
            inner.padding,
            [attrs.low[axis] for axis in perm],
            [attrs.high[axis] for axis in perm],
            [attrs.interior[axis] for axis in perm],
        )
        return d.replace(rw, op.inst, moved)


class SinkTransposeBelowConcat(OpRewritePattern[ConcatView]):
    """concat(transpose(x, p), transpose(y, p); a) -> transpose(concat(x, y; p[a]), p)."""

    radius = 1
    any_operand = ops.transpose

    def match_and_rewrite(self, op: ConcatView, rw: ProgramRewriter) -> bool:
        perm: tuple[int, ...] | None = None
        for part in op.parts:
            moved = TransposeView.of(part)
            if moved is not None and perm in (None, moved.perm):
                perm = moved.perm
            elif moved is not None or not uniform(part):
                return rw.fail(op.inst, "a part is not transposed, or in another way")
        if perm is None:
            return rw.fail(op.inst, "no part is transposed")
        back = inverse_permutation(perm)
        parts: list[d.Term | None] = []
        for part in op.parts:
            moved = TransposeView.of(part)
            if moved is not None:
                parts.append(moved.source)
            else:
                parts.append(resized(part, [part.type.dims[axis] for axis in back]))
        return d.replace(rw, op.inst, d.transposed(d.joined(parts, perm[op.attrs.axis]), perm))


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns rooted at transposes."""
    patterns.add(
        RemoveIdentityTranspose,
        FoldTransposeOfTranspose,
        ReplaceTransposeByReshape,
        SinkReshapeBelowTranspose,
        SinkBroadcastBelowTranspose,
        SinkPadBelowTranspose,
        SinkTransposeBelowConcat,
    )

"""Transposes: composed, cancelled, and kept between what slices (above) and what reshapes or repeats (below)."""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.rewrite import views as v
from planish.ptir.rewrite.prelude import compose_permutations, inverse_permutation, is_identity_permutation
from planish.ptir.rules import draft as d
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.rules.shapes import axis_groups, resized, uniform


@rule(benefit=3)
def RemoveIdentityTranspose(op: v.TransposeView) -> Answer:
    """transpose(x, (0, 1, …)) -> x."""
    return op.source if is_identity_permutation(op.perm) else "an axis moves"


@rule(benefit=2)
def FoldTransposeOfTranspose(op: v.TransposeView, inner: v.TransposeView) -> Answer:
    """transpose(transpose(x, p), q) -> transpose(x, p[q]), or x where that is the identity."""
    perm = compose_permutations(inner.perm, op.perm)
    return d.transposed(inner.source, perm)


@rule()
def ReplaceTransposeByReshape(op: v.TransposeView) -> Answer:
    """transpose(x, p) -> reshape(x) where only axes of size 1 change places."""
    sizes = op.source.type.dims
    kept = [axis for axis in op.perm if sizes[axis] != 1]
    if kept != sorted(kept) or is_identity_permutation(op.perm):
        return "no axis moves, or one that may hold several elements"
    return d.reshaped(op.source, op.dims)


@rule()
def SinkReshapeBelowTranspose(op: v.TransposeView, inner: v.ReshapeView) -> Answer:
    """transpose(reshape(x, s), p) -> reshape(transpose(x, q), s[p]) where p keeps together what x holds in one axis."""
    x = inner.source
    groups = axis_groups(x.type.dims, inner.dims)
    by_first = {group.target[0]: group for group in groups}
    moved = [axis for axis in op.perm if inner.dims[axis] != 1]
    order: list[int] = []
    at = 0
    while at < len(moved):
        group = by_first.get(moved[at])
        if group is None or tuple(moved[at : at + len(group.target)]) != group.target:
            return "the transpose takes apart what the reshape split"
        order += group.source
        at += len(group.target)
    # Axes of size 1 stay where they are; the reshape below puts them anywhere.
    places = [axis for axis, dim in enumerate(x.type.dims) if dim != 1]
    perm = list(range(x.type.rank))
    for place, axis in zip(places, order, strict=True):
        perm[place] = axis
    return d.reshaped(d.transposed(x, perm), op.dims)


@rule()
def SinkBroadcastBelowTranspose(op: v.TransposeView, inner: v.BroadcastView) -> Answer:
    """transpose(broadcast_to(x, s), p) -> broadcast_to(transpose(x, q), s[p]), x with all axes written out."""
    x = inner.source
    lead = len(op.dims) - x.type.rank
    full = d.reshaped(x, (1,) * lead + x.type.dims) if x.type.rank else x
    source = d.transposed(full, op.perm) if x.type.rank else x
    return d.broadcasted(source, op.dims)


@rule(alone=True)
def SinkPadBelowTranspose(op: v.TransposeView, inner: v.PadView) -> Answer:
    """transpose(pad(x, v), p) -> pad(transpose(x, p), v), if nothing else needs the padded x."""
    attrs, perm = inner.attrs, op.perm
    return d.padded(
        d.transposed(inner.source, perm),
        inner.padding,
        [attrs.low[axis] for axis in perm],
        [attrs.high[axis] for axis in perm],
        [attrs.interior[axis] for axis in perm],
    )


@rule(any_operand=ops.transpose)
def SinkTransposeBelowConcat(op: v.ConcatView) -> Answer:
    """concat(transpose(x, p), transpose(y, p); a) -> transpose(concat(x, y; p[a]), p)."""
    perm: tuple[int, ...] | None = None
    for part in op.parts:
        moved = v.TransposeView.of(part)
        if moved is not None and perm in (None, moved.perm):
            perm = moved.perm
        elif moved is not None or not uniform(part):
            return "a part is not transposed, or in another way"
    if perm is None:
        return "no part is transposed"
    back = inverse_permutation(perm)
    parts: list[d.Term | None] = []
    for part in op.parts:
        moved = v.TransposeView.of(part)
        if moved is not None:
            parts.append(moved.source)
        else:
            parts.append(resized(part, [part.type.dims[axis] for axis in back]))
    return d.transposed(d.joined(parts, perm[op.attrs.axis]), perm)


populate_canonicalization = family(__name__)

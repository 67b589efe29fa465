"""Slices: composed, and moved above everything that would otherwise move or make elements nobody reads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from planish.ptir import ops
from planish.ptir.dims import DimLike, bounds, product
from planish.ptir.ops.checking import at_most
from planish.ptir.rewrite import views as v
from planish.ptir.rewrite.prelude import inverse_permutation
from planish.ptir.rules import draft as d
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.rules.shapes import axis_groups, constant_start, others, source_axis, varies


def is_whole(op: v.SliceView, axis: int) -> bool:
    """Whether a slice takes every element of an axis."""
    attrs = op.attrs
    whole = attrs.limits[axis] == op.source.type.dims[axis]
    return attrs.starts[axis] == 0 and attrs.strides[axis] == 1 and whole


@rule(benefit=3)
def RemoveWholeSlice(op: v.SliceView) -> Answer:
    """x[0:n] -> x: n."""
    return op.source if all(is_whole(op, axis) for axis in range(len(op.dims))) else "elements are left out"


@rule(benefit=2)
def FoldSliceOfSlice(op: v.SliceView, inner: v.SliceView) -> Answer:
    """x[a:b:s][c:d:t] -> x[a + c·s : … : s·t]."""
    one, two = inner.attrs, op.attrs
    starts: list[DimLike] = []
    limits: list[DimLike] = []
    for axis in range(len(op.dims)):
        step = one.strides[axis]
        starts.append(one.starts[axis] + two.starts[axis] * step)
        limit = two.limits[axis]
        if step == 1:
            limits.append(one.starts[axis] + limit)
        elif bounds(op.dims[axis])[0] >= 1:
            # Up to and with the last element that the inner slice would have given.
            limits.append(one.starts[axis] + (limit - 1) * step + 1)
        else:
            return f"axis {axis} may be empty, and its end is not an element"
    strides = [s * t for s, t in zip(one.strides, two.strides, strict=True)]
    return d.sliced(inner.source, starts, limits, strides)


@rule()
def TightenSlice(op: v.SliceView) -> Answer:
    """x[a:b:s] of n elements -> x[a : a + (n - 1)·s + 1 : s], with s = 1 if n = 1."""
    attrs = op.attrs
    limits, strides = list(attrs.limits), list(attrs.strides)
    for axis, size in enumerate(op.dims):
        if strides[axis] == 1 or not isinstance(size, int) or size < 1:
            continue
        limits[axis] = attrs.starts[axis] + (size - 1) * strides[axis] + 1
        if size == 1:
            strides[axis] = 1
    if (tuple(limits), tuple(strides)) == (attrs.limits, attrs.strides):
        return "every limit is tight"
    return d.sliced(op.source, attrs.starts, limits, strides)


@rule()
def LiftSliceAboveTranspose(op: v.SliceView, inner: v.TransposeView) -> Answer:
    """transpose(x, p)[s] -> transpose(x[s by p], p)."""
    attrs, back = op.attrs, inverse_permutation(inner.perm)
    part = d.sliced(
        inner.source,
        [attrs.starts[axis] for axis in back],
        [attrs.limits[axis] for axis in back],
        [attrs.strides[axis] for axis in back],
    )
    return d.transposed(part, inner.perm)


@rule()
def LiftSliceAboveBroadcast(op: v.SliceView, inner: v.BroadcastView) -> Answer:
    """broadcast_to(x, t)[s] -> broadcast_to(x[s along the axes of x])."""
    x, attrs = inner.source, op.attrs
    cut = d.Cut(x)
    for axis in range(len(op.dims)):
        source = source_axis(inner.inst, axis)
        if source is not None and varies(inner.inst, axis):
            cut[source] = attrs.starts[axis], attrs.limits[axis], attrs.strides[axis]
    return d.broadcasted(cut.term(), op.dims)


@rule()
def LiftSliceAboveReshape(op: v.SliceView, inner: v.ReshapeView) -> Answer:
    """reshape(x, t)[s] -> reshape(x[s]) where the sliced axes are axes of x, or the first of what one was split into."""
    x, attrs = inner.source, op.attrs
    groups = axis_groups(x.type.dims, inner.dims)
    cut = [axis for axis in range(len(op.dims)) if not is_whole(op, axis)]
    if any(inner.dims[axis] == 1 for axis in cut):
        return "an axis of size 1 is sliced away"
    part = d.Cut(x)
    for group in groups:
        touched = [axis for axis in group.target if axis in cut]
        if not touched:
            continue
        first, source = group.target[0], group.source[0]
        # Rows of the split axis lie behind each other: one step of it is `step` steps of the source axis.
        block = product(inner.dims[axis] for axis in group.target[1:])
        below = product(x.type.dims[axis] for axis in group.source[1:])
        step = block // below if bounds(below)[0] >= 1 else 0
        if touched != [first] or step * below != block:
            return "a slice inside what one axis was split into"
        if attrs.strides[first] != 1 and not group.single:
            return "a stride over what one axis was split into"
        part[source] = attrs.starts[first] * step, attrs.limits[first] * step, attrs.strides[first]
    return d.reshaped(part.term(), op.dims)


@rule()
def LiftSliceAboveReverse(op: v.SliceView, inner: v.ReverseView) -> Answer:
    """reverse(x, a)[s] -> reverse(x[s counted from the end along a], a)."""
    attrs = op.attrs
    starts, limits = list(attrs.starts), list(attrs.limits)
    for axis in inner.attrs.axes:
        size, step = inner.dims[axis], attrs.strides[axis]
        if step == 1:
            starts[axis] = size - attrs.limits[axis]
        elif bounds(op.dims[axis])[0] >= 1:
            starts[axis] = size - 1 - attrs.starts[axis] - (op.dims[axis] - 1) * step
        else:
            return f"axis {axis} may be empty, and its last element unknown"
        limits[axis] = size - attrs.starts[axis]
    part = d.sliced(inner.source, starts, limits, attrs.strides)
    return d.backwards(part, inner.attrs.axes)


@rule()
def LiftSliceAbovePad(op: v.SliceView, inner: v.PadView) -> Answer:
    """pad(x, v)[s] -> x[t], pad(x[t], v) or broadcast_to(v): whatever of x and v the slice sees.

    The second only if nobody else uses the padded tensor: what is padded once is stored once. Nor does the first if it is one of
    several slices of a size, as of a stencil, of which others see padding: those are read from one tensor.
    """
    x, attrs, rank = inner.source, op.attrs, len(op.dims)
    cut = d.Cut(x)
    low: list[DimLike] = list(inner.attrs.low)
    high: list[DimLike] = list(inner.attrs.high)
    for axis in range(rank):
        if is_whole(op, axis):
            continue
        if inner.attrs.interior[axis]:
            return f"axis {axis} is spread"
        start, limit, step = attrs.starts[axis], attrs.limits[axis], attrs.strides[axis]
        begin, end = low[axis], low[axis] + x.type.dims[axis]
        if at_most(limit, begin) or at_most(end, start):
            return d.broadcasted(inner.padding, op.dims)
        if at_most(begin, start) and at_most(limit, end):
            low[axis] = high[axis] = 0
            cut[axis] = start - begin, limit - begin, step
            continue
        if step != 1:
            return f"axis {axis} takes every {step}th of data and padding"
        first, last = _larger(start, begin), _smaller(limit, end)
        if first is None or last is None:
            return f"where axis {axis} meets the padding is not known"
        low[axis], high[axis] = first - start, limit - last
        cut[axis] = first - begin, last - begin, 1
    if any(part != 0 for part in (*low, *high)) and not op.source.has_one_use:
        # several paddings of parts would be asked for where one of the whole is
        return "some padding is left, and others use the padded tensor too"
    if _has_neighbours(op, inner):
        return "slices of its size see the padding"
    return d.padded(cut.term(), inner.padding, low, high, inner.attrs.interior)


_LOOKED_AT: Final = 32
"""Users of a padded tensor among which others are looked for: of thousands, each slice would look at all."""


def _has_neighbours(op: v.SliceView, inner: v.PadView) -> bool:
    """Whether other slices of a padded tensor are of the same size, and see padding."""
    begins, dims = inner.attrs.low, inner.source.type.dims
    users = islice(op.source.users, _LOOKED_AT)
    slices = (v.SliceView.of(user.results[0]) for user in users if user.results and user is not op.inst)
    return any(
        each is not None
        and each.dims == op.dims
        and not all(
            at_most(begin, start) and at_most(limit, begin + dim)
            for begin, dim, start, limit in zip(
                begins, dims, each.attrs.starts, each.attrs.limits, strict=True
            )
        )
        for each in slices
    )


def _larger(left: DimLike, right: DimLike) -> DimLike | None:
    return right if at_most(left, right) else left if at_most(right, left) else None


def _smaller(left: DimLike, right: DimLike) -> DimLike | None:
    return left if at_most(left, right) else right if at_most(right, left) else None


@rule(watch_uses=True)
def LiftSliceAboveConcat(op: v.SliceView, inner: v.ConcatView) -> Answer:
    """concat(x, y)[s] -> x[s], or concat(x[s], y[t]) if nothing else needs the whole."""
    axis, parts, attrs = inner.attrs.axis, inner.parts, op.attrs
    start, limit, step = attrs.starts[axis], attrs.limits[axis], attrs.strides[axis]
    begins: list[DimLike] = [0]
    for part in parts:
        begins.append(begins[-1] + part.type.dims[axis])
    first, last = 0, len(parts)
    while first + 1 < last and at_most(begins[first + 1], start):
        first += 1
    while first + 1 < last and at_most(limit, begins[last - 1]):
        last -= 1
    own = op.source.has_one_use and inner.inst.parent is op.inst.parent

    def cut(term: d.Term | None, begin: DimLike, end: DimLike) -> d.Term | None:
        starts = _with(attrs.starts, axis, begin)
        return d.sliced(term, starts, _with(attrs.limits, axis, end), attrs.strides)

    if own and step == 1:
        pieces: list[d.Term | None] = []
        for index in range(first, last):
            begin, end = begins[index], begins[index + 1]
            low = start if index == first else begin
            high = limit if index == last - 1 else end
            known = at_most(begin, low) and at_most(low, high) and at_most(high, end)
            pieces.append(cut(parts[index], low - begin, high - begin) if known else None)
        if None not in pieces:
            return d.joined(pieces, axis)
    if last - first == len(parts):
        return "the slice needs every part, and the whole is used elsewhere or strided over"
    whole = d.joined(parts[first:last], axis)
    return cut(whole, start - begins[first], limit - begins[first])


def _with(items: Sequence[DimLike], index: int, item: DimLike) -> list[DimLike]:
    return [*items[:index], item, *items[index + 1 :]]


@rule(alone=True)
def LiftSliceAboveGather(op: v.SliceView, inner: v.GatherView) -> Answer:
    """gather(x, i)[s] -> gather(x[s], i[t]), if nothing else needs the whole."""
    x, attrs = inner.source, op.attrs
    lead = inner.operands[1].type.rank
    cut = d.Cut(x)
    for position, axis in enumerate(others(x.type.dims, inner.attrs.axes), lead):
        cut[axis] = attrs.starts[position], attrs.limits[position], attrs.strides[position]
    indices = [
        d.sliced(index, attrs.starts[:lead], attrs.limits[:lead], attrs.strides[:lead])
        for index in inner.operands[1:]
    ]
    return d.draft(ops.gather, (cut.term(), *indices), inner.attrs)


@rule()
def FoldSliceOfIota(op: v.SliceView, inner: v.IotaView) -> Answer:
    """iota(n)[a:b:s] -> iota(m)·s + a, for integers; iota(n)[0:m] -> iota(m)."""
    if len(op.dims) != 1:
        return "not a line"
    start, step = op.attrs.starts[0], op.attrs.strides[0]
    if (start != 0 or step != 1) and not op.dtype.is_int:
        return "floats would be rounded twice"
    if not isinstance(start, int):
        return "the first number is not known"
    line: d.Term | None = d.draft(ops.iota, (), ops.IotaAttrs(op.dtype, op.dims, 0))
    if step != 1:
        line = d.draft(ops.mul, (line, d.number(step, op.type)))
    if start != 0:
        line = d.draft(ops.add, (line, d.number(start, op.type)))
    return line


@rule(radius=2)
def ForwardSliceOfUpdate(op: v.SliceView, inner: v.DynamicUpdateSliceView) -> Answer:
    """dynamic_update_slice(x, u, i)[s] -> u[t] inside the window, x[s] outside it, for constant i."""
    attrs, window = op.attrs, inner.update.type.dims
    within = True
    shifted: list[list[DimLike]] = [[], []]
    for axis, position in enumerate(inner.starts):
        begin = constant_start(position.literal, inner.dims[axis], window[axis])
        if begin is None:
            return f"where the window begins along axis {axis} is not known"
        start, limit = attrs.starts[axis], attrs.limits[axis]
        if at_most(limit, begin) or at_most(begin + window[axis], start):
            return d.sliced(inner.source, attrs.starts, attrs.limits, attrs.strides)
        within = within and at_most(begin, start) and at_most(limit, begin + window[axis])
        shifted[0].append(start - begin)
        shifted[1].append(limit - begin)
    if not within:
        return "the slice sees both sides of the window's edge"
    return d.sliced(inner.update, shifted[0], shifted[1], attrs.strides)


populate_canonicalization = family(__name__)

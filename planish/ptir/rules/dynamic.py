"""Windows at run-time positions: ordinary slices and pads once the position is known, and reads of what was written."""

from __future__ import annotations

from collections.abc import Sequence

from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.function import Value
from planish.ptir.ops.definition import Attrs, OpKey
from planish.ptir.ops.literal import Literal
from planish.ptir.rewrite import views as v
from planish.ptir.rewrite.prelude import ProgramRewriter, inverse_permutation
from planish.ptir.rules import draft as d
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.rules.shapes import constant_start, resized, same_scalar, source_axis, uniform, varies


class WindowView(v.SourceView[Attrs], roots=(OpKey.DYNAMIC_SLICE, OpKey.DYNAMIC_UPDATE_SLICE)):
    """`dynamic_slice` or `dynamic_update_slice`."""

    @property
    def window(self) -> tuple[DimLike, ...]:
        """The size of the window."""
        return self.dims if self.op is ops.dynamic_slice else self.operands[1].type.dims

    @property
    def first_start(self) -> int:
        """The operand that holds the first start."""
        return 1 if self.op is ops.dynamic_slice else 2


def constant_starts(
    starts: Sequence[Value], sizes: Sequence[DimLike], window: Sequence[DimLike]
) -> list[int]:
    """Where a window lies, if that is known for every axis."""
    positions = [constant_start(s.literal, n, w) for s, n, w in zip(starts, sizes, window, strict=True)]
    known = [start for start in positions if start is not None]
    if len(known) < len(positions):
        raise d.Declined("where the window begins is not known")
    return known


@rule(radius=1)
def NormalizeStart(op: WindowView, rw: ProgramRewriter) -> Answer:
    """dynamic_slice(x, i) -> dynamic_slice(x, clamped i) for constants; 0 where the window is the whole axis."""
    operands = list(op.operands)
    sizes = op.source.type.dims
    for axis, window in enumerate(op.window):
        value = operands[op.first_start + axis]
        start = 0 if window == sizes[axis] else constant_start(value.literal, sizes[axis], window)
        if start is None or (value.literal is not None and value.literal.item == start):
            continue
        literal = Literal.full(value.type.dtype, (), start)
        operands[op.first_start + axis] = rw.materialize_constant(op.inst, literal)
    if tuple(operands) == op.operands:
        return "every start is a variable or where the window begins"
    rw.set_operands(op.inst, operands)
    return True


@rule(benefit=2, radius=1)
def ReplaceDynamicSliceBySlice(op: v.DynamicSliceView) -> Answer:
    """dynamic_slice(x, constant i) -> x[i : i + window]."""
    starts = constant_starts(op.starts, op.source.type.dims, op.dims)
    limits = [start + size for start, size in zip(starts, op.dims, strict=True)]
    return d.sliced(op.source, starts, limits, (1,) * len(starts))


@rule()
def LiftDynamicSliceAboveTranspose(op: v.DynamicSliceView, inner: v.TransposeView) -> Answer:
    """dynamic_slice(transpose(x, p), i) -> transpose(dynamic_slice(x, i by p), p)."""
    back = inverse_permutation(inner.perm)
    sizes = tuple([op.dims[axis] for axis in back])
    starts = [op.starts[axis] for axis in back]
    part = d.draft(ops.dynamic_slice, (inner.source, *starts), ops.DynamicSliceAttrs(sizes))
    return d.transposed(part, inner.perm)


@rule()
def LiftDynamicSliceAboveBroadcast(op: v.DynamicSliceView, inner: v.BroadcastView) -> Answer:
    """dynamic_slice(broadcast_to(x), i) -> broadcast_to(dynamic_slice(x, i along the axes of x))."""
    sizes: list[DimLike] = list(inner.source.type.dims)
    starts: list[Value] = list(op.starts[len(op.dims) - len(sizes) :])
    for axis, size in enumerate(op.dims):
        source = source_axis(inner.inst, axis)
        if source is not None and varies(inner.inst, axis):
            sizes[source] = size
    attrs = ops.DynamicSliceAttrs(tuple(sizes))
    part: d.Term | None = inner.source
    if tuple(sizes) != inner.source.type.dims:
        part = d.draft(ops.dynamic_slice, (inner.source, *starts), attrs)
    return d.broadcasted(part, op.dims)


def _same_place(left: tuple[Value, ...], right: tuple[Value, ...]) -> bool:
    return all(same_scalar(a, b) for a, b in zip(left, right, strict=True))


@rule(benefit=2, radius=2)
def ForwardDynamicSliceOfUpdate(op: v.DynamicSliceView, inner: v.DynamicUpdateSliceView) -> Answer:
    """dynamic_slice(dynamic_update_slice(x, u, i), i) -> u, for a window of the size of u."""
    if inner.update.type.dims != op.dims or not _same_place(inner.starts, op.starts):
        return "another window is read than was written"
    return inner.update


@rule(benefit=3)
def ReplaceWholeUpdate(op: v.DynamicUpdateSliceView) -> Answer:
    """dynamic_update_slice(x: s, u: s, i) -> u: the window is all of x."""
    return op.update if op.update.type == op.type else "the window is not all of it"


@rule(benefit=3)
def RemoveEmptyUpdate(op: v.DynamicUpdateSliceView) -> Answer:
    """dynamic_update_slice(x, u without elements, i) -> x."""
    return op.source if 0 in op.update.type.dims else "there may be something to write"


@rule(benefit=2, radius=2)
def RemoveUpdateByItself(op: v.DynamicUpdateSliceView) -> Answer:
    """dynamic_update_slice(x, dynamic_slice(x, i), i) -> x; likewise x[i : j] written at a constant i."""
    read, cut = v.DynamicSliceView.of(op.update), v.SliceView.of(op.update)
    same = False
    if read is not None:
        same = read.source is op.source and _same_place(read.starts, op.starts)
    elif cut is not None and cut.source is op.source and all(s == 1 for s in cut.attrs.strides):
        same = tuple(constant_starts(op.starts, op.dims, op.update.type.dims)) == cut.attrs.starts
    return op.source if same else "what is written was not read from there"


@rule(benefit=2, radius=2)
def FoldUpdateOfUpdate(op: v.DynamicUpdateSliceView, inner: v.DynamicUpdateSliceView) -> Answer:
    """dynamic_update_slice(dynamic_update_slice(x, u, i), v, i) -> dynamic_update_slice(x, v, i), v as large as u."""
    if inner.update.type.dims != op.update.type.dims or not _same_place(inner.starts, op.starts):
        return "some of the first window stays"
    return d.draft(ops.dynamic_update_slice, (inner.source, op.update, *op.starts))


@rule(operands=((ops.constant, ops.broadcast_to),))
def ReplaceUpdateOfUniformByPad(op: v.DynamicUpdateSliceView) -> Answer:
    """dynamic_update_slice(splat v, u, constant i) -> pad(u, v); likewise of a broadcast scalar."""
    if not uniform(op.source):
        return "what is around the window differs"
    window = op.update.type.dims
    starts = constant_starts(op.starts, op.dims, window)
    high = [n - start - w for n, start, w in zip(op.dims, starts, window, strict=True)]
    return d.padded(op.update, resized(op.source, ()), starts, high, (0,) * len(starts))


populate_canonicalization = family(__name__)

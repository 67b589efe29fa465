"""Contractions: `dot_general` takes its operands as they lie, and only what has to be contracted.

Transposes, casts and reshapes of operands are absorbed or moved below, repetition is done on the result, axes of size 1
go, and what is then no sum is a product. Sums of floats run in an unspecified order (semantics 1.7), so the sign of a
zero sum is unspecified too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.function import Inst, Value
from planish.ptir.ops.contract import free_axes
from planish.ptir.ops.definition import OpKey
from planish.ptir.rewrite import views as v
from planish.ptir.rules import draft as d
from planish.ptir.rules.cast import may_skip
from planish.ptir.rules.numbers import CONSTANT, filled, number_of
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.rules.shapes import match_axes, varies


@dataclass(frozen=True, slots=True)
class Side:
    """One operand of a contraction: the value and what its axes are for."""

    value: Value
    batch: tuple[int, ...]
    contract: tuple[int, ...]

    @property
    def dims(self) -> tuple[DimLike, ...]:
        return self.value.type.dims

    @property
    def free(self) -> list[int]:
        return free_axes(len(self.dims), self.batch, self.contract)

    def repeats(self, axis: int) -> bool:
        """Whether the operand is the same all along an axis, because a broadcast made it so."""
        inst = self.value.def_inst
        return inst is not None and inst.op is ops.broadcast_to and not varies(inst, axis)


def sides(op: v.DotGeneralView) -> tuple[Side, Side]:
    attrs = op.attrs
    return Side(op.lhs, attrs.lhs_batch, attrs.lhs_contract), Side(
        op.rhs, attrs.rhs_batch, attrs.rhs_contract
    )


def contraction(
    model: ops.DotGeneralAttrs,
    terms: Sequence[d.Term | None],
    batch: Sequence[Sequence[int]],
    contract: Sequence[Sequence[int]],
) -> d.Draft | None:
    """`dot_general` of two terms with these axes, accumulating as `model` does."""
    attrs = replace(
        model,
        lhs_batch=tuple(batch[0]),
        rhs_batch=tuple(batch[1]),
        lhs_contract=tuple(contract[0]),
        rhs_contract=tuple(contract[1]),
    )
    return d.draft(ops.dot_general, terms, attrs)


def without(side: Side, gone: Sequence[int]) -> tuple[d.Term | None, tuple[int, ...], tuple[int, ...]]:
    """An operand without axes along which it has or repeats one slice; and its axes renumbered."""
    left = [axis for axis in range(len(side.dims)) if axis not in gone]
    x: d.Term | None = side.value
    inst = side.value.def_inst
    if inst is not None and inst.op is ops.broadcast_to:
        x = d.broadcasted(inst.operands[0], [1 if a in gone else dim for a, dim in enumerate(side.dims)])
    x = d.reshaped(x, [side.dims[axis] for axis in left])
    batch = tuple(left.index(axis) for axis in side.batch if axis in left)
    contract = tuple(left.index(axis) for axis in side.contract if axis in left)
    return x, batch, contract


# --- one form ----------------------------------------------------------------------------------------------


@rule(benefit=2)
def SortContractedAxes(op: v.DotGeneralView) -> Answer:
    """dot_general contracts its axes in the order of the left operand."""
    attrs = op.attrs
    pairs = sorted(zip(attrs.lhs_contract, attrs.rhs_contract, strict=True))
    ordered = tuple(left for left, _ in pairs)
    if ordered == attrs.lhs_contract:
        return "they are in order"
    sorted_attrs = replace(attrs, lhs_contract=ordered, rhs_contract=tuple(right for _, right in pairs))
    return d.draft(ops.dot_general, op.operands, sorted_attrs)


@rule(benefit=5)
def RemoveUnitAxesOfDot(op: v.DotGeneralView) -> Answer:
    """dot_general(x, y) -> reshape(dot_general(reshape(x), reshape(y))) without axes of size 1."""
    if not any(1 in value.type.dims for value in op.operands):
        return "no axis of size 1"
    terms: list[d.Term | None] = []
    batch: list[tuple[int, ...]] = []
    contract: list[tuple[int, ...]] = []
    for side in sides(op):
        left = [axis for axis, dim in enumerate(side.dims) if dim != 1]
        terms.append(d.reshaped(side.value, [side.dims[axis] for axis in left]))
        batch.append(tuple(left.index(axis) for axis in side.batch if axis in left))
        contract.append(tuple(left.index(axis) for axis in side.contract if axis in left))
    return d.reshaped(contraction(op.attrs, terms, batch, contract), op.dims)


@rule(benefit=4)
def ReplaceDotByMul(op: v.DotGeneralView) -> Answer:
    """dot_general(x, y) -> x * y, each broadcast along the other's free axes, where nothing is contracted."""
    attrs = op.attrs
    if attrs.lhs_contract:
        return "axes are contracted"
    left, right = sides(op)
    shared = [left.dims[axis] for axis in left.batch]
    mine, other = [left.dims[a] for a in left.free], [right.dims[a] for a in right.free]
    factors: list[d.Term | None] = []
    for side, dims in ((left, (*shared, *mine, *[1] * len(other))), (right, None)):
        lined = d.transposed(side.value, (*side.batch, *side.free))
        spread = d.reshaped(lined, (*shared, *[1] * len(mine), *other) if dims is None else dims)
        wide = None if spread is None else d.cast_to(spread, spread.type.with_dtype(attrs.accum_dtype))
        factors.append(d.broadcasted(wide, op.dims))
    product = d.draft(ops.and_ if attrs.accum_dtype.is_bool else ops.mul, factors)
    return d.cast_to(product, op.type)


@rule(benefit=5)
def FoldDotOfNothing(op: v.DotGeneralView) -> Answer:
    """dot_general(x, y) -> 0 where a contracted axis has size 0."""
    if not any(op.lhs.type.dims[axis] == 0 for axis in op.attrs.lhs_contract):
        return "there may be something to contract"
    return filled(op.type, 0)


@rule(benefit=4, radius=2, any_operand=CONSTANT)
def FoldDotOfZero(op: v.DotGeneralView) -> Answer:
    """dot_general(x, 0) -> 0 of integers and bools; a float may be infinite."""
    if op.dtype.is_float or op.dtype.is_complex:
        return "0 * inf is NaN"
    if not any(number_of(value) == 0 for value in op.operands):
        return "no operand is zero"
    return filled(op.type, 0)


# --- operands as they lie ----------------------------------------------------------------------------------


@rule(benefit=3, any_operand=ops.transpose)
def AbsorbTransposeIntoDot(op: v.DotGeneralView) -> Answer:
    """dot_general(transpose(x, p), y) -> dot_general(x, y) with axes p[…], where free axes stay in order."""
    terms: list[Value] = []
    batch: list[tuple[int, ...]] = []
    contract: list[tuple[int, ...]] = []
    for side in sides(op):
        moved = v.TransposeView.of(side.value)
        free = None if moved is None else [moved.perm[axis] for axis in side.free]
        if moved is None or free != sorted(free or ()):
            terms.append(side.value)
            batch.append(side.batch)
            contract.append(side.contract)
            continue
        terms.append(moved.source)
        batch.append(tuple(moved.perm[axis] for axis in side.batch))
        contract.append(tuple(moved.perm[axis] for axis in side.contract))
    if tuple(terms) == op.operands:
        return "free axes would change places in the result"
    return contraction(op.attrs, terms, batch, contract)


@rule(benefit=2, any_operand=ops.reshape)
def SinkReshapeBelowDot(op: v.DotGeneralView) -> Answer:
    """dot_general(reshape(x), y) -> reshape(dot_general(x, y)) where only free axes are split or joined."""
    terms: list[Value] = []
    batch: list[tuple[int, ...]] = []
    contract: list[tuple[int, ...]] = []
    for side in sides(op):
        found = _before_reshape(side)
        terms.append(side.value if found is None else found.value)
        batch.append(side.batch if found is None else found.batch)
        contract.append(side.contract if found is None else found.contract)
    if tuple(terms) == op.operands:
        return "a batch or contracted axis is split or joined, or an axis has size 1"
    return d.reshaped(contraction(op.attrs, terms, batch, contract), op.dims)


def _before_reshape(side: Side) -> Side | None:
    inner = v.ReshapeView.of(side.value)
    # Axes of size 1 come and go by reshapes alone: taking one in again would undo their removal.
    if inner is None or 1 in inner.source.type.dims or 1 in inner.dims:
        return None
    groups = match_axes(inner.source.type.dims, inner.dims)
    if groups is None:
        return None
    single = {group.target[0]: group.source[0] for group in groups if group.single}
    if any(axis not in single for axis in (*side.batch, *side.contract)):
        return None
    return Side(
        inner.source,
        tuple(single[axis] for axis in side.batch),
        tuple(single[axis] for axis in side.contract),
    )


@rule(benefit=3, any_operand=ops.broadcast_to)
def SinkBroadcastBelowDot(op: v.DotGeneralView) -> Answer:
    """dot_general(broadcast_to(x), y) -> broadcast_to(dot_general(x, y)) along free axes, and batch axes of both."""
    left, right = sides(op)
    shared = [
        i
        for i, pair in enumerate(zip(left.batch, right.batch, strict=True))
        if left.repeats(pair[0]) and right.repeats(pair[1])
    ]
    gone = [
        [*(side.batch[i] for i in shared), *(axis for axis in side.free if side.repeats(axis))]
        for side in (left, right)
    ]
    if not any(gone):
        return "nothing repeats in the result"
    parts = [without(side, axes) for side, axes in zip((left, right), gone, strict=True)]
    small = contraction(op.attrs, [p[0] for p in parts], [p[1] for p in parts], [p[2] for p in parts])
    places = [
        *(i in shared for i in range(len(left.batch))),
        *(axis in gone[0] for axis in left.free),
        *(axis in gone[1] for axis in right.free),
    ]
    narrow = [1 if repeated else dim for repeated, dim in zip(places, op.dims, strict=True)]
    return d.broadcasted(d.reshaped(small, narrow), op.dims)


@rule(benefit=2, any_operand=ops.broadcast_to)
def FreeRepeatedBatchAxis(op: v.DotGeneralView) -> Answer:
    """dot_general(x, broadcast_to(y)) with a batch axis that y repeats along -> it is a free axis of x.

    Where that leaves the result's axes in order: a batch of matrices times one matrix is one larger product.
    """
    both = sides(op)
    for number in range(len(op.attrs.lhs_batch)):
        for which in (0, 1):
            if both[which].repeats(both[which].batch[number]):
                freed = _free(op, both, number, which)
                if freed is not None:
                    return freed
    return "no batch axis repeats, or the result would have to be transposed"


def _free(op: v.DotGeneralView, both: tuple[Side, Side], number: int, which: int) -> d.Draft | None:
    """The contraction with batch axis `number` dropped on side `which` and free on the other."""
    other = both[1 - which]
    axis = other.batch[number]
    others = tuple(a for i, a in enumerate(other.batch) if i != number)
    freed = Side(other.value, others, other.contract)
    # Every result axis by where its size comes from; the batch axis stands for the axis it becomes.
    count = len(other.batch)
    before = [("batch", i) if i != number else (str(1 - which), axis) for i in range(count)]
    before += [("0", a) for a in both[0].free] + [("1", a) for a in both[1].free]
    after = [("batch", i) for i in range(count) if i != number]
    sides_after = (freed, both[1]) if which else (both[0], freed)
    for label, side in zip("01", sides_after, strict=True):
        after += [(label, a) for a in side.free]
    if before != after:
        return None
    x, batch, contract = without(both[which], (both[which].batch[number],))
    parts: list[tuple[d.Term | None, tuple[int, ...], tuple[int, ...]]] = [
        (x, batch, contract),
        (other.value, freed.batch, freed.contract),
    ]
    if which:
        parts.reverse()
    return contraction(op.attrs, [p[0] for p in parts], [p[1] for p in parts], [p[2] for p in parts])


@rule(benefit=3, any_operand=ops.cast)
def AbsorbCastIntoDot(op: v.DotGeneralView) -> Answer:
    """dot_general(cast(x), y) -> dot_general(x, y) where the cast changes nothing that accumulation would not."""
    terms = [_before_cast(value, op.attrs) for value in op.operands]
    if tuple(terms) == op.operands:
        return "a cast rounds, wraps, or comes from another kind of number"
    return d.draft(ops.dot_general, terms, op.attrs)


def _before_cast(value: Value, attrs: ops.DotGeneralAttrs) -> Value:
    inner = v.CastView.of(value)
    if inner is None:
        return value
    source, accumulated = inner.source.type.dtype, attrs.accum_dtype
    kinds = [(t.is_float, t.is_int, t.is_complex) for t in (source, accumulated)]
    if kinds[0] != kinds[1] or not may_skip(source, inner.dtype, accumulated):
        return value
    return inner.source


class ContractionView(v.OpView, roots=(OpKey.DOT_GENERAL, OpKey.CONVOLUTION)):
    """`dot_general` or `convolution`: both convert their sums to a result dtype."""


@rule(benefit=3, operands=(ContractionView.roots,), watch_uses=True)
def AbsorbCastOfContraction(op: v.CastView) -> Answer:
    """cast(dot_general(x, y)) -> dot_general(x, y) with that result dtype, if nothing else needs the uncast one."""
    inner: Inst | None = op.source.def_inst
    if inner is None or not isinstance(inner.attrs, ops.DotGeneralAttrs | ops.ConvolutionAttrs):
        return False
    if not op.source.has_one_use:
        return "the uncast result is needed elsewhere"
    if not may_skip(inner.attrs.accum_dtype, inner.attrs.out_dtype, op.dtype):
        return "the result dtype in between rounds or wraps"
    return d.draft(inner.op, inner.operands, replace(inner.attrs, out_dtype=op.dtype))


populate_canonicalization = family(__name__)

"""Contractions: `dot_general` takes its operands as they lie, and only what has to be contracted.

Transposes, casts and reshapes of operands are absorbed or moved below, repetition is done on the result, axes of size 1
go, and what is then no sum is a product. Sums of floats run in an unspecified order (semantics 1.7), so the sign of a
zero sum is unspecified too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

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
from planish.ptir.rules.shapes import match_axes, others, varies
from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class Side:
    """One operand of a contraction: the value and what its axes are for."""

    value: d.Term
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
        inst = self.value.def_inst if isinstance(self.value, Value) else None
        return inst is not None and inst.op is ops.broadcast_to and not varies(inst, axis)

    def at(self, value: d.Term | None, places: Mapping[int, int]) -> Side | None:
        """Another value with the axes of this one at other places; axes without a place are gone."""
        if value is None:
            return None
        batch, contract = [
            tuple(places[axis] for axis in axes if axis in places) for axes in (self.batch, self.contract)
        ]
        return Side(value, batch, contract)

    def without(self, gone: Collection[int]) -> Side | None:
        """The operand without axes along which it has or repeats one slice."""
        left = others(self.dims, gone)
        x: d.Term | None = self.value
        if any(self.dims[axis] != 1 for axis in gone) and isinstance(x, Value) and x.def_inst is not None:
            narrow = [1 if axis in gone else dim for axis, dim in enumerate(self.dims)]
            x = d.broadcasted(x.def_inst.operands[0], narrow)
        return self.at(d.reshaped(x, [self.dims[axis] for axis in left]), {a: i for i, a in enumerate(left)})


def sides(op: v.DotGeneralView) -> tuple[Side, Side]:
    attrs = op.attrs
    return Side(op.lhs, attrs.lhs_batch, attrs.lhs_contract), Side(
        op.rhs, attrs.rhs_batch, attrs.rhs_contract
    )


def contraction(model: ops.DotGeneralAttrs, both: Sequence[Side | None]) -> d.InstDraft | None:
    """`dot_general` of two sides, accumulating as `model` does."""
    left, right = both
    if left is None or right is None:
        return None
    attrs = replace(
        model,
        lhs_batch=left.batch,
        rhs_batch=right.batch,
        lhs_contract=left.contract,
        rhs_contract=right.contract,
    )
    return d.draft(ops.dot_general, (left.value, right.value), attrs)


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
    both = [side.without([axis for axis, dim in enumerate(side.dims) if dim == 1]) for side in sides(op)]
    return d.reshaped(contraction(op.attrs, both), op.dims)


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
    for side, dims in (
        (left, (*shared, *mine, *[1] * len(other))),
        (right, (*shared, *[1] * len(mine), *other)),
    ):
        spread = d.reshaped(d.transposed(side.value, (*side.batch, *side.free)), dims)
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
    return filled(op.type, 0) if any(number_of(value) == 0 for value in op.operands) else "no operand is zero"


# --- operands as they lie ----------------------------------------------------------------------------------


@rule(benefit=3, any_operand=ops.transpose)
def AbsorbTransposeIntoDot(op: v.DotGeneralView) -> Answer:
    """dot_general(transpose(x, p), y) -> dot_general(x, y) with axes p[…], where free axes stay in order."""
    both = [_before_transpose(side) for side in sides(op)]
    if not any(both):
        return "free axes would change places in the result"
    return contraction(op.attrs, [a or b for a, b in zip(both, sides(op), strict=True)])


def _before_transpose(side: Side) -> Side | None:
    moved = v.TransposeView.of(side.value) if isinstance(side.value, Value) else None
    if moved is None:
        return None
    free = [moved.perm[axis] for axis in side.free]
    return side.at(moved.source, dict(enumerate(moved.perm))) if free == sorted(free) else None


@rule(benefit=2, any_operand=ops.reshape)
def SinkReshapeBelowDot(op: v.DotGeneralView) -> Answer:
    """dot_general(reshape(x), y) -> reshape(dot_general(x, y)) where only free axes are split or joined."""
    both = [_before_reshape(side) for side in sides(op)]
    if not any(both):
        return "a batch or contracted axis is split or joined, or an axis has size 1"
    whole = [a or b for a, b in zip(both, sides(op), strict=True)]
    return d.reshaped(contraction(op.attrs, whole), op.dims)


def _before_reshape(side: Side) -> Side | None:
    inner = v.ReshapeView.of(side.value) if isinstance(side.value, Value) else None
    # Axes of size 1 come and go by reshapes alone: taking one in again would undo their removal.
    if inner is None or 1 in inner.source.type.dims or 1 in inner.dims:
        return None
    groups = match_axes(inner.source.type.dims, inner.dims)
    single = {group.target[0]: group.source[0] for group in groups or () if group.single}
    if groups is None or any(axis not in single for axis in (*side.batch, *side.contract)):
        return None
    return side.at(inner.source, single)


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
    small = contraction(op.attrs, [left.without(gone[0]), right.without(gone[1])])
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


def _free(op: v.DotGeneralView, both: tuple[Side, Side], number: int, which: int) -> d.InstDraft | None:
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
    parts = [both[which].without((both[which].batch[number],)), freed]
    return contraction(op.attrs, parts[::-1] if which else parts)


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

"""Shape algebra for rules: what can be proved about sizes, which axes a reshape keeps apart, what repeats.

Everything here answers for all values of the dynamic sizes, or not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from planish.ptir import ops
from planish.ptir.dims import DimLike, bounds
from planish.ptir.function import Inst, Value
from planish.ptir.ops.definition import OpDef
from planish.ptir.ops.literal import Literal
from planish.ptir.rules import draft as d
from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class AxisGroup:
    """Axes of a reshape's operand and result that hold the same elements, in the same order."""

    source: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def single(self) -> bool:
        """Whether one axis simply stays one axis."""
        return len(self.source) == 1 and len(self.target) == 1


def axis_groups(source: Sequence[DimLike], target: Sequence[DimLike]) -> list[AxisGroup]:
    """`match_axes` for a rule that needs them."""
    groups = match_axes(source, target)
    if groups is None:
        raise d.Declined("the reshape keeps no axes apart")
    return groups


def match_axes(source: Sequence[DimLike], target: Sequence[DimLike]) -> list[AxisGroup] | None:
    """The finest groups of axes that a reshape keeps apart; axes of size 1 belong to none.

    A group ends where as many elements lie before an axis of the operand as before an axis of the result. Sizes
    are polynomials without divisors of zero, so a product recurs only where axes of size 1 are left out.
    """
    if 0 in source or 0 in target:
        return None
    left = [axis for axis, dim in enumerate(source) if dim != 1]
    right = [axis for axis, dim in enumerate(target) if dim != 1]
    ends: dict[DimLike, int] = {}
    total: DimLike = 1
    for count, axis in enumerate(left, 1):
        total = total * source[axis]
        ends[total] = count
    groups: list[AxisGroup] = []
    begin_left = begin_right = 0
    total = 1
    for count, axis in enumerate(right, 1):
        total = total * target[axis]
        end = ends.get(total)
        if end is not None:
            groups.append(AxisGroup(tuple(left[begin_left:end]), tuple(right[begin_right:count])))
            begin_left, begin_right = end, count
    if begin_left != len(left) or begin_right != len(right):
        return None
    return groups


def lead(dims: Sequence[DimLike]) -> int:
    """How many axes of size 1 come first."""
    return next((axis for axis, dim in enumerate(dims) if dim != 1), len(dims))


def others(dims: Sequence[DimLike], axes: Collection[int]) -> list[int]:
    """The axes that are left without some."""
    return [axis for axis in range(len(dims)) if axis not in axes]


def ranks(axes: Sequence[int]) -> list[int]:
    """The place of each number in their sorted order."""
    order = sorted(axes)
    return [order.index(axis) for axis in axes]


def source_axis(inst: Inst, axis: int) -> int | None:
    """The operand axis that result axis `axis` of a `broadcast_to` comes from; None for a new one."""
    operand_axis = axis - (inst.results[0].type.rank - inst.operands[0].type.rank)
    return operand_axis if operand_axis >= 0 else None


def varies(inst: Inst, axis: int) -> bool:
    """Whether the elements of a `broadcast_to` may differ along a result axis."""
    operand_axis = source_axis(inst, axis)
    return operand_axis is not None and inst.operands[0].type.dims[operand_axis] != 1


def uniform(value: Value) -> bool:
    """Whether all elements are one: a splat constant, or a broadcast scalar."""
    inst = value.def_inst
    if inst is None:
        return False
    if inst.op is ops.broadcast_to:
        return inst.operands[0].type.rank == 0
    literal = value.literal
    return literal is not None and literal.splat


def resized(value: Value, dims: Sequence[DimLike]) -> d.Term | None:
    """A uniform value under another shape."""
    literal = value.literal
    if literal is not None:
        return d.splat(literal, dims, value.type.quant)
    inst = value.def_inst
    return None if inst is None else d.broadcasted(inst.operands[0], dims)


def moved_alike(values: Sequence[Value], mover: OpDef) -> tuple[Inst, list[d.Term | None]]:
    """The one way in which an op moves all values that are not uniform, and the values before that."""
    sources = [value.def_inst for value in values]
    moved = [inst if inst is not None and inst.op is mover else None for inst in sources]
    model = next((inst for inst in moved if inst is not None), None)
    if model is None:
        raise d.Declined(f"nothing is moved by {mover.name}")
    dims, before = model.operands[0].type.dims, list[d.Term | None]()
    for value, inst in zip(values, moved, strict=True):
        if inst is None and not uniform(value):
            raise d.Declined(f"something is not moved by {mover.name}")
        if inst is not None and (inst.attrs, inst.operands[0].type.dims) != (model.attrs, dims):
            raise d.Declined(f"they are moved by {mover.name} in different ways")
        before.append(resized(value, dims) if inst is None else inst.operands[0])
    return model, before


def same_scalar(left: Value, right: Value) -> bool:
    """Whether two values are one, or constants with the same bits."""
    return left is right or (left.literal is not None and left.literal == right.literal)


def constant_start(literal: Literal | None, size: DimLike, window: DimLike) -> int | None:
    """Where a window of `window` elements begins that is asked to begin at a constant; None if not known.

    Starts are clamped into 0 … size - window (semantics 8.6).
    """
    if literal is None or not isinstance(literal.item, int):
        return None
    low, high = bounds(size - window)
    start = literal.item
    if start <= 0 or high <= 0:
        return 0
    if start <= low:
        return start
    return low if low == high else None

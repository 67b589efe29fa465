"""Constants as rules see them: a number that all elements share, whatever the shape.

A constant is a `constant`, or a constant broadcast to a dynamic shape, which has no other form. Rules about
constants set `any_operand = CONSTANT` and a radius of 2, so that they look through nothing but broadcasts. Of an
operand's operand they ask only whether it is a `constant` itself (`value.literal`): a broadcast there would be three
definitions deep.
"""

from __future__ import annotations

from typing import Final

from planish.dtypes import DType
from planish.ptir import ops
from planish.ptir.function import Value
from planish.ptir.ops.definition import ConstantAttrs, OpDef
from planish.ptir.ops.literal import Literal, Scalar
from planish.ptir.rewrite.folding import MAX_FOLDED_ELEMENTS
from planish.ptir.rules import draft as d
from planish.ptir.types import TensorType

CONSTANT: Final[tuple[OpDef, ...]] = (ops.constant, ops.broadcast_to)
"""What may define a constant operand."""


def constant_of(value: Value) -> Literal | None:
    """The data of a constant, before any broadcast."""
    inst = value.def_inst
    if inst is None:
        return None
    if inst.op is ops.broadcast_to:
        value = inst.operands[0]
    return value.literal


def is_constant(value: Value) -> bool:
    return constant_of(value) is not None


def will_fold(literal: Literal | None) -> bool:
    """Whether an elementwise op of a constant is worth building: folding turns it into a constant again."""
    return literal is not None and (literal.splat or literal.size <= MAX_FOLDED_ELEMENTS)


def number_of(value: Value) -> Scalar | None:
    """The number that every element of a constant holds."""
    # Written out, because it is asked wherever anything meets a constant.
    inst = value.def_inst
    if inst is None:
        return None
    attrs = inst.attrs
    if type(attrs) is ConstantAttrs:
        return attrs.literal.item
    if inst.op is not ops.broadcast_to:
        return None
    literal = inst.operands[0].literal
    return None if literal is None else literal.item


def direct_number(value: Value) -> Scalar | None:
    """Like `number_of` of a `constant` alone: as much as a rule of radius 2 may ask of an operand's operand."""
    return None if value.literal is None else value.literal.item


def filled(type: TensorType, number: Scalar) -> d.Term | None:
    """A tensor of a type, all of whose elements are a number of its dtype."""
    dtype = type.dtype
    if dtype.is_int:
        number = dtype.wrap(int(number.real))
    elif dtype.is_bool:
        number = bool(number)
    return d.splat(Literal.full(dtype, (), number), type.dims)


def is_false(value: Value) -> bool:
    return number_of(value) is False


def all_ones(dtype: DType) -> Scalar:
    """The number with every bit set: the unit of `and`."""
    return True if dtype.is_bool else dtype.wrap(-1)


def top_bit(dtype: DType) -> int:
    """The place of the highest bit."""
    return dtype.bits - 1


def same_number(left: Value, right: Value) -> bool:
    """Whether two values are one, or constants of one type with the same bits."""
    if left is right:
        return True
    first, second = constant_of(left), constant_of(right)
    if first is None or second is None or left.type != right.type:
        return False
    if first.splat and second.splat:
        return first.with_shape(()) == second.with_shape(())
    return first.shape == second.shape and first == second

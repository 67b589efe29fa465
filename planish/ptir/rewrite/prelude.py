"""Everything a pattern author needs, in one import: views, guards and small algebra.

Guards about numbers look at constants only and answer False (or None) for everything else. They see the value
that *all* elements share; a tensor whose elements differ has none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from planish.config import current
from planish.ptir.function import Inst, Value
from planish.ptir.ops.definition import MINUS_ONE, NO_ATTRS, ONE, ZERO, Attrs, ConstantAttrs, OpDef, OpKey
from planish.ptir.ops.literal import Literal, Scalar
from planish.ptir.rewrite import views
from planish.ptir.rewrite.pattern import InstView, OpRewritePattern, Pattern, PatternSet
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.ptir.rewrite.views import *  # noqa: F403 - all of them are meant

__all__ = [
    "MINUS_ONE", "NO_ATTRS", "ONE", "ZERO", "Attrs", "Inst", "InstView", "Literal", "OpKey",
    "OpRewritePattern", "Pattern", "PatternSet", "ProgramRewriter", "Value", "compose_permutations",
    "defined_by", "fastmath", "has_one_use", "inverse_permutation", "is_constant", "is_identity_permutation",
    "is_negative_zero", "is_one", "is_positive_zero", "is_splat", "is_zero", "literal_of", "signed_zero",
    "splat_of",
]  # fmt: skip
__all__ += views.__all__


def literal_of(value: Value) -> Literal | None:
    """The data of a constant."""
    return value.literal


def is_constant(value: Value) -> bool:
    return value.literal is not None


def splat_of(value: Value) -> Scalar | None:
    """The number that every element of a constant holds."""
    inst = value.def_inst
    if inst is None or type(inst.attrs) is not ConstantAttrs:
        return None
    return inst.attrs.literal.item


def is_splat(value: Value, number: Scalar) -> bool:
    """Whether every element equals `number`; signs of zero are not told apart, NaN equals nothing."""
    inst = value.def_inst
    if inst is None or type(inst.attrs) is not ConstantAttrs:
        return False
    item = inst.attrs.literal.item
    return item is not None and item == number


def is_zero(value: Value) -> bool:
    """All elements are 0, +0.0 or -0.0."""
    return is_splat(value, 0)


def is_one(value: Value) -> bool:
    return is_splat(value, 1)


def signed_zero(number: Scalar, sign: float) -> bool:
    """Whether a number is a zero of that sign, in both parts if it is complex; an integer 0 has any sign."""
    if number != 0:
        return False
    if isinstance(number, complex):
        return math.copysign(1.0, number.real) == sign and math.copysign(1.0, number.imag) == sign
    return not isinstance(number, float) or math.copysign(1.0, number) == sign


def is_positive_zero(value: Value) -> bool:
    """All elements are 0 or +0.0: what adding changes -0.0 by."""
    item = splat_of(value)
    return item is not None and signed_zero(item, 1.0)


def is_negative_zero(value: Value) -> bool:
    """All elements are -0.0: the true unit of float addition."""
    item = splat_of(value)
    return isinstance(item, float | complex) and signed_zero(item, -1.0)


def defined_by(value: Value, what: OpDef | OpKey) -> Inst | None:
    """The instruction that defines `value`, if it is of that op or family."""
    inst = value.def_inst
    if inst is not None and (inst.op is what or inst.op.key is what):
        return inst
    return None


def has_one_use(value: Value) -> bool:
    """Whether nothing else uses `value`; patterns that ask this set `watch_uses`."""
    return value.has_one_use


def fastmath() -> bool:
    """Whether float arithmetic may be reassociated and folded."""
    return current().fastmath


def inverse_permutation(perm: Sequence[int]) -> tuple[int, ...]:
    """q with q[perm[i]] = i."""
    inverse = [0] * len(perm)
    for position, axis in enumerate(perm):
        inverse[axis] = position
    return tuple(inverse)


def compose_permutations(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...]:
    """The permutation of transposing by `first`, then by `second`."""
    return tuple([first[axis] for axis in second])


def is_identity_permutation(perm: Sequence[int]) -> bool:
    return all(position == axis for position, axis in enumerate(perm))

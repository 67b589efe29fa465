"""By how much an index moves with an axis."""

from __future__ import annotations

from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify
from planish.uop.symbolic.affine import affine


def stride(index: UOp, axis: UOp) -> int | None:
    """By how much an index grows with an axis, a loop or lanes; None if that is not one number."""
    if axis.op is Ops.RANGE and axis not in index.ranges:
        return 0
    sum_ = affine(index) if axis.op is Ops.RANGE else None
    if sum_ is not None and not any(axis in term.ranges for term in sum_.terms if term is not axis):
        return sum_.terms.get(axis, 0)
    step = simplify(substitute(index, {axis: axis + 1}) + index * -1)
    value = step.arg
    return value if step.op is Ops.CONST and isinstance(value, int) else None

"""Places of a scatter that no data decides: are they different ones?

What decides whether the updates of a scatter may be done in any order, or side by side, is the kernel's index alone, and an index that
no memory has a part in is taken to name every place once (`uop/nest/order.py`): so it is for all other kernels. Positions that are
computed (`arange(n) % k`) need not be so: they become memory, unless it is plain that no two are equal.
"""

from __future__ import annotations

from typing import Final

from planish import dtypes
from planish.schedule.elements import Elements, InMemory
from planish.schedule.tensors import Dims, Tensors, full
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.shape import same_dim, shape

_FIRST: Final = 1 << 20
"""Numbers of the ranges that stand for positions while an index is looked at."""
_WHOLE: Final = frozenset({dtypes.index, dtypes.int64})


def stands_for(tensors: Tensors, lead: Dims) -> tuple[UOp, ...]:
    """Positions along axes, as ranges."""
    table = tensors.table
    return tuple(
        [
            table.const(0) if same_dim(dim, 1) else table.range(dim, _FIRST + n, AxisType.LOOP)
            for n, dim in enumerate(lead)
        ]
    )


def read_or_different(tensors: Tensors, index: UOp, lead: Dims) -> UOp:
    """An index as it is, if memory decides it or no two of its positions are equal; else in memory."""
    elements = Elements(tensors, InMemory({}))
    if not shape(index) or not elements.is_pure(index):
        return index
    value = elements.now(index, stands_for(tensors, lead))
    if not value.ranges or _are_different(value):
        return index
    return index.table.make(Ops.CONTIGUOUS, index.dtype, (full(index, lead),))


def _are_different(value: UOp) -> bool:
    """Whether a number is a sum of ranges, each times more than all those below it can add up to."""
    factors: dict[UOp, int] = {}
    stack = [(value, 1)]
    while stack:
        term, factor = stack.pop()
        if term.op is Ops.ADD:
            stack += [(source, factor) for source in term.src]
        elif term.op is Ops.MUL and term.src[1].op is Ops.CONST and isinstance(term.src[1].arg, int):
            stack.append((term.src[0], factor * term.src[1].arg))
        elif term.op is Ops.CAST and term.dtype in _WHOLE and term.src[0].dtype in _WHOLE:
            stack.append((term.src[0], factor))
        elif term.op is Ops.RANGE and term not in factors:
            factors[term] = factor
        elif term.op is not Ops.CONST:
            return False
    reach = 0
    for r, factor in sorted(factors.items(), key=lambda each: abs(each[1])):
        if abs(factor) <= reach:
            return False
        reach += abs(factor) * r.vmax
    return True

"""Large reductions to few elements become two: parts first, then the parts together.

One loop that accumulates is one core's work. As a tensor of partial results it is as many loops as there are parts, and their
number is a function of the shapes alone, so that the same sum is the same number on every machine.

    sum(x[16777216])         sum(parts[256]),  parts[p] = sum over 65536 elements from p·65536 on

Elements that do not fill the last part are padded with the identity of the op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from planish import dtypes
from planish.schedule.limits import FEW_ROWS, SMALL
from planish.schedule.nest import most
from planish.schedule.tensors import Tensors, full, pad
from planish.uop.node import UOp
from planish.uop.ops import Ops, ReduceAxes
from planish.uop.shape import shape
from planish.uop.symbolic.reduce import identity

PART: Final = 1 << 14
"""Elements of a part, about: enough to be worth a start, few enough to be shared out evenly."""
_MOST_PARTS: Final = 256


def split_reductions(tensors: Tensors, roots: Sequence[UOp]) -> Mapping[UOp, UOp]:
    """For each tensor that is not in memory: itself, with the large reductions below it split."""
    found: dict[UOp, UOp] = {}
    order = tensors.table.sink(*roots).toposort(lambda n: n not in tensors.realised) if roots else []
    for node in order:
        if node in tensors.realised:
            found[node] = node
            continue
        sources = tuple(found[source] for source in node.src)
        same = node if sources == node.src else node.replace(src=sources)
        found[node] = _split(tensors, same) if node.op is Ops.REDUCE_AXIS else same
    return found


def _parts(total: int, size: int) -> int:
    """How many parts an axis is cut into: preferably parts of equal length."""
    wanted = min(_MOST_PARTS, total // PART, size)
    even = (parts for parts in range(wanted, wanted // 4, -1) if size % parts == 0)
    return next(even, wanted)


def _split(tensors: Tensors, node: UOp) -> UOp:
    op, axes = cast("ReduceAxes", node.arg)
    (source,) = node.src
    dims = shape(source)
    sizes = [dims[axis] for axis in axes]
    if not all(isinstance(size, int) for size in sizes) or most(shape(node)) >= FEW_ROWS:
        return node
    total = most(sizes)
    # the first axis that is long enough: its parts are the longest stretches of memory
    for axis in sorted(axes):
        size = cast("int", dims[axis])
        parts = _parts(total, size)
        if total < SMALL or parts < 2:
            continue
        length = -(-size // parts)
        start = identity(op, node)
        if start is None:
            return node
        missing = parts * length - size
        x = source
        if missing:
            edge = [(0, missing if each == axis else 0) for each in range(len(dims))]
            x = pad(source, edge)
            if start != 0:
                here = pad(tensors.filled(True, dtypes.bool_, dims), edge)
                x = here.alu(Ops.WHERE, x, full(tensors.table.const(start, node.dtype), shape(x)))
        table = tensors.table
        split = (*dims[:axis], parts, length, *dims[axis + 1 :])
        x = table.make(Ops.RESHAPE, x.dtype, (x,), split)
        inner = tuple(each + (each >= axis) for each in axes)
        partial = table.make(Ops.REDUCE_AXIS, x.dtype, (x,), ReduceAxes(op, tuple(sorted(inner))))
        flat = tuple(parts if each == axis else dim for each, dim in enumerate(shape(node)))
        partial = table.make(Ops.RESHAPE, x.dtype, (partial,), flat)
        kept = table.make(Ops.CONTIGUOUS, x.dtype, (partial,))
        return table.make(Ops.REDUCE_AXIS, x.dtype, (kept,), ReduceAxes(op, (axis,)))
    return node

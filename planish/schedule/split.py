"""Large reductions to few elements, and long scans of few rows, become several: parts first, then the parts together.

One loop that accumulates is one core's work. As a tensor of partial results it is as many loops as there are parts, and their
number is a function of the shapes alone, so that the same sum is the same number on every machine.

    sum(x[16777216])         sum(parts[256]),  parts[p] = sum over 65536 elements from p·65536 on

Elements that do not fill the last part are padded with the identity of the op.

A scan that is a result adds up parts, scans their sums, and then every part from where it begins:

    y = scan(x[16777216])    y[p] = before[p] + scan(x[p]),  before = scan of the sums of the parts before p

It reads x twice; both times all cores do. Only parts of equal length are made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from planish import dtypes
from planish.schedule.limits import FEW_ROWS, SMALL
from planish.schedule.tensors import Tensors, expand, full, most, pad, reshape, shrink
from planish.uop.node import UOp
from planish.uop.ops import Ops, ReduceAxes
from planish.uop.shape import shape
from planish.uop.symbolic.reduce import identity

PART: Final = 1 << 14
"""Elements of a part, about: enough to be worth a start, few enough to be shared out evenly."""
_MOST_PARTS: Final = 256
_LONG: Final = 4 * SMALL
"""Elements of a scan that are worth being read twice."""


def split_reductions(tensors: Tensors, roots: Sequence[UOp]) -> Mapping[UOp, UOp]:
    """For each tensor that is not in memory: itself, with the large reductions below it split."""
    found: dict[UOp, UOp] = {}
    wanted = frozenset(roots)
    order = tensors.table.sink(*roots).toposort(lambda n: n not in tensors.realised) if roots else []
    for node in order:
        if node in tensors.realised:
            found[node] = node
            continue
        sources = tuple(found[source] for source in node.src)
        same = node if sources == node.src else node.replace(src=sources)
        if node.op is Ops.REDUCE_AXIS:
            found[node] = _split(tensors, same)
        elif node.op is Ops.SCAN_AXIS and node in wanted:
            found[node] = _split_scan(tensors, same)
        else:
            found[node] = same
    return found


def _split_scan(tensors: Tensors, node: UOp) -> UOp:
    op, (axis,) = cast("ReduceAxes", node.arg)
    (source,) = node.src
    dims = shape(source)
    size = dims[axis]
    nothing = identity(op, node)
    if not isinstance(size, int) or nothing is None or size < _LONG or most(dims) >= FEW_ROWS * size:
        return node
    parts = _parts(size, size)
    if parts < 2 or size % parts:
        return node
    table = tensors.table

    def made(kind: Ops, x: UOp, along: int) -> UOp:
        return table.make(kind, x.dtype, (x,), ReduceAxes(op, (along,)))

    short = (*dims[:axis], parts, *dims[axis + 1 :])
    split = (*dims[:axis], parts, size // parts, *dims[axis + 1 :])
    x = reshape(source, split)
    sums = table.make(Ops.CONTIGUOUS, x.dtype, (reshape(made(Ops.REDUCE_AXIS, x, axis + 1), short),))
    in_front = [(1 if each == axis else 0, 0) for each in range(len(dims))]
    longer = tuple(parts + 1 if each == axis else dim for each, dim in enumerate(dims))
    running = table.make(Ops.CONTIGUOUS, x.dtype, (made(Ops.SCAN_AXIS, sums, axis),))
    before = shrink(pad(running, in_front), longer, [(0, dim) for dim in short])
    if nothing != 0:
        first = tensors.position(short, axis).eq(0)
        before = first.where(full(table.const(nothing, x.dtype), short), before)
    start = expand(reshape(before, (*dims[:axis], parts, 1, *dims[axis + 1 :])), split)
    whole = start.alu(op, made(Ops.SCAN_AXIS, x, axis + 1))
    return reshape(table.make(Ops.CONTIGUOUS, x.dtype, (whole,)), dims)


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

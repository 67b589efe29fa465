"""Long lists of what is added up, or compared, at places that data chooses: on a GPU each part of a list has a table of its own.

A list has an order, and who goes through it is alone with the elements that it changes. Parts of the list that change tables of their own
run side by side; the tables together are the result, part by part: the same number every time, and of integers and extrema the very same.

    for i < 1048576:  y[idx[i]] += x[i]        for p < 1024, i < 1024:  t[p, idx[p, i]] += x[p, i];     y += t[0] + t[1] + …
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt, prod
from typing import cast

from planish.schedule.lowering.positions import clamped, in_bounds, indices_of, spread, take
from planish.schedule.lowering.single_updates import counted_axes
from planish.schedule.tensors import Dims, Tensors, full, minus, pad, permute, reshape, room
from planish.uop.node import UOp
from planish.uop.ops import Ops, ReduceAxes
from planish.uop.shape import shape
from planish.uop.symbolic.reduce import identity


def scattered_in_parts(
    tensors: Tensors, start: UOp, updates: UOp, indices: Mapping[int, UOp], dims: tuple[Dims, Dims], op: Ops
) -> UOp | None:
    """A scatter of a long list by parts; None if it is short, or its table too large. `dims` are those of the result and of the indices."""
    have, lead = dims
    nothing = identity(op, start)
    if (
        not tensors.target.is_gpu
        or nothing is None
        or not all(isinstance(dim, int) for dim in (*have, *lead))
    ):
        return None
    walked = [*counted_axes(tensors, indices, have, lead)]
    listed = [axis for axis in range(len(lead)) if axis not in walked]
    count = prod(cast("int", lead[axis]) for axis in listed)
    parts = _parts(tensors, count, room(have) * start.dtype.itemsize)
    if parts < tensors.target.lists.fewest_parts:
        return None
    length = -(-count // parts)
    order = [*walked, *listed]
    kept = tuple(lead[axis] for axis in walked)

    def cut(x: UOp) -> UOp:
        """A tensor of the lists in parts, with nothing behind the end of the last."""
        rest = shape(x)[len(lead) :]
        lists = reshape(permute(x, [*order, *range(len(lead), len(shape(x)))]), (*kept, count, *rest))
        behind = [
            (0, parts * length - count if axis == len(kept) else 0) for axis in range(len(shape(lists)))
        ]
        return reshape(pad(lists, behind), (*kept, parts, length, *rest))

    heads = (*kept, parts, length)
    rest = [dim for axis, dim in enumerate(have) if axis not in indices]
    whole = (*heads, *rest)
    gate: UOp | None = None
    given: dict[int, UOp] = {0: tensors.position(whole, len(kept))}
    for axis, index in indices.items():
        here = spread(cut(full(in_bounds(index, have[axis]), lead)), heads, whole)
        gate = here if gate is None else gate & here
        at = clamped(index, minus(have[axis], 1))
        given[axis + 1] = spread(cut(full(at, lead)), heads, whole)
    table = start.table
    tables = full(table.const(nothing, start.dtype), (parts, *have))
    memory = table.make(Ops.CONTIGUOUS, start.dtype, (tables,))
    place = take(memory, indices_of(tensors, whole, given, heads, len(have) + 1), gate)
    filled = memory.after(place.store(place.alu(op, cut(updates))))
    total = table.make(Ops.REDUCE_AXIS, start.dtype, (filled,), ReduceAxes(op, (0,)))
    return start.alu(op, reshape(total, have))


def _parts(tensors: Tensors, count: int, nbytes: int) -> int:
    """So many that tables take about as long to be filled and added up as a list takes to be read for all shares of its rows."""
    lists = tensors.target.lists
    if count < lists.parted:
        return 0
    balanced = isqrt(lists.warps * tensors.target.workers * count // max(nbytes, 1))
    wanted = min(balanced, count // lists.part, lists.table_bytes // max(nbytes, 1))
    return next(
        (
            parts
            for parts in range(wanted, max(wanted // 2, lists.fewest_parts - 1), -1)
            if count % parts == 0
        ),
        wanted,
    )

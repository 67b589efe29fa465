"""Scatters into a constant where no element is written twice: every element asks whether its update is meant.

What a gather of one element per row is differentiated to (cross entropy, `take_along_axis` of one index, a value at a run-time position) is
a tensor of zeros in memory, written here and there, and read again. Where one index is a position on an axis, no two updates meet
on it; if all axes of the updates are told apart so, each element of the result has one update at most, and is a comparison away::

    scatter(c, u[i], i, t[i])[i, j]        where(j == t[i], c + u[i], c)

Nothing is stored, and who reads the tensor computes it on the way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from planish import dtypes
from planish.schedule.elements import COMPUTED, Elements, InMemory
from planish.schedule.lowering.computed_places import stands_for
from planish.schedule.lowering.positions import clamped, in_bounds
from planish.schedule.tensors import (
    ChosenElements,
    Dims,
    Tensors,
    expand,
    full,
    largest,
    minus,
    permute,
    reshape,
)
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import substitute
from planish.uop.shape import same_dim, shape
from planish.uop.symbolic import simplify

_COUNTED: Final = frozenset({dtypes.index, dtypes.int64})
_NARROW: Final = 1 << 31
"""Sizes whose positions are compared in 32 bits."""


def counted_axes(tensors: Tensors, indices: Mapping[int, UOp], have: Dims, lead: Dims) -> dict[int, int]:
    """Axes along which an index is a position, by the axis of the updates that counts it."""
    ranges = stands_for(tensors, lead)
    elements = Elements(tensors, InMemory({}))
    axes: dict[int, int] = {}
    for axis, index in indices.items():
        if not shape(index) or not elements.is_pure(index):
            continue
        value = elements.now(index, ranges)
        while value.op is Ops.CAST and value.dtype in _COUNTED:
            (value,) = value.src
        if value in ranges and value.op is Ops.RANGE and same_dim(lead[ranges.index(value)], have[axis]):
            axes.setdefault(ranges.index(value), axis)
    return axes


def updated_once(
    tensors: Tensors,
    start: UOp,
    updates: UOp,
    indices: Mapping[int, UOp],
    dims: tuple[Dims, Dims],
    op: Ops | None,
) -> UOp | None:
    """The result of such a scatter; None if it is another. `dims` are those of the result and of the indices, `op` combines."""
    have, lead = dims
    walked = counted_axes(tensors, indices, have, lead)
    if any(n not in walked and not same_dim(dim, 1) for n, dim in enumerate(lead)):
        return None
    chosen = frozenset(indices) - frozenset(walked.values())
    rest = [axis for axis in range(len(have)) if axis not in indices]
    lying = [*(walked.get(n) for n in range(len(lead))), *rest]
    rows = tuple(1 if axis in chosen else dim for axis, dim in enumerate(have))
    meant: UOp | None = None
    valid: UOp | None = None
    for axis in sorted(chosen):
        kind = dtypes.int32 if largest(have[axis]) < _NARROW else dtypes.int64
        at = clamped(indices[axis], minus(have[axis], 1)).cast(kind)
        here = _placed(full(in_bounds(indices[axis], have[axis]), lead), lying[: len(lead)], rows)
        position = _placed(full(at, lead), lying[: len(lead)], rows)
        same = expand(here, have) & tensors.position(have, axis, kind).eq(expand(position, have))
        meant = same if meant is None else meant & same
        valid = here if valid is None else valid & here
    value = _placed(updates, lying, rows)
    new = value if op is None else full(start, rows).alu(op, value)
    if meant is None or valid is None:
        return new
    result = meant.where(expand(new, have), full(start, have))
    tensors.chosen[result] = ChosenElements(chosen, new, valid, start)
    return result


def sum_of_chosen(tensors: Tensors, x: UOp, axes: Collection[int]) -> UOp | None:
    """The sum over rows, to size 1, of what is made element by element of such a tensor: that of one element, where all others are 0; else None."""
    node = x
    while (chosen := tensors.chosen.get(node)) is None:
        parts = [source for source in node.src if source.op is not Ops.CONST]
        if node.op not in COMPUTED or len(parts) != 1:
            return None
        (node,) = parts
    others = simplify(substitute(x, {node: chosen.others}))
    if not chosen.axes <= {*axes} or others.op is not Ops.CONST or others.arg != 0:
        return None
    zero = x.table.const(0, x.dtype)
    total = chosen.valid.where(substitute(x, {node: chosen.value}), zero)
    return total + zero if x.dtype.is_float else total  # a sum with zeros is never -0.0


def _placed(x: UOp, places: Sequence[int | None], have: Dims) -> UOp:
    """A tensor whose axes are some of others, or of one element, in the places that they have among these."""
    kept = [(place, axis) for axis, place in enumerate(places) if place is not None]
    ordered = permute(
        reshape(x, tuple(shape(x)[axis] for _, axis in kept)), _ranks([place for place, _ in kept])
    )
    own = {place for place, _ in kept}
    return reshape(ordered, tuple(dim if axis in own else 1 for axis, dim in enumerate(have)))


def _ranks(places: Sequence[int]) -> list[int]:
    """Which of them comes first, second and so on."""
    return sorted(range(len(places)), key=places.__getitem__)

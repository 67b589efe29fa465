"""Derivatives of scatter, sort and top_k: values that moved go back to where they came from.

Of several updates to one place, `replace` has the last and the others get nothing; `max` and `min` share among equals, the
old value included; `mul` has the product of all others, without dividing by zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from planish import dtypes
from planish.frontend.autodiff.instruction import (
    Pull,
    Push,
    RuleSite,
    gathered,
    put,
    taken,
    the_only,
    where,
    zeros,
)
from planish.frontend.replay import Replay, clamped, size_along
from planish.ptir import ops
from planish.ptir.dims import product
from planish.ptir.function import Inst
from planish.ptir.graph_value import GraphValue as V


class _Scatter:
    """What both directions need to know of a scatter."""

    def __init__(self, at: RuleSite) -> None:
        self.at = at
        self.x, self.updates, *self.indices = at.x
        self.axes: tuple[int, ...] = at.attrs.axes
        self.kind: str = at.attrs.kind
        inside: V | None = None
        for index, axis in zip(self.indices, self.axes, strict=True):
            wide = self._compared(index)
            own = wide.ge(0).and_(wide.lt(size_along(self.x, axis, index.dims).cast(wide.dtype)))
            inside = own if inside is None else inside.and_(own)
        self.in_bounds = self._spread(at.graph.full((), True, dtypes.bool_) if inside is None else inside)

    @staticmethod
    def _compared(index: V) -> V:
        return index if index.dtype is dtypes.uint64 else index.cast(dtypes.int64)

    def _spread(self, mask: V) -> V:
        """A value per index in the shape of the updates."""
        ones = [1] * (self.updates.rank - mask.rank)
        return mask.reshape([*mask.dims, *ones]).broadcast_to(self.updates.dims)

    def read(self, value: V) -> V:
        """A value of the operand's shape at the indices; 0 for the updates that are dropped."""
        return where(self.in_bounds, gathered(value, clamped(self.x, self.indices, self.axes), self.axes))

    def write(self, target: V, updates: V, kind: str) -> V:
        return target.scatter(updates, self.indices, self.axes, kind, self.at.attrs.unique_indices)

    def wins(self) -> V:
        """Which updates of a replacing scatter are there in the end."""
        if self.at.attrs.unique_indices:
            return self.in_bounds
        graph, (first, *_) = self.at.graph, self.indices
        number = graph.iota((product(first.dims),), 0).reshape(first.dims)
        numbers = self._spread(number)
        none = graph.full(self.x.dims, -1, dtypes.int64)
        return self.in_bounds.and_(self.read(none.scatter(numbers, self.indices, self.axes)).eq(numbers))

    def factors(self) -> tuple[V, V]:
        """∂y/∂x and, per update, ∂y/∂u of a multiplying scatter: the products of everything else at that place."""
        graph, x, u = self.at.graph, self.x, self.updates
        one, ones = graph.full(x.dims, 1, x.dtype), graph.full(u.dims, 1, u.dtype)
        of_x = self.write(one, u, "mul")
        # leave the zeros out of the product, and count them
        rest = self.write(x.eq(0).select(one, x), u.eq(0).select(ones, u), "mul")
        count = self.write(x.eq(0).cast(dtypes.int32), u.eq(0).cast(dtypes.int32), "add")
        here, product_here = self.read(count), self.read(rest)
        without = u.eq(0).select(
            here.eq(1).select(product_here, 0), here.eq(0).select(product_here.div(u), 0)
        )
        return of_x, where(self.in_bounds, without)

    def shares(self) -> tuple[V, V]:
        """1 / n where the old value or an update is one of the n extremes of its place."""
        x, y = self.x, self.at.y[0]
        mine = x.eq(y).or_(x.is_nan()).cast(x.dtype)
        updates = self.updates
        theirs = where(self.in_bounds, updates.eq(self.read(y)).or_(updates.is_nan()).cast(x.dtype))
        count = self.write(mine, theirs, "add")
        return mine.div(count), where(self.in_bounds, theirs.div(self._nonzero(self.read(count))))

    def _nonzero(self, count: V) -> V:
        return count.max(1)


def _push_scatter(at: RuleSite, t: Sequence[V | None]) -> list[V | None]:
    own = _Scatter(at)
    of_x, of_updates = t[0], t[1]
    dx = zeros(at.graph, own.x.type) if of_x is None else of_x
    du = zeros(at.graph, own.updates.type) if of_updates is None else of_updates
    if own.kind in ("add", "replace"):
        return [own.write(dx, du, own.kind)]
    slope_x, slope_u = own.factors() if own.kind == "mul" else own.shares()
    return [own.write(dx.mul(slope_x), du.mul(slope_u), "add")]


def _pull_scatter(at: RuleSite, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    own, cotangent = _Scatter(at), the_only(c)
    none: list[V | None] = [None] * len(own.indices)
    if own.kind == "add":
        return [cotangent, own.read(cotangent) if needs[1] else None, *none]
    if own.kind == "replace":
        back = own.write(cotangent, zeros(at.graph, own.updates.type), "replace") if needs[0] else None
        return [back, where(own.wins(), own.read(cotangent)) if needs[1] else None, *none]
    slope_x, slope_u = own.factors() if own.kind == "mul" else own.shares()
    if slope_x.dtype.is_complex:
        slope_x, slope_u = slope_x.conj(), slope_u.conj()
    return [cotangent.mul(slope_x), own.read(cotangent).mul(slope_u), *none]


# -- order -----------------------------------------------------------------------------------------------------


def emit_sort(graph: Replay, inst: Inst, operands: Sequence[V]) -> tuple[V, ...]:
    """A sort that also says where each element came from."""
    attrs: ops.SortAttrs = inst.attrs  # type: ignore[assignment] # that of a sort
    place = graph.iota(operands[0].dims, attrs.axis)
    *results, order = graph.sort([*operands, place], attrs.axis, attrs.descending, attrs.num_keys)
    graph.notes[results[0].value] = (order,)
    return tuple(results)


def _order(at: RuleSite) -> V:
    return at.graph.notes[at.y[0].value][0]


def _pull_sort(at: RuleSite, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    order = _order(at)
    return [
        None
        if cotangent is None or not need
        else put(zeros(at.graph, x.type), cotangent, order, at.attrs.axis)
        for x, cotangent, need in zip(at.x, c, needs, strict=True)
    ]


def _push_sort(at: RuleSite, t: Sequence[V | None]) -> list[V | None]:
    order = _order(at)
    return [None if tangent is None else taken(tangent, order, at.attrs.axis) for tangent in t]


def _pull_top_k(at: RuleSite, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    return [put(zeros(at.graph, at.x[0].type), the_only(c), at.y[1], at.attrs.axis)]


INDEXING: Final[Mapping[str, tuple[Push, Pull]]] = {
    "scatter": (_push_scatter, _pull_scatter),
    "sort": (_push_sort, _pull_sort),
    "top_k": (lambda at, t: [taken(the_only(t), at.y[1], at.attrs.axis), None], _pull_top_k),
}

"""Where a range can be cut: the places at which a condition on it changes, and a part of a kernel on one side.

A condition `low <= f*r + c <= high` on one range alone is true between two values of r; these are its *cuts*. Between
two neighbouring cuts every such condition is known, so a part restricted to `start <= r < stop` simplifies. Nothing is
assumed: the restriction is a substitution, `r := start + s` with a new range s below `stop - start`, and the algebra
finds out what the bounds of s decide.

Sizes that have only names may stand in a condition and be the end of a range: `r < n - 1`. Such a cut is taken where the bounds of the
names put it inside the range and in order with the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple, cast

from planish.uop.node import UOp
from planish.uop.ops import COMPARISONS, Axis, Ops
from planish.uop.symbolic.affine import Affine, affine
from planish.uop.symbolic.conditions import Condition


class RangePart(NamedTuple):
    """start <= r < stop; numbers, or sums of sizes that have names."""

    start: UOp
    stop: UOp

    @property
    def size(self) -> UOp:
        """How many values it has."""
        return _difference(self.stop, self.start).build(self.stop)


def cuts_of(nodes: Iterable[UOp]) -> dict[UOp, list[UOp]]:
    """For ranges that conditions ask about alone: where the answers change, in order."""
    by_range: dict[UOp, list[UOp]] = {}
    for node in nodes:
        if node.op not in COMPARISONS or not node.src[0].dtype.is_index or len(node.ranges) != 1:
            continue
        (r,) = node.ranges
        if len(r.src) != 1:
            continue
        # `r != c` changes where `r == c` does
        said = Condition.of(node.replace(op=Ops.CMPEQ) if node.op is Ops.CMPNE else node)
        for edge in () if said is None else _edges(said, r):
            _insert(by_range.setdefault(r, []), edge.build(r.src[0]), r.src[0])
    return {r: cuts for r, cuts in by_range.items() if cuts}


def _edges(said: Condition, r: UOp) -> Iterable[Affine]:
    """The values of r with which a condition begins or ceases to hold."""
    others = dict(said.sum.terms)
    factor = others.pop(r, 0)
    if abs(factor) != 1 or any(term.ranges for term in others):
        return
    # low <= r + others <= high, or low <= others - r <= high
    rest = Affine(others, 0)
    edges = (said.low, said.high) if factor == 1 else (said.high, said.low)
    for bound, beyond in zip(edges, (0, 1), strict=True):
        if bound is not None:
            yield rest.scaled(-factor).plus(Affine({}, bound * factor + beyond))


def _insert(cuts: list[UOp], edge: UOp, size: UOp) -> None:
    """Put an edge in its place, if it is certain to have one inside of the range."""
    if edge in cuts or not (_is_below(edge.const_like(0), edge, 1) and _is_below(edge, size, 1)):
        return
    place = sum(_is_below(cut, edge, 0) for cut in cuts)
    if all(_is_below(edge, cut, 0) for cut in cuts[place:]):
        cuts.insert(place, edge)


def _difference(left: UOp, right: UOp) -> Affine:
    """left - right."""
    first, second = affine(left), affine(right)
    if first is None or second is None:
        return Affine({left: 1, right: -1}, 0)
    return first.plus(second, -1)


def _is_below(left: UOp, right: UOp, by: int) -> bool:
    """Whether left + by <= right, whatever the sizes are."""
    return _difference(right, left).interval()[0] >= by


def parts_of(r: UOp, cuts: Iterable[UOp]) -> list[RangePart]:
    """The range, cut."""
    edges = [r.const_like(0), *cuts, r.src[0]]
    return [RangePart(start, stop) for start, stop in itertools.pairwise(edges)]


def restricted(r: UOp, part: RangePart, path: tuple[int, ...]) -> tuple[UOp, UOp]:
    """A new range for a part of r, and what stands for r in terms of it."""
    new = r.table.range(part.size, path, cast("Axis", r.arg).kind)
    return new, new if part.start is r.const_like(0) else new + part.start

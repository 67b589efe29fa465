"""Where a range can be cut: the constants at which a condition on it changes, and a part of a kernel on one side.

A condition `low <= f*r + c <= high` on one range alone is true between two values of r; these are its *cuts*. Between
two neighbouring cuts every such condition is known, so a part restricted to `start <= r < stop` simplifies. Nothing is
assumed: the restriction is a substitution, `r := start + s` with a new range s below `stop - start`, and the algebra
finds out what the bounds of s decide.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple, cast

from planish.uop.nest import constant_size
from planish.uop.node import UOp
from planish.uop.ops import COMPARISONS, Axis, Ops
from planish.uop.symbolic.conditions import Condition


class RangePart(NamedTuple):
    """start <= r < stop."""

    start: int
    stop: int


def cuts_of(nodes: Iterable[UOp]) -> dict[UOp, list[int]]:
    """For ranges of constant size that conditions ask about alone: where the answers change, in order."""
    found: dict[UOp, set[int]] = {}
    for node in nodes:
        if node.op not in COMPARISONS or not node.src[0].dtype.is_index or len(node.ranges) != 1:
            continue
        # `r != c` changes where `r == c` does
        said = Condition.of(node.replace(op=Ops.CMPEQ) if node.op is Ops.CMPNE else node)
        if said is None or len(said.sum.terms) != 1:
            continue
        ((r, _),) = said.sum.terms.items()
        size = constant_size(r) if r.op is Ops.RANGE else None
        if size is None:
            continue
        edges = (said.low, None if said.high is None else said.high + 1)
        found.setdefault(r, set()).update(c for c in edges if c is not None and 0 < c < size)
    return {r: sorted(cuts) for r, cuts in found.items() if cuts}


def parts_of(r: UOp, cuts: Iterable[int]) -> list[RangePart]:
    """The range, cut."""
    edges = [0, *cuts, cast("int", r.src[0].arg)]
    return [RangePart(start, stop) for start, stop in itertools.pairwise(edges)]


def restricted(r: UOp, part: RangePart, path: tuple[int, ...]) -> tuple[UOp, UOp]:
    """A new range for a part of r, and what stands for r in terms of it."""
    new = r.table.range(part.stop - part.start, path, cast("Axis", r.arg).kind)
    return new, new + part.start if part.start else new

"""Long sums that are neither along what lies next to each other nor across it: groups of channels, blocks of an image.

A block for each result. Its threads share the longest of the reduced axes; what lies together along a short one is one access.
"""

from __future__ import annotations

from math import prod
from typing import Final

from planish.actions.group import Group
from planish.actions.unroll import Unroll
from planish.optimize.draft import Draft
from planish.optimize.gpu.fit import fitted
from planish.optimize.gpu.products import is_product
from planish.uop.nest import closed_by, size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp

_TERMS: Final = 16
"""Terms of a window, at most."""
_MORE: Final = (1, 4)
"""How much longer an axis may become: idle threads cost less than one that does a sum alone."""


def share_sums(draft: Draft, view: Nest) -> bool:
    """A block for each of few sums of many terms."""
    target, shares = draft.target, draft.target.shares
    results = prod(size_of(r) for r in view.outputs)
    if view.scans or is_product(view) or results >= target.workers * shares.block:
        return False
    windows = [r for r in view.reductions if _is_window(r, view)]
    longest = {
        r: max(closed_by(r), key=size_of) for r in view.reductions if closed_by(r) and r not in windows
    }
    if not longest or min(map(size_of, longest.values())) < shares.sum_terms * shares.alone_terms:
        return False
    team = min(shares.block, 1 << (min(map(size_of, longest.values())) // shares.sum_terms).bit_length() - 1)
    for axis in (axis for r in windows for axis in closed_by(r)):
        draft.take(Unroll, axis, size_of(axis), "few terms, each thread's own")
    return all(_shared(draft, view, *each, team) for each in longest.items())


def _is_window(reduction: UOp, view: Nest) -> bool:
    """Whether it has few terms, and is itself a term of another sum (a pool that is summed up)."""
    terms = prod(size_of(axis) or _TERMS + 1 for axis in closed_by(reduction))
    return terms <= _TERMS and any(
        not closed_by(other).isdisjoint(reduction.ranges) for other in view.reductions
    )


def _shared(draft: Draft, view: Nest, reduction: UOp, longest: UOp, team: int) -> bool:
    """The same threads for the longest axis of every sum; neighbours along a short one by one access."""
    for axis in closed_by(reduction) - {longest}:
        places = [place for place in view.reads_of(reduction) if view.stride(place, axis) == 1]
        if places and size_of(axis) * places[0].dtype.itemsize <= draft.target.thread_bytes:
            draft.take(Unroll, axis, size_of(axis), "neighbours by one access")
            break
    return fitted(draft, longest, team, _MORE) and draft.take(Group, longest, team, "a sum for a block")

"""Streams of any length: elementwise work along one axis, cut so that every core gets whole vectors.

A length that divides well needs nothing of this. Of any other (a prime, say, or one that only half a vector divides) the axis is padded to
whole vectors for every piece; lanes beyond the end are masked, which costs nothing where memory is what is waited for.
"""

from __future__ import annotations

from planish.optimize.cores import pieces_for
from planish.optimize.draft import Draft
from planish.optimize.kernel_view import View, size_of
from planish.optimize.lanes import lanes_along
from planish.target import Parallel
from planish.uop.actions import ActionKind


def stream(draft: Draft, view: View) -> bool:
    """Pad, vectorise and cut a long stream of awkward length; whether it was one."""
    target = draft.target
    if not target.masked or target.parallel is not Parallel.CORES:
        return False
    if view.reductions or view.scans or view.rows or len(view.outputs) != 1:
        return False
    (axis,) = view.outputs
    size, lanes, pieces = size_of(axis), lanes_along(target, view, axis), pieces_for(target, view)
    if lanes < 2 or pieces < 2:
        return False
    if any(view.stride(place, axis) != 1 for place in view.writes):
        return False
    if any(view.stride(place, axis) not in {0, 1} for place in view.reads):
        return False
    if size % lanes == 0 and any(size // lanes % n == 0 for n in range(pieces, pieces // 2, -1)):
        return False
    reason = "a stream whose length whole vectors for every core do not divide"
    return (
        draft.take(ActionKind.PADTO, axis, lanes * pieces, reason)
        and draft.take(ActionKind.UPCAST, axis, lanes, reason)
        and draft.take(ActionKind.THREAD, axis, pieces, reason)
    )

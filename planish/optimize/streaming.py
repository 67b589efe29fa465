"""Streams of any length: elementwise work along one axis, cut so that every core gets whole vectors, in places that keep memory busy.

A length that divides well needs no more than lanes. Of any other (a prime, say, or one that only half a vector divides) the axis is padded
to whole vectors for every piece; lanes beyond the end are masked, which costs nothing where memory is what is waited for.

What does not fit the caches is read at several places at once: hardware fetches ahead of each stream by itself, so that four streams have
more lines on the way than one. A piece is cut into as many parts, whose elements are next to each other in registers.

    y[i] = x[i]         for piece: for i: y[i] = x[i]; y[n + i] = x[n + i]; y[2n + i] = x[2n + i]; y[3n + i] = x[3n + i]

How far apart the parts are matters: a load waits for a store that is just being done at the same place of another page, since processors
compare only that at first. Where parts would be so, there are fewer pieces, and with them parts of another length.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from planish.actions.pad_to import PadTo
from planish.actions.split import Split
from planish.actions.thread import Thread
from planish.actions.upcast import Upcast
from planish.optimize.cores import SLOW, pieces_for
from planish.optimize.draft import Draft
from planish.optimize.lanes import is_large, lanes_along
from planish.optimize.templates import Candidate
from planish.target import Parallel, Target
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp

_FUNCTION: Final = 16
"""Registers for a function, its constants included: where functions are computed there are as many parts as have so many each."""


def streams(draft: Draft, nest: Nest) -> Iterator[Candidate]:
    """A candidate for what is elementwise along one axis, and long."""
    if draft.target.parallel is not Parallel.CORES or nest.reductions or nest.scans or nest.rows:
        return
    if len(nest.outputs) == 1 and pieces_for(draft.target, nest) > 1:
        (axis,) = nest.outputs
        written = all(nest.stride(place, axis) == 1 for place in nest.writes)
        if written and all(nest.stride(place, axis) in {0, 1} for place in nest.reads):
            yield Candidate("a stream", partial(_stream, view=nest, axis=axis))


def _stream(draft: Draft, view: Nest, axis: UOp) -> bool:
    """Vectorise and cut a stream that is long or of awkward length, padded if need be; whether it was one."""
    target = draft.target
    size, lanes, pieces = size_of(axis), lanes_along(target, view, axis), pieces_for(target, view)
    if lanes < 2:
        return False
    parts = _parts(target, view, axis)
    counts = range(pieces, pieces // 2, -1)
    whole = [n for n in counts if size and size % (lanes * parts * n) == 0]
    if parts == 1 and whole:
        return False
    harm = {n: _harm(target, view, parts, -(-size // (lanes * parts * n)) * lanes) for n in counts}
    able = counts if target.masked or not whole else whole
    pieces = min(able, key=lambda n: (harm[n] > 1, n not in whole, harm[n]))
    is_whole = pieces in whole
    reason = "a stream whose length whole vectors for every core do not divide"
    if not is_whole and not (target.masked and draft.take(PadTo, axis, lanes * parts * pieces, reason)):
        return False
    if not draft.take(Thread, axis, pieces, reason if not is_whole else ""):
        return False
    if parts > 1:
        reason = "several streams keep memory busier than one"
        draft.take(Split, axis, draft.left(axis) // parts, reason)
        draft.take(Upcast, axis, parts, reason)
    return draft.take(Upcast, axis, lanes)


def _parts(target: Target, view: Nest, axis: UOp) -> int:
    """Into how many parts a piece is cut: one unless what is written leaves the caches."""
    if len(target.caches) < 2:
        return 1
    if not any(is_large(target, place) for place in view.writes):
        return 1
    streams = sum(view.stride(place, axis) == 1 for place in view.reads)
    has_function = any(node.op in SLOW for node in view.sink.toposort())
    most = target.register_tiles.stream_parts
    most = min(most, target.registers // _FUNCTION) if has_function else most
    return next((n for n in (most, most // 2) if n > 1 and n * streams <= target.streams), 1)


def _harm(target: Target, view: Nest, parts: int, length: int) -> int:
    """How parts of such a length get in each other's way: 0 is not at all.

    1: they are at the same place of their pages, so that they share sets of a cache. 2: one is read where, in another page, one has
    just been written.
    """
    page = target.alias_bytes
    steps = {n * length * place.dtype.itemsize % page for place in view.writes for n in range(1, parts)}
    if any(0 < min(step, page - step) <= target.alias_window for step in steps):
        return 2
    return int(0 in steps)

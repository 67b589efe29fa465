"""The actions PADTO and OVERRUN of stage 7: an axis runs on to a multiple of some number, and nothing happens beyond its end.

Lanes and threads come in fixed numbers; 30 elements have none of 4. With 32 they have, if two of them do nothing:

* an INDEX that depends on the axis is nowhere beyond the end: nothing is loaded or stored there (a read for something that is
  stored stays as it is, if it has a gate that keeps it inside of its buffer: `inside.py`);
* a REDUCE over the axis combines the identity of its op beyond the end, *before* lanes are combined with each other (what is
  computed from a load of nothing need not be neutral, and a chunk of lanes may be half valid; a sum of products of such loads
  is, and stays as it is);
* a BUFFERIZE keeps what is computed there where nobody reads it: behind the others, or all in one place more.

OVERRUN is the same for an output axis that will not be in lanes, say the rows of a register tile: a gate on each load of a
scalar would be a jump in the innermost loop. What is computed beyond the end is not stored, so it may be anything: there
the last element is read again.

Before → after::

    r = RANGE(30); REDUCE(x[r], r)       s = RANGE(32); REDUCE(where(s < 30, x[s if s < 30], 0), s)
    STORE(c[r], a[r]) for r              STORE(c[s if s < 30], a[min(s, 29)]) for s                      OVERRUN
"""

from __future__ import annotations

from typing import Final, cast

from planish.stages.expander.loops import closed_by
from planish.stages.rangeify.algebra import pm_flatten_range
from planish.stages.rangeify.inside import stays_inside
from planish.stages.rangeify.legality import is_row_major
from planish.stages.rangeify.refusal import Refusal
from planish.uop.laws import memory_of
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import rewrite, substitute
from planish.uop.symbolic import simplify
from planish.uop.symbolic.reduce import identity

_INNER: Final = frozenset({Ops.REDUCE, Ops.BUFFERIZE, Ops.SCAN})
"""What uses all values of a loop."""


def gated(place: UOp, condition: UOp) -> UOp:
    """A place that is nowhere unless the condition holds."""
    buffer, *indices = place.src
    if not indices:
        return place
    if indices[-1].dtype.is_bool:
        return place.replace(src=(*place.src[:-1], indices[-1] & condition))
    first = condition.where(indices[0], place.table.invalid(indices[0].dtype))
    return place.replace(src=(buffer, first, *indices[1:]))


def _is_nothing(root: UOp, r: UOp) -> bool:
    """Whether a sum adds nothing beyond the end of an axis by itself: products of zeros, since neither factor is loaded there."""
    value = root.src[0]
    return (
        root.arg is Ops.ADD
        and value.op is Ops.MUL
        and all(x.op is Ops.INDEX and any(r in index.ranges for index in x.src[1:]) for x in value.src)
    )


def _neutral(root: UOp, value: UOp, condition: UOp) -> UOp:
    nothing = identity(cast("Ops", root.arg), root)
    if nothing is None:
        raise Refusal(f"PADTO: {cast('Ops', root.arg).name} of {root.dtype} has no neutral value to pad with")
    return condition.where(value, value.const_like(nothing))


def _kept_aside(node: UOp, made: UOp, r: UOp, condition: UOp) -> UOp:
    """What is kept, where beyond the end it overwrites nothing."""
    first = next(k for k, place in enumerate(node.src) if k and r in place.ranges)
    others = (place for k, place in enumerate(node.src) if k and k != first)
    if is_row_major(made.src[first]) and not any(r in place.ranges for place in others):
        return made  # there is room behind
    aside = condition.where(made.src[first], node.src[first].vmax + 1)
    return made.replace(src=(*made.src[:first], aside, *made.src[first + 1 :]))


def pad_axis(sink: UOp, r: UOp, multiple: int) -> UOp:
    """The kernel with a range that runs on to a multiple."""
    size = r.src[0]
    longer = r.replace(src=(simplify((size + (multiple - 1)) // multiple * multiple), *r.src[1:]))
    condition = longer < size
    final: dict[UOp, UOp] = {r: longer}
    nodes = sink.toposort()
    written = {memory_of(node.src[0]) for node in nodes if node.op is Ops.STORE}
    is_stored = not any(r in closed_by(node) for node in nodes if node.op in _INNER)
    for node in nodes:
        if node in final:
            continue
        src = tuple([final[source] for source in node.src])
        made = node if src == node.src else node.replace(src=src)
        if node.op is Ops.INDEX and any(r in index.ranges for index in node.src[1:]):
            # what nobody stores may be read, if it is there
            if not (is_stored and memory_of(node) not in written and stays_inside(made)):
                made = gated(made, condition)
        elif node.op is Ops.BUFFERIZE and r in closed_by(node):
            made = _kept_aside(node, made, r, condition)
        elif node.op is Ops.REDUCE and r in closed_by(node) and not _is_nothing(node, r):
            made = made.replace(src=(_neutral(made, made.src[0], condition), *made.src[1:]))
        elif node.op is Ops.STORE and r in node.ranges and r not in node.src[0].ranges:
            made = made.replace(src=(gated(made.src[0], condition), *made.src[1:]))
        final[node] = made
    return rewrite(final[sink], pm_flatten_range)


def overrun_axis(sink: UOp, r: UOp, multiple: int) -> UOp:
    """The kernel with an axis that runs on to a multiple: it computes its last element again, and stores or counts it once."""
    size = r.src[0]
    longer = r.replace(src=(simplify((size + (multiple - 1)) // multiple * multiple), *r.src[1:]))
    condition, last = longer < size, longer.alu(Ops.MIN, simplify(size - 1))
    nodes = sink.toposort()
    stores = [node for node in nodes if node.op is Ops.STORE]
    written = {memory_of(store.src[0]) for store in stores}
    final: dict[UOp, UOp] = {r: longer}
    for node in nodes:
        if node in final:
            continue
        src = tuple([final[source] for source in node.src])
        made = node if src == node.src else node.replace(src=src)
        if node.op is Ops.INDEX and any(r in index.ranges for index in node.src[1:]):
            if memory_of(node) in written:
                made = gated(made, condition)
            else:
                again = (substitute(index, {r: last}) for index in node.src[1:])
                made = made.replace(src=(made.src[0], *again))
        elif node.op is Ops.BUFFERIZE and r in closed_by(node):
            made = _kept_aside(node, made, r, condition)
        elif node.op is Ops.REDUCE and r in closed_by(node):
            made = made.replace(src=(_neutral(made, made.src[0], condition), *made.src[1:]))
        elif node.op is Ops.STORE and r in node.ranges and r not in node.src[0].ranges:
            made = made.replace(src=(gated(made.src[0], condition), *made.src[1:]))
        final[node] = made
    return rewrite(final[sink], pm_flatten_range)

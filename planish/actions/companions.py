"""The action `thread` in a kernel of several loops, one after another: every core does its piece of each.

Concatenation and padding are such kernels (stage 6). If the loops write nothing that another one reads, core number t may do
piece t of all of them: an axis of every loop is cut into as many pieces, and all share one THREAD range. A loop that cannot
be cut so, but is short beside the others (the rim of a padded image), is left to the first core.

Before → after (4 pieces)::

    END(STORE(c[i], a[i]), i), END(STORE(c[j + 64], b[j]), j)    i < 64, j < 32
        END(STORE(c[t*16 + k], a[…]), t, k), END(STORE(c[t*8 + l + 64], b[…]), t, l)         t < 4, k < 16, l < 8
"""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple

from planish.actions.base import Action
from planish.actions.padding import gated
from planish.uop.kernel_algebra import by_nest
from planish.uop.nest import OUTPUT, closed_by, constant_size, stores_in
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.ranges import kind_of
from planish.uop.rewrite import substitute

_SHORT: Final = 16
"""A loop that every core looks at and one does may be this part of the work."""


class Companions(NamedTuple):
    """What goes with an axis that cores share."""

    axes: tuple[UOp, ...]
    """Those of other loops, cut into the same pieces."""
    alone: tuple[UOp, ...]
    """Loops that the first core does."""


def companions(action: Action, facts: Nest, r: UOp, amount: int) -> Companions:
    """What else has to be cut if cores are to share r in a kernel that has other loops."""
    ends = facts.outer_ends
    others = [end for end in ends if r not in closed_by(end)]
    if not others:
        return Companions((), ())
    refused = action.no("not every store runs over the axis, and the other loops have no such pieces")
    if any(end.op is not Ops.END for end in ends) or any(n.op is Ops.AFTER for n in facts.nodes):
        raise refused
    total = sum(map(_iterations, ends))
    axes: dict[UOp, None] = {}
    alone: list[UOp] = []
    for end in others:
        axis = next((c for c in by_nest(set(closed_by(end))) if _may_be_cut(facts, c, amount)), None)
        if axis is not None:
            axes[axis] = None
        elif _iterations(end) * amount * _SHORT <= total:
            alone.append(end)
        else:
            raise refused
    cut = {r, *axes}
    if any(len(cut & closed_by(end)) != (end not in alone) for end in ends):
        raise refused  # a loop with two such axes would be done in part
    return Companions(tuple(axes), tuple(alone))


def _iterations(end: UOp) -> int:
    return prod(max(r.vmax + 1, 1) for r in closed_by(end))


def _may_be_cut(facts: Nest, axis: UOp, amount: int) -> bool:
    size = constant_size(axis)
    return (
        kind_of(axis) in OUTPUT
        and size is not None
        and size % amount == 0
        and axis not in facts.ordered
        and not facts.is_bound(axis)
        and all(closing.op is Ops.END for closing in facts.closers.get(axis, ()))
    )


def done_once(end: UOp, core: UOp) -> UOp:
    """A loop that only the first core does."""
    first = core.eq(0)
    places = {
        store: store.replace(src=(gated(store.src[0], first), *store.src[1:])) for store in stores_in(end)
    }
    body = substitute(end.src[0], places)
    return end.replace(src=(body, *end.src[1:], core))

"""Stage 1, early movement ops: an INDEX over a view becomes an INDEX of the memory itself.

Why: hardware knows addresses, not views. Every later stage may then assume that an INDEX names memory directly.

Before → after::

    INDEX(PERMUTE(x, (1, 0)), i, j)          INDEX(x, j, i)
    INDEX(RESHAPE(INDEX(b), (4, 8)), i, j)   INDEX(b, i*8 + j)
    INDEX(INDEX(b), i)                       INDEX(b, i)
    INDEX(PAD(x, ((1, 0),)), i, gate=p)      INDEX(x, where(p & 1 <= i, i - 1, INVALID))

Would break without it: index arithmetic would stay hidden in views, and no rule of the algebra could see it.

Holds afterwards: no movement op is left; every INDEX has memory and exactly one index.
"""

from __future__ import annotations

from typing import Final

from planish.uop.matcher import Matcher, rule
from planish.uop.movement import Place, resolve
from planish.uop.node import UOp
from planish.uop.ops import MOVEMENT, Ops
from planish.uop.pattern import anything, node
from planish.uop.rewrite import rewrite
from planish.uop.shape import shape


def _resolve(root: UOp, view: UOp) -> UOp:
    base, is_empty = view, 0 in shape(view)
    while base.op in MOVEMENT:
        base = base.src[0]
        is_empty = is_empty or 0 in shape(base)
    if is_empty:  # no element comes through: whatever the index, it is nowhere
        return root.replace(src=(base, root.table.invalid()))
    indices = root.src[1:]
    gate = indices[-1] if indices and indices[-1].dtype.is_bool else None
    place = resolve(view, indices if gate is None else indices[:-1])
    if gate is not None:
        place = Place(place.base, place.indices, gate if place.valid is None else gate & place.valid)
    return root.replace(src=(place.base, place.index))


pm_mops = Matcher(
    "pm_mops",
    [
        rule(
            node(Ops.INDEX, node(MOVEMENT, name="view"), rest=True),
            _resolve,
            says="INDEX(movement(x), i…) -> INDEX(x, where i… lies in x)",
        ),
    ],
)

pm_syntactic_sugar = Matcher(
    "pm_syntactic_sugar",
    [
        rule(
            node(Ops.INDEX, node(Ops.INDEX, anything("buffer")), anything("i")),
            lambda root, buffer, i: root.replace(src=(buffer, i)),
            says="INDEX(INDEX(b), i) -> INDEX(b, i)",
        ),
    ],
)


_RULES: Final = pm_mops + pm_syntactic_sugar


def early_movement_ops(sink: UOp) -> UOp:
    """Resolve views (sink first: an INDEX is looked at before what it indexes)."""
    return rewrite(sink, _RULES, order="sink_first")

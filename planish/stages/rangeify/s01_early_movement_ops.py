"""Stage 1, early movement ops: an INDEX over a view becomes an INDEX of the memory itself.

Why: hardware knows addresses, not views. Every later stage may then assume that an INDEX names memory directly.

Before → after::

    INDEX(PERMUTE(x, (1, 0)), i, j)          INDEX(x, j, i)
    INDEX(RESHAPE(INDEX(b), (4, 8)), i, j)   INDEX(b, i*8 + j)
    INDEX(INDEX(b), i)                       INDEX(b, i)

Would break without it: index arithmetic would stay hidden in views, and no rule of the algebra could see it.

Holds afterwards: no movement op is left; every INDEX has memory and exactly one index.
"""

from __future__ import annotations

from planish.uop.matcher import Matcher, rule
from planish.uop.movement import resolve
from planish.uop.node import UOp
from planish.uop.ops import MOVEMENT, Ops
from planish.uop.pattern import anything, node
from planish.uop.rewrite import rewrite


def _resolve(root: UOp, view: UOp) -> UOp:
    place = resolve(view, root.src[1:])
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


def early_movement_ops(sink: UOp) -> UOp:
    """Resolve views (sink first: an INDEX is looked at before what it indexes)."""
    return rewrite(sink, pm_mops + pm_syntactic_sugar, order="sink_first")

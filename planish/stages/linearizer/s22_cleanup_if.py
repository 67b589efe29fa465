"""Stage 22, clean up IF: a store with a gate becomes a store inside of IF and ENDIF.

Why: a machine that cannot predicate a store has to jump over it. (A load has an alternative, so it is an expression and
stays one line.) This works on the finished list, by `line_rewrite`: IF and ENDIF are about lines, not about values.

Before → after::

    STORE(place, x, p)               IF(p); STORE(place, x); ENDIF

Would break without it: a target without predicated stores would write where it must not.

Holds afterwards: unless the target predicates stores, no STORE has a gate; IFs are closed, and each is a line of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from planish import dtypes
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import anything, node
from planish.uop.rewrite import Lines, line_rewrite


@dataclass(slots=True)
class Branches:
    """The branch before: a second IF with the same condition waits for it, so that it is another line."""

    last: UOp | None = None


def _branch(root: UOp, place: UOp, x: UOp, p: UOp, ctx: Branches) -> UOp:
    table = root.table
    before = () if ctx.last is None else (ctx.last,)
    opened = table.make(Ops.IF, dtypes.void, (p, *before))
    store = root.replace(src=(place, x))
    ctx.last = table.make(Ops.ENDIF, dtypes.void, (opened,))
    # line_rewrite takes Lines where the graph engine would take a node
    return cast("UOp", Lines(store, (opened, store, ctx.last)))


pm_linearize_cleanups: Final = Matcher(
    "pm_linearize_cleanups",
    [
        rule(
            node(Ops.STORE, anything("place"), anything("x"), anything("p")),
            _branch,
            says="STORE(place, x, p) -> IF(p), STORE(place, x), ENDIF",
        )
    ],
)


def cleanup_if(lines: Sequence[UOp], *, predicated_stores: bool = False) -> list[UOp]:
    """Branch around stores that do not always happen, unless the target predicates them."""
    return list(lines) if predicated_stores else line_rewrite(lines, pm_linearize_cleanups, Branches())

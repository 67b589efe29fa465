"""Stage 22, clean up IF: a store with a gate becomes a store inside of IF and ENDIF.

Why: a machine that cannot predicate a store has to jump over it. (A load has an alternative, so it is an expression and
stays one line.) This works on the finished list, by `line_rewrite`: IF and ENDIF are about lines, not about values.

A gate per lane stays with its store: no jump can do half of it, and stage 14 leaves such a store only where the target can
mask it. A gate that is the same in every lane is one condition. Stores that follow each other under one condition share
their IF.

What only a rare branch needs goes inside of it (`branches.py`).

Before → after::

    STORE(place, x, p)               IF(p); STORE(place, x); ENDIF
    STORE(a, x, p); STORE(b, y, p)   IF(p); STORE(a, x); STORE(b, y); ENDIF

Would break without it: a target without predicated stores would write where it must not.

Where the target predicates stores, only those of rare branches, and those that data decides for a whole block, are put inside of an IF, so that what
they need is not computed in vain.

Holds afterwards: unless the target predicates stores, a STORE has no gate or one per lane; IFs are closed, and each is a
line of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from planish import dtypes
from planish.records import dataclass
from planish.stages.linearizer.branches import decided_by_data, fill_branches, gather_branches, is_rare
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import anything, node
from planish.uop.rewrite import Lines, line_rewrite
from planish.uop.symbolic.lanes import is_broadcast


@dataclass(slots=True)
class Branches:
    """The branch before: a second IF with the same condition waits for it, so that it is another line."""

    last: UOp | None = None
    rare_alone: bool = False
    """Whether other stores keep their gates, but for those that data decides."""
    decided: frozenset[UOp] = frozenset()


def _branch(root: UOp, place: UOp, x: UOp, p: UOp, ctx: Branches) -> UOp | None:
    if ctx.rare_alone and not is_rare(root, ctx.decided):
        return None
    if p.dtype.lanes > 1:
        if not is_broadcast(p):
            return None
        p = p.src[0]
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


def _merge_branches(lines: Sequence[UOp]) -> list[UOp]:
    """ENDIF; IF(p) with the same condition as before: the branch goes on."""
    result: list[UOp] = []
    standing: dict[UOp, UOp] = {}  # IF -> the IF that stands for it

    def end_of(end: UOp) -> UOp:
        return end.replace(src=(standing.get(end.src[0], end.src[0]),))

    for line in lines:
        if line.op is Ops.ENDIF:
            result.append(end_of(line))
        elif line.op is not Ops.IF:
            result.append(line)
        elif result and result[-1].op is Ops.ENDIF and result[-1].src[0].src[0] is line.src[0]:
            standing[line] = result.pop().src[0]
        else:  # what it waits for may have become part of a longer branch
            opened = line.replace(src=(line.src[0], *map(end_of, line.src[1:])))
            standing[line] = opened
            result.append(opened)
    return result


def cleanup_if(lines: Sequence[UOp], *, predicated_stores: bool = False) -> list[UOp]:
    """Branch around stores that do not always happen; where the target predicates them, around those that hardly ever do, or that data decides."""
    if not any(line.op is Ops.STORE and len(line.src) > 2 for line in lines):
        return list(lines)
    decided = decided_by_data(lines) if predicated_stores else frozenset[UOp]()
    branches = Branches(rare_alone=predicated_stores, decided=decided)
    if not any(is_rare(line, decided) for line in lines):
        if predicated_stores:
            return list(lines)
        return _merge_branches(line_rewrite(lines, pm_linearize_cleanups, branches))
    lines = gather_branches(lines)
    return fill_branches(_merge_branches(line_rewrite(lines, pm_linearize_cleanups, branches)), decided)

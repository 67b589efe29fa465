"""Stage 19, final rewrite: what is left gets the form that a linear program can hold.

Why: a line of the program closes at most one loop, and an access is done or not done as a whole.

Before → after::

    END(x, a, b)                     END(END(x, b), a)          the innermost (greatest axis) closes first
    LOAD(INDEX(b, i, p))             LOAD(INDEX(b, i), 0, p)    see `stages/gates.py`: after loads were combined
    STORE(INDEX(b, i, p), x)         STORE(INDEX(b, i), x, p)
    RARE(p, x, y)                    an accumulator and a gated store: see `branches.py`

A target may bring rules of its own (`Target.extra_matcher`). They are tried before the common ones, so that they see an END or a gate
before it is taken apart. What they make may hold ops that the machine lacks: those are decomposed as in stage 18, and the rules
see the outcome, until nothing changes. That is what code generation sees.

Would break without it: stage 20 could not say which loop nests in which.

Holds afterwards: every END closes exactly one RANGE; no INDEX has a gate; no RARE is left.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from planish.errors import RewriteError
from planish.stages.gates import pm_move_gates_from_index
from planish.stages.linearizer.branches import branch_rare
from planish.stages.linearizer.s18_decompositions import decompositions
from planish.target import Target
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import node
from planish.uop.rewrite import rewrite


def _split(root: UOp) -> UOp | None:
    body, *ranges = root.src
    if len(ranges) == 1 and ranges[0].op is Ops.RANGE:
        return None
    open_ranges = {r for listed in ranges for r in ([listed] if listed.op is Ops.RANGE else listed.ranges)}
    for closing in sorted(open_ranges, key=lambda r: r.order, reverse=True):
        body = body.end(closing)
    return body


pm_split_ends = Matcher(
    "pm_split_ends", [rule(node(Ops.END), _split, says="END(x, a, b) -> END(END(x, b), a)")]
)


_ROUNDS: Final = 8
"""How often rules and decompositions may bring each other something to do."""

_RULES = pm_move_gates_from_index + pm_split_ends


@cache
def _with(extra: Matcher) -> Matcher:
    return extra + _RULES


def final_rewrite(sink: UOp, target: Target | None = None) -> UOp:
    """Split ENDs; move gates from indices to accesses; apply the target's own last rules, and decompose what they make."""
    if target is None or target.extra_matcher is None:
        return branch_rare(rewrite(sink, _RULES))
    matcher = _with(target.extra_matcher)
    for _ in range(_ROUNDS):
        rewritten = rewrite(sink, matcher)
        sink = decompositions(rewritten, target)
        if sink is rewritten:
            return branch_rare(sink)
    raise RewriteError(
        f"the last rules of {target.name} and the decompositions undo each other",
        remedy=f"a rule of {target.extra_matcher.name} makes what stage 18 takes apart; add the op to the target's `supported_ops`",
    )

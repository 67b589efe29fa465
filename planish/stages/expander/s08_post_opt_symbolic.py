"""Stage 8, post-opt symbolic: the algebra once more, with conditions moved from what is loaded to the loading.

Why: the actions of stage 7 put sums in place of ranges, which simplify. And `where(p, x[i], 0)` loads first and asks later;
as `x[i if p]` the load need not be done, memory beyond the tensor is never touched, and neighbouring loads can be combined,
because what they have in common is in their indices.

`pm_move_where_on_load` takes the condition apart. A clause moves into the index if

* it is not there already (then it only leaves the select: the load gives 0 where it fails);
* it asks about no other ranges than the index does, so that the load stays as far out of the loops as it was;
* it does not itself depend on memory: a gate decides what is loaded, it should not have to wait for a load.

Other clauses stay. Only a select with 0 moves, because 0 is what a load that is not done gives; +0.0 on floats.

`pm_reduce_unused` drops the ranges of a REDUCE that its operand no longer depends on, where counting is exact.

On a machine that estimates powers of two, exponentials of which nobody sees more than 16 bits become estimates (`near_enough.py`).

Before → after::

    where(i < 5 & m[j], x[i], 0)             where(m[j], x[where(i < 5, i, INVALID)], 0)
    REDUCE(3, r), r < 4                      12

Would break without it: padded tensors would be loaded outside of their memory by stages that drop the select.

Holds afterwards: no select with 0 around a load has a clause that could be in the index.
"""

from __future__ import annotations

from typing import Final

from planish.stages.expander.near_enough import near_enough
from planish.stages.rangeify.counting import pm_reduce_unused
from planish.uop.kernel_algebra import kernel_sym, simplified
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import anything, constant, node, where
from planish.uop.rewrite import rewrite
from planish.uop.symbolic.conditions import conjuncts

_MEMORY: Final = frozenset({Ops.INDEX, Ops.LOAD, Ops.REDUCE})


def _reads(clause: UOp) -> bool:
    return any(n.op in _MEMORY for n in clause.toposort())


def _conjunction(clauses: list[UOp]) -> UOp:
    result = clauses[0]
    for clause in clauses[1:]:
        result = result & clause
    return result


def _is_zero(x: UOp, c: UOp) -> bool:
    return c is (x.const_like(False) if x.dtype.is_bool else x.const_like(0))


def _move(condition: UOp, x: UOp, c: UOp) -> UOp | None:
    """x where the condition holds, else c, with the condition in the index of x as far as possible."""
    if len(x.src) != 2 or x.dtype.is_pointer or not _is_zero(x, c):
        return None
    buffer, index = x.src
    gate: list[UOp] = []
    if index.op is Ops.WHERE and index.src[2].op is Ops.INVALID:
        gate = conjuncts(index.src[0]) or [index.src[0]]
        index = index.src[1]
    clauses = conjuncts(condition)
    if clauses is None or index.op is Ops.INVALID:
        return None
    moved = [q for q in clauses if q not in gate and q.ranges <= x.ranges and not _reads(q)]
    left = [q for q in clauses if q not in gate and q not in moved]
    if len(left) == len(clauses):
        return None
    if moved:
        gated = _conjunction([*gate, *moved]).where(index, index.table.invalid(index.dtype))
        x = x.replace(src=(buffer, gated))
    return _conjunction(left).where(x, c) if left else x


def _where_true(p: UOp, x: UOp, c: UOp) -> UOp | None:
    return _move(p, x, c)


def _where_false(p: UOp, x: UOp, c: UOp) -> UOp | None:
    return _move(simplified(p.logical_not()), x, c)


_element: Final = node(Ops.INDEX, name="x")

pm_move_where_on_load: Final = Matcher(
    "pm_move_where_on_load",
    [
        rule(
            where(anything("p"), _element, constant("c")),
            _where_true,
            says="where(p, x[i], 0) -> x[where(p, i, INVALID)]",
        ),
        rule(
            where(anything("p"), constant("c"), _element),
            _where_false,
            says="where(p, 0, x[i]) -> x[where(~p, i, INVALID)]",
        ),
    ],
)


_RULES: Final = kernel_sym + pm_move_where_on_load + pm_reduce_unused


def post_opt_symbolic(sink: UOp, *, estimates: bool = False) -> UOp:
    """Simplify, and move conditions into the indices of what they guard; estimates where nobody sees the difference."""
    simple = rewrite(sink, _RULES)
    return near_enough(simple) if estimates else simple

"""The algebra of whole kernels while an INDEX is still both place and value, and of the ranges that END and REDUCE list.

`kernel_sym` is `sym` with what only such kernels need:

* `pm_flatten_range`: END and REDUCE list RANGEs, nothing else. A range that was exchanged for an expression is
  listed as the ranges the expression is made of; one that became a constant, or is named twice, is dropped.
* `pm_drop_nowhere`: as a value, `x[INVALID]` is 0, so a store to a place that is nowhere may be seen as a store to a
  constant. Either way nothing is written.
"""

from __future__ import annotations

from typing import Final

from planish import dtypes
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import ALU, Ops
from planish.uop.pattern import node
from planish.uop.rewrite import rewrite
from planish.uop.symbolic import sym
from planish.uop.symbolic.cost import cost

_EXPRESSIONS: Final = ALU | {Ops.CONST, Ops.CAST}


def by_nest(ranges: frozenset[UOp] | set[UOp]) -> list[UOp]:
    """Ranges from the outermost to the innermost."""
    return sorted(ranges, key=lambda r: r.order)


def _flatten(root: UOp) -> UOp | None:
    listed = root.src[1:]
    flat: dict[UOp, None] = {}
    for each in listed:
        # what is neither a range nor arithmetic (lanes that stand for a range) is not ours to open
        flat.update(dict.fromkeys(by_nest(each.ranges) if each.op in _EXPRESSIONS else (each,)))
    if tuple(flat) == listed:
        return None
    if root.op is Ops.END and not flat:
        return root.src[0]
    return root.replace(src=(root.src[0], *flat))


def _nothing(root: UOp) -> UOp:
    return root.table.make(Ops.NOOP, dtypes.void)


pm_flatten_range: Final = Matcher(
    "pm_flatten_range",
    [rule(node((Ops.END, Ops.REDUCE)), _flatten, says="end(x, r*4 + s) -> end(x, r, s)")],
)

pm_drop_nowhere: Final = Matcher(
    "pm_drop_nowhere",
    [rule(node(Ops.STORE, node(Ops.CONST), rest=True), _nothing, says="store(0, x) -> nothing, 0 being x[INVALID]")],
)  # fmt: skip

kernel_sym: Final = sym + pm_drop_nowhere + pm_flatten_range


def simplified(node: UOp) -> UOp:
    """A part of a kernel, with its stores and loops, in its simplest form; remembered in its table."""
    memo = node.table.memos.setdefault(kernel_sym, {})
    result = rewrite(node, kernel_sym, memo=memo)
    if result is not node and cost(result) > cost(node):
        memo[node] = result = node
    return result


def does_nothing(effect: UOp) -> bool:
    """Whether an effect never happens."""
    return effect.op in {Ops.NOOP, Ops.GROUP} and not effect.src

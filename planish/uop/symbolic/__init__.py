"""The algebra: rules by family, composed into three tiers, each containing the one before.

    symbolic_simple   what is always an improvement: constants, identities, logic, conversions
    symbolic          adds normal forms (sums, comparisons, selects, extrema), div/mod and lanes: the middle of the pipeline
    sym               adds what looks at loops, order and memory: for whole kernels

Late stages use lower tiers, so that lowering is not undone. `fastmath` is added on request: `sym + fastmath`.
Every rule is an equation that holds for the dtype kinds it names; tests prove each and require a golden case that only it
solves. A rule never makes an expression costlier (`cost.py`).
"""

from __future__ import annotations

from typing import Final

from planish.uop.matcher import Matcher, Rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import rewrite
from planish.uop.symbolic.bitwise import bitwise
from planish.uop.symbolic.boolean import boolean
from planish.uop.symbolic.cast import casts
from planish.uop.symbolic.comparison import comparison
from planish.uop.symbolic.cost import cost
from planish.uop.symbolic.divmod import divmod_rules
from planish.uop.symbolic.fastmath import fastmath
from planish.uop.symbolic.folding import folding
from planish.uop.symbolic.gates import gates
from planish.uop.symbolic.identities import identities
from planish.uop.symbolic.lanes import lanes
from planish.uop.symbolic.memory import memory
from planish.uop.symbolic.minmax import minmax
from planish.uop.symbolic.order import order
from planish.uop.symbolic.recombine import recombine
from planish.uop.symbolic.reduce import reductions
from planish.uop.symbolic.select import select
from planish.uop.symbolic.terms import terms

FAMILIES: Final[dict[str, Matcher]] = {
    # Gates come first: what may be nowhere must not be folded to a number.
    "gates": gates,
    "folding": folding,
    "identities": identities,
    "bitwise": bitwise,
    "boolean": boolean,
    "casts": casts,
    "select": select,
    "minmax": minmax,
    "comparison": comparison,
    "terms": terms,
    "recombine": recombine,
    "divmod": divmod_rules,
    "lanes": lanes,
    "order": order,
    "memory": memory,
    "reductions": reductions,
}
"""The families of `sym`, in order of precedence."""

_SIMPLE: Final = ("gates", "folding", "identities", "bitwise", "boolean", "casts")
_WHOLE_KERNELS: Final = ("order", "memory", "reductions")


def _tier(name: str, *families: str) -> Matcher:
    return Matcher(name, [rule for family in families for rule in FAMILIES[family]])


symbolic_simple: Final = _tier("symbolic_simple", *_SIMPLE)
symbolic: Final = _tier("symbolic", *(family for family in FAMILIES if family not in _WHOLE_KERNELS))
sym: Final = _tier("sym", *FAMILIES)


LOADED: Final = frozenset({Ops.LOAD, Ops.AFTER})
"""What a value has from memory, and what had to happen before. An expression is simplified up to there and no further: below are stores
and loops, which the rest of the kernel has as well, and which would be there twice if this expression had its own form of them."""


def simplify(node: UOp, matcher: Matcher = sym) -> UOp:
    """The expression in its simplest form, up to what is `LOADED`. What is simplified once in a table is not looked at again.

    Rules look at a few nodes at a time and may lose sharing that others counted on; a result that is dearer than what was
    given is not taken.
    """
    memo = node.table.memos.setdefault(matcher, {})
    result = rewrite(node, matcher, memo=memo, leaves=LOADED)
    if result is not node and cost(result) > cost(node):
        memo[node] = result = node
    return result


def all_rules() -> tuple[Rule, ...]:
    """Every rule of `sym`, in order of precedence. (`fastmath` breaks the float contract and is not among them.)"""
    return sym.rules


__all__ = ["FAMILIES", "LOADED", "all_rules", "fastmath", "simplify", "sym", "symbolic", "symbolic_simple"]

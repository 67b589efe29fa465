"""Guarded indices: `where(valid, i, INVALID)`, from padding to the load that is not done.

INVALID is first of all poison: what is computed from it is INVALID, so selects move outwards until they guard a whole
index. These rules come before all others, lest `i * 0` forget that i may be nowhere. A gate is a conjunction; it
loses what its other conjuncts or the bounds imply. The index under a gate is simplified knowing that the gate holds:
the gate's conjuncts become bounds of what they compare (`conditions.py`), under which the index is simplified anew.

Trap: a load inside an index is done whether the gate holds or not, so an index with one keeps its form.
"""

from __future__ import annotations

from typing import Final

from planish import dtypes
from planish.dtypes import DType
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import BINARY, COMPARISONS, UNARY, Ops
from planish.uop.pattern import INDEX, INTEGRAL, NodePattern, node, where
from planish.uop.symbolic.conditions import Condition, conjuncts, simplify_under, tighten
from planish.uop.symbolic.letters import p, q, x, y

_INVALID: Final[NodePattern] = node(Ops.INVALID, name="nowhere")
_MOVING: Final = BINARY - COMPARISONS
_CHANGING: Final = (Ops.CAST, Ops.BITCAST)


def _gated(condition: NodePattern, index: NodePattern) -> NodePattern:
    return where(condition, index, _INVALID)


# -- poison ------------------------------------------------------------------------------------------------------


def _poisoned(root: UOp) -> UOp:
    return root.table.invalid(root.dtype)


def _out_of_unary(root: UOp, p: UOp, x: UOp) -> UOp:
    return p.where(root.replace(src=(x,)), _poisoned(root))


def _out_of_left(root: UOp, p: UOp, x: UOp, y: UOp) -> UOp:
    return p.where(root.replace(src=(x, y)), _poisoned(root))


def _out_of_right(root: UOp, p: UOp, x: UOp, y: UOp) -> UOp:
    return p.where(root.replace(src=(y, x)), _poisoned(root))


# -- the form of a gate ------------------------------------------------------------------------------------------


def _is_valid(y: UOp) -> bool:
    return y.op is not Ops.INVALID


def _out_of_true_branch(p: UOp, q: UOp, x: UOp, y: UOp, nowhere: UOp) -> UOp:
    return (p.logical_not() | q).where(p.where(x, y), nowhere)


def _out_of_false_branch(p: UOp, q: UOp, x: UOp, y: UOp, nowhere: UOp) -> UOp:
    return (p | q).where(p.where(y, x), nowhere)


def _tight(root: UOp, p: UOp, x: UOp, nowhere: UOp) -> UOp | None:
    tighter = tighten(p)
    if tighter is None or tighter is p:
        return None
    return nowhere if tighter.op is Ops.CONST and not tighter.arg else tighter.where(x, nowhere)


def _under_gate(p: UOp, x: UOp, nowhere: UOp) -> UOp | None:
    if x.op in _PLAIN:
        return None
    known = [c for part in conjuncts(p) or () if (c := Condition.of(part)) is not None]
    if not known:
        return None
    simpler = simplify_under(x, known)
    return None if simpler is None else p.where(simpler, nowhere)


# a member of an enum costs more to look up than a name
_CONST, _INDEX, _INVALID_INDEX = Ops.CONST, Ops.INDEX, Ops.INVALID
_PLAIN: Final = frozenset({Ops.CONST, Ops.DEFINE_VAR, Ops.RANGE, Ops.SPECIAL, Ops.INVALID})

# -- memory ------------------------------------------------------------------------------------------------------


def _is_nowhere(place: UOp) -> bool:
    if place.op is not _INDEX:
        return False
    for source in place.src:  # noqa: SIM110 - every access is asked about: no generator
        if source.op is _INVALID_INDEX:
            return True
    return False


def _is_gated(place: UOp) -> bool:
    return place.op is Ops.INDEX and place.src[-1].dtype.is_bool and len(place.src) > 1


def _zero(node: UOp, dtype: DType) -> UOp:
    return node.table.const(False if dtype.is_bool else 0, dtype)


def _index_nowhere(root: UOp) -> UOp | None:
    if root.dtype.is_pointer or not _is_nowhere(root):
        return None
    return _zero(root, root.dtype)


def _index_known_gate(root: UOp) -> UOp | None:
    gate = root.src[-1]
    if gate.op is not _CONST or not _is_gated(root):
        return None
    if gate.arg:
        return root.replace(src=root.src[:-1])
    return None if root.dtype.is_pointer else _zero(root, root.dtype)


def _load_nowhere(root: UOp) -> UOp | None:
    place = root.src[0]
    if place.op is _CONST:  # the 0 that a load from nowhere would give: a place that has gone
        return _nothing(root)
    closed = _is_gated(place) and place.src[-1].op is _CONST and not place.src[-1].arg
    if not closed and not _is_nowhere(place):
        return None
    return root.src[1] if len(root.src) > 1 else _zero(root, root.dtype)


def _nothing(root: UOp) -> UOp:
    """An effect that does not happen."""
    return root.table.make(Ops.NOOP, dtypes.void)


def _store_nowhere(root: UOp) -> UOp | None:
    place = root.src[0]
    if place.op is _CONST:  # the 0 that a load from nowhere would give: a place that has gone
        return _nothing(root)
    closed = _is_gated(place) and place.src[-1].op is _CONST and not place.src[-1].arg
    return _nothing(root) if closed or _is_nowhere(place) else None


def _store_gated(root: UOp, x: UOp, p: UOp, y: UOp) -> UOp | None:
    """x[i] = p ? y : INVALID: the gate belongs to the place."""
    if x.op is not Ops.INDEX or len(x.src) != 2:
        return None
    buffer, index = x.src
    place = x.replace(src=(buffer, p.where(index, x.table.invalid(index.dtype))))
    return root.replace(src=(place, y, *root.src[2:]))


gates: Final = Matcher(
    "gates",
    [
        # -- poison: first, so that nothing that may be nowhere is folded to a number -----------------------------
        rule(node((*UNARY, *_CHANGING), _INVALID), _poisoned, on=INTEGRAL, says="op(INVALID) -> INVALID"),
        rule(node(_MOVING, _INVALID, y), _poisoned, on=INTEGRAL, says="INVALID ∘ y -> INVALID"),
        rule(node(_MOVING, y, _INVALID), _poisoned, on=INTEGRAL, says="y ∘ INVALID -> INVALID"),
        rule(
            node((*UNARY, *_CHANGING), _gated(p, x)), _out_of_unary, on=INTEGRAL,
            says="op(where(p, x, INVALID)) -> where(p, op(x), INVALID)",
        ),
        rule(
            node(_MOVING, _gated(p, x), y), _out_of_left, on=INTEGRAL,
            says="where(p, x, INVALID) ∘ y -> where(p, x ∘ y, INVALID)",
        ),
        rule(
            node(_MOVING, y, _gated(p, x)), _out_of_right, on=INTEGRAL,
            says="y ∘ where(p, x, INVALID) -> where(p, y ∘ x, INVALID)",
        ),
        # -- one form: a condition, an index, INVALID last --------------------------------------------------------
        rule(
            where(p, _INVALID, x), lambda p, x, nowhere: p.logical_not().where(x, nowhere),
            when=lambda x: x.op is not Ops.INVALID, says="where(p, INVALID, x) -> where(~p, x, INVALID)",
        ),
        rule(
            _gated(p, _gated(q, x)), lambda p, q, x, nowhere: (p & q).where(x, nowhere),
            says="where(p, where(q, x, INVALID), INVALID) -> where(p & q, x, INVALID)",
        ),
        rule(
            where(p, _gated(q, x), y), _out_of_true_branch, when=_is_valid,
            says="where(p, where(q, x, INVALID), y) -> where(~p | q, where(p, x, y), INVALID)",
        ),
        rule(
            where(p, y, _gated(q, x)), _out_of_false_branch, when=_is_valid,
            says="where(p, y, where(q, x, INVALID)) -> where(p | q, where(p, y, x), INVALID)",
        ),
        rule(
            _gated(p, x), _tight, on=INTEGRAL,
            says="where(p & q, x, INVALID) -> where(p, x, INVALID) when p implies q",
        ),
        rule(
            _gated(p, x), _under_gate, on=INDEX,
            says="where(p, x, INVALID) -> where(p, y, INVALID) when p implies x == y",
        ),
        # -- memory -----------------------------------------------------------------------------------------------
        rule(node(Ops.INDEX), _index_nowhere, says="x[INVALID] -> 0"),
        rule(node(Ops.INDEX), _index_known_gate, says="x[i if True] -> x[i], x[i if False] -> 0"),
        rule(node(Ops.LOAD), _load_nowhere, says="load(x[INVALID], y) -> y, or 0"),
        rule(node(Ops.STORE, rest=True), _store_nowhere, says="store(x[INVALID], y) -> nothing"),
        rule(node(Ops.STORE, x, _INVALID, rest=True), _nothing, says="store(x, INVALID) -> nothing"),
        rule(
            node(Ops.STORE, x, _gated(p, y), rest=True), _store_gated,
            says="store(x[i], where(p, y, INVALID)) -> store(x[where(p, i, INVALID)], y)",
        ),
    ],
)  # fmt: skip

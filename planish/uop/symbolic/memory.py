"""Loads and stores: known gates, stores that change nothing, and selects that are gates.

A place that is the same node is the same place at the same time: what orders accesses (AFTER) is part of it.
"""

from __future__ import annotations

from typing import Final

from planish import dtypes
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import NodePattern, node, where
from planish.uop.symbolic.letters import p, x, y

place: Final[NodePattern] = node(Ops.INDEX, name="place")


def _nothing(root: UOp) -> UOp:
    """An effect that does not happen."""
    return root.table.make(Ops.GROUP, dtypes.void)


def _gated(root: UOp, place: UOp, x: UOp, p: UOp) -> UOp:
    return root.replace(src=(place, x, p))


def _is_somewhere(place: UOp) -> bool:
    """Whether a place has no gate of its own: an alternative would be for that."""
    indices = place.src[1:]
    if any(index.dtype.is_bool for index in indices):
        return False
    return all(node.op is not Ops.INVALID for index in indices for node in index.toposort(_computes))


def _computes(node: UOp) -> bool:
    # What is loaded is somewhere, even if it was loaded at a gated place.
    return node.op not in {Ops.INDEX, Ops.LOAD, Ops.RANGE}


def _is_scalar_gate(p: UOp) -> bool:
    return p.dtype.lanes == 1


def _with_alternative(x: UOp, y: UOp, p: UOp) -> UOp:
    return x.replace(src=(x.src[0], y, p))


memory: Final = Matcher(
    "memory",
    [
        # -- known gates (of the place itself: see `gates`) -------------------------------------------------------
        rule(
            node(Ops.STORE, place, x, True), lambda root, place, x: root.replace(src=(place, x)),
            says="store(place, x, True) -> store(place, x)",
        ),
        rule(node(Ops.STORE, place, x, False), _nothing, says="store(place, x, False) -> group()"),
        rule(
            node(Ops.LOAD, place, x, True), lambda root, place, x: root.replace(src=(place, x)),
            says="load(place, alt, True) -> load(place, alt)",
        ),
        rule(
            node(Ops.LOAD, place, x), lambda root, place: root.replace(src=(place,)), when=_is_somewhere,
            says="load(place, alt) -> load(place), place never nowhere",
        ),
        rule(node(Ops.LOAD, place, x, False), x, says="load(place, alt, False) -> alt"),
        # -- stores that change nothing ---------------------------------------------------------------------------
        rule(
            node(Ops.STORE, place, node(Ops.LOAD, place), rest=True), _nothing,
            says="store(place, load(place)) -> group()",
        ),
        rule(node(Ops.STORE, place, place, rest=True), _nothing, says="store(place, get(place)) -> group()"),
        # -- selects that are gates -------------------------------------------------------------------------------
        rule(
            node(Ops.STORE, place, where(p, x, node(Ops.LOAD, place))), _gated, when=_is_scalar_gate,
            says="store(place, where(p, x, load(place))) -> store(place, x, p)",
        ),
        rule(
            node(Ops.STORE, place, where(p, x, place)), _gated, when=_is_scalar_gate,
            says="store(place, where(p, x, get(place))) -> store(place, x, p)",
        ),
        rule(
            node(Ops.STORE, place, where(p, x, y), p), _gated,
            says="store(place, where(p, x, y), p) -> store(place, x, p)",
        ),
        rule(
            where(p, node(Ops.LOAD, place, node(tuple(Ops)), p, name="x"), y), _with_alternative, when=_is_somewhere,
            says="where(p, load(place, alt, p), y) -> load(place, y, p), place never nowhere",
        ),
    ],
)  # fmt: skip

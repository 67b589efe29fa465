"""Order and effects: AFTER, END, GROUP, NOOP and counters that have one value.

AFTER is the only ordering there is, so no rule may lose a dependency: what has no effect of its own is replaced by
what it is made of, so that RANGE, STORE, BARRIER, END and reads of memory stay. A RANGE that waits for effects
stays for the same reason, even if it has only one value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from planish import dtypes
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import ALU, CONSTANTS, DEFINES, Ops, Variable
from planish.uop.pattern import node
from planish.uop.symbolic.letters import x

_BUNDLES: Final = (Ops.SINK, Ops.GROUP, Ops.BARRIER)
_COMPUTED: Final = ALU | {
    Ops.CAST,
    Ops.BITCAST,
    Ops.GEP,
    Ops.VECTORIZE,
    Ops.CAT,
    Ops.NOOP,
    Ops.GROUP,
}
_INERT: Final = DEFINES | CONSTANTS | {Ops.INVALID, Ops.DEFINE_VAR, Ops.SPECIAL, Ops.BUFFER}


def _has_no_effect(node: UOp) -> bool:
    """Whether waiting for a node is waiting for its sources."""
    if node.op in _COMPUTED:
        return True
    if node.op is Ops.INDEX:
        return node.dtype.is_pointer  # otherwise it reads
    return node.op is Ops.AFTER and _is_place(node.src[0])


def _is_place(node: UOp) -> bool:
    return node.op in DEFINES or (node.op is Ops.INDEX and node.dtype.is_pointer)


def _effects(effects: Iterable[UOp]) -> tuple[UOp, ...]:
    """What really has to be waited for, in order of mention, each once."""
    kept: dict[UOp, None] = {}
    seen: set[UOp] = set()
    stack = list(effects)[::-1]
    while stack:
        effect = stack.pop()
        if effect in seen or effect.op in _INERT:
            continue
        seen.add(effect)
        if _has_no_effect(effect):
            stack.extend(reversed(effect.src))
        else:
            kept[effect] = None
    return tuple(kept)


def _wait_for_effects(root: UOp, x: UOp) -> UOp | None:
    effects = _effects(root.src[1:])
    if effects == root.src[1:]:
        return None
    return root.replace(src=(x, *effects)) if effects else x


def _join_waits(root: UOp, x: UOp) -> UOp:
    return root.replace(src=(x.src[0], *dict.fromkeys((*x.src[1:], *root.src[1:]))))


def _flatten(root: UOp) -> UOp | None:
    """The members of a bundle: of bundles in it, each once, without those that do nothing."""
    members: dict[UOp, None] = {}
    for effect in root.src:
        if effect.op is Ops.GROUP:
            members.update(dict.fromkeys(effect.src))
        elif effect.op is not Ops.NOOP or effect.src:
            members[effect] = None
    flat = tuple(members)
    return root.replace(src=flat) if flat != root.src else None


def _close_open(root: UOp) -> UOp | None:
    """END of ranges that have become constants."""
    kept = tuple(r for r in root.src[1:] if r.op is not Ops.CONST)
    if not kept:
        return root.src[0]
    return root.replace(src=(root.src[0], *kept)) if len(kept) + 1 < len(root.src) else None


def _only_value(root: UOp) -> UOp | None:
    variable = root.arg
    if isinstance(variable, Variable) and variable.low == variable.high:
        return root.const_like(variable.low)
    return None


order: Final = Matcher(
    "order",
    [
        # -- counters of one value --------------------------------------------------------------------------------
        rule(node(Ops.RANGE, 1), 0, says="range(1) -> 0"),
        rule(node(Ops.SPECIAL, 1), 0, says="special(1) -> 0"),
        rule(node(Ops.DEFINE_VAR), _only_value, says="variable in c … c -> c"),
        # -- bundles ----------------------------------------------------------------------------------------------
        rule(node(Ops.NOOP, x), x, says="noop(x) -> x"),
        rule(node(Ops.GROUP, x), x, when=lambda x: x.dtype is dtypes.void, says="group(e) -> e"),
        rule(node(_BUNDLES), _flatten, says="group(group(e, f), noop(), e) -> group(e, f)"),
        # -- loops that close nothing -----------------------------------------------------------------------------
        rule(node(Ops.END), _close_open, says="end(e, constant) -> e"),
        rule(node(Ops.END, node((Ops.GROUP, Ops.NOOP), name="x"), rest=True), x, when=lambda x: not x.src, says="end(group(), r) -> group()"),
        # -- waiting ----------------------------------------------------------------------------------------------
        rule(node(Ops.AFTER, node(Ops.AFTER, name="x"), rest=True), _join_waits, says="after(after(x, e), f) -> after(x, e, f)"),
        rule(node(Ops.AFTER, x, rest=True), _wait_for_effects, says="after(x, f(e)) -> after(x, e), f without effect"),
    ],
)  # fmt: skip

"""Which keys a query sees: bounds that masks set to a walk over keys, read off what is made of them.

A weight is nothing where a mask makes its exponent -inf, or itself 0. Conditions that compare the key with the query then say from which
key on, or up to which one, there is anything to do::

    exp(where(key <= query + 3, s, -inf) - l) * d        last = query + 3
    where(query - 128 < key, p, 0)                       first = query - 127
    where(query <= key % 512, p, 0)                      first = query of every 512 keys: heads that share what is walked past them
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from planish.uop.nest import OUTPUT
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.ranges import kind_of
from planish.uop.rewrite import substitute
from planish.uop.strides import stride
from planish.uop.symbolic import simplify
from planish.uop.symbolic.conditions import conjuncts


class Seen(NamedTuple):
    """The first and the last key that a query sees, as expressions that grow with the query; None where nothing is known."""

    first: UOp | None = None
    last: UOp | None = None
    period: int = 0
    """After how many keys they begin anew; 0: never."""


def seen(conditions: Sequence[UOp], keys: UOp, queries: UOp) -> Seen:
    """What conditions on a key say of where a query sees any."""
    conditions = [simplify(each) for each in conditions]
    visible = _seen(conditions, keys, queries)
    return visible if visible != Seen() else _seen_anew(conditions, keys, queries)


def _seen_anew(conditions: Sequence[UOp], keys: UOp, queries: UOp) -> Seen:
    """The same where all conditions are about the number of a key in a period."""
    periods = {n for each in conditions for n in each.toposort() if n.op is Ops.FLOORMOD and n.src[0] is keys}
    if len(periods) != 1 or keys.src[0].op is not Ops.CONST:
        return Seen()
    (within,) = periods
    period = within.src[1].arg if within.src[1].op is Ops.CONST else 0
    if not isinstance(period, int) or period < 1 or (keys.vmax + 1) % period:
        return Seen()
    number = keys.replace(src=(keys.src[0].const_like(period),))
    about = [simplify(substitute(each, {within: number})) for each in conditions]
    if any(keys in each.ranges for each in about):
        return Seen()
    visible = _seen(about, number, queries)
    return visible if visible == Seen() else visible._replace(period=period)


def _seen(conditions: Sequence[UOp], keys: UOp, queries: UOp) -> Seen:
    visible = Seen()
    for condition in conditions:
        if condition.op not in {Ops.CMPLE, Ops.CMPLT}:
            continue
        less, more = condition.src
        if not less.dtype.is_index:
            continue
        room = simplify(more - less - (condition.op is Ops.CMPLT))  # not less than 0
        step, rest = stride(room, keys), simplify(substitute(room, {keys: keys.const_like(0)}))
        bound = rest if step == -1 else simplify(-rest)
        grows = stride(bound, queries)
        if step not in {-1, 1} or grows is None or grows < 0:
            continue
        if all(kind_of(r) in OUTPUT for r in bound.ranges):
            visible = visible._replace(last=bound) if step == -1 else visible._replace(first=bound)
    return visible


def unless_hidden(exponent: UOp) -> list[UOp]:
    """Conditions without which an exponent is -inf."""
    if exponent.op is Ops.WHERE and exponent.src[2].op is Ops.CONST and exponent.src[2].arg == -math.inf:
        condition, x, _ = exponent.src
        return [*(conjuncts(condition) or [condition]), *unless_hidden(x)]
    return unless_hidden(exponent.src[0]) if exponent.op is Ops.SUB else []


def unless_nothing(weight: UOp) -> list[UOp]:
    """Conditions without which a weight is 0, whatever finite number it is multiplied by."""
    if weight.op in {Ops.CAST, Ops.FDIV}:
        return unless_nothing(weight.src[0])
    if weight.op is Ops.MUL:
        return [condition for factor in weight.src for condition in unless_nothing(factor)]
    if weight.op is Ops.EXP:
        return unless_hidden(weight.src[0])
    if weight.op is Ops.WHERE and weight.src[2].op is Ops.CONST and weight.src[2].arg == 0:
        condition, x, _ = weight.src
        return [*(conjuncts(condition) or [condition]), *unless_nothing(x)]
    return []

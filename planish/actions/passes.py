"""What an action asks of a kernel that is to reduce an axis in several passes: one sum, and a value to start from."""

from __future__ import annotations

from typing import NamedTuple, cast

from planish.actions.base import Action
from planish.uop.nest import stores_in
from planish.uop.nest.kernel import Nest
from planish.uop.node import Number, UOp
from planish.uop.ops import Ops
from planish.uop.symbolic.reduce import identity


class OneSum(NamedTuple):
    """A kernel of one loop nest, whose only store is of what one reduction makes of an axis."""

    end: UOp
    store: UOp
    total: UOp


def one_sum(action: Action, sink: UOp, r: UOp) -> OneSum:
    """The parts of such a kernel; `Refusal` of another one."""
    facts, stores = Nest.of(sink), list(stores_in(sink))
    if len(sink.src) != 1 or len(stores) != 1 or sink.src[0].op is not Ops.END or len(stores[0].src) != 2:
        raise action.no("the kernel has not one loop nest with one store")
    closers = facts.closers.get(r, [])
    if r in facts.ordered or facts.is_bound(r) or len(closers) != 1 or closers[0].op is not Ops.REDUCE:
        raise action.no("the axis is not that of one reduction alone")
    return OneSum(sink.src[0], stores[0], closers[0])


def start_of(action: Action, total: UOp) -> Number:
    """What a reduction or a scan starts from because combining with it changes nothing."""
    nothing = identity(cast("Ops", total.arg), total)
    if nothing is None:
        raise action.no(f"{cast('Ops', total.arg).name} of {total.dtype} has no value to start from")
    return nothing

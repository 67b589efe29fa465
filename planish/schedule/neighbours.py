"""Which axis of a tensor lies together in memory, as far as its movements tell: threads of a GPU that share a sum read neighbours.

Before → after, of x in memory as N H W C::

    PERMUTE(x, N C H W)               axis 1
    RESHAPE(that, (N*C, H*W))         axis 0
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final, cast

from planish.schedule.elements import COMPUTED
from planish.schedule.tensors import most
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.shape import shape

_AS_IT_IS: Final = frozenset({Ops.EXPAND, Ops.SHRINK, Ops.PAD, Ops.FLIP})


def innermost(x: UOp, is_stored: Callable[[UOp], bool]) -> int | None:
    """The axis of a tensor along which what it is made of lies together; None if that cannot be told."""
    if is_stored(x) or x.op is Ops.CONTIGUOUS or (x.op is Ops.INDEX and len(x.src) == 1):
        return max((axis for axis, size in enumerate(shape(x)) if size != 1), default=None)
    if not x.src:
        return None
    if x.op in COMPUTED:
        return innermost(max(x.src, key=lambda source: most(shape(source))), is_stored)
    below = innermost(x.src[0], is_stored)
    if below is None or x.op in _AS_IT_IS:
        return below
    if x.op is Ops.PERMUTE:
        return cast("tuple[int, ...]", x.arg).index(below)
    return _reshaped(x, below) if x.op is Ops.RESHAPE else None


def _reshaped(x: UOp, below: int) -> int | None:
    """The axis of a reshaped tensor that ends where an axis of the tensor did."""
    was, now = shape(x.src[0]), shape(x)
    if not all(isinstance(size, int) for size in (*was, *now)):
        return None
    sizes, made = cast("tuple[int, ...]", was), cast("tuple[int, ...]", now)
    behind = prod(sizes[below + 1 :])
    return next(
        (axis for axis in range(len(made)) if prod(made[axis + 1 :]) == behind and made[axis] > 1), None
    )

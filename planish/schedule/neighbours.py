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
    """The axis of a tensor along which most of what it is made of lies together; None if that cannot be told."""
    return largest_read(x, is_stored)[1]


def largest_read(x: UOp, is_stored: Callable[[UOp], bool]) -> tuple[int, int | None]:
    """The elements of the largest tensor in memory that one is made of, and the axis along which those lie together."""
    largest: dict[UOp, tuple[int, int | None]] = {}
    for node in x.toposort(lambda n: not (is_stored(n) or _is_memory(n))):
        if is_stored(node) or _is_memory(node):
            dims = shape(node)
            axis = max((axis for axis, size in enumerate(dims) if size != 1), default=None)
            largest[node] = (most(dims), axis)
        elif node.op in COMPUTED:
            largest[node] = max((largest[source] for source in node.src), key=lambda each: each[0])
        elif node.src:
            count, below = largest[node.src[0]]
            largest[node] = (count, None if below is None else _moved(node, below))
        else:
            largest[node] = (0, None)
    return largest[x]


def _is_memory(x: UOp) -> bool:
    return x.op is Ops.CONTIGUOUS or (x.op is Ops.INDEX and len(x.src) == 1)


def _moved(x: UOp, below: int) -> int | None:
    """Where an axis of what a movement is made of is afterwards."""
    if x.op in _AS_IT_IS:
        return below
    if x.op is Ops.PERMUTE:
        return cast("tuple[int, ...]", x.arg).index(below)
    return _reshaped(x, below) if x.op is Ops.RESHAPE else None


def _reshaped(x: UOp, below: int) -> int | None:
    """The axis of a reshaped tensor that ends where an axis of the tensor did."""
    was, now = shape(x.src[0]), shape(x)
    if not all(isinstance(size, int) for size in (*was, *now)):
        return None
    sizes, dims = cast("tuple[int, ...]", was), cast("tuple[int, ...]", now)
    behind = prod(sizes[below + 1 :])
    return next(
        (axis for axis in range(len(dims)) if prod(dims[axis + 1 :]) == behind and dims[axis] > 1), None
    )

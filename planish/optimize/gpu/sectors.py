"""What the threads of a warp touch by one access: which places the memory has to bring for them.

The fastest axes of a block are neighbouring threads. Of an index that is a sum of steps the places of all threads of a warp are known at once; one
with quotients is worked out thread by thread. Where data chooses, each thread is taken to be somewhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from planish.target import Target
from planish.uop.nest import LANES
from planish.uop.nest.access import Access, plain_indices
from planish.uop.node import UOp
from planish.uop.ops import Ops, UnrolledLanes
from planish.uop.ranges import kind_of

_Places = NDArray[Any]
_COMPUTED: Final[dict[Ops, Callable[..., Any]]] = {
    Ops.ADD: np.add,
    Ops.SUB: np.subtract,
    Ops.MUL: np.multiply,
    Ops.FLOORDIV: np.floor_divide,
    Ops.FLOORMOD: np.mod,
    Ops.TRUNCDIV: np.floor_divide,
    Ops.TRUNCMOD: np.mod,
    Ops.MIN: np.minimum,
    Ops.MAX: np.maximum,
    Ops.XOR: np.bitwise_xor,
    Ops.AND: np.bitwise_and,
    Ops.OR: np.bitwise_or,
    Ops.SHR: np.right_shift,
    Ops.SHL: np.left_shift,
    Ops.CMPLT: np.less,
    Ops.CMPEQ: np.equal,
    Ops.CMPNE: np.not_equal,
    Ops.CMPLE: np.less_equal,
    Ops.WHERE: np.where,
}
"""What an index is made of."""


class Warp(NamedTuple):
    """The places of a block's axes that the threads of its first warp have."""

    threads: int
    """Of the block."""
    machine: Target
    places: dict[UOp, _Places]

    @property
    def size(self) -> int:
        """Threads of a warp that there are."""
        return min(self.threads, self.machine.warp)

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return -(-self.threads // self.machine.warp)


def warp_of(axes: Sequence[UOp], target: Target) -> Warp:
    """The warps that the axes of a block make, that of neighbours first."""
    threads = prod(r.vmax + 1 for r in axes)
    number, places = np.arange(min(threads, target.warp)), {}
    for r in axes:
        places[r] = number % (r.vmax + 1)
        number = number // (r.vmax + 1)
    return Warp(threads, target, places)


class Touched(NamedTuple):
    """What the accesses of a warp to one place touch, in one iteration and lane of a loop."""

    vector: int
    """Elements of a thread."""
    active: int
    """Threads that take part."""
    sectors: int
    lines: int
    """Lines: as often a multiprocessor looks into its cache."""
    accesses: int = 1
    """Of each thread: several where a core spreads what it has of an operand."""


def vector_of(access: Access, target: Target) -> int:
    """Neighbours that one thread moves by one access."""
    for r in access.lanes:
        if kind_of(r) in LANES and access.steps.get(r) == 1:
            n = min(r.vmax + 1, max(target.thread_bytes // access.dtype.itemsize, 1))
            others = [step for other, step in access.steps.items() if other is not r and step]
            while n > 1 and ((r.vmax + 1) % n or any(step % n for step in others)):
                n -= 1
            return n
    return 1


def touched(access: Access, warp: Warp) -> Touched:
    """By the first warp of a block, of memory that all threads see."""
    target = warp.machine
    sector, line = target.sector_bytes, target.line_bytes
    vector, itemsize = vector_of(access, target), access.dtype.itemsize
    mine = [r for r in warp.places if r in access.lanes]
    places = _places(access, mine, warp)
    active = min(prod(r.vmax + 1 for r in mine), warp.size)
    if places is None:
        each = max(vector * itemsize // sector, 1)
        return Touched(vector, active, active * each, active)
    nbytes = vector * itemsize
    first = np.unique(places) * itemsize
    sectors = {at // sector + n for at in first.tolist() for n in range(-(-nbytes // sector))}
    if places.ndim == 1:
        return Touched(vector, active, len(sectors), len({at * sector // line for at in sectors}))
    pieces = places[0] * itemsize // target.thread_bytes  # each is an access of its own
    lines = [len(np.unique(places[:, pieces == each] * itemsize // line)) for each in np.unique(pieces)]
    return Touched(vector, active, len(sectors), sum(lines), len(lines))


def _places(access: Access, mine: Sequence[UOp], warp: Warp) -> _Places | None:
    """Where each thread of a warp begins; None if data chooses."""
    if not warp.places:
        return np.zeros(1, np.int64)
    plain, _ = plain_indices(access.place.src[1:])
    spread = len(plain) == 1 and any(n.op is Ops.UNROLL for n in plain[0].toposort())
    if not spread and all(access.steps.get(r, 0) is not None for r in mine):
        places = np.zeros(warp.size, np.int64)
        for r in mine:
            places = places + warp.places[r] * cast("int", access.steps.get(r, 0))
        return cast("NDArray[np.int64]", places - places.min())
    return _value(plain[0], warp) if len(plain) == 1 else None


def _value(index: UOp, warp: Warp) -> _Places | None:
    """An index for each thread of a warp, and for each of its lanes, in the first iteration of all loops."""
    values: dict[UOp, Any] = {}
    axes = dict.fromkeys(
        axis for n in index.toposort() if n.op is Ops.UNROLL for axis in cast("UnrolledLanes", n.arg).axes
    )
    numbers = {path: n for n, (path, _) in enumerate(axes)}
    shape = tuple(size for _, size in axes)
    ones = (1,) * len(shape)
    for node in index.toposort():
        if node.op is Ops.RANGE:
            values[node] = warp.places.get(node, np.zeros(1, np.int64)).reshape(-1, *ones)
        elif node.op in {Ops.CONST, Ops.VCONST}:
            values[node] = np.asarray(node.arg if isinstance(node.arg, int | tuple) else 0)
        elif node.op is Ops.UNROLL:
            mine = cast("UnrolledLanes", node.arg).axes
            across = [1] * len(shape)
            for path, size in mine:
                across[numbers[path]] = size
            values[node] = np.asarray(cast("tuple[int, ...]", node.src[0].arg)).reshape(1, *across)
        elif node.op in _COMPUTED and all(source in values for source in node.src):
            with np.errstate(all="ignore"):
                values[node] = _COMPUTED[node.op](*(values[source] for source in node.src))
        elif node.op is Ops.CAST and node.src[0] in values:
            values[node] = values[node.src[0]]
    value = values.get(index)
    if value is None:
        return None
    whole = np.broadcast_to(np.asarray(value, np.int64), (warp.size, *shape))
    return whole.reshape(warp.size, -1) if shape else whole

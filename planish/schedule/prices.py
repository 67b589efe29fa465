"""What an element costs: the operations that compute it from memory, the bytes that it is made of, and what storing it takes.

All in cycles of one core of the target, for a whole tensor. `rematerialise.py` and `reasons.py` compare with it.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from typing import Final, NamedTuple, cast

from planish import dtypes
from planish.schedule.elements import COMPUTED, LEAVES, only_counts
from planish.schedule.tensors import Tensors, most
from planish.target import Target
from planish.uop.node import UOp
from planish.uop.ops import MOVEMENT, Ops
from planish.uop.shape import Dim, shape
from planish.uop.weights import weight

_MOST_STEPS: Final = 256
"""Elements that are looked at below one: what takes more is dear enough."""
_ASKED: Final = 3.0
"""Operations that find out whether an element lies in a rim, and choose."""


class Path(NamedTuple):
    """How an element lies to the one that asks: after which changes of order (none: the same), and how far off along each axis."""

    order: tuple[object, ...] = ()
    offsets: tuple[int, ...] = ()


_HERE: Final = Path()


class Price(NamedTuple):
    """Of one tensor, in cycles."""

    compute: float
    """The operations, the loads among them."""
    read: float
    """The bytes that it is made of."""
    memory: Collection[UOp]
    """Where they are."""
    write: float
    load: float
    """Its own bytes, written and read."""
    access: float
    """The instructions that read it."""

    def storing(self, target: Target, kernels: int = 1, asks: int = 1) -> float:
        """What it costs to write it, and to read it at so many places of so many kernels; its own kernel counts."""
        reads = kernels * max(self.load, self.access) + (asks - kernels) * self.access
        return self.write + reads + target.launch


class Prices:
    """Prices of tensors of which some are in memory."""

    def __init__(self, tensors: Tensors, realised: Container[UOp]) -> None:
        self.target = tensors.target
        self.counting = tensors.counting
        self.realised = realised

    def of(self, node: UOp, stored: Container[UOp] = ()) -> Price:
        """The price of a tensor if others, besides those in memory, were stored."""
        size, target = most(shape(node)), self.target
        operations, memory = self._made_of(node, stored)
        lanes = target.ports * target.lanes(node.dtype)
        read = sum(
            min(_nbytes(each), size * each.dtype.scalar.itemsize) / target.rate(_nbytes(each))
            for each in memory
        )
        own = _nbytes(node)
        load = own / target.rate(own)
        packed = (
            target.pack_ops * size / (target.ports * target.lanes(dtypes.float32))
            if node.dtype.is_bool
            else 0.0
        )
        access = size / (target.loads * target.lanes(node.dtype))
        return Price(operations * size / lanes, read, memory, load + packed, load + packed, access)

    def _made_of(self, root: UOp, stored: Container[UOp]) -> tuple[float, dict[UOp, None]]:
        """The operations that one element takes, down to memory, and that memory."""
        size = max(most(shape(root)), 1)
        operations, memory = 0.0, dict[UOp, None]()
        stack: list[tuple[UOp, Path]] = [(root, _HERE)]
        seen = set(stack)
        while stack and len(seen) < _MOST_STEPS:
            node, path = stack.pop()
            if node is not root and (node in stored or self._is_memory(node)):
                memory[node] = None
                operations += min(1.0, most(shape(node)) / size)
                continue
            if node.op in COMPUTED:
                # what is the same along an axis is computed once for all of it
                operations += weight(node.op) * min(1.0, most(shape(node)) / size)
            elif node.op is Ops.PAD:
                operations += _ASKED
            sources = node.src[1:] if node.op is Ops.INDEX else node.src
            if node.op is Ops.INDEX and len(node.src) > 1:
                memory[node.src[0]] = None
                operations += self.target.gather_ops
            for source in sources:
                below = (source, moved(node, path) if node.op in MOVEMENT else path)
                if source.op not in LEAVES and below not in seen and not only_counts(source, self.counting):
                    seen.add(below)
                    stack.append(below)
        return operations, memory

    def _is_memory(self, node: UOp) -> bool:
        if node in self.realised or node.op in {Ops.REDUCE_AXIS, Ops.SCAN_AXIS, Ops.CONTIGUOUS, Ops.AFTER}:
            return True
        return node.op is Ops.INDEX and len(node.src) == 1


def moved(node: UOp, path: Path) -> Path:
    """The path of an operand of a movement op."""
    match node.op:
        case Ops.EXPAND:
            return path
        case Ops.SHRINK | Ops.PAD:
            pairs = cast("tuple[tuple[Dim, Dim], ...]", node.arg)
            steps = [first if isinstance(first, int) else first.serial << 32 for first, _ in pairs]
            sign = 1 if node.op is Ops.SHRINK else -1
            old = path.offsets or (0,) * len(steps)
            if len(old) == len(steps):
                new = tuple(before + sign * step for before, step in zip(old, steps, strict=True))
                return Path(path.order, new if any(new) else ())
        case Ops.RESHAPE | Ops.PERMUTE if path == _HERE:
            return path
    return Path((path, node.op, node.arg))


def _nbytes(node: UOp) -> int:
    return most(shape(node)) * node.dtype.scalar.itemsize

"""What schedules around a CPU's tensor core have in common: ways to use it, and what is left of the axes that it takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, cast

from planish.actions.pad_to import PadTo
from planish.actions.stage import Stage
from planish.actions.tensor_core import TensorCore
from planish.dtypes import PtrDType
from planish.optimize.draft import Draft, Kind
from planish.target import rounds
from planish.uop.nest import axes_of, name_of, size_of
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.products import Product, nearly
from planish.uop.ranges import kind_of
from planish.uop.tensor_cores import Core

Sizes = tuple[int, int, int]
_MOST_WASTE: Final = 2.0
"""How many times more padding may make of the work."""


class Fit(NamedTuple):
    """A way to use a core, and what it costs: the sizes that axes are padded to."""

    product: Product
    padded: tuple[int, int, int]
    groups: int = 1
    """Groups of threads that share an operand."""
    parts: int = 1
    """Blocks that share a sum."""

    @property
    def axes(self) -> tuple[UOp, UOp, UOp]:
        return self.product.m, self.product.n, self.product.k

    @property
    def work(self) -> int:
        m, n, k = (size_of(axis) for axis in self.axes)
        return m * n * k

    @property
    def waste(self) -> float:
        m, n, k = self.padded
        return m * n * k / self.work


def upto(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def sizes_of(product: Product) -> rounds.ProductSizes:
    """The sizes of a product, those of the axes around it taken together."""
    batch = 1
    for axis in product.reduce.ranges - {product.m, product.n}:
        batch *= max(size_of(axis), 1)
    m, n, k = (size_of(axis) for axis in (product.m, product.n, product.k))
    left, right = (_elements(value) for value in (product.a, product.b))
    return rounds.ProductSizes(
        m, n, k, batch, product.a.dtype.itemsize, 0, min(left, m * k * batch), min(right, n * k * batch)
    )


def _elements(operand: UOp) -> int:
    """How many elements of memory an operand is made of."""
    buffers = [node.src[0] for node in operand.toposort() if node.op is Ops.INDEX]
    return sum(cast("PtrDType", buffer.dtype).size for buffer in dict.fromkeys(buffers))


def fits(sink: UOp, core: Core, wanted: Callable[[Product], Sizes], least: int) -> list[Fit]:
    """The ways to use a core that are worth it, the best first; `wanted` are the sizes that axes are padded to."""
    ways: list[Fit] = []
    for product in nearly(sink, core):
        axes = (product.m, product.n, product.k)
        if (
            not all(size_of(axis) for axis in axes)
            or slot_of(product.a) is None
            or slot_of(product.b) is None
        ):
            continue
        if core.right is not None and product.n.order < product.m.order:
            continue  # another core takes the factors the other way round, and results come by rows
        fit = Fit(product, wanted(product))
        if fit.work >= least and fit.waste <= _MOST_WASTE:
            ways.append(fit)
    return sorted(ways, key=lambda fit: (fit.waste, -fit.work))


_PREPARED: Final = frozenset({Ops.CAST, Ops.BITCAST, Ops.ADD, Ops.SUB, Ops.XOR})


def slot_of(operand: UOp) -> int | None:
    """Which parameter an operand is read from, as it is, converted, or shifted by a zero point; None if it is computed."""
    while operand.op in _PREPARED:
        moving = [source for source in operand.src if source.ranges]
        if len(moving) != 1:
            return None
        (operand,) = moving
    if operand.op is not Ops.INDEX or operand.src[0].op is not Ops.DEFINE_GLOBAL:
        return None
    return cast("int", operand.src[0].arg)


class CoreSchedule(ABC):
    """A schedule around a core, in the making."""

    def __init__(self, draft: Draft, core: Core, fit: Fit) -> None:
        self.draft, self.core, self.fit = draft, core, fit
        self.m, self.n, self.k = fit.axes
        loops = [r for r in axes_of(draft.sink) if kind_of(r) is AxisType.LOOP]
        self.batches = [r for r in loops if r not in fit.axes and r in fit.product.reduce.ranges]
        self.side = {self.m: 1, self.n: 1}

    def pad(self) -> bool:
        return all(
            size_of(axis) == size or self.do(PadTo, axis, size, "a tile has a fixed size")
            for axis, size in zip(self.fit.axes, self.fit.padded, strict=True)
        )

    def multiply(self) -> bool:
        """The core at work, the way that was chosen."""
        action = TensorCore.of(self.core, self.fit.product)
        return self.draft.do(action, f"a product of matrices of {self.core.inputs}")

    def left(self, axis: UOp) -> int:
        return self.draft.steps(axis)

    def do(self, kind: Kind, axis: UOp, amount: int, reason: str) -> bool:
        """Do something to the innermost loop that is left of an axis."""
        return self.draft.take(kind, axis, amount, reason, inner=True)

    def innermost(self) -> list[UOp]:
        """The innermost loops over rows and columns, outermost first."""
        loops = [loop for axis in (self.m, self.n) if (loop := self.draft.innermost(axis)) is not None]
        return sorted(loops, key=lambda r: r.order)

    @abstractmethod
    def take(self) -> bool:
        """Make it; whether every step that is needed could be taken."""

    def stage(self, b_at: UOp | None, a_at: UOp | None, why: tuple[str, str]) -> bool:
        """Both operands, copied to LOCAL memory inside of a loop each, the right one first; whether both are."""
        product = self.fit.product
        slots = slot_of(product.b), slot_of(product.a)
        if slots[0] is None or slots[1] is None:
            return False
        names = [None if at is None else name_of(at) for at in (b_at, a_at)]
        right = self.draft.do(Stage(slots[0], names[0]), why[0])
        left = self.draft.do(Stage(slots[1], names[1]), why[1])
        return right and (left or slots[0] == slots[1])  # a matrix times itself may be staged at once


def try_each(
    draft: Draft, core: Core, ways: Iterable[Fit], kind: Callable[[Draft, Core, Fit], CoreSchedule]
) -> bool:
    """The first schedule that can be made; whether there is one. What fails leaves no trace."""
    for fit in ways:
        trial = draft.copy()
        if kind(trial, core, fit).take():
            draft.adopt(trial)
            return True
    return False


def divisor(number: int, most: int) -> int:
    """The greatest divisor that is not greater than another number."""
    return max(divisors(number, most), default=1)


def divisors(number: int, most: int) -> Iterable[int]:
    return (each for each in range(1, min(number, most) + 1) if number % each == 0)

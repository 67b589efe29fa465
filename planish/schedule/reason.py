"""What a reason for memory is: a test of a tensor that a kernel asks for, a sentence, and both costs where they decide.

The reasons themselves are tables, in `reasons.py` and `reduction_reasons.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

from planish.records import dataclass
from planish.schedule.elements import ElementPlace
from planish.schedule.limits import AGAIN
from planish.schedule.tensors import most
from planish.uop.node import UOp
from planish.uop.ops import ReduceAxes
from planish.uop.shape import shape

if TYPE_CHECKING:
    from planish.schedule.fusion import Fusion
    from planish.target import Target


class Case(NamedTuple):
    """A tensor that a kernel asks for."""

    fusion: Fusion
    node: UOp
    places: Sequence[ElementPlace]
    """Where it is asked for."""
    times: float
    """How often each of its elements would be computed."""

    @property
    def target(self) -> Target:
        """The machine that the kernel is for."""
        return self.fusion.tensors.target

    @property
    def small(self) -> int:
        """Elements that one core has done before others have started."""
        return self.target.small_elements

    def again(self, evaluations: float) -> tuple[float, float]:
        """What it costs to compute each element so many times, and to compute it once, store it and read it; in cycles."""
        price = self.fusion.prices.of(self.node)
        return evaluations * price.compute, price.compute + price.storing(self.target)

    def source(self) -> Case:
        """What elements are taken from, as often as they are."""
        (x, *_), size = self.node.src, most(shape(self.node))
        return self._replace(node=x, times=self.times * size / max(1, most(shape(x))))

    @property
    def is_product(self) -> bool:
        return self.fusion.around.graph.is_product(self.node)

    @property
    def terms(self) -> int:
        """Of one element of a reduction."""
        axes = cast("ReduceAxes", self.node.arg).axes
        return most(shape(self.node.src[0])[axis] for axis in axes)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a tensor is in memory."""

    name: str
    explanation: str
    holds: Callable[[Case], bool] = lambda case: True
    evaluations: Callable[[Case], float] | None = None
    """Where it is a matter of cost: how often an element would be computed. It holds only if storing is cheaper."""
    with_epilogue: bool = True
    """Whether what follows from the tensor alone, element by element, is stored instead of it."""

    def applies(self, case: Case) -> Reason | None:
        """This reason, with both costs where they decide; None if it does not hold."""
        if self.evaluations is None:
            return self if self.holds(case) else None
        evaluations = self.evaluations(case)
        if evaluations <= AGAIN or not self.holds(case):
            return None
        again, stored = case.again(evaluations)
        if again <= stored:
            return None
        costs = f"computed again {again:.3g} cycles, stored {stored:.3g}"
        return replace(self, explanation=f"{self.explanation}: {costs}")

    def __str__(self) -> str:
        return f"{self.name}: {self.explanation}"


def first_of(table: Sequence[Reason], case: Case) -> Reason | None:
    """The first reason that holds."""
    return next(filter(None, (reason.applies(case) for reason in table)), None)

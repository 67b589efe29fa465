"""Averages of parameters over steps: exponential (EMA) and plain (SWA), trees beside the one that learns.

```
ema = optim.EMA(0.999)
average = ema.init(model)
average = ema.update(average, model)  # after each step, in the same compiled function
average.value  # a model like any other
```
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, TypeVar

from planish.dtypes import float64, int64
from planish.errors import PlanishError
from planish.frontend import tree
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.optim.optimizer import in_range, learnt_mask
from planish.records import dataclass

T = TypeVar("T")


@dataclass(frozen=True)
class Average(Generic[T]):
    """A tree of averages, and of how many trees it is one."""

    value: T
    step: Tensor


class _Averaged:
    """What is learnt is averaged, and buffers too if `use_buffers`; everything else is that of the last tree."""

    use_buffers: bool

    def init(self, params: T) -> Average[T]:
        """The average of one tree."""
        copied: T = tree.map_tree(lambda x: x.snapshot() if isinstance(x, Tensor) else x, params)
        return Average(copied, fn.ones((), dtype=int64))

    def update(self, average: Average[T], params: T) -> Average[T]:
        """The average with one more tree."""
        leaves, structure = tree.flatten(params)
        before = tree.aligned(average.value, structure)
        if before is None:
            raise PlanishError.at_caller(
                f"{type(self).__name__}: {structure} is not a tree like the one that was averaged, {tree.flatten(average.value)[1]}",
                "make the average with init of the same model",
            )
        mask = learnt_mask(leaves, structure)
        share = self._share(average.step.astype(float64))

        def mixed(old: Any, new: Any, learnt: bool) -> Any:
            if not isinstance(new, Tensor) or not new.dtype.is_float or not (learnt or self.use_buffers):
                return new
            return (old + (new - old) * share.astype(new.dtype)).astype(new.dtype)

        averaged = [mixed(a, b, learnt) for a, b, learnt in zip(before, leaves, mask, strict=True)]
        value: T = tree.unflatten(structure, averaged)
        return Average(value, average.step + 1)

    @abstractmethod
    def _share(self, seen: Tensor) -> Tensor:
        """What the next tree counts for, after so many."""


@dataclass(frozen=True)
class EMA(_Averaged):
    """decay · average + (1 - decay) · parameters; with `warmup` the decay is at most (1 + n)/(10 + n) at first."""

    decay: float = 0.999
    warmup: bool = False
    use_buffers: bool = False

    def __post_init__(self) -> None:
        in_range("decay", self.decay, 0.0, 1.0)

    def _share(self, seen: Tensor) -> Tensor:
        if not self.warmup:
            return fn.full((), 1.0 - self.decay, dtype=float64)
        return 1.0 - fn.minimum((1.0 + seen) / (10.0 + seen), self.decay)


@dataclass(frozen=True)
class SWA(_Averaged):
    """The plain mean of all trees so far."""

    use_buffers: bool = False

    def _share(self, seen: Tensor) -> Tensor:
        return 1.0 / (seen + 1.0)

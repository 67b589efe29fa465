"""Mixed precision: losses are scaled up so that gradients in narrow floats do not vanish, by as much as goes without overflow.

```
scaling = optim.LossScale()
scale = scaling.init()
loss, grads = pn.value_and_grad(lambda m: scaling.scaled(loss_of(m.astype(pn.float16)), scale))(model)
model, state, scale = scaling.update(optimizer, model, grads, state, scale)
```

The parameters stay wide; the copy that `astype` makes is narrow, and its gradients come back wide. bfloat16 has the range of float32
and needs no scaling.
"""

from __future__ import annotations

from typing import Any, TypeVar

from planish.dtypes import float32, int64
from planish.errors import PlanishError
from planish.frontend import tree
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.optim.optimizer import Updates
from planish.records import dataclass

T = TypeVar("T")


@dataclass(frozen=True)
class ScaleState:
    """By how much losses are scaled, and how many updates went well since that changed."""

    scale: Tensor
    good: Tensor
    skipped: Tensor
    """How many updates were left out, all in all."""


@dataclass(frozen=True)
class LossScale:
    """A scale that grows after `growth_interval` updates without overflow, and shrinks at each one with."""

    initial: float = 65536.0
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000

    def __post_init__(self) -> None:
        if not (self.initial > 0 and self.growth_factor > 1 > self.backoff_factor > 0 < self.growth_interval):
            raise PlanishError.at_caller(
                f"LossScale: {self} does not both grow and shrink",
                "growth_factor is above 1, backoff_factor between 0 and 1, the others positive",
            )

    def init(self) -> ScaleState:
        """The state before the first update."""
        none = fn.zeros((), dtype=int64)
        return ScaleState(fn.full((), self.initial, dtype=float32), none, none)

    def scaled(self, loss: Tensor, state: ScaleState) -> Tensor:
        """What to differentiate instead of the loss."""
        return (
            loss.astype(float32) * state.scale
            if loss.dtype.bits < 32
            else loss * state.scale.astype(loss.dtype)
        )

    def unscaled(self, grads: T, state: ScaleState) -> tuple[T, Tensor]:
        """Gradients of the loss itself, in float32 at least, and whether all of them are finite."""
        factor = 1.0 / state.scale
        finite = fn.asarray(True)

        def back(grad: Any) -> Any:
            nonlocal finite
            if not isinstance(grad, Tensor) or not grad.dtype.is_float:
                return grad
            wide = grad.astype(float32) if grad.dtype.bits < 32 else grad
            finite = finite & fn.all(fn.isfinite(wide))
            return wide * factor.astype(wide.dtype)

        return tree.map_tree(back, grads), finite

    def update(
        self, optimizer: Updates, params: T, grads: object, state: Any, scale: ScaleState
    ) -> tuple[T, Any, ScaleState]:
        """An update by scaled gradients: parameters and state stay as they are if some gradient is not finite."""
        true, finite = self.unscaled(grads, scale)
        moved, after = optimizer.update(params, true, state)
        moved, after = chosen(finite, moved, params), chosen(finite, after, state)
        return moved, after, self.adjusted(scale, finite)

    def adjusted(self, state: ScaleState, finite: Tensor) -> ScaleState:
        """The state after an update that went well or did not."""
        good = state.good + 1
        grows = good >= self.growth_interval
        larger = fn.where(grows, state.scale * self.growth_factor, state.scale)
        return ScaleState(
            fn.where(finite, larger, state.scale * self.backoff_factor),
            fn.where(finite & ~grows, good, 0),
            state.skipped + fn.where(finite, 0, 1),
        )


def chosen(condition: Tensor, first: T, second: T) -> T:
    """The first tree if a condition holds, else the second."""

    def either(a: Any, b: Any) -> Any:
        return a if a is b or not isinstance(a, Tensor) else fn.where(condition, a, b)

    return tree.map_tree(either, first, second)

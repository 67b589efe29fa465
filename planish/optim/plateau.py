"""A learning rate that falls when a loss stops to: PyTorch's `ReduceLROnPlateau` as a function of states.

```
plateau = optim.ReduceLROnPlateau(1e-3, patience=5)
state = plateau.init()
model, optimizer_state = optimizer.update(model, gradients, optimizer_state, lr=state.lr)
state = plateau.update(state, validation_loss)
```
"""

from __future__ import annotations

import math

from planish.dtypes import float64, int64
from planish.errors import PlanishError
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.optim.optimizer import in_range
from planish.records import dataclass


@dataclass(frozen=True)
class PlateauState:
    """The rate, the best loss so far, and what is counted."""

    lr: Tensor
    best: Tensor
    bad: Tensor
    """Losses in a row that were no better."""
    rest: Tensor
    """Losses left in which none counts as bad, after the rate fell."""


@dataclass(frozen=True)
class ReduceLROnPlateau:
    """lr, times `factor` whenever more than `patience` losses in a row were no better than the best by `threshold`."""

    lr: float
    mode: str = "min"
    factor: float = 0.1
    patience: int = 10
    threshold: float = 1e-4
    threshold_mode: str = "rel"
    cooldown: int = 0
    min_lr: float = 0.0
    eps: float = 1e-8

    def __post_init__(self) -> None:
        in_range("factor", self.factor, 0.0, 1.0)
        for name, given, known in (
            ("mode", self.mode, ("min", "max")),
            ("threshold_mode", self.threshold_mode, ("rel", "abs")),
        ):
            if given not in known:
                raise PlanishError.at_caller(f"ReduceLROnPlateau: there is no {name} {given!r}", " or ".join(known))  # fmt: skip

    def init(self) -> PlateauState:
        """The state before the first loss."""
        worst = math.inf if self.mode == "min" else -math.inf
        none = fn.zeros((), dtype=int64)
        return PlateauState(
            fn.full((), self.lr, dtype=float64), fn.full((), worst, dtype=float64), none, none
        )

    def update(self, state: PlateauState, loss: Tensor | float) -> PlateauState:
        """The state after one more loss (or score, if the mode is "max")."""
        measured = fn.asarray(loss).astype(float64)
        sign = 1.0 if self.mode == "min" else -1.0
        if self.threshold_mode == "rel":
            bound = state.best * (1.0 - sign * self.threshold)
        else:
            bound = state.best - sign * self.threshold
        better = measured < bound if self.mode == "min" else measured > bound
        bad = fn.where(better | (state.rest > 0), 0, state.bad + 1)
        rest = fn.maximum(state.rest - 1, 0)
        falls = bad > self.patience
        lower = fn.maximum(state.lr * self.factor, self.min_lr)
        return PlateauState(
            fn.where(falls & (state.lr - lower > self.eps), lower, state.lr),
            fn.where(better, measured, state.best),
            fn.where(falls, 0, bad),
            fn.where(falls, self.cooldown, rest),
        )

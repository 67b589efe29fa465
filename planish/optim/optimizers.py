"""The optimisers: SGD, Adam, AdamW, Adagrad, RMSprop, Lion, LAMB and Muon. Those that PyTorch has follow it step by step."""

from __future__ import annotations

import math
from dataclasses import field

from planish.errors import PlanishError
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.optim.optimizer import (
    Chooser,
    Decaying,
    Moment,
    Optimizer,
    Slots,
    checked,
    in_range,
    scalar,
    zeros_for,
)
from planish.optim.schedules import Schedule
from planish.records import dataclass


def lerp(old: Tensor, new: Tensor, share: float) -> Tensor:
    return old + (new - old) * share


def decayed(param: Tensor, moment: Moment) -> Tensor:
    """Weight decay on its own, not by way of the gradient."""
    return param * (1.0 - moment.lr * moment.decay) if moment.decay else param


def with_decay(grad: Tensor, param: Tensor, moment: Moment) -> Tensor:
    return grad + param * moment.decay if moment.decay else grad


def moments(slots: Slots, grad: Tensor, betas: tuple[float, float]) -> Slots:
    """The running means of g and of g² with one more g."""
    mean = lerp(slots["mean"], grad, 1.0 - betas[0])
    return {"mean": mean, "square": slots["square"] * betas[1] + grad * grad * (1.0 - betas[1])}


@dataclass(frozen=True)
class SGD(Decaying):
    """p - lr·g; with momentum g is replaced by a running sum, looked ahead at if `nesterov`."""

    lr: float | Schedule = 1e-3
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and (self.momentum <= 0 or self.dampening != 0):
            raise PlanishError.at_caller("nesterov needs a momentum and no dampening")

    def _slots(self, param: Tensor) -> Slots:
        return {"momentum": zeros_for(param)} if self.momentum else {}

    def _rule(self, param: Tensor, grad: Tensor, slots: Slots, moment: Moment) -> tuple[Tensor, Slots]:
        grad = with_decay(grad, param, moment)
        if not self.momentum:
            return param - grad * moment.lr, {}
        total = slots["momentum"] * self.momentum + grad * (1.0 - self.dampening)
        if self.dampening:
            total = fn.where(moment.number == 1, grad, total)
        direction = grad + total * self.momentum if self.nesterov else total
        return param - direction * moment.lr, {"momentum": total}


@dataclass(frozen=True)
class Adam(Decaying):
    """p - lr·m/(sqrt(v) + eps), with running means m of g and v of g²; weight decay is added to g."""

    kept = ("mean", "square")
    lr: float | Schedule = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    amsgrad: bool = False

    def _slots(self, param: Tensor) -> Slots:
        slots = super()._slots(param)
        return slots | {"largest": zeros_for(param)} if self.amsgrad else slots

    def _rule(self, param: Tensor, grad: Tensor, slots: Slots, moment: Moment) -> tuple[Tensor, Slots]:
        return self._step(param, with_decay(grad, param, moment), slots, moment)

    def _step(self, param: Tensor, grad: Tensor, slots: Slots, moment: Moment) -> tuple[Tensor, Slots]:
        new = moments(slots, grad, self.betas)
        spread = new["square"]
        if self.amsgrad:
            spread = new["largest"] = fn.maximum(slots["largest"], spread)
        first = scalar(moment.correction(self.betas[0]), param)
        second = scalar(fn.sqrt(moment.correction(self.betas[1])), param)
        return param - new["mean"] / (fn.sqrt(spread) / second + self.eps) * (moment.lr / first), new


@dataclass(frozen=True)
class AdamW(Adam):
    """`Adam`, with weight decay on the parameter itself."""

    weight_decay: float = 1e-2

    def _rule(self, param: Tensor, grad: Tensor, slots: Slots, moment: Moment) -> tuple[Tensor, Slots]:
        return self._step(decayed(param, moment), grad, slots, moment)


@dataclass(frozen=True)
class Adagrad(Decaying):
    """p - lr·g/(sqrt(Σ g²) + eps)."""

    lr: float | Schedule = 1e-2
    lr_decay: float = 0.0
    weight_decay: float = 0.0
    initial_accumulator_value: float = 0.0
    eps: float = 1e-10

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range("lr_decay", self.lr_decay, 0.0)
        in_range("initial_accumulator_value", self.initial_accumulator_value, 0.0)

    def _slots(self, param: Tensor) -> Slots:
        return {"sum": zeros_for(param, self.initial_accumulator_value)}

    def _rule(self, param: Tensor, grad: Tensor, slots: Slots, moment: Moment) -> tuple[Tensor, Slots]:
        grad = with_decay(grad, param, moment)
        total = slots["sum"] + grad * grad
        rate = moment.lr
        if self.lr_decay:
            rate = moment.lr / scalar(1.0 + (moment.number - 1.0) * self.lr_decay, param)
        return param - grad / (fn.sqrt(total) + self.eps) * rate, {"sum": total}


@dataclass(frozen=True)
class RMSprop(Decaying):
    """p - lr·g/(sqrt(v) + eps), with a running mean v of g²; of (g - mean)² if `centered`."""

    lr: float | Schedule = 1e-2
    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = False

    def __post_init__(self) -> None:
        checked(self.lr, self.weight_decay, (self.alpha,))

    def _slots(self, param: Tensor) -> Slots:
        slots = {"square": zeros_for(param)}
        if self.momentum:
            slots["momentum"] = zeros_for(param)
        if self.centered:
            slots["mean"] = zeros_for(param)
        return slots

    def _rule(self, param: Tensor, grad: Tensor, slots: Slots, moment: Moment) -> tuple[Tensor, Slots]:
        grad = with_decay(grad, param, moment)
        square = slots["square"] * self.alpha + grad * grad * (1.0 - self.alpha)
        new, spread = {"square": square}, square
        if self.centered:
            mean = new["mean"] = lerp(slots["mean"], grad, 1.0 - self.alpha)
            spread = square - mean * mean
        direction = grad / (fn.sqrt(spread) + self.eps)
        if self.momentum:
            direction = new["momentum"] = slots["momentum"] * self.momentum + direction
        return param - direction * moment.lr, new


@dataclass(frozen=True)
class Lion(Decaying):
    """p - lr·sign(β₁·m + (1-β₁)·g), with a running mean m of g (Chen et al., 2023); decay on the parameter itself."""

    kept = ("mean",)
    lr: float | Schedule = 1e-4
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0

    def _rule(self, param: Tensor, grad: Tensor, slots: Slots, moment: Moment) -> tuple[Tensor, Slots]:
        direction = fn.sign(lerp(slots["mean"], grad, 1.0 - self.betas[0]))
        mean = lerp(slots["mean"], grad, 1.0 - self.betas[1])
        return decayed(param, moment) - direction * moment.lr, {"mean": mean}


@dataclass(frozen=True)
class LAMB(Decaying):
    """The step r of `Adam` plus decay, made as long as the parameter: p - lr·(|p|/|r|)·r (You et al., 2020)."""

    kept = ("mean", "square")
    lr: float | Schedule = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-6
    weight_decay: float = 0.0

    def _rule(self, param: Tensor, grad: Tensor, slots: Slots, moment: Moment) -> tuple[Tensor, Slots]:
        new = moments(slots, grad, self.betas)
        first, second = (scalar(moment.correction(beta), param) for beta in self.betas)
        step = (new["mean"] / first) / (fn.sqrt(new["square"] / second) + self.eps) + param * moment.decay
        length, reach = fn.sqrt(fn.sum(param * param)), fn.sqrt(fn.sum(step * step))
        both = fn.logical_and(length > 0, reach > 0)
        trust = fn.where(both, length / fn.where(both, reach, 1.0), 1.0)
        return param - step * (trust * moment.lr), new


@dataclass(frozen=True)
class Muon(Optimizer):
    """Momentum whose singular values are made (nearly) 1 by Newton's and Schulz's iteration (Jordan et al., 2024).

    It is for matrices: parameters with more axes are taken as (outputs, all else). Those that `matrices` refuses, and those with fewer axes,
    are left to `others`.
    """

    lr: float | Schedule = 1e-3
    weight_decay: float = 0.1
    momentum: float = 0.95
    nesterov: bool = True
    coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315)
    eps: float = 1e-7
    steps: int = 5
    adjust: str = "original"
    """How the rate follows the shape (rows, columns): "original" by sqrt(max(1, rows/columns)), "match_rms_adamw" by
    0.2·sqrt(max(rows, columns))."""
    matrices: Chooser | None = None
    others: AdamW = field(default_factory=AdamW)

    def __post_init__(self) -> None:
        checked(self.lr, self.weight_decay, (self.momentum,))
        if self.adjust not in ("original", "match_rms_adamw"):
            raise PlanishError.at_caller(f"there is no way {self.adjust!r} to adjust", "original or match_rms_adamw")  # fmt: skip

    def _takes(self, param: Tensor) -> bool:
        return param.ndim >= 2 and (self.matrices is None or self.matrices(param))

    def _slots(self, param: Tensor) -> Slots:
        if self._takes(param):
            # one list of slots for all parameters: matrices need no second one, which is a number
            return {"mean": zeros_for(param), "square": fn.zeros((), dtype=zeros_for(param).dtype)}
        return self.others._slots(param)

    def _moved(self, param: Tensor, grad: Tensor, slots: Slots, moment: Moment) -> tuple[Tensor, Slots]:
        if self._takes(param):
            return super()._moved(param, grad, slots, moment)
        own = Moment(self.others._rate(self._before(moment)), moment.number)
        return self.others._moved(param, grad, slots, own)

    @staticmethod
    def _before(moment: Moment) -> Tensor:
        return moment.number - 1.0

    def _shape(self, param: Tensor) -> tuple[int, ...]:
        return (param.shape[0], param.size // max(param.shape[0], 1))

    def _rule(self, param: Tensor, grad: Tensor, slots: Slots, moment: Moment) -> tuple[Tensor, Slots]:
        mean = lerp(slots["mean"], grad, 1.0 - self.momentum)
        direction = orthogonalized(
            lerp(grad, mean, self.momentum) if self.nesterov else mean,
            self.coefficients,
            self.steps,
            self.eps,
        )
        rows, columns = param.shape
        if self.adjust == "original":
            factor = math.sqrt(max(1.0, rows / columns))
        else:
            factor = 0.2 * math.sqrt(max(rows, columns))
        moved = decayed(param, moment) - direction * (moment.lr * factor)
        return moved, {"mean": mean, "square": slots["square"]}


def orthogonalized(
    x: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float = 1e-7
) -> Tensor:
    """The matrix with the same singular vectors and singular values near 1."""
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    y = fn.matrix_transpose(x) if tall else x
    y = y / fn.maximum(fn.sqrt(fn.sum(y * y)), eps)
    for _ in range(steps):
        gram = fn.matmul(y, fn.matrix_transpose(y))
        y = y * a + fn.matmul(gram * b + fn.matmul(gram, gram) * c, y)
    return fn.matrix_transpose(y) if tall else y

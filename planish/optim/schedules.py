"""Learning rates as functions of the number of steps taken: a float for an int, a tensor for a tensor.

A schedule is handed to an optimiser in place of a learning rate. It is evaluated in the compiled step itself, so that a change of the
rate compiles nothing. Formulas are PyTorch's, in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from planish.dtypes import float64
from planish.errors import PlanishError, ShapeError
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.records import dataclass

S = TypeVar("S", int, Tensor)
Rate: TypeAlias = float | Tensor
Schedule: TypeAlias = Callable[[Tensor], Rate]


def _number(step: int | Tensor) -> Rate:
    return step.astype(float64) if isinstance(step, Tensor) else float(step)


def _cos(x: Rate) -> Rate:
    return fn.cos(x) if isinstance(x, Tensor) else math.cos(x)


def _floor(x: Rate) -> Rate:
    return fn.floor(x) if isinstance(x, Tensor) else float(math.floor(x))


def _least(x: Rate, bound: float) -> Rate:
    return fn.minimum(x, bound) if isinstance(x, Tensor) else min(x, bound)


def _power(base: float, exponent: Rate) -> Rate:
    if isinstance(exponent, Tensor):
        return fn.exp(exponent * math.log(base)) if base > 0 else fn.where(exponent == 0, 1.0, 0.0)
    return float(base**exponent)


def _choose(below: Tensor | bool, first: Rate, second: Rate) -> Rate:
    if not isinstance(below, Tensor):
        return first if below else second
    wide = fn.full((), first, dtype=float64) if isinstance(first, float) else first
    return fn.where(below, wide, second)


def _positive(**sizes: float) -> None:
    for name, size in sizes.items():
        if size <= 0:
            raise ShapeError.at_caller(f"{name} is {size}, and has to be positive")


@dataclass(frozen=True, slots=True)
class Constant:
    """Always the same."""

    lr: float

    def __call__(self, step: int | Tensor) -> Rate:
        """The rate after so many steps."""
        return self.lr


@dataclass(frozen=True, slots=True)
class LinearWarmup:
    """From `start`·lr to lr over some steps, in a straight line; then lr."""

    lr: float
    steps: int
    start: float = 0.0

    def __post_init__(self) -> None:
        _positive(steps=self.steps)

    def __call__(self, step: int | Tensor) -> Rate:
        done = _least(_number(step), float(self.steps)) / self.steps
        return self.lr * (self.start + (1.0 - self.start) * done)


@dataclass(frozen=True, slots=True)
class Cosine:
    """From lr to `final` over some steps, along half a cosine; then `final`."""

    lr: float
    steps: int
    final: float = 0.0

    def __post_init__(self) -> None:
        _positive(steps=self.steps)

    def __call__(self, step: int | Tensor) -> Rate:
        done = _least(_number(step), float(self.steps)) / self.steps
        return self.final + (self.lr - self.final) * (1.0 + _cos(done * math.pi)) * 0.5


@dataclass(frozen=True, slots=True)
class WarmupCosine:
    """`LinearWarmup` to lr, then `Cosine` to `final`; `steps` counts both."""

    lr: float
    warmup: int
    steps: int
    final: float = 0.0

    def __post_init__(self) -> None:
        _positive(warmup=self.warmup, steps=self.steps - self.warmup)

    def __call__(self, step: int | Tensor) -> Rate:
        rise = LinearWarmup(self.lr, self.warmup)
        fall = Cosine(self.lr, self.steps - self.warmup, self.final)
        after = step - self.warmup
        later = fn.maximum(after, 0) if isinstance(after, Tensor) else max(after, 0)
        return _choose(step < self.warmup, rise(step), fall(later))


@dataclass(frozen=True, slots=True)
class Step:
    """lr, times gamma after every `size` steps."""

    lr: float
    size: int
    gamma: float = 0.1

    def __post_init__(self) -> None:
        _positive(size=self.size)

    def __call__(self, step: int | Tensor) -> Rate:
        return self.lr * _power(self.gamma, _floor(_number(step) / self.size))


@dataclass(frozen=True, slots=True)
class MultiStep:
    """lr, times gamma at each of the milestones."""

    lr: float
    milestones: Sequence[int]
    gamma: float = 0.1

    def __call__(self, step: int | Tensor) -> Rate:
        rate: Rate = self.lr
        for number, milestone in enumerate(sorted(self.milestones), start=1):
            rate = _choose(step >= milestone, self.lr * self.gamma**number, rate)
        return rate


@dataclass(frozen=True, slots=True)
class Exponential:
    """lr · gammaⁿ after n steps."""

    lr: float
    gamma: float

    def __call__(self, step: int | Tensor) -> Rate:
        return self.lr * _power(self.gamma, _number(step))


@dataclass(frozen=True, slots=True)
class Polynomial:
    """lr · (1 - n/steps) to a power; then 0."""

    lr: float
    steps: int
    power: float = 1.0

    def __post_init__(self) -> None:
        _positive(steps=self.steps)

    def __call__(self, step: int | Tensor) -> Rate:
        left = 1.0 - _least(_number(step), float(self.steps)) / self.steps
        return self.lr * left**self.power


@dataclass(frozen=True, slots=True)
class OneCycle:
    """Up from max_lr/div_factor to max_lr in a share `pct_start` of all steps, and down to 1/final_div_factor of the start."""

    max_lr: float
    total_steps: int
    pct_start: float = 0.3
    anneal: str = "cos"
    div_factor: float = 25.0
    final_div_factor: float = 1e4

    def __post_init__(self) -> None:
        _positive(total_steps=self.total_steps - 1)
        if self.anneal not in ("cos", "linear"):
            raise PlanishError.at_caller(f"OneCycle: there is no way {self.anneal!r} to anneal", "cos or linear")  # fmt: skip

    def __call__(self, step: int | Tensor) -> Rate:
        start = self.max_lr / self.div_factor
        up = self.pct_start * self.total_steps - 1
        down = self.total_steps - 1
        at = _number(step)
        rise = self._between(start, self.max_lr, at / up if up > 0 else at * 0.0 + 1.0)
        fall = self._between(self.max_lr, start / self.final_div_factor, _least((at - up) / (down - up), 1.0))
        return _choose(at <= up, rise, fall)

    def _between(self, first: float, last: float, share: Rate) -> Rate:
        if self.anneal == "linear":
            return (last - first) * share + first
        return last + (first - last) / 2.0 * (_cos(share * math.pi) + 1.0)


@dataclass(frozen=True, slots=True)
class CosineRestarts:
    """`Cosine` over and over; each time takes `factor` times as many steps as the last (Loshchilov and Hutter, 2016)."""

    lr: float
    period: int
    factor: int = 1
    final: float = 0.0

    def __post_init__(self) -> None:
        _positive(period=self.period, factor=self.factor)

    def __call__(self, step: int | Tensor) -> Rate:
        at = _number(step)
        start: Rate = _floor(at / self.period) * self.period
        length: Rate = at * 0.0 + float(self.period)
        if self.factor > 1:
            # periods are powers of the factor: which one is found without a logarithm, whose rounding could miss by one
            start, length = at * 0.0, float(self.period) + at * 0.0
            begun, size = self.period, self.period * self.factor
            while begun < 1 << 40:
                start, length = (
                    _choose(at >= begun, begun + at * 0.0, start),
                    _choose(at >= begun, size + at * 0.0, length),
                )
                begun, size = begun + size, size * self.factor
        return self.final + (self.lr - self.final) * (1.0 + _cos((at - start) / length * math.pi)) * 0.5


@dataclass(frozen=True, slots=True)
class Cyclic:
    """Up from lr to `max_lr` in `up` steps and down again in `down`, in straight lines, over and over (Smith, 2015).

    The height of the cycles is halved from one to the next with mode "triangular2", times gammaⁿ with "exp_range".
    """

    lr: float
    max_lr: float
    up: int = 2000
    down: int | None = None
    mode: str = "triangular"
    gamma: float = 1.0

    def __post_init__(self) -> None:
        _positive(up=self.up)
        if self.mode not in ("triangular", "triangular2", "exp_range"):
            raise PlanishError.at_caller(f"Cyclic: there is no mode {self.mode!r}", "triangular, triangular2 or exp_range")  # fmt: skip

    def __call__(self, step: int | Tensor) -> Rate:
        at = _number(step)
        total = self.up + (self.up if self.down is None else self.down)
        cycle = _floor(at / total)
        place = at / total - cycle
        peak = self.up / total
        height = _choose(place <= peak, place / peak, (place - 1.0) / (peak - 1.0))
        if self.mode == "triangular2":
            height = height * _power(0.5, cycle)
        elif self.mode == "exp_range":
            height = height * _power(self.gamma, at)
        return self.lr + (self.max_lr - self.lr) * height


@dataclass(frozen=True, slots=True)
class InverseSqrt:
    """`LinearWarmup` to lr, then lr · sqrt(warmup/n) (Vaswani et al., 2017)."""

    lr: float
    warmup: int

    def __post_init__(self) -> None:
        _positive(warmup=self.warmup)

    def __call__(self, step: int | Tensor) -> Rate:
        at = _number(step)
        after = fn.maximum(at, 1.0) if isinstance(at, Tensor) else max(at, 1.0)
        fall = fn.sqrt(self.warmup / after) if isinstance(after, Tensor) else math.sqrt(self.warmup / after)
        return self.lr * _choose(step < self.warmup, at / self.warmup, fall)


@dataclass(frozen=True, slots=True)
class Join:
    """Several schedules one after the other; each counts from its own start. There is one boundary less than schedules."""

    schedules: Sequence[Callable[[int | Tensor], Rate]]
    boundaries: Sequence[int]

    def __post_init__(self) -> None:
        if len(self.boundaries) != len(self.schedules) - 1:
            raise ShapeError.at_caller(
                f"Join: {len(self.schedules)} schedules have {len(self.schedules) - 1} boundaries, not {len(self.boundaries)}"
            )

    def __call__(self, step: int | Tensor) -> Rate:
        rate = self.schedules[0](step)
        for schedule, boundary in zip(self.schedules[1:], self.boundaries, strict=True):
            after = step - boundary
            later = fn.maximum(after, 0) if isinstance(after, Tensor) else max(after, 0)
            rate = _choose(step >= boundary, schedule(later), rate)
        return rate

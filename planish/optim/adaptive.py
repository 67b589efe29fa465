"""More of PyTorch's optimisers: NAdam, RAdam, Adamax, Adadelta, Adafactor, Rprop and ASGD, which follow it step by step."""

from __future__ import annotations

from planish.dtypes import float64
from planish.errors import PlanishError
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.optim.optimizer import Decaying, Moment, Optimizer, Slots, checked, in_range, scalar, zeros_for
from planish.optim.optimizers import decayed, lerp, moments, with_decay
from planish.optim.schedules import Schedule
from planish.records import dataclass


def _power(base: float, exponent: Tensor) -> Tensor:
    return fn.pow(fn.full((), base, dtype=float64), exponent)


@dataclass(frozen=True)
class _Moments(Decaying):
    """Running means of g and g², and weight decay by way of the gradient or on the parameter itself."""

    kept = ("mean", "square")
    lr: float | Schedule = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled_weight_decay: bool = False

    def _started(
        self, param: Tensor, grad: Tensor, slots: Slots, moment: Moment
    ) -> tuple[Tensor, Tensor, Slots]:
        """Parameter and gradient with their decay, and the means with this gradient."""
        if self.decoupled_weight_decay:
            param = decayed(param, moment)
        else:
            grad = with_decay(grad, param, moment)
        return param, grad, moments(slots, grad, self.betas)


@dataclass(frozen=True)
class NAdam(_Moments):
    """Adam that looks ahead: the mean of g is taken as it will be after the next step (Dozat, 2016)."""

    lr: float | Schedule = 2e-3
    momentum_decay: float = 4e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range("momentum_decay", self.momentum_decay, 0.0)

    def _slots(self, param: Tensor) -> Slots:
        return {**super()._slots(param), "product": fn.ones((), dtype=float64)}

    def _rule(self, param: Tensor, grad: Tensor, slots: Slots, moment: Moment) -> tuple[Tensor, Slots]:
        param, grad, new = self._started(param, grad, slots, moment)
        now, ahead = (
            self.betas[0] * (1.0 - 0.5 * _power(0.96, n * self.momentum_decay))
            for n in (moment.number, moment.number + 1.0)
        )
        product = slots["product"] * now
        spread = fn.sqrt(new["square"] / scalar(moment.correction(self.betas[1]), param)) + self.eps
        of_grad = scalar((1.0 - now) / (1.0 - product), param)
        of_mean = scalar(ahead / (1.0 - product * ahead), param)
        moved = param - (grad * of_grad + new["mean"] * of_mean) / spread * moment.lr
        return moved, {**new, "product": product}


@dataclass(frozen=True)
class RAdam(_Moments):
    """Adam that does not divide by the spread of g before enough of it is known (Liu et al., 2019)."""

    def _rule(self, param: Tensor, grad: Tensor, slots: Slots, moment: Moment) -> tuple[Tensor, Slots]:
        param, grad, new = self._started(param, grad, slots, moment)
        second = self.betas[1]
        first, correction = moment.correction(self.betas[0]), moment.correction(second)
        limit = 2.0 / (1.0 - second) - 1.0
        known = limit - 2.0 * moment.number * _power(second, moment.number) / correction
        enough = known > 5.0
        safe = fn.where(enough, known, 5.0)
        share = (safe - 4.0) * (safe - 2.0) * limit / ((limit - 4.0) * (limit - 2.0) * safe)
        factor = scalar(fn.sqrt(share * correction), param)
        scale = fn.where(enough, factor / (fn.sqrt(new["square"]) + self.eps), 1.0)
        return param - new["mean"] * scale * (moment.lr / scalar(first, param)), new


@dataclass(frozen=True)
class Adamax(Decaying):
    """Adam by the largest |g| instead of the mean of g²: p - lr·m/u (Kingma and Ba, 2014)."""

    kept = ("mean", "largest")
    lr: float | Schedule = 2e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def _rule(self, param: Tensor, grad: Tensor, slots: Slots, moment: Moment) -> tuple[Tensor, Slots]:
        grad = with_decay(grad, param, moment)
        mean = lerp(slots["mean"], grad, 1.0 - self.betas[0])
        largest = fn.maximum(slots["largest"] * self.betas[1], fn.abs(grad) + self.eps)
        rate = moment.lr / scalar(moment.correction(self.betas[0]), param)
        return param - mean / largest * rate, {"mean": mean, "largest": largest}


@dataclass(frozen=True)
class Adadelta(Decaying):
    """Steps in the unit of the parameter: g·sqrt(mean of steps²)/sqrt(mean of g²) (Zeiler, 2012)."""

    kept = ("square", "moved")
    lr: float | Schedule = 1.0
    rho: float = 0.9
    eps: float = 1e-6
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        checked(self.lr, self.weight_decay, (self.rho,))

    def _rule(self, param: Tensor, grad: Tensor, slots: Slots, moment: Moment) -> tuple[Tensor, Slots]:
        grad = with_decay(grad, param, moment)
        square = slots["square"] * self.rho + grad * grad * (1.0 - self.rho)
        step = fn.sqrt(slots["moved"] + self.eps) / fn.sqrt(square + self.eps) * grad
        moved = slots["moved"] * self.rho + step * step * (1.0 - self.rho)
        return param - step * moment.lr, {"square": square, "moved": moved}


@dataclass(frozen=True)
class Adafactor(Decaying):
    """Adam without means of g, that keeps of g² the means of rows and of columns alone (Shazeer and Stern, 2018).

    Steps are as long as the parameter's root mean square (`eps[1]` at least) times the rate, which falls with the root of the
    number of steps; a step whose root mean square is above `d` is shortened to it. `eps[0]` is by default that of the dtype.
    """

    lr: float | Schedule = 1e-2
    beta2_decay: float = -0.8
    eps: tuple[float | None, float] = (None, 1e-3)
    d: float = 1.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beta2_decay > 0:
            raise PlanishError.at_caller(f"beta2_decay is {self.beta2_decay}", "0 or less")
        in_range("d", self.d, 1.0)

    def _slots(self, param: Tensor) -> Slots:
        # one list of slots for all parameters: those that one has no use for are a number
        whole = zeros_for(param)
        none = fn.zeros((), dtype=whole.dtype)
        if param.ndim < 2:
            return {"square": whole, "rows": none, "columns": none}
        rows, columns = whole[..., :1], whole[..., :1, :]
        return {"square": none, "rows": rows, "columns": columns}

    def _shape(self, param: Tensor) -> tuple[int, ...]:
        return param.shape

    def _rule(self, param: Tensor, grad: Tensor, slots: Slots, moment: Moment) -> tuple[Tensor, Slots]:
        least = fn.finfo(param.dtype).eps if self.eps[0] is None else self.eps[0]
        share = scalar(fn.pow(moment.number, self.beta2_decay), param)
        rate = fn.minimum(scalar(1.0 / fn.sqrt(moment.number), param), moment.lr)
        length = fn.maximum(_root_mean_square(param), self.eps[1]) * rate
        squares, new = grad * grad, dict(slots)
        if param.ndim < 2:
            spread = new["square"] = slots["square"] + (squares - slots["square"]) * share
        else:
            for name, axis in (("rows", -1), ("columns", -2)):
                mean = fn.mean(squares, axis=axis, keepdims=True)
                new[name] = slots[name] + (mean - slots[name]) * share
            typical = fn.maximum(fn.mean(new["rows"], axis=-2, keepdims=True), least)
            spread = new["rows"] * new["columns"] / typical
        step = grad / fn.sqrt(fn.maximum(spread, least * least))
        shorter = fn.maximum(_root_mean_square(step) / self.d, 1.0)
        return decayed(param, moment) - step * (length / shorter), new


def _root_mean_square(x: Tensor) -> Tensor:
    return fn.sqrt(fn.mean(x * x))


@dataclass(frozen=True)
class Rprop(Optimizer):
    """Steps by signs alone: longer while the sign of g stays, shorter when it turns (Riedmiller and Braun, 1993)."""

    lr: float = 1e-2
    """The length of the first steps."""
    etas: tuple[float, float] = (0.5, 1.2)
    step_sizes: tuple[float, float] = (1e-6, 50.0)

    def __post_init__(self) -> None:
        checked(self.lr)
        if not 0.0 < self.etas[0] < 1.0 < self.etas[1]:
            raise PlanishError.at_caller(f"etas are {self.etas}", "one below and one above 1")

    def _slots(self, param: Tensor) -> Slots:
        return {"grad": zeros_for(param), "size": zeros_for(param, self.lr)}

    def _rule(self, param: Tensor, grad: Tensor, slots: Slots, moment: Moment) -> tuple[Tensor, Slots]:
        agreement = grad * slots["grad"]
        old = slots["size"]
        shorter = fn.where(agreement < 0, old * self.etas[0], old)
        size = fn.clip(fn.where(agreement > 0, old * self.etas[1], shorter), *self.step_sizes)
        # after a turn it stands still once
        used = fn.where(agreement < 0, 0.0, grad)
        return param - fn.sign(used) * size, {"grad": used, "size": size}


@dataclass(frozen=True)
class ASGD(Decaying):
    """SGD with a falling rate, and the mean of the parameters from step t0 on in the slot `average` (Polyak and Juditsky, 1992)."""

    kept = ("average",)
    lr: float | Schedule = 1e-2
    lambd: float = 1e-4
    alpha: float = 0.75
    t0: float = 1e6
    weight_decay: float = 0.0

    def _rule(self, param: Tensor, grad: Tensor, slots: Slots, moment: Moment) -> tuple[Tensor, Slots]:
        grad = with_decay(grad, param, moment)
        before = moment.number - 1.0
        rate = moment.lr / scalar(fn.pow(1.0 + before * self.lambd * moment.lr, self.alpha), param)
        moved = param * (1.0 - self.lambd * rate) - grad * rate
        share = scalar(1.0 / fn.maximum(before - self.t0, 1.0), param)
        old = slots["average"]
        return moved, {"average": old + (moved - old) * share}

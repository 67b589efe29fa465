"""What optimisers share: parameters of any tree, a state beside them, one update for all of them.

An optimiser is a frozen record of its options. `init` makes a state for a tree of parameters; `update` takes parameters, gradients and
state, and gives new parameters and a new state: it changes nothing, so that it can be compiled together with what computes the
gradients. Buffers of modules, tensors of integers and leaves without a gradient stay as they are.

An update of one parameter is a chain of element-wise ops on tensors of one shape: one kernel, which writes the parameter and its
slots at once. Parameters are updated flat, so that kernels are shared by parameters of equal size.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

from planish.dtypes import float32, float64, int64
from planish.elsewhere import OPTIMIZER, hint_of_object
from planish.errors import DTypeError, PlanishError, ShapeError, UnknownName
from planish.frontend import tree
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn.module import Module, parameter_mask
from planish.optim.schedules import Rate, Schedule
from planish.records import dataclass

P = TypeVar("P")
Slots: TypeAlias = dict[str, Tensor]
"""What an optimiser keeps for one parameter, by name."""
Chooser: TypeAlias = Callable[[Tensor], bool]


@dataclass(frozen=True, slots=True)
class State:
    """What an optimiser keeps between updates."""

    step: Tensor
    """How many updates there were."""
    slots: dict[str, list[Tensor]]
    """By name, one for each parameter that is learnt, from left to right."""

    def __repr__(self) -> str:
        slots = ", ".join(f"{name}: {len(each)} tensors" for name, each in self.slots.items())
        return f"State(step={self.step!r}, slots={{{slots}}})"


@dataclass(frozen=True, slots=True)
class Moment:
    """Where in the run an update happens: the rate, and the number of the update counted from 1."""

    lr: Rate
    number: Tensor
    decay: float = 0.0
    """The weight decay of the parameter."""

    def correction(self, beta: float) -> Tensor:
        """1 - betaⁿ: what a mean that started with 0 lacks."""
        if beta == 0:
            return fn.ones_like(self.number)
        return 1.0 - fn.pow(fn.full((), beta, dtype=float64), self.number)


class Updates(Protocol):
    """What moves parameters: an optimiser, or something around optimisers."""

    def init(self, params: Any) -> Any:
        """The state before the first update."""
        ...

    def update(self, params: P, grads: object, state: Any, *, lr: Rate | None = None) -> tuple[P, Any]:
        """New parameters and a new state."""
        ...


class Optimizer:
    """Something that moves parameters against their gradients."""

    kept: ClassVar[tuple[str, ...]] = ()
    """Names of the slots that begin as zeros like the parameter."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    if not TYPE_CHECKING:
        # hidden from the type checker, which would otherwise accept any misspelt attribute

        def __getattr__(self, name: str) -> Any:
            kind = type(self)
            if name.startswith("_"):
                raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
            valid = [each for each in dir(kind) if not each.startswith("_")]
            raise UnknownName(
                f"an optimiser {kind.__name__}", name, lambda name: hint_of_object(OPTIMIZER, name, valid)
            )

    def init(self, params: Any) -> State:
        """The state before the first update."""
        slots: dict[str, list[Tensor]] = {}
        for param in learnt(params):
            for name, value in self._slots(param).items():
                slots.setdefault(name, []).append(value)
        return State(fn.zeros((), dtype=int64), slots)

    def update(self, params: P, grads: object, state: State, *, lr: Rate | None = None) -> tuple[P, State]:
        """New parameters and a new state. Gradients are a tree like the parameters; `lr` takes the place of the optimiser's rate."""
        leaves, structure = tree.flatten(params)
        mask = learnt_mask(leaves, structure)
        given = aligned_gradients(grads, structure, leaves, mask)
        count = sum(mask)
        for name, kept in state.slots.items():
            if len(kept) != count:
                raise PlanishError.at_caller(
                    f"the state has {len(kept)} × {name} for {count} parameters",
                    "make the state with init of the same parameters",
                )
        step = state.step + 1
        moment = Moment(self._rate(state.step) if lr is None else lr, step.astype(float64))
        slots: dict[str, list[Tensor]] = {name: [] for name in state.slots}
        number = 0
        for place, is_learnt in enumerate(mask):
            if not is_learnt:
                continue
            old = {name: kept[number] for name, kept in state.slots.items()}
            number += 1
            grad = given[place]
            if grad is None:
                new = old
            else:
                leaves[place], new = self._moved(leaves[place], grad, old, moment)
            for name, value in new.items():
                slots[name].append(value)
        result: P = tree.unflatten(structure, leaves)
        return result, State(step, slots)

    def _moved(self, param: Tensor, grad: Tensor, slots: Slots, moment: Moment) -> tuple[Tensor, Slots]:
        """One parameter in its own shape and dtype; the rule sees what it wants to."""
        wide = float32 if param.dtype.bits < 32 else param.dtype
        shape = param.shape
        flat = self._shape(param)
        rate = moment.lr
        lr = rate.astype(wide) if isinstance(rate, Tensor) else rate
        moved, new = self._rule(
            param.reshape(flat).astype(wide),
            grad.reshape(flat).astype(wide),
            {name: value.reshape(flat) if value.shape == shape else value for name, value in slots.items()},
            Moment(lr, moment.number, self._decay(param)),
        )
        back = {name: value.reshape(slots[name].shape) for name, value in new.items()}
        return moved.reshape(shape).astype(param.dtype), back

    def _shape(self, param: Tensor) -> tuple[int, ...]:
        """In which shape the rule sees a parameter."""
        return (param.size,)

    def _decay(self, param: Tensor) -> float:
        decays: Chooser | None = getattr(self, "decays", None)
        decay: float = getattr(self, "weight_decay", 0.0)
        return decay if decays is None or decays(param) else 0.0

    def _rate(self, step: Tensor) -> Rate:
        lr: float | Schedule = self.lr  # type: ignore[attr-defined] # a field of every optimiser
        return lr(step) if callable(lr) else lr

    def _slots(self, param: Tensor) -> Slots:
        """What is kept for a parameter."""
        return {name: zeros_for(param) for name in self.kept}

    @abstractmethod
    def _rule(self, param: Tensor, grad: Tensor, slots: Slots, moment: Moment) -> tuple[Tensor, Slots]:
        """A parameter and its slots after an update."""


def in_range(name: str, value: float, low: float, high: float = math.inf) -> None:
    try:
        fits = low <= value < high
    except TypeError:
        fits = False
    if not fits:
        bound = f"at least {low}" if high == math.inf else f"from {low} up to {high}"
        raise PlanishError.at_caller(f"{name} is {value!r}, and has to be {bound}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 and "\n" not in text else f"a {type(value).__name__}"


def checked(lr: float | Schedule, weight_decay: float = 0.0, betas: tuple[float, ...] = ()) -> None:
    if isinstance(lr, Module) or not (callable(lr) or hasattr(lr, "__float__")):
        raise DTypeError.at_caller(
            f"lr is {_short(lr)}, and has to be at least 0.0, or a function of the step",
            "parameters are given to init and update: state = optimizer.init(params)",
        )
    if not callable(lr):
        in_range("lr", lr, 0.0)
    in_range("weight_decay", weight_decay, 0.0)
    for beta in betas:
        in_range("a beta", beta, 0.0, 1.0)


@dataclass(frozen=True)
class Decaying(Optimizer):
    """An optimiser with a `weight_decay` for the parameters that are chosen."""

    decays: Chooser | None = field(default=None, kw_only=True)
    """Which parameters decay: those for which it is true, all by default."""

    def __post_init__(self) -> None:
        checked(self.lr, self.weight_decay, getattr(self, "betas", ()))

    if TYPE_CHECKING:

        @property
        def lr(self) -> float | Schedule: ...
        @property
        def weight_decay(self) -> float: ...


def zeros_for(param: Tensor, value: float = 0.0) -> Tensor:
    """A slot: like the parameter, in float32 at least."""
    return fn.full_like(param, value, dtype=float32 if param.dtype.bits < 32 else param.dtype)


def scalar(x: Tensor, like: Tensor) -> Tensor:
    """A number computed in float64, in the dtype of a parameter."""
    return x.astype(like.dtype)


def learnt_mask(leaves: Sequence[object], structure: tree.Structure) -> list[bool]:
    """Which leaves are learnt: parameters that are floats."""
    return [
        learnt and isinstance(leaf, Tensor) and leaf.dtype.is_float
        for leaf, learnt in zip(leaves, parameter_mask(structure), strict=True)
    ]


def learnt(params: object) -> list[Tensor]:
    leaves, structure = tree.flatten(params)
    return [leaf for leaf, learnt in zip(leaves, learnt_mask(leaves, structure), strict=True) if learnt]


def aligned_gradients(
    grads: object, structure: tree.Structure, leaves: Sequence[Any], mask: Sequence[bool]
) -> list[Tensor | None]:
    """A gradient for each leaf, None where there is none."""
    gradients = tree.aligned(grads, structure)
    if gradients is None:
        raise PlanishError.at_caller(
            f"gradients {tree.flatten(grads)[1]} are not a tree like the parameters {structure}",
            "differentiate by the same tree that is updated",
        )
    result: list[Tensor | None] = []
    for grad, leaf, learnt in zip(gradients, leaves, mask, strict=True):
        if not learnt or grad is None:
            result.append(None)
            continue
        if not isinstance(grad, Tensor) or grad.shape != leaf.shape:
            shown = grad.shape if isinstance(grad, Tensor) else type(grad).__name__
            raise ShapeError.at_caller(f"the gradient of a parameter {leaf.shape} is {shown}")
        result.append(grad)
    return result

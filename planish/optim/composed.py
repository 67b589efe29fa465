"""Optimisers around optimisers: one per group of parameters, and one that moves after several gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from planish.dtypes import float32, int64
from planish.errors import PlanishError
from planish.frontend import tree
from planish.frontend.arguments import paths
from planish.frontend.control import cond
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.optim.optimizer import Updates, aligned_gradients, learnt_mask
from planish.optim.schedules import Rate
from planish.records import dataclass

P = TypeVar("P")
Selector: TypeAlias = Callable[[str, Tensor], bool]
"""Whether a parameter belongs to a group, by its path (`.conv.weight`) and itself."""


@dataclass(frozen=True)
class Groups:
    """Each parameter is moved by the first optimiser whose selector takes it, else by `default`; by None it stays as it is.

    `optim.Groups([(lambda path, p: "bias" in path, optim.SGD(0.1))], default=optim.AdamW(1e-3))`
    """

    groups: Sequence[tuple[Selector, Updates | None]]
    default: Updates | None = None

    def _optimizers(self) -> list[Updates | None]:
        return [*(optimizer for _, optimizer in self.groups), self.default]

    def _members(self, params: object) -> tuple[list[Any], tree.Structure, list[list[int]]]:
        """The leaves of a tree, and for each group which of them it moves."""
        leaves, structure = tree.flatten(params)
        members: list[list[int]] = [[] for _ in range(len(self.groups) + 1)]
        mask = learnt_mask(leaves, structure)
        for place, (path, leaf) in enumerate(zip(paths(structure, ""), leaves, strict=True)):
            if mask[place]:
                fits = [bool(selector(path, leaf)) for selector, _ in self.groups]
                members[fits.index(True) if True in fits else -1].append(place)
        return leaves, structure, members

    def init(self, params: Any) -> list[Any]:
        """A state per group."""
        leaves, _, members = self._members(params)
        return [
            None if optimizer is None else optimizer.init([leaves[place] for place in places])
            for optimizer, places in zip(self._optimizers(), members, strict=True)
        ]

    def update(
        self, params: P, grads: object, state: list[Any], *, lr: Rate | None = None
    ) -> tuple[P, list[Any]]:
        """New parameters and new states. `lr` is that of all groups."""
        leaves, structure, members = self._members(params)
        if len(state) != len(members):
            raise PlanishError.at_caller(
                f"the state has {len(state)} groups, the optimiser {len(members)}",
                "make the state with init of the same groups",
            )
        given = aligned_gradients(grads, structure, leaves, learnt_mask(leaves, structure))
        new = list(state)
        for number, (optimizer, places) in enumerate(zip(self._optimizers(), members, strict=True)):
            if optimizer is None:
                continue
            own = [leaves[place] for place in places]
            moved, new[number] = optimizer.update(
                own, [given[place] for place in places], state[number], lr=lr
            )
            for place, leaf in zip(places, moved, strict=True):
                leaves[place] = leaf
        result: P = tree.unflatten(structure, leaves)
        return result, new


@dataclass(frozen=True)
class AccumulationState:
    """The state of the optimiser within, the sum of the gradients so far, and how many they are."""

    inner: Any
    total: list[Tensor]
    count: Tensor

    def __repr__(self) -> str:
        return (
            f"AccumulationState(inner={self.inner!r}, total={len(self.total)} tensors, count={self.count!r})"
        )


@dataclass(frozen=True)
class Accumulate:
    """An optimiser that moves once in `every` gradients, by their mean; in between, parameters stay as they are."""

    optimizer: Updates
    every: int

    def __post_init__(self) -> None:
        if self.every < 1:
            raise PlanishError.at_caller(f"Accumulate: every is {self.every}", "1 or more")

    def init(self, params: Any) -> AccumulationState:
        """The state before the first gradient."""
        return AccumulationState(self.optimizer.init(params), _zeros(params), fn.zeros((), dtype=int64))

    def update(
        self, params: P, grads: object, state: AccumulationState, *, lr: Rate | None = None
    ) -> tuple[P, AccumulationState]:
        """New parameters, if this gradient was the last of its number, and a new state."""
        leaves, structure = tree.flatten(params)
        mask = learnt_mask(leaves, structure)
        given = aligned_gradients(grads, structure, leaves, mask)
        own = [grad for grad, learnt in zip(given, mask, strict=True) if learnt]
        total = [
            old if grad is None else old + grad.astype(old.dtype)
            for old, grad in zip(state.total, own, strict=True)
        ]
        count = state.count + 1

        def moved(params: P, inner: Any, total: list[Tensor]) -> tuple[P, Any, list[Tensor]]:
            means = iter([one / float(self.every) for one in total])
            whole = [next(means) if learnt else None for learnt in mask]
            new, after = self.optimizer.update(params, tree.unflatten(structure, whole), inner, lr=lr)
            return new, after, [fn.zeros_like(one) for one in total]

        def kept(params: P, inner: Any, total: list[Tensor]) -> tuple[P, Any, list[Tensor]]:
            return params, inner, total

        new, inner, total = cond(count == self.every, moved, kept, params, state.inner, total)
        return new, AccumulationState(inner, total, count % self.every)


def _zeros(params: object) -> list[Tensor]:
    leaves, structure = tree.flatten(params)
    return [
        fn.zeros_like(leaf, dtype=float32 if leaf.dtype.bits < 32 else leaf.dtype)
        for leaf, learnt in zip(leaves, learnt_mask(leaves, structure), strict=True)
        if learnt
    ]

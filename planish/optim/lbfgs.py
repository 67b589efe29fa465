"""L-BFGS with a line search by the strong Wolfe conditions: for smooth functions whose value can be trusted.

The function and its gradient are compiled once, and so is the direction (two loops over the last `history` moves, Nocedal 1980). What
to do next is decided in Python, by a few numbers per iteration.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

from planish.errors import PlanishError, ShapeError
from planish.frontend import tree
from planish.frontend.control import scan
from planish.frontend.jit import jit
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.frontend.transforms import value_and_grad
from planish.optim.optimizer import in_range, learnt_mask
from planish.optim.wolfe import Point, search
from planish.records import dataclass

P = TypeVar("P")
_CURVED = 1e-10
"""Moves along which the slope grows by less than this say nothing about the curvature."""


@dataclass(frozen=True)
class LBFGSState:
    """What is known after some iterations. Moves and changes hold the last ones, the newest in the last row; empty rows are 0."""

    value: Tensor
    """The function where it is now."""
    gradient: Tensor
    """Before the last move; what it is after it, the next iteration sees."""
    move: Tensor
    moves: Tensor
    changes: Tensor
    """Of the gradient, by each move."""
    scale: Tensor
    """The curvature where nothing is known, as its inverse."""
    iterations: int = 0
    evaluations: int = 0


@dataclass(frozen=True)
class LBFGS:
    """Minimises a function of a tree; the options, their defaults and the steps are PyTorch's."""

    lr: float = 1.0
    max_iter: int = 20
    max_eval: int | None = None
    tolerance_grad: float = 1e-7
    tolerance_change: float = 1e-9
    history_size: int = 100
    line_search: str | None = "strong_wolfe"
    """None: each move is lr times the direction."""

    def __post_init__(self) -> None:
        in_range("lr", self.lr, 0.0)
        in_range("max_iter", self.max_iter, 1)
        in_range("history_size", self.history_size, 1)
        if self.line_search not in (None, "strong_wolfe"):
            raise PlanishError.at_caller(f"LBFGS: there is no line search {self.line_search!r}", '"strong_wolfe" or None')  # fmt: skip

    def minimize(
        self, function: Callable[..., Tensor], params: P, *args: Any, state: LBFGSState | None = None
    ) -> tuple[P, LBFGSState]:
        """Parameters after up to `max_iter` iterations towards the least function(params, *args), and what was learnt on the way.

        With a `state`, the search goes on from there; the function is evaluated anew, since args may be other ones.
        """
        leaves, structure = tree.flatten(params)
        mask = tuple(learnt_mask(leaves, structure))
        dtypes = {leaf.dtype for leaf, learnt in zip(leaves, mask, strict=True) if learnt}
        if len(dtypes) != 1:
            raise ShapeError.of(
                "LBFGS",
                f"parameters are {', '.join(sorted(d.name for d in dtypes)) or 'none'}, which make no one vector",
                "convert them to one float dtype",
            )
        shapes = tuple(leaf.shape for leaf, learnt in zip(leaves, mask, strict=True) if learnt)
        evaluate = _evaluation(function, structure, mask, shapes)
        fixed = [None if learnt else leaf for leaf, learnt in zip(leaves, mask, strict=True)]
        own = [leaf for leaf, learnt in zip(leaves, mask, strict=True) if learnt]
        start = fn.concat([leaf.reshape((-1,)) for leaf in own])
        best, after = self._run(lambda x, d, t: evaluate(fixed, args, x, d, t), start, state)
        parts = iter(_parts(best, shapes))
        updated = [next(parts) if learnt else leaf for leaf, learnt in zip(leaves, mask, strict=True)]
        result: P = tree.unflatten(structure, updated)
        return result, after

    def _run(
        self, evaluate: Callable[..., tuple[Tensor, ...]], x: Tensor, state: LBFGSState | None
    ) -> tuple[Tensor, LBFGSState]:
        limit = self.max_iter * 5 // 4 if self.max_eval is None else self.max_eval
        nowhere = fn.zeros_like(x)
        value, _, gradient = evaluate(x, nowhere, 0.0)
        if state is None:
            empty = fn.zeros((self.history_size, x.size), dtype=x.dtype)
            state = LBFGSState(value, gradient, nowhere, empty, empty, fn.ones((), dtype=x.dtype))
        before, move = state.gradient, state.move
        history = state.moves, state.changes, state.scale
        count, evaluations, level = state.iterations, 1, float(value)
        for number in range(1, self.max_iter + 1):
            if not float(fn.max(fn.abs(gradient))) > self.tolerance_grad:
                break
            count += 1
            length = self.lr
            if count == 1:
                direction = -gradient
                length *= min(1.0, 1.0 / float(fn.sum(fn.abs(gradient))))
            else:
                history = _remember(move, gradient - before, *history)
                direction = _direction(gradient, *history)
            slope = float(fn.sum(gradient * direction))
            if slope > -self.tolerance_change:
                break
            at = Point(0.0, level, slope, gradient)
            if self.line_search is not None:
                probe = functools.partial(_probe, evaluate, x, direction)
                widest = float(fn.max(fn.abs(direction)))
                at, tried = search(probe, at, length, widest, self.tolerance_change, limit - evaluations)
                evaluations += tried
            elif number < self.max_iter:
                at = _probe(evaluate, x, direction, length)
                evaluations += 1
            else:
                at = at._replace(length=length)  # nobody asks for the value there
            move = direction * at.length
            x = x + move
            change = abs(at.value - level)
            before, gradient, level = gradient, at.gradient, at.value
            if evaluations >= limit or change < self.tolerance_change:
                break
            if float(fn.max(fn.abs(move))) <= self.tolerance_change:
                break
        final = LBFGSState(
            fn.full((), level, dtype=x.dtype), before, move, *history, count, state.evaluations + evaluations
        )  # fmt: skip
        return x, final


def _probe(evaluate: Callable[..., tuple[Tensor, ...]], x: Tensor, direction: Tensor, length: float) -> Point:
    value, slope, gradient = evaluate(x, direction, length)
    return Point(length, float(value), float(slope), gradient)


def _parts(flat: Tensor, shapes: tuple[tuple[int, ...], ...]) -> list[Tensor]:
    parts, start = [], 0
    for shape in shapes:
        size = math.prod(shape)
        parts.append(flat[start : start + size].reshape(shape))
        start += size
    return parts


@functools.lru_cache(maxsize=16)
def _evaluation(
    function: Callable[..., Tensor],
    structure: tree.Structure,
    mask: tuple[bool, ...],
    shapes: tuple[tuple[int, ...], ...],
) -> Callable[..., tuple[Tensor, ...]]:
    """Value, slope along a direction and gradient at x + length · direction, compiled once per function."""

    def value_at(x: Tensor, fixed: list[Any], args: tuple[Any, ...]) -> Tensor:
        parts = iter(_parts(x, shapes))
        leaves = [next(parts) if learnt else leaf for leaf, learnt in zip(fixed, mask, strict=True)]
        return function(tree.unflatten(structure, leaves), *args)

    @jit
    def evaluate(
        fixed: list[Any], args: tuple[Any, ...], x: Tensor, direction: Tensor, length: Tensor
    ) -> tuple[Tensor, ...]:
        value, gradient = value_and_grad(value_at)(x + direction * length.astype(x.dtype), fixed, args)
        return value, fn.sum(gradient * direction), gradient

    def call(fixed: list[Any], args: tuple[Any, ...], x: Tensor, direction: Tensor, length: float) -> Any:
        return evaluate(fixed, args, x, direction, fn.full((), length, dtype=x.dtype))

    return call


@jit
def _remember(
    move: Tensor, change: Tensor, moves: Tensor, changes: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The history with a move, if the function curves upwards along it."""
    curve = fn.sum(change * move)
    counts = curve > _CURVED

    def pushed(rows: Tensor, row: Tensor) -> Tensor:
        return fn.where(counts, fn.concat([rows[1:], row.reshape((1, -1))]), rows)

    wanted = fn.where(counts, curve / fn.where(counts, fn.sum(change * change), 1.0), scale)
    return pushed(moves, move), pushed(changes, change), wanted


@jit
def _direction(gradient: Tensor, moves: Tensor, changes: Tensor, scale: Tensor) -> Tensor:
    """Minus the inverse curvature times the gradient."""
    curves = fn.sum(moves * changes, axis=1)
    weights = fn.where(curves > 0, 1.0 / fn.where(curves > 0, curves, 1.0), 0.0)

    def down(q: Tensor, row: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        move, change, weight = row
        part = fn.sum(move * q) * weight
        return q - change * part, part

    def up(r: Tensor, row: tuple[Tensor, Tensor, Tensor, Tensor]) -> tuple[Tensor, None]:
        move, change, weight, part = row
        return r + move * (part - fn.sum(change * r) * weight), None

    newest_first = tuple(fn.flip(rows, axis=0) for rows in (moves, changes, weights))
    q, parts = scan(down, -gradient, newest_first)
    direction: Tensor
    direction, _ = scan(up, q * scale, (moves, changes, weights, fn.flip(parts, axis=0)))
    return direction

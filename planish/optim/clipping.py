"""Gradients kept within bounds: by their common length, or each number by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from planish.dtypes import float32
from planish.errors import PlanishError
from planish.frontend import tree
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor

G = TypeVar("G")


def _is_float(leaf: object) -> bool:
    return isinstance(leaf, Tensor) and leaf.dtype.is_float


def _mapped(function: Callable[[Tensor], Tensor], grads: G) -> G:
    return tree.map_tree(lambda leaf: function(leaf) if _is_float(leaf) else leaf, grads)


def global_norm(grads: object, p: float = 2.0) -> Tensor:
    """The length of all numbers of a tree together; the largest magnitude for p = inf."""
    leaves = [x if x.dtype.bits >= 32 else x.astype(float32) for x in tree.leaves(grads) if _is_float(x)]
    if not leaves:
        return fn.zeros((), dtype=float32)
    if math.isinf(p):
        parts = [fn.max(fn.abs(x)) for x in leaves]
        return fn.max(fn.stack(parts))
    total: Tensor | None = None
    for x in leaves:
        part = fn.sum(x * x) if p == 2 else fn.sum(fn.pow(fn.abs(x), p))
        total = part if total is None else total + part
    power_sum = fn.zeros((), dtype=float32) if total is None else total
    return fn.sqrt(power_sum) if p == 2 else fn.pow(power_sum, 1 / p)


def clip_by_norm(grads: G, max_norm: float, p: float = 2.0) -> tuple[G, Tensor]:
    """Gradients that are together no longer than `max_norm`, and how long they were."""
    if max_norm < 0:
        raise PlanishError.at_caller(f"max_norm is {max_norm}", "a positive number")
    length = global_norm(grads, p)
    factor = fn.minimum(max_norm / (length + 1e-6), 1.0)
    return _mapped(lambda x: x * factor.astype(x.dtype), grads), length


def clip_by_value(grads: G, limit: float) -> G:
    """Gradients with every number between -limit and limit."""
    if limit < 0:
        raise PlanishError.at_caller(f"the limit is {limit}", "a positive number")
    return _mapped(lambda x: fn.clip(x, -limit, limit), grads)

"""Padding with PyTorch's arguments, the last axis first; and distances between all pairs of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from planish.errors import ShapeError
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn.arguments import floating
from planish.nn.losses import _length

_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""PyTorch's names of ways to pad, and NumPy's."""


def pad(x: Tensor, pad: Sequence[int], mode: str = "constant", value: float = 0.0) -> Tensor:
    """x with elements before and after its last axes: (before, after) of the last one, then of the one before it, and so on.

    Negative numbers cut off. Modes: constant, reflect, replicate, circular.
    """
    op = "pad"
    numbers = [int(n) for n in pad]
    if mode not in _MODES:
        raise ShapeError.of(op, f"there is no mode {mode!r}", f"one of {', '.join(_MODES)}")
    if len(numbers) % 2 or len(numbers) > 2 * x.ndim:
        raise ShapeError.of(op, f"{len(numbers)} numbers do not pad the axes of {x.shape}", "two for each axis, the last axis first"
        )  # fmt: skip
    pairs = [(0, 0)] * (x.ndim - len(numbers) // 2) + [
        (numbers[at], numbers[at + 1]) for at in range(len(numbers) - 2, -1, -2)
    ]
    for axis, (low, high) in enumerate(pairs):
        room = x.shape[axis] - (1 if mode == "reflect" else 0)
        if x.shape[axis] + low + high < 0 or (mode in ("reflect", "circular") and max(low, high) > room):
            raise ShapeError.of(op, f"axis {axis} of {x.shape} cannot be padded by {(low, high)} with mode {mode!r}", f"at most {room}"
            )  # fmt: skip
    cuts = tuple(slice(max(-low, 0), -max(-high, 0) or None) for low, high in pairs)
    if mode == "circular":  # around what is left; the others see what is cut off
        x, cuts = x[cuts], ()
    ends = [(max(low, 0), max(high, 0)) for low, high in pairs]
    if any(low or high for low, high in ends):
        filled = {"constant_values": value} if mode == "constant" else {"mode": _MODES[mode]}
        x = fn.pad(x, ends, **filled)
    return x[cuts]


def pdist(x: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm of the difference of each two rows of (N, M), row 0 with 1, 0 with 2, …: (N·(N-1)/2,)."""
    floating("pdist", x)
    if x.ndim != 2:
        raise ShapeError.of("pdist", f"shape {x.shape} has no rows", "(N, M)")
    first, second = np.triu_indices(x.shape[0], 1)
    gaps = fn.take(x, fn.asarray(first), axis=0) - fn.take(x, fn.asarray(second), axis=0)
    if p == 2:
        # equal rows have no slope, not an infinite one
        squares = fn.sum(gaps * gaps, axis=-1)
        apart = squares > 0
        return fn.where(apart, fn.sqrt(fn.where(apart, squares, 1.0)), 0.0)
    if p == 0:
        return fn.sum((gaps != 0).astype(x.dtype), axis=-1)
    return _length(gaps, p if p > 0 else math.nan, -1, False)


__all__ = ["pad", "pdist"]

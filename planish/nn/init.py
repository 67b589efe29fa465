"""Initial values of parameters, from a key and a shape; distributions are PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from planish import linalg, random
from planish.dtypes import DType, float32
from planish.errors import ShapeError
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor

Key = int | Tensor
"""A random key, or the seed of one."""


def key_of(key: Key) -> Tensor:
    """A random key."""
    return key if isinstance(key, Tensor) else random.key(key)


def keys_of(key: Key, count: int) -> list[Tensor]:
    """Some keys from one."""
    first = key_of(key)
    return [random.fold_in(first, number) for number in range(count)]


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """How many inputs an output of a weight (outputs, inputs, …) sees, and how many outputs see an input."""
    if len(shape) < 2:
        raise ShapeError.of("init", f"a weight of shape {tuple(shape)} has no inputs and outputs")
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


def calculate_gain(nonlinearity: str, slope: float = 0.01) -> float:
    """By how much an activation function needs its inputs larger, to keep their variance."""
    gains = {
        "linear": 1.0,
        "conv": 1.0,
        "sigmoid": 1.0,
        "tanh": 5 / 3,
        "relu": math.sqrt(2.0),
        "leaky_relu": math.sqrt(2.0 / (1 + slope**2)),
        "selu": 0.75,
    }
    if nonlinearity not in gains:
        raise ShapeError.of(
            "calculate_gain", f"there is no gain for {nonlinearity!r}", f"one of {', '.join(gains)}"
        )
    return gains[nonlinearity]


def zeros(shape: Sequence[int], dtype: DType = float32) -> Tensor:
    """Zeros."""
    return fn.zeros(tuple(shape), dtype=dtype)


def ones(shape: Sequence[int], dtype: DType = float32) -> Tensor:
    """Ones."""
    return fn.ones(tuple(shape), dtype=dtype)


def constant(shape: Sequence[int], value: float, dtype: DType = float32) -> Tensor:
    """One number everywhere."""
    return fn.full(tuple(shape), value, dtype=dtype)


def uniform(key: Key, shape: Sequence[int], a: float = 0.0, b: float = 1.0, dtype: DType = float32) -> Tensor:
    """Evenly from a to b."""
    return random.uniform(key_of(key), tuple(shape), dtype, a, b)


def normal(
    key: Key, shape: Sequence[int], mean: float = 0.0, std: float = 1.0, dtype: DType = float32
) -> Tensor:
    """Normally distributed."""
    return random.normal(key_of(key), tuple(shape), dtype, mean, std)


def trunc_normal(
    key: Key,
    shape: Sequence[int],
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    dtype: DType = float32,
) -> Tensor:
    """Normally distributed between a and b."""
    standard = random.truncated_normal(key_of(key), (a - mean) / std, (b - mean) / std, tuple(shape), dtype)
    return standard * std + mean


def xavier_uniform(key: Key, shape: Sequence[int], gain: float = 1.0, dtype: DType = float32) -> Tensor:
    """Evenly, with variance 2 / (inputs + outputs)."""
    bound = gain * math.sqrt(6.0 / sum(fans(shape)))
    return uniform(key, shape, -bound, bound, dtype)


def xavier_normal(key: Key, shape: Sequence[int], gain: float = 1.0, dtype: DType = float32) -> Tensor:
    """Normally distributed, with variance 2 / (inputs + outputs)."""
    return normal(key, shape, 0.0, gain * math.sqrt(2.0 / sum(fans(shape))), dtype)


def _kaiming(shape: Sequence[int], a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ShapeError.of("kaiming", f"there is no mode {mode!r}", "fan_in or fan_out")
    fan = fans(shape)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(max(fan, 1))


def kaiming_uniform(
    key: Key,
    shape: Sequence[int],
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    dtype: DType = float32,
) -> Tensor:
    """Evenly, with variance gain² / fan."""
    bound = math.sqrt(3.0) * _kaiming(shape, a, mode, nonlinearity)
    return uniform(key, shape, -bound, bound, dtype)


def kaiming_normal(
    key: Key,
    shape: Sequence[int],
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    dtype: DType = float32,
) -> Tensor:
    """Normally distributed, with variance gain² / fan."""
    return normal(key, shape, 0.0, _kaiming(shape, a, mode, nonlinearity), dtype)


def orthogonal(key: Key, shape: Sequence[int], gain: float = 1.0, dtype: DType = float32) -> Tensor:
    """Rows (or columns, whichever are fewer) of length `gain` at right angles to each other; evenly among all such."""
    if len(shape) < 2:
        raise ShapeError.of("orthogonal", f"shape {tuple(shape)} is no matrix")
    rows, columns = shape[0], math.prod(shape[1:])
    square = normal(key, (max(rows, columns), min(rows, columns)), dtype=dtype)
    q, r = linalg.qr(square)
    diagonal = linalg.diagonal(r)
    # Without the signs, QR would prefer some matrices over others.
    q = q * fn.where(diagonal < 0, -1.0, 1.0)
    return (q if rows >= columns else fn.matrix_transpose(q)).reshape(tuple(shape)) * gain


def eye(shape: Sequence[int], dtype: DType = float32) -> Tensor:
    """The identity matrix."""
    rows, columns = shape
    return fn.eye(rows, columns, dtype=dtype)


def dirac(shape: Sequence[int], groups: int = 1, dtype: DType = float32) -> Tensor:
    """Kernels (outputs, inputs, …) that hand as many channels through as there are."""
    if len(shape) < 3 or shape[0] % groups:
        raise ShapeError.of("dirac", f"shape {tuple(shape)} is no kernel of {groups} groups")
    kernels = np.zeros(tuple(shape))
    per_group = shape[0] // groups
    middle = tuple(size // 2 for size in shape[2:])
    for group in range(groups):
        for channel in range(min(per_group, shape[1])):
            kernels[(group * per_group + channel, channel, *middle)] = 1
    return fn.asarray(kernels, dtype=dtype)

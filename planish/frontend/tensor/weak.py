"""Weak tensors: Python numbers that are passed to a function while it is traced.

They have no dtype of their own yet, as the number would not: with a tensor they take its dtype, alone the default one. What is
computed from weak tensors and Python numbers alone is weak again.
"""

from __future__ import annotations

from typing import Final

from planish.frontend.tensor.array import Scalar, Tensor

_EXAMPLES: Final[dict[type, Scalar]] = {bool: True, int: 1, float: 1.0, complex: 1j}


class WeakTensor(Tensor):
    """A number whose value is not known yet."""

    __slots__ = ("_weak",)
    _weak: Scalar
    """A number of the same kind: promotion asks for no more."""

    @staticmethod
    def of(tensor: Tensor, kind: type) -> WeakTensor:
        """A tensor as a Python number of a kind."""
        weak = WeakTensor(tensor._value)
        weak._weak = _EXAMPLES[kind]
        return weak


def stay_weak(result: Tensor, *operands: object) -> Tensor:
    """What was computed from operands: weak if all of them were."""
    if not all(isinstance(x, WeakTensor | bool | int | float | complex) for x in operands):
        return result
    dtype = result.dtype
    return WeakTensor.of(
        result, complex if dtype.is_complex else float if dtype.is_float else int if dtype.is_int else bool
    )

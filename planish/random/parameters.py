"""Parameters of distributions: numbers or tensors, brought to one shape and to a dtype that is wide enough to compute in."""

from __future__ import annotations

from typing import Any

from planish import dtypes
from planish.dtypes import DType
from planish.errors import ShapeError
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.operands import common_shape
from planish.random.core import _UNIT, Numbers, Shape, _floating, _sizes


def prepared(
    op: str, shape: Shape | None, dtype: DType | None, *given: Numbers
) -> tuple[list[Tensor], DType]:
    """Parameters in the shape of the result, float32 or wider, and the dtype of the result: by default theirs."""
    values = [_number_or_tensor(x) for x in given]
    floats = [x.dtype for x in values if isinstance(x, Tensor) and x.dtype in _UNIT]
    widest = sorted(floats, key=lambda d: d.bits)[-1:] or [dtypes.float32]
    wanted = _floating(op, widest[0] if dtype is None else dtype)
    wide = dtypes.float64 if wanted is dtypes.float64 else dtypes.float32
    tensors = [x.astype(wide) if isinstance(x, Tensor) else fn.full((), x, dtype=wide) for x in values]
    return [fn.broadcast_to(x, _fitting(op, shape, tensors)) for x in tensors], wanted


def _number_or_tensor(x: Any) -> Numbers:
    """Arrays and lists are tensors."""
    return x if isinstance(x, Tensor | int | float) else fn.asarray(x)


def _fitting(op: str, shape: Shape | None, given: list[Tensor]) -> tuple[int, ...]:
    """The shape of the result: that of all parameters together, or a larger one that they broadcast to."""
    shapes = [x.shape for x in given]
    together = common_shape(op, shapes)
    if shape is None:
        return together
    sizes = _sizes(shape)
    tail = sizes[len(sizes) - len(together) :] if len(together) <= len(sizes) else None
    if tail is None or any(have not in (1, size) for have, size in zip(together, tail, strict=True)):
        raise ShapeError.of(op, f"parameters of shape {together} do not broadcast to {sizes}", "leave shape out, or add axes in front"
        )  # fmt: skip
    return sizes


__all__ = ["prepared"]

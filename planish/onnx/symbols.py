"""Sizes that have names: what Shape and arithmetic after it say of them, while a model is imported for all sizes of a dim.

A value that holds sizes has an array beside it, of numbers and dims. Ops that move, compute or compare sizes (Gather, Concat, Mul,
Equal, Where …) make such arrays of such arrays; where only numbers are left, the value is known. What is not the same at all sizes
(whether one is above 8) is not followed. Reshape and its like take dims as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from planish.errors import ShapeError
from planish.onnx.attributes import Attributes
from planish.ptir.dims import Dim, DimLike, bounds
from planish.ptir.graph_value import GraphValue

Array = NDArray[Any]
_WHOLE: Final = (TensorProto.INT64, TensorProto.INT32)


class TooWide(ShapeError):
    """A size that may be larger than what the model has for it: narrower bounds would do."""

    def __init__(self, message: str, size: Dim, limit: int) -> None:
        super().__init__(message)
        self.size = size
        self.limit = limit


def whole_kind(op_type: str, attributes: Attributes, given: Sequence[Any]) -> Any:
    """The dtype of what a node makes of sizes: that of what it is given, but for a cast."""
    if op_type == "Cast":
        return np.int32 if attributes.get("to") == TensorProto.INT32 else np.int64
    data = given[1 if op_type == "Where" else 0]
    return data.dtype.numpy if isinstance(data, GraphValue) else np.asarray(data).dtype


def follow(op_type: str, attributes: Attributes, given: Sequence[Array | None]) -> Array | None:
    """The sizes that an op makes of sizes; None if it is not an op for that."""
    handler = _OPS.get(op_type)
    if handler is None or not given or given[0] is None:
        return None
    try:
        return handler(attributes, *given)
    except ShapeError:
        return None  # the bounds do not tell


def as_numbers(sizes: Array) -> Array | None:
    """The array, if nothing in it has a name."""
    flat = sizes.reshape(-1).tolist()
    if flat and all(isinstance(size, bool | np.bool_) for size in flat):
        return np.array(flat, np.bool_).reshape(sizes.shape)
    if not all(isinstance(size, int | np.integer) for size in flat):
        return None
    return np.array(flat, np.int64).reshape(sizes.shape)


def _axes(attributes: Attributes, axes: Array | None) -> list[int]:
    axes_given = attributes.get("axes", None) if axes is None else axes.reshape(-1).tolist()
    return [int(axis) for axis in axes_given or ()]


def _gather(attributes: Attributes, x: Array, index: Array) -> Array | None:
    if index.dtype == object:
        return None  # which of them depends on a size
    gathered = np.empty(index.shape, object)
    gathered[...] = np.take(x, index.astype(np.int64), attributes.get("axis", 0))
    return gathered


def _slice(
    attributes: Attributes,
    x: Array,
    begin: Array | None = None,
    end: Array | None = None,
    *rest: Array | None,
) -> Array | None:
    if begin is None or end is None:
        return None
    axes = rest[0] if rest and rest[0] is not None else np.arange(begin.size)
    steps = rest[1] if len(rest) > 1 and rest[1] is not None else np.ones(begin.size, np.int64)
    limits = [a.reshape(-1).tolist() for a in (begin, end, axes, steps)]
    if any(isinstance(limit, Dim) for part in limits for limit in part):
        return None  # how much is left depends on a size
    chosen = [slice(None)] * x.ndim
    for first, last, axis, step in zip(*limits, strict=True):
        chosen[int(axis)] = slice(int(first), int(last), int(step))
    return np.asarray(x[tuple(chosen)])


def _cast(attributes: Attributes, x: Array) -> Array | None:
    return x if attributes.get("to", 0) in _WHOLE else None


def _reshape(attributes: Attributes, x: Array, wanted: Array | None = None) -> Array | None:
    if wanted is None or wanted.dtype == object:
        return None
    return x.reshape([x.shape[n] if size == 0 else int(size) for n, size in enumerate(wanted.reshape(-1))])


def _expand(attributes: Attributes, x: Array, wanted: Array) -> Array | None:
    if wanted.dtype == object:
        return None
    return x * np.ones([int(size) for size in wanted.reshape(-1)], object)


def _where(attributes: Attributes, condition: Array, x: Array, y: Array) -> Array | None:
    if condition.dtype == object:
        return None
    return np.where(condition, x.astype(object), y.astype(object))


def _reduced(function: Callable[[Any, Any], Any]) -> Callable[..., Array | None]:
    def computed(attributes: Attributes, x: Array, axes: Array | None = None) -> Array | None:
        keep = attributes.get("keepdims", 1)
        attributes.get("noop_with_empty_axes", 0)
        if x.ndim != 1 or _axes(attributes, axes) not in ([], [0], [-1]):
            return None
        result = np.empty((1,) if keep else (), object)
        result[...] = reduce(function, x.tolist())
        return result

    return computed


def _is_equal(a: DimLike, b: DimLike) -> bool:
    """Whether two sizes are the same at all sizes, or at none."""
    if isinstance(a, bool) or isinstance(b, bool) or a == b:
        return a == b
    low, high = bounds(a - b)
    if low <= 0 <= high:
        raise ShapeError(f"whether {a} is {b} is not the same at all sizes")
    return False


def _squeeze(attributes: Attributes, x: Array, axes: Array | None = None) -> Array:
    chosen = _axes(attributes, axes)
    return np.squeeze(x, tuple(chosen) or None)


def _unsqueeze(attributes: Attributes, x: Array, axes: Array | None = None) -> Array:
    return np.expand_dims(x, tuple(_axes(attributes, axes)))


def _pairwise(function: Callable[[Any, Any], Any]) -> Callable[..., Array | None]:
    def computed(attributes: Attributes, x: Array, y: Array) -> Array | None:
        if any(a.dtype != object and a.dtype.kind not in "iu" for a in (x, y)):
            return None
        a, b = np.broadcast_arrays(x, y)
        results = np.empty(a.shape, object)
        flat = [function(p, q) for p, q in zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), strict=True)]
        results.reshape(-1)[:] = flat
        return results

    return computed


_OPS: Final[dict[str, Callable[..., Array | None]]] = {
    "Gather": _gather,
    "Slice": _slice,
    "Cast": _cast,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Identity": lambda attributes, x: x,
    "Concat": lambda attributes, *xs: np.concatenate(
        [np.asarray(x, object) for x in xs], attributes.get("axis", 0)
    ),
    "Add": _pairwise(lambda a, b: a + b),
    "Sub": _pairwise(lambda a, b: a - b),
    "Mul": _pairwise(lambda a, b: a * b),
    "Div": _pairwise(lambda a, b: a // b),
    "Mod": _pairwise(lambda a, b: a % b),
    "Max": _pairwise(lambda a, b: a if a >= b else b),
    "Min": _pairwise(lambda a, b: a if a <= b else b),
    "Equal": _pairwise(_is_equal),
    "Less": _pairwise(lambda a, b: a < b),
    "LessOrEqual": _pairwise(lambda a, b: a <= b),
    "Greater": _pairwise(lambda a, b: a > b),
    "GreaterOrEqual": _pairwise(lambda a, b: a >= b),
    "Where": _where,
    "Expand": _expand,
    "Neg": lambda attributes, x: -x,
    "ReduceProd": _reduced(lambda a, b: a * b),
    "ReduceSum": _reduced(lambda a, b: a + b),
}

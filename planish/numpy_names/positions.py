"""Positions: grids of indices, conversions between flat and nested ones, choices by index or condition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from planish import dtypes
from planish.errors import DTypeError, ShapeError
from planish.frontend.tensor import functions as api
from planish.frontend.tensor.array import Scalar, Tensor
from planish.frontend.tensor.operands import DTypeLike, Operand, Sizes, as_shape, line_of, promoted, tensor


def _constants(arrays: Sequence[np.ndarray[Any, Any]]) -> tuple[Tensor, ...]:
    return tuple([api.asarray(x) for x in arrays])


def indices(dimensions: Sizes, /, dtype: DTypeLike | None = None, *, sparse: bool = False) -> Any:
    """The index along each axis, everywhere in a grid."""
    shape = as_shape("indices", dimensions)
    lines = [api.arange(size, dtype=dtype or dtypes.int64) for size in shape]
    opened = [
        api.reshape(line, [-1 if at == axis else 1 for at in range(len(shape))])
        for axis, line in enumerate(lines)
    ]
    return tuple(opened) if sparse else api.stack([api.broadcast_to(line, shape) for line in opened])


def diag_indices(n: int, ndim: int = 2, /) -> tuple[Tensor, ...]:
    """Positions of the main diagonal."""
    return (api.arange(n),) * ndim


def diag_indices_from(x: Tensor, /) -> tuple[Tensor, ...]:
    """Positions of the main diagonal of a tensor with equal sizes."""
    given = tensor("diag_indices_from", x)
    if given.ndim < 2 or len(set(given.shape)) != 1:
        raise ShapeError.of("diag_indices_from", f"the axes of shape {given.shape} differ")
    return diag_indices(given.shape[0], given.ndim)


def tril_indices(n: int, /, k: int = 0, m: int | None = None) -> tuple[Tensor, ...]:
    """Positions on and below a diagonal."""
    return _constants(np.tril_indices(n, k, m))


def triu_indices(n: int, /, k: int = 0, m: int | None = None) -> tuple[Tensor, ...]:
    """Positions on and above a diagonal."""
    return _constants(np.triu_indices(n, k, m))


def _matrix(name: str, x: Tensor) -> tuple[int, int]:
    given = tensor(name, x)
    if given.ndim != 2:
        raise ShapeError.of(name, f"shape {given.shape} is not a matrix")
    return given.shape[0], given.shape[1]


def tril_indices_from(x: Tensor, /, k: int = 0) -> tuple[Tensor, ...]:
    """Positions on and below a diagonal of a matrix."""
    rows, columns = _matrix("tril_indices_from", x)
    return tril_indices(rows, k, columns)


def triu_indices_from(x: Tensor, /, k: int = 0) -> tuple[Tensor, ...]:
    """Positions on and above a diagonal of a matrix."""
    rows, columns = _matrix("triu_indices_from", x)
    return triu_indices(rows, k, columns)


def mask_indices(n: int, mask_func: Any, /, k: Scalar = 0) -> tuple[Tensor, ...]:
    """Positions that a function such as `triu` leaves of a matrix of ones."""
    return api.nonzero(tensor("mask_indices", mask_func(api.ones((n, n)), k)))


def flatnonzero(x: Tensor, /, *, size: int | None = None, fill_value: int = 0) -> Tensor:
    """Positions in row-major order of the elements that are not zero."""
    return api.nonzero(api.ravel(tensor("flatnonzero", x)), size=size, fill_value=fill_value)[0]


def _wide(name: str, positions: Operand) -> Tensor:
    """Positions that can be compared with any size and added up."""
    given = tensor(name, positions)
    if given.dtype.is_bool or given.dtype.is_int:
        return api.astype(given, dtypes.int64)
    raise DTypeError.of(name, f"positions are integers, not {given.dtype.name}")


def unravel_index(flat: Operand, shape: Sizes, /, order: str = "C") -> tuple[Tensor, ...]:
    """The index along each axis of positions in row-major order, or column-major with `order="F"`."""
    if order == "F":
        return unravel_index(flat, as_shape("unravel_index", shape)[::-1])[::-1]
    rest = _wide("unravel_index", flat)
    per_axis = []
    for size in reversed(as_shape("unravel_index", shape)):
        per_axis.append(api.remainder(rest, size))
        rest = api.floor_divide(rest, size)
    return tuple(reversed(per_axis))


def _brought(index: Tensor, size: int, mode: str) -> Tensor | None:
    """Indices brought inside (`wrap` or `clip`), or as they are, if all are inside; None if one is not."""
    if mode == "wrap":
        return api.remainder(index, size)
    if mode == "clip":
        return api.clip(index, 0, size - 1)
    return None if bool(api.any(api.logical_or(index < 0, index >= size))) else index


def ravel_multi_index(
    multi: Sequence[Operand], dims: Sizes, /, mode: str = "raise", order: str = "C"
) -> Tensor:
    """Positions in row-major order of an index along each axis. Outside: `wrap` or `clip`; `raise` looks at the data."""
    shape = as_shape("ravel_multi_index", dims)
    if order == "F":
        return ravel_multi_index(list(multi)[::-1], shape[::-1], mode)
    given = [_wide("ravel_multi_index", one) for one in multi]
    if len(given) != len(shape):
        raise ShapeError.of("ravel_multi_index", f"{len(given)} indices for {len(shape)} axes")
    flat: Tensor | int = 0
    for size, one in zip(shape, given, strict=True):
        place = _brought(one, size, mode)
        if place is None:
            raise ShapeError.of("ravel_multi_index", f"an index is outside of an axis of {size}")
        flat = place + flat * size
    return tensor("ravel_multi_index", flat)


def ix_(*sequences: Tensor | Sequence[int]) -> tuple[Tensor, ...]:
    """Vectors that index a grid: each along an axis of its own."""
    lines = []
    for axis, one in enumerate(sequences):
        line = tensor("ix_", one)
        if line.ndim != 1:
            raise ShapeError.of("ix_", f"shape {line.shape} is not a vector")
        line = api.nonzero(line)[0] if line.dtype.is_bool else line
        lines.append(api.reshape(line, [-1 if at == axis else 1 for at in range(len(sequences))]))
    return tuple(lines)


# --- grids by subscript -----------------------------------------------------------------------------------


def _line(part: slice) -> Tensor:
    """The numbers of a slice; a step of `5j` means five of them, the last included."""
    start = 0 if part.start is None else part.start
    if isinstance(part.step, complex):
        return api.linspace(start, part.stop, int(abs(part.step)))
    return api.arange(start, part.stop, 1 if part.step is None else part.step)


class _Grid:
    """`mgrid[0:3, 0:4]` and `ogrid`: coordinates of a grid."""

    def __init__(self, name: str, opened: bool) -> None:
        self.name, self.opened = name, opened

    def __getitem__(self, key: slice | tuple[slice, ...]) -> Any:
        if isinstance(key, slice):
            return _line(key)
        grids = api.meshgrid(*[_line(part) for part in key], indexing="ij")
        if not self.opened:
            return api.stack(promoted(self.name, *grids))
        return tuple(
            [
                grid[tuple(slice(None) if at == axis else slice(1) for at in range(len(key)))]
                for axis, grid in enumerate(grids)
            ]
        )

    def __repr__(self) -> str:
        return f"planish.{self.name}"


class _Joiner:
    """`r_[0:3, 7, x]` and `c_[x, y]`: slices, numbers and tensors joined."""

    def __init__(self, name: str, columns: bool) -> None:
        self.name, self.columns = name, columns

    def __getitem__(self, key: Any) -> Tensor:
        parts = key if isinstance(key, tuple) else (key,)
        if any(isinstance(part, str) for part in parts):
            raise DTypeError.of(
                self.name, "directives in text are not understood", "use concat or stack with an axis"
            )
        pieces = [
            _line(part) if isinstance(part, slice) else api.atleast_1d(tensor(self.name, part))
            for part in parts
        ]
        if self.columns:
            pieces = [api.reshape(part, (-1, 1)) if part.ndim == 1 else part for part in pieces]
        return api.concat(pieces, axis=-1 if self.columns else 0)

    def __repr__(self) -> str:
        return f"planish.{self.name}"


mgrid, ogrid = _Grid("mgrid", False), _Grid("ogrid", True)
r_, c_ = _Joiner("r_", False), _Joiner("c_", True)
s_, index_exp = np.s_, np.index_exp


# --- choices ----------------------------------------------------------------------------------------------


def select(conditions: Sequence[Tensor], choices: Sequence[Operand], default: Operand = 0, /) -> Tensor:
    """Elements of the choice that belongs to the first condition that holds."""
    if len(conditions) != len(choices) or not conditions:
        raise ShapeError.of("select", f"{len(conditions)} conditions for {len(choices)} choices")
    *values, result = promoted("select", *choices, default)
    for condition, value in zip(reversed(conditions), reversed(values), strict=True):
        result = api.where(tensor("select", condition), value, result)
    return result


def choose(x: Tensor, choices: Sequence[Operand], /, mode: str = "raise") -> Tensor:
    """From each of several arrays the elements whose number x names. Outside: `wrap` or `clip`; `raise` looks at the data."""
    number = len(choices)
    index = _brought(_wide("choose", x), number, mode)
    if index is None:
        raise ShapeError.of("choose", f"x names a choice that is not among {number}")
    return select([index == at for at in range(number)], list(choices))


def compress(condition: Tensor, x: Tensor, /, axis: int | None = None) -> Tensor:
    """Slices along an axis where a vector of conditions holds. How many there are depends on the data."""
    line, along = line_of("compress", tensor("compress", x), axis)
    return api.take(line, flatnonzero(condition), axis=along)


def extract(condition: Tensor, x: Tensor, /) -> Tensor:
    """Elements where a condition holds, in row-major order."""
    return compress(api.ravel(tensor("extract", condition)), api.ravel(tensor("extract", x)))


def piecewise(
    x: Tensor, conditions: Sequence[Tensor], functions: Sequence[Any], /, *args: Any, **kw: Any
) -> Tensor:
    """A function for each condition, the last one for where none holds if there is one more. The last that holds counts."""
    given = tensor("piecewise", x)
    choices = [one(given, *args, **kw) if callable(one) else one for one in functions]
    default = choices.pop() if len(choices) == len(conditions) + 1 else 0
    if len(choices) != len(conditions):
        raise ShapeError.of("piecewise", f"{len(functions)} functions for {len(conditions)} conditions")
    chosen = select(list(reversed(conditions)), list(reversed(choices)), default)
    return api.astype(api.broadcast_to(chosen, given.shape), given.dtype)


# --- assignment by position -------------------------------------------------------------------------------


def put(x: Tensor, at: Operand, values: Operand, /, mode: str = "raise") -> None:
    """Assign to positions in row-major order."""
    place = api.ravel(_wide("put", at))
    if mode == "wrap":
        place = api.remainder(place, x.size)
    elif mode == "clip":
        place = api.clip(place, 0, x.size - 1)
    flat = api.ravel(x)
    flat[place] = _cycled("put", values, place.size)
    x[...] = api.reshape(flat, x.shape)


def _cycled(name: str, values: Operand, count: int) -> Tensor:
    line = api.ravel(tensor(name, values))
    return api.tile(line, -(-count // line.size))[:count] if line.size != count else line


def place(x: Tensor, mask: Tensor, values: Operand, /) -> None:
    """Assign values one after the other where a mask holds, again from the first where they do not suffice."""
    line = api.ravel(tensor("place", values))
    holds = api.ravel(tensor("place", mask)) != 0
    number = api.remainder(api.cumulative_sum(api.astype(holds, dtypes.int64), axis=0) - 1, line.size)
    x[...] = api.reshape(api.where(holds, api.take(line, number), api.ravel(x)), x.shape)


def put_along_axis(x: Tensor, at: Tensor, values: Operand, /, axis: int | None) -> None:
    """Assign to positions along an axis, one per line."""
    line, along = line_of("put_along_axis", x, axis)
    index = tensor("put_along_axis", at)
    new = api.broadcast_to(api.astype(tensor("put_along_axis", values), x.dtype), index.shape)
    x[...] = api.reshape(api.scatter(line, index, new, axis=along), x.shape)


def fill_diagonal(x: Tensor, value: Operand, /, *, wrap: bool = False) -> None:
    """Assign to the main diagonal; `wrap` goes on below in tall matrices."""
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) != 1):
        raise ShapeError.of(
            "fill_diagonal", f"shape {x.shape} has no main diagonal", "all sizes must be equal"
        )
    step = x.shape[1] + 1 if x.ndim == 2 else 1 + sum(math.prod(x.shape[:at]) for at in range(1, x.ndim))
    end = x.shape[1] * x.shape[1] if x.ndim == 2 and not wrap else None
    places = np.arange(x.size)[:end:step]
    put(x, api.asarray(places), _cycled("fill_diagonal", value, len(places)))


__all__ = [
    "c_", "choose", "compress", "diag_indices", "diag_indices_from", "extract", "fill_diagonal", "flatnonzero", "index_exp",
    "indices", "ix_", "mask_indices", "mgrid", "ogrid", "piecewise", "place", "put", "put_along_axis", "r_",
    "ravel_multi_index", "s_", "select", "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from",
    "unravel_index",
]  # fmt: skip

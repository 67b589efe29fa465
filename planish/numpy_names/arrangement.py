"""Arrangement of elements: joining, cutting, inserting, turning, as NumPy names it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from planish import dtypes, linalg
from planish.errors import ShapeError
from planish.frontend.tensor import functions as api
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.operands import (
    DTypeLike,
    Operand,
    Sizes,
    as_shape,
    axis_of,
    line_of,
    promoted,
    tensor,
)


def array(
    obj: Any,
    /,
    dtype: DTypeLike | None = None,
    *,
    copy: bool | None = True,
    ndmin: int = 0,
    device: str | None = None,
) -> Tensor:
    """A tensor of numbers, of nested sequences, or of another library's array."""
    given = api.asarray(obj, dtype=dtype, device=device, copy=copy)
    return api.reshape(given, (1,) * (ndmin - given.ndim) + given.shape) if given.ndim < ndmin else given


def copy(x: Tensor, /) -> Tensor:
    """The same elements under a name of their own."""
    return tensor("copy", x).snapshot()


def transpose(x: Tensor, /, axes: Sequence[int] | None = None) -> Tensor:
    """Axes in another order; reversed when none is given."""
    given = tensor("transpose", x)
    return api.permute_dims(given, tuple(range(given.ndim))[::-1] if axes is None else tuple(axes))


def rollaxis(x: Tensor, /, axis: int, start: int = 0) -> Tensor:
    """An axis moved until it stands before another."""
    given = tensor("rollaxis", x)
    source = axis_of("rollaxis", axis, given.ndim, given.shape)
    before = start + given.ndim if start < 0 else start
    return api.moveaxis(given, source, before - 1 if source < before else before)


def fliplr(x: Tensor, /) -> Tensor:
    """Columns in reverse."""
    return api.flip(x, axis=1)


def flipud(x: Tensor, /) -> Tensor:
    """Rows in reverse."""
    return api.flip(x, axis=0)


def atleast_3d(x: Tensor, /) -> Tensor:
    """With three axes or more; a vector lies along the second."""
    given = tensor("atleast_3d", x)
    shape = {0: (1, 1, 1), 1: (1, *given.shape, 1), 2: (*given.shape, 1)}.get(given.ndim)
    return given if shape is None else api.reshape(given, shape)


def diagflat(x: Tensor, /, k: int = 0) -> Tensor:
    """All elements on a diagonal."""
    return api.diag(api.ravel(tensor("diagflat", x)), k)


def diagonal(x: Tensor, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The elements of a diagonal of two axes, as the last one."""
    return linalg.diagonal(api.moveaxis(tensor("diagonal", x), (axis1, axis2), (-2, -1)), offset=offset)


def trace(
    x: Tensor, /, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None
) -> Tensor:
    """The sum of a diagonal of two axes."""
    return api.sum(diagonal(x, offset, axis1, axis2), axis=-1, dtype=dtype)


def resize(x: Tensor, /, new_shape: Sizes) -> Tensor:
    """The elements in row-major order, again from the first where they do not suffice."""
    given, shape = tensor("resize", x), as_shape("resize", new_shape)
    if given.size == 0:
        return api.zeros(shape, dtype=given.dtype)
    line, wanted = api.ravel(given), math.prod(shape)
    return api.reshape(api.tile(line, -(-wanted // given.size) or 1)[:wanted], shape)


# --- joining ----------------------------------------------------------------------------------------------


def append(x: Tensor, values: Tensor, /, axis: int | None = None) -> Tensor:
    """One after the other along an axis; flat without one."""
    return api.concat([tensor("append", x), tensor("append", values)], axis=axis)


def dstack(arrays: Sequence[Tensor], /) -> Tensor:
    """Joined along the third axis."""
    return api.concat([atleast_3d(x) for x in arrays], axis=2)


def column_stack(arrays: Sequence[Tensor], /) -> Tensor:
    """Vectors as columns, matrices beside each other."""
    given = [tensor("column_stack", x) for x in arrays]
    return api.concat([api.reshape(x, (-1, 1)) if x.ndim < 2 else x for x in given], axis=1)


def block(arrays: Any, /) -> Tensor:
    """Blocks as they lie in nested lists: the innermost ones beside each other along the last axis."""

    def depth(part: Any) -> int:
        return 1 + max(map(depth, part), default=0) if isinstance(part, list) else 0

    levels = depth(arrays)

    def ranks(part: Any) -> int:
        return max(map(ranks, part)) if isinstance(part, list) else tensor("block", part).ndim

    ndim = max(levels, ranks(arrays))

    def joined(part: Any, level: int) -> Tensor:
        if not isinstance(part, list):
            one = tensor("block", part)
            return api.reshape(one, (1,) * (ndim - one.ndim) + one.shape)
        return api.concat([joined(inner, level - 1) for inner in part], axis=-level)

    return joined(arrays, levels)


def insert(
    x: Tensor, indices: int | Sequence[int] | slice, values: Operand, /, axis: int | None = None
) -> Tensor:
    """Values put before positions of an axis."""
    line, along = line_of("insert", tensor("insert", x), axis)
    size = line.shape[along]
    one = isinstance(indices, int | np.integer)
    at = (
        np.arange(size)[indices]
        if isinstance(indices, slice)
        else np.atleast_1d(np.asarray(indices, dtype=np.int64))
    )
    if at.size and (at.min() < -size or at.max() > size):
        raise ShapeError.of("insert", f"position {indices} in an axis of {size}")
    at = np.where(at < 0, at + size, at)
    new = api.astype(tensor("insert", values), line.dtype)
    if one and new.ndim == line.ndim and new.shape[along] != 1:
        at = np.repeat(at, new.shape[along])
    elif one and new.ndim and new.ndim == line.ndim - 1:
        new = api.expand_dims(new, axis=along)
    elif axis is None and one and new.ndim:
        new, at = api.ravel(new), np.repeat(at, new.size)
    shape = tuple(len(at) if axis == along else number for axis, number in enumerate(line.shape))
    if len(at) == 1 and new.ndim == line.ndim and not one:
        at = np.repeat(at, new.shape[along])
        shape = tuple(len(at) if axis == along else number for axis, number in enumerate(line.shape))
    order = np.argsort(at, kind="stable")
    # where each element of the result comes from: the line first, what is new behind it
    source = np.insert(np.arange(size), at[order], size + order)
    return api.take(
        api.concat([line, api.broadcast_to(new, shape)], axis=along), api.asarray(source), axis=along
    )


def delete(x: Tensor, indices: int | Sequence[int] | slice | Tensor, /, axis: int | None = None) -> Tensor:
    """Without positions of an axis."""
    line, along = line_of("delete", tensor("delete", x), axis)
    where = indices if isinstance(indices, slice | int) else np.asarray(indices)
    try:
        kept = np.delete(np.arange(line.shape[along]), where)
    except IndexError:
        raise ShapeError.of("delete", f"position {indices} in an axis of {line.shape[along]}") from None
    return api.take(line, api.asarray(kept), axis=along)


def trim_zeros(x: Tensor, /, trim: str = "fb") -> Tensor:
    """Without zeros at the front and the back of every axis. How many there are depends on the data."""
    given = tensor("trim_zeros", x)
    kept = np.nonzero(given._elements("trim_zeros"))
    if not kept or not kept[0].size:
        return given[(slice(0),) * given.ndim]
    front, back = "f" in trim.lower(), "b" in trim.lower()
    ends = zip(kept, given.shape, strict=True)
    return given[
        tuple([slice(int(at.min()) if front else 0, int(at.max()) + 1 if back else n) for at, n in ends])
    ]


# --- cutting ----------------------------------------------------------------------------------------------


def array_split(x: Tensor, sections: int | Sequence[int], /, axis: int = 0) -> tuple[Tensor, ...]:
    """In so many parts, the first ones longer by one where it does not divide."""
    given = tensor("array_split", x)
    if not isinstance(sections, int):
        return api.split(given, sections, axis=axis)
    size = given.shape[axis_of("array_split", axis, given.ndim, given.shape)]
    short, longer = divmod(size, sections)
    ends = np.cumsum([short + (part < longer) for part in range(sections)])[:-1]
    return api.split(given, [int(end) for end in ends], axis=axis)


def _split_along(
    name: str, axis: int, least: int, doc: str
) -> Callable[[Tensor, int | Sequence[int]], tuple[Tensor, ...]]:
    def function(x: Tensor, sections: int | Sequence[int], /) -> tuple[Tensor, ...]:
        given = tensor(name, x)
        if given.ndim < least:
            raise ShapeError.of(name, f"shape {given.shape} has fewer than {least} axes")
        return api.split(given, sections, axis=0 if given.ndim == 1 else axis)

    function.__name__, function.__qualname__, function.__doc__ = name, name, doc
    return function


hsplit = _split_along("hsplit", 1, 1, "Cut into columns.")
vsplit = _split_along("vsplit", 0, 2, "Cut into rows.")
dsplit = _split_along("dsplit", 2, 3, "Cut along the third axis.")


# --- order ------------------------------------------------------------------------------------------------


def partition(x: Tensor, kth: int, /, axis: int = -1) -> Tensor:
    """With the element that belongs at `kth` there, smaller ones before it: here all are sorted."""
    return api.sort(x, axis=axis)


def argpartition(x: Tensor, kth: int, /, axis: int = -1) -> Tensor:
    """Positions that partition: here those that sort."""
    return api.argsort(x, axis=axis)


def sort_complex(x: Tensor, /) -> Tensor:
    """Ascending by real parts, then by imaginary parts, as complex numbers."""
    given = tensor("sort_complex", x)
    if not given.dtype.is_complex:
        line = api.sort(given)
        return api.astype(
            line, dtypes.complex128 if line.dtype in (dtypes.float64, dtypes.int64) else dtypes.complex64
        )
    order = api.lexsort((api.imag(given), api.real(given)))
    return api.take_along_axis(given, order, axis=-1)


# --- products ---------------------------------------------------------------------------------------------


def vdot(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of all elements, the first ones conjugated."""
    left, right = promoted("vdot", x1, x2)
    return api.vecdot(api.ravel(left), api.ravel(right))


def matvec(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Matrices times vectors."""
    return api.squeeze(api.matmul(tensor("matvec", x1), tensor("matvec", x2)[..., None]), axis=-1)


def vecmat(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Vectors, conjugated, times matrices."""
    return api.squeeze(
        api.matmul(api.conj(tensor("vecmat", x1))[..., None, :], tensor("vecmat", x2)), axis=-2
    )


def cross(
    x1: Tensor, x2: Tensor, /, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Tensor:
    """Cross products of vectors of three, along one axis or along one of each operand and of the result."""
    if axis is not None:
        axisa = axisb = axisc = axis
    left, right = (api.moveaxis(tensor("cross", x), at, -1) for x, at in ((x1, axisa), (x2, axisb)))
    return api.moveaxis(linalg.cross(left, right), -1, axisc)


def einsum_path(equation: str, /, *arrays: Tensor, optimize: Any = "greedy") -> tuple[list[Any], str]:
    """The order of pairs that NumPy would choose, and its report; planish chooses its own."""
    stand_ins = [np.broadcast_to(np.float64(0), tensor("einsum_path", x).shape) for x in arrays]
    return np.einsum_path(equation, *stand_ins, optimize=optimize)


__all__ = [
    "append", "argpartition", "array", "array_split", "atleast_3d", "block", "column_stack", "copy", "cross", "delete", "diagflat",
    "diagonal", "dsplit", "dstack", "einsum_path", "fliplr", "flipud", "hsplit", "insert", "matvec", "partition", "resize",
    "rollaxis", "sort_complex", "trace", "transpose", "trim_zeros", "vdot", "vecmat", "vsplit",
]  # fmt: skip

"""Manipulation functions: the same elements in other shapes and orders. Nothing is shared: every result is its own tensor."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import numpy as np

from planish import dtypes
from planish.errors import DTypeError, ShapeError
from planish.frontend.devices import common_device
from planish.frontend.session import SESSION
from planish.frontend.tensor.array import Axis, Scalar, Tensor
from planish.frontend.tensor.composite import composite
from planish.frontend.tensor.operands import (
    DTypeLike,
    Sizes,
    as_dtype,
    as_shape,
    axes_of,
    axis_of,
    broadcast,
    broadcast_all,
    cast_to,
    common_shape,
    constant,
    from_data,
    permuted,
    promoted,
    reshaped,
    tensor,
    view,
)
from planish.frontend.tensor.recipes import remembered
from planish.ptir import ops
from planish.ptir.library import shaping
from planish.ptir.types import Dim, DimLike, bounds, product


def own(x: Tensor, given: Tensor) -> Tensor:
    """A tensor that is not the given one."""
    return x.snapshot() if x is given else x


# --- broadcasting -----------------------------------------------------------------------------------------


def broadcast_to(x: Tensor, /, shape: Sizes) -> Tensor:
    """Axes of size 1 (and missing ones in front) repeated."""
    given, sizes = tensor("broadcast_to", x), as_shape("broadcast_to", shape)
    fits = len(sizes) >= given.ndim and all(
        have in (1, want) for have, want in zip(reversed(given.shape), reversed(sizes), strict=False)
    )
    if not fits:
        raise ShapeError.of(
            "broadcast_to",
            f"shape {given.shape} does not broadcast to {sizes}",
            "sizes must be equal or 1, counted from the last axis",
        )
    return own(broadcast(given, sizes), given)


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """All in their common shape."""
    if not arrays:
        return ()
    given = [tensor("broadcast_arrays", x) for x in arrays]
    return tuple([x.snapshot() for x in broadcast_all("broadcast_arrays", given)])


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """What shapes broadcast to."""
    return common_shape("broadcast_shapes", shapes)


# --- shape ------------------------------------------------------------------------------------------------


def reshape(x: Tensor, /, shape: Sizes, order: str = "C", *, copy: bool | None = None) -> Tensor:
    """Other axes, the same row-major order (column-major with `order="F"`); one size may be -1 and is then computed."""
    given = tensor("reshape", x)
    if _is_column_major("reshape", order):
        wanted = shape if isinstance(shape, tuple | list) else [cast("DimLike", shape)]
        return _transposed(reshape(_transposed(given), list(wanted)[::-1]))
    wanted = [shape] if isinstance(shape, int | Dim | np.integer) else list(shape)
    sizes: list[DimLike] = [size if isinstance(size, Dim) else operator.index(size) for size in wanted]
    count = given._type.size
    if sizes.count(-1) > 1:
        raise ShapeError.of("reshape", f"shape {tuple(sizes)} has more than one -1")
    if -1 in sizes:
        rest = product(size for size in sizes if size != -1)
        if bounds(rest)[0] < 1:
            raise ShapeError.of("reshape", f"-1 is not determined in {tuple(sizes)} with an empty axis")
        if not isinstance(rest, int) or not isinstance(count, int) or count % rest == 0:
            sizes[sizes.index(-1)] = count // rest
    if any(isinstance(size, int) and size < 0 for size in sizes) or product(sizes) != count:
        raise ShapeError.of(
            "reshape",
            f"{given.shape} has {count} elements and cannot take shape {tuple(sizes)}",
            "the sizes must multiply to the number of elements; one may be -1",
        )
    return own(reshaped(given, sizes), given)


def _is_column_major(name: str, order: str) -> bool:
    if order not in ("C", "F", "A", "K"):
        raise ShapeError.of(name, f"there is no order {order!r}", "C (rows first) or F (columns first)")
    return order == "F"


def _transposed(x: Tensor) -> Tensor:
    return permuted(x, tuple(range(x.ndim))[::-1])


def expand_dims(x: Tensor, /, axis: int | tuple[int, ...] = 0) -> Tensor:
    """New axes of size 1, at those positions of the result."""
    given = tensor("expand_dims", x)
    wanted = axis if isinstance(axis, tuple | list) else (axis,)
    ndim = given.ndim + len(wanted)
    places = [axis_of("expand_dims", one, ndim) for one in wanted]
    if len(set(places)) != len(places):
        raise ShapeError.of("expand_dims", f"axes {tuple(wanted)} name a position twice")
    rest = iter(given.shape)
    return own(reshaped(given, [1 if place in places else next(rest) for place in range(ndim)]), given)


def squeeze(x: Tensor, /, axis: Axis = None) -> Tensor:
    """Without some axes of size 1, or without all of them."""
    given = tensor("squeeze", x)
    if axis is None:
        axis = tuple(number for number, size in enumerate(given.shape) if size == 1)
    gone = axes_of("squeeze", axis, given)
    for number in gone:
        if given.shape[number] != 1:
            raise ShapeError.of(
                "squeeze", f"axis {number} of shape {given.shape} is not of size 1", "leave it out"
            )
    kept = [size for number, size in enumerate(given.shape) if number not in gone]
    return own(reshaped(given, kept), given)


def flatten(x: Tensor, /, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """A run of axes as one."""
    given = tensor("flatten", x)
    if given.ndim == 0:
        return reshaped(given, (1,))
    first = axis_of("flatten", start_axis, given.ndim, given.shape)
    last = axis_of("flatten", end_axis, given.ndim, given.shape)
    if last < first:
        raise ShapeError.of("flatten", f"axis {end_axis} comes before axis {start_axis}")
    middle = cast("int", product(given.shape[first : last + 1]))
    return own(reshaped(given, (*given.shape[:first], middle, *given.shape[last + 1 :])), given)


def ravel(x: Tensor, /, order: str = "C") -> Tensor:
    """One axis."""
    given = tensor("ravel", x)
    return flatten(_transposed(given) if _is_column_major("ravel", order) else given)


def _at_least(name: str, x: Tensor, ndim: int) -> Tensor:
    given = tensor(name, x)
    return own(reshaped(given, (1,) * (ndim - given.ndim) + given.shape), given)


def atleast_1d(x: Tensor, /) -> Tensor:
    """With one axis at least."""
    return _at_least("atleast_1d", x, 1)


def atleast_2d(x: Tensor, /) -> Tensor:
    """With two axes at least."""
    return _at_least("atleast_2d", x, 2)


# --- order of axes ----------------------------------------------------------------------------------------


@remembered
def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    """Axes reordered."""
    given = tensor("permute_dims", x)
    order = [axis_of("permute_dims", axis, given.ndim, given.shape) for axis in axes]
    if sorted(order) != list(range(given.ndim)):
        raise ShapeError.of(
            "permute_dims",
            f"axes {tuple(axes)} are not the {given.ndim} axes of shape {given.shape}",
            "name each axis once; swapaxes(x, i, j) exchanges two"
            if len(axes) == 2
            else "name each axis once",
        )
    return own(permuted(given, order), given)


@remembered
def moveaxis(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor:
    """Some axes at other positions, the others in order."""
    given = tensor("moveaxis", x)
    old = [source] if isinstance(source, int) else list(source)
    new = [destination] if isinstance(destination, int) else list(destination)
    if len(old) != len(new):
        raise ShapeError.of("moveaxis", f"{len(old)} axes cannot go to {len(new)} places")
    old = [axis_of("moveaxis", axis, given.ndim, given.shape) for axis in old]
    new = [axis_of("moveaxis", axis, given.ndim, given.shape) for axis in new]
    if len(set(old)) != len(old) or len(set(new)) != len(new):
        raise ShapeError.of("moveaxis", f"axes {old} to {new} name one twice")
    order = [axis for axis in range(given.ndim) if axis not in old]
    for place, axis in sorted(zip(new, old, strict=True)):
        order.insert(place, axis)
    return own(permuted(given, order), given)


@remembered
def swapaxes(x: Tensor, axis1: int, axis2: int, /) -> Tensor:
    """Two axes exchanged."""
    given = tensor("swapaxes", x)
    first = axis_of("swapaxes", axis1, given.ndim, given.shape)
    second = axis_of("swapaxes", axis2, given.ndim, given.shape)
    order = list(range(given.ndim))
    order[first], order[second] = second, first
    return own(permuted(given, order), given)


def flip(x: Tensor, /, axis: Axis = None) -> Tensor:
    """Some axes backwards, or all."""
    given = tensor("flip", x)
    axes = axes_of("flip", axis, given)
    return Tensor.apply(ops.reverse, given, attrs=ops.ReverseAttrs(axes)) if axes else given.snapshot()


def rot90(x: Tensor, /, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Tensor:
    """A quarter turn from the first axis to the second, `k` times."""
    given = tensor("rot90", x)
    first, second = (axis_of("rot90", axis, given.ndim, given.shape) for axis in axes)
    if first == second:
        raise ShapeError.of("rot90", f"axes {axes} are the same", "a plane has two")
    turns = k % 4
    if turns == 2:
        return flip(given, axis=(first, second))
    if turns == 1:
        return swapaxes(flip(given, axis=second), first, second)
    return flip(swapaxes(given, first, second), axis=second) if turns else given.snapshot()


def roll(x: Tensor, /, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Tensor:
    """Elements moved along axes; what leaves at the end returns at the start."""
    given = tensor("roll", x)
    if axis is None:
        steps = list(shift) if isinstance(shift, tuple | list) else [cast("int", shift)]
        return reshaped(_rolled(reshaped(given, (given.size,)), steps, [0] * len(steps)), given.shape)
    axes = [axis] if isinstance(axis, int) else list(axis)
    shifts = list(shift) if isinstance(shift, tuple | list) else [cast("int", shift)] * len(axes)
    if len(shifts) != len(axes):
        raise ShapeError.of("roll", f"{len(shifts)} shifts do not go with {len(axes)} axes")
    return _rolled(given, shifts, [axis_of("roll", one, given.ndim, given.shape) for one in axes])


def _rolled(x: Tensor, shifts: Sequence[int], axes: Sequence[int]) -> Tensor:
    moved: dict[int, int] = {}
    for shift, axis in zip(shifts, axes, strict=True):
        moved[axis] = moved.get(axis, 0) + operator.index(shift)
    if not moved or 0 in x.shape:
        return x.snapshot()
    return composite(shaping.roll, x, shifts=tuple(moved.values()), axes=tuple(moved)).snapshot()


# --- joining and splitting --------------------------------------------------------------------------------


@remembered
def concat(arrays: Sequence[Tensor], /, axis: int | None = 0, *, dtype: DTypeLike | None = None) -> Tensor:
    """Tensors one after the other along an axis; without axis they are flattened first."""
    given = _parts("concat", arrays, dtype, "concatenate")
    if axis is None:
        given, axis = [reshaped(x, (x.size,)) for x in given], 0
    place = axis_of("concat", axis, given[0].ndim, given[0].shape)
    for other in given[1:]:
        same = other.ndim == given[0].ndim and all(
            have == want
            for number, (have, want) in enumerate(zip(other.shape, given[0].shape, strict=True))
            if number != place
        )
        if not same:
            raise ShapeError.of(
                "concat",
                f"shapes {given[0].shape} and {other.shape} differ beside axis {place}",
                "all other axes must have the same size",
            )
    if SESSION.settle_many([x._value for x in given]):
        return from_data(np.concatenate([x._elements(None) for x in given], place), _device("concat", given))
    return own(Tensor.apply(ops.concat, *given, attrs=ops.ConcatAttrs(place)), given[0])


def _device(name: str, tensors: Sequence[Tensor]) -> str | None:
    return common_device(name, {x._device for x in tensors if x._device is not None})


def _parts(name: str, arrays: Sequence[Tensor], dtype: DTypeLike | None, verb: str) -> list[Tensor]:
    """What is joined, in one dtype."""
    if not len(arrays):
        raise ShapeError.of(name, f"there is nothing to {verb}")
    given = [tensor(name, x) for x in arrays]
    return promoted(name, *given) if dtype is None else [cast_to(x, as_dtype(dtype)) for x in given]


@remembered
def stack(arrays: Sequence[Tensor], /, axis: int = 0, *, dtype: DTypeLike | None = None) -> Tensor:
    """Tensors of one shape side by side along a new axis."""
    given = _parts("stack", arrays, dtype, "stack")
    for other in given[1:]:
        if other.shape != given[0].shape:
            raise ShapeError.of(
                "stack",
                f"shapes {given[0].shape} and {other.shape} differ",
                "all must have one shape; concat joins along an axis that exists",
            )
    place = axis_of("stack", axis, given[0].ndim + 1)
    shape = (*given[0].shape[:place], 1, *given[0].shape[place:])
    SESSION.settle_many([x._value for x in given])
    return concat([reshaped(x, shape) for x in given], axis=place)


def hstack(arrays: Sequence[Tensor], /, *, dtype: DTypeLike | None = None) -> Tensor:
    """Tensors one after the other along the second axis; vectors along the first."""
    given = [atleast_1d(x) for x in arrays]
    return concat(given, axis=0 if given and given[0].ndim == 1 else 1, dtype=dtype)


def vstack(arrays: Sequence[Tensor], /, *, dtype: DTypeLike | None = None) -> Tensor:
    """Tensors one below the other; vectors are rows."""
    return concat([atleast_2d(x) for x in arrays], axis=0, dtype=dtype)


def section(x: Tensor, axis: int, start: int, limit: int, step: int = 1) -> Tensor:
    """A part of one axis. Of data it is data: `for row in x` needs no kernel per row."""
    known = x._known
    if known is not None:
        chosen = [slice(None)] * axis + [slice(start, limit, step)]
        return view(x, np.ascontiguousarray(known[tuple(chosen)]))
    starts = tuple(start if number == axis else 0 for number in range(x.ndim))
    limits = tuple(limit if number == axis else size for number, size in enumerate(x.shape))
    strides = tuple(step if number == axis else 1 for number in range(x.ndim))
    return Tensor.apply(ops.slice_, x, attrs=ops.SliceAttrs(starts, limits, strides))


def unstack(x: Tensor, /, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis, which they lose."""
    given = tensor("unstack", x)
    place = axis_of("unstack", axis, given.ndim, given.shape)
    shape = (*given.shape[:place], *given.shape[place + 1 :])
    size = given._type.dims[place]
    if not isinstance(size, int):
        raise ShapeError.of("unstack", f"the size of axis {place} of {given.shape} is not fixed")
    if given._known is not None:
        # slices of data are data: a loop over them compiles nothing
        return tuple([given[(*(slice(None),) * place, at)] for at in range(size)])
    return tuple([reshaped(section(given, place, at, at + 1), shape) for at in range(size)])


def split(x: Tensor, sections: int | Sequence[int], /, axis: int = 0) -> tuple[Tensor, ...]:
    """Equal parts of an axis, or parts that end at given positions."""
    given = tensor("split", x)
    place = axis_of("split", axis, given.ndim, given.shape)
    size = given.shape[place]
    if isinstance(sections, int):
        if sections < 1 or size % sections:
            raise ShapeError.of(
                "split",
                f"axis {place} of shape {given.shape} has no {sections} equal parts",
                "give the positions to split at",
            )
        ends = [size // sections * number for number in range(1, sections)]
    else:
        ends = [len(range(size)[: operator.index(end)]) for end in sections]
    edges = [0, *ends, size]
    return tuple([section(given, place, low, max(low, high)) for low, high in pairwise(edges)])


# --- repeating --------------------------------------------------------------------------------------------


@remembered
def repeat(x: Tensor, repeats: int | Tensor, /, axis: int | None = None) -> Tensor:
    """Each element several times in a row; without axis the tensor is flattened first."""
    from planish.frontend.tensor.indexing import take

    given = tensor("repeat", x)
    if axis is None:
        given, axis = reshaped(given, (given.size,)), 0
    place = axis_of("repeat", axis, given.ndim, given.shape)
    if isinstance(cast("object", repeats), Dim):
        raise ShapeError.of("repeat", f"a named size, {repeats}, is no count", "give a number")
    if isinstance(repeats, int):
        if repeats < 0:
            raise ShapeError.of("repeat", f"cannot repeat {repeats} times")
        return composite(shaping.repeat, given, count=repeats, axis=place).snapshot()
    counts = tensor("repeat", repeats)
    if not counts.dtype.is_int:
        raise DTypeError.of("repeat", f"{counts.dtype.name} is no count", "convert it to int64")
    if counts.ndim > 1 or (counts.ndim == 1 and counts.shape[0] not in (1, given.shape[place])):
        raise ShapeError.of(
            "repeat",
            f"counts of shape {counts.shape} do not go with axis {place} of shape {given.shape}",
            "give one for all, or one per element",
        )
    # how long the result is depends on the counts: they have to be known
    known = np.broadcast_to(counts.numpy().astype(np.int64), (given.shape[place],))
    index = np.repeat(np.arange(given.shape[place]), known)
    return take(given, from_data(index.astype(np.int64)), axis=place)


@remembered
def tile(x: Tensor, repetitions: int | Sequence[int], /) -> Tensor:
    """The whole tensor several times along each axis."""
    given = tensor("tile", x)
    times = (repetitions,) if isinstance(repetitions, int) else tuple(map(operator.index, repetitions))
    if any(count < 0 for count in times):
        raise ShapeError.of("tile", f"cannot repeat {times} times", "give numbers from 0 on")
    ndim = max(given.ndim, len(times))
    times = (1,) * (ndim - len(times)) + times
    wide = reshaped(given, (1,) * (ndim - given.ndim) + given.shape)
    if 0 in times or 0 in wide.shape:
        sizes = tuple(size * count for size, count in zip(wide.shape, times, strict=True))
        return constant(_zero(given), given.dtype, sizes)
    return own(composite(shaping.tile, wide, repeats=times), given)


def _zero(x: Tensor) -> Scalar:
    return False if x.dtype is dtypes.bool_ else 0


__all__ = [
    "atleast_1d", "atleast_2d", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "concat",
    "expand_dims", "flatten", "flip", "hstack", "moveaxis", "permute_dims", "ravel", "repeat",
    "reshape", "roll", "rot90", "split", "squeeze", "stack", "swapaxes", "tile", "unstack", "vstack",
]  # fmt: skip

"""An index taken apart: NumPy's rules for integers, slices, `...`, None, masks and integer arrays, as data.

`plan` reads `x[key]` and says which part is regular (slices, reversals, new axes) and which axes are then gathered by arrays.
Both reading and writing elements follow the same plan.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any, TypeAlias, cast

import numpy as np

from planish import dtypes
from planish.errors import ShapeError
from planish.frontend.tensor.array import Index, Tensor
from planish.frontend.tensor.elementwise import where
from planish.frontend.tensor.foreign import is_foreign
from planish.frontend.tensor.operands import (
    IndexOutOfRange,
    broadcast_all,
    cast_to,
    from_data,
    reshaped,
    size_of,
    tensor,
)
from planish.ptir.basic_index import IndexPlan, plan_index
from planish.ptir.dims import Dim, DimLike
from planish.records import dataclass

Item: TypeAlias = "int | Dim | slice | EllipsisType | Tensor | None"
Nonzero: TypeAlias = Callable[[Tensor], tuple[Tensor, ...]]


@dataclass(frozen=True, slots=True)
class IndexSteps:
    """How an index is carried out."""

    basic: IndexPlan
    """Slices, reversals, and the shape after them."""
    indices: tuple[Tensor, ...]
    """Index arrays of one shape; none if the index is regular."""
    axes: tuple[int, ...]
    """Which axes of the regular part they address."""
    front: int
    """Where their axes go in the result."""
    is_whole: bool
    """Whether the regular part is the whole tensor."""


def plan(x: Tensor, key: Index, nonzero: Nonzero) -> tuple[Tensor, IndexSteps]:
    """The tensor (with new axes for masks without axes) and the plan."""
    items = [_item(one) for one in (key if isinstance(key, tuple) else (key,))]
    x, items = _without_masks(x, items, nonzero)
    spelt = _spelt_out(x, items)
    arrays = [at for at, item in enumerate(spelt) if isinstance(item, Tensor)]
    regular = tuple(slice(None) if isinstance(item, Tensor) else item for item in spelt)
    _check_known(x, spelt)
    try:
        basic = plan_index(x._type, regular)
    except ShapeError as error:
        raise IndexOutOfRange.of("x[…]", error.message, error.remedy) from None
    whole = all(item == slice(None) for item in regular)
    if not arrays:
        return x, IndexSteps(basic, (), (), 0, whole)
    indices = _broadcast([cast("Tensor", spelt[at]) for at in arrays])
    places, own = _axes_of(spelt)
    wrapped = tuple(_from_front(index, x, own[at]) for index, at in zip(indices, arrays, strict=True))
    return x, IndexSteps(basic, wrapped, tuple(places[at] for at in arrays), _front(items, spelt), whole)


def _item(item: object) -> Item:
    """One item of an index; bools and sequences become tensors."""
    if item is None or item is Ellipsis:
        return cast("Item", item)
    if isinstance(item, Tensor):
        if item.dtype.is_int or item.dtype.is_bool:
            return item
        raise IndexOutOfRange.of(
            "x[…]",
            f"a tensor of dtype {item.dtype.name} is no index",
            "use integers or bools: planish.astype(i, planish.int64)",
        )
    if isinstance(item, Dim):
        return item
    if isinstance(item, slice):
        parts = [_end(item, part) for part in (item.start, item.stop, item.step)]
        if parts[2] == 0:
            raise ShapeError.of("x[…]", "a slice cannot have step 0")
        return slice(*parts)
    if isinstance(item, bool | np.bool_ | list | tuple | np.ndarray):
        array = np.asarray(item)
        if array.size == 0 and not isinstance(item, np.ndarray):
            array = array.astype(np.int64)
        if array.dtype.kind in "biu":
            return from_data(np.array(array))
    else:
        try:
            return operator.index(cast("int", item))
        except TypeError:
            if is_foreign(type(item)):
                return _item(tensor("x[…]", item))
    raise IndexOutOfRange.of(
        "x[…]", f"{item!r} is no index", "use integers, slices, ..., None, masks or integer arrays"
    )


def _end(whole: slice, part: Any) -> DimLike | None:
    if part is None or isinstance(part, Dim):
        return part
    try:
        return operator.index(part)
    except TypeError:
        raise IndexOutOfRange.of("x[…]", f"{whole}: the ends of a slice are integers, or nothing") from None


def _without_masks(x: Tensor, items: Sequence[Item], nonzero: Nonzero) -> tuple[Tensor, list[Item]]:
    """Masks become the positions where they are true; one without axes addresses a new axis of size 1."""
    result: list[Item] = []
    used = _used(items)
    axis = 0
    for item in items:
        if isinstance(item, EllipsisType):
            axis += x.ndim - used
        elif isinstance(item, Tensor) and item.dtype.is_bool:
            if item.ndim == 0:
                x = reshaped(x, (*x.shape[:axis], 1, *x.shape[axis:]))
                result += nonzero(reshaped(item, (1,)))
                axis += 1
                used += 1
                continue
            shape = x.shape[axis : axis + item.ndim]
            # a mask without elements chooses none, whatever it is laid over
            fits = len(shape) == item.ndim and all(
                have in (want, 0) for have, want in zip(item.shape, shape, strict=True)
            )
            if not fits:
                raise IndexOutOfRange.of(
                    "x[…]",
                    f"a mask of shape {item.shape} does not fit axes {axis} to {axis + item.ndim - 1} of "
                    f"shape {x.shape}",
                    "a mask has the sizes of the axes it selects from",
                )
            result += nonzero(item)
            axis += item.ndim
            continue
        elif item is not None:
            axis += 1
        result.append(item)
    return x, result


def _used(items: Sequence[Item]) -> int:
    """How many axes an index names."""
    count = 0
    for item in items:
        if isinstance(item, Tensor) and item.dtype.is_bool:
            count += item.ndim
        elif item is not None and not isinstance(item, EllipsisType):
            count += 1
    return count


def _spelt_out(x: Tensor, items: Sequence[Item]) -> list[int | slice | Tensor | None]:
    """One item per axis and per new axis."""
    dots = [at for at, item in enumerate(items) if isinstance(item, EllipsisType)]
    used = _used(items)
    if len(dots) > 1:
        raise IndexOutOfRange.of("x[…]", "an index may have only one ...")
    if used > x.ndim:
        raise IndexOutOfRange.of("x[…]", f"{used} indices are too many for shape {x.shape}", "one per axis")
    at = dots[0] if dots else len(items)
    before = cast("list[int | slice | Tensor | None]", list(items[:at]))
    after = cast("list[int | slice | Tensor | None]", list(items[at + 1 :]))
    return [*before, *[slice(None)] * (x.ndim - used), *after]


def _check_known(x: Tensor, items: Sequence[int | slice | Tensor | None]) -> None:
    """What is known of an index must lie inside its axis; other positions are clamped when they are used."""
    axis = 0
    for item in items:
        ends: tuple[int, ...] = ()
        if isinstance(item, int):
            ends = (item,)
        elif isinstance(item, Tensor) and (known := item._known) is not None and known.size:
            ends = (int(known.min()), int(known.max()))
        for end in ends:
            size = x._type.dims[axis]
            if isinstance(size, int) and not -size <= end < size:
                raise IndexOutOfRange.of(
                    "x[…]",
                    f"index {end} is outside axis {axis} of shape {x.shape}",
                    f"valid: {-size} to {size - 1}" if size else "the axis is empty",
                )
        axis += item is not None


def _axes_of(items: Sequence[int | slice | Tensor | None]) -> tuple[list[int], list[int]]:
    """Which axis of the regular part each item is about, and which axis of the tensor."""
    places, own = [], []
    axis = named = 0
    for item in items:
        places.append(axis)
        own.append(named)
        axis += not isinstance(item, int)
        named += item is not None
    return places, own


def _front(items: Sequence[Item], spelt: Sequence[int | slice | Tensor | None]) -> int:
    """NumPy's rule: the axes of arrays stand where the first stood, or in front if others lie between them (`...` does, even of no axis)."""
    places = [at for at, item in enumerate(items) if isinstance(item, int | Tensor)]
    if places != list(range(places[0], places[-1] + 1)):
        return 0
    return next(at for at, item in enumerate(spelt) if isinstance(item, int | Tensor))


def _broadcast(indices: Sequence[Tensor]) -> list[Tensor]:
    """In one shape, and in one dtype that holds every position."""
    first = indices[0].dtype
    if first.bits < 32 or any(index.dtype is not first for index in indices):
        indices = [index if index.dtype is dtypes.int64 else _widened(index) for index in indices]
    try:
        return broadcast_all("x[…]", indices)
    except ShapeError as error:
        raise IndexOutOfRange.of("x[…]", error.message.removeprefix("x[…]: "), error.remedy) from None


def _widened(index: Tensor) -> Tensor:
    known = index._known
    if known is not None:  # known positions stay known
        return from_data(known.astype(np.int64), index._device)
    return cast_to(index, dtypes.int64)


def _from_front(index: Tensor, x: Tensor, axis: int) -> Tensor:
    """An index array that counts from the front."""
    known = index._known
    if index.dtype.is_unsigned or (known is not None and known.min(initial=0) >= 0):
        return index
    return counted_from_front(index, x, axis)


def counted_from_front(index: Tensor, x: Tensor, axis: int) -> Tensor:
    """Negative positions on an axis counted from its end."""
    return where(index < 0, index + size_of(x, axis, index.dtype), index)

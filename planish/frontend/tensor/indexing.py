"""Indexing functions: elements read and replaced by position. All of NumPy's indexing, by `x[…]`, and by name.

Positions in arrays that are only known when the program runs cannot be checked: reading clamps them to the axis, writing
outside is left out. Positions known at the call are checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import numpy as np

from planish import dtypes
from planish.errors import DTypeError, PlanishError, ShapeError
from planish.frontend.storage import Array
from planish.frontend.tensor.array import Index, Scalar, Tensor
from planish.frontend.tensor.composite import composite
from planish.frontend.tensor.creation import iota
from planish.frontend.tensor.elementwise import (
    clip,
    floor_divide,
    logical_and,
    maximum,
    minimum,
    remainder,
    where,
)
from planish.frontend.tensor.index_plan import IndexSteps, counted_from_front, plan
from planish.frontend.tensor.known_parts import are_inside, is_regular, masked, part_of
from planish.frontend.tensor.operands import (
    IndexOutOfRange,
    Operand,
    Shape,
    axis_of,
    broadcast,
    cast_to,
    common_shape,
    constant,
    from_data,
    permuted,
    reshaped,
    tensor,
    view,
)
from planish.frontend.tensor.recipes import remembered
from planish.frontend.tensor.searching import mask_positions
from planish.ptir import ops
from planish.ptir.basic_index import IndexPlan
from planish.ptir.library import common
from planish.ptir.types import DimLike
from planish.records import dataclass

KINDS: Final = ("replace", "add", "mul", "min", "max")


# --- reading ----------------------------------------------------------------------------------------------


def getitem(x: Tensor, key: Index) -> Tensor:
    """x[key]."""
    if is_regular(key):
        part = part_of(x, key)
        return _regular(x, key) if part is None else part
    if isinstance(key, np.ndarray) and key.dtype.kind in "biu":
        key = from_data(np.array(key))
    if isinstance(key, Tensor):
        dtype = key.dtype
        if dtype.is_bool:
            part = masked(x, key)
            if part is not None:
                return part
        elif dtype.is_int and x.ndim and are_inside(key, x._type.dims[0]):
            return _picked(x, key)
    return _indexed(x, key)


def _indexed(x: Tensor, key: Index) -> Tensor:
    base, steps = plan(x, key, mask_positions)
    result = gathered(sliced(base, steps.basic), steps)
    return result.snapshot() if result is x else result


_regular: Final = remembered(_indexed)


@remembered
def _picked(x: Tensor, index: Tensor) -> Tensor:
    return Tensor.apply(ops.gather, x, index, attrs=ops.GatherAttrs((0,)))


def sliced(x: Tensor, basic: IndexPlan) -> Tensor:
    """The regular part. Of data it is data: minibatches and single elements of it need no kernel of their own."""
    known = x._known
    if known is not None:
        return _seen(x, known, basic)
    result = x
    starts, limits = tuple(basic.starts), tuple(basic.limits)
    if any(start != 0 for start in starts) or limits != x.shape or any(step != 1 for step in basic.strides):
        result = Tensor.apply(ops.slice_, x, attrs=ops.SliceAttrs(starts, limits, tuple(basic.strides)))
    if basic.reversed_axes:
        result = Tensor.apply(ops.reverse, result, attrs=ops.ReverseAttrs(tuple(basic.reversed_axes)))
    return reshaped(result, basic.dims)


def _seen(x: Tensor, known: Array, basic: IndexPlan) -> Tensor:
    ends = zip(basic.starts, basic.limits, basic.strides, strict=True)
    part = known[tuple([slice(start, limit, step) for start, limit, step in ends])]
    if basic.reversed_axes:
        part = np.flip(part, tuple(basic.reversed_axes))
    dims = cast("Shape", tuple(basic.dims))
    if dims == x.shape == part.shape and not basic.reversed_axes:
        return x
    return view(x, np.ascontiguousarray(part).reshape(dims))


def gathered(x: Tensor, steps: IndexSteps) -> Tensor:
    """The part chosen by arrays."""
    if not steps.indices:
        return x
    shape = steps.indices[0].shape
    if any(x.shape[axis] == 0 for axis in steps.axes):
        rest = _rest(x, steps.axes)
        result = constant(0, x.dtype, (*shape, *rest))
        if 0 not in shape:
            raise IndexOutOfRange.of("x[…]", f"shape {x.shape} has nothing to choose from")
    else:
        result = Tensor.apply(ops.gather, x, *steps.indices, attrs=ops.GatherAttrs(steps.axes))
    return permuted(result, _placing(result.ndim, len(shape), steps.front))


def _rest(x: Tensor, axes: Sequence[int]) -> list[int]:
    return [size for number, size in enumerate(x.shape) if number not in axes]


def _placing(ndim: int, lead: int, front: int) -> list[int]:
    """The order of axes that brings the leading ones to a place among the others."""
    rest = list(range(lead, ndim))
    return [*rest[:front], *range(lead), *rest[front:]]


def take(x: Tensor, indices: Tensor, /, axis: int | None = None, *, mode: str = "raise") -> Tensor:
    """Slices of an axis picked by indices, in place of that axis; without one, elements in row-major order.

    Indices beyond the ends are moved inside with `mode` `clip` or `wrap`.
    """
    given, index = tensor("take", x), _positions("take", indices)
    if axis is None:
        given, axis = reshaped(given, (given.size,)) if given.ndim != 1 else given, 0
    place = axis_of("take", axis, given.ndim, given.shape)
    if mode not in ("raise", "wrap", "clip", "fill"):
        raise ShapeError.of("take", f"there is no mode {mode!r}", "raise, wrap or clip")
    size = given.shape[place]
    if mode == "wrap":  # the size may be no number of a narrow dtype
        index = remainder(cast_to(index, dtypes.int64), size)
    elif mode == "clip":
        index = clip(index, 0, size - 1)
    return getitem(given, (*[slice(None)] * place, index))


def _positions(name: str, indices: object) -> Tensor:
    index = tensor(name, indices)
    if index.dtype.is_int:
        return index
    raise DTypeError.of(
        name, f"{index.dtype.name} is no index", "convert it: planish.astype(i, planish.int64)"
    )


def _along(name: str, x: Tensor, indices: Tensor, axis: int) -> tuple[Tensor, Tensor, int]:
    """Operand and indices with the same sizes beside an axis."""
    given, index = tensor(name, x), _positions(name, indices)
    if given.ndim != index.ndim:
        raise ShapeError.of(
            name,
            f"shapes {given.shape} and {index.shape} differ in their number of axes",
            "indices have an axis for every axis of x",
        )
    place = axis_of(name, axis, given.ndim, given.shape)
    beside = [tuple(1 if at == place else size for at, size in enumerate(t.shape)) for t in (given, index)]
    shared = common_shape(name, beside)
    given, index = (
        broadcast(t, tuple(t.shape[at] if at == place else size for at, size in enumerate(shared)))
        for t in (given, index)
    )
    wide = cast_to(index, dtypes.int64) if index.dtype.bits < 32 else index
    return given, wide if wide.dtype.is_unsigned else counted_from_front(wide, given, place), place


@remembered
def take_along_axis(x: Tensor, indices: Tensor, /, axis: int = -1) -> Tensor:
    """Elements picked along an axis, each line of it by its own indices."""
    given, index, place = _along("take_along_axis", x, indices, axis)
    if given.shape[place] == 0 or 0 in index.shape:
        if 0 not in index.shape:
            raise IndexOutOfRange.of("take_along_axis", f"shape {given.shape} has nothing to choose from")
        return constant(0, given.dtype, index.shape)
    return composite(common.take_along_axis, given, index, axis=place)


# --- writing ----------------------------------------------------------------------------------------------


def setitem(x: Tensor, key: Index, value: Operand) -> Tensor:
    """What x is after x[key] = value."""
    return updated(x, key, value, "replace")


def updated(x: Tensor, key: Index, value: Operand, kind: str) -> Tensor:
    """x with elements replaced, added to … at x[key]."""
    new = _value(x, value)
    changed = _updated(x, key, new, kind)
    return changed.snapshot() if changed is new else changed


def _updated(x: Tensor, key: Index, new: Tensor, kind: str) -> Tensor:
    mask = _only_mask(x, key)
    if mask is not None and kind == "replace" and new.ndim <= x.ndim - mask.ndim:
        wide = reshaped(mask, (*mask.shape, *(1,) * (x.ndim - mask.ndim)))
        return where(wide, new, x)
    base, steps = plan(x, key, mask_positions)
    if not steps.indices:
        return _written(x, base, steps.basic, new, kind)
    if steps.is_whole and base is x:
        shape = steps.indices[0].shape
        rest = _rest(x, steps.axes)
        lead = len(shape)
        result = (*rest[: steps.front], *shape, *rest[steps.front :])
        wide = _fitted(new, result)
        moved = permuted(wide, [*range(steps.front, steps.front + lead), *range(steps.front),
                                *range(steps.front + lead, wide.ndim)])  # fmt: skip
        return Tensor.apply(
            ops.scatter, x, moved, *steps.indices, attrs=ops.ScatterAttrs(steps.axes, kind, False)
        )
    # anything else: where each chosen element lies in row-major order
    flat = reshaped(iota((x.size,), 0), base.shape)
    chosen = gathered(sliced(flat, steps.basic), steps)
    return _scattered(x, chosen, new, kind)


def _scattered(x: Tensor, chosen: Tensor, new: Tensor, kind: str) -> Tensor:
    if 0 in x.shape or 0 in chosen.shape:
        _fitted(new, chosen.shape)
        return x.snapshot()
    line = reshaped(_fitted(new, chosen.shape), (chosen.size,))
    target = reshaped(x, (x.size,))
    place = reshaped(chosen, (chosen.size,))
    result = Tensor.apply(ops.scatter, target, line, place, attrs=ops.ScatterAttrs((0,), kind, False))
    return reshaped(result, x.shape)


def _value(x: Tensor, value: Operand) -> Tensor:
    if isinstance(value, bool | int | float | complex):
        try:
            return constant(value, x.dtype)
        except PlanishError as error:
            raise DTypeError.of(
                "x[…] = v", f"{value!r} cannot be an element of a {x.dtype.name} tensor", error.remedy
            ) from None
    new = tensor("x[…] = v", value)
    if new.dtype.is_complex and not x.dtype.is_complex:
        raise DTypeError.of(
            "x[…] = v", f"{new.dtype.name} cannot become {x.dtype.name}", "take planish.real(v)"
        )
    return cast_to(new, x.dtype)


def _fitted(new: Tensor, shape: Shape) -> Tensor:
    """The new elements in the shape of what they replace; leading axes of size 1 may be too many."""
    extra = new.ndim - len(shape)
    if extra > 0 and all(size == 1 for size in new.shape[:extra]):
        new = reshaped(new, new.shape[extra:])
    try:
        fits = common_shape("x[…] = v", [new.shape, shape]) == shape
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError.of(
            "x[…] = v",
            f"elements of shape {new.shape} do not fit where {shape} is expected",
            "the value must broadcast to the shape of x[…]",
        )
    return broadcast(new, shape)


def _only_mask(x: Tensor, key: Index) -> Tensor | None:
    """The mask, if that is the whole index."""
    only = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    if isinstance(only, Tensor) and only.dtype.is_bool and only.shape == x.shape[: only.ndim]:
        return only
    return None


def _written(x: Tensor, base: Tensor, basic: IndexPlan, new: Tensor, kind: str) -> Tensor:
    """A regular part replaced: what is written is laid out over the whole, and chosen where it is."""
    wide = _fitted(new, cast("Shape", tuple(basic.dims)))
    if 0 in wide.shape:
        return x.snapshot()
    kept = tuple(
        (limit - start + (step - 1)) // step
        for start, limit, step in zip(basic.starts, basic.limits, basic.strides, strict=True)
    )
    part = reshaped(wide, kept)
    if basic.reversed_axes:
        part = Tensor.apply(ops.reverse, part, attrs=ops.ReverseAttrs(tuple(basic.reversed_axes)))
    if kind != "replace":
        old = sliced(base, IndexPlan(basic.starts, basic.limits, basic.strides, [], list(kept)))
        part = _combined(old, part, kind)
    if kept == base.shape:
        return reshaped(part, x.shape)
    if all(step == 1 for step in basic.strides):
        starts = [cast_to(tensor("x[…] = v", start), dtypes.int64) for start in basic.starts]
        return reshaped(Tensor.apply(ops.dynamic_update_slice, base, part, *starts), x.shape)
    if not all(isinstance(size, int) for size in (*base._type.dims, *kept)):
        return reshaped(_spread(base, part, basic, kept), x.shape)
    after = tuple(
        size - start - (count - 1) * step - 1
        for size, start, count, step in zip(base.shape, basic.starts, kept, basic.strides, strict=True)
    )
    laid_out = ops.PadAttrs(tuple(basic.starts), after, tuple(step - 1 for step in basic.strides))
    spread = Tensor.apply(ops.pad, part, constant(0, x.dtype), attrs=laid_out)
    chosen = Tensor.apply(
        ops.pad, constant(True, dtypes.bool_, kept), constant(False, dtypes.bool_), attrs=laid_out
    )
    return reshaped(Tensor.apply(ops.select, chosen, spread, base), x.shape)


def _spread(base: Tensor, part: Tensor, basic: IndexPlan, kept: Sequence[DimLike]) -> Tensor:
    """A part with steps in it over an axis whose size has only a name: each place asks which of the new elements is its own."""
    inside: Tensor | None = None
    for axis, (start, step, count) in enumerate(zip(basic.starts, basic.strides, kept, strict=True)):
        size = base._type.dims[axis]
        if size == count:
            continue
        behind = iota((size,), 0) - tensor("x[…] = v", start)
        number = floor_divide(behind, step)
        here = logical_and(
            remainder(behind, step) == 0, logical_and(number >= 0, number < tensor("x[…] = v", count))
        )
        nearest = minimum(maximum(number, 0), tensor("x[…] = v", count) - 1)
        part = take(part, nearest, axis=axis)
        wide = reshaped(here, [size if at == axis else 1 for at in range(base.ndim)])
        inside = wide if inside is None else logical_and(inside, wide)
    return part if inside is None else where(inside, part, base)


def _combined(old: Tensor, new: Tensor, kind: str) -> Tensor:
    op = {"add": ops.add, "mul": ops.mul, "min": ops.min, "max": ops.max}[kind]
    return Tensor.apply(op, old, new)


@dataclass(frozen=True, slots=True)
class IndexedUpdate:
    """Elements of a tensor to be updated, by `x.at[key]`; the results are new tensors."""

    tensor: Tensor
    key: Index = ...

    def __getitem__(self, key: Index) -> IndexedUpdate:
        return IndexedUpdate(self.tensor, key)

    def get(self) -> Tensor:
        """x[key]."""
        return getitem(self.tensor, self.key)

    def set(self, value: Operand) -> Tensor:
        """With elements replaced."""
        return updated(self.tensor, self.key, value, "replace")

    def add(self, value: Operand) -> Tensor:
        """With a value added, as often as a position is named."""
        return updated(self.tensor, self.key, value, "add")

    def multiply(self, value: Operand) -> Tensor:
        """With elements multiplied."""
        return updated(self.tensor, self.key, value, "mul")

    def min(self, value: Operand) -> Tensor:
        """With the smaller of element and value."""
        return updated(self.tensor, self.key, value, "min")

    def max(self, value: Operand) -> Tensor:
        """With the greater of element and value."""
        return updated(self.tensor, self.key, value, "max")


@remembered
def scatter(
    x: Tensor,
    indices: Tensor,
    updates: Tensor | Scalar | Array,
    /,
    axis: int = -1,
    *,
    reduce: str = "replace",
) -> Tensor:
    """x with updates written (or added, multiplied, …) along an axis, each line of it at its own indices.

    `reduce` is one of replace, add, mul, min, max. The inverse of `take_along_axis`.
    """
    if reduce not in KINDS:
        raise ShapeError.of("scatter", f"there is no reduction {reduce!r}", f"one of {', '.join(KINDS)}")
    given, index, place = tensor("scatter", x), _positions("scatter", indices), 0
    if index.ndim != given.ndim or any(
        have > size
        for at, (have, size) in enumerate(zip(index.shape, given.shape, strict=False))
        if at != axis_of("scatter", axis, given.ndim, given.shape)
    ):
        raise ShapeError.of(
            "scatter",
            f"indices of shape {index.shape} do not fit shape {given.shape}",
            "they have an axis for every axis of x, and are nowhere longer beside the axis",
        )
    place = axis_of("scatter", axis, given.ndim, given.shape)
    new = broadcast(_value(given, updates), index.shape)
    wide = cast_to(index, dtypes.int64)
    lines = [
        counted_from_front(wide, given, at) if at == place else iota(index.shape, at)
        for at in range(given.ndim)
    ]
    if 0 in index.shape:
        return given.snapshot()
    attrs = ops.ScatterAttrs(tuple(range(given.ndim)), reduce, False)
    return Tensor.apply(ops.scatter, given, new, *lines, attrs=attrs)


def gather_nd(x: Tensor, indices: Tensor, /) -> Tensor:
    """x[indices[..., 0], indices[..., 1], …]: the last axis of the indices is a position."""
    given, index = tensor("gather_nd", x), _positions("gather_nd", indices)
    return getitem(given, _columns("gather_nd", given, index))


def scatter_nd(x: Tensor, indices: Tensor, updates: Operand, /, *, reduce: str = "replace") -> Tensor:
    """x with updates written at positions that are the last axis of the indices."""
    given, index = tensor("scatter_nd", x), _positions("scatter_nd", indices)
    return updated(given, _columns("scatter_nd", given, index), updates, reduce)


def _columns(name: str, x: Tensor, index: Tensor) -> tuple[Tensor, ...]:
    if index.ndim == 0 or index.shape[-1] > x.ndim:
        raise ShapeError.of(
            name, f"positions of shape {index.shape} do not fit shape {x.shape}", "one entry per axis"
        )
    return tuple([getitem(index, (..., at)) for at in range(index.shape[-1])])


def segment_sum(x: Tensor, segments: Tensor, /, num_segments: int) -> Tensor:
    """Sums of the slices along the first axis that carry the same number."""
    given, index = tensor("segment_sum", x), _positions("segment_sum", segments)
    sizes: tuple[DimLike, ...] = (num_segments, *given.shape[1:])
    return updated(constant(0, given.dtype, sizes), index, given, "add")


__all__ = [
    "gather_nd", "scatter", "scatter_nd", "segment_sum", "take", "take_along_axis",
]  # fmt: skip

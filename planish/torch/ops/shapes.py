"""Movement: other shapes, orders and parts of the same elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from planish import dtypes
from planish.ptir.dims import DimLike
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library import shaping
from planish.ptir.library.common import cast, move_axis, placed, spread
from planish.torch.registry import lowering
from planish.torch.site import FxSite, Operand, axes_of, axis_of, sizes


@lowering(
    "aten.view", "aten.reshape", "aten._unsafe_view", "aten.view_copy", "aten._reshape_alias", "prims.reshape"
)
def view(at: FxSite, x: V, size: Sequence[DimLike], stride: Any = None) -> V:
    if -1 in size:
        rest = math.prod(dim for dim in size if dim != -1)
        size = [x.type.size // rest if dim == -1 and rest else (0 if dim == -1 else dim) for dim in size]
    return x if x.dims == tuple(size) else x.reshape(tuple(size))


@lowering("aten.permute", "aten.permute_copy", "prims.transpose")
def permute(at: FxSite, x: V, dims: Sequence[int]) -> V:
    return x.transpose([axis_of(axis, x.rank) for axis in dims]) if x.rank else x


@lowering("aten.transpose", "aten.transpose_copy")
def transpose(at: FxSite, x: V, first: int, second: int) -> V:
    if not x.rank:
        return x
    order = list(range(x.rank))
    a, b = axis_of(first, x.rank), axis_of(second, x.rank)
    order[a], order[b] = order[b], order[a]
    return x.transpose(order)


@lowering("aten.t", "aten.t_copy")
def t(at: FxSite, x: V) -> V:
    return x.transpose([1, 0]) if x.rank == 2 else x


@lowering("aten.unsqueeze", "aten.unsqueeze_copy")
def unsqueeze(at: FxSite, x: V, dim: int) -> V:
    return x.expand_dims(dim % (x.rank + 1))


@lowering("aten.squeeze", "aten.squeeze_copy")
def squeeze(at: FxSite, x: V, dim: int | Sequence[int] | None = None) -> V:
    gone = axes_of(dim, x.rank, empty_is_all=False)
    return x.reshape([size for axis, size in enumerate(x.dims) if axis not in gone or size != 1])


@lowering("aten.expand", "aten.expand_copy")
def expand(at: FxSite, x: V, size: Sequence[DimLike], *, implicit: bool = False) -> V:
    lead = len(size) - x.rank
    dims = [x.dims[axis - lead] if dim == -1 and axis >= lead else dim for axis, dim in enumerate(size)]
    return spread(x, dims)


@lowering("prims.broadcast_in_dim")
def broadcast_in_dim(at: FxSite, x: V, shape: Sequence[DimLike], broadcast_dimensions: Sequence[int]) -> V:
    return placed(x, broadcast_dimensions, shape)


@lowering("prims.collapse_view", "prims.collapse")
def collapse(at: FxSite, x: V, start: int, end: int) -> V:
    return x.reshape((*x.dims[:start], math.prod(sizes(at, x)[start : end + 1]), *x.dims[end + 1 :]))


@lowering("prims.split_dim")
def split_dim(at: FxSite, x: V, dim: int, outer_length: int) -> V:
    return x.reshape((*x.dims[:dim], outer_length, x.dims[dim] // outer_length, *x.dims[dim + 1 :]))


# --- parts ------------------------------------------------------------------------------------------------


def _span(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    first = 0 if start is None else start
    last = size if end is None else end
    first = min(max(first + size if first < 0 else first, 0), size)
    last = min(max(last + size if last < 0 else last, first), size)
    return first, last


def _cut(x: V, axis: int, start: DimLike, limit: DimLike, step: int = 1) -> V:
    if start == 0 and limit == x.dims[axis] and step == 1:
        return x
    starts: list[DimLike] = [0] * x.rank
    limits, steps = list(x.dims), [1] * x.rank
    starts[axis], limits[axis], steps[axis] = start, limit, step
    return x.slice(starts, limits, steps)


@lowering("aten.slice", "aten.slice_copy")
def slice_(
    at: FxSite, x: V, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> V:
    axis = axis_of(dim, x.rank)
    size = x.dims[axis]
    if not isinstance(size, int):
        if start in (None, 0) and (end is None or end == size or (end >= 1 << 62)) and step == 1:
            return x
        raise at.refuse(f"a part of an axis of {size}")
    first, last = _span(size, start, end)
    return _cut(x, axis, first, last, step)


@lowering("aten.select", "aten.select_copy")
def select(at: FxSite, x: V, dim: int, index: int) -> V:
    axis = axis_of(dim, x.rank)
    size = x.dims[axis]
    place = index + size if index < 0 else index
    part = _cut(x, axis, place, place + 1)
    return part.reshape((*x.dims[:axis], *x.dims[axis + 1 :]))


@lowering("aten.narrow", "aten.narrow_copy")
def narrow(at: FxSite, x: V, dim: int, start: int, length: int) -> V:
    axis = axis_of(dim, x.rank)
    first = start + sizes(at, x)[axis] if start < 0 else start
    return _cut(x, axis, first, first + length)


@lowering("aten.slice_scatter")
def slice_scatter(
    at: FxSite, x: V, src: V, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> V:
    axis = axis_of(dim, x.rank)
    size = sizes(at, x)[axis]
    first, last = _span(size, start, end)
    count = len(range(first, last, step))
    source = cast(src, x.dtype)
    if count == 0:
        return x
    if count == size:
        return source
    dims = (*x.dims[:axis], count, *x.dims[axis + 1 :])
    source = spread(source, dims)
    if step == 1:
        parts = [_cut(x, axis, 0, first), source, _cut(x, axis, last, size)]
        kept = [part for part in parts if part.dims[axis] != 0]
        return kept[0].concat(kept[1:], axis) if len(kept) > 1 else kept[0]
    places = at.graph.iota((count,), 0, dtypes.int64).mul(step).add(first)
    return x.scatter(move_axis(source, axis, 0), [places], [axis], unique_indices=True)


@lowering("aten.select_scatter")
def select_scatter(at: FxSite, x: V, src: V, dim: int, index: int) -> V:
    axis = axis_of(dim, x.rank)
    place = index % sizes(at, x)[axis]
    return slice_scatter(at, x, src.expand_dims(axis), axis, place, place + 1)


@lowering("aten.split_with_sizes", "aten.split_with_sizes_copy")
def split_with_sizes(at: FxSite, x: V, split_sizes: Sequence[int], dim: int = 0) -> list[V]:
    return shaping.split(x, split_sizes, axis_of(dim, x.rank))


@lowering("aten.split", "aten.split_copy")
def split(at: FxSite, x: V, split_size: int | Sequence[int], dim: int = 0) -> list[V]:
    axis = axis_of(dim, x.rank)
    if not isinstance(split_size, int):
        return split_with_sizes(at, x, split_size, axis)
    size = sizes(at, x)[axis]
    if size == 0:
        return [x]
    return [_cut(x, axis, start, min(start + split_size, size)) for start in range(0, size, split_size)]


@lowering("aten.unbind", "aten.unbind_copy")
def unbind(at: FxSite, x: V, dim: int = 0) -> list[V]:
    axis = axis_of(dim, x.rank)
    return [select(at, x, axis, number) for number in range(sizes(at, x)[axis])]


@lowering("aten.diagonal", "aten.diagonal_copy")
def diagonal(at: FxSite, x: V, offset: int = 0, dim1: int = 0, dim2: int = 1) -> V:
    first, second = axis_of(dim1, x.rank), axis_of(dim2, x.rank)
    rest = [axis for axis in range(x.rank) if axis not in (first, second)]
    return shaping.diagonal(x.transpose([*rest, first, second]), offset)


@lowering("aten.diagonal_scatter")
def diagonal_scatter(at: FxSite, x: V, src: V, offset: int = 0, dim1: int = 0, dim2: int = 1) -> V:
    first, second = axis_of(dim1, x.rank), axis_of(dim2, x.rank)
    line = at.graph.iota((src.dims[-1],), 0, dtypes.int64)
    rows, columns = line.add(max(-offset, 0)), line.add(max(offset, 0))
    updates = move_axis(cast(src, x.dtype), src.rank - 1, 0)
    rest = [axis for axis in range(x.rank) if axis not in (first, second)]
    moved = x.transpose([*rest, first, second])
    scattered = moved.scatter(updates, [rows, columns], [x.rank - 2, x.rank - 1], unique_indices=True)
    order = [*rest, first, second]
    return scattered.transpose([order.index(axis) for axis in range(x.rank)])


@lowering("aten.unfold", "aten.unfold_copy")
def unfold(at: FxSite, x: V, dimension: int, size: int, step: int) -> V:
    if not x.rank:
        return x.reshape((size,))
    axis = axis_of(dimension, x.rank)
    count = (sizes(at, x)[axis] - size) // step + 1
    starts = at.graph.iota((count, size), 0, dtypes.int64).mul(step)
    windows = x.take(starts.add(at.graph.iota((count, size), 1, dtypes.int64)), axis)
    return move_axis(windows, axis + 1, windows.rank - 1)


@lowering("aten.as_strided", "aten.as_strided_copy")
def as_strided(
    at: FxSite, x: V, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> V:
    """Of a tensor that fills its storage in order: elements by their place in it."""
    fake = at.node.all_input_nodes[0].meta["val"]
    if not fake.is_contiguous() or fake.storage_offset():
        raise at.refuse("of a tensor that is not in order")
    return at_places(at, x, size, stride, storage_offset or 0)


def at_places(at: FxSite, x: V, size: Sequence[int], stride: Sequence[int], offset: int) -> V:
    """The elements of a contiguous tensor at an offset and strides."""
    return x.reshape((x.type.size,)).gather([places_of(at, size, stride, offset)], [0])


def places_of(at: FxSite, size: Sequence[int], stride: Sequence[int], offset: int) -> V:
    place = at.full(size, offset, dtypes.int64)
    for axis, step in enumerate(stride):
        if step and size[axis] != 1:
            place = place.add(at.graph.iota(tuple(size), axis, dtypes.int64).mul(step))
    return place


@lowering("aten.as_strided_scatter")
def as_strided_scatter(
    at: FxSite, x: V, src: V, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> V:
    fake = at.node.all_input_nodes[0].meta["val"]
    if not fake.is_contiguous() or fake.storage_offset():
        raise at.refuse("of a tensor that is not in order")
    place = places_of(at, size, stride, storage_offset or 0)
    return x.reshape((x.type.size,)).scatter(cast(src, x.dtype), [place], [0]).reshape(x.dims)


# --- several of them --------------------------------------------------------------------------------------


@lowering("aten.cat", "aten.concatenate", "prims.cat")
def cat(at: FxSite, tensors: Sequence[V], dim: int = 0) -> V:
    # a vector of nothing goes with any shape
    parts = [cast(x, at.dtype) for x in tensors if x.dims != (0,)]
    if not parts:
        return cast(tensors[0], at.dtype)
    return parts[0].concat(parts[1:], axis_of(dim, parts[0].rank)) if len(parts) > 1 else parts[0]


@lowering("aten.stack")
def stack(at: FxSite, tensors: Sequence[V], dim: int = 0) -> V:
    return shaping.stack([cast(x, at.dtype) for x in tensors], dim)


# --- order and repetition ---------------------------------------------------------------------------------


@lowering("aten.flip", "prims.rev")
def flip(at: FxSite, x: V, dims: Sequence[int]) -> V:
    axes = axes_of(dims, x.rank, empty_is_all=False)
    return x.reverse(axes) if axes else x


@lowering("aten.roll")
def roll(at: FxSite, x: V, shifts: int | Sequence[int], dims: int | Sequence[int] = ()) -> V:
    steps = [shifts] if isinstance(shifts, int) else list(shifts)
    axes = [dims] if isinstance(dims, int) else list(dims)
    if not x.rank:
        return x
    if axes:
        return shaping.roll(x, steps, [axis_of(axis, x.rank) for axis in axes])
    return shaping.roll(x.reshape((x.type.size,)), steps, [0]).reshape(x.dims)


@lowering("aten.repeat")
def repeat(at: FxSite, x: V, repeats: Sequence[int]) -> V:
    return shaping.tile(x, repeats)


@lowering("aten.constant_pad_nd")
def constant_pad_nd(at: FxSite, x: V, pad: Sequence[int], value: Any = 0) -> V:
    low, high = [0] * x.rank, [0] * x.rank
    for number in range(len(pad) // 2):
        low[x.rank - 1 - number], high[x.rank - 1 - number] = pad[2 * number], pad[2 * number + 1]
    return x.pad(low, high, value=at.full((), value, x.dtype))


def _padded(mode: str, at: FxSite, x: V, padding: Sequence[int]) -> V:
    for number in range(len(padding) // 2):
        axis = x.rank - 1 - number
        x = x.take(_sources(at, sizes(at, x)[axis], padding[2 * number], padding[2 * number + 1], mode), axis)
    return x


def _sources(at: FxSite, size: int, before: int, after: int, mode: str) -> V:
    """Where each element of a padded axis comes from; negative amounts crop."""
    line = np.arange(-before, size + after)
    if mode == "reflect":
        line = np.abs(line)
        line = (size - 1) - np.abs(size - 1 - line)
    return at.graph.constant(np.clip(line, 0, size - 1).astype(np.int64))


def _padded_backward(mode: str, at: FxSite, gradient: V, x: V, padding: Sequence[int]) -> V:
    """Every element goes back to where it came from, and is added up there."""
    for number in range(len(padding) // 2):
        axis = x.rank - 1 - number
        source = _sources(at, sizes(at, x)[axis], padding[2 * number], padding[2 * number + 1], mode)
        dims = (*gradient.dims[:axis], x.dims[axis], *gradient.dims[axis + 1 :])
        start = at.full(dims, 0, gradient.dtype)
        gradient = start.scatter(move_axis(gradient, axis, 0), [source], [axis], "add")
    return gradient


for _space in (1, 2, 3):
    for _mode, _name in (("reflect", "reflection"), ("edge", "replication")):
        lowering(f"aten.{_name}_pad{_space}d")(partial(_padded, _mode))
        lowering(f"aten.{_name}_pad{_space}d_backward")(partial(_padded_backward, _mode))


def _triangle(part: Callable[[V, int], V], at: FxSite, x: V, diagonal: int = 0) -> V:
    return part(x, diagonal)


lowering("aten.tril")(partial(_triangle, shaping.tril))
lowering("aten.triu")(partial(_triangle, shaping.triu))


def _corner(upper: bool, at: FxSite, row: int, col: int, offset: int = 0, **how: Any) -> V:
    rows, columns = np.triu_indices(row, offset, col) if upper else np.tril_indices(row, offset, col)
    return cast(at.graph.constant(np.stack([rows, columns]).astype(np.int64)), at.dtype)


lowering("aten.tril_indices")(partial(_corner, False))
lowering("aten.triu_indices")(partial(_corner, True))


@lowering("aten.copy")
def copy(at: FxSite, x: V, src: Operand, non_blocking: bool = False) -> V:
    return spread(at.of(src, x.dtype), x.dims)


@lowering("aten.pixel_shuffle")
def pixel_shuffle(at: FxSite, x: V, upscale_factor: int) -> V:
    lead = x.dims[:-3]
    flat = x.reshape((math.prod(sizes(at, x)[:-3]), *x.dims[-3:]))
    shuffled = shaping.depth_to_space(flat, upscale_factor, "CRD")
    return shuffled.reshape((*lead, *shuffled.dims[1:]))

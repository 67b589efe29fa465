"""Shapes: ops that make, ask for and change them, without looking at elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import NodeProto

from planish import dtypes
from planish.errors import InternalError
from planish.onnx.attributes import Attributes
from planish.onnx.ops.common import (
    Array,
    Tensor,
    axes_of,
    axis_of,
    dims_of,
    host_arrays,
    if_known,
    ints,
    is_device,
    is_host,
    kind,
    number,
    numpy_kind,
    size_of,
    sizes,
)
from planish.onnx.registry import OWN, find, op
from planish.onnx.site import NodeSite
from planish.onnx.symbols import TooWide
from planish.ptir.dims import Dim, bounds, product
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library import shaping
from planish.ptir.library.shaping import broadcast_dims
from planish.ptir.types import DimLike

_KEPT = 1 << 16
"""Up to so many elements, what is the same everywhere is data; beyond, it is computed."""


@op("Identity", sequences=True)
def identity(at: NodeSite, x: Any) -> Any:
    return x


@op("Constant", host=True)
def constant(at: NodeSite) -> Array:
    for name in ("value", "sparse_value"):
        value = at.attr(name)
        if value is not None:
            return np.asarray(value)
    for name, dtype in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64),
                        ("value_ints", np.int64), ("value_string", object), ("value_strings", object)):  # fmt: skip
        value = at.attr(name)
        if value is not None:
            return np.array(value, dtype)
    raise at.refuse("has no value")


@op("ConstantOfShape", known=(0,))
def constant_of_shape(at: NodeSite, shape: Array) -> Tensor:
    value = at.attr("value", np.zeros(1, np.float32)).reshape(-1)
    dims = dims_of(shape)
    at.room(math.prod(bounds(dim)[1] for dim in dims), value.dtype.itemsize)
    is_known = all(isinstance(dim, int) for dim in dims)
    if is_known and (math.prod(dims) <= _KEPT or not is_device(value.dtype)):
        return np.full(dims, value[0], value.dtype)
    return at.value(value).reshape(()).broadcast_to(dims)


def _all_host(at: NodeSite, given: Sequence[Any]) -> list[int]:
    return [0] if isinstance(given[0], np.ndarray) else []


@op("Shape", known=_all_host)
def shape(at: NodeSite, x: Tensor) -> Tensor:
    rank = len(x.shape) if isinstance(x, np.ndarray) else x.rank
    start, end = at.attr("start", 0), at.attr("end")
    wanted = range(rank)[slice(start, end)]
    if isinstance(x, np.ndarray):
        return np.array([x.shape[axis] for axis in wanted], np.int64)
    dims = [x.dims[axis] for axis in wanted]
    if all(isinstance(dim, int) for dim in dims):
        return np.array(dims, np.int64)
    stacked = shaping.stack([x.dimension_size(axis) for axis in wanted])
    named = np.empty(len(dims), object)
    named[:] = dims
    at.engine.symbols[stacked.id] = (stacked, named)
    return stacked


@op("Size", known=_all_host)
def size(at: NodeSite, x: Tensor) -> Tensor:
    if isinstance(x, np.ndarray):
        return np.array(x.size, np.int64)
    total = product(x.dims)
    if isinstance(total, int):
        return np.array(total, np.int64)
    counted = at.graph.constant(np.array(1, np.int64))
    for axis in range(x.rank):
        counted = counted.mul(x.dimension_size(axis))
    at.engine.symbols[counted.id] = (counted, np.array(total, object))
    return counted


def _reshaped(at: NodeSite, x: V, wanted: Sequence[int], keep_zero: bool) -> V:
    dims = [x.dims[n] if d == 0 and not keep_zero and n < x.rank else d for n, d in enumerate(wanted)]
    if -1 in dims and 0 in dims:
        # An axis of size 0 leaves no number to compute the other from.
        known = [d for d in dims if d != -1]
        raise at.refuse(f"shape {known} with 0 elements leaves -1 open")
    return x.reshape(dims)


@op("Reshape")
def reshape_attribute(at: NodeSite, x: V) -> V:
    return _reshaped(at, x, at.attr("shape", []), False)


def _reshape_known(at: NodeSite, given: Sequence[Any]) -> list[int]:
    return [0, 1] if is_host(given[0]) else [1]


@op("Reshape", since=5, known=_reshape_known)
def reshape(at: NodeSite, x: Tensor, wanted: Array) -> Tensor:
    keep = bool(at.attr("allowzero", 0))
    if isinstance(x, np.ndarray):
        return x.reshape(
            [x.shape[n] if d == 0 and not keep else d for n, d in enumerate(ints(wanted))]
        )  # fmt: skip
    dims = dims_of(wanted)
    if -1 in dims and all(isinstance(d, int) for d in x.dims) and 0 in x.dims:
        filled = [x.dims[n] if d == 0 and not keep else d for n, d in enumerate(dims)]
        rest = [d for d in filled if d != -1]
        return x.reshape([0 if d == -1 and 0 not in rest else 1 if d == -1 else d for d in filled])
    return _reshaped(at, x, dims, keep)


@op("Flatten", known=host_arrays)
def flatten(at: NodeSite, x: Tensor) -> Tensor:
    rank = x.ndim if isinstance(x, np.ndarray) else x.rank
    axis = at.attr("axis", 1)
    axis = axis + rank if axis < 0 else axis
    if isinstance(x, np.ndarray):
        return x.reshape((math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
    one: DimLike = 1
    return x.reshape((math.prod(x.dims[:axis], start=one), math.prod(x.dims[axis:], start=one)))


def _squeezed(at: NodeSite, x: V, axes: Sequence[int] | None) -> V:
    chosen = [n for n, d in enumerate(x.dims) if d == 1] if axes is None else axes_of(at, axes, x.rank)
    return x.squeeze(chosen) if chosen else x


@op("Squeeze")
def squeeze_attribute(at: NodeSite, x: V) -> V:
    return _squeezed(at, x, at.attr("axes"))


@op("Squeeze", since=13, known=(1,))
def squeeze(at: NodeSite, x: V, axes: Array | None = None) -> V:
    return _squeezed(at, x, None if axes is None else ints(axes))


def _unsqueezed(at: NodeSite, x: V, axes: Sequence[int]) -> V:
    rank = x.rank + len(axes)
    new = sorted(axes_of(at, axes, rank))
    if len(set(new)) != len(new):
        raise at.refuse(f"axes {list(axes)} name an axis twice")
    rest = iter(x.dims)
    return x.reshape([1 if n in new else next(rest) for n in range(rank)])


@op("Unsqueeze")
def unsqueeze_attribute(at: NodeSite, x: V) -> V:
    return _unsqueezed(at, x, at.attributes.require("axes"))


@op("Unsqueeze", since=13, known=(1,))
def unsqueeze(at: NodeSite, x: V, axes: Array) -> V:
    return _unsqueezed(at, x, ints(axes))


@op("Transpose", known=host_arrays)
def transpose(at: NodeSite, x: Tensor) -> Tensor:
    perm = at.attr("perm")
    return np.transpose(x, perm) if isinstance(x, np.ndarray) else x.transpose(perm)


@op("Concat", known=host_arrays)
def concat(at: NodeSite, *xs: Tensor) -> Tensor:
    axis = at.attr("axis", 1 if at.version < 4 else None)
    if axis is None:
        raise at.refuse("has no axis")
    if isinstance(xs[0], np.ndarray):
        return np.concatenate([x for x in xs if isinstance(x, np.ndarray)], axis)
    values = [x for x in xs if isinstance(x, V)]
    return values[0] if len(values) == 1 else at.graph.concat(values, axis_of(at, axis, values[0].rank))


def _split(at: NodeSite, x: V, parts: Sequence[DimLike] | None, count: int) -> tuple[V, ...]:
    axis = axis_of(at, at.attr("axis", 0), x.rank)
    length = x.dims[axis]
    if parts is None and isinstance(length, int):
        each = -(-length // count)
        parts = [max(min(each, length - n * each), 0) for n in range(count)]
    elif parts is None:
        if length % count != 0:
            raise at.refuse(f"needs the size of {length} in {x.type}")
        parts = [length // count] * count
    if sum(parts) != length:
        raise at.refuse(f"parts {list(parts)} do not add up to {length}")
    return tuple(shaping.split(x, list(parts), axis))


@op("Split", known=(1,))
def split_attribute(at: NodeSite, x: V, parts: Array | None = None) -> tuple[V, ...]:
    given = at.attr("split")
    chosen = given if given is not None else None if parts is None else ints(parts)
    return _split(at, x, chosen, len(at.node.output))


@op("Split", since=13, known=(1,))
def split(at: NodeSite, x: V, parts: Array | None = None) -> tuple[V, ...]:
    count = at.attr("num_outputs", len(at.node.output))
    if count != len(at.node.output):
        raise at.refuse(f"num_outputs is {count}, and it has {len(at.node.output)}")
    return _split(at, x, None if parts is None else dims_of(parts), count)


@op("Expand", known=(1,))
def expand(at: NodeSite, x: V, wanted: Array) -> V:
    dims = broadcast_dims(x.dims, dims_of(wanted))
    at.room(math.prod(d for d in dims if isinstance(d, int)), x.dtype.itemsize)
    return x.broadcast_to(dims)


@op("Tile", known=(1, 2))
def tile_axis(at: NodeSite, x: V, tiles: Array, axis: Array) -> V:
    repeats = [1] * x.rank
    repeats[axis_of(at, int(number(axis)), x.rank)] = int(number(tiles))
    return shaping.tile(x, repeats)


@op("Tile", since=6, known=(1,))
def tile(at: NodeSite, x: V, repeats: Array) -> V:
    counts = dims_of(repeats)
    at.room(math.prod(bounds(dim)[1] for dim in (*x.dims, *counts)), x.dtype.itemsize)
    return shaping.tile(x, counts)


# -- slices and padding ----------------------------------------------------------------------------------------------


def _sliced_by_name(at: NodeSite, x: V, axis: int, start: DimLike, end: DimLike, step: int) -> V:
    """A part of an axis whose size, or where the part begins or ends, has a name; it has to lie inside at all sizes."""
    size = x.dims[axis]
    most = bounds(size)[1]
    if step < 0:
        if step == -1 and (start == -1 or bounds(start)[0] >= most - 1) and bounds(end)[1] < -most:
            return x.reverse([axis])
        raise at.refuse(f"needs the size of {size} in {x.type}")

    def place(at_: DimLike) -> DimLike:
        low, high = bounds(at_)
        return size if low >= most else at_ + size if high < 0 else at_

    first: list[DimLike] = [0] * x.rank
    last = list(x.dims)
    first[axis], last[axis] = place(start), (reached := place(end))
    if isinstance(size, int) and isinstance(reached, Dim) and reached.hi > size:
        raise TooWide(f"{reached} of {size} are asked for", reached, size)
    return x.slice(first, last, [step if n == axis else 1 for n in range(x.rank)])


def _sliced(
    at: NodeSite,
    x: V,
    starts: Sequence[DimLike],
    ends: Sequence[DimLike],
    axes: Sequence[int],
    steps: Sequence[int],
    moving: bool = False,
) -> V:
    chosen = [slice(None)] * x.rank
    for start, end, axis, step in zip(starts, ends, axes_of(at, axes, x.rank), steps, strict=True):
        if (start, step) == (0, 1) and bounds(end)[0] >= bounds(x.dims[axis])[1]:
            continue
        if any(isinstance(part, Dim) for part in (start, end, x.dims[axis])):
            x = _sliced_by_name(at, x, axis, start, end, step)
            continue
        length = size_of(at, x, axis)
        first, last, stride = slice(start, end, step).indices(length)
        chosen[axis] = slice(first, None if last < 0 else last, stride)
        if stride > 0 and last < first:
            chosen[axis] = slice(0, 0, 1)
    if moving and all(part.step in (None, 1) for part in chosen):
        # in a loop: where it begins is given to the program, how much it takes is part of it
        ranges = [range(*part.indices(d)) for part, d in zip(chosen, sizes(at, x), strict=True)]
        begins = [np.array(part.start, np.int64) if len(part) else None for part in ranges]
        at.engine.vary(begins)
        starts_of = [0 if begin is None else at.value(begin) for begin in begins]
        return x.dynamic_slice(starts_of, [len(part) for part in ranges])
    return x[tuple(chosen)]


@op("Slice")
def slice_attributes(at: NodeSite, x: V) -> V:
    starts, ends = at.attr("starts", []), at.attr("ends", [])
    return _sliced(at, x, starts, ends, at.attr("axes") or range(len(starts)), [1] * len(starts))


@op("Slice", domain=OWN, host=True)
def slice_on_host(
    at: NodeSite, x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
) -> Array:
    """A part of an array where data says which: a program with the numbers in it would serve these alone."""
    count = starts.size
    parts = [slice(None)] * x.ndim
    chosen = axes_of(at, range(count) if axes is None else ints(axes), x.ndim)
    strides = [1] * count if steps is None else ints(steps)
    for axis, start, end, step in zip(chosen, ints(starts), ints(ends), strides, strict=True):
        first, last, stride = slice(start, end, step).indices(x.shape[axis])
        parts[axis] = slice(first, None if last < 0 else last, stride)
    return x[tuple(parts)].copy()


@op("Slice", since=10, known=if_known(1, 2, 3, 4))
def slice_(
    at: NodeSite, x: V, starts: Tensor, ends: Tensor, axes: Tensor | None = None, steps: Tensor | None = None
) -> V:
    limits, engine = (starts, ends, axes, steps), at.engine
    data = [limit for limit in limits if isinstance(limit, V)]
    counted = isinstance(ends, np.ndarray) and engine.varies(ends) and not engine.varies(starts)
    can_run = engine.recorder is not None and not engine.depth
    if can_run and (counted or data) and not any(engine.named(limit) is not None for limit in data):
        return _sliced_by_data(at, [x, *limits])
    known: list[Any] = [x, *limits]
    return _sliced_as_told(at, *(engine.known(at, [1, 2, 3, 4], known) if data else known))


def _sliced_by_data(at: NodeSite, given: Sequence[Tensor | None]) -> V:
    """By the host, while the model is run."""
    entry, node = find(OWN, "Slice", 1), NodeProto()
    node.CopyFrom(at.node)
    node.domain = OWN
    if entry is None:
        raise InternalError("there is no slice of the host")
    own = NodeSite(at.engine, node, Attributes(node), 1, at.scope)
    part: V = at.engine.call(entry, own, given[: len(node.input)])[0]
    return part


def _sliced_as_told(
    at: NodeSite, x: V, starts: Array, ends: Array, axes: Array | None, steps: Array | None
) -> V:
    count = starts.size
    return _sliced(
        at,
        x,
        dims_of(starts),
        dims_of(ends),
        range(count) if axes is None else ints(axes),
        [1] * count if steps is None else ints(steps),
        at.engine.varies(starts),
    )


_MODES = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}


def _padded(at: NodeSite, x: V, pads: Sequence[int], value: V | float, axes: Sequence[int]) -> V:
    mode = at.attr("mode", "constant")
    if mode not in _MODES:
        raise at.refuse(f"there is no mode {mode!r}")
    if len(pads) != 2 * len(axes):
        raise at.refuse(f"{len(pads)} amounts for {len(axes)} axes")
    low, high = [0] * x.rank, [0] * x.rank
    for n, axis in enumerate(axes):
        low[axis], high[axis] = pads[n], pads[n + len(axes)]
    return shaping.pad(x, low, high, _MODES[mode], value)


@op("Pad")
def pad_attributes(at: NodeSite, x: V) -> V:
    pads = at.attr("pads", at.attr("paddings"))
    if pads is None:
        raise at.refuse("has no pads")
    return _padded(at, x, pads, at.attr("value", 0.0), range(x.rank))


@op("Pad", since=11, known=(1, 3))
def pad(at: NodeSite, x: V, pads: Array, value: V | None = None, axes: Array | None = None) -> V:
    chosen = range(x.rank) if axes is None else axes_of(at, ints(axes), x.rank)
    filler: V | float = 0 if value is None else value.reshape(())
    if x.dtype.is_bool and value is None:
        filler = False
    return _padded(at, x, ints(pads), filler, chosen)


# -- blocks, diagonals, counting -------------------------------------------------------------------------------------


@op("DepthToSpace")
def depth_to_space(at: NodeSite, x: V) -> V:
    return shaping.depth_to_space(x, at.attributes.require("blocksize"), at.attr("mode", "DCR"))


@op("SpaceToDepth")
def space_to_depth(at: NodeSite, x: V) -> V:
    sizes(at, x)
    return shaping.space_to_depth(x, at.attributes.require("blocksize"), at.attr("mode", "DCR"))


@op("EyeLike")
def eye_like(at: NodeSite, x: V) -> V:
    rows, columns = x.dims
    to = at.attr("dtype")
    dtype = x.dtype
    if to is not None:
        dtype = kind(at, to)
    return shaping.eye(x, rows, columns, dtype, at.attr("k", 0))


@op("Trilu", known=(1,))
def trilu(at: NodeSite, x: V, k: Array | None = None) -> V:
    diagonal = 0 if k is None else int(number(k))
    upper = at.attr("upper", 1)
    if 0 in x.dims:
        return x
    return shaping.triu(x, diagonal) if upper else shaping.tril(x, diagonal)


@op("Range", known="all")
def range_(at: NodeSite, start: Array, limit: Array, delta: Array) -> Array | V:
    stash = at.attr("stash_type", 1)
    dtype = start.dtype
    first, last, step = (number(v) for v in (start, limit, delta))
    if step == 0:
        raise at.refuse("steps of 0 lead nowhere")
    if any(isinstance(v, Dim) for v in (first, last, step)):
        if step != 1:
            raise at.refuse(f"needs the size of {last} as a number")
        known = next((v.dtype for v in (start, limit, delta) if v.dtype != object), np.dtype(np.int64))
        return at.graph.iota((last,), 0, dtypes.from_numpy(known)).slice([first], [last], [1])
    count = max(math.ceil((last - first) / step), 0)
    at.room(count, 8)
    if dtype.kind in "iu":
        return np.asarray(np.arange(first, last, step), dtype)
    wide = dtype if dtype.itemsize >= 4 else numpy_kind(at, stash)
    at_ = np.arange(count).astype(wide)
    return np.asarray(at_ * np.asarray(step, wide) + np.asarray(first, wide)).astype(dtype)

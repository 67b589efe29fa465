"""Gathering and scattering by index, one-hot, and ops whose number of results depends on data."""

from __future__ import annotations

import math

import numpy as np

from planish import dtypes
from planish.compiler.object_code import call_routine
from planish.onnx.ops.common import Array, Tensor, axis_of, count_of, if_known, number, size_of, sizes
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir.dims import bounds
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library import common as lib
from planish.ptir.library.normalize import converted

_KINDS = {"none": "replace", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def wrapped(index: V, size: int | V) -> V:
    """Indices counted from the end become indices from the front."""
    index = converted(index, dtypes.int64) if index.dtype.bits < 32 or not index.dtype.is_signed else index
    if isinstance(size, V):
        size = converted(size, index.dtype).broadcast_to(index.dims)
    return index.lt(0).select(index.add(size), index)


@op("Gather", known=if_known(1))
def gather(at: NodeSite, x: V, index: Tensor) -> V:
    axis = axis_of(at, at.attr("axis", 0), x.rank)
    dim = x.dims[axis]
    if not isinstance(dim, int):
        least = bounds(dim)[0]
        if isinstance(index, np.ndarray) and index.size and not -least <= index.min() <= index.max() < least:
            raise at.refuse(f"needs the size of {dim} in {x.type}")
        return x.take(wrapped(at.value(index), count_of(x, axis)), axis)
    size = size_of(at, x, axis)
    if isinstance(index, np.ndarray):
        positions = np.where(index < 0, index + size, index).astype(np.int64)
        if positions.size and (positions.min() < 0 or positions.max() >= size):
            raise at.refuse(f"an index is outside axis {axis} of {x.type}")
        if positions.size == 1:
            here = int(positions.reshape(-1)[0])
            part = x.slice(
                [here if n == axis else 0 for n in range(x.rank)],
                [here + 1 if n == axis else d for n, d in enumerate(x.dims)],
            )
            return part.reshape((*x.dims[:axis], *positions.shape, *x.dims[axis + 1 :]))
        if size == 0:
            return at.graph.full((*x.dims[:axis], *positions.shape, *x.dims[axis + 1 :]), 0, x.dtype)
        return x.take(at.value(positions), axis)
    if size == 0:
        return at.graph.full((*x.dims[:axis], *index.dims, *x.dims[axis + 1 :]), 0, x.dtype)
    return x.take(wrapped(index, size), axis)


@op("GatherElements")
def gather_elements(at: NodeSite, x: V, index: V) -> V:
    axis = axis_of(at, at.attr("axis", 0), x.rank)
    return lib.take_along_axis(x, wrapped(index, count_of(x, axis)), axis)


def _columns(at: NodeSite, x: V, index: V, batch: int) -> tuple[list[V], list[int]]:
    """The last axis of an index array as one index per axis of x, batch axes in front counted."""
    lead, depth = index.dims[:-1], size_of(at, index, index.rank - 1)
    if batch + depth > x.rank:
        raise at.refuse(f"{depth} indices for the {x.rank - batch} axes of {x.type}")
    columns = [at.graph.iota(lead, axis, dtypes.int64) for axis in range(batch)]
    for n in range(depth):
        one = index.slice([0] * len(lead) + [n], [*lead, n + 1]).reshape(lead)
        columns.append(converted(wrapped(one, count_of(x, batch + n)), dtypes.int64))
    return columns, list(range(batch + depth))


@op("GatherND")
def gather_nd(at: NodeSite, x: V, index: V) -> V:
    batch = at.attr("batch_dims", 0)
    indices, axes = _columns(at, x, index, batch)
    if not indices:
        return x.broadcast_to((*index.dims[:-1], *x.dims))
    return lib.gather(x, indices, axes)


def _reduction(at: NodeSite) -> str:
    name = at.attr("reduction", "none")
    if name not in _KINDS:
        raise at.refuse(f"there is no reduction {name!r}")
    return _KINDS[name]


@op("Scatter", "ScatterElements")
def scatter_elements(at: NodeSite, x: V, index: V, updates: V) -> V:
    axis = axis_of(at, at.attr("axis", 0), x.rank)
    kind = _reduction(at)
    own = wrapped(index, count_of(x, axis))
    indices = [
        own if n == axis else at.graph.iota(index.dims, n, own.dtype) for n in range(x.rank)
    ]  # fmt: skip
    return x.scatter(updates, indices, list(range(x.rank)), kind)


@op("ScatterND")
def scatter_nd(at: NodeSite, x: V, index: V, updates: V) -> V:
    kind = _reduction(at)
    indices, axes = _columns(at, x, index, 0)
    return x.scatter(updates, indices, axes, kind)


@op("TensorScatter")
def tensor_scatter(at: NodeSite, cache: V, update: V, starts: V | None = None) -> V:
    mode = at.attr("mode", "linear")
    axis = axis_of(at, at.attr("axis", -2), cache.rank)
    if axis == 0:
        raise at.refuse("the batch axis cannot be written along")
    graph = at.graph
    line = graph.iota(update.dims, axis, dtypes.int64)
    if starts is not None:
        column = converted(starts, dtypes.int64).reshape((*starts.dims, *[1] * (update.rank - 1)))
        line = line.add(column.broadcast_to(update.dims))
    if mode == "circular":
        line = line.floor_mod(size_of(at, cache, axis))
    elif mode != "linear":
        raise at.refuse(f"there is no mode {mode!r}")
    indices = [line if n == axis else graph.iota(update.dims, n, dtypes.int64) for n in range(update.rank)]
    return cache.scatter(update, indices, list(range(update.rank)))


@op("OneHot", known=(1,))
def one_hot(at: NodeSite, index: V, depth: Array, values: V) -> V:
    size = int(number(depth))
    at.room(size * math.prod(sizes(at, index)), values.dtype.itemsize)
    axis = axis_of(at, at.attr("axis", -1), index.rank + 1)
    dims = (*index.dims[:axis], size, *index.dims[axis:])
    at_ = wrapped(converted(index, dtypes.int64), size)
    hot = at.graph.iota(dims, axis, dtypes.int64).eq(at_.expand_dims(axis).broadcast_to(dims))
    off, on = (values.slice([n], [n + 1]).reshape(()).broadcast_to(dims) for n in range(2))
    return hot.select(on, off)


@op("ReverseSequence")
def reverse_sequence(at: NodeSite, x: V, lengths: V) -> V:
    time, batch = at.attr("time_axis", 0) % x.rank, at.attr("batch_axis", 1) % x.rank
    here = at.graph.iota(x.dims, time, dtypes.int64)
    limit = lib.along(converted(lengths, dtypes.int64), x.dims, batch)
    return lib.take_along_axis(x, here.lt(limit).select(limit.sub(here).sub(1), here), time)


# -- as many as there are --------------------------------------------------------------------------------------------


@op("Compress", host=True)
def compress(at: NodeSite, x: Array, condition: Array) -> Array:
    axis = at.attr("axis")
    chosen = np.flatnonzero(condition.reshape(-1))
    x = x.reshape(-1) if axis is None else x
    along = 0 if axis is None else axis_of(at, axis, x.ndim)
    return np.asarray(np.take(x, chosen[chosen < x.shape[along]], along))


@op("NonZero", host=True)
def non_zero(at: NodeSite, x: Array) -> Array:
    if x.ndim == 0:
        return np.zeros((0, int(bool(x))), np.int64)
    return np.array(np.nonzero(x), np.int64).reshape(x.ndim, -1)


@op("Unique", host=True)
def unique(at: NodeSite, x: Array) -> tuple[Array, ...]:
    axis, ordered = at.attr("axis"), at.attr("sorted", 1)
    if axis is None:
        x = x.reshape(-1)
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not ordered:
        # In the order in which they are met.
        order = np.argsort(first)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], place[inverse]
    return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


@op("NonMaxSuppression", host=True)
def non_max_suppression(
    at: NodeSite,
    boxes: Array,
    scores: Array,
    limit: Array | None = None,
    overlap: Array | None = None,
    threshold: Array | None = None,
) -> Array:
    form = "center" if at.attr("center_point_box", 0) else "corners"
    kind = "float32" if boxes.dtype == scores.dtype == np.float32 else "float64"
    if boxes.ndim != 3 or scores.ndim != 3 or boxes.shape != (len(scores), scores.shape[2], 4):
        raise at.refuse(
            f"boxes of shape {boxes.shape} do not go with scores of shape {scores.shape}: (batch, n, 4) and (batch, class, n)"
        )
    batches, classes, count = scores.shape
    most = 0 if limit is None else max(0, min(int(number(limit)), count))
    at.room(batches * classes * most * 3)
    rows, selected = np.empty((batches * classes * most, 3), np.int64), np.zeros(1, np.int64)
    if rows.size:
        # without a threshold no score is too low, and one that is no number is the last choice
        given = (
            scores
            if threshold is not None
            else np.nan_to_num(scores, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        )
        numbers = [
            0.0 if overlap is None else number(overlap),
            0.0 if threshold is None else number(threshold),
        ]
        buffers = [np.ascontiguousarray(x, kind) for x in (boxes, given)]
        thresholds = np.array(numbers, kind)
        buffers += [np.array([most]), thresholds, thresholds[1:], rows, selected]
        integers = (batches, classes, count, most, int(threshold is None))
        call_routine(f"suppress.{kind}.{form}", buffers, integers, 48 * count + 40 * (most + 16))
    return rows[: int(selected[0])]

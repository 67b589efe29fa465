"""Reductions, extremes by position, running sums, and the largest k."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from planish import dtypes
from planish.onnx.ops.common import Array, axes_of, axis_of, ints, number, size_of
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library import normalize
from planish.ptir.library.normalize import converted

Reduce = Callable[[V, list[int], bool], V]


def _mean(x: V, axes: list[int], keep: bool) -> V:
    if x.dtype.is_float:
        return normalize.mean(x, axes, keep)
    count = 1
    for axis in axes:
        size = x.dims[axis]
        count *= size if isinstance(size, int) else 1
    return x.reduce_sum(axes, keep).trunc_div(count)


def _in_float(function: Reduce) -> Reduce:
    """Narrow floats in float32, integers in float64; rounded once."""

    def computed(x: V, axes: list[int], keep: bool) -> V:
        wide = normalize.widened(x) if x.dtype.is_float else x.cast(dtypes.float64)
        return converted(function(wide, axes, keep), x.dtype)

    return computed


_REDUCTIONS: dict[str, Reduce] = {
    "ReduceSum": V.reduce_sum,
    "ReduceProd": V.reduce_prod,
    "ReduceMax": V.reduce_max,
    "ReduceMin": V.reduce_min,
    "ReduceMean": _mean,
    "ReduceL1": lambda x, axes, keep: x.abs().reduce_sum(axes, keep),
    "ReduceL2": _in_float(lambda x, axes, keep: x.square().reduce_sum(axes, keep).sqrt()),
    "ReduceSumSquare": lambda x, axes, keep: x.square().reduce_sum(axes, keep),
    "ReduceLogSum": _in_float(lambda x, axes, keep: x.reduce_sum(axes, keep).log()),
    "ReduceLogSumExp": _in_float(normalize.logsumexp),
}


def _by_attribute(function: Reduce, at: NodeSite, x: V) -> V:
    axes = at.attr("axes")
    chosen = axes_of(at, axes, x.rank) if axes else list(range(x.rank))
    return function(x, chosen, bool(at.attr("keepdims", 1)))


def _by_input(function: Reduce, at: NodeSite, x: V, axes: Array | None = None) -> V:
    keep = bool(at.attr("keepdims", 1))
    nothing = bool(at.attr("noop_with_empty_axes", 0))
    if axes is None or axes.size == 0:
        # With nothing to reduce over, only what is done to each element remains.
        return function(x, [] if nothing else list(range(x.rank)), keep)
    return function(x, axes_of(at, ints(axes), x.rank), keep)


for _name, _function in _REDUCTIONS.items():
    op(_name)(partial(_by_attribute, _function))
    op(_name, since=13 if _name == "ReduceSum" else 18, known=(1,))(partial(_by_input, _function))


def _extreme(function: Callable[..., V], at: NodeSite, x: V) -> V:
    axis = axis_of(at, at.attr("axis", 0), x.rank)
    keep = bool(at.attr("keepdims", 1))
    if not at.attr("select_last_index", 0):
        return function(x, axis, keep)
    return function(x.reverse([axis]), axis, keep).neg().add(size_of(at, x, axis) - 1)


op("ArgMax")(partial(_extreme, V.argmax))
op("ArgMin")(partial(_extreme, V.argmin))


def _running(function: Callable[..., V], at: NodeSite, x: V, axis: Array) -> V:
    along = axis_of(at, int(number(axis)), x.rank)
    return function(x, along, bool(at.attr("reverse", 0)), bool(at.attr("exclusive", 0)))


op("CumSum", known=(1,))(partial(_running, V.cumsum))
op("CumProd", known=(1,))(partial(_running, V.cumprod))


def _top_k(at: NodeSite, x: V, k: int) -> tuple[V, V]:
    axis = axis_of(at, at.attr("axis", -1), x.rank)
    at.attr("sorted", 1)
    return x.top_k(k, axis, bool(at.attr("largest", 1)))


@op("TopK")
def top_k_attribute(at: NodeSite, x: V) -> tuple[V, V]:
    return _top_k(at, x, int(at.attributes.require("k")))


@op("TopK", since=10, known=(1,))
def top_k(at: NodeSite, x: V, k: Array) -> tuple[V, V]:
    return _top_k(at, x, int(number(np.asarray(k))))

"""What the argument of each op has to be, besides its type: a table of sentences and tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from planish.uop.ops import (
    CLUSTER,
    REDUCIBLE,
    AxisType,
    Box,
    Lanes,
    Ops,
)

_INT: Final = {int}


def _is_dim(value: object) -> bool:
    return (type(value) is int and value >= 0) or type(value).__name__ == "UOp"


def _dims(arg: tuple[object, ...]) -> bool:
    return all(map(_is_dim, arg))


def _pairs(arg: tuple[object, ...]) -> bool:
    return all(type(pair) is tuple and len(pair) == 2 and _dims(pair) for pair in arg)


def _integers(arg: tuple[object, ...]) -> bool:
    return not arg or (set(map(type, arg)) == _INT and min(cast("tuple[int, ...]", arg)) >= 0)


def _hints(arg: tuple[object, ...]) -> bool:
    return all(type(hint) in {str, int} or (isinstance(hint, tuple) and _hints(hint)) for hint in arg)


def _lane_axes(arg: Lanes) -> bool:
    axes: object = arg.axes  # a NamedTuple checks nothing itself
    return isinstance(axes, tuple) and all(
        isinstance(a, tuple) and len(a) == 2 and isinstance(a[0], tuple) and _integers((*a[0], a[1]))
        for a in axes
    )


def _is_box(arg: Box) -> bool:
    counts = (arg.slot, arg.panels, arg.buffers, arg.stay)
    tuples = (arg.dims, arg.strides, arg.sizes, arg.steps)
    corners = (arg.lower, arg.upper)
    return (
        _integers(counts)
        and all(type(t) is tuple and _integers(t) for t in tuples)
        and all(type(n) is int for t in corners for n in t)
        and len(arg.lower) == len(arg.upper) == len(arg.steps) in {0, len(arg.dims) - 2}
        and len(arg.sizes) == 2
    )


_BOX_LAW: Final = (
    "a Box of dims, strides, the two sizes of a panel, and of windows corners and steps for all dims but two",
    _is_box,
)
ARG_LAWS: Final[dict[Ops, tuple[str, Callable[..., bool]]]] = {
    Ops.DEFINE_GLOBAL: ("a slot: an integer from 0", lambda slot: slot >= 0),
    Ops.DEFINE_LOCAL: ("a slot: an integer from 0", lambda slot: slot >= 0),
    Ops.DEFINE_REG: ("a slot: an integer from 0", lambda slot: slot >= 0),
    Ops.BUFFER: ("a slot: an integer from 0", lambda slot: slot >= 0),
    Ops.DEFINE_VAR: (
        "a Variable with an identifier as name and integer bounds",
        lambda v: type(v.name) is str and v.name.isidentifier() and type(v.low) is type(v.high) is int,
    ),
    Ops.SPECIAL: ("a name: an identifier", str.isidentifier),
    Ops.RESHAPE: ("the shape: sizes from 0", _dims),
    Ops.EXPAND: ("the shape: sizes from 0", _dims),
    Ops.PERMUTE: (
        "a permutation of the axes",
        lambda arg: _integers(arg) and sorted(arg) == list(range(len(arg))),
    ),
    Ops.CONTIGUOUS: (
        "a tuple of hints: words, integers, or tuples of them",
        lambda arg: arg is None or _hints(arg),
    ),
    Ops.PAD: ("a pair of sizes per axis", _pairs),
    Ops.SHRINK: ("a pair of begin and end per axis", _pairs),
    Ops.FLIP: ("a bool per axis", lambda arg: all(type(flip) is bool for flip in arg)),
    Ops.REDUCE_AXIS: (
        "ReduceAxes of a reducing op and axes",
        lambda arg: arg.op in REDUCIBLE and type(arg.axes) is tuple and _integers(arg.axes),
    ),
    Ops.SCAN_AXIS: (
        "ReduceAxes of a reducing op and one axis",
        lambda arg: (
            arg.op in REDUCIBLE and type(arg.axes) is tuple and _integers(arg.axes) and len(arg.axes) == 1
        ),
    ),
    Ops.RANGE: (
        "an Axis of a path of integers and an AxisType",
        lambda a: (
            type(a.path) is tuple and len(a.path) > 0 and _integers(a.path) and type(a.kind) is AxisType
        ),
    ),
    Ops.INDEX: (
        "the rank of a block of the cluster: an integer from 0",
        lambda rank: rank is None or rank >= 0,
    ),
    Ops.BARRIER: ("whose threads: those of a block, or of a cluster", lambda whose: whose in {None, CLUSTER}),
    Ops.FETCH: _BOX_LAW,
    Ops.FETCHED: _BOX_LAW,
    Ops.WAIT: ("how many groups may be under way: an integer from 0", lambda count: count >= 0),
    Ops.PREFETCH: ("a locality: 0, 1, 2 or 3", lambda locality: 0 <= locality <= 3),
    Ops.UNROLL: ("Lanes of (axis path, size) pairs", _lane_axes),
    Ops.CONTRACT: ("Lanes of (axis path, size) pairs", _lane_axes),
    Ops.GEP: ("a tuple of lane numbers", _integers),
    Ops.COMBINE: (
        "a Combine of an op that may be done in any order, and a power of two",
        lambda a: a.op in REDUCIBLE and type(a.width) is int and a.width > 0 and not a.width & a.width - 1,
    ),
    Ops.EXCHANGE: (
        "an Exchange of 1, 2 or 4 matrices",
        lambda a: a.matrices in {1, 2, 4} and type(a.transposed) is bool,
    ),
    Ops.WMMA: (
        "a TensorCore with a name and three sizes",
        lambda a: (
            type(a.name) is str
            and type(a.dims) is tuple
            and len(a.dims) == 3
            and _integers(a.dims)
            and type(a.pending) is int
            and a.pending >= 0
        ),
    ),
}
"""What an argument of the right type must also satisfy, and how to say so."""

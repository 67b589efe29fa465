"""What the argument of each op has to be: a table of types, sentences and tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, cast

from planish.uop import ops
from planish.uop.access_hints import AccessHints
from planish.uop.hardware_index import HardwareIndex, IndexKind
from planish.uop.ops import CLUSTER, REDUCIBLE, AxisType, Box, Ops, UnrolledLanes

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


def _lane_axes(arg: UnrolledLanes) -> bool:
    axes: object = arg.axes  # a NamedTuple checks nothing itself
    return isinstance(axes, tuple) and all(
        isinstance(a, tuple) and len(a) == 2 and isinstance(a[0], tuple) and _integers((*a[0], a[1]))
        for a in axes
    )


def _is_reduction(arg: ops.ReduceAxes) -> bool:
    return arg.op in REDUCIBLE and type(arg.axes) is tuple and _integers(arg.axes)


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


def _load_hints(arg: AccessHints | None) -> bool:
    return arg is None or (_store_hints(arg) and not (arg.buffers or arg.asynchronous or arg.own))


def _store_hints(arg: AccessHints | None) -> bool:
    return arg is None or (
        any(arg)
        and type(arg.buffers) is type(arg.align) is int
        and min(arg.buffers, arg.align) >= 0
        and all(type(told) is bool for told in arg[1:-1])
    )


class ArgumentLaw(NamedTuple):
    """The types that an argument may have, what one of these must also satisfy, and how to say so."""

    types: tuple[type, ...]
    says: str = ""
    holds: Callable[..., bool] | None = None


_NONE: Final = type(None)
NO_ARGUMENT: Final = ArgumentLaw((_NONE,))
_OP: Final = ArgumentLaw((Ops,))
_SLOT: Final = ArgumentLaw((int,), "a slot: an integer from 0", lambda slot: slot >= 0)
_SHAPE: Final = ArgumentLaw((tuple,), "the shape: sizes from 0", _dims)
_LANES: Final = ArgumentLaw((UnrolledLanes,), "Lanes of (axis path, size) pairs", _lane_axes)
_BOX: Final = ArgumentLaw(
    (Box,),
    "a Box of dims, strides, the two sizes of a panel, and of windows corners and steps for all dims but two",
    _is_box,
)
ARGUMENTS: Final[dict[Ops, ArgumentLaw]] = {
    Ops.CONST: ArgumentLaw((bool, int, float, complex)),
    Ops.VCONST: ArgumentLaw((tuple,)),
    Ops.DEFINE_GLOBAL: _SLOT,
    Ops.DEFINE_LOCAL: _SLOT,
    Ops.DEFINE_REG: _SLOT,
    Ops.BUFFER: _SLOT,
    Ops.DEFINE_VAR: ArgumentLaw(
        (ops.Variable,),
        "a Variable with an identifier as name and integer bounds",
        lambda v: type(v.name) is str and v.name.isidentifier() and type(v.low) is type(v.high) is int,
    ),
    Ops.SPECIAL: ArgumentLaw(
        (HardwareIndex,),
        "a HardwareIndex of an IndexKind and the number of an axis, whose name is an identifier",
        lambda index: (
            type(index.kind) is IndexKind
            and type(index.axis) is int
            and index.axis >= 0
            and type(index.given) is str
            and (not index.given or index.given.isidentifier())
        ),
    ),
    Ops.RESHAPE: _SHAPE,
    Ops.EXPAND: _SHAPE,
    Ops.PERMUTE: ArgumentLaw(
        (tuple,),
        "a permutation of the axes",
        lambda arg: _integers(arg) and sorted(arg) == list(range(len(arg))),
    ),
    Ops.CONTIGUOUS: ArgumentLaw(
        (tuple, _NONE),
        "a tuple of hints: words, integers, or tuples of them",
        lambda arg: arg is None or _hints(arg),
    ),
    Ops.PAD: ArgumentLaw((tuple,), "a pair of sizes per axis", _pairs),
    Ops.SHRINK: ArgumentLaw((tuple,), "a pair of begin and end per axis", _pairs),
    Ops.FLIP: ArgumentLaw((tuple,), "a bool per axis", lambda arg: all(type(flip) is bool for flip in arg)),
    Ops.REDUCE_AXIS: ArgumentLaw((ops.ReduceAxes,), "ReduceAxes of a reducing op and axes", _is_reduction),
    Ops.SCAN_AXIS: ArgumentLaw(
        (ops.ReduceAxes,),
        "ReduceAxes of a reducing op and one axis",
        lambda arg: _is_reduction(arg) and len(arg.axes) == 1,
    ),
    Ops.RANGE: ArgumentLaw(
        (ops.Axis,),
        "an Axis of a path of integers and an AxisType",
        lambda a: (
            type(a.path) is tuple and len(a.path) > 0 and _integers(a.path) and type(a.kind) is AxisType
        ),
    ),
    Ops.REDUCE: _OP,
    Ops.SCAN: _OP,
    Ops.BUFFERIZE: ArgumentLaw((ops.Bufferize,)),
    Ops.INDEX: ArgumentLaw(
        (int, _NONE),
        "the rank of a block of the cluster: an integer from 0",
        lambda rank: rank is None or rank >= 0,
    ),
    Ops.LOAD: ArgumentLaw(
        (AccessHints, _NONE), "AccessHints that a LOAD may have, some of them given", _load_hints
    ),
    Ops.STORE: ArgumentLaw((AccessHints, _NONE), "AccessHints, some of them given", _store_hints),
    Ops.BARRIER: ArgumentLaw(
        (str, _NONE),
        "whose threads: those of a block, or of a cluster",
        lambda whose: whose in {None, CLUSTER},
    ),
    Ops.FETCH: _BOX,
    Ops.FETCHED: _BOX,
    Ops.WAIT: ArgumentLaw(
        (int,), "how many groups may be under way: an integer from 0", lambda count: count >= 0
    ),
    Ops.PREFETCH: ArgumentLaw((int,), "a locality: 0, 1, 2 or 3", lambda locality: 0 <= locality <= 3),
    Ops.UNROLL: _LANES,
    Ops.CONTRACT: _LANES,
    Ops.GEP: ArgumentLaw((tuple,), "a tuple of lane numbers", _integers),
    Ops.COMBINE: ArgumentLaw(
        (ops.Combine,),
        "a Combine of an op that may be done in any order, and a power of two",
        lambda a: a.op in REDUCIBLE and type(a.width) is int and a.width > 0 and not a.width & a.width - 1,
    ),
    Ops.EXCHANGE: ArgumentLaw(
        (ops.Exchange,),
        "an Exchange of 1, 2 or 4 matrices",
        lambda a: a.matrices in {1, 2, 4} and type(a.transposed) is bool,
    ),
    Ops.WMMA: ArgumentLaw(
        (ops.TensorCoreOp,),
        "a TensorCoreOp with a name and three sizes",
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
"""The arguments of ops that take one; every other op takes none (`NO_ARGUMENT`)."""

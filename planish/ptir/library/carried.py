"""Collectives as what carries them between ranks can do: along the first axis, on dtypes that it can add and compare.

Other axes are moved to the front and back, by kernels that are part of what surrounds them. Narrow floats are added up as `float32`; extremes of floats
are those of integers that compare alike, with NaN above or below all; what cannot be combined on the way is gathered and combined by each rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, cast

from planish import dtypes
from planish.dtypes import DType
from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.graph_value import GraphValue
from planish.ptir.library.common import move_axis
from planish.ptir.ops.collective import CollectiveAttrs, group_size
from planish.ptir.ops.definition import Attrs

Carried: TypeAlias = GraphValue | None
"""What stands for a collective; None if it is carried as it is."""
_PLAIN: Final = frozenset({"int8", "uint8", "int32", "uint32", "int64", "uint64", "float32", "float64"})
_ADDED: Final = {
    True: _PLAIN - {"int8", "uint8"} | {"complex64", "complex128"},
    False: _PLAIN | {"float16", "bfloat16", "complex64", "complex128"},
}
"""Dtypes that are added up as they are, by whether the ranks are processors (MPI) or GPUs (NCCL). Sums of narrow integers saturate in some MPIs; here they wrap."""
_COMPARED: Final = {True: _PLAIN | {"int16", "uint16"}, False: _PLAIN}
_BITWISE: Final = ("and", "or")


def _reduced(operands: Sequence[GraphValue], attrs: Attrs, processors: bool) -> Carried:
    of, (x,) = cast("ops.AllReduceAttrs", attrs), operands

    def over(value: GraphValue, kind: str = of.kind) -> GraphValue:
        return value.all_reduce(of.mesh, of.over, kind)

    return _as_carried(x, of, of.kind, processors, over, 0)


def _scattered(operands: Sequence[GraphValue], attrs: Attrs, processors: bool) -> Carried:
    of, (x,) = cast("ops.ReduceScatterAttrs", attrs), operands
    count = group_size(of.mesh, of.over)
    if of.axis == 0:

        def over(value: GraphValue, kind: str = of.kind) -> GraphValue:
            return value.reduce_scatter(of.mesh, of.over, 0, kind)

        return _as_carried(x, of, of.kind, processors, over, count)
    front = _parts_first(x, of.axis, count)
    part = _scattered([front], ops.ReduceScatterAttrs(of.mesh, of.over, 0, of.kind), processors)
    if part is None:
        part = front.reduce_scatter(of.mesh, of.over, 0, of.kind)
    return part.reshape(front.dims[1:])


def _as_carried(
    x: GraphValue,
    of: CollectiveAttrs,
    kind: str,
    processors: bool,
    over: Callable[..., GraphValue],
    parts: int,
) -> Carried:
    """A reduction of a dtype that is not carried, as one of a dtype that is; `parts`: how many a result is cut into, or 0."""
    dtype = x.dtype
    if dtype.is_bool:
        bits = x.cast(dtypes.uint8)
        return over(bits, {"and": "min", "or": "max"}.get(kind, kind)).cast(dtype)
    if kind in ("max", "min") and dtype.is_float:
        wide = x if dtype.bits >= 32 else x.cast(dtypes.float32)
        return _from_keys(over(_keys(wide, kind)), wide.dtype).cast(dtype)
    is_gathered = (kind in _BITWISE and not processors) or (
        kind == "prod" and dtype.is_complex and not processors
    )
    if is_gathered:
        return _gathered_and_reduced(x, of, kind, parts)
    if dtype.name in (_ADDED if kind in ("sum", "prod") else _COMPARED)[processors]:
        return None
    wide_dtype = dtypes.float32 if dtype.is_float else dtypes.int32 if dtype.is_signed else dtypes.uint32
    return over(x.cast(wide_dtype)).cast(dtype)


def _keys(x: GraphValue, kind: str) -> GraphValue:
    """Integers that compare as floats do; NaN is the one that wins."""
    integer = dtypes.int64 if x.dtype.bits == 64 else dtypes.int32
    top = int(integer.max or 0)
    bits = x.bitcast(integer)
    winner = x.graph.full((), top if kind == "max" else -top - 1, integer).broadcast_like(x)
    return x.ne(x).select(winner, bits.lt(0).select(bits.xor(top), bits))


def _from_keys(key: GraphValue, dtype: DType) -> GraphValue:
    top = int(key.dtype.max or 0)
    return key.lt(0).select(key.xor(top), key).bitcast(dtype)


def _gathered_and_reduced(x: GraphValue, of: CollectiveAttrs, kind: str, parts: int) -> GraphValue:
    count = group_size(of.mesh, of.over)
    if parts:  # everyone gets all parts of one place
        rest = [cast("int", x.dims[0]) // parts, *x.dims[1:]]
        gathered = x.all_to_all(of.mesh, of.over, 0, 0).reshape([count, *rest])
    else:
        gathered = x.reshape([1, *x.dims]).all_gather(of.mesh, of.over, 0)
    return cast("GraphValue", getattr(gathered, f"reduce_{kind}")([0]))


def _gathered(operands: Sequence[GraphValue], attrs: Attrs, processors: bool) -> Carried:
    of, (x,) = cast("ops.AllGatherAttrs", attrs), operands
    if of.axis == 0:
        return None
    rows = x.reshape([1, *x.dims]).all_gather(of.mesh, of.over, 0)
    return _joined(rows, of.axis)


def _exchanged(operands: Sequence[GraphValue], attrs: Attrs, processors: bool) -> Carried:
    of, (x,) = cast("ops.AllToAllAttrs", attrs), operands
    if of.split == of.concat == 0:
        return None
    front = _parts_first(x, of.split, group_size(of.mesh, of.over))
    return _joined(front.all_to_all(of.mesh, of.over, 0, 0), of.concat)


def _parts_first(x: GraphValue, axis: int, count: int) -> GraphValue:
    """An axis cut into parts, which are the first axis."""
    size: DimLike = x.dims[axis] // count
    return move_axis(x.reshape([*x.dims[:axis], count, size, *x.dims[axis + 1 :]]), axis, 0)


def _joined(rows: GraphValue, axis: int) -> GraphValue:
    """Rows one after the other along one of their axes."""
    count, *dims = rows.dims
    dims[axis] = dims[axis] * count
    return move_axis(rows, 0, axis).reshape(dims)


CARRIED: Final[dict[str, Callable[[Sequence[GraphValue], Attrs, bool], Carried]]] = {
    "all_reduce": _reduced,
    "reduce_scatter": _scattered,
    "all_gather": _gathered,
    "all_to_all": _exchanged,
}
"""By op: operands, attributes, and whether ranks are processors."""

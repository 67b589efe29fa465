"""What library functions share: sizes as numbers, index dtypes, gathering without worry, keys that compare as values do.

Every function here works for static and for named sizes, sizes that may be 0 included.
"""

from __future__ import annotations

from collections.abc import Sequence

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.dims import DimLike, bounds
from planish.ptir.graph_value import GraphValue
from planish.ptir.handle import Number

# Positions, and a few of them added up, stay inside int32 up to here.
_NARROW = 1 << 30


def index_dtype(size: DimLike) -> DType:
    """The integer in which positions along an axis of that size are counted: int32 where it suffices."""
    return dtypes.int32 if bounds(size)[1] <= _NARROW else dtypes.int64


def may_be_empty(size: DimLike) -> bool:
    return bounds(size)[0] <= 0


def size_of(x: GraphValue, axis: int, dtype: DType = dtypes.int64) -> GraphValue:
    """The size of an axis as a scalar."""
    size = x.dims[axis]
    return x.graph.full((), size, dtype) if isinstance(size, int) else x.dimension_size(axis).cast(dtype)


def normal_axis(x: GraphValue, axis: int) -> int:
    """An axis counted from the front."""
    return axis % x.rank if x.rank else axis


def move_axis(x: GraphValue, source: int, target: int) -> GraphValue:
    """One axis somewhere else, the others in order."""
    if source == target:
        return x
    perm = [axis for axis in range(x.rank) if axis != source]
    perm.insert(target, source)
    return x.transpose(perm)


def along(line: GraphValue, dims: Sequence[DimLike], axis: int) -> GraphValue:
    """A vector laid along one axis of a shape and repeated along the others."""
    column: list[DimLike] = [1] * len(dims)
    column[axis] = line.dims[0]
    return line.reshape(column).broadcast_to(dims)


def placed(x: GraphValue, axes: Sequence[int], dims: Sequence[DimLike]) -> GraphValue:
    """Axis n of a value as axis `axes[n]` of a shape, repeated along the others."""
    if x.rank:
        order = sorted(range(x.rank), key=lambda n: axes[n])
        column: list[DimLike] = [1] * len(dims)
        for axis, place in enumerate(axes):
            column[place] = x.dims[axis]
        x = x if order == list(range(x.rank)) else x.transpose(order)
        x = x if x.dims == tuple(column) else x.reshape(column)
    return spread(x, dims)


def spread(x: GraphValue, dims: Sequence[DimLike]) -> GraphValue:
    """A value in those dims."""
    return x if x.dims == tuple(dims) else x.broadcast_to(tuple(dims))


def cast(x: GraphValue, dtype: DType) -> GraphValue:
    """A cast, where it is one: bools are what is not zero, and complex numbers lose their imaginary part."""
    if x.dtype is dtype:
        return x
    if dtype.is_bool:
        return x.ne(0)
    return cast(x.real(), dtype) if x.dtype.is_complex and not dtype.is_complex else x.cast(dtype)


def plain(number: Number, dtype: DType) -> Number:
    """A number as one of a dtype: integers wrap, floats become integers by dropping the fraction."""
    if dtype.is_bool:
        return bool(number)
    if dtype.is_complex:
        return complex(number)
    return float(number.real) if dtype.is_float else dtype.wrap(int(number.real))


def gather(x: GraphValue, indices: Sequence[GraphValue], axes: Sequence[int]) -> GraphValue:
    """`gather` that also takes axes that may be empty: nothing is then read that anybody looks at."""
    filler = [1 if axis in axes and may_be_empty(dim) else 0 for axis, dim in enumerate(x.dims)]
    if any(filler):
        x = x.pad([0] * x.rank, filler)
    return x.gather(indices, list(axes))


def take_along_axis(x: GraphValue, index: GraphValue, axis: int) -> GraphValue:
    """Per line along `axis`, the elements that the indices of that line name."""
    graph = x.graph
    indices = [
        index if position == axis else graph.iota(index.dims, position, index.dtype)
        for position in range(x.rank)
    ]
    return gather(x, indices, range(x.rank))


def order_key(x: GraphValue) -> GraphValue:
    """Integers that compare as the values do, NaN above all, -0 equal to +0 (semantics 9.1)."""
    dtype = x.dtype
    if dtype.is_bool:
        return x.cast(dtypes.uint8)
    if dtype.is_int:
        return x if dtype.bits >= 8 else x.cast(dtypes.int8 if dtype.is_signed else dtypes.uint8)
    wide = x if dtype.bits >= 32 else x.cast(dtypes.float32)
    integer = dtypes.int64 if wide.dtype.bits == 64 else dtypes.int32
    top = int(integer.max or 0)
    zero = x.graph.full(wide.dims, 0.0, wide.dtype)
    bits = wide.eq(zero).select(zero, wide).bitcast(integer)
    key = bits.lt(0).select(bits.xor(top), bits)
    return wide.is_nan().select(x.graph.full(wide.dims, top, integer), key)

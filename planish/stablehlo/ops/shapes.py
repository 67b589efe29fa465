"""Data movement: broadcasting, reshaping, slicing, padding, joining, counting; with sizes that are constants or follow from sizes."""

from __future__ import annotations

from collections.abc import Sequence

from planish import dtypes
from planish.ptir.dims import DimLike
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import placed
from planish.stablehlo.registry import lowering
from planish.stablehlo.site import Site, cast

Ints = Sequence[int]


@lowering("stablehlo.broadcast_in_dim")
def broadcast_in_dim(at: Site, x: V, *, broadcast_dimensions: Ints) -> V:
    if at.importer.lifted:
        return x
    return placed(x, broadcast_dimensions, at.dims)


@lowering("stablehlo.broadcast")
def broadcast(at: Site, x: V, *, broadcast_sizes: Ints) -> V:
    return x.broadcast_to((*broadcast_sizes, *x.dims))


@lowering("stablehlo.dynamic_broadcast_in_dim")
def dynamic_broadcast_in_dim(
    at: Site,
    x: V,
    shape: V,
    *,
    broadcast_dimensions: Ints,
    known_expanding_dimensions: Ints = (),
    known_nonexpanding_dimensions: Ints = (),
) -> V:
    return placed(x, broadcast_dimensions, at.sizes(1))


@lowering("stablehlo.reshape")
def reshape(at: Site, x: V) -> V:
    return x if at.importer.lifted else x.reshape(at.dims)


@lowering("stablehlo.dynamic_reshape")
def dynamic_reshape(at: Site, x: V, shape: V) -> V:
    return x.reshape(at.sizes(1))


@lowering("stablehlo.transpose")
def transpose(at: Site, x: V, *, permutation: Ints) -> V:
    return x if list(permutation) == list(range(x.rank)) else x.transpose(permutation)


@lowering("stablehlo.reverse")
def reverse(at: Site, x: V, *, dimensions: Ints) -> V:
    return x.reverse(list(dimensions)) if dimensions else x


@lowering("stablehlo.concatenate")
def concatenate(at: Site, *operands: V, dimension: int) -> V:
    return at.graph.concat(operands, dimension)


@lowering("stablehlo.slice")
def slice_(at: Site, x: V, *, start_indices: Ints, limit_indices: Ints, strides: Ints = ()) -> V:
    return x.slice(start_indices, limit_indices, strides or [1] * x.rank)


@lowering("stablehlo.real_dynamic_slice")
def real_dynamic_slice(at: Site, x: V, starts: V, limits: V, strides: V) -> V:
    steps = at.sizes(3)
    if not all(isinstance(s, int) for s in steps):
        at.refuse("strides must be known")
    return x.slice(at.sizes(1), at.sizes(2), [int(s) for s in steps])


@lowering("stablehlo.pad")
def pad(
    at: Site, x: V, value: V, *, edge_padding_low: Ints, edge_padding_high: Ints, interior_padding: Ints
) -> V:
    return _padded(x, value, edge_padding_low, edge_padding_high, interior_padding)


def _padded(x: V, value: V, low: Sequence[DimLike], high: Sequence[DimLike], interior: Ints) -> V:
    if x.dtype.is_bool:
        wide = cast(x, dtypes.uint8).pad(low, high, interior, cast(value, dtypes.uint8))
        return wide.ne(0)
    return x.pad(low, high, interior, value)


@lowering("stablehlo.dynamic_pad")
def dynamic_pad(at: Site, x: V, value: V, low: V, high: V, interior: V) -> V:
    between = at.sizes(4)
    if not all(isinstance(n, int) for n in between):
        at.refuse("interior padding must be known")
    return _padded(x, value, at.sizes(2), at.sizes(3), between)  # type: ignore[arg-type]


@lowering("stablehlo.iota")
def iota(at: Site, *, iota_dimension: int) -> V:
    return _counting(at, at.dims, iota_dimension)


@lowering("stablehlo.dynamic_iota")
def dynamic_iota(at: Site, shape: V, *, iota_dimension: int) -> V:
    return _counting(at, at.sizes(0), iota_dimension)


def _counting(at: Site, dims: Sequence[DimLike], axis: int) -> V:
    if at.dtype.is_complex or at.dtype.is_bool or at.dtype.bits < 8:
        return cast(at.graph.iota(dims, axis, dtypes.int64), at.dtype)
    return at.graph.iota(dims, axis, at.dtype)


@lowering("stablehlo.get_dimension_size")
def get_dimension_size(at: Site, x: V, *, dimension: int) -> V:
    size = x.dims[dimension]
    if isinstance(size, int):
        return at.full((), size, at.dtype)
    return cast(x.dimension_size(dimension), at.dtype)


@lowering("stablehlo.set_dimension_size")
def set_dimension_size(at: Site, x: V, size: V, *, dimension: int) -> V:
    """The first so many entries of an axis."""
    known = at.importer.sizes.integers(at.op.operands[1], at.importer.frame)
    if known is None:
        name = f"n{x.graph.function.name}_{x.id}"
        return x.bind_dim(cast(size, dtypes.int64), dimension, name)
    starts, limits = [0] * x.rank, list(x.dims)
    limits[dimension] = known[0]
    return x.slice(starts, limits)


@lowering("stablehlo.dynamic_slice")
def dynamic_slice(at: Site, x: V, *starts: V, slice_sizes: Ints) -> V:
    if not starts:
        return x
    return x.dynamic_slice(list(starts), slice_sizes)


@lowering("stablehlo.dynamic_update_slice")
def dynamic_update_slice(at: Site, x: V, update: V, *starts: V) -> V:
    return x.dynamic_update_slice(update, list(starts)) if starts else update

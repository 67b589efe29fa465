"""What one rank computes of an instruction whose factors are cut: the op on parts, and what that takes besides.

Most ops are themselves on parts. Others hold sizes in their attributes, count from where a rank's part begins, or exchange edges
with neighbours. Where a factor is summed over, results are parts of a sum: `narrow` floats are then summed in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from planish import dtypes
from planish.ptir import ops
from planish.ptir.builder import Graph
from planish.ptir.function import Inst
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.ops.collective import MeshAxes, SpecAxes, group_size
from planish.ptir.ops.contract import convolution_axes
from planish.ptir.ops.literal import Literal
from planish.ptir.sharding.factors import Factors, halos
from planish.ptir.sharding.reshard import offset, take
from planish.ptir.types import DimLike, TensorType

Cut = Mapping[int, tuple[str, ...]]
"""The axes of the mesh that each factor is cut along."""


class LocalInst:
    """An instruction on parts: `x` are those of its operands, `types` those of its results."""

    __slots__ = ("cut", "factors", "graph", "inst", "mesh", "types", "x")

    def __init__(
        self,
        graph: Graph,
        mesh: MeshAxes,
        inst: Inst,
        factors: Factors,
        cut: Cut,
        x: Sequence[V],
        types: Sequence[TensorType],
    ) -> None:
        self.graph, self.mesh, self.inst, self.factors, self.cut = graph, mesh, inst, factors, cut
        self.x, self.types = list(x), list(types)

    @property
    def attrs(self) -> Any:
        return self.inst.attrs

    def over(self, axis: tuple[int, ...]) -> tuple[str, ...]:
        """How an axis is cut."""
        return self.cut.get(axis[0], ()) if axis else ()

    def emit(self, **changes: object) -> tuple[V, ...]:
        """The op itself, with some attributes changed."""
        attrs = replace(self.attrs, **changes) if changes else self.attrs
        return self.graph.emit_many(self.inst.op, self.x, attrs)


Emit = Callable[[LocalInst], Sequence[V]]


def emit_local(at: LocalInst) -> Sequence[V]:
    """The results on one rank, before what is summed over is combined."""
    return LOCAL.get(at.inst.op.name, LocalInst.emit)(at)


def _sized(field: str) -> Emit:
    """An op whose attributes hold the shape of its result."""
    return lambda at: at.emit(**{field: at.types[0].dims})


def _constant(at: LocalInst) -> Sequence[V]:
    literal: Literal = at.attrs.literal
    cut = {axis: over for axis, factor in enumerate(at.factors.results[0]) if (over := at.over(factor))}
    if not cut or literal.splat:
        shape = cast("tuple[int, ...]", at.types[0].dims)
        return at.emit(literal=literal.with_shape(shape)) if cut else at.emit()
    return [take(at.graph, at.mesh, at.emit()[0], cut)]


def _iota(at: LocalInst) -> Sequence[V]:
    attrs: ops.IotaAttrs = at.attrs
    over = at.over(at.factors.results[0][attrs.axis])
    if not over:
        return at.emit(dims=at.types[0].dims)
    size = int(str(at.types[0].dims[attrs.axis]))
    # counted in int64 and converted once, as all of it would be
    line = at.graph.iota(at.types[0].dims, attrs.axis)
    count = line.add(offset(at.graph, at.mesh, over, size).broadcast_to(line.dims))
    return [count if attrs.dtype is dtypes.int64 else count.cast(attrs.dtype)]


def _slice(at: LocalInst) -> Sequence[V]:
    dims = at.inst.operands[0].type.dims
    limits = [
        own if limit == dim else limit
        for limit, dim, own in zip(at.attrs.limits, dims, at.x[0].dims, strict=True)
    ]
    return at.emit(limits=tuple(limits))


def _dimension_size(at: LocalInst) -> Sequence[V]:
    if not at.over(at.factors.operands[0][at.attrs.axis]):
        return at.emit()
    return [at.graph.full((), int(str(at.inst.operands[0].type.dims[at.attrs.axis])), dtypes.int64)]


def _wide(at: LocalInst) -> TensorType | None:
    """What a sum is computed in on the way, if that is not the type of the result."""
    summed = any(number in at.cut and at.cut[number] for number in at.factors.reduced)
    dtype = at.types[0].dtype
    if not summed or not dtype.is_float or dtype.bits >= 32:
        return None
    return TensorType(dtypes.float32, at.types[0].dims)


def _reduce(at: LocalInst) -> Sequence[V]:
    wide = _wide(at)
    if wide is not None and at.inst.op.name in ("reduce_sum", "reduce_prod"):
        at.x[0] = at.x[0].cast(wide.dtype)
    return at.emit()


def _contraction(at: LocalInst, **changes: object) -> Sequence[V]:
    """Sums of parts stay in the dtype they are added up in."""
    if any(at.cut.get(number) for number in at.factors.reduced):
        changes["out_dtype"] = at.attrs.accum_dtype
    return at.emit(**changes)


def _convolution(at: LocalInst) -> Sequence[V]:
    """Along an axis of space that is cut, neighbours lend their edges; at the ends there are zeros, as padding is."""
    low, high = list(at.attrs.low), list(at.attrs.high)
    axes = convolution_axes(at.attrs, at.x[0].rank)[0][2:]
    for number, (axis, halo) in enumerate(zip(axes, halos(at.inst), strict=True)):
        over = at.over(at.factors.operands[0][axis])
        if over and halo is not None:
            at.x[0] = _with_edges(at, at.x[0], axis, *halo, over)
            low[number] = high[number] = 0
    return _contraction(at, low=tuple(low), high=tuple(high))


def _with_edges(at: LocalInst, value: V, axis: int, before: int, behind: int, over: tuple[str, ...]) -> V:
    """A part with elements of its neighbours on either side; fewer than none are cropped."""
    count, size = group_size(at.mesh, over), int(str(value.dims[axis]))
    parts = [_piece(value, axis, 0, size + min(behind, 0))]
    if before:
        edge = _piece(value, axis, size - before, size)
        parts.insert(0, edge.permute(at.mesh, over, [(k, k + 1) for k in range(count - 1)]))
    if behind > 0:
        edge = _piece(value, axis, 0, behind)
        parts.append(edge.permute(at.mesh, over, [(k + 1, k) for k in range(count - 1)]))
    return parts[0].concat(parts[1:], axis) if len(parts) > 1 else parts[0]


def _gather(at: LocalInst) -> Sequence[V]:
    """Indices count from where a rank's part begins; what is looked up in parts of others is 0, and bits are summed."""
    x, *indices = at.x
    cuts = [at.over(at.factors.operands[0][axis]) for axis in at.attrs.axes]
    if not any(cuts):
        return at.emit()
    inside: V | None = None
    local_indices: list[V] = []
    for index, axis, over in zip(indices, at.attrs.axes, cuts, strict=True):
        size = int(str(x.dims[axis])) if over else 0
        own, there = (
            _own_index(at, index, over, size, size * group_size(at.mesh, over))
            if over
            else (_wide_index(index), None)
        )
        if over and at.factors.operands[0][axis][0] in at.factors.reduced:
            own, inside = own.max(0).min(size - 1), there
        local_indices.append(own)
    taken = x.gather(local_indices, at.attrs.axes)
    if inside is None:
        return [taken]
    mask = inside.reshape([*inside.dims, *[1] * (taken.rank - inside.rank)]).broadcast_to(taken.dims)
    bits = _as_integers(taken)
    return [mask.select(bits, at.graph.full(bits.dims, 0, bits.dtype))]


def _wide_index(index: V) -> V:
    """An index as int64; what is beyond that is beyond every axis."""
    if index.dtype is dtypes.uint64:
        index = index.min((1 << 63) - 1)
    return index if index.dtype is dtypes.int64 else index.cast(dtypes.int64)


def _own_index(at: LocalInst, index: V, over: tuple[str, ...], size: int, total: int) -> tuple[V, V]:
    """An index counted from where the rank's part begins, after clamping, and whether it is in it."""
    wide = _wide_index(index)
    own = wide.max(0).min(total - 1).sub(offset(at.graph, at.mesh, over, size).broadcast_to(wide.dims))
    return own, own.ge(0).and_(own.lt(size))


_WORDS: Final = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.int32, 64: dtypes.int64}


def _as_integers(x: V) -> V:
    """The bits of values as integers of at least 32 bits."""
    word = _WORDS[max(x.dtype.bits, 8)]
    bits = x.cast(word) if x.dtype.is_bool else x if x.dtype.is_int else x.bitcast(word)
    return bits if bits.dtype.bits >= 32 else bits.cast(dtypes.int32)


def finish(at: LocalInst, value: V, result: int) -> V:
    """A combined result in the dtype that it is to have."""
    wanted = at.inst.results[result].type.dtype
    if value.dtype is wanted:
        return value
    if at.inst.op is not ops.gather:
        return value.cast(wanted)
    if wanted.is_bool or wanted.is_int:
        return value.cast(wanted)
    word = _WORDS[wanted.bits]
    return (value if value.dtype is word else value.cast(word)).bitcast(wanted)


def _scatter(at: LocalInst) -> Sequence[V]:
    """Indices count from where a rank's part begins; what is summed up by several counts the operand once."""
    x, updates, *indices = at.x
    cuts = [at.over(at.factors.operands[0][axis]) for axis in at.attrs.axes]
    if any(cuts):
        indices = [_wide_index(index) for index in indices]
    for place, (axis, over) in enumerate(zip(at.attrs.axes, cuts, strict=True)):
        if over:
            wide = indices[place]
            begin = offset(at.graph, at.mesh, over, int(str(x.dims[axis]))).broadcast_to(wide.dims)
            # what is out of range must stay so: below every part
            indices[place] = wide.lt(0).select(at.graph.full(wide.dims, -1, dtypes.int64), wide.sub(begin))
    summed = tuple(dict.fromkeys(name for number in at.factors.reduced for name in at.cut.get(number, ())))
    if summed:
        first = at.graph.mesh_index(at.mesh, summed).eq(0).broadcast_to(x.dims)
        x = first.select(x, at.graph.full(x.dims, 0, x.dtype))
    return [x.scatter(updates, indices, at.attrs.axes, at.attrs.kind, at.attrs.unique_indices)]


def _pad(at: LocalInst) -> Sequence[V]:
    """Along an axis that is cut, a shift takes the edge of a neighbour's part; the first, or last, is padded."""
    value, low, high = at.x[0], list(at.attrs.low), list(at.attrs.high)
    fill = at.x[1]
    for axis, factor in enumerate(at.factors.operands[0]):
        over = at.over(factor)
        if over and low[axis]:
            value = _shift(at, value, fill, axis, int(str(low[axis])), over)
            low[axis] = high[axis] = 0
    at.x = [value, fill]
    return at.emit(low=tuple(low), high=tuple(high))


def _shift(at: LocalInst, value: V, fill: V, axis: int, by: int, over: tuple[str, ...]) -> V:
    """Along an axis by at most the size of a part."""
    count, size, reach = group_size(at.mesh, over), int(str(value.dims[axis])), abs(by)
    up = by > 0
    edge = _piece(value, axis, size - reach, size) if up else _piece(value, axis, 0, reach)
    pairs = [(k, k + 1) if up else (k + 1, k) for k in range(count - 1)]
    given = edge.permute(at.mesh, over, pairs)
    last = at.graph.mesh_index(at.mesh, over).eq(0 if up else count - 1).broadcast_to(given.dims)
    given = last.select(fill.broadcast_to(given.dims), given)
    if reach == size:
        return given
    rest = _piece(value, axis, 0, size - reach) if up else _piece(value, axis, reach, size)
    return given.concat([rest], axis) if up else rest.concat([given], axis)


def _piece(value: V, axis: int, start: int, limit: int) -> V:
    starts, limits = [0] * value.rank, list(value.dims)
    starts[axis], limits[axis] = start, limit
    return value.slice(starts, limits)


def can_shift(inst: Inst, factors: Factors, cut: Cut, mesh: MeshAxes) -> bool:
    """Whether shifts along axes that are cut stay within one neighbour."""
    if not factors.shifted:
        return True
    if inst.op is ops.convolution:
        return _can_lend(inst, factors, cut, mesh)
    low: Sequence[DimLike] = inst.attrs.low  # type: ignore[attr-defined]
    for axis, factor in enumerate(factors.operands[0]):
        over = cut.get(factor[0], ()) if factor else ()
        size = inst.operands[0].type.dims[axis]
        if over and low[axis] and abs(int(str(low[axis]))) > int(str(size)) // group_size(mesh, over):
            return False
    return True


def _can_lend(inst: Inst, factors: Factors, cut: Cut, mesh: MeshAxes) -> bool:
    attrs = cast("ops.ConvolutionAttrs", inst.attrs)
    axes = convolution_axes(attrs, inst.operands[0].type.rank)[0][2:]
    for axis, halo in zip(axes, halos(inst), strict=True):
        factor = factors.operands[0][axis]
        over = cut.get(factor[0], ()) if factor else ()
        if over and halo is not None:
            size = int(str(inst.operands[0].type.dims[axis])) // group_size(mesh, over)
            if max(halo) > size or -halo[1] >= size:
                return False
    return True


LOCAL: Final[dict[str, Emit]] = {
    "constant": _constant,
    "iota": _iota,
    "reshape": _sized("dims"),
    "broadcast_to": _sized("dims"),
    "dynamic_slice": _sized("sizes"),
    "slice": _slice,
    "dimension_size": _dimension_size,
    **dict.fromkeys([op.name for op in ops.REGISTRY.values() if op.key is ops.OpKey.REDUCE], _reduce),
    "dot_general": _contraction,
    "convolution": _convolution,
    "gather": _gather,
    "scatter": _scatter,
    "pad": _pad,
}
"""Ops that are not just themselves on parts."""

__all__ = ["Cut", "LocalInst", "SpecAxes", "can_shift", "emit_local", "finish"]

"""How each op takes a batch: the same op with one more axis in front, or the ops that do the same for all examples at once.

A batched value has the batch as axis 0. Rules are asked only when at least one operand is batched; `Batch.all` gives the
others the axis too. A result is batched unless its rule says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from planish import dtypes
from planish.errors import GraphError
from planish.frontend.replay import Replay, clamped, dim_value, index64, size_along
from planish.ptir import ops
from planish.ptir.dims import DimLike, bounds, product
from planish.ptir.function import Inst
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.random_bits import threefry2x32
from planish.ptir.ops.contract import convolution_axes, free_axes
from planish.ptir.types import Quant, TensorType


@dataclass(slots=True)
class Batch:
    """An instruction with its operands as values of the new graph, and which of them are batched."""

    graph: Replay
    inst: Inst
    size: DimLike
    x: tuple[V, ...]
    batched: tuple[bool, ...]

    @property
    def attrs(self) -> Any:
        """Its attributes, of the type its op has."""
        return self.inst.attrs

    def all(self) -> list[V]:
        """Every operand with the batch in front."""
        return [x if flag else spread(x, self.size) for x, flag in zip(self.x, self.batched, strict=True)]

    def emit(self, operands: Sequence[V], attrs: ops.Attrs | None = None) -> V:
        """The op itself, on other operands."""
        return self.graph.emit(self.inst.op, operands, self.inst.attrs if attrs is None else attrs)

    def fail(self, why: str, remedy: str) -> GraphError:
        """The error for an op that cannot be batched here."""
        return GraphError(why, op=self.inst.op.name, location=self.inst.loc, remedy=remedy)


Rule = Callable[[Batch], Sequence[V]]


def spread(x: V, size: DimLike) -> V:
    """A value repeated for every example."""
    return x.broadcast_to((size, *x.dims))


def batched_type(type: TensorType, size: DimLike) -> TensorType:
    """The type of a value with a batch in front."""
    return TensorType(type.dtype, (size, *type.dims), _moved(type.quant))


def _moved(quant: Quant | None) -> Quant | None:
    if quant is None or quant.axis is None:
        return quant
    return replace(quant, axis=quant.axis + 1)


def moved_axis(x: V, source: int, target: int) -> V:
    """One axis elsewhere, the others in order."""
    order = [axis for axis in range(x.rank) if axis != source]
    order.insert(target, source)
    return x if order == sorted(order) else x.transpose(order)


# -- the same op, one axis further -----------------------------------------------------------------------------


def _same(b: Batch) -> Sequence[V]:
    """Elementwise, or about trailing axes: nothing changes."""
    return b.graph.emit_many(b.inst.op, b.all(), b.inst.attrs)


def _shifted(*fields: str) -> Rule:
    """Axes in these attributes count from one further on."""

    def rule(b: Batch) -> Sequence[V]:
        changes: dict[str, object] = {}
        for name in fields:
            old = getattr(b.attrs, name)
            changes[name] = old + 1 if isinstance(old, int) else tuple(axis + 1 for axis in old)
        return b.graph.emit_many(b.inst.op, b.all(), replace(b.attrs, **changes))

    return rule


def _prefixed(**fields: object) -> Rule:
    """Lists per axis have one entry more in front; the name of a field stands for the size of the batch where it is None."""

    def rule(b: Batch) -> Sequence[V]:
        changes = {
            name: (b.size if first is None else first, *getattr(b.attrs, name))
            for name, first in fields.items()
        }
        return [b.emit([b.x[0]], replace(b.attrs, **changes))]

    return rule


def _to_device(b: Batch) -> Sequence[V]:
    """Where a second operand lies does not depend on its batch."""
    return [b.emit([b.x[0] if b.batched[0] else spread(b.x[0], b.size), *b.x[1:]])]


def _broadcast_to(b: Batch) -> Sequence[V]:
    (x,) = b.x
    lead = len(b.attrs.dims) - (x.rank - 1)
    wide = x.reshape([b.size, *[1] * lead, *x.dims[1:]]) if lead else x
    return [wide.broadcast_to([b.size, *b.attrs.dims])]


def _pad(b: Batch) -> Sequence[V]:
    x, value = b.x
    attrs = b.attrs
    wide = ops.PadAttrs((0, *attrs.low), (0, *attrs.high), (0, *attrs.interior))
    if not b.batched[1]:
        return [b.graph.emit(ops.pad, (x, value), wide)]
    # the op pads with one number: pad with anything, and put each example's own where nothing is
    filler = b.graph.full((), False if x.dtype.is_bool else 0, x.dtype)
    padded = b.graph.emit(ops.pad, (x, filler), wide if b.batched[0] else attrs)
    inside = b.graph.full(x.dims, True, dtypes.bool_)
    inside = b.graph.emit(
        ops.pad, (inside, b.graph.full((), False, dtypes.bool_)), wide if b.batched[0] else attrs
    )
    if not b.batched[0]:
        padded, inside = spread(padded, b.size), spread(inside, b.size)
    own = value.reshape([b.size, *[1] * (padded.rank - 1)]).broadcast_to(padded.dims)
    return [inside.select(padded, own)]


def _quantized(b: Batch) -> Sequence[V]:
    return [b.emit(b.x, replace(b.attrs, quant=_moved(b.attrs.quant)))]


def _bind_dim(b: Batch) -> Sequence[V]:
    if b.batched[1]:
        raise b.fail(
            "a size that differs from example to example cannot be batched",
            "keep the padded buffer and its count, or map over the examples with planish.map",
        )
    return [b.emit(b.x, replace(b.attrs, axis=b.attrs.axis + 1))]


# -- contractions ----------------------------------------------------------------------------------------------


def _dot_general(b: Batch) -> Sequence[V]:
    attrs: ops.DotGeneralAttrs = b.attrs
    left, right = (1 if flag else 0 for flag in b.batched)
    wanted = replace(
        attrs,
        lhs_batch=tuple(axis + left for axis in attrs.lhs_batch),
        rhs_batch=tuple(axis + right for axis in attrs.rhs_batch),
        lhs_contract=tuple(axis + left for axis in attrs.lhs_contract),
        rhs_contract=tuple(axis + right for axis in attrs.rhs_contract),
    )
    if left and right:
        wanted = replace(wanted, lhs_batch=(0, *wanted.lhs_batch), rhs_batch=(0, *wanted.rhs_batch))
        return [b.emit(b.x, wanted)]
    result = b.emit(b.x, wanted)
    # the batch is the first free axis of its operand
    place = len(attrs.lhs_batch)
    if right:
        place += len(free_axes(b.x[0].rank, attrs.lhs_batch, attrs.lhs_contract))
    return [moved_axis(result, place, 0)]


def _convolution(b: Batch) -> Sequence[V]:
    """Into the batch of the convolution, its output features, or its groups."""
    attrs: ops.ConvolutionAttrs = b.attrs
    lhs, rhs = b.x
    rank = len(b.inst.operands[0].type.dims)
    lhs_axes, rhs_axes, out_axes = convolution_axes(attrs, rank)
    space = "abcdefgh"[: rank - 2]
    plain = replace(attrs, lhs_layout="NC" + space, rhs_layout="OI" + space, out_layout="NC" + space)
    lhs = _ordered(lhs, lhs_axes, b.batched[0])
    rhs = _ordered(rhs, rhs_axes, b.batched[1])
    groups = attrs.groups
    if not b.batched[1]:
        _, examples, *rest = lhs.dims
        result = b.emit([lhs.reshape([b.size * examples, *rest]), rhs], plain)
        result = result.reshape([b.size, examples, *result.dims[1:]])
    elif not b.batched[0]:
        _, outputs, *rest = rhs.dims
        kernel = rhs.reshape([b.size, groups, outputs // groups, *rest])
        kernel = moved_axis(kernel, 0, 1).reshape([b.size * outputs, *rest])
        result = b.emit([lhs, kernel], plain)
        examples, _, *rest = result.dims
        result = result.reshape([examples, groups, b.size, outputs // groups, *rest])
        result = moved_axis(result, 2, 0).reshape([b.size, examples, outputs, *rest])
    else:
        # a group per example: which must be a number
        if not isinstance(b.size, int):
            raise b.fail(
                "a convolution whose operand and kernel are both batched needs a batch of fixed size",
                "map over the examples with planish.map",
            )
        _, examples, inputs, *rest = lhs.dims
        lhs = moved_axis(lhs, 0, 1).reshape([examples, b.size * inputs, *rest])
        _, outputs, *rest = rhs.dims
        result = b.emit([lhs, rhs.reshape([b.size * outputs, *rest])], replace(plain, groups=b.size * groups))
        examples, _, *rest = result.dims
        result = moved_axis(result.reshape([examples, b.size, outputs, *rest]), 1, 0)
    back = [out_axes.index(axis) for axis in range(rank)]
    return [result.transpose([0, *(axis + 1 for axis in back)])]


def _ordered(x: V, axes: Sequence[int], batched: bool) -> V:
    return x.transpose([0, *(axis + 1 for axis in axes)]) if batched else x.transpose(axes)


# -- indexing --------------------------------------------------------------------------------------------------


def _examples(b: Batch, dims: Sequence[DimLike]) -> V:
    """The number of the example, in the shape of batched indices."""
    return b.graph.iota(dims, 0)


def _nothing(b: Batch) -> V:
    """A result that has no elements."""
    type = b.inst.results[0].type
    return b.graph.full([b.size, *type.dims], False if type.dtype.is_bool else 0, type.dtype)


def _indices(b: Batch, first: int) -> tuple[list[V], bool]:
    """Index operands from a position on, batched if any is."""
    flags, given = b.batched[first:], b.x[first:]
    if not any(flags):
        return list(given), False
    return [x if flag else spread(x, b.size) for x, flag in zip(given, flags, strict=True)], True


def _gather(b: Batch) -> Sequence[V]:
    x, axes = b.x[0], b.attrs.axes
    if 0 in b.inst.results[0].type.dims:
        return [_nothing(b)]
    indices, batched = _indices(b, 1)
    further = tuple(axis + 1 for axis in axes)
    if not b.batched[0]:
        return [b.emit([x, *indices])]
    if not batched:
        gathered = b.emit([x, *indices], ops.GatherAttrs(further))
        return [moved_axis(gathered, indices[0].rank, 0)]
    # clamped by hand, as all indices take one dtype and the number of an example may need more than theirs
    wide = clamped(x, indices, further)
    if bounds(b.size)[0] == 0:
        x = x.pad([0] * x.rank, [1, *[0] * (x.rank - 1)])
    return [b.emit([x, _examples(b, indices[0].dims), *wide], ops.GatherAttrs((0, *further)))]


def _scatter(b: Batch) -> Sequence[V]:
    attrs: ops.ScatterAttrs = b.attrs
    x = b.x[0] if b.batched[0] else spread(b.x[0], b.size)
    updates = b.x[1] if b.batched[1] else spread(b.x[1], b.size)
    indices, batched = _indices(b, 2)
    further = tuple(axis + 1 for axis in attrs.axes)
    if not batched:
        # index axes come first, then the batch, which no index addresses
        updates = moved_axis(updates, 0, indices[0].rank)
        return [b.emit([x, updates, *indices], replace(attrs, axes=further))]
    wide = [_unclamped(x, index, axis) for index, axis in zip(indices, further, strict=True)]
    operands = [x, updates, _examples(b, indices[0].dims), *wide]
    return [b.emit(operands, replace(attrs, axes=(0, *further)))]


def _unclamped(x: V, index: V, axis: int) -> V:
    """An index as int64: what lies outside stays outside."""
    if index.dtype is dtypes.uint64:
        return index.min(size_along(x, axis, index.dims).cast(dtypes.uint64)).cast(dtypes.int64)
    return index if index.dtype is dtypes.int64 else index.cast(dtypes.int64)


def _dynamic_slice(b: Batch) -> Sequence[V]:
    x, sizes = b.x[0], b.attrs.sizes
    starts, batched = _indices(b, 1)
    if not batched:
        zero = b.graph.full((), 0, starts[0].dtype if starts else dtypes.int64)
        return [b.emit([x, zero, *starts], ops.DynamicSliceAttrs((b.size, *sizes)))]
    lead = int(b.batched[0])
    if 0 in sizes:
        return [_nothing(b)]
    axes, index = _window(b, x, starts, sizes, lead)
    if not axes:
        return [x if lead else spread(x, b.size)]
    # those axes in front, after the batch: bring them back among the others
    padded = x
    if lead and bounds(b.size)[0] == 0:
        padded = x.pad([0] * x.rank, [1, *[0] * (x.rank - 1)])
    gathered = padded.gather(index, [0, *(axis + 1 for axis in axes)] if lead else axes)
    rest = [axis for axis in range(len(sizes)) if axis not in axes]
    order = [*axes, *rest]
    return [gathered.transpose([0, *(1 + order.index(axis) for axis in range(len(sizes)))])]


def _window(
    b: Batch, x: V, starts: Sequence[V], sizes: Sequence[DimLike], lead: int
) -> tuple[list[int], list[V]]:
    """The axes along which a window can move, and index arrays (batch, window) of them, clamped as the op does."""
    dims = x.dims[lead:]
    axes = [axis for axis, size in enumerate(sizes) if size != dims[axis]]
    shape = [b.size, *(sizes[axis] for axis in axes)]
    index: list[V] = [b.graph.iota(shape, 0)] if lead else []
    for place, axis in enumerate(axes):
        window = dim_value(b.graph, sizes[axis]).broadcast_to((b.size,))
        room = size_along(x, axis + lead, (b.size,)).sub(window).add(1)
        start = index64(starts[axis], room).reshape([b.size, *[1] * len(axes)]).broadcast_to(shape)
        index.append(start.add(b.graph.iota(shape, 1 + place)))
    return axes, index


def _dynamic_update_slice(b: Batch) -> Sequence[V]:
    x = b.x[0] if b.batched[0] else spread(b.x[0], b.size)
    update = b.x[1] if b.batched[1] else spread(b.x[1], b.size)
    starts, batched = _indices(b, 2)
    if not batched:
        zero = b.graph.full((), 0, starts[0].dtype if starts else dtypes.int64)
        return [b.emit([x, update, zero, *starts])]
    sizes = update.dims[1:]
    if 0 in update.dims:
        return [x]
    axes, index = _window(b, x, starts, sizes, 1)
    if not axes:
        return [update]
    rest = [axis for axis in range(len(sizes)) if axis not in axes]
    update = update.transpose([0, *(axis + 1 for axis in (*axes, *rest))])
    return [x.scatter(update, index, [0, *(axis + 1 for axis in axes)], "replace", unique_indices=True)]


# -- one by one ------------------------------------------------------------------------------------------------


def one_by_one(b: Batch) -> Sequence[V]:
    """A loop over the examples, for what has no form for many."""

    def step(*slices: V) -> tuple[V, ...]:
        rest = iter(slices)
        operands = [next(rest) if flag else x for x, flag in zip(b.x, b.batched, strict=True)]
        return b.graph.emit_many(b.inst.op, operands, b.inst.attrs)

    sequences = [x for x, flag in zip(b.x, b.batched, strict=True) if flag]
    return b.graph.scan(step, [], sequences, b.size)


def _rng_bits(b: Batch) -> Sequence[V]:
    """The same bits as key by key: counters are those of one example, keys go along the last axis."""
    attrs: ops.RngBitsAttrs = b.attrs
    keys = b.x[0].transpose([1, 0])
    shape = (*attrs.dims, b.size)
    count = (
        b.graph.iota((product(attrs.dims),), 0, dtypes.uint64).reshape([*attrs.dims, 1]).broadcast_to(shape)
    )
    low, high = count.cast(dtypes.uint32), count.shr_logical(32).cast(dtypes.uint32)
    first, second = threefry2x32(keys, high, low)
    if attrs.dtype is dtypes.uint64:
        word = first.cast(dtypes.uint64).shl(32).or_(second.cast(dtypes.uint64))
    else:
        word = first.xor(second)
        word = word if attrs.dtype is dtypes.uint32 else word.cast(attrs.dtype)
    return [moved_axis(word, word.rank - 1, 0)]


def _by_attributes(op: ops.OpDef) -> Rule | None:
    """Of an op that works element by element, or along the axes that its attributes name."""
    held = [name for name in ("axes", "axis") if name in getattr(op.attrs_type, "__dataclass_fields__", ())]
    return _same if op.elementwise else _shifted(*held) if held and op.max_operands != 0 else None


BATCHING: Final[Mapping[str, Rule]] = {
    **{op.name: rule for op in ops.REGISTRY.values() if (rule := _by_attributes(op)) is not None},
    **dict.fromkeys(("bitcast", "cholesky", "qr", "svd", "eigh", "lu", "triangular_solve"), _same),
    **dict.fromkeys(("all_reduce", "permute", "broadcast"), _same),
    "all_to_all": _shifted("split", "concat"),
    "sharding": _prefixed(spec=()),
    "to_device": _to_device,
    "reshape": _prefixed(dims=None),
    "slice": _prefixed(starts=0, limits=None, strides=1),
    "reduce_window": _prefixed(window=1, strides=1, low=0, high=0, base_dilation=1, window_dilation=1),
    "transpose": lambda b: [b.x[0].transpose([0, *(axis + 1 for axis in b.attrs.perm)])],
    "broadcast_to": _broadcast_to,
    "pad": _pad,
    "quantize": _quantized,
    "dequantize": _quantized,
    "bind_dim": _bind_dim,
    "dot_general": _dot_general,
    "convolution": _convolution,
    "gather": _gather,
    "scatter": _scatter,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "rng_bits": _rng_bits,
    **dict.fromkeys(("nonzero", "unique", "non_max_suppression", "custom_call"), one_by_one),
}
UNBATCHED: Final = frozenset({"dimension_size"})
"""Ops whose results are the same for every example, whatever their operands."""
SOURCES: Final = frozenset({"constant", "iota", "mesh_index"})
"""Ops without operands: never batched."""

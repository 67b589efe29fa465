"""How the generator makes each op: operands that fit, and attributes at random.

`MAKERS` has an entry per op, and a few for what optimisers look for: identities and duplicates.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from planish import dtypes
from planish.ptir import ops
from planish.ptir.ops.definition import NO_ATTRS, REGISTRY, OpDef, OpKey
from planish.ptir.ops.literal import Literal
from planish.ptir.types import Quant, TensorType, bounds, product
from tests.ptir.generate_core import BOOL, COMMON, DTYPES, I64, Generator, Maker, Rejected, forget

CUSTOM = "tests.generate.twice"


def _twice(arrays, attrs):
    return tuple(np.array(array) for array in arrays for _ in range(2))


ops.register_custom_call(CUSTOM, _twice)


MAKERS: dict[str, Maker] = {}


def maker(
    *names: str,
) -> Callable[[Callable[[Generator, OpDef], object]], Callable[[Generator, OpDef], object]]:
    """Register how ops of these names are made."""

    def register(make: Callable[[Generator, OpDef], object]) -> Callable[[Generator, OpDef], object]:
        for name in names:
            MAKERS[name] = partial(_call_with, make, REGISTRY.get(name, ops.constant))
        return make

    return register


def _call_with(make: Callable[[Generator, OpDef], object], op: OpDef, g: Generator) -> object:
    return make(g, op)


_ELEMENTWISE = [op for op in REGISTRY.values() if op.elementwise and op.attrs_type is ops.NoAttrs]


@maker(*(op.name for op in _ELEMENTWISE if op.arity == 1))
def _unary(g, op):
    return g.emit(op, g.accepted(op, 1))


@maker(*(op.name for op in _ELEMENTWISE if op.arity == 2))
def _binary(g, op):
    left = g.accepted(op, 2)
    right = g.of_type(left.type)
    return g.emit(op, *((left, right) if g.chance(50) else (right, left)))


@maker("select")
def _select(g, op):
    chosen = g.plain()
    return g.emit(op, g.of_type(TensorType(dtypes.bool_, chosen.type.dims)), chosen, g.of_type(chosen.type))


@maker("constant")
def _constant(g, op):
    return g.constant(TensorType(g.pick(DTYPES), tuple(g.integer(0, 3) for _ in range(g.integer(0, 3)))))


@maker("iota")
def _iota(g, op):
    dims = g.dims(g.integer(1, 3))
    dtype = g.pick([d for d in DTYPES if not d.is_bool])
    return g.emit(op, attrs=ops.IotaAttrs(dtype, dims, g.integer(0, len(dims) - 1)))


@maker("cast")
def _cast(g, op):
    return g.emit(op, g.plain(), attrs=ops.CastAttrs(g.pick(DTYPES)))


@maker("bitcast")
def _bitcast(g, op):
    value = g.any()
    same = [d for d in DTYPES if d.bits <= value.type.dtype.bits and not d.is_bool]
    return g.emit(op, value, attrs=ops.BitcastAttrs(g.pick(same)))


@maker("quantize", "dequantize")
def _quantize(g, op):
    found = [v for v in g.pool if v.type.quant is not None]
    if op is ops.dequantize and found:
        value = g.pick(found)
        return g.emit(op, value, attrs=ops.DequantizeAttrs(value.type.quant))
    value = g.to(g.plain(), g.pick((dtypes.float32, dtypes.float64, dtypes.bfloat16)))
    axes = [a for a, d in enumerate(value.type.dims) if isinstance(d, int) and d > 0]
    axis = g.pick(axes) if axes and g.chance(50) else None
    count = 1 if axis is None else value.type.dims[axis]
    scales = tuple(g.pick((0.5, 0.1, 1.0, 3e-5)) for _ in range(count))
    quant = Quant(value.type.dtype, scales, tuple(g.integer(0, 7) for _ in range(count)), axis)
    dtype = g.pick((dtypes.int8, dtypes.uint8, dtypes.int4, dtypes.int16, dtypes.int32))
    return g.emit(ops.quantize, value, attrs=ops.QuantizeAttrs(dtype, quant))


# --- movement ---


@maker("reshape")
def _reshape(g, op):
    value = g.any()
    dims = list(value.type.dims)
    how = g.integer(0, 3)
    if how == 0 and dims:
        dims = [product(dims)]
    elif how == 1:
        dims.insert(g.integer(0, len(dims)), 1)
    elif how == 2:
        dims = [d for d in dims if d != 1]
    elif len(dims) >= 2:
        at = g.integer(0, len(dims) - 2)
        dims[at : at + 2] = [dims[at] * dims[at + 1]]
    return g.emit(op, value, attrs=ops.ReshapeAttrs(tuple(dims)))


@maker("transpose")
def _transpose(g, op):
    value = g.ranked(g.integer(0, 2))
    left = list(range(value.type.rank))
    perm = [left.pop(g.integer(0, len(left) - 1)) for _ in range(value.type.rank)]
    return g.emit(op, value, attrs=ops.TransposeAttrs(tuple(perm)))


@maker("broadcast_to")
def _broadcast(g, op):
    value = g.any()
    dims = [g.a_size() if d == 1 else d for d in value.type.dims]
    return g.emit(op, value, attrs=ops.BroadcastToAttrs((*g.dims(g.integer(0, 1)), *dims)))


@maker("slice")
def _slice(g, op):
    value = g.ranked()
    starts, limits, strides = [], [], []
    for dim in value.type.dims:
        start = g.integer(0, bounds(dim)[0])
        starts.append(start)
        limits.append(dim if g.chance(50) else g.integer(start, bounds(dim)[0]))
        strides.append(g.integer(1, 2))
    return g.emit(op, value, attrs=ops.SliceAttrs(tuple(starts), tuple(limits), tuple(strides)))


@maker("reverse")
def _reverse(g, op):
    value = g.ranked()
    return g.emit(op, value, attrs=ops.ReverseAttrs(g.subset(value.type.rank)))


@maker("concat")
def _concat(g, op):
    value = g.ranked()
    others = [g.of_type(value.type) for _ in range(g.integer(0, 2))]
    return g.emit(op, value, *others, attrs=ops.ConcatAttrs(g.axis(value)))


@maker("pad")
def _pad(g, op):
    value = g.plain()
    rank = value.type.rank
    low, high = (tuple(g.integer(-1, 1) for _ in range(rank)) for _ in range(2))
    interior = tuple(0 if g.chance(70) else 1 for _ in range(rank))
    return g.emit(op, value, g.scalar(value.type.dtype), attrs=ops.PadAttrs(low, high, interior))


# --- reductions ---


@maker("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or")
def _reduce(g, op):
    value = g.accepted(op, 1, ops.ReduceAttrs(()))
    return g.emit(op, value, attrs=ops.ReduceAttrs(g.subset(value.type.rank), g.chance(50)))


@maker("argmax", "argmin")
def _arg_reduce(g, op):
    value = g.plain(1)
    value = g.to(value, dtypes.float32) if value.type.dtype.is_complex else value
    dtype = g.pick((dtypes.int64, dtypes.int32))
    return g.emit(op, value, attrs=ops.ArgReduceAttrs(g.axis(value, nonempty=True), g.chance(50), dtype))


@maker("cumsum", "cumprod", "cummax", "cummin")
def _cumulative(g, op):
    value = g.accepted(op, 1, ops.CumulativeAttrs(0), rank=1)
    return g.emit(op, value, attrs=ops.CumulativeAttrs(g.axis(value), g.chance(50), g.chance(50)))


@maker("reduce_window")
def _reduce_window(g, op):
    value = g.plain(1)
    value = g.to(value, dtypes.float32) if value.type.dtype.is_bool or value.type.dtype.is_complex else value
    rank = value.type.rank
    window, strides, low, high = (
        tuple(g.integer(least, most) for _ in range(rank)) for least, most in ((1, 2), (1, 2), (0, 1), (0, 1))
    )
    ones = (1,) * rank
    kind = g.pick(("sum", "prod", "max", "min"))
    dilation = tuple(g.integer(1, 2) for _ in ones)
    return g.emit(op, value, attrs=ops.ReduceWindowAttrs(kind, window, strides, low, high, ones, dilation))


# --- contractions ---


@maker("dot_general")
def _dot(g, op):
    left = g.plain(1)
    axis = g.axis(left)
    dtype = left.type.dtype
    batch = [a for a in range(left.type.rank) if a != axis and g.chance(40)]
    right = g.of_type(
        TensorType(dtype, (*(left.type.dims[a] for a in batch), left.type.dims[axis], g.integer(1, 3)))
    )
    count = len(batch)
    accum = dtypes.float32 if dtype.is_float else dtype
    attrs = ops.DotGeneralAttrs(tuple(batch), tuple(range(count)), (axis,), (count,), accum, dtype)
    return g.emit(op, left, right, attrs=attrs)


@maker("convolution")
def _convolution(g, op):
    dtype = g.pick((dtypes.float32, dtypes.float64, dtypes.int32, dtypes.float16))
    groups = g.integer(1, 2)
    left = g.of_type(TensorType(dtype, (g.a_size(), 2, 4)))
    right = g.of_type(TensorType(dtype, (2, 2 // groups, g.integer(1, 2))))
    strides, low, high, lhs_dilation, rhs_dilation = (
        (g.integer(least, most),) for least, most in ((1, 2), (0, 1), (0, 1), (1, 2), (1, 2))
    )
    accum = dtypes.float32 if dtype is dtypes.float16 else dtype
    attrs = ops.ConvolutionAttrs(
        strides,
        low,
        high,
        lhs_dilation,
        rhs_dilation,
        groups,
        "NCW",
        "OIW",
        g.pick(("NCW", "NWC")),
        accum,
        dtype,
    )
    return g.emit(op, left, right, attrs=attrs)


# --- indexing and order ---


def _indices(g, dims):
    return g.of_type(TensorType(g.pick((dtypes.int64, dtypes.int32, dtypes.uint8)), dims))


@maker("gather")
def _gather(g, op):
    value = g.ranked()
    return g.emit(
        op,
        value,
        _indices(g, g.dims(g.integer(0, 2))),
        attrs=ops.GatherAttrs((g.axis(value, nonempty=True),)),
    )


@maker("scatter")
def _scatter(g, op):
    value = g.plain(1)
    axis = g.axis(value)
    index = _indices(g, g.dims(g.integer(0, 1)))
    rest = [d for a, d in enumerate(value.type.dims) if a != axis]
    updates = g.of_type(TensorType(value.type.dtype, (*index.type.dims, *rest)))
    kind = g.pick(("replace", "add", "mul", "min", "max"))
    return g.emit(op, value, updates, index, attrs=ops.ScatterAttrs((axis,), kind))


@maker("dynamic_slice", "dynamic_update_slice")
def _dynamic(g, op):
    value = g.plain()
    sizes = tuple(d if g.chance(40) else g.integer(0, bounds(d)[0]) for d in value.type.dims)
    dtype = g.pick((dtypes.int64, dtypes.int32))
    starts = [g.scalar(dtype) for _ in sizes]
    if op is ops.dynamic_slice:
        return g.emit(op, value, *starts, attrs=ops.DynamicSliceAttrs(sizes))
    return g.emit(op, value, g.of_type(TensorType(value.type.dtype, sizes)), *starts)


@maker("sort")
def _sort(g, op):
    key = g.plain(1)
    key = g.to(key, dtypes.float32) if key.type.dtype.is_complex else key
    others = [g.of_type(TensorType(g.pick(COMMON), key.type.dims)) for _ in range(g.integer(0, 2))]
    keys = g.integer(1, 1 + len(others))
    return g.emit_all(op, (key, *others), ops.SortAttrs(g.axis(key), g.chance(50), keys))


@maker("argsort")
def _argsort(g, op):
    value = g.plain(1)
    value = g.to(value, dtypes.float32) if value.type.dtype.is_complex else value
    return g.emit_all(op, (value,), ops.ArgsortAttrs(g.axis(value), g.chance(50)))


@maker("top_k")
def _top_k(g, op):
    value = g.plain(1)
    value = g.to(value, dtypes.float32) if value.type.dtype.is_complex else value
    axis = g.axis(value)
    size = value.type.dims[axis]
    k = size if g.chance(30) else g.integer(0, bounds(size)[0])
    return g.emit_all(
        op, (value,), ops.TopKAttrs(k, axis, g.chance(50), g.pick((dtypes.int64, dtypes.int32)))
    )


@maker("rng_bits")
def _rng(g, op):
    key = g.of_type(TensorType(dtypes.uint32, (2,)))
    dtype = g.pick((dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64))
    return g.emit(op, key, attrs=ops.RngBitsAttrs(dtype, g.dims(g.integer(0, 2))))


# --- sizes ---


@maker("dimension_size")
def _dimension_size(g, op):
    value = g.ranked()
    return g.emit(op, value, attrs=ops.DimensionSizeAttrs(g.axis(value)))


@maker("bind_dim")
def _bind_dim(g, op):
    value = g.plain(1)
    axis = g.axis(value)
    high = bounds(value.type.dims[axis])[0]
    g.fresh += 1
    attrs = ops.BindDimAttrs(axis, f"K{g.fresh}", g.integer(0, high), high)
    return g.emit(op, value, g.of_type(I64), attrs=attrs)


@maker("nonzero")
def _nonzero(g, op):
    return g.emit_all(op, (g.plain(),), ops.NonzeroAttrs(g.integer(0, 4)))


@maker("unique")
def _unique(g, op):
    value = g.plain()
    axis = g.axis(value) if value.type.rank and g.chance(40) else None
    return g.emit_all(op, (value,), ops.UniqueAttrs(g.integer(0, 4), axis))


@maker("non_max_suppression")
def _non_max_suppression(g, op):
    dtype = g.pick((dtypes.float32, dtypes.float64))
    boxes, scores = (g.of_type(TensorType(dtype, dims)) for dims in ((1, 3, 4), (1, 2, 3)))
    operands = (boxes, scores, g.of_type(I64), g.scalar(dtype), g.scalar(dtype))
    return g.emit_all(op, operands, ops.NonMaxSuppressionAttrs(g.integer(0, 3), g.chance(50)))


# --- linear algebra and transforms ---

_WIDE = (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)


@maker("cholesky", "eigh", "qr", "svd", "lu", "triangular_solve")
def _linalg(g, op):
    dtype = g.pick(_WIDE)
    size = g.integer(1, 3)
    square = op.name in ("cholesky", "eigh", "triangular_solve")
    batch = g.dims(1) if g.chance(30) else ()
    a = g.of_type(TensorType(dtype, (*batch, size, size if square else g.integer(1, 3))))
    if op is ops.triangular_solve:
        b = g.of_type(TensorType(dtype, (*batch, size, 2)))
        transform = g.pick(("none", "transpose", "adjoint"))
        return g.emit(op, a, b, attrs=ops.TriangularSolveAttrs(True, g.chance(50), transform, g.chance(50)))
    attrs = {
        "cholesky": lambda: ops.CholeskyAttrs(g.chance(50)),
        "eigh": lambda: ops.EighAttrs(g.chance(50)),
        "qr": lambda: ops.QrAttrs(g.chance(50)),
        "svd": lambda: ops.SvdAttrs(g.chance(50), g.chance(50)),
        "lu": lambda: NO_ATTRS,
    }[op.name]()
    return g.emit_all(op, (a,), attrs)


@maker("fft", "ifft", "rfft", "irfft")
def _fft(g, op):
    dtype = g.pick(_WIDE[:2] if op is ops.rfft else _WIDE[2:])
    value = g.to(g.plain(1), dtype)
    axis = g.axis(value, nonempty=True)
    if op is ops.irfft:
        size = value.type.dims[axis]
        return g.emit(op, value, attrs=ops.IrfftAttrs((axis,), 2 * size - g.integer(1, 2)))
    return g.emit(op, value, attrs=ops.FftAttrs((axis,)))


# --- collectives: one rank, which is all there is ---


@maker(*(op.name for op in REGISTRY.values() if op.key is OpKey.COLLECTIVE))
def _collective(g, op):
    mesh, over = (("m", 1), ("n", 1)), g.pick(((), ("m",), ("n", "m")))
    if op is ops.mesh_index:
        return g.emit(op, attrs=ops.CollectiveAttrs(mesh, over))
    value = g.plain(1)
    axis, kind = g.axis(value), g.pick(("sum", "max", "prod", "and"))
    attrs = {
        "all_reduce": lambda: ops.AllReduceAttrs(mesh, over, kind),
        "reduce_scatter": lambda: ops.ReduceScatterAttrs(mesh, over, axis, kind),
        "all_gather": lambda: ops.AllGatherAttrs(mesh, over, axis),
        "all_to_all": lambda: ops.AllToAllAttrs(mesh, over, axis, g.axis(value)),
        "permute": lambda: ops.PermuteAttrs(mesh, over, ((0, 0),) if g.chance(50) else ()),
        "broadcast": lambda: ops.BroadcastAttrs(mesh, over, 0),
        "to_device": lambda: ops.ToDeviceAttrs("cpu"),
        "sharding": lambda: ops.ShardingAttrs(
            mesh, tuple(over if a == axis else () for a in range(value.type.rank))
        ),
    }[op.name]()
    return g.emit(op, value, attrs=attrs)


# --- control flow and calls ---


@maker("cond")
def _cond(g, op):
    predicate = g.of_type(BOOL)
    models = [g.any() for _ in range(g.integer(1, 2))]

    def build(args):
        return [g.changed(model) if g.chance(70) else model for model in models]

    regions = [g.nested((), build)]
    try:
        regions.append(g.nested((), build))
        return g.emit_all(op, (predicate,), regions=regions)
    except BaseException:
        for region in regions:
            forget(region)
        raise


@maker("while")
def _while(g, op):
    carried = [g.any() for _ in range(g.integer(0, 2))]
    types = [I64, *(v.type for v in carried)]
    start = (
        g.constant(I64)
        if g.chance(20)
        else g.emit(ops.constant, attrs=ops.ConstantAttrs(Literal.full(dtypes.int64, (), 0)))
    )
    # From any start the counter reaches the limit in few steps: it is clamped from below first.
    start = g.emit(
        ops.max, start, g.emit(ops.constant, attrs=ops.ConstantAttrs(Literal.full(dtypes.int64, (), 0)))
    )
    steps = g.integer(0, 3)

    def limit(value):
        return g.emit(ops.constant, attrs=ops.ConstantAttrs(Literal.full(dtypes.int64, (), value)))

    def condition(args):
        return [g.emit(ops.lt, args[0], limit(steps))]

    def body(args):
        following = g.emit(ops.add, args[0], limit(1))
        return [following, *(g.changed(arg) if g.chance(70) else arg for arg in args[1:])]

    regions = [g.nested(types, condition)]
    try:
        regions.append(g.nested(types, body))
        return g.emit_all(op, (start, *carried), regions=regions)
    except BaseException:
        for region in regions:
            forget(region)
        raise


@maker("scan")
def _scan(g, op):
    carried = [g.any() for _ in range(g.integer(0, 2))]
    first = g.plain(1)
    length = first.type.dims[0]
    sequences = [first] if g.chance(80) else []
    slices = [TensorType(v.type.dtype, v.type.dims[1:]) for v in sequences]
    outputs = g.integer(0 if carried else 1, 2)

    def body(args):
        kept = args[: len(carried)]
        results = [g.changed(arg) if g.chance(70) else arg for arg in kept]
        return results + [g.plain() for _ in range(outputs)]

    regions = [g.nested([*(v.type for v in carried), *slices], body)]
    try:
        if any(_local(g, t) for t in regions[0].result_types):
            raise Rejected
        return g.emit_all(
            op, (*carried, *sequences), ops.ScanAttrs(len(carried), length, g.chance(50)), regions
        )
    except BaseException:
        forget(regions[0])
        raise


def _local(g: Generator, type: TensorType) -> bool:
    """Whether a type has a size that is bound inside a region."""
    return any(symbol.name.startswith("K") for symbol in type.symbols())


@maker("call")
def _call(g, op):
    if not g.callees or g.function in g.callees:
        raise Rejected
    callee = g.pick(g.callees)
    if any(_local(g, type) for type in callee.result_types):
        raise Rejected
    wanted = {symbol.name for p in callee.params for symbol in p.type.symbols()}
    ours = {dim.name: dim for dim in g.sizes}
    sizes = {name: 2 if g.chance(50) else ours.get(name, 2) for name in sorted(wanted)}
    arguments = [g.of_type(t.substitute(sizes)) for t in callee.param_types]
    results = tuple(t.substitute(sizes) for t in callee.result_types)
    return g.emit_all(op, arguments, ops.CallAttrs(callee.name, results))


@maker("custom_call")
def _custom_call(g, op):
    value = g.any()
    config = (("on", g.chance(50)), ("rate", g.pick((1, 1.0, -0.0, float("inf")))), ("text", 'a "b"\n'))
    attrs = ops.CustomCallAttrs(CUSTOM, (value.type, value.type), config=config if g.chance(50) else ())
    return g.emit_all(op, (value,), attrs)


# --- what optimisers look for ---


@maker("(identity)")
def _identity(g, op):
    value = g.plain()
    type, dims, rank = value.type, value.type.dims, value.type.rank
    how = g.integer(0, 11)
    if how <= 2 and not type.dtype.is_bool:
        table = ((ops.add, 0), (ops.mul, 1), (ops.sub, 0))
        chosen, unit = table[how]
        scalar = g.emit(ops.constant, attrs=ops.ConstantAttrs(Literal.full(type.dtype, (), unit)))
        other = g.emit(ops.broadcast_to, scalar, attrs=ops.BroadcastToAttrs(dims)) if dims else scalar
        return g.emit(chosen, *((value, other) if how == 2 or g.chance(50) else (other, value)))
    if how == 3 and not type.dtype.is_bool:
        return g.emit(ops.neg, g.emit(ops.neg, value))
    if how == 4:
        perm = tuple(range(rank))[::-1]
        return g.emit(
            ops.transpose,
            g.emit(ops.transpose, value, attrs=ops.TransposeAttrs(perm)),
            attrs=ops.TransposeAttrs(perm),
        )
    if how == 5:
        return g.emit(ops.cast, value, attrs=ops.CastAttrs(type.dtype))
    if how == 6:
        return g.emit(ops.reshape, value, attrs=ops.ReshapeAttrs(dims))
    if how == 7:
        return g.emit(ops.select, g.of_type(TensorType(dtypes.bool_, dims)), value, value)
    if how == 8:
        return g.emit(ops.slice_, value, attrs=ops.SliceAttrs((0,) * rank, dims, (1,) * rank))
    if how == 9 and rank:
        return g.emit(ops.concat, value, attrs=ops.ConcatAttrs(0))
    if how == 10:
        zeros = (0,) * rank
        return g.emit(ops.pad, value, g.scalar(type.dtype), attrs=ops.PadAttrs(zeros, zeros, zeros))
    return g.emit(ops.broadcast_to, value, attrs=ops.BroadcastToAttrs(dims))


@maker("(duplicate)", "(duplicate again)", "(duplicate once more)")
def _duplicate(g, op):
    insts = [inst for inst in g.region if not inst.regions]
    if not insts:
        raise Rejected
    inst = g.pick(insts)
    if inst.op is ops.bind_dim:
        raise Rejected
    return g.emit_all(inst.op, inst.operands, inst.attrs)

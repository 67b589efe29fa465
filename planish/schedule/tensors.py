"""A PTIR function as tensor-level UOps: movement, elementwise and reduce nodes over whole tensors.

A tensor in memory, as a value, is `INDEX(BUFFER)` with no indices yet; movement ops give it its dims. Every PTIR op that
has a lowering stands in `_LOWER`; any other is refused by name before anything is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from planish import dtypes
from planish.dtypes import DType
from planish.errors import LoweringError
from planish.ptir.function import Function, Inst, Value
from planish.ptir.ops.contract import DotGeneralAttrs
from planish.ptir.ops.convert import CastAttrs
from planish.ptir.ops.definition import ConstantAttrs
from planish.ptir.ops.indexing import IotaAttrs
from planish.ptir.ops.movement import (
    BroadcastToAttrs,
    ConcatAttrs,
    PadAttrs,
    ReshapeAttrs,
    ReverseAttrs,
    SliceAttrs,
    TransposeAttrs,
)
from planish.ptir.ops.reduce import ReduceAttrs
from planish.uop.node import Number, Table, UOp
from planish.uop.ops import Ops, ReduceAxes

Array = NDArray[Any]
Dims = tuple[int, ...]
_COUNTING: Final = 1 << 30
"""The first slot of buffers that only count."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that kernels share: a parameter of the function, a constant, or made by a kernel."""

    dtype: DType
    size: int
    parameter: int | None = None
    constant: Array | None = None


@dataclass(slots=True)
class Tensors:
    """The function, translated: a node per value, and the buffers they live in."""

    table: Table
    buffers: list[Buffer] = field(default_factory=list)
    values: dict[Value, UOp] = field(default_factory=dict)
    counting: set[UOp] = field(default_factory=set)
    """BUFFERs that are never in memory: element k of each is k. Views of them become index arithmetic."""

    def memory(self, buffer: Buffer, dims: Dims) -> UOp:
        """A new buffer as a value of these dims."""
        self.buffers.append(buffer)
        place = self.table.make(Ops.BUFFER, buffer.dtype.ptr(buffer.size), (), len(self.buffers) - 1)
        return reshape(self.table.make(Ops.INDEX, buffer.dtype, (place,)), dims)

    def count(self, size: int) -> UOp:
        """0, 1, 2 … as a tensor of int64."""
        slot = _COUNTING + len(self.counting)
        place = self.table.make(Ops.BUFFER, dtypes.int64.ptr(size), (), slot)
        self.counting.add(place)
        return self.table.make(Ops.INDEX, dtypes.int64, (place,))


def dims_of(value: Value) -> Dims:
    """The static dims of a value."""
    dims = value.type.dims
    for dim in dims:
        if not isinstance(dim, int):
            raise LoweringError(
                f"dynamic dim {dim} of {value.type} cannot be lowered yet", remedy="give it a size"
            )
    return cast("Dims", dims)


def reshape(x: UOp, dims: Dims) -> UOp:
    """The same elements in other dims."""
    return x.table.make(Ops.RESHAPE, x.dtype, (x,), dims)


def permute(x: UOp, order: Dims) -> UOp:
    """Axes reordered."""
    return x if order == tuple(range(len(order))) else x.table.make(Ops.PERMUTE, x.dtype, (x,), order)


def expand(x: UOp, dims: Dims) -> UOp:
    """Axes of size 1 repeated."""
    return x.table.make(Ops.EXPAND, x.dtype, (x,), dims)


def full(x: UOp, dims: Dims) -> UOp:
    """A tensor with all its axes: a constant has none of its own, and goes with any shape."""
    return expand(reshape(x, (1,) * len(dims)), dims) if x.op is Ops.CONST else x


def _per_axis(x: UOp, op: Ops, arg: tuple[object, ...], neutral: object) -> UOp:
    return x if all(each == neutral for each in arg) else x.table.make(op, x.dtype, (x,), arg)


def pad(x: UOp, pairs: Sequence[tuple[int, int]]) -> UOp:
    """Zeros before and after, per axis."""
    return _per_axis(x, Ops.PAD, tuple(pairs), (0, 0))


def shrink(x: UOp, dims: Dims, pairs: Sequence[tuple[int, int]]) -> UOp:
    """Begin and end per axis; `dims` are those of x."""
    return x if all(pair == (0, dim) for pair, dim in zip(pairs, dims, strict=True)) else x.table.make(Ops.SHRINK, x.dtype, (x,), tuple(pairs))  # fmt: skip


def _accumulator(dtype: DType) -> DType:
    """Narrow floats accumulate in float32 (docs/semantics.md)."""
    return dtypes.float32 if dtype.is_float and dtype.bits < 32 else dtype


def _reduce(x: UOp, op: Ops, axes: Dims) -> UOp:
    wide = x.cast(_accumulator(x.dtype)) if op in {Ops.ADD, Ops.MUL} else x
    return wide.table.make(Ops.REDUCE_AXIS, wide.dtype, (wide,), ReduceAxes(op, axes)).cast(x.dtype)


def _lower_constant(tensors: Tensors, inst: Inst) -> UOp:
    literal = cast("ConstantAttrs", inst.attrs).literal
    if literal.splat:
        return tensors.table.const(cast("Number", literal.item), literal.dtype)
    array = np.ascontiguousarray(literal.data).reshape(-1)
    return tensors.memory(Buffer(literal.dtype, array.size, constant=array), literal.shape)


def _elementwise(op: Ops) -> Callable[[Tensors, Inst], UOp]:
    def lower(tensors: Tensors, inst: Inst) -> UOp:
        first, *rest = [tensors.values[operand] for operand in inst.operands]
        return first.alu(op, *rest)

    return lower


def _swapped(op: Ops) -> Callable[[Tensors, Inst], UOp]:
    def lower(tensors: Tensors, inst: Inst) -> UOp:
        x, y = (tensors.values[operand] for operand in inst.operands)
        return y.alu(op, x)

    return lower


def _of(accepts: Callable[[DType], bool], op: Ops) -> Callable[[Tensors, Inst], UOp]:
    """An elementwise op that the kernel IR has for some dtypes only."""

    def lower(tensors: Tensors, inst: Inst) -> UOp:
        x, y = (tensors.values[operand] for operand in inst.operands)
        if not accepts(x.dtype):
            raise _unsupported(inst)
        return x.alu(op, y)

    return lower


def _is_float(dtype: DType) -> bool:
    return dtype.is_float


def _is_int(dtype: DType) -> bool:
    return dtype.is_int


def _lower_cast(tensors: Tensors, inst: Inst) -> UOp:
    return tensors.values[inst.operands[0]].cast(cast("CastAttrs", inst.attrs).dtype)


def _lower_reshape(tensors: Tensors, inst: Inst) -> UOp:
    x = tensors.values[inst.operands[0]]
    return x if x.op is Ops.CONST else reshape(x, cast("Dims", cast("ReshapeAttrs", inst.attrs).dims))


def _lower_transpose(tensors: Tensors, inst: Inst) -> UOp:
    x = tensors.values[inst.operands[0]]
    return x if x.op is Ops.CONST else permute(x, cast("TransposeAttrs", inst.attrs).perm)


def _lower_broadcast(tensors: Tensors, inst: Inst) -> UOp:
    x = tensors.values[inst.operands[0]]
    if x.op is Ops.CONST:
        return x
    dims = cast("Dims", cast("BroadcastToAttrs", inst.attrs).dims)
    old = dims_of(inst.operands[0])
    return expand(reshape(x, (1,) * (len(dims) - len(old)) + old), dims)


def _lower_iota(tensors: Tensors, inst: Inst) -> UOp:
    attrs = cast("IotaAttrs", inst.attrs)
    dims = cast("Dims", attrs.dims)
    line = tuple(dim if axis == attrs.axis else 1 for axis, dim in enumerate(dims))
    return expand(reshape(tensors.count(dims[attrs.axis]), line), dims).cast(attrs.dtype)


def _lower_slice(tensors: Tensors, inst: Inst) -> UOp:
    """Cut out, then every s-th: rows of s elements, of which the first is kept."""
    attrs, dims = cast("SliceAttrs", inst.attrs), dims_of(inst.operands[0])
    x = tensors.values[inst.operands[0]]
    if x.op is Ops.CONST:
        return x
    sizes = dims_of(inst.results[0])
    x = shrink(x, dims, list(zip(cast("Dims", attrs.starts), cast("Dims", attrs.limits), strict=True)))
    if all(stride == 1 for stride in attrs.strides):
        return x
    left = tuple(
        limit - start
        for start, limit in zip(cast("Dims", attrs.starts), cast("Dims", attrs.limits), strict=True)
    )
    x = pad(x, [(0, size * stride - have) for size, stride, have in zip(sizes, attrs.strides, left, strict=True)])  # fmt: skip
    rows = tuple(n for pair in zip(sizes, attrs.strides, strict=True) for n in pair)
    first = tuple(pair for size in sizes for pair in ((0, size), (0, 1)))
    return reshape(shrink(reshape(x, rows), rows, first), sizes)


def _lower_reverse(tensors: Tensors, inst: Inst) -> UOp:
    x = tensors.values[inst.operands[0]]
    if x.op is Ops.CONST:
        return x
    axes = cast("ReverseAttrs", inst.attrs).axes
    flips = tuple(axis in axes for axis in range(len(dims_of(inst.operands[0]))))
    return _per_axis(x, Ops.FLIP, flips, False)


def _spread(x: UOp, dims: Dims, attrs: PadAttrs) -> UOp:
    """The movements of a pad, with zeros wherever nothing of x is."""
    rank = len(dims)
    if any(attrs.interior):
        # each element at the start of a row of its own, the rest of which is padding
        rows = tuple(n for dim in dims for n in (dim, 1))
        gaps = [pair for gap in attrs.interior for pair in ((0, 0), (0, gap))]
        long = tuple(dim * (gap + 1) for dim, gap in zip(dims, attrs.interior, strict=True))
        x = reshape(pad(reshape(x, rows), gaps), long)
        dims = tuple(max(n - gap, 0) for n, gap in zip(long, attrs.interior, strict=True))
        x = shrink(x, long, [(0, dim) for dim in dims])
    kept, around = [], []
    for axis in range(rank):
        low, high, dim = cast("int", attrs.low[axis]), cast("int", attrs.high[axis]), dims[axis]
        begin = min(max(-low, 0), dim)
        end = max(dim - max(-high, 0), begin)
        total = dim + low + high
        before = min(max(low + begin, 0), total - (end - begin))
        kept.append((begin, end))
        around.append((before, total - before - (end - begin)))
    return pad(shrink(x, dims, kept), around)


def _lower_pad(tensors: Tensors, inst: Inst) -> UOp:
    x, value = (tensors.values[operand] for operand in inst.operands)
    attrs, dims = cast("PadAttrs", inst.attrs), dims_of(inst.operands[0])
    padded = _spread(full(x, dims), dims, attrs)
    if value is value.const_like(False if value.dtype.is_bool else 0):
        return padded
    # where x is: the same movements of a tensor that is true everywhere
    mask = _spread(full(tensors.table.const(True, dtypes.bool_), dims), dims, attrs)
    sizes = dims_of(inst.results[0])
    fill = value if value.op is Ops.CONST else expand(reshape(value, (1,) * len(sizes)), sizes)
    return mask.alu(Ops.WHERE, padded, fill)


def _lower_concat(tensors: Tensors, inst: Inst) -> UOp:
    """Each operand padded to the whole, chosen by position: below the end of the first, of the second, …"""
    axis = cast("ConcatAttrs", inst.attrs).axis
    sizes = dims_of(inst.results[0])
    result: UOp | None = None
    end = sizes[axis]
    for operand in reversed(inst.operands):
        dims = dims_of(operand)
        if not dims[axis]:
            continue
        start = end - dims[axis]
        around = [(start, sizes[axis] - end) if a == axis else (0, 0) for a in range(len(dims))]
        x = pad(full(tensors.values[operand], dims), around)
        if result is not None:
            below = tuple(end if a == axis else dim for a, dim in enumerate(sizes))
            mask = pad(full(tensors.table.const(True, dtypes.bool_), below), [(0, sizes[a] - below[a]) for a in range(len(sizes))])  # fmt: skip
            x = mask.alu(Ops.WHERE, x, result)
        result, end = x, start
    return tensors.table.const(0, inst.results[0].type.dtype) if result is None else result


def _lower_reduce(op: Ops) -> Callable[[Tensors, Inst], UOp]:
    def lower(tensors: Tensors, inst: Inst) -> UOp:
        attrs = cast("ReduceAttrs", inst.attrs)
        operand, dims = inst.operands[0], dims_of(inst.operands[0])
        x = tensors.values[operand]
        reduced = _reduce(full(x, dims), op, tuple(axis % len(dims) for axis in attrs.axes))
        return reshape(reduced, dims_of(inst.results[0]))

    return lower


def _lower_dot(tensors: Tensors, inst: Inst) -> UOp:
    """Both sides brought to (batch, lhs free, rhs free, contracted), multiplied and summed over the last."""
    attrs = cast("DotGeneralAttrs", inst.attrs)
    sides = []
    for operand, batch, contract in (
        (inst.operands[0], attrs.lhs_batch, attrs.lhs_contract),
        (inst.operands[1], attrs.rhs_batch, attrs.rhs_contract),
    ):
        dims = dims_of(operand)
        free = tuple(axis for axis in range(len(dims)) if axis not in (*batch, *contract))
        sides.append((tensors.values[operand], dims, batch, free, contract))
    (_, ldims, lbatch, lfree, lcontract), (_, rdims, _, rfree, _) = sides
    b, m, n, k = (
        tuple(ldims[axis] for axis in lbatch),
        tuple(ldims[axis] for axis in lfree),
        tuple(rdims[axis] for axis in rfree),
        tuple(ldims[axis] for axis in lcontract),
    )
    operands = []
    for position, (value, dims, batch, free, contract) in enumerate(sides):
        x = full(value, dims)
        kept = (*m, *(1,) * len(n)) if position == 0 else (*(1,) * len(m), *n)
        x = reshape(permute(x, (*batch, *free, *contract)), (*b, *kept, *k))
        operands.append(expand(x, (*b, *m, *n, *k)).cast(attrs.accum_dtype))
    rank = len(b) + len(m) + len(n)
    product = operands[0].alu(Ops.MUL, operands[1])
    total = _reduce(product, Ops.ADD, tuple(range(rank, rank + len(k))))
    return reshape(total, (*b, *m, *n)).cast(attrs.out_dtype)


_ELEMENTWISE: Final = {
    "add": Ops.ADD, "sub": Ops.SUB, "mul": Ops.MUL, "max": Ops.MAX, "min": Ops.MIN, "and": Ops.AND, "or": Ops.OR,
    "xor": Ops.XOR, "neg": Ops.NEG, "abs": Ops.ABS, "not": Ops.NOT, "sqrt": Ops.SQRT, "reciprocal": Ops.RECIP,
    "exp": Ops.EXP, "exp2": Ops.EXP2, "log": Ops.LOG, "log2": Ops.LOG2, "sin": Ops.SIN, "cos": Ops.COS, "tan": Ops.TAN,
    "tanh": Ops.TANH, "sinh": Ops.SINH, "cosh": Ops.COSH, "asin": Ops.ASIN, "acos": Ops.ACOS, "atan": Ops.ATAN,
    "asinh": Ops.ASINH, "acosh": Ops.ACOSH, "atanh": Ops.ATANH, "expm1": Ops.EXPM1, "log1p": Ops.LOG1P,
    "rsqrt": Ops.RSQRT, "cbrt": Ops.CBRT, "erf": Ops.ERF, "erfc": Ops.ERFC, "atan2": Ops.ATAN2,
    "floor": Ops.FLOOR, "ceil": Ops.CEIL, "trunc": Ops.TRUNC, "round": Ops.ROUND, "popcount": Ops.POPCOUNT, "clz": Ops.CLZ,
    "lt": Ops.CMPLT, "le": Ops.CMPLE, "eq": Ops.CMPEQ, "ne": Ops.CMPNE, "select": Ops.WHERE,
}  # fmt: skip
_REDUCE: Final = {
    "reduce_sum": Ops.ADD, "reduce_prod": Ops.MUL, "reduce_max": Ops.MAX, "reduce_min": Ops.MIN,
    "reduce_and": Ops.AND, "reduce_or": Ops.OR,
}  # fmt: skip
_LOWER: Final[dict[str, Callable[[Tensors, Inst], UOp]]] = {
    "constant": _lower_constant,
    "cast": _lower_cast,
    "div": _of(_is_float, Ops.FDIV),
    "pow": _of(_is_float, Ops.POW),
    "floor_div": _of(_is_int, Ops.FLOORDIV),
    "floor_mod": _of(_is_int, Ops.FLOORMOD),
    "trunc_div": _of(_is_int, Ops.TRUNCDIV),
    "trunc_mod": _of(_is_int, Ops.TRUNCMOD),
    "gt": _swapped(Ops.CMPLT),
    "ge": _swapped(Ops.CMPLE),
    "iota": _lower_iota,
    "slice": _lower_slice,
    "reverse": _lower_reverse,
    "pad": _lower_pad,
    "concat": _lower_concat,
    "reshape": _lower_reshape,
    "transpose": _lower_transpose,
    "broadcast_to": _lower_broadcast,
    "dot_general": _lower_dot,
    **{name: _elementwise(op) for name, op in _ELEMENTWISE.items()},
    **{name: _lower_reduce(op) for name, op in _REDUCE.items()},
}


def _unsupported(inst: Inst) -> LoweringError:
    types = ", ".join(str(operand.type) for operand in inst.operands)
    return LoweringError(
        f"{inst.op.name}({types}) cannot be compiled yet",
        op=inst.op.name,
        location=inst.loc,
        remedy="run it with planish.ptir.interpret",
    )


def to_tensors(function: Function, table: Table) -> Tensors:
    """The tensor-level UOps of a function."""
    tensors = Tensors(table)
    for position, param in enumerate(function.params):
        dims = dims_of(param)
        tensors.values[param] = tensors.memory(Buffer(param.type.dtype, prod(dims), parameter=position), dims)
    for inst in function:
        handler = _LOWER.get(inst.op.name)
        if handler is None:
            raise _unsupported(inst)
        for result in inst.results:
            dims_of(result)
        tensors.values[inst.results[0]] = handler(tensors, inst)
    return tensors

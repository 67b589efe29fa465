"""A PTIR function as tensor-level UOps: movement, elementwise and reduce nodes over whole tensors.

A tensor in memory, as a value, is `INDEX(BUFFER)` with no indices yet; movement ops give it its dims. Every PTIR op that
has a lowering stands in `_LOWER`; any other is refused by name before anything is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
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
from planish.ptir.ops.movement import BroadcastToAttrs, ReshapeAttrs, TransposeAttrs
from planish.ptir.ops.reduce import ReduceAttrs
from planish.uop.node import Number, Table, UOp
from planish.uop.ops import Ops, ReduceAxes

Array = NDArray[Any]
Dims = tuple[int, ...]


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

    def memory(self, buffer: Buffer, dims: Dims) -> UOp:
        """A new buffer as a value of these dims."""
        self.buffers.append(buffer)
        place = self.table.make(Ops.BUFFER, buffer.dtype.ptr(buffer.size), (), len(self.buffers) - 1)
        return reshape(self.table.make(Ops.INDEX, buffer.dtype, (place,)), dims)


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


def _divide(tensors: Tensors, inst: Inst) -> UOp:
    x, y = (tensors.values[operand] for operand in inst.operands)
    if not x.dtype.is_float:
        raise _unsupported(inst)
    return x.alu(Ops.FDIV, y)


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


def _lower_reduce(op: Ops) -> Callable[[Tensors, Inst], UOp]:
    def lower(tensors: Tensors, inst: Inst) -> UOp:
        attrs = cast("ReduceAttrs", inst.attrs)
        operand, dims = inst.operands[0], dims_of(inst.operands[0])
        x = tensors.values[operand]
        if x.op is Ops.CONST:  # a splat has no axes of its own
            x = expand(reshape(x, (1,) * len(dims)), dims)
        reduced = _reduce(x, op, tuple(axis % len(dims) for axis in attrs.axes))
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
        x = expand(reshape(value, (1,) * len(dims)), dims) if value.op is Ops.CONST else value
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
    "floor": Ops.FLOOR, "ceil": Ops.CEIL, "trunc": Ops.TRUNC, "round": Ops.ROUND,
    "lt": Ops.CMPLT, "le": Ops.CMPLE, "eq": Ops.CMPEQ, "ne": Ops.CMPNE, "select": Ops.WHERE,
}  # fmt: skip
_REDUCE: Final = {
    "reduce_sum": Ops.ADD, "reduce_prod": Ops.MUL, "reduce_max": Ops.MAX, "reduce_min": Ops.MIN,
    "reduce_and": Ops.AND, "reduce_or": Ops.OR,
}  # fmt: skip
_LOWER: Final[dict[str, Callable[[Tensors, Inst], UOp]]] = {
    "constant": _lower_constant,
    "cast": _lower_cast,
    "div": _divide,
    "gt": _swapped(Ops.CMPLT),
    "ge": _swapped(Ops.CMPLE),
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

"""Drafts: a replacement worked out in full before anything is inserted.

A pattern composes drafts with the functions below and hands the last one to `replace`. Each function infers the
type of what it would build, skips an op that would do nothing, and gives None where inference refuses (a size
that cannot be proved to fit, a scale axis that would be torn apart); None in gives None out, so a pattern checks
once, at the end. Nothing is inserted unless the whole replacement exists and has the type of what it replaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from planish.errors import DTypeError, ShapeError
from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.function import Inst, Value
from planish.ptir.ops.definition import NO_ATTRS, Attrs, OpDef
from planish.ptir.ops.literal import Literal
from planish.ptir.rewrite.prelude import is_identity_permutation
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.ptir.types import Quant, TensorType
from planish.records import dataclass


class Declined(Exception):
    """A rule does not apply, for a reason that one of its helpers found."""


@dataclass(frozen=True, slots=True, eq=False)
class InstDraft:
    """An instruction that does not exist yet."""

    op: OpDef
    operands: tuple[Term, ...]
    attrs: Attrs
    types: tuple[TensorType, ...]

    @property
    def type(self) -> TensorType:
        return self.types[0]


Term: TypeAlias = Value | InstDraft


def draft(op: OpDef, operands: Sequence[Term | None], attrs: Attrs = NO_ATTRS) -> InstDraft | None:
    """An instruction with its types inferred; None if it would not be well-typed."""
    given = [term for term in operands if term is not None]
    if len(given) != len(operands):
        return None
    try:
        types = op.result_types([term.type for term in given], attrs)
    except (ShapeError, DTypeError):
        return None
    return InstDraft(op, tuple(given), attrs, types)


def replace(rw: ProgramRewriter, inst: Inst, *terms: Term | None) -> bool:
    """Insert the drafts before `inst` and put their values in the place of its results."""
    given = [term for term in terms if term is not None]
    if len(given) != len(terms):
        return rw.fail(inst, "the replacement cannot be proved well-typed")
    for term, old in zip(given, inst.results, strict=True):
        if term.type != old.type:
            return rw.fail(inst, f"the replacement would be {term.type}, not {old.type}")
        if term is old:
            return rw.fail(inst, "it is its own replacement")
    values: dict[InstDraft, Value] = {}
    rw.replace_op(inst, *[insert(rw, inst, term, values) for term in given])
    return True


def insert(rw: ProgramRewriter, at: Inst, term: Term, values: dict[InstDraft, Value] | None = None) -> Value:
    """The value of a term, its instructions inserted before `at`; drafts are as deep as a pattern wrote them."""
    if isinstance(term, Value):
        return term
    values = {} if values is None else values
    known = values.get(term)
    if known is not None:
        return known
    if isinstance(term.attrs, ops.ConstantAttrs):
        value = rw.materialize_constant(at, term.attrs.literal, term.attrs.quant, type=term.type)
    else:
        operands = [insert(rw, at, operand, values) for operand in term.operands]
        value = rw.insert_before(at, term.op, operands, term.attrs, types=term.types).results[0]
    values[term] = value
    return value


# --- what drafts are composed of ---------------------------------------------------------------------------


def constant(literal: Literal, quant: Quant | None = None) -> InstDraft | None:
    return draft(ops.constant, (), ops.ConstantAttrs(literal, quant))


def splat(literal: Literal, dims: Sequence[DimLike], quant: Quant | None = None) -> Term | None:
    """The one element of a uniform literal under a shape: a constant, or a broadcast scalar if it is dynamic."""
    sizes = tuple([dim for dim in dims if isinstance(dim, int)])
    if len(sizes) == len(dims):
        return constant(literal.with_shape(sizes), quant)
    return broadcasted(constant(literal.with_shape(()), quant), dims)


def empty(type: TensorType) -> InstDraft | None:
    """A constant without elements."""
    if not type.is_static:
        raise Declined("a constant needs a static shape")
    return constant(Literal(np.empty(type.shape, type.dtype.numpy), dtype=type.dtype), type.quant)


def number(value: int, type: TensorType) -> Term | None:
    """An integer of the dtype of `type` under its shape, wrapped or rounded as a cast from int64 would."""
    dtype = type.dtype
    item: bool | int | float = dtype.wrap(value) if dtype.is_int else value
    return splat(Literal.full(dtype, (), item), type.dims)


def elementwise(inst: Inst, operands: Sequence[Term | None]) -> InstDraft | None:
    """The op of `inst` on other operands."""
    return draft(inst.op, operands, inst.attrs)


def cast_to(x: Term | None, type: TensorType) -> Term | None:
    if x is None or x.type.dtype is type.dtype:
        return x
    return draft(ops.cast, (x,), ops.CastAttrs(type.dtype))


def reshaped(x: Term | None, dims: Sequence[DimLike]) -> Term | None:
    if x is None or x.type.dims == tuple(dims):
        return x
    return draft(ops.reshape, (x,), ops.ReshapeAttrs(tuple(dims)))


def transposed(x: Term | None, perm: Sequence[int]) -> Term | None:
    if x is None or is_identity_permutation(perm):
        return x
    return draft(ops.transpose, (x,), ops.TransposeAttrs(tuple(perm)))


def broadcasted(x: Term | None, dims: Sequence[DimLike]) -> Term | None:
    if x is None or x.type.dims == tuple(dims):
        return x
    return draft(ops.broadcast_to, (x,), ops.BroadcastToAttrs(tuple(dims)))


def sliced(
    x: Term | None, starts: Sequence[DimLike], limits: Sequence[DimLike], strides: Sequence[int]
) -> Term | None:
    if x is None:
        return None
    whole = all(start == 0 for start in starts) and all(stride == 1 for stride in strides)
    if whole and x.type.dims == tuple(limits):
        return x
    return draft(ops.slice_, (x,), ops.SliceAttrs(tuple(starts), tuple(limits), tuple(strides)))


class Cut:
    """A slice in the making: all of x, but for the axes that are set."""

    def __init__(self, x: Term) -> None:
        self.x = x
        self.starts: list[DimLike] = [0] * x.type.rank
        self.limits: list[DimLike] = list(x.type.dims)
        self.strides = [1] * x.type.rank

    def __setitem__(self, axis: int, bounds: tuple[DimLike, DimLike, int]) -> None:
        self.starts[axis], self.limits[axis], self.strides[axis] = bounds

    def term(self) -> Term | None:
        return sliced(self.x, self.starts, self.limits, self.strides)


def backwards(x: Term | None, axes: Sequence[int]) -> Term | None:
    if x is None or not axes:
        return x
    return draft(ops.reverse, (x,), ops.ReverseAttrs(tuple(sorted(axes))))


def padded(
    x: Term | None,
    value: Term | None,
    low: Sequence[DimLike],
    high: Sequence[DimLike],
    interior: Sequence[int],
) -> Term | None:
    if x is None or not (any(d != 0 for d in (*low, *high)) or any(interior)):
        return x
    return draft(ops.pad, (x, value), ops.PadAttrs(tuple(low), tuple(high), tuple(interior)))


def joined(parts: Sequence[Term | None], axis: int) -> Term | None:
    if len(parts) == 1:
        return parts[0]
    return draft(ops.concat, parts, ops.ConcatAttrs(axis))

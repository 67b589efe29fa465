"""Stage 15, lower index dtype: abstract `index` becomes int32, or int64 where a value could leave int32.

Why: hardware has no `index`. 32-bit arithmetic is faster and takes fewer registers, so it is used wherever the bounds of
*every intermediate* allow it.

How: each rule computes in a concrete type and wraps its result in `CAST … : index`, which is what the rules of its users
look for: a rule declines while an operand is bare. The width of an op is that of its own bounds and those of all operands,
so `(i * 70000) // 70000` is done in 64 bits though the result fits 32, and what is computed *from* the result is done in
32 again. Consumers that end index arithmetic (INDEX, LOAD, STORE, END, SINK, casts, comparisons) take the wrapper off.
All rules run in one fixpoint together with `load_store_indexing`.

What comes out of memory may be anything that its dtype holds, and is only looked at where a gate says so: such an index
may leave 64 bits, and then wraps. (Values of uint64 stay unsigned, so that a comparison with a bound is right.)

Before → after::

    CONST 3 : index                   CAST(CONST 3 : i32) : index
    ADD(CAST(a: i32), CAST(b: i64))   CAST(ADD(CAST(a) : i64, b) : i64) : index
    INDEX(p, CAST(i: i32) : index)    INDEX(p, i)
    INDEX(p, WHERE(c, i, INVALID))    INDEX(p, i, c)

Would break without it: a back end would have to guess a width, and mixed widths would meet in one instruction.

Holds afterwards: no node has an `index` dtype; the indices of an INDEX have one width.
"""

from __future__ import annotations

from typing import Final

from planish import dtypes
from planish.dtypes import DType
from planish.errors import LoweringError
from planish.stages.gates import pm_gate_of_index, with_plain_gates
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import BINARY, COMPARISONS, UNARY, Ops
from planish.uop.pattern import INDEX, anything, node
from planish.uop.rewrite import rewrite

_CAST: Final = Ops.CAST  # a member of an enum costs more to look up than a name
_INT32: Final = (-(2**31), 2**31 - 1)
_INT64: Final = (-(2**63), 2**63 - 1)
_UINT64: Final = 2**64 - 1
_MACHINE: Final = frozenset({dtypes.int32, dtypes.int64, dtypes.uint64})
_CONSUMERS: Final = frozenset(
    {
        Ops.LOAD,
        Ops.STORE,
        Ops.PREFETCH,
        Ops.END,
        Ops.AFTER,
        Ops.SINK,
        Ops.GROUP,
        Ops.BARRIER,
        Ops.WAIT,
        Ops.FETCHED,
        Ops.IF,
    }
)
"""What ends index arithmetic."""
_BIT_COUNTS: Final = frozenset({Ops.CLZ, Ops.POPCOUNT})
"""Of a negative number (CLZ: of any) the answer depends on the width, which is 64 bits for an index."""


def select_concrete_dtype(*values: UOp) -> DType:
    """int32 if all values of all these nodes fit, else int64."""
    least, greatest = 0, 0
    for value in values:
        low, high = value.bounds or _INT64
        least = min(least, low)
        greatest = max(greatest, high)
    if _INT32[0] <= least and greatest <= _INT32[1]:
        return dtypes.int32
    if _INT64[0] <= least and greatest <= _INT64[1]:
        return dtypes.int64
    if any(map(_is_data, values)):
        return dtypes.uint64 if least >= 0 and greatest <= _UINT64 else dtypes.int64
    raise LoweringError(
        f"an index reaches {least}..{greatest}, beyond 64 bits",
        op=values[0].op.name,
        remedy="the tensor is too large to address; make its dims smaller",
    )


def _is_data(value: UOp) -> bool:
    """Whether it depends on something that came out of memory."""
    return any(n.op is Ops.LOAD or n.op is Ops.INDEX for n in value.toposort())


def unwrap_cast_index(value: UOp) -> UOp | None:
    """What a rule of this stage has wrapped; None if the value is not lowered yet."""
    if value.op is _CAST and value.dtype.is_index and value.src[0].dtype.is_int:
        return value.src[0]
    return None


def _wrap(value: UOp) -> UOp:
    return value.cast(dtypes.index)


def _unwrapped(values: tuple[UOp, ...]) -> list[UOp] | None:
    """What is in these wrappers; None if a value is not lowered yet."""
    unwrapped = []
    for value in values:
        inner = unwrap_cast_index(value)
        if inner is None:
            return None
        unwrapped.append(inner)
    return unwrapped


def _in(dtype: DType, values: list[UOp]) -> tuple[UOp, ...]:
    return tuple([value.cast(dtype) for value in values])


def _constant(root: UOp) -> UOp:
    return _wrap(root.replace(dtype=select_concrete_dtype(root).vec(root.dtype.lanes)))


def _arithmetic(root: UOp) -> UOp | None:
    operands = _unwrapped(root.src)
    if operands is None:
        return None
    wide = select_concrete_dtype(root, *root.src)
    if root.op in _BIT_COUNTS and wide is dtypes.int32 and (root.op is Ops.CLZ or root.src[0].vmin < 0):
        wide = dtypes.int64
    return _wrap(root.replace(dtype=wide.vec(root.dtype.lanes), src=_in(wide, operands)))


def _comparison(root: UOp) -> UOp | None:
    operands = _unwrapped(root.src)
    return None if operands is None else root.replace(src=_in(select_concrete_dtype(*root.src), operands))


def _joined(root: UOp) -> UOp | None:
    """WHERE, VECTORIZE, CAT: values side by side, in one width. (The condition of a WHERE is not one of them.)"""
    first = 1 if root.op is Ops.WHERE else 0
    values = _unwrapped(root.src[first:])
    if values is None:
        return None
    wide = select_concrete_dtype(*root.src[first:])
    src = (*root.src[:first], *_in(wide, values))
    return _wrap(root.replace(dtype=wide.vec(root.dtype.lanes), src=src))


def _counter(root: UOp) -> UOp | None:
    inner = unwrap_cast_index(root.src[0])
    if inner is None:
        return None
    bound = inner.cast(select_concrete_dtype(root.src[0]))
    return _wrap(root.replace(dtype=bound.dtype, src=(bound, *root.src[1:])))


def _variable(root: UOp) -> UOp:
    return _wrap(root.replace(dtype=select_concrete_dtype(root)))


def _same(root: UOp) -> UOp | None:
    """GEP, AFTER, NOOP: whatever the concrete value is."""
    inner = unwrap_cast_index(root.src[0]) if root.src else None
    if inner is None:
        return None
    dtype = inner.dtype.scalar.vec(root.dtype.lanes)
    return _wrap(root.replace(dtype=dtype, src=(inner, *map(_stripped, root.src[1:]))))


def _cast_to_index(root: UOp, x: UOp) -> UOp | None:
    """What is neither index nor integer has no wrapper to be taken off."""
    if x.dtype.is_int or x.dtype.is_index:
        return None
    return _wrap(x.cast(dtypes.int32 if x.dtype.is_bool else dtypes.int64))


def _cast_from_index(root: UOp) -> UOp | None:
    inner = unwrap_cast_index(root.src[0])
    return None if inner is None or root.dtype.is_index else inner.cast(root.dtype)


def _stripped(value: UOp) -> UOp:
    inner = unwrap_cast_index(value)
    return value if inner is None else inner


def _strip(root: UOp) -> UOp | None:
    for source in root.src:
        if source.op is _CAST:
            break
    else:  # most have nothing wrapped
        return None
    stripped = tuple([_stripped(source) for source in root.src])
    return None if stripped == root.src else root.replace(src=stripped)


def _strip_place(root: UOp) -> UOp | None:
    """The indices of a place: machine integers, all of one width."""
    if len(root.src) == 2:  # mostly one index, of a width that machines have
        if root.src[1].dtype.scalar in _MACHINE:
            return None  # it was this rule that made it so
        inner = unwrap_cast_index(root.src[1])
        if inner is not None and inner.dtype.scalar in _MACHINE:
            return root.replace(src=(root.src[0], inner))
    indices = [source for source in root.src[1:] if not source.dtype.is_bool]
    if any(source.dtype.is_index and unwrap_cast_index(source) is None for source in indices):
        return None
    stripped = [_stripped(source) for source in indices]
    widths = {value.dtype.scalar for value in stripped}
    if len(widths) > 1 or not widths <= _MACHINE:
        wide = select_concrete_dtype(*indices)
        stripped = [value.cast(wide) for value in stripped]
    if stripped == indices:
        return None
    return root.replace(src=(root.src[0], *stripped, *root.src[1 + len(stripped) :]))


pm_lower_index_dtype = Matcher(
    "pm_lower_index_dtype",
    [
        rule(
            node({Ops.CONST, Ops.VCONST}),
            _constant,
            says="CONST: index -> CONST: concrete, wrapped",
            on=INDEX,
        ),
        rule(
            node(BINARY - COMPARISONS),
            _arithmetic,
            says="x op y: index -> op in the joined width, wrapped",
            on=INDEX,
        ),
        rule(
            node(UNARY | {Ops.MULACC}), _arithmetic, says="op x: index -> op in its width, wrapped", on=INDEX
        ),
        rule(node(COMPARISONS), _comparison, says="x cmp y: index -> cmp in the joined width", on=INDEX),
        rule(
            node(Ops.WHERE), _joined, says="WHERE(c, x, y): index -> in the joined width, wrapped", on=INDEX
        ),
        rule(
            node({Ops.RANGE, Ops.SPECIAL}),
            _counter,
            says="RANGE: index -> of its bound's width, wrapped",
            on=INDEX,
        ),
        rule(node(Ops.DEFINE_VAR), _variable, says="DEFINE_VAR: index -> by its bounds, wrapped", on=INDEX),
        rule(
            node({Ops.VECTORIZE, Ops.CAT}),
            _joined,
            says="VECTORIZE: index -> in the joined width, wrapped",
            on=INDEX,
        ),
        rule(
            node({Ops.GEP, Ops.AFTER, Ops.NOOP}),
            _same,
            says="GEP, AFTER: index -> of the concrete value, wrapped",
            on=INDEX,
        ),
        rule(
            node(Ops.CAST, anything("x")),
            _cast_to_index,
            says="CAST(bool or float): index -> concrete, wrapped",
            on=INDEX,
        ),
    ],
)

load_store_indexing = Matcher(
    "load_store_indexing",
    [
        rule(node(Ops.CAST), _cast_from_index, says="CAST(wrapped: index): t -> CAST(concrete): t"),
        rule(node(Ops.INDEX), _strip_place, says="INDEX(b, wrapped…) -> INDEX(b, concrete, of one width…)"),
        rule(
            node(_CONSUMERS),
            _strip,
            says="consumer(wrapped: index) -> consumer(concrete)",
        ),
    ],
)

pm_lower_index_dtype_full = pm_lower_index_dtype + pm_gate_of_index + load_store_indexing


def lower_index_dtype(sink: UOp) -> UOp:
    """Give every index a machine width."""
    return rewrite(with_plain_gates(sink), pm_lower_index_dtype_full)

"""Stage 15, lower index dtype: abstract `index` becomes int32, or int64 where a value could leave int32.

Why: hardware has no `index`. 32-bit arithmetic is faster and takes fewer registers, so it is used wherever the bounds of
*every intermediate* allow it.

How: each rule computes in a concrete type and wraps its result in `CAST … : index`, which is what the rules of its users
look for. Widths are joined over the node's own bounds and all operands, so `(i * 70000) // 70000` is done in 64 bits even
though the result fits 32. Consumers that end index arithmetic (INDEX, LOAD, STORE, END, SINK, casts, comparisons) take
the wrapper off. All rules run in one fixpoint together with `load_store_indexing`.

Before → after::

    CONST 3 : index                   CAST(CONST 3 : i32) : index
    ADD(CAST(a: i32), CAST(b: i64))   CAST(ADD(CAST(a) : i64, b) : i64) : index
    INDEX(p, CAST(i: i32) : index)    INDEX(p, i)
    INDEX(p, WHERE(c, i, INVALID))    INDEX(p, i, c)

Would break without it: a back end would have to guess a width, and mixed widths would meet in one instruction.

Holds afterwards: no node has an `index` dtype.
"""

from __future__ import annotations

from typing import Final

from planish import dtypes
from planish.dtypes import DType
from planish.errors import LoweringError
from planish.stages.gates import pm_gate_of_index
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import BINARY, COMPARISONS, UNARY, Ops
from planish.uop.pattern import INDEX, node
from planish.uop.rewrite import rewrite

_INT32: Final = (-(2**31), 2**31 - 1)
_INT64: Final = (-(2**63), 2**63 - 1)


def select_concrete_dtype(value: UOp) -> DType:
    """int32 if all values of the node fit, else int64."""
    least, greatest = value.vmin, value.vmax
    if _INT32[0] <= least and greatest <= _INT32[1]:
        return dtypes.int32
    if _INT64[0] <= least and greatest <= _INT64[1]:
        return dtypes.int64
    raise LoweringError(
        f"an index reaches {least}..{greatest}, beyond 64 bits",
        op=value.op.name,
        remedy="the tensor is too large to address; make its dims smaller",
    )


def least_upper_int_dtype(*types: DType) -> DType:
    """The narrowest of int32 and int64 that holds them all."""
    return dtypes.int64 if any(t.scalar is dtypes.int64 for t in types) else dtypes.int32


def unwrap_cast_index(value: UOp) -> UOp | None:
    """What a rule of this stage has wrapped; None if the value is not lowered yet."""
    if value.op is Ops.CAST and value.dtype.is_index and value.src[0].dtype.is_int:
        return value.src[0]
    return None


def _unwrap_all(values: tuple[UOp, ...]) -> list[UOp] | None:
    found = [unwrap_cast_index(value) for value in values]
    return None if None in found else [value for value in found if value is not None]


def _wrap(value: UOp) -> UOp:
    return value.cast(dtypes.index)


def _constant(root: UOp) -> UOp:
    return _wrap(root.replace(dtype=select_concrete_dtype(root).vec(root.dtype.lanes)))


def _arithmetic(root: UOp) -> UOp | None:
    operands = _unwrap_all(root.src)
    if operands is None:
        return None
    wide = least_upper_int_dtype(select_concrete_dtype(root), *(o.dtype for o in operands))
    return _wrap(root.replace(dtype=wide.vec(root.dtype.lanes), src=tuple(o.cast(wide) for o in operands)))


def _comparison(root: UOp) -> UOp | None:
    operands = _unwrap_all(root.src)
    if operands is None:
        return None
    wide = least_upper_int_dtype(*(o.dtype for o in operands))
    return root.replace(src=tuple(o.cast(wide) for o in operands))


def _where(root: UOp) -> UOp | None:
    branches = _unwrap_all(root.src[1:])
    if branches is None:
        return None
    wide = least_upper_int_dtype(*(b.dtype for b in branches))
    return _wrap(
        root.replace(dtype=wide.vec(root.dtype.lanes), src=(root.src[0], *(b.cast(wide) for b in branches)))
    )


def _counter(root: UOp) -> UOp | None:
    bound = unwrap_cast_index(root.src[0])
    if bound is None:
        return None
    return _wrap(root.replace(dtype=bound.dtype, src=(bound, *root.src[1:])))


def _variable(root: UOp) -> UOp:
    return _wrap(root.replace(dtype=select_concrete_dtype(root)))


def _lanes(root: UOp) -> UOp | None:
    elements = _unwrap_all(root.src)
    if elements is None:
        return None
    wide = least_upper_int_dtype(*(e.dtype for e in elements))
    return _wrap(root.replace(dtype=wide.vec(root.dtype.lanes), src=tuple(e.cast(wide) for e in elements)))


def _select_lanes(root: UOp) -> UOp | None:
    inner = unwrap_cast_index(root.src[0])
    return (
        None
        if inner is None
        else _wrap(root.replace(dtype=inner.dtype.scalar.vec(root.dtype.lanes), src=(inner,)))
    )


def _cast_from_index(root: UOp) -> UOp | None:
    inner = unwrap_cast_index(root.src[0])
    return None if inner is None or root.dtype.is_index else inner.cast(root.dtype)


def _strip(root: UOp) -> UOp | None:
    concrete = [unwrap_cast_index(s) for s in root.src]
    stripped = tuple(s if c is None else c for s, c in zip(root.src, concrete, strict=True))
    return None if stripped == root.src else root.replace(src=stripped)


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
        rule(node(Ops.WHERE), _where, says="WHERE(c, x, y): index -> in the joined width, wrapped", on=INDEX),
        rule(
            node({Ops.RANGE, Ops.SPECIAL}),
            _counter,
            says="RANGE: index -> of its bound's width, wrapped",
            on=INDEX,
        ),
        rule(node(Ops.DEFINE_VAR), _variable, says="DEFINE_VAR: index -> by its bounds, wrapped", on=INDEX),
        rule(node(Ops.BIND), _arithmetic, says="BIND: index -> in the joined width, wrapped", on=INDEX),
        rule(
            node({Ops.VECTORIZE, Ops.CAT}),
            _lanes,
            says="VECTORIZE: index -> in the joined width, wrapped",
            on=INDEX,
        ),
        rule(node(Ops.GEP), _select_lanes, says="GEP: index -> of the concrete vector, wrapped", on=INDEX),
    ],
)

load_store_indexing = Matcher(
    "load_store_indexing",
    [
        rule(node(Ops.CAST), _cast_from_index, says="CAST(wrapped: index): t -> CAST(concrete): t"),
        rule(
            node(
                {Ops.INDEX, Ops.LOAD, Ops.STORE, Ops.END, Ops.REDUCE, Ops.AFTER, Ops.SINK, Ops.GROUP, Ops.IF}
            ),
            _strip,
            says="consumer(wrapped: index) -> consumer(concrete)",
        ),
    ],
)

pm_lower_index_dtype_full = pm_lower_index_dtype + pm_gate_of_index + load_store_indexing


def lower_index_dtype(sink: UOp) -> UOp:
    """Give every index a machine width."""
    return rewrite(sink, pm_lower_index_dtype_full)

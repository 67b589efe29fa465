"""Products of matrices."""

from __future__ import annotations

from typing import Any

from torch.backends import cuda

from planish import dtypes
from planish.dtypes import DType
from planish.ptir import ops
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import cast, spread
from planish.torch.registry import lowering
from planish.torch.site import FxSite, shortened, wide_kind


def product(x: V, y: V, out: DType | None = None) -> V:
    """A product of two matrices of one batch shape: narrow floats are summed wide and rounded once."""
    return x.matmul(y, _sums(x.dtype, out))


def alike(at: FxSite, *operands: V) -> None:
    """Products of several dtypes are a mistake that torch tells when it runs, not when it captures a graph."""
    kinds = {x.dtype for x in operands}
    if len(kinds) > 1:
        raise at.refuse(f"operands of {' and '.join(sorted(map(str, kinds)))}")


def _matrices(at: FxSite, x: V, y: V, out: DType | None = None) -> V:
    """The same of operands as torch lets cuBLAS read them."""
    alike(at, x, y)
    left, right = shortened(at, cuda.matmul, x, y)
    return product(left, right, out or x.dtype)


def _sums(dtype: DType, out: DType | None) -> ops.DotAttrs:
    own = out or dtype
    if dtype.is_bool:
        return ops.DotAttrs()
    wide = dtypes.float32 if dtype.is_float and dtype.bits < 32 else dtype
    return ops.DotAttrs(wide, own)


@lowering("aten.mm", "aten.bmm")
def mm(at: FxSite, x: V, y: V, out_dtype: Any = None) -> V:
    return _matrices(at, x, y, at.dtype)


@lowering("aten.dot")
def dot(at: FxSite, x: V, y: V) -> V:
    alike(at, x, y)
    return x.dot_general(y, ops.DotDims((), (0,), (0,)), _sums(x.dtype, None))


@lowering("aten.vdot")
def vdot(at: FxSite, x: V, y: V) -> V:
    return dot(at, x.conj() if x.dtype.is_complex else x, y)


@lowering("aten.mv")
def mv(at: FxSite, x: V, vec: V) -> V:
    alike(at, x, vec)
    return x.dot_general(vec, ops.DotDims((), (1,), (0,)), _sums(x.dtype, None))


@lowering("aten.linear")
def linear(at: FxSite, x: V, weight: V, bias: V | None = None) -> V:
    alike(at, x, weight)
    sums = _sums(x.dtype, x.dtype if bias is None else wide_kind(x.dtype))
    x, weight = shortened(at, cuda.matmul, x, weight)
    projected = x.dot_general(weight, ops.DotDims((), (x.rank - 1,), (weight.rank - 1,)), sums)
    return projected if bias is None else plus(at, bias, projected, 1, 1)


@lowering("aten.addmm", "aten.baddbmm")
def addmm(at: FxSite, bias: V, x: V, y: V, *, beta: Any = 1, alpha: Any = 1) -> V:
    return plus(at, bias, _matrices(at, x, y, wide_kind(x.dtype)), beta, alpha)


@lowering("aten.addmv")
def addmv(at: FxSite, bias: V, x: V, vec: V, *, beta: Any = 1, alpha: Any = 1) -> V:
    return plus(at, bias, mv(at, x, vec), beta, alpha)


@lowering("aten.addr")
def addr(at: FxSite, bias: V, x: V, y: V, *, beta: Any = 1, alpha: Any = 1) -> V:
    rows, columns = cast(x, at.dtype), cast(y, at.dtype)
    dims = (rows.dims[0], columns.dims[0])
    outer = rows.expand_dims(1).broadcast_to(dims)
    other = columns.expand_dims(0).broadcast_to(dims)
    return plus(at, bias, outer.and_(other) if at.dtype.is_bool else outer.mul(other), beta, alpha)


@lowering("aten.addbmm")
def addbmm(at: FxSite, bias: V, x: V, y: V, *, beta: Any = 1, alpha: Any = 1) -> V:
    total = x.dot_general(y, ops.DotDims((), (0, 2), (0, 1)), _sums(x.dtype, None))
    return plus(at, bias, total, beta, alpha)


def plus(at: FxSite, bias: V, term: V, beta: Any, alpha: Any) -> V:
    """beta·bias + alpha·term; what beta = 0 takes is not even looked at. Sums of narrow floats are rounded once, when all is added."""
    return cast(_plus(at, bias, cast(term, wide_kind(at.dtype)), beta, alpha), at.dtype)


def _plus(at: FxSite, bias: V, term: V, beta: Any, alpha: Any) -> V:
    if term.dtype.is_bool:
        return term if not beta else cast(bias, term.dtype).broadcast_to(term.dims).or_(term)
    if alpha != 1:
        term = term.mul(at.full(term.dims, alpha, term.dtype))
    if beta == 0:
        return term
    own = cast(bias, term.dtype)
    own = own if beta == 1 else own.mul(at.full(own.dims, beta, own.dtype))
    return spread(own, term.dims).add(term)

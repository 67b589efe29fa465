"""Products of matrices, contractions by name, determinants."""

from __future__ import annotations

from planish import dtypes
from planish.onnx.ops.common import sizes
from planish.onnx.ops.elementwise import aligned
from planish.onnx.ops.whole_products import WHOLE, whole_operands
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir import ops
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library import contraction
from planish.ptir.library.factorizations import factors_of_determinant
from planish.ptir.library.normalize import converted
from planish.ptir.library.shaping import broadcast_dims


def matmul(x: V, y: V, attrs: ops.DotAttrs | None = None) -> V:
    """NumPy's product: vectors lose their axis, leading axes broadcast."""
    left, right = x.rank == 1, y.rank == 1
    a = x.reshape((1, *x.dims)) if left else x
    b = y.reshape((*y.dims, 1)) if right else y
    if b.rank == 2 and a.rank > 2:
        # One matrix for all: the leading axes are rows.
        result = a.dot_general(b, ops.DotDims((), (a.rank - 1,), (0,)), attrs)
    else:
        lead = broadcast_dims(a.dims[:-2], b.dims[:-2])
        a, b = (v.broadcast_to((*lead, *v.dims[-2:])) if v.dims[:-2] != lead else v for v in (a, b))
        result = a.matmul(b, attrs)
    dims = list(result.dims)
    if left:
        del dims[-1 if right else -2]
    if right:
        del dims[-1]
    return result if len(dims) == result.rank else result.reshape(dims)


@op("MatMul")
def matmul_(at: NodeSite, x: V, y: V) -> V:
    whole = whole_operands(at, x, y)
    return matmul(x, y) if whole is None else whole.in_units(matmul(whole.left, whole.right, WHOLE))


def scaled(x: V, factor: float) -> V:
    """x · factor, for integers too."""
    if factor == 1:
        return x
    if x.dtype.is_float:
        return x.mul(factor)
    return (
        x.mul(int(factor))
        if factor == int(factor)
        else converted(x.cast(dtypes.float64).mul(factor), x.dtype)
    )


def gemm_product(at: NodeSite, a: V, b: V) -> V:
    """op(a)·op(b) as the attributes transA and transB say."""
    over_a, over_b = (0 if at.attr("transA", 0) else 1), (1 if at.attr("transB", 0) else 0)
    dims, whole = ops.DotDims((), (over_a,), (over_b,)), whole_operands(at, a, b, over_b)
    return (
        a.dot_general(b, dims)
        if whole is None
        else whole.in_units(whole.left.dot_general(whole.right, dims, WHOLE))
    )


@op("Gemm")
def gemm_early(at: NodeSite, a: V, b: V, c: V) -> V:
    product = scaled(gemm_product(at, a, b), at.attr("alpha", 1.0))
    shift = aligned(at, product, c)
    return product.add(scaled(shift, at.attr("beta", 1.0)).broadcast_to(product.dims))


@op("Gemm", since=7)
def gemm(at: NodeSite, a: V, b: V, c: V | None = None) -> V:
    product = scaled(gemm_product(at, a, b), at.attr("alpha", 1.0))
    beta = at.attr("beta", 1.0)
    return product if c is None else product.add(scaled(c, beta).broadcast_to(product.dims))


@op("Einsum")
def einsum(at: NodeSite, *xs: V) -> V:
    return contraction.einsum(at.attributes.require("equation"), *xs)


@op("Det")
def det(at: NodeSite, x: V) -> V:
    """By LU: the product of the pivots, negated for an odd permutation of rows."""
    sizes(at, x)
    wide = x if x.dtype.bits >= 32 else x.cast(dtypes.float32)
    pivots, sign = factors_of_determinant(*wide.lu())
    return converted(pivots.reduce_prod([pivots.rank - 1]).mul(sign), x.dtype)

"""Linear algebra: what PTIR has as ops, and what follows from those."""

from __future__ import annotations

from planish import dtypes
from planish.frontend.tensor.factorizations import EIG, eig_types
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import cast, spread
from planish.ptir.library.factorizations import (
    conjugate_transpose,
    factors_of_determinant,
    householder,
    householder_product,
    lu_solve,
    permutation_matrix,
    permutation_of,
    pivots_of,
    triangles,
    with_rows,
)
from planish.ptir.library.shaping import broadcast_dims, diagonal, eye, roll
from planish.torch.registry import lowering
from planish.torch.site import FxSite, sizes


@lowering("aten.linalg_cholesky_ex")
def linalg_cholesky_ex(at: FxSite, x: V, *, upper: bool = False, check_errors: bool = False) -> tuple[V, V]:
    """Where there is none, the factor is not a number: torch counts the minor, which we tell as 1."""
    lower = x.cholesky()
    bad = lower.real().is_nan() if lower.dtype.is_complex else lower.is_nan()
    info = bad.reduce_or([x.rank - 2, x.rank - 1]).cast(dtypes.int32)
    return conjugate_transpose(lower) if upper else lower, info


@lowering("aten.cholesky")
def cholesky(at: FxSite, x: V, upper: bool = False) -> V:
    return linalg_cholesky_ex(at, x, upper=upper)[0]


@lowering("aten.cholesky_solve")
def cholesky_solve(at: FxSite, x: V, factor: V, upper: bool = False) -> V:
    own, given = _batched(at, factor, x)
    lower = conjugate_transpose(own) if upper else own
    half = lower.triangular_solve(given)
    return lower.triangular_solve(half, transform="adjoint" if x.dtype.is_complex else "transpose")


@lowering("aten.cholesky_inverse")
def cholesky_inverse(at: FxSite, x: V, upper: bool = False) -> V:
    return cholesky_solve(at, _unit(x, x.dims[-1]), x, upper)


def _unit(x: V, count: object) -> V:
    one = eye(x, x.dims[-2], count, x.dtype)  # type: ignore[arg-type]
    return spread(one, (*x.dims[:-2], *one.dims))


def _batched(at: FxSite, x: V, y: V) -> tuple[V, V]:
    """Matrices with one batch shape."""
    lead = broadcast_dims(x.dims[:-2], y.dims[:-2])
    return spread(x, (*lead, *x.dims[-2:])), spread(y, (*lead, *y.dims[-2:]))


@lowering("aten.linalg_qr")
def linalg_qr(at: FxSite, x: V, mode: str = "reduced") -> tuple[V, V]:
    q, r = x.qr(mode == "complete")
    if mode == "r":
        return at.full((0,), 0, x.dtype), r
    return q, r


@lowering("aten.geqrf")
def geqrf(at: FxSite, x: V) -> tuple[V, V]:
    return householder(x)


@lowering("aten.ormqr")
def ormqr(at: FxSite, x: V, tau: V, other: V, left: bool = True, transpose: bool = False) -> V:
    """The whole orthogonal matrix that reflections stand for, times another or another times it."""
    rows, columns = sizes(at, x)[-2:]
    square = x.pad([0] * x.rank, [0] * (x.rank - 1) + [rows - columns]) if columns < rows else x[..., :rows]
    q = householder_product(square, tau)
    q = conjugate_transpose(q) if transpose else q
    return q.matmul(other) if left else other.matmul(q)


@lowering("aten._linalg_svd")
def linalg_svd(
    at: FxSite, x: V, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[V, V, V]:
    if not compute_uv:
        nothing = at.full((0,), 0, x.dtype)
        return nothing, x.svd(full_matrices, False)[0], nothing
    u, s, v = x.svd(full_matrices, True)
    return u, s, v


@lowering("aten._linalg_eigh")
def linalg_eigh(at: FxSite, x: V, triangle: str = "L", compute_v: bool = True) -> tuple[V, V]:
    values, vectors = x.eigh(triangle.upper() == "L")
    return values, vectors if compute_v else at.full((0,), 0, x.dtype)


@lowering("aten.linalg_eig")
def linalg_eig(at: FxSite, x: V) -> tuple[V, V]:
    values, vectors = at.graph.custom_call(EIG, [x], eig_types(x.dtype, x.dims))
    return values, vectors


@lowering("aten._linalg_eigvals")
def linalg_eigvals(at: FxSite, x: V) -> V:
    return linalg_eig(at, x)[0]


@lowering("aten.linalg_solve_triangular")
def linalg_solve_triangular(
    at: FxSite, x: V, rhs: V, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> V:
    own, given = _batched(at, x, rhs)
    return own.triangular_solve(given, left, not upper, unit_diagonal=unitriangular)


@lowering("aten.triangular_solve")
def triangular_solve(
    at: FxSite, rhs: V, x: V, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[V, V]:
    own, given = _batched(at, x, rhs)
    solved = own.triangular_solve(given, True, not upper, "transpose" if transpose else "none", unitriangular)
    return solved, own


@lowering("aten._linalg_solve_ex")
def linalg_solve_ex(
    at: FxSite, x: V, rhs: V, *, left: bool = True, check_errors: bool = False
) -> tuple[V, V, V, V]:
    vector = rhs.rank == 1 or (x.rank - 1 == rhs.rank and rhs.dims == x.dims[:-1])
    columns = rhs.expand_dims(rhs.rank) if vector else rhs
    own, given = _batched(at, x, columns)
    turned = own if left else own.transpose([*range(own.rank - 2), own.rank - 1, own.rank - 2])
    given = given if left else given.transpose([*range(given.rank - 2), given.rank - 1, given.rank - 2])
    packed, permutation = turned.lu()
    solved = lu_solve(packed, permutation, given)
    solved = solved if left else solved.transpose([*range(solved.rank - 2), solved.rank - 1, solved.rank - 2])
    first, order = x.lu()
    info = diagonal(first).eq(0).reduce_or([first.rank - 2]).cast(dtypes.int32)
    return solved.squeeze([solved.rank - 1]) if vector else solved, first, pivots_of(order), info


@lowering("aten.linalg_inv_ex")
def linalg_inv_ex(at: FxSite, x: V, *, check_errors: bool = False) -> tuple[V, V]:
    packed, permutation = x.lu()
    inverse = lu_solve(packed, permutation, _unit(x, x.dims[-1]))
    return inverse, diagonal(packed).eq(0).reduce_or([x.rank - 2]).cast(dtypes.int32)


@lowering("aten.linalg_lu_factor_ex")
def linalg_lu_factor_ex(
    at: FxSite, x: V, *, pivot: bool = True, check_errors: bool = False
) -> tuple[V, V, V]:
    if not pivot:
        raise at.refuse("without pivots")
    packed, permutation = x.lu()
    rows, columns = sizes(at, x)[-2:]
    zero = diagonal(packed).eq(0).reduce_or([x.rank - 2]).cast(dtypes.int32)
    return packed, pivots_of(permutation)[..., : min(rows, columns)], zero


@lowering("aten.linalg_lu")
def linalg_lu(at: FxSite, x: V, *, pivot: bool = True) -> tuple[V, V, V]:
    if not pivot:
        raise at.refuse("without pivots")
    packed, permutation = x.lu()
    return permutation_matrix(permutation, x.dtype), *triangles(packed)


@lowering("aten._linalg_det")
def linalg_det(at: FxSite, x: V) -> tuple[V, V, V]:
    packed, permutation = x.lu()
    line, sign = factors_of_determinant(packed, permutation)
    return sign.mul(line.reduce_prod([line.rank - 1])), packed, pivots_of(permutation)


@lowering("aten._linalg_slogdet")
def linalg_slogdet(at: FxSite, x: V) -> tuple[V, V, V, V]:
    packed, permutation = x.lu()
    line, sign = factors_of_determinant(packed, permutation)
    magnitude = line.abs().log().reduce_sum([line.rank - 1])
    return sign.mul(line.sign().reduce_prod([line.rank - 1])), magnitude, packed, pivots_of(permutation)


@lowering("aten.linalg_cross")
def linalg_cross(at: FxSite, x: V, y: V, *, dim: int = -1) -> V:
    left, right = at.together(x, y)
    axis = dim % left.rank

    def turned(value: V, by: int) -> V:
        return roll(value, [by], [axis])

    return turned(left, -1).mul(turned(right, -2)).sub(turned(left, -2).mul(turned(right, -1)))


# --- what follows from factors ----------------------------------------------------------------------------


@lowering("aten.lu_unpack")
def lu_unpack(
    at: FxSite, packed: V, pivots: V, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[V, V, V]:
    nothing = at.full((0,), 0, packed.dtype)
    lower, upper = triangles(packed) if unpack_data else (nothing, nothing)
    if not unpack_pivots:
        return nothing, lower, upper
    return permutation_matrix(permutation_of(pivots, sizes(at, packed)[-2]), packed.dtype), lower, upper


@lowering("aten.linalg_lu_solve")
def linalg_lu_solve(
    at: FxSite, packed: V, pivots: V, rhs: V, *, left: bool = True, adjoint: bool = False
) -> V:
    """P·L·U·x = rhs, of the adjoint from the other end; x·A = rhs is Aᴴ·xᴴ = rhsᴴ."""
    own, given = _batched(at, packed, rhs)
    order = permutation_of(pivots, sizes(at, packed)[-1])
    order = spread(order, (*own.dims[:-2], order.dims[-1]))
    given = given if left else conjugate_transpose(given)
    if adjoint is left:
        transform = "adjoint" if own.dtype.is_complex else "transpose"
        half = own.triangular_solve(given, lower=False, transform=transform)
        half = own.triangular_solve(half, transform=transform, unit_diagonal=True)
        solved = with_rows(half, cast(order, dtypes.int64).argsort(order.rank - 1))
    else:
        solved = lu_solve(own, order, given)
    return solved if left else conjugate_transpose(solved)


@lowering("aten.linalg_pinv.atol_rtol_tensor")
def linalg_pinv(
    at: FxSite, x: V, *, atol: V | None = None, rtol: V | None = None, hermitian: bool = False
) -> V:
    """V · diag(1/s) · Uᴴ without the singular values that count as 0."""
    if hermitian:
        s, v = x.eigh()
        u = v
    else:
        u, s, back = x.svd(False, True)
        v = conjugate_transpose(back)
    size = s.abs()
    lead = s.dims[:-1]
    limit = at.full(lead, 0.0, s.dtype) if atol is None else spread(cast(atol, s.dtype), lead)
    epsilon = at.full(
        lead, 2.0 ** (-23 if s.dtype is dtypes.float32 else -52) * max(sizes(at, x)[-2:]), s.dtype
    )
    if rtol is not None:
        share = spread(cast(rtol, s.dtype), lead)
    else:
        share = limit.gt(0).select(at.full(lead, 0.0, s.dtype), epsilon)
    limit = limit.max(share.mul(size.reduce_max([s.rank - 1])))
    kept = size.gt(spread(limit.expand_dims(limit.rank), s.dims))
    inverse = kept.select(s.reciprocal(), at.full(s.dims, 0.0, s.dtype))
    scaled = v.mul(spread(cast(inverse, x.dtype).expand_dims(s.rank - 1), v.dims))
    return scaled.matmul(conjugate_transpose(u))


@lowering("aten.linalg_matrix_exp")
def linalg_matrix_exp(at: FxSite, x: V) -> V:
    """A series of the matrix scaled below norm 1, squared again as often as it was halved."""
    if 0 in x.dims:
        return x
    axes = [x.rank - 2, x.rank - 1]
    part = x.abs().reduce_sum([axes[0]], True).reduce_max([axes[1]], True)
    halvings = part.log2().ceil().max(0.0)
    scale = spread(cast(halvings.neg().exp2(), x.dtype), x.dims)
    small = x.mul(scale)
    one = _unit(x, x.dims[-1])
    total = one
    for k in range(18, 0, -1):
        total = one.add(small.matmul(total).div(at.full(x.dims, k, x.dtype)))
    most = halvings.reduce_max()

    def more(step: V, _: V) -> V:
        return step.lt(most)

    def squared(step: V, value: V) -> tuple[V, V]:
        goes = spread(spread(step, halvings.dims).lt(halvings), value.dims)
        return step.add(1.0), goes.select(value.matmul(value), value)

    return at.graph.while_loop(more, squared, at.full((), 0.0, most.dtype), total)[1]


@lowering("aten.linalg_householder_product")
def linalg_householder_product(at: FxSite, x: V, tau: V) -> V:
    return householder_product(x, tau)

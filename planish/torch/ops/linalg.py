"""Linear algebra: what PTIR has as ops, and what follows from those."""

from __future__ import annotations

from planish import dtypes
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import take_along_axis
from planish.ptir.library.shaping import broadcast_dims, diagonal, eye, roll, tril, triu
from planish.torch.registry import lowering
from planish.torch.site import NodeSite, cast, sizes, spread


def adjoint(x: V) -> V:
    """The conjugate transpose."""
    turned = x.transpose([*range(x.rank - 2), x.rank - 1, x.rank - 2])
    return turned.conj() if x.dtype.is_complex else turned


@lowering("aten.linalg_cholesky_ex")
def linalg_cholesky_ex(at: NodeSite, x: V, *, upper: bool = False, check_errors: bool = False) -> tuple[V, V]:
    """Where there is none, the factor is not a number: torch counts the minor, which we tell as 1."""
    lower = x.cholesky()
    bad = lower.real().is_nan() if lower.dtype.is_complex else lower.is_nan()
    info = bad.reduce_or([x.rank - 2, x.rank - 1]).cast(dtypes.int32)
    return adjoint(lower) if upper else lower, info


@lowering("aten.cholesky")
def cholesky(at: NodeSite, x: V, upper: bool = False) -> V:
    return linalg_cholesky_ex(at, x, upper=upper)[0]


@lowering("aten.cholesky_solve")
def cholesky_solve(at: NodeSite, x: V, factor: V, upper: bool = False) -> V:
    own, given = _batched(at, factor, x)
    lower = adjoint(own) if upper else own
    half = lower.triangular_solve(given)
    return lower.triangular_solve(half, transform="adjoint" if x.dtype.is_complex else "transpose")


@lowering("aten.cholesky_inverse")
def cholesky_inverse(at: NodeSite, x: V, upper: bool = False) -> V:
    return cholesky_solve(at, _unit(x, x.dims[-1]), x, upper)


def _unit(x: V, count: object) -> V:
    one = eye(x, x.dims[-2], count, x.dtype)  # type: ignore[arg-type]
    return spread(one, (*x.dims[:-2], *one.dims))


def _batched(at: NodeSite, x: V, y: V) -> tuple[V, V]:
    """Matrices with one batch shape."""
    lead = broadcast_dims(x.dims[:-2], y.dims[:-2])
    return spread(x, (*lead, *x.dims[-2:])), spread(y, (*lead, *y.dims[-2:]))


@lowering("aten.linalg_qr")
def linalg_qr(at: NodeSite, x: V, mode: str = "reduced") -> tuple[V, V]:
    q, r = x.qr(mode == "complete")
    if mode == "r":
        return at.full((0,), 0, x.dtype), r
    return q, r


@lowering("aten._linalg_svd")
def linalg_svd(
    at: NodeSite, x: V, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[V, V, V]:
    if not compute_uv:
        nothing = at.full((0,), 0, x.dtype)
        return nothing, x.svd(full_matrices, False)[0], nothing
    u, s, v = x.svd(full_matrices, True)
    return u, s, v


@lowering("aten._linalg_eigh")
def linalg_eigh(at: NodeSite, x: V, triangle: str = "L", compute_v: bool = True) -> tuple[V, V]:
    values, vectors = x.eigh(triangle.upper() == "L")
    return values, vectors if compute_v else at.full((0,), 0, x.dtype)


@lowering("aten.linalg_solve_triangular")
def linalg_solve_triangular(
    at: NodeSite, x: V, rhs: V, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> V:
    own, given = _batched(at, x, rhs)
    return own.triangular_solve(given, left, not upper, unit_diagonal=unitriangular)


@lowering("aten.triangular_solve")
def triangular_solve(
    at: NodeSite, rhs: V, x: V, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[V, V]:
    own, given = _batched(at, x, rhs)
    found = own.triangular_solve(given, True, not upper, "transpose" if transpose else "none", unitriangular)
    return found, own


def _solved(packed: V, permutation: V, rhs: V) -> V:
    """L·U·x = P·rhs."""
    rows = _permuted(rhs, permutation)
    return packed.triangular_solve(packed.triangular_solve(rows, unit_diagonal=True), lower=False)


def _permuted(x: V, permutation: V) -> V:
    """Rows in another order."""
    index = spread(cast(permutation, dtypes.int64).expand_dims(permutation.rank), x.dims)
    return take_along_axis(x, index, x.rank - 2)


@lowering("aten._linalg_solve_ex")
def linalg_solve_ex(
    at: NodeSite, x: V, rhs: V, *, left: bool = True, check_errors: bool = False
) -> tuple[V, V, V, V]:
    vector = rhs.rank == 1 or (x.rank - 1 == rhs.rank and rhs.dims == x.dims[:-1])
    columns = rhs.expand_dims(rhs.rank) if vector else rhs
    own, given = _batched(at, x, columns)
    turned = own if left else own.transpose([*range(own.rank - 2), own.rank - 1, own.rank - 2])
    given = given if left else given.transpose([*range(given.rank - 2), given.rank - 1, given.rank - 2])
    packed, permutation = turned.lu()
    found = _solved(packed, permutation, given)
    found = found if left else found.transpose([*range(found.rank - 2), found.rank - 1, found.rank - 2])
    first, order = x.lu()
    info = diagonal(first).eq(0).reduce_or([first.rank - 2]).cast(dtypes.int32)
    return found.squeeze([found.rank - 1]) if vector else found, first, _pivots(at, order), info


def _pivots(at: NodeSite, permutation: V) -> V:
    """The row that each step exchanged its own with, from 1, as LAPACK tells it."""
    count = sizes(at, permutation)[-1]
    rank = permutation.rank
    line = at.graph.iota(permutation.dims, rank - 1, dtypes.int64)
    wanted = cast(permutation, dtypes.int64)
    current = line
    found = []
    for step in range(count):
        row = wanted[..., step : step + 1]
        place = current.eq(spread(row, current.dims)).select(line, 0).reduce_sum([rank - 1], True)
        found.append(place)
        mine = current[..., step : step + 1]
        current = line.eq(spread(place, line.dims)).select(spread(mine, line.dims), current)
        current = line.eq(step).select(spread(row, line.dims), current)
    if not found:
        return cast(wanted, dtypes.int32)
    return found[0].concat(found[1:], rank - 1).add(1).cast(dtypes.int32)


@lowering("aten.linalg_inv_ex")
def linalg_inv_ex(at: NodeSite, x: V, *, check_errors: bool = False) -> tuple[V, V]:
    packed, permutation = x.lu()
    found = _solved(packed, permutation, _unit(x, x.dims[-1]))
    return found, diagonal(packed).eq(0).reduce_or([x.rank - 2]).cast(dtypes.int32)


@lowering("aten.linalg_lu_factor_ex")
def linalg_lu_factor_ex(
    at: NodeSite, x: V, *, pivot: bool = True, check_errors: bool = False
) -> tuple[V, V, V]:
    if not pivot:
        raise at.refuse("without pivots")
    packed, permutation = x.lu()
    rows, columns = sizes(at, x)[-2:]
    zero = diagonal(packed).eq(0).reduce_or([x.rank - 2]).cast(dtypes.int32)
    return packed, _pivots(at, permutation)[..., : min(rows, columns)], zero


@lowering("aten.linalg_lu")
def linalg_lu(at: NodeSite, x: V, *, pivot: bool = True) -> tuple[V, V, V]:
    if not pivot:
        raise at.refuse("without pivots")
    packed, permutation = x.lu()
    rows, columns = sizes(at, x)[-2:]
    size = min(rows, columns)
    upper = triu(packed[..., :size, :])
    lower = tril(packed[..., :size], -1)
    lower = lower.add(spread(eye(x, rows, size, x.dtype), lower.dims))
    dims = (*x.dims[:-2], rows, rows)
    line = at.graph.iota(dims, x.rank - 2, dtypes.int64)
    moved = cast(permutation, dtypes.int64).expand_dims(permutation.rank - 1).broadcast_to(dims)
    return cast(line.eq(moved), x.dtype), lower, upper


def _signed(at: NodeSite, x: V) -> tuple[V, V, V, V]:
    """The factors of x, the product of signs, the diagonal."""
    packed, permutation = x.lu()
    count = sizes(at, permutation)[-1]
    dims = (*permutation.dims, count)
    left = cast(permutation, dtypes.int64).expand_dims(permutation.rank).broadcast_to(dims)
    right = cast(permutation, dtypes.int64).expand_dims(permutation.rank - 1).broadcast_to(dims)
    before = at.graph.iota(dims, permutation.rank - 1, dtypes.int64).lt(
        at.graph.iota(dims, permutation.rank, dtypes.int64)
    )
    crossed = left.gt(right).and_(before).cast(dtypes.int64)
    odd = crossed.reduce_sum([permutation.rank - 1, permutation.rank]).floor_mod(2).eq(1)
    kind = x.dtype
    sign = odd.select(at.full(odd.dims, -1, kind), at.full(odd.dims, 1, kind))
    return packed, permutation, sign, diagonal(packed)


@lowering("aten._linalg_det")
def linalg_det(at: NodeSite, x: V) -> tuple[V, V, V]:
    packed, permutation, sign, line = _signed(at, x)
    return sign.mul(line.reduce_prod([line.rank - 1])), packed, _pivots(at, permutation)


@lowering("aten._linalg_slogdet")
def linalg_slogdet(at: NodeSite, x: V) -> tuple[V, V, V, V]:
    packed, permutation, sign, line = _signed(at, x)
    magnitude = line.abs().log().reduce_sum([line.rank - 1])
    return sign.mul(line.sign().reduce_prod([line.rank - 1])), magnitude, packed, _pivots(at, permutation)


@lowering("aten.linalg_cross")
def linalg_cross(at: NodeSite, x: V, y: V, *, dim: int = -1) -> V:
    left, right = at.together(x, y)
    axis = dim % left.rank

    def turned(value: V, by: int) -> V:
        return roll(value, [by], [axis])

    return turned(left, -1).mul(turned(right, -2)).sub(turned(left, -2).mul(turned(right, -1)))

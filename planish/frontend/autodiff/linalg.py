"""Derivatives of factorisations and triangular solves, real and complex.

With ⟨a, b⟩ = Re tr(aᴴb) every pull is the transpose of the push beside it. `cholesky` and `eigh` read one triangle of a
symmetric (Hermitian) matrix; as in torch, their gradient is spread over both: they are functions of (x + xᴴ)/2. The phases
of singular vectors are chosen so that both sides turn alike; equal eigenvalues or singular values have no derivative of
their vectors, and give infinities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from planish.frontend.autodiff.instruction import (
    Pull,
    Push,
    RuleSite,
    added,
    conjugate,
    put,
    taken,
    the_only,
    where,
    zeros,
)
from planish.frontend.replay import Replay
from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.function import Inst
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.ops.checking import at_most

# -- small things about matrices -------------------------------------------------------------------------------


def _transposed(x: V) -> V:
    return x.transpose([*range(x.rank - 2), x.rank - 1, x.rank - 2])


def _adjoint(x: V) -> V:
    return conjugate(_transposed(x))


def _half_sum(x: V) -> V:
    """(x + xᴴ)/2."""
    return x.add(_adjoint(x)).mul(0.5)


def _rows_minus_columns(x: V) -> V:
    return x.graph.iota(x.dims, x.rank - 2).sub(x.graph.iota(x.dims, x.rank - 1))


def _lower(x: V, strict: bool = False) -> V:
    return where(_rows_minus_columns(x).gt(0) if strict else _rows_minus_columns(x).ge(0), x)


def _upper(x: V, strict: bool = False) -> V:
    return where(_rows_minus_columns(x).lt(0) if strict else _rows_minus_columns(x).le(0), x)


def _on_diagonal(x: V) -> V:
    """The diagonal, with zeros around it."""
    return where(_rows_minus_columns(x).eq(0), x)


def _diagonal(x: V) -> V:
    """The diagonal of square matrices."""
    return _on_diagonal(x).reduce_sum([x.rank - 1])


def _columns(x: V, row: V) -> V:
    """A vector as a row, repeated: what the columns of x are scaled by."""
    return row.expand_dims(row.rank - 1).broadcast_to(x.dims)


def _rows(x: V, column: V) -> V:
    return column.expand_dims(column.rank).broadcast_to(x.dims)


def _imaginary_diagonal(x: V) -> V:
    """i·Im of the diagonal, with zeros around it."""
    if not x.dtype.is_complex:
        return zeros(x.graph, x.type)
    part = x.imag()
    return _on_diagonal(zeros(x.graph, part.type).complex(part))


def _left(x: V, count: DimLike) -> V:
    """The first columns."""
    return x.slice([0] * x.rank, [*x.dims[:-1], count]) if x.dims[-1] != count else x


def _given(at: RuleSite, c: Sequence[V | None], number: int) -> V:
    cotangent = c[number]
    return zeros(at.graph, at.y[number].type) if cotangent is None else cotangent


# -- cholesky --------------------------------------------------------------------------------------------------


def _halved(x: V) -> V:
    """The lower triangle with half of the diagonal."""
    return _lower(x).sub(_on_diagonal(x).mul(0.5))


def _push_cholesky(at: RuleSite, t: Sequence[V | None]) -> list[V | None]:
    """dL = L·Φ(L⁻¹·dx·L⁻ᴴ)."""
    lower = at.y[0] if at.attrs.lower else _adjoint(at.y[0])
    inner = lower.triangular_solve(_half_sum(the_only(t)))
    inner = lower.triangular_solve(inner, left=False, transform="adjoint")
    moved = lower.matmul(_halved(inner))
    return [moved if at.attrs.lower else _adjoint(moved)]


def _pull_cholesky(at: RuleSite, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    """L⁻ᴴ·Φ(Lᴴ·c)·L⁻¹."""
    lower, given = at.y[0], the_only(c)
    if not at.attrs.lower:
        lower, given = _adjoint(lower), _adjoint(given)
    inner = lower.triangular_solve(_halved(_adjoint(lower).matmul(given)), transform="adjoint")
    return [_half_sum(lower.triangular_solve(inner, left=False))]


# -- triangular_solve ------------------------------------------------------------------------------------------


def _triangle(at: RuleSite, x: V) -> V:
    """What the op reads of the matrix."""
    strict = at.attrs.unit_diagonal
    return _lower(x, strict) if at.attrs.lower else _upper(x, strict)


def _transformed(at: RuleSite, x: V) -> V:
    """op(a), and back."""
    if at.attrs.transform == "none":
        return x
    return _transposed(x) if at.attrs.transform == "transpose" else _adjoint(x)


def _push_triangular_solve(at: RuleSite, t: Sequence[V | None]) -> list[V | None]:
    """op(a)·x = b: dx = op(a)⁻¹·(db - op(da)·x)."""
    a, _ = at.x
    x, right = at.y[0], t[1]
    if t[0] is not None:
        slope = _transformed(at, _triangle(at, t[0]))
        part = (slope.matmul(x) if at.attrs.left else x.matmul(slope)).neg()
        right = added(right, part)
    return [None if right is None else at.graph.emit(at.inst.op, (a, right), at.attrs)]


def _pull_triangular_solve(at: RuleSite, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    """b gets op(a)⁻ᴴ·c, and op(a) then -b·xᴴ."""
    attrs: ops.TriangularSolveAttrs = at.attrs
    a, x = at.x[0], at.y[0]
    if attrs.transform == "transpose":
        a, transform = conjugate(a), "none"
    else:
        transform = "adjoint" if attrs.transform == "none" else "none"
    of_right = at.graph.emit(at.inst.op, (a, the_only(c)), replace(attrs, transform=transform))
    if not needs[0]:
        return [None, of_right]
    outer = of_right.matmul(_adjoint(x)) if attrs.left else _adjoint(x).matmul(of_right)
    return [_triangle(at, _transformed(at, outer.neg())), of_right]


# -- lu --------------------------------------------------------------------------------------------------------


def _factors(at: RuleSite) -> tuple[V, V]:
    """L and U as square matrices, with the identity where there is nothing of them."""
    packed = at.y[0]
    rows, columns = packed.dims[-2:]
    lower = _lower(_resized(packed, rows, rows), strict=True)
    identity = _rows_minus_columns(lower).eq(0)
    lower = identity.select(at.graph.full(lower.dims, 1, packed.dtype), lower)
    upper = _upper(_resized(packed, columns, columns))
    if rows != columns:
        line = at.graph.iota(upper.dims, upper.rank - 2)
        beyond = line.ge(packed.dimension_size(packed.rank - 2).broadcast_to(line.dims))
        diagonal = _rows_minus_columns(upper).eq(0).and_(beyond)
        upper = diagonal.select(at.graph.full(upper.dims, 1, packed.dtype), upper)
    return lower, upper


def _resized(x: V, rows: DimLike, columns: DimLike) -> V:
    """Cut, or filled up with zeros, at the end of both axes. L keeps its columns, U its rows."""
    low = [0] * x.rank
    high: list[DimLike] = [0] * (x.rank - 2)
    return x.pad(low, [*high, rows - x.dims[-2], columns - x.dims[-1]])


def _permutation(at: RuleSite) -> V:
    order = at.y[1]
    return order.expand_dims(order.rank).broadcast_to(at.x[0].dims)


def _push_lu(at: RuleSite, t: Sequence[V | None]) -> list[V | None]:
    """F = L⁻¹·dx·U⁻¹: dL = L·tril(F, -1), dU = triu(F)·U."""
    lower, upper = _factors(at)
    moved = taken(the_only(t), _permutation(at), at.x[0].rank - 2)
    inner = lower.triangular_solve(moved, unit_diagonal=True)
    inner = upper.triangular_solve(inner, left=False, lower=False)
    return [lower.matmul(_lower(inner, strict=True)).add(_upper(inner).matmul(upper)), None]


def _pull_lu(at: RuleSite, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    lower, upper = _factors(at)
    given = the_only(c)
    inner = _lower(_adjoint(lower).matmul(_lower(given, strict=True)), strict=True)
    inner = inner.add(_upper(_upper(given).matmul(_adjoint(upper))))
    inner = lower.triangular_solve(inner, transform="adjoint", unit_diagonal=True)
    inner = upper.triangular_solve(inner, left=False, lower=False, transform="adjoint")
    return [put(zeros(at.graph, at.x[0].type), inner, _permutation(at), at.x[0].rank - 2)]


# -- qr --------------------------------------------------------------------------------------------------------


def _rotation(m: V) -> V:
    """The skew part that turns q: Ω = tril(m, -1) - tril(m, -1)ᴴ + i·Im diag(m), which keeps the diagonal of r real."""
    low = _lower(m, strict=True)
    return low.sub(_adjoint(low)).add(_imaginary_diagonal(m))


def _rotation_transposed(g: V) -> V:
    return _lower(g.sub(_adjoint(g)), strict=True).add(_imaginary_diagonal(g))


def _deciding(at: RuleSite) -> DimLike:
    """How many columns of x decide on q."""
    rows, columns = at.x[0].dims[-2:]
    if at.attrs.full_matrices and not at_most(rows, columns):
        # the last columns of q are any basis of what is left
        raise at.no_rule(
            "full qr of a matrix with more rows than columns has no derivative", "use full_matrices=False"
        )
    return at.y[0].dims[-1]


def _push_qr(at: RuleSite, t: Sequence[V | None]) -> list[V | None]:
    """With r₁ the square part of r and C = dx₁·r₁⁻¹, M = qᴴ·C: dq = q·(Ω - M) + C, dr = qᴴ·dx - Ω·r."""
    count = _deciding(at)
    (q, r), given = at.y, the_only(t)
    inner = _left(r, count).triangular_solve(_left(given, count), left=False, lower=False)
    m = _adjoint(q).matmul(inner)
    turn = _rotation(m)
    return [q.matmul(turn.sub(m)).add(inner), _adjoint(q).matmul(given).sub(turn.matmul(r))]


def _pull_qr(at: RuleSite, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    count = _deciding(at)
    q, r = at.y
    of_q, of_r = _given(at, c, 0), _given(at, c, 1)
    along_q = _adjoint(q).matmul(of_q)
    of_turn = along_q.sub(of_r.matmul(_adjoint(r)))
    of_m = _rotation_transposed(of_turn).sub(along_q)
    inner = of_q.add(q.matmul(of_m))
    inner = _left(r, count).triangular_solve(inner, left=False, lower=False, transform="adjoint")
    x = at.x[0]
    return [q.matmul(of_r).add(_resized(inner, x.dims[-2], x.dims[-1]))]


# -- eigh ------------------------------------------------------------------------------------------------------


def _inverse_gaps(numbers: V, like: V) -> V:
    """1 / (n_j - n_i), and 0 on the diagonal; real, in the dtype of a matrix."""
    dims = like.dims
    gaps = numbers.expand_dims(numbers.rank - 1).broadcast_to(dims)
    gaps = gaps.sub(numbers.expand_dims(numbers.rank).broadcast_to(dims))
    off = _rows_minus_columns(gaps).ne(0)
    inverse = where(off, off.select(gaps, 1.0).reciprocal())
    return inverse.cast(like.dtype) if like.dtype.is_complex else inverse


def _push_eigh(at: RuleSite, t: Sequence[V | None]) -> list[V | None]:
    values, vectors = at.y
    inner = _adjoint(vectors).matmul(_half_sum(the_only(t))).matmul(vectors)
    diagonal = _diagonal(inner)
    moved = vectors.matmul(inner.mul(_inverse_gaps(values, vectors)))
    return [diagonal.real() if diagonal.dtype.is_complex else diagonal, moved]


def _pull_eigh(at: RuleSite, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    values, vectors = at.y
    inner = _embedded(_given(at, c, 0), vectors)
    if c[1] is not None:
        inner = inner.add(_adjoint(vectors).matmul(c[1]).mul(_inverse_gaps(values, vectors)))
    return [_half_sum(vectors.matmul(inner).matmul(_adjoint(vectors)))]


def _embedded(line: V, like: V) -> V:
    """A vector on the diagonal of a square matrix."""
    cast = line.cast(like.dtype) if line.dtype is not like.dtype else line
    size = line.dims[-1]
    dims = (*line.dims, size)
    return _on_diagonal(cast.expand_dims(cast.rank).broadcast_to(dims))


# -- svd -------------------------------------------------------------------------------------------------------


def emit_svd(graph: Replay, inst: Inst, operands: Sequence[V]) -> tuple[V, ...]:
    """A decomposition with the thin vectors, which the derivatives of the values need too."""
    attrs: ops.SvdAttrs = inst.attrs  # type: ignore[assignment] # that of an svd
    (x,) = operands
    if attrs.compute_uv:
        return x.svd(attrs.full_matrices)
    u, s, vh = x.svd(full_matrices=False)
    graph.notes[s.value] = (u, vh)
    return (s,)


def _thin(at: RuleSite, moving: bool) -> tuple[V, V, V]:
    """u, s, vh; full ones have no derivatives of their last vectors."""
    if not at.attrs.compute_uv:
        u, vh = at.graph.notes[at.y[0].value]
        return u, at.y[0], vh
    u, s, vh = at.y
    count = s.dims[-1]
    if u.dims[-1] == count and vh.dims[-2] == count:
        return u, s, vh
    if moving:
        raise at.no_rule(
            "the vectors of a full svd of a matrix that is not square have no derivative",
            "use full_matrices=False",
        )
    return _left(u, count), s, vh.slice([0] * vh.rank, [*vh.dims[:-2], count, vh.dims[-1]])


def _svd_parts(u: V, s: V, vh: V) -> tuple[V, V, V, V]:
    """s along the columns and the rows of a square matrix, 1/(s_j² - s_i²), and v."""
    v = _adjoint(vh)
    square = u.type.with_dims((*s.dims, s.dims[-1]))
    wide = s.cast(u.dtype) if s.dtype is not u.dtype else s
    model = zeros(u.graph, square)
    return _columns(model, wide), _rows(model, wide), _inverse_gaps(s.mul(s), model), v


def _push_svd(at: RuleSite, t: Sequence[V | None]) -> list[V | None]:
    """X = uᴴ·dx·v: ds = Re diag(X); u and v turn by what is off the diagonal, and move by what lies outside of them."""
    given = the_only(t)
    vectors = [at.inst.results[0], at.inst.results[-1]] if at.attrs.compute_uv else []
    u, s, vh = _thin(at, any(vector.users for vector in vectors))
    columns, rows, gaps, v = _svd_parts(u, s, vh)
    x = _adjoint(u).matmul(given).matmul(v)
    diagonal = _diagonal(x)
    ds = diagonal.real() if diagonal.dtype.is_complex else diagonal
    if not vectors:
        return [ds]
    if not any(vector.users for vector in vectors):
        return [None, ds, None]
    adjoint = _adjoint(x)
    phase = _phase(x, columns)
    du = u.matmul(x.mul(columns).add(rows.mul(adjoint)).mul(gaps).add(phase))
    dv = v.matmul(rows.mul(x).add(adjoint.mul(columns)).mul(gaps).sub(phase))
    across = given.matmul(v)
    du = du.add(_outside(u, _over(across, s)))
    along = _adjoint(given).matmul(u)
    dv = dv.add(_outside(v, _over(along, s)))
    return [du, ds, _adjoint(dv)]


def _phase(x: V, columns: V) -> V:
    """i·Im diag(x) / 2s."""
    diagonal = _imaginary_diagonal(x)
    return diagonal.div(columns.mul(2.0)) if x.dtype.is_complex else diagonal


def _over(x: V, s: V) -> V:
    """Columns divided by the singular values."""
    wide = s.cast(x.dtype) if s.dtype is not x.dtype else s
    return x.div(_columns(x, wide))


def _outside(u: V, x: V) -> V:
    """(1 - u·uᴴ)·x; nothing is outside of a square u."""
    if u.dims[-1] == u.dims[-2]:
        return zeros(x.graph, x.type)
    return x.sub(u.matmul(_adjoint(u).matmul(x)))


def _pull_svd(at: RuleSite, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    values_only = not at.attrs.compute_uv
    of_u, of_s, of_vh = (None, c[0], None) if values_only else (c[0], c[1], c[2])
    u, s, vh = _thin(at, of_u is not None or of_vh is not None)
    columns, rows, gaps, v = _svd_parts(u, s, vh)
    inner: V | None = None
    outside: V | None = None
    if of_s is not None:
        inner = added(inner, _embedded(of_s, u))
    if of_u is not None:
        along = _adjoint(u).matmul(of_u)
        turn = along.mul(gaps)
        part = turn.add(_adjoint(turn)).mul(columns)
        inner = added(inner, part.add(_phase(along, columns)))
        outside = added(outside, _outside(u, _over(of_u, s)).matmul(vh))
    if of_vh is not None:
        of_v = _adjoint(of_vh)
        along = vh.matmul(of_v)
        turn = along.mul(gaps)
        part = rows.mul(turn.add(_adjoint(turn)))
        inner = added(inner, part.sub(_phase(along, columns)))
        outside = added(outside, u.matmul(_adjoint(_outside(v, _over(of_v, s)))))
    if inner is None:
        return [None]
    back = u.matmul(inner).matmul(vh)
    return [back if outside is None else back.add(outside)]


LINALG: Final[Mapping[str, tuple[Push, Pull]]] = {
    "cholesky": (_push_cholesky, _pull_cholesky),
    "triangular_solve": (_push_triangular_solve, _pull_triangular_solve),
    "lu": (_push_lu, _pull_lu),
    "qr": (_push_qr, _pull_qr),
    "eigh": (_push_eigh, _pull_eigh),
    "svd": (_push_svd, _pull_svd),
}

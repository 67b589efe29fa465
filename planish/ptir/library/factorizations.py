"""Factorisations in LAPACK's terms: triangles and orders of rows, exchanges of rows, and products of reflections."""

from __future__ import annotations

from planish import dtypes
from planish.dtypes import DType
from planish.errors import ShapeError
from planish.ptir.graph_value import GraphValue
from planish.ptir.library.common import spread, take_along_axis
from planish.ptir.library.shaping import diagonal, eye, tril, triu


def _size(x: GraphValue, axis: int) -> int:
    size = x.dims[axis]
    if not isinstance(size, int):
        raise ShapeError(f"axis {axis} of {x.type} must have a known size")
    return size


def _spread(x: GraphValue, like: GraphValue) -> GraphValue:
    return spread(x, like.dims)


# --- L, U and the order of rows, as the op `lu` gives them ------------------------------------------------


def triangles(packed: GraphValue) -> tuple[GraphValue, GraphValue]:
    """L, whose diagonal is 1, and U."""
    rows, columns = _size(packed, -2), _size(packed, -1)
    size = min(rows, columns)
    lower = tril(packed[..., :size], -1)
    return lower.add(_spread(eye(packed, rows, size, packed.dtype), lower)), triu(packed[..., :size, :])


def with_rows(x: GraphValue, order: GraphValue) -> GraphValue:
    """The rows of matrices in another order."""
    index = order if order.dtype is dtypes.int64 else order.cast(dtypes.int64)
    return take_along_axis(x, _spread(index.expand_dims(order.rank), x), x.rank - 2)


def lu_solve(packed: GraphValue, order: GraphValue, rhs: GraphValue) -> GraphValue:
    """x with L·U·x = the rows of rhs in that order."""
    half = packed.triangular_solve(with_rows(rhs, order), unit_diagonal=True)
    return packed.triangular_solve(half, lower=False)


def permutation_matrix(order: GraphValue, dtype: DType) -> GraphValue:
    """P with P·L·U = x."""
    dims = (*order.dims, order.dims[-1])
    line = order.graph.iota(dims, order.rank - 1, order.dtype)
    return line.eq(order.expand_dims(order.rank - 1).broadcast_to(dims)).cast(dtype)


def parity(order: GraphValue, dtype: DType) -> GraphValue:
    """1 for an even number of exchanges, -1 for an odd one."""
    graph, rank = order.graph, order.rank
    dims = (*order.dims, order.dims[-1])
    first, second = (order.expand_dims(axis).broadcast_to(dims) for axis in (rank, rank - 1))
    before = graph.iota(dims, rank - 1, dtypes.int64).lt(graph.iota(dims, rank, dtypes.int64))
    crossed = first.gt(second).and_(before).cast(dtypes.int64).reduce_sum([rank - 1, rank])
    return crossed.floor_mod(2).mul(-2).add(1).cast(dtype)


def factors_of_determinant(packed: GraphValue, order: GraphValue) -> tuple[GraphValue, GraphValue]:
    """The diagonal of U, and the sign of the order of the rows."""
    return diagonal(packed), parity(order, packed.dtype)


# --- exchanges of rows ------------------------------------------------------------------------------------


def pivots_of(permutation: GraphValue, count: int | None = None) -> GraphValue:
    """The row that each step exchanged its own with, from 1, as LAPACK tells it: int32."""
    rank = permutation.rank
    steps = _size(permutation, -1) if count is None else count
    line = permutation.graph.iota(permutation.dims, rank - 1, dtypes.int64)
    wanted = permutation if permutation.dtype is dtypes.int64 else permutation.cast(dtypes.int64)
    current = line
    pivots = []
    for step in range(steps):
        row = wanted[..., step : step + 1]
        place = current.eq(_spread(row, current)).select(line, 0).reduce_sum([rank - 1], True)
        pivots.append(place)
        mine = current[..., step : step + 1]
        current = line.eq(_spread(place, line)).select(_spread(mine, line), current)
        current = line.eq(step).select(_spread(row, line), current)
    if not pivots:
        return wanted[..., :0].cast(dtypes.int32)
    return pivots[0].concat(pivots[1:], rank - 1).add(1).cast(dtypes.int32)


def permutation_of(pivots: GraphValue, count: int) -> GraphValue:
    """The order of `count` rows that the exchanges of LAPACK's pivots lead to: int64."""
    dims = (*pivots.dims[:-1], count)
    line = pivots.graph.iota(dims, len(dims) - 1, dtypes.int64)
    order = line
    for step in range(_size(pivots, -1)):
        other = pivots[..., step : step + 1].cast(dtypes.int64).sub(1)
        there = line.eq(_spread(other, line))
        mine = _spread(order[..., step : step + 1], line)
        theirs = there.select(order, 0).reduce_sum([len(dims) - 1], True)
        order = there.select(mine, order)
        order = line.eq(step).select(_spread(theirs, line), order)
    return order


# --- reflections ------------------------------------------------------------------------------------------


def conjugate_transpose(x: GraphValue) -> GraphValue:
    """xᴴ of the last two axes."""
    turned = x.transpose([*range(x.rank - 2), x.rank - 1, x.rank - 2])
    return turned.conj() if x.dtype.is_complex else turned


def householder_product(x: GraphValue, tau: GraphValue) -> GraphValue:
    """The first columns of the product of reflections I - τ v vᴴ, whose vectors lie below the diagonal of x."""
    rows, columns = _size(x, -2), _size(x, -1)
    graph = x.graph
    batch = x.dims[:-2]
    product = eye(x, rows, columns, x.dtype).broadcast_to((*batch, rows, columns))
    line = graph.iota((*batch, rows, 1), x.rank - 2, dtypes.int64)
    for step in reversed(range(_size(tau, -1))):
        column = line.gt(step).select(x[..., step : step + 1], 0)
        column = line.eq(step).select(graph.full(column.dims, 1, x.dtype), column)
        factor = _spread(tau[..., step : step + 1].expand_dims(tau.rank), column)
        product = product.sub(column.mul(factor).matmul(conjugate_transpose(column).matmul(product)))
    return product


def householder(x: GraphValue) -> tuple[GraphValue, GraphValue]:
    """QR by reflections: R in the upper triangle, the vectors below the diagonal (their 1 is not stored), and τ.

    As LAPACK has them: real diagonals of R, β = -sign(Re α)·|x|, τ = (β - α) / β, and τ = 0 where nothing is to be done.
    """
    rows, columns = _size(x, -2), _size(x, -1)
    graph, rank = x.graph, x.rank
    line = graph.iota((*x.dims[:-1], 1), rank - 2, dtypes.int64)
    across = graph.iota(x.dims, rank - 1, dtypes.int64)
    taus: list[GraphValue] = []
    for step in range(min(rows, columns)):
        column = x[..., step : step + 1]
        below = line.gt(step).select(column, 0)
        alpha = x[..., step : step + 1, step : step + 1]
        real = alpha.real() if x.dtype.is_complex else alpha
        size = below.abs()
        tail = size.mul(size).reduce_sum([rank - 2], True)
        nothing = tail.eq(0)
        if x.dtype.is_complex:
            nothing = nothing.and_(alpha.imag().eq(0))
        own = alpha.abs()
        norm = own.mul(own).add(tail).sqrt()
        beta = real.lt(0).select(norm, norm.neg())
        safe = nothing.select(graph.full(beta.dims, 1, beta.dtype), beta)
        wide = safe.cast(x.dtype) if x.dtype.is_complex else safe
        tau = nothing.select(graph.full(alpha.dims, 0, x.dtype), wide.sub(alpha).div(wide))
        gap = nothing.select(graph.full(alpha.dims, 1, x.dtype), alpha.sub(wide))
        vector = below.div(_spread(gap, below))
        vector = line.eq(step).select(graph.full(vector.dims, 1, x.dtype), vector)
        turn = tau.conj() if x.dtype.is_complex else tau
        change = vector.mul(_spread(turn, vector)).matmul(conjugate_transpose(vector).matmul(x))
        stored = line.gt(step)
        reflected = across.gt(step).select(x.sub(change), x)
        diagonal = nothing.select(alpha, beta.cast(x.dtype) if x.dtype.is_complex else beta)
        own_column = stored.select(vector, line.eq(step).select(_spread(diagonal, column), column))
        x = across.eq(step).select(_spread(own_column, x), reflected)
        taus.append(tau.reshape((*x.dims[:-2], 1)))
    if not taus:
        return x, graph.full((*x.dims[:-2], 0), 0, x.dtype)
    return x, taus[0].concat(taus[1:], rank - 2)

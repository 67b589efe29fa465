"""Kernels for actions that a product of small matrices has no place for: rows that start anywhere, a vector, halves, walks over keys."""

from __future__ import annotations

from planish import dtypes
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from tests.stages.memory_kernels import keep, read

f16, bf16, f32 = dtypes.float16, dtypes.bfloat16, dtypes.float32
REDUCE = AxisType.REDUCE


def rows_from_anywhere(t: Table, count: int = 2, length: int = 100) -> UOp:
    """All but the last element of each row, doubled; where a result's row starts in a vector is another matter for each."""
    i, j = t.range(count, 0), t.range(length, 1)
    value = t.param(1, f32, count * (length + 1)).index(i * (length + 1) + j) * 2.0
    return t.sink(t.param(0, f32, count * length).index(i * length + j).store(value).end(i, j))


def vector_product(t: Table, n: int = 4, k: int = 6) -> UOp:
    """y[i] = Σ x[k] · w[i, k]"""
    i, r = t.range(n, 0), t.range(k, 1, REDUCE)
    total = (t.param(1, f32, k).index(r) * t.param(2, f32, n * k).index(i * k + r)).reduce(Ops.ADD, r)
    return t.sink(t.param(0, f32, n).index(i).store(total).end(i))


def product_of_halves(t: Table, m: int = 32, n: int = 16, k: int = 32) -> UOp:
    """A product of matrices that a tensor core does: f16, summed in f32."""
    i, j, r = t.range(m, 0), t.range(n, 1), t.range(k, 2, REDUCE)
    a, b = t.param(1, f16, m * k).index(i * k + r), t.param(2, f16, k * n).index(r * n + j)
    total = (a.cast(f32) * b.cast(f32)).reduce(Ops.ADD, r)
    return t.sink(t.param(0, f32, m * n).index(i * n + j).store(total).end(i, j))


def attention(t: Table, queries: int = 64, keys: int = 128, depth: int = 16, width: int = 8) -> UOp:
    """softmax(q @ xᵀ / 64) @ v, with rows of scores and shares kept."""
    q, x = t.param(1, bf16, queries * depth), t.param(2, bf16, keys * depth)
    i, c, u = t.range(queries, 0), t.range(width, 1), t.range(keys, 2)
    j, s, r, d = (t.range(n, at, REDUCE) for at, n in ((3, keys), (4, keys), (5, keys), (6, depth)))
    score = (q.index(i * depth + d).cast(f32) * x.index(r * depth + d).cast(f32)).reduce(Ops.ADD, d) * 2**-6
    row, top = keep(score, r), score.reduce(Ops.MAX, r)
    e = (read(row, s) - top).alu(Ops.EXP)
    shares = keep((read(keep(e, s), u) / e.reduce(Ops.ADD, s)).cast(bf16), u)
    return _weighted(t, read(shares, j), (i, c, j), (keys, width))


def product_of_products(t: Table, queries: int = 64, keys: int = 128, depth: int = 16, width: int = 8) -> UOp:
    """(q @ xᵀ)² @ v, with rows of the squares kept."""
    q, x = t.param(1, bf16, queries * depth), t.param(2, bf16, keys * depth)
    i, c, u = t.range(queries, 0), t.range(width, 1), t.range(keys, 2)
    j, d = t.range(keys, 3, REDUCE), t.range(depth, 4, REDUCE)
    score = (q.index(i * depth + d).cast(f32) * x.index(u * depth + d).cast(f32)).reduce(Ops.ADD, d)
    squares = keep((score * score).cast(bf16), u)
    return _weighted(t, read(squares, j), (i, c, j), (keys, width))


def _weighted(t: Table, left: UOp, axes: tuple[UOp, UOp, UOp], sizes: tuple[int, int]) -> UOp:
    """out[i, c] = Σ left[i, j] · v[c, j]"""
    (i, c, j), (keys, width) = axes, sizes
    right = t.param(3, bf16, keys * width).index(c * keys + j).cast(f32)
    total = (left.cast(f32) * right).reduce(Ops.ADD, j)
    rows = i.vmax + 1
    return t.sink(t.param(0, f32, rows * width).index(i * width + c).store(total).end(i, c))

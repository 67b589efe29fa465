"""Kernels of every kind that a schedule is chosen for: small enough to be interpreted, and some large enough to be timed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from planish import dtypes
from planish.actions.base import Action
from planish.optimize.heuristic import rivals
from planish.stages.rangeify.attempts import attempts
from planish.target import Target
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from tests.stages.memory_kernels import (
    cumsum_columns,
    cumsum_rows,
    layernorm,
    scan_and_sum,
    softmax,
    softmax_one_range,
    sum_and_max,
    transposed_tile,
)

bf16, f16, f32, i32 = dtypes.bfloat16, dtypes.float16, dtypes.float32, dtypes.int32
REDUCE = AxisType.REDUCE


def offered(sink: UOp, target: Target, template: str) -> tuple[Action, ...]:
    """The schedule that a template offers for a kernel, whether it is the one that is chosen or not."""
    (found,) = [each for each in rivals(sink, target, attempts(target)) if each.name == template]
    return found.actions


def elementwise(t: Table, rows: int = 6, columns: int = 64) -> UOp:
    out, a, b = t.param(0, f32, rows * columns), t.param(1, f32, rows * columns), t.param(2, f32, columns)
    i, j = t.range(rows, 0), t.range(columns, 1)
    return t.sink(out.index(i * columns + j).store(a.index(i * columns + j) * 2 + b.index(j)).end(i, j))


def transpose(t: Table, rows: int = 16, columns: int = 24) -> UOp:
    out, a = t.param(0, f32, rows * columns), t.param(1, f32, rows * columns)
    i, j = t.range(columns, 0), t.range(rows, 1)
    return t.sink(out.index(i * rows + j).store(a.index(j * columns + i)).end(i, j))


def matmul(
    t: Table, m: int = 12, n: int = 32, k: int = 20, transposed: bool = False, dtype: dtypes.DType = f32
) -> UOp:
    out, a, b = t.param(0, f32, m * n), t.param(1, dtype, m * k), t.param(2, dtype, k * n)
    i, j, r = t.range(m, 0), t.range(n, 1), t.range(k, 2, REDUCE)
    x, y = a.index(i * k + r), b.index(j * k + r if transposed else r * n + j)
    if dtype is not f32:
        x, y = x.cast(f32), y.cast(f32)
    return t.sink(out.index(i * n + j).store((x * y).reduce(Ops.ADD, r)).end(i, j))


def row_sums(t: Table, rows: int = 5, columns: int = 128) -> UOp:
    out, a = t.param(0, f32, rows), t.param(1, f32, rows * columns)
    i, r = t.range(rows, 0), t.range(columns, 1, REDUCE)
    return t.sink(out.index(i).store(a.index(i * columns + r).reduce(Ops.ADD, r)).end(i))


def column_sums(t: Table, rows: int = 20, columns: int = 48) -> UOp:
    out, a = t.param(0, f32, columns), t.param(1, f32, rows * columns)
    j, r = t.range(columns, 0), t.range(rows, 1, REDUCE)
    return t.sink(out.index(j).store(a.index(r * columns + j).reduce(Ops.ADD, r)).end(j))


def total(t: Table, count: int = 640) -> UOp:
    out, a = t.param(0, f32, 1), t.param(1, f32, count)
    r = t.range(count, 0, REDUCE)
    return t.sink(out.index(t.const(0)).store(a.index(r).reduce(Ops.ADD, r)))


def lookup(t: Table, rows: int = 6, width: int = 32) -> UOp:
    """Rows of a table chosen by data."""
    out, a, idx = t.param(0, f32, rows * width), t.param(1, f32, 8 * width), t.param(2, i32, rows)
    i, j = t.range(rows, 0), t.range(width, 1)
    chosen = (idx.index(i) & 7).cast(dtypes.index)
    return t.sink(out.index(i * width + j).store(a.index(chosen * width + j)).end(i, j))


def scatter(t: Table, rows: int = 8, width: int = 16) -> UOp:
    """Rows stored where data says; the last of several counts."""
    out, a, idx = t.param(0, f32, 8 * width), t.param(1, f32, rows * width), t.param(2, i32, rows)
    i, j = t.range(rows, 0), t.range(width, 1)
    chosen = (idx.index(i) & 7).cast(dtypes.index)
    return t.sink(out.index(chosen * width + j).store(a.index(i * width + j)).end(i, j))


def two_results(t: Table, rows: int = 4, columns: int = 32) -> UOp:
    """The elements doubled, and their sums by rows: stores over different axes."""
    out, sums, a = t.param(0, f32, rows * columns), t.param(1, f32, rows), t.param(2, f32, rows * columns)
    i, j, k, r = t.range(rows, 0), t.range(columns, 1), t.range(rows, 2), t.range(columns, 3, REDUCE)
    first = out.index(i * columns + j).store(a.index(i * columns + j) * 2).end(i, j)
    second = sums.index(k).store(a.index(k * columns + r).reduce(Ops.ADD, r)).end(k)
    return t.sink(first, second)


def convolution(t: Table, channels: int = 8, size: int = 10) -> UOp:
    """3 taps over a padded row, for several output channels."""
    out, x, w = t.param(0, f32, channels * size), t.param(1, f32, size), t.param(2, f32, channels * 3)
    o, i, s = t.range(channels, 0), t.range(size, 1), t.range(3, 2, REDUCE)
    at = i + s - 1
    place = ((at >= 0) & (at < size)).where(at, t.invalid())
    return t.sink(
        out.index(o * size + i).store((x.index(place) * w.index(o * 3 + s)).reduce(Ops.ADD, s)).end(o, i)
    )


def symbolic(t: Table, most: int = 70) -> UOp:
    """As many elements as a variable says."""
    n = t.variable("n", 1, most)
    out, a = t.param(0, f32, most), t.param(1, f32, most)
    i = t.range(n, 0)
    return t.sink(out.index(i).store(a.index(i) + 1.0).end(i))


def symbolic_rows(t: Table, most: int = 40) -> UOp:
    """Sums of rows as long as a variable says."""
    n = t.variable("n", 1, most)
    out, a = t.param(0, f32, 6), t.param(1, f32, 6 * most)
    i, r = t.range(6, 0), t.range(n, 1, REDUCE)
    return t.sink(out.index(i).store(a.index(i * n + r).reduce(Ops.ADD, r)).end(i))


Build = Callable[[Table], UOp]

CORPUS: dict[str, Build] = {
    "elementwise": elementwise,
    "elementwise, odd": partial(elementwise, columns=37),
    "transpose": transpose,
    "matmul": matmul,
    "matmul, odd": partial(matmul, m=7, n=33, k=5),
    "matmul, transposed": partial(matmul, k=32, transposed=True),
    "matmul, few columns": partial(matmul, n=10),
    "matmul, half": partial(matmul, m=16, n=16, k=32, dtype=f16),
    "row sums": row_sums,
    "row sums, odd": partial(row_sums, columns=67),
    "column sums": column_sums,
    "total": total,
    "softmax": partial(softmax, rows=3, n=32),
    "softmax, one range": partial(softmax_one_range, rows=3, n=32),
    "softmax, odd": partial(softmax, rows=3, n=37),
    "layernorm": partial(layernorm, rows=3, n=48),
    "cumsum of rows": partial(cumsum_rows, rows=8, n=16),
    "cumsum of columns": partial(cumsum_columns, n=8, columns=32),
    "scan and sum": partial(scan_and_sum, rows=8, n=16),
    "sum and max": partial(sum_and_max, rows=4, n=64),
    "transposed tile": partial(transposed_tile, n=16, m=16),
    "lookup": lookup,
    "scatter": scatter,
    "two results": two_results,
    "convolution": convolution,
    "symbolic": symbolic,
    "symbolic rows": symbolic_rows,
}

LARGE: dict[str, Build] = {
    "matmul": partial(matmul, m=384, n=384, k=384),
    "matmul transposed": partial(matmul, m=256, n=256, k=512, transposed=True),
    "matmul bf16": partial(matmul, m=256, n=256, k=256, dtype=bf16),
    "row sums": partial(row_sums, rows=1024, columns=2048),
    "column sums": partial(column_sums, rows=1024, columns=2048),
    "elementwise": partial(elementwise, rows=1024, columns=1024),
    "transpose": partial(transpose, rows=1024, columns=1024),
    "softmax": partial(softmax, rows=256, n=1024),
    "convolution": partial(convolution, channels=64, size=8192),
}
"""What `bench/cost_model.py` times schedules of."""

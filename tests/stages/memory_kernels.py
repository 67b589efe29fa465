"""Kernels that keep things in LOCAL memory, scan, or write several results; and what they should compute, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from planish import dtypes
from planish.actions.base import Action
from planish.llir.counters import Counters
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.llir.program import Program
from planish.stages import pipeline
from planish.target import TARGETS, Target
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Bufferize, Ops
from tests.stages.kernels import Array

f32, i32 = dtypes.float32, dtypes.int32
REDUCE = AxisType.REDUCE
SCALAR = TARGETS["scalar"]


def keep(x: UOp, *places: UOp) -> UOp:
    """x in LOCAL memory at these places."""
    return x.table.make(Ops.BUFFERIZE, x.dtype, (x, *places), Bufferize("local"))


def read(kept: UOp, *indices: UOp) -> UOp:
    return kept.table.make(Ops.INDEX, kept.dtype, (kept, *indices))


def scan(x: UOp, r: UOp, op: Ops = Ops.ADD) -> UOp:
    return x.table.make(Ops.SCAN, x.dtype, (x, r), op)


class Case(NamedTuple):
    """A kernel; its inputs and outputs by slot (sizes), and its meaning."""

    build: Callable[[Table], UOp]
    outputs: dict[int, int]
    inputs: dict[int, int]
    expected: Callable[[dict[int, Array]], dict[int, Array]]
    dtype: dtypes.DType = f32


def run(
    sink: UOp, buffers: dict[int, Array], target: Target = SCALAR, actions: Sequence[Action] = ()
) -> Counters:
    """Through all stages and the LLIR interpreter; results are written into the buffers."""
    program = compiled(sink, target, actions)
    return interpret(program, [buffers[int(p.name.removeprefix("arg"))] for p in program.params])


def compiled(sink: UOp, target: Target = SCALAR, actions: Sequence[Action] = ()) -> Program:
    return lower("kernel", pipeline.run(sink, pipeline.Machine(target, lambda _: actions)))


def memory_for(case: Case, seed: int = 0) -> dict[int, Array]:
    rng = np.random.default_rng(seed)
    found = {slot: rng.integers(-8, 9, size).astype(case.dtype.numpy) for slot, size in case.inputs.items()}
    return found | {slot: np.full(size, 77, case.dtype.numpy) for slot, size in case.outputs.items()}


def check(case: Case, target: Target = SCALAR, actions: Sequence[Action] = ()) -> Counters:
    """Build, run, compare."""
    buffers = memory_for(case)
    expected = case.expected(buffers)
    with Table() as t:
        counters = run(case.build(t), buffers, target, actions)
    for slot, array in expected.items():
        np.testing.assert_allclose(
            buffers[slot], array.reshape(-1), rtol=2e-5, atol=1e-6, err_msg=f"slot {slot}"
        )
    return counters


# -- softmax: two kept rows, three loops --------------------------------------------------------------------------


def softmax(t: Table, rows: int = 3, n: int = 8) -> UOp:
    out, a = t.param(0, f32, rows * n), t.param(1, f32, rows * n)
    i, r, s, u = t.range(rows, 0), t.range(n, 1, REDUCE), t.range(n, 2, REDUCE), t.range(n, 3)
    x = a.index(i * n + r)
    row, top = keep(x, r), x.reduce(Ops.MAX, r)
    e = (read(row, s) - top).alu(Ops.EXP)
    exps, total = keep(e, s), e.reduce(Ops.ADD, s)
    return t.sink(out.index(i * n + u).store(read(exps, u) / total).end(i, u))


def masked_attention(t: Table, rows: int = 8, n: int = 8, columns: int = 4) -> UOp:
    """softmax(where(j <= i, a, -inf)) @ b, with rows kept all along."""
    out, a, b = t.param(0, f32, rows * columns), t.param(1, f32, rows * n), t.param(2, f32, n * columns)
    i, c, u = t.range(rows, 0), t.range(columns, 1), t.range(n, 2)
    j, s, r = (t.range(n, number, REDUCE) for number in (3, 4, 5))
    x = (r <= i).where(a.index(i * n + r), a.index(r).const_like(-math.inf))
    row, top = keep(x, r), x.reduce(Ops.MAX, r)
    e = (read(row, s) - top).alu(Ops.EXP)
    quotients = keep(read(keep(e, s), u) / e.reduce(Ops.ADD, s), u)
    value = (read(quotients, j) * b.index(j * columns + c)).reduce(Ops.ADD, j)
    return t.sink(out.index(i * columns + c).store(value).end(i, c))


def triangle(t: Table, rows: int = 8, n: int = 8) -> UOp:
    """The sum and the maximum of the lower triangle's rows, in one loop."""
    i, r, a = t.range(rows, 0), t.range(n, 1, REDUCE), t.param(2, f32, rows * n)
    x = a.index(i * n + r)
    total = (r <= i).where(x, 0.0).reduce(Ops.ADD, r)
    top = (r <= i).where(x, x.const_like(-math.inf)).reduce(Ops.MAX, r)
    first, second = (t.param(slot, f32, rows).index(i) for slot in (0, 1))
    return t.sink(first.store(total).end(i), second.store(top).end(i))


def ragged(t: Table, rows: int = 8, n: int = 8) -> UOp:
    """The sums of rows that are as long as numbers in memory say."""
    i, r = t.range(rows, 0), t.range(n, 1, REDUCE)
    seen = r.cast(i32) < t.param(2, i32, rows).index(i)
    total = seen.where(t.param(1, f32, rows * n).index(i * n + r), 0.0).reduce(Ops.ADD, r)
    return t.sink(t.param(0, f32, rows).index(i).store(total).end(i))


def softmax_reference(x: Array, rows: int = 3) -> Array:
    x = x.reshape(rows, -1).astype(np.float64)
    e = np.exp(x - x.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))


def layernorm(t: Table, rows: int = 3, n: int = 8) -> UOp:
    """The mean, then the variance of the kept row, then the result: kept twice."""
    out, a = t.param(0, f32, rows * n), t.param(1, f32, rows * n)
    i, r, s, u = t.range(rows, 0), t.range(n, 1, REDUCE), t.range(n, 2, REDUCE), t.range(n, 3)
    x = a.index(i * n + r)
    row, mean = keep(x, r), x.reduce(Ops.ADD, r) * (1 / n)
    d = read(row, s) - mean
    centred, variance = keep(d, s), (d * d).reduce(Ops.ADD, s) * (1 / n)
    return t.sink(out.index(i * n + u).store(read(centred, u) / (variance + 1e-5).alu(Ops.SQRT)).end(i, u))


def layernorm_reference(x: Array, rows: int = 3) -> Array:
    x = x.reshape(rows, -1).astype(np.float64)
    d = x - x.mean(1, keepdims=True)
    return np.asarray(d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5))


def softmax_one_range(t: Table, rows: int = 3, n: int = 8) -> UOp:
    """The same with one RANGE for all three loops: they have to be told apart."""
    out, a = t.param(0, f32, rows * n), t.param(1, f32, rows * n)
    i, r = t.range(rows, 0), t.range(n, 1, REDUCE)
    x = a.index(i * n + r)
    row, top = keep(x, r), x.reduce(Ops.MAX, r)
    e = (read(row, r) - top).alu(Ops.EXP)
    exps, total = keep(e, r), e.reduce(Ops.ADD, r)
    return t.sink(out.index(i * n + r).store(read(exps, r) / total).end(i, r))


# -- scans ------------------------------------------------------------------------------------------------------------


def cumsum_rows(t: Table, rows: int = 4, n: int = 6) -> UOp:
    out, a = t.param(0, i32, rows * n), t.param(1, i32, rows * n)
    i, r = t.range(rows, 0), t.range(n, 1)
    return t.sink(out.index(i * n + r).store(scan(a.index(i * n + r), r)).end(i, r))


def cumsum_columns(t: Table, n: int = 4, columns: int = 6) -> UOp:
    """Along the outer axis: the scanned loop has to become the inner one."""
    out, a = t.param(0, i32, n * columns), t.param(1, i32, n * columns)
    r, j = t.range(n, 0), t.range(columns, 1)
    return t.sink(out.index(r * columns + j).store(scan(a.index(r * columns + j), r)).end(r, j))


def cumsum_repeated(t: Table, rows: int = 4, n: int = 6) -> UOp:
    """One scan, the same for every row: it has to start anew in each."""
    out, a, b = t.param(0, i32, rows * n), t.param(1, i32, n), t.param(2, i32, rows)
    i, r = t.range(rows, 0), t.range(n, 1)
    return t.sink(out.index(i * n + r).store(scan(a.index(r), r) * b.index(i)).end(i, r))


def scan_and_sum(t: Table, rows: int = 4, n: int = 6) -> UOp:
    """Running maxima are written and summed, in one loop; the sum goes to another buffer."""
    out, sums, a = t.param(0, i32, rows * n), t.param(1, i32, rows), t.param(2, i32, rows * n)
    i, r = t.range(rows, 0), t.range(n, 1, REDUCE)
    top = scan(a.index(i * n + r), r, Ops.MAX)
    return t.sink(
        out.index(i * n + r).store(top).end(i, r), sums.index(i).store(top.reduce(Ops.ADD, r)).end(i)
    )


# -- several results --------------------------------------------------------------------------------------------------


def sum_and_max(t: Table, rows: int = 4, n: int = 6) -> UOp:
    """Of the same rows: one loop, one read."""
    out, a = t.param(0, i32, rows), t.param(1, i32, rows * n)
    i, r = t.range(rows, 0), t.range(n, 1, REDUCE)
    x = a.index(i * n + r)
    return t.sink(out.index(i).store(x.reduce(Ops.ADD, r) + x.reduce(Ops.MAX, r)).end(i))


def crossed(t: Table, n: int = 6) -> UOp:
    """Sums over two ranges that need each other crosswise: at most one pair can share a loop."""
    out, a, b = t.param(0, i32, 1), t.param(1, i32, n), t.param(2, i32, n)
    r, s = t.range(n, 0, REDUCE), t.range(n, 1, REDUCE)
    r1 = a.index(r).reduce(Ops.ADD, r)
    s2 = b.index(s).reduce(Ops.MAX, s)
    s1 = b.index(s).max(r1).reduce(Ops.ADD, s)
    r2 = a.index(r).max(s2).reduce(Ops.ADD, r)
    return t.sink(out.index(t.const(0)).store(s1 + r2))


def transposed_tile(t: Table, n: int = 4, m: int = 6) -> UOp:
    """A tile that is kept by rows and read by columns."""
    out, a = t.param(0, f32, n * m), t.param(1, f32, n * m)
    r, s = t.range(n, 0), t.range(m, 1)
    i, j = t.range(m, 2), t.range(n, 3)
    tile = keep(a.index(r * m + s), r, s)
    return t.sink(out.index(i * n + j).store(read(tile, j, i)).end(i, j))


CASES: dict[str, Case] = {
    "softmax": Case(softmax, {0: 24}, {1: 24}, lambda b: {0: softmax_reference(b[1])}),
    "softmax, one range": Case(softmax_one_range, {0: 24}, {1: 24}, lambda b: {0: softmax_reference(b[1])}),
    "layernorm": Case(layernorm, {0: 24}, {1: 24}, lambda b: {0: layernorm_reference(b[1])}),
    "cumsum of rows": Case(
        cumsum_rows, {0: 24}, {1: 24}, lambda b: {0: b[1].reshape(4, 6).cumsum(1)}, i32
    ),
    "cumsum of columns": Case(
        cumsum_columns, {0: 24}, {1: 24}, lambda b: {0: b[1].reshape(4, 6).cumsum(0)}, i32
    ),
    "cumsum for every row": Case(
        cumsum_repeated, {0: 24}, {1: 6, 2: 4}, lambda b: {0: b[1].cumsum()[None] * b[2][:, None]}, i32
    ),
    "scan and sum": Case(
        scan_and_sum, {0: 24, 1: 4}, {2: 24},
        lambda b: {
            0: np.maximum.accumulate(b[2].reshape(4, 6), 1), 1: np.maximum.accumulate(b[2].reshape(4, 6), 1).sum(1),
        }, i32,
    ),
    "sum and max": Case(
        sum_and_max, {0: 4}, {1: 24}, lambda b: {0: b[1].reshape(4, 6).sum(1) + b[1].reshape(4, 6).max(1)}, i32
    ),
    "crossed": Case(
        crossed, {0: 1}, {1: 6, 2: 6},
        lambda b: {
            0: np.maximum(b[2], b[1].sum()).sum(keepdims=True) + np.maximum(b[1], b[2].max()).sum(keepdims=True)
        }, i32,
    ),
    "transposed tile": Case(transposed_tile, {0: 24}, {1: 24}, lambda b: {0: b[1].reshape(4, 6).T.copy()}),
}  # fmt: skip

"""Stage 11 as seed 001 describes it: the accumulator, its identity, and lanes combined before they reach it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from planish import dtypes
from planish.dtypes import DType
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.stages import pipeline
from planish.stages.devectorizer.s11_remove_reduce import horizontal, remove_reduce
from planish.uop import spec
from planish.uop.evaluate import evaluate
from planish.uop.node import Table, UOp
from planish.uop.ops import REDUCIBLE, Ops
from planish.uop.symbolic.reduce import identity
from planish.uop.text import print_graph
from tests.conftest import Golden
from tests.stages.kernels import REDUCE, f32, i32, store

DTYPES = (f32, dtypes.float64, dtypes.float16, i32, dtypes.int8, dtypes.uint16, dtypes.int64, dtypes.bool_)


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def test_a_sum_becomes_an_accumulator_and_a_loop(t: Table, golden: Golden) -> None:
    i, r = t.range(3, 0), t.range(5, 1, REDUCE)
    kernel = store(t.param(0, f32, 3), t.param(1, f32, 15).index(i * 5 + r).reduce(Ops.ADD, r), i)
    after = remove_reduce(kernel)
    assert not any(n.op is Ops.REDUCE for n in after.toposort())
    spec.check(after, pipeline.phase_after(11))
    golden.check(
        "stages/seed/s11_sum.txt",
        f"=== before\n{print_graph(kernel)}=== after\n{print_graph(after)}",
    )


def combines(op: Ops, dtype: DType) -> bool:
    if dtype.is_bool:
        return op in {Ops.AND, Ops.OR, Ops.XOR, Ops.MAX, Ops.MIN}
    return dtype.is_int or op not in {Ops.AND, Ops.OR, Ops.XOR}


@pytest.mark.parametrize(
    ("op", "dtype"), [(op, d) for op in sorted(REDUCIBLE) for d in DTYPES if combines(op, d)], ids=str
)
def test_the_identity_changes_nothing(t: Table, op: Ops, dtype: DType) -> None:
    x = t.param(1, dtype, 1).index(t.const(0))
    r = t.range(4, 0, REDUCE)
    start = identity(op, x.reduce(op, r))
    assert start is not None
    for value in (0, 1) if dtype.is_bool else (0, 1, 3, dtype.max, dtype.min):
        assert value is not None
        constant = t.const(bool(value) if dtype.is_bool else value, dtype)
        assert evaluate(t.const(start, dtype).alu(op, constant), {}) == evaluate(constant, {})


@pytest.mark.parametrize("count", [2, 3, 4, 6, 8, 16])
def test_lanes_are_combined_as_a_tree(t: Table, count: int) -> None:
    names = [t.variable(f"v{number}", 0, 99, i32) for number in range(count)]
    vector = t.make(Ops.VECTORIZE, i32.vec(count), tuple(names))
    total = horizontal(Ops.ADD, vector, i32)
    values = {name: number * number + 1 for number, name in enumerate(names)}
    assert evaluate(total, values) == sum(values.values())
    assert depth(total, Ops.ADD) == (count - 1).bit_length()  # not one after another


def depth(value: UOp, op: Ops) -> int:
    found: dict[UOp, int] = {}
    for node in value.toposort():
        found[node] = max((found[s] for s in node.src), default=0) + (node.op is op)
    return found[value]


def test_groups_of_lanes_keep_their_width(t: Table) -> None:
    vector = t.vconst(range(8), i32)
    halves = horizontal(Ops.ADD, vector, i32.vec(4))  # [a, …, h] -> [a+e, b+f, c+g, d+h]
    assert evaluate(halves, {}).tolist() == [0 + 4, 1 + 5, 2 + 6, 3 + 7]


def test_reductions_of_nothing_are_the_identity() -> None:
    n_values = {Ops.ADD: 0, Ops.MUL: 1, Ops.MAX: -(2**31), Ops.MIN: 2**31 - 1}
    for op, wanted in n_values.items():
        with Table() as t:
            n = t.variable("n", 0, 4)
            r = t.range(n, 1, REDUCE)
            kernel = t.sink(
                t.param(0, i32, 1).index(t.const(0)).store(t.param(1, i32, 4).index(r).reduce(op, r))
            )
            program = lower("nothing", pipeline.run(kernel))
        result = np.full(1, 77, np.int32)
        interpret(program, [result, np.ones(4, np.int32)], {"n": 0})
        assert result[0] == wanted


def test_the_accumulator_starts_anew_in_every_outer_iteration() -> None:
    with Table() as t:
        i, r = t.range(3, 0), t.range(4, 1, REDUCE)
        kernel = store(t.param(0, i32, 3), t.param(1, i32, 12).index(i * 4 + r).reduce(Ops.ADD, r), i)
        program = lower("rows", pipeline.run(kernel))
    data, result = np.arange(12, dtype=np.int32), np.zeros(3, np.int32)
    interpret(program, [result, data])
    assert result.tolist() == data.reshape(3, 4).sum(1).tolist()

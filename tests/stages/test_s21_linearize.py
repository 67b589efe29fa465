"""Stage 21: the order of lines follows from how often they run and from a table of priorities, and from nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from planish import dtypes
from planish.stages.devectorizer.s13_add_loads import add_loads
from planish.stages.devectorizer.s15_lower_index_dtype import lower_index_dtype
from planish.stages.linearizer.s19_final_rewrite import final_rewrite
from planish.stages.linearizer.s20_add_control_flow import add_control_flow
from planish.stages.linearizer.s21_linearize import PRIORITY, linearize, run_count
from planish.uop import spec
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.text import print_lines
from tests.conftest import Golden

ROOT = Path(__file__).parents[2]
f32, i32 = dtypes.float32, dtypes.int32


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def kernel(t: Table) -> UOp:
    """c[i, j] = a[i] * b[j] + n for all i, j; d[i] = a[i]: something at every level."""
    i, j = t.range(4, 0), t.range(8, 1)
    n = t.variable("n", 0, 9)
    a, b = t.param(2, f32, 4).index(i), t.param(3, f32, 8).index(j)
    inner = t.param(0, f32, 32).index(i * 8 + j).store(a * b + n.cast(f32)).end(j)
    outer = t.make(Ops.GROUP, dtypes.void, (inner, t.param(1, f32, 4).index(i).store(a))).end(i)
    return add_control_flow(final_rewrite(lower_index_dtype(add_loads(t.sink(outer)))))


def test_the_order_of_a_kernel(t: Table, golden: Golden) -> None:
    lines = linearize(kernel(t))
    spec.check(lines, "program")
    golden.check("stages/s21_linearize/order.txt", print_lines(lines))


def test_priorities_are_those_of_the_specification() -> None:
    assert PRIORITY == {
        Ops.DEFINE_GLOBAL: -20, Ops.DEFINE_VAR: -19, Ops.DEFINE_LOCAL: -18, Ops.DEFINE_REG: -17, Ops.CONST: -10,
        Ops.END: -5, Ops.LOAD: -1, Ops.STORE: 1, Ops.RANGE: 5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other"), [(Ops.DEFINE_GLOBAL, Ops.DEFINE_VAR), (Ops.LOAD, Ops.STORE), (Ops.CONST, Ops.DEFINE_GLOBAL)]
)  # fmt: skip
def test_exchanging_two_priorities_changes_the_order(t: Table, golden: Golden, one: Ops, other: Ops) -> None:
    sink = kernel(t)
    swapped = {**PRIORITY, one: PRIORITY[other], other: PRIORITY[one]}
    lines = linearize(sink, swapped)
    assert lines != linearize(sink)
    assert set(lines) == set(linearize(sink))
    spec.check(lines, "program")  # priorities decide what is fast, never what is right
    golden.check(f"stages/s21_linearize/swapped_{one.name}_{other.name}.txt".lower(), print_lines(lines))


def test_any_priorities_give_a_program(t: Table) -> None:
    sink = kernel(t)
    for one, other in combinations(PRIORITY, 2):
        if Ops.RANGE in {one, other} or Ops.END in {one, other}:
            continue  # these keep bodies tight: a loop opens as late and closes as early as it can
        spec.check(linearize(sink, {**PRIORITY, one: PRIORITY[other], other: PRIORITY[one]}), "program")


def test_definitions_lead_and_parameters_are_in_order(t: Table) -> None:
    lines = linearize(kernel(t))
    first = [line.op for line in lines[:5]]
    assert first == [Ops.DEFINE_GLOBAL] * 4 + [Ops.DEFINE_VAR]
    assert [line.arg for line in lines[:4]] == [0, 1, 2, 3]


def test_code_stands_outside_of_the_loops_it_does_not_need(t: Table) -> None:
    lines = linearize(kernel(t))
    place = {line: number for number, line in enumerate(lines)}
    inner = next(line for line in lines if line.op is Ops.RANGE and line.arg.path == (1,))  # type: ignore[attr-defined]
    loads = [line for line in lines if line.op is Ops.LOAD]
    before = [load for load in loads if place[load] < place[inner]]
    assert [load.src[0].src[0].arg for load in before] == [2]  # a[i] is loaded once per i


def test_loads_come_before_and_stores_after_what_is_computed(t: Table) -> None:
    lines = linearize(kernel(t))
    ops = [line.op for line in lines]
    body = ops[ops.index(Ops.RANGE, ops.index(Ops.RANGE) + 1) : ops.index(Ops.END)]
    assert body.index(Ops.LOAD) < body.index(Ops.MUL) < body.index(Ops.STORE)


def test_run_count_is_the_product_of_open_ranges(t: Table) -> None:
    i, j, n = t.range(4, 0), t.range(8, 1), t.variable("n", 1, 5)
    r = t.range(n, 2)
    assert run_count(t.const(3)) == 1
    assert run_count(i * 8 + j) == 32
    assert run_count(r + i) == 20  # a symbolic bound counts as its greatest value
    assert run_count(t.param(0, f32, 4).index(i).store(t.const(1.0, f32)).end(i)) == 1


def test_equal_graphs_give_equal_lists() -> None:
    texts = []
    for order in ((0, 1), (1, 0)):
        with Table() as t:
            for slot in order:  # other serial numbers
                t.param(slot, f32, 32)
            texts.append(print_lines(linearize(kernel(t))))
    assert texts[0] == texts[1]


def test_the_order_is_the_same_in_every_process() -> None:
    code = (
        "from tests.stages.test_s21_linearize import *\n"
        "with Table() as t: print(print_lines(linearize(kernel(t))))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, cwd=ROOT, capture_output=True,
            text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(texts) == 1

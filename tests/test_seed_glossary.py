"""Seed 001's words, each shown at work: what a node, a pattern, a range, a lane … is, in the compiler itself."""

from __future__ import annotations

import numpy as np
import pytest

from planish import compiler, dtypes, ptir
from planish.dtypes import DType
from planish.llir.program import EndLoop, Load, Loop
from planish.schedule.kernels import schedule
from planish.stages import pipeline
from planish.target import TARGETS
from planish.uop.interpret import interpret
from planish.uop.matcher import Matcher, rule
from planish.uop.node import Table, UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.pattern import anything
from planish.uop.rewrite import rewrite
from planish.uop.symbolic import simplify
from tests.placed import Action, ActionKind


def addition(*dims: int) -> ptir.Function:
    g = ptir.Graph("add")
    a, b = (g.input(name, ptir.tensor("f32", dims)) for name in "ab")
    return g.build(a.add(b))


def values(table: Table, value: UOp, count: int) -> list[float]:
    """What a value is in every lane (or at every value of its range), by the interpreter."""
    place = table.param(0, value.dtype.scalar, count)
    ranges = list(value.ranges)
    index = ranges[0] if ranges else table.const(0)
    if value.dtype.lanes > 1:
        index = table.make(Ops.VCONST, dtypes.index.vec(count), (), tuple(range(count)))
    store = table.make(Ops.INDEX, value.dtype, (place, index)).store(value)
    effect = table.make(Ops.END, dtypes.void, (store, *ranges)) if ranges else store
    memory = {0: np.zeros(count, value.dtype.scalar.numpy)}
    return [float(x) for x in interpret(table.sink(effect), memory)[0]]


def test_a_uop_is_one_computation():
    with Table() as t:
        a, b = t.const(2.0, dtypes.float32), t.const(3.5, dtypes.float32)
        total = a + b
        assert (total.op, total.src) == (Ops.ADD, (a, b))
        assert values(t, total, 1) == [5.5]


def test_a_range_is_a_loop():
    with Table() as t:
        i = t.range(10, 0)
        assert i.bounds == (0, 9)
        assert values(t, i.cast(dtypes.float32), 10) == list(range(10))
    (program,) = compiler.lower(addition(100), "scalar").programs
    assert [i.bound.value for i in program.body if isinstance(i, Loop)] == [100]  # type: ignore[union-attr]
    assert sum(isinstance(i, EndLoop) for i in program.body) == 1


def test_an_axis_is_a_dimension():
    g = ptir.Graph("f")
    x = g.input("x", ptir.tensor("f32", (3, 5)))
    assert x.reduce_sum([0]).dims == (5,)
    assert x.reduce_sum([1]).dims == (3,)
    with Table() as t:
        assert t.range(3, 0, AxisType.LOOP).arg == Axis((0,), AxisType.LOOP)


def test_a_buffer_is_memory():
    (program,) = compiler.lower(addition(6)).programs
    assert [(b.name, b.dtype.name, b.nbytes) for b in program.params] == [
        ("arg0", "float32", 24), ("arg1", "float32", 24), ("arg2", "float32", 24),
    ]  # fmt: skip


def test_symbolic_arithmetic_needs_no_numbers():
    with Table() as t:
        x = t.variable("x", 0, 99)
        assert simplify((x * 4) // 4 * 4) is x * 4  # (x/4)*4 where 4 divides x
        assert simplify(x // 4 * 4) is not x


def test_quotient_and_remainder_make_the_number():
    with Table() as t:
        x = t.variable("x", 0, 99)
        assert simplify((x // 7) * 7 + x % 7) is x
        seven = t.const(52)
        assert (simplify(seven // 7).arg, simplify(seven % 7).arg) == (7, 3)


def test_gep_selects_lanes():
    with Table() as t:
        four = t.make(Ops.VCONST, dtypes.float32.vec(4), (), (1.0, 2.0, 3.0, 4.0))
        assert values(t, t.make(Ops.GEP, dtypes.float32, (four,), (2,)), 1) == [3.0]
        assert values(t, t.make(Ops.GEP, dtypes.float32.vec(2), (four,), (3, 0)), 2) == [4.0, 1.0]


def test_vectorize_makes_lanes():
    with Table() as t:
        numbers = [t.const(float(n), dtypes.float32) for n in range(4)]
        assert values(t, t.make(Ops.VECTORIZE, dtypes.float32.vec(4), tuple(numbers)), 4) == [
            0.0,
            1.0,
            2.0,
            3.0,
        ]


def test_where_chooses():
    with Table() as t:
        i = t.range(6, 0)
        chosen = (i < 4).where(t.const(1.0, dtypes.float32), t.const(-1.0, dtypes.float32))
        assert values(t, chosen, 6) == [1.0, 1.0, 1.0, 1.0, -1.0, -1.0]


def stages(function: ptir.Function, target: str, *actions: Action) -> dict[int, list[tuple[Ops, DType]]]:
    """The nodes of a function's one kernel after every stage."""
    machine = pipeline.Machine(TARGETS[target], lambda sink: actions)
    found: dict[int, list[tuple[Ops, DType]]] = {}
    with Table() as table:
        (kernel,) = schedule(function, table).kernels
        for step in pipeline.steps(kernel.sink, machine, kernel.name):
            nodes = step.form if isinstance(step.form, list) else step.form.toposort()
            found[step.stage.number] = [(node.op, node.dtype) for node in nodes]
    return found


def test_contract_gathers_lanes_that_unroll_has_spread():
    # nothing is left of either behind the expander: there are lanes
    after = stages(addition(8), "x86-64", Action(ActionKind.UPCAST, 0, 4))
    ops = {op for op, _ in after[9]}
    assert not ops & {Ops.UNROLL, Ops.CONTRACT}
    assert (Ops.ADD, dtypes.float32.vec(4)) in after[9]


def test_eight_lanes_are_two_times_four_where_registers_hold_four():
    after = stages(addition(16), "x86-64", Action(ActionKind.UPCAST, 0, 8))
    eight, four = (Ops.ADD, dtypes.float32.vec(8)), (Ops.ADD, dtypes.float32.vec(4))
    assert after[13].count(eight) == 1
    assert after[14].count(eight) == 0
    assert after[14].count(four) == 2
    (program,) = compiler.lower(addition(16), "x86-64").programs
    assert {i.result.dtype.lanes for i in program.body if isinstance(i, Load)} == {4}


@pytest.mark.parametrize("target", ["x86-64", "cuda"])
def test_a_stage_ends_where_its_patterns_change_nothing_more(target):
    machine = pipeline.Machine(TARGETS[target], lambda sink: ())
    with Table() as table:
        (kernel,) = schedule(addition(12), table).kernels
        ran = 0
        for step in pipeline.steps(kernel.sink, machine, kernel.name):
            if isinstance(step.form, UOp) and step.stage.matchers:
                assert step.stage.run(step.form, machine) is step.form, step.stage.name
                ran += 1
        assert ran > 12


def test_a_pattern_finds_and_replaces():
    x = anything("x")
    matcher = Matcher("zeros", [rule(x + 0, x)])
    with Table() as t:
        n = t.variable("n", 0, 9)
        assert rewrite((n + 0) * 3, matcher) is n * 3
        assert rewrite((n + 1) * 3, matcher) is (n + 1) * 3

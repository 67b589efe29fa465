"""Stage 17 on the targets that have rules: powers of two with whole exponents are one instruction, for every number the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from planish import dtypes
from planish.dtypes import DType
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.llir.program import Compute
from planish.stages.linearizer.s17_pre_matcher import pre_matcher
from planish.stages.pipeline import Machine, run
from planish.target import TARGETS
from planish.uop import spec
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.text import print_graph
from tests.conftest import Golden
from tests.stages.kernels import Array

f32, f64, i8, i32, u8 = dtypes.float32, dtypes.float64, dtypes.int8, dtypes.int32, dtypes.uint8
V4 = TARGETS["x86-64-v4"]
WITHOUT = replace(V4, pre_matcher=None)
SIZE = 600

Value = Callable[[UOp, UOp], UOp]
FORMS: dict[str, tuple[DType, DType, Value]] = {
    "factor": (f32, i8, lambda x, n: x * n.cast(f32).alu(Ops.EXP2)),
    "factor on the left": (f32, i8, lambda x, n: n.cast(f32).alu(Ops.EXP2) * x),
    "factor beyond all numbers": (f32, u8, lambda x, n: x * n.cast(f32).alu(Ops.EXP2)),
    "double": (f64, i8, lambda x, n: x * n.cast(f64).alu(Ops.EXP2)),
    "any integer": (f32, i32, lambda x, n: x + n.cast(f32).alu(Ops.EXP2)),
    "power": (f32, i32, lambda x, n: x.const_like(2.0).alu(Ops.POW, n.cast(f32))),
    "floor": (f32, i8, lambda x, n: x.alu(Ops.FLOOR).alu(Ops.EXP2)),
    "round": (f32, i8, lambda x, n: x.alu(Ops.ROUND).alu(Ops.EXP2)),
}


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def kernel(t: Table, form: str) -> UOp:
    dtype, whole, value = FORMS[form]
    i = t.range(SIZE, 0)
    x, n = t.param(1, dtype, SIZE).index(i), t.param(2, whole, SIZE).index(i)
    return t.sink(t.param(0, dtype, SIZE).index(i).store(value(x, n)).end(i))


def ran(sink: UOp, form: str, machine: Machine) -> tuple[Array, list[Ops]]:
    """What a kernel makes of all kinds of numbers, and the operations that it took."""
    dtype, whole, _ = FORMS[form]
    rng = np.random.default_rng(5)
    x = (rng.standard_normal(SIZE) * 100).astype(dtype.numpy)
    x[:12] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-45, 3e38, 127.5, 128.5, -149.5, -150.5]
    n = np.arange(SIZE) - SIZE // 2
    out = np.zeros(SIZE, dtype.numpy)
    program = lower("kernel", run(sink, machine))
    arrays = {"arg0": out, "arg1": x, "arg2": n.astype(whole.numpy)}
    interpret(program, [arrays[param.name] for param in program.params])
    return out, [line.op for line in program.body if isinstance(line, Compute)]


@pytest.mark.parametrize("form", FORMS)
def test_whole_exponents_are_one_instruction_and_the_same_numbers(form: str, t: Table) -> None:
    sink = kernel(t, form)
    found, ops = ran(sink, form, Machine(V4, lambda _: ()))
    expected, others = ran(sink, form, Machine(WITHOUT, lambda _: ()))
    np.testing.assert_array_equal(found, expected)
    assert Ops.SCALE in ops
    assert len(ops) + 5 <= len(others)
    assert (Ops.MUL in ops) == (
        form == "factor beyond all numbers"
    )  # x * 2**200 is infinite, x 2**200 need not be


def test_fractions_stay_what_they_are(t: Table) -> None:
    i = t.range(8, 0)
    x = t.param(1, f32, 8).index(i)
    sink = t.sink(t.param(0, f32, 8).index(i).store(x.alu(Ops.EXP2) + (x * 2.0).alu(Ops.POW, x)).end(i))
    assert pre_matcher(sink, V4) is sink


def test_machines_without_the_instruction_have_no_such_rules() -> None:
    assert {name for name, target in TARGETS.items() if target.pre_matcher is not None} == {
        name for name, target in TARGETS.items() if Ops.SCALE in target.supported_ops
    }


def test_a_factor_becomes_part_of_the_scaling(t: Table, golden: Golden) -> None:
    sink = kernel(t, "factor")
    after = pre_matcher(sink, V4)
    spec.check(after, "kernel")
    assert pre_matcher(after, V4) is after
    golden.check(
        "stages/s17_pre_matcher/factor.txt", f"=== before\n{print_graph(sink)}=== after\n{print_graph(after)}"
    )

"""For every op and dtype: PTIR interpreter ≡ UOp interpreter after each stage that changed something ≡ LLIR interpreter.

A part of the table is for the quick suite, all of it for `make test-all`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from planish import dtypes, ptir
from planish.compiler.bisect import Memory, bisect, run_plan
from planish.dtypes import DType
from planish.ptir.graph_value import GraphValue
from planish.schedule.plan import Kernel
from planish.stages import pipeline
from planish.stages.bisection import difference, outputs_of
from planish.target import TARGETS
from planish.uop.interpret import interpret
from planish.uop.ops import Ops
from tests.e2e.comparing import held
from tests.e2e.op_cases import CASES, DYNAMIC, Maker
from tests.ptir.generate import HOST, random_inputs, random_program
from tests.schedule import programs
from tests.schedule.generate import Generator
from tests.schedule.programs import Program, attention, causal, data, layernorm, program, rmsnorm, softmax
from tests.stages.every_stage import Report, check_function, machine_for

Array = NDArray[Any]
MACHINES = (None, "x86-64-v3", "cuda")


def check_case(name: str, m: Maker, target: str | None) -> Report:
    function = m.build()
    wanted = [np.asarray(each) for each in ptir.interpret(function, m.arrays)]

    def judge(number: int, found: Array, where: str) -> None:
        held(
            name,
            found,
            wanted[number],
            m.slack[number],
            f"{name} of {m.dtype.short}, result {number}, {where}",
        )

    return check_function(function, m.arrays, judge, target)


def _table() -> list[object]:
    """Each op once with a dtype and a machine that vary from op to op."""
    rows: list[object] = []
    for position, (name, (accepted, _)) in enumerate(CASES.items()):
        if name not in _LONG:
            dtype, target = accepted[position % len(accepted)], MACHINES[position % 3]
            rows.append(pytest.param(name, dtype, target, id=f"{name}-{dtype.short}-{target}"))
    return rows


_LONG = frozenset({"convolution", "reduce_window", "scatter"})
"""Ops whose many cases take their time."""


def check_op(name: str, dtype: DType, target: str | None) -> None:
    for case in CASES[name][1]:
        m = Maker(dtype)
        case(m)
        report = check_case(name, m, target)
        assert report.kernels
        assert {1, 15, 21} <= report.executed.keys() or not report.executed


@pytest.mark.parametrize(("name", "dtype", "target"), _table())
def test_every_stage_agrees(name: str, dtype: DType, target: str | None) -> None:
    check_op(name, dtype, target)


@pytest.mark.slow
@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("name", CASES)
def test_every_stage_agrees_on_every_dtype(name: str, target: str | None) -> None:
    for dtype in CASES[name][0]:
        check_op(name, dtype, target)


@pytest.mark.parametrize("target", [None, pytest.param("x86-64-v3", marks=pytest.mark.slow), pytest.param("cuda", marks=pytest.mark.slow)])  # fmt: skip
@pytest.mark.parametrize("name", DYNAMIC)
def test_named_sizes_agree(name: str, target: str | None) -> None:
    m = Maker(dtypes.float32)
    DYNAMIC[name](m)
    check_case(name, m, target)


FUSED = {
    "softmax": program(lambda g, x: softmax(x), data(6, 24)),
    "softmax of columns": program(lambda g, x: softmax(x, 0), data(8, 5)),
    "layernorm": program(lambda g, x, s, t: layernorm(x, s, t), data(4, 24), data(24), data(24)),
    "rmsnorm": program(lambda g, x, s: rmsnorm(x, s), data(4, 24), data(24)),
    "matmul and gelu": program(lambda g, a, b, c: programs.gelu((a @ b).add(c.broadcast_to((6, 8)))), data(6, 10), data(10, 8), data(8)),
    "attention": program(lambda g, q, k, v: attention(q, k, v), data(2, 8, 4), data(2, 8, 4), data(2, 8, 4)),
    "causal attention": program(causal, data(1, 6, 4), data(1, 6, 4), data(1, 6, 4)),
    "sum and max": program(lambda g, x: (x.reduce_sum([1]), x.reduce_max([1])), data(5, 16)),
    "running sum of a softmax": program(lambda g, x: softmax(x).cumsum(1), data(3, 12)),
    "running sums in lanes": program(lambda g, x: x.mul(2.0).cumsum(1, reverse=True), data(3, 48)),
    "running maxima in lanes, padded": program(lambda g, x: x.cummax(1).add(1.0), data(3, 41)),
}  # fmt: skip


def _agree(each: Program, target: str | None) -> Report:
    wanted = [np.asarray(result) for result in ptir.interpret(each.function, each.arrays)]

    def judge(number: int, found: Array, where: str) -> None:
        np.testing.assert_allclose(found, wanted[number], rtol=2e-5, atol=2e-6, err_msg=where)

    return check_function(each.function, each.arrays, judge, target)


@pytest.mark.parametrize("target", [None, "x86-64-v4", "cuda"])
@pytest.mark.parametrize("name", FUSED)
def test_fused_kernels_agree(name: str, target: str | None) -> None:
    report = _agree(FUSED[name], target)
    assert {1, 11, 13, 15, 21} <= report.executed.keys()


@pytest.mark.parametrize(
    ("target", "dtype"),
    [("cuda", "float16"), ("cuda", "bfloat16"), ("sm_80", "float64"), ("x86-64-amx", "bfloat16")],
)
def test_tensor_cores_agree(target: str, dtype: str) -> None:
    """The tiles of a warp, and those of one core, before and after they are WMMA."""
    wide, size = ("f64", 16) if dtype == "float64" else ("f32", 64)
    each = program(
        lambda g, a, b: a.cast(wide) @ b.cast(wide),
        *(
            data(*dims, dtype="int32").astype(dtypes.parse(dtype).numpy)
            for dims in ((size, size), (size, size))
        ),
    )
    (wanted,) = ptir.interpret(each.function, each.arrays)

    def judge(number: int, found: Array, where: str) -> None:
        np.testing.assert_array_equal(found, wanted, err_msg=where)

    report = check_function(each.function, each.arrays, judge, target)
    assert Ops.WMMA in report.ops


# -- random programs -----------------------------------------------------------------------------------------------


def check_random(seed: int, target: str | None) -> None:
    made = Generator(seed)
    wanted = [np.asarray(result) for result in ptir.interpret(made.function, made.arrays)]

    def judge(number: int, found: Array, where: str) -> None:
        np.testing.assert_array_equal(found, wanted[number], err_msg=f"seed {seed}, {where}")

    check_function(made.function, made.arrays, judge, target)


@pytest.mark.parametrize("seed", range(12))
def test_random_functions_agree(seed: int) -> None:
    check_random(seed, MACHINES[seed % 3])


@pytest.mark.fuzz
@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("start", range(100, 400, 50))
def test_many_random_functions_agree(start: int, target: str | None) -> None:
    for seed in range(start, start + 50):
        check_random(seed, target)


LEFT_OUT = HOST | {"custom_call", "sort", "top_k", "convolution", "reduce_window", "rng_bits"}
"""What runs outside of kernels, and what has too many of them for a quick look."""


def check_program(seed: int, size: int, target: str | None) -> None:
    """Control flow, calls, named sizes: passes, schedule, stages, LLIR (and machine code) give what the program means."""
    made = random_program(seed, size, LEFT_OUT)
    inputs = random_inputs(made, seed, odd=False)
    machine = TARGETS["scalar" if target is None else target]
    found = bisect(made, inputs, machine)
    assert found is None, f"seed {seed}: {found}\n{ptir.print(made)}"


@pytest.mark.parametrize("seed", range(9))
def test_random_programs_agree(seed: int) -> None:
    check_program(seed, 5, MACHINES[seed % 3])


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(1000, 1300, 10))
def test_many_random_programs_agree(start: int) -> None:
    for seed in range(start, start + 10):
        check_program(seed, 10, MACHINES[seed % 3])


# -- control flow --------------------------------------------------------------------------------------------------


def newton(g: ptir.Graph, x: GraphValue) -> GraphValue:
    """Steps towards square roots until all are near, of a few kernels each."""
    near = g.full((), 1e-3, "f32")

    def far(y: GraphValue) -> GraphValue:
        return y.mul(y).sub(x).abs().reduce_max([0]).gt(near)

    (root,) = g.while_loop(far, lambda y: y.add(x.div(y)).mul(0.5), x.add(1.0))
    return root


def counted(g: ptir.Graph, x: GraphValue) -> tuple[GraphValue, ...]:
    """A scan over rows: the carry is added up, what it was is stacked; then one of two ways to end."""
    start = g.full((5,), 0.0, "f32")
    total, seen = g.scan(lambda carry, row: (carry.add(row), carry.mul(row)), [start], [x])
    (last,) = g.cond(
        total.reduce_sum([0]).gt(g.full((), 0.0, "f32")), lambda: total.exp(), lambda: total.neg()
    )
    return last, seen


LOOPS = {
    "newton": program(newton, np.array([2, 3, 5], np.float32)),
    "counted": program(counted, data(4, 5)),
}


@pytest.mark.parametrize("target", ["scalar", "x86-64-v3", "cuda"])
@pytest.mark.parametrize("name", LOOPS)
def test_kernels_in_loops_agree(name: str, target: str) -> None:
    """Every launch of every kernel, after every stage."""
    machine = machine_for(target)
    launches: list[str] = []

    def run(kernel: Kernel, memory: Memory, variables: Mapping[str, int]) -> Mapping[int, Array]:
        launches.append(kernel.name)
        fresh = outputs_of(kernel.sink)
        expected = interpret(kernel.sink, memory, variables, undefined=fresh)
        for step in pipeline.steps(kernel.sink, machine, kernel.name):
            if step.changed:
                found = interpret(step.form, memory, variables, undefined=fresh)
                assert difference(expected, found) is None, (kernel.name, step.stage.name)
        return expected

    function, arrays = LOOPS[name]
    found = run_plan(function, arrays, TARGETS[target], run)
    for have, want in zip(found, ptir.interpret(function, arrays), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5)
    assert len(launches) > len(set(launches)) >= 2

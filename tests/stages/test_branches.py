"""Branches around what is hardly ever needed: where they stand, what is in them, and that they change no value."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import compiler, dtypes, ptir
from planish.codegen import c, llvm
from planish.compiler.launch_parameters import work_of
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.llir.program import AnyLane, EndIf, If, Load, Loop, Store
from planish.runtime.cc import CModule
from planish.runtime.cpu import CompiledModule
from planish.stages import pipeline
from planish.stages.linearizer.branches import branch_rare
from planish.target import TARGETS
from planish.uop import spec
from planish.uop.node import Table, UOp
from planish.uop.ops import ALU, Ops
from tests.llir.helpers import C_FLAGS, HAS_C
from tests.placed import Action, ActionKind
from tests.stages.every_stage import check_function

f32 = dtypes.float32
LANES = 16


def far_and_near(count: int, seed: int = 0) -> np.ndarray:
    """Runs of ordinary arguments, of arguments in a far corner, and of both."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-20, 20, count)
    x[count // 3 : count // 2] *= 1e30
    x[count // 2 :: 7] *= 1e6
    x[-3:] = np.inf, np.nan, -0.0
    return x.astype(np.float32)


def function(build: str) -> ptir.Function:
    g = ptir.Graph("f")
    x = g.input("x", ptir.tensor("f32", (96,)))
    made = {
        "sin": lambda: x.sin(),
        "both": lambda: x.sin().add(x.cos()),
        "nested": lambda: x.sin().round().mul(1e7).cos(),
    }
    return g.build(made[build]())


@pytest.mark.parametrize("target", [None, "x86-64-v3", "x86-64-v4", "cuda"])
@pytest.mark.parametrize("build", ["sin", "both", "nested"])
def test_every_stage_gives_the_value_of_the_select(build: str, target: str | None) -> None:
    x = far_and_near(96)
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        wanted = {
            "sin": lambda: np.sin(wide),
            "both": lambda: np.sin(wide) + np.cos(wide),
            "nested": lambda: np.cos(np.rint(np.sin(wide)) * 1e7),
        }[build]()

    def judge(number: int, found: np.ndarray, where: str) -> None:
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-7, err_msg=where)

    check_function(function(build), [x], judge, target)


def lines_of(*functions: Ops, lanes: int = LANES, count: int = 4) -> list[UOp]:
    """out[i] = f(x[i]) + … in vectors."""
    table = Table()
    out, x = table.param(0, f32, lanes * count), table.param(1, f32, lanes * count)
    r = table.range(lanes * count, 0)
    value = x.index(r)
    total = value.alu(functions[0])
    for op in functions[1:]:
        total = total + value.alu(op)
    sink = table.sink(out.index(r).store(total).end(r))
    machine = pipeline.Machine(
        TARGETS["x86-64-v4"], lambda sink: (Action(ActionKind.UPCAST, 0, lanes),) if lanes > 1 else ()
    )
    return pipeline.run(sink, machine)


def blocks(lines: list[UOp]) -> tuple[list[list[UOp]], list[UOp]]:
    """The lines of each branch, and the others."""
    inside: list[list[UOp]] = []
    outside: list[UOp] = []
    within = False
    for line in lines:
        if line.op is Ops.IF:
            inside.append([])
            within = True
        elif line.op is Ops.ENDIF:
            within = False
        else:
            (inside[-1] if within else outside).append(line)
    return inside, outside


@pytest.mark.parametrize("lanes", [1, LANES])
def test_the_costly_part_is_inside_and_nothing_else(lanes: int) -> None:
    lines = lines_of(Ops.SIN, lanes=lanes)
    spec.check(lines, "program")
    (branch,), outside = blocks(lines)
    assert sum(line.op in ALU for line in branch) > 80
    assert sum(line.op in ALU for line in outside) < 55
    assert {line.op for line in branch} <= ALU | {Ops.STORE, Ops.CAST, Ops.BITCAST, Ops.GEP, Ops.CAT}
    # a product of 64 bits is only needed far away
    assert not any(line.dtype.bits > 32 for line in outside if line.op in ALU)


def test_functions_of_one_argument_share_a_branch() -> None:
    alone, _ = blocks(lines_of(Ops.SIN))
    (branch,), _ = blocks(lines_of(Ops.SIN, Ops.COS, Ops.TAN))
    assert len(branch) < 1.6 * len(alone[0]), "the reduction is computed once"


def test_a_branch_is_of_all_lanes_together() -> None:
    program = lower("kernel", lines_of(Ops.COS))
    (question,) = [i for i in program.body if isinstance(i, AnyLane)]
    (branch,) = [i for i in program.body if isinstance(i, If)]
    assert question.operand.dtype is dtypes.bool_.vec(LANES)
    assert branch.condition == question.result


@pytest.mark.parametrize("lanes", [1, LANES])
def test_machine_code_does_what_the_interpreter_does(lanes: int) -> None:
    count = 96 // lanes
    program = lower("kernel", lines_of(Ops.SIN, Ops.COS, lanes=lanes, count=count))
    x = far_and_near(96)
    wanted, found = np.zeros(96, np.float32), np.zeros(96, np.float32)
    interpret(program, [wanted, x])
    CompiledModule(llvm.render(program)).kernel("kernel", 2)([found, x])
    assert found.tobytes() == wanted.tobytes()
    if HAS_C:
        again, module = np.zeros(96, np.float32), CModule(c.render(program), flags=C_FLAGS)
        pointers = (ctypes.c_void_p, ctypes.c_void_p)
        ctypes.CFUNCTYPE(None, *pointers)(module.address("kernel"))(again.ctypes.data, x.ctypes.data)
        assert again.tobytes() == wanted.tobytes()


def test_what_hardly_ever_runs_does_not_count_as_work() -> None:
    program = lower("kernel", lines_of(Ops.SIN, count=1000))
    inside = sum(map(len, blocks(lines_of(Ops.SIN, count=1000))[0]))
    most = (len(program.body) - inside + 10) * 1000 // 2
    assert 0 < work_of(program, 1) < most


def test_without_rare_selects_nothing_happens() -> None:
    with Table() as table:
        out = table.param(0, f32, 4)
        sink = table.sink(out.index(table.const(0)).store(table.const(1.0, f32)))
        assert branch_rare(sink) is sink


def test_rares_of_one_condition_that_are_made_of_each_other_have_branches_of_their_own() -> None:
    with Table() as table:
        out, x = table.param(0, f32, 8), table.param(1, f32, 8)
        r = table.range(8, 0)
        place = table.make(Ops.INDEX, x.dtype, (x, r.cast(dtypes.int32)))
        value = table.make(Ops.LOAD, f32, (place,))
        far = value > 10.0
        first = table.make(Ops.RARE, f32, (far, value * 3.0, value))
        second = table.make(Ops.RARE, f32, (far, first * 5.0, first + 1.0))
        stored = table.make(Ops.INDEX, out.dtype, (out, r.cast(dtypes.int32))).store(second)
        sink = branch_rare(table.sink(stored.end(r)))
        gates = [node for node in sink.toposort() if node.op is Ops.STORE and len(node.src) > 2]
        assert len(gates) == 2
        assert gates[0].src[2] is gates[1].src[2]


def test_a_block_passes_by_what_data_says_is_not_its_own() -> None:
    """Rows that data chooses: what is read and stored for one stands in a branch, which all threads of the block take together."""
    table, rows, values = (
        pn.TensorSpec((500, 768), pn.float32),
        pn.TensorSpec((300,), pn.int64),
        pn.TensorSpec((300, 768), pn.float32),
    )

    def picked(w: Any, i: Any, x: Any) -> Any:
        return pn.sum(pn.take(w, i, axis=0) * x)

    found = compiler.lower(
        pn.jit(lambda w, i, x: pn.grad(picked)(w, i, x)).lower(table, rows, values).function, "sm_90"
    )
    (program,) = (p for p in found.programs if p.name.startswith("scatter"))
    kinds = [type(i) for i in program.body]
    begin, end = kinds.index(If), kinds.index(EndIf)
    assert kinds.count(Store) == kinds[begin:end].count(Store) > 0
    assert kinds[:begin].count(Load) == 1  # which row it is
    assert next(i for i in program.body if isinstance(i, Loop)).unroll == 8

"""Functions that a kernel uses many times are called: their nodes do not multiply, and their values are those of copies."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path

import numpy as np
import pytest

import planish as pn
from planish import compiler, dtypes, ptir
from planish.codegen import c, llvm
from planish.compiler.functions import with_functions
from planish.compiler.launch_parameters import work_of
from planish.llir.builder import Builder
from planish.llir.inlining import inline
from planish.llir.lower import lower
from planish.llir.program import Compute, Program
from planish.runtime import cc, cpu
from planish.stages.linearizer import calls
from planish.stages.linearizer.decompositions.functions import FUNCTIONS
from planish.stages.linearizer.s18_decompositions import decompositions
from planish.stages.linearizer.s19_final_rewrite import final_rewrite
from planish.stages.linearizer.s20_add_control_flow import add_control_flow
from planish.stages.linearizer.s21_linearize import linearize
from planish.stages.linearizer.s22_cleanup_if import cleanup_if
from planish.target import TARGETS, find
from planish.uop.node import Table, UOp
from planish.uop.ops import BINARY, Ops

LANES = 8
TARGET = TARGETS["x86-64-v3"]
SMALL = frozenset({Ops.MAX, Ops.MIN, Ops.RSQRT})
"""Functions that are never worth a call."""


def chain(table: Table, op: Ops, count: int, dtype: dtypes.DType) -> UOp:
    """`count` times the function, of what the last one gave."""
    own, here = dtype.scalar.ptr(dtype.lanes), table.const(0, dtypes.int32)

    def place(slot: int) -> UOp:
        return table.make(Ops.INDEX, own, (table.make(Ops.DEFINE_GLOBAL, own, (), slot), here))

    x = table.make(Ops.LOAD, dtype, (place(1),))
    for _ in range(count):
        x = x.alu(op, *([x] if op in BINARY else [])) * 0.75 + 0.25
    return table.make(Ops.SINK, dtypes.void, (place(0).store(x),))


def lowered(op: Ops, count: int, dtype: dtypes.DType) -> Program:
    with Table() as table:
        sink = decompositions(chain(table, op, count, dtype), TARGET)
        lines = linearize(add_control_flow(final_rewrite(sink, TARGET)))
        return with_functions(lower("chain", cleanup_if(lines)), TARGET)


def computes(program: Program, op: Ops) -> int:
    return sum(isinstance(i, Compute) and i.op is op for i in program.body)


def test_the_nodes_of_a_function_do_not_multiply() -> None:
    def nodes(count: int) -> int:
        with Table() as table:
            return len(
                decompositions(chain(table, Ops.SIN, count, dtypes.float32.vec(LANES)), TARGET).toposort()
            )

    few, many, more = nodes(2), nodes(100), nodes(200)
    assert few > 200  # written out
    assert (more - many) / 100 <= 4


def test_a_gpu_calls_what_it_uses_dozens_of_times() -> None:
    gpu = next(target for target in TARGETS.values() if target.is_gpu)
    for count, called in ((8, False), (100, True)):
        with Table() as table:
            done = decompositions(chain(table, Ops.SIN, count, dtypes.float32), gpu)
            assert any(node.op is Ops.SIN for node in done.toposort()) is called


def test_behind_a_loop_calls_begin_earlier() -> None:
    """A register tile of sums and what is done with each, beside the same number of functions in the loop itself."""

    made = []
    for behind in (True, False):
        graph = ptir.Graph("functions")
        a, b = (graph.input(name, ptir.tensor("f32", (256, 256))) for name in "ab")
        y = a.matmul(b).log() if behind else a
        for _ in range(0 if behind else 20):
            y = y.log().mul(0.5)
        found = compiler.lower(graph.build(y), TARGETS["x86-64-v4"])
        made.append(sum(len(program.functions) for program in found.programs))
    assert made == [1, 0]


def test_narrow_floats_call_the_function_of_wide_ones() -> None:
    program = lowered(Ops.SIN, 50, dtypes.float16.vec(LANES))
    assert [(each.op, each.dtype) for each in program.functions] == [(Ops.SIN, dtypes.float32.vec(LANES))]
    assert computes(program, Ops.SIN) == 50


def test_a_call_counts_as_what_it_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    called = work_of(lowered(Ops.SIN, 40, dtypes.float32.vec(LANES)), 1)
    monkeypatch.setattr(calls, "GROWTH", 1 << 40)
    copied = work_of(lowered(Ops.SIN, 40, dtypes.float32.vec(LANES)), 1)
    assert 0.8 * copied < called < 1.2 * copied


@pytest.mark.parametrize("op", sorted(set(FUNCTIONS) - SMALL), ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [dtypes.float32.vec(LANES), dtypes.float64], ids=str)
def test_a_called_function_has_the_bits_of_a_copy(
    op: Ops, dtype: dtypes.DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_SMALL", 0)
    monkeypatch.setattr(calls, "_FEW", 0)
    made: list[np.ndarray] = []
    x = np.random.default_rng(3).uniform(0.05, 40, LANES).astype(dtype.scalar.numpy)
    x[1] = 1e30  # the rare way
    for growth in (-1, 1 << 40):
        monkeypatch.setattr(calls, "GROWTH", growth)
        program = lowered(op, 3, dtype)
        assert computes(program, op) == (3 if growth < 0 else 0)
        assert len(program.functions) == (growth < 0)
        texts = [llvm.render(program)]
        result = np.zeros_like(x)
        cpu.CompiledModule(texts[0]).kernel("u_chain", 2)([result, x])
        made.append(result)
        if shutil.which("gcc") and dtype.lanes > 1 and op in {Ops.SIN, Ops.POW}:
            library = cc.CModule.from_image(cc.build([c.render(program)], flags=("-march=native",))[0])
            by_c = np.zeros_like(x)
            function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library.address("u_chain"))
            function(by_c.ctypes.data, x.ctypes.data)
            np.testing.assert_array_equal(by_c.view(np.uint32), result.view(np.uint32))
    first, second = (each.view(np.uint8) for each in made)
    np.testing.assert_array_equal(first, second)


def test_a_kernel_written_into_another_brings_its_functions() -> None:
    program = lowered(Ops.SIN, 50, dtypes.float32.vec(LANES))
    b = Builder("outer")
    inline(b, program, [b.param(each.name, each.dtype, each.size) for each in program.params], {})
    assert b.program().functions == program.functions


def test_a_long_chain_of_the_front_end() -> None:
    x = np.linspace(-30, 30, 103, dtype=np.float32)

    @pn.jit
    def f(x: pn.Tensor) -> pn.Tensor:
        for k in range(40):
            x = pn.sin(x) * (1 + k / 100) + 0.5
        return x

    expected = x.astype(np.float64)
    for k in range(40):
        expected = np.sin(expected) * (1 + k / 100) + 0.5
    np.testing.assert_allclose(np.asarray(f(pn.asarray(x))), expected, rtol=1e-5)


def test_what_was_kept_has_its_functions(tmp_path: Path) -> None:
    graph = ptir.Graph("chain")
    x = graph.input("x", ptir.tensor("f32", (100,)))
    y = x
    for _ in range(40):
        y = y.sin().mul(0.5)
    function = graph.build(y)
    given = np.linspace(-3, 3, 100, dtype=np.float32)
    with pn.settings(cache_dir=str(tmp_path)):
        (first,) = compiler.compile(function)(given)
        lowered = compiler.kept(function, find("host"), compiler.PIPELINE, ())
        assert lowered is not None
        assert [len(program.functions) for program in lowered.programs] == [1]
    # the objects are not there any more: they are made again from what was kept
    with pn.settings(cache_dir=str(tmp_path / "empty")):
        np.testing.assert_array_equal(lowered.compile()(given)[0], first)

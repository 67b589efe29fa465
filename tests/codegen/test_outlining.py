"""Versions of a kernel are functions of their own in machine code; what they compute is what one function would."""

from __future__ import annotations

import numpy as np
import pytest

from planish import compiler, ptir
from planish.codegen import llvm
from planish.codegen.outlining import outlined
from planish.config import settings
from planish.dtypes import AddrSpace, float32
from planish.llir import program as ir
from planish.llir.builder import Builder, immediate
from planish.ptir import Dim, Graph, tensor


def _product() -> ptir.Function:
    graph = Graph("f")
    x = graph.input("x", tensor("f32", (Dim.named("n", 1, 512), 96)))
    return graph.build((x @ graph.input("w", tensor("f32", (96, 384)))).tanh())


def _kernel(function: ptir.Function) -> ir.Program:
    with settings(target="x86-64-v4"):
        (program,) = compiler.lower(function).programs
    return program


def test_each_version_is_a_function() -> None:
    program = _kernel(_product())
    shell, parts = outlined(program)
    assert len(parts) >= 2
    assert all(
        part.params == program.params and part.variables == program.variables for part in parts.values()
    )
    # every instruction and every buffer of the kernel's own is somewhere, and in one place
    owned = [buffer for each in (shell, *parts.values()) for buffer in each.locals]
    assert sorted(owned, key=lambda b: b.name) == sorted(program.locals, key=lambda b: b.name)
    loops = [i for each in (shell, *parts.values()) for i in each.body if isinstance(i, ir.Loop)]
    assert sorted(map(str, loops)) == sorted(str(i) for i in program.body if isinstance(i, ir.Loop))
    assert all(isinstance(shell.body[position - 1], ir.If) for position in parts)
    text = llvm.render(program, avx512=True)
    assert text.count("define internal void") == text.count("call void @u_") == len(parts)


def test_a_kernel_of_fixed_sizes_is_one_function() -> None:
    graph = Graph("f")
    x, w = graph.input("x", tensor("f32", (64, 96))), graph.input("w", tensor("f32", (96, 384)))
    program = _kernel(graph.build(x @ w))
    assert outlined(program) == (program, {})


def _branches(*, shared: bool) -> ir.Program:
    """Two long branches, each with memory of its own, or both with the same."""
    b = Builder("kernel")
    size, out = b.variable("n", 0, 7), b.param("arg0", float32, 1)
    own = [b.memory(f"acc{number}", float32, 4, space=AddrSpace.REG) for number in range(2)]
    for number in range(2):
        memory = own[0 if shared else number]
        with b.when(b.less(size, number + 1)):
            for _ in range(70):
                b.store(b.address(memory, 0), immediate(1.0, float32))
            b.store(b.address(out, 0), b.load(b.address(memory, 0)))
    return b.program()


def test_branches_that_share_memory_stay_together() -> None:
    assert len(outlined(_branches(shared=False)).parts) == 2
    assert outlined(_branches(shared=True)).parts == {}


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 9, 40, 512])
def test_every_size_gives_what_numpy_gives(rows: int) -> None:
    rng = np.random.default_rng(rows)
    x, w = (
        rng.standard_normal((rows, 96)).astype(np.float32),
        rng.standard_normal((96, 384)).astype(np.float32),
    )
    (made,) = compiler.compile(_product())(x, w)
    np.testing.assert_allclose(made, np.tanh(x @ w), rtol=2e-5, atol=2e-5)

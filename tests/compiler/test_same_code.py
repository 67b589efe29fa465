"""The code of a kernel follows from the kernel: which others a process lowered before changes nothing of it, nor where objects lie in memory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import planish as pn
from bench.kit.compiled import COMPILED, Words
from planish import compiler, ptir
from planish.compiler.scheduling import choose
from planish.llir.lower import lower
from planish.llir.text import print_program
from planish.schedule.plan import Kernel
from planish.schedule.planner import plan
from planish.stages import pipeline
from planish.target import TARGETS, Target
from planish.uop.node import Table, UOp

PROGRAMS = ("small picture network", "attention, gradient", "GPT-2 block, gradient")


def captured(name: str) -> ptir.Function:
    """A program of the benchmark of compile time, as it comes to the scheduler."""
    words = Words("planish")
    if name == "attention, gradient":
        weights = [pn.ones((4, 64, 32)) for _ in range(3)]

        def attended(q: pn.Tensor, k: pn.Tensor, v: pn.Tensor) -> pn.Tensor:
            return pn.sum(pn.nn.scaled_dot_product_attention(q, k, v) ** 2)

        lowered = pn.jit(pn.grad(attended, argnums=(0, 1, 2))).lower(*weights)
    else:
        program = COMPILED[name]
        given = [pn.asarray(each) for each in program.arrays()]
        lowered = pn.jit(lambda *a: program.formula(words, *a)).lower(*given)
    return compiler.prepare(lowered.function, compiler.PIPELINE, routines=False)


def texts(kernels: Sequence[Kernel], target: Target) -> dict[str, str]:
    """The LLIR of kernels, lowered in that order."""
    found = {}
    for kernel in kernels:
        machine = pipeline.Machine(target, lambda sink: choose(sink, target).actions)
        form: pipeline.Form = kernel.sink
        for step in pipeline.steps(kernel.sink, machine, kernel.name):
            form = step.form
        assert isinstance(form, list)
        found[kernel.name] = print_program(lower(kernel.name, form))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("target", ["x86-64-v4", "sm_90"])
def test_kernels_lowered_in_another_order_are_the_same(name: str, target: str) -> None:
    function, machine = captured(name), TARGETS[target]
    made = []
    for step in (1, -1):
        with Table() as table:
            kernels = plan(function, table, target=machine).kernels
            assert len(kernels) > 1
            made.append(texts(kernels[::step], machine))
    assert made[0] == made[1]


@pytest.mark.parametrize("target", ["x86-64-v4", "sm_90"])
def test_plans_are_the_same_wherever_nodes_lie(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets of nodes are gone through in the order of their hashes, which are addresses."""
    function = captured("GPT-2 block, gradient")
    plans = set()
    for factor in (1, 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 7919 * 31):
        monkeypatch.setattr(
            UOp, "__hash__", lambda self, by=factor: (self.serial + 1) * by >> 3 & (1 << 60) - 1
        )
        with Table() as table:
            plans.add(str(plan(function, table, target=TARGETS[target])))
    assert len(plans) == 1

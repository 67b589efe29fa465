"""A target's own say in the stages: `pre_matcher` (17), `supported_ops` (18) and `extra_matcher` (19), on a machine made up for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from planish import dtypes
from planish.config import settings
from planish.errors import RewriteError
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.stages.linearizer.s17_pre_matcher import pre_matcher
from planish.stages.linearizer.s18_decompositions import decompositions
from planish.stages.linearizer.s19_final_rewrite import final_rewrite
from planish.stages.pipeline import Machine, run
from planish.target import MACHINE_OPS, TARGETS, Target
from planish.uop.matcher import Matcher, rule
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.pattern import FLOAT, anything, node
from tests.stages.kernels import Array, contents

f32 = dtypes.float32
_X, _Y = anything("x"), anything("y")

INVERSE_ROOT = Matcher(
    "inverse root",
    [
        rule(
            node(Ops.RECIP, node(Ops.SQRT, _X)), node(Ops.RSQRT, _X), on=FLOAT, says="1 / sqrt(x) -> rsqrt(x)"
        )
    ],
)
DOUBLING = Matcher("doubling", [rule(node(Ops.ADD, _X, _X), _X * 2, on=FLOAT, says="x + x -> x * 2")])

TOY = replace(
    TARGETS["scalar"],
    name="toy",
    supported_ops=(MACHINE_OPS | {Ops.EXP2, Ops.RSQRT}) - {Ops.SUB, Ops.MULACC, Ops.MAX},
    pre_matcher=INVERSE_ROOT,
    extra_matcher=DOUBLING,
)
"""Computes 2**x and 1/sqrt(x) by itself, has no subtraction, no fused multiply-add, no maximum, and doubles by multiplying."""
PLAIN = replace(TOY, pre_matcher=None, extra_matcher=None)


def kernel(t: Table, value: Callable[[UOp, UOp], UOp]) -> UOp:
    out, a, b = (t.param(slot, f32, 12) for slot in range(3))
    i = t.range(12, 0)
    return t.sink(out.index(i).store(value(a.index(i), b.index(i))).end(i))


def lines(sink: UOp, target: Target) -> list[UOp]:
    return run(sink, Machine(target, lambda _: ()))


def ops(sink: UOp, target: Target) -> set[Ops]:
    return {line.op for line in lines(sink, target)}


def inverse_root(x: UOp, y: UOp) -> UOp:
    return x.alu(Ops.SQRT).alu(Ops.RECIP) - y


def everything(x: UOp, y: UOp) -> UOp:
    size = x.alu(Ops.ABS) + 1.0
    return size.alu(Ops.SQRT).alu(Ops.RECIP) + y.alu(Ops.EXP2).alu(Ops.MAX, x) + (y + y)


def test_the_pre_matcher_sees_what_the_program_says() -> None:
    with Table() as t:
        sink = kernel(t, inverse_root)
        assert Ops.RSQRT in ops(sink, TOY)
        assert ops(sink, PLAIN) >= {Ops.SQRT, Ops.RECIP}
        assert pre_matcher(sink, PLAIN) is sink


def test_the_pre_matcher_comes_before_the_decompositions() -> None:
    """On a machine that lacks the square root's parts nothing would be left to find afterwards."""
    poor = replace(TOY, supported_ops=TOY.supported_ops - {Ops.RECIP})
    with Table() as t:
        sink = kernel(t, inverse_root)
        assert Ops.RSQRT in {n.op for n in decompositions(pre_matcher(sink, poor), poor).toposort()}
        assert Ops.RSQRT not in {n.op for n in pre_matcher(decompositions(sink, poor), poor).toposort()}


def test_supported_ops_stay_and_others_go() -> None:
    with Table() as t:
        found = ops(kernel(t, everything), TOY)
        assert Ops.EXP2 in found
        assert not found & {Ops.MAX, Ops.SUB, Ops.MULACC}
        assert ops(kernel(t, everything), TARGETS["scalar"]) >= {Ops.MAX, Ops.MULACC}
        assert Ops.EXP2 not in ops(kernel(t, everything), TARGETS["scalar"])


def test_a_target_without_fused_multiply_add_has_none() -> None:
    with Table() as t:
        sink = kernel(t, lambda x, y: x * y + 3.0)
        with settings(contract=True):
            assert Ops.MULACC in ops(sink, TARGETS["x86-64-v3"])
            assert Ops.MULACC not in ops(sink, TARGETS["x86-64"])
        assert Ops.MULACC not in ops(sink, TARGETS["x86-64-v3"])  # the program rounds twice


def test_the_extra_matcher_has_the_last_word() -> None:
    with Table() as t:
        sink = kernel(t, lambda x, y: y + y)
        assert Ops.MUL in ops(sink, TOY)
        assert Ops.MUL not in ops(sink, PLAIN)
        assert final_rewrite(sink, PLAIN) is final_rewrite(sink)


def test_what_the_extra_matcher_makes_is_decomposed() -> None:
    """The rule makes an exponential and a subtraction, which the machine lacks."""
    roots = rule(node(Ops.SQRT, _X), node(Ops.EXP, _X) - _X, on=FLOAT, says="sqrt(x) -> exp(x) - x")
    target = replace(TOY, extra_matcher=Matcher("roots", [roots]))
    with Table() as t:
        made = ops(kernel(t, lambda x, y: y.alu(Ops.SQRT)), target)
        assert not made & {Ops.EXP, Ops.SUB}
        assert Ops.ADD in made


def test_rules_that_undo_a_decomposition_are_an_error() -> None:
    back = rule(
        node(Ops.ADD, _X, node(Ops.NEG, _Y)), _X - _Y, on=FLOAT, says="x + -y -> x - y"
    )  # TOY has no subtraction
    target = replace(TOY, extra_matcher=Matcher("back", [back]))
    with Table() as t, pytest.raises(RewriteError, match="rules of toy and the decompositions undo"):
        ops(kernel(t, lambda x, y: x - y), target)


@pytest.mark.parametrize("target", [TOY, PLAIN, *TARGETS.values()], ids=lambda target: target.name)
def test_results_are_the_same_whatever_a_target_says(target: Target) -> None:
    buffers = contents(dict.fromkeys(range(3), (f32, 12)))
    a, b = buffers[1], buffers[2]
    expected = 1 / np.sqrt(np.abs(a) + 1) + np.maximum(np.exp2(b), a) + 2 * b
    with Table() as t:
        program = lower("kernel", lines(kernel(t, everything), target))
    arrays: list[Array] = [buffers[slot] for slot in range(3)]
    interpret(program, arrays)
    np.testing.assert_allclose(arrays[0], expected, rtol=1e-6)

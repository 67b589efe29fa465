"""The five usage examples of seed 002, written against the public names and run."""

from __future__ import annotations

import numpy as np
import pytest

from planish import ptir
from planish.ptir import OpKey, OpRewritePattern, ProgramRewriter, ops
from planish.ptir.rewrite.prelude import (
    BinaryView,
    BroadcastView,
    CastView,
    TransposeView,
    UnaryView,
    inverse_permutation,
    is_one,
)


class RemoveNoOpCast(OpRewritePattern[CastView]):
    """cast(x: T, T) -> x."""

    def may_match(self, op: CastView, rw: ProgramRewriter) -> bool:
        return rw.type_of(op.source).dtype is op.attrs.dtype

    def match_and_rewrite(self, op: CastView, rw: ProgramRewriter) -> bool:
        rw.replace_all_uses(rw.value_of(op.inst), op.source)
        rw.erase_inst(op.inst)
        return True


class FuseUnaryThroughBroadcast(OpRewritePattern[UnaryView]):
    """f(broadcast_to(x)) -> broadcast_to(f(x)); the new f has the type of x, which the seed gets wrong."""

    benefit = 3

    def match_and_rewrite(self, op: UnaryView, rw: ProgramRewriter) -> bool:
        spread = BroadcastView.of(op.source)
        if spread is None or spread.dtype is not op.dtype:
            return rw.fail(op.inst, "no broadcast, or another dtype")
        inner = rw.insert_before(spread.inst, op.op, (spread.source,))
        outer = rw.insert_before(op.inst, ops.broadcast_to, inner.results, spread.attrs)
        rw.replace_all_uses(op.result, outer.result)
        rw.erase_inst(op.inst)
        return True


class FoldTransposeOfTranspose(OpRewritePattern[TransposeView]):
    """transpose(transpose(x, p), inverse of p) -> x."""

    benefit = 2

    def match_and_rewrite(self, op: TransposeView, rw: ProgramRewriter) -> bool:
        inner = TransposeView.of(op.source)
        if inner is None or inverse_permutation(inner.perm) != op.perm:
            return rw.fail(op.inst, "not the inverse")
        rw.replace_all_uses(op.result, inner.source)
        rw.erase_inst(op.inst)
        return True


class FoldMulByOne(OpRewritePattern[BinaryView]):
    """x * 1 -> x and 1 * x -> x."""

    benefit = 2

    def may_match(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        return op.op is ops.mul

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        left, right = is_one(op.lhs), is_one(op.rhs)
        if left is right:
            return rw.fail(op.inst, "none or both of them are one")
        rw.replace_op(op.inst, op.rhs if left else op.lhs)
        return True


FOUR = (RemoveNoOpCast, FuseUnaryThroughBroadcast, FoldTransposeOfTranspose, FoldMulByOne)


@pytest.mark.parametrize(
    ("pattern", "root", "benefit"),
    [
        (RemoveNoOpCast, OpKey.CAST, 1),
        (FuseUnaryThroughBroadcast, OpKey.ELEMENTWISE_UNARY, 3),
        (FoldTransposeOfTranspose, OpKey.TRANSPOSE, 2),
        (FoldMulByOne, OpKey.ELEMENTWISE_BINARY, 2),
    ],
)
def test_roots_and_benefits_are_the_seeds(pattern, root, benefit):
    assert pattern().roots == (root,)
    assert pattern().benefit == benefit


CASES = [
    ("  %0 = cast %x {dtype=f32}\n", "1x3>", []),
    ("  %h = cast %x {dtype=f64}\n  %0 = cast %h {dtype=f32}\n", "1x3>", ["cast", "cast"]),
    ("  %b = broadcast_to %x {dims=[4, 3]}\n  %0 = exp %b\n", "4x3>", ["exp", "broadcast_to"]),
    (
        "  %b = broadcast_to %x {dims=[4, 3]}\n  %i = is_nan %b\n  %0 = cast %i {dtype=f32}\n",
        "4x3>",
        ["broadcast_to", "is_nan", "cast"],
    ),
    ("  %t = transpose %x {perm=[1, 0]}\n  %0 = transpose %t {perm=[1, 0]}\n", "1x3>", []),
    ("  %c = constant 1.0 : tensor<f32, 1x3>\n  %0 = mul %x, %c\n", "1x3>", []),
    ("  %c = constant 1.0 : tensor<f32, 1x3>\n  %0 = mul %c, %x\n", "1x3>", []),
    ("  %c = constant 1.0 : tensor<f32, 1x3>\n  %0 = add %x, %c\n", "1x3>", ["constant", "add"]),
    ("  %c = constant 2.0 : tensor<f32, 1x3>\n  %0 = mul %x, %c\n", "1x3>", ["constant", "mul"]),
]


@pytest.mark.parametrize(("body", "type", "left"), CASES)
def test_the_examples_rewrite(body, type, left):
    source = f"ptir 1\nfunc @f(%x: tensor<f32, 1x3>) -> tensor<f32, {type} {{\n{body}  return %0\n}}\n"
    before = ptir.parse_function(source)
    after = before.clone()
    ptir.apply_patterns_and_fold_greedily(
        after, ptir.PatternSet(FOUR), ptir.GreedyConfig(expensive_checks=True)
    )
    assert [inst.op.name for inst in after] == left
    x = np.array([[1.5, -0.0, np.inf]], np.float32)
    for wanted, given in zip(ptir.interpret(before, [x]), ptir.interpret(after, [x]), strict=True):
        assert np.array_equal(wanted, given)


def test_the_unary_before_the_broadcast_has_the_type_of_its_operand():
    function = ptir.parse_function(
        "ptir 1\nfunc @f(%x: tensor<f32, 1x3>) -> tensor<f32, 4x3> {\n"
        "  %b = broadcast_to %x {dims=[4, 3]}\n  %0 = exp %b\n  return %0\n}\n"
    )
    ptir.apply_patterns_and_fold_greedily(function, ptir.PatternSet([FuseUnaryThroughBroadcast]))
    assert [str(inst.result.type) for inst in function] == ["tensor<f32, 1x3>", "tensor<f32, 4x3>"]


def test_four_patterns_are_added_frozen_and_run_as_a_pipeline():
    patterns = ptir.PatternSet()
    for pattern in FOUR:
        patterns.add(pattern)
    frozen = patterns.freeze()
    assert [p.label for p in frozen.by_root[ops.cast]] == ["RemoveNoOpCast"]
    step = ptir.CanonicalizePass(patterns=frozen)
    manager = ptir.PassManager().add(step).add(ptir.CSEPass()).add(ptir.DCEPass())
    assert str(manager).startswith("canonicalize{patterns=")
    functions = [
        ptir.parse_function(
            f"ptir 1\nfunc @{name}(%x: tensor<f32, 2x3>) -> tensor<f32, 2x3> {{\n"
            "  %0 = cast %x {dtype=f32}\n  %1 = exp %0\n  %2 = exp %x\n  %3 = sub %1, %2\n  %4 = neg %3\n  return %3\n}\n"
        )
        for name in ("f", "g")
    ]
    result = manager.run(ptir.Program(functions))
    assert result.changed
    assert [[inst.op.name for inst in function] for function in functions] == [["exp", "sub"]] * 2

"""Inlining functions with named sizes: they become what the call makes them."""

from __future__ import annotations

import numpy as np

from planish.ptir import ops, text
from planish.ptir.function import Program
from planish.ptir.interpret import interpret
from planish.ptir.passes import InlinePass, PassManager, VerifyEach
from tests.ptir.engine_helpers import names

SCALE = """func @scale<B in 1..8>(%x: tensor<i64, B>) -> tensor<i64, (B+1)> {
  %c = constant 2 : tensor<i64>
  %b = broadcast_to %c {dims=[B]} : tensor<i64, B>
  %0 = mul %x, %b : tensor<i64, B>
  %1 = concat %0, %one {axis=0} : tensor<i64, (B+1)>
  return %1
}
""".replace("  %1 =", "  %one = constant 1 : tensor<i64, 1>\n  %1 =")
FIRST = """func @first<B in 1..8, K in 0..8>(%x: tensor<i64, B>, %n: tensor<i64>) -> tensor<i64> {
  %k = bind_dim %x, %n {axis=0, name="K", lo=0, hi=8} : tensor<i64, K>
  %0 = reduce_sum %k {axes=[0]} : tensor<i64>
  return %0
}
"""


def inline(source: str) -> tuple[Program, Program]:
    before = text.parse("ptir 1\n" + source)
    after = before.clone()
    PassManager([InlinePass()], instruments=[VerifyEach()]).run(after)
    return before, after


def agree(before: Program, after: Program, *inputs: np.ndarray) -> None:
    for left, right in zip(interpret(before, inputs), interpret(after, inputs), strict=True):
        assert np.array_equal(left, right)


def test_sizes_become_those_of_the_arguments():
    before, after = inline(
        """func @main<N in 1..3>(%x: tensor<i64, 4>, %y: tensor<i64, (2*N)>) -> (tensor<i64, 5>, tensor<i64, (2*N+1)>) {
  %0 = call @scale %x : tensor<i64, 5>
  %1 = call @scale %y : tensor<i64, (2*N+1)>
  return %0, %1
}
"""
        + SCALE
    )
    assert "call" not in names(after.entry)
    assert "dims=[2*N]" in text.print(after.entry)
    agree(before, after, np.arange(4), np.arange(6))


def test_sizes_that_a_callee_binds_get_names_of_their_own():
    before, after = inline(
        """func @main<K in 0..4>(%x: tensor<i64, 4>, %n: tensor<i64>) -> (tensor<i64, K>, tensor<i64>) {
  %a = call @first %x, %n : tensor<i64>
  %b = call @first %x, %a : tensor<i64>
  %k = bind_dim %x, %n {axis=0, name="K", lo=0, hi=4} : tensor<i64, K>
  return %k, %b
}
"""
        + FIRST
    )
    bound = [inst.attrs.name for inst in after.entry if isinstance(inst.attrs, ops.BindDimAttrs)]
    assert bound == ["K_1", "K_2", "K"]
    # The axis has 4 entries here, so that no more can be bound.
    assert "K_1 in 0..4" in text.print(after.entry)
    agree(before, after, np.arange(1, 5), np.array(2))


def test_a_size_that_the_caller_names_keeps_that_name():
    callee = """func @head<K in 0..4>(%x: tensor<i64, 4>, %n: tensor<i64>) -> tensor<i64, K> {
  %k = bind_dim %x, %n {axis=0, name="K", lo=0, hi=4} : tensor<i64, K>
  return %k
}
"""
    before, after = inline(
        """func @main<M in 0..4>(%x: tensor<i64, 4>, %n: tensor<i64>) -> tensor<i64, M> {
  %0 = call @head %x, %n : tensor<i64, M>
  return %0
}
"""
        + callee
    )
    assert names(after.entry) == ["bind_dim"]
    agree(before, after, np.arange(4), np.array(3))
    # Here the caller claims to know the size already: only the call can check that.
    _, kept = inline(
        """func @main<M in 0..4>(%x: tensor<i64, 4>, %n: tensor<i64>, %y: tensor<i64, M>) -> tensor<i64, M> {
  %0 = call @head %x, %n : tensor<i64, M>
  return %0
}
"""
        + callee
    )
    assert names(kept.entry) == ["call"]


def test_regions_of_a_callee_are_retyped():
    before, after = inline(
        """func @main(%p: tensor<bool>, %x: tensor<i64, 4>) -> tensor<i64, 4> {
  %0 = call @either %p, %x : tensor<i64, 4>
  return %0
}
func @either<B in 1..8>(%p: tensor<bool>, %x: tensor<i64, B>) -> tensor<i64, B> {
  %c = constant 3 : tensor<i64>
  %r, %i = while %x, %c : tensor<i64, B>, tensor<i64> (%y: tensor<i64, B>, %j: tensor<i64>) {
    %z = constant 0 : tensor<i64>
    %0 = gt %j, %z : tensor<bool>
    return %0
  } (%y: tensor<i64, B>, %j: tensor<i64>) {
    %one = constant 1 : tensor<i64>
    %1 = add %y, %y : tensor<i64, B>
    %2 = sub %j, %one : tensor<i64>
    return %1, %2
  }
  return %r
}
"""
    )
    assert "B" not in text.print(after.entry)
    agree(before, after, np.array(True), np.arange(4))

"""What binds a named size stays while the name is mentioned, and goes once it is not."""

from __future__ import annotations

import numpy as np
import pytest

from planish.ptir import ops, text
from planish.ptir.function import Function, Inst, Program
from planish.ptir.interpret import interpret
from planish.ptir.passes import PassManager
from planish.ptir.passes.dce import remove_unused
from planish.ptir.rewrite import (
    GreedyConfig,
    Pattern,
    PatternSet,
    apply_patterns_and_fold_greedily,
    bound_sizes,
)
from planish.ptir.rewrite.rewriter import ProgramRewriter
from tests.ptir.engine_helpers import Counter, assert_valid, names
from tests.ptir.generate import HOST, ROUNDING, random_inputs, random_program

NOTHING = PatternSet().freeze()
HEAD = "ptir 1\nfunc @f<K in 0..4>(%x: tensor<i64, 4>, %n: tensor<i64>)"
BIND = '  %k = bind_dim %x, %n {axis=0, name="K", lo=0, hi=4} : tensor<i64, K>\n'
MENTION = "  %c = constant 2 : tensor<i64>\n  %b = broadcast_to %c {dims=[K]} : tensor<i64, K>\n"


def parse(results: str, body: str) -> Function:
    return text.parse_function(f"{HEAD} -> {results} {{\n{body}}}\n")


def remove_by_driver(function: Function) -> int:
    return apply_patterns_and_fold_greedily(function, NOTHING).erased


@pytest.fixture(params=[remove_by_driver, remove_unused], ids=["driver", "pass"])
def remove(request):
    return request.param


def test_a_name_in_a_type_or_attribute_is_a_use(remove):
    function = parse("tensor<i64, K>", BIND + MENTION + "  return %b\n")
    assert remove(function) == 0
    assert_valid(function)
    (out,) = interpret(function, [np.arange(4), np.array(3)])
    assert out.tolist() == [2, 2, 2]


def test_without_mention_it_goes_with_what_it_alone_uses(remove):
    count = "  %m = add %n, %n : tensor<i64>\n" + BIND.replace("%x, %n", "%x, %m")
    function = parse("tensor<i64>", count + "  return %n\n")
    assert remove(function) == 2
    assert len(function) == 0


def test_mentions_by_dead_code_do_not_count(remove):
    function = parse("tensor<i64>", BIND + MENTION + "  return %n\n")
    assert remove(function) == 3
    assert len(function) == 0


def test_a_name_mentioned_inside_a_region_only(remove):
    inner = (
        "  %p = lt %n, %n : tensor<bool>\n  %r = cond %p : tensor<i64> {\n    %c = constant 2 : tensor<i64>\n"
    )
    inner += "    %b = broadcast_to %c {dims=[K]} : tensor<i64, K>\n    %s = reduce_sum %b {axes=[0]} : tensor<i64>\n"
    inner += "    return %s\n  } {\n    return %n\n  }\n"
    function = parse("tensor<i64>", BIND + inner + "  return %r\n")
    assert remove(function) == 0
    assert_valid(function)
    function = parse("tensor<i64>", BIND + inner + "  return %n\n")
    assert remove(function) == 3
    assert len(function) == 0


def test_dead_binders_of_each_others_sizes_go_in_one_walk(remove, monkeypatch):
    walks = []

    class Counted(bound_sizes.SizeMentions):
        """Counts how often a function is walked."""

        def __init__(self, function):
            walks.append(function)
            super().__init__(function)

    monkeypatch.setattr(bound_sizes, "SizeMentions", Counted)
    body = ""
    dims = ", ".join(f"K{i} in 0..9" for i in range(20))
    for i in range(20):
        before = "%x" if i == 0 else f"%k{i - 1}b"
        body += (
            f'  %k{i} = bind_dim {before}, %n {{axis=0, name="K{i}", lo=0, hi=9}} : tensor<i64, K{i}>\n'
            f"  %c{i} = constant 1 : tensor<i64>\n"
            f"  %k{i}b = broadcast_to %c{i} {{dims=[K{i}]}} : tensor<i64, K{i}>\n"
        )
    function = text.parse_function(
        f"ptir 1\nfunc @f<{dims}>(%x: tensor<i64, 9>, %n: tensor<i64>) -> tensor<i64> {{\n{body}  return %n\n}}\n"
    )
    assert remove(function) == 60
    assert len(function) == 0
    assert len(walks) == 1


def test_a_rewrite_that_drops_the_last_mention_frees_the_binder():
    class DropBroadcastSum(Pattern[Inst]):
        """reduce_sum(x) -> n: nonsense that forgets the size."""

        roots = (ops.reduce_sum,)

        def match_and_rewrite(self, op: Inst, rw: ProgramRewriter) -> bool:
            rw.replace_op(op, rw.function.params[1])
            return True

    body = BIND + MENTION + "  %s = reduce_sum %b {axes=[0]} : tensor<i64>\n  return %s\n"
    function = parse("tensor<i64>", body)
    counter = Counter()
    stats = apply_patterns_and_fold_greedily(
        function, PatternSet([DropBroadcastSum]), GreedyConfig(listener=counter)
    )
    assert len(function) == 0
    assert stats.erased == counter.counts["eliminated"] == 3


def test_removing_a_binder_wakes_what_watches_uses():
    class Watch(Pattern[Inst]):
        """x + y -> x * y once x has one use: nonsense that waits."""

        roots = (ops.add,)
        watch_uses = True

        def match_and_rewrite(self, op: Inst, rw: ProgramRewriter) -> bool:
            if not op.operands[0].has_one_use:
                return rw.fail(op, "used elsewhere")
            rw.replace_with(op, ops.mul, op.operands)
            return True

    neg = "  %m = neg %n : tensor<i64>\n  %a = add %m, %n : tensor<i64>\n"
    function = parse("tensor<i64>", neg + BIND.replace("%x, %n", "%x, %m") + "  return %a\n")
    apply_patterns_and_fold_greedily(function, PatternSet([Watch]))
    assert names(function) == ["neg", "mul"]


def test_calls_bind_only_sizes_that_are_new():
    caller = (
        "func @f<B in 1..4, K in 0..4>(%x: tensor<i64, B>) -> tensor<i64, B> {\n  %u = call @g %x : RESULT\n"
    )
    callee = "func @g<B in 1..4>(%x: tensor<i64, B>) -> tensor<i64, B> {\n  return %x\n}\n"
    known = text.parse(f"ptir 1\n{caller.replace('RESULT', 'tensor<i64, B>')}  return %x\n}}\n{callee}")
    assert remove_unused(known.entry) == 1
    fresh = "  %c = constant 2 : tensor<i64>\n  %b = broadcast_to %c {dims=[K]} : tensor<i64, K>\n"
    fresh += (
        "  %s = reduce_sum %b {axes=[0]} : tensor<i64>\n  %r = broadcast_to %s {dims=[B]} : tensor<i64, B>\n"
    )
    binds = text.parse(
        f"ptir 1\n{caller.replace('RESULT', 'tensor<i64, K>')}{fresh}  return %r\n}}\n{callee}"
    )
    assert remove_unused(binds.entry) == 0


@pytest.mark.parametrize("seed", [10471, 11584])
def test_programs_that_mention_a_bound_size_still_run(seed):
    program = random_program(seed, size=25, exclude=ROUNDING | HOST)
    original = program.clone()
    PassManager.parse("canonicalize{enable=},cse,dce").run(program)
    inputs = random_inputs(original, seed, odd=True)
    wanted = interpret(original, inputs)
    given = interpret(program, inputs)
    for left, right in zip(wanted, given, strict=True):
        assert np.array_equal(left, right, equal_nan=left.dtype.kind in "fc")


def test_a_function_without_binders_is_not_walked(monkeypatch):
    def walk(function):
        raise AssertionError("walked")

    monkeypatch.setattr(bound_sizes, "SizeMentions", walk)
    function = text.parse_function(
        "ptir 1\nfunc @f(%n: tensor<i64>) -> tensor<i64> {\n  %0 = neg %n : tensor<i64>\n  return %n\n}\n"
    )
    program = Program([function])
    PassManager.parse("canonicalize,dce").run(program)
    assert len(function) == 0

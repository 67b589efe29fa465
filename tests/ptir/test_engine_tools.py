from __future__ import annotations

import pytest

from planish.errors import GraphError, Location, ParseError, RewriteError
from planish.ptir import Program, ops, text
from planish.ptir.function import Function
from planish.ptir.rewrite import GreedyConfig, OpRewritePattern, PatternSet, apply_patterns_and_fold_greedily
from planish.ptir.rewrite.bisect import bisect_rewrites
from planish.ptir.rewrite.explain import explain
from planish.ptir.rewrite.prelude import BinaryView
from planish.ptir.rewrite.reproducer import read_reproducer, reproducer_text, write_reproducer
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.ptir.rewrite.steplog import StepKind, StepLog
from tests.ptir.engine_helpers import (
    I64,
    CombineConstants,
    DropAddZero,
    PutConstantRight,
    arithmetic,
    build,
    const,
)

HERE = Location("user.py", 7)


def small() -> Function:
    """((x + 0) * x + 1) + (1 + 1), and something unused."""
    function = Function("f", [I64])
    body = function.body
    zero, one = const(body, 0), const(body, 1)
    first = body.append(ops.add, (function.params[0], zero), loc=HERE).result
    square = body.append(ops.mul, (first, function.params[0]), loc=HERE).result
    second = body.append(ops.add, (square, one), loc=HERE).result
    two = body.append(ops.add, (one, one)).result
    body.append(ops.neg, (two,))
    body.set_results([body.append(ops.add, (second, two), loc=HERE).result])
    return function


def test_the_log_has_every_step_with_pattern_root_and_location():
    log = StepLog()
    stats = apply_patterns_and_fold_greedily(small(), arithmetic(), GreedyConfig(listener=log))
    kinds = [step.kind for step in log.steps]
    assert kinds.count(StepKind.CHANGED) == stats.rewrites
    assert kinds.count(StepKind.FOLDED) == stats.folds
    assert kinds.count(StepKind.ERASED) == stats.erased
    assert log.count == stats.rewrites + stats.folds
    dropped = next(step for step in log.steps if step.pattern == "DropAddZero")
    assert dropped.location == HERE
    assert dropped.root.startswith("%")
    assert "add(" in dropped.root
    combined = next(step for step in log.steps if step.pattern == "CombineConstants")
    assert len(combined.inserted) == 2
    assert "changed by CombineConstants" in str(log)
    assert "user.py:7" in str(log)


def test_log_lines_do_not_grow_with_the_program():
    longest = []
    for size in (120, 1200):
        log = StepLog()
        apply_patterns_and_fold_greedily(build("mixed", size), arithmetic(), GreedyConfig(listener=log))
        longest.append(max(len(str(step)) for step in log.steps))
    assert longest[1] <= longest[0] + 16


# Why did it not fire?


def test_explain_names_the_first_obstacle():
    function = small()
    first, second, two = (inst for inst in function if inst.op is ops.add and inst is not function.body.last)
    program = Program([function])
    fires = explain(program, first, DropAddZero)
    assert fires.fires
    assert "makes nothing new" in str(fires)
    no = explain(program, second.result, DropAddZero())
    assert not no.fires
    assert no.reasons == ("the right operand is not zero",)
    other = explain(program, first.id, PutConstantRight)
    assert other.reasons == ("operand 0 must come from constant, it comes from a parameter",)
    root = explain(function, two, arithmetic().patterns[1])
    assert root.reasons == ("its root is mul, not add",)
    made = explain(function, function.results[0], "CombineConstants", arithmetic())
    assert made.reasons == ("operand 1 must come from constant, it comes from add",)
    assert [repr(i) for i in function] == [repr(i) for i in small()]


def test_explain_knows_every_declared_condition():
    function = small()
    first = next(inst for inst in function if inst.op is ops.add)

    class Same(OpRewritePattern[BinaryView]):
        """x + x."""

        same_operands = True

        def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
            return False

    class Anywhere(OpRewritePattern[BinaryView]):
        """A neg somewhere."""

        any_operand = ops.neg

        def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
            return False

    class Guarded(OpRewritePattern[BinaryView]):
        """Guarded."""

        def may_match(self, op: BinaryView, rw: ProgramRewriter) -> bool:
            return False

        def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
            return False

    class Silent(OpRewritePattern[BinaryView]):
        """Gives no reason."""

        def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
            return False

    assert explain(function, first, Same).reasons == ("its first two operands must be the same value",)
    assert explain(function, first, Anywhere).reasons == ("no operand comes from neg",)
    assert explain(function, first, Guarded).reasons == ("its may_match says no",)
    assert explain(function, first, Silent).reasons == ("it returned False without a reason",)


def test_explain_needs_things_that_exist():
    function = small()
    with pytest.raises(RewriteError, match="did you mean DropAddZero"):
        explain(function, next(iter(function)), "DropAddZer", arithmetic())
    with pytest.raises(GraphError, match="no instruction 999"):
        explain(Program([function]), 999, DropAddZero)
    with pytest.raises(GraphError, match="is a parameter"):
        explain(function, function.params[0], DropAddZero)


# Bisection.


class Miscompile(OpRewritePattern[BinaryView]):
    """x * 5 -> x: wrong."""

    roots = (ops.mul,)
    operands = (None, ops.constant)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        literal = op.rhs.literal
        if literal is None or literal.item != 5:
            return False
        rw.replace_op(op.inst, op.lhs)
        return True


def test_bisection_finds_the_wrong_step():
    def program() -> Function:
        function = build("mixed", 120)
        body = function.body
        wrong = body.append(ops.mul, (function.results[0], const(body, 5))).result
        body.set_results([wrong])
        return function

    def good(function: Function) -> bool:
        """A stand-in for running it: nothing but the wrong pattern removes a multiplication by five at the end."""
        last = function.results[0].def_inst
        return last is not None and last.op is ops.mul and last.operands[1].literal is not None

    patterns = PatternSet([DropAddZero, Miscompile, CombineConstants]).freeze()
    culprit = bisect_rewrites(program(), patterns, good)
    assert culprit is not None
    assert culprit.step.pattern == "Miscompile"
    assert good(culprit.before)
    assert not good(culprit.after)
    assert culprit.tests <= 12
    assert "Miscompile" in str(culprit)
    assert bisect_rewrites(program(), arithmetic(), lambda function: True) is None
    with pytest.raises(RewriteError, match="bad before any rewrite"):
        bisect_rewrites(program(), patterns, lambda function: False)


# Reproducers.


def test_a_reproducer_parses_and_keeps_its_pipeline(tmp_path):
    program = Program([small()])
    error = RewriteError("it broke", op="add")
    error.add_note("a note")
    path = write_reproducer(tmp_path / "new", program, "canonicalize{max-iterations=3},cse", error)
    content = path.read_text()
    found = read_reproducer(content)
    assert found.pipeline == "canonicalize{max-iterations=3},cse"
    assert "// versions: planish" in content
    assert "// error: RewriteError: it broke" in content
    assert "// note: a note" in content
    assert text.print(text.parse(found.text)) == text.print(program)
    assert write_reproducer(tmp_path / "new", program, "canonicalize{max-iterations=3},cse", error) == path
    with pytest.raises(ParseError, match="no reproducer"):
        read_reproducer(text.print(program))
    assert "error" not in reproducer_text(program, "cse")

"""The public names of the graph IR: those of seed 002 in Python's spelling, and what they are."""

from __future__ import annotations

import subprocess
import sys

import pytest

from planish import ptir
from planish.errors import Location
from planish.ptir.function import Value as FunctionValue
from planish.ptir.graph_value import GraphValue

SEED = [
    "Graph",
    "Value",
    "SSAValue",
    "InstId",
    "ValueId",
    "Program",
    "Function",
    "Region",
    "Inst",
    "TensorType",
    "Literal",
    "Attrs",
    "OpDef",
    "OpKey",
    "Results",
    "Snippet",
    "DotDims",
    "DotAttrs",
    "tensor",
    "Dim",
    "Quant",
    "ConstantAttrs",
    "ProgramRewriter",
    "Pattern",
    "OpRewritePattern",
    "PatternSet",
    "FrozenPatternSet",
    "Folder",
    "FoldResult",
    "GreedyConfig",
    "GreedyStats",
    "apply_patterns_and_fold_greedily",
    "Pass",
    "PassManager",
    "CanonicalizePass",
    "CSEPass",
    "DCEPass",
    "InlinePass",
    "SymbolDCEPass",
    "populate_canonicalization",
    "DataPattern",
    "prelude",
    "explain",
    "bisect_rewrites",
    "StepLog",
    "Listener",
    "interpret",
    "print",
    "parse",
    "parse_function",
    "to_json",
    "from_json",
    "verify",
    "trace",
    "ExecutionTraceSink",
    "FileTraceSink",
    "ops",
]
REWRITER = [
    "op",
    "operands",
    "value_of",
    "values_of",
    "type_of",
    "inst_of",
    "users_of",
    "op_key",
    "replace_all_uses",
    "erase_inst",
    "insert_before",
    "materialize_constant",
    "verify",
    "fail",
]
CONFIG = [
    "max_iterations",
    "enable_constant_fold",
    "enable_dce",
    "cost_model",
    "expensive_checks",
    "rewrite_budget",
    "enable",
    "disable",
]


@pytest.mark.parametrize("name", SEED)
def test_the_names_are_there(name):
    assert name in ptir.__all__
    assert getattr(ptir, name) is not None


def test_all_is_what_there_is():
    assert len(set(ptir.__all__)) == len(ptir.__all__)
    for name in ptir.__all__:
        assert hasattr(ptir, name)


@pytest.mark.parametrize("name", REWRITER)
def test_the_rewriter_has_its_methods(name):
    assert callable(getattr(ptir.ProgramRewriter, name))


def test_the_configuration_and_statistics_have_their_fields():
    config, stats = ptir.GreedyConfig(), ptir.GreedyStats()
    assert all(hasattr(config, name) for name in CONFIG)
    assert all(hasattr(stats, name) for name in ("rewrites", "folds", "erased", "visits", "patterns"))
    assert all(hasattr(ptir.PatternStats(), name) for name in ("tries", "hits", "seconds"))


def test_value_is_the_handle_and_ssa_value_what_stands_in_a_function():
    assert ptir.Value is GraphValue
    assert ptir.SSAValue is FunctionValue
    graph = ptir.Graph("f")
    x = graph.input("x", ptir.tensor("f32", (4,)))
    assert isinstance(x, ptir.Value)
    function = graph.build(x.exp())
    assert isinstance(function.params[0], ptir.SSAValue)
    inst_id: ptir.InstId = next(iter(function)).id
    value_id: ptir.ValueId = function.params[0].id
    assert function.inst(inst_id).op is ptir.ops.exp
    assert function.value(value_id) is function.params[0]


def test_the_functions_are_functions():
    function = ptir.parse_function("ptir 1\nfunc @f(%x: tensor<i64>) -> tensor<i64> {\n  return %x\n}\n")
    ptir.verify(function)
    assert ptir.print(ptir.from_json(ptir.to_json(function))) == ptir.print(function)
    assert ptir.interpret(function, [7])[0] == 7
    assert isinstance(ptir.FusedLocation("a.py", 1), Location)


def test_the_environment_switches_the_expensive_checks_on():
    code = """
from planish import ptir
from planish.errors import RewriteError
class Lie(ptir.Pattern[ptir.Inst]):
    roots = (ptir.ops.neg,)
    def match_and_rewrite(self, op, rw):
        op.op = ptir.ops.abs
        return False
f = ptir.parse_function("ptir 1\\nfunc @f(%x: tensor<i64>) -> tensor<i64> {\\n  %0 = neg %x\\n  return %0\\n}\\n")
try:
    ptir.apply_patterns_and_fold_greedily(f, ptir.PatternSet([Lie]))
except RewriteError as error:
    print(error.message)
"""
    for check, expected in (("expensive", "pattern Lie returned False but changed"), ("none", "")):
        run = subprocess.run(
            [sys.executable, "-c", code],
            env={"PLANISH_CHECK": check},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.startswith(expected)
        assert bool(run.stdout) is bool(expected)

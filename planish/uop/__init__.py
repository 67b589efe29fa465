"""UOp, the kernel IR: an immutable hash-consed graph, and the engine that rewrites it.

The names in `__all__` are the public face; `docs/uop.md` and `docs/rewriting.md` describe them. The rule sets are in
`planish.uop.symbolic`, which is imported by whoever wants it.
"""

from __future__ import annotations

from planish.uop import spec
from planish.uop.matcher import Matcher, Rule, RuleStats, Watch, rule
from planish.uop.node import Table, UOp
from planish.uop.ops import Axis, AxisType, Bufferize, Ops, ReduceAxes, TensorCoreOp, UnrolledLanes, Variable
from planish.uop.pattern import NodePattern, any_of, anything, constant, literal, node, where
from planish.uop.rewrite import Lines, RewriteStats, line_rewrite, rewrite, substitute
from planish.uop.text import parse, parse_lines, print_graph, print_lines

__all__ = [
    "Axis",
    "AxisType",
    "Bufferize",
    "Lines",
    "Matcher",
    "NodePattern",
    "Ops",
    "ReduceAxes",
    "RewriteStats",
    "Rule",
    "RuleStats",
    "Table",
    "TensorCoreOp",
    "UOp",
    "UnrolledLanes",
    "Variable",
    "Watch",
    "any_of",
    "anything",
    "constant",
    "line_rewrite",
    "literal",
    "node",
    "parse",
    "parse_lines",
    "print_graph",
    "print_lines",
    "rewrite",
    "rule",
    "spec",
    "substitute",
    "where",
]  # fmt: skip

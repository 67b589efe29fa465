"""PTIR, the graph IR: what a program computes, as SSA functions over pure tensor ops.

The names in `__all__` are the public face; `docs/ptir.md` describes them.
"""

from __future__ import annotations

# First, because op families and the data structure import each other's modules: whoever enters through
# here finds `ops.definition` complete when `function` asks for it.
from planish.ptir import ops  # isort: skip
from planish.ptir import trace
from planish.ptir.builder import Graph, GraphValue
from planish.ptir.function import Function, Inst, Program, Region, Value
from planish.ptir.interpret import interpret
from planish.ptir.ops.contract import DotAttrs, DotDims
from planish.ptir.ops.definition import NO_ATTRS, Attrs, ConstantAttrs, OpDef, OpKey
from planish.ptir.ops.literal import Literal
from planish.ptir.passes import (
    CanonicalizePass,
    CSEPass,
    DCEPass,
    InlinePass,
    Pass,
    PassManager,
    PassResult,
    PipelineResult,
    SymbolDCEPass,
    canonicalization_patterns,
)
from planish.ptir.rewrite import (
    Folder,
    FoldResult,
    FrozenPatternSet,
    GreedyConfig,
    GreedyStats,
    Listener,
    OpRewritePattern,
    Pattern,
    PatternSet,
    PatternStats,
    ProgramRewriter,
    apply_patterns_and_fold_greedily,
)
from planish.ptir.rewrite.bisect import bisect_rewrites
from planish.ptir.rewrite.explain import explain
from planish.ptir.rewrite.pdl import DataPattern
from planish.ptir.rewrite.steplog import StepLog
from planish.ptir.rules import populate_canonicalization
from planish.ptir.snippet import Results, Snippet
from planish.ptir.text import parse, parse_function, print
from planish.ptir.types import Dim, DimLike, Quant, TensorType, tensor

__all__ = [
    "NO_ATTRS",
    "Attrs",
    "CSEPass",
    "CanonicalizePass",
    "ConstantAttrs",
    "DCEPass",
    "DataPattern",
    "Dim",
    "DimLike",
    "DotAttrs",
    "DotDims",
    "FoldResult",
    "Folder",
    "FrozenPatternSet",
    "Function",
    "Graph",
    "GraphValue",
    "GreedyConfig",
    "GreedyStats",
    "InlinePass",
    "Inst",
    "Listener",
    "Literal",
    "OpDef",
    "OpKey",
    "OpRewritePattern",
    "Pass",
    "PassManager",
    "PassResult",
    "Pattern",
    "PatternSet",
    "PatternStats",
    "PipelineResult",
    "Program",
    "ProgramRewriter",
    "Quant",
    "Region",
    "Results",
    "Snippet",
    "StepLog",
    "SymbolDCEPass",
    "TensorType",
    "Value",
    "apply_patterns_and_fold_greedily",
    "bisect_rewrites",
    "canonicalization_patterns",
    "explain",
    "interpret",
    "ops",
    "parse",
    "parse_function",
    "populate_canonicalization",
    "print",
    "tensor",
    "trace",
]

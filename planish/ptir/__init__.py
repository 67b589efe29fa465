"""PTIR, the graph IR: what a program computes, as SSA functions over pure tensor ops.

The names in `__all__` are the public face; `docs/ptir.md` describes them. `Value` is the handle that graphs are built
with; the value inside a function is `SSAValue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

# First, because op families and the data structure import each other's modules: whoever enters through
# here finds `ops.definition` complete when `function` asks for it.
from planish.ptir import ops  # isort: skip
from planish.ptir import trace
from planish.ptir.builder import Graph
from planish.ptir.builder import GraphValue as Value
from planish.ptir.function import Function, Inst, InstId, Program, Region, ValueId
from planish.ptir.function import Value as SSAValue
from planish.ptir.interpret import interpret
from planish.ptir.interpret_ranks import interpret_ranks
from planish.ptir.json import dumps as to_json
from planish.ptir.json import loads as from_json
from planish.ptir.locations import FusedLocation
from planish.ptir.ops.contract import DotAttrs, DotDims
from planish.ptir.ops.definition import NO_ATTRS, Attrs, ConstantAttrs, OpDef, OpKey
from planish.ptir.ops.literal import Literal
from planish.ptir.snippet import Results, Snippet
from planish.ptir.text import parse, parse_function, print
from planish.ptir.trace import ExecutionTraceSink, FileTraceSink
from planish.ptir.types import Dim, DimLike, Quant, TensorType, tensor
from planish.ptir.verify import verify

if TYPE_CHECKING:
    from planish.ptir.passes import (
        DEFAULT_PIPELINE,
        CanonicalizePass,
        CSEPass,
        DCEPass,
        FixpointPass,
        InlinePass,
        Pass,
        PassManager,
        PassResult,
        PipelineResult,
        SymbolDCEPass,
        canonicalization_patterns,
        register_cost_model,
        register_pass,
        register_pattern,
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
        prelude,
    )
    from planish.ptir.rewrite.bisect import bisect_rewrites
    from planish.ptir.rewrite.explain import explain
    from planish.ptir.rewrite.pdl import DataPattern
    from planish.ptir.rewrite.steplog import StepLog
    from planish.ptir.rules import populate_canonicalization

__all__ = [
    "DEFAULT_PIPELINE", "NO_ATTRS", "Attrs", "CSEPass", "CanonicalizePass", "ConstantAttrs", "DCEPass",
    "DataPattern", "Dim", "DimLike", "DotAttrs", "DotDims", "ExecutionTraceSink", "FileTraceSink",
    "FixpointPass", "FoldResult", "Folder", "FrozenPatternSet", "Function", "FusedLocation", "Graph",
    "GreedyConfig", "GreedyStats", "InlinePass", "Inst", "InstId", "Listener", "Literal", "OpDef", "OpKey",
    "OpRewritePattern", "Pass", "PassManager", "PassResult", "Pattern", "PatternSet", "PatternStats",
    "PipelineResult", "Program", "ProgramRewriter", "Quant", "Region", "Results", "SSAValue", "Snippet",
    "StepLog", "SymbolDCEPass", "TensorType", "Value", "ValueId", "apply_patterns_and_fold_greedily",
    "bisect_rewrites", "canonicalization_patterns", "explain", "from_json", "interpret", "interpret_ranks",
    "ops", "parse", "parse_function", "populate_canonicalization", "prelude", "print", "register_cost_model",
    "register_pass", "register_pattern", "tensor", "to_json", "trace", "verify",
]  # fmt: skip

_LATER: Final = {
    "planish.ptir.passes": (
        "DEFAULT_PIPELINE", "CSEPass", "CanonicalizePass", "DCEPass", "FixpointPass", "InlinePass", "Pass",
        "PassManager", "PassResult", "PipelineResult", "SymbolDCEPass", "canonicalization_patterns",
        "register_cost_model", "register_pass", "register_pattern",
    ),
    "planish.ptir.rewrite": (
        "FoldResult", "Folder", "FrozenPatternSet", "GreedyConfig", "GreedyStats", "Listener", "OpRewritePattern",
        "Pattern", "PatternSet", "PatternStats", "ProgramRewriter", "apply_patterns_and_fold_greedily", "prelude",
    ),
    "planish.ptir.rewrite.bisect": ("bisect_rewrites",),
    "planish.ptir.rewrite.explain": ("explain",),
    "planish.ptir.rewrite.pdl": ("DataPattern",),
    "planish.ptir.rewrite.steplog": ("StepLog",),
    "planish.ptir.rules": ("populate_canonicalization",),
}  # fmt: skip
"""What changes programs, and is imported by the first who asks for it: building, printing and running them needs none of it."""
_HOME: Final = {name: home for home, names in _LATER.items() for name in names}

if not TYPE_CHECKING:
    # Hidden from the type checker, which would otherwise accept any misspelt attribute.

    def __getattr__(name):
        import importlib

        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
        return value

    def __dir__():
        return sorted({*globals(), *__all__})

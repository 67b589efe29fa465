"""Passes over programs, and the manager that strings them together."""

from __future__ import annotations

from planish.ptir.passes.canonicalize import (
    COST_MODELS,
    PATTERNS,
    CanonicalizePass,
    canonicalization_patterns,
    register_cost_model,
    register_pattern,
)
from planish.ptir.passes.combine import CombinePass
from planish.ptir.passes.cse import CSEPass
from planish.ptir.passes.dce import DCEPass
from planish.ptir.passes.expand import ExpandPass
from planish.ptir.passes.expand_complex import ExpandComplexPass
from planish.ptir.passes.fixpoint import FixpointPass
from planish.ptir.passes.inline import InlinePass
from planish.ptir.passes.instruments import DumpDir, PrintChanged, Timing, VerifyEach
from planish.ptir.passes.manager import (
    PASSES,
    Instrument,
    Pass,
    PassContext,
    Passes,
    PassManager,
    PassResult,
    PipelineResult,
    pass_text,
    register,
)
from planish.ptir.passes.manager import register as register_pass
from planish.ptir.passes.partition import PartitionPass
from planish.ptir.passes.shard import ShardPass
from planish.ptir.passes.symbol_dce import SymbolDCEPass

DEFAULT_PIPELINE = "fixpoint(canonicalize,cse),dce"
"""What one leaves to the other is done, too; then what nothing uses goes."""

__all__ = [
    "COST_MODELS", "DEFAULT_PIPELINE", "PASSES", "PATTERNS", "CSEPass", "CanonicalizePass", "CombinePass",
    "DCEPass", "DumpDir", "ExpandComplexPass", "ExpandPass", "FixpointPass", "InlinePass", "Instrument",
    "PartitionPass", "Pass", "PassContext", "PassManager", "PassResult", "Passes", "PipelineResult",
    "PrintChanged", "ShardPass", "SymbolDCEPass", "Timing", "VerifyEach", "canonicalization_patterns",
    "pass_text", "register", "register_cost_model", "register_pass", "register_pattern",
]  # fmt: skip

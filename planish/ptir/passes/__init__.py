"""Passes over programs, and the manager that strings them together."""

from __future__ import annotations

from planish.ptir.passes.canonicalize import CanonicalizePass, canonicalization_patterns
from planish.ptir.passes.cse import CSEPass
from planish.ptir.passes.dce import DCEPass
from planish.ptir.passes.expand import ExpandPass
from planish.ptir.passes.expand_complex import ExpandComplexPass
from planish.ptir.passes.inline import InlinePass
from planish.ptir.passes.instruments import DumpDir, PrintChanged, Timing, VerifyEach
from planish.ptir.passes.manager import (
    PASSES,
    Instrument,
    Pass,
    PassContext,
    PassManager,
    PassResult,
    PipelineResult,
    pass_text,
    register,
)
from planish.ptir.passes.symbol_dce import SymbolDCEPass

DEFAULT_PIPELINE = "canonicalize,cse,dce"

__all__ = [
    "DEFAULT_PIPELINE",
    "PASSES",
    "CSEPass",
    "CanonicalizePass",
    "DCEPass",
    "DumpDir",
    "ExpandComplexPass",
    "ExpandPass",
    "InlinePass",
    "Instrument",
    "Pass",
    "PassContext",
    "PassManager",
    "PassResult",
    "PipelineResult",
    "PrintChanged",
    "SymbolDCEPass",
    "Timing",
    "VerifyEach",
    "canonicalization_patterns",
    "pass_text",
    "register",
]

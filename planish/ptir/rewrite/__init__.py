"""Rewriting: patterns, the rewriter they edit with, and the greedy driver that runs them to a fixpoint."""

from __future__ import annotations

from planish.ptir.rewrite.config import CostModel, GreedyConfig, GreedyStats, PatternStats
from planish.ptir.rewrite.driver import apply_patterns_and_fold_greedily
from planish.ptir.rewrite.folding import Folder, FoldResult
from planish.ptir.rewrite.listener import Listener, ListenerGroup, combine
from planish.ptir.rewrite.pattern import (
    BasePattern,
    FrozenPatternSet,
    InstView,
    OpRewritePattern,
    Pattern,
    PatternSet,
)
from planish.ptir.rewrite.rewriter import ProgramRewriter

__all__ = [
    "BasePattern", "CostModel", "FoldResult", "Folder", "FrozenPatternSet", "GreedyConfig", "GreedyStats",
    "InstView", "Listener", "ListenerGroup", "OpRewritePattern", "Pattern", "PatternSet", "PatternStats",
    "ProgramRewriter", "apply_patterns_and_fold_greedily", "combine",
]  # fmt: skip

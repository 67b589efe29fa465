"""The functions of floats as rules: one per function that `decomposes` an op; narrow formats by way of float32."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Final, cast

from planish import dtypes
from planish.stages.linearizer.decompositions import (  # noqa: F401 - they decompose
    erf_pow,
    exp_log,
    float_ops,
    hyperbolic,
    roots,
    trig,
)
from planish.stages.linearizer.decompositions.powers import is_short_power
from planish.stages.linearizer.decompositions.reals import FUNCTIONS, Function, Reals
from planish.stages.linearizer.decompositions.support import Support
from planish.uop.matcher import Rule, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import FLOAT, node

_NEAR_ENOUGH: Final = {Ops.TANH: Ops.TANH_ESTIMATE}
"""Estimates whose error is far below what rounding to 16 bits loses."""


def _rewriter(function: Function, support: Support) -> Callable[[UOp, object], UOp | None]:
    def build(root: UOp, ctx: object) -> UOp | None:
        if (
            ctx
            and (root.op, root.dtype) in cast("Container[object]", ctx)
            and not is_short_power(root, support)
        ):
            return None  # it is called
        if root.dtype.bits < 32:
            # Narrow floats compute in float32 and round once (docs/semantics.md 1.4).
            wide = tuple(source.cast(dtypes.float32) for source in root.src)
            op = _NEAR_ENOUGH.get(root.op, root.op) if support.estimates else root.op
            return wide[0].alu(op, *wide[1:]).cast(root.dtype.scalar)
        return function(Reals(root, support), *root.src)

    return build


def function_rules(support: Support) -> list[Rule]:
    """A rule for every function of floats that the target lacks."""
    return [
        rule(node(op), _rewriter(function, support), says=says, on=FLOAT)
        for op, (function, says) in FUNCTIONS.items()
        if support.lacks(op)
    ]


__all__ = ["FUNCTIONS", "function_rules"]

"""The functions of floats as rules: one per op, in terms of `Reals`; narrow formats by way of float32."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Final, cast

from planish import dtypes
from planish.stages.linearizer.decompositions import erf_pow, exp_log, float_ops, hyperbolic, roots, trig
from planish.stages.linearizer.decompositions.reals import Reals
from planish.stages.linearizer.decompositions.support import Support
from planish.uop.matcher import Rule, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import FLOAT, node

Function = Callable[..., UOp]
"""Called with the `Reals` of the operands and the operands."""

FUNCTIONS: Final[dict[Ops, tuple[Function, str]]] = {
    Ops.EXP: (exp_log.exp, "exp(x) -> 2**n exp(x - n ln2)"),
    Ops.EXP2: (exp_log.exp2, "exp2(x) -> 2**n exp((x - n) ln2)"),
    Ops.EXPM1: (exp_log.expm1, "expm1(x) -> 2**n (exp(r) - 1) + (2**n - 1)"),
    Ops.LOG: (exp_log.log, "log(m 2**n) -> n ln2 + log(m)"),
    Ops.LOG2: (exp_log.log2, "log2(m 2**n) -> n + log(m) log2(e)"),
    Ops.LOG1P: (exp_log.log1p, "log1p(x) -> log of the pair 1 + x"),
    Ops.SIN: (trig.sin, "sin(x) -> ±sin(r) or ±cos(r), x = q π/2 + r"),
    Ops.COS: (trig.cos, "cos(x) -> ±cos(r) or ±sin(r), x = q π/2 + r"),
    Ops.TAN: (trig.tan, "tan(x) -> ±(sin(r)/cos(r))**±1, x = q π/2 + r"),
    Ops.ASIN: (trig.asin, "asin(x) -> π/2 - 2 asin(sqrt((1 - x)/2))"),
    Ops.ACOS: (trig.acos, "acos(x) -> 2 asin(sqrt((1 - x)/2))"),
    Ops.ATAN: (trig.atan, "atan(x) -> k π/4 ± atan(t), |t| <= tan(π/8)"),
    Ops.ATAN2: (trig.atan2, "atan2(y, x) -> k π/4 ± atan(t), |t| <= tan(π/8)"),
    Ops.SINH: (hyperbolic.sinh, "sinh(x) -> (exp(x) - exp(-x)) / 2"),
    Ops.COSH: (hyperbolic.cosh, "cosh(x) -> (exp(x) + exp(-x)) / 2"),
    Ops.TANH: (hyperbolic.tanh, "tanh(x) -> 1 - 2 / (exp(2x) + 1)"),
    Ops.ASINH: (hyperbolic.asinh, "asinh(x) -> log(x + sqrt(x² + 1))"),
    Ops.ACOSH: (hyperbolic.acosh, "acosh(x) -> log(x + sqrt(x² - 1))"),
    Ops.ATANH: (hyperbolic.atanh, "atanh(x) -> log((1 + x)/(1 - x)) / 2"),
    Ops.ERF: (erf_pow.erf, "erf(x) -> 1 - exp(-y), y = -log(erfc(x))"),
    Ops.ERFC: (erf_pow.erfc, "erfc(x) -> exp(-x²) G(x)"),
    Ops.POW: (erf_pow.pow_, "x ** y -> exp(y log(x))"),
    Ops.CBRT: (roots.cbrt, "cbrt(m 2**3k) -> 2**k cbrt(m)"),
    Ops.RSQRT: (roots.rsqrt, "rsqrt(x) -> 1 / sqrt(x)"),
    Ops.FMOD: (float_ops.fmod, "fmod(x, y) -> (a 2**d mod b) 2**f"),
    Ops.SCALE: (float_ops.scale, "scale(x, y) -> x 2**floor(y), the exponents added"),
    Ops.MAX: (float_ops.maximum, "float: max(x, y) -> x > y ? x : y, NaN and ±0 told apart"),
    Ops.MIN: (float_ops.minimum, "float: min(x, y) -> x < y ? x : y, NaN and ±0 told apart"),
}


def _rewriter(function: Function, support: Support) -> Callable[[UOp, object], UOp | None]:
    def build(root: UOp, ctx: object) -> UOp | None:
        if ctx and (root.op, root.dtype) in cast("Container[object]", ctx):
            return None  # it is called
        if root.dtype.bits < 32:
            # Narrow floats compute in float32 and round once (docs/semantics.md 1.4).
            wide = tuple(source.cast(dtypes.float32) for source in root.src)
            return wide[0].alu(root.op, *wide[1:]).cast(root.dtype.scalar)
        return function(Reals(root, support), *root.src)

    return build


def function_rules(support: Support) -> list[Rule]:
    """A rule for every function of floats that the target lacks."""
    return [
        rule(node(op), _rewriter(function, support), says=says, on=FLOAT)
        for op, (function, says) in FUNCTIONS.items()
        if support.lacks(op)
    ]

"""The table of derivatives: how each op of PTIR takes part in differentiation.

Every op is in exactly one place: `FLAT` (its results do not move), `DERIVATIVES` (elementwise), `LINEAR`, `RULES` (a push and
a pull), the control flow that `forward` and `reverse` know, or `OPAQUE`, where differentiation is an error that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from planish.frontend.autodiff.collectives import COLLECTIVES, LINEAR_COLLECTIVES
from planish.frontend.autodiff.elementwise import CURVED, DERIVATIVES
from planish.frontend.autodiff.indexing import INDEXING, emit_sort
from planish.frontend.autodiff.instruction import Pull, Push, is_differentiable
from planish.frontend.autodiff.linalg import LINALG, emit_svd
from planish.frontend.autodiff.linear import LINEAR as LINEAR_HERE
from planish.frontend.autodiff.linear import Linearity, is_linear_bitcast
from planish.frontend.autodiff.reductions import REDUCTIONS
from planish.frontend.markers import CUSTOM_JVP, CUSTOM_VJP
from planish.frontend.replay import Replay, Values, emit
from planish.ptir import ops
from planish.ptir.function import Inst, Region, Value
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.regions import captured
from planish.scalars import FUNCTIONS

FLAT: Final = frozenset(
    {"constant", "iota", "mesh_index", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "shl", "shr_logical", "shr_arithmetic",
     "argmax", "argmin", "argsort", "reduce_and", "reduce_or", "is_nan", "is_inf", "is_finite", "popcount", "clz", "floor_div", "trunc_div", "quantize", "dequantize", "rng_bits", "dimension_size", "nonzero", "unique",
     "non_max_suppression", "return", *(name for name, of in FUNCTIONS.items() if not of.slopes)}
)  # fmt: skip
"""Ops whose results do not move, or are no real numbers."""
CONTROL: Final = frozenset({"cond", "while", "scan", "call"})
LINEAR: Final[Mapping[str, Linearity]] = {**LINEAR_HERE, **LINEAR_COLLECTIVES}
OPAQUE: Final = frozenset({"custom_call"})
RULES: Final[Mapping[str, tuple[Push, Pull]]] = {**CURVED, **REDUCTIONS, **INDEXING, **LINALG, **COLLECTIVES}
KNOWN: Final = frozenset({*FLAT, *DERIVATIVES, *LINEAR, *RULES})
"""Ops with a rule. Composites without one are differentiated as what they expand to."""

_ALONG: Final[Mapping[str, Callable[[Replay, Inst, Sequence[V]], tuple[V, ...]]]] = {
    "sort": emit_sort,
    "svd": emit_svd,
}
"""Ops that are emitted with something their derivative needs, left in the graph's notes."""


def is_flat(inst: Inst) -> bool:
    """Whether the results of an instruction stay where they are, whatever its operands do."""
    if inst.op is ops.bitcast:
        # bits read as something else: how `stop_gradient` ends a derivative
        return not is_linear_bitcast(inst.operands[0].type.dtype, inst.results[0].type.dtype)
    return inst.op.name in FLAT


def emit_moving(graph: Replay, inst: Inst, values: Values) -> None:
    """Emit an instruction whose derivative will be asked for."""
    along = _ALONG.get(inst.op.name)
    if along is None:
        emit(graph, inst, values)
        return
    graph.loc = inst.loc
    results = along(graph, inst, [values[operand] for operand in inst.operands])
    values.update(zip(inst.results, results, strict=True))


def reads(inst: Inst) -> list[Value]:
    """What the results of an instruction move with: its operands, and what its regions see."""
    if not inst.regions or inst.op in (CUSTOM_JVP, CUSTOM_VJP):
        # a derivative of one's own is one of the arguments: what the function sees besides counts as fixed
        return list(inst.operands)
    return [*inst.operands, *(value for region in inst.regions for value in captured(region))]


def spread(region: Region, live: set[Value]) -> None:
    """Add to the values that move those of a region that move with them."""
    for inst in region:
        if not is_flat(inst) and any(value in live for value in reads(inst)):
            live.update(result for result in inst.results if is_differentiable(result.type))


__all__ = [
    "CONTROL", "DERIVATIVES", "FLAT", "KNOWN", "LINEAR", "OPAQUE", "RULES", "emit_moving", "is_flat", "reads",
    "spread",
]  # fmt: skip

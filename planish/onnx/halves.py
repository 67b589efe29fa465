"""Half precision on processors: between the inputs and outputs of a program, halves are float32.

Processors convert halves and compute in float32, so an op on halves rounds its result only for the next one to widen it again. Values that
are computed stay wide from op to op (as in onnxruntime), and are rounded where something needs them as halves: results, orders,
what loops carry. Weights stay halves in memory, but for kernels of convolutions (`preparing.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from planish import dtypes, ptir
from planish.ptir import ops
from planish.ptir.function import Inst, Value
from planish.ptir.ops.contract import ConvolutionAttrs, DotGeneralAttrs
from planish.ptir.ops.convert import CastAttrs
from planish.ptir.ops.definition import Attrs
from planish.ptir.rewrite.rewriter import ProgramRewriter

_MOVES: Final = frozenset({
    "reshape", "transpose", "slice", "broadcast_to", "concat", "pad", "reverse", "gather", "dynamic_slice",
})  # fmt: skip
_SUMS: Final = frozenset({
    "dot_general", "convolution", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_window",
    "cumsum", "cumprod",
})  # fmt: skip


def widened(function: ptir.Function) -> None:
    """Keep what the function computes of halves in float32; changed in place. What regions compute stays as it is."""
    if not any(value.type.dtype is dtypes.float16 for value in function.values()):
        return
    rewriter = ProgramRewriter(function, pattern="widen halves")
    wide: dict[Value, Value] = {}
    for inst in list(function.body):
        if _is_half(inst.results) and _computes(inst, wide):
            result = _wide_result(rewriter, inst, wide)
            narrow = rewriter.insert_before(inst, ops.cast, (result,), CastAttrs(dtypes.float16)).result
            wide[narrow] = result
            rewriter.replace_op(inst, narrow)
        elif inst.op is ops.cast and inst.operands[0] in wide:
            source = wide[inst.operands[0]]
            if source.type == inst.result.type:
                rewriter.replace_op(inst, source)
            else:
                converted = rewriter.insert_before(inst, ops.cast, (source,), inst.attrs).result
                rewriter.replace_op(inst, converted)


def _is_half(values: tuple[Value, ...]) -> bool:
    return len(values) == 1 and values[0].type.dtype is dtypes.float16 and values[0].type.quant is None


def _computes(inst: Inst, wide: dict[Value, Value]) -> bool:
    """Whether an op has a wide form that is worth it: it computes, or moves what was computed."""
    name = inst.op.name
    if name in _MOVES:
        return any(value in wide for value in inst.operands)
    return name in _SUMS or (inst.op.elementwise and name != "nextafter")


def _wide_result(rewriter: ProgramRewriter, inst: Inst, wide: dict[Value, Value]) -> Value:
    """The result of an op in float32."""
    for value in inst.operands:
        if value.type.dtype is dtypes.float16 and value not in wide:
            widening = rewriter.insert_before(inst, ops.cast, (value,), CastAttrs(dtypes.float32))
            wide[value] = widening.result
    given = [wide.get(value, value) for value in inst.operands]
    if inst.op is ops.cast and given[0].type.dtype is dtypes.float32:
        return given[0]
    return rewriter.insert_before(inst, inst.op, given, _wide_attributes(inst.attrs)).result


def _wide_attributes(attrs: Attrs) -> Attrs:
    """The attributes, with the dtype of results that become wide."""
    if isinstance(attrs, DotGeneralAttrs | ConvolutionAttrs):
        return replace(attrs, out_dtype=dtypes.float32)
    return CastAttrs(dtypes.float32) if isinstance(attrs, CastAttrs) else attrs

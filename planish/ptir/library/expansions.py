"""The composite ops, each with the library function that stands for it: what the pass `expand` reads.

Operands come as handles, attributes as the record of the op; the results have the types of the op's.
Complex parts (`complex`, `real`, `imag`, `conj`) belong to `expand-complex`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, cast

from planish.ptir import ops
from planish.ptir.graph_value import GraphValue
from planish.ptir.library import compaction, order, quantization, random_bits, suppression
from planish.ptir.ops.definition import Attrs

Expansion: TypeAlias = Callable[[Sequence[GraphValue], Attrs], tuple[GraphValue, ...]]


def _sort(operands: Sequence[GraphValue], attrs: Attrs) -> tuple[GraphValue, ...]:
    of = cast("ops.SortAttrs", attrs)
    return order.sort(operands, of.axis, of.descending, of.num_keys)


def _top_k(operands: Sequence[GraphValue], attrs: Attrs) -> tuple[GraphValue, ...]:
    of = cast("ops.TopKAttrs", attrs)
    return order.top_k(operands[0], of.k, of.axis, of.largest, of.dtype)


def _rng_bits(operands: Sequence[GraphValue], attrs: Attrs) -> tuple[GraphValue, ...]:
    of = cast("ops.RngBitsAttrs", attrs)
    return (random_bits.rng_bits(operands[0], of.dims, of.dtype),)


def _quantize(operands: Sequence[GraphValue], attrs: Attrs) -> tuple[GraphValue, ...]:
    of = cast("ops.QuantizeAttrs", attrs)
    return (quantization.quantize(operands[0], of.dtype, of.quant),)


def _dequantize(operands: Sequence[GraphValue], attrs: Attrs) -> tuple[GraphValue, ...]:
    of = cast("ops.DequantizeAttrs", attrs)
    return (quantization.dequantize(operands[0], of.quant),)


def _nonzero(operands: Sequence[GraphValue], attrs: Attrs) -> tuple[GraphValue, ...]:
    return compaction.nonzero(operands[0], cast("ops.NonzeroAttrs", attrs).size)


def _unique(operands: Sequence[GraphValue], attrs: Attrs) -> tuple[GraphValue, ...]:
    of = cast("ops.UniqueAttrs", attrs)
    return compaction.unique(operands[0], of.size, of.axis)


def _non_max_suppression(operands: Sequence[GraphValue], attrs: Attrs) -> tuple[GraphValue, ...]:
    of = cast("ops.NonMaxSuppressionAttrs", attrs)
    boxes, scores, limit, overlap, threshold = operands
    return suppression.non_max_suppression(
        boxes, scores, limit, overlap, threshold, of.max_boxes, of.center_point_box
    )


EXPANSIONS: Final[dict[str, Expansion]] = {
    "sort": _sort,
    "top_k": _top_k,
    "rng_bits": _rng_bits,
    "quantize": _quantize,
    "dequantize": _dequantize,
    "nonzero": _nonzero,
    "unique": _unique,
    "non_max_suppression": _non_max_suppression,
}

__all__ = ["EXPANSIONS", "Expansion"]

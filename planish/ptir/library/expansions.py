"""The composite ops, each with the library function that stands for it: what the pass `expand` reads.

Operands come as handles, attributes as the record of the op; the results have the types of the op's.
Complex parts (`complex`, `real`, `imag`, `conj`) belong to `expand-complex`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from planish.ptir.graph_value import GraphValue
from planish.ptir.library import compaction, order, quantization, random_bits, suppression

Expansion: TypeAlias = Callable[[Sequence[GraphValue], Any], tuple[GraphValue, ...]]

EXPANSIONS: Final[dict[str, Expansion]] = {
    **dict.fromkeys(("sharding", "to_device"), lambda x, of: (x[0],)),
    "sort": lambda x, of: order.sort(x, of.axis, of.descending, of.num_keys),
    "top_k": lambda x, of: order.top_k(x[0], of.k, of.axis, of.largest, of.dtype),
    "rng_bits": lambda x, of: (random_bits.rng_bits(x[0], of.dims, of.dtype),),
    "quantize": lambda x, of: (quantization.quantize(x[0], of.dtype, of.quant),),
    "dequantize": lambda x, of: (quantization.dequantize(x[0], of.quant),),
    "nonzero": lambda x, of: compaction.nonzero(x[0], of.size),
    "unique": lambda x, of: compaction.unique(x[0], of.size, of.axis),
    "non_max_suppression": lambda x, of: suppression.non_max_suppression(
        x[0], x[1], x[2], x[3], x[4], of.max_boxes, of.center_point_box
    ),
}

"""What the body of a reduction, a scatter or a sort says: `x + y`, `the new one`, `the larger of keys`.

Bodies that are one operation become that operation of PTIR; all others are applied as they stand.
"""

from __future__ import annotations

from typing import Final

from planish.ptir.handle import Number
from planish.ptir.ops.reduce import MONOIDS
from planish.stablehlo.site import Site
from planish.stablehlo.syntax import HloBlock, HloTensorType

_KINDS: Final = {
    "stablehlo.add": "sum",
    "stablehlo.multiply": "prod",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
    "stablehlo.and": "and",
    "stablehlo.or": "or",
}
_OF_BOOLS: Final = {"sum": "or", "prod": "and", "max": "or", "min": "and"}


def kind_of(block: HloBlock) -> str | None:
    """`sum prod max min and or` of the two arguments; `second` or `first` for one of them; None for anything else."""
    if len(block.args) != 2:
        return None
    if len(block.ops) == 1 and len(block.end.operands) == 1:
        return {id(block.args[1]): "second", id(block.args[0]): "first"}.get(id(block.end.operands[0]))
    if len(block.ops) != 2 or block.end.operands != block.ops[0].results:
        return None
    op = block.ops[0]
    if {id(v) for v in op.operands} != {id(v) for v in block.args}:
        return None
    kind = _KINDS.get(op.name)
    type = block.args[0].type
    if kind is not None and isinstance(type, HloTensorType) and getattr(type.element, "is_bool", False):
        return _OF_BOOLS.get(kind, kind)
    if (
        kind in ("max", "min")
        and isinstance(type, HloTensorType)
        and getattr(type.element, "is_complex", False)
    ):
        return None
    return kind


def is_identity(kind: str, number: Number | None, at: Site, place: int) -> bool:
    """Whether a start changes nothing: 0 of a sum, the lowest of a maximum."""
    type = at.op.operands[place].type
    if number is None or not isinstance(type, HloTensorType):
        return False
    dtype = type.element
    return bool(number == MONOIDS[kind].identity(dtype))  # type: ignore[arg-type]

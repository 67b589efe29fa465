"""The weight of an op: how many plain vector operations (an addition is one) it takes, in round figures.

Cost models count with it, whoever chooses: which tensors are computed again, which schedule a kernel gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planish.uop.functions import FUNCTION_OPS
from planish.uop.ops import Ops

_WEIGHTS: Final[Mapping[Ops, float]] = {
    Ops.FDIV: 10.0, Ops.MAX: 3.0, Ops.MIN: 3.0, Ops.FLOORDIV: 12.0, Ops.FLOORMOD: 14.0, Ops.TRUNCDIV: 20.0,
    Ops.TRUNCMOD: 22.0, Ops.FMOD: 40.0, Ops.THREEFRY: 100.0, Ops.POW: 45.0,
    **{op: of.weight for op, of in FUNCTION_OPS.items()},
}  # fmt: skip


def weight(op: Ops) -> float:
    """Of an op; 1 if it is a plain one."""
    return _WEIGHTS.get(op, 1.0)

"""The weight of an op: how many plain vector operations (an addition is one) it takes, in round figures.

Cost models count with it, whoever chooses: which tensors are computed again, which schedule a kernel gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planish.uop.ops import Ops

_WEIGHTS: Final[Mapping[Ops, float]] = {
    Ops.FDIV: 10.0, Ops.RECIP: 8.0, Ops.SQRT: 10.0, Ops.RSQRT: 12.0, Ops.MAX: 3.0, Ops.MIN: 3.0,
    Ops.FLOORDIV: 12.0, Ops.FLOORMOD: 14.0, Ops.TRUNCDIV: 20.0, Ops.TRUNCMOD: 22.0, Ops.FMOD: 40.0, Ops.THREEFRY: 100.0,
    Ops.EXP: 14.0, Ops.EXP2: 12.0, Ops.EXPM1: 20.0, Ops.LOG: 18.0, Ops.LOG2: 18.0, Ops.LOG1P: 22.0, Ops.POW: 45.0,
    Ops.SIN: 25.0, Ops.COS: 25.0, Ops.TAN: 35.0, Ops.TANH: 20.0, Ops.SINH: 25.0, Ops.COSH: 25.0, Ops.ERF: 25.0,
    Ops.ERFC: 30.0, Ops.ASIN: 25.0, Ops.ACOS: 25.0, Ops.ATAN: 22.0, Ops.ATAN2: 30.0, Ops.ASINH: 35.0, Ops.ACOSH: 35.0,
    Ops.ATANH: 30.0, Ops.CBRT: 30.0,
}  # fmt: skip


def weight(op: Ops) -> float:
    """Of an op; 1 if it is a plain one."""
    return _WEIGHTS.get(op, 1.0)

"""What is asked of a RANGE."""

from __future__ import annotations

from typing import cast

from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType


def kind_of(axis: UOp) -> AxisType:
    """What runs a range."""
    return cast("Axis", axis.arg).kind

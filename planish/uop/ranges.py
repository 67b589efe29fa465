"""What is asked of a RANGE."""

from __future__ import annotations

from typing import Any

from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops


def kind_of(axis: UOp) -> AxisType:
    """What runs a range."""
    arg: Any = axis.arg  # (an Axis; asked for so often that a cast would be felt)
    kind: AxisType = arg.kind
    return kind


def is_rank(place: UOp) -> bool:
    """Whether a place is the number of a block in its cluster, of which each keeps values for itself and reads those of others."""
    if place.op is Ops.VECTORIZE and len(set(place.src)) == 1:
        (place, *_) = place.src
    return place.op is Ops.RANGE and kind_of(place) is AxisType.CLUSTER

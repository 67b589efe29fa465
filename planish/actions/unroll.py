"""`unroll(k, 4)`: a part of a reduce axis is laid out in lanes, which are combined in every iteration."""

from __future__ import annotations

from planish.actions.base import ALL
from planish.actions.splitting import Splitting
from planish.uop.ops import AxisType


class Unroll(Splitting):
    """A part of a reduce axis in lanes."""

    word = "unroll"
    does = "lay a part of a reduce axis out in lanes, combined in every iteration"
    takes = frozenset({AxisType.REDUCE})
    makes = AxisType.UNROLL
    most = 32
    sized = "by"
    by: int = ALL

"""`upcast(i, 4)`: a part of an output axis is kept in registers or lanes.

Before → after::

    L0 = RANGE(12)                   L0 = RANGE(3), u0 = RANGE(4, UPCAST);  L0*4 + u0
"""

from __future__ import annotations

from planish.actions.base import ALL
from planish.actions.splitting import MOST_UPCAST, Splitting
from planish.uop.nest import OUTPUT
from planish.uop.ops import AxisType


class Upcast(Splitting):
    """A part of an output axis in registers."""

    word = "upcast"
    does = "keep a part of an output axis in registers or lanes"
    takes = OUTPUT
    makes = AxisType.UPCAST
    most = MOST_UPCAST
    sized = "by"
    by: int = ALL

"""`lanes(j, 16)`: as `upcast`, and neighbours along the axis are neighbouring lanes whatever other axes are in registers."""

from __future__ import annotations

from planish.actions.base import ALL
from planish.actions.splitting import MOST_UPCAST, Splitting
from planish.uop.nest import OUTPUT, next_root
from planish.uop.nest.kernel import Nest
from planish.uop.ops import Axis, AxisType


class Lanes(Splitting):
    """A part of an output axis in lanes, the fastest of all."""

    word = "lanes"
    does = "keep a part of an output axis in neighbouring lanes, whatever other axes are in registers"
    takes = OUTPUT
    makes = AxisType.UPCAST
    most = MOST_UPCAST
    sized = "width"
    width: int = ALL

    def place(self, part: Axis, facts: Nest) -> Axis:
        """Lanes lie in the order of the places of their axes: the last is the fastest."""
        return part.moved((next_root(facts.nodes),))

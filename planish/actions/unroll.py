"""`unroll(k, 4)`: a part of a reduce axis is laid out in lanes, which are combined in every iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from planish.actions.base import ALL
from planish.actions.splitting import Splitting
from planish.uop.ops import AxisType


@dataclass(frozen=True, slots=True)
class Unroll(Splitting):
    """A part of a reduce axis in lanes."""

    word: ClassVar = "unroll"
    does: ClassVar = "lay a part of a reduce axis out in lanes, combined in every iteration"
    takes: ClassVar = frozenset({AxisType.REDUCE})
    makes: ClassVar = AxisType.UNROLL
    most: ClassVar = 32
    sized: ClassVar = "by"
    by: int = ALL

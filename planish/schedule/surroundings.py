"""What a kernel under construction knows of the rest of the program."""

from __future__ import annotations

from collections.abc import Collection, Container

from planish.records import dataclass
from planish.schedule.elements import InMemory
from planish.schedule.graph import TensorGraph
from planish.uop.node import UOp


@dataclass(frozen=True, slots=True)
class Around:
    """What is known of the rest of the program while a kernel is put together."""

    graph: TensorGraph
    realised: InMemory
    others: Collection[UOp] = ()
    """Results that other kernels will compute."""
    joining: Collection[UOp] = ()
    """Results that no kernel computes yet: this one may, on its way."""
    pending: Container[UOp] = ()
    """All results that no kernel computes yet, those of this one included."""
    again: Collection[UOp] = ()
    """What every kernel that needs it makes for itself."""

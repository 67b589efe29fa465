"""What was made of the weights of a model, kept for the next program that asks for the same."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from numpy.typing import NDArray

from planish.onnx.weight_layouts import WeightLayouts

Array = NDArray[Any]


class Prepared(dict[Hashable, tuple[list[Array], list[Array]]]):
    """What was computed, by program and arrays; with the arrays, so that they stay who they are."""

    def __init__(self) -> None:
        super().__init__()
        self.layouts = WeightLayouts()
        """Weights as products read them."""

    packed = False
    """Whether weights stay as narrow as they are: a GPU widens them in registers, in the time that reading them takes."""

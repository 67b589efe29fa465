"""A model that is one function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from planish import ptir
from planish.onnx.tape import Call
from planish.records import dataclass

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class WholeProgram:
    """A PTIR function of the inputs of a model and then of its weights."""

    function: ptir.Function
    weights: list[Array]


@dataclass(frozen=True, slots=True)
class Dynamic:
    """A compiled function that takes inputs of any size within bounds."""

    call: Call
    weights: list[Array]

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs."""
        return list(self.call(*inputs, *self.weights))

"""A model that is one function."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from planish import ptir
from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class WholeProgram:
    """A PTIR function of the inputs of a model and then of its weights."""

    function: ptir.Function
    weights: list[NDArray[Any]]

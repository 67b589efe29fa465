"""`planish.llir.lower` as this package sees it: what it takes and what it gives.

Lowering a function is the compiler's work, and the compiler stands above this package; so what is here is the face alone,
and the compiler is imported when a function is first lowered: the one import that goes up (`tests/test_imports.py` names it).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol

from numpy.typing import NDArray

from planish.llir.layout import MemoryLayout, TensorPlace
from planish.llir.program import Program
from planish.target import Target

if TYPE_CHECKING:
    from planish.ptir import Function

Array = NDArray[Any]
LayoutName = Literal["row_major", "column_major"]
VectorWidth = int | Literal["native"]


class LoweredFunction(Protocol):
    """The kernels of a function, and how its tensors are stored."""

    @property
    def layout(self) -> MemoryLayout:
        """How parameters and results are stored."""

    @property
    def vector_width(self) -> VectorWidth:
        """How many lanes a register has."""

    @property
    def programs(self) -> tuple[Program, ...]:
        """The kernels, each once."""

    @property
    def parameters(self) -> tuple[TensorPlace, ...]:
        """Where the elements of the parameters lie."""

    @property
    def results(self) -> tuple[TensorPlace, ...]:
        """Where the elements of the results lie."""

    def compile(self) -> Callable[..., tuple[Array, ...]]:
        """Machine code that is called with arrays in this layout."""

    def interpret(self, *arrays: Array, registers: int | None = None) -> tuple[Array, ...]:
        """What the LLIR interpreter makes of arguments, optionally with so many registers of each kind."""


def lower(
    function: Function,
    layout: LayoutName | MemoryLayout = "row_major",
    vector_width: VectorWidth = "native",
    target: str | Target | None = None,
) -> LoweredFunction:
    """The LLIR of a PTIR function (see `planish.compiler.layouts`).

    `layout` says whether the last or the first index of its tensors runs fastest, `vector_width` how many lanes its registers have;
    `native` is what the target has, by default the machine in the settings.
    """
    from planish.compiler.layouts import lower as lower_in_layout

    return lower_in_layout(function, layout, vector_width, target)

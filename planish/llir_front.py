"""`planish.llir.lower`: a PTIR function as LLIR programs, in a memory layout and vector width of one's choice.

    low = llir.lower(function, layout="column_major", vector_width=8)
    low.programs          the kernels
    low.parameters        where the elements of each parameter lie: strides, bytes, alignment (low.results likewise)
    low.compile()         machine code
    low.interpret(x, y)   runs them; with registers=8, on eight registers of each kind

A thin front on the compiler. Column-major: the kernels are those of the function's mirror image (`planish.ptir.mirror`),
so parameters and results are stored with their first index fastest, and so is what lies between wherever the op that makes it has
a mirror image. Vector width N: registers hold N lanes of the widest dtype in the function; 1 leaves no vectors at all, `native`
is what the target has. Neither changes a result (float sums: no more than any order of summation may).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy import array as new_array
from numpy.typing import NDArray

from planish import compiler
from planish.compiler.layouts import ColumnMajor, in_layout, layout_of, with_lanes
from planish.config import current
from planish.llir.front import LayoutName, VectorWidth
from planish.llir.layout import MemoryLayout, TensorPlace, alignment, byte_size
from planish.llir.program import Program
from planish.llir.regalloc import allocate
from planish.ptir.dims import product
from planish.ptir.function import Function, Value
from planish.ptir.types import TensorType
from planish.target import Target
from planish.target import find as find_target

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class LoweredFunction:
    """The kernels of a function, and how its tensors are stored."""

    function: Function
    layout: MemoryLayout
    vector_width: VectorWidth
    lowered: compiler.Lowered
    """The same, as the compiler knows it: every level can be read, and it can be compiled."""

    @property
    def programs(self) -> tuple[Program, ...]:
        """The kernels, in order."""
        return self.lowered.programs

    @property
    def parameters(self) -> tuple[TensorPlace, ...]:
        """Where the elements of the parameters lie."""
        return self._places("arg", self.function.params)

    @property
    def results(self) -> tuple[TensorPlace, ...]:
        """Where the elements of the results lie."""
        return self._places("result", self.function.results)

    def _places(self, word: str, values: tuple[Value, ...]) -> tuple[TensorPlace, ...]:
        return tuple(
            place_of(value.name or f"{word}{number}", value.type, self.layout)
            for number, value in enumerate(values)
        )

    def __str__(self) -> str:
        return self.lowered.as_text("llir")

    def compile(self) -> compiler.Executable:
        """Machine code that is called with arrays in this layout; others are copied."""
        if self.layout is MemoryLayout.ROW_MAJOR:
            return self.lowered.compile()
        return ColumnMajor(self.lowered)

    def interpret(self, *arrays: Array, registers: int | None = None) -> tuple[Array, ...]:
        """What the LLIR interpreter makes of arguments, optionally with so many registers of each kind."""
        lowered = self.lowered
        if registers is not None:
            programs = tuple(allocate(program, registers).program for program in lowered.programs)
            lowered = replace(lowered, programs=programs)
        if self.layout is MemoryLayout.ROW_MAJOR:
            return lowered.interpreted()(*arrays)
        # column by column: the memory of the mirror image
        given = [new_array(array.T, order="C") for array in arrays]
        return tuple(array.T for array in lowered.interpreted()(*given))


def place_of(name: str, type_: TensorType, layout: MemoryLayout) -> TensorPlace:
    """Where the elements of a densely stored tensor lie."""
    dims = type_.dims
    strides = tuple(
        product(dims[:axis] if layout is MemoryLayout.COLUMN_MAJOR else dims[axis + 1 :])
        for axis in range(len(dims))
    )
    nbytes = byte_size(type_.max_shape, type_.dtype)
    return TensorPlace(name, type_.dtype, dims, layout, strides, nbytes, alignment(type_.dtype))


def lower(
    function: Function,
    layout: LayoutName | MemoryLayout = "row_major",
    vector_width: VectorWidth = "native",
    target: str | Target | None = None,
) -> LoweredFunction:
    """The LLIR of a function."""
    chosen = layout_of(layout)
    machine = (
        target if isinstance(target, Target) else find_target(current().target if target is None else target)
    )
    machine = with_lanes(machine, vector_width, function)
    lowered = compiler.lower(in_layout(function, chosen), target=machine)
    return LoweredFunction(function, chosen, vector_width, lowered)


__all__ = ["LoweredFunction", "lower", "place_of"]

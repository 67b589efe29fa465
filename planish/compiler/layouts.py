"""How tensors lie in memory, and how many lanes registers have: options of a compilation that change no result.

Column-major code is that of the function's mirror image (`planish.ptir.mirror`): the axes of every tensor reversed, so that its
row-major memory is the column-major memory asked for. An array whose first index runs fastest is taken as it is, any other is
copied; results are such arrays. What lies between them is stored so too, wherever the op that makes it has a mirror image. Vector
width N: registers hold N lanes of the widest dtype in the function; 1 leaves no vectors at all, `native` is what the target has.
Float sums differ no more than any order of summation may.

    low = llir.lower(function, layout="column_major", vector_width=8)
    low.programs          the kernels
    low.parameters        where the elements of each parameter lie: strides, bytes, alignment (low.results likewise)
    low.compile()         machine code
    low.interpret(x, y)   runs them; with registers=8, on eight registers of each kind
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish import ptir
from planish.compiler import Lowered
from planish.compiler import lower as lower_function
from planish.compiler.executable import Executable
from planish.config import current
from planish.errors import LoweringError, did_you_mean
from planish.llir.front import LayoutName, VectorWidth
from planish.llir.layout import MemoryLayout, TensorPlace, alignment, byte_size
from planish.llir.program import Program
from planish.llir.regalloc import allocate
from planish.ptir.dims import product
from planish.ptir.mirror import mirrored
from planish.ptir.types import TensorType
from planish.target import Target
from planish.target import find as find_target

Array = NDArray[Any]
_POWERS: Final = (64, 32, 16, 8, 4, 2)


def layout_of(given: str | MemoryLayout) -> MemoryLayout:
    """The layout of that name."""
    names = [layout.value for layout in MemoryLayout]
    try:
        return MemoryLayout(given)
    except ValueError:
        close = did_you_mean(str(given), names)
        hint = "" if close is None else f"did you mean {close!r}? "
        raise LoweringError(f"unknown layout {given!r}", remedy=f"{hint}valid: {', '.join(names)}") from None


def with_lanes(machine: Target, width: int | str, function: ptir.Function) -> Target:
    """The target, with registers of so many lanes of the widest dtype; `native`: as it is."""
    if width == "native":
        return machine
    if not isinstance(width, int) or isinstance(width, bool) or width < 1:
        raise LoweringError(
            f"a vector width of {width!r} makes no sense", remedy='pass a number of lanes from 1, or "native"'
        )
    if width == 1:
        return replace(machine, register_bytes=1, access_bytes=0, folds=(), half_folds=(), masked=False)
    widest = max((value.type.dtype.itemsize for value in function.values()), default=1)
    folds = (width, *(power for power in _POWERS if power < width))
    return replace(machine, register_bytes=width * widest, access_bytes=0, folds=folds, half_folds=())


def in_layout(function: ptir.Function, layout: MemoryLayout) -> ptir.Function:
    """The function whose row-major code is that of a function in a layout."""
    return function if layout is MemoryLayout.ROW_MAJOR else mirrored(function)


class ColumnMajor(Executable):
    """A compiled mirror image, called with the arrays of the function itself."""

    @property
    def builtin(self) -> None:
        """There is none: what it would be given lies the other way."""
        return

    def __call__(self, *arrays: object) -> tuple[Array, ...]:
        """The results, their first index fastest."""
        given = [np.ascontiguousarray(np.asarray(array).T) for array in arrays]
        return tuple(result.T for result in super().__call__(*given))


@dataclass(frozen=True, slots=True)
class LaidOutFunction:
    """The kernels of a function, and how its tensors are stored."""

    function: ptir.Function
    layout: MemoryLayout
    vector_width: VectorWidth
    lowered: Lowered
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

    def _places(self, word: str, values: tuple[ptir.SSAValue, ...]) -> tuple[TensorPlace, ...]:
        return tuple(
            place_of(value.name or f"{word}{number}", value.type, self.layout)
            for number, value in enumerate(values)
        )

    def __str__(self) -> str:
        return self.lowered.as_text("llir")

    def compile(self) -> Executable:
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
        given = [np.array(array.T, order="C") for array in arrays]
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
    function: ptir.Function,
    layout: LayoutName | MemoryLayout = "row_major",
    vector_width: VectorWidth = "native",
    target: str | Target | None = None,
) -> LaidOutFunction:
    """The LLIR of a function."""
    chosen = layout_of(layout)
    machine = (
        target if isinstance(target, Target) else find_target(current().target if target is None else target)
    )
    machine = with_lanes(machine, vector_width, function)
    lowered = lower_function(in_layout(function, chosen), target=machine)
    return LaidOutFunction(function, chosen, vector_width, lowered)


__all__ = ["ColumnMajor", "LaidOutFunction", "in_layout", "layout_of", "lower", "place_of", "with_lanes"]

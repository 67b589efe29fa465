"""How tensors lie in memory, and how many lanes registers have: options of a compilation that change no result.

Column-major code is that of the function's mirror image (`planish.ptir.mirror`): the axes of every tensor reversed, so that its
row-major memory is the column-major memory asked for. An array whose first index runs fastest is taken as it is, any other is
copied; results are such arrays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish import ptir
from planish.compiler.executable import Executable
from planish.errors import LoweringError, did_you_mean
from planish.llir.layout import MemoryLayout
from planish.ptir.mirror import mirrored
from planish.target import Target

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


__all__ = ["ColumnMajor", "in_layout", "layout_of", "with_lanes"]

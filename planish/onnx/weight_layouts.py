"""Layouts of weights: a matrix turned, or cut into panels that a product reads from one end to the other; kernels of convolutions likewise.

Rows of a matrix lie apart, and what a tile of a product needs of each is a few vectors: read so, weights come from memory at half the
speed or less. Laid out as they are read they come at all of it. A weight is laid out once, when a program that wants it so is made or
read from the cache; the layout has a text, so that what was made need not be stored.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish.ptir.library.interpolated_convolution import interpolated

Array = NDArray[Any]
AS_IT_IS: Final = ""


class WeightLayouts:
    """The weights of a model in other layouts, each made once."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[int, str], Array] = {}
        self._sources: dict[int, tuple[Array, str]] = {}
        self._parts: dict[tuple[Any, ...], Array] = {}

    def of(self, source: Array, layout: str) -> Array:
        """A weight in a layout."""
        key = id(source), layout
        if key not in self._arrays:
            array = self._arrays[key] = laid_out(source, layout)
            self._sources[id(array)] = source, layout
        return self._arrays[key]

    def part(self, view: Array) -> Array:
        """A part of a weight: the same array whoever asks."""
        return self._parts.setdefault((view.ctypes.data, view.shape, view.dtype.str), view)

    def source(self, array: Array) -> tuple[Array, str]:
        """What an array was made of, and how it is laid out."""
        return self._sources.get(id(array), (array, AS_IT_IS))


def panels(width: int, *, turned: bool) -> str:
    """(K, N), or if turned (N, K), as (N / width, K, width)."""
    return f"{'turned ' if turned else ''}panels of {width}"


TURNED: Final = "turned"
"""(K, N) as (N, K)."""


def channels(width: int) -> str:
    """The kernel of a convolution (O, I, …) as (O / width, I, …, width)."""
    return f"{_CHANNELS} {width}"


def interpolated_along(axis: int, layout: str = AS_IT_IS) -> str:
    """The kernel of a convolution with its taps along an axis interpolated (`ptir/library/interpolated_convolution.py`), then laid out."""
    return f"{_INTERPOLATED} {axis} {layout}".rstrip()


_INTERPOLATED: Final = "interpolated"
_CHANNELS: Final = "channels of"


def laid_out(source: Array, layout: str) -> Array:
    """A weight in the layout of a text."""
    if layout == TURNED:
        return np.ascontiguousarray(source.T)
    if layout.startswith(_INTERPOLATED):
        _, axis, *rest = layout.split(maxsplit=2)
        array = interpolated(source, int(axis))
        return laid_out(array, *rest) if rest else array
    width = int(layout.rpartition(" ")[2])
    if layout == channels(width):
        outs, *others = source.shape
        array = source.reshape(outs // width, width, -1).transpose(0, 2, 1)
        return np.ascontiguousarray(array).reshape(outs // width, *others, width)
    if layout == panels(width, turned=True):
        columns, rows = source.shape
        return np.ascontiguousarray(source.reshape(columns // width, width, rows).transpose(0, 2, 1))
    if layout != panels(width, turned=False):
        raise ValueError(f"there is no layout {layout!r}")
    rows, columns = source.shape
    return np.ascontiguousarray(source.reshape(rows, columns // width, width).transpose(1, 0, 2))

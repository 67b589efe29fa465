"""Memory as the interpreter sees it: what every buffer holds, what is known of it, and who touched it last.

A register or LOCAL buffer exists in as many copies as there are positions along its private axes. Elements are numbered
flat, copy after copy. Reading what nobody has written is found here, and so are races: two values for one place, or,
between threads of a block, a place that one writes and another touches with no barrier in between.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish.dtypes import DType

Array = NDArray[Any]
Places = NDArray[np.int64]

_NOBODY: Final = -1
_SEVERAL: Final = -2


@dataclass(slots=True)
class Contents:
    """One buffer, all copies of it."""

    name: str
    dtype: DType
    """Of one element."""
    size: int
    """Elements of one copy."""
    data: Array
    known: NDArray[np.bool_]
    """Which elements have a value."""
    stored: NDArray[np.bool_] = field(init=False)
    """Which elements this run has written."""
    shared: bool = False
    """Whether threads of a block share it, so that barriers matter."""
    is_parameter: bool = False
    """Whether the kernel was called with it."""
    under_product: NDArray[np.int32] = field(init=False)
    """Of shared memory: how many products that are under way read an element."""
    in_flight: NDArray[np.bool_] = field(init=False)
    """Of shared memory: which elements an asynchronous store is about to replace."""
    _writer: Places = field(init=False)
    _written: Places = field(init=False)
    _reader: Places = field(init=False)
    _read: Places = field(init=False)

    def __post_init__(self) -> None:
        self.stored = np.zeros(self.data.size, np.bool_)
        count = self.data.size if self.shared else 0
        self.in_flight = np.zeros(count, np.bool_)
        self.under_product = np.zeros(count, np.int32)
        self._writer, self._reader = np.full(count, _NOBODY), np.full(count, _NOBODY)
        self._written, self._read = np.full(count, _NOBODY), np.full(count, _NOBODY)

    def unknown(self, places: Places) -> NDArray[np.bool_]:
        """Which of the places hold nothing yet."""
        return ~self.known[places]

    def clash(self, places: Places, values: Array) -> Places:
        """Of places to be written at once: those that would get two values."""
        distinct, first, group = np.unique(places, return_index=True, return_inverse=True)
        if distinct.size == places.size:
            return places[:0]
        return places[~_same(values, values[first][group])]

    def overwritten(self, places: Places, values: Array) -> Places:
        """Of places to be written: those that this run has given another value before."""
        return places[self.stored[places] & ~_same(self.data[places], values)]

    def write(self, places: Places, values: Array) -> None:
        """Store values; of two for one place the last one stays."""
        self.data[places] = values
        self.known[places] = True
        self.stored[places] = True

    # -- threads -----------------------------------------------------------------------------------------------------

    def hears(self, places: Places, threads: Places, time: int, since: int) -> Places:
        """Places read by threads that another thread has written since the last barrier of both; the reads are remembered."""
        racing = (self._written[places] >= since) & (self._writer[places] != threads)
        others = (self._read[places] == time) & (self._reader[places] != threads)
        self._read[places] = time
        self._reader[places] = threads
        # several threads of this very read may share a place
        shared = self._reader[places] != threads
        self._reader[places[others | shared]] = _SEVERAL
        return np.asarray(places[racing], np.int64)

    def disturbs(self, places: Places, threads: Places, values: Array, time: int) -> Places:
        """Places written by threads that another thread has touched since the last barrier; the writes are remembered."""
        read = (self._read[places] == time) & (self._reader[places] != threads)
        other = (self._written[places] == time) & (self._writer[places] != threads)
        differs = other & ~_same(self.data[places], values)
        self._written[places] = time
        self._writer[places] = threads
        return np.asarray(places[read | differs], np.int64)


def _same(x: Array, y: Array) -> NDArray[np.bool_]:
    """Equal, NaN to NaN."""
    equal = np.asarray(x == y, np.bool_)
    # of every dtype, NaN alone is not equal to itself; the dtypes of ml_dtypes have no isnan
    return equal | (np.not_equal(x, x) & np.not_equal(y, y))

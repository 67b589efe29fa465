"""Storage: the memory that holds the elements of a tensor, on whichever device.

A storage is anything that says where it lies, how large it is, and how to get its elements onto the host. NumPy's arrays do, so
in the host's memory a storage is an array as it is. Nothing else may be asked of a storage that has not been asked for its
array here first: `host` gives it where it is one, `fetched` brings it over where it is not.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]


class Storage(Protocol):
    """The elements of a tensor, row by row, which never change while somebody can see them."""

    @property
    def device(self) -> str:
        """The memory it lies in: `cpu` is the host's."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""

    @property
    def nbytes(self) -> int:
        """The bytes it takes."""

    def copy(self) -> Storage:
        """The same elements in memory of their own, on the same device."""

    def __array__(self) -> Array:
        """The elements in the host's memory: a view where they lie there, else a copy."""


def host(storage: Storage | None) -> Array | None:
    """The array of a storage in the host's memory; None for one elsewhere, and where there is none."""
    return storage if isinstance(storage, np.ndarray) else None


def fetched(storage: Storage) -> Array:
    """The elements as an array that nobody writes to, brought over from other memory."""
    array = storage if isinstance(storage, np.ndarray) else np.asarray(storage)
    array.setflags(write=False)
    return array


def overwritable(storage: Storage) -> bool:
    """Whether memory that only its owner can see may be written to; if so it is opened for that.

    What a call computed is a view of the memory that it was computed in, which nobody else has. Memory of other libraries, and
    views of views, may be seen elsewhere.
    """
    if not isinstance(storage, np.ndarray):
        return True
    base: object = storage.base
    if base is not None and (not isinstance(base, np.ndarray) or base.base is not None):
        return False
    try:
        if isinstance(base, np.ndarray):
            base.flags.writeable = True
        storage.flags.writeable = True
    except ValueError:
        return False
    return True

"""What all formats share: mapping a file, making tensors of its bytes, replacing a file as a whole."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from planish.dtypes import DType
from planish.errors import DTypeError, PlanishError
from planish.frontend.tensor import asarray
from planish.frontend.tensor.array import Tensor

PathLike: TypeAlias = "str | os.PathLike[str]"
Bytes: TypeAlias = NDArray[np.uint8]


class FileFormatError(PlanishError, ValueError):
    """A file that is not what it should be: truncated, forged, or of another format."""


def refuse(path: Path, message: str, remedy: str | None = None) -> FileFormatError:
    """An error about a file."""
    return FileFormatError.at_caller(f"{path}: {message}", remedy)


def mapped(path: Path) -> Bytes:
    """The bytes of a file, read when they are looked at. They must not change while they are in use."""
    if path.stat().st_size == 0:
        raise refuse(path, "the file is empty")
    return np.memmap(path, np.uint8, "r")


def tensor_of(data: Bytes, dtype: DType, shape: tuple[int, ...], path: Path, name: str) -> Tensor:
    """A tensor over bytes of a file; copied only where the file holds them at an odd address."""
    if dtype.is_bool and data.size and int(data.max()) > 1:
        raise refuse(path, f"{name!r} is said to be of bools, but holds other numbers than 0 and 1")
    aligned = data.ctypes.data % dtype.numpy.itemsize == 0
    flat: NDArray[Any] = (data if aligned else data.copy()).view(dtype.numpy)
    try:
        array = flat.reshape(shape)
    except ValueError:  # too many axes, or sizes beside a 0 that no array has
        raise refuse(path, f"{name!r} has a shape that no array has: {str(shape)[:80]}") from None
    return asarray(array.view(np.ndarray), copy=False)


@contextmanager
def replaced(path: PathLike) -> Iterator[IO[bytes]]:
    """A file to write; it takes the place of the old one when all is written.

    Tensors that are still mapped from the old one keep their elements, and an interrupted save leaves it as it was.
    """
    place = Path(path)
    if not place.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder to save in", str(place.parent))
    descriptor, name = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # before the new name is there, so are the bytes
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def checked(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Names and tensors."""
    for name, tensor in cast("Mapping[object, object]", tensors).items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise DTypeError.of(
                "save",
                f"{name!r} is a {type(tensor).__name__}, not a named Tensor",
                "a file holds a dict of tensors, such as module.state_dict()",
            )
    return dict(tensors)

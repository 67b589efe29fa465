"""Tensors that a checkpoint has in parts, in several files: each part with where it begins in the whole."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish import dtypes
from planish.dtypes import DType
from planish.errors import PlanishError
from planish.frontend.tensor import asarray
from planish.frontend.tensor.array import Tensor
from planish.io.files import refuse
from planish.records import dataclass

VERSION: Final = 2
"""Of an index that has such tensors."""
_FILE: Final = re.compile(r"tensors-[\w-]+\.safetensors")
Opened = Callable[[str], Mapping[str, Tensor]]


@dataclass(frozen=True, slots=True)
class FilePart:
    """A part of a tensor: the tensor of the same name in a file, and where it begins."""

    file: str
    start: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Parted:
    """A tensor in parts. What is read of it is read when it is asked for."""

    place: Path
    name: str
    shape: tuple[int, ...]
    dtype: DType
    parts: tuple[FilePart, ...]
    opened: Opened

    def region(self, wanted: Sequence[slice]) -> NDArray[Any]:
        """A box of the whole, out of all parts that overlap with it."""
        sizes = [each.stop - each.start for each in wanted]
        elements = np.empty(sizes, self.dtype.numpy)
        filled = 0
        for part in self.parts:
            file = self.opened(part.file)
            if self.name not in file:
                raise refuse(self.place / part.file, f"{self.name!r}, which the index has here, is missing")
            tensor = file[self.name]
            if tensor.dtype is not self.dtype or len(tensor.shape) != len(self.shape):
                raise refuse(self.place / part.file, f"{self.name!r} is not the part that the index says")
            boxes = [
                (max(box.start, start), min(box.stop, start + size), start)
                for box, start, size in zip(wanted, part.start, tensor.shape, strict=True)
            ]
            if all(low < high for low, high, _ in boxes):
                source = tuple(slice(low - start, high - start) for low, high, start in boxes)
                target = tuple(
                    slice(low - box.start, high - box.start)
                    for (low, high, _), box in zip(boxes, wanted, strict=True)
                )
                elements[target] = np.asarray(tensor)[source]
                filled += math.prod(high - low for low, high, _ in boxes)
        if filled != elements.size:
            raise refuse(self.place, f"the parts of {self.name!r} do not make up the whole of it")
        return elements

    def whole(self) -> Tensor:
        """All of it."""
        return asarray(self.region([slice(0, size) for size in self.shape]))


def region_of(tensor: Parted | Tensor, wanted: tuple[slice, ...]) -> NDArray[Any]:
    """A box of a tensor, however the checkpoint has it."""
    return tensor.region(wanted) if isinstance(tensor, Parted) else np.asarray(tensor)[wanted]


def read(place: Path, index: Path, about: object, opened: Opened) -> dict[str, Parted]:
    """The tensors in parts of an index, which may say anything."""
    if not isinstance(about, dict):
        raise refuse(index, "the index does not say which tensors are in parts")
    return {str(name): _read(place, index, str(name), one, opened) for name, one in about.items()}


def _read(place: Path, index: Path, name: str, about: object, opened: Opened) -> Parted:
    match about:
        case {"shape": list(shape), "dtype": str(dtype), "parts": list(listed)}:
            own = [part for one in listed if (part := _part(one, len(shape))) is not None]
            if len({part.start for part in own}) == len(listed) and all(
                type(n) is int and n >= 0 for n in shape
            ):
                return Parted(place, name, tuple(shape), _dtype(index, dtype), tuple(own), opened)
        case _:
            pass
    raise refuse(index, f"the index does not say how {name!r} is cut")


def _dtype(index: Path, name: str) -> DType:
    try:
        return dtypes.parse(name)
    except PlanishError as error:
        raise refuse(index, f"the index has a dtype that is none: {error.message}") from None


def _part(about: object, rank: int) -> FilePart | None:
    match about:
        case {"file": str(file), "start": list(start)}:
            fits = len(start) == rank and all(type(n) is int and n >= 0 for n in start)
            return FilePart(file, tuple(start)) if fits and _FILE.fullmatch(file) else None
    return None

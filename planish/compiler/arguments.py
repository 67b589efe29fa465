"""The arrays a function is called with: checked against the parameters, made flat, and asked for the sizes they bring.

An array is taken as it is if generated code can read it: in order, aligned, in the machine's byte order. Others (strided,
reversed, misaligned, of foreign byte order) are copied. A named size is known from the first axis that tells it; every other
axis must agree, and bounds hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.errors import DTypeError, ShapeError
from planish.ptir.dims import Dim, DimLike, substitute
from planish.ptir.function import Function
from planish.ptir.types import TensorType

Array = NDArray[Any]


class Arguments:
    """What a function takes and gives, as its caller knows it: complex numbers and quantised integers are what they are."""

    __slots__ = ("function", "is_static", "labels", "names", "results", "types")

    def __init__(self, function: Function) -> None:
        self.function = function.name
        self.types = function.param_types
        self.results = tuple(type.dtype.numpy for type in function.result_types)
        self.labels = tuple(
            f"argument {position}" + (f" ({param.name})" if param.name else "")
            for position, param in enumerate(function.params)
        )
        self.is_static = all(type.is_static for type in self.types)
        self.names = tuple(dict.fromkeys(s.name for type in self.types for s in type.symbols()))
        """The sizes that the arguments bring."""

    def matches(self, function: Function) -> bool:
        """Whether a function takes and gives just that, nothing in another guise."""
        return self.types == function.param_types and self.results == tuple(
            type.dtype.numpy for type in function.result_types
        )

    def check(self, given: Sequence[object]) -> tuple[list[Array], dict[str, int]]:
        """The arrays, and what the named sizes are."""
        if len(given) != len(self.types):
            raise ShapeError(f"{self.function} takes {len(self.types)} arrays, not {len(given)}")
        arrays = [x if isinstance(x, np.ndarray) else np.asarray(x) for x in given]
        for array, type, label in zip(arrays, self.types, self.labels, strict=True):
            if array.dtype != type.dtype.numpy and array.dtype.newbyteorder("=") != type.dtype.numpy:
                raise DTypeError(
                    f"{self.function}: {label} is {array.dtype}{list(array.shape)}, {type} is expected",
                    remedy=f"convert it with .astype({type.dtype.name})",
                )
            if len(array.shape) != len(type.dims):
                raise self._misfit(label, array, type)
        sizes: dict[str, int] = {}
        if self.is_static:
            for array, type, label in zip(arrays, self.types, self.labels, strict=True):
                if array.shape != type.dims:
                    raise self._misfit(label, array, type)
        else:
            shapes = [array.shape for array in arrays]
            learn(self.types, shapes, sizes, [f"{self.function}: {label}" for label in self.labels])
        return arrays, sizes

    def _misfit(self, label: str, array: Array, type: TensorType) -> ShapeError:
        return ShapeError(
            f"{self.function}: {label} is {array.dtype}{list(array.shape)}, {type} is expected",
            remedy="pass an array of that dtype and shape",
        )


def flat(array: Array, dtype: np.dtype[Any], *, own: bool = False) -> Array:
    """An array as kernels read it, its bytes seen as a dtype; without a copy if possible. `own`: it will be written to."""
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned) or (own and not flags.writeable):
        array = np.array(array, order="C")
    found = array.reshape(-1)
    return found if found.dtype == dtype else found.view(dtype)


def learn(
    types: Sequence[TensorType], shapes: Sequence[Sequence[int]], sizes: dict[str, int], labels: Sequence[str]
) -> None:
    """Add what shapes tell about named sizes, or find them in disagreement. Plain names come first, expressions after."""
    for plain in (True, False):
        for type, shape, label in zip(types, shapes, labels, strict=True):
            for axis, (dim, size) in enumerate(zip(type.dims, shape, strict=True)):
                if (isinstance(dim, Dim) and dim.name is not None) is plain:
                    _learn(dim, size, sizes, f"axis {axis} of {label} ({type})")


def _learn(dim: DimLike, size: int, sizes: dict[str, int], what: str) -> None:
    known = substitute(dim, sizes)
    if isinstance(known, Dim):
        name, found = _solve(known, size, what)
        symbol = next(symbol for symbol in known.symbols() if symbol.name == name)
        if not symbol.lo <= found <= symbol.hi:
            raise ShapeError(f"{what} has size {size}: {name} = {found} is outside {symbol.lo}..{symbol.hi}")
        sizes[name] = found
    elif known != size:
        raise ShapeError(f"{what} has size {size}, not {known}{_because(dim, sizes)}")


def _because(dim: DimLike, sizes: Mapping[str, int]) -> str:
    if isinstance(dim, int):
        return ""
    names = sorted({symbol.name for symbol in dim.symbols()})
    return f" ({dim} with {', '.join(f'{name} = {sizes[name]}' for name in names)})"


def _solve(dim: Dim, size: int, what: str) -> tuple[str, int]:
    """The one name that a·name + b = size determines."""
    names = {symbol.name for symbol in dim.symbols()}
    if len(names) == 1:
        name = names.pop()
        offset, at_one = substitute(dim, {name: 0}), substitute(dim, {name: 1})
        if isinstance(offset, int) and isinstance(at_one, int) and at_one != offset:
            found, rest = divmod(size - offset, at_one - offset)
            if rest == 0 and substitute(dim, {name: found}) == size:
                return name, found
    raise ShapeError(
        f"{what} has size {size}, which does not determine {dim}", remedy="use the name itself as a size"
    )

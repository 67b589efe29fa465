"""The arrays a function is called with: checked against the parameters, made flat, and asked for the sizes they bring.

An array is taken as it is if generated code can read it: in order, aligned, in the machine's byte order. Others (strided,
reversed, misaligned, of foreign byte order) are copied. A named size is known from the first axis that tells it; every other
axis must agree, and bounds hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.errors import DTypeError, ShapeError
from planish.ptir.binding import learn
from planish.ptir.function import Function
from planish.ptir.types import TensorType
from planish.runtime.arrays import DeviceArray

Array = NDArray[Any]


class Arguments:
    """What a function takes and gives, as its caller knows it: complex numbers and quantised integers are what they are."""

    __slots__ = ("function", "is_static", "labels", "names", "results", "types")

    def __init__(self, function: Function) -> None:
        self._tell(
            function.name, function.param_types, function.result_types, [p.name for p in function.params]
        )

    @classmethod
    def named(
        cls, name: str, params: Sequence[TensorType], results: Sequence[TensorType], names: Sequence[str] = ()
    ) -> Arguments:
        """Of a function whose body is not at hand; its parameters are `x0`, `x1` … if nobody says."""
        arguments = cls.__new__(cls)
        arguments._tell(name, params, results, names or [f"x{n}" for n in range(len(params))])
        return arguments

    def _tell(
        self,
        name: str,
        params: Sequence[TensorType],
        results: Sequence[TensorType],
        names: Sequence[str | None],
    ) -> None:
        self.function = name
        self.types = tuple(params)
        self.results = tuple(type.dtype.numpy for type in results)
        self.labels = tuple(
            f"argument {position}" + (f" ({label})" if label else "") for position, label in enumerate(names)
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
        arrays: list[Any] = [x if isinstance(x, np.ndarray | DeviceArray) else np.asarray(x) for x in given]
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
    elements = array.reshape(-1)
    return elements if elements.dtype == dtype else elements.view(dtype)


__all__ = ["Arguments", "DeviceArray", "flat"]

"""Methods of tensors that NumPy's arrays have, each a function of the API; and how NumPy's own functions reach them.

`np.sin(x)` and `np.mean(x)` of a tensor are planish's `sin` and `mean` where it has one of that name that takes the same
arguments; any other function of NumPy gets the elements.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from planish.errors import DTypeError, Location

if TYPE_CHECKING:
    from planish.dtypes import DType
    from planish.frontend.tensor.array import Axis, Scalar, Tensor
    from planish.frontend.tensor.operands import DTypeLike

_PACKAGE: Final = __name__.split(".", maxsplit=1)[0]
_UPDATES: Final = {"add": "add", "multiply": "multiply", "maximum": "max", "minimum": "min"}
"""NumPy's functions whose `.at` is an update of `x.at[i]`."""
_REDUCTIONS: Final = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any",
}  # fmt: skip
_ACCUMULATIONS: Final = {
    "add": "cumsum", "multiply": "cumprod", "maximum": "cumulative_max", "minimum": "cumulative_min",
    "logaddexp": "cumulative_logsumexp",
}  # fmt: skip
_ROOMS: Final = {"numpy": "", "numpy.linalg": ".linalg", "numpy.fft": ".fft"}
"""Where the functions of NumPy's modules are found."""


def _api() -> ModuleType:
    return importlib.import_module(_PACKAGE)


class ArrayMethods:
    """What a tensor has because arrays of NumPy have it."""

    __slots__ = ()

    # --- NumPy's protocols ---

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        name: str | None = ufunc.__name__
        if method == "reduce":
            name = _REDUCTIONS.get(ufunc.__name__)
            options.setdefault("axis", 0)
        elif method == "accumulate":
            name = _ACCUMULATIONS.get(ufunc.__name__)
            options.setdefault("axis", 0)
        elif method == "at" and isinstance(inputs[0], ArrayMethods):
            return _update_at(ufunc.__name__, *inputs)
        elif method != "__call__":
            name = None
        given = {key: value for key, value in options.items() if key != "out"}
        if any(target is not None for target in options.get("out", ())):
            return NotImplemented
        ours: Any = getattr(_api(), name, None) if name else None
        if _takes(ours, inputs, given):
            return ours(*inputs, **given)
        return _on_elements(getattr(ufunc, method), f"{ufunc.__name__}.{method}", inputs, given)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        room = _ROOMS.get(function.__module__)
        if room is not None:
            ours: Any = getattr(importlib.import_module(_PACKAGE + room), function.__name__, None)
            if _takes(ours, args, kwargs):
                return ours(*args, **kwargs)
        return _on_elements(function, function.__name__, args, kwargs)

    # --- methods ---

    def argpartition(self, kth: int, axis: int = -1) -> Tensor:
        """Positions that put the smallest `kth` first along an axis."""
        return _call("argpartition", self, kth, axis)

    def byteswap(self) -> Tensor:
        """The bytes of every element the other way round."""
        return _call("asarray", cast("Tensor", self).numpy().byteswap())

    def choose(self, choices: Sequence[Tensor | Scalar], mode: str = "raise") -> Tensor:
        """The element of the choice that each index names."""
        return _call("choose", self, choices, mode=mode)

    def compress(self, condition: Tensor | Sequence[bool], axis: int | None = None) -> Tensor:
        """The slices along an axis where a condition holds."""
        return _call("compress", condition, self, axis)

    def partition(self, kth: int, axis: int = -1) -> None:
        """Put the smallest `kth` first along an axis: the name stands for them from now on."""
        cast("Tensor", self)[...] = _call("partition", self, kth, axis)

    def argsort(self, axis: int = -1) -> Tensor:
        """Positions that sort along an axis."""
        return _call("argsort", self, axis)

    def conj(self) -> Tensor:
        """Complex conjugates."""
        return _call("conj", self)

    conjugate = conj

    def copy(self) -> Tensor:
        """The same elements under a name of their own."""
        return _call("copy", self)

    def cumsum(self, axis: int | None = None, dtype: DType | None = None) -> Tensor:
        """Running sums."""
        return _call("cumsum", self, axis, dtype)

    def cumprod(self, axis: int | None = None, dtype: DType | None = None) -> Tensor:
        """Running products."""
        return _call("cumprod", self, axis, dtype)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """The elements of a diagonal."""
        return _call("diagonal", self, offset, axis1, axis2)

    def dot(self, other: Tensor, /) -> Tensor:
        """The product with another."""
        return _call("dot", self, other)

    def fill(self, value: Scalar, /) -> None:
        """Assign one number to all elements."""
        cast("Tensor", self)[...] = value

    @property
    def flat(self) -> Tensor:
        """The elements in row-major order."""
        return _call("ravel", self)

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return cast("Tensor", self).dtype.itemsize

    def nonzero(self) -> tuple[Tensor, ...]:
        """Positions of the elements that are not zero."""
        return cast("tuple[Tensor, ...]", _call("nonzero", self))

    def ptp(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """The distance from the smallest to the greatest."""
        return _call("ptp", self, axis, keepdims=keepdims)

    def ravel(self) -> Tensor:
        """One axis."""
        return _call("ravel", self)

    def repeat(self, repeats: int | Tensor, axis: int | None = None) -> Tensor:
        """Elements repeated."""
        return _call("repeat", self, repeats, axis)

    def round(self, decimals: int = 0) -> Tensor:
        """Rounded to decimals."""
        return _call("round", self, decimals)

    def view(self, *given: int | tuple[int, ...] | DTypeLike) -> Tensor:
        """The same bits as another dtype, or the same elements in another shape."""
        if len(given) == 1 and not isinstance(given[0], int | tuple | list):
            return _call("bitcast", self, given[0])
        return cast("Tensor", self).reshape(*cast("tuple[int, ...]", given))

    def searchsorted(self, values: Tensor | Scalar, side: str = "left") -> Tensor:
        """Where values belong in this ascending vector."""
        return _call("searchsorted", self, values, side=side)

    def sort(self, axis: int = -1) -> None:
        """Sort along an axis: the name stands for the sorted elements from now on."""
        cast("Tensor", self)[...] = _call("sort", self, axis)

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """Two axes exchanged."""
        return _call("swapaxes", self, axis1, axis2)

    def take(self, indices: Tensor | Sequence[int], axis: int | None = None) -> Tensor:
        """Elements along an axis by position."""
        return _call("take", self, indices, axis)

    def tobytes(self) -> bytes:
        """The elements as bytes, in row-major order."""
        return cast("Tensor", self).numpy().tobytes()

    def tofile(self, file: Any) -> None:
        """Write the elements as bytes."""
        cast("Tensor", self).numpy().tofile(file)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """The sum of a diagonal."""
        return _call("trace", self, offset, axis1, axis2)

    # --- what people know from torch ---

    def permute(self, *axes: int) -> Tensor:
        """Axes in another order."""
        return _call("permute_dims", self, axes)

    def unsqueeze(self, axis: int) -> Tensor:
        """With an axis of size 1."""
        return _call("expand_dims", self, axis)

    def expand(self, *shape: int) -> Tensor:
        """Axes of size 1 repeated; -1 keeps a size."""
        sizes = cast("Tensor", self).shape
        lead = len(shape) - len(sizes)
        wanted = [sizes[at - lead] if size == -1 else size for at, size in enumerate(shape)]
        return _call("broadcast_to", self, tuple(wanted))

    def abs(self) -> Tensor:
        """Absolute values."""
        return _call("abs", self)

    def exp(self) -> Tensor:
        """Exponentials."""
        return _call("exp", self)

    def log(self) -> Tensor:
        """Natural logarithms."""
        return _call("log", self)

    def sqrt(self) -> Tensor:
        """Square roots."""
        return _call("sqrt", self)

    def tanh(self) -> Tensor:
        """Hyperbolic tangents."""
        return _call("tanh", self)

    def matmul(self, other: Tensor, /) -> Tensor:
        """The matrix product."""
        return _call("matmul", self, other)


def _call(name: str, *args: Any, **kwargs: Any) -> Tensor:
    return cast("Tensor", getattr(_api(), name)(*args, **kwargs))


_signature = lru_cache(maxsize=1024)(inspect.signature)


def _takes(ours: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether planish's function of that name has such arguments."""
    if not callable(ours) or isinstance(ours, type):
        return False
    try:
        _signature(ours).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _update_at(name: str, x: Any, at: Any, *values: Any) -> None:
    """`np.add.at(x, i, v)`: the name stands for the updated tensor from now on. (NumPy would write even where it may not.)"""
    update = _UPDATES.get(name)
    if update is None or len(values) != 1:
        raise DTypeError(
            f"numpy.{name}.at writes into a tensor, which has no such update",
            op=name,
            location=Location.caller(),
            remedy=f"numpy.{', '.join(_UPDATES)} have; x.numpy().copy() is an array to write into",
        )
    x[...] = getattr(x.at[at], update)(*values)


def _on_elements(function: Callable[..., Any], name: str, args: Any, options: Any) -> Any:
    """A function of NumPy on the elements of tensors. One that writes into its argument would write where nobody looks."""
    try:
        return function(*_elements(args), **_elements(options))
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise DTypeError(
            f"numpy.{name} writes into a tensor, which NumPy cannot",
            op=name,
            location=Location.caller(),
            remedy="x[i] = v and x.at[i].add(v) do; x.numpy().copy() is an array to write into",
        ) from error


def _elements(given: Any) -> Any:
    """Tensors in arguments as arrays that cannot be written to."""
    if isinstance(given, ArrayMethods):
        array = np.asarray(given).view()
        array.flags.writeable = False
        return array
    if isinstance(given, list | tuple):
        return type(given)([_elements(one) for one in given])
    if isinstance(given, dict):
        return {key: _elements(value) for key, value in given.items()}
    return given

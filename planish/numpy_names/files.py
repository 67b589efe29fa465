"""What NumPy reads, writes, prints and asks of types, for tensors."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any, BinaryIO

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.errors import DTypeError, PlanishError
from planish.frontend.tensor import functions as api
from planish.frontend.tensor.array import Scalar, Tensor
from planish.frontend.tensor.operands import DTypeLike, as_dtype, tensor


def _numpy_dtype(given: DTypeLike | None) -> Any:
    return None if given is None else as_dtype(given).numpy


def _read_by(name: str) -> Callable[..., Tensor]:
    read = getattr(np, name)

    def function(
        source: Any, /, dtype: DTypeLike = dtypes.float64, count: int = -1, **options: Any
    ) -> Tensor:
        return api.asarray(read(source, dtype=_numpy_dtype(dtype), count=count, **options))

    function.__name__, function.__qualname__ = name, name
    function.__doc__ = f"A tensor of what `numpy.{name}` reads."
    return function


frombuffer, fromfile, fromiter, fromstring = map(
    _read_by, ("frombuffer", "fromfile", "fromiter", "fromstring")
)


def _storable(name: str, x: object) -> Any:
    """The elements, of a dtype that NumPy's files have."""
    given = tensor(name, x)
    if given.dtype.numpy.kind == "V" or given.dtype.numpy.isbuiltin != 1:
        raise DTypeError.of(
            name,
            f"NumPy's files have no {given.dtype.name}",
            "planish.io.save writes safetensors, or convert it to float32",
        )
    return np.asarray(given)


def save(file: str | PathLike[str] | BinaryIO, x: Tensor, /) -> None:
    """One tensor to a `.npy` file."""
    np.save(file, _storable("save", x), allow_pickle=False)


def savez(file: str | PathLike[str] | BinaryIO, /, *args: Tensor, **named: Tensor) -> None:
    """Several tensors to a `.npz` file."""
    arrays = [_storable("savez", x) for x in args]
    np.savez(file, *arrays, allow_pickle=False, **{name: _storable("savez", x) for name, x in named.items()})


def load(file: str | PathLike[str] | BinaryIO, /) -> Tensor | dict[str, Tensor]:
    """What `save` or `savez` wrote; nothing is unpickled."""
    try:
        content = np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise PlanishError.of(
            "load", str(error), "it reads .npy and .npz files; planish.io.load reads other formats"
        ) from None
    if isinstance(content, np.ndarray):
        return api.asarray(content)
    with content:
        return {name: api.asarray(content[name]) for name in content.files}


def array_repr(x: Tensor, /) -> str:
    """As Python shows it."""
    return repr(tensor("array_repr", x))


def array_str(x: Tensor, /) -> str:
    """The elements alone."""
    return np.array2string(np.asarray(tensor("array_str", x)))


get_printoptions, set_printoptions, printoptions = np.get_printoptions, np.set_printoptions, np.printoptions


def ndim(x: Any, /) -> int:
    """The number of axes."""
    return tensor("ndim", x).ndim


def shape(x: Any, /) -> tuple[int, ...]:
    """The size of each axis."""
    return tensor("shape", x).shape


def size(x: Any, /, axis: int | None = None) -> int:
    """The number of elements, or the size of an axis."""
    given = tensor("size", x)
    return given.size if axis is None else given.shape[axis]


def iterable(x: object, /) -> bool:
    """Whether it can be iterated over."""
    return x.ndim > 0 if isinstance(x, Tensor) else np.iterable(x)


def issubdtype(kind: Any, family: Any, /) -> bool:
    """Whether a dtype belongs to a family such as `planish.floating`."""
    first, second = (one.numpy if isinstance(one, DType) else one for one in (kind, family))
    if isinstance(kind, DType) and kind.is_float and isinstance(family, type):
        return issubclass(np.floating, family)  # NumPy does not count bfloat16 and float8 among floats
    return bool(np.issubdtype(first, second))


def promote_types(type1: DTypeLike, type2: DTypeLike, /) -> DType:
    """The dtype that holds both."""
    return api.result_type(as_dtype(type1), as_dtype(type2))


def geomspace(
    start: Scalar | Tensor,
    stop: Scalar | Tensor,
    /,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Tensor:
    """Numbers with one ratio between neighbours, from start to stop; between tensors along a new axis."""
    given = [tensor("geomspace", x) for x in (start, stop)]
    if all(x.ndim == 0 for x in (start, stop) if isinstance(x, Tensor)) and all(x.ndim == 0 for x in given):
        ends = [float(x) for x in given]
        if ends[0] * ends[1] <= 0:
            raise PlanishError.of(
                "geomspace",
                f"no ratio leads from {ends[0]:g} to {ends[1]:g}",
                "both ends have one sign and are not 0",
            )
    first, last = (api.astype(x, dtypes.float64) for x in given)
    exponents = api.linspace(
        api.log10(api.abs(first)), api.log10(api.abs(last)), num, endpoint, dtype=dtypes.float64
    )
    at = api.reshape(api.arange(num), (num, *[1] * (exponents.ndim - 1)))
    line = api.where(at == 0, first, api.sign(first) * 10.0**exponents)  # the ends are themselves
    line = api.where(at == num - 1, last, line) if endpoint and num > 1 else line
    floats = [x.dtype for x in given if x.dtype.is_float and x.ndim]
    kind = (
        as_dtype(dtype) if dtype is not None else dtypes.promote(*floats) if floats else dtypes.DEFAULT_FLOAT
    )
    return api.astype(api.moveaxis(line, 0, axis), kind)


__all__ = [
    "array_repr", "array_str", "frombuffer", "fromfile", "fromiter", "fromstring", "geomspace", "get_printoptions", "issubdtype",
    "iterable", "load", "ndim", "printoptions", "promote_types", "save", "savez", "set_printoptions", "shape", "size",
]  # fmt: skip

"""Data in and out: NumPy, Python lists, DLPack, pickling, printing, devices.

Data given to `asarray` is copied, so that nothing done to the source later can change a result; `copy=False` and `from_dlpack`
share it. What leaves by `numpy()` is a copy, what leaves by `__array__` or DLPack a read-only view: elements of a tensor never
change.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from planish import dtypes
from planish.dtypes import DType
from planish.errors import DTypeError, GraphError, Location, PlanishError, ShapeError
from planish.frontend import devices, tree
from planish.frontend.expression import LazyValue, Parameter
from planish.frontend.session import evaluate, tensor_type
from planish.frontend.storage import Array
from planish.frontend.tensor.array import Nested, Scalar, Tensor
from planish.frontend.tensor.operands import DTypeLike, as_dtype, cast_to, from_data, mistake

API_VERSION: Final = "2025.12"
VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
DLPACK_CPU: Final = (1, 0)
"""DLPack's name for the memory of the host."""
DLPACK_CUDA: Final = (2, 13)
"""Its names for the memory of NVIDIA's GPUs, and for memory that the host shares with them."""


class SupportsDLPack(Protocol):
    """An array of another library."""

    def __dlpack__(self) -> object: ...


# --- in ---------------------------------------------------------------------------------------------------


def asarray(
    obj: ArrayLike | Tensor | SupportsDLPack | Sequence[Any],
    /,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    copy: bool | None = None,
) -> Tensor:
    """A tensor of numbers, of nested sequences, or of another library's array.

    Arrays are copied: later changes to the source do not show. With `copy=False` they are shared, or refused if that cannot be.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    place = None if device is None else devices.checked(device)
    if isinstance(obj, Tensor):
        return _of_tensor(obj, wanted, place, copy)
    if isinstance(obj, list | tuple) and _holds_tensors(obj):
        return _of_tensors(obj, wanted, place)
    if _is_on_gpu(obj):
        return _of_tensor(
            from_dlpack(cast("SupportsDLPack", obj), copy=copy is not False), wanted, place, copy
        )
    moved = place is not None and not devices.find(place).is_host
    array = _as_numpy(obj, wanted, copy, moved=moved)
    if array.dtype.kind in "OUSVM" and not dtypes_known(array.dtype):
        raise mistake(
            DTypeError,
            "asarray",
            f"the data is not a rectangular array of numbers (NumPy calls it {array.dtype})",
            "all rows must have the same length and hold numbers",
        )
    is_python = not isinstance(obj, np.ndarray | np.generic) and not hasattr(obj, "__array__")
    is_python = is_python and not hasattr(obj, "__dlpack__") and not _is_buffer(obj)
    if wanted is None and is_python and array.dtype.kind in "fc":
        default = dtypes.DEFAULT_FLOAT if array.dtype.kind == "f" else dtypes.DEFAULT_COMPLEX
        array = array.astype(default.numpy)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    try:
        found = dtypes.from_numpy(array.dtype)
    except PlanishError as error:
        error.location = error.location or Location.caller()
        raise
    if copy is not False and not moved:
        array.flags.writeable = False
    return _of_array(array, found, place, shared=copy is False)


def dtypes_known(dtype: np.dtype[Any]) -> bool:
    """Whether a NumPy dtype is one of ours; those of ml_dtypes call themselves void."""
    try:
        dtypes.from_numpy(dtype)
    except PlanishError:
        return False
    return True


def _of_tensor(x: Tensor, dtype: DType | None, device: str | None, copy: bool | None) -> Tensor:
    changes = dtype is not None and dtype is not x.dtype
    if copy is False and changes:
        raise ValueError(f"asarray: {x.dtype.name} cannot become {dtype} without a copy")
    result = cast_to(x, dtype) if dtype is not None and changes else x
    if device is not None and device != x.device:
        result = to_device(result, device)
    return x.snapshot() if result is x and copy else result


def _holds_tensors(obj: Sequence[Any]) -> bool:
    return any(
        isinstance(one, Tensor) or (isinstance(one, list | tuple) and _holds_tensors(one)) for one in obj
    )


def _of_tensors(obj: Sequence[Any], dtype: DType | None, device: str | None) -> Tensor:
    """Nested sequences with tensors in them are stacked, so that this can be traced."""
    from planish.frontend.tensor.manipulation import stack

    return stack([asarray(one, dtype=dtype, device=device) for one in obj])


def _is_buffer(obj: object) -> bool:
    try:
        memoryview(obj)  # type: ignore[arg-type] # that is the question
    except TypeError:
        return False
    return True


def _as_numpy(obj: Any, dtype: DType | None, copy: bool | None, *, moved: bool) -> Array:
    """The elements in the host's memory: a copy, unless they are moved from there anyway, or are to be shared."""
    target = None if dtype is None else dtype.numpy
    if hasattr(obj, "__dlpack__") and not hasattr(obj, "__array__"):
        obj = np.from_dlpack(obj)
    if copy is False:
        return np.array(obj, dtype=target, copy=False)
    try:
        source = np.asarray(obj)
        if target is not None and source.dtype.kind == "c" and target.kind != "c":
            raise mistake(DTypeError, "asarray", f"complex data cannot become {dtype}", "take its real part")
        if target is not None and isinstance(obj, int | list | tuple) and target.kind in "iu":
            return np.array(obj, dtype=target)  # out of range is an error
        return np.array(source, dtype=target, order="C", copy=None if moved else True)
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, PlanishError):
            raise
        kind = ShapeError if "inhomogeneous" in str(error) else DTypeError
        raise mistake(kind, "asarray", str(error)) from None


def from_dlpack(x: SupportsDLPack, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """Another library's array, sharing its memory unless `copy=True`: changes made there show here."""
    if isinstance(x, Tensor):
        return asarray(x, device=device, copy=copy)
    if _is_on_gpu(x):
        shared = _of_gpu(x, copy)
        return shared if device is None else to_device(shared, device)
    given = np.from_dlpack(cast("Any", x), copy=copy)
    found = dtypes.from_numpy(given.dtype)
    place = None if device is None else devices.checked(device)
    return _of_array(given, found, place, shared=copy is not True)


def _is_on_gpu(x: object) -> bool:
    """Whether it is an array of another library that says it is on a GPU."""
    asked = None if isinstance(x, np.ndarray) else getattr(x, "__dlpack_device__", None)
    return asked is not None and int(asked()[0]) in DLPACK_CUDA


def _of_gpu(x: Any, copy: bool | None) -> Tensor:
    """Its memory, or a copy; one is needed where it is not in row-major order."""
    from planish.compiler.gpu import borrowed

    array, strides = borrowed(x)
    if strides is not None and copy is False:
        raise BufferError(
            "an array that is not in row-major order cannot be shared: allow a copy, or make it contiguous"
        )
    storage = array.copy() if copy and strides is None else array
    type = tensor_type(dtypes.from_numpy(array.dtype), array.shape)
    found = Tensor(LazyValue.of(type, storage, device=devices.checked(array.device), shared=not copy))
    if strides is None:
        return found
    from planish.frontend.tensor.creation import arange
    from planish.frontend.tensor.indexing import take
    from planish.frontend.tensor.manipulation import reshape

    index = arange(1, dtype=dtypes.int64, device=array.device)
    for axis, (size, stride) in enumerate(zip(x.shape, strides, strict=True)):
        steps = arange(size, dtype=dtypes.int64, device=array.device) * stride
        index = index + reshape(steps, (size, *[1] * (len(strides) - axis - 1)))
    gathered = reshape(take(found, reshape(index, (-1,)), axis=0), tuple(x.shape))
    evaluate([gathered._value])  # now: what it is made of is another library's
    return gathered


def _of_array(array: Array, dtype: DType, device: str | None, shared: bool) -> Tensor:
    type, storage = tensor_type(dtype, array.shape), devices.placed(array, device)
    return Tensor(LazyValue.of(type, storage, device=device, shared=shared))


def to_dlpack(
    x: Tensor,
    stream: int | None,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> object:
    """A capsule for another library."""
    wanted = None if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
    if dlpack_device(x) != DLPACK_CPU and wanted != DLPACK_CPU:
        return _from_gpu(x, stream, max_version, wanted, copy)
    if stream is not None:
        raise ValueError(f"a tensor on {x.device} has no stream")
    if wanted not in {None, DLPACK_CPU}:
        raise BufferError(f"a tensor on {x.device} cannot be exported to device {wanted}")
    shared = x._data()
    if max_version is None or max_version[0] < 1:
        # the old protocol cannot say "read-only"
        return (shared.copy() if copy is not False else _writable(shared)).__dlpack__()
    given = shared.copy() if copy else shared
    return given.__dlpack__(max_version=max_version)


def dlpack_device(x: Tensor) -> tuple[int, int]:
    """Where its elements are, as DLPack names it."""
    kind, _, number = x.device.partition(":")
    return (DLPACK_CUDA[0], int(number)) if kind == devices.CUDA else DLPACK_CPU


def _from_gpu(
    x: Tensor,
    stream: int | None,
    max_version: tuple[int, int] | None,
    wanted: tuple[int, int] | None,
    copy: bool | None,
) -> object:
    from planish.compiler.gpu import lent

    if wanted not in {None, dlpack_device(x)}:
        raise BufferError(
            f"a tensor on {x.device} cannot be exported to device {wanted}: move it first, x.to_device(…)"
        )
    versioned = max_version is not None and max_version[0] >= 1
    return lent(_gpu_array(x, copy), stream, versioned=versioned, read_only=not copy)


def _gpu_array(x: Tensor, copy: bool | None = None) -> Any:
    """The array on the GPU that holds the elements; others may see it from now on."""
    value = x._value
    evaluate([value])
    value.shared = True
    storage = cast("Any", value.storage)
    if isinstance(storage, np.ndarray):  # a constant that nobody has moved yet
        storage = value.storage = devices.find(x.device).moved(storage)
    return storage.copy() if copy else storage


def cuda_array_interface(x: Tensor) -> dict[str, Any]:
    """For libraries that know no DLPack."""
    if dlpack_device(x) == DLPACK_CPU:
        raise AttributeError(f"a tensor on {x.device} has no __cuda_array_interface__")
    from planish.compiler.gpu import interface

    return interface(_gpu_array(x))


def _writable(array: Array) -> Array:
    """The same memory for a consumer that insists on it and cannot be told that it must not be written to."""
    chain = [array]
    while isinstance(chain[-1].base, np.ndarray):
        chain.append(chain[-1].base)
    closed = [link for link in reversed(chain) if not link.flags.writeable]
    try:
        for link in closed:
            link.flags.writeable = True
        return array.view()
    except ValueError:
        raise BufferError("this memory is read-only: ask for max_version=(1, 0), or for a copy") from None
    finally:
        for link in closed:
            link.flags.writeable = False


def rebuilt(array: Array, device: str | None) -> Tensor:
    """A tensor that was pickled."""
    return from_data(array, device)


def to_device(x: Tensor, device: str, stream: int | None = None) -> Tensor:
    """The same elements on another device."""
    target = devices.checked(device)
    if stream is not None:
        raise ValueError(f"device {target} has no streams")
    value = x._value
    if value.device == target or isinstance(value, Parameter):  # a call decides where its arguments are
        return x.snapshot()
    if value.device is not None and value.storage is None:
        evaluate([value])
    storage = None if value.storage is None else devices.find(target).moved(value.storage)
    value.shared = True
    return Tensor(
        LazyValue.of(value.type, storage, node=value.node, index=value.index, device=target, shared=True)
    )


# --- out --------------------------------------------------------------------------------------------------


def python_number(array: Array, dtype: DType) -> Scalar:
    """The only element as a Python number."""
    value = array.item()
    if isinstance(value, bool | int | float | complex):
        return value
    return int(value) if dtype.is_int else float(value)


def python_list(array: Array, dtype: DType) -> Nested:
    """The elements as nested lists."""
    if array.dtype.kind == "V":  # ml_dtypes: its numbers stay what they are in tolist
        array = array.astype(np.int64 if dtype.is_int else np.float64)
    found: Nested = array.tolist()
    return found


def realize(*trees: object) -> None:
    """Compute the elements of tensors (or containers of them) now, all in one plan."""
    evaluate([leaf._value for given in trees for leaf in tree.leaves(given) if isinstance(leaf, Tensor)])


def represent(x: Tensor) -> str:
    """Values, shape, dtype, device; what is traced has no values yet."""
    about = f"shape={x.shape}, dtype={x.dtype.name}, device={x.device!r}"
    known = x._value.storage is not None  # asked outside: what was donated has no answer
    try:
        elements = x._elements(None)
    except GraphError:
        if known:
            raise
        return f"Tensor(<traced>, {about})"
    shown = np.array2string(elements, separator=", ", prefix="Tensor(", threshold=200)
    return f"Tensor({shown}, {about})"


def array_namespace(api_version: str | None = None) -> ModuleType:
    """planish, if it speaks that version of the standard."""
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(f"planish has no array API {api_version!r}; it has {', '.join(VERSIONS)}")
    return importlib.import_module(__name__.split(".", maxsplit=1)[0])


__all__ = [
    "asarray", "from_dlpack",
]  # fmt: skip

"""Data in and out: NumPy, Python lists, DLPack, pickling, printing, devices.

Data given to `asarray` is copied, so that nothing done to the source later can change a result; `copy=False` and `from_dlpack`
share it. What leaves by `numpy()` is a copy, what leaves by `__array__` or DLPack a read-only view: elements of a tensor never
change.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from planish import dtypes
from planish.dtypes import DType
from planish.errors import DTypeError, GraphError, Location, PlanishError, ShapeError
from planish.frontend import devices, tree
from planish.frontend.expression import LazyValue
from planish.frontend.session import evaluate, tensor_type
from planish.frontend.storage import Array
from planish.frontend.tensor.array import Nested, Scalar, Tensor
from planish.frontend.tensor.face import public
from planish.frontend.tensor.foreign import host_view, is_foreign
from planish.frontend.tensor.interchange import is_on_gpu, of_gpu
from planish.frontend.tensor.operands import DTypeLike, as_dtype, cast_to, from_data, tensor
from planish.frontend.tensor.weak import WeakTensor
from planish.ptir import ops
from planish.ptir.dims import Dim

VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")

_REMEDIES: Final = {
    "M": "dates as numbers: x.astype('int64') counts them in their unit",
    "m": "spans of time as numbers: x.astype('int64') counts them in their unit",
    "U": "text is no number: a table gives its words some (columns of pandas: x.astype('category').cat.codes)",
    "O": "all rows must have the same length and hold numbers; of a column of categories take x.cat.codes, without missing values x.dropna()",
}
"""What to do with data that is none, by NumPy's kind."""


class SupportsDLPack(Protocol):
    """An array of another library."""

    def __dlpack__(self) -> object: ...


# --- in ---------------------------------------------------------------------------------------------------


def asarray(
    obj: ArrayLike | Tensor | SupportsDLPack | Sequence[Any] | Dim,
    /,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
    copy: bool | None = None,
) -> Tensor:
    """A tensor of numbers, of nested sequences, or of another library's array.

    Arrays are copied: later changes to the source do not show. With `copy=False` they are shared, or refused if that cannot be.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    place = None if device is None else devices.checked(device)
    if isinstance(obj, Dim) or (isinstance(obj, WeakTensor) and wanted is None):
        obj = tensor("asarray", obj)
    if isinstance(obj, Tensor):
        return _of_tensor(obj, wanted, place, copy)
    if isinstance(obj, list | tuple) and _holds_tensors(obj):
        return _of_tensors(obj, wanted, place)
    if is_on_gpu(obj):
        return _of_tensor(
            from_dlpack(cast("SupportsDLPack", obj), copy=copy is not False), wanted, place, copy
        )
    moved = place is not None and not devices.find(place).is_host
    array = _as_numpy(obj, wanted, copy, moved=moved)
    if array.dtype.kind in "OUSVM" and not dtypes_known(array.dtype):
        raise DTypeError.of(
            "asarray",
            f"the data is not a rectangular array of numbers (NumPy calls it {array.dtype})",
            _REMEDIES.get(array.dtype.kind, "all rows must have the same length and hold numbers"),
        )
    is_python = not isinstance(obj, np.ndarray | np.generic) and not hasattr(obj, "__array__")
    is_python = is_python and not hasattr(obj, "__dlpack__") and not _is_buffer(obj)
    if wanted is None and is_python and array.dtype.kind in "fc":
        default = dtypes.DEFAULT_FLOAT if array.dtype.kind == "f" else dtypes.DEFAULT_COMPLEX
        array = array.astype(default.numpy)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    try:
        own_dtype = dtypes.from_numpy(array.dtype)
    except PlanishError as error:
        error.location = error.location or Location.caller()
        raise
    if copy is not False and not moved:
        array.flags.writeable = False
    return _of_array(array, own_dtype, place, shared=copy is False)


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
    result = x if dtype is None else cast_to(x, dtype)
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
    if is_foreign(type(obj)):
        obj = host_view("asarray", obj)
    if copy is False:
        return np.array(obj, dtype=target, copy=False)
    try:
        source = np.asarray(obj)
        if target is not None and source.dtype.kind == "c" and target.kind != "c":
            raise DTypeError.of("asarray", f"complex data cannot become {dtype}", "take its real part")
        if target is not None and isinstance(obj, int | list | tuple) and target.kind in "iu":
            return np.array(obj, dtype=target)  # out of range is an error
        return np.array(source, dtype=target, order="C", copy=None if moved else True)
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, PlanishError):
            raise
        kind = ShapeError if "inhomogeneous" in str(error) else DTypeError
        raise kind.of("asarray", str(error)) from None


def from_dlpack(x: SupportsDLPack, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """Another library's array, sharing its memory unless `copy=True`: changes made there show here."""
    if isinstance(x, Tensor):
        return asarray(x, device=device, copy=copy)
    if is_on_gpu(x):
        shared = of_gpu(x, copy)
        return shared if device is None else to_device(shared, device)
    given = host_view("from_dlpack", x)
    given = given.copy() if copy else given
    own_dtype = dtypes.from_numpy(given.dtype)
    place = None if device is None else devices.checked(device)
    return _of_array(given, own_dtype, place, shared=copy is not True)


def borrowed(op: str, x: Any) -> Tensor:
    """An array of another library as an argument of a call: in place, wherever it lies."""
    if is_on_gpu(x):
        return of_gpu(x, None)
    array = host_view(op, x)
    if array.dtype.kind in "OUSMm" or not array.dtype.isnative:
        return asarray(array)  # which converts it, or says what is wrong
    return _of_array(array, dtypes.from_numpy(array.dtype), None, shared=True)


def _of_array(array: Array, dtype: DType, device: str | None, shared: bool) -> Tensor:
    type, storage = tensor_type(dtype, array.shape), devices.placed(array, device)
    return Tensor(LazyValue.of(type, storage, device=device, shared=shared))


def rebuilt(array: Array, device: str | None) -> Tensor:
    """A tensor that was pickled."""
    return from_data(array, device)


def to_device(x: Tensor, device: str, stream: int | None = None) -> Tensor:
    """The same elements on another device."""
    target = devices.checked(device)
    if stream is not None:
        raise ValueError(f"device {target} has no streams")
    value = x._value
    if value.device == target:
        return x.snapshot()
    if value.scope is not None:  # a step of the function that is being traced
        return _copied_by_a_step(x, target)
    if value.device is not None and value.storage is None:
        evaluate([value])
    storage = None if value.storage is None else devices.find(target).moved(value.storage)
    value.shared = True
    number = 0 if value.node is None else value.index  # data has none
    return Tensor(
        LazyValue.of(value.type, storage, node=value.node, index=number, device=target, shared=True)
    )


def beside(x: Tensor, other: Tensor) -> Tensor:
    """The same elements where another tensor lies."""
    place = other._value.device
    if place is not None:
        return to_device(x, place)
    if x._value.scope is None or other._value.scope is None:
        return x
    return Tensor.apply(ops.to_device, x, other, attrs=ops.ToDeviceAttrs())


def _copied_by_a_step(x: Tensor, device: str) -> Tensor:
    copied = Tensor.apply(ops.to_device, x, attrs=ops.ToDeviceAttrs(device))
    copied._value.device = device
    return copied


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
    nested: Nested = array.tolist()
    return nested


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
    # of many axes fewer ends are shown, so that it stays on a screen
    ends = min(np.get_printoptions()["edgeitems"], max(5 - elements.ndim, 1))
    shown = np.array2string(elements, separator=", ", prefix="Tensor(", threshold=200, edgeitems=ends)
    return f"Tensor({shown}, {about})"


def array_namespace(api_version: str | None = None) -> ModuleType:
    """planish, if it speaks that version of the standard."""
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(f"planish has no array API {api_version!r}; it has {', '.join(VERSIONS)}")
    return public()


__all__ = [
    "asarray", "from_dlpack",
]  # fmt: skip

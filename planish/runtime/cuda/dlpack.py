"""DLPack for arrays on GPUs: memory of other libraries as arrays of ours and the other way round, without copies.

Who takes an array says on which stream it will use it; who gives it sees to it that what was begun before is done first, there. All
our work is in one order, on one stream (`device`): what comes in is asked for that stream, and what goes out makes the other
stream wait for it. Memory that went out to another stream comes back only behind what was begun there.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final

import numpy as np

from planish import dtypes
from planish.errors import DTypeError, PlanishError
from planish.runtime.cuda.arrays import GpuArray
from planish.runtime.cuda.device import gpu
from planish.runtime.cuda.driver import CudaError

CUDA: Final = 2
"""DLPack's name for the memory of a GPU."""
_VERSION: Final = (1, 1)
_READ_ONLY: Final = 1
_KINDS: Final[Mapping[str, int]] = {
    "int8": 0, "int16": 0, "int32": 0, "int64": 0, "uint8": 1, "uint16": 1, "uint32": 1, "uint64": 1,
    "float16": 2, "float32": 2, "float64": 2, "bfloat16": 4, "complex64": 5, "complex128": 5, "bool": 6,
    "float8_e4m3fn": 10, "float8_e5m2": 12,
}  # fmt: skip
"""By the name of a dtype of NumPy, the code of its kind."""
_NUMBERS: Final = (d for d in dtypes.ALL if d.is_bool or d.is_int or d.is_float or d.is_complex)
_NAMES: Final[Mapping[tuple[int, int], np.dtype[Any]]] = {
    (kind, found.itemsize * 8): found
    for found in (np.dtype(dtype.numpy) for dtype in _NUMBERS)
    if (kind := _KINDS.get(found.name)) is not None
}


_CODES: Final = {dtype: code for code, dtype in _NAMES.items()}


class _Array(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("number", ctypes.c_int32), ("rank", ctypes.c_int32),
        ("kind", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64),
    )  # fmt: skip


class _Plain(ctypes.Structure):
    """`DLManagedTensor`"""

    _fields_ = (("array", _Array), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    """`DLManagedTensorVersioned`"""

    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("array", _Array),
    )  # fmt: skip


_FORMS: Final[Mapping[bytes, type[_Plain | _Versioned]]] = {
    b"dltensor": _Plain,
    b"dltensor_versioned": _Versioned,
}
_DELETER: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_NEW: Final = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_new: Final = _NEW(("PyCapsule_New", ctypes.pythonapi))
# Capsules by their addresses: one that is going away must not be counted once more.
_ASK: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_is_valid: Final = _ASK(("PyCapsule_IsValid", ctypes.pythonapi))
_set_name: Final = _ASK(("PyCapsule_SetName", ctypes.pythonapi))
_GET: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_pointer: Final = _GET(("PyCapsule_GetPointer", ctypes.pythonapi))
_USED: Final = {name: b"used_" + name for name in _FORMS}
"""The names live as long as the capsules."""


def _name_of(capsule: int) -> bytes | None:
    return next((name for name in _FORMS if _is_valid(capsule, name)), None)


# -- out ---------------------------------------------------------------------------------------------------------------

_OUT: Final[dict[int, tuple[object, ...]]] = {}
"""By the address of its record, what an array that is lent to others needs to stay alive."""


class _Lent:
    """Memory that another stream works on: when it comes back, ours waits for what was begun there."""

    def __init__(self, array: GpuArray, stream: int) -> None:
        self.array, self.stream = array, stream

    def __del__(self) -> None:
        with suppress(CudaError, TypeError):  # the device is gone, or the interpreter is going
            self.array.gpu.wait_for(self.stream)


def _returned(address: int) -> None:
    """Nobody else uses an array any more."""
    _OUT.pop(address, None)


def _dropped(capsule: int) -> None:
    """A capsule that nobody took."""
    name = _name_of(capsule)
    if name is not None:
        _OUT.pop(_pointer(capsule, name), None)


_RETURNED: Final = _DELETER(_returned)
_DROPPED: Final = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_dropped)
_RETURNED_AT, _DROPPED_AT = (ctypes.cast(each, ctypes.c_void_p).value for each in (_RETURNED, _DROPPED))


def lent(array: GpuArray, stream: int | None, *, versioned: bool, read_only: bool) -> object:
    """A capsule of an array, to be used on a stream (None and 1: the default one)."""
    code = _CODES.get(array.dtype)
    if code is None:
        raise BufferError(f"DLPack has no dtype {array.dtype.name}")
    other = array.gpu.shown_to(stream)
    keeper: object = array if other is None else _Lent(array, other)
    rank, steps = len(array.shape), [1]
    for size in reversed(array.shape[1:]):
        steps.append(steps[-1] * max(size, 1))
    sizes = (ctypes.c_int64 * (2 * rank + 1))(*array.shape, *reversed(steps[: rank or None]))
    start = ctypes.addressof(sizes)
    record: _Plain | _Versioned = _Versioned() if versioned else _Plain()
    record.array = _Array(array.address, CUDA, array.gpu.number, rank, *code, 1, start, start + 8 * rank, 0)
    record.deleter = _RETURNED_AT
    if isinstance(record, _Versioned):
        record.major, record.minor = _VERSION
        record.flags = _READ_ONLY * read_only
    address = ctypes.addressof(record)
    _OUT[address] = record, keeper, sizes
    plain, with_version = _FORMS
    return _new(address, with_version if versioned else plain, _DROPPED_AT)


# -- in ----------------------------------------------------------------------------------------------------------------


class Borrowed:
    """Memory of another library, which gets it back when nobody here knows it any more."""

    __slots__ = ("_give_back", "record")

    def __init__(self, record: _Plain | _Versioned) -> None:
        self.record = record
        self._give_back = _DELETER(record.deleter) if record.deleter else None

    def __del__(self) -> None:
        if self._give_back is not None:
            self._give_back(ctypes.addressof(self.record))


def borrowed(x: Any) -> tuple[GpuArray, tuple[int, ...] | None]:
    """The array of another library, in place, on our stream. If it is not in row-major order: all memory it is in, and its strides."""
    here = gpu(int(x.__dlpack_device__()[1]))
    try:
        capsule = x.__dlpack__(stream=here.dlpack_stream, max_version=_VERSION)
    except TypeError:  # of before there were versions
        capsule = x.__dlpack__(stream=here.dlpack_stream)
    name = _name_of(id(capsule))
    if name is None:
        raise PlanishError(
            f"{type(x).__name__}.__dlpack__ gave {capsule!r}, which is no DLPack capsule that is still to be had"
        )
    record = _FORMS[name].from_address(_pointer(id(capsule), name))
    found = record.array
    dtype = _NAMES.get((found.kind, found.bits))
    if dtype is None or found.lanes != 1:
        raise DTypeError(
            f"an array of another library has elements of DLPack's kind {found.kind} with {found.bits} bits, which planish does not have",
            remedy="convert it there first",
        )
    _set_name(id(capsule), _USED[name])
    numbers = ctypes.c_int64 * found.rank
    shape = tuple(numbers.from_address(found.shape)) if found.rank else ()
    strides = tuple(numbers.from_address(found.strides)) if found.rank and found.strides else None
    owner, address = Borrowed(record), (found.data or 0) + found.offset
    if strides is None or _in_order(shape, strides):
        return GpuArray(here, owner, address, dtype, shape), None
    least = sum(min(stride, 0) * (size - 1) for size, stride in zip(shape, strides, strict=True))
    most = sum(max(stride, 0) * (size - 1) for size, stride in zip(shape, strides, strict=True))
    if least < 0:
        raise PlanishError(
            "an array of another library runs backwards through memory", remedy="copy it there first"
        )
    return GpuArray(here, owner, address, dtype, (most + 1,)), strides


def at_once(x: Any) -> GpuArray | None:
    """The memory of a torch tensor on a GPU, if there is nothing to wait for: a capsule costs ten times what asking for an address does."""
    torch = sys.modules.get("torch")
    if (
        torch is None
        or type(x) is not torch.Tensor
        or not x.is_cuda
        or x.requires_grad
        or not x.is_contiguous()
    ):
        return None
    dtype = _torch_dtypes().get(x.dtype)
    if dtype is None or x.is_conj() or x.is_neg():
        return None
    number = x.get_device()
    here = gpu(number)
    if torch._C._cuda_getCurrentRawStream(number) != here.stream:
        return None
    return GpuArray(here, x, x.data_ptr(), dtype, tuple(x.shape))


@cache
def _torch_dtypes() -> Mapping[Any, np.dtype[Any]]:
    torch = sys.modules["torch"]
    named = {dtype.name: dtype for dtype in _NAMES.values()}
    found = {getattr(torch, name, None): dtype for name, dtype in named.items()}
    return {name: dtype for name, dtype in found.items() if name is not None}


def _in_order(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    wanted = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 0:
            return True
        if size > 1 and stride != wanted:
            return False
        wanted *= size
    return True


def interface(array: GpuArray) -> dict[str, Any]:
    """`__cuda_array_interface__`, version 3: for those who know no DLPack. They synchronise with the stream."""
    if array.dtype.kind == "V" or array.dtype.name not in _KINDS:
        raise AttributeError(f"__cuda_array_interface__ has no dtype {array.dtype.name}; use DLPack")
    return {
        "shape": array.shape, "typestr": array.dtype.str, "data": (array.address, False), "strides": None,
        "stream": array.gpu.dlpack_stream, "version": 3,
    }  # fmt: skip

"""DLPack: capsules of arrays, as libraries hand them to each other. What is in one, and making one.

A capsule holds the address of a record that says where the elements lie and who gets them back. A record that went out keeps its array
alive until the other library returns it; one that came in is returned when nobody here knows it any more (`Borrowed`). In which
memory that is does not matter here.
"""

from __future__ import annotations

import atexit
import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

import numpy as np

from planish import dtypes
from planish.errors import DTypeError, PlanishError
from planish.records import dataclass

T = TypeVar("T")
CPU: Final = 1
"""DLPack's name for the memory of the host."""
VERSION: Final = (1, 1)
_READ_ONLY: Final = 1
_KINDS: Final[Mapping[str, int]] = {
    "int8": 0, "int16": 0, "int32": 0, "int64": 0, "uint8": 1, "uint16": 1, "uint32": 1, "uint64": 1,
    "float16": 2, "float32": 2, "float64": 2, "bfloat16": 4, "complex64": 5, "complex128": 5, "bool": 6,
    "float8_e4m3fn": 10, "float8_e5m2": 12,
}  # fmt: skip
"""By the name of a dtype of NumPy, the code of its kind."""
_NUMBERS: Final = (d for d in dtypes.ALL if d.is_bool or d.is_int or d.is_float or d.is_complex)
NAMES: Final[Mapping[tuple[int, int], np.dtype[Any]]] = {
    (kind, element.itemsize * 8): element
    for element in (np.dtype(dtype.numpy) for dtype in _NUMBERS)
    if (kind := _KINDS.get(element.name)) is not None
}

CODES: Final = {dtype: code for code, dtype in NAMES.items()}


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


def _returned(address: int) -> None:
    """Nobody else uses an array any more."""
    _OUT.pop(address, None)


def _dropped(capsule: int) -> None:
    """A capsule that nobody took."""
    name = _name_of(capsule)
    if name is not None:
        _OUT.pop(_pointer(capsule, name), None)


def _sweep() -> None:
    """Forget capsules that were taken, and what is in those that nobody took nor can take any more."""
    for capsule in list(_WAITING):
        if _name_of(id(capsule)) is None:
            _WAITING.remove(capsule)
        elif sys.getrefcount(capsule) <= _OURS:
            _WAITING.remove(capsule)
            _dropped(id(capsule))


def _end() -> None:
    """The interpreter goes: who has an array still keeps it, and when they drop it there is nobody to be told.

    What they hold is not to be freed with this module, so that it is never released.
    """
    for record, *_ in _OUT.values():
        record.deleter = None  # type: ignore[attr-defined]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_OUT))


atexit.register(_end)
_WAITING: Final[list[object]] = []
"""Capsules in the host's memory that went out. NumPy drops one of a dtype that it does not know while it raises an error, and then no Python may run."""
_OURS: Final = 4
"""References to a capsule that only this module knows: the list and its copy, the variable, and the question."""


_RETURNED: Final = _DELETER(_returned)
_DROPPED: Final = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_dropped)
_RETURNED_AT, _DROPPED_AT = (ctypes.cast(each, ctypes.c_void_p).value for each in (_RETURNED, _DROPPED))


@lru_cache(maxsize=4096)
def _record(
    dtype: np.dtype[Any], shape: tuple[int, ...], device: tuple[int, int], versioned: bool, read_only: bool
) -> tuple[type[_Plain | _Versioned], bytes, object]:
    """The bytes of a record but for where its elements are, and the sizes that it points to: arrays of one form share them."""
    code = CODES.get(dtype)
    if code is None:
        raise BufferError(f"DLPack has no dtype {dtype.name}")
    rank, steps = len(shape), [1]
    for size in reversed(shape[1:]):
        steps.append(steps[-1] * max(size, 1))
    sizes = (ctypes.c_int64 * (2 * rank + 1))(*shape, *reversed(steps[: rank or None]))
    start = ctypes.addressof(sizes)
    record: _Plain | _Versioned = _Versioned() if versioned else _Plain()
    record.array = _Array(0, *device, rank, *code, 1, start, start + 8 * rank, 0)
    record.deleter = _RETURNED_AT
    if isinstance(record, _Versioned):
        record.major, record.minor = VERSION
        record.flags = _READ_ONLY * read_only
    return type(record), bytes(record), sizes


def capsule_of(
    address: int,
    dtype: np.dtype[Any],
    shape: Sequence[int],
    device: tuple[int, int],
    keeper: object,
    *,
    versioned: bool,
    read_only: bool,
) -> object:
    """A capsule of elements in row-major order, which `keeper` keeps alive."""
    kind, written, sizes = _record(dtype, tuple(shape), device, versioned, read_only)
    record = kind.from_buffer_copy(written)
    record.array.data = address
    place = ctypes.addressof(record)
    _OUT[place] = record, keeper, sizes
    plain, with_version = _FORMS
    on_host = device[0] == CPU
    if on_host:
        _sweep()
    capsule: object = _new(place, with_version if versioned else plain, None if on_host else _DROPPED_AT)
    if on_host:
        _WAITING.append(capsule)
    return capsule


def sender(
    dtype: np.dtype[Any], shape: tuple[int, ...], device: tuple[int, int], take: Callable[[object], T]
) -> Callable[[int, object], T]:
    """Hands arrays of one form to whoever takes capsules at once: called with an address and what keeps it alive.

    A capsule that is taken before anybody else sees it needs nobody who asks whether it was.
    """
    kind, written, sizes = _record(dtype, shape, device, False, False)
    (plain, _), copied, place_of = _FORMS, kind.from_buffer_copy, ctypes.addressof

    def send(address: int, keeper: object) -> T:
        record = copied(written)
        record.array.data = address
        place = place_of(record)
        _OUT[place] = record, keeper, sizes
        try:
            return take(_new(place, plain, None))
        except BaseException:
            _OUT.pop(place, None)
            raise

    return send


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


@dataclass(frozen=True, slots=True)
class Taken:
    """What a capsule held."""

    owner: Borrowed
    address: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    """In elements; None in row-major order."""
    read_only: bool


def taken(x: Any, **options: Any) -> Taken:
    """The array of another library, out of its capsule."""
    try:
        capsule = x.__dlpack__(**options, max_version=VERSION)
    except TypeError:  # of before there were versions
        capsule = x.__dlpack__(**options)
    name = _name_of(id(capsule))
    if name is None:
        raise PlanishError(
            f"{type(x).__name__}.__dlpack__ gave {capsule!r}, which is no DLPack capsule that is still to be had"
        )
    record = _FORMS[name].from_address(_pointer(id(capsule), name))
    array = record.array
    dtype = NAMES.get((array.kind, array.bits))
    if dtype is None or array.lanes != 1:
        raise DTypeError(
            f"an array of another library has elements of DLPack's kind {array.kind} with {array.bits} bits, which planish does not have",
            remedy="convert it there first",
        )
    _set_name(id(capsule), _USED[name])
    numbers = ctypes.c_int64 * array.rank
    shape = tuple(numbers.from_address(array.shape)) if array.rank else ()
    strides = tuple(numbers.from_address(array.strides)) if array.rank and array.strides else None
    if strides is not None and _in_order(shape, strides):
        strides = None
    closed = isinstance(record, _Versioned) and bool(record.flags & _READ_ONLY)
    return Taken(Borrowed(record), (array.data or 0) + array.offset, dtype, shape, strides, closed)


def _in_order(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    wanted = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 0:
            return True
        if size > 1 and stride != wanted:
            return False
        wanted *= size
    return True


# -- in the host's memory ----------------------------------------------------------------------------------------------


def host_array(x: Any) -> np.ndarray[Any, Any]:
    """The array of another library in the host's memory, in place, also of dtypes that NumPy's own DLPack does not know."""
    foreign = taken(x)
    size = foreign.dtype.itemsize
    steps = foreign.strides
    if not all(foreign.shape):
        return np.empty(foreign.shape, foreign.dtype)
    low = high = 0
    for length, step in zip(foreign.shape, steps or (), strict=False):
        low, high = low + min(step, 0) * (length - 1), high + max(step, 0) * (length - 1)
    count = high - low + 1 if steps is not None else int(np.prod(foreign.shape, dtype=np.int64))
    memory = (ctypes.c_uint8 * (count * size)).from_address(foreign.address + low * size)
    memory.owner = foreign.owner  # type: ignore[attr-defined] # it has to live as long
    line = np.frombuffer(memoryview(memory), np.uint8)
    if foreign.read_only:
        line.flags.writeable = False
    strides = None if steps is None else [step * size for step in steps]
    return np.ndarray(foreign.shape, foreign.dtype, line, -low * size, strides)


__all__ = ["CODES", "CPU", "NAMES", "VERSION", "Borrowed", "Taken", "capsule_of", "host_array", "taken"]

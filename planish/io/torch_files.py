"""PyTorch checkpoints (the zip format of torch.save since 1.6), read without PyTorch and without running their pickle.

Tensors, parameters, numbers, texts and containers of them come back; anything else a file asks for is refused by name. The
elements are mapped from the file. Tensors that share a storage share it here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planish import dtypes
from planish.dtypes import DType
from planish.frontend.tensor import asarray
from planish.frontend.tensor.array import Tensor
from planish.io import pickles
from planish.io.archive import Archive
from planish.io.files import Bytes, PathLike, refuse
from planish.io.pickles import Global, PickleError

Checkpoint: TypeAlias = (
    "Tensor | DType | bool | int | float | str | bytes | list[Checkpoint] | tuple[Checkpoint, ...]"
    " | dict[str | int, Checkpoint] | None"
)

_STORAGES: Final = {
    "BoolStorage": dtypes.bool_,
    "ByteStorage": dtypes.uint8,
    "CharStorage": dtypes.int8,
    "ShortStorage": dtypes.int16,
    "IntStorage": dtypes.int32,
    "LongStorage": dtypes.int64,
    "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16,
    "FloatStorage": dtypes.float32,
    "DoubleStorage": dtypes.float64,
    "ComplexFloatStorage": dtypes.complex64,
    "ComplexDoubleStorage": dtypes.complex128,
}
_DTYPES: Final = {
    "bool": dtypes.bool_,
    "half": dtypes.float16,
    "float": dtypes.float32,
    "double": dtypes.float64,
    "cfloat": dtypes.complex64,
    "cdouble": dtypes.complex128,
    "short": dtypes.int16,
    "int": dtypes.int32,
    "long": dtypes.int64,
} | {
    name: getattr(dtypes, name)
    for name in (
        "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16", "float32",
        "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _SavedStorage:
    """Bytes of a file, and what they were said to be."""

    data: Bytes
    dtype: DType | None
    """None: the tensor knows."""
    key: str


def load_torch(path: PathLike) -> Checkpoint:
    """What torch.save wrote: tensors, numbers, texts, and lists, tuples and dicts of them."""
    place = Path(path)
    with place.open("rb") as file:
        start = file.read(2)
    if start != b"PK":
        raise refuse(
            place,
            "this is not a checkpoint in the zip format of PyTorch 1.6 and later",
            "load and save it again with a newer PyTorch",
        )
    archive = Archive(place)
    members = [name for name in archive.names() if name == "data.pkl" or name.endswith("/data.pkl")]
    if len(members) != 1:
        raise refuse(place, f"a checkpoint has one data.pkl; this archive has {len(members)}")
    reader = _ZipReader(place, archive, members[0].removesuffix("data.pkl"))
    try:
        result: Checkpoint = pickles.read(
            archive.read(members[0]).tobytes(), reader.rebuild, reader.persistent, _named
        )
    except PickleError as error:
        raise refuse(
            place, str(error), "checkpoints of tensors and containers can be read: save model.state_dict()"
        ) from None
    if isinstance(result, Global | _SavedStorage):
        raise refuse(place, f"the checkpoint is a {type(result).__name__}, not tensors")
    return result


class _ZipReader:
    def __init__(self, path: Path, archive: Archive, prefix: str) -> None:
        self.path = path
        self.archive = archive
        self.prefix = prefix
        self.storages: dict[str, Bytes] = {}
        order = f"{prefix}byteorder"
        stated = archive.read(order).tobytes() if order in archive else b"little"
        if stated not in (b"little", b"big"):
            raise refuse(path, f"the byte order is {stated!r}")
        self.is_big = stated == b"big"

    def persistent(self, about: Any) -> _SavedStorage:
        """Storages are what a checkpoint keeps outside its pickle."""
        if not isinstance(about, tuple) or len(about) != 5 or about[0] != "storage":
            raise PickleError("the pickle refers to something that is no storage")
        _, kind, key, _, count = about
        if not isinstance(kind, Global) or not isinstance(key, str) or not isinstance(count, int):
            raise PickleError("the pickle describes a storage in an unknown way")
        if key not in self.storages:
            name = f"{self.prefix}data/{key}"
            if name not in self.archive:
                raise PickleError(f"the storage {key!r} is missing")
            self.storages[key] = self.archive.read(name)
        data = self.storages[key]
        dtype = None
        if kind.name != "UntypedStorage":
            dtype = _STORAGES.get(kind.name)
            if dtype is None:
                raise PickleError(f"the checkpoint has a storage of kind {kind}")
        size = count * (1 if dtype is None else dtype.numpy.itemsize)
        if data.size != size:
            raise PickleError(f"the storage {key!r} should be {size} bytes long, but is {data.size}")
        return _SavedStorage(data, dtype, key)

    def rebuild(self, function: Global, given: tuple[Any, ...]) -> Any:
        """The functions and classes that a checkpoint of tensors names."""
        match str(function):
            case "collections.OrderedDict":
                entries: OrderedDict[Any, Any] = OrderedDict()
                for pair in given[0] if given else ():
                    key, value = pair
                    entries[pickles.plain(key)] = value
                return entries
            case "torch._utils._rebuild_tensor_v2" | "torch._utils._rebuild_tensor":
                storage, offset, shape, strides = given[:4]
                return self.tensor(storage, offset, shape, strides, None)
            case "torch._utils._rebuild_tensor_v3":
                storage, offset, shape, strides, _, _, dtype = given[:7]
                if not isinstance(dtype, DType):
                    raise PickleError(f"the checkpoint has elements of type {dtype}")
                return self.tensor(storage, offset, shape, strides, dtype)
            case "torch._utils._rebuild_parameter":
                if not isinstance(given[0], Tensor):
                    raise PickleError("a parameter of something that is no tensor")
                return given[0]
            case "torch._tensor._rebuild_from_type_v2":
                inner, kind, arguments, _ = given
                if str(kind) not in ("torch.Tensor", "torch.nn.parameter.Parameter"):
                    raise PickleError(f"the checkpoint holds a {kind}")
                return self.rebuild(inner, arguments)
            case "torch.Size":
                return tuple(pickles.plain(size) for size in given[0])
            case "torch.device":
                return ":".join(str(pickles.plain(part)) for part in given)
            case "builtins.set" | "__builtin__.set":
                return {pickles.plain(one) for one in given[0]}
            case _:
                raise PickleError(
                    f"the checkpoint wants {function} to be called, which is neither a tensor nor a container"
                )

    def tensor(self, storage: Any, offset: Any, shape: Any, strides: Any, dtype: DType | None) -> Tensor:
        if not isinstance(storage, _SavedStorage):
            raise PickleError("a tensor without a storage")
        kind = dtype or storage.dtype
        if kind is None:
            raise PickleError(f"nothing says what the storage {storage.key!r} holds")
        sizes, steps = _numbers(shape), _numbers(strides)
        if len(sizes) != len(steps) or type(offset) is not int or offset < 0:
            raise PickleError(f"a tensor of shape {shape!r} with strides {strides!r} at {offset!r}")
        width = kind.numpy.itemsize
        room = storage.data.size // width
        last = offset + sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
        is_empty = 0 in sizes
        if (offset > room) if is_empty else (last >= room):
            raise PickleError(f"a tensor of shape {sizes} goes beyond its storage of {room} elements")
        if is_empty:
            return asarray(np.empty(sizes, kind.numpy))
        line = self.elements(storage, kind, offset, last + 1)
        array: NDArray[Any] = np.ndarray(sizes, kind.numpy, line, strides=[step * width for step in steps])
        return asarray(array, copy=False)

    def elements(self, storage: _SavedStorage, dtype: DType, start: int, stop: int) -> Bytes:
        """The bytes of elements in the machine's order, at an address where they can be read."""
        width = dtype.numpy.itemsize
        data = storage.data[start * width : stop * width].view(np.ndarray)
        if dtype.is_bool and int(data.max()) > 1:
            raise PickleError(f"the storage {storage.key!r} holds bools other than 0 and 1")
        if data.ctypes.data % width:
            data = data.copy()
        if self.is_big and width > 1:
            parts = width // 2 if dtype.is_complex else width
            data = data.reshape(-1, parts)[:, ::-1].reshape(-1)
        data.flags.writeable = False
        return data


def _numbers(given: Any) -> tuple[int, ...]:
    if not isinstance(given, Sequence) or not all(type(one) is int and 0 <= one < 1 << 48 for one in given):
        raise PickleError(f"{given!r} are not sizes")
    return tuple(given)


def _named(name: Global) -> Global | DType:
    """dtypes are what they are; everything else stays a name."""
    return _DTYPES.get(name.name, name) if name.module == "torch" else name

"""The data of tensors in a model: in its message, in the file around it, or in files beside it.

Files beside it are mapped, not read, and are looked for in the model's own folder alone. What does not fit its shape is
refused before memory is taken for it.
"""

from __future__ import annotations

import math
import mmap
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from planish import dtypes
from planish.errors import PlanishError

Array = NDArray[Any]
_MOST: Final = 1 << 28
"""Elements that a sparse tensor may have with its zeros."""
_PACKED: Final = {
    TensorProto.UINT4: 4, TensorProto.INT4: 4, TensorProto.FLOAT4E2M1: 4,
    getattr(TensorProto, "INT2", -1): 2, getattr(TensorProto, "UINT2", -2): 2,
}  # fmt: skip
_Buffer = bytes | memoryview | mmap.mmap


def to_array(tensor: TensorProto, folder: str | None = None, raw: memoryview | None = None) -> Array:
    """The data of a tensor; strings as an array of objects. `raw` stands for raw_data that was left in its file."""
    dims = tuple(tensor.dims)
    if any(d < 0 for d in dims):
        raise PlanishError(f"tensor {tensor.name!r} has the shape {list(dims)}")
    try:
        if tensor.data_type == TensorProto.STRING:
            texts = np.empty(len(tensor.string_data), object)
            texts[:] = [s.decode("utf-8", "surrogateescape") for s in tensor.string_data]
            return texts.reshape(dims)
        if tensor.data_location == TensorProto.EXTERNAL:
            return _external(tensor, dims, folder)
        if raw is not None:
            return _from_bytes(tensor, dims, raw)
        if tensor.HasField("raw_data"):
            return _from_bytes(tensor, dims, tensor.raw_data)
        return np.asarray(numpy_helper.to_array(tensor))
    except PlanishError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever NumPy or onnx find wrong with it
        raise PlanishError(f"tensor {tensor.name!r} {list(dims)} is malformed: {error}") from None


def _from_bytes(tensor: TensorProto, dims: tuple[int, ...], raw: _Buffer) -> Array:
    kind = tensor.data_type
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))
    except KeyError:
        raise PlanishError(f"tensor {tensor.name!r} has the element type {kind}, which is none") from None
    count = math.prod(dims)
    wanted = -(-count * _PACKED[kind] // 8) if kind in _PACKED else count * dtype.itemsize
    if len(raw) != wanted:
        raise PlanishError(
            f"tensor {tensor.name!r} has {len(raw)} bytes, its shape {list(dims)} of {dtype} needs {wanted}"
        )
    if kind in _PACKED:
        whole = TensorProto(data_type=kind, dims=dims, raw_data=bytes(raw))
        return np.asarray(numpy_helper.to_array(whole))
    swapped = sys.byteorder != "little" and dtype.kind in "iufc"
    array = np.frombuffer(raw, dtype.newbyteorder("<") if swapped else dtype).reshape(dims)
    # what lies askew in a file is copied, once: kernels read whole elements
    return array if array.flags.aligned else array.copy()


def _external(tensor: TensorProto, dims: tuple[int, ...], folder: str | None) -> Array:
    told = {entry.key: entry.value for entry in tensor.external_data}
    path = file_in_folder(folder, told.get("location", ""), tensor.name)
    size = path.stat().st_size
    offset = int(told.get("offset", 0))
    length = int(told.get("length", size - offset))
    if offset < 0 or length < 0 or offset + length > size:
        raise PlanishError(
            f"tensor {tensor.name!r}: {path.name} has {size} bytes, not {length} from {offset} on"
        )
    if not length:
        return _from_bytes(tensor, dims, b"")
    begin = offset - offset % mmap.ALLOCATIONGRANULARITY
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), length + offset - begin, access=mmap.ACCESS_READ, offset=begin)
    return _from_bytes(tensor, dims, memoryview(mapped)[offset - begin :])


def file_in_folder(folder: str | None, location: str, name: str) -> Path:
    """A file in the model's folder: no path out of it, and no link that leads out of it."""
    if folder is None:
        raise PlanishError(
            f"tensor {name!r} is in the file {location!r}, and the model has no folder",
            remedy="load the model by its path",
        )
    if not location or "\0" in location or Path(location).is_absolute() or ".." in Path(location).parts:
        raise PlanishError(f"tensor {name!r}: {location!r} is no file of the model's folder")
    root = Path(folder).resolve()
    path = (root / location).resolve()
    if not path.is_relative_to(root):
        raise PlanishError(f"tensor {name!r}: {location!r} leads out of the model's folder")
    if not path.is_file():
        raise PlanishError(f"tensor {name!r}: there is no file {location!r} beside the model")
    return path


def dense(sparse: onnx.SparseTensorProto, folder: str | None = None) -> Array:
    """A sparse tensor with its zeros."""
    name, dims = sparse.values.name, tuple(sparse.dims)
    if any(d < 0 for d in dims) or math.prod(dims) > _MOST:
        raise PlanishError(f"the sparse tensor {name!r} has the shape {list(dims)}")
    values, indices = to_array(sparse.values, folder), to_array(sparse.indices, folder)
    result = np.zeros(dims, values.dtype)
    if indices.size and indices.min() < 0:
        raise PlanishError(f"the sparse tensor {name!r} has a negative index")
    try:
        places = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), dims)
        np.put(result, places, values, "raise")
    except (IndexError, ValueError, TypeError) as error:
        raise PlanishError(f"the sparse tensor {name!r} {list(dims)} is malformed: {error}") from None
    return result


def on_device(dtype: np.dtype[Any]) -> bool:
    """Whether PTIR has the dtype; arrays of others stay arrays."""
    known = _ON_DEVICE.get(dtype)
    if known is None:
        try:
            dtypes.from_numpy(dtype)
            known = True
        except (PlanishError, TypeError):
            known = False
        _ON_DEVICE[dtype] = known
    return known


_ON_DEVICE: Final[dict[np.dtype[Any], bool]] = {}


def letters_of(name: str) -> str:
    """A name with nothing in it but letters and numbers of ASCII."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)


__all__ = ["Array", "dense", "file_in_folder", "letters_of", "on_device", "to_array"]

"""DLPack: memory that other libraries see, and theirs that we see. In the host's memory NumPy does it; on a GPU the runtime does."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np

from planish import dtypes
from planish.compiler.device_kinds import HOST, KINDS, accelerator, kind_of_memory
from planish.dlpack import capsule_of
from planish.frontend import devices
from planish.frontend.expression import LazyValue
from planish.frontend.session import evaluate, tensor_type
from planish.frontend.storage import Array
from planish.frontend.tensor.array import Tensor

DLPACK_CPU: Final = (1, 0)
"""DLPack's name for the memory of the host."""

_IN_NUMPY: Final = frozenset({
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128",
})  # fmt: skip


# --- in ---------------------------------------------------------------------------------------------------


def is_on_gpu(x: object) -> bool:
    """Whether it is an array of another library that says it is on a GPU."""
    asked = None if isinstance(x, np.ndarray) else getattr(x, "__dlpack_device__", None)
    try:
        return asked is not None and kind_of_memory(int(asked()[0])) not in {None, HOST}
    except (ValueError, RuntimeError, BufferError):  # it is nowhere that DLPack knows: taking it over says so
        return False


def of_gpu(x: Any, copy: bool | None) -> Tensor:
    """Its memory, or a copy; one is needed where it is not in row-major order."""
    kind = kind_of_memory(int(x.__dlpack_device__()[0]))
    array, strides = accelerator(str(kind)).borrowed(x)
    if strides is not None and copy is False:
        raise BufferError(
            "an array that is not in row-major order cannot be shared: allow a copy, or make it contiguous"
        )
    storage = array.copy() if copy and strides is None else array
    type = tensor_type(dtypes.from_numpy(array.dtype), array.shape)
    tensor = Tensor(LazyValue.of(type, storage, device=devices.checked(array.device), shared=not copy))
    if strides is None:
        return tensor
    from planish.frontend.tensor.creation import arange
    from planish.frontend.tensor.indexing import take
    from planish.frontend.tensor.manipulation import reshape

    index = arange(1, dtype=dtypes.int64, device=array.device)
    for axis, (size, stride) in enumerate(zip(x.shape, strides, strict=True)):
        steps = arange(size, dtype=dtypes.int64, device=array.device) * stride
        index = index + reshape(steps, (size, *[1] * (len(strides) - axis - 1)))
    gathered = reshape(take(tensor, reshape(index, (-1,)), axis=0), tuple(x.shape))
    evaluate([gathered._value])  # now: what it is made of is another library's
    return gathered


# --- out --------------------------------------------------------------------------------------------------


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
    if shared.dtype.kind == "V" or shared.dtype.name not in _IN_NUMPY:
        return _of_narrow(shared, max_version, copy)
    if max_version is None or max_version[0] < 1:
        # the old protocol cannot say "read-only"
        return (shared.copy() if copy is not False else _writable(shared)).__dlpack__()
    given = shared.copy() if copy else shared
    return given.__dlpack__(max_version=max_version)


def _of_narrow(array: Array, max_version: tuple[int, int] | None, copy: bool | None) -> object:
    """A capsule of a dtype that NumPy's own DLPack does not know."""
    versioned = max_version is not None and max_version[0] >= 1
    given = array.copy() if copy or (copy is None and not versioned) else array
    return capsule_of(
        given.ctypes.data, given.dtype, given.shape, DLPACK_CPU, given,
        versioned=versioned, read_only=given is array,
    )  # fmt: skip


def dlpack_device(x: Tensor) -> tuple[int, int]:
    """Where its elements are, as DLPack names it."""
    kind, _, number = x.device.partition(":")
    return (KINDS[kind].dlpack[0], int(number)) if number else DLPACK_CPU


def _from_gpu(
    x: Tensor,
    stream: int | None,
    max_version: tuple[int, int] | None,
    wanted: tuple[int, int] | None,
    copy: bool | None,
) -> object:
    if wanted not in {None, dlpack_device(x)}:
        raise BufferError(
            f"a tensor on {x.device} cannot be exported to device {wanted}: move it first, x.to_device(…)"
        )
    versioned = max_version is not None and max_version[0] >= 1
    kind = accelerator(x.device.partition(":")[0])
    return kind.lent(_gpu_array(x, copy), stream, versioned=versioned, read_only=not copy)


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
    return accelerator(x.device.partition(":")[0]).array_interface(_gpu_array(x))


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

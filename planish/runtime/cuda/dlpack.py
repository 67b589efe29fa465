"""DLPack for arrays on GPUs: memory of other libraries as arrays of ours and the other way round, without copies.

Who takes an array says on which stream it will use it; who gives it sees to it that what was begun before is done first, there. All
our work is in one order, on one stream (`device`): what comes in is asked for that stream, and what goes out makes the other
stream wait for it. Memory that went out to another stream comes back only behind what was begun there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final

import numpy as np

from planish.dlpack import CODES, NAMES, capsule_of, sender, taken
from planish.errors import PlanishError
from planish.runtime.cuda.arrays import GpuArray
from planish.runtime.cuda.device import gpu
from planish.runtime.cuda.driver import CudaError

CUDA: Final = 2
"""DLPack's name for the memory of a GPU."""

# -- out ---------------------------------------------------------------------------------------------------------------


class _Lent:
    """Memory that another stream works on: when it comes back, ours waits for what was begun there."""

    def __init__(self, array: GpuArray, stream: int) -> None:
        self.array, self.stream = array, stream

    def __del__(self) -> None:
        with suppress(CudaError, TypeError):  # the device is gone, or the interpreter is going
            self.array.gpu.wait_for(self.stream)


def lent(array: GpuArray, stream: int | None, *, versioned: bool, read_only: bool) -> object:
    """A capsule of an array, to be used on a stream (None and 1: the default one)."""
    other = array.gpu.shown_to(stream)
    keeper: object = array if other is None else _Lent(array, other)
    return capsule_of(
        array.address, array.dtype, array.shape, (CUDA, array.gpu.number), keeper,
        versioned=versioned, read_only=read_only,
    )  # fmt: skip


def writer_of(number: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Callable[[GpuArray], Any]:
    """Arrays of a GPU of one dtype and shape as tensors of torch, where they are."""
    here, torch = gpu(number), sys.modules["torch"]
    send = sender(dtype, shape, (CUDA, number), torch._C._from_dlpack)

    def write(array: GpuArray) -> Any:
        # torch takes it on its default stream, whatever the current one is
        other = here.shown_to(None)
        return send(array.address, array if other is None else _Lent(array, other))

    return write


# -- in ----------------------------------------------------------------------------------------------------------------


def borrowed(x: Any) -> tuple[GpuArray, tuple[int, ...] | None]:
    """The array of another library, in place, on our stream. If it is not in row-major order: all memory it is in, and its strides."""
    here = gpu(int(x.__dlpack_device__()[1]))
    tensor = taken(x, stream=here.dlpack_stream)
    if tensor.strides is None:
        return GpuArray(here, tensor.owner, tensor.address, tensor.dtype, tensor.shape), None
    pairs = list(zip(tensor.shape, tensor.strides, strict=True))
    if any(stride < 0 < size for size, stride in pairs):
        raise PlanishError(
            "an array of another library runs backwards through memory", remedy="copy it there first"
        )
    most = sum(stride * (size - 1) for size, stride in pairs)
    return GpuArray(here, tensor.owner, tensor.address, tensor.dtype, (most + 1,)), tensor.strides


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


def reader_of(number: int, kind: Any, shape: tuple[int, ...]) -> Callable[[Any], GpuArray | None]:
    """The same for tensors that are known to be of a dtype of torch and a shape, in row-major order, on a GPU."""
    dtype, here, stream_of = (
        _torch_dtypes().get(kind),
        gpu(number),
        sys.modules["torch"]._C._cuda_getCurrentRawStream,
    )

    def read(x: Any) -> GpuArray | None:
        if dtype is None or stream_of(number) != here.stream:
            return None
        return GpuArray(here, x, x.data_ptr(), dtype, shape)

    return read


@cache
def _torch_dtypes() -> Mapping[Any, np.dtype[Any]]:
    torch = sys.modules["torch"]
    named = {dtype.name: dtype for dtype in NAMES.values()}
    dtypes = {getattr(torch, name, None): dtype for name, dtype in named.items()}
    return {name: dtype for name, dtype in dtypes.items() if name is not None}


def interface(array: GpuArray) -> dict[str, Any]:
    """`__cuda_array_interface__`, version 3: for those who know no DLPack. They synchronise with the stream."""
    if array.dtype.kind == "V" or array.dtype not in CODES:
        raise AttributeError(f"__cuda_array_interface__ has no dtype {array.dtype.name}; use DLPack")
    return {
        "shape": array.shape, "typestr": array.dtype.str, "data": (array.address, False), "strides": None,
        "stream": array.gpu.dlpack_stream, "version": 3,
    }  # fmt: skip

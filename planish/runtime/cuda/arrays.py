"""Arrays on a GPU: a block of memory, a dtype and a shape, in row-major order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.runtime.arrays import DeviceArray
from planish.runtime.cuda.device import Gpu

Array = NDArray[Any]


class GpuArray(DeviceArray):
    """An array on a GPU. `owner` keeps its memory alive."""

    __slots__ = ("address", "dtype", "gpu", "owner", "shape")

    def __init__(
        self, gpu: Gpu, owner: object, address: int, dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> None:
        self.gpu, self.owner, self.address, self.dtype, self.shape = gpu, owner, address, dtype, shape

    def __repr__(self) -> str:
        return f"<{self.gpu.name} {self.dtype}{list(self.shape)}>"

    @staticmethod
    def empty(gpu: Gpu, dtype: np.dtype[Any], shape: tuple[int, ...]) -> GpuArray:
        """A new one; what is in it is what was there."""
        block = gpu.pool.take(math.prod(shape) * dtype.itemsize)
        return GpuArray(gpu, block, block.address, dtype, shape)

    @staticmethod
    def of(gpu: Gpu, array: Array) -> GpuArray:
        """A copy of an array of the host."""
        native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
        copy = GpuArray.empty(gpu, native.dtype, native.shape)
        gpu.upload(native, copy.address)
        return copy

    def moved(self, gpu: Gpu) -> GpuArray:
        """The same on another GPU: straight from one to the other."""
        if gpu is self.gpu:
            return self
        copy = GpuArray.empty(gpu, self.dtype, self.shape)
        gpu.copy_from(self.gpu, self.address, copy.address, self.nbytes)
        return copy

    @property
    def device(self) -> str:
        return self.gpu.name

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.numpy()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def numpy(self) -> Array:
        """A copy on the host, when everything before is done."""
        array = np.empty(self.shape, self.dtype)
        self.gpu.download(self.address, array)
        return array

    def copy(self) -> GpuArray:
        """The same in memory of its own."""
        copy = GpuArray.empty(self.gpu, self.dtype, self.shape)
        self.gpu.copy(self.address, copy.address, self.nbytes)
        return copy

"""The functions of a model on a GPU: weights are moved there once; what one step gives the next stays there, outputs if they are wanted there.

Values of programs that bind memory of a GPU (`OrtValue`) are arrays on it, here made, read and written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from planish import ptir
from planish.compiler import compile
from planish.compiler.arguments import DeviceArray
from planish.compiler.device_kinds import Accelerator, accelerator, kind_of
from planish.frontend import devices
from planish.onnx.status import InvalidArgument

Array = NDArray[Any]
_CUDA: Final = "cuda"
"""The GPUs that providers of onnxruntime's stand for here."""


class GpuCall:
    """A compiled function of arrays of the host; those that never change may be given as what `constant` makes of them."""

    def __init__(
        self, function: ptir.Function, device: devices.Device, known: dict[int, tuple[Array, Any]]
    ) -> None:
        self._run = compile(function, device=device.name)
        self._device, self._known = device, known

    on_device = True
    """It takes what lies on the GPU, and leaves its results there."""

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        return self._run(*map(self._device.moved, arrays))

    def constant(self, array: Array) -> Any:
        """The same elements on the GPU, for all functions of the model."""
        pair = self._known.get(id(array))
        if pair is None:
            pair = self._known[id(array)] = (
                array,
                self._device.moved(array),
            )  # the array lives as long: its id is its own
        return pair[1]


def on_gpu(name: str) -> Callable[[ptir.Function], GpuCall]:
    """What compiles functions for a GPU."""
    device, known = devices.find(devices.checked(name)), dict[int, tuple[Array, Any]]()
    return lambda function: GpuCall(function, device, known)


def moved(name: str, array: Any) -> Any:
    """An array on a GPU."""
    return devices.find(devices.checked(name)).moved(array)


def at(name: str, pointer: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """Memory of a GPU that somebody else keeps, as an array."""
    kind, number = kind_of(devices.checked(name))
    return cast("Accelerator", kind).array_at(number, pointer, dtype, shape)


def written(array: Any, place: Any) -> None:
    """Elements of an array, of the host or of the same GPU, into an array on a GPU."""
    if isinstance(array, DeviceArray):
        place.gpu.copy(moved(place.gpu.name, array).address, place.address, place.nbytes)
    else:
        place.gpu.upload(np.asarray(array), place.address)


def number_of(array: Any) -> int:
    """Which GPU an array lies on."""
    return int(array.gpu.number)


def address_of(array: Any) -> int:
    """Where the first element is."""
    return int(array.address)


def capsule(array: Any, **options: Any) -> object:
    """An array on a GPU as DLPack has it."""
    versioned = options.get("max_version") is not None
    return accelerator(_CUDA).lent(array, options.get("stream"), versioned=versioned, read_only=False)


def taken(data: Any) -> Any:
    """What another library holds on a GPU, without a copy."""
    array, strides = accelerator(_CUDA).borrowed(data)
    if strides is not None:
        raise InvalidArgument(
            f"an array of strides {strides} is not in row-major order", remedy="x.contiguous()"
        )
    return array


def gpus() -> tuple[str, ...]:
    """The GPUs of this machine."""
    return tuple(name for name in devices.devices() if name.startswith(_CUDA))

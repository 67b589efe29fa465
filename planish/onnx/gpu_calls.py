"""The functions of a model on a GPU: weights are moved there once, inputs for each call, and outputs come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish import ptir
from planish.compiler import compile
from planish.frontend import devices

Array = NDArray[Any]


class GpuCall:
    """A compiled function of arrays of the host; those that never change may be given as what `constant` makes of them."""

    def __init__(
        self, function: ptir.Function, device: devices.Device, known: dict[int, tuple[Array, Any]]
    ) -> None:
        self._run = compile(function, device=device.name)
        self._device, self._known = device, known

    def __call__(self, *arrays: Any) -> Sequence[Array]:
        return [np.asarray(result) for result in self._run(*map(self._device.moved, arrays))]

    def constant(self, array: Array) -> Any:
        """The same elements on the GPU, for all functions of the model."""
        found = self._known.get(id(array))
        if found is None:
            found = self._known[id(array)] = (
                array,
                self._device.moved(array),
            )  # the array lives as long: its id is its own
        return found[1]


def on_gpu(name: str) -> Callable[[ptir.Function], GpuCall]:
    """What compiles functions for a GPU."""
    device, known = devices.find(devices.checked(name)), dict[int, tuple[Array, Any]]()
    return lambda function: GpuCall(function, device, known)


def gpus() -> tuple[str, ...]:
    """The GPUs of this machine."""
    return tuple(name for name in devices.devices() if name.startswith(devices.CUDA))

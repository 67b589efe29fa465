"""A GPU as a value: its context, its properties, copies, and the stream that everything runs on.

All work of one GPU is in one order: that of the default stream, which is also the one that other libraries use unless they are told
otherwise. So memory that is freed can be given out again at once: whoever gets it runs later.
"""

from __future__ import annotations

import ctypes
import threading
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish.errors import PlanishError
from planish.runtime.cuda.driver import bindings, call, device_count
from planish.runtime.cuda.memory import Pool

Array = NDArray[Any]
STREAM: Final = 0
"""The default stream."""


class Gpu:
    """One GPU."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = f"cuda:{number}"
        call("cuInit", 0)
        self._device = call("cuDeviceGet", number)
        self._context = call("cuDevicePrimaryCtxRetain", self._device, doing=f"when {self.name} was opened")
        self._ready = threading.local()
        self._place = (ctypes.c_int64 * 2)(int(self._context), STREAM)
        self.place = ctypes.addressof(self._place)
        """For native code: its context, and the stream."""
        self.pool = Pool(self)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.model}, {self.arch}, {self.memory_bytes >> 30} GiB>"

    def enter(self) -> None:
        """Make this thread speak to this GPU."""
        if getattr(self._ready, "entered", None) is not self:
            call("cuCtxSetCurrent", self._context)
            self._ready.entered = self
        elif device_count() > 1:
            call("cuCtxSetCurrent", self._context)

    def attribute(self, name: str) -> int:
        """A number that the driver tells, such as `MULTIPROCESSOR_COUNT`."""
        which = getattr(bindings().CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(call("cuDeviceGetAttribute", which, self._device))

    @cached_property
    def model(self) -> str:
        """What it is called."""
        return bytes(call("cuDeviceGetName", 128, self._device)).split(b"\0")[0].decode()

    @cached_property
    def capability(self) -> tuple[int, int]:
        """Its compute capability."""
        return self.attribute("COMPUTE_CAPABILITY_MAJOR"), self.attribute("COMPUTE_CAPABILITY_MINOR")

    @property
    def arch(self) -> str:
        """What code for it is compiled for."""
        major, minor = self.capability
        return f"sm_{major}{minor}" + ("a" if major >= 9 else "")

    @cached_property
    def memory_bytes(self) -> int:
        """All of its memory."""
        return int(call("cuDeviceTotalMem", self._device))

    def free_bytes(self) -> int:
        """What of it nobody has taken, of this process or of another."""
        self.enter()
        return int(call("cuMemGetInfo")[0])

    # -- memory ----------------------------------------------------------------------------------------------------

    def upload(self, array: Array, address: int) -> None:
        """Copy an array to the GPU; when this returns, the array may change."""
        if array.nbytes:
            self.enter()
            given = np.ascontiguousarray(array)
            call(
                "cuMemcpyHtoD",
                address,
                given.ctypes.data,
                given.nbytes,
                doing="while an array was copied to it",
            )

    def download(self, address: int, array: Array) -> None:
        """Copy from the GPU into an array, once all work before is done."""
        if array.nbytes:
            self.enter()
            call(
                "cuMemcpyDtoH",
                array.ctypes.data,
                address,
                array.nbytes,
                doing="while results were copied from it",
            )

    def copy(self, source: int, target: int, nbytes: int) -> None:
        """Copy within the GPU, in the order of the stream."""
        if nbytes and source != target:
            self.enter()
            call("cuMemcpyDtoDAsync", target, source, nbytes, STREAM)

    def synchronize(self) -> None:
        """Wait until everything is done; what went wrong on the way is raised here."""
        self.enter()
        call("cuStreamSynchronize", STREAM, doing="while kernels ran")


_OPEN: Final[dict[int, Gpu]] = {}
_LOCK: Final = threading.Lock()


def gpu(number: int = 0) -> Gpu:
    """A GPU by its number, opened once."""
    found = _OPEN.get(number)
    if found is None:
        with _LOCK:
            if number not in _OPEN:
                if not 0 <= number < device_count():
                    raise PlanishError(
                        f"there is no device cuda:{number}",
                        remedy=f"this machine has {device_count()} GPUs that CUDA can use",
                    )
                _OPEN[number] = Gpu(number)
            found = _OPEN[number]
    return found

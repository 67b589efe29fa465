"""A GPU as a value: its context, its properties, copies, and the stream that everything runs on.

All work of one GPU is in one order: that of the default stream, which is also the one that other libraries use unless they are told
otherwise. So memory that is freed can be given out again at once: whoever gets it runs later. Whoever wants another stream
(`on_stream`) has it wait for the one before, and that for it afterwards: the order stays one.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from sys import intern
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish.errors import PlanishError
from planish.runtime.cuda.driver import bindings, call, device_count
from planish.runtime.cuda.memory import Pool
from planish.runtime.cuda.staging import Staging

Array = NDArray[Any]
_DEFAULT: Final = 0
"""The default stream, as the driver calls it; for DLPack it is 1."""
_NO_TIMING: Final = 2


class Gpu:
    """One GPU."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = intern(f"cuda:{number}")
        call("cuInit", 0)
        self._device = call("cuDeviceGet", number)
        self._context = call("cuDevicePrimaryCtxRetain", self._device, doing=f"when {self.name} was opened")
        self._ready = threading.local()
        self._place = (ctypes.c_int64 * 2)(int(self._context), _DEFAULT)
        self.place = ctypes.addressof(self._place)
        """For native code: its context, and the stream."""
        self.pool = Pool(self)
        self._staging = Staging(self)

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
    def uuid(self) -> str:
        """What tells it from all others."""
        return bytes(call("cuDeviceGetUuid", self._device).bytes).hex()

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

    # -- streams ---------------------------------------------------------------------------------------------------

    @property
    def stream(self) -> int:
        """The stream that everything runs on now."""
        return int(self._place[1])

    @property
    def dlpack_stream(self) -> int:
        """The same, as DLPack calls it."""
        return self.stream or 1

    @contextmanager
    def on_stream(self, stream: int) -> Iterator[None]:
        """Everything runs on another stream, behind what was begun before; and what comes afterwards, behind that."""
        before = self.stream
        self._order(before, stream)
        self._place[1] = stream
        try:
            yield
        finally:
            self._order(stream, before)
            self._place[1] = before

    def shown_to(self, stream: int | None) -> int | None:
        """Let a stream, as DLPack calls it, see all that was begun; which one that is if it is another than ours."""
        if stream == -1:  # whoever asks sees to it himself
            return None
        other = _DEFAULT if stream is None or stream == 1 else stream
        if other == self.stream:
            return None
        self._order(self.stream, other)
        return other

    def wait_for(self, stream: int) -> None:
        """Let what comes wait for what was begun on another stream."""
        self._order(stream, self.stream)

    def _order(self, first: int, second: int) -> None:
        if first == second:
            return
        self.enter()
        event = call("cuEventCreate", _NO_TIMING)
        call("cuEventRecord", event, first)
        call("cuStreamWaitEvent", second, event, 0)
        call("cuEventDestroy", event)

    def seconds(self, events: tuple[Any, Any]) -> float:
        """Between two events that have happened."""
        return float(call("cuEventElapsedTime", *events)) / 1e3

    def forget(self, events: Iterable[Any]) -> None:
        """Nobody asks for them any more."""
        for event in events:
            call("cuEventDestroy", event)

    def event(self) -> Any:
        """When everything that was begun so far is done."""
        self.enter()
        event = call("cuEventCreate", 0)
        call("cuEventRecord", event, self.stream)
        return event

    # -- memory ----------------------------------------------------------------------------------------------------

    def upload(self, array: Array, address: int) -> None:
        """Copy an array to the GPU; when this returns, the array may change."""
        if array.nbytes:
            given = np.ascontiguousarray(array)
            if not self._staging.upload(given.ctypes.data, address, given.nbytes):
                self._moved(
                    "HtoD", address, given.ctypes.data, given.nbytes, "while an array was copied to it"
                )

    def download(self, address: int, array: Array) -> None:
        """Copy from the GPU into an array, once all work before is done."""
        if array.nbytes and not self._staging.download(address, array.ctypes.data, array.nbytes):
            self._moved("DtoH", array.ctypes.data, address, array.nbytes, "while results were copied from it")

    def _moved(self, way: str, target: int, source: int, nbytes: int, doing: str) -> None:
        self.enter()
        if self.stream == _DEFAULT:
            call(f"cuMemcpy{way}", target, source, nbytes, doing=doing)
        else:
            call(f"cuMemcpy{way}Async", target, source, nbytes, self.stream, doing=doing)
            call("cuStreamSynchronize", self.stream, doing=doing)

    def copy(self, source: int, target: int, nbytes: int) -> None:
        """Copy within the GPU, in the order of the stream."""
        if nbytes and source != target:
            self.enter()
            call("cuMemcpyDtoDAsync", target, source, nbytes, self.stream)

    def copy_from(self, other: Gpu, source: int, target: int, nbytes: int) -> None:
        """Copy from another GPU, behind what was begun on both; what either begins afterwards is behind the copy."""
        if not nbytes:
            return
        ready = other._marked()
        self.enter()
        call("cuStreamWaitEvent", self.stream, ready, 0)
        call(
            "cuMemcpyPeerAsync", target, self._context, source, other._context, nbytes, self.stream,
            doing=f"while an array was copied from {other.name} to {self.name}",
        )  # fmt: skip
        taken = self._marked()
        other.enter()
        call("cuStreamWaitEvent", other.stream, taken, 0)
        self.forget((ready, taken))

    def _marked(self) -> Any:
        self.enter()
        event = call("cuEventCreate", _NO_TIMING)
        call("cuEventRecord", event, self.stream)
        return event

    def synchronize(self) -> None:
        """Wait until everything is done; what went wrong on the way is raised here."""
        self.enter()
        call("cuStreamSynchronize", self.stream, doing="while kernels ran")


_OPEN: Final[dict[int, Gpu]] = {}
_LOCK: Final = threading.Lock()


def gpu(number: int = 0) -> Gpu:
    """A GPU by its number, opened once."""
    device = _OPEN.get(number)
    if device is None:
        with _LOCK:
            if number not in _OPEN:
                if not 0 <= number < device_count():
                    raise PlanishError(
                        f"there is no device cuda:{number}",
                        remedy=f"this machine has {device_count()} GPUs that CUDA can use",
                    )
                _OPEN[number] = Gpu(number)
            device = _OPEN[number]
    return device

"""The CUDA driver and NVRTC, as cuda-bindings gives them: imported when asked for, every status looked at.

Nothing else in planish touches the bindings. What goes wrong is a `PlanishError`: no package, no driver, no such device, too little
memory, a kernel that faulted. A fault ends the context: what was on the device is lost, and every later call says so.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Final, NoReturn

from planish.errors import OutOfMemoryError, PlanishError

_INSTALL: Final = "pip install 'planish[cuda]'"
_NO_DEVICE: Final = 100
_OUT_OF_MEMORY: Final = 2
_OLD_DRIVER: Final = frozenset({35, 803})
_STICKY: Final = frozenset({700, 702, 714, 715, 716, 717, 718, 719})
"""Errors after which a context answers nothing else any more."""
_SUSPECTS: Final = 8
WITNESSES: Final[list[Callable[[], Sequence[str]]]] = []
"""Who can tell what was launched last."""


class CudaError(PlanishError):
    """The driver or the device refused."""


class CudaFault(CudaError):
    """A kernel did what it must not; the device cannot be used by this process any more."""


@cache
def bindings() -> Any:
    """`cuda.bindings.driver`."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise CudaError(
            f"CUDA needs the package cuda-bindings, which cannot be imported ({error})", remedy=_INSTALL
        ) from error
    return driver


@cache
def nvrtc() -> Any:
    """`cuda.bindings.nvrtc`."""
    try:
        from cuda.bindings import nvrtc as module

        module.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise CudaError(
            f"compiling for a GPU needs NVRTC, which cannot be loaded ({error})", remedy=_INSTALL
        ) from error
    return module


def call(name: str, *arguments: Any, doing: str = "") -> Any:
    """A function of the driver; its results without the status."""
    try:
        status, *results = getattr(bindings(), name)(*arguments)
    except RuntimeError as error:  # the library itself is not there
        raise CudaError("there is no CUDA driver on this machine", remedy="use device='cpu'") from error
    if int(status):
        refuse(int(status), name, doing)
    return results[0] if len(results) == 1 else tuple(results)


@cache
def _library() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise CudaError(
            f"there is no CUDA driver on this machine ({error})", remedy="use device='cpu'"
        ) from error


def addresses(names: Iterable[str]) -> dict[str, int]:
    """Where functions of the driver are."""
    by_name = {}
    for name in names:
        try:
            by_name[name] = ctypes.cast(_library()[name], ctypes.c_void_p).value or 0
        except AttributeError:
            raise CudaError(
                f"the CUDA driver is too old: it has no {name}", remedy="update the driver to 12.0 or later"
            ) from None
    return by_name


def refuse(status: int, name: str, doing: str) -> NoReturn:
    """The error that a status stands for."""
    word = _word(status)
    where = f" {doing}" if doing else ""
    if status == _OUT_OF_MEMORY:
        raise OutOfMemoryError(
            f"the GPU has too little memory{where}", remedy="free tensors, or use smaller ones"
        )
    if status in _STICKY:
        names = [name for told in WITNESSES for name in told()]
        last = f"; launched last: {', '.join(names[:_SUSPECTS])}" if names else ""
        raise CudaFault(
            f"the GPU stopped{where}: {word}{last}",
            remedy="what is on this GPU is lost to this process; the CPU and its tensors go on working. Start a new process to use the"
            " GPU; with CUDA_LAUNCH_BLOCKING=1 in its environment the kernel at fault is named",
        )
    if status == _NO_DEVICE:
        raise CudaError("the driver finds no GPU", remedy="use device='cpu'; see CUDA_VISIBLE_DEVICES")
    if status in _OLD_DRIVER:
        raise CudaError(
            f"the CUDA driver is too old for the installed cuda-bindings ({word})",
            remedy="update the driver, or install the cuda-bindings of its version",
        )
    raise CudaError(f"{name} failed{where}: {word}")


def _word(status: int) -> str:
    driver = bindings()
    try:
        code = driver.CUresult(status)
    except ValueError:  # of a driver that is newer than the bindings
        return f"status {status}"
    _, name = driver.cuGetErrorName(code)
    _, text = driver.cuGetErrorString(code)
    return f"{name.decode()}, {text.decode()}" if name else f"status {status}"


def device_count() -> int:
    """How many GPUs there are; 0 without a driver, without its package, without a device."""
    return _asked()[0]


def why_none() -> str:
    """Why there is no GPU, or how many there are."""
    return _asked()[1]


@cache
def _asked() -> tuple[int, str]:
    try:
        call("cuInit", 0)
        count = int(call("cuDeviceGetCount"))
    except PlanishError as error:
        return 0, str(error.args[0])
    return count, f"CUDA finds {count} GPUs"

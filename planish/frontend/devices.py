"""Devices: where tensors live and their expressions run.

`"cpu"` runs compiled machine code, `"interpreter"` the reference interpreter of PTIR: slow, obvious, and what every other
device is measured against. Both keep their data in the host's memory, so moving between them copies nothing. `"cuda:0"` and so on are
NVIDIA GPUs, which are looked for when somebody asks; `"cuda"` is the first. A device is a record: how it compiles a function, and
how its memory is held. Whatever is elsewhere when it is needed is moved there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from sys import intern
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np

from planish import compiler, ptir
from planish.compiler.device_kinds import HOST, KINDS, kind_named, kind_of
from planish.config import Settings, current
from planish.errors import PlanishError, did_you_mean
from planish.frontend.execute import interpret
from planish.frontend.nan_check import interpret_without_nan
from planish.frontend.storage import Array, Storage, fetched
from planish.records import dataclass

if TYPE_CHECKING:
    from planish.compiler.device_kinds import Accelerator
    from planish.ptir.passes import Passes

Runnable: TypeAlias = Callable[..., Sequence[Storage]]
"""A compiled function: one storage of its device for each parameter, to one for each result."""


def _same(array: Array) -> Storage:
    return array


@dataclass(frozen=True, slots=True)
class Device:
    """A place where expressions run."""

    name: str
    compile: Callable[[ptir.Function, Passes, Sequence[int]], Runnable]
    """A function, the passes before it is lowered, and which parameters are donated."""
    storage: type = np.ndarray
    """The class that holds its memory."""
    put: Callable[[Any], Storage] = _same
    """The elements of an array of the host, or of its kind on another device, in its memory."""

    @property
    def is_host(self) -> bool:
        """Whether its memory is the host's."""
        return self.storage is np.ndarray

    def moved(self, storage: Storage) -> Storage:
        """The same elements in its memory; the storage itself if it lies there."""
        alike = isinstance(storage, self.storage)
        if self.is_host_of(storage) or (alike and getattr(storage, "device", self.name) == self.name):
            return storage
        return self.put(storage if alike else fetched(storage))

    def is_host_of(self, storage: Storage) -> bool:
        """Whether both are the host's memory, by whatever name."""
        return self.is_host and isinstance(storage, np.ndarray)


def _machine_code(function: ptir.Function, passes: Passes, donated: Sequence[int]) -> Runnable:
    return compiler.compile(function, passes=passes, donate=donated)


def _interpreter(function: ptir.Function, passes: Passes, donated: Sequence[int]) -> Runnable:
    _meet(function)
    return lambda *arrays: _own(interpret(function, arrays), arrays)


def _without_nan(function: ptir.Function, passes: Passes, donated: Sequence[int]) -> Runnable:
    _meet(function)
    return lambda *arrays: _own(interpret_without_nan(function, arrays), arrays)


def _meet(function: ptir.Function) -> None:
    """Ranks that are to exchange find out beforehand whether all of them interpret the same program."""
    if function.layout is not None:
        from planish.compiler.collectives import prepare_interpreted  # who is by himself does not wait for it

        prepare_interpreted(function)


def _own(results: Sequence[Array], arrays: Sequence[Array]) -> list[Array]:
    """Results in memory of their own, also where the interpreter hands out what it was given."""
    return [
        array.copy() if any(map(partial(np.may_share_memory, array), arrays)) else array for array in results
    ]


CPU: Final = HOST
INTERPRETER: Final = "interpreter"
DEVICES: Final = {
    device.name: device for device in (Device(CPU, _machine_code), Device(INTERPRETER, _interpreter))
}
_CHECKED: Final = Device(INTERPRETER, _without_nan)


def placed(array: Array, device: str | None) -> Storage:
    """Data of the host for a tensor that is tied to a device, or to none."""
    return array if device is None else find(device).put(array)


def devices() -> tuple[str, ...]:
    """The devices there are."""
    return (*DEVICES, *(name for kind in _accelerators() for name in _numbered(kind)))


def _accelerators() -> list[str]:
    """Kinds of devices with memory of their own; they are looked for when somebody asks."""
    return [kind for kind in KINDS if kind != HOST]


def _numbered(kind: str) -> tuple[str, ...]:
    """The devices of a kind; none without its packages or a driver."""
    return tuple(f"{kind}:{number}" for number in range(kind_named(kind).count()))


def find(name: str) -> Device:
    """A device by its name."""
    device = DEVICES.get(name)
    if device is None:
        device = _accelerated(checked(name))
    return device


@cache
def _accelerated(name: str) -> Device:
    kind, number = kind_of(name)

    def compile(function: ptir.Function, passes: Passes, donated: Sequence[int]) -> Runnable:
        return compiler.compile(function, passes=passes, donate=donated, device=name)

    return Device(name, compile, kind.storage, partial(kind.put, number))


def stream(handle: object, device: str = "cuda") -> AbstractContextManager[None]:
    """Inside, all work of a GPU runs on another library's stream, such as `torch.cuda.current_stream()`, or its address.

    It runs behind what was begun before, and what comes afterwards runs behind it.
    """
    name = checked(device)
    if name in DEVICES:
        raise PlanishError.at_caller(f"{name} has no streams", "name a GPU, such as cuda:0")
    kind, number = kind_of(name)
    return cast("Accelerator", kind).on_stream(number, handle)


def default_device() -> str:
    """Where tensors live that nothing puts elsewhere: the setting `device`."""
    return checked(current().device)


def running(name: str, settings: Settings) -> Device:
    """What computes expressions of a device under these settings."""
    return _CHECKED if settings.check == "nan" else find(checked(name))


def checked(device: str) -> str:
    """The name of a device that exists, or an error."""
    if device in DEVICES:
        return device
    kind = str(device).partition(":")[0]
    if device == kind and kind in _accelerators():
        device = f"{device}:0"
    if kind in _accelerators() and device in _numbered(kind):
        return intern(device)  # the short way into a function compares names by identity
    known = devices()
    close = did_you_mean(str(device), known)
    hint = "" if close is None else f"did you mean {close!r}? "
    why = ""
    if kind in _accelerators():
        why = f" ({kind_named(kind).why_none()})"
    raise PlanishError.at_caller(f"there is no device {device!r}{why}", f"{hint}devices: {', '.join(known)}")


def common_device(op: str, names: set[str]) -> str | None:
    """The one device of several tensors; None if none of them is tied to one."""
    if len(names) < 2:
        return next(iter(names), None)
    raise PlanishError.of(
        op,
        f"operands live on different devices, {' and '.join(sorted(names))}",
        "move one of them with x.to_device(…)",
    )

"""Kinds of devices: one interface to the memory, the code and the measurements of what runs functions, and the table of the kinds there are.

    kind_of("cuda:1")       the kind of a device
    kind_for(target)        the kind that runs code for a machine

A kind is one object (`KIND` of the module that its row names). A further kind is a folder with such an object, a row here, and a `Target` that
says `device`; who compiles, moves, profiles, searches or shows something asks the kind and need not know which it is. Nothing of a kind is
imported before somebody asks for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeAlias, cast

from planish.errors import PlanishError
from planish.records import dataclass

if TYPE_CHECKING:
    import numpy as np

    from planish.compiler import Executable, Lowered
    from planish.compiler.lowering import CodeMaker
    from planish.compiler.native import Backend
    from planish.llir.program import Program
    from planish.runtime.grid import GridKernel
    from planish.runtime.sandbox import Trial, TrialBuffer
    from planish.target import Target

Storage: TypeAlias = Any
"""The elements of a value in the memory of a device: a NumPy array, or an array of the device's kind."""


class KeptMemory(Protocol):
    """The memory of a device that this process has."""

    @property
    def statistics(self) -> Any:
        """What is used and what is kept."""

    def release(self) -> int:
        """Give back what is kept; how many bytes that was."""


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """A device in words and numbers."""

    model: str
    arch: str
    ghz: float | None
    """Its clock, if it is told."""
    memory_bytes: int


class DeviceKind(ABC):
    """A kind of device. Devices of one kind have numbers; code for them is of some `Target` whose `device` is the name of the kind."""

    name: ClassVar[str]
    storage: type
    """The class of arrays in its memory."""

    # -- which there are ---------------------------------------------------------------------------------------------

    @abstractmethod
    def count(self) -> int:
        """How many of them this machine has."""

    @abstractmethod
    def why_none(self) -> str:
        """Why there is none, for an error."""

    @abstractmethod
    def target(self, number: int) -> Target:
        """The machine that a device is, for the compiler."""

    @abstractmethod
    def number_for(self, target: Target) -> int | None:
        """The first device here that runs code for a machine; None if there is none."""

    @abstractmethod
    def properties(self, number: int) -> DeviceProperties:
        """What a device is."""

    @abstractmethod
    def title(self, target: Target) -> str:
        """The device here that runs code for a machine, in words: what was measured on one with another title says nothing of it."""

    # -- memory ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def put(self, number: int, array: Any) -> Storage:
        """The elements of an array of the host, or of a device of this kind, in the memory of a device."""

    @abstractmethod
    def memory(self, number: int) -> KeptMemory:
        """The memory of a device that this process has."""

    # -- code --------------------------------------------------------------------------------------------------------

    @abstractmethod
    def load(self, lowered: Lowered, number: int, backend: Backend) -> Executable:
        """A lowered function, ready to be called; its events, graphs and launches are its own."""

    @abstractmethod
    def code_maker(self, target: Target) -> CodeMaker:
        """How kernels become machine code while others are being lowered."""

    @abstractmethod
    def code(
        self, program: Program, target: Target, level: str, *, aliased: Sequence[int] = (), scratch: int = 0
    ) -> str:
        """A kernel as text, at a level of the kind's row; `aliased`: parameters that may share memory with another."""

    @abstractmethod
    def trial(self, program: Program, places: Sequence[TrialBuffer], target: Target) -> Trial:
        """A kernel as a worker of the search wants it."""


class Accelerator(DeviceKind):
    """A kind whose memory is not the host's: arrays come from other libraries and go to them, and work is in the order of a stream."""

    @abstractmethod
    def launches(self, lowered: Lowered) -> tuple[GridKernel, ...]:
        """What its driver is told of each kernel."""

    @abstractmethod
    def array_at(self, number: int, address: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Storage:
        """Memory that somebody else keeps, as an array."""

    @abstractmethod
    def borrowed(self, x: Any) -> tuple[Storage, tuple[int, ...] | None]:
        """The array of another library in place, by DLPack; if it is not in row-major order, all memory it is in, and its strides."""

    @abstractmethod
    def lent(self, array: Storage, stream: int | None, *, versioned: bool, read_only: bool) -> object:
        """A capsule of DLPack for another library, which will use the array on a stream."""

    @abstractmethod
    def at_once(self, x: Any) -> Storage | None:
        """The array of another library in place, where that takes no capsule; else None."""

    @abstractmethod
    def reader_of(self, number: int, kind: Any, shape: tuple[int, ...]) -> Callable[[Any], Storage | None]:
        """`at_once` for arrays that are known to have a dtype of their library, a shape, and row-major order."""

    @abstractmethod
    def writer_of(
        self, number: int, dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> Callable[[Storage], Any]:
        """Arrays of one dtype and shape as another library's, in place."""

    @abstractmethod
    def array_interface(self, array: Storage) -> dict[str, Any]:
        """What libraries that know no DLPack read of an array."""

    @abstractmethod
    def on_stream(self, number: int, handle: object) -> AbstractContextManager[None]:
        """Inside, everything of a device runs on another library's stream, given as that library's object or its address."""


@dataclass(frozen=True, slots=True)
class KindRow:
    """What is known of a kind before it is imported."""

    module: str
    levels: tuple[str, ...]
    """What its code can be read as, behind LLIR."""
    dumped: tuple[str, ...]
    """Those of them that a dump of a function has."""
    dlpack: tuple[int, ...]
    """DLPack's names for its memory; arrays of ours have the first."""


HOST: Final = "cpu"
KINDS: Final = {
    HOST: KindRow("planish.compiler.cpu_device", ("llvm", "c", "asm"), ("llvm", "asm"), (1,)),
    # 13: memory that the host shares
    "cuda": KindRow("planish.compiler.cuda", ("cuda", "ptx", "sass"), ("cuda", "ptx"), (2, 13)),
}


@cache
def kind_named(name: str) -> DeviceKind:
    """A kind by its name."""
    return cast("DeviceKind", import_module(KINDS[name].module).KIND)


def accelerator(name: str) -> Accelerator:
    """A kind whose memory is not the host's, by its name."""
    return cast("Accelerator", kind_named(name))


def kind_for(target: Target) -> DeviceKind:
    """The kind that runs code for a machine."""
    return kind_named(target.device)


def kind_of(device: str) -> tuple[DeviceKind, int]:
    """The kind of a device such as `cuda:1`, and its number; `cuda` is the first."""
    kind, _, number = device.partition(":")
    if kind not in KINDS or not (number.isdecimal() or device == kind):
        raise PlanishError(
            f"there is no device {device!r}", remedy="cpu, or cuda:0 and so on; see planish.devices()"
        )
    return kind_named(kind), int(number or 0)


def kind_of_level(level: str) -> DeviceKind:
    """The kind whose code can be read at a level."""
    return kind_named(next(name for name, row in KINDS.items() if level in row.levels))


def kind_of_memory(code: int) -> str | None:
    """The name of the kind that has what DLPack calls memory of a code."""
    return next((name for name, row in KINDS.items() if code in row.dlpack), None)

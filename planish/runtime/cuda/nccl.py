"""NCCL: collectives between GPUs, on a stream like kernels, so that graphs hold them.

The library is that of the package nvidia-nccl, beside others in site-packages, or the system's. Ranks that are to exchange make a communicator together: the
first of them thinks of a name for it, which all must have heard before.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from planish.errors import PlanishError
from planish.records import dataclass
from planish.runtime.cuda.device import Gpu
from planish.runtime.cuda.driver import call

_LIBRARY: Final = "libnccl.so.2"
_REMEDY: Final = "pip install 'planish[nccl]'"
NAME_BYTES: Final = 128
TYPES: Final = {
    "int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9,
}  # fmt: skip
OPERATIONS: Final = {"sum": 0, "prod": 1, "max": 2, "min": 3}
BYTES: Final = 0
"""The type that data are of which only move."""


class NcclError(PlanishError):
    """NCCL refused."""


class _Name(ctypes.Structure):
    """`ncclUniqueId`, which is passed by value."""

    _fields_ = [("bytes", ctypes.c_char * NAME_BYTES)]


_PLACE, _COUNT, _NUMBER = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_FUNCTIONS: Final[dict[str, list[Any]]] = {
    "GetVersion": [_PLACE],
    "GetUniqueId": [_PLACE],
    "CommInitRank": [_PLACE, _NUMBER, _Name, _NUMBER],
    "CommGetAsyncError": [_PLACE, _PLACE],
    "CommAbort": [_PLACE],
    "AllReduce": [_PLACE, _PLACE, _COUNT, _NUMBER, _NUMBER, _PLACE, _PLACE],
    "AllGather": [_PLACE, _PLACE, _COUNT, _NUMBER, _PLACE, _PLACE],
    "ReduceScatter": [_PLACE, _PLACE, _COUNT, _NUMBER, _NUMBER, _PLACE, _PLACE],
    "Broadcast": [_PLACE, _PLACE, _COUNT, _NUMBER, _NUMBER, _PLACE, _PLACE],
    "Send": [_PLACE, _COUNT, _NUMBER, _NUMBER, _PLACE, _PLACE],
    "Recv": [_PLACE, _COUNT, _NUMBER, _NUMBER, _PLACE, _PLACE],
    "GroupStart": [],
    "GroupEnd": [],
}


@cache
def library() -> ctypes.CDLL | str:
    """NCCL, or why there is none."""
    places = [_LIBRARY]
    try:
        spec = find_spec("nvidia.nccl")
    except (ImportError, ValueError):
        spec = None
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        places.insert(0, str(Path(folder) / "lib" / _LIBRARY))
    why = ""
    for place in places:
        try:
            nccl = ctypes.CDLL(place)
        except OSError as error:
            why = why or str(error)
            continue
        for name, given in _FUNCTIONS.items():
            function = getattr(nccl, f"nccl{name}")  # which keeps it, as an index would not
            function.argtypes, function.restype = given, _NUMBER
        nccl.ncclGetErrorString.restype = ctypes.c_char_p
        return nccl
    return why


def is_there() -> bool:
    """Whether NCCL can be loaded."""
    return not isinstance(library(), str)


def ask(name: str, *given: Any, doing: str = "") -> None:
    """A function of NCCL; what it refuses is an error."""
    nccl = library()
    if isinstance(nccl, str):
        raise NcclError(f"NCCL cannot be loaded: {nccl}", remedy=_REMEDY)
    status = getattr(nccl, f"nccl{name}")(*given)
    if status:
        word = nccl.ncclGetErrorString(status).decode()
        raise NcclError(
            f"NCCL refused {name}{f' {doing}' if doing else ''}: {word}",
            remedy="NCCL_DEBUG=WARN in the environment makes it say more",
        )


def version() -> tuple[int, int, int]:
    """Of the library."""
    number = _NUMBER()
    ask("GetVersion", ctypes.byref(number))
    major, rest = divmod(number.value, 10000)
    return major, rest // 100, rest % 100


def new_name() -> bytes:
    """For a communicator that is to be."""
    name = _Name()
    ask("GetUniqueId", ctypes.byref(name))
    return ctypes.string_at(ctypes.byref(name), NAME_BYTES)


def communicator(gpu: Gpu, name: bytes, members: int, place: int) -> int:
    """Of so many ranks, this one's place among them; all make it at the same time."""
    gpu.enter()
    handle, own = ctypes.c_void_p(), _Name()
    ctypes.memmove(ctypes.byref(own), name, NAME_BYTES)
    ask("CommInitRank", ctypes.byref(handle), members, own, place, doing=f"for {members} ranks on {gpu.name}")
    return handle.value or 0


@dataclass(frozen=True, slots=True)
class NcclCollective:
    """One collective of a program, as it is put on a stream."""

    op: str
    communicator: int
    members: int
    place: int
    itemsize: int
    type: int = BYTES
    operation: int = 0
    scale: int = 1
    """Elements of the type for one of the tensor."""
    root: int = -1
    source: int = -1
    target: int = -1
    what: str = ""
    """For people."""
    watched: bool = False
    """Whether somebody looks how long it takes."""

    def put_on(self, stream: int, given: int, into: int, count: int) -> None:
        """`count` is the elements that a rank gives to each other, or to all."""
        _PUT[self.op](self, given, into, count * self.scale, stream)

    def _combined(self, function: str, given: int, into: int, count: int, stream: int) -> None:
        ask(
            function,
            given,
            into,
            count,
            self.type,
            self.operation,
            self.communicator,
            stream,
            doing=f"of {self.what}",
        )

    def _all_reduce(self, given: int, into: int, count: int, stream: int) -> None:
        self._combined("AllReduce", given, into, count, stream)

    def _reduce_scatter(self, given: int, into: int, count: int, stream: int) -> None:
        self._combined("ReduceScatter", given, into, count, stream)

    def _all_gather(self, given: int, into: int, count: int, stream: int) -> None:
        ask("AllGather", given, into, count, self.type, self.communicator, stream, doing=f"of {self.what}")

    def _broadcast(self, given: int, into: int, count: int, stream: int) -> None:
        ask(
            "Broadcast",
            given,
            into,
            count,
            self.type,
            self.root,
            self.communicator,
            stream,
            doing=f"of {self.what}",
        )

    def _all_to_all(self, given: int, into: int, count: int, stream: int) -> None:
        ask("GroupStart")
        for other in range(self.members):
            self._send(given + other * count, count, other, stream)
            self._receive(into + other * count, count, other, stream)
        ask("GroupEnd", doing=f"of {self.what}")

    def _permute(self, given: int, into: int, count: int, stream: int) -> None:
        if self.source < 0 and count:
            call("cuMemsetD8Async", into, 0, count, stream)
        ask("GroupStart")
        if self.target >= 0:
            self._send(given, count, self.target, stream)
        if self.source >= 0:
            self._receive(into, count, self.source, stream)
        ask("GroupEnd", doing=f"of {self.what}")

    def _send(self, at: int, count: int, to: int, stream: int) -> None:
        ask("Send", at, count, self.type, to, self.communicator, stream, doing=f"of {self.what}")

    def _receive(self, at: int, count: int, source: int, stream: int) -> None:
        ask("Recv", at, count, self.type, source, self.communicator, stream, doing=f"of {self.what}")


_PUT: Final[dict[str, Callable[[NcclCollective, int, int, int, int], None]]] = {
    "all_reduce": NcclCollective._all_reduce,
    "reduce_scatter": NcclCollective._reduce_scatter,
    "all_gather": NcclCollective._all_gather,
    "broadcast": NcclCollective._broadcast,
    "all_to_all": NcclCollective._all_to_all,
    "permute": NcclCollective._permute,
}

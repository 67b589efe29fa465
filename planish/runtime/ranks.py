"""The ranks that run together: found by `init()`, through MPI where the process was started by it, else this process alone.

    pn.distributed.init()
    pn.distributed.rank(), pn.distributed.size()

MPI is mpi4py's: its library, its communicators. What plans call is found in that library by name (`planish.compiler.collectives`); groups of a mesh are
communicators of their own, made when the first program needs them. Agreements between ranks that are no collectives of a program (that
all run the same one, on devices of one kind) go through `World.agree`, which gives up after the patience of `init`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planish.errors import PlanishError
from planish.records import dataclass

if TYPE_CHECKING:
    from mpi4py import MPI

Groups: TypeAlias = tuple[tuple[int, ...], ...]
"""The ranks of each group in the order of their places."""
PATIENCE: Final = 300.0
"""Seconds that a rank waits in a collective."""
_STARTED_BY: Final = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "MPI_LOCALNRANKS")
"""What the launchers of MPI tell a process: how many there are."""
_POLL: Final = 0.0005


class CollectiveError(PlanishError):
    """Ranks did not come together: one waited in vain, runs another program, or could not be reached."""


@dataclass(slots=True)
class World:
    """All ranks, as one of them sees them."""

    rank: int
    size: int
    patience: float
    communicator: MPI.Comm | None = None
    """Of all ranks, for planish alone; None for a process by itself."""
    nccl: bool = False
    """Whether collectives of programs on GPUs are NCCL's; else they go through the host."""
    _groups: dict[Groups, MPI.Comm] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<rank {self.rank} of {self.size}>"

    def group(self, groups: Groups) -> MPI.Comm:
        """The communicator of this rank's group, of all groups. All ranks ask for it at the same time, the first time."""
        if self.communicator is None:
            raise CollectiveError("this process runs alone", remedy="start it with planish launch")
        communicator = self._groups.get(groups)
        if communicator is None:
            own = next(number for number, ranks in enumerate(groups) if self.rank in ranks)
            split = self.communicator.Split(own, groups[own].index(self.rank))
            communicator = self._groups[groups] = split
        return communicator

    def agree(self, what: str, told: bytes) -> list[bytes]:
        """What every rank says, in their order; all say something at the same time."""
        if self.communicator is None:
            return [told]
        lengths = np.zeros(self.size, np.int64)
        self._await(what, self.communicator.Iallgather(np.array([len(told)], np.int64), lengths))
        longest = int(lengths.max())
        padded = np.frombuffer(told.ljust(longest, b"\0"), np.uint8)
        everything = np.zeros((self.size, longest), np.uint8)
        self._await(what, self.communicator.Iallgather(padded, everything))
        return [row.tobytes()[:length] for row, length in zip(everything, lengths.tolist(), strict=True)]

    def barrier(self, what: str = "barrier") -> None:
        """Until all ranks are here."""
        self.agree(what, b"")

    def gather(self, what: str, groups: Groups, array: NDArray[Any]) -> NDArray[Any]:
        """What the ranks of this one's group give, behind each other along a new first axis."""
        group = self.group(groups)
        own = np.ascontiguousarray(array)
        everything = np.empty((group.size, *own.shape), own.dtype)
        sent, received = (
            np.frombuffer(each, np.uint8) if each.size else np.empty(0, np.uint8)
            for each in (own, everything)
        )
        self._await(what, group.Iallgather(sent, received))
        return everything

    def _await(self, what: str, request: MPI.Request) -> None:
        begin = time.monotonic()
        while not request.Test():
            waited = time.monotonic() - begin
            if waited > self.patience:
                raise late(self, what, self.patience)
            if waited > _POLL:
                time.sleep(_POLL)


def late(world: World, what: str, patience: float) -> CollectiveError:
    """A rank has waited as long as it would."""
    return CollectiveError(
        f"rank {world.rank} of {world.size} waited {patience:g} s for other ranks in {what}",
        remedy="see what the other ranks do there: every rank must call the same functions in the same order; "
        "where they only need longer, planish.distributed.init(timeout=…)",
    )


_WORLD: Final[list[World]] = []


def init(backend: str | None = None, *, timeout: float = PATIENCE) -> World:
    """Find the other ranks. Every rank calls it once, before anything that is sharded; calling it again changes the timeout alone.

    `backend` is what carries collectives: `mpi`; `nccl`, between GPUs, whose ranks are found by MPI if mpi4py is installed; or `none` for a process by itself.
    By default what is there: MPI, and NCCL for programs on GPUs. `timeout` is how many seconds a rank waits
    in a collective before it gives up. From here on an exception that nobody catches ends all ranks.
    """
    if backend not in (None, "mpi", "nccl", "none"):
        raise PlanishError(f"unknown backend {backend!r}", remedy="'mpi', 'nccl', 'none', or nothing")
    if timeout <= 0:
        raise PlanishError(f"the timeout is {timeout} s", remedy="a number above 0")
    if not _WORLD:
        new_world = World(0, 1, timeout) if backend == "none" else _by_mpi(timeout, needed=backend == "mpi")
        new_world.nccl = _by_nccl(backend)
        _WORLD.append(new_world)
        if new_world.communicator is not None:
            from planish.runtime import rank_faults

            rank_faults.watch(new_world)
    _WORLD[0].patience = timeout
    for told in _ON_TIMEOUT:
        told(timeout)
    return _WORLD[0]


_ON_TIMEOUT: Final[list[Callable[[float], None]]] = []


def on_timeout(told: Callable[[float], None]) -> None:
    """Somebody else wants to know how long a rank waits, if it changes."""
    _ON_TIMEOUT.append(told)


def _by_mpi(timeout: float, *, needed: bool) -> World:
    expected = max(
        (int(os.environ[name]) for name in _STARTED_BY if os.environ.get(name, "").isdecimal()), default=1
    )
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        if not needed and expected == 1:
            return World(0, 1, timeout)
        raise PlanishError(
            f"this process is to be one of {expected}, and mpi4py cannot be used: {error}",
            remedy="pip install 'planish[mpi]'",
        ) from None
    size = MPI.COMM_WORLD.Get_size()
    if size == 1 and expected > 1:
        raise PlanishError(
            f"this process was started as one of {expected}, and MPI says it is alone: the mpirun that started it belongs to another MPI "
            f"than mpi4py ({MPI.get_vendor()[0]})",
            remedy="start it with planish launch -n N, which finds the right one",
        )
    own = MPI.COMM_WORLD.Dup()
    own.Set_errhandler(MPI.ERRORS_RETURN)
    return World(own.Get_rank(), size, timeout, own)


def _by_nccl(backend: str | None) -> bool:
    """Whether NCCL is there, for whoever has GPUs; who asks for it must have both."""
    from planish.runtime.cuda import driver, nccl

    if backend not in (None, "nccl"):
        return False
    if backend == "nccl":
        if not driver.device_count():
            raise PlanishError(f"NCCL needs a GPU: {driver.why_none()}", remedy="pn.distributed.init('mpi')")
        nccl.version()
    return bool(driver.device_count()) and nccl.is_there()


def local_rank() -> int:
    """Which of the ranks on this machine this process is: the number of the GPU that is its own."""
    own = world().communicator
    if own is None:
        return 0
    from mpi4py import MPI

    near = own.Split_type(MPI.COMM_TYPE_SHARED)
    try:
        return int(near.Get_rank())
    finally:
        near.Free()


def world() -> World:
    """The ranks that `init` found; before it, this process alone."""
    return _WORLD[0] if _WORLD else World(0, 1, PATIENCE)


def rank() -> int:
    """Which of the ranks this process is."""
    return world().rank


def size() -> int:
    """How many ranks there are."""
    return world().size


def barrier() -> None:
    """Wait until all ranks are here."""
    world().barrier()


def handle_of(item: Any) -> int:
    """A handle of MPI as plans hand it on: a number or an address, whichever this MPI has."""
    from mpi4py import MPI

    return int(MPI._handleof(item))

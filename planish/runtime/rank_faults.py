"""Faults: what one rank cannot go on from ends all of them, with one message that says which rank and why.

An exception that nobody catches is written with its rank and traceback, in one piece, and MPI ends the other ranks: they would wait for
this one for ever. The same holds for one in a thread. A rank that is killed is noticed by mpirun, which ends the others; `planish launch` says which one it was.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from types import TracebackType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from planish.runtime.ranks import World

STATUS: Final = 70
"""With which all ranks end if one fails (EX_SOFTWARE)."""
_RUNNERS: Final = ("<frozen runpy>", "distributed/script.py")
"""Frames before those of the user's script."""
ENDED: Final = "and all ranks end"
"""What every message of the last rank says, so that a launcher need not say more."""


def message(
    world: World, kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> str:
    """What is said of an exception that ends all ranks."""
    while trace is not None and trace.tb_frame.f_code.co_filename.endswith(_RUNNERS):
        trace = trace.tb_next
    told = "".join(traceback.format_exception(kind, error, trace))
    return f"rank {world.rank} of {world.size} failed, {ENDED}:\n{told}"


def end_all(world: World, text: str, status: int = STATUS) -> None:
    """Write a message in one piece and end all ranks; does not return."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue
    os.write(2, text.encode("utf-8", "backslashreplace"))
    if world.communicator is not None:
        from mpi4py import MPI

        MPI.COMM_WORLD.Abort(status)
    os._exit(status)


def watch(world: World) -> None:
    """From now on an exception that nobody catches ends all ranks."""
    before, before_threads = sys.excepthook, threading.excepthook

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if world.size == 1:
            before(kind, error, trace)
        else:
            end_all(
                world,
                message(world, kind, error, trace),
                130 if issubclass(kind, KeyboardInterrupt) else STATUS,
            )

    def uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
        if world.size == 1 or issubclass(args.exc_type, SystemExit):
            before_threads(args)
        else:
            end_all(world, message(world, args.exc_type, args.exc_value, args.exc_traceback))

    sys.excepthook, threading.excepthook = uncaught, uncaught_in_thread

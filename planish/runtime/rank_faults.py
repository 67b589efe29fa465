"""Faults: what one rank cannot go on from ends all of them, with one message that says which rank and why.

An exception that nobody catches is written with its rank and traceback, in one piece, and MPI ends the other ranks: they would wait for
this one for ever. The same holds for one in a thread. A rank that is killed is noticed by mpirun, which ends the others; `planish launch` says which one it was.

Last words are left in the launcher's folder, if there is one: mpirun may end before it has read what a rank that asks for the end of all wrote last.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from pathlib import Path
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
_LAST_WORDS: Final = "last-words-"
_FOLDERS: Final[list[Path]] = []


def leave_last_words_in(folder: Path) -> None:
    """From now on a launcher on this machine reads there what this rank says last."""
    _FOLDERS[:] = [folder]


def last_words(folder: Path) -> str:
    """What ranks that ended all have left to say."""
    return "".join(path.read_text("utf-8") for path in sorted(folder.glob(f"{_LAST_WORDS}*")))


def _say(rank: int, text: str) -> None:
    """To the launcher where there is one on this machine, else to whoever reads the errors of this process."""
    said = text.encode("utf-8", "backslashreplace")
    for folder in _FOLDERS:
        try:
            (folder / f"{_LAST_WORDS}{rank}").write_bytes(said)
        except OSError:
            continue
        return
    os.write(2, said)


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
    _say(world.rank, text)
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

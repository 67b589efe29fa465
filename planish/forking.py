"""A fork while other threads are at work: nothing is left half done in the child, which has only the thread that forked.

Modules of planish are imported when they are first asked for, by whatever thread. Whoever imports one holds its lock; in the child
that thread is not there any more, and whoever asks for the module would wait for ever. So a fork waits until nobody else is
importing planish or what it is made of, and holds Python's lock of the import system, so that nobody begins. Locks of our own
that a child needs (`hold`) are held over it as well. All of this is one hook: one that is added while a fork waits would be
called after it, and not before.
"""

from __future__ import annotations

import _imp
import os
import sys
import threading
import time
from importlib import _bootstrap
from typing import Any, Final

_OURS: Final = frozenset({"planish", "numpy", "ml_dtypes", "llvmlite", "onnx"}) | sys.stdlib_module_names
"""Python's own modules are among what planish imports late; modules of others may take as long as a program does."""
_MODULES: Final[dict[str, Any]] = getattr(_bootstrap, "_module_locks", {})
"""The locks of modules that are being imported, by name, behind weak references."""
_PATIENCE: Final = 10.0
"""Seconds: an import that waits for whoever forks never ends, and the fork must."""
_locks: Final[list[threading.Lock]] = []
_taken: Final[list[threading.Lock]] = []
"""Those that are held for the fork under way."""


def hold(lock: threading.Lock) -> None:
    """No fork happens while another thread has this lock; both processes have it free afterwards."""
    _locks.append(lock)


def _is_importing() -> bool:
    """Whether another thread is importing what planish needs."""
    me = threading.get_ident()
    for name, reference in list(_MODULES.items()):
        if name.partition(".")[0] in _OURS:
            lock = reference()
            if lock is not None and lock.owner not in (None, me):
                return True
    return False


def _before() -> None:
    limit = time.monotonic() + _PATIENCE
    while True:
        for lock in _locks[len(_taken) :]:  # those of modules that were imported meanwhile, too
            lock.acquire()
            _taken.append(lock)
        _imp.acquire_lock()
        if time.monotonic() > limit or (len(_taken) == len(_locks) and not _is_importing()):
            return
        _imp.release_lock()
        time.sleep(0.001)


def _after() -> None:
    _imp.release_lock()
    while _taken:
        _taken.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)

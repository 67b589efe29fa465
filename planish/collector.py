"""Python's collector of cycles, held off while something makes many objects and hardly any garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_off"]


@contextmanager
def collector_off() -> Iterator[None]:
    """Hold it off: compiling makes no garbage cycles worth a walk over all that there is, nor does what is imported for it.

    Afterwards all that was made counts as old: as young, the first walk of the collector would be over everything.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if gc.get_freeze_count() == 0:  # what somebody has frozen stays so
                gc.freeze()
                gc.unfreeze()
            gc.enable()

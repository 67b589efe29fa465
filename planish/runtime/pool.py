"""Worker pool: native threads outside Python that take numbered chunks of a job (`planish/runtime/native/pool.c`).

Workers spin for a while after the last job, then sleep in a futex; a job wakes them only if it is worth the wake. After a fork the
child has no workers: the pool is reset, and workers start again with the next job. Workers are daemon threads; they end with the
process.
"""

from __future__ import annotations

import ctypes
import os
import threading
from functools import cache
from pathlib import Path

from planish.config import Settings, current
from planish.runtime.native import Functions


@cache
def available_cores() -> int:
    """The cores this process may use: by affinity and by the quota of its control group."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            cores = min(cores, max(1, round(int(quota) / int(period))))
    except (OSError, ValueError):
        pass
    return max(1, cores)


def wanted_threads() -> int:
    """How many threads a call of this moment may use, its own among them."""
    return current().threads or available_cores()


class WorkerPool:
    """The workers of a module's pool."""

    def __init__(self, module: Functions) -> None:
        self._module = module  # its code runs as long as a worker does
        self._work = ctypes.CFUNCTYPE(None)(module.address("pool_worker"))
        self._forget = ctypes.CFUNCTYPE(None)(module.address("pool_reset"))
        self._cores = available_cores()
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def threads(self, settings: Settings) -> int:
        """How many threads a call under such settings may use; so many are there."""
        wanted = settings.threads or self._cores
        if self.workers < wanted - 1:
            self.prepare(wanted)
        return wanted

    def prepare(self, threads: int | None = None) -> None:
        """Start the workers that so many threads (by default as the settings say) ask for, if they are not there yet."""
        wanted = (threads or wanted_threads()) - 1
        if self.workers >= wanted:
            return
        with self._lock:
            while self.workers < wanted:
                self.workers += 1
                threading.Thread(target=self._work, daemon=True, name=f"planish-{self.workers}").start()

    def _reset(self) -> None:
        """No job, no workers: as it begins, and as a child process finds itself."""
        self._forget()
        self._lock = threading.Lock()
        self.workers = 0
        """How many threads there are besides the caller."""

"""Forks while other threads import or compile: the child can do both, and nobody waits for ever."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from planish import forking

_SLOW = """
import importlib.abc, os, signal, sys, threading, time
import planish

class Slow(importlib.abc.MetaPathFinder):
    '''Keeps whoever imports a module, in a thread, in the middle of it.'''
    def find_spec(self, name, path, target=None):
        if name in WHICH and threading.current_thread() is not threading.main_thread():
            began.set()
            time.sleep(0.3)
        return None

WHICH = set(sys.argv[1].split(","))
began = threading.Event()
sys.meta_path.insert(0, Slow())

def work():
    if "colorsys" in WHICH:  # a module of Python's own, as ctypes.util is for planish
        import colorsys
    return planish.fft.fft(planish.ones(4)).shape

worker = threading.Thread(target=work)
worker.start()
began.wait()
child = os.fork()
if not child:
    signal.alarm(20)  # an import that hangs is ended by it
    os._exit(0 if work() == (4,) else 1)
status = os.waitpid(child, 0)[1]
worker.join()
raise SystemExit(status)
"""

_MANY = """
import os, signal, sys, threading
import planish as pn

def work():
    pn.nn, pn.optim, pn.io, pn.random, pn.linalg, pn.llir, pn.uop
    float(pn.sum(pn.ones(5) * 2))

workers = [threading.Thread(target=work) for _ in range(3)]
for worker in workers:
    worker.start()
statuses = []
for _ in range(6):
    child = os.fork()
    if not child:
        signal.alarm(40)
        work()
        os._exit(0)
    statuses.append(os.waitpid(child, 0)[1])
for worker in workers:
    worker.join()
raise SystemExit(any(statuses))
"""


def run(script: str, *words: str, cache: Path) -> int:
    command = [sys.executable, "-W", "ignore", "-c", script, *words]
    environment = {"PYTHONPATH": str(Path(__file__).parent.parent), "PLANISH_CACHE_DIR": str(cache)}
    done = subprocess.run(command, timeout=120, check=False, env=environment, capture_output=True, text=True)
    assert not done.stderr, done.stderr
    return done.returncode


@pytest.mark.parametrize(
    "which", ["planish.fft", "planish.frontend.tensor", "planish.ptir.ops,planish.fft", "colorsys"]
)
def test_a_child_can_import_what_another_thread_was_importing(which: str, tmp_path: Path) -> None:
    assert run(_SLOW, which, cache=tmp_path) == 0


def test_children_of_a_busy_process_compile(tmp_path: Path) -> None:
    assert run(_MANY, cache=tmp_path) == 0


def test_an_import_that_never_ends_does_not_stop_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forking, "_PATIENCE", 0.05)
    monkeypatch.setattr(forking, "_is_importing", lambda: True)
    forking._before()
    forking._after()


def test_locks_are_held_over_a_fork_and_free_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    first, late = threading.Lock(), threading.Lock()
    monkeypatch.setattr(forking, "_locks", [first])
    waited: list[int] = []

    def importing() -> bool:
        if not waited:
            waited.append(1)
            forking.hold(late)  # of a module that was imported meanwhile
            return True
        return False

    monkeypatch.setattr(forking, "_is_importing", importing)
    forking._before()
    assert first.locked()
    assert late.locked()
    forking._after()
    assert not first.locked()
    assert not late.locked()

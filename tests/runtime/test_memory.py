"""The pool of memory: blocks come back, are bounded, aligned, and nobody else's."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import planish as pn
from planish import compiler, ptir
from planish.compiler.object_code import blocks
from planish.ptir import Graph, tensor

MIB = 1 << 20


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing kept before and after, and the usual limit."""
    gc.collect()
    pn.memory.release()
    yield
    gc.collect()
    pn.memory.release()
    blocks().configure()


def scaled(size: int) -> ptir.Function:
    g = Graph("scaled")
    x = g.input("x", tensor("f32", (size,)))
    return g.build(x.mul(x).add(x))


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def test_a_repeated_large_call_touches_no_new_page() -> None:
    exe = compiler.compile(scaled(4 * MIB))
    x = np.ones(4 * MIB, np.float32)
    exe(x)
    before, pages = pn.memory.statistics(), faults()
    for _ in range(5):
        (found,) = exe(x)
        assert found[-1] == 2
        del found
    after = pn.memory.statistics()
    assert (after.made, after.reused) == (before.made, before.reused + 5)
    assert faults() - pages < 64  # of 20480 pages that were written


def test_a_large_arena_is_used_again_too() -> None:
    g = Graph("sums")
    x = g.input("x", tensor("f32", (4096, 8192)))
    product = x.mul(x)
    exe = compiler.compile(g.build(product.cumsum(1).cumsum(0)))
    assert exe.memory.peak > 64 * MIB
    assert exe.is_fast
    data = np.ones((4096, 8192), np.float32)
    assert exe(data)[0][1, 2] == 6
    before, pages = pn.memory.statistics().made, faults()
    assert exe(data)[0][1, 2] == 6
    assert pn.memory.statistics().made == before
    assert faults() - pages < 64


def test_a_result_is_an_ordinary_array() -> None:
    (found,) = compiler.compile(scaled(3000))(np.arange(3000, dtype=np.float32))
    assert found.flags.owndata
    assert found.flags.writeable
    assert found.base is None
    wanted = found.copy()
    found.resize(100_000, refcheck=False)
    assert (found[:3000] == wanted).all()
    assert not found[3000:].any()
    found.resize(10, refcheck=False)
    assert (found == wanted[:10]).all()


@pytest.mark.parametrize("size", [1024, 1025, 5000, 16320, 16321, 100_000, MIB, 3 * MIB + 1, 20 * MIB])
def test_blocks_hold_what_was_asked_for_and_are_aligned(size: int) -> None:
    used = pn.memory.statistics().used
    made = blocks().empty(size)
    assert made.size == size
    assert made.ctypes.data % (64 if size <= 16320 else 4096) == 0
    taken = pn.memory.statistics().used - used
    assert size < taken <= max(1024, (size + 4096) * 9 / 8)
    made[:] = 7
    others = [blocks().empty(size) for _ in range(3)]
    for number, other in enumerate(others):
        other[:] = number
    assert (made == 7).all()
    assert all((other == number).all() for number, other in enumerate(others))
    address = made.ctypes.data
    del made
    assert blocks().empty(size).ctypes.data == address


def test_arrays_below_a_kibibyte_are_numpys() -> None:
    used = pn.memory.statistics()
    assert blocks().empty(1000).size == 1000
    assert blocks().empty(0).size == 0
    assert pn.memory.statistics() == used


def test_no_more_is_kept_than_the_limit() -> None:
    with pn.settings(memory_limit=8):
        blocks().configure()
    assert pn.memory.statistics().limit == 8 * MIB
    arrays = [blocks().empty(size) for size in (3 * MIB, 2 * MIB, 5 * MIB // 2, 64 * MIB)]
    while arrays:
        arrays.pop()
        assert pn.memory.statistics().kept <= 8 * MIB
    # the last two that fit: the oldest went first
    reused = pn.memory.statistics().reused
    again = [blocks().empty(2 * MIB), blocks().empty(3 * MIB)]
    assert pn.memory.statistics().reused == reused + 2
    again.append(blocks().empty(5 * MIB // 2))
    assert pn.memory.statistics().reused == reused + 2
    with pn.settings(memory_limit=0):
        blocks().configure()
    del again
    assert pn.memory.statistics().kept == 0


def test_release_returns_what_is_kept_and_nothing_else() -> None:
    held = blocks().empty(3 * MIB)
    held[:] = 5
    gone = blocks().empty(MIB)
    del gone
    kept = pn.memory.statistics().kept
    assert kept > MIB
    assert pn.memory.release() == kept
    assert pn.memory.statistics().kept == 0
    assert (held == 5).all()


def test_without_memory_everything_kept_goes_first_and_the_error_is_clear() -> None:
    kept = blocks().empty(MIB)
    del kept
    with pytest.raises(MemoryError, match="Unable to allocate"):
        blocks().empty(1 << 45)
    assert pn.memory.statistics().kept == 0
    with pytest.raises(MemoryError, match="Unable to allocate"):
        blocks().empty(1 << 60)


def test_arrays_may_die_in_any_thread() -> None:
    exe = compiler.compile(scaled(100_000))
    x = np.arange(100_000, dtype=np.float32)
    wanted = exe(x)[0].tobytes()
    bad: list[int] = []

    def work(number: int) -> None:
        held: list[np.ndarray] = []
        for _ in range(50):
            held.append(exe(x)[0])
            if len(held) > number % 4 and held.pop(0).tobytes() != wanted:
                bad.append(number)

    used = pn.memory.statistics().used
    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not bad
    assert pn.memory.statistics().used == used


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_has_a_pool_of_its_own() -> None:
    held = blocks().empty(MIB)
    held[:] = 3
    kept = blocks().empty(2 * MIB)
    del kept
    child = os.fork()
    if child == 0:
        try:
            mine = blocks().empty(2 * MIB)
            mine[:] = 1
            good = bool((held == 3).all()) and pn.memory.release() >= 0
        finally:
            os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (held == 3).all()
    assert pn.memory.statistics().kept > 2 * MIB


def test_arrays_that_outlive_everything_do_no_harm() -> None:
    code = (
        "import numpy as np, builtins, planish as pn\n"
        "f = pn.jit(lambda x: x + 1)\n"
        "builtins.kept = [f(np.ones(n, np.float32)) for n in (3000, 300000)]\n"
        "builtins.kept += [np.asarray(x) for x in builtins.kept]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

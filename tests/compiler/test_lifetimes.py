"""Long-lived processes: memory stays flat, threads share functions, a fork or an interrupt leaves everything usable."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import planish as pn
from planish import compiler, ptir
from planish.compiler import object_code
from planish.ptir import Graph, tensor
from planish.runtime import cpu
from planish.runtime.cache import CacheWarning, own_cache

Array = NDArray[Any]


def scaled(size: int, factor: float = 2.0) -> ptir.Function:
    g = Graph("scaled")
    x = g.input("x", tensor("f32", (size,)))
    return g.build(x.mul(factor).add(x))


def softmax(rows: int, columns: int) -> ptir.Function:
    g = Graph("softmax")
    x = g.input("x", tensor("f32", (rows, columns)))
    e = x.sub(x.reduce_max([1], keepdims=True).broadcast_like(x)).exp()
    return g.build(e.div(e.reduce_sum([1], keepdims=True).broadcast_like(e)))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path) -> Any:
    with pn.settings(cache_dir=str(tmp_path / "cache")):
        yield


def resident() -> int:
    """Bytes of memory this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def mappings() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


def compile_and_drop(count: int, distinct: int) -> None:
    for number in range(count):
        size = 3 + number % distinct
        x = np.ones(size, np.float32)
        (found,) = compiler.compile(scaled(size))(x)
        assert found[-1] == 3


def test_a_dropped_function_gives_its_memory_back_at_once() -> None:
    exe = compiler.compile(scaled(7))
    exe(np.ones(7, np.float32))
    gone = weakref.ref(exe)
    gc.disable()
    try:
        del exe
        assert gone() is None
    finally:
        gc.enable()


def test_compiles_and_drops_leave_memory_flat() -> None:
    compile_and_drop(60, 20)
    gc.collect()
    before, mapped = resident(), mappings()
    compile_and_drop(240, 20)
    gc.collect()
    assert resident() - before < 4 << 20
    assert mappings() - mapped < 16


@pytest.mark.slow
def test_ten_thousand_compiles_and_drops_leave_memory_flat() -> None:
    compile_and_drop(1000, 500)
    gc.collect()
    before, mapped = resident(), mappings()
    compile_and_drop(9000, 1000)
    gc.collect()
    assert resident() - before < 24 << 20
    assert mappings() - mapped < 64


def share(seconds: float) -> None:
    """8 threads call 4 functions for a while; every result is that of a serial call."""
    functions = [softmax(64, 128), scaled(5000), scaled(1), softmax(3, 1000)]
    exes = [compiler.compile(function) for function in functions]
    rng = np.random.default_rng(0)
    inputs = [[rng.random(f.param_types[0].dims).astype(np.float32) for f in functions] for _ in range(8)]  # type: ignore[arg-type]
    with pn.settings(threads=1):
        wanted = [[exe(x)[0].tobytes() for exe, x in zip(exes, row, strict=True)] for row in inputs]
    wrong: list[tuple[int, int]] = []
    calls = [0] * 8
    end = time.monotonic() + seconds

    def work(me: int) -> None:
        with pn.settings(threads=1 + me % 4):
            while time.monotonic() < end and not wrong:
                for number, exe in enumerate(exes):
                    calls[me] += 1
                    if exe(inputs[me][number])[0].tobytes() != wanted[me][number]:
                        wrong.append((me, number))

    threads = [threading.Thread(target=work, args=(me,)) for me in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert all(calls)


def test_threads_share_functions() -> None:
    share(1.0)


@pytest.mark.slow
def test_threads_share_functions_for_long() -> None:
    share(30.0)


def test_one_thread_is_one_thread() -> None:
    """With threads=1 no worker takes part, whoever else there is."""
    exe = compiler.compile(softmax(512, 512))
    x = np.random.default_rng(0).random((512, 512), np.float32)
    with pn.settings(threads=4):
        exe(x)
    busy = [thread for thread in threading.enumerate() if thread.name.startswith("planish-")]
    assert len(busy) >= 3
    time.sleep(0.05)  # they fall asleep
    before = _switches(busy)
    with pn.settings(threads=1):
        for _ in range(20):
            exe(x)
    assert _switches(busy) == before


def _switches(threads: list[threading.Thread]) -> list[int]:
    """How often each thread was given a core."""
    found = []
    for thread in threads:
        status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
        found.append(sum(int(line.split()[1]) for line in status.splitlines() if "ctxt_switches" in line))
    return found


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_calls_and_compiles() -> None:
    exe = compiler.compile(softmax(512, 512))
    x = np.random.default_rng(0).random((512, 512), np.float32)
    with pn.settings(threads=3):
        wanted = exe(x)[0].tobytes()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                good = exe(x)[0].tobytes() == wanted
                good &= bool((compiler.compile(scaled(9))(np.ones(9, np.float32))[0] == 3).all())
                good &= object_code.pool().workers == 2
                status = 0 if good else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert exe(x)[0].tobytes() == wanted


_INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
from planish import compiler
from planish.runtime.cache import own_cache
from tests.compiler.test_lifetimes import softmax

signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it would be ignored

# Ctrl-C at one moment after another, until a compile gets through (on a busy machine the first may before its timer runs)
interrupted, tried, delay, exe = 0, 0, 0.002, None
while (exe is None or not interrupted) and delay < 20 and tried < 100:
    try:
        timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        tried += 1
        found = compiler.compile(softmax(8, 15 + tried))
        timer.cancel()
        timer.join()
        time.sleep(0.05)
        exe = found
    except KeyboardInterrupt:
        interrupted += 1
        delay *= 1.7
        timer.join()
signal.signal(signal.SIGINT, signal.SIG_IGN)
assert exe is not None, "no compile got through"
assert interrupted
for width in range(16, 16 + tried):
    x = np.ones((8, width), np.float32)
    np.testing.assert_allclose(compiler.compile(softmax(8, width))(x)[0], 1 / width, rtol=1e-6)
assert not own_cache().stats.discarded
print("fine")
"""


def test_an_interrupt_in_the_middle_of_a_compile_leaves_everything_usable(tmp_path: Path) -> None:
    """In a process of its own: a signal that comes late must not hit the tests after this one."""
    env = os.environ | {"PLANISH_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED],
        capture_output=True,
        text=True,
        check=False,
        env=env,
        timeout=300,
    )
    assert done.stdout.strip() == "fine", done.stdout + done.stderr


def test_code_for_other_processors_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was compiled for a machine with more features has another key."""
    x = np.ones(11, np.float32)
    compiler.compile(scaled(11))(x)
    compiled = object_code.counters.compiled
    compiler.compile(scaled(11))(x)
    assert object_code.counters.compiled == compiled
    less = cpu.Processor(cpu.host().triple, cpu.host().name, cpu.host().features.replace("+avx512fp16", "-avx512fp16") + ",-rtm")  # fmt: skip
    monkeypatch.setattr("planish.runtime.processors.host", lambda: less)
    (found,) = compiler.compile(scaled(11))(x)
    assert (found == 3).all()
    assert object_code.counters.compiled > compiled


def test_no_disk_means_no_cache_but_a_result(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    x = np.ones(13, np.float32)
    with (
        pn.settings(cache_dir=str(tmp_path / "file" / "folder")),
        pytest.warns(CacheWarning, match="nothing"),
    ):
        assert (compiler.compile(scaled(13))(x)[0] == 3).all()
    with pn.settings(cache=False):
        assert (compiler.compile(scaled(13))(x)[0] == 3).all()


_COMPILER = """
import os, random, signal, sys, threading, warnings
import numpy as np
import planish as pn
from planish import compiler, ptir
warnings.simplefilter("error")
rng = random.Random(int(sys.argv[2]))
threading.Timer(rng.uniform(0.05, float(sys.argv[3])), lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
with pn.settings(cache_dir=sys.argv[1]):
    while True:
        size = rng.randrange(1, 6)
        g = ptir.Graph("f")
        x = g.input("x", ptir.tensor("f32", (size,)))
        (found,) = compiler.compile(g.build(x.mul(2.0).add(x)))(np.ones(size, np.float32))
        assert (found == 3).all()
"""


def killed_compilers(folder: Path, processes: int, rounds: int, seconds: float) -> None:
    """Whoever is killed when, what is left is whole and gives right results."""
    for round_ in range(rounds):
        running = [
            subprocess.Popen(
                [sys.executable, "-c", _COMPILER, str(folder), str(round_ * 100 + n), str(seconds)]
            )
            for n in range(processes)
        ]
        for process in running:
            assert process.wait(timeout=120) == -signal.SIGKILL  # not by an error of its own
        with pn.settings(cache_dir=str(folder)):
            for size in range(1, 6):
                assert (compiler.compile(scaled(size))(np.ones(size, np.float32))[0] == 3).all()
            assert not own_cache().stats.discarded


def test_killed_compilers_leave_the_cache_valid(tmp_path: Path) -> None:
    killed_compilers(tmp_path / "shared", 3, 1, 4.0)


@pytest.mark.slow
def test_many_killed_compilers_leave_the_cache_valid(tmp_path: Path) -> None:
    killed_compilers(tmp_path / "shared", 16, 12, 10.0)

"""The native thread pool: every chunk exactly once, whoever calls, after a fork too."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
from functools import cache

import llvmlite.binding as llvm
import numpy as np
import pytest

import planish as pn
from planish.runtime import cpu, elf, native, pool

_JOB = """
; adds one to element i
define void @job(ptr %arg, i64 %i) {
  %p = getelementptr i64, ptr %arg, i64 %i
  %v = load i64, ptr %p
  %w = add i64 %v, 1
  store i64 %w, ptr %p
  ret void
}
; tells in element i who runs it, after some work
define void @who(ptr %arg, i64 %i) {
entry:
  br label %l
l:
  %n = phi i64 [ 0, %entry ], [ %m, %l ]
  %m = add i64 %n, 1
  fence syncscope("singlethread") seq_cst
  %c = icmp ult i64 %m, 20000
  br i1 %c, label %l, label %e
e:
  %p = getelementptr i64, ptr %arg, i64 %i
  %t = call i64 (i64, ...) @syscall(i64 186) ; gettid
  store i64 %t, ptr %p
  ret void
}
; a job whose chunks run jobs of their own, of 8 elements each
define void @outer(ptr %arg, i64 %i) {
  %at = mul i64 %i, 8
  %p = getelementptr i64, ptr %arg, i64 %at
  call void @pool_run(ptr @job, ptr %p, i64 8, i64 1000000, i64 3)
  ret void
}
define void @many(ptr %job, ptr %arg, i64 %count, i64 %times, i64 %threads, i64 %work) {
entry:
  br label %l
l:
  %i = phi i64 [ 0, %entry ], [ %j, %l ]
  call void @pool_run(ptr %job, ptr %arg, i64 %count, i64 %work, i64 %threads)
  %j = add i64 %i, 1
  %c = icmp ult i64 %j, %times
  br i1 %c, label %l, label %e
e:
  ret void
}
"""


@cache
def loaded() -> elf.Loaded:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(native.source() + _JOB)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, reloc="pic", codemodel="small")
    return elf.Loaded(machine.emit_object(module))


@cache
def the_pool() -> pool.WorkerPool:
    made = pool.WorkerPool(loaded())
    with pn.settings(threads=3):
        made.prepare()
    return made


def run(job: str, argument: int, count: int, times: int = 1, threads: int = 3, work: int = 1_000_000) -> None:
    kinds = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 4
    function = ctypes.CFUNCTYPE(None, *kinds)(loaded().address("many"))
    the_pool()
    function(loaded().address(job), argument, count, times, threads, work)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 64, 1000])
def test_every_chunk_runs_once(count: int) -> None:
    data = np.zeros(max(count, 1), np.int64)
    run("job", data.ctypes.data, count, 300)
    np.testing.assert_array_equal(data[:count], 300)


def test_workers_that_sleep_are_woken_or_not_needed() -> None:
    data = np.zeros(16, np.int64)
    for n in range(4):
        time.sleep(0.004)  # longer than a worker spins
        run("job", data.ctypes.data, 16)
        np.testing.assert_array_equal(data, n + 1)


def _runners(times: int, work: int) -> set[int]:
    """The threads that took chunks of the last of several jobs of so much work."""
    told = np.zeros(16, np.int64)
    run("who", told.ctypes.data, 16, times, work=work)
    return set(told.tolist())


def test_small_jobs_that_follow_each_other_wake_workers() -> None:
    """None of them is worth it, but all of them are: a function of small kernels that is called again and again."""
    time.sleep(0.05)  # workers sleep
    end = time.monotonic() + 20
    while len(_runners(200, 50_000)) == 1:
        assert time.monotonic() < end, "workers sleep on"


def test_small_jobs_now_and_then_leave_workers_asleep() -> None:
    alone = 0
    for _ in range(60):
        time.sleep(0.01)
        alone += len(_runners(1, 20_000)) == 1
    assert alone > 30


def test_several_callers_share_it() -> None:
    results = [np.zeros(16, np.int64) for _ in range(4)]
    threads = [threading.Thread(target=run, args=("job", r.ctypes.data, 16, 2000)) for r in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        np.testing.assert_array_equal(result, 2000)


def test_a_job_within_a_job_runs() -> None:
    data = np.zeros(80, np.int64)
    run("outer", data.ctypes.data, 10, 20)
    np.testing.assert_array_equal(data, 20)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_process_starts_workers_of_its_own() -> None:
    the_pool()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            data = np.zeros(16, np.int64)
            run("job", data.ctypes.data, 16, 10)  # without workers
            with pn.settings(threads=2):
                the_pool().prepare()
            run("job", data.ctypes.data, 16, 10)
            code = 0 if (data == 20).all() and the_pool().workers == 1 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert the_pool().workers == 2


def test_the_cores_are_counted() -> None:
    assert 1 <= pool.available_cores() <= (os.cpu_count() or 1)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_pool_that_nobody_has_any_more_does_no_harm_at_a_fork() -> None:
    source = native.source()
    for _ in range(3):
        pool.WorkerPool(elf.Loaded(cpu.emit_object(source)))
    gc.collect()
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

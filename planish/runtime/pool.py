"""A pool of threads that live outside Python: native workers that take numbered chunks of a job.

The whole protocol is one block of memory and two functions in LLVM IR. A job is a function, an argument and a count; chunk
numbers are taken from a ticket (generation, next chunk) by compare-and-exchange. The caller takes chunks too and waits for
chunks, not for workers: a late, sleeping or missing worker delays nothing. A job says how many threads may work on it: a
worker takes one of its seats (generation, how many are free) first. Who finds the pool busy (another caller, or a
job within a job) runs all its chunks itself. Workers spin for a while after the last job, then sleep in a futex; a job wakes
them only if it is worth the wake.

After a fork the child has no workers: the block is reset, and workers start again with the next job. Workers are daemon
threads; they end with the process.
"""

from __future__ import annotations

import ctypes
import os
import platform
import threading
from functools import cache
from pathlib import Path
from typing import Final

from planish.config import Settings, current

_CLOSED: Final = 0xFFFFFFFF
"""A ticket with no chunk left, whatever the count."""
LINE: Final = 64
"""Fields that different threads write are a cache line apart."""
FIELDS: Final = {
    name: number * LINE
    for number, name in enumerate(("ticket", "done", "epoch", "job", "busy", "sleepers", "stop", "seats"))
}
"""Where each field of the block lies. `job` is followed by the argument and the count."""
BLOCK: Final = LINE * (len(FIELDS) + 1)

_FUTEX: Final = {"x86_64": 202, "aarch64": 98}
_PAUSE: Final = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
_SPIN_NS: Final = 1_000_000
"""How long a worker looks for the next job before it sleeps."""
WORTH_WAKING: Final = 200_000
"""Nanoseconds of work below which sleeping workers are left alone: waking one costs tens of microseconds."""

_SOURCE: Final = """
%timespec = type {{ i64, i64 }}
{declare_pause}
declare i64 @syscall(i64, ...)
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)

define internal i64 @now() {{
  %t = alloca %timespec
  call i32 @clock_gettime(i32 1, ptr %t)
  %s = load i64, ptr %t
  %np = getelementptr i8, ptr %t, i64 8
  %n = load i64, ptr %np
  %whole = mul i64 %s, 1000000000
  %sum = add i64 %whole, %n
  ret i64 %sum
}}

; takes one chunk of the job and runs it; false if there is none. The caller's generation is where %seat points: a thread
; without a seat in the job of the moment looks for one
define internal i1 @take(ptr %pool, ptr %seat) {{
entry:
  %jobp = getelementptr i8, ptr %pool, i64 {job}
  %argp = getelementptr i8, ptr %pool, i64 {arg}
  %countp = getelementptr i8, ptr %pool, i64 {count}
  %donep = getelementptr i8, ptr %pool, i64 {done}
  %seatsp = getelementptr i8, ptr %pool, i64 {seats}
  br label %again
again:
  %ticket = load atomic i64, ptr %pool seq_cst, align 8
  %next = and i64 %ticket, 4294967295
  %count = load atomic i64, ptr %countp monotonic, align 8
  %some = icmp ult i64 %next, %count
  br i1 %some, label %seated, label %none
seated:
  %generation = lshr i64 %ticket, 32
  %mine = load i64, ptr %seat
  %sits = icmp eq i64 %generation, %mine
  br i1 %sits, label %try, label %search
search:
  %seats = load atomic i64, ptr %seatsp seq_cst, align 8
  %of = lshr i64 %seats, 32
  %free = and i64 %seats, 4294967295
  %fits = icmp eq i64 %of, %generation
  %vacant = icmp ne i64 %free, 0
  %may = and i1 %fits, %vacant
  br i1 %may, label %sit, label %none
sit:
  %fewer = sub i64 %seats, 1
  %sat = cmpxchg ptr %seatsp, i64 %seats, i64 %fewer seq_cst seq_cst, align 8
  %got = extractvalue {{ i64, i1 }} %sat, 1
  br i1 %got, label %keep, label %again
keep:
  store i64 %generation, ptr %seat
  br label %again
try:
  %job = load atomic ptr, ptr %jobp monotonic, align 8
  %arg = load atomic ptr, ptr %argp monotonic, align 8
  %after = add i64 %ticket, 1
  %pair = cmpxchg ptr %pool, i64 %ticket, i64 %after seq_cst seq_cst, align 8
  %taken = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %taken, label %run, label %again
run:
  call void %job(ptr %arg, i64 %next)
  atomicrmw add ptr %donep, i64 1 seq_cst, align 8
  ret i1 true
none:
  ret i1 false
}}

define void @pool_worker(ptr %pool) {{
entry:
  %epochp = getelementptr i8, ptr %pool, i64 {epoch}
  %sleepersp = getelementptr i8, ptr %pool, i64 {sleepers}
  %stopp = getelementptr i8, ptr %pool, i64 {stop}
  %seat = alloca i64
  store i64 -1, ptr %seat
  br label %fresh
fresh:
  %start = call i64 @now()
  br label %look
look:
  %took = call i1 @take(ptr %pool, ptr %seat)
  br i1 %took, label %fresh, label %idle
idle:
  %stop = load atomic i64, ptr %stopp seq_cst, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %end, label %wait
wait:
  br label %pause
pause:
  %i = phi i32 [ 0, %wait ], [ %i1, %pause ]
  {pause}
  %i1 = add i32 %i, 1
  %enough = icmp eq i32 %i1, 32
  br i1 %enough, label %timed, label %pause
timed:
  %here = call i64 @now()
  %spent = sub i64 %here, %start
  %long = icmp sgt i64 %spent, {spin}
  br i1 %long, label %sleep, label %polite
polite:
  %crowded = icmp sgt i64 %spent, 50000
  br i1 %crowded, label %yield, label %look
yield:
  call i32 @sched_yield()
  br label %look
sleep:
  atomicrmw add ptr %sleepersp, i64 1 seq_cst, align 8
  %seen = load atomic i32, ptr %epochp seq_cst, align 8
  %late = call i1 @take(ptr %pool, ptr %seat)
  %stop2 = load atomic i64, ptr %stopp seq_cst, align 8
  %stopped2 = icmp ne i64 %stop2, 0
  %up = or i1 %late, %stopped2
  br i1 %up, label %awake, label %futex
futex:
  call i64 (i64, ...) @syscall(i64 {futex}, ptr %epochp, i64 128, i32 %seen, ptr null, ptr null, i64 0)
  br label %awake
awake:
  atomicrmw sub ptr %sleepersp, i64 1 seq_cst, align 8
  br label %fresh
end:
  ret void
}}

; runs job(arg, 0 … count-1) on up to %threads threads; `work` estimates the nanoseconds it takes on one
define void @pool_run(ptr %pool, ptr %job, ptr %arg, i64 %count, i64 %work, i64 %threads) {{
entry:
  %busyp = getelementptr i8, ptr %pool, i64 {busy}
  %seat = alloca i64
  %chunks = icmp ugt i64 %count, 1
  %company = icmp ugt i64 %threads, 1
  %several = and i1 %chunks, %company
  br i1 %several, label %claim, label %serial
claim:
  %pair = cmpxchg ptr %busyp, i64 0, i64 1 seq_cst seq_cst, align 8
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %publish, label %serial
serial:
  %any = icmp ne i64 %count, 0
  br i1 %any, label %each, label %out
each:
  %n = phi i64 [ 0, %serial ], [ %n1, %each ]
  call void %job(ptr %arg, i64 %n)
  %n1 = add i64 %n, 1
  %more = icmp ult i64 %n1, %count
  br i1 %more, label %each, label %out
out:
  ret void
publish:
  %jobp = getelementptr i8, ptr %pool, i64 {job}
  %argp = getelementptr i8, ptr %pool, i64 {arg}
  %countp = getelementptr i8, ptr %pool, i64 {count}
  %donep = getelementptr i8, ptr %pool, i64 {done}
  %epochp = getelementptr i8, ptr %pool, i64 {epoch}
  %sleepersp = getelementptr i8, ptr %pool, i64 {sleepers}
  store atomic ptr %job, ptr %jobp monotonic, align 8
  store atomic ptr %arg, ptr %argp monotonic, align 8
  store atomic i64 %count, ptr %countp monotonic, align 8
  store atomic i64 0, ptr %donep monotonic, align 8
  %old = load atomic i64, ptr %pool monotonic, align 8
  %generation = lshr i64 %old, 32
  %generation1 = add i64 %generation, 1
  %ticket = shl i64 %generation1, 32
  %number = lshr i64 %ticket, 32
  store i64 %number, ptr %seat
  %others = sub i64 %threads, 1
  %places = or i64 %ticket, %others
  %seatsp = getelementptr i8, ptr %pool, i64 {seats}
  store atomic i64 %places, ptr %seatsp seq_cst, align 8
  store atomic i64 %ticket, ptr %pool seq_cst, align 8
  %asleep = load atomic i64, ptr %sleepersp seq_cst, align 8
  %some = icmp ne i64 %asleep, 0
  %large = icmp sgt i64 %work, {worth}
  %wake = and i1 %some, %large
  br i1 %wake, label %ring, label %own
ring:
  atomicrmw add ptr %epochp, i32 1 seq_cst, align 8
  call i64 (i64, ...) @syscall(i64 {futex}, ptr %epochp, i64 129, i32 2147483647, ptr null, ptr null, i64 0)
  br label %own
own:
  %took = call i1 @take(ptr %pool, ptr %seat)
  br i1 %took, label %own, label %joining
joining:
  %t0 = call i64 @now()
  br label %join
join:
  %done = load atomic i64, ptr %donep seq_cst, align 8
  %all = icmp eq i64 %done, %count
  br i1 %all, label %finish, label %pause
pause:
  {pause}
  %t1 = call i64 @now()
  %spent = sub i64 %t1, %t0
  %crowded = icmp sgt i64 %spent, 50000
  br i1 %crowded, label %yield, label %join
yield:
  call i32 @sched_yield()
  br label %join
finish:
  ; a ticket beyond every count: a late worker cannot take a chunk of the next job while that is being written
  %closed = or i64 %ticket, 4294967295
  store atomic i64 %closed, ptr %pool seq_cst, align 8
  store atomic i64 0, ptr %busyp seq_cst, align 8
  ret void
}}
"""


def source(machine: str | None = None) -> str:
    """The LLVM IR of the pool for a machine (by default this one)."""
    name = machine or platform.machine()
    declare, pause = _PAUSE[name]
    places = {**FIELDS, "arg": FIELDS["job"] + 8, "count": FIELDS["job"] + 16}
    return _SOURCE.format(
        **places, declare_pause=declare, pause=pause, futex=_FUTEX[name], spin=_SPIN_NS, worth=WORTH_WAKING
    )


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


class Pool:
    """The block of a pool and its workers."""

    def __init__(self, worker: int) -> None:
        self._worker = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(worker)
        self._raw = (ctypes.c_char * (BLOCK + LINE))()
        self.address: int = -(-ctypes.addressof(self._raw) // LINE) * LINE
        """Where the block is; generated code passes it on."""
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
                threading.Thread(
                    target=self._worker, args=(self.address,), daemon=True, name=f"planish-{self.workers}"
                ).start()

    def _reset(self) -> None:
        """No job, no workers: as it begins, and as a child process finds itself."""
        ctypes.memset(self.address, 0, BLOCK)
        ctypes.c_int64.from_address(self.address).value = _CLOSED
        self._lock = threading.Lock()
        self.workers = 0
        """How many threads there are besides the caller."""

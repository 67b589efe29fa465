"""Memory for results and arenas: blocks that outlive the arrays made of them, so that a repeated call touches no new page.

A fresh page costs more than the work on it: the system clears it. So memory that an array gives up is kept, up to a limit,
and the next array of about that size gets it. The whole of it is native (LLVM IR): taking a block and giving it back are a
few instructions. An array made here owns its block by way of NumPy's own protocol for allocators; whoever lets the last
reference go, wherever, gives it back.

A block has a size class, eight to a power of two, and a line of its own in front: class, size, next, stamp. Small blocks start at
a cache line, others at a page: a processor takes a load for one from a store under way if they agree in the place within their
pages, and waits. Arrays that are walked together from the start of a page never do, and large arrays of NumPy, which start
16 bytes into one, are read just ahead of what is written. From 1 MiB on a block is a mapping of its own, from 2 MiB on of huge pages where the system has them; smaller
ones come from the C library. Pages are touched first by the threads that write them, not here: that is parallel, and near
the core that needs them. When more is given back than may be kept, classes that were not used for longest go first. If the
system has no memory, everything kept is returned to it and it is asked once more.

A lock word protects the lists; nobody holds it across a fork, since whoever holds it holds the interpreter's lock as well.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planish.config import current

LINE: Final = 64
_STEPS: Final = 3
"""A class is an eighth of a power of two: at most so much of a block is unused."""
_CLASSES: Final = 48 << _STEPS
_HEADS: Final = 16
"""Where the lists begin, in words."""
LOCK, KEPT, LIMIT, USED, STAMP, MADE, REUSED, LEAST, NDARRAY, NEW, HANDLER, BYTE = range(12)
"""Words of the state: the lock, bytes kept and the most of them, bytes in use, a clock, blocks made and used again, from how many
bytes on arrays are made here, and what making an array takes."""
_LEAST: Final = 1024
"""NumPy keeps smaller blocks itself."""
_PAGED: Final = 16 << 10
"""Blocks up to this size start at a cache line, larger ones at a page."""
_NEVER: Final = 1 << 62
_OWN_HANDLER: Final = 11
"""The word of an array that names who frees its memory."""

SOURCE: Final = """
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @madvise(ptr, i64, i32)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal void @memory_lock(ptr %m) {
entry:
  br label %try
try:
  %pair = cmpxchg ptr %m, i64 0, i64 1 acquire monotonic, align 8
  %mine = extractvalue { i64, i1 } %pair, 1
  br i1 %mine, label %done, label %wait
wait:
  call i32 @sched_yield()
  br label %try
done:
  ret void
}

define internal void @memory_unlock(ptr %m) {
  store atomic i64 0, ptr %m release, align 8
  ret void
}

; adds to a word; the lock is held
define internal void @memory_count(ptr %m, i64 %word, i64 %by) {
  %p = getelementptr i64, ptr %m, i64 %word
  %old = load i64, ptr %p
  %new = add i64 %old, %by
  store i64 %new, ptr %p
  ret void
}

; the bytes of the class of a block that holds so many besides its own line
define internal i64 @memory_rounded(i64 %size) {
  %paged = icmp ugt i64 %size, {small}
  %head = select i1 %paged, i64 4096, i64 64
  %more = add i64 %size, %head
  %small = icmp ult i64 %more, 1024
  %total = select i1 %small, i64 1024, i64 %more
  %below = sub i64 %total, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %below, i1 false)
  %shift = sub i64 {top}, %zeros
  %step = shl i64 1, %shift
  %mask = sub i64 %step, 1
  %up = add i64 %total, %mask
  %keep = xor i64 %mask, -1
  %rounded = and i64 %up, %keep
  ret i64 %rounded
}

define internal i64 @memory_class(i64 %rounded) {
  %zeros = call i64 @llvm.ctlz.i64(i64 %rounded, i1 false)
  %power = sub i64 63, %zeros
  %shift = sub i64 %power, {steps}
  %lead = lshr i64 %rounded, %shift
  %part = and i64 %lead, {part}
  %base = shl i64 %power, {steps}
  %class = or i64 %base, %part
  ret i64 %class
}

; a block of the system, its line filled in: where that is; null if there is none
define internal ptr @memory_made(i64 %rounded) {
entry:
  %large = icmp uge i64 %rounded, 1048576
  br i1 %large, label %map, label %heap
heap:
  %pages = icmp ugt i64 %rounded, {page_class}
  %alignment = select i1 %pages, i64 4096, i64 64
  %raw = call ptr @aligned_alloc(i64 %alignment, i64 %rounded)
  br label %made
map:
  %huge = icmp uge i64 %rounded, 2097152
  %slack = select i1 %huge, i64 2097152, i64 0
  %whole = add i64 %rounded, %slack
  %start = call ptr @mmap(ptr null, i64 %whole, i32 3, i32 34, i32 -1, i64 0)
  %at = ptrtoint ptr %start to i64
  %failed = icmp eq i64 %at, -1
  br i1 %failed, label %none, label %mapped
mapped:
  br i1 %huge, label %cut, label %made
cut:
  %high = add i64 %at, 2097151
  %aligned = and i64 %high, -2097152
  %before = sub i64 %aligned, %at
  %after = sub i64 2097152, %before
  %base = inttoptr i64 %aligned to ptr
  %some = icmp ne i64 %before, 0
  br i1 %some, label %front, label %back
front:
  call i32 @munmap(ptr %start, i64 %before)
  br label %back
back:
  %end = getelementptr i8, ptr %base, i64 %rounded
  %rest = icmp ne i64 %after, 0
  br i1 %rest, label %tail, label %advise
tail:
  call i32 @munmap(ptr %end, i64 %after)
  br label %advise
advise:
  call i32 @madvise(ptr %base, i64 %rounded, i32 14)
  br label %made
made:
  %block = phi ptr [ %raw, %heap ], [ %start, %mapped ], [ %base, %advise ]
  %nothing = icmp eq ptr %block, null
  br i1 %nothing, label %none, label %ready
ready:
  %class = call i64 @memory_class(i64 %rounded)
  %paged = icmp ugt i64 %rounded, {page_class}
  %in = select i1 %paged, i64 4032, i64 0
  %line = getelementptr i8, ptr %block, i64 %in
  store i64 %class, ptr %line
  %sizep = getelementptr i64, ptr %line, i64 1
  store i64 %rounded, ptr %sizep
  ret ptr %line
none:
  ret ptr null
}

define internal void @memory_returned(ptr %block) {
entry:
  %sizep = getelementptr i64, ptr %block, i64 1
  %size = load i64, ptr %sizep
  %paged = icmp ugt i64 %size, {page_class}
  %in = select i1 %paged, i64 -4032, i64 0
  %start = getelementptr i8, ptr %block, i64 %in
  %large = icmp uge i64 %size, 1048576
  br i1 %large, label %unmap, label %heap
unmap:
  call i32 @munmap(ptr %start, i64 %size)
  ret void
heap:
  call void @free(ptr %start)
  ret void
}

; returns kept blocks to the system until no more than so many bytes are kept; the lock is held
define internal void @memory_drop(ptr %m, i64 %most) {
entry:
  %keptp = getelementptr i64, ptr %m, i64 {KEPT}
  %heads = getelementptr i64, ptr %m, i64 {heads}
  br label %again
again:
  %kept = load i64, ptr %keptp
  %over = icmp ugt i64 %kept, %most
  br i1 %over, label %search, label %done
search:
  br label %class
class:
  %k = phi i64 [ 0, %search ], [ %k1, %next ]
  %oldest = phi i64 [ -1, %search ], [ %oldest1, %next ]
  %chosen = phi ptr [ null, %search ], [ %chosen1, %next ]
  %end = icmp eq i64 %k, {classes}
  br i1 %end, label %found, label %look
look:
  %headp = getelementptr ptr, ptr %heads, i64 %k
  %head = load ptr, ptr %headp
  %empty = icmp eq ptr %head, null
  br i1 %empty, label %next, label %compare
compare:
  %stampp = getelementptr i64, ptr %head, i64 3
  %stamp = load i64, ptr %stampp
  %older = icmp ult i64 %stamp, %oldest
  %oldest2 = select i1 %older, i64 %stamp, i64 %oldest
  %chosen2 = select i1 %older, ptr %headp, ptr %chosen
  br label %next
next:
  %oldest1 = phi i64 [ %oldest, %look ], [ %oldest2, %compare ]
  %chosen1 = phi ptr [ %chosen, %look ], [ %chosen2, %compare ]
  %k1 = add i64 %k, 1
  br label %class
found:
  %none = icmp eq ptr %chosen, null
  br i1 %none, label %done, label %take
take:
  %block = load ptr, ptr %chosen
  %linkp = getelementptr ptr, ptr %block, i64 2
  %link = load ptr, ptr %linkp
  store ptr %link, ptr %chosen
  %sizep = getelementptr i64, ptr %block, i64 1
  %size = load i64, ptr %sizep
  %less = sub i64 %kept, %size
  store i64 %less, ptr %keptp
  call void @memory_returned(ptr %block)
  br label %again
done:
  ret void
}

define void @memory_trim(ptr %m, i64 %most) {
  call void @memory_lock(ptr %m)
  call void @memory_drop(ptr %m, i64 %most)
  call void @memory_unlock(ptr %m)
  ret void
}

; a block of at least so many bytes, from the start of a cache line, or of a page if it is not small; null if there is no memory
define ptr @memory_take(ptr %m, i64 %size) {
entry:
  %absurd = icmp ugt i64 %size, {largest}
  br i1 %absurd, label %none, label %start
start:
  %rounded = call i64 @memory_rounded(i64 %size)
  %class = call i64 @memory_class(i64 %rounded)
  %heads = getelementptr i64, ptr %m, i64 {heads}
  %headp = getelementptr ptr, ptr %heads, i64 %class
  call void @memory_lock(ptr %m)
  %head = load ptr, ptr %headp
  %empty = icmp eq ptr %head, null
  br i1 %empty, label %fresh, label %kept
kept:
  %linkp = getelementptr ptr, ptr %head, i64 2
  %link = load ptr, ptr %linkp
  store ptr %link, ptr %headp
  %keptp = getelementptr i64, ptr %m, i64 {KEPT}
  %bytes = load i64, ptr %keptp
  %fewer = sub i64 %bytes, %rounded
  store i64 %fewer, ptr %keptp
  call void @memory_count(ptr %m, i64 {REUSED}, i64 1)
  br label %good
fresh:
  call void @memory_unlock(ptr %m)
  %first = call ptr @memory_made(i64 %rounded)
  %short = icmp eq ptr %first, null
  br i1 %short, label %scrape, label %counted
scrape:
  call void @memory_trim(ptr %m, i64 0)
  %second = call ptr @memory_made(i64 %rounded)
  %lost = icmp eq ptr %second, null
  br i1 %lost, label %none, label %counted
counted:
  %new = phi ptr [ %first, %fresh ], [ %second, %scrape ]
  call void @memory_lock(ptr %m)
  call void @memory_count(ptr %m, i64 {MADE}, i64 1)
  br label %good
good:
  %block = phi ptr [ %head, %kept ], [ %new, %counted ]
  call void @memory_count(ptr %m, i64 {USED}, i64 %rounded)
  call void @memory_unlock(ptr %m)
  %data = getelementptr i8, ptr %block, i64 64
  ret ptr %data
none:
  ret ptr null
}

define void @memory_give(ptr %m, ptr %data) {
entry:
  %block = getelementptr i8, ptr %data, i64 -64
  %class = load i64, ptr %block
  %sizep = getelementptr i64, ptr %block, i64 1
  %size = load i64, ptr %sizep
  %minus = sub i64 0, %size
  call void @memory_lock(ptr %m)
  call void @memory_count(ptr %m, i64 {USED}, i64 %minus)
  %limitp = getelementptr i64, ptr %m, i64 {LIMIT}
  %limit = load i64, ptr %limitp
  %fits = icmp ule i64 %size, %limit
  br i1 %fits, label %keep, label %away
away:
  call void @memory_unlock(ptr %m)
  call void @memory_returned(ptr %block)
  ret void
keep:
  %keptp = getelementptr i64, ptr %m, i64 {KEPT}
  %kept = load i64, ptr %keptp
  %room = sub i64 %limit, %size
  %over = icmp ugt i64 %kept, %room
  br i1 %over, label %trim, label %push
trim:
  call void @memory_drop(ptr %m, i64 %room)
  br label %push
push:
  %now = load i64, ptr %keptp
  %more = add i64 %now, %size
  store i64 %more, ptr %keptp
  %clockp = getelementptr i64, ptr %m, i64 {STAMP}
  %clock = load i64, ptr %clockp
  %tick = add i64 %clock, 1
  store i64 %tick, ptr %clockp
  %stampp = getelementptr i64, ptr %block, i64 3
  store i64 %tick, ptr %stampp
  %heads = getelementptr i64, ptr %m, i64 {heads}
  %headp = getelementptr ptr, ptr %heads, i64 %class
  %head = load ptr, ptr %headp
  %linkp = getelementptr ptr, ptr %block, i64 2
  store ptr %head, ptr %linkp
  store ptr %block, ptr %headp
  call void @memory_unlock(ptr %m)
  ret void
}

; what NumPy asks of an allocator
define ptr @memory_malloc(ptr %m, i64 %size) {
  %data = call ptr @memory_take(ptr %m, i64 %size)
  ret ptr %data
}

define ptr @memory_calloc(ptr %m, i64 %count, i64 %each) {
entry:
  %pair = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %count, i64 %each)
  %size = extractvalue { i64, i1 } %pair, 0
  %beyond = extractvalue { i64, i1 } %pair, 1
  br i1 %beyond, label %none, label %take
take:
  %data = call ptr @memory_take(ptr %m, i64 %size)
  %short = icmp eq ptr %data, null
  br i1 %short, label %none, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %data, i8 0, i64 %size, i1 false)
  ret ptr %data
none:
  ret ptr null
}
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)

define ptr @memory_realloc(ptr %m, ptr %old, i64 %size) {
entry:
  %new = call ptr @memory_take(ptr %m, i64 %size)
  %short = icmp eq ptr %new, null
  %bare = icmp eq ptr %old, null
  %stop = or i1 %short, %bare
  br i1 %stop, label %done, label %move
move:
  %sizep = getelementptr i64, ptr %old, i64 -7
  %whole = load i64, ptr %sizep
  %paged = icmp ugt i64 %whole, {page_class}
  %head = select i1 %paged, i64 4096, i64 64
  %had = sub i64 %whole, %head
  %count = call i64 @llvm.umin.i64(i64 %had, i64 %size)
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %old, i64 %count, i1 false)
  call void @memory_give(ptr %m, ptr %old)
  br label %done
done:
  ret ptr %new
}

define void @memory_free(ptr %m, ptr %data, i64 %size) {
entry:
  %bare = icmp eq ptr %data, null
  br i1 %bare, label %done, label %give
give:
  call void @memory_give(ptr %m, ptr %data)
  br label %done
done:
  ret void
}

; an array in memory of ours; of NumPy's if it is small, or if there is none (then NumPy says so). Takes a reference of the dtype
define internal ptr @memory_array(ptr %m, ptr %descr, i32 %rank, ptr %shape, i64 %size) {
entry:
  %ndarrayp = getelementptr i64, ptr %m, i64 {NDARRAY}
  %ndarray = load ptr, ptr %ndarrayp
  %newp = getelementptr i64, ptr %m, i64 {NEW}
  %new = load ptr, ptr %newp
  %leastp = getelementptr i64, ptr %m, i64 {LEAST}
  %least = load i64, ptr %leastp
  %ours = icmp uge i64 %size, %least
  br i1 %ours, label %take, label %theirs
take:
  %data = call ptr @memory_take(ptr %m, i64 %size)
  %short = icmp eq ptr %data, null
  br i1 %short, label %theirs, label %wrap
theirs:
  %plain = call ptr %new(ptr %ndarray, ptr %descr, i32 %rank, ptr %shape, ptr null, ptr null, i32 0, ptr null)
  ret ptr %plain
wrap:
  %array = call ptr %new(ptr %ndarray, ptr %descr, i32 %rank, ptr %shape, ptr null, ptr %data, i32 1281, ptr null)
  %none = icmp eq ptr %array, null
  br i1 %none, label %back, label %own
back:
  call void @memory_give(ptr %m, ptr %data)
  ret ptr null
own:
  %handlerp = getelementptr i64, ptr %m, i64 {HANDLER}
  %handler = load ptr, ptr %handlerp
  call void @Py_IncRef(ptr %handler)
  %ownerp = getelementptr i64, ptr %array, i64 {owner}
  store ptr %handler, ptr %ownerp
  %flagsp = getelementptr i64, ptr %array, i64 8
  %flags = load i32, ptr %flagsp
  %owning = or i32 %flags, 4
  store i32 %owning, ptr %flagsp
  ret ptr %array
}

define ptr @memory_bytes(ptr %m, i64 %size) {
  %shape = alloca i64
  store i64 %size, ptr %shape
  %bytep = getelementptr i64, ptr %m, i64 {BYTE}
  %byte = load ptr, ptr %bytep
  call void @Py_IncRef(ptr %byte)
  %array = call ptr @memory_array(ptr %m, ptr %byte, i32 1, ptr %shape, i64 %size)
  ret ptr %array
}
"""  # fmt: skip


def source() -> str:
    """The LLVM IR of the pool; it belongs to a module that declares what it calls in Python and the system's scheduler."""
    words: dict[str, int] = {
        "KEPT": KEPT, "LIMIT": LIMIT, "USED": USED, "STAMP": STAMP, "MADE": MADE, "REUSED": REUSED, "LEAST": LEAST,
        "NDARRAY": NDARRAY, "NEW": NEW, "HANDLER": HANDLER, "BYTE": BYTE, "heads": _HEADS, "classes": _CLASSES,
        "steps": _STEPS, "part": (1 << _STEPS) - 1, "top": 63 - _STEPS, "largest": 1 << 46, "owner": _OWN_HANDLER,
        "page_class": _PAGED, "small": _PAGED - LINE,
    }  # fmt: skip
    text = SOURCE
    for word, value in words.items():
        text = text.replace(f"{{{word}}}", str(value))
    return text


class _Allocator(ctypes.Structure):
    """NumPy's description of an allocator (`PyDataMem_Handler`)."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


class Statistics(NamedTuple):
    """What a pool holds, in bytes, and what it did."""

    used: int
    """Bytes of blocks that arrays and running calls have."""
    kept: int
    """Bytes of blocks that wait for the next array."""
    limit: int
    """The most bytes that are kept."""
    made: int
    """Blocks that were asked of the system."""
    reused: int
    """Blocks that were there."""


class Blocks:
    """The memory of this process that compiled functions take and give back."""

    def __init__(self, functions: Any) -> None:
        """`functions`: the loaded module, asked for the addresses of its functions by name."""
        words = (ctypes.c_int64 * (_HEADS + _CLASSES + LINE // 8))()
        self.address: int = -(-ctypes.addressof(words) // LINE) * LINE
        """Where the state is; generated code passes it on."""
        self._state = (ctypes.c_int64 * _HEADS).from_address(self.address)
        self._trim = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(
            functions.address("memory_trim")
        )
        self._bytes = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int64)(
            functions.address("memory_bytes")
        )
        handler = _Allocator(b"planish", 1, self.address)
        for name in ("malloc", "calloc", "realloc", "free"):
            setattr(handler, name, functions.address(f"memory_{name}"))
        make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
            ("PyCapsule_New", ctypes.pythonapi)
        )
        capsule = make(ctypes.addressof(handler), b"mem_handler", None)
        byte = np.dtype(np.uint8)
        state = self._state
        state[NDARRAY], state[NEW], state[HANDLER], state[BYTE] = (
            id(np.ndarray), new_array_function(), id(capsule), id(byte)
        )  # fmt: skip
        # arrays may outlive the interpreter's modules: what frees them is never unloaded
        for kept in (words, handler, capsule, functions, byte, self._state):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
        self.configure()
        state[LEAST] = _LEAST if self._works() else _NEVER
        os.register_at_fork(after_in_child=self._unlock)

    def _works(self) -> bool:
        """Whether an array can be told who frees it: NumPy keeps that where we think it does."""
        self._state[LEAST] = 0
        array = self._bytes(self.address, 4096)
        return bool(_handler_name(array) == "planish")

    def _unlock(self) -> None:
        self._state[LOCK] = 0

    def configure(self) -> None:
        """Let the settings of this moment say how much is kept."""
        limit = wanted_limit()
        if limit != self._state[LIMIT]:
            self._state[LIMIT] = limit
            self._trim(self.address, limit)

    def empty(self, size: int) -> NDArray[np.uint8]:
        """So many bytes, whatever is in them, from the start of a cache line (if it is not few)."""
        made: NDArray[np.uint8] = self._bytes(self.address, size)
        return made

    def release(self) -> int:
        """Return everything that is kept to the system; how many bytes that was."""
        kept = int(self._state[KEPT])
        self._trim(self.address, 0)
        return kept

    @property
    def statistics(self) -> Statistics:
        """What is in use and what is kept."""
        s = self._state
        return Statistics(s[USED], s[KEPT], s[LIMIT], s[MADE], s[REUSED])


def new_array_function() -> int:
    """The address of NumPy's function that makes an array from a dtype."""
    table = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    functions = ctypes.cast(get(table, None), ctypes.POINTER(ctypes.c_void_p))
    return functions[94] or 0


def _handler_name(array: NDArray[Any]) -> str | None:
    try:
        from numpy._core.multiarray import get_handler_name
    except ImportError:
        return None
    found: str | None = get_handler_name(array)
    return found


def wanted_limit() -> int:
    """The bytes that may be kept: what the settings of this moment say, or an eighth of what this process may have."""
    chosen = current().memory_limit
    return available_memory() // 8 if chosen is None else chosen << 20


def available_memory() -> int:
    """The bytes of memory that this process may have: of the machine, or of its control group."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        if text != "max":
            total = min(total, int(text))
    except (OSError, ValueError):
        pass
    return total

"""How many threads OpenBLAS takes while routines call it: as many as the call may use, and afterwards as many as before.

OpenBLAS has one number for the whole process. Whoever enters first sets it, whoever leaves last sets it back; a spin lock
keeps the two apart. Calls that overlap share the number of the first.
"""

from __future__ import annotations

from typing import Final

from planish.runtime.libraries import PREFIX

ENTER, LEAVE = PREFIX + "enter", PREFIX + "leave"
THREADS: Final = (PREFIX + "get_num_threads", PREFIX + "set_num_threads")

NOTHING: Final = f"""
define void @{ENTER}(i64 %threads) {{
  ret void
}}
define void @{LEAVE}() {{
  ret void
}}
"""
"""For libraries whose threads cannot be told."""

SOURCE: Final = f"""
@busy = internal global i32 0
@inside = internal global i64 0
@before = internal global i32 0
declare i32 @{THREADS[0]}()
declare void @{THREADS[1]}(i32)

define internal void @lock() {{
  br label %try
try:
  %old = atomicrmw xchg ptr @busy, i32 1 seq_cst
  %free = icmp eq i32 %old, 0
  br i1 %free, label %mine, label %try
mine:
  ret void
}}

define void @{ENTER}(i64 %threads) {{
  call void @lock()
  %count = load i64, ptr @inside
  %more = add i64 %count, 1
  store i64 %more, ptr @inside
  %first = icmp eq i64 %count, 0
  br i1 %first, label %ask, label %done
ask:
  %now = call i32 @{THREADS[0]}()
  store i32 %now, ptr @before
  %wanted = trunc i64 %threads to i32
  %same = icmp eq i32 %now, %wanted
  br i1 %same, label %done, label %tell
tell:
  call void @{THREADS[1]}(i32 %wanted)
  br label %done
done:
  store atomic i32 0, ptr @busy seq_cst, align 4
  ret void
}}

define void @{LEAVE}() {{
  call void @lock()
  %count = load i64, ptr @inside
  %fewer = sub i64 %count, 1
  store i64 %fewer, ptr @inside
  %last = icmp eq i64 %fewer, 0
  br i1 %last, label %ask, label %done
ask:
  %now = call i32 @{THREADS[0]}()
  %was = load i32, ptr @before
  %same = icmp eq i32 %now, %was
  br i1 %same, label %done, label %tell
tell:
  call void @{THREADS[1]}(i32 %was)
  br label %done
done:
  store atomic i32 0, ptr @busy seq_cst, align 4
  ret void
}}
"""

"""The way from Python into a compiled function, in LLVM IR: one builtin that checks arrays, makes results and runs the plan.

`fast_call` is the body of a Python builtin whose `self` is the address of a `Description`: what the parameters must be, what the
results are, and a template of the frame that the plan works on. It reads NumPy arrays where they lie, takes memory for the
results and for the call itself from the pool (`planish.runtime.memory`), and runs the plan without the interpreter's lock:
several threads may be in it at once. Its first argument is the number of threads it may use. Whatever is not plain (an argument
that is no array, another dtype or layout, a shape that does not fit, no memory) goes to the Python function in the description,
which sorts it out or says what is wrong.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from planish.runtime import memory
from planish.runtime.entry import THREADS

_SIZE: Final = """\
size:
  %dp = getelementptr i64, ptr %dims, i64 %k
  %dim = load i64, ptr %dp
  %fixed = icmp sge i64 %dim, 0
  br i1 %fixed, label %kept, label %variable
variable:
  %slot = xor i64 %dim, -1
  %vp = getelementptr i64, ptr %frame, i64 %slot
  %value = load i64, ptr %vp
  br label %kept
kept:
  %n = phi i64 [ %dim, %size ], [ %value, %variable ]
"""
"""The size %n of axis %k: one that is known, or what the frame says of it."""
_CALL: Final = """
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; whether the array is what the tensor asks for; sizes that are variables are set, or compared with what they are
define internal i1 @fits(ptr %d, ptr %tensor, ptr %array, ptr %frame) {
entry:
  %ndarrayp = getelementptr i64, ptr %d, i64 9
  %ndarray = load ptr, ptr %ndarrayp
  %typep = getelementptr i64, ptr %array, i64 1
  %type = load ptr, ptr %typep
  %isarray = icmp eq ptr %type, %ndarray
  br i1 %isarray, label %dtype, label %no
dtype:
  %want = load ptr, ptr %tensor
  %havep = getelementptr i64, ptr %array, i64 7
  %have = load ptr, ptr %havep
  %same = icmp eq ptr %want, %have
  br i1 %same, label %layout, label %no
layout:
  %flagsp = getelementptr i64, ptr %array, i64 8
  %flags = load i32, ptr %flagsp
  %argumentp = getelementptr i64, ptr %tensor, i64 4
  %argument = load i64, ptr %argumentp
  %written = icmp sge i64 %argument, 0
  %needed = select i1 %written, i32 1281, i32 257
  %both = and i32 %flags, %needed
  %plain = icmp eq i32 %both, %needed
  %rankp = getelementptr i64, ptr %tensor, i64 1
  %rank = load i64, ptr %rankp
  %ndp = getelementptr i64, ptr %array, i64 3
  %nd = load i32, ptr %ndp
  %nd64 = sext i32 %nd to i64
  %rankfits = icmp eq i64 %nd64, %rank
  %go = and i1 %plain, %rankfits
  br i1 %go, label %sizes, label %no
sizes:
  %dimsp = getelementptr i64, ptr %tensor, i64 3
  %dims = load ptr, ptr %dimsp
  %shapep = getelementptr i64, ptr %array, i64 4
  %shape = load ptr, ptr %shapep
  %boundsp = getelementptr i64, ptr %d, i64 10
  %bounds = load ptr, ptr %boundsp
  br label %axis
axis:
  %k = phi i64 [ 0, %sizes ], [ %k1, %next ]
  %end = icmp eq i64 %k, %rank
  br i1 %end, label %yes, label %size
SIZE
  %sp = getelementptr i64, ptr %shape, i64 %k
  %s = load i64, ptr %sp
  %unset = icmp eq i64 %n, -1
  br i1 %unset, label %set, label %compare
compare:
  %agrees = icmp eq i64 %n, %s
  br i1 %agrees, label %next, label %no
set:
  %free = xor i64 %dim, -1
  %bi = mul i64 %free, 2
  %lop = getelementptr i64, ptr %bounds, i64 %bi
  %lo = load i64, ptr %lop
  %hi1 = add i64 %bi, 1
  %hip = getelementptr i64, ptr %bounds, i64 %hi1
  %hi = load i64, ptr %hip
  %notless = icmp sge i64 %s, %lo
  %notmore = icmp sle i64 %s, %hi
  %within = and i1 %notless, %notmore
  br i1 %within, label %keep, label %no
keep:
  %freep = getelementptr i64, ptr %frame, i64 %free
  store i64 %s, ptr %freep
  br label %next
next:
  %k1 = add i64 %k, 1
  br label %axis
yes:
  %slotp = getelementptr i64, ptr %tensor, i64 2
  %place = load i64, ptr %slotp
  %datap = getelementptr i64, ptr %array, i64 2
  %data = load ptr, ptr %datap
  %fp = getelementptr i64, ptr %frame, i64 %place
  store ptr %data, ptr %fp
  ret i1 true
no:
  ret i1 false
}

; a new array for a result, its address in the frame; null if there is no memory
define internal ptr @fresh(ptr %d, ptr %tensor, ptr %frame) {
entry:
  %descr = load ptr, ptr %tensor
  call void @Py_IncRef(ptr %descr)
  %rankp = getelementptr i64, ptr %tensor, i64 1
  %rank = load i64, ptr %rankp
  %rank32 = trunc i64 %rank to i32
  %dimsp = getelementptr i64, ptr %tensor, i64 3
  %dims = load ptr, ptr %dimsp
  %shape = alloca i64, i64 65
  %itemp = getelementptr i64, ptr %tensor, i64 5
  %item = load i64, ptr %itemp
  br label %axis
axis:
  %k = phi i64 [ 0, %entry ], [ %k1, %kept ]
  %bytes = phi i64 [ %item, %entry ], [ %bytes1, %kept ]
  %end = icmp eq i64 %k, %rank
  br i1 %end, label %make, label %size
SIZE
  %sp = getelementptr i64, ptr %shape, i64 %k
  store i64 %n, ptr %sp
  %bytes1 = mul i64 %bytes, %n
  %k1 = add i64 %k, 1
  br label %axis
make:
  %memoryp = getelementptr i64, ptr %d, i64 11
  %memory = load ptr, ptr %memoryp
  %array = call ptr @memory_array(ptr %memory, ptr %descr, i32 %rank32, ptr %shape, i64 %bytes)
  %none = icmp eq ptr %array, null
  br i1 %none, label %out, label %place
place:
  %slotp = getelementptr i64, ptr %tensor, i64 2
  %at = load i64, ptr %slotp
  %datap = getelementptr i64, ptr %array, i64 2
  %data = load ptr, ptr %datap
  %fp = getelementptr i64, ptr %frame, i64 %at
  store ptr %data, ptr %fp
  br label %out
out:
  ret ptr %array
}

define ptr @fast_call(ptr %self, ptr %all, i64 %nall) {
entry:
  %d = call ptr @PyLong_AsVoidPtr(ptr %self)
  %nparams = load i64, ptr %d
  %first = load ptr, ptr %all
  %limit = call ptr @PyLong_AsVoidPtr(ptr %first)
  %args = getelementptr ptr, ptr %all, i64 1
  %nargs = sub i64 %nall, 1
  %counted = icmp eq i64 %nparams, %nargs
  br i1 %counted, label %open, label %slow
open:
  %nslotsp = getelementptr i64, ptr %d, i64 2
  %nslots = load i64, ptr %nslotsp
  %templatep = getelementptr i64, ptr %d, i64 4
  %template = load ptr, ptr %templatep
  %frame = alloca i64, i64 %nslots
  %nbytes = mul i64 %nslots, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %frame, ptr %template, i64 %nbytes, i1 false)
  %threadsp = getelementptr i64, ptr %frame, i64 THREADS
  store ptr %limit, ptr %threadsp
  %paramsp = getelementptr i64, ptr %d, i64 5
  %params = load ptr, ptr %paramsp
  br label %param
param:
  %i = phi i64 [ 0, %open ], [ %i1, %good ]
  %allparams = icmp eq i64 %i, %nparams
  br i1 %allparams, label %checked, label %check
check:
  %i6 = mul i64 %i, 6
  %tensor = getelementptr i64, ptr %params, i64 %i6
  %argp = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %argp
  %ok = call i1 @fits(ptr %d, ptr %tensor, ptr %arg, ptr %frame)
  br i1 %ok, label %good, label %slow
good:
  %i1 = add i64 %i, 1
  br label %param
slow:
  %fallbackp = getelementptr i64, ptr %d, i64 8
  %fallback = load ptr, ptr %fallbackp
  %answer = call ptr @PyObject_Vectorcall(ptr %fallback, ptr %args, i64 %nargs, ptr null)
  ret ptr %answer
checked:
  %memoryp = getelementptr i64, ptr %d, i64 11
  %memory = load ptr, ptr %memoryp
  %peakp = getelementptr i64, ptr %d, i64 7
  %peak = load i64, ptr %peakp
  %frugal = icmp eq i64 %peak, 0
  br i1 %frugal, label %results, label %arena
arena:
  %taken_arena = call ptr @memory_take(ptr %memory, i64 %peak)
  %noarena = icmp eq ptr %taken_arena, null
  br i1 %noarena, label %slow, label %placing
placing:
  %base = ptrtoint ptr %taken_arena to i64
  %ninsidep = getelementptr i64, ptr %d, i64 12
  %ninside = load i64, ptr %ninsidep
  %insidep = getelementptr i64, ptr %d, i64 13
  %inside = load ptr, ptr %insidep
  br label %place
place:
  %w = phi i64 [ 0, %placing ], [ %w1, %move ]
  %allplaced = icmp eq i64 %w, %ninside
  br i1 %allplaced, label %results, label %move
move:
  %wp = getelementptr i64, ptr %inside, i64 %w
  %word = load i64, ptr %wp
  %fp = getelementptr i64, ptr %frame, i64 %word
  %offset = load i64, ptr %fp
  %absolute = add i64 %offset, %base
  store i64 %absolute, ptr %fp
  %w1 = add i64 %w, 1
  br label %place
results:
  %held = phi ptr [ null, %checked ], [ %taken_arena, %place ]
  %nresultsp = getelementptr i64, ptr %d, i64 1
  %nresults = load i64, ptr %nresultsp
  %list = call ptr @PyTuple_New(i64 %nresults)
  %nolist = icmp eq ptr %list, null
  br i1 %nolist, label %broke, label %listed
listed:
  %resultsp = getelementptr i64, ptr %d, i64 6
  %rtable = load ptr, ptr %resultsp
  br label %result
result:
  %r = phi i64 [ 0, %listed ], [ %r1, %stored ]
  %allresults = icmp eq i64 %r, %nresults
  br i1 %allresults, label %run, label %make
make:
  %r6 = mul i64 %r, 6
  %rtensor = getelementptr i64, ptr %rtable, i64 %r6
  %givenp = getelementptr i64, ptr %rtensor, i64 4
  %given = load i64, ptr %givenp
  %new = icmp slt i64 %given, 0
  br i1 %new, label %create, label %take
take:
  %takenp = getelementptr ptr, ptr %args, i64 %given
  %taken = load ptr, ptr %takenp
  call void @Py_IncRef(ptr %taken)
  br label %stored
create:
  %made = call ptr @fresh(ptr %d, ptr %rtensor, ptr %frame)
  %nomemory = icmp eq ptr %made, null
  br i1 %nomemory, label %failed, label %stored
stored:
  %array = phi ptr [ %taken, %take ], [ %made, %create ]
  call i32 @PyTuple_SetItem(ptr %list, i64 %r, ptr %array)
  %r1 = add i64 %r, 1
  br label %result
run:
  %runp = getelementptr i64, ptr %d, i64 3
  %plan = load ptr, ptr %runp
  %saved = call ptr @PyEval_SaveThread()
  %status = call i64 %plan(ptr %frame)
  call void @PyEval_RestoreThread(ptr %saved)
  %fine = icmp eq i64 %status, 0
  br i1 %fine, label %done, label %failed
failed:
  call void @Py_DecRef(ptr %list)
  br label %broke
broke:
  br label %done
done:
  %outcome = phi ptr [ null, %broke ], [ %list, %run ]
  %borrowed = icmp ne ptr %held, null
  br i1 %borrowed, label %return, label %end
return:
  call void @memory_give(ptr %memory, ptr %held)
  br label %end
end:
  ret ptr %outcome
}

; the plan on a frame that Python made; null, with the exception set, if it was interrupted
define i64 @slow_call(ptr %run, ptr %frame) {
  %saved = call ptr @PyEval_SaveThread()
  %status = call i64 %run(ptr %frame)
  call void @PyEval_RestoreThread(ptr %saved)
  ret i64 %status
}
""".replace("THREADS", str(THREADS)).replace("SIZE\n", _SIZE)  # fmt: skip
SOURCE: Final = _CALL + memory.source()
"""The LLVM IR of it all; it belongs to a module with the pool of threads."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A parameter or result: its dtype, where its address goes in the frame, and its sizes (~slot for a variable)."""

    dtype: np.dtype[Any]
    slot: int
    dims: tuple[int, ...]
    argument: int = -1
    """Of a parameter that is written to: its number. Of a result: the argument whose array it is."""


@dataclass(frozen=True, slots=True)
class Arena:
    """The memory of a call besides its arrays."""

    pool: int
    """Where the pool is that has it, and memory for results."""
    nbytes: int = 0
    words: tuple[int, ...] = ()
    """The words of the frame that are offsets into it."""


class Description:
    """The memory that `fast_call` reads; it keeps alive what it points to."""

    def __init__(
        self,
        params: Sequence[Tensor],
        results: Sequence[Tensor],
        template: Sequence[int],
        bounds: Sequence[tuple[int, int]],
        run: int,
        fallback: Callable[..., object],
        arena: Arena,
    ) -> None:
        self._kept: list[object] = [fallback, params, results]
        self._words = (ctypes.c_int64 * 14)(
            len(params),
            len(results),
            len(template),
            run,
            self._array(template),
            self._tensors(params),
            self._tensors(results),
            arena.nbytes,
            id(fallback),
            id(np.ndarray),
            self._array([n for pair in bounds for n in pair]),
            arena.pool,
            len(arena.words),
            self._array(arena.words),
        )

    def _array(self, numbers: Sequence[int]) -> int:
        made = (ctypes.c_int64 * max(len(numbers), 1))(*numbers)
        self._kept.append(made)
        return ctypes.addressof(made)

    def _tensors(self, tensors: Sequence[Tensor]) -> int:
        words: list[int] = []
        for t in tensors:
            words += (id(t.dtype), len(t.dims), t.slot, self._array(t.dims), t.argument, t.dtype.itemsize)
        return self._array(words)

    @property
    def address(self) -> int:
        """Where it is."""
        return ctypes.addressof(self._words)


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_FASTCALL: Final = 0x80


@dataclass(frozen=True, slots=True)
class Builtin:
    """A Python builtin made of machine code, with what it needs to stay alive."""

    call: Callable[..., tuple[np.ndarray[Any, Any], ...]]
    kept: object


def builtin(name: str, function: int, description: Description, keep: object = None) -> Builtin:
    """A builtin whose body is `fast_call` at the address, for one compiled function."""
    method = _MethodDef(name.encode(), function, _FASTCALL, b"a compiled function")
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
    call = make(ctypes.addressof(method), description.address, name)
    return Builtin(call, (description, method, keep))

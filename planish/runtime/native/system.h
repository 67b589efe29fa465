/* What the native parts ask of the C library and of Python: declared here, because no header of a machine may decide what
   the package contains. All of it is stable binary interface; what is not (the words of an object) is probed at start. */
#pragma once

typedef long word;
typedef unsigned long size;
typedef struct object object;

enum { LINE = 64, PAGE = 4096 };

#define COLD __attribute__((noinline)) /* rare, or slow anyway: small code matters more */
#define LINED __attribute__((aligned(LINE)))
#define LOAD(place) __atomic_load_n(place, __ATOMIC_SEQ_CST)
#define STORE(place, value) __atomic_store_n(place, value, __ATOMIC_SEQ_CST)
#define ADD(place, value) __atomic_fetch_add(place, value, __ATOMIC_SEQ_CST)
#define PEEK(place) __atomic_load_n(place, __ATOMIC_RELAXED)
#define POKE(place, value) __atomic_store_n(place, value, __ATOMIC_RELAXED)
#define EXCHANGE(place, old, new, success, failure) \
    __atomic_compare_exchange_n(place, &(old), new, 0, success, failure)

struct timespec { word seconds, nanoseconds; };

extern word syscall(word number, ...);
extern int sched_yield(void);
extern int clock_gettime(int clock, struct timespec *time);
extern void *mmap(void *at, size bytes, int protection, int flags, int file, word offset);
extern int munmap(void *at, size bytes);
extern int madvise(void *at, size bytes, int advice);
extern void *aligned_alloc(size alignment, size bytes);
extern void free(void *at);

extern int PyGILState_Ensure(void);
extern void PyGILState_Release(int state);
extern int PyErr_CheckSignals(void);
extern void *PyLong_AsVoidPtr(object *number);
extern object *PyLong_FromVoidPtr(void *address);
extern object *PyObject_Vectorcall(object *function, object *const *arguments, size count, object *names);
extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *state);
extern object *PyTuple_New(word count);
extern int PyTuple_SetItem(object *tuple, word index, object *item);
extern void Py_IncRef(object *of);
extern void Py_DecRef(object *of);

COLD __attribute__((unused)) static word nanoseconds(void) {
    struct timespec now;
    clock_gettime(1 /* CLOCK_MONOTONIC */, &now);
    return now.seconds * 1000000000 + now.nanoseconds;
}

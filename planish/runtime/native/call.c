/* The way from Python into a compiled function: one builtin that checks arrays, makes results and runs the plan.

   `fast_call` is the body of a Python builtin whose `self` is the address of a description: what the parameters must be, what the
   results are, and a template of the frame that the plan works on. It reads NumPy arrays where they lie, takes memory for the
   results and for the call itself from the pool of memory, and runs the plan without the interpreter's lock: several threads may
   be in it at once. Its first argument is the number of threads it may use. Whatever is not plain (an argument that is no array,
   another dtype or layout, a shape that does not fit, no memory) goes to the Python function in the description, which sorts it
   out or says what is wrong. */
#include "numpy_array.h"

/* The first words of a frame. */
struct frame { word resume, deadline, threads; };

typedef word (*plan_function)(word *frame);

/* A parameter or result. */
struct tensor {
    object *dtype;
    word rank;
    word place;    /* the word of the frame for its address */
    word *shape;   /* ~word for a size that the frame has */
    word argument; /* of a parameter that is written to: its number; of a result: the argument whose array it is; or -1 */
    word itemsize;
};

struct description {
    word params, results, words;
    plan_function run;
    word *template;
    struct tensor *param, *result;
    word arena;        /* bytes */
    object *fallback;
    word (*bounds)[2]; /* of the sizes in the frame */
    word inside;       /* how many words of the frame are offsets into the arena … */
    word *offsets;     /* … and which */
    void (*sizes)(word *frame); /* computes further sizes of the frame from those of the arguments, or null */
};

/* What a probe compares with what NumPy says of an array. Nothing that a word points to is read here: it may point nowhere. */
void array_words(struct array *array, word *words) {
    words[0] = (word)array->type;
    words[1] = (word)array->data;
    words[2] = array->rank;
    words[3] = (word)array->base;
    words[4] = (word)array->dtype;
    words[5] = array->flags;
    words[6] = (word)array->shape;
    words[7] = (word)array->strides;
}

word array_bytes(void) { return sizeof(struct array); }

/* The size of an axis: one that is known, or what the frame says of it. */
static word size_of(word dim, word *frame) { return dim >= 0 ? dim : frame[~dim]; }

/* Whether the array is what the tensor asks for; sizes that are variables are set, or compared with what they are. */
static int fits(struct description *d, struct tensor *t, struct array *array, word *frame) {
    int needed = t->argument >= 0 ? WRITTEN : READ;
    if (array->type != numpy.type || array->dtype != t->dtype) return 0;
    if ((array->flags & needed) != needed || array->rank != t->rank) return 0;
    for (word k = 0; k < t->rank; k++) {
        word dim = t->shape[k], wanted = size_of(dim, frame), given = array->shape[k];
        if (wanted == -1) {
            if (given < d->bounds[~dim][0] || given > d->bounds[~dim][1]) return 0;
            frame[~dim] = given;
        } else if (wanted != given) return 0;
    }
    frame[t->place] = (word)array->data;
    return 1;
}

/* A new array for a result, its address in the frame; null if there is no memory. */
static object *fresh(struct tensor *t, word *frame) {
    word shape[65];
    size bytes = (size)t->itemsize;
    for (word k = 0; k < t->rank; k++) {
        shape[k] = size_of(t->shape[k], frame);
        bytes *= (size)shape[k];
    }
    Py_IncRef(t->dtype);
    struct array *array = new_array(t->dtype, (int)t->rank, shape, bytes);
    if (array) frame[t->place] = (word)array->data;
    return (object *)array;
}

/* Runs a plan on a frame without the interpreter's lock; what `run` returns (`planish.runtime.entry`). */
word slow_call(plan_function run, word *frame) {
    void *state = PyEval_SaveThread();
    word status = run(frame);
    PyEval_RestoreThread(state);
    return status;
}

/* The results of a call whose arguments fit, as a tuple; null with Python's exception set. */
static object *outcome(struct description *d, object *const *arguments, word *frame) {
    object *results = PyTuple_New(d->results);
    if (!results) return 0;
    for (word r = 0; r < d->results; r++) {
        struct tensor *t = &d->result[r];
        object *array = t->argument >= 0 ? arguments[t->argument] : fresh(t, frame);
        if (!array) {
            Py_DecRef(results);
            return 0;
        }
        if (t->argument >= 0) Py_IncRef(array);
        PyTuple_SetItem(results, r, array);
    }
    if (slow_call(d->run, frame)) {
        Py_DecRef(results);
        return 0;
    }
    return results;
}

object *fast_call(object *self, object *const *all, word count) {
    struct description *d = PyLong_AsVoidPtr(self);
    word threads = (word)PyLong_AsVoidPtr(all[0]);
    object *const *arguments = all + 1;
    void *arena = 0;
    if (--count != d->params) goto slow;
    word *frame = __builtin_alloca((size)d->words * sizeof(word));
    __builtin_memcpy(frame, d->template, (size)d->words * sizeof(word));
    ((struct frame *)frame)->threads = threads;
    for (word p = 0; p < count; p++)
        if (!fits(d, &d->param[p], (struct array *)arguments[p], frame)) goto slow;
    if (d->sizes) d->sizes(frame);
    if (d->arena) {
        arena = memory_take((size)d->arena);
        if (!arena) goto slow;
        for (word n = 0; n < d->inside; n++) frame[d->offsets[n]] += (word)arena;
    }
    object *results = outcome(d, arguments, frame);
    if (arena) memory_give(arena);
    return results;
slow:
    return PyObject_Vectorcall(d->fallback, arguments, (size)count, 0);
}

/* Whether a plan has to stop: looks at the clock, and every 20 milliseconds for signals, with Python's exception set if so. */
int interrupted(struct frame *frame) {
    word now = nanoseconds(), deadline = frame->deadline;
    if (now <= deadline) return 0;
    frame->deadline = now + 20000000;
    if (!deadline) return 0;
    int state = PyGILState_Ensure(), answer = PyErr_CheckSignals();
    PyGILState_Release(state);
    return answer != 0;
}

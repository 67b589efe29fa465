/* The way from Python into a function on a GPU: one builtin that checks arrays, takes memory for results, and launches.

   `gpu_call` is the body of a Python builtin, as `fast_call` is for the CPU: its `self` is the address of a description. It reads the
   slots of arrays on the GPU where they lie in the object (Python tells where, and has compared), fills a frame with an address per
   buffer, and runs a segment: launches whose words are those of the frame, moved by an offset, or numbers. A segment is launched
   kernel by kernel, or as a graph of the driver that was made for such a frame before; the words of a graph made for another frame are
   set anew. The driver is called without the interpreter's lock. Whatever is not plain goes to the Python function in the
   description. */
#include "system.h"

extern int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **words, void **extra);
extern int cuGraphLaunch(void *graph, void *stream);
extern int cuCtxGetCurrent(void **context);
extern int cuCtxSetCurrent(void *context);

/* `CUDA_KERNEL_NODE_PARAMS` */
struct node_params { void *function; unsigned grid[3], block[3], shared; void **words, **extra, *kernel, *context; };
extern int cuGraphExecKernelNodeSetParams_v2(void *graph, void *node, const struct node_params *params);

extern object *PyType_GenericAlloc(object *type, word count);
extern word PyList_Size(object *list);
extern object *PyList_GetItem(object *list, word index);
extern int PyList_SetSlice(object *list, word low, word high, object *items);
extern int PyObject_RichCompareBool(object *x, object *y, int how);

/* A word of a launch: that of the frame, moved by an offset; the offset itself where the root is negative. */
struct term { word root, offset; };

struct launch { void *function; unsigned grid[3], block[3], shared, unused; word count; struct term *terms; };

/* A graph of the driver: the frame it is set for, its nodes and their words one after another. */
struct graph { void *handle; word *frame; void **nodes; word *words; word used; };

struct segment {
    word count, words;
    struct launch *launches;
    word roots, *root;          /* the words of the frame that matter */
    word most, graphs;          /* how many graphs there may be, and are */
    struct graph *graph;
    word settable;              /* whether the words of a graph can be set anew */
    word runs, lock, clock;
};

struct place { void *context, *stream; };

enum { WANTS_GRAPH = -1, TWICE = 2, RECENT = 16 };

/* What was launched last: who looks for a fault asks. */
static struct { word count; struct segment *last[RECENT]; } history;

void gpu_history(word *into) {
    into[0] = history.count;
    for (word n = 0; n < RECENT; n++) into[1 + n] = (word)history.last[n];
}

static void lock(word *place) {
    for (word open = 0; !EXCHANGE(place, open, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED); open = 0) sched_yield();
}

static void unlock(word *place) { __atomic_store_n(place, 0, __ATOMIC_RELEASE); }

static void fill(struct launch *l, const word *frame, word *words) {
    for (word k = 0; k < l->count; k++) {
        struct term t = l->terms[k];
        words[k] = t.offset + (t.root < 0 ? 0 : frame[t.root]);
    }
}

/* Kernel by kernel; a status of the driver in the lower half, which launch it was in the upper. */
static word one_by_one(struct segment *s, const word *frame, void *stream) {
    word words[256];
    void *places[256];
    for (word n = 0; n < s->count; n++) {
        struct launch *l = &s->launches[n];
        fill(l, frame, words);
        for (word k = 0; k < l->count; k++) places[k] = &words[k];
        int status = cuLaunchKernel(l->function, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2],
                                    l->shared, stream, places, 0);
        if (status) return n << 32 | status;
    }
    return 0;
}

static struct graph *made_for(struct segment *s, const word *frame) {
    for (word g = 0; g < s->graphs; g++) {
        struct graph *graph = &s->graph[g];
        word r = 0;
        while (r < s->roots && graph->frame[r] == frame[s->root[r]]) r++;
        if (r == s->roots) return graph;
    }
    return 0;
}

/* The words of the graph that was not used for longest become those of the frame; a status as above. */
COLD static word set_anew(struct segment *s, const word *frame, struct graph **found) {
    struct graph *graph = s->graph;
    for (word g = 1; g < s->graphs; g++)
        if (s->graph[g].used < graph->used) graph = &s->graph[g];
    word words[256], *old = graph->words;
    void *places[256];
    for (word r = 0; r < s->roots; r++) graph->frame[r] = 0; /* of no frame, should the driver refuse */
    for (word n = 0; n < s->count; n++) {
        struct launch *l = &s->launches[n];
        fill(l, frame, words);
        int same = 1;
        for (word k = 0; k < l->count; k++) {
            same &= old[k] == words[k];
            old[k] = words[k];
            places[k] = &words[k];
        }
        old += l->count;
        if (same) continue;
        struct node_params params = {l->function, {l->grid[0], l->grid[1], l->grid[2]},
                                     {l->block[0], l->block[1], l->block[2]}, l->shared, places, 0, 0, 0};
        int status = cuGraphExecKernelNodeSetParams_v2(graph->handle, graph->nodes[n], &params);
        if (status) return n << 32 | status;
    }
    for (word r = 0; r < s->roots; r++) graph->frame[r] = frame[s->root[r]];
    *found = graph;
    return 0;
}

/* Launches a segment on a frame. WANTS_GRAPH: nothing was done, and there should be a graph for it first. */
word gpu_run(struct segment *s, const word *frame, struct place *place) {
    void *now = 0;
    int status = cuCtxGetCurrent(&now);
    if (!status && now != place->context) status = cuCtxSetCurrent(place->context);
    if (status) return status;
    history.last[ADD(&history.count, 1) % RECENT] = s;
    if (!s->most) return one_by_one(s, frame, place->stream);
    lock(&s->lock);
    word answer = WANTS_GRAPH;
    if (s->settable && !s->graphs && ++s->runs < TWICE) answer = one_by_one(s, frame, place->stream);
    else {
        struct graph *graph = made_for(s, frame);
        if (graph || (s->settable && s->graphs == s->most && !(answer = set_anew(s, frame, &graph)))) {
            graph->used = ++s->clock;
            answer = cuGraphLaunch(graph->handle, place->stream);
        }
    }
    unlock(&s->lock);
    return answer;
}

/* One more graph, in the place of the one that was not used for longest if there are enough; what was in that place. */
void gpu_add(struct segment *s, struct graph *new, struct graph *old) {
    lock(&s->lock);
    struct graph *place = &s->graph[s->graphs];
    *old = (struct graph){0};
    if (s->graphs < s->most) s->graphs++;
    else {
        place = s->graph;
        for (word g = 1; g < s->graphs; g++)
            if (s->graph[g].used < place->used) place = &s->graph[g];
        *old = *place;
    }
    new->used = ++s->clock;
    *place = *new;
    unlock(&s->lock);
}

/* A parameter, a result or the arena. `argument`: the number of the argument whose memory a result has, or -1. */
struct gpu_tensor { object *dtype, *shape; word root, argument; object *nbytes, *size, *free; };

/* Where the slots of an array and of a block are in the object. */
struct slots { word address, dtype, gpu, owner, shape, block_address, block_free, block_nbytes, block_size; };

struct gpu_description {
    word params, results, words;
    word *template;
    struct gpu_tensor *param, *result, *arena;
    word inside;
    struct { word number, offset; } *offsets;
    word homes;
    struct { word number, home; } *home;
    struct segment *segment;
    struct place *place;
    object *array, *block, *gpu, *take, *prepare, *refused, *fallback;
    struct slots at;
};

static object **slot(object *of, word offset) { return (object **)((char *)of + offset); }

static void put(object *of, word offset, object *value) {
    Py_IncRef(value);
    *slot(of, offset) = value;
}

/* A block for a tensor: one that is free, or what the pool gives. */
static object *taken(struct gpu_description *d, struct gpu_tensor *t) {
    word last = PyList_Size(t->free) - 1;
    if (last < 0) return PyObject_Vectorcall(d->take, &t->nbytes, 1, 0);
    object *block = PyType_GenericAlloc(d->block, 0);
    if (!block) return 0;
    put(block, d->at.block_address, PyList_GetItem(t->free, last));
    put(block, d->at.block_free, t->free);
    put(block, d->at.block_nbytes, t->nbytes);
    put(block, d->at.block_size, t->size);
    PyList_SetSlice(t->free, last, last + 1, 0);
    return block;
}

static word address_in(object *block, word offset) { return (word)PyLong_AsVoidPtr(*slot(block, offset)); }

/* A new array for a result, its address in the frame; null with Python's exception set. */
static object *fresh(struct gpu_description *d, struct gpu_tensor *t, word *frame) {
    object *block = taken(d, t);
    if (!block) return 0;
    object *array = PyType_GenericAlloc(d->array, 0);
    if (array) {
        put(array, d->at.address, *slot(block, d->at.block_address));
        put(array, d->at.dtype, t->dtype);
        put(array, d->at.gpu, d->gpu);
        put(array, d->at.shape, t->shape);
        put(array, d->at.owner, block);
        frame[t->root] = address_in(block, d->at.block_address);
    }
    Py_DecRef(block);
    return array;
}

struct typed { word references; object *type; };

static int fits(struct gpu_description *d, struct gpu_tensor *t, object *array, word *frame) {
    if (((struct typed *)array)->type != d->array || *slot(array, d->at.gpu) != d->gpu) return 0;
    object *shape = *slot(array, d->at.shape);
    if (*slot(array, d->at.dtype) != t->dtype) return 0;
    if (shape != t->shape && PyObject_RichCompareBool(shape, t->shape, 2 /* == */) != 1) return 0;
    frame[t->root] = address_in(array, d->at.address);
    return 1;
}

static word run(struct gpu_description *d, word *frame) {
    void *state = PyEval_SaveThread();
    word status = gpu_run(d->segment, frame, d->place);
    PyEval_RestoreThread(state);
    return status;
}

/* Calls a Python function with a number; whether it raised nothing. */
static int told(object *function, word number) {
    object *given = PyLong_FromVoidPtr((void *)number);
    object *answer = given ? PyObject_Vectorcall(function, (object *const *)&given, 1, 0) : 0;
    if (given) Py_DecRef(given);
    if (answer) Py_DecRef(answer);
    return answer != 0;
}

object *gpu_call(object *self, object *const *all, word count) {
    struct gpu_description *d = PyLong_AsVoidPtr(self);
    object *const *arguments = all + 1, *results = 0, *arena = 0, *answer = 0;
    if (--count != d->params) goto slow;
    word *frame = __builtin_alloca((size)d->words * sizeof(word));
    __builtin_memcpy(frame, d->template, (size)d->words * sizeof(word));
    for (word p = 0; p < count; p++)
        if (!fits(d, &d->param[p], arguments[p], frame)) goto slow;
    results = PyTuple_New(d->results);
    if (!results) return 0;
    for (word r = 0; r < d->results; r++) {
        struct gpu_tensor *t = &d->result[r];
        object *array = t->argument >= 0 ? arguments[t->argument] : fresh(d, t, frame);
        if (!array) goto done;
        if (t->argument >= 0) Py_IncRef(array);
        PyTuple_SetItem(results, r, array);
    }
    if (d->arena) {
        arena = taken(d, d->arena);
        if (!arena) goto done;
        word start = address_in(arena, d->at.block_address);
        for (word n = 0; n < d->inside; n++) frame[d->offsets[n].number] = start + d->offsets[n].offset;
    }
    for (word n = 0; n < d->homes; n++) frame[d->home[n].number] = frame[d->home[n].home];
    word status;
    while ((status = run(d, frame)) == WANTS_GRAPH)
        if (!told(d->prepare, (word)frame)) goto done;
    if (status) told(d->refused, status); /* it raises */
    else {
        answer = results;
        results = 0;
    }
done:
    if (arena) Py_DecRef(arena);
    if (results) Py_DecRef(results);
    return answer;
slow:
    return PyObject_Vectorcall(d->fallback, arguments, (size)count, 0);
}

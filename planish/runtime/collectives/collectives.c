/* Collectives: what a plan asks of the ranks of its group, called from the plan itself through pointers into MPI.

   MPI's handles are ints in one library and pointers in another. Here they are words: an argument in a register or on the stack has
   room for either, and the callee reads as much of it as it declares. The same holds for counts, which are ints in plain
   functions and 64 bits wide in those that end in `_c`.

   Every collective is started without blocking. One without a ticket is then tested until it is done; of one with a ticket, that is put off
   until the plan waits for the ticket, and what the plan does in between is done meanwhile. A rank that waits still hears Ctrl-C, lets
   others have the core, and gives up after a while with an error that says what it waited for. */
#include "../native/system.h"

typedef word handle;

enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, PERMUTE, BROADCAST, MESH_INDEX };
enum {
    SPINS = 32,           /* tests between two looks at the clock */
    CROWDED = 50000,      /* nanoseconds after which whoever waits lets others have the core */
    SIGNALS = 20000000,   /* nanoseconds between two looks for Ctrl-C */
    TAG = 4711,           /* of messages between two ranks; a communicator of ours has no others */
    LATE = -1,            /* why a collective failed, if not by an error of MPI */
    TICKETS = 64,         /* collectives that may be under way at a time; the first is of those that do not put off */
};

/* One collective of a program: what it is, among whom. `planish.compiler.collectives` writes these. */
struct record {
    word key;             /* what plans call it by; 0: no record */
    word number;          /* what Python calls it by */
    word kind;
    handle communicator, type, op;
    word scale;           /* elements of the type for one element of the tensor */
    word itemsize;        /* bytes of an element of the tensor */
    word members, place;  /* of the group */
    word root;            /* of a broadcast */
    word source, target;  /* of a permutation: places, or -1 */
};

static struct {
    int (*all_reduce)(const void *, void *, word, handle, handle, handle, void *);
    int (*all_gather)(const void *, word, handle, void *, word, handle, handle, void *);
    int (*reduce_scatter)(const void *, void *, word, handle, handle, handle, void *);
    int (*all_to_all)(const void *, word, handle, void *, word, handle, handle, void *);
    int (*broadcast)(void *, word, handle, word, handle, void *);
    int (*send)(const void *, word, handle, word, word, handle, void *);
    int (*receive)(void *, word, handle, word, word, handle, void *);
    int (*test)(void *, int *, void *);
    void (*failed)(word number, word code); /* takes the interpreter's lock and leaves an exception here */
    object *error_type, *error;
    word patience;        /* nanoseconds */
    struct record *records;
    word mask;            /* a power of two, less one */
    word calls;
    word waited, spun;    /* nanoseconds in collectives that were not done at once: in all, and of the processor */
} mpi;

extern void PyErr_SetObject(object *type, object *value);

/* Pointers in the order of the struct: everything up to `patience`. */
void collectives_connect(const word *pointers, word patience) {
    word *to = (word *)&mpi;
    for (int i = 0; i < 9; i++) to[i] = pointers[i];
    mpi.patience = patience;
}

void collectives_patience(word patience) {
    mpi.patience = patience;
}

void collectives_error(object *type, object *error) {
    mpi.error_type = type;
    mpi.error = error;
}

void collectives_table(struct record *records, word mask) {
    mpi.mask = 0; /* in between only the first is looked at */
    mpi.records = records;
    mpi.mask = mask;
}

void collectives_statistics(word *into) {
    into[0] = mpi.calls;
    into[1] = mpi.waited;
    into[2] = mpi.spun;
}

static struct record *find(word key) {
    for (word at = key & mpi.mask;; at = (at + 1) & mpi.mask) {
        if (mpi.records[at].key == key) return &mpi.records[at];
        if (!mpi.records[at].key) __builtin_trap(); /* a plan is loaded after its records are written */
    }
}

COLD static int fail(struct record *r, word code) {
    mpi.failed(r->number, code);
    int state = PyGILState_Ensure();
    PyErr_SetObject(mpi.error_type, mpi.error);
    PyGILState_Release(state);
    return 1;
}

COLD static int signalled(void) {
    int state = PyGILState_Ensure(), answer = PyErr_CheckSignals();
    PyGILState_Release(state);
    return answer != 0;
}

COLD static word processor_nanoseconds(void) {
    struct timespec now;
    clock_gettime(3 /* CLOCK_THREAD_CPUTIME_ID */, &now);
    return now.seconds * 1000000000 + now.nanoseconds;
}

/* Until a request is done; whether that failed, with Python's exception set. */
static int await(struct record *r, void *request) {
    word status[16];      /* larger than any library's */
    word begin = 0, busy = 0, looked = 0;
    for (int spin = 1;; spin++) {
        int done = 0;
        int code = mpi.test(request, &done, status);
        if (code) return fail(r, code);
        if (done) {
            if (begin) {
                mpi.waited += nanoseconds() - begin;
                mpi.spun += processor_nanoseconds() - busy;
            }
            return 0;
        }
        if (spin % SPINS) continue;
        word now = nanoseconds();
        if (!begin) {
            begin = looked = now;
            busy = processor_nanoseconds();
        }
        if (now - begin > CROWDED) sched_yield();
        if (now - looked > SIGNALS) {
            if (signalled()) return 1;
            looked = now;
        }
        if (now - begin > mpi.patience) return fail(r, LATE);
    }
}

/* A collective that was started. */
static struct pending {
    struct record *record;
    word count, requests[2];
} pending[TICKETS];

static unsigned long under_way; /* a bit per ticket */

/* Whether it failed. */
static int finish(struct pending *p) {
    int failed = 0;
    under_way &= ~(1ul << (p - pending));
    for (word n = 0; n < p->count && !failed; n++) failed = await(p->record, &p->requests[n]);
    p->count = 0;
    return failed;
}

/* Starts sending and receiving; a code of MPI. */
static int permute(struct record *r, void *in, void *out, size bytes, struct pending *p) {
    if (r->source < 0) __builtin_memset(out, 0, bytes);
    else if (r->source == r->place) __builtin_memcpy(out, in, bytes);
    else {
        int code = mpi.receive(out, (word)bytes, r->type, r->source, TAG, r->communicator, &p->requests[p->count++]);
        if (code) return code;
    }
    if (r->target < 0 || r->target == r->place) return 0;
    return mpi.send(in, (word)bytes, r->type, r->target, TAG, r->communicator, &p->requests[p->count++]);
}

/* `count` is the elements that a rank gives to each other, or to all. */
static int run(struct record *r, char *in, char *out, word count, word ticket) {
    struct pending *p = &pending[ticket];
    word elements = count * r->scale, code = 0;
    size bytes = (size)(count * r->itemsize);
    mpi.calls++;
    if (p->count && finish(p)) return 1; /* of a call that was broken off */
    if (r->members == 1 && r->kind != PERMUTE) {
        __builtin_memcpy(out, in, bytes);
        return 0;
    }
    p->record = r;
    void *request = &p->requests[0];
    if (r->kind != PERMUTE) p->count = 1;
    switch (r->kind) {
    case ALL_REDUCE:
        code = mpi.all_reduce(in, out, elements, r->type, r->op, r->communicator, request);
        break;
    case ALL_GATHER:
        code = mpi.all_gather(in, elements, r->type, out, elements, r->type, r->communicator, request);
        break;
    case REDUCE_SCATTER:
        code = mpi.reduce_scatter(in, out, elements, r->type, r->op, r->communicator, request);
        break;
    case ALL_TO_ALL:
        code = mpi.all_to_all(in, elements, r->type, out, elements, r->type, r->communicator, request);
        break;
    case BROADCAST:
        if (r->place == r->root) __builtin_memcpy(out, in, bytes);
        code = mpi.broadcast(out, elements, r->type, r->root, r->communicator, request);
        break;
    default:
        code = permute(r, in, out, bytes, p);
    }
    if (code) {
        p->count = 0;
        return fail(r, code);
    }
    if (!ticket) return finish(p);
    under_way |= 1ul << ticket;
    return 0;
}

/* What plans call. After the buffers: the key, the count, the ticket, and where to say that it failed. */
void collective(word *given, word chunk) {
    given[5] = run(find(given[2]), (char *)given[0], (char *)given[1], given[3], given[4]);
}

/* After the buffers of the collective, which are in use until here: the ticket, and where to say that it failed. */
void collective_wait(word *given, word chunk) {
    given[3] = finish(&pending[given[2]]);
}

/* Between kernels: what is under way goes on only while MPI is asked for something. One question is enough for all. */
void collective_poll(word *given, word chunk) {
    if (!under_way) return;
    struct pending *p = &pending[__builtin_ctzl(under_way)];
    word status[16];
    int done;
    for (word n = 0; n < p->count; n++) mpi.test(&p->requests[n], &done, status);
}

void collective_index(word *given, word chunk) {
    *(word *)given[0] = find(given[1])->place;
    given[2] = 0;
}

/* Memory pool: blocks that outlive the arrays made of them, so that a repeated call touches no new page.

   A block has a size class, eight to a power of two, and a cache line of its own in front. Small blocks start at a cache line,
   others at a page: a processor takes a load for one from a store under way if they agree in the place within their pages, and
   waits. Arrays that are walked together from the start of a page never do. From 1 MiB on a block is a mapping of its own, from
   2 MiB on of huge pages where the system has them; smaller ones come from the C library. Pages are touched first by the threads
   that write them, not here: that is parallel, and near the core that needs them. When more is given back than may be kept,
   classes that were not used for longest go first. If the system has no memory, everything kept is returned to it and it is asked
   once more. */
#include "numpy_array.h"

enum {
    STEPS = 3,             /* a class is an eighth of a power of two: at most so much of a block is unused */
    CLASSES = 48 << STEPS,
    LEAST = 1024,          /* NumPy keeps smaller blocks itself */
    PAGED = 16 << 10,      /* blocks up to this size start at a cache line, larger ones at a page */
    MAPPED = 1 << 20,
    HUGE_PAGE = 2 << 20,
};

/* The line in front of a block. */
struct block { size class, bytes; struct block *next; size stamp; word unused[4]; };

static struct {
    LINED word lock;
    size kept, limit, used, clock, made, reused;
    struct block *free[CLASSES];
    int arrays_are_known; /* whether an array can be told who frees it */
} memory;

/* Nobody holds the lock across a fork: whoever holds it holds the interpreter's lock as well. */
static void lock(void) {
    for (word open = 0; !EXCHANGE(&memory.lock, open, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED); open = 0) sched_yield();
}

static void unlock(void) { __atomic_store_n(&memory.lock, 0, __ATOMIC_RELEASE); }

void memory_after_fork(void) { memory.lock = 0; }

/* What lies before the data of a block of so many bytes: its line, at the end of a page if it starts at one. */
static size front(size bytes) { return bytes > PAGED ? PAGE : LINE; }

/* The bytes of the class of a block that holds so many besides what lies before them. */
COLD static size rounded(size bytes) {
    size total = bytes + (bytes > PAGED - LINE ? PAGE : LINE);
    if (total < LEAST) total = LEAST;
    size mask = (1ul << (63 - STEPS - __builtin_clzl(total - 1))) - 1;
    return (total + mask) & ~mask;
}

static size class_of(size bytes) {
    size power = 63 - __builtin_clzl(bytes);
    return power << STEPS | (bytes >> (power - STEPS) & ((1 << STEPS) - 1));
}

static char *mapping(size bytes) {
    size slack = bytes >= HUGE_PAGE ? HUGE_PAGE : 0;
    char *start = mmap(0, bytes + slack, 3 /* READ | WRITE */, 34 /* PRIVATE | ANONYMOUS */, -1, 0);
    if (start == (char *)-1) return 0;
    if (!slack) return start;
    size before = -(size)start & (HUGE_PAGE - 1), after = slack - before;
    if (before) munmap(start, before);
    start += before;
    if (after) munmap(start + bytes, after);
    madvise(start, bytes, 14 /* HUGEPAGE */);
    return start;
}

/* A block of the system; null if there is none. */
COLD static struct block *new_block(size bytes) {
    char *start = bytes >= MAPPED ? mapping(bytes) : aligned_alloc(front(bytes), bytes);
    if (!start) return 0;
    struct block *block = (struct block *)(start + front(bytes) - LINE);
    block->class = class_of(bytes);
    block->bytes = bytes;
    return block;
}

COLD static void delete_block(struct block *block) {
    char *start = (char *)block + LINE - front(block->bytes);
    if (block->bytes >= MAPPED) munmap(start, block->bytes);
    else free(start);
}

static struct block *pop(struct block **list) {
    struct block *block = *list;
    if (block) {
        *list = block->next;
        memory.kept -= block->bytes;
    }
    return block;
}

/* Returns kept blocks to the system until no more than so many bytes are kept; the lock is held. */
COLD static void drop(size most) {
    while (memory.kept > most) {
        struct block **oldest = 0;
        for (int class = 0; class < CLASSES; class++) {
            struct block **list = &memory.free[class];
            if (*list && (!oldest || (*list)->stamp < (*oldest)->stamp)) oldest = list;
        }
        if (!oldest) return;
        delete_block(pop(oldest));
    }
}

COLD void memory_trim(size most) {
    lock();
    drop(most);
    unlock();
}

void memory_limit(size most) {
    if (most == memory.limit) return;
    memory.limit = most;
    memory_trim(most);
}

struct statistics { size used, kept, limit, made, reused; };

void memory_statistics(struct statistics *now) {
    *now = (struct statistics){memory.used, memory.kept, memory.limit, memory.made, memory.reused};
}

/* At least so many bytes, from the start of a cache line, or of a page if they are not few; null if there is no memory. */
COLD static void *memory_take(size bytes) {
    if (bytes > 1ul << 46) return 0;
    size whole = rounded(bytes);
    lock();
    struct block *block = pop(&memory.free[class_of(whole)]);
    if (block) memory.reused++;
    else {
        unlock();
        block = new_block(whole);
        if (!block) {
            memory_trim(0);
            block = new_block(whole);
            if (!block) return 0;
        }
        lock();
        memory.made++;
    }
    memory.used += whole;
    unlock();
    return (char *)block + LINE;
}

COLD static void memory_give(void *data) {
    struct block *block = (struct block *)((char *)data - LINE);
    size bytes = block->bytes;
    lock();
    memory.used -= bytes;
    if (bytes > memory.limit) {
        unlock();
        delete_block(block);
        return;
    }
    if (memory.kept > memory.limit - bytes) drop(memory.limit - bytes);
    memory.kept += bytes;
    block->stamp = ++memory.clock;
    block->next = memory.free[block->class];
    memory.free[block->class] = block;
    unlock();
}

/* What NumPy asks of an allocator. */
static void *numpy_malloc(void *context, size bytes) { return memory_take(bytes); }

static void *numpy_calloc(void *context, size count, size each) {
    size bytes;
    if (__builtin_mul_overflow(count, each, &bytes)) return 0;
    void *data = memory_take(bytes);
    return data ? __builtin_memset(data, 0, bytes) : 0;
}

static void *numpy_realloc(void *context, void *old, size bytes) {
    void *new = memory_take(bytes);
    if (!new || !old) return new;
    size whole = ((struct block *)((char *)old - LINE))->bytes, had = whole - front(whole);
    __builtin_memcpy(new, old, had < bytes ? had : bytes);
    memory_give(old);
    return new;
}

static void numpy_free(void *context, void *data, size bytes) {
    if (data) memory_give(data);
}

struct numpy_allocator memory_allocator = {"planish", 1, 0, numpy_malloc, numpy_calloc, numpy_realloc, numpy_free};

const char memory_capsule_name[] = "mem_handler"; /* as NumPy asks for it, as long as any array lives */

static struct numpy_interface numpy;

/* From now on arrays can be made; whether in memory of ours. */
void memory_arrays(object *type, array_function new_array, object *allocator, object *bytes, int known) {
    numpy = (struct numpy_interface){type, new_array, allocator, bytes};
    memory.arrays_are_known = known;
}

/* An array in memory of ours; of NumPy's if it is small, or if there is none (then NumPy says so). Takes a reference of the
   dtype. */
static struct array *new_array(object *dtype, int rank, word *shape, size bytes) {
    void *data = bytes >= LEAST && memory.arrays_are_known ? memory_take(bytes) : 0;
    if (!data) return numpy.new_array(numpy.type, dtype, rank, shape, 0, 0, 0, 0);
    struct array *array = numpy.new_array(numpy.type, dtype, rank, shape, 0, data, WRITTEN, 0);
    if (!array) {
        memory_give(data);
        return 0;
    }
    Py_IncRef(numpy.allocator);
    array->allocator = numpy.allocator;
    array->flags |= OWNDATA;
    return array;
}

struct array *memory_bytes(word count) {
    Py_IncRef(numpy.bytes);
    return new_array(numpy.bytes, 1, &count, (size)count);
}

/* Worker pool: native threads that take numbered chunks of a job.

   A job is a function, an argument and a count; chunk numbers are taken from a ticket (generation, next chunk) by
   compare-and-exchange. The caller takes chunks too and waits for chunks, not for workers: a late, sleeping or missing worker
   delays nothing. A job says how many threads may work on it: a worker takes one of its seats (generation, how many are free)
   first. Who finds the pool busy (another caller, or a job within a job) runs all its chunks itself. */
#include "system.h"

enum {
    CLOSED = 0xFFFFFFFF,      /* the chunk of a ticket that has none left, whatever the count */
    SPIN = 1000000,           /* nanoseconds a worker looks for the next job before it sleeps */
    CROWDED = 50000,          /* nanoseconds after which whoever waits lets others have the core */
    WORTH_WAKING = 200000,    /* nanoseconds of work below which sleepers are left alone: waking one costs tens of thousands */
    IDLE = 2,                 /* the part of the time, by this number, in which there has to be work for sleepers to be missed */
    WAIT = 128, WAKE = 129,   /* of a futex that is private to the process */
};

typedef void (*chunk_function)(void *argument, word chunk);

/* Fields that different threads write are a cache line apart. */
static struct {
    LINED size ticket;
    LINED size done;
    LINED unsigned epoch;
    LINED struct { chunk_function run; void *argument; size count; } job;
    LINED size busy;
    LINED size sleepers;
    LINED size stop;
    LINED size seats;
    /* work that sleepers were not woken for, less what passed meanwhile, and until when that was counted; its holder's who is busy */
    LINED struct { word work, until; } missed;
} pool;

static void pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

COLD static word futex(int operation, unsigned value) {
    enum {
#if defined(__x86_64__)
        FUTEX = 202
#elif defined(__aarch64__)
        FUTEX = 98
#endif
    };
    return syscall(FUTEX, &pool.epoch, (word)operation, (word)value, (void *)0, (void *)0, (word)0);
}

/* No job, no workers: as it begins, and as a child process finds itself. */
void pool_reset(void) {
    __builtin_memset(&pool, 0, sizeof pool);
    pool.ticket = CLOSED;
}

/* Takes one chunk of the job and runs it; whether there was one. `seat` is the generation in whose job the thread has a seat:
   one without a seat in the job of the moment looks for one. */
COLD static int take(size *seat) {
    for (;;) {
        size ticket = LOAD(&pool.ticket), generation = ticket >> 32, chunk = ticket & CLOSED;
        if (chunk >= PEEK(&pool.job.count)) return 0;
        if (generation != *seat) {
            size seats = LOAD(&pool.seats);
            if (seats >> 32 != generation || !(seats & CLOSED)) return 0;
            if (EXCHANGE(&pool.seats, seats, seats - 1, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) *seat = generation;
            continue;
        }
        chunk_function run = PEEK(&pool.job.run);
        void *argument = PEEK(&pool.job.argument);
        if (!EXCHANGE(&pool.ticket, ticket, ticket + 1, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) continue;
        run(argument, (word)chunk);
        ADD(&pool.done, 1);
        return 1;
    }
}

COLD static void sleep(size *seat) {
    ADD(&pool.sleepers, 1);
    unsigned seen = LOAD(&pool.epoch);
    /* a job that came before this thread counted as a sleeper did not wake it */
    if (!take(seat) && !LOAD(&pool.stop)) futex(WAIT, seen);
    ADD(&pool.sleepers, -1);
}

void pool_worker(void) {
    size seat = -1;
    word idle_since = nanoseconds();
    while (!LOAD(&pool.stop)) {
        if (take(&seat)) {
            idle_since = nanoseconds();
            continue;
        }
        for (int i = 0; i < 32; i++) pause();
        word idle = nanoseconds() - idle_since;
        if (idle > SPIN) {
            sleep(&seat);
            idle_since = nanoseconds();
        } else if (idle > CROWDED) sched_yield();
    }
}

/* Whether sleepers are worth waking: for one job, or for many that follow each other so closely that they add up. */
COLD static int worth_waking(word work) {
    word now = nanoseconds(), left = pool.missed.work - (now - pool.missed.until) / IDLE;
    pool.missed.work = (left > 0 ? left : 0) + work;
    pool.missed.until = now;
    if (pool.missed.work <= WORTH_WAKING) return 0;
    pool.missed.work = 0;
    return 1;
}

/* Runs run(argument, 0 … count-1) on up to `threads` threads; `work` estimates the nanoseconds it takes on one. */
void pool_run(chunk_function run, void *argument, size count, word work, size threads) {
    size idle = 0;
    if (count < 2 || threads < 2 || !EXCHANGE(&pool.busy, idle, 1, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        for (size chunk = 0; chunk < count; chunk++) run(argument, (word)chunk);
        return;
    }
    POKE(&pool.job.run, run);
    POKE(&pool.job.argument, argument);
    POKE(&pool.job.count, count);
    POKE(&pool.done, 0);
    size ticket = ((PEEK(&pool.ticket) >> 32) + 1) << 32, seat = ticket >> 32;
    STORE(&pool.seats, ticket | (threads - 1));
    STORE(&pool.ticket, ticket);
    if (LOAD(&pool.sleepers) && worth_waking(work)) {
        ADD(&pool.epoch, 1);
        futex(WAKE, (unsigned)(count < threads ? count : threads) - 1); /* no more than find something to do */
    }
    while (take(&seat)) {}
    for (word start = nanoseconds(); LOAD(&pool.done) != count;) {
        pause();
        if (nanoseconds() - start > CROWDED) sched_yield();
    }
    /* a ticket beyond every count: a late worker cannot take a chunk of the next job while that is being written */
    STORE(&pool.ticket, ticket | CLOSED);
    STORE(&pool.busy, 0);
}

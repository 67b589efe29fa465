/* How many threads OpenBLAS takes while routines call it: as many as the call may use, and afterwards as many as before.

   OpenBLAS has one number for the whole process. Whoever enters first sets it, whoever leaves last sets it back. Calls that
   overlap share the number of the first. Where the library's threads cannot be told, nothing is done. */
#include "system.h"

static struct { int busy, before; word inside; int (*threads)(void); void (*set_threads)(int count); } library;

void library_threads(int (*threads)(void), void (*set_threads)(int count)) {
    library.threads = threads;
    library.set_threads = set_threads;
}

COLD static void tell(int count) {
    if (library.threads() != count) library.set_threads(count);
}

COLD static void enter(void) {
    while (__atomic_exchange_n(&library.busy, 1, __ATOMIC_SEQ_CST)) pause();
}

void library_enter(word threads) {
    if (!library.threads) return;
    enter();
    if (!library.inside++) {
        library.before = library.threads();
        tell((int)threads);
    }
    STORE(&library.busy, 0);
}

void library_leave(void) {
    if (!library.threads) return;
    enter();
    if (!--library.inside) tell(library.before);
    STORE(&library.busy, 0);
}
